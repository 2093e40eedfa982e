// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches gather.cl for gather (an index for each element), select (an index for each place along
// the axis) and gather_nd (a tuple of indices for each part). Decides whether whole rows can be
// moved. That no index leaves the tensor is the kernel's business.
#include <string.h>

#include "exec_internal.h"
#include "move_args.h"

/// `input` and `indices` have the output's axes; along the indexed ones the input stands still.
static kiln_status launch_gather(kilni_exec *exec, const kiln_view *input, const kiln_view *indices,
                                 const kiln_tuple *t, uint32_t depth)
{
    const kiln_view *out = &exec->outputs[0];
    kiln_dtype raw = kilni_exec_raw(out->dtype);
    uint32_t vector = kilni_exec_vector(exec, raw);
    kilni_exec_options options = {.length = 0};
    kilni_exec_loops loops;
    kilni_exec_shape shape;
    kilni_cl_args args;
    kilni_exec_loops_init(&loops, out->dims, out->rank);
    kilni_exec_loops_add(&loops, out);
    kilni_exec_loops_add(&loops, input);
    kilni_exec_loops_add(&loops, indices);
    kilni_exec_shape_init(exec, &shape, &loops, vector);
    bool rows = shape.stride[0][KILNI_EXEC_INNER] == 1 && shape.stride[1][KILNI_EXEC_INNER] == 1 &&
                shape.stride[2][KILNI_EXEC_INNER] == 0;
    kilni_exec_define_dtype(&options, "O", raw);
    kilni_exec_define_dtype(&options, "B", indices->dtype);
    kilni_exec_define(&options, "DEPTH", depth);
    kilni_exec_define(&options, "ROWS", rows ? 1 : 0);
    kilni_exec_define_shape(exec, &options, &shape, vector);
    kiln_status status = kilni_exec_kernel(exec, "gather.cl", "kiln_gather", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &shape, sizeof(shape));
    kilni_cl_push_bytes(&args, t, sizeof(*t));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, input->buffer);
    kilni_cl_push_buffer(&args, indices->buffer);
    return kilni_exec_launch(exec, &args, shape.items, 256);
}

/// The input without its indexed axis, which the index replaces.
static kiln_view without_axis(const kiln_view *input, const kiln_view *out, uint32_t axis)
{
    kiln_view view = *input;
    for (uint32_t i = 0; i < view.rank; i++) {
        view.dims[i] = out->dims[i];
    }
    view.strides[axis] = 0;
    return view;
}

/// The indices with the rank of the output: those of select vary along the axis only.
static kiln_view index_view(const kilni_exec *exec, uint32_t axis)
{
    kiln_view view = exec->inputs[1];
    if (exec->record->op == KILN_OP_SELECT) {
        int64_t stride = view.strides[0];
        view.rank = exec->outputs[0].rank;
        for (uint32_t i = 0; i < view.rank; i++) {
            view.dims[i] = exec->outputs[0].dims[i];
            view.strides[i] = i == axis ? stride : 0;
        }
    }
    return view;
}

kiln_status kilni_exec_gather(kilni_exec *exec)
{
    uint32_t axis = kilni_exec_axis(exec, exec->inputs[0].rank);
    kiln_view input = without_axis(&exec->inputs[0], &exec->outputs[0], axis);
    kiln_view indices = index_view(exec, axis);
    const kiln_tuple t = {.lengths = {exec->inputs[0].dims[axis]},
                          .strides = {exec->inputs[0].strides[axis]}};
    return launch_gather(exec, &input, &indices, &t, 1);
}

kiln_status kilni_exec_gather_nd(kilni_exec *exec)
{
    const kiln_view *x = &exec->inputs[0];
    const kiln_view *given = &exec->inputs[1];
    const kiln_view *out = &exec->outputs[0];
    uint32_t batch = (uint32_t)kiln_op_attr_i64(exec->record, KILN_KEY_BATCH_DIMS);
    uint32_t last = given->rank - 1;
    uint32_t depth = (uint32_t)given->dims[last];
    kiln_tuple t = {.distance = given->strides[last]};
    kiln_view input = *x;
    kiln_view indices = *given;
    input.rank = indices.rank = out->rank;
    for (uint32_t i = 0; i < out->rank; i++) {
        input.dims[i] = indices.dims[i] = out->dims[i];
        indices.strides[i] = i < last ? given->strides[i] : 0;
        input.strides[i] = i < batch  ? x->strides[i]
                           : i < last ? 0
                                      : x->strides[i - last + batch + depth];
    }
    memcpy(t.lengths, &x->dims[batch], depth * sizeof(t.lengths[0]));
    memcpy(t.strides, &x->strides[batch], depth * sizeof(t.strides[0]));
    return launch_gather(exec, &input, &indices, &t, depth);
}
