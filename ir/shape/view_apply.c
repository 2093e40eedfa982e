// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of class VIEW as arithmetic on strides and offsets. Decides when a reshape of a strided
// view moves no data; whether the caller then aliases or copies is left to it.
#include <string.h>

#include "ir_view_apply.h"
#include "shape_internal.h"

/// Splits runs of source axes that are evenly spaced, as PyTorch's computeStride does: each run of
/// target axes has to multiply up to one such run. Both shapes hold the same number of elements,
/// not 0.
static bool reshape_strides(const kiln_view *input, kiln_view *out)
{
    uint32_t target = out->rank;
    int64_t run = 1;
    for (uint32_t i = input->rank; i-- > 0;) {
        int64_t base = input->strides[i];
        while (i > 0 && input->dims[i] == 1) {
            i--;
            base = input->strides[i];
        }
        run = input->dims[i];
        while (i > 0 && (input->dims[i - 1] == 1 || input->strides[i - 1] == run * base)) {
            run *= input->dims[i - 1];
            i--;
        }
        int64_t covered = 1;
        while (target > 0 && (covered < run || out->dims[target - 1] == 1)) {
            target--;
            out->strides[target] = covered * base;
            covered *= out->dims[target];
        }
        if (covered != run) {
            return false;
        }
    }
    while (target > 0) {
        target--;
        out->strides[target] = 1;
    }
    return true;
}

static bool apply_reshape(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    const kiln_tensor_desc *desc = &record->outputs[0];
    kiln_view dense = kiln_view_dense(desc, input->buffer);
    out->rank = desc->rank;
    memcpy(out->dims, dense.dims, sizeof(out->dims));
    memcpy(out->strides, dense.strides, sizeof(out->strides));
    return kiln_view_is_contiguous(input) || reshape_strides(input, out);
}

static void apply_expand(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    const kiln_tensor_desc *desc = &record->outputs[0];
    uint32_t new_axes = desc->rank - input->rank;
    out->rank = desc->rank;
    for (uint32_t i = 0; i < desc->rank; i++) {
        bool stays = i >= new_axes && input->dims[i - new_axes] == desc->dims[i];
        out->dims[i] = desc->dims[i];
        out->strides[i] = stays ? input->strides[i - new_axes] : 0;
    }
}

static bool apply_permute(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    uint32_t axes[KILN_MAX_RANK] = {0};
    if (kilni_ir_permutation(record, input->rank, axes, NULL) != KILN_STATUS_OK) {
        return false;
    }
    for (uint32_t i = 0; i < input->rank; i++) {
        out->dims[i] = input->dims[axes[i]];
        out->strides[i] = input->strides[axes[i]];
    }
    return true;
}

void kiln_view_slice(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    *out = *input;
    int64_t size = (int64_t)kiln_dtype_size(input->dtype);
    for (uint32_t i = 0; i < input->rank; i++) {
        int64_t start = 0;
        int64_t step = 0;
        kilni_ir_slice_axis(record, i, input->dims[i], &start, &step, &out->dims[i]);
        out->offset_bytes += out->dims[i] > 0 ? start * input->strides[i] * size : 0;
        out->strides[i] = out->dims[i] > 1 ? input->strides[i] * step : input->strides[i];
    }
}

static bool apply_flip(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    int64_t size = (int64_t)kiln_dtype_size(input->dtype);
    uint32_t mask = 0;
    if (kilni_ir_axes_mask(record, input->rank, &mask, NULL) != KILN_STATUS_OK) {
        return false;
    }
    for (uint32_t i = 0; i < input->rank; i++) {
        if ((mask >> i & 1u) != 0 && input->dims[i] > 1) {
            out->offset_bytes += (input->dims[i] - 1) * input->strides[i] * size;
            out->strides[i] = -input->strides[i];
        }
    }
    return true;
}

static bool apply_unfold(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    uint32_t axis = 0;
    int64_t stride = kiln_op_attr_i64(record, KILN_KEY_STRIDE);
    if (kilni_ir_axis(record, kiln_op_attr_i64(record, KILN_KEY_AXIS), input->rank, &axis, NULL) !=
            KILN_STATUS_OK ||
        input->rank >= KILN_MAX_RANK) {
        return false;
    }
    out->rank = input->rank + 1;
    memcpy(out->dims, record->outputs[0].dims, sizeof(out->dims));
    out->strides[input->rank] = input->strides[axis];
    out->strides[axis] = out->dims[axis] > 1 ? input->strides[axis] * stride : input->strides[axis];
    return true;
}

static bool apply_diagonal(const kiln_op_record *record, const kiln_view *input, kiln_view *out)
{
    int64_t row = 0;
    int64_t column = 0;
    uint32_t last = input->rank - 1;
    if (input->rank < 2) {
        return false;
    }
    const int64_t *strides = &input->strides[last - 1];
    int64_t length = kilni_ir_diagonal(&input->dims[last - 1],
                                       kiln_op_attr_i64(record, KILN_KEY_OFFSET), &row, &column);
    int64_t first = length > 0 ? row * strides[0] + column * strides[1] : 0;
    out->rank = last;
    out->offset_bytes += first * (int64_t)kiln_dtype_size(input->dtype);
    out->dims[last - 1] = length;
    out->strides[last - 1] = strides[0] + strides[1];
    out->dims[last] = 0;
    return true;
}

bool kiln_view_apply(const kiln_op_record *record, const kiln_view *input, kiln_view *out_view)
{
    kiln_view out = *input;
    bool ok = true;
    switch (record->op) {
    case KILN_OP_RESHAPE:
        ok = apply_reshape(record, input, &out);
        break;
    case KILN_OP_EXPAND:
        apply_expand(record, input, &out);
        break;
    case KILN_OP_PERMUTE:
        ok = apply_permute(record, input, &out);
        break;
    case KILN_OP_SLICE:
        kiln_view_slice(record, input, &out);
        break;
    case KILN_OP_FLIP:
        ok = apply_flip(record, input, &out);
        break;
    case KILN_OP_UNFOLD:
        ok = apply_unfold(record, input, &out);
        break;
    case KILN_OP_DIAGONAL:
        ok = apply_diagonal(record, input, &out);
        break;
    default:
        return false;
    }
    if (ok) {
        *out_view = out;
    }
    return ok;
}
