// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's elementwise operators that are one of ours or a few: arithmetic, comparison, logic, bits,
// clipping. Activations are in onnx_op_activation.c, casts in onnx_op_cast.c.
#include "onnx_import.h"

#include <math.h>
#include <string.h>

/// Of small floats ONNX asks whether they are NaN, and nothing else.
void kilni_onnx_op_unary(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    x = call->row->op == KILN_OP_IS_NAN ? kilni_onnx_decoded(call, x) : x;
    kilni_onnx_out(call, 0, kilni_onnx_unary(call, call->row->op, x));
}

/// Before version 7, b's axes begin at `axis` of a when `broadcast` is set: trailing ones make that
/// the broadcasting of today.
static kilni_onnx_ref old_broadcast(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b)
{
    int64_t dims[KILN_MAX_RANK];
    if (call->version >= 7 || !kilni_onnx_ok(call) ||
        kilni_onnx_attr_int(call, "broadcast", 0) == 0 || b->desc.rank == 0 ||
        b->desc.rank >= a->desc.rank) {
        return b;
    }
    int64_t axis = kilni_onnx_attr_int(call, "axis", a->desc.rank - b->desc.rank);
    uint32_t first = kilni_onnx_axis(call, axis, a->desc.rank);
    if (first + b->desc.rank > a->desc.rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u does not fit at axis %u of rank %u",
                        b->desc.rank, first, a->desc.rank);
        return NULL;
    }
    uint32_t rank = a->desc.rank - first;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i < b->desc.rank ? b->desc.dims[i] : 1;
    }
    return kilni_onnx_reshape(call, b, dims, rank);
}

void kilni_onnx_op_binary(kilni_onnx_call *call)
{
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_ref b = kilni_onnx_in(call, 1);
    if (kilni_onnx_ok(call)) {
        b = old_broadcast(call, a, b);
    }
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, call->row->op, a, b));
}

static kilni_onnx_ref fold_inputs(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref all = kilni_onnx_in(call, 0);
    for (uint32_t i = 1; kilni_onnx_ok(call) && i < call->n_inputs; i++) {
        all = kilni_onnx_binary(call, op, all, kilni_onnx_in(call, i));
    }
    return all;
}

void kilni_onnx_op_variadic(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, fold_inputs(call, call->row->op));
}

void kilni_onnx_op_mean(kilni_onnx_call *call)
{
    kilni_onnx_ref sum = fold_inputs(call, KILN_OP_ADD);
    kilni_onnx_out(call, 0, kilni_onnx_scalar(call, KILN_OP_DIV_SCALAR, sum, call->n_inputs));
}

/// The second and third power of floats, as exporters write them for GELU and norms, are products:
/// a power by logarithm and exponential takes twenty times as long. NULL: another exponent.
static kilni_onnx_ref small_power(kilni_onnx_call *call, kilni_onnx_ref base,
                                  kilni_onnx_ref exponent)
{
    kiln_number number;
    if ((base->desc.dtype != KILN_DTYPE_F32 && base->desc.dtype != KILN_DTYPE_F64) ||
        kilni_onnx_is_small(base) || !kilni_onnx_is_number(call, base, exponent, &number) ||
        number.is_integer || (number.v.f != 2 && number.v.f != 3)) {
        return NULL;
    }
    kilni_onnx_ref square = kilni_onnx_binary(call, KILN_OP_MUL, base, base);
    return number.v.f == 2 ? square : kilni_onnx_binary(call, KILN_OP_MUL, square, base);
}

/// The result has the base's type. An integer base with a float exponent goes through the widest
/// float, so that whole powers stay whole.
void kilni_onnx_op_pow(kilni_onnx_call *call)
{
    kilni_onnx_ref base = kilni_onnx_in(call, 0);
    kilni_onnx_ref exponent = kilni_onnx_in(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_dtype dtype = base->desc.dtype;
    kiln_dtype via = dtype;
    exponent = old_broadcast(call, base, exponent);
    if (!kilni_onnx_is_float(base) && kilni_onnx_is_float(exponent)) {
        via = kilni_onnx_computes(call, KILN_DTYPE_F64) ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
    }
    kilni_onnx_ref power = small_power(
        call, base, kilni_onnx_is_float(base) ? kilni_onnx_cast(call, exponent, dtype) : exponent);
    if (power != NULL) {
        kilni_onnx_out(call, 0, power);
        return;
    }
    power = kilni_onnx_binary(call, KILN_OP_POW, kilni_onnx_cast(call, base, via),
                              kilni_onnx_cast(call, exponent, via));
    if (via == KILN_DTYPE_F32 && via != dtype) {
        power = kilni_onnx_unary(call, KILN_OP_ROUND, power);
    }
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, power, dtype));
}

void kilni_onnx_op_mod(kilni_onnx_call *call)
{
    kiln_op op = kilni_onnx_attr_int(call, "fmod", 0) != 0 ? KILN_OP_FMOD : KILN_OP_REM;
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, op, a, kilni_onnx_in(call, 1)));
}

/// An amount outside the width shifts everything out to the right: of signed numbers the sign
/// stays, as after width - 1. Of others nothing stays, which is what our operator does.
static kilni_onnx_ref within_width(kilni_onnx_call *call, kilni_onnx_ref amount)
{
    int64_t width = 8 * (int64_t)kiln_dtype_size(amount->desc.dtype);
    if (kiln_dtype_kind_of(amount->desc.dtype) != KILN_KIND_INT) {
        return amount;
    }
    kilni_onnx_ref below = kilni_onnx_scalar_int(call, KILN_OP_LESS_SCALAR, amount, 0);
    amount = kilni_onnx_mask_fill(call, amount, below, (double)(width - 1));
    return kilni_onnx_scalar_int(call, KILN_OP_CLAMP_MAX, amount, width - 1);
}

void kilni_onnx_op_bit_shift(kilni_onnx_call *call)
{
    const char *direction = kilni_onnx_attr_text(call, "direction", "");
    bool left = strcmp(direction, "LEFT") == 0;
    if (!left && strcmp(direction, "RIGHT") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "direction '%s' is neither LEFT nor RIGHT",
                        direction);
    }
    kilni_onnx_ref a = kilni_onnx_in(call, 0);
    kilni_onnx_ref amount = kilni_onnx_in(call, 1);
    amount = left || !kilni_onnx_ok(call) ? amount : within_width(call, amount);
    kilni_onnx_out(
        call, 0,
        kilni_onnx_binary(call, left ? KILN_OP_SHIFT_LEFT : KILN_OP_SHIFT_RIGHT, a, amount));
}

void kilni_onnx_op_is_inf(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_decoded(call, kilni_onnx_in(call, 0));
    bool positive = kilni_onnx_attr_int(call, "detect_positive", 1) != 0;
    bool negative = kilni_onnx_attr_int(call, "detect_negative", 1) != 0;
    kilni_onnx_ref found = NULL;
    if (positive && negative) {
        found = kilni_onnx_unary(call, KILN_OP_IS_INF, x);
    } else if (positive || negative) {
        found = kilni_onnx_scalar(call, KILN_OP_EQUAL_SCALAR, x,
                                  positive ? (double)INFINITY : -(double)INFINITY);
    } else if (kilni_onnx_ok(call)) {
        found = kilni_onnx_full(call, KILN_DTYPE_BOOL, x->desc.dims, x->desc.rank, kiln_i64(0));
    }
    kilni_onnx_out(call, 0, found);
}

void kilni_onnx_op_where(kilni_onnx_call *call)
{
    kilni_onnx_ref mask = kilni_onnx_in(call, 0);
    kilni_onnx_ref a = kilni_onnx_in(call, 1);
    kilni_onnx_out(call, 0, kilni_onnx_where(call, mask, a, kilni_onnx_in(call, 2)));
}

void kilni_onnx_op_clip_attrs(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    if (kilni_onnx_attr_find(call, "min") != NULL) {
        x = kilni_onnx_scalar(call, KILN_OP_CLAMP_MIN, x, kilni_onnx_attr_float(call, "min", 0));
    }
    if (kilni_onnx_attr_find(call, "max") != NULL) {
        x = kilni_onnx_scalar(call, KILN_OP_CLAMP_MAX, x, kilni_onnx_attr_float(call, "max", 0));
    }
    kilni_onnx_out(call, 0, x);
}

void kilni_onnx_op_clip(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref low = kilni_onnx_opt(call, 1);
    kilni_onnx_ref high = kilni_onnx_opt(call, 2);
    kiln_number bounds[2];
    if (low != NULL && high != NULL && kilni_onnx_is_number(call, x, low, &bounds[0]) &&
        kilni_onnx_is_number(call, x, high, &bounds[1])) {
        const kiln_attr attrs[] = {kilni_onnx_a_number(bounds[0]), kilni_onnx_a_number(bounds[1])};
        kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_CLAMP, &x, 1, attrs, 2));
        return;
    }
    if (low != NULL) {
        x = kilni_onnx_binary(call, KILN_OP_MAXIMUM, x, low);
    }
    if (high != NULL) {
        x = kilni_onnx_binary(call, KILN_OP_MINIMUM, x, high);
    }
    kilni_onnx_out(call, 0, x);
}
