// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches pool.cl, window_back.cl and columns.cl: pools, what windows give back, columns. Inputs
// that are not dense are copied first. Decides how the work is cut; the geometry of windows is ir's
// and arrives as lengths of input and output.
#include "exec_internal.h"
#include "product_args.h"
#include "window_args.h"

enum { WINDOW_ITEM_WORK = 4096, CHUNK = 64 };

int64_t kilni_exec_product(const int64_t lengths[KILNI_EXEC_SPATIAL])
{
    return lengths[0] * lengths[1] * lengths[2];
}

void kilni_exec_window_init(const kilni_exec *exec, kilni_exec_window *w, const kiln_view *in,
                            const kiln_view *out, const kiln_view *kernel)
{
    uint32_t axes = in->rank - 2;
    *w = (kilni_exec_window){.in = {1, 1, 1},
                             .out = {1, 1, 1},
                             .taps = {1, 1, 1},
                             .strides = {1, 1, 1},
                             .dilations = {1, 1, 1}};
    for (uint32_t i = 0; i < axes; i++) {
        uint32_t at = KILNI_EXEC_SPATIAL - axes + i;
        w->in[at] = in->dims[2 + i];
        w->out[at] = out != NULL ? out->dims[2 + i] : 1;
        w->taps[at] =
            kernel != NULL ? kernel->dims[2 + i] : kilni_exec_list(exec, KILN_KEY_KERNEL, i, 1);
        w->strides[at] = kilni_exec_list(exec, KILN_KEY_STRIDES, i, 1);
        w->dilations[at] = kilni_exec_list(exec, KILN_KEY_DILATIONS, i, 1);
        w->begin[at] = kilni_exec_list(exec, KILN_KEY_PADDING, i, 0);
        w->end[at] = kilni_exec_list(exec, KILN_KEY_PADDING, axes + i, 0);
    }
}

/// Rows for a work-item of the block form, so that there are enough items and none is tiny.
static int64_t rows_each(const kilni_exec *exec, int64_t rows, int64_t work)
{
    int64_t fair = kilni_exec_ceil_div(rows, 4 * (int64_t)exec->backend->info.compute_units);
    int64_t enough = WINDOW_ITEM_WORK / (work > 0 ? work : 1) + 1;
    return enough < fair ? enough : fair;
}

// ---- pools ----

static bool is_adaptive(kiln_op op)
{
    return op == KILN_OP_ADAPTIVE_AVG_POOL || op == KILN_OP_ADAPTIVE_MAX_POOL ||
           op == KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD;
}

static void define_pool(const kilni_exec *exec, kilni_exec_options *options)
{
    kiln_op op = exec->record->op;
    bool mean = op == KILN_OP_AVG_POOL || op == KILN_OP_ADAPTIVE_AVG_POOL;
    bool include_pad = kiln_op_attr_i64(exec->record, KILN_KEY_INCLUDE_PAD) != 0;
    double p = kiln_op_attr_f64(exec->record, KILN_KEY_P);
    kilni_exec_define(options, "MODE", op == KILN_OP_LP_POOL ? 2 : mean ? 1 : 0);
    kilni_exec_define(options, "P", op != KILN_OP_LP_POOL || (p != 1 && p != 2) ? 0 : (int64_t)p);
    kilni_exec_define(options, "INDICES", exec->record->n_outputs == 2 ? 1 : 0);
    kilni_exec_define(options, "INCLUDE_PAD", include_pad ? 1 : 0);
    kilni_exec_define(options, "ADAPTIVE", is_adaptive(op) ? 1 : 0);
    kilni_exec_define(options, "ROWS", kilni_exec_is_block(exec) ? 1 : 0);
}

static void push_exponent(const kilni_exec *exec, kilni_cl_args *args, kiln_dtype dtype)
{
    double p = kiln_op_attr_f64(exec->record, KILN_KEY_P);
    if (dtype == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(args, &p, sizeof(p));
    } else {
        kilni_cl_push_f32(args, (float)p);
    }
}

kiln_status kilni_exec_pool(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_pool_shape s = {.planes = out->dims[0] * out->dims[1], .each = 1};
    kiln_view input;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    bool block = kilni_exec_is_block(exec);
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &input);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_window_init(exec, &s.w, &input, out, NULL);
    int64_t rows = s.planes * s.w.out[0] * s.w.out[1];
    int64_t work = is_adaptive(exec->record->op) ? s.w.in[1] * s.w.in[2] / s.w.out[1] + 1
                                                 : s.w.out[2] * kilni_exec_product(s.w.taps);
    s.each = block ? rows_each(exec, rows, work) : 1;
    s.start[0] = kilni_exec_start(out);
    s.start[1] = kilni_exec_start(&input);
    kilni_exec_define_dtype(&options, "A", input.dtype);
    define_pool(exec, &options);
    status = kilni_exec_kernel(exec, "pool.cl", "kiln_pool", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (exec->record->n_outputs == 2) {
        s.start[2] = kilni_exec_start(&exec->outputs[1]);
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, input.buffer);
    if (exec->record->n_outputs == 2) {
        kilni_cl_push_buffer(&args, exec->outputs[1].buffer);
    } else if (exec->record->op == KILN_OP_LP_POOL) {
        push_exponent(exec, &args, input.dtype);
    }
    int64_t items = block ? kilni_exec_ceil_div(rows, s.each) : rows * s.w.out[2];
    return kilni_exec_launch(exec, &args, items, 256);
}

// ---- what windows give back ----

static kiln_status launch_back(kilni_exec *exec, kiln_back_shape *s, kiln_view *views, int64_t mode)
{
    const kiln_view *out = &exec->outputs[0];
    bool block = kilni_exec_is_block(exec);
    int64_t chunk = block ? CHUNK : 1;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    bool include_pad = kiln_op_attr_i64(exec->record, KILN_KEY_INCLUDE_PAD) != 0;
    s->planes = out->dims[0] * out->dims[1];
    s->chunks = kilni_exec_ceil_div(s->w.in[2], chunk);
    int64_t pieces = s->planes * s->w.in[0] * s->w.in[1] * s->chunks;
    int64_t length = s->w.in[2] < chunk ? s->w.in[2] : chunk;
    s->each = block ? rows_each(exec, pieces, length * kilni_exec_product(s->w.taps)) : 1;
    s->start[0] = kilni_exec_start(out);
    kilni_exec_define_dtype(&options, "A", out->dtype);
    kilni_exec_define(&options, "MODE", mode);
    kilni_exec_define(&options, "CHUNK", chunk);
    kilni_exec_define(&options, "INCLUDE_PAD", include_pad ? 1 : 0);
    kilni_exec_define_dtype(&options, "B",
                            exec->record->n_inputs == 2 ? views[1].dtype : KILN_DTYPE_I64);
    kiln_status status =
        kilni_exec_kernel(exec, "window_back.cl", "kiln_window_back", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        s->start[i + 1] = kilni_exec_start(&views[i]);
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, out->buffer);
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(pieces, s->each), 256);
}

kiln_status kilni_exec_pool_backward(kilni_exec *exec)
{
    kiln_op op = exec->record->op;
    kiln_view views[2];
    kiln_back_shape s = {.planes = 0};
    kiln_status status = kilni_exec_dense_inputs(exec, views);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_window_init(exec, &s.w, &exec->outputs[0], &views[0], NULL);
    return launch_back(exec, &s, views,
                       op == KILN_OP_MAX_POOL_BACKWARD   ? 1
                       : op == KILN_OP_AVG_POOL_BACKWARD ? 2
                                                         : 3);
}

static void count_windows(kilni_exec_window *w)
{
    for (uint32_t i = 0; i < KILNI_EXEC_SPATIAL; i++) {
        int64_t reach = (w->taps[i] - 1) * w->dilations[i] + 1;
        w->out[i] = (w->in[i] + w->begin[i] + w->end[i] - reach) / w->strides[i] + 1;
    }
}

kiln_status kilni_exec_col2im(kilni_exec *exec)
{
    kiln_view view;
    kiln_back_shape s = {.planes = 0};
    kiln_status status = kilni_exec_dense_inputs(exec, &view);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_window_init(exec, &s.w, &exec->outputs[0], NULL, NULL);
    count_windows(&s.w);
    return launch_back(exec, &s, &view, 0);
}

// ---- columns ----

kiln_status kilni_exec_im2col(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    bool block = kilni_exec_is_block(exec);
    kiln_dtype raw = kilni_exec_raw(out->dtype);
    kiln_columns_shape s = {.each = 1};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_view input;
    kiln_status status = kilni_exec_dense_inputs(exec, &input);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_window_init(exec, &s.w, &input, NULL, NULL);
    count_windows(&s.w);
    s.rows = out->dims[0] * out->dims[1] * s.w.out[0] * s.w.out[1];
    s.each = block ? rows_each(exec, s.rows, s.w.out[2]) : 1;
    s.start[0] = kilni_exec_start(out);
    s.start[1] = kilni_exec_start(&input);
    kilni_exec_define_dtype(&options, "A", raw);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, raw));
    kilni_exec_define(&options, "ROWS", block ? 1 : 0);
    status = kilni_exec_kernel(exec, "im2col.cl", "kiln_im2col", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, input.buffer);
    int64_t items = block ? kilni_exec_ceil_div(s.rows, s.each) : s.rows * s.w.out[2];
    return kilni_exec_launch(exec, &args, items, 256);
}

// ---- max_unpool ----

/// Of the elements that go to one place the last wins: first each place finds the last, then all
/// places read.
static kiln_status unpool_pass(kilni_exec *exec, kiln_unpool_shape *s, const kiln_view views[2],
                               kiln_buffer *winners, bool search)
{
    const kiln_view *out = &exec->outputs[0];
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_dtype raw = kilni_exec_raw(out->dtype);
    int64_t elements = s->planes * (search ? s->count : s->plane);
    s->each = kilni_exec_is_block(exec) ? rows_each(exec, elements, 1) : 1;
    kilni_exec_define_dtype(&options, "A", raw);
    kilni_exec_define_dtype(&options, "B", views[1].dtype);
    kiln_status status = kilni_exec_kernel(
        exec, "max_unpool.cl", search ? "kiln_unpool_search" : "kiln_unpool_take", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, winners);
    if (search) {
        kilni_cl_push_buffer(&args, views[1].buffer);
    } else {
        kilni_cl_push_buffer(&args, out->buffer);
        kilni_cl_push_buffer(&args, views[0].buffer);
    }
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(elements, s->each), 256);
}

kiln_status kilni_exec_max_unpool(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_view views[2];
    kiln_unpool_shape s = {.planes = out->dims[0] * out->dims[1]};
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_I32, .rank = 1, .dims = {kilni_exec_count(out)}};
    kiln_view winners = kiln_view_dense(&desc, NULL);
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense_inputs(exec, views));
    s.count = kilni_exec_count(&views[0]) / s.planes;
    s.plane = desc.dims[0] / s.planes;
    if (s.count > INT32_MAX) {
        return kiln_fail(exec->err, UNIMPLEMENTED,
                         "max_unpool: a plane of x has 2^31 elements or more");
    }
    KILN_TRY(out, status, kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &winners.buffer));
    KILN_TRY(out, status, kilni_exec_fill(exec, UINT32_MAX, &winners));
    s.start[0] = kilni_exec_start(out);
    s.start[1] = kilni_exec_start(&views[0]);
    s.start[2] = kilni_exec_start(&views[1]);
    if (s.count > 0) {
        KILN_TRY(out, status, unpool_pass(exec, &s, views, winners.buffer, true));
    }
    KILN_TRY(out, status, unpool_pass(exec, &s, views, winners.buffer, false));
out:
    return status;
}
