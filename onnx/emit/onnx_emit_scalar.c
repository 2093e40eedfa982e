// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of two operands, and when a constant one of them becomes a scalar attribute:
// then one kernel serves every number, and nothing is uploaded for it.
#include "onnx_run.h"

#include <math.h>

/// The operator with a scalar for b, and the one that takes its operands the other way round.
static const struct {
    kiln_op op;
    kiln_op scalar;
    kiln_op swapped;
} scalar_forms[] = {
    {KILN_OP_ADD, KILN_OP_ADD_SCALAR, KILN_OP_ADD},
    {KILN_OP_SUB, KILN_OP_SUB_SCALAR, KILN_OP_COUNT},
    {KILN_OP_MUL, KILN_OP_MUL_SCALAR, KILN_OP_MUL},
    {KILN_OP_DIV, KILN_OP_DIV_SCALAR, KILN_OP_COUNT},
    {KILN_OP_REM, KILN_OP_REM_SCALAR, KILN_OP_COUNT},
    {KILN_OP_POW, KILN_OP_POW_SCALAR, KILN_OP_COUNT},
    {KILN_OP_MAXIMUM, KILN_OP_CLAMP_MIN, KILN_OP_MAXIMUM},
    {KILN_OP_MINIMUM, KILN_OP_CLAMP_MAX, KILN_OP_MINIMUM},
    {KILN_OP_EQUAL, KILN_OP_EQUAL_SCALAR, KILN_OP_EQUAL},
    {KILN_OP_NOT_EQUAL, KILN_OP_NOT_EQUAL_SCALAR, KILN_OP_NOT_EQUAL},
    {KILN_OP_LESS, KILN_OP_LESS_SCALAR, KILN_OP_GREATER},
    {KILN_OP_LESS_EQUAL, KILN_OP_LESS_EQUAL_SCALAR, KILN_OP_GREATER_EQUAL},
    {KILN_OP_GREATER, KILN_OP_GREATER_SCALAR, KILN_OP_LESS},
    {KILN_OP_GREATER_EQUAL, KILN_OP_GREATER_EQUAL_SCALAR, KILN_OP_LESS_EQUAL},
    {KILN_OP_BITWISE_AND, KILN_OP_BITWISE_AND_SCALAR, KILN_OP_BITWISE_AND},
    {KILN_OP_BITWISE_OR, KILN_OP_BITWISE_OR_SCALAR, KILN_OP_BITWISE_OR},
    {KILN_OP_BITWISE_XOR, KILN_OP_BITWISE_XOR_SCALAR, KILN_OP_BITWISE_XOR},
    {KILN_OP_SHIFT_LEFT, KILN_OP_SHIFT_LEFT_SCALAR, KILN_OP_COUNT},
    {KILN_OP_SHIFT_RIGHT, KILN_OP_SHIFT_RIGHT_SCALAR, KILN_OP_COUNT},
};

/// Whether b can be a number beside a: one constant element that does not change a's shape. A NaN
/// bound would be read differently by a clamp, and u64 does not fit the attribute.
bool kilni_onnx_is_number(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                          kiln_number *out_number)
{
    if (!kilni_onnx_ok(call) || !kilni_onnx_is_small(b) || kiln_desc_count(&b->desc) != 1 ||
        b->desc.rank > a->desc.rank || a->desc.dtype != b->desc.dtype ||
        a->desc.dtype == KILN_DTYPE_U64 || a->desc.dtype == KILN_DTYPE_BOOL) {
        return false;
    }
    *out_number = kilni_onnx_value_number(call, b);
    return out_number->is_integer || !isnan(out_number->v.f);
}

static kilni_onnx_ref with_number(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                  kiln_number number)
{
    const kiln_attr attr = kilni_onnx_a_number(number);
    return kilni_onnx_emit(call, op, &x, 1, &attr, 1);
}

kilni_onnx_ref kilni_onnx_binary(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref a,
                                 kilni_onnx_ref b)
{
    if (!kilni_onnx_ok(call) || a == NULL || b == NULL) {
        KILNI_ONNX_FAIL(call, INTERNAL, "operand %s of %s is missing", a == NULL ? "a" : "b",
                        kiln_op_info_of(op)->name);
        return NULL;
    }
    kiln_number number;
    bool fold_all = kilni_onnx_is_small(a) && kilni_onnx_is_small(b);
    for (size_t i = 0; !fold_all && i < sizeof(scalar_forms) / sizeof(scalar_forms[0]); i++) {
        if (scalar_forms[i].op == op && kilni_onnx_is_number(call, a, b, &number)) {
            return with_number(call, scalar_forms[i].scalar, a, number);
        }
        if (scalar_forms[i].swapped == op && kilni_onnx_is_number(call, b, a, &number)) {
            return with_number(call, scalar_forms[i].scalar, b, number);
        }
    }
    if (!fold_all && op == KILN_OP_SUB && kilni_onnx_is_number(call, b, a, &number)) {
        // c - x is -x + c, to the bit.
        return with_number(call, KILN_OP_ADD_SCALAR, kilni_onnx_unary(call, KILN_OP_NEG, b),
                           number);
    }
    const kilni_onnx_ref inputs[] = {a, b};
    return kilni_onnx_emit(call, op, inputs, 2, NULL, 0);
}

kilni_onnx_ref kilni_onnx_scalar(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x, double value)
{
    return with_number(call, op, x, kiln_f64(value));
}

kilni_onnx_ref kilni_onnx_scalar_int(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                                     int64_t value)
{
    return with_number(call, op, x, kiln_i64(value));
}
