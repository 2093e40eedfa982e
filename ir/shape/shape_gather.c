// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of gather, select, concat and pad. What an index outside its range reads is decided in
// reference_gather.c: shapes never depend on the contents of indices.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status axis_with_elements(const kiln_op_record *call, uint32_t *out_axis,
                                      kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kiln_status status = kilni_ir_axis(call, wanted, x->rank, out_axis, err);
    if (status == KILN_STATUS_OK && x->dims[*out_axis] == 0 &&
        kiln_desc_count(&call->inputs[1]) != 0) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: axis %u of shape %s has nothing to take",
                         kilni_ir_op_name(call), *out_axis, kilni_ir_desc_text(x, text));
    }
    return status;
}

kiln_status kiln_shape_gather(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[1];
    uint32_t axis = 0;
    kiln_status status = axis_with_elements(call, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool fits = indices->rank == x->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++) {
        fits = i == axis || indices->dims[i] <= x->dims[i];
    }
    if (!fits) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "gather: indices %s do not fit x %s along axis %u",
                         kilni_ir_desc_text(indices, text[0]), kilni_ir_desc_text(x, text[1]),
                         axis);
    }
    outputs[0].rank = indices->rank;
    memcpy(outputs[0].dims, indices->dims, sizeof(indices->dims));
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_select(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t axis = 0;
    kiln_status status = axis_with_elements(call, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (call->inputs[1].rank != 1) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "select: indices %s must have rank 1",
                         kilni_ir_desc_text(&call->inputs[1], text));
    }
    outputs[0].rank = x->rank;
    memcpy(outputs[0].dims, x->dims, sizeof(x->dims));
    outputs[0].dims[axis] = call->inputs[1].dims[0];
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_concat(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *first = &call->inputs[0];
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    uint32_t axis = 0;
    kiln_status status = kilni_ir_axis(call, wanted, first->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    outputs[0].rank = first->rank;
    memcpy(outputs[0].dims, first->dims, sizeof(first->dims));
    for (unsigned i = 1; i < call->n_inputs; i++) {
        const kiln_tensor_desc *input = &call->inputs[i];
        kiln_tensor_desc aligned = *input;
        aligned.dims[axis] = first->dims[axis];
        if (!kiln_desc_same_shape(&aligned, first)) {
            char text[2][KILNI_IR_SHAPE_TEXT];
            return kiln_fail(err, INVALID_ARGUMENT,
                             "concat: input %u of shape %s does not join %s along axis %u", i,
                             kilni_ir_desc_text(input, text[0]), kilni_ir_desc_text(first, text[1]),
                             axis);
        }
        if (!kilni_ir_add(outputs[0].dims[axis], input->dims[axis], &outputs[0].dims[axis])) {
            return kiln_fail(err, OUT_OF_RANGE, "concat: the length of axis %u exceeds 64 bits",
                             axis);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status pad_axis(const char *mode, uint32_t axis, int64_t length, int64_t begin,
                            int64_t end, int64_t *out_length, kiln_error *err)
{
    int64_t kept = 0;
    bool ok = kilni_ir_add(length, begin < 0 ? begin : 0, &kept) &&
              kilni_ir_add(kept, end < 0 ? end : 0, &kept);
    if (!ok || kept < 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "pad: %" PRId64 " and %" PRId64
                         " remove more than axis %u of length %" PRId64 " has",
                         begin, end, axis, length);
    }
    int64_t most = begin > end ? begin : end;
    if (strcmp(mode, "edge") == 0 && most > 0 && kept < 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "pad: axis %u has no edge to repeat", axis);
    }
    if (strcmp(mode, "reflect") == 0 && most > 0 && most >= kept) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "pad: axis %u of length %" PRId64 " cannot reflect %" PRId64 " elements",
                         axis, kept, most);
    }
    if (!kilni_ir_add(kept, begin > 0 ? begin : 0, out_length) ||
        !kilni_ir_add(*out_length, end > 0 ? end : 0, out_length)) {
        return kiln_fail(err, OUT_OF_RANGE, "pad: the length of axis %u exceeds 64 bits", axis);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_pad(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    uint32_t count = 0;
    const int64_t *padding = kilni_ir_ints(call, KILN_KEY_PADDING, &count);
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "edge") != 0 &&
        strcmp(mode, "reflect") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "pad: the mode \"%.32s\" is not constant, edge or reflect", mode);
    }
    if (count != 2u * x->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "pad: %u paddings are given, rank %u needs %u",
                         count, x->rank, 2u * x->rank);
    }
    outputs[0].rank = x->rank;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < x->rank; i++) {
        status = pad_axis(mode, i, x->dims[i], padding[i], padding[x->rank + i],
                          &outputs[0].dims[i], err);
    }
    return status;
}
