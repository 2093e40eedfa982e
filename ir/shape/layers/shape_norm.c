// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of the normalisations and their derivatives: what scale and bias must look like, how
// channels form groups.
#include "norm_internal.h"

#include <inttypes.h>
#include <string.h>

static kiln_status check_norm_channels(const kiln_op_record *call, kilni_norm *norm,
                                       kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[norm->x];
    char text[KILNI_IR_SHAPE_TEXT];
    if (x->rank < 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: x of shape %s needs rank 2 or more",
                         kilni_ir_op_name(call), kilni_ir_desc_text(x, text));
    }
    if (norm->groups != 0 && x->rank == KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: rank %u exceeds the limit %d",
                         kilni_ir_op_name(call), x->rank, KILN_MAX_RANK - 1);
    }
    if (norm->groups < 0 || (norm->groups > 0 && x->dims[1] % norm->groups != 0)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: %" PRId64 " channels cannot be cut into %" PRId64 " groups",
                         kilni_ir_op_name(call), x->dims[1], norm->groups);
    }
    for (unsigned i = 1; i <= norm->n_params; i++) {
        const kiln_tensor_desc *input = &call->inputs[norm->x + i];
        if (input->rank != 0 && (input->rank != 1 || input->dims[0] != x->dims[1])) {
            return kiln_fail(
                err, INVALID_ARGUMENT, "%s: %s has the shape %s, it needs [%" PRId64 "] or rank 0",
                kilni_ir_op_name(call), kiln_op_info_of(call->op)->signature->inputs[norm->x + i],
                kilni_ir_desc_text(input, text), x->dims[1]);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_last_axes(const kiln_op_record *call, kilni_norm *norm, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[norm->x];
    int64_t axis = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kiln_status status = kilni_ir_axis(call, axis, x->rank, &norm->first, err);
    for (unsigned i = 1; status == KILN_STATUS_OK && i <= norm->n_params; i++) {
        const kiln_tensor_desc *input = &call->inputs[norm->x + i];
        int64_t dims[KILN_MAX_RANK];
        uint32_t rank = x->rank - norm->first;
        char text[2][KILNI_IR_SHAPE_TEXT];
        memcpy(dims, x->dims + norm->first, rank * sizeof(dims[0]));
        if (input->rank > rank || !kilni_ir_broadcast(input->dims, input->rank, dims, &rank) ||
            memcmp(dims, x->dims + norm->first, rank * sizeof(dims[0])) != 0) {
            status = kiln_fail(err, INVALID_ARGUMENT, "%s: %s of shape %s does not broadcast to %s",
                               kilni_ir_op_name(call),
                               kiln_op_info_of(call->op)->signature->inputs[norm->x + i],
                               kilni_ir_desc_text(input, text[0]),
                               kilni_ir_dims_text(x->dims + norm->first, rank, text[1]));
        }
    }
    return status;
}

static void kind_of(const kiln_op_record *call, kilni_norm *out_norm)
{
    kiln_op op = call->op;
    bool layer = op == KILN_OP_LAYER_NORM || op == KILN_OP_LAYER_NORM_BACKWARD;
    bool rms = op == KILN_OP_RMS_NORM || op == KILN_OP_RMS_NORM_BACKWARD;
    bool group = op == KILN_OP_GROUP_NORM || op == KILN_OP_GROUP_NORM_BACKWARD;
    bool batch = op == KILN_OP_BATCH_NORM_TRAIN || op == KILN_OP_BATCH_NORM_BACKWARD;
    out_norm->backward = op == KILN_OP_LAYER_NORM_BACKWARD || op == KILN_OP_RMS_NORM_BACKWARD ||
                         op == KILN_OP_GROUP_NORM_BACKWARD ||
                         op == KILN_OP_INSTANCE_NORM_BACKWARD || op == KILN_OP_BATCH_NORM_BACKWARD;
    out_norm->x = out_norm->backward ? 1 : 0;
    out_norm->n_params = call->n_inputs - out_norm->x - 1u;
    out_norm->centred = !rms;
    out_norm->by_channel = !layer && !rms;
    out_norm->first = 0;
    out_norm->groups = layer || rms || batch ? 0
                       : group               ? kiln_op_attr_i64(call, KILN_KEY_GROUPS)
                                             : call->inputs[out_norm->x].dims[1];
    if (group && out_norm->groups == 0) {
        out_norm->groups = -1;
    }
}

kiln_status kilni_ir_norm_of(const kiln_op_record *call, kilni_norm *out_norm, kiln_error *err)
{
    kind_of(call, out_norm);
    if (out_norm->backward && !kiln_desc_same_shape(&call->inputs[0], &call->inputs[1])) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: grad has the shape %s, x %s",
                         kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text[0]),
                         kilni_ir_desc_text(&call->inputs[1], text[1]));
    }
    return out_norm->by_channel ? check_norm_channels(call, out_norm, err)
                                : check_last_axes(call, out_norm, err);
}

kiln_status kiln_shape_norm(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    kilni_norm norm;
    kiln_status status = kilni_ir_norm_of(call, &norm, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_tensor_desc *x = &call->inputs[norm.x];
    unsigned n_outputs = kiln_op_info_of(call->op)->n_outputs;
    outputs[0].rank = x->rank;
    memcpy(outputs[0].dims, x->dims, sizeof(x->dims));
    for (unsigned i = 1; i < n_outputs; i++) {
        uint32_t rank = norm.by_channel ? 1 : x->rank - norm.first;
        const int64_t *dims = norm.by_channel ? &x->dims[1] : &x->dims[norm.first];
        outputs[i].rank = (uint8_t)rank;
        memcpy(outputs[i].dims, dims, rank * sizeof(dims[0]));
    }
    return KILN_STATUS_OK;
}

/// Output or x of a softmax, and the gradient beside it.
kiln_status kiln_shape_axis_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    if (!kiln_desc_same_shape(&call->inputs[0], &call->inputs[1])) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: output has the shape %s, grad %s",
                         kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text[0]),
                         kilni_ir_desc_text(&call->inputs[1], text[1]));
    }
    return kiln_shape_axis(call, outputs, err);
}
