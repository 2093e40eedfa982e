// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches scatter.cl for scatter, scatter_nd and select_assign, and copies for slice_assign. A
// scatter is brought to one form: lanes that never meet at one place, and for each lane a sequence
// of values with their indices. Decides how few lanes become many pieces of work: by parts of the
// result on CPUs, by sorting the places on GPUs. Sums and products of f16 and bf16 are made in f32.
#include <string.h>

#include "exec_internal.h"
#include "move_args.h"

typedef struct scatter {
    const char *mode;
    kiln_view out; ///< with the axes of the lanes
    kiln_view values;
    kiln_view indices;
    kiln_sequence t;
    uint32_t depth;
} scatter;

enum { SORT_LEAST = 512 };

static void define_scatter(const scatter *c, kilni_exec_options *options)
{
    bool moves = strcmp(c->mode, "assign") == 0 && c->out.dtype == c->values.dtype;
    kiln_dtype out = moves ? kilni_exec_raw(c->out.dtype) : c->out.dtype;
    kiln_dtype values = moves ? kilni_exec_raw(c->values.dtype) : c->values.dtype;
    kilni_exec_define_dtype(options, "O", out);
    kilni_exec_define_dtype(options, "A", values);
    kilni_exec_define_dtype(options, "B", c->indices.dtype);
    kilni_exec_define_operator(options, "IS_", c->mode);
    kilni_exec_define(options, "DEPTH", c->depth);
}

static void lanes_init(const kilni_exec *exec, const scatter *c, kilni_exec_shape *lanes,
                       uint32_t vector)
{
    kilni_exec_loops loops;
    kilni_exec_loops_init(&loops, c->values.dims, c->values.rank);
    kilni_exec_loops_add(&loops, &c->out);
    kilni_exec_loops_add(&loops, &c->values);
    kilni_exec_loops_add(&loops, &c->indices);
    kilni_exec_shape_init(exec, lanes, &loops, vector);
}

/// Whether an index serves all lanes.
static bool one_index(const kilni_exec_shape *lanes)
{
    bool one = lanes->stride[2][KILNI_EXEC_INNER] == 0;
    for (int64_t i = 0; i < lanes->rank; i++) {
        one = one && lanes->stride[2][i] == 0;
    }
    return one;
}

/// Each lane's values in order. On CPUs few lanes are done by parts of the first indexed axis.
static kiln_status in_order(kilni_exec *exec, scatter *c, const kilni_exec_shape *lanes)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    int64_t units = (int64_t)exec->backend->info.compute_units;
    int64_t length = c->depth > 0 ? c->t.lengths[0] : 1;
    int64_t parts = lanes->items < units && kilni_exec_is_block(exec) ? units : 1;
    c->t.parts = parts < length ? parts : length > 0 ? length : 1;
    c->t.part_length = kilni_exec_ceil_div(length, c->t.parts);
    define_scatter(c, &options);
    kilni_exec_define(&options, "SEGMENTS", 0);
    kilni_exec_define_text(&options, "IDX", lanes->rows > INT32_MAX ? "ulong" : "uint");
    kilni_exec_define(&options, "SHARED", lanes->stride[2][KILNI_EXEC_INNER] == 0 ? 1 : 0);
    kiln_status status = kilni_exec_kernel(exec, "scatter.cl", "kiln_scatter", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, lanes, sizeof(*lanes));
    kilni_cl_push_bytes(&args, &c->t, sizeof(c->t));
    kilni_cl_push_buffer(&args, c->out.buffer);
    kilni_cl_push_buffer(&args, c->values.buffer);
    kilni_cl_push_buffer(&args, c->indices.buffer);
    return kilni_exec_launch(exec, &args, lanes->items * c->t.parts, 64);
}

// ---- by sorting ----

static kiln_status make_scatter_keys(kilni_exec *exec, const scatter *c,
                                     kilni_exec_options *options, kiln_buffer *keys)
{
    kilni_cl_args args;
    kiln_status status = kilni_exec_kernel(exec, "scatter.cl", "kiln_scatter_keys", options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &c->t, sizeof(c->t));
    kilni_cl_push_buffer(&args, keys);
    kilni_cl_push_buffer(&args, c->indices.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&c->indices));
    return kilni_exec_launch(exec, &args, c->t.count, 256);
}

static kiln_status by_sorting(kilni_exec *exec, const scatter *c, const kilni_exec_shape *lanes)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    int64_t reach = 0;
    for (uint32_t k = 0; k < c->depth; k++) {
        reach += (c->t.lengths[k] - 1) * c->t.strides[k];
    }
    bool wide = reach >= UINT32_MAX || c->t.count >= UINT32_MAX;
    kilni_exec_sorting sorting = {.lines = 1, .length = c->t.count, .bytes = wide ? 16 : 8};
    define_scatter(c, &options);
    kilni_exec_define(&options, "SEGMENTS", wide ? 2 : 1);
    kilni_exec_define_text(&options, "IDX", lanes->rows > INT32_MAX ? "ulong" : "uint");
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_alloc(exec, sorting.length * sorting.bytes, &sorting.keys));
    KILN_TRY(out, status, make_scatter_keys(exec, c, &options, sorting.keys));
    KILN_TRY(out, status, kilni_exec_sort_keys(exec, &sorting));
    KILN_TRY(out, status,
             kilni_exec_kernel(exec, "scatter.cl", "kiln_scatter_segments", &options, &args));
    kilni_cl_push_bytes(&args, lanes, sizeof(*lanes));
    kilni_cl_push_bytes(&args, &c->t, sizeof(c->t));
    kilni_cl_push_buffer(&args, c->out.buffer);
    kilni_cl_push_buffer(&args, c->values.buffer);
    kilni_cl_push_buffer(&args, sorting.keys);
    KILN_TRY(out, status, kilni_exec_launch(exec, &args, lanes->items * c->t.count, 64));
out:
    return status;
}

// ---- all of them ----

static kiln_status run_scatter(kilni_exec *exec, scatter *c)
{
    kilni_exec_shape lanes;
    lanes_init(exec, c, &lanes, 1);
    int64_t enough = 512 * (int64_t)exec->backend->info.compute_units;
    bool sorts = !kilni_exec_is_block(exec) && lanes.items < enough && c->t.count >= SORT_LEAST &&
                 one_index(&lanes);
    return sorts ? by_sorting(exec, c, &lanes) : in_order(exec, c, &lanes);
}

/// The result begins as x, in f32 where sums of f16 and bf16 are rounded once.
static kiln_status with_result(kilni_exec *exec, scatter *c)
{
    const kiln_view *out = &exec->outputs[0];
    bool half = out->dtype == KILN_DTYPE_F16 || out->dtype == KILN_DTYPE_BF16;
    bool sums = strcmp(c->mode, "add") == 0 || strcmp(c->mode, "mul") == 0;
    if (!half || !sums) {
        kiln_status status = kilni_exec_copy(exec, &exec->inputs[0], out);
        bool nothing = kilni_exec_count(&c->values) == 0 || c->t.count == 0;
        return status == KILN_STATUS_OK && !nothing ? run_scatter(exec, c) : status;
    }
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_F32, .rank = (uint8_t)out->rank};
    memcpy(desc.dims, out->dims, sizeof(desc.dims));
    kiln_view wide = kiln_view_dense(&desc, NULL);
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &wide.buffer);
    c->out.buffer = wide.buffer;
    c->out.dtype = wide.dtype;
    c->out.offset_bytes = 0;
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_cast(exec, &exec->inputs[0], &wide);
    }
    if (status == KILN_STATUS_OK && kilni_exec_count(&c->values) > 0 && c->t.count > 0) {
        status = run_scatter(exec, c);
    }
    return status == KILN_STATUS_OK ? kilni_exec_cast(exec, &wide, out) : status;
}

static const char *mode_of(const kilni_exec *exec)
{
    const kiln_attr *mode = kiln_op_attr(exec->record, KILN_KEY_MODE);
    return mode->type == KILN_ATTR_STRING ? mode->v.text : "assign";
}

/// scatter and select_assign: the sequence runs along the axis, the other axes are lanes.
kiln_status kilni_exec_scatter(kilni_exec *exec)
{
    uint32_t axis = kilni_exec_axis(exec, exec->outputs[0].rank);
    bool select = exec->record->op == KILN_OP_SELECT_ASSIGN;
    scatter c = {.mode = mode_of(exec),
                 .out = exec->outputs[0],
                 .values = exec->inputs[1],
                 .indices = exec->inputs[2],
                 .depth = 1};
    c.t.count = c.values.dims[axis];
    c.t.value_stride = c.values.strides[axis];
    c.t.index_stride = c.indices.strides[select ? 0 : axis];
    c.t.lengths[0] = c.out.dims[axis];
    c.t.strides[0] = c.out.strides[axis];
    c.values.dims[axis] = 1;
    c.indices.rank = c.values.rank;
    for (uint32_t i = 0; i < c.values.rank; i++) {
        c.out.dims[i] = c.indices.dims[i] = c.values.dims[i];
        c.indices.strides[i] = select || i == axis ? 0 : c.indices.strides[i];
    }
    return with_result(exec, &c);
}

/// scatter_nd: the tuples are the sequence, the parts that they name are the lanes.
kiln_status kilni_exec_scatter_nd(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    uint32_t last = exec->inputs[2].rank - 1;
    scatter c = {.mode = mode_of(exec), .depth = (uint32_t)exec->inputs[2].dims[last]};
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[1], &c.values);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_dense(exec, &exec->inputs[2], &c.indices);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    c.t.count = 1;
    for (uint32_t i = 0; i < last; i++) {
        c.t.count *= c.indices.dims[i];
    }
    c.t.distance = 1;
    c.t.index_stride = c.depth;
    c.t.value_stride = 1;
    memcpy(c.t.lengths, out->dims, c.depth * sizeof(out->dims[0]));
    memcpy(c.t.strides, out->strides, c.depth * sizeof(out->strides[0]));
    c.out = *out;
    c.out.rank = c.values.rank = c.indices.rank = out->rank - c.depth;
    for (uint32_t i = c.out.rank; i-- > 0;) {
        c.out.dims[i] = c.values.dims[i] = c.indices.dims[i] = out->dims[c.depth + i];
        c.out.strides[i] = out->strides[c.depth + i];
        c.values.strides[i] = c.t.value_stride;
        c.indices.strides[i] = 0;
        c.t.value_stride *= c.values.dims[i];
    }
    return with_result(exec, &c);
}

kiln_status kilni_exec_slice_assign(kilni_exec *exec)
{
    kiln_view part;
    bool in_place = exec->inputs[0].buffer == exec->outputs[0].buffer &&
                    exec->inputs[0].offset_bytes == exec->outputs[0].offset_bytes;
    kiln_status status =
        in_place ? KILN_STATUS_OK : kilni_exec_copy(exec, &exec->inputs[0], &exec->outputs[0]);
    kiln_view_slice(exec->record, &exec->outputs[0], &part);
    return status == KILN_STATUS_OK && kilni_exec_count(&part) > 0
               ? kilni_exec_copy(exec, &exec->inputs[1], &part)
               : status;
}
