// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches grid_sample.cl and roi_align.cl on dense copies of what is not dense. Decides how many
// points and channels a work-item has.
#include "exec_internal.h"
#include "window_args.h"

/// A number of the type of computation.
static void push_number(kilni_cl_args *args, kiln_dtype dtype, double value)
{
    if (dtype == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(args, &value, sizeof(value));
    } else {
        kilni_cl_push_f32(args, (float)value);
    }
}

static int64_t items_each(const kilni_exec *exec, int64_t items, int64_t most)
{
    if (!kilni_exec_is_block(exec)) {
        return 1;
    }
    int64_t fair = kilni_exec_ceil_div(items, 4 * (int64_t)exec->backend->info.compute_units);
    return fair < most ? fair : most;
}

static void define_grid(const kilni_exec *exec, uint32_t axes, kilni_exec_options *options)
{
    const kiln_attr *mode = kiln_op_attr(exec->record, KILN_KEY_MODE);
    const kiln_attr *padding = kiln_op_attr(exec->record, KILN_KEY_PADDING_MODE);
    char m = mode->type == KILN_ATTR_STRING ? mode->v.text[0] : 'l';
    char p = padding->type == KILN_ATTR_STRING ? padding->v.text[0] : 'z';
    bool align = kiln_op_attr_i64(exec->record, KILN_KEY_ALIGN_CORNERS) != 0;
    kilni_exec_define_dtype(options, "A", exec->outputs[0].dtype);
    kilni_exec_define(options, "AXES", axes);
    kilni_exec_define(options, "MODE", m == 'n' ? 1 : m == 'c' ? 4 : 2);
    kilni_exec_define(options, "PADDING", p == 'b' ? 1 : p == 'r' ? 2 : 0);
    kilni_exec_define(options, "ALIGN", align ? 1 : 0);
}

kiln_status kilni_exec_grid_sample(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    uint32_t axes = out->rank - 2;
    kiln_view views[2];
    kiln_grid_shape s = {
        .batch = out->dims[0], .channels = out->dims[1], .in = {1, 1, 1}, .points = 1};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status status = kilni_exec_dense_inputs(exec, views);
    define_grid(exec, axes, &options);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "grid_sample.cl", "kiln_grid_sample", &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < axes; i++) {
        s.in[KILNI_EXEC_SPATIAL - axes + i] = views[0].dims[2 + i];
        s.points *= out->dims[2 + i];
    }
    s.channels_each = kilni_exec_is_block(exec) ? s.channels : 1;
    s.each = items_each(exec, s.batch * s.points, 256);
    s.start[0] = kilni_exec_start(out);
    s.start[1] = kilni_exec_start(&views[0]);
    s.start[2] = kilni_exec_start(&views[1]);
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    push_number(&args, out->dtype, kiln_op_attr_f64(exec->record, KILN_KEY_CUBIC_A));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, views[0].buffer);
    kilni_cl_push_buffer(&args, views[1].buffer);
    int64_t items = kilni_exec_ceil_div(s.batch * s.points, s.each) *
                    kilni_exec_ceil_div(s.channels, s.channels_each);
    return kilni_exec_launch(exec, &args, items, 256);
}

kiln_status kilni_exec_roi_align(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    const kiln_attr *mode = kiln_op_attr(exec->record, KILN_KEY_MODE);
    const kiln_attr *coordinates = kiln_op_attr(exec->record, KILN_KEY_COORDINATES);
    bool max = mode->type == KILN_ATTR_STRING && mode->v.text[0] == 'm';
    bool half = coordinates->type != KILN_ATTR_STRING || coordinates->v.text[0] == 'h';
    kiln_view views[3];
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_status status = kilni_exec_dense_inputs(exec, views);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_define_dtype(&options, "A", out->dtype);
    kilni_exec_define_dtype(&options, "B", views[2].dtype);
    kilni_exec_define(&options, "MAX_MODE", max ? 1 : 0);
    kilni_exec_define(&options, "HALF_PIXEL", half ? 1 : 0);
    status = kilni_exec_kernel(exec, "roi_align.cl", "kiln_roi_align", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t count = kilni_exec_count(out);
    kiln_roi_shape s = {.batch = views[0].dims[0],
                        .channels = out->dims[1],
                        .in = {views[0].dims[2], views[0].dims[3]},
                        .boxes = out->dims[0],
                        .out = {out->dims[2], out->dims[3]},
                        .ratio = kiln_op_attr_i64(exec->record, KILN_KEY_SAMPLING_RATIO),
                        .each = items_each(exec, count, 64),
                        .start = {kilni_exec_start(out), kilni_exec_start(&views[0]),
                                  kilni_exec_start(&views[1]), kilni_exec_start(&views[2])}};
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    push_number(&args, out->dtype, kiln_op_attr_f64(exec->record, KILN_KEY_SPATIAL_SCALE));
    kilni_cl_push_buffer(&args, out->buffer);
    for (unsigned i = 0; i < 3; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(count, s.each), 256);
}
