// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser as an author wrote it against fuser ABI 1.0, with the headers of that day beside it. It
// is never changed: every host of major version 1 loads it, and it goes on winning the running sum
// of a product. (What `kiln plugin new` wrote, and the text of docs/writing-a-fuser.md, in one.)
// clang-format off
#include "kf_util_v1_0.h"

#define PLUGIN_ID "test.fuser-1-0"
#define PLUGIN_VERSION "0.1.0"
#define FUSER_NAME "frozen"

enum { MAX_OPS = 8, MAX_INPUTS = 8, MAX_NUMBERS = 8 };

typedef struct value { // a tensor of the block
    uint32_t id;
    uint32_t rank;
    uint32_t symbols[KF_MAX_RANK]; // equal symbols are equal extents; symbol 0 is the extent 1
} value;

typedef struct block { // what was accepted so far; plain data, so that a clone is a copy
    uint32_t on_cpu;
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t n_ops; // without drops
    uint32_t dropped; // bit i: the result of operation i is dead
    uint32_t n_inputs;
    uint32_t results[MAX_OPS]; // tensor ids
    value inputs[MAX_INPUTS]; // read from memory, operand by operand
    value result;
} block;

typedef struct sizes { // of one launch
    kf_formula work_items;
    kf_formula numbers[MAX_NUMBERS]; // kernel arguments of type long
    uint32_t n_numbers;
} sizes;

extern const uint32_t fuser_ops[];
extern const uint32_t fuser_n_ops;
extern const uint32_t fuser_attrs[];
extern const uint32_t fuser_n_attrs;
extern const char fuser_source[];
extern const char fuser_kernel[];

uint32_t fuser_fits(const kf_host *host, const block *b, uint32_t n, const kf_op *op);
void fuser_sizes(const block *b, sizes *s);


/// The operations of a block. Each takes the result of the one before, and only the last result is
/// still needed after the block.
const uint32_t fuser_ops[] = {KF_OP_MUL, KF_OP_CUM_SUM};
const uint32_t fuser_n_ops = 2;

/// The attributes that fuser_fits looks at; an operation with any other is not taken.
const uint32_t fuser_attrs[] = {KF_ATTR_AXIS, KF_ATTR_EXCLUSIVE, KF_ATTR_REVERSE};
const uint32_t fuser_n_attrs = 3;

static int64_t number(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL ? attr->v.i : 0;
}

/// Does `op`, the operation fuser_ops[n], look as the kernel needs it?
uint32_t fuser_fits(const kf_host *host, const block *b, uint32_t n, const kf_op *op)
{
    uint32_t i;
    (void)b;
    if (op->outputs[0]->rank == 0) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "there are no rows");
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_same_dims(op->inputs[i], op->outputs[0])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "broadcasting is not for me");
        }
    }
    if (n == 1) {
        int64_t axis = number(op, KF_ATTR_AXIS);
        if (axis != -1 && axis != (int64_t)op->inputs[0]->rank - 1) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "only along the last axis");
        }
        if (number(op, KF_ATTR_EXCLUSIVE) || number(op, KF_ATTR_REVERSE)) {
            return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "only from the beginning on");
        }
    }
    return 1;
}

/// One work-item for each row.
const char fuser_source[] = "__kernel void running_sum(__global const float *a,\n"
                            "                          __global const float *b,\n"
                            "                          __global float *out, long length)\n"
                            "{\n"
                            "    long at = get_global_id(0) * length;\n"
                            "    float sum = 0.0f;\n"
                            "    for (long i = 0; i < length; i++) {\n"
                            "        sum += a[at + i] * b[at + i];\n"
                            "        out[at + i] = sum;\n"
                            "    }\n"
                            "}\n";
const char fuser_kernel[] = "running_sum";

/// How many work-items, and the numbers that the kernel gets, as formulas: extents are symbols, so
/// one program serves every size.
void fuser_sizes(const block *b, sizes *s)
{
    const value *x = &b->result;
    kf_formula_product(&s->numbers[0], x->symbols + x->rank - 1, 1); // length of a row
    s->n_numbers = 1;
    kf_formula_product(&s->work_items, x->symbols, x->rank - 1); // rows
}


KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

struct kf_fuser { // one per device: read-only after its creation
    const kf_host *host;
    kf_cost cost;
    uint32_t on_cpu;
};

typedef struct estimate {
    kf_formula read, written, bytes, ns;
} estimate;

struct kf_builder {
    const kf_fuser *fuser;
    block block;
    estimate estimate;
};

struct kf_opt { // a finished block: immutable
    block block;
    sizes sizes;
    kf_source source;
    kf_launch launch;
    kf_karg args[MAX_INPUTS + 1 + MAX_NUMBERS];
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

// ---- the block ---------------------------------------------------------------------------------

static void take_value(value *v, const kf_tensor *tensor)
{
    uint32_t i;
    memset(v, 0, sizeof(*v));
    v->id = tensor->id;
    v->rank = tensor->rank;
    for (i = 0; i < tensor->rank; i++) {
        v->symbols[i] = tensor->dims[i].symbol;
    }
}

static uint32_t is_plain(const kf_tensor *tensor)
{
    uint32_t needed = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    return tensor->dtype == KF_DTYPE_F32 && (tensor->facts & needed) == needed;
}

/// Is the result of the operation before among the inputs?
static uint32_t continues(const block *b, const kf_op *op)
{
    uint32_t i;
    for (i = 0; b->n_ops > 0 && i < op->n_inputs; i++) {
        if (op->inputs[i]->id == b->results[b->n_ops - 1]) {
            return 1;
        }
    }
    return b->n_ops == 0;
}

static uint32_t takes(const kf_host *host, const block *b, const kf_op *op)
{
    uint32_t i;
    if (b->n_ops == fuser_n_ops || op->kind != fuser_ops[b->n_ops] || !continues(b, op)) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "not the next operation");
    }
    if (!kf_op_understood(op, 1, fuser_attrs, fuser_n_attrs) || op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "something newer than this fuser");
    }
    if (b->n_inputs + op->n_inputs > MAX_INPUTS) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "too many inputs");
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!is_plain(op->inputs[i])) {
            return kf_decline(host, KF_CODE_LAYOUT, op->position, "only dense tensors of f32");
        }
    }
    if (!is_plain(op->outputs[0])) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "only results of f32");
    }
    return fuser_fits(host, b, b->n_ops, op);
}

static void record(block *b, const kf_op *op)
{
    uint32_t i, k;
    for (i = 0; i < op->n_inputs; i++) {
        uint32_t id = op->inputs[i]->id, inside = 0;
        for (k = 0; k < b->n_ops; k++) {
            inside = inside || b->results[k] == id;
        }
        if (!inside) {
            take_value(&b->inputs[b->n_inputs++], op->inputs[i]);
        }
    }
    take_value(&b->result, op->outputs[0]);
    b->results[b->n_ops++] = op->outputs[0]->id;
}

/// Every fuser accepts drops: the tensor is dead from here on.
static uint32_t take_drop(block *b, const kf_host *host, const kf_op *op)
{
    uint32_t i;
    if (!kf_op_understood(op, 1, NULL, 0) || op->n_inputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of drop");
    }
    for (i = 0; i < b->n_ops; i++) {
        b->dropped |= b->results[i] == op->inputs[0]->id ? 1u << i : 0u;
    }
    return 1;
}

static void push(block *b, const kf_host *host, const kf_op *op)
{
    if (b->closed) {
        return;
    }
    if (op->kind == KF_OP_DROP) {
        b->closed = !take_drop(b, host, op);
    } else if (takes(host, b, op)) {
        record(b, op);
    } else {
        b->closed = 1;
    }
    b->len += b->closed ? 0 : 1;
}

/// All operations are there, the results between them are dead and the last one is not.
static uint32_t is_ready(const block *b)
{
    return b->n_ops == fuser_n_ops && b->dropped == (1u << (fuser_n_ops - 1)) - 1;
}

// ---- cost: every input is read once, the result is written once
// ----------------------------------

static void add_bytes(kf_formula *f, const value *v)
{
    kf_formula_product(f, v->symbols, v->rank);
    kf_formula_imm(f, 4);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

static void make_estimate(estimate *e, const block *b, const kf_cost *cost)
{
    kf_expr no_flops = {NULL, 0};
    uint32_t i, k;
    memset(e, 0, sizeof(*e));
    kf_formula_imm(&e->read, 0);
    kf_formula_imm(&e->written, 0);
    for (i = 0; i < b->n_inputs; i++) {
        for (k = 0; k < i && b->inputs[k].id != b->inputs[i].id; k++) {
        }
        if (k == i) { // the same tensor twice is read once
            add_bytes(&e->read, &b->inputs[i]);
        }
    }
    add_bytes(&e->written, &b->result);
    kf_formula_append(&e->bytes, kf_formula_expr(&e->read));
    kf_formula_append(&e->bytes, kf_formula_expr(&e->written));
    kf_formula_op(&e->bytes, KF_INS_ADD);
    kf_formula_roofline(&e->ns, cost, kf_formula_expr(&e->bytes), no_flops, 1);
}

// ---- program -----------------------------------------------------------------------------------

static kf_karg tensor_arg(uint32_t id, uint32_t access)
{
    kf_karg arg;
    memset(&arg, 0, sizeof(arg));
    arg.kind = KF_ARG_TENSOR;
    arg.access = access;
    arg.ref = id;
    arg.dtype = KF_DTYPE_F32;
    return arg;
}

static void make_program(kf_opt *opt)
{
    const block *b = &opt->block;
    uint32_t i, n = 0;
    fuser_sizes(b, &opt->sizes);
    for (i = 0; i < b->n_inputs; i++) {
        opt->args[n++] = tensor_arg(b->inputs[i].id, KF_ACCESS_READ);
    }
    opt->args[n++] = tensor_arg(b->result.id, KF_ACCESS_WRITE);
    for (i = 0; i < opt->sizes.n_numbers; i++) {
        opt->args[n].kind = KF_ARG_VALUE;
        opt->args[n].dtype = KF_DTYPE_I64;
        opt->args[n++].value = kf_formula_expr(&opt->sizes.numbers[i]);
    }
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = KF_FORMAT_OPENCL_C;
    opt->source.code.ptr = fuser_source;
    opt->source.code.len = strlen(fuser_source);
    opt->source.cl_c_version = 120;
    opt->launch.struct_size = (uint32_t)sizeof(opt->launch);
    opt->launch.dims = 1;
    opt->launch.n_args = n;
    opt->launch.kernel.ptr = fuser_kernel;
    opt->launch.kernel.len = strlen(fuser_kernel);
    opt->launch.global[0] = kf_formula_expr(&opt->sizes.work_items);
    opt->launch.args = opt->args;
    opt->step.kind = KF_STEP_LAUNCH;
    opt->sources[0] = &opt->source;
    opt->launches[0] = &opt->launch;
}

// ---- the interface's objects -------------------------------------------------------------------

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    *out = NULL;
    if (index != 0) {
        return KF_E_INVALID;
    }
    if ((device->features & KF_FEATURE_COMPILER) == 0) {
        kf_decline(host, KF_CODE_DEVICE, KF_NONE, "the device has no compiler");
        return KF_DECLINED;
    }
    *out = (kf_fuser *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->host = host;
    (*out)->cost = kf_cost_of(device);
    (*out)->on_cpu = device->code_shape == KF_SHAPE_BLOCK;
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
    (*out)->block.on_cpu = fuser->on_cpu;
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        (*out)->block = builder->block;
    }
    return status;
}

static void answer(kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder->block.closed ? KF_CLOSED : KF_OPEN;
    state.ready = is_ready(&builder->block);
    if (state.ready) {
        make_estimate(&builder->estimate, &builder->block, &builder->fuser->cost);
        state.len = builder->block.len;
        state.launches = 1;
        state.confidence = KF_CONFIDENCE_MODEL;
        state.est_ns = kf_formula_expr(&builder->estimate.ns);
        state.est_bytes_read = kf_formula_expr(&builder->estimate.read);
        state.est_bytes_written = kf_formula_expr(&builder->estimate.written);
    }
    KF_OUT(out, &state);
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    // Calls on one builder never overlap, so its room for estimates may be used here.
    answer((kf_builder *)(uintptr_t)builder, out);
    return KF_OK;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *values, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    uint64_t i;
    (void)values; // ask for the value of an extent only when you cannot do without: it narrows the
                  // plan
    for (i = 0; i < n; i++) {
        push(&builder->block, builder->fuser->host, ops[i]);
    }
    answer(builder, out);
    return KF_OK;
}

static kf_status builder_reset(kf_builder *builder)
{
    memset(&builder->block, 0, sizeof(builder->block));
    builder->block.on_cpu = builder->fuser->on_cpu;
    return KF_OK;
}

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    *out = NULL;
    if (!is_ready(&builder->block)) {
        return KF_E_INVALID;
    }
    *out = (kf_opt *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->block = builder->block;
    make_program(*out);
    return KF_OK;
}

static void builder_destroy(kf_builder *builder)
{
    free(builder);
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->block.len;
    info.n_variants = 1;
    info.name.ptr = FUSER_NAME;
    info.name.len = sizeof(FUSER_NAME) - 1;
    info.key.ptr = &opt->block; // all that the program depends on
    info.key.len = sizeof(opt->block);
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    kf_program program;
    if (variant != 0) {
        return KF_E_INVALID;
    }
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    program.flags = KF_PROGRAM_DETERMINISTIC;
    program.sources = opt->sources;
    program.n_sources = 1;
    program.launches = opt->launches;
    program.n_launches = 1;
    program.steps = &opt->step;
    program.n_steps = 1;
    KF_OUT(out, &program);
    return KF_OK;
}

static void opt_destroy(kf_opt *opt)
{
    free(opt);
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    static const kf_str fuser_ids[] = {KF_STR_INIT(FUSER_NAME)};
    static const kf_plugin plugin = {
        .struct_size = (uint32_t)sizeof(kf_plugin),
        .abi_minor = KF_ABI_MINOR,
        .id = KF_STR_INIT(PLUGIN_ID),
        .version = KF_STR_INIT(PLUGIN_VERSION),
        .vendor = KF_STR_INIT("Example"),
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
    };
    (void)host_abi_minor;
    return &plugin;
}
