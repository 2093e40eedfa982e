// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of operators that go along one axis in order: cumulative ones, sorts, the k largest, the
// largest with its index; and of the cross product.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

kiln_status kiln_shape_sort(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    kiln_status status = kiln_shape_axis(call, &outputs[0], err);
    for (unsigned i = 1; i < call->n_outputs; i++) {
        outputs[i].rank = outputs[0].rank;
        memcpy(outputs[i].dims, outputs[0].dims, sizeof(outputs[0].dims));
    }
    return status;
}

kiln_status kiln_shape_top_k(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status == KILN_STATUS_OK && (count < 0 || count > x->dims[axis])) {
        status = kiln_fail(err, INVALID_ARGUMENT, "top_k: %" PRId64 " of %" PRId64 " elements",
                           count, x->dims[axis]);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < call->n_outputs; i++) {
        outputs[i].rank = x->rank;
        memcpy(outputs[i].dims, x->dims, sizeof(x->dims));
        outputs[i].dims[axis] = count;
    }
    return status;
}

kiln_status kiln_shape_with_indices(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                    kiln_error *err)
{
    kiln_status status = kiln_shape_argreduce(call, &outputs[0], err);
    outputs[1].rank = outputs[0].rank;
    memcpy(outputs[1].dims, outputs[0].dims, sizeof(outputs[0].dims));
    return status;
}

kiln_status kiln_shape_cross(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    uint32_t axis = 0;
    kiln_status status = kiln_shape_broadcast(call, outputs, err);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), outputs[0].rank, &axis, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < 2; i++) {
        const kiln_tensor_desc *x = &call->inputs[i];
        uint32_t new_axes = (uint32_t)outputs[0].rank - x->rank;
        if (axis < new_axes || x->dims[axis - new_axes] != 3) {
            char text[KILNI_IR_SHAPE_TEXT];
            status =
                kiln_fail(err, INVALID_ARGUMENT, "cross: %s of shape %s needs length 3 at axis %u",
                          kiln_op_info_of(KILN_OP_CROSS)->signature->inputs[i],
                          kilni_ir_desc_text(x, text), axis);
        }
    }
    return status;
}
