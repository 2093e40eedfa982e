// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernel, one launch, and what it costs: the operations of whole tiles at
// the share of the device's rate that was measured, or the bytes of keys and values.
#include "attention_internal.h"

enum { TEMP_PARTIAL, TEMP_COUNTS, AT_TEMPS };

enum {
    MAX_FORMULAS = 16, ///< of arguments
    ROWS_PERCENT = 58, ///< of the device's f32 rate
    ROW_PERCENT = 15,
    GROUP_PERCENT = 30,
    TENSOR_PERCENT = 600,
    KEYS_AT_ONCE = 16, ///< of which no form computes fewer
    SCORE_FLOPS = 30, ///< of an exponential and the maximum
    INPUT_FLOPS = 16 ///< of reading an element across its rows
};

// Of tensor cores and bulk copies.
static const kf_str defines[] = {KF_STR_INIT("KILN_PTX_TARGET=sm_90a")};

struct at_program {
    at_block *block;
    at_plan plan;
    kf_text code;
    kf_text name;
    uint8_t key[16];
    uint32_t failed;
    uint32_t n_values;
    kf_source source;
    kf_launch launch;
    kf_launch clear; ///< of the counts, for one row in parts
    kf_step steps[AT_HOSTED + 1];
    kf_formula global[3]; ///< the last of `clear`
    kf_formula local[2];
    kf_formula values[MAX_FORMULAS];
    kf_formula temp_bytes[AT_TEMPS];
    kf_temp temps[AT_TEMPS];
    kf_karg args[AT_MAX_PARAMS];
    kf_karg clear_arg;
    const kf_source *sources[1];
    const kf_launch *launches[2];
};

// ---- sizes ----

static void batches(kf_formula *f, const at_block *block)
{
    kf_formula_product(f, block->chain.values[block->scores].symbols, at_batch(block));
}

static void symbol(kf_formula *f, uint32_t symbol)
{
    kf_formula_product(f, &symbol, 1);
}

/// Rows of the query that one work-item or work-group has.
static uint32_t item_rows(const at_plan *plan)
{
    return plan->on_tensor   ? AT_TENSOR_ROWS
           : plan->in_parts  ? 1
           : plan->in_groups ? AT_GROUP_ROWS
           : plan->one_row   ? 1
                             : AT_VECTORS * plan->width;
}

static void items(kf_formula *f, const at_plan *plan)
{
    symbol(f, at_rows(plan->block));
    kf_formula_imm_op(f, item_rows(plan), KF_INS_CEIL_DIV);
}

/// By bulk copies as many work-groups as the device has units, none of more keys than it can hold.
static void stream_parts(kf_formula *f, const at_plan *plan)
{
    symbol(f, at_keys(plan->block));
    kf_formula_imm_op(f, at_chunk(plan->block), KF_INS_CEIL_DIV);
    kf_formula_imm(f, plan->device->compute_units);
    batches(f, plan->block);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_op(f, KF_INS_MIN);
    symbol(f, at_keys(plan->block));
    kf_formula_imm_op(f, AT_STREAM_KEYS, KF_INS_CEIL_DIV);
    kf_formula_op(f, KF_INS_MAX);
}

static void parts(kf_formula *f, const at_plan *plan)
{
    if (plan->streams) {
        stream_parts(f, plan);
        return;
    }
    symbol(f, at_keys(plan->block));
    kf_formula_imm_op(f, AT_PART_KEYS, KF_INS_CEIL_DIV);
}

// ---- costs ----

static void tensor_bytes(kf_formula *f, const at_block *block, uint32_t value)
{
    const kf_chain_value *v = &block->chain.values[value];
    kf_formula_product(f, v->symbols, v->rank);
    kf_formula_imm_op(f, kf_dtype_of(v->dtype).bytes, KF_INS_MUL);
}

static void read_bytes(kf_formula *f, const at_block *block)
{
    kf_formula_imm(f, 0);
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        if (!block->chain.values[i].computed) {
            tensor_bytes(f, block, i);
            kf_formula_op(f, KF_INS_ADD);
        }
    }
}

/// Elements of a head that one row computes: along it lie whole vectors.
static int64_t whole_vectors(const at_plan *plan, int32_t elements)
{
    int64_t lanes = plan->one_row ? plan->width : 1;
    return (elements + lanes - 1) / lanes * lanes;
}

/// Operations for each score: both products, the operators on it, its exponential.
static int64_t score_flops(const at_plan *plan)
{
    const at_block *block = plan->block;
    int64_t flops =
        2 * (whole_vectors(plan, block->depth) + whole_vectors(plan, block->width)) + SCORE_FLOPS;
    for (uint32_t i = block->product + 1; i < block->softmax; i++) {
        flops += block->chain.ops[i].row->cost;
    }
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        flops += at_is_score_input(block, i) ? INPUT_FLOPS : 0;
    }
    return flops;
}

uint32_t at_launches(const at_block *block)
{
    return 1 + block->n_hosted;
}

void at_estimate_make(kf_estimate *estimate, const at_plan *plan)
{
    const at_block *block = plan->block;
    const kf_cost *cost = &plan->device->cost;
    kf_formula *ns = &estimate->ns;
    kf_estimate_init(estimate);
    read_bytes(&estimate->read, block);
    tensor_bytes(&estimate->written, block, block->result);
    items(&estimate->flops, plan);
    kf_formula_imm_op(&estimate->flops, (int64_t)item_rows(plan) * score_flops(plan), KF_INS_MUL);
    symbol(&estimate->flops, at_keys(block));
    kf_formula_imm_op(&estimate->flops, KEYS_AT_ONCE, KF_INS_ROUND_UP);
    kf_formula_op(&estimate->flops, KF_INS_MUL);
    batches(&estimate->flops, block);
    kf_formula_op(&estimate->flops, KF_INS_MUL);
    kf_formula_append(ns, kf_formula_expr(&estimate->flops));
    uint32_t percent = plan->on_tensor   ? TENSOR_PERCENT
                       : plan->in_groups ? GROUP_PERCENT
                       : plan->one_row   ? ROW_PERCENT
                                         : ROWS_PERCENT;
    kf_formula_imm_op(ns, cost->ps_per_kflop * 100 / percent, KF_INS_MUL);
    kf_formula_append(ns, kf_formula_expr(&estimate->read));
    kf_formula_append(ns, kf_formula_expr(&estimate->written));
    kf_formula_op(ns, KF_INS_ADD);
    kf_formula_imm_op(ns, cost->ps_per_kib, KF_INS_MUL);
    kf_formula_op(ns, KF_INS_MAX);
    for (uint32_t i = 0; i < block->n_hosted; i++) { // f32 is read, half of its bytes are written
        tensor_bytes(ns, block, block->hosted[i].value);
        kf_formula_imm_op(ns, 3 * cost->ps_per_kib, KF_INS_MUL);
        kf_formula_op(ns, KF_INS_ADD);
    }
    kf_formula_imm_op(ns, 1024000, KF_INS_FLOOR_DIV);
    kf_formula_imm_op(ns, at_launches(block) * cost->launch_ns, KF_INS_ADD);
}

// ---- the launch ----

static void bind_temp(kf_karg *arg, uint32_t temp)
{
    arg->kind = KF_ARG_TEMP;
    arg->ref = temp;
    arg->dtype = 0;
    arg->access = temp == TEMP_COUNTS ? KF_ACCESS_READ_WRITE : KF_ACCESS_WRITE;
}

static void bind(at_program *p, const at_param *param, kf_karg *arg)
{
    const kf_chain *chain = &p->block->chain;
    arg->dtype = KF_DTYPE_I64;
    switch (param->kind) {
    case AT_PARAM_INPUT:
    case AT_PARAM_OUTPUT:
        kf_chain_bind_tensor(arg, &chain->values[param->index],
                             param->kind == AT_PARAM_INPUT ? KF_ACCESS_READ : KF_ACCESS_WRITE);
        break;
    case AT_PARAM_OFFSET:
    case AT_PARAM_STRIDE:
        kf_chain_bind_place(arg, &chain->values[param->index],
                            param->kind == AT_PARAM_OFFSET ? KF_ARG_OFFSET : KF_ARG_STRIDE,
                            param->axis);
        break;
    case AT_PARAM_SCALAR:
        kf_chain_bind_number(arg, &chain->numbers[param->index]);
        break;
    case AT_PARAM_PARTIAL:
        bind_temp(arg, TEMP_PARTIAL);
        break;
    case AT_PARAM_COUNTS:
        bind_temp(arg, TEMP_COUNTS);
        break;
    default:
        if (p->n_values == MAX_FORMULAS) {
            p->failed = 1;
            return;
        }
        symbol(&p->values[p->n_values],
               param->kind == AT_PARAM_ROWS ? at_rows(p->block)
               : param->kind == AT_PARAM_KEYS
                   ? at_keys(p->block)
                   : chain->values[p->block->scores].symbols[param->index]);
        arg->kind = KF_ARG_VALUE;
        arg->dtype = param->kind == AT_PARAM_EXTENT ? KF_DTYPE_I64 : KF_DTYPE_I32;
        arg->value = kf_formula_expr(&p->values[p->n_values++]);
        break;
    }
}

static void make_launch(at_program *p)
{
    p->failed |= p->plan.n_params == AT_MAX_PARAMS;
    for (uint32_t i = 0; i < p->plan.n_params; i++) {
        bind(p, &p->plan.params[i], &p->args[i]);
    }
    uint32_t group = at_group_items(&p->plan);
    p->plan.in_parts ? parts(&p->global[0], &p->plan) : items(&p->global[0], &p->plan);
    kf_formula_imm_op(&p->global[0], group, KF_INS_MUL);
    batches(&p->global[1], p->block);
    p->launch.struct_size = (uint32_t)sizeof(p->launch);
    p->launch.dims = 2;
    p->launch.n_args = p->plan.n_params;
    p->launch.kernel.ptr = "kiln_attention";
    p->launch.kernel.len = strlen(p->launch.kernel.ptr);
    p->launch.args = p->args;
    for (uint32_t i = 0; i < 2; i++) {
        kf_formula_imm(&p->local[i], i == 0 ? group : 1);
        p->failed |= p->global[i].failed;
        p->launch.global[i] = kf_formula_expr(&p->global[i]);
        p->launch.local[i] = kf_formula_expr(&p->local[i]);
    }
    p->launches[0] = &p->launch;
    for (uint32_t i = 0; i < p->block->n_hosted; i++) {
        p->steps[i].kind = KF_STEP_HOST_OP;
        p->steps[i].index = p->block->hosted[i].position;
    }
    p->steps[p->block->n_hosted].kind = KF_STEP_LAUNCH;
}

/// Counts are 0 between runs: each run leaves them so.
static void make_clear(at_program *p)
{
    bind_temp(&p->clear_arg, TEMP_COUNTS);
    p->clear_arg.access = KF_ACCESS_WRITE;
    batches(&p->global[2], p->block);
    p->failed |= p->global[2].failed;
    p->clear.struct_size = (uint32_t)sizeof(p->clear);
    p->clear.dims = 1;
    p->clear.n_args = 1;
    p->clear.kernel.ptr = "kiln_clear";
    p->clear.kernel.len = strlen(p->clear.kernel.ptr);
    p->clear.args = &p->clear_arg;
    p->clear.global[0] = kf_formula_expr(&p->global[2]);
    p->launches[1] = &p->clear;
}

static void make_temps(at_program *p)
{
    kf_formula *partial = &p->temp_bytes[TEMP_PARTIAL], *counts = &p->temp_bytes[TEMP_COUNTS];
    parts(partial, &p->plan);
    batches(partial, p->block);
    kf_formula_op(partial, KF_INS_MUL);
    kf_formula_imm_op(partial, (p->block->width + 2) * (int64_t)sizeof(float), KF_INS_MUL);
    batches(counts, p->block);
    kf_formula_imm_op(counts, sizeof(int32_t), KF_INS_MUL);
    for (uint32_t i = 0; i < AT_TEMPS; i++) {
        p->failed |= p->temp_bytes[i].failed;
        p->temps[i].bytes = kf_formula_expr(&p->temp_bytes[i]);
        p->temps[i].align = 64;
        p->temps[i].flags = i == TEMP_COUNTS ? KF_TEMP_PERSISTENT : 0;
        p->temps[i].prepack = i == TEMP_COUNTS ? 1 : KF_NONE;
    }
}

// ---- life ----

static void fill(at_program *p)
{
    at_emit(&p->code, &p->plan);
    kf_chain_name(&p->name, "attention", p->block->shown, p->block->n_shown);
    make_launch(p);
    if (p->plan.in_parts) {
        make_clear(p);
        make_temps(p);
    }
    p->failed |= p->code.failed | p->name.failed;
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    if (p->plan.on_tensor || p->plan.streams) {
        p->source.defines = defines;
        p->source.n_defines = 1;
    }
    p->sources[0] = &p->source;
}

at_program *at_program_create(const at_block *block, const kf_chain_device *device)
{
    at_program *p = (at_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->block = (at_block *)malloc(sizeof(*p->block));
    if (p->block == NULL) {
        at_program_destroy(p);
        return NULL;
    }
    at_block_copy(p->block, block);
    at_plan_make(&p->plan, p->block, device);
    fill(p);
    if (p->failed) {
        at_program_destroy(p);
        return NULL;
    }
    kf_launch_key(p->key, &p->code, &p->launch, p->block->len);
    return p;
}

void at_program_destroy(at_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program->block);
        free(program);
    }
}

void at_program_describe(const at_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC;
    view.sources = program->sources;
    view.n_sources = 1;
    view.launches = program->launches;
    view.n_launches = program->plan.in_parts ? 2 : 1;
    view.temps = program->temps;
    view.n_temps = program->plan.in_parts ? AT_TEMPS : 0;
    view.steps = program->steps;
    view.n_steps = program->block->n_hosted + 1;
    KF_OUT(out, &view);
}

void at_program_info(const at_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->block->len, &program->name, program->key, sizeof(program->key));
}
