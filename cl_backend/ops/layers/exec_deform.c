// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches deform.cl on dense copies of what is not dense. Decides how many elements a work-item
// has; the gradient of x is summed by planes, in an order that does not depend on the device.
#include "exec_internal.h"
#include "window_args.h"

/// Dense views of all inputs, and the geometry. `windows` are those of the offset.
static kiln_status prepare(kilni_exec *exec, kiln_view views[4], kiln_deform_shape *s)
{
    kiln_status status = KILN_STATUS_OK;
    *s = (kiln_deform_shape){.groups = kiln_op_attr_i64(exec->record, KILN_KEY_OFFSET_GROUPS)};
    for (unsigned i = 0; status == KILN_STATUS_OK && i < exec->record->n_inputs; i++) {
        status = kilni_exec_dense(exec, &exec->inputs[i], &views[i]);
        s->start[i] = status == KILN_STATUS_OK ? kilni_exec_start(&views[i]) : 0;
    }
    if (status == KILN_STATUS_OK) {
        kilni_exec_window_init(exec, &s->w, &views[0], &views[1], NULL);
        s->batch = views[0].dims[0];
        s->channels = views[0].dims[1];
    }
    return status;
}

static kiln_status kernel_of(kilni_exec *exec, const char *name, int64_t mask,
                             kilni_cl_args *out_args)
{
    kilni_exec_options options = {.length = 0};
    kilni_exec_define_dtype(&options, "A", exec->inputs[0].dtype);
    kilni_exec_define(&options, "MASK", mask);
    return kilni_exec_kernel(exec, "deform.cl", name, &options, out_args);
}

static void cut(const kilni_exec *exec, kiln_deform_shape *s, int64_t items)
{
    int64_t fair = kilni_exec_ceil_div(items, 4 * (int64_t)exec->backend->info.compute_units);
    s->each = kilni_exec_is_block(exec) && fair > 0 ? (fair < 1024 ? fair : 1024) : 1;
}

static kiln_status launch_deform(kilni_exec *exec, kilni_cl_args *args, const kiln_deform_shape *s,
                                 int64_t items)
{
    return items == 0 ? KILN_STATUS_OK
                      : kilni_exec_launch(exec, args, kilni_exec_ceil_div(items, s->each), 64);
}

kiln_status kilni_exec_deform_im2col(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_view views[4];
    kiln_deform_shape s;
    kilni_cl_args args;
    bool has_mask = exec->record->n_inputs > 2;
    kiln_status status = prepare(exec, views, &s);
    if (status == KILN_STATUS_OK) {
        status = kernel_of(exec, "kiln_deform_columns",
                           !has_mask            ? 0
                           : views[2].rank == 0 ? 1
                                                : 2,
                           &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s.result[0] = kilni_exec_start(out);
    cut(exec, &s, kilni_exec_count(out));
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, views[0].buffer);
    kilni_cl_push_buffer(&args, views[1].buffer);
    kilni_cl_push_buffer(&args, views[has_mask ? 2 : 1].buffer);
    return launch_deform(exec, &args, &s, kilni_exec_count(out));
}

static kiln_status launch_offsets(kilni_exec *exec, kiln_deform_shape *s, const kiln_view views[4])
{
    kilni_cl_args args;
    int64_t items = kilni_exec_count(&exec->outputs[2]);
    kiln_status status = kernel_of(exec, "kiln_deform_offsets", 2, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cut(exec, s, items);
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, exec->outputs[1].buffer);
    kilni_cl_push_buffer(&args, exec->outputs[2].buffer);
    for (unsigned i = 0; i < 4; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    return launch_deform(exec, &args, s, items);
}

static kiln_status launch_x(kilni_exec *exec, kiln_deform_shape *s, const kiln_view views[4])
{
    kilni_cl_args args;
    kiln_buffer *sums = NULL;
    int64_t count = s->batch * s->channels * kilni_exec_product(s->w.in);
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(views[0].dtype));
    kiln_status status = kilni_exec_alloc(exec, count * size, &sums);
    if (status == KILN_STATUS_OK) {
        status = kernel_of(exec, "kiln_deform_x", 2, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s->each = 1;
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, sums);
    for (unsigned i = 1; i < 4; i++) {
        kilni_cl_push_buffer(&args, views[i].buffer);
    }
    status = launch_deform(exec, &args, s, s->batch * s->channels);
    if (status == KILN_STATUS_OK) {
        status = kernel_of(exec, "kiln_deform_narrow", 2, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cut(exec, s, count);
    kilni_cl_push_bytes(&args, s, sizeof(*s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, sums);
    return launch_deform(exec, &args, s, count);
}

kiln_status kilni_exec_deform_im2col_backward(kilni_exec *exec)
{
    kiln_view views[4];
    kiln_deform_shape s;
    kiln_status status = prepare(exec, views, &s);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < 3; i++) {
        s.result[i] = kilni_exec_start(&exec->outputs[i]);
    }
    if (status == KILN_STATUS_OK) {
        status = launch_offsets(exec, &s, views);
    }
    return status == KILN_STATUS_OK ? launch_x(exec, &s, views) : status;
}
