// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of linear layers, their derivatives and attention: which lengths must meet, and what mask
// and bias must broadcast to.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status mismatch(const kiln_op_record *call, unsigned a, unsigned b, kiln_error *err)
{
    char text[2][KILNI_IR_SHAPE_TEXT];
    const char *const *names = kiln_op_info_of(call->op)->signature->inputs;
    return kiln_fail(err, INVALID_ARGUMENT, "%s: %s of shape %s and %s of shape %s do not fit",
                     kilni_ir_op_name(call), names[a],
                     kilni_ir_desc_text(&call->inputs[a], text[0]), names[b],
                     kilni_ir_desc_text(&call->inputs[b], text[1]));
}

/// The shape of x with another last length.
static void with_last(const kiln_tensor_desc *x, int64_t last, kiln_tensor_desc *out)
{
    out->rank = x->rank;
    memcpy(out->dims, x->dims, sizeof(x->dims));
    out->dims[x->rank - 1] = last;
}

static int64_t last_of(const kiln_tensor_desc *x)
{
    return x->rank == 0 ? -1 : x->dims[x->rank - 1];
}

kiln_status kiln_shape_linear(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *weight = &call->inputs[1];
    bool backward = call->op == KILN_OP_LINEAR_X_BACKWARD;
    if (weight->rank != 2 || last_of(&call->inputs[0]) != weight->dims[backward ? 1 : 0]) {
        return mismatch(call, 0, 1, err);
    }
    if (call->n_inputs > 2 &&
        (call->inputs[2].rank != 1 || call->inputs[2].dims[0] != weight->dims[1])) {
        return mismatch(call, 1, 2, err);
    }
    with_last(&call->inputs[0], weight->dims[backward ? 0 : 1], outputs);
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_linear_weight(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *grad = &call->inputs[1];
    if (x->rank == 0 || x->rank != grad->rank ||
        memcmp(x->dims, grad->dims, (x->rank - 1u) * sizeof(x->dims[0])) != 0) {
        return mismatch(call, 0, 1, err);
    }
    outputs[0].rank = 2;
    outputs[0].dims[0] = last_of(x);
    outputs[0].dims[1] = last_of(grad);
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_linear_bias(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                   kiln_error *err)
{
    if (call->inputs[0].rank == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: grad of rank 0 has no last axis",
                         kilni_ir_op_name(call));
    }
    outputs[0].rank = 1;
    outputs[0].dims[0] = last_of(&call->inputs[0]);
    return KILN_STATUS_OK;
}

// ---- attention ----

double kilni_ir_attention_scale(const kiln_op_record *call)
{
    double scale = kiln_op_attr_f64(call, KILN_KEY_SCALE);
    double length = (double)last_of(&call->inputs[0]);
    return scale != 0 ? scale : length > 0 ? 1 / sqrt(length) : 1;
}

/// Mask and bias broadcast to the scores.
static kiln_status check_over_scores(const kiln_op_record *call, const int64_t *dims, uint32_t rank,
                                     kiln_error *err)
{
    for (unsigned i = 3; i < call->n_inputs; i++) {
        int64_t joined[KILN_MAX_RANK];
        uint32_t joined_rank = rank;
        const kiln_tensor_desc *input = &call->inputs[i];
        memcpy(joined, dims, rank * sizeof(dims[0]));
        if (input->rank > rank ||
            !kilni_ir_broadcast(input->dims, input->rank, joined, &joined_rank) ||
            memcmp(joined, dims, rank * sizeof(dims[0])) != 0) {
            char text[2][KILNI_IR_SHAPE_TEXT];
            return kiln_fail(err, INVALID_ARGUMENT,
                             "attention: %s of shape %s does not broadcast to scores of shape %s",
                             kiln_op_info_of(call->op)->signature->inputs[i],
                             kilni_ir_desc_text(input, text[0]),
                             kilni_ir_dims_text(dims, rank, text[1]));
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_attention(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    const kiln_tensor_desc *query = &call->inputs[0];
    const kiln_tensor_desc *key = &call->inputs[1];
    const kiln_tensor_desc *value = &call->inputs[2];
    int64_t dims[KILN_MAX_RANK] = {0};
    uint32_t rank = query->rank;
    if (rank < 2 || key->rank != rank || last_of(key) != last_of(query)) {
        return mismatch(call, 0, 1, err);
    }
    if (value->rank != rank || value->dims[rank - 2] != key->dims[rank - 2]) {
        return mismatch(call, 1, 2, err);
    }
    for (unsigned i = 1; i < 3; i++) {
        if (memcmp(query->dims, call->inputs[i].dims, (rank - 2) * sizeof(dims[0])) != 0) {
            return mismatch(call, 0, i, err);
        }
    }
    with_last(query, last_of(value), outputs);
    memcpy(dims, query->dims, sizeof(dims));
    dims[rank - 1] = key->dims[rank - 2];
    return check_over_scores(call, dims, rank, err);
}
