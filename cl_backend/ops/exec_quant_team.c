// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches quant_team.cl: few rows times the transposed of weights of 4 or 8 bits, on GPUs, one
// launch for all. Decides which products of the same rows share it.
#include "exec_quant_dot.h"

enum {
    TEAM_ROWS = 4, ///< of a work-item
    TEAM_GROUP = 128, ///< work-items
    TEAM_COLUMNS = 8, ///< of a work-group
    TEAM_LOCAL = 24 * 1024, ///< bytes, at most
    VECTOR_BITS = 128 ///< that a work-item of a team reads at once
};

bool kilni_exec_quant_team_fits(const kilni_exec *exec, const kiln_quant_dot_shape *shape,
                                uint32_t bits, int64_t block)
{
    const kiln_device_info *info = &exec->backend->info;
    int64_t vector = VECTOR_BITS / (int64_t)bits;
    return shape->k % vector == 0 && (block == 0 || block >= vector) &&
           shape->weight_start % 4 == 0 && info->max_work_group >= TEAM_GROUP &&
           info->local_bytes >= TEAM_LOCAL;
}

static kiln_quant_team_part part_of(const kilni_exec *exec, const kiln_quant_dot_shape *shape)
{
    int64_t rows = shape->m == 1 ? 1 : TEAM_ROWS;
    return (kiln_quant_team_part){
        .n = shape->n,
        .n_shift = shape->n_shift,
        .has_global = shape->has_global,
        .out_start = kilni_exec_start(&exec->outputs[0]),
        .weight_start = shape->weight_start,
        .scales_start = shape->scales_start,
        .global_start = shape->global_start,
        .groups = kilni_exec_ceil_div(shape->n, TEAM_COLUMNS) * kilni_exec_ceil_div(shape->m, rows),
    };
}

/// 1, 2, 4 or 8, so that few forms of the kernel are compiled; places that are left have no groups.
static uint32_t places_for(uint32_t n)
{
    uint32_t places = 1;
    while (places < n) {
        places *= 2;
    }
    return places;
}

static kiln_status launch(kilni_exec *exec, const kiln_quant_dot_shape *shape,
                          const kiln_joined_op *ops, const kiln_quant_team_part *products,
                          uint32_t n)
{
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    uint32_t places = places_for(n);
    kiln_quant_team_shape s = {
        .m = shape->m, .k = shape->k, .k_shift = shape->k_shift, .k_blocks = shape->k_blocks};
    kiln_view a = {0};
    kilni_cl_args args;
    kilni_exec_options options = {.length = 0};
    int64_t groups = 0;
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &a);
    kilni_exec_define_dtype(&options, "A", kiln_scheme_scale(b->scheme));
    kilni_exec_define(&options, "BITS", kiln_quant_bits(b->dtype));
    kilni_exec_define(&options, "ROWS", shape->m == 1 ? 1 : TEAM_ROWS);
    kilni_exec_define(&options, "PRODUCTS", places);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "quant_team.cl", "kiln_quant_team", &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s.a_start = kilni_exec_start(&a);
    for (uint32_t i = 0; i < n; i++) {
        s.parts[i] = products[i];
        groups += products[i].groups;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, a.buffer);
    for (uint32_t i = 0; i < places; i++) {
        const kiln_joined_op *op = &ops[i < n ? i : 0];
        kilni_cl_push_buffer(&args, op->outputs[0].buffer);
        kilni_cl_push_buffer(&args, op->inputs[1].buffer);
    }
    return kilni_exec_launch(exec, &args, groups * TEAM_GROUP, TEAM_GROUP);
}

kiln_status kilni_exec_quant_team(kilni_exec *exec, const kiln_quant_dot_shape *shape)
{
    const kiln_joined_op op = {exec->record, exec->inputs, exec->outputs};
    const kiln_quant_team_part part = part_of(exec, shape);
    return launch(exec, shape, &op, &part, 1);
}

/// Whether a product may be one of the launch of `first`, by what is compiled in or the same for
/// all.
static bool joins(const kilni_exec *first, const kiln_quant_dot_shape *of, const kilni_exec *exec,
                  const kiln_quant_dot_shape *shape)
{
    const kiln_tensor_desc *x = &first->record->inputs[1];
    const kiln_tensor_desc *y = &exec->record->inputs[1];
    const kiln_view *row = &exec->inputs[0];
    return x->dtype == y->dtype && kiln_scheme_scale(x->scheme) == kiln_scheme_scale(y->scheme) &&
           of->m == shape->m && of->k == shape->k && of->k_shift == shape->k_shift &&
           row->buffer == first->inputs[0].buffer && row->offset_bytes % 4 == 0 &&
           row->offset_bytes == first->inputs[0].offset_bytes && kiln_view_is_contiguous(row);
}

bool kilni_cl_execute_joined(kilni_cl_backend *backend, const kiln_joined_op *ops, uint32_t n_ops)
{
    kiln_quant_team_part products[KILN_MAX_JOINED];
    kiln_quant_dot_shape shapes[2];
    kiln_error err = KILN_ERROR_INIT;
    kilni_exec first = {.backend = backend,
                        .record = ops[0].record,
                        .inputs = ops[0].inputs,
                        .outputs = ops[0].outputs,
                        .err = &err};
    if (ops[0].record->op != KILN_OP_MATMUL_QUANTIZED || kilni_exec_is_block(&first)) {
        return false;
    }
    for (uint32_t i = 0; i < n_ops; i++) {
        kilni_exec exec = {.backend = backend,
                           .record = ops[i].record,
                           .inputs = ops[i].inputs,
                           .outputs = ops[i].outputs,
                           .err = &err};
        kiln_quant_dot_shape *shape = &shapes[i > 0];
        if (!kilni_exec_takes_quant_dot(&exec, shape) || !joins(&first, &shapes[0], &exec, shape)) {
            return false;
        }
        products[i] = part_of(&exec, shape);
    }
    return kilni_cl_usable(backend, &err) == KILN_STATUS_OK &&
           launch(&first, &shapes[0], ops, products, n_ops) == KILN_STATUS_OK;
}
