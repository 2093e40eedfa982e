// SPDX-License-Identifier: MIT OR Apache-2.0
// A small fuser for the tests of the host: chains of f32 operations of one shape become one kernel
// whose text nobody compiles. Compiled many times: CHAIN_ID sets its name, CHAIN_NS_PER_1K and
// CHAIN_NS its claim, and FAULT makes it hostile in one exact way.
#include "chain_faults.h"
#include "kf_util.h"

#include <signal.h>

#ifndef CHAIN_ID
#define CHAIN_ID "test.chain"
#endif
#ifndef CHAIN_NS_PER_1K // nanoseconds claimed for 1024 elements
#define CHAIN_NS_PER_1K 0
#endif
#ifndef CHAIN_NS // and for none
#define CHAIN_NS 5000
#endif
#ifndef CHAIN_MIN_OPS
#define CHAIN_MIN_OPS 2
#endif
#ifndef CHAIN_MAX_OPS // operations, drops not counted, before it closes
#define CHAIN_MAX_OPS 40
#endif
#ifndef CHAIN_VARIANTS // the second may not be run in place
#define CHAIN_VARIANTS 1
#endif
#ifndef CHAIN_CONFIDENCE
#define CHAIN_CONFIDENCE KF_CONFIDENCE_MODEL
#endif
// CHAIN_VARIANT_NS: what the second variant takes for 1024 elements; without it, it has no claim.
// CHAIN_OPTIONS: its source has options where the host knows them, and it reads the newest fact.
// CHAIN_LEARNS: it claims what was measured last, and keeps that for the next process.
#ifndef FAULT
#define FAULT FAULT_NONE
#endif

#if FAULT != FAULT_NO_NOTE && FAULT != FAULT_WRONG_MAJOR && FAULT != FAULT_WRONG_SANITIZER
KF_MANIFEST(CHAIN_ID, "1.0", FAULT == FAULT_NEWER_HOST ? 99 : 0,
            FAULT == FAULT_NO_OPSET ? 0 : KF_OPSET_MAX, FAULT == FAULT_CPU ? 1ull << 63 : 0, 0);
#elif FAULT != FAULT_NO_NOTE
__attribute__((section(KF_NOTE_SECTION), used, aligned(8))) static const kf_note note = {
    4,
    (uint32_t)sizeof(kf_manifest),
    KF_NOTE_TYPE,
    {'K', 'F', 'U', 0},
    {(uint32_t)sizeof(kf_manifest), FAULT == FAULT_WRONG_MAJOR ? 2 : 1, 0, 0, KF_OPSET_MAX,
     FAULT == FAULT_WRONG_SANITIZER ? KF_SANITIZER_HERE + 2 : KF_SANITIZER_HERE, 0, 0, CHAIN_ID,
     "1.0", "hand made"}};
#endif

enum { MAX_TENSORS = 256, MAX_SCALARS = 64 };

typedef struct seen {
    uint32_t defined;
    uint32_t dropped;
    uint32_t used; // by an operation, not only dropped
} seen;

struct kf_fuser {
    const kf_host *host;
    uint64_t learned_ns; // 0: nothing yet
    uint32_t subgroup_sizes;
};

typedef struct block {
    seen tensors[MAX_TENSORS];
    uint32_t n_tensors;
    uint32_t n_scalars;
    uint32_t symbols[KF_MAX_RANK];
    uint32_t rank;
    uint32_t n_ops; // drops not counted
    uint32_t len;
    uint32_t fed;
    uint32_t closed;
    int64_t asked; // value of an extent that was asked for, 0 when none was
} block;

struct kf_builder {
    const kf_fuser *fuser;
    block block;
    kf_formula claim;
};

struct kf_opt {
    block block;
    kf_formula second_claim;
    kf_expr claims[2];
    kf_formula global;
    kf_formula guard;
    kf_formula bytes;
    kf_ins bad_ins[2];
    char code[512];
    char name[64];
    kf_karg args[MAX_TENSORS + MAX_SCALARS];
    kf_source source;
    kf_launch launch;
    kf_temp temp;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
    struct {
        kf_source known;
        uint64_t newer;
    } grown;
};

#ifdef CHAIN_LEARNS
static const kf_blob learned_key = {"learned", 7};
#endif

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    (void)index;
    if (device->device_type == KF_DEVICE_GPU) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "a processor's fuser");
        return KF_DECLINED;
    }
    kf_fuser *fuser = host->alloc(host, sizeof(*fuser), 8);
    if (fuser == NULL) {
        return KF_E_NOMEM;
    }
    fuser->host = host;
    fuser->learned_ns = 0;
    fuser->subgroup_sizes = kf_device_whole(device).subgroup_sizes;
#ifdef CHAIN_LEARNS
    const kf_store *store = kf_store_of(host);
    uint64_t bytes = 0;
    if (store != NULL &&
        store->get(host, learned_key, &fuser->learned_ns, sizeof(uint64_t), &bytes) != KF_OK) {
        fuser->learned_ns = 0;
    }
#endif
    *out = fuser;
    return KF_OK;
}

#ifdef CHAIN_LEARNS
static void fuser_measured(const kf_fuser *self, const kf_measured *measured)
{
    kf_fuser *fuser = (kf_fuser *)(uintptr_t)self; // the tests' host has one thread
    const kf_store *store = kf_store_of(fuser->host);
    if (measured->variant == 0 && measured->key.len == sizeof(block) && measured->n_extents > 1) {
        fuser->learned_ns = measured->ns;
    }
    if (store != NULL) {
        (void)store->put(fuser->host, learned_key,
                         (kf_blob){&fuser->learned_ns, sizeof(fuser->learned_ns)});
    }
}
#endif

static void fuser_destroy(kf_fuser *fuser)
{
    if (fuser != NULL) {
        fuser->host->free(fuser->host, fuser);
    }
}

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    kf_builder *builder = calloc(1, sizeof(*builder));
    if (builder == NULL) {
        return KF_E_NOMEM;
    }
    builder->fuser = fuser;
    *out = builder;
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

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static kf_status builder_reset(kf_builder *builder)
{
    memset(&builder->block, 0, sizeof(builder->block));
    return KF_OK;
}

static seen *see(block *b, const kf_tensor *tensor)
{
    while (b->n_tensors <= tensor->id && b->n_tensors < MAX_TENSORS) {
        b->tensors[b->n_tensors].defined = 0;
        b->tensors[b->n_tensors].dropped = 0;
        b->tensors[b->n_tensors].used = 0;
        b->n_tensors++;
    }
    return tensor->id < MAX_TENSORS ? &b->tensors[tensor->id] : NULL;
}

static uint32_t same_shape(block *b, const kf_tensor *tensor)
{
    uint32_t i;
    if (b->n_ops == 0 && b->rank == 0) {
        b->rank = tensor->rank;
        for (i = 0; i < tensor->rank; i++) {
            b->symbols[i] = tensor->dims[i].symbol;
        }
    }
    if (b->rank != tensor->rank || tensor->dtype != KF_DTYPE_F32) {
        return 0;
    }
    for (i = 0; i < tensor->rank; i++) {
        if (b->symbols[i] != tensor->dims[i].symbol) {
            return 0;
        }
    }
    return 1;
}

static uint32_t is_known(uint32_t kind)
{
    return (kind >= KF_OP_ABS && kind <= KF_OP_SIGMOID) ||
           (kind >= KF_OP_ADD && kind <= KF_OP_MAXIMUM) ||
           (kind >= KF_OP_ADD_SCALAR && kind <= KF_OP_CLAMP_MAX);
}

/* 1 when the operation joined the chain. */
static uint32_t take(kf_builder *builder, const kf_block *context, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE};
    const kf_host *host = builder->fuser->host;
    block *b = &builder->block;
    uint32_t i;
    if (op->kind == KF_OP_DROP) {
        if (op->inputs[0]->id < b->n_tensors) {
            b->tensors[op->inputs[0]->id].dropped = 1;
        } else {
            (void)see(b, op->inputs[0]);
        }
        return 1;
    }
    if (FAULT == FAULT_PRIES && op->kind == KF_OP_ALL_REDUCE) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "was shown a collective");
    }
    if (FAULT == FAULT_PRIES && op->kind == KF_OP_RANDOM_UNIFORM) {
        kf_scalar seed; // behind min and max
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "was%s told the seed",
                          context->scalar_value(context, 2, &seed) == KF_OK ? "" : " not");
    }
    if (!is_known(op->kind) || !kf_op_understood(op, 1, keys, 1)) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "operator %u is not one of mine",
                          op->kind);
    }
    if (b->n_ops == CHAIN_MAX_OPS) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "the chain is long enough");
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!same_shape(b, op->inputs[i]) || see(b, op->inputs[i]) == NULL) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "another shape or dtype");
        }
    }
    seen *result = see(b, op->outputs[0]);
    if (result == NULL) {
        return 0;
    }
    for (i = 0; i < op->n_inputs; i++) {
        b->tensors[op->inputs[i]->id].used = 1;
    }
    result->defined = 1;
    b->n_scalars += op->n_attrs;
    b->n_ops++;
    if (FAULT == FAULT_ASKS && context->dim_value(context, 1, &b->asked) != KF_OK) {
        return 0;
    }
    if (FAULT == FAULT_ASKS_SCALAR && op->n_attrs > 0) {
        kf_scalar scalar;
        if (context->scalar_value(context, b->n_scalars - 1, &scalar) != KF_OK) {
            return 0;
        }
        b->asked = (int64_t)scalar.v.f;
    }
    return 1;
}

static void set_claim(kf_builder *builder)
{
    kf_formula *f = &builder->claim;
    f->n = 0;
    f->failed = 0;
    if (builder->fuser->learned_ns != 0) {
        kf_formula_imm(f, (int64_t)builder->fuser->learned_ns);
        return;
    }
    kf_formula_product(f, builder->block.symbols, builder->block.rank);
    kf_formula_imm(f, CHAIN_NS_PER_1K);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm(f, 1024);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_imm(f, CHAIN_NS);
    kf_formula_op(f, KF_INS_ADD);
    if (FAULT == FAULT_CLAIM_DIVIDES || FAULT == FAULT_CLAIM_NEGATIVE) {
        kf_formula_imm(f, FAULT == FAULT_CLAIM_DIVIDES ? 0 : -1);
        kf_formula_op(f, FAULT == FAULT_CLAIM_DIVIDES ? KF_INS_FLOOR_DIV : KF_INS_MUL);
    }
}

static uint32_t misbehaves(const block *b)
{
    return FAULT == FAULT_LATE_LEN ? b->n_ops > 3 : 1;
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    const block *b = &builder->block;
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = b->closed ? KF_CLOSED : KF_OPEN;
    state.ready = b->n_ops >= CHAIN_MIN_OPS;
    state.len = state.ready ? b->len : 0;
    state.confidence = CHAIN_CONFIDENCE;
    state.launches = 1;
    state.est_ns = kf_formula_expr(&builder->claim);
    if (FAULT == FAULT_NO_CLAIM) {
        state.est_ns.n = 0;
    }
    if ((FAULT == FAULT_LONG_LEN || FAULT == FAULT_LATE_LEN) && misbehaves(b)) {
        state.len = b->fed + 5;
    }
    if (FAULT == FAULT_READY_EMPTY) {
        state.ready = 1;
        state.len = 0;
    }
    if (FAULT == FAULT_STATE_VALUE) {
        state.status = 77;
    }
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *context, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    block *b = &builder->block;
    uint64_t i;
    if (FAULT == FAULT_FUSE_FAILS) {
        return KF_E_INTERNAL;
    }
    for (i = 0; i < n; i++) {
        b->fed++;
        if (!b->closed && take(builder, context, ops[i])) {
            b->len++;
        } else {
            b->closed = 1;
        }
    }
    set_claim(builder);
    return builder_state(builder, out);
}

static void set_args(kf_opt *opt)
{
    const block *b = &opt->block;
    uint32_t n = 0, i;
    for (i = 0; i < b->n_tensors; i++) {
        const seen *tensor = &b->tensors[i];
        if (tensor->defined ? tensor->dropped : !tensor->used) {
            continue;
        }
        if (FAULT == FAULT_NO_RESULT && tensor->defined) {
            continue;
        }
        opt->args[n].kind = KF_ARG_TENSOR;
        opt->args[n].access = tensor->defined ? KF_ACCESS_WRITE : KF_ACCESS_READ;
        if (FAULT == FAULT_WRITES_INPUT) {
            opt->args[n].access = KF_ACCESS_WRITE;
        }
        opt->args[n].ref = FAULT == FAULT_BAD_REF ? i + 1000 : i;
        n++;
    }
    for (i = 0; i < b->n_scalars && n < MAX_TENSORS + MAX_SCALARS; i++) {
        opt->args[n].kind = KF_ARG_SCALAR;
        opt->args[n].ref = i;
        opt->args[n].dtype = KF_DTYPE_F32;
        n++;
    }
    if (FAULT == FAULT_READS_TEMP || FAULT == FAULT_HUGE_TEMP) {
        opt->args[n].kind = KF_ARG_TEMP;
        opt->args[n].access = FAULT == FAULT_READS_TEMP ? KF_ACCESS_READ : KF_ACCESS_WRITE;
        n++;
    }
    if (FAULT == FAULT_NARROW) { // 2^21 elements, and the number no longer fits
        kf_formula_product(&opt->bytes, b->symbols, b->rank);
        kf_formula_imm(&opt->bytes, 1024);
        kf_formula_op(&opt->bytes, KF_INS_MUL);
        opt->args[n].kind = KF_ARG_VALUE;
        opt->args[n].dtype = KF_DTYPE_I32;
        opt->args[n++].value = kf_formula_expr(&opt->bytes);
    }
    opt->launch.n_args = n;
}

static void set_formulas(kf_opt *opt)
{
    kf_formula_product(&opt->global, opt->block.symbols, opt->block.rank);
    opt->launch.global[0] = kf_formula_expr(&opt->global);
    if (FAULT == FAULT_ENDLESS) {
        opt->launch.global[0].n = 1ull << 60;
    } else if (FAULT == FAULT_ZERO_EXTENT) {
        opt->bad_ins[0].op = KF_INS_IMM;
        opt->launch.global[0] = (kf_expr){opt->bad_ins, 1};
    } else if (FAULT == FAULT_UNDERFLOW) {
        opt->bad_ins[0].op = KF_INS_MUL;
        opt->launch.global[0] = (kf_expr){opt->bad_ins, 1};
    } else if (FAULT == FAULT_BAD_SYMBOL) {
        opt->bad_ins[0].op = KF_INS_SYM;
        opt->bad_ins[0].sym = 99;
        opt->launch.global[0] = (kf_expr){opt->bad_ins, 1};
    } else if (FAULT == FAULT_DIVIDES) {
        opt->bad_ins[0].op = KF_INS_IMM;
        opt->bad_ins[1].op = KF_INS_IMM;
        kf_formula_imm(&opt->global, 0);
        kf_formula_op(&opt->global, KF_INS_FLOOR_DIV);
        opt->launch.global[0] = kf_formula_expr(&opt->global);
    }
    if (FAULT == FAULT_FALSE_GUARD) {
        kf_formula_imm(&opt->guard, 0);
    } else if (FAULT == FAULT_GUARD) { // only up to 1024 elements
        kf_formula_product(&opt->guard, opt->block.symbols, opt->block.rank);
        kf_formula_imm(&opt->guard, 1024);
        kf_formula_op(&opt->guard, KF_INS_LE);
    }
}

static void set_source(kf_opt *opt)
{
    const block *b = &opt->block;
    snprintf(opt->code, sizeof(opt->code),
             "__kernel void chain(void) { /* %s: %u operations, %u tensors, asked %lld */ }\n",
             CHAIN_ID, b->n_ops, b->n_tensors, (long long)b->asked);
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = FAULT == FAULT_FORMAT ? 9 : KF_FORMAT_OPENCL_C;
    opt->source.code = (kf_blob){opt->code, strlen(opt->code)};
    opt->source.cl_c_version = 120;
    opt->source.math_flags = FAULT == FAULT_APPROX ? KF_MATH_APPROX : 0;
    if (FAULT == FAULT_BAD_TEXT) {
        opt->code[3] = (char)0xFF;
    }
    opt->sources[0] = &opt->source;
    if (FAULT == FAULT_NEWER_TAIL) {
        opt->grown.known = opt->source;
        opt->grown.known.struct_size = (uint32_t)sizeof(opt->grown);
        opt->grown.newer = 1;
        opt->sources[0] = &opt->grown.known;
    }
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    kf_opt *opt = calloc(1, sizeof(*opt));
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    opt->block = builder->block;
#ifdef CHAIN_VARIANT_NS
    kf_formula_product(&opt->second_claim, opt->block.symbols, opt->block.rank);
    kf_formula_imm(&opt->second_claim, CHAIN_VARIANT_NS);
    kf_formula_op(&opt->second_claim, KF_INS_MUL);
    kf_formula_imm(&opt->second_claim, FAULT == FAULT_VARIANT_DIVIDES ? 0 : 1024);
    kf_formula_op(&opt->second_claim, KF_INS_FLOOR_DIV);
    opt->claims[1] = kf_formula_expr(&opt->second_claim);
#endif
    snprintf(opt->name, sizeof(opt->name), "chain of %u", opt->block.n_ops);
    opt->launch.struct_size = (uint32_t)sizeof(opt->launch);
    opt->launch.dims = 1;
    opt->launch.kernel = FAULT == FAULT_KERNEL_NAME ? (kf_str){"1 chain", 7} : (kf_str){"chain", 5};
    opt->launch.args = opt->args;
    set_args(opt);
    set_formulas(opt);
    set_source(opt);
#ifdef CHAIN_OPTIONS
    if (builder->fuser->host->abi_minor >= 1) {
        opt->source.options = (kf_str)KF_STR_INIT("-cl-opt-disable");
    }
#endif
    opt->launches[0] = &opt->launch;
    opt->step.kind = KF_STEP_LAUNCH;
    opt->bad_ins[1].op = KF_INS_IMM;
    opt->bad_ins[1].imm = FAULT == FAULT_HUGE_TEMP ? 1ll << 50 : 64;
    opt->temp.bytes = (kf_expr){&opt->bad_ins[1], 1};
    opt->temp.prepack = KF_NONE;
    *out = opt;
    return KF_OK;
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = FAULT == FAULT_INFO_LEN ? opt->block.len + 1 : opt->block.len;
    info.name = (kf_str){opt->name, strlen(opt->name)};
    info.key = (kf_blob){&opt->block, sizeof(opt->block)};
#ifdef CHAIN_VARIANT_NS
    kf_opt_info_variants(&info, CHAIN_VARIANTS, opt->claims);
#else
    kf_opt_info_variants(&info, CHAIN_VARIANTS, NULL);
#endif
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    kf_program program;
    if (variant >= CHAIN_VARIANTS) {
        return KF_E_INVALID;
    }
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    program.flags = FAULT == FAULT_PROGRAM_FLAG
                        ? 1u << 31
                        : KF_PROGRAM_DETERMINISTIC | (variant == 0 ? KF_PROGRAM_IN_PLACE_SAFE : 0);
    program.sources = opt->sources;
    program.n_sources = FAULT == FAULT_MANY_SOURCES ? 1ull << 40 : 1;
    program.launches = opt->launches;
    program.n_launches = 1;
    program.temps = &opt->temp;
    program.n_temps = FAULT == FAULT_READS_TEMP || FAULT == FAULT_HUGE_TEMP;
    program.steps = &opt->step;
    program.n_steps = FAULT == FAULT_NO_STEP ? 0 : 1;
    program.guard = kf_formula_expr(&opt->guard);
    KF_OUT(out, &program);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    free(opt);
}

static kf_status init(void)
{
#if FAULT == FAULT_PRINTS
    puts("hello");
#endif
#if FAULT == FAULT_CRASHES
    raise(SIGSEGV);
#endif
    return FAULT == FAULT_INIT_FAILS ? KF_E_UNSUPPORTED : KF_OK;
}

static void deinit(void)
{
}

#if FAULT == FAULT_EXTRA_EXPORT
KF_EXPORT int chain_helper(void);
KF_EXPORT int chain_helper(void)
{
    return 1;
}
#endif

static const kf_str fuser_ids[] = {KF_STR_INIT("chain")};

static const kf_plugin table = {
    .struct_size = FAULT == FAULT_SIZE_ZERO   ? 0
                   : FAULT == FAULT_SIZE_HUGE ? 0xFFFFFFFFu
                                              : (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
#if FAULT == FAULT_OTHER_ID
    .id = KF_STR_INIT("test.other"),
#else
    .id = KF_STR_INIT(CHAIN_ID),
#endif
    .version = KF_STR_INIT("1.0"),
#if FAULT == FAULT_BAD_UTF8
    .vendor = KF_STR_INIT("caf\xE9"),
#else
    .vendor = KF_STR_INIT("tests"),
#endif
    .fuser_ids = fuser_ids,
    .n_fusers = FAULT == FAULT_NO_FUSER ? 0 : 1,
    .init = init,
    .deinit = deinit,
    .fuser_create = fuser_create,
    .fuser_destroy = fuser_destroy,
    .builder_create = builder_create,
    .builder_clone = builder_clone,
    .builder_fuse = FAULT == FAULT_NULL_ENTRY ? NULL : builder_fuse,
    .builder_state = builder_state,
    .builder_reset = builder_reset,
    .builder_finish = builder_finish,
    .builder_destroy = builder_destroy,
    .opt_info = opt_info,
    .opt_describe = opt_describe,
    .opt_destroy = opt_destroy,
#ifdef CHAIN_LEARNS
    .fuser_measured = fuser_measured,
#endif
};

const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return FAULT == FAULT_NO_TABLE ? NULL : &table;
}
