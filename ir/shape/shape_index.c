// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of operators that take or put elements by index: gather_nd, the scatters and assignments,
// one_hot, embedding, reverse_sequence. Shapes never depend on the contents of indices; what one
// outside its range does is decided in reference_index.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status bad_shapes(const kiln_op_record *call, kiln_error *err)
{
    char text[3][KILNI_IR_SHAPE_TEXT];
    if (call->n_inputs == 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: shapes %s and %s do not fit",
                         kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text[0]),
                         kilni_ir_desc_text(&call->inputs[1], text[1]));
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s: x %s, values %s and indices %s do not fit",
                     kilni_ir_op_name(call), kilni_ir_desc_text(&call->inputs[0], text[0]),
                     kilni_ir_desc_text(&call->inputs[1], text[1]),
                     kilni_ir_desc_text(&call->inputs[2], text[2]));
}

// ---- gather_nd and the scatters ----

/// Whether the dims of `a` from `from_a` on are those of `b` from `from_b` on.
static bool same_tail(const kiln_tensor_desc *a, uint32_t from_a, const kiln_tensor_desc *b,
                      uint32_t from_b)
{
    bool same = a->rank - from_a == b->rank - from_b;
    for (uint32_t i = 0; same && i + from_a < a->rank; i++) {
        same = a->dims[from_a + i] == b->dims[from_b + i];
    }
    return same;
}

kiln_status kiln_shape_gather_nd(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[1];
    int64_t batch = kiln_op_attr_i64(call, KILN_KEY_BATCH_DIMS);
    uint32_t n = indices->rank;
    if (n == 0 || batch < 0 || batch >= n || batch > x->rank ||
        indices->dims[n - 1] > x->rank - batch) {
        return bad_shapes(call, err);
    }
    uint32_t taken = (uint32_t)batch + (uint32_t)indices->dims[n - 1];
    bool fits = n - 1 + x->rank - taken <= KILN_MAX_RANK;
    for (uint32_t i = 0; fits && i < batch; i++) {
        fits = x->dims[i] == indices->dims[i];
    }
    if (!fits) {
        return bad_shapes(call, err);
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        outputs[0].dims[outputs[0].rank++] = indices->dims[i];
    }
    for (uint32_t i = taken; i < x->rank; i++) {
        outputs[0].dims[outputs[0].rank++] = x->dims[i];
    }
    for (uint32_t i = (uint32_t)batch; i < taken; i++) {
        if (x->dims[i] == 0 && kiln_desc_count(&outputs[0]) != 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "gather_nd: axis %u has nothing to take", i);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_mode(const kiln_op_record *call, kiln_error *err)
{
    static const char *const modes[] = {"assign", "add", "mul", "min", "max"};
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    bool known = false;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        known = known || strcmp(mode, modes[i]) == 0;
    }
    if (!known) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: the mode \"%.32s\" is not assign, add, mul, min or max",
                         kilni_ir_op_name(call), mode);
    }
    if (call->inputs[0].dtype == KILN_DTYPE_BOOL && strcmp(mode, "assign") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: the mode %s does not take bool",
                         kilni_ir_op_name(call), mode);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_scatter(const kiln_op_record *call, kiln_tensor_desc *outputs,
                               kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[2];
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    bool fits = indices->rank == x->rank && kiln_desc_same_shape(&call->inputs[1], indices);
    for (uint32_t i = 0; status == KILN_STATUS_OK && fits && i < x->rank; i++) {
        fits = i == axis || indices->dims[i] <= x->dims[i];
    }
    if (status == KILN_STATUS_OK) {
        status = fits ? check_mode(call, err) : bad_shapes(call, err);
    }
    kilni_ir_same_shape(x, outputs);
    return status;
}

kiln_status kiln_shape_scatter_nd(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *values = &call->inputs[1];
    const kiln_tensor_desc *indices = &call->inputs[2];
    uint32_t n = indices->rank;
    bool fits = n > 0 && indices->dims[n - 1] <= x->rank && values->rank >= n - 1;
    for (uint32_t i = 0; fits && i + 1 < n; i++) {
        fits = values->dims[i] == indices->dims[i];
    }
    if (!fits || !same_tail(values, n - 1, x, (uint32_t)indices->dims[n - 1])) {
        return bad_shapes(call, err);
    }
    kilni_ir_same_shape(x, outputs);
    return check_mode(call, err);
}

kiln_status kiln_shape_select_assign(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                     kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[2];
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_tensor_desc wanted = *x;
    wanted.dims[axis] = indices->dims[0];
    if (indices->rank != 1 || !kiln_desc_same_shape(&call->inputs[1], &wanted)) {
        return bad_shapes(call, err);
    }
    kilni_ir_same_shape(x, outputs);
    return check_mode(call, err);
}

kiln_status kiln_shape_slice_assign(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                    kiln_error *err)
{
    kiln_tensor_desc part = {0};
    kiln_status status = kiln_shape_slice(call, &part, err);
    if (status == KILN_STATUS_OK && !kiln_desc_same_shape(&call->inputs[1], &part)) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        status = kiln_fail(
            err, INVALID_ARGUMENT, "slice_assign: the value has shape %s, the slice %s",
            kilni_ir_desc_text(&call->inputs[1], text[0]), kilni_ir_desc_text(&part, text[1]));
    }
    kilni_ir_same_shape(&call->inputs[0], outputs);
    return status;
}

// ---- built on the others ----

kiln_status kiln_shape_one_hot(const kiln_op_record *call, kiln_tensor_desc *outputs,
                               kiln_error *err)
{
    const kiln_tensor_desc *values = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[1];
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    uint32_t axis = 0;
    if (values->rank != 1 || values->dims[0] != 2 || indices->rank == KILN_MAX_RANK) {
        return bad_shapes(call, err);
    }
    if (count < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "one_hot: the count %" PRId64 " is negative",
                         count);
    }
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), indices->rank + 1u, &axis, err);
    outputs[0].rank = (uint8_t)(indices->rank + 1);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < outputs[0].rank; i++) {
        outputs[0].dims[i] = i == axis ? count : indices->dims[i < axis ? i : i - 1];
    }
    return status;
}

kiln_status kiln_shape_embedding(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    const kiln_tensor_desc *weights = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[1];
    bool empty = weights->rank == 2 && weights->dims[0] == 0 && kiln_desc_count(indices) != 0;
    if (weights->rank != 2 || indices->rank == KILN_MAX_RANK || empty) {
        return bad_shapes(call, err);
    }
    kilni_ir_same_shape(indices, outputs);
    outputs[0].dims[outputs[0].rank++] = weights->dims[1];
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_embedding_backward(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                          kiln_error *err)
{
    const kiln_tensor_desc *grad = &call->inputs[0];
    const kiln_tensor_desc *indices = &call->inputs[1];
    int64_t count = kiln_op_attr_i64(call, KILN_KEY_COUNT);
    bool fits = grad->rank == indices->rank + 1 && count >= 0;
    for (uint32_t i = 0; fits && i < indices->rank; i++) {
        fits = grad->dims[i] == indices->dims[i];
    }
    if (!fits) {
        return bad_shapes(call, err);
    }
    outputs[0].rank = 2;
    outputs[0].dims[0] = count;
    outputs[0].dims[1] = grad->dims[grad->rank - 1];
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_reverse_sequence(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                        kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *lengths = &call->inputs[1];
    uint32_t axis = 0;
    uint32_t batch = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status == KILN_STATUS_OK) {
        status =
            kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_BATCH_AXIS), x->rank, &batch, err);
    }
    kilni_ir_same_shape(x, outputs);
    if (status == KILN_STATUS_OK &&
        (axis == batch || lengths->rank != 1 || lengths->dims[0] != x->dims[batch])) {
        status = bad_shapes(call, err);
    }
    return status;
}
