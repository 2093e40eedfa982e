// SPDX-License-Identifier: MIT OR Apache-2.0
// The plugin interface around a fuser of one fixed run of operations: which operations join, when
// the block is whole, what it costs, the program; kf_plugin.h does the rest. Nothing here depends
// on time, addresses or earlier blocks, so that clone, reset and replay are exact.
#include "abi.h"

struct kf_fuser { // one per device: read-only after its creation
    const kf_host *host;
    uint32_t index;
    kf_cost cost;
    uint32_t on_cpu;
};

struct kf_builder {
    const kf_fuser *fuser;
    block block;
    kf_estimate estimate;
};

struct kf_opt { // a finished block: immutable
    block block;
    sizes sizes;
    kf_source source;
    kf_launch launch;
    kf_karg args[MAX_INPUTS + 1 + 2 * MAX_NUMBERS];
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

// ---- the block ----

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

static uint32_t is_of_block(const block *b, uint32_t id)
{
    uint32_t k;
    for (k = 0; k < b->n_ops; k++) {
        if (b->results[k] == id) {
            return 1;
        }
    }
    return 0;
}

/// Does one operand, and only one, come from the block, from the operation before? Then the kernel
/// always has the same arguments. Yours reads other results as well? Allow it here, and have
/// fuser_fits say which operand must be which: mul(x, x) is not mul(x, y).
static uint32_t continues(const block *b, const kf_op *op)
{
    uint32_t i, from_block = 0, from_last = 0;
    for (i = 0; i < op->n_inputs; i++) {
        from_block += is_of_block(b, op->inputs[i]->id);
        from_last += b->n_ops > 0 && b->results[b->n_ops - 1] == op->inputs[i]->id;
    }
    return b->n_ops == 0 || (from_block == 1 && from_last == 1);
}

const kept_attr *block_attr(const block *b, uint32_t n, uint32_t key)
{
    uint32_t i;
    for (i = 0; i < b->n_attrs; i++) {
        if (b->attrs[i].op == n && b->attrs[i].key == key) {
            return &b->attrs[i];
        }
    }
    return NULL;
}

/// What the program depends on is in the block, which is its key.
static void keep_attr(block *b, const kf_attr *attr)
{
    kept_attr kept;
    memset(&kept, 0, sizeof(kept));
    kept.op = b->n_ops;
    kept.key = attr->key;
    kept.type = attr->type;
    switch (attr->type) {
    case KF_TYPE_I64:
    case KF_TYPE_BOOL:
    case KF_TYPE_DTYPE:
    case KF_TYPE_SCALAR:
        kept.count = 1;
        kept.values[0] = attr->v.i;
        break;
    case KF_TYPE_I64S:
        kept.count = attr->count;
        if (attr->count <= KF_MAX_RANK && attr->count > 0) {
            memcpy(kept.values, attr->v.iv, attr->count * sizeof(kept.values[0]));
        }
        break;
    default:
        return;
    }
    if (kept.count <= KF_MAX_RANK && b->n_attrs < MAX_ATTRS) {
        b->attrs[b->n_attrs++] = kept;
    }
}

static void keep_attrs(block *b, const kf_op *op)
{
    uint32_t i;
    for (i = 0; i < fuser_n_attrs; i++) {
        const kf_attr *attr = kf_op_attr(op, fuser_attrs[i]);
        if (attr != NULL) {
            keep_attr(b, attr);
        }
    }
}

static uint32_t takes(const kf_host *host, const block *b, const kf_op *op)
{
    uint32_t i;
    if (b->n_ops == fuser_n_ops || op->kind != fuser_ops[b->n_ops]) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position, "not the next operation");
    }
    if (!continues(b, op)) {
        return kf_decline(host, KF_CODE_UNKNOWN_OP, op->position,
                          "does not read the result before, once, and no other of the block");
    }
    if (!kf_op_understood(op, 1, fuser_attrs, fuser_n_attrs) || op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "something newer than this fuser");
    }
    if (b->n_inputs + op->n_inputs > MAX_INPUTS) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "too many inputs");
    }
    if (b->n_attrs + fuser_n_attrs > MAX_ATTRS) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "too many attributes");
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
    uint32_t i;
    for (i = 0; i < op->n_inputs; i++) {
        if (!is_of_block(b, op->inputs[i]->id)) {
            take_value(&b->inputs[b->n_inputs++], op->inputs[i]);
        }
    }
    take_value(&b->result, op->outputs[0]);
    keep_attrs(b, op);
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

// ---- cost: every input is read once, the result is written once ----

static void add_bytes(kf_formula *f, const value *v)
{
    kf_formula_product(f, v->symbols, v->rank);
    kf_formula_imm(f, 4);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

static void make_estimate(kf_estimate *e, const block *b, const kf_cost *cost)
{
    sizes s;
    kf_formula bytes = {0, 0, {{0, 0, 0, 0}}};
    uint32_t i, k;
    kf_estimate_init(e);
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
    kf_formula_append(&bytes, kf_formula_expr(&e->read));
    kf_formula_append(&bytes, kf_formula_expr(&e->written));
    kf_formula_op(&bytes, KF_INS_ADD);
    memset(&s, 0, sizeof(s));
    fuser_sizes(b, &s);
    kf_formula_roofline(&e->ns, cost, kf_formula_expr(&bytes), kf_formula_expr(&s.flops), 1);
}

// ---- program ----

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
    for (i = 0; i < opt->sizes.n_scalars; i++) {
        opt->args[n].kind = KF_ARG_SCALAR;
        opt->args[n].dtype = KF_DTYPE_F32;
        opt->args[n++].ref = opt->sizes.scalars[i];
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

// ---- what kf_plugin.h builds the interface's objects from ----

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    if (fuser_n_ops > MAX_OPS) {
        kf_decline(fuser->host, KF_CODE_LIMIT, KF_NONE, "fuser_ops has more than MAX_OPS (abi.h)");
        return KF_DECLINED;
    }
    fuser->cost = kf_cost_of(device);
    fuser->on_cpu = device->code_shape == KF_SHAPE_BLOCK;
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    memset(&builder->block, 0, sizeof(builder->block));
    builder->block.on_cpu = builder->fuser->on_cpu;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    to->block = from->block;
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values; // ask for the value of an extent only when you cannot do without: it narrows the
                  // plan
    push(&builder->block, builder->fuser->host, op);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->block.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return is_ready(&builder->block);
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    make_estimate(&builder->estimate, &builder->block, &builder->fuser->cost);
    kf_estimate_answer(&builder->estimate, builder->block.len, /*launches=*/1, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->block = builder->block;
    make_program(opt);
    return KF_OK;
}

static void opt_fini(kf_opt *opt)
{
    (void)opt; // nothing but plain data
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
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
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    kf_program program;
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
}

#define KF_PLUGIN_ID PLUGIN_ID
#define KF_PLUGIN_VERSION PLUGIN_VERSION
#define KF_PLUGIN_VENDOR "Example"
#define KF_PLUGIN_FUSERS KF_STR_INIT(FUSER_NAME)
#include <kiln/kf_plugin.h>
