// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of Fourier transforms. A complex signal is two tensors, real and imaginary parts; of a
// real signal the spectrum has length / 2 + 1 elements, the others follow from them.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status check_parts(const kiln_op_record *call, kiln_error *err)
{
    if (call->n_inputs > 1 && !kiln_desc_same_shape(&call->inputs[0], &call->inputs[1])) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: real has the shape %s, imaginary %s",
                         kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text[0]),
                         kilni_ir_desc_text(&call->inputs[1], text[1]));
    }
    return KILN_STATUS_OK;
}

int64_t kilni_ir_signal_length(const kiln_op_record *call, int64_t dim)
{
    int64_t length = kiln_op_attr_i64(call, KILN_KEY_LENGTH);
    if (call->op == KILN_OP_IRFFT && length == 0) {
        return 2 * (dim - 1);
    }
    return length == 0 || call->op == KILN_OP_FFT ? dim : length;
}

kiln_status kiln_shape_fourier(const kiln_op_record *call, kiln_tensor_desc *outputs,
                               kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status == KILN_STATUS_OK) {
        status = check_parts(call, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t length = kilni_ir_signal_length(call, x->dims[axis]);
    if (length < 1) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: a signal of length %" PRId64 " has no spectrum",
                         kilni_ir_op_name(call), length);
    }
    for (unsigned i = 0; i < kiln_op_info_of(call->op)->n_outputs; i++) {
        outputs[i].rank = x->rank;
        memcpy(outputs[i].dims, x->dims, sizeof(x->dims));
        outputs[i].dims[axis] = call->op == KILN_OP_RFFT ? length / 2 + 1 : length;
    }
    return KILN_STATUS_OK;
}
