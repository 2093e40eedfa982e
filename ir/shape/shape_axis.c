// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of operators that keep, broadcast or drop axes: elementwise, reductions, row-wise,
// creation and drop; and how axes are numbered. Windows and products are in shape_contraction.c,
// views in shape_view.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

bool kilni_ir_broadcast(const int64_t *dims, uint32_t rank, int64_t *out_dims, uint32_t *out_rank)
{
    if (rank > *out_rank) {
        uint32_t more = rank - *out_rank;
        memmove(out_dims + more, out_dims, *out_rank * sizeof(out_dims[0]));
        for (uint32_t i = 0; i < more; i++) {
            out_dims[i] = 1;
        }
        *out_rank = rank;
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t *out = &out_dims[*out_rank - rank + i];
        if (*out == 1) {
            *out = dims[i];
        } else if (dims[i] != 1 && dims[i] != *out) {
            return false;
        }
    }
    return true;
}

kiln_status kilni_ir_axis(const kiln_op_record *call, int64_t axis, uint32_t rank,
                          uint32_t *out_axis, kiln_error *err)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: axis %" PRId64 " is outside rank %u",
                         kilni_ir_op_name(call), axis, rank);
    }
    *out_axis = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_axes_mask(const kiln_op_record *call, uint32_t rank, uint32_t *out_mask,
                               kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *axes = kilni_ir_ints(call, KILN_KEY_AXES, &count);
    *out_mask = count == 0 ? (1u << rank) - 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = 0;
        kiln_status status = kilni_ir_axis(call, axes[i], rank, &axis, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if ((*out_mask >> axis & 1u) != 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: axis %u is given twice",
                             kilni_ir_op_name(call), axis);
        }
        *out_mask |= 1u << axis;
    }
    return KILN_STATUS_OK;
}

/// The shape that the first `count` inputs broadcast to, again, for the error's text.
static kiln_status broadcast_error(const kiln_op_record *call, unsigned count, kiln_error *err)
{
    int64_t dims[KILN_MAX_RANK] = {0};
    uint32_t rank = 0;
    char text[2][KILNI_IR_SHAPE_TEXT];
    for (unsigned i = 0; i < count; i++) {
        (void)kilni_ir_broadcast(call->inputs[i].dims, call->inputs[i].rank, dims, &rank);
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s: shapes %s and %s do not broadcast",
                     kilni_ir_op_name(call), kilni_ir_dims_text(dims, rank, text[0]),
                     kilni_ir_desc_text(&call->inputs[count], text[1]));
}

kiln_status kiln_shape_broadcast(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    uint32_t rank = 0;
    for (unsigned i = 0; i < call->n_inputs; i++) {
        const kiln_tensor_desc *input = &call->inputs[i];
        if (!kilni_ir_broadcast(input->dims, input->rank, outputs[0].dims, &rank)) {
            return broadcast_error(call, i, err);
        }
    }
    outputs[0].rank = (uint8_t)rank;
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_small(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    double number = kiln_op_attr_f64(call, KILN_KEY_VALUE);
    if (!(number >= 1 && number < KILN_DTYPE_LIMIT) || number != (double)(int)number ||
        kiln_dtype_kind_of((kiln_dtype)number) != KILN_KIND_SMALL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %g is the number of no small float dtype",
                         kilni_ir_op_name(call), number);
    }
    return kiln_shape_broadcast(call, outputs, err);
}

static void drop_axes(const kiln_tensor_desc *x, uint32_t mask, bool keepdims,
                      kiln_tensor_desc *out)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool reduced = (mask >> i & 1u) != 0;
        if (!reduced || keepdims) {
            out->dims[rank++] = reduced ? 1 : x->dims[i];
        }
    }
    out->rank = (uint8_t)rank;
}

kiln_status kiln_shape_reduce(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    uint32_t mask = 0;
    kiln_status status = kilni_ir_axes_mask(call, call->inputs[0].rank, &mask, err);
    if (status == KILN_STATUS_OK) {
        drop_axes(&call->inputs[0], mask, kiln_op_attr_i64(call, KILN_KEY_KEEPDIMS) != 0, outputs);
    }
    return status;
}

kiln_status kiln_shape_argreduce(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t axis = 0;
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kiln_status status = kilni_ir_axis(call, wanted, x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    drop_axes(x, 1u << axis, kiln_op_attr_i64(call, KILN_KEY_KEEPDIMS) != 0, outputs);
    if (x->dims[axis] == 0 && kiln_desc_count(outputs) != 0) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: axis %u of shape %s has no element to point to",
                         kilni_ir_op_name(call), axis, kilni_ir_desc_text(x, text));
    }
    return KILN_STATUS_OK;
}

void kilni_ir_same_shape(const kiln_tensor_desc *x, kiln_tensor_desc *out)
{
    out->rank = x->rank;
    memcpy(out->dims, x->dims, sizeof(x->dims));
}

kiln_status kiln_shape_axis(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    uint32_t axis = 0;
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kilni_ir_same_shape(&call->inputs[0], outputs);
    return kilni_ir_axis(call, wanted, call->inputs[0].rank, &axis, err);
}

kiln_status kiln_shape_batch_norm(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    char text[2][KILNI_IR_SHAPE_TEXT];
    if (x->rank < 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "batch_norm: x of shape %s needs rank 2 or more",
                         kilni_ir_desc_text(x, text[0]));
    }
    for (unsigned i = 1; i < call->n_inputs; i++) {
        const kiln_tensor_desc *input = &call->inputs[i];
        if (input->rank != 1 || input->dims[0] != x->dims[1]) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "batch_norm: %s has the shape %s, x of shape %s needs [%" PRId64 "]",
                             kiln_op_info_of(KILN_OP_BATCH_NORM)->signature->inputs[i],
                             kilni_ir_desc_text(input, text[1]), kilni_ir_desc_text(x, text[0]),
                             x->dims[1]);
        }
    }
    kilni_ir_same_shape(x, outputs);
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_full(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    uint32_t rank = 0;
    const int64_t *dims = kilni_ir_ints(call, KILN_KEY_SHAPE, &rank);
    if (rank > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "full: rank %u exceeds the limit %d", rank,
                         KILN_MAX_RANK);
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            char text[KILNI_IR_SHAPE_TEXT];
            return kiln_fail(err, INVALID_ARGUMENT, "full: the shape %s has a negative length",
                             kilni_ir_dims_text(dims, rank, text));
        }
        outputs[0].dims[i] = dims[i];
    }
    outputs[0].rank = (uint8_t)rank;
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_arange(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    if (count < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "arange: the count %" PRId64 " is negative", count);
    }
    outputs[0].rank = 1;
    outputs[0].dims[0] = count;
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_drop(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    (void)call;
    (void)outputs;
    (void)err;
    return KILN_STATUS_OK;
}
