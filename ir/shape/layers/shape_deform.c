// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of the deformable convolution of two spatial axes (Dai et al., 2017; with a mask: Zhu et
// al., 2019) and of its columns. Offsets are [n, groups * kernel * 2, out..], each y then x, masks
// [n, groups * kernel, out..], as PyTorch and ONNX have them.
#include <string.h>

#include "shape_internal.h"

static kiln_status deform_misfit(const kiln_op_record *call, const char *what, kiln_error *err)
{
    char text[2][KILNI_IR_SHAPE_TEXT];
    return kiln_fail(err, INVALID_ARGUMENT, "%s: x %s, offset %s: %s", kilni_ir_op_name(call),
                     kilni_ir_desc_text(&call->inputs[0], text[0]),
                     kilni_ir_desc_text(&call->inputs[1], text[1]), what);
}

static bool is_per_window(const kiln_tensor_desc *desc, int64_t n, int64_t each,
                          const kilni_ir_window *w)
{
    return desc->rank == 4 && desc->dims[0] == n && desc->dims[1] == each &&
           desc->dims[2] == w->out[1] && desc->dims[3] == w->out[2];
}

/// Checks x, offset and, when it is not NULL, the mask; `scalar` says whether one number will do.
static kiln_status check_offsets(const kiln_op_record *call, const int64_t *kernel,
                                 const kiln_tensor_desc *mask, bool scalar, kilni_ir_window *w,
                                 kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_OFFSET_GROUPS);
    int64_t points = 0;
    int64_t numbers = 0;
    if (x->rank != 4 || groups < 1 || x->dims[1] % groups != 0) {
        return deform_misfit(call, "x must be [n,c,h,w] with whole offset groups", err);
    }
    kiln_status status = kilni_ir_window_of(call, &x->dims[2], 2, kernel, w, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!kilni_ir_mul(w->kernel[1], w->kernel[2], &points) ||
        !kilni_ir_mul(points, groups, &points) || !kilni_ir_mul(points, 2, &numbers) ||
        !is_per_window(&call->inputs[1], x->dims[0], numbers, w)) {
        return deform_misfit(call, "the offsets do not fit the windows", err);
    }
    if (mask != NULL && !(scalar && mask->rank == 0) &&
        !is_per_window(mask, x->dims[0], points, w)) {
        return deform_misfit(call, "the mask does not fit the windows", err);
    }
    return KILN_STATUS_OK;
}

static bool columns_of(const kiln_op_record *call, const kilni_ir_window *w,
                       kiln_tensor_desc *columns)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    columns->rank = 3;
    columns->dims[0] = x->dims[0];
    columns->dims[2] = w->out[1] * w->out[2];
    return kilni_ir_mul(x->dims[1], kilni_ir_window_taps(w), &columns->dims[1]);
}

kiln_status kiln_shape_deform_im2col(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    kilni_ir_window w;
    const kiln_tensor_desc *mask = call->n_inputs > 2 ? &call->inputs[2] : NULL;
    kiln_status status = check_offsets(call, NULL, mask, true, &w, err);
    if (status == KILN_STATUS_OK && !columns_of(call, &w, &outputs[0])) {
        status = deform_misfit(call, "the columns exceed 64 bits", err);
    }
    return status;
}

static void like(kiln_tensor_desc *out, const kiln_tensor_desc *desc)
{
    out->rank = desc->rank;
    memcpy(out->dims, desc->dims, sizeof(out->dims));
}

kiln_status kiln_shape_deform_im2col_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                              kiln_error *err)
{
    kilni_ir_window w;
    kiln_tensor_desc columns = {.rank = 0};
    kiln_status status = check_offsets(call, NULL, &call->inputs[2], false, &w, err);
    if (status == KILN_STATUS_OK &&
        (!columns_of(call, &w, &columns) || !kiln_desc_same_shape(&columns, &call->inputs[3]))) {
        status = deform_misfit(call, "the gradient is not like the columns", err);
    }
    for (unsigned i = 0; i < 3; i++) {
        like(&outputs[i], &call->inputs[i]);
    }
    return status;
}

/// The weight is [o, c/groups, h, w].
static kiln_status check_weight(const kiln_op_record *call, kiln_error *err)
{
    const kiln_tensor_desc *weight = &call->inputs[2];
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    int64_t channels = 0;
    bool fits = weight->rank == 4 && call->inputs[0].rank == 4 && groups >= 1 &&
                weight->dims[0] % groups == 0 && kilni_ir_mul(weight->dims[1], groups, &channels) &&
                channels == call->inputs[0].dims[1];
    return fits ? KILN_STATUS_OK
                : deform_misfit(call, "the channels of the weight do not fit", err);
}

kiln_status kiln_shape_deform_conv(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                   kiln_error *err)
{
    kilni_ir_window w;
    const kiln_tensor_desc *mask = call->n_inputs > 3 ? &call->inputs[3] : NULL;
    const kiln_tensor_desc *bias = call->n_inputs > 4 ? &call->inputs[4] : NULL;
    int64_t channels = call->inputs[2].dims[0];
    kiln_status status = check_weight(call, err);
    if (status == KILN_STATUS_OK) {
        status = check_offsets(call, &call->inputs[2].dims[2], mask, true, &w, err);
    }
    if (status == KILN_STATUS_OK && bias != NULL &&
        (bias->rank != 1 || bias->dims[0] != channels)) {
        status = deform_misfit(call, "the bias must have one element for each channel", err);
    }
    if (status == KILN_STATUS_OK) {
        const int64_t dims[] = {call->inputs[0].dims[0], channels, w.out[1], w.out[2]};
        outputs[0].rank = 4;
        memcpy(outputs[0].dims, dims, sizeof(dims));
    }
    return status;
}

kiln_status kiln_shape_deform_conv_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                            kiln_error *err)
{
    kilni_ir_window w;
    const kiln_tensor_desc *grad = &call->inputs[4];
    int64_t channels = call->inputs[2].dims[0];
    kiln_status status = check_weight(call, err);
    if (status == KILN_STATUS_OK) {
        status = check_offsets(call, &call->inputs[2].dims[2], &call->inputs[3], false, &w, err);
    }
    if (status == KILN_STATUS_OK && !is_per_window(grad, call->inputs[0].dims[0], channels, &w)) {
        status = deform_misfit(call, "the forward operator gives another shape", err);
    }
    for (unsigned i = 0; i < 4; i++) {
        like(&outputs[i], &call->inputs[i]);
    }
    outputs[4].rank = 1;
    outputs[4].dims[0] = channels;
    return status;
}
