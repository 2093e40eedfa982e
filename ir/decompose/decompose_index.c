// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators that are a gather, a scatter or a comparison of indices once the indices are at hand:
// embedding, one_hot, reverse_sequence, the largest with its index; and the cross product of
// slices.
#include <string.h>

#include "decompose_internal.h"
#include "expand_internal.h"
#include "shape_internal.h"

static kilni_value scalar_int(kiln_expander *expander, kiln_op op, kilni_value x, int64_t value)
{
    const kiln_attr attr = kilni_attr_i64(value);
    kilni_value result = 0;
    kilni_expand_op(expander, op, &x, 1, &attr, 1, &result);
    return result;
}

static kilni_value flat(kiln_expander *expander, kilni_value x)
{
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    const int64_t count[] = {kiln_desc_count(&desc)};
    return kilni_expand_reshape(expander, x, count, 1);
}

static kilni_value indexed(kiln_expander *expander, kiln_op op, kilni_value x, kilni_value indices,
                           uint32_t axis)
{
    const kilni_value inputs[] = {x, indices};
    const kiln_attr attr = kilni_attr_i64(axis);
    kilni_value result = 0;
    kilni_expand_op(expander, op, inputs, 2, &attr, 1, &result);
    return result;
}

/// 0, 1, ... along one axis, length 1 elsewhere.
static kilni_value ramp(kiln_expander *expander, int64_t length, uint32_t axis, uint32_t rank)
{
    int64_t dims[KILN_MAX_RANK];
    const kiln_attr attrs[] = {
        kilni_attr_i64(length),
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = KILN_DTYPE_I64},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_NONE},
    };
    kilni_value result = 0;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == axis ? length : 1;
    }
    kilni_expand_op(expander, KILN_OP_ARANGE, NULL, 0, attrs, 4, &result);
    return kilni_expand_reshape(expander, result, dims, rank);
}

static kilni_value as_i64(kiln_expander *expander, kilni_value x)
{
    bool fits = kilni_expand_desc(expander, x).dtype == KILN_DTYPE_I64;
    return fits ? x : kilni_expand_cast(expander, x, KILN_DTYPE_I64);
}

// ---- embedding ----

void kiln_decompose_embedding(kiln_expander *expander)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    kilni_value indices = flat(expander, kilni_expand_input(expander, 1));
    kilni_value rows =
        indexed(expander, KILN_OP_SELECT, kilni_expand_input(expander, 0), indices, 0);
    kilni_expand_output(expander, 0, kilni_expand_reshape(expander, rows, out->dims, out->rank));
}

void kiln_decompose_embedding_backward(kiln_expander *expander)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    kilni_value indices = flat(expander, kilni_expand_input(expander, 1));
    const int64_t rows[] = {kilni_expand_desc(expander, indices).dims[0], out->dims[1]};
    const kiln_attr attrs[] = {kilni_attr_i64(0),
                               {.type = KILN_ATTR_STRING, .count = 3, .v.text = "add"}};
    const kilni_value inputs[] = {
        kilni_expand_full(expander, out->dims, 2, out->dtype, 0),
        kilni_expand_reshape(expander, kilni_expand_input(expander, 0), rows, 2), indices};
    kilni_value sums = 0;
    kilni_expand_op(expander, KILN_OP_SELECT_ASSIGN, inputs, 3, attrs, 2, &sums);
    kilni_expand_output(expander, 0, sums);
}

// ---- comparing places with indices ----

void kiln_decompose_one_hot(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    const int64_t whole[] = {1};
    int64_t dims[KILN_MAX_RANK];
    uint32_t axis = 0;
    (void)!kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), out->rank, &axis, NULL);
    memcpy(dims, out->dims, sizeof(dims));
    dims[axis] = 1;
    kilni_value at = as_i64(expander, kilni_expand_input(expander, 1));
    kilni_value negative = scalar_int(expander, KILN_OP_LESS_SCALAR, at, 0);
    kilni_value moved = scalar_int(expander, KILN_OP_ADD_SCALAR, at, out->dims[axis]);
    at = kilni_expand_3(expander, KILN_OP_WHERE, moved, at, negative);
    at = kilni_expand_reshape(expander, at, dims, out->rank);
    kilni_value places = ramp(expander, out->dims[axis], axis, out->rank);
    kilni_value hit = kilni_expand_2(expander, KILN_OP_EQUAL, at, places);
    kilni_value values = kilni_expand_input(expander, 0);
    kilni_value off = kilni_expand_slice(expander, values, 0, 0, 1);
    kilni_value on = kilni_expand_slice(expander, values, 0, 1, 2);
    off = kilni_expand_reshape(expander, off, whole, 1);
    on = kilni_expand_reshape(expander, on, whole, 1);
    kilni_expand_output(expander, 0, kilni_expand_3(expander, KILN_OP_WHERE, on, off, hit));
}

/// The places that a gather takes from: length - 1 - place below the length, the place itself
/// above.
void kiln_decompose_reverse_sequence(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *x = &call->inputs[0];
    int64_t dims[KILN_MAX_RANK];
    uint32_t axis = 0;
    uint32_t batch = 0;
    (void)!kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, NULL);
    (void)!kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_BATCH_AXIS), x->rank, &batch, NULL);
    if (kiln_desc_count(x) == 0) {
        kilni_expand_output(expander, 0, kilni_expand_input(expander, 0));
        return;
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        dims[i] = i == batch ? x->dims[i] : 1;
    }
    kilni_value lengths = as_i64(expander, kilni_expand_input(expander, 1));
    lengths = scalar_int(expander, KILN_OP_CLAMP_MAX, lengths, x->dims[axis]);
    lengths = kilni_expand_reshape(expander, lengths, dims, x->rank);
    kilni_value places = ramp(expander, x->dims[axis], axis, x->rank);
    kilni_value turned = kilni_expand_2(expander, KILN_OP_SUB, lengths, places);
    turned = scalar_int(expander, KILN_OP_ADD_SCALAR, turned, -1);
    kilni_value below = kilni_expand_2(expander, KILN_OP_LESS, places, lengths);
    turned = kilni_expand_3(expander, KILN_OP_WHERE, turned, places, below);
    const kiln_attr shape = {.type = KILN_ATTR_I64_LIST, .count = x->rank, .v.ints = x->dims};
    kilni_value wide = 0;
    kilni_expand_op(expander, KILN_OP_EXPAND, &turned, 1, &shape, 1, &wide);
    kilni_expand_output(
        expander, 0,
        indexed(expander, KILN_OP_GATHER, kilni_expand_input(expander, 0), wide, axis));
}

// ---- the largest with its index ----

static void with_indices(kiln_expander *expander, kiln_op op)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    kilni_value x = kilni_expand_input(expander, 0);
    uint32_t axis = 0;
    (void)!kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), call->inputs[0].rank, &axis,
                         NULL);
    const kiln_attr attrs[] = {kilni_attr_i64(axis),
                               {.type = KILN_ATTR_BOOL, .count = 1, .v.i = 1},
                               {.type = KILN_ATTR_NONE}};
    kilni_value places = 0;
    if (kiln_desc_count(out) == 0) {
        kilni_expand_output(expander, 0,
                            kilni_expand_full(expander, out->dims, out->rank, out->dtype, 0));
        kilni_expand_output(expander, 1,
                            kilni_expand_full(expander, out->dims, out->rank, KILN_DTYPE_I64, 0));
        return;
    }
    kilni_expand_op(expander, op, &x, 1, attrs, 3, &places);
    if (kilni_expand_wants(expander, 0)) {
        kilni_value values = indexed(expander, KILN_OP_GATHER, x, places, axis);
        values = kilni_expand_reshape(expander, values, out->dims, out->rank);
        kilni_expand_output(expander, 0, values);
    }
    kilni_expand_output(expander, 1, kilni_expand_reshape(expander, places, out->dims, out->rank));
}

void kiln_decompose_max_with_indices(kiln_expander *expander)
{
    with_indices(expander, KILN_OP_ARGMAX);
}

void kiln_decompose_min_with_indices(kiln_expander *expander)
{
    with_indices(expander, KILN_OP_ARGMIN);
}

// ---- cross product ----

void kiln_decompose_cross(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    uint32_t rank = call->outputs[0].rank;
    uint32_t axis = 0;
    kilni_value parts[2][3];
    kilni_value rows[3];
    (void)!kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), rank, &axis, NULL);
    for (unsigned i = 0; i < 2; i++) {
        kilni_value x = kilni_expand_wide(expander, kilni_expand_input(expander, i));
        for (unsigned k = 0; k < 3; k++) {
            parts[i][k] =
                kilni_expand_slice(expander, x, axis - (rank - call->inputs[i].rank), k, k + 1);
        }
    }
    for (unsigned k = 0; k < 3; k++) {
        unsigned p = (k + 1) % 3;
        unsigned q = (k + 2) % 3;
        kilni_value left = kilni_expand_2(expander, KILN_OP_MUL, parts[0][p], parts[1][q]);
        kilni_value right = kilni_expand_2(expander, KILN_OP_MUL, parts[0][q], parts[1][p]);
        rows[k] = kilni_expand_2(expander, KILN_OP_SUB, left, right);
    }
    const kiln_attr attr = kilni_attr_i64(axis);
    kilni_value joined = 0;
    kilni_expand_op(expander, KILN_OP_CONCAT, rows, 3, &attr, 1, &joined);
    kilni_expand_output(expander, 0, joined);
}
