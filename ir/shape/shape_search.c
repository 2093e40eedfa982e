// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of argwhere, nms and tree_ensemble. Decides that contents never make a shape: argwhere has
// as many places as its attribute `count` says, which the caller has counted before, and nms has
// room for the largest number of boxes, unused places marked.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

kiln_status kiln_shape_argwhere(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                kiln_error *err)
{
    const kiln_tensor_desc *mask = &call->inputs[0];
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    if (count < 0 || count > kiln_desc_count(mask)) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT,
                         "argwhere: %" PRId64 " places in a mask of shape %s", count,
                         kilni_ir_desc_text(mask, text));
    }
    outputs[0].rank = 2;
    outputs[0].dims[0] = count;
    outputs[0].dims[1] = mask->rank;
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_nms(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *boxes = &call->inputs[0];
    const kiln_tensor_desc *scores = &call->inputs[1];
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    bool fits = boxes->rank == 3 && scores->rank == 3 && boxes->dims[2] == 4 &&
                boxes->dims[0] == scores->dims[0] && boxes->dims[1] == scores->dims[2];
    if (!fits) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT,
                         "nms: boxes %s and scores %s are not [b,n,4] and [b,classes,n]",
                         kilni_ir_desc_text(boxes, text[0]), kilni_ir_desc_text(scores, text[1]));
    }
    if (count < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "nms: at most %" PRId64 " boxes", count);
    }
    outputs[0].rank = 3;
    outputs[0].dims[0] = boxes->dims[0];
    outputs[0].dims[1] = scores->dims[1];
    outputs[0].dims[2] = count < boxes->dims[1] ? count : boxes->dims[1];
    return KILN_STATUS_OK;
}

static kiln_status check_nodes(const kiln_op_record *call, kiln_error *err)
{
    const kiln_tensor_desc *in = call->inputs;
    bool lists = in[0].rank == 2;
    for (uint32_t i = 1; i < 7; i++) {
        lists = lists && in[i].rank == 1 && in[i].dims[0] <= INT32_MAX;
    }
    if (!lists || in[3].dims[0] != in[1].dims[0] || in[4].dims[0] != in[1].dims[0] ||
        in[6].dims[0] != in[2].dims[0]) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "tree_ensemble: x is no matrix, thresholds, features and others are not "
                         "lists of one length, or weights and targets");
    }
    for (uint32_t i = 4; i < 7; i++) {
        if (in[i].dtype != in[3].dtype) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "tree_ensemble: features are %s, but input %u is %s",
                             kiln_dtype_name(in[3].dtype), i, kiln_dtype_name(in[i].dtype));
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_tree_ensemble(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    kiln_status status = check_nodes(call, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (count < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "tree_ensemble: %" PRId64 " columns", count);
    }
    if (strcmp(mode, "sum") != 0 && strcmp(mode, "min") != 0 && strcmp(mode, "max") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "tree_ensemble: mode '%s' is not sum, min or max",
                         mode);
    }
    outputs[0].rank = 2;
    outputs[0].dims[0] = call->inputs[0].dims[0];
    outputs[0].dims[1] = count;
    return KILN_STATUS_OK;
}
