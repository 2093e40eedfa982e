// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of operators that arrange elements anew: windows and diagonals (views), repeat, roll,
// triangles, identity matrices, blocks moved between depth and space. What each element is, is in
// reference_arrange.c; how a view is expressed in strides is view.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status needs_matrix(const kiln_op_record *call, kiln_error *err)
{
    char text[KILNI_IR_SHAPE_TEXT];
    return call->inputs[0].rank >= 2
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%s: x of shape %s needs rank 2 or more",
                           kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text));
}

kiln_status kiln_shape_unfold(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t size = kiln_op_attr_i64(call, KILN_KEY_SIZE);
    int64_t stride = kiln_op_attr_i64(call, KILN_KEY_STRIDE);
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (x->rank == KILN_MAX_RANK || size < 0 || stride < 1 || size > x->dims[axis]) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT,
                         "unfold: no windows of size %" PRId64 " and stride %" PRId64
                         " along axis %u of %s",
                         size, stride, axis, kilni_ir_desc_text(x, text));
    }
    kilni_ir_same_shape(x, outputs);
    outputs[0].dims[axis] = (x->dims[axis] - size) / stride + 1;
    outputs[0].dims[x->rank] = size;
    outputs[0].rank = (uint8_t)(x->rank + 1);
    return KILN_STATUS_OK;
}

int64_t kilni_ir_diagonal(const int64_t *tail, int64_t offset, int64_t *out_row,
                          int64_t *out_column)
{
    *out_row = offset < 0 && offset >= -tail[0] ? -offset : 0;
    *out_column = offset > 0 && offset <= tail[1] ? offset : 0;
    if (offset < -tail[0] || offset > tail[1]) {
        return 0;
    }
    int64_t rows = tail[0] - *out_row;
    int64_t columns = tail[1] - *out_column;
    return rows < columns ? rows : columns;
}

kiln_status kiln_shape_diagonal(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kiln_status status = needs_matrix(call, err);
    if (status == KILN_STATUS_OK) {
        int64_t row = 0;
        int64_t column = 0;
        kilni_ir_same_shape(x, outputs);
        outputs[0].rank = (uint8_t)(x->rank - 1);
        outputs[0].dims[x->rank - 1] = 0;
        outputs[0].dims[x->rank - 2] = kilni_ir_diagonal(
            &x->dims[x->rank - 2], kiln_op_attr_i64(call, KILN_KEY_OFFSET), &row, &column);
    }
    return status;
}

kiln_status kiln_shape_triangle(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                kiln_error *err)
{
    kilni_ir_same_shape(&call->inputs[0], outputs);
    return needs_matrix(call, err);
}

kiln_status kiln_shape_eye(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    uint32_t rank = 0;
    const int64_t *dims = kilni_ir_ints(call, KILN_KEY_SHAPE, &rank);
    if (rank != 2 || dims[0] < 0 || dims[1] < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "eye: the shape has to be two lengths");
    }
    outputs[0].rank = 2;
    memcpy(outputs[0].dims, dims, 2 * sizeof(dims[0]));
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_repeat(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t count = 0;
    const int64_t *repeats = kilni_ir_ints(call, KILN_KEY_REPEATS, &count);
    if (count != x->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "repeat: %u repeats are given for rank %u", count,
                         x->rank);
    }
    outputs[0].rank = x->rank;
    for (uint32_t i = 0; i < count; i++) {
        if (repeats[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "repeat: axis %u %" PRId64 " times", i,
                             repeats[i]);
        }
        if (!kilni_ir_mul(x->dims[i], repeats[i], &outputs[0].dims[i])) {
            return kiln_fail(err, OUT_OF_RANGE, "repeat: the length of axis %u exceeds 64 bits", i);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_roll(const kiln_op_record *call, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    uint32_t n_shifts = 0;
    uint32_t n_axes = 0;
    uint32_t mask = 0;
    (void)kilni_ir_ints(call, KILN_KEY_SHIFTS, &n_shifts);
    (void)kilni_ir_ints(call, KILN_KEY_AXES, &n_axes);
    if (n_shifts != (n_axes > 0 ? n_axes : x->rank)) {
        return kiln_fail(err, INVALID_ARGUMENT, "roll: %u shifts are given for %u axes", n_shifts,
                         n_axes > 0 ? n_axes : x->rank);
    }
    kilni_ir_same_shape(x, outputs);
    return kilni_ir_axes_mask(call, x->rank, &mask, err);
}

int64_t kilni_ir_shift(const kiln_op_record *call, uint32_t rank, uint32_t axis, int64_t length)
{
    uint32_t count = 0;
    const int64_t *shifts = kilni_ir_ints(call, KILN_KEY_SHIFTS, &count);
    const int64_t *axes = kilni_ir_ints(call, KILN_KEY_AXES, &count);
    for (uint32_t i = 0; length > 0 && i < (count > 0 ? count : rank); i++) {
        int64_t named = axes != NULL ? axes[i] : (int64_t)i;
        if ((named < 0 ? named + (int64_t)rank : named) == (int64_t)axis) {
            int64_t shift = shifts[i] % length;
            return shift < 0 ? shift + length : shift;
        }
    }
    return 0;
}

kiln_status kiln_shape_blocks(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    int64_t size = kiln_op_attr_i64(call, KILN_KEY_SIZE);
    bool to_space = call->op == KILN_OP_DEPTH_TO_SPACE;
    if (strcmp(mode, "dcr") != 0 && strcmp(mode, "crd") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: the mode \"%.32s\" is not dcr or crd",
                         kilni_ir_op_name(call), mode);
    }
    bool fits = x->rank == 4 && size > 0 && size <= INT32_MAX;
    if (fits) {
        fits = to_space ? x->dims[1] % (size * size) == 0
                        : x->dims[2] % size == 0 && x->dims[3] % size == 0;
    }
    if (!fits) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: x of shape %s has no blocks of size %" PRId64,
                         kilni_ir_op_name(call), kilni_ir_desc_text(x, text), size);
    }
    kilni_ir_same_shape(x, outputs);
    outputs[0].dims[1] = to_space ? x->dims[1] / (size * size) : x->dims[1] * size * size;
    for (uint32_t i = 2; i < 4; i++) {
        outputs[0].dims[i] = to_space ? x->dims[i] * size : x->dims[i] / size;
    }
    return KILN_STATUS_OK;
}
