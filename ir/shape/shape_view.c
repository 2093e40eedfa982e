// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of the views: reshape, expand, permute, slice, flip. Decides what their attributes mean;
// how a view is expressed in strides is view.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status wanted_shape(const kiln_op_record *call, const int64_t **out_dims,
                                uint32_t *out_rank, kiln_error *err)
{
    char text[KILNI_IR_SHAPE_TEXT];
    *out_dims = kilni_ir_ints(call, KILN_KEY_SHAPE, out_rank);
    if (*out_rank > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: rank %u exceeds the limit %d",
                         kilni_ir_op_name(call), *out_rank, KILN_MAX_RANK);
    }
    for (uint32_t i = 0; i < *out_rank; i++) {
        if ((*out_dims)[i] < -1) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: the shape %s has a negative length",
                             kilni_ir_op_name(call),
                             kilni_ir_dims_text(*out_dims, *out_rank, text));
        }
    }
    return KILN_STATUS_OK;
}

/// Product of the given lengths without -1; -1 when it exceeds int64.
static int64_t known_product(const int64_t *dims, uint32_t rank, uint32_t *out_unknown)
{
    kiln_tensor_desc known = {.rank = (uint8_t)rank};
    *out_unknown = 0;
    for (uint32_t i = 0; i < rank; i++) {
        known.dims[i] = dims[i] == -1 ? 1 : dims[i];
        *out_unknown += dims[i] == -1 ? 1 : 0;
    }
    return kiln_desc_count(&known);
}

kiln_status kiln_shape_reshape(const kiln_op_record *call, kiln_tensor_desc *outputs,
                               kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const int64_t *dims = NULL;
    uint32_t rank = 0;
    kiln_status status = wanted_shape(call, &dims, &rank, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    uint32_t unknown = 0;
    int64_t product = known_product(dims, rank, &unknown);
    int64_t count = kiln_desc_count(x);
    bool fits =
        unknown == 0 ? product == count : unknown == 1 && product > 0 && count % product == 0;
    if (!fits) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(
            err, INVALID_ARGUMENT, "reshape: %s with %" PRId64 " elements does not become %s",
            kilni_ir_desc_text(x, text[0]), count, kilni_ir_dims_text(dims, rank, text[1]));
    }
    outputs[0].rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        outputs[0].dims[i] = dims[i] == -1 ? count / product : dims[i];
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_expand(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const int64_t *dims = NULL;
    uint32_t rank = 0;
    kiln_status status = wanted_shape(call, &dims, &rank, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool fits = rank >= x->rank;
    for (uint32_t i = 0; fits && i < rank; i++) {
        uint32_t new_axes = rank - x->rank;
        int64_t have = i < new_axes ? 1 : x->dims[i - new_axes];
        int64_t want = dims[i] == -1 && i >= new_axes ? have : dims[i];
        fits = want >= 0 && (have == 1 || have == want);
        outputs[0].dims[i] = want;
    }
    if (!fits) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "expand: %s does not broadcast to %s",
                         kilni_ir_desc_text(x, text[0]), kilni_ir_dims_text(dims, rank, text[1]));
    }
    outputs[0].rank = (uint8_t)rank;
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_permutation(const kiln_op_record *call, uint32_t rank,
                                 uint32_t out_axes[KILN_MAX_RANK], kiln_error *err)
{
    uint32_t count = 0;
    uint32_t mask = 0;
    const int64_t *axes = kilni_ir_ints(call, KILN_KEY_AXES, &count);
    if (count != 0 && count != rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "permute: %u axes are given for rank %u", count,
                         rank);
    }
    kiln_status status = kilni_ir_axes_mask(call, rank, &mask, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < rank; i++) {
        out_axes[i] = rank - 1 - i;
        if (count != 0) {
            status = kilni_ir_axis(call, axes[i], rank, &out_axes[i], err);
        }
    }
    return status;
}

kiln_status kiln_shape_permute(const kiln_op_record *call, kiln_tensor_desc *outputs,
                               kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t axes[KILN_MAX_RANK] = {0};
    kiln_status status = kilni_ir_permutation(call, x->rank, axes, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        outputs[0].dims[i] = x->dims[axes[i]];
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_flip(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    uint32_t mask = 0;
    outputs[0].rank = call->inputs[0].rank;
    memcpy(outputs[0].dims, call->inputs[0].dims, sizeof(outputs[0].dims));
    return kilni_ir_axes_mask(call, call->inputs[0].rank, &mask, err);
}

static int64_t clamp_index(int64_t index, int64_t dim, int64_t low, int64_t high)
{
    int64_t from_start = index < 0 && index >= -dim ? index + dim : index;
    if (from_start < low) {
        return low;
    }
    return from_start > high ? high : from_start;
}

void kilni_ir_slice_axis(const kiln_op_record *call, uint32_t axis, int64_t dim, int64_t *out_start,
                         int64_t *out_step, int64_t *out_length)
{
    uint32_t count = 0;
    const int64_t *starts = kilni_ir_ints(call, KILN_KEY_STARTS, &count);
    const int64_t *ends = kilni_ir_ints(call, KILN_KEY_ENDS, &count);
    const int64_t *steps = kilni_ir_ints(call, KILN_KEY_STEPS, &count);
    int64_t step = steps != NULL ? steps[axis] : 1;
    int64_t low = step < 0 ? -1 : 0;
    int64_t high = step < 0 ? dim - 1 : dim;
    int64_t start = clamp_index(starts[axis], dim, low, high);
    int64_t end = clamp_index(ends[axis], dim, low, high);
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *out_start = start;
    *out_step = step;
    *out_length = span <= 0 || size == 0 ? 0 : (int64_t)(((uint64_t)span - 1) / size) + 1;
}

kiln_status kiln_shape_slice(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t counts[3];
    kilni_ir_ints(call, KILN_KEY_STARTS, &counts[0]);
    kilni_ir_ints(call, KILN_KEY_ENDS, &counts[1]);
    const int64_t *steps = kilni_ir_ints(call, KILN_KEY_STEPS, &counts[2]);
    if (counts[0] != x->rank || counts[1] != x->rank || (counts[2] != 0 && counts[2] != x->rank)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: %u starts, %u ends and %u steps are given for rank %u",
                         kilni_ir_op_name(call), counts[0], counts[1], counts[2], x->rank);
    }
    for (uint32_t i = 0; i < counts[2]; i++) {
        if (steps[i] == 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: the step of axis %u is 0",
                             kilni_ir_op_name(call), i);
        }
    }
    outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t start = 0;
        int64_t step = 0;
        kilni_ir_slice_axis(call, i, x->dims[i], &start, &step, &outputs[0].dims[i]);
    }
    return KILN_STATUS_OK;
}
