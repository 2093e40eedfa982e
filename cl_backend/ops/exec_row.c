// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches softmax.cl and batch_norm.cl. Decides how rows are spread over work-items; a softmax of
// a view that is not dense works on a copy.
#include "exec_internal.h"

enum { ROW_GROUP = 256, ROW_ITEM_WORK = 4096, ROW_COLUMN_VECTORS = 8 };

typedef struct softmax { ///< of dense [outer, length, inner]
    kiln_view input;
    kiln_view output;
    int64_t outer;
    int64_t length;
    int64_t inner;
    int64_t each;
    int64_t items;
    int64_t vectors; ///< of columns that a work-item takes
    size_t group;
    const char *form;
} softmax;

static void softmax_cut(const kilni_exec *exec, softmax *s, uint32_t vector)
{
    bool block = kilni_exec_is_block(exec);
    s->each = 1;
    s->group = 64;
    s->vectors = block ? ROW_COLUMN_VECTORS : 1;
    if (s->inner > 1) {
        s->form = "COLUMNS";
        s->items = s->outer * kilni_exec_ceil_div(s->inner, vector * s->vectors);
    } else if (block || s->length < ROW_GROUP / 4) {
        int64_t fair =
            kilni_exec_ceil_div(s->outer, 4 * (int64_t)exec->backend->info.compute_units);
        int64_t most = block ? ROW_ITEM_WORK / s->length + 1 : 1;
        s->form = "ROWS";
        s->each = most < fair ? most : fair;
        s->items = kilni_exec_ceil_div(s->outer, s->each);
    } else {
        s->form = "GROUP";
        s->items = s->outer * ROW_GROUP;
        s->group = ROW_GROUP;
    }
}

static kiln_status softmax_launch(kilni_exec *exec, const softmax *s, uint32_t vector)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kilni_exec_define_dtype(&options, "A", s->input.dtype);
    kilni_exec_define(&options, "LOG", exec->record->op == KILN_OP_LOG_SOFTMAX ? 1 : 0);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, s->form, s->group == ROW_GROUP ? ROW_GROUP : 1);
    kilni_exec_define(&options, "NC", s->vectors);
    kiln_status status = kilni_exec_kernel(exec, "softmax.cl", "kiln_softmax", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, s->output.buffer);
    kilni_cl_push_buffer(&args, s->input.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&s->output));
    kilni_cl_push_i64(&args, kilni_exec_start(&s->input));
    kilni_cl_push_i64(&args, s->outer);
    kilni_cl_push_i64(&args, s->length);
    kilni_cl_push_i64(&args, s->inner);
    kilni_cl_push_i64(&args, s->each);
    return kilni_exec_launch(exec, &args, s->items, s->group);
}

/// Few long columns leave a GPU idle: they become rows in scratch memory, and columns again.
static bool is_better_by_rows(const kilni_exec *exec, const softmax *s)
{
    int64_t enough = 1024 * (int64_t)exec->backend->info.compute_units;
    return !kilni_exec_is_block(exec) && s->inner > 1 && s->length >= ROW_GROUP &&
           s->items < enough;
}

static kiln_status softmax_by_rows(kilni_exec *exec, softmax *s, uint32_t vector)
{
    kiln_tensor_desc desc = {.dtype = s->input.dtype, .rank = 3};
    const int64_t strides[3] = {s->length * s->inner, 1, s->inner};
    softmax rows = *s;
    kiln_view from = s->input;
    kiln_view to = s->output;
    desc.dims[0] = s->outer;
    desc.dims[1] = s->inner;
    desc.dims[2] = s->length;
    from.rank = to.rank = 3;
    for (uint32_t i = 0; i < 3; i++) {
        from.dims[i] = to.dims[i] = desc.dims[i];
        from.strides[i] = to.strides[i] = strides[i];
    }
    rows.input = kiln_view_dense(&desc, NULL);
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &rows.input.buffer);
    rows.output = rows.input; // a row is read before its elements are replaced
    rows.outer = s->outer * s->inner;
    rows.inner = 1;
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_copy(exec, &from, &rows.input);
    }
    if (status == KILN_STATUS_OK) {
        softmax_cut(exec, &rows, vector);
        status = softmax_launch(exec, &rows, vector);
    }
    return status == KILN_STATUS_OK ? kilni_exec_copy(exec, &rows.output, &to) : status;
}

kiln_status kilni_exec_softmax(kilni_exec *exec)
{
    softmax s = {.outer = 1, .length = 1, .inner = 1};
    uint32_t axis = kilni_exec_axis(exec, exec->inputs[0].rank);
    uint32_t vector = kilni_exec_vector(exec, exec->inputs[0].dtype);
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &s.input);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s.output = exec->outputs[0];
    for (uint32_t i = 0; i < s.input.rank; i++) {
        *(i < axis ? &s.outer : i == axis ? &s.length : &s.inner) *= s.input.dims[i];
    }
    softmax_cut(exec, &s, vector);
    return is_better_by_rows(exec, &s) ? softmax_by_rows(exec, &s, vector)
                                       : softmax_launch(exec, &s, vector);
}

/// The four parameters share one set of strides, so they are made dense; the first stands for all.
static kiln_status batch_norm_parameters(kilni_exec *exec, kiln_view params[4])
{
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < 4; i++) {
        const kiln_view *input = &exec->inputs[i + 1];
        bool placed = input->offset_bytes == 0 && kiln_view_is_contiguous(input);
        kiln_tensor_desc desc = {.dtype = input->dtype, .rank = 1, .dims = {input->dims[0]}};
        params[i] = *input;
        if (!placed) {
            params[i] = kiln_view_dense(&desc, NULL);
            status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &params[i].buffer);
        }
        if (!placed && status == KILN_STATUS_OK) {
            status = kilni_exec_copy(exec, input, &params[i]);
        }
    }
    return status;
}

static kiln_status batch_norm_launch(kilni_exec *exec, const kiln_view params[4],
                                     const kilni_exec_shape *shape, uint32_t vector)
{
    kiln_dtype dtype = exec->outputs[0].dtype;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    float epsilon = (float)kiln_op_attr_f64(exec->record, KILN_KEY_EPSILON);
    double epsilon_f64 = kiln_op_attr_f64(exec->record, KILN_KEY_EPSILON);
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define_shape(exec, &options, shape, vector);
    kiln_status status =
        kilni_exec_kernel(exec, "batch_norm.cl", "kiln_batch_norm", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, shape, sizeof(*shape));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, exec->inputs[0].buffer);
    for (unsigned i = 0; i < 4; i++) {
        kilni_cl_push_buffer(&args, params[i].buffer);
    }
    if (dtype == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(&args, &epsilon_f64, sizeof(epsilon_f64));
    } else {
        kilni_cl_push_f32(&args, epsilon);
    }
    return kilni_exec_launch(exec, &args, shape->items, 256);
}

kiln_status kilni_exec_batch_norm(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    uint32_t vector = kilni_exec_vector(exec, out->dtype);
    kiln_view params[4];
    kilni_exec_loops loops;
    kilni_exec_shape shape;
    kiln_status status = batch_norm_parameters(exec, params);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_view along_channels = *out;
    along_channels.offset_bytes = 0;
    for (uint32_t i = 0; i < out->rank; i++) {
        along_channels.strides[i] = i == 1 ? 1 : 0;
    }
    kilni_exec_loops_init(&loops, out->dims, out->rank);
    kilni_exec_loops_add(&loops, out);
    kilni_exec_loops_add(&loops, &exec->inputs[0]);
    kilni_exec_loops_add(&loops, &along_channels);
    kilni_exec_shape_init(exec, &shape, &loops, vector);
    return batch_norm_launch(exec, params, &shape, vector);
}
