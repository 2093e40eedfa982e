// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of operators that sample tensors at points: grid_sample, roi_align. Decides which modes
// there are; what is read between elements is in reference_sample.c.
#include <string.h>

#include "shape_internal.h"

static kiln_status sample_misfit(const kiln_op_record *call, const char *what, kiln_error *err)
{
    char text[2][KILNI_IR_SHAPE_TEXT];
    return kiln_fail(err, INVALID_ARGUMENT, "%s: x %s with %s %s: %s", kilni_ir_op_name(call),
                     kilni_ir_desc_text(&call->inputs[0], text[0]),
                     kiln_op_info_of(call->op)->signature->inputs[1],
                     kilni_ir_desc_text(&call->inputs[1], text[1]), what);
}

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

kiln_status kiln_shape_grid_sample(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                   kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *grid = &call->inputs[1];
    if (x->rank < 3 || x->rank > 2 + KILNI_IR_SPATIAL || grid->rank != x->rank ||
        grid->dims[0] != x->dims[0] || grid->dims[grid->rank - 1] != x->rank - 2) {
        return sample_misfit(call, "the grid must be [n,..,axes]", err);
    }
    if (!is_one_of(kilni_ir_text(call, KILN_KEY_MODE), "linear", "nearest", "cubic") ||
        !is_one_of(kilni_ir_text(call, KILN_KEY_PADDING_MODE), "zeros", "border", "reflection")) {
        return sample_misfit(call, "the mode is not known", err);
    }
    outputs[0].rank = x->rank;
    outputs[0].dims[0] = x->dims[0];
    outputs[0].dims[1] = x->dims[1];
    bool any = kiln_desc_count(grid) > 0;
    for (uint32_t i = 2; i < x->rank; i++) {
        outputs[0].dims[i] = grid->dims[i - 1];
        if (any && x->dims[i] < 1) {
            return sample_misfit(call, "there is nothing to sample", err);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_roi_align(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *boxes = &call->inputs[1];
    const kiln_tensor_desc *batch = &call->inputs[2];
    uint32_t count = 0;
    const int64_t *size = kilni_ir_ints(call, KILN_KEY_OUTPUT_SIZE, &count);
    if (x->rank != 4 || boxes->rank != 2 || boxes->dims[1] != 4 || batch->rank != 1 ||
        batch->dims[0] != boxes->dims[0] || count != 2 || size[0] < 1 || size[1] < 1) {
        return sample_misfit(call, "it needs x [n,c,h,w], boxes [r,4], r indices and two lengths",
                             err);
    }
    if (boxes->dims[0] > 0 && (x->dims[0] < 1 || x->dims[2] < 1 || x->dims[3] < 1)) {
        return sample_misfit(call, "there is nothing to sample", err);
    }
    if (!is_one_of(kilni_ir_text(call, KILN_KEY_MODE), "avg", "max", "max") ||
        !is_one_of(kilni_ir_text(call, KILN_KEY_COORDINATES), "half_pixel", "output_half_pixel",
                   "half_pixel") ||
        kiln_op_attr_i64(call, KILN_KEY_SAMPLING_RATIO) < 0) {
        return sample_misfit(call, "the mode is not known", err);
    }
    outputs[0].rank = 4;
    outputs[0].dims[0] = boxes->dims[0];
    outputs[0].dims[1] = x->dims[1];
    outputs[0].dims[2] = size[0];
    outputs[0].dims[3] = size[1];
    return KILN_STATUS_OK;
}
