// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of gather, select, concat, pad, full, arange and drop. Decides what an index
// outside the range reads: below 0 it counts from the end, and what is still outside is clamped.
#include <string.h>

#include "reference_internal.h"

/// Copies the element of `x` at `index` to place `at` of `out`.
static void take(const kiln_view *x, const int64_t *index, const kiln_view *out, int64_t at)
{
    kilni_ref_store(out, at, kilni_ref_load(x, kilni_ref_offset(x, index)));
}

static kiln_status gather(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, bool per_element, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *indices = &inputs[1];
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    uint32_t axis = 0;
    kiln_status status = kilni_ir_axis(call, wanted, x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        int64_t at = per_element ? kilni_ref_offset(indices, walk.index)
                                 : walk.index[axis] * indices->strides[0];
        memcpy(index, walk.index, sizeof(index));
        index[axis] = kilni_ref_clamped(kilni_ref_load(indices, at).i, x->dims[axis]);
        take(x, index, &outputs[0], walk.at[0]);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_gather(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    return gather(call, inputs, outputs, true, err);
}

kiln_status kiln_ref_select(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    return gather(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_concat(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    uint32_t axis = 0;
    kiln_status status = kilni_ir_axis(call, wanted, outputs[0].rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_view part = outputs[0];
    int64_t size = (int64_t)kiln_dtype_size(part.dtype);
    for (unsigned i = 0; i < call->n_inputs; i++) {
        part.dims[axis] = inputs[i].dims[axis];
        kilni_ref_copy(&inputs[i], &part);
        part.offset_bytes += part.dims[axis] * part.strides[axis] * size;
    }
    return KILN_STATUS_OK;
}

/// Where element `i` of a padded axis comes from; -1: from the padding value. `low` and `high`
/// bound what negative padding left.
static int64_t pad_source(const char *mode, int64_t i, int64_t begin, int64_t low, int64_t high)
{
    int64_t from = i - begin;
    if (from >= low && from < high) {
        return from;
    }
    if (mode[0] == 'c') {
        return -1;
    }
    if (mode[0] == 'e') {
        return from < low ? low : high - 1;
    }
    return from < low ? 2 * low - from : 2 * (high - 1) - from;
}

kiln_status kiln_ref_pad(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    kilni_ref_value value = kilni_ref_scalar(call, KILN_KEY_VALUE, x->dtype);
    uint32_t count = 0;
    const int64_t *padding = kilni_ir_ints(call, KILN_KEY_PADDING, &count);
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index[KILN_MAX_RANK];
        bool inside = true;
        for (uint32_t i = 0; inside && i < x->rank; i++) {
            int64_t begin = padding[i];
            int64_t end = padding[x->rank + i];
            int64_t high = x->dims[i] + (end < 0 ? end : 0);
            index[i] = pad_source(mode, walk.index[i], begin, begin < 0 ? -begin : 0, high);
            inside = index[i] >= 0;
        }
        if (inside) {
            take(x, index, &outputs[0], walk.at[0]);
        } else {
            kilni_ref_store(&outputs[0], walk.at[0], value);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_full(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_value value = kilni_ref_scalar(call, KILN_KEY_VALUE, outputs[0].dtype);
    kilni_ref_walk walk;
    (void)inputs;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return KILN_STATUS_OK;
}

/// In the arithmetic of the type, each step rounded: f16 and bf16 in f32, rounded at the end.
static kilni_ref_value arange_at(kilni_ref_value start, kilni_ref_value step, int64_t i,
                                 kiln_dtype dtype)
{
    if (!kilni_ref_is_float(dtype)) {
        return (kilni_ref_value){.u = start.u + (uint64_t)i * step.u};
    }
    if (dtype == KILN_DTYPE_F64) {
        return kilni_ref_of_float(start.f + (double)i * step.f);
    }
    float product = (float)i * (float)step.f;
    float sum = (float)start.f + product;
    return kilni_ref_of_float(sum);
}

kiln_status kiln_ref_arange(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    kiln_dtype dtype = outputs[0].dtype;
    kilni_ref_value start = kilni_ref_scalar(call, KILN_KEY_START, dtype);
    kilni_ref_value step = kilni_ref_scalar(call, KILN_KEY_STEP, dtype);
    (void)inputs;
    (void)err;
    for (int64_t i = 0; i < outputs[0].dims[0]; i++) {
        kilni_ref_store(&outputs[0], i * outputs[0].strides[0], arange_at(start, step, i, dtype));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_drop(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    (void)call;
    (void)inputs;
    (void)outputs;
    (void)err;
    return KILN_STATUS_OK;
}
