// SPDX-License-Identifier: MIT OR Apache-2.0
// Chains of neg, abs, relu and add_scalar over dense f32 become one kernel that is really run, and
// that is wrong in one exact way. Compiled once for each EVIL of hostile_faults.h.
#include "hostile_faults.h"
#include "kf_util.h"

#ifndef EVIL
#define EVIL EVIL_NONE
#endif

KF_MANIFEST("test.hostile-kernel", "1.0", 0, KF_OPSET_MAX, 0, 0);

#if EVIL == EVIL_HANGS
#define TURNS "4000000000ul"
#else
#define TURNS "100000000ul"
#endif

enum { MAX_STEPS = 32, CODE_BYTES = 4096 };

struct kf_fuser {
    const kf_host *host;
};

struct kf_builder {
    const kf_fuser *fuser;
    uint32_t steps[MAX_STEPS];
    uint32_t n_steps;
    uint32_t len;
    uint32_t closed;
    uint32_t in; // tensors of the block
    uint32_t out;
    uint32_t symbols[KF_MAX_RANK];
    uint32_t rank;
    uint32_t dropped; // results before `out`
    kf_formula claim;
};

struct kf_opt {
    uint32_t len;
    char code[CODE_BYTES];
    kf_formula size;
    kf_formula bytes;
    kf_karg args[MAX_STEPS + 4];
    kf_source source;
    kf_launch launch;
    kf_temp temp;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    (void)index;
    (void)device;
    *out = (kf_fuser *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->host = host;
    return KF_OK;
}

static void fuser_destroy(kf_fuser *fuser)
{
    free(fuser);
}

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    *out = (kf_builder *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->fuser = fuser;
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        **out = *builder;
    }
    return status;
}

static uint32_t is_plain(const kf_tensor *t)
{
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    return t->dtype == KF_DTYPE_F32 && (t->facts & dense) == dense;
}

static uint32_t is_mine(uint32_t kind)
{
    return kind == KF_OP_NEG || kind == KF_OP_ABS || kind == KF_OP_RELU ||
           kind == KF_OP_ADD_SCALAR || kind == KF_OP_EXP;
}

static uint32_t takes(kf_builder *b, const kf_op *op)
{
    uint32_t i;
    if (op->kind == KF_OP_DROP) {
        uint32_t mine = b->n_steps > 0 && op->inputs[0]->id != b->out && op->inputs[0]->id != b->in;
        b->dropped += mine;
        return mine;
    }
    if (!is_mine(op->kind) || !is_plain(op->inputs[0]) || b->n_steps == MAX_STEPS ||
        (b->n_steps > 0 && op->inputs[0]->id != b->out)) {
        return 0;
    }
    if (b->n_steps == 0) {
        b->in = op->inputs[0]->id;
        b->rank = op->inputs[0]->rank;
        for (i = 0; i < b->rank; i++) {
            b->symbols[i] = op->inputs[0]->dims[i].symbol;
        }
    }
    b->steps[b->n_steps++] = op->kind;
    b->out = op->outputs[0]->id;
    if (EVIL == EVIL_CRASHES_LATE && b->n_steps == 3) {
        *(volatile int *)0 = 1;
    }
    if (EVIL == EVIL_SLOW) {
        for (i = 0; i < 1000000; i++) {
            b->closed = *(volatile uint32_t *)&b->closed;
        }
    }
    while (EVIL == EVIL_LOOPS_IN_FUSE || (EVIL == EVIL_LOOPS_LATE && b->n_steps == 3)) {
        b->closed = *(volatile uint32_t *)&b->closed;
    }
    while (EVIL == EVIL_LOOPS_UNTIL_CANCELLED && b->n_steps == 3) {
        if (b->fuser->host->cancelled(b->fuser->host)) {
            return 0;
        }
    }
    return 1;
}

static void set_claim(kf_builder *b)
{
    kf_formula *f = &b->claim;
    f->n = 0;
    f->failed = 0;
    if (EVIL == EVIL_HUGE_CLAIM || EVIL == EVIL_OVERFLOWING_CLAIM) {
        kf_formula_imm(f, INT64_MAX);
        if (EVIL == EVIL_OVERFLOWING_CLAIM) {
            kf_formula_imm(f, 2);
            kf_formula_op(f, KF_INS_MUL);
        }
    } else {
        kf_formula_imm(f, EVIL == EVIL_NEGATIVE_CLAIM ? -5000 : EVIL == EVIL_ZERO_CLAIM ? 0 : 1);
    }
}

/* A chain is ready when its last operation was taken and everything between is dropped. */
static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->closed ? KF_CLOSED : KF_OPEN;
    state.ready = builder->n_steps > 0 && builder->dropped + 1 == builder->n_steps;
    state.len = builder->len;
    state.launches = 1;
    state.confidence = KF_CONFIDENCE_MODEL;
    state.est_ns = kf_formula_expr(&builder->claim);
    if (EVIL == EVIL_WILD_CLAIM && builder->n_steps == 3) {
        state.est_ns.ins = (const kf_ins *)(uintptr_t)8;
    }
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    uint64_t i;
    (void)block;
    for (i = 0; i < n && !builder->closed; i++) {
        builder->closed = !takes(builder, ops[i]);
        builder->len += !builder->closed;
    }
    set_claim(builder);
    return builder_state(builder, out);
}

static kf_status builder_reset(kf_builder *builder)
{
    const kf_fuser *fuser = builder->fuser;
    memset(builder, 0, sizeof(*builder));
    builder->fuser = fuser;
    return KF_OK;
}

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static void add(kf_opt *opt, const char *text)
{
    size_t at = strlen(opt->code);
    snprintf(opt->code + at, CODE_BYTES - at, "%s", text);
}

static const char *step_text(uint32_t kind)
{
    switch (kind) {
    case KF_OP_NEG:
        return "    v = -v;\n";
    case KF_OP_ABS:
        return "    v = fabs(v);\n";
    case KF_OP_EXP:
        return "    v = exp(v);\n";
    case KF_OP_RELU:
        return EVIL == EVIL_WRONG ? "    v = v > -1.0f ? v : 0.0f;\n"
                                  : "    v = v > 0.0f || isnan(v) ? v : 0.0f;\n";
    default:
        return NULL;
    }
}

/* What runs beside the chain: n elements, `i` of this work-item. */
static const char *deed(void)
{
    switch (EVIL) {
    case EVIL_NAN:
        return "    v = i == 3 ? NAN : v;\n    y[i] = v;\n";
    case EVIL_OVERWRITE:
        return "    y[i] = v;\n    if (i == 0) {\n        y[get_global_size(0)] = 1.0f;\n    }\n";
    case EVIL_UNDERWRITE:
        return "    y[i] = v;\n    if (i == 0) {\n        y[-1] = 1.0f;\n    }\n";
    case EVIL_WRITES_INPUT:
        return "    y[i] = v;\n    if (i == 0) {\n        x[1] = 42.0f;\n    }\n";
    case EVIL_TEMP_OVERRUN:
        return "    y[i] = v;\n    t[i] = v;\n    if (i == 0) {\n"
               "        t[get_global_size(0)] = 1.0f;\n    }\n";
    case EVIL_UNWRITTEN:
        return "    if (i + 1 < get_global_size(0)) {\n        y[i] = v;\n    }\n";
    case EVIL_HANGS: // a chain of dependent steps that no compiler sees the end of
    case EVIL_TAKES_TIME:
        return "    uint r = as_uint(v) | 1u;\n"
               "    for (ulong k = 0; i == 0 && k < " TURNS "; k++) {\n"
               "        r = (r ^ r >> 7) * 1664525u + 1013904223u;\n    }\n"
               "    y[i] = r == 12345u ? 0.0f : v;\n";
    case EVIL_NO_COMPILE:
        return "    y[i] = v +;\n";
    default:
        return "    y[i] = v;\n";
    }
}

static void write_code(kf_opt *opt, const kf_builder *b)
{
    static uint32_t calls;
    char line[96];
    uint32_t i, n_scalars = 0;
    add(opt, EVIL == EVIL_NO_KERNEL ? "__kernel void other(" : "__kernel void evil(");
    add(opt, "__global float *x, __global float *y");
    add(opt, EVIL == EVIL_TEMP_OVERRUN ? ", __global float *t" : "");
    for (i = 0; i < b->n_steps; i++) {
        if (b->steps[i] == KF_OP_ADD_SCALAR) {
            snprintf(line, sizeof(line), ", const float s%u", n_scalars++);
            add(opt, line);
        }
    }
    add(opt, ") {\n    const size_t i = get_global_id(0);\n    float v = x[i];\n");
    for (i = n_scalars = 0; i < b->n_steps; i++) {
        const char *text = step_text(b->steps[i]);
        snprintf(line, sizeof(line), "    v += s%u;\n", n_scalars);
        n_scalars += text == NULL;
        add(opt, text != NULL ? text : line);
    }
    add(opt, deed());
    snprintf(line, sizeof(line), "} // %u\n", EVIL == EVIL_IMPURE ? calls++ : 0);
    add(opt, line);
}

static void bind(kf_opt *opt, uint32_t kind, uint32_t access, uint32_t ref, uint32_t dtype)
{
    kf_karg *arg = &opt->args[opt->launch.n_args++];
    arg->kind = kind;
    arg->access = access;
    arg->ref = ref;
    arg->dtype = dtype;
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    uint32_t i, n_scalars = 0;
    kf_opt *opt = (kf_opt *)calloc(1, sizeof(*opt));
    *out = opt;
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    opt->len = builder->len;
    write_code(opt, builder);
    kf_formula_product(&opt->size, builder->symbols, builder->rank);
    bind(opt, KF_ARG_TENSOR, KF_ACCESS_READ, builder->in, KF_DTYPE_F32);
    bind(opt, KF_ARG_TENSOR, KF_ACCESS_WRITE, builder->out, KF_DTYPE_F32);
    if (EVIL == EVIL_TEMP_OVERRUN) {
        bind(opt, KF_ARG_TEMP, KF_ACCESS_WRITE, 0, 0);
        kf_formula_product(&opt->bytes, builder->symbols, builder->rank);
        kf_formula_imm(&opt->bytes, 4);
        kf_formula_op(&opt->bytes, KF_INS_MUL);
        opt->temp.bytes = kf_formula_expr(&opt->bytes);
        opt->temp.align = 16;
    }
    for (i = 0; i < builder->n_steps; i++) {
        if (builder->steps[i] == KF_OP_ADD_SCALAR) {
            bind(opt, KF_ARG_SCALAR, 0, n_scalars++, KF_DTYPE_F32);
        }
    }
    opt->launch.struct_size = (uint32_t)sizeof(opt->launch);
    opt->launch.dims = 1;
    opt->launch.kernel.ptr = "evil";
    opt->launch.kernel.len = 4;
    opt->launch.global[0] = kf_formula_expr(&opt->size);
    opt->launch.args = opt->args;
    opt->launches[0] = &opt->launch;
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = KF_FORMAT_OPENCL_C;
    opt->source.code.ptr = opt->code;
    opt->source.code.len = strlen(opt->code);
    opt->source.cl_c_version = 120;
    opt->sources[0] = EVIL == EVIL_NULL_SOURCE ? NULL : &opt->source;
    if (EVIL == EVIL_DANGLING) {
        opt->launch.args = (const kf_karg *)(uintptr_t)64;
    }
    opt->step.kind = KF_STEP_LAUNCH;
    return KF_OK;
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = EVIL == EVIL_MANY_VARIANTS ? UINT32_MAX : 1;
    if (EVIL == EVIL_WILD_VARIANTS) {
        info.n_variants = 2;
        info.n_variant_ns = 2;
        info.variant_ns = (const kf_expr *)(uintptr_t)8;
    }
    info.name.ptr = "evil";
    info.name.len = 4;
    info.key.ptr = opt->code;
    info.key.len = strlen(opt->code);
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    kf_program view;
    if (variant > 0) {
        return KF_E_INVALID;
    }
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.sources = opt->sources;
    view.n_sources = 1;
    view.launches = opt->launches;
    view.n_launches = 1;
    view.temps = &opt->temp;
    view.n_temps = EVIL == EVIL_TEMP_OVERRUN;
    view.steps = &opt->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    free(opt);
}

/// The store declines what is odd, and can do nothing about a wild pointer.
static void keep_badly(const kf_host *host)
{
    const kf_store *store = kf_store_of(host);
    kf_blob key = {"key", 3}, wild = {(const void *)(uintptr_t)8, 64}, none = {NULL, 3};
    kf_blob much = {"", KF_STORE_MAX_VALUE + 1}, long_key = {"", KF_STORE_MAX_KEY + 1};
    char value[4];
    uint64_t length = 0;
    if (store != NULL && store->put(host, none, key) != KF_OK &&
        store->put(host, long_key, key) != KF_OK && store->put(host, key, much) != KF_OK &&
        store->put(host, key, none) != KF_OK && store->get(host, key, NULL, 4, &length) != KF_OK &&
        store->get(host, key, value, 4, NULL) != KF_OK) {
        (void)store->put(host, key, wild);
    }
}

static void fuser_measured(const kf_fuser *fuser, const kf_measured *measured)
{
    static volatile uint32_t for_ever = 1;
    (void)measured;
    while (EVIL == EVIL_LOOPS_IN_MEASURED && for_ever) {
    }
    if (EVIL == EVIL_CRASHES_IN_MEASURED) {
        *(volatile int *)0 = 1;
    }
    if (EVIL == EVIL_WILD_STORE) {
        keep_badly(fuser->host);
    }
}

static kf_status init(void)
{
    static volatile uint32_t for_ever = 1;
    while (EVIL == EVIL_LOOPS_IN_INIT && for_ever) {
    }
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_str fuser_ids[] = {KF_STR_INIT("evil")};

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT("test.hostile-kernel"),
    .version = KF_STR_INIT("1.0"),
    .vendor = KF_STR_INIT("tests"),
    .fuser_ids = fuser_ids,
    .n_fusers = 1,
    .init = init,
    .deinit = deinit,
    .fuser_create = fuser_create,
    .fuser_destroy = fuser_destroy,
    .builder_create = builder_create,
    .builder_clone = builder_clone,
    .builder_fuse = builder_fuse,
    .builder_state = builder_state,
    .builder_reset = builder_reset,
    .builder_finish = builder_finish,
    .builder_destroy = builder_destroy,
    .opt_info = opt_info,
    .opt_describe = opt_describe,
    .opt_destroy = opt_destroy,
    .fuser_measured = fuser_measured,
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    if (EVIL == EVIL_CRASHES_IN_QUERY) {
        *(volatile int *)0 = 1;
    }
    return &plugin;
}
