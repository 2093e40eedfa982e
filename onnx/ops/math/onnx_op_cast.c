// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's casts. Decides what becomes of a number that an element type of few bits has not: integers
// of four and two bits are held in i8 and u8, floats of eight and four as their bits in u8.
#include "onnx_cast_text.h"

#include <string.h>

typedef struct narrow_facts { ///< of a type that `kilni_onnx_value.narrow` names
    int32_t onnx_type;
    int bits;
    bool is_signed; ///< of integers
    double largest; ///< of floats
} narrow_facts;

static const narrow_facts *facts_of(int32_t narrow)
{
    static const narrow_facts none = {0};
    static const narrow_facts facts[] = {
        {KILNI_ONNX_TYPE_F8E4M3FN, 8, false, 448},   {KILNI_ONNX_TYPE_F8E4M3FNUZ, 8, false, 240},
        {KILNI_ONNX_TYPE_F8E5M2, 8, false, 57344},   {KILNI_ONNX_TYPE_F8E5M2FNUZ, 8, false, 57344},
        {KILNI_ONNX_TYPE_F8E8M0, 8, false, 0x1p127}, {KILNI_ONNX_TYPE_F4E2M1, 4, false, 6},
        {KILNI_ONNX_TYPE_UINT4, 4, false, 0},        {KILNI_ONNX_TYPE_INT4, 4, true, 0},
        {KILNI_ONNX_TYPE_UINT2, 2, false, 0},        {KILNI_ONNX_TYPE_INT2, 2, true, 0},
    };
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        if (facts[i].onnx_type == narrow) {
            return &facts[i];
        }
    }
    return &none;
}

/// A number of the small float dtype, as an operand of its operators.
static double number_of(int32_t narrow)
{
    return (double)kilni_onnx_type_dtype(narrow);
}

// ---- integers of few bits ----

static kilni_onnx_ref low_bits(kilni_onnx_call *call, kilni_onnx_ref x, const narrow_facts *facts)
{
    int64_t half = (int64_t)1 << (facts->bits - 1);
    x = kilni_onnx_scalar_int(call, KILN_OP_BITWISE_AND_SCALAR, x, 2 * half - 1);
    if (facts->is_signed) {
        x = kilni_onnx_scalar_int(call, KILN_OP_BITWISE_XOR_SCALAR, x, half);
        x = kilni_onnx_scalar_int(call, KILN_OP_SUB_SCALAR, x, half);
    }
    return x;
}

static kilni_onnx_ref bounded(kilni_onnx_call *call, kilni_onnx_ref x, const narrow_facts *facts)
{
    double half = (double)(1 << (facts->bits - 1));
    return kilni_onnx_clamp(call, kilni_onnx_unary(call, KILN_OP_ROUND, x),
                            facts->is_signed ? -half : 0,
                            facts->is_signed ? half - 1 : 2 * half - 1);
}

/// The same elements under another type: a value of its own.
static kilni_onnx_ref renamed(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref given,
                              int32_t narrow)
{
    if (kilni_onnx_ok(call) && x == given) {
        const kiln_attr dims = kilni_attr_ints(x->desc.dims, x->desc.rank);
        x = kilni_onnx_emit(call, KILN_OP_RESHAPE, &given, 1, &dims, 1);
    }
    if (kilni_onnx_ok(call)) {
        x->narrow = narrow;
    }
    return x;
}

// ---- small floats ----

kilni_onnx_ref kilni_onnx_decoded(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || x == NULL || !kilni_onnx_is_bits(x->narrow)) {
        return x;
    }
    kilni_onnx_ref bits = kilni_onnx_cast(call, x, KILN_DTYPE_F32);
    return kilni_onnx_scalar(call, KILN_OP_DECODE_SMALL, bits, number_of(x->narrow));
}

/// The float that holds all numbers of x, where the device has it: so a cast rounds once.
static kilni_onnx_ref widest(kilni_onnx_call *call, kilni_onnx_ref x)
{
    bool wide = x->desc.dtype == KILN_DTYPE_F64 ||
                (!kilni_onnx_is_float(x) && kiln_dtype_size(x->desc.dtype) > 2);
    wide = wide && kilni_onnx_computes(call, KILN_DTYPE_F64);
    return kilni_onnx_cast(call, x, wide ? KILN_DTYPE_F64 : KILN_DTYPE_F32);
}

/// Of f8e8m0: up and down from the nearest, by one power of two where that is on the wrong side.
static kilni_onnx_ref rounded_by(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref bits,
                                 kilni_onnx_rounding rounding)
{
    bool up = rounding == KILNI_ONNX_UP;
    kilni_onnx_ref near =
        kilni_onnx_scalar(call, KILN_OP_DECODE_SMALL, bits, (double)KILN_DTYPE_F8E8M0);
    kilni_onnx_ref wrong = kilni_onnx_binary(call, up ? KILN_OP_LESS : KILN_OP_GREATER, near, x);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    wrong = kilni_onnx_cast(call, wrong, bits->desc.dtype);
    return kilni_onnx_binary(call, up ? KILN_OP_ADD : KILN_OP_SUB, bits, wrong);
}

kilni_onnx_ref kilni_onnx_encoded(kilni_onnx_call *call, kilni_onnx_ref x, int32_t narrow,
                                  bool saturate, kilni_onnx_rounding rounding)
{
    bool scale = narrow == KILNI_ONNX_TYPE_F8E8M0;
    double largest = facts_of(narrow)->largest;
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    x = widest(call, x);
    if (saturate) {
        x = kilni_onnx_clamp(call, x, scale ? 0x1p-127 : -largest, largest);
    }
    kilni_onnx_ref bits = kilni_onnx_scalar(call, KILN_OP_ENCODE_SMALL, x, number_of(narrow));
    if (scale && rounding != KILNI_ONNX_NEAREST) {
        bits = rounded_by(call, x, bits, rounding);
    }
    return renamed(call, kilni_onnx_cast(call, bits, KILN_DTYPE_U8), NULL, narrow);
}

// ---- the operators ----

kilni_onnx_ref kilni_onnx_cast_to(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype,
                                  int32_t narrow)
{
    if (!kilni_onnx_ok(call) || x == NULL || x->narrow == narrow) {
        return kilni_onnx_cast(call, x, dtype);
    }
    if (narrow == KILNI_ONNX_TYPE_STRING) {
        return kilni_onnx_to_text(call, kilni_onnx_decoded(call, x));
    }
    if (kilni_onnx_is_text(x)) {
        kiln_dtype number = narrow == 0 ? dtype : KILN_DTYPE_F64;
        return kilni_onnx_cast_to(call, kilni_onnx_from_text(call, x, number), dtype, narrow);
    }
    x = kilni_onnx_decoded(call, x);
    if (kilni_onnx_is_bits(narrow)) {
        return kilni_onnx_encoded(call, x, narrow, true, KILNI_ONNX_UP);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    bool floats = kilni_onnx_is_float(x);
    kilni_onnx_ref y = narrow != 0 && floats ? bounded(call, x, facts_of(narrow)) : x;
    y = kilni_onnx_cast(call, y, dtype);
    if (narrow != 0 && !floats) {
        y = low_bits(call, y, facts_of(narrow));
    }
    return renamed(call, y, x, narrow);
}

static kilni_onnx_rounding rounding_of(kilni_onnx_call *call)
{
    const char *mode = kilni_onnx_attr_text(call, "round_mode", "up");
    if (strcmp(mode, "up") != 0 && strcmp(mode, "down") != 0 && strcmp(mode, "nearest") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "round_mode '%s' is not up, down or nearest", mode);
    }
    return mode[0] == 'u' ? KILNI_ONNX_UP : mode[0] == 'd' ? KILNI_ONNX_DOWN : KILNI_ONNX_NEAREST;
}

/// Floats beyond integers of four bits were bounded before version 23 and keep their low bits
/// since: ONNX leaves them undefined, and this is what its cases have had.
static kilni_onnx_ref converted(kilni_onnx_call *call, kilni_onnx_ref x, kiln_dtype dtype,
                                int32_t narrow)
{
    bool saturate = kilni_onnx_attr_int(call, "saturate", 1) != 0;
    kilni_onnx_rounding rounding = rounding_of(call);
    if (!kilni_onnx_ok(call) || x->narrow == narrow || narrow == KILNI_ONNX_TYPE_STRING) {
        return kilni_onnx_cast_to(call, x, dtype, narrow);
    }
    if (kilni_onnx_is_text(x)) {
        kiln_dtype number = narrow == 0 ? dtype : KILN_DTYPE_F32;
        x = kilni_onnx_from_text(call, x, number);
    }
    x = kilni_onnx_decoded(call, x);
    if (kilni_onnx_is_bits(narrow)) {
        return kilni_onnx_encoded(call, x, narrow, saturate, rounding);
    }
    if (kilni_onnx_ok(call) && narrow != 0 && call->version >= 23 && kilni_onnx_is_float(x)) {
        x = kilni_onnx_cast(call, kilni_onnx_unary(call, KILN_OP_ROUND, x), KILN_DTYPE_I32);
    }
    return kilni_onnx_cast_to(call, x, dtype, narrow);
}

void kilni_onnx_op_cast(kilni_onnx_call *call)
{
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "to", KILN_DTYPE_NONE);
    if (dtype == KILN_DTYPE_NONE) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'to' is missing");
        return;
    }
    const kilni_onnx_attr *to = kilni_onnx_attr_find(call, "to");
    int32_t narrow = to->type == KILNI_ONNX_ATTR_INT ? kilni_onnx_narrow_of(to->i) : 0;
    kilni_onnx_out(call, 0, converted(call, kilni_onnx_in(call, 0), dtype, narrow));
}

void kilni_onnx_op_cast_like(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref like = kilni_onnx_in(call, 1);
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, converted(call, x, like->desc.dtype, like->narrow));
    }
}

static int width_of(kiln_dtype dtype, int32_t narrow)
{
    return narrow != 0 ? facts_of(narrow)->bits : 8 * (int)kiln_dtype_size(dtype);
}

/// The same bits under another type of the same width. Between integers, truths and what u8 holds a
/// cast does that; wider floats go through the host.
void kilni_onnx_op_bit_cast(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "to", KILN_DTYPE_NONE);
    const kilni_onnx_attr *to = kilni_onnx_attr_find(call, "to");
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int32_t narrow = to != NULL ? kilni_onnx_narrow_of(to->i) : 0;
    if (narrow == KILNI_ONNX_TYPE_STRING || kilni_onnx_is_text(x)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "strings have no bits: Cast reads and writes them");
        return;
    }
    if (dtype == KILN_DTYPE_NONE || width_of(dtype, narrow) != width_of(x->desc.dtype, x->narrow)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'to' names no type as wide as %s",
                        kiln_dtype_name(x->desc.dtype));
        return;
    }
    bool floats = kilni_onnx_is_float(x) || kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
    if (x->desc.dtype == dtype || !floats) {
        kilni_onnx_ref y = kilni_onnx_cast(call, x, dtype);
        y = width_of(dtype, narrow) < 8 ? low_bits(call, y, facts_of(narrow)) : y;
        kilni_onnx_out(call, 0, renamed(call, y, x, narrow));
        return;
    }
    const void *bits = kilni_onnx_host(call, x);
    kilni_onnx_ref y = kilni_onnx_const_data(call, dtype, x->desc.rank, x->desc.dims, bits);
    if (kilni_onnx_ok(call)) {
        y->constant = x->constant;
    }
    kilni_onnx_out(call, 0, y);
}
