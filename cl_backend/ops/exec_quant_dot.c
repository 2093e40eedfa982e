// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches quant_dot.cl, on GPUs quant_team.cl, for one row on tensor cores quant_tensor.cl: few
// rows times the transposed of a weight of 4 or 8 bits. Decides which calls they take, and on GPUs
// which products of the same rows share a launch.
// The values and scales are read where they lie; on processors the rows are laid out for the kernel
// by a launch before.
#include "exec_quant_dot.h"

#include "cl_query.h"

enum {
    WHOLE = 62,
    DOT_MOST_ROWS = 16, ///< beyond, dequantising once costs less than reading values again
    DOT_ROWS = 4, ///< of a work-item
    DOT_LANES = 16, ///< words of a step
    DOT_MOST_BLOCKS = 8, ///< of a step
    DOT_COLUMNS = 32, ///< of a work-item
    TEAM_GROUP = 128, ///< work-items
    TEAM_COLUMNS = 8, ///< of a work-group
    TEAM_LOCAL = 24 * 1024, ///< bytes, at most
    TENSOR_GROUP = 256, ///< work-items
    TENSOR_TILES = 8, ///< of a work-group, at most
    TENSOR_COLUMNS = 16, ///< of a tile
    TENSOR_SHIFT = 5, ///< log2 of values that share an exponent
    TENSOR_MOST_SHIFT = 31, ///< that the kernel's numbers of 32 bits take
    VECTOR_BITS = 128 ///< that a work-item of a team reads at once
};

int64_t kilni_exec_quant_shift(uint64_t scheme, uint32_t axis)
{
    int64_t block = kiln_scheme_block(scheme, axis);
    int64_t shift = 0;
    while (block != 0 && (int64_t)1 << shift < block) {
        shift++;
    }
    return block == 0 ? WHOLE : shift;
}

static int64_t step_of(uint32_t bits)
{
    return DOT_LANES * (32 / (int64_t)bits);
}

/// Are the parts of the weight at places that pointers to their elements reach?
static bool places_of(const kilni_exec *exec, kiln_quant_dot_shape *s)
{
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    kiln_quant_layout layout;
    int64_t size = (int64_t)kiln_dtype_size(kiln_scheme_scale(b->scheme));
    int64_t base = exec->inputs[1].offset_bytes;
    if (!kiln_quant_layout_of(b, &layout) || base % 4 != 0 ||
        (base + layout.scales_at) % size != 0) {
        return false;
    }
    s->k_blocks = layout.blocks[1];
    s->weight_start = base / 4;
    s->scales_start = (base + layout.scales_at) / size;
    s->has_global = layout.global_at >= 0 ? 1 : 0;
    s->global_start = s->has_global != 0 ? (base + layout.global_at) / 4 : 0;
    return s->has_global == 0 || (base + layout.global_at) % 4 == 0;
}

/// Whether steps are whole, and scales change where a kernel looks for another one.
static bool steps_of(const kilni_exec *exec, const kiln_quant_dot_shape *s, uint32_t bits,
                     int64_t block)
{
    const kiln_device_info *info = &exec->backend->info;
    int64_t vector = VECTOR_BITS / (int64_t)bits;
    if (kilni_exec_is_block(exec)) {
        return s->k % step_of(bits) == 0 &&
               (block == 0 || block * DOT_MOST_BLOCKS >= step_of(bits));
    }
    return s->k % vector == 0 && (block == 0 || block >= vector) && s->weight_start % 4 == 0 &&
           info->max_work_group >= TEAM_GROUP && info->local_bytes >= TEAM_LOCAL;
}

bool kilni_exec_takes_quant_dot(const kilni_exec *exec, kiln_quant_dot_shape *out_shape)
{
    const kiln_tensor_desc *a = &exec->record->inputs[0];
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    uint32_t bits = kiln_quant_bits(b->dtype);
    kiln_quant_dot_shape *s = out_shape;
    if (a->dtype != KILN_DTYPE_F32 || exec->outputs[0].dtype != KILN_DTYPE_F32 ||
        (bits != 4 && bits != 8) || a->rank < 2 || b->rank != 2 ||
        kiln_op_attr_i64(exec->record, KILN_KEY_TRANSPOSE_A) != 0 ||
        kiln_op_attr_i64(exec->record, KILN_KEY_TRANSPOSE_B) == 0) {
        return false;
    }
    int64_t block = kiln_scheme_block(b->scheme, 1);
    *s = (kiln_quant_dot_shape){.n = b->dims[0], .k = b->dims[1], .each = DOT_COLUMNS};
    s->k_shift = kilni_exec_quant_shift(b->scheme, 1);
    s->n_shift = kilni_exec_quant_shift(b->scheme, 0);
    s->m = s->k > 0 ? kiln_desc_count(a) / s->k : 0;
    return s->m > 0 && s->n > 0 && s->m <= DOT_MOST_ROWS && places_of(exec, s) &&
           steps_of(exec, s, bits, block);
}

static kiln_status kernel_for(kilni_exec *exec, const kiln_quant_dot_shape *shape, const char *name,
                              kilni_cl_args *args)
{
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    uint32_t bits = kiln_quant_bits(b->dtype);
    int64_t blocks = step_of(bits) >> shape->k_shift;
    kilni_exec_options options = {.length = 0};
    kilni_exec_define_dtype(&options, "A", kiln_scheme_scale(b->scheme));
    kilni_exec_define(&options, "BITS", bits);
    kilni_exec_define(&options, "ROWS", shape->m == 1 ? 1 : DOT_ROWS);
    kilni_exec_define(&options, "BLOCKS", blocks > 1 ? (uint32_t)blocks : 1);
    return kilni_exec_kernel(exec, "quant_dot.cl", name, &options, args);
}

/// The rows as the kernel reads them, in scratch memory.
static kiln_status lay_out(kilni_exec *exec, kiln_quant_dot_shape *shape, kiln_buffer **out_terms)
{
    int64_t step = step_of(kiln_quant_bits(exec->record->inputs[1].dtype));
    int64_t steps = shape->m * (shape->k / step);
    kiln_view a = {0};
    kilni_cl_args args;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &a));
    KILN_TRY(out, status, kilni_exec_alloc(exec, steps * (step + DOT_LANES) * 4, out_terms));
    KILN_TRY(out, status, kernel_for(exec, shape, "kiln_quant_dot_terms", &args));
    shape->a_start = kilni_exec_start(&a);
    kilni_cl_push_bytes(&args, shape, sizeof(*shape));
    kilni_cl_push_buffer(&args, *out_terms);
    kilni_cl_push_buffer(&args, a.buffer);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, steps, 1));
out:
    return status;
}

// ---- on GPUs ----

/// Whether quant_tensor.cl takes it, which rounds a row to 30 bits of the largest of 32 neighbours.
static bool takes_tensor(const kilni_exec *exec, const kiln_quant_dot_shape *shape)
{
    const kiln_device_info *info = &exec->backend->info;
    return (info->features & KILN_FEATURE_WGMMA) != 0 &&
           (info->features & KILN_FEATURE_STRICT) == 0 && info->max_work_group >= TENSOR_GROUP &&
           shape->m == 1 && shape->k_shift >= TENSOR_SHIFT && shape->k <= INT32_MAX / 2 &&
           shape->n <= INT32_MAX / (shape->k / 16);
}

/// Tiles of a work-group: the most that leave a group and a half for each compute unit. 0 where it
/// is not quant_tensor.cl's.
static int64_t tiles_for(const kilni_exec *exec, const kiln_quant_dot_shape *shape,
                         const kiln_quant_team_part *products, uint32_t n)
{
    int64_t tiles = takes_tensor(exec, shape) ? TENSOR_TILES : 0;
    int64_t columns = 0;
    for (uint32_t i = 0; i < n; i++) {
        columns += products[i].n;
    }
    while (tiles > 1 &&
           2 * columns < 3 * tiles * TENSOR_COLUMNS * exec->backend->info.compute_units) {
        tiles /= 2;
    }
    return tiles;
}

/// But for the number of its groups.
static kiln_quant_team_part part_of(const kilni_exec *exec, const kiln_quant_dot_shape *shape)
{
    return (kiln_quant_team_part){
        .n = shape->n,
        .n_shift = shape->n_shift,
        .has_global = shape->has_global,
        .out_start = kilni_exec_start(&exec->outputs[0]),
        .weight_start = shape->weight_start,
        .scales_start = shape->scales_start,
        .global_start = shape->global_start,
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

static kiln_status team_kernel(kilni_exec *exec, const kiln_quant_dot_shape *shape, uint32_t places,
                               int64_t tiles, kilni_cl_args *args)
{
    const kiln_tensor_desc *b = &exec->record->inputs[1];
    kilni_exec_options options = {.length = 0};
    kilni_exec_define_dtype(&options, "A", kiln_scheme_scale(b->scheme));
    kilni_exec_define(&options, "BITS", kiln_quant_bits(b->dtype));
    kilni_exec_define(&options, "PRODUCTS", places);
    if (tiles == 0) {
        kilni_exec_define(&options, "ROWS", shape->m == 1 ? 1 : DOT_ROWS);
        return kilni_exec_kernel(exec, "quant_team.cl", "kiln_quant_team", &options, args);
    }
    kilni_exec_define(&options, "TILES", tiles);
    kilni_exec_define(&options, "SHIFT",
                      shape->k_shift < TENSOR_MOST_SHIFT ? shape->k_shift : TENSOR_MOST_SHIFT);
    if (!kilni_cl_is_nvidia(exec->backend->info.extensions)) { // no PTX: only tests
        kilni_exec_define(&options, "PLAIN", 1);
    }
    return kilni_exec_kernel(exec, "quant_tensor.cl", "kiln_quant_tensor", &options, args);
}

static kiln_status launch_team(kilni_exec *exec, const kiln_quant_dot_shape *shape,
                               const kiln_joined_op *ops, const kiln_quant_team_part *products,
                               uint32_t n)
{
    uint32_t places = places_for(n);
    kiln_quant_team_shape s = {
        .m = shape->m, .k = shape->k, .k_shift = shape->k_shift, .k_blocks = shape->k_blocks};
    int64_t tiles = tiles_for(exec, shape, products, n);
    int64_t group = tiles > 0 ? TENSOR_GROUP : TEAM_GROUP;
    int64_t columns = tiles > 0 ? tiles * TENSOR_COLUMNS : TEAM_COLUMNS;
    int64_t row_groups = kilni_exec_ceil_div(shape->m, shape->m == 1 ? 1 : DOT_ROWS);
    kiln_view a = {0};
    kilni_cl_args args;
    int64_t groups = 0;
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &a);
    if (status == KILN_STATUS_OK) {
        status = team_kernel(exec, shape, places, tiles, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s.a_start = kilni_exec_start(&a);
    for (uint32_t i = 0; i < n; i++) {
        s.parts[i] = products[i];
        s.parts[i].groups = kilni_exec_ceil_div(products[i].n, columns) * row_groups;
        groups += s.parts[i].groups;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, a.buffer);
    for (uint32_t i = 0; i < places; i++) {
        const kiln_joined_op *op = &ops[i < n ? i : 0];
        kilni_cl_push_buffer(&args, op->outputs[0].buffer);
        kilni_cl_push_buffer(&args, op->inputs[1].buffer);
    }
    return kilni_exec_launch(exec, &args, groups * group, (size_t)group);
}

static kiln_status one_product(kilni_exec *exec, const kiln_quant_dot_shape *shape)
{
    const kiln_joined_op op = {exec->record, exec->inputs, exec->outputs};
    const kiln_quant_team_part part = part_of(exec, shape);
    return launch_team(exec, shape, &op, &part, 1);
}

kiln_status kilni_exec_quant_dot(kilni_exec *exec, kiln_quant_dot_shape *shape)
{
    kiln_buffer *terms = NULL;
    kilni_cl_args args;
    int64_t rows = shape->m == 1 ? 1 : DOT_ROWS;
    if (!kilni_exec_is_block(exec)) {
        return one_product(exec, shape);
    }
    kiln_status status = lay_out(exec, shape, &terms);
    if (status == KILN_STATUS_OK) {
        status = kernel_for(exec, shape, "kiln_quant_dot", &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    shape->out_start = kilni_exec_start(&exec->outputs[0]);
    kilni_cl_push_bytes(&args, shape, sizeof(*shape));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, terms);
    for (int i = 0; i < 3; i++) { // values, scales and the global scale
        kilni_cl_push_buffer(&args, exec->inputs[1].buffer);
    }
    return kilni_exec_launch(
        exec, &args,
        kilni_exec_ceil_div(shape->n, shape->each) * kilni_exec_ceil_div(shape->m, rows), 1);
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
           takes_tensor(first, of) == takes_tensor(exec, shape) &&
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
           launch_team(&first, &shapes[0], ops, products, n_ops) == KILN_STATUS_OK;
}
