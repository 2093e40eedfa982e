// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of ctc_loss, its derivative and det: which lengths belong to one sequence of the batch,
// and which two must be equal.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status wrong(const kiln_op_record *call, unsigned index, const char *needed,
                         kiln_error *err)
{
    char text[KILNI_IR_SHAPE_TEXT];
    return kiln_fail(err, INVALID_ARGUMENT, "%s: %s of shape %s needs %s", kilni_ir_op_name(call),
                     kiln_op_info_of(call->op)->signature->inputs[index],
                     kilni_ir_desc_text(&call->inputs[index], text), needed);
}

kiln_status kiln_shape_ctc(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    bool backward = call->op == KILN_OP_CTC_LOSS_BACKWARD;
    unsigned targets = backward ? 2 : 1;
    int64_t blank = kiln_op_attr_i64(call, KILN_KEY_BLANK);
    if (x->rank != 3) {
        return wrong(call, 0, "rank 3: [steps, batch, classes]", err);
    }
    if (blank < 0 || blank >= x->dims[2]) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: blank %" PRId64 " is none of %" PRId64 " classes",
                         kilni_ir_op_name(call), blank, x->dims[2]);
    }
    if (call->inputs[targets].rank != 2 || call->inputs[targets].dims[0] != x->dims[1]) {
        return wrong(call, targets, "[batch, longest]", err);
    }
    for (unsigned i = 1; i < call->n_inputs; i++) {
        const kiln_tensor_desc *line = &call->inputs[i];
        if (i != targets && (line->rank != 1 || line->dims[0] != x->dims[1])) {
            return wrong(call, i, "[batch]", err);
        }
    }
    outputs[0].rank = backward ? 3 : 1;
    memcpy(outputs[0].dims, backward ? x->dims : &x->dims[1], outputs[0].rank * sizeof(x->dims[0]));
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_det(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2]) {
        return wrong(call, 0, "two last axes of one length", err);
    }
    outputs[0].rank = (uint8_t)(x->rank - 2);
    memcpy(outputs[0].dims, x->dims, outputs[0].rank * sizeof(x->dims[0]));
    return KILN_STATUS_OK;
}
