// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's linear quantisation, one scale for the tensor, for each place along an axis or for each
// block, written with casts and arithmetic.
#include "onnx_parts.h"

/// Of rank 1: along `axis` of x, the axes behind it have length 1.
static kilni_onnx_ref along_axis(kilni_onnx_call *call, kilni_onnx_ref value, uint32_t axis,
                                 uint32_t rank)
{
    int64_t dims[KILN_MAX_RANK] = {value->desc.dims[0]};
    for (uint32_t i = 1; i < rank - axis; i++) {
        dims[i] = 1;
    }
    return kilni_onnx_reshape(call, value, dims, rank - axis);
}

/// One for each block of elements along the axis: laid out as x is.
static kilni_onnx_ref in_blocks(kilni_onnx_call *call, kilni_onnx_ref value,
                                const kiln_tensor_desc *x, uint32_t axis, int64_t block)
{
    int64_t outer = kilni_onnx_span_of(x, 0, axis);
    int64_t inner = kilni_onnx_span_of(x, axis + 1, x->rank);
    int64_t blocks = value->desc.dims[axis];
    const int64_t apart[] = {outer, blocks, 1, inner};
    const int64_t wide[] = {outer, blocks, block, inner};
    const int64_t joined[] = {outer, blocks * block, inner};
    value = kilni_onnx_reshape(call, value, apart, 4);
    value = kilni_onnx_expand(call, value, wide, 4);
    value = kilni_onnx_reshape(call, value, joined, 3);
    if (joined[1] != x->dims[axis]) {
        value = kilni_onnx_slice_axis(call, value, 1, 0, x->dims[axis], 1);
    }
    return kilni_onnx_reshape(call, value, x->dims, x->rank);
}

kilni_onnx_ref kilni_onnx_over_blocks(kilni_onnx_call *call, kilni_onnx_ref value,
                                      const kiln_tensor_desc *x, uint32_t axis, int64_t block)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    // No block is longer than its axis, so that the product of both stays a length.
    int64_t length = x->dims[axis] > 0 ? x->dims[axis] : 1;
    block = block > length ? length : block;
    if (block < 1 || !kilni_onnx_blocks_fit(&value->desc, x, axis, block)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "scale or zero point of rank %u does not fit blocks of %lld along axis %u",
                        value->desc.rank, (long long)block, axis);
        return NULL;
    }
    return in_blocks(call, value, x, axis, block);
}

/// A scale or zero point so that it broadcasts over x: one for all, for each place, or each block.
static kilni_onnx_ref spread(kilni_onnx_call *call, kilni_onnx_ref value, kilni_onnx_ref x)
{
    int64_t block = kilni_onnx_attr_int(call, "block_size", 0);
    int64_t given = kilni_onnx_attr_int(call, "axis", 1);
    if (!kilni_onnx_ok(call) || value == NULL) {
        return NULL;
    }
    if (block == 0 && kiln_desc_count(&value->desc) == 1) {
        return kilni_onnx_reshape(call, value, NULL, 0);
    }
    uint32_t axis = kilni_onnx_axis(call, given, x->desc.rank);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (block == 0 && value->desc.rank == 1) {
        return along_axis(call, value, axis, x->desc.rank);
    }
    return kilni_onnx_over_blocks(call, value, &x->desc, axis, block);
}

/// A constant of zeros, of which nothing is to be taken off.
static bool is_zeros(const kilni_onnx_value *given)
{
    const uint8_t *bytes = given->host;
    size_t count = (size_t)kiln_desc_count(&given->desc) * kiln_dtype_size(given->desc.dtype);
    bool zeros = given->constant && bytes != NULL;
    for (size_t i = 0; zeros && i < count; i++) {
        zeros = bytes[i] == 0;
    }
    return zeros;
}

/// The zero point so that it broadcasts over x; NULL where it is zero.
static kilni_onnx_ref taken_zero(kilni_onnx_call *call, uint32_t index, kilni_onnx_ref x)
{
    const kilni_onnx_value *given = kilni_onnx_opt(call, index);
    kilni_onnx_ref zero = spread(call, kilni_onnx_opt(call, index), x);
    return zero == NULL || is_zeros(given) ? NULL : zero;
}

/// Quantised numbers are computed with in f32: 16 bits do not fit f16.
static kiln_dtype wide_of(const kilni_onnx_value *scale)
{
    return scale->desc.dtype == KILN_DTYPE_F64 ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
}

void kilni_onnx_op_dequantize_linear(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref given = kilni_onnx_in(call, 1);
    kilni_onnx_ref kept = kilni_onnx_small_weight(call, x, given);
    if (kept != NULL) {
        kilni_onnx_out(call, 0, kept);
        return;
    }
    kilni_onnx_ref scale = kilni_onnx_decoded(call, spread(call, given, x));
    kilni_onnx_ref zero = taken_zero(call, 2, x);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kiln_dtype whole = kilni_onnx_is_bits(x->narrow) ? KILN_DTYPE_F32 : KILN_DTYPE_I32;
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "output_dtype", scale->desc.dtype);
    kiln_dtype wide = dtype == KILN_DTYPE_F64 ? dtype : wide_of(scale);
    kilni_onnx_ref y = kilni_onnx_cast(call, kilni_onnx_decoded(call, x), whole);
    if (zero != NULL) {
        zero = kilni_onnx_cast(call, kilni_onnx_decoded(call, zero), whole);
        y = kilni_onnx_binary(call, KILN_OP_SUB, y, zero);
    }
    y = kilni_onnx_cast(call, y, wide);
    y = kilni_onnx_binary(call, KILN_OP_MUL, y, kilni_onnx_cast(call, scale, wide));
    y = kilni_onnx_cast(call, y, dtype);
    kilni_onnx_out(call, 0, y);
    if (dtype == given->desc.dtype) {
        kilni_onnx_note_source(call, y);
    }
}

/// The type of a quantised tensor: the zero point's, else the attribute's, else u8.
static kiln_dtype quantised_type(kilni_onnx_call *call, const kilni_onnx_value *zero,
                                 int32_t *out_narrow)
{
    int64_t named = kilni_onnx_attr_int(call, "output_dtype", 0);
    kiln_dtype dtype = named == 0 ? KILN_DTYPE_U8 : kilni_onnx_dtype_of(call, named);
    *out_narrow = kilni_onnx_narrow_of(named);
    if (zero == NULL) {
        return dtype;
    }
    if (named != 0 && (dtype != zero->desc.dtype || *out_narrow != zero->narrow)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "output_dtype is not the zero point's type %s",
                        kiln_dtype_name(zero->desc.dtype));
    }
    *out_narrow = zero->narrow;
    return zero->desc.dtype;
}

/// x / scale as it is in the type that `precision` names: one of 16 bits rounds once more.
static kilni_onnx_ref divided(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref scale)
{
    kiln_dtype named = kilni_onnx_attr_dtype(call, "precision", KILN_DTYPE_NONE);
    kiln_dtype wide = named == KILN_DTYPE_F64 ? named : wide_of(scale);
    if (named != KILN_DTYPE_NONE) {
        x = kilni_onnx_cast(call, x, named);
        scale = kilni_onnx_cast(call, scale, named);
    }
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_DIV, kilni_onnx_cast(call, x, wide),
                                         kilni_onnx_cast(call, scale, wide));
    return named == KILN_DTYPE_NONE ? y
                                    : kilni_onnx_cast(call, kilni_onnx_cast(call, y, named), wide);
}

/// A cast to an integer saturates, which is what quantisation wants; small floats need no rounding
/// before it, and do as `saturate` says.
void kilni_onnx_op_quantize_linear(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref scale = kilni_onnx_decoded(call, spread(call, kilni_onnx_in(call, 1), x));
    kilni_onnx_ref zero = kilni_onnx_decoded(call, taken_zero(call, 2, x));
    bool saturate = kilni_onnx_attr_int(call, "saturate", 1) != 0;
    int32_t narrow = 0;
    kiln_dtype dtype = quantised_type(call, kilni_onnx_opt(call, 2), &narrow);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_ref y = divided(call, x, scale);
    kiln_dtype wide = kilni_onnx_ok(call) ? y->desc.dtype : KILN_DTYPE_F32;
    bool bits = kilni_onnx_is_bits(narrow);
    y = bits ? y : kilni_onnx_unary(call, KILN_OP_ROUND, y);
    if (zero != NULL) {
        y = kilni_onnx_binary(call, KILN_OP_ADD, y, kilni_onnx_cast(call, zero, wide));
    }
    kilni_onnx_out(call, 0,
                   bits ? kilni_onnx_encoded(call, y, narrow, saturate, KILNI_ONNX_UP)
                        : kilni_onnx_cast_to(call, y, dtype, narrow));
}

/// x - zero point in i32. The zero point of a is one for each row, that of b one for each column.
static kilni_onnx_ref shifted(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref zero,
                              bool by_row)
{
    kilni_onnx_ref wide = kilni_onnx_cast(call, x, KILN_DTYPE_I32);
    if (zero == NULL || !kilni_onnx_ok(call)) {
        return wide;
    }
    zero = kilni_onnx_cast(call, zero, KILN_DTYPE_I32);
    if (by_row && kilni_onnx_ok(call) && zero->desc.rank == 1 && zero->desc.dims[0] > 1) {
        const int64_t column[] = {zero->desc.dims[0], 1};
        zero = kilni_onnx_reshape(call, zero, column, 2);
    }
    return kilni_onnx_binary(call, KILN_OP_SUB, wide, zero);
}

/// A zero point as the operator matmul_integer wants it: one number, or one for each of `lines`.
/// NULL: it has one for each batch.
static kilni_onnx_ref line_zero(kilni_onnx_call *call, kilni_onnx_ref zero, kilni_onnx_ref of,
                                int64_t lines)
{
    static const int8_t none;
    if (zero == NULL) {
        return kilni_onnx_const_data(call, of->desc.dtype, 0, NULL, &none);
    }
    int64_t count = kiln_desc_count(&zero->desc);
    if (count == 1) {
        return kilni_onnx_reshape(call, zero, NULL, 0);
    }
    return count == lines ? kilni_onnx_reshape(call, zero, &lines, 1) : NULL;
}

static bool are_bytes(kilni_onnx_ref x)
{
    return x->desc.dtype == KILN_DTYPE_U8 || x->desc.dtype == KILN_DTYPE_I8;
}

static kilni_onnx_ref matrix_turned(kilni_onnx_call *call, kilni_onnx_ref x, bool turned)
{
    static const int64_t axes[] = {1, 0};
    return turned ? kilni_onnx_permute(call, x, axes, 2) : x;
}

kilni_onnx_ref kilni_onnx_integer_product(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                          const kilni_onnx_ref zeros[2], const bool turned[2])
{
    if (kilni_onnx_ok(call) &&
        ((turned[0] && a->desc.rank != 2) || (turned[1] && b->desc.rank != 2))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "operands of rank %u and %u are no matrices",
                        a->desc.rank, b->desc.rank);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t rank = a->desc.rank;
    int64_t rows = rank < 2 ? 1 : a->desc.dims[rank - (turned[0] ? 1u : 2u)];
    int64_t columns = b->desc.rank < 2 ? 1 : b->desc.dims[b->desc.rank - (turned[1] ? 2u : 1u)];
    kilni_onnx_ref a_zero = are_bytes(a) ? line_zero(call, zeros[0], a, rows) : NULL;
    kilni_onnx_ref b_zero = are_bytes(b) ? line_zero(call, zeros[1], b, columns) : NULL;
    if (kilni_onnx_ok(call) && a_zero != NULL && b_zero != NULL) {
        const kilni_onnx_ref inputs[] = {a, b, a_zero, b_zero};
        const kiln_attr attrs[2] = {kilni_attr_bool(turned[0]), kilni_attr_bool(turned[1])};
        uint32_t count = zeros[1] != NULL ? 4 : zeros[0] != NULL ? 3 : 2;
        return kilni_onnx_emit(call, KILN_OP_MATMUL_INTEGER, inputs, count, attrs, 2);
    }
    a = shifted(call, matrix_turned(call, a, turned[0]), zeros[0], true);
    b = shifted(call, matrix_turned(call, b, turned[1]), zeros[1], false);
    return kilni_onnx_matmul(call, a, b, false, false);
}

static kilni_onnx_ref plain_integer_product(kilni_onnx_call *call, kilni_onnx_ref a,
                                            kilni_onnx_ref b, const kilni_onnx_ref zeros[2])
{
    static const bool as_they_are[2];
    return kilni_onnx_integer_product(call, a, b, zeros, as_they_are);
}

void kilni_onnx_op_matmul_integer(kilni_onnx_call *call)
{
    const kilni_onnx_ref zeros[] = {kilni_onnx_opt(call, 2), kilni_onnx_opt(call, 3)};
    kilni_onnx_out(
        call, 0,
        plain_integer_product(call, kilni_onnx_in(call, 0), kilni_onnx_in(call, 1), zeros));
}

kilni_onnx_quantised kilni_onnx_quantise_by_range(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref low = kilni_onnx_reduce(call, KILN_OP_MIN, x, NULL, 0, false);
    kilni_onnx_ref high = kilni_onnx_reduce(call, KILN_OP_MAX, x, NULL, 0, false);
    low = kilni_onnx_scalar(call, KILN_OP_CLAMP_MAX, low, 0);
    high = kilni_onnx_scalar(call, KILN_OP_CLAMP_MIN, high, 0);
    kilni_onnx_ref scale = kilni_onnx_binary(call, KILN_OP_SUB, high, low);
    scale = kilni_onnx_scalar(call, KILN_OP_DIV_SCALAR, scale, 255);
    kilni_onnx_ref zero = kilni_onnx_binary(call, KILN_OP_DIV, low, scale);
    zero = kilni_onnx_unary(call, KILN_OP_ROUND, kilni_onnx_unary(call, KILN_OP_NEG, zero));
    zero = kilni_onnx_clamp(call, zero, 0, 255);
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_DIV, x, scale);
    y = kilni_onnx_binary(call, KILN_OP_ADD, kilni_onnx_unary(call, KILN_OP_ROUND, y), zero);
    return (kilni_onnx_quantised){.values = kilni_onnx_cast(call, y, KILN_DTYPE_U8),
                                  .scale = scale,
                                  .zero = kilni_onnx_cast(call, zero, KILN_DTYPE_U8)};
}

void kilni_onnx_op_dynamic_quantize_linear(kilni_onnx_call *call)
{
    kilni_onnx_quantised y = kilni_onnx_quantise_by_range(call, kilni_onnx_in(call, 0));
    kilni_onnx_out(call, 0, y.values);
    kilni_onnx_out(call, 1, y.scale);
    kilni_onnx_out(call, 2, y.zero);
}

/// i32 sums in units of scale a times scale b, as integers in units of scale y.
static kilni_onnx_ref requantised(kilni_onnx_call *call, kilni_onnx_ref sums,
                                  const kilni_onnx_ref scales[3], kilni_onnx_ref zero)
{
    kilni_onnx_ref unit = kilni_onnx_binary(call, KILN_OP_MUL, scales[0], scales[1]);
    unit = kilni_onnx_binary(call, KILN_OP_DIV, unit, scales[2]);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kiln_dtype dtype = unit->desc.dtype;
    kilni_onnx_ref y = kilni_onnx_cast(call, sums, dtype);
    y = kilni_onnx_unary(call, KILN_OP_ROUND, kilni_onnx_binary(call, KILN_OP_MUL, y, unit));
    y = kilni_onnx_binary(call, KILN_OP_ADD, y, kilni_onnx_cast(call, zero, dtype));
    return kilni_onnx_ok(call) ? kilni_onnx_cast(call, y, zero->desc.dtype) : NULL;
}

kilni_onnx_ref kilni_onnx_scale_before(kilni_onnx_call *call, kilni_onnx_ref scale, uint32_t after)
{
    int64_t dims[KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || kiln_desc_count(&scale->desc) == 1) {
        return kilni_onnx_ok(call) ? kilni_onnx_reshape(call, scale, NULL, 0) : NULL;
    }
    if (scale->desc.rank != 1) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "a scale of rank %u", scale->desc.rank);
        return NULL;
    }
    dims[0] = scale->desc.dims[0];
    for (uint32_t i = 1; i <= after; i++) {
        dims[i] = 1;
    }
    return kilni_onnx_reshape(call, scale, dims, after + 1);
}

void kilni_onnx_op_qlinear_matmul(kilni_onnx_call *call)
{
    const kilni_onnx_ref zeros[] = {kilni_onnx_in(call, 2), kilni_onnx_in(call, 5)};
    const kilni_onnx_ref scales[] = {kilni_onnx_scale_before(call, kilni_onnx_in(call, 1), 1),
                                     kilni_onnx_scale_before(call, kilni_onnx_in(call, 4), 0),
                                     kilni_onnx_scale_before(call, kilni_onnx_in(call, 6), 0)};
    kilni_onnx_ref sums =
        plain_integer_product(call, kilni_onnx_in(call, 0), kilni_onnx_in(call, 3), zeros);
    kilni_onnx_out(call, 0, requantised(call, sums, scales, kilni_onnx_in(call, 7)));
}

/// x - zero point as whole numbers of f32; `after`: axes behind that of many zero points.
static kilni_onnx_ref whole_numbers(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref zero,
                                    uint32_t after)
{
    kilni_onnx_ref y = kilni_onnx_cast(call, x, KILN_DTYPE_I32);
    if (kilni_onnx_ok(call) && !is_zeros(zero)) {
        zero = kilni_onnx_cast(call, kilni_onnx_scale_before(call, zero, after), KILN_DTYPE_I32);
        y = kilni_onnx_binary(call, KILN_OP_SUB, y, zero);
    }
    return kilni_onnx_cast(call, y, KILN_DTYPE_F32);
}

/// The sums as a convolution of whole numbers in f32, which a region of convolutions computes in
/// integers; elsewhere sums above 2^24 round as f32 does.
void kilni_onnx_op_qlinear_conv(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0), weight = kilni_onnx_in(call, 3);
    uint32_t rank = kilni_onnx_ok(call) ? weight->desc.rank : 1;
    const kilni_onnx_ref inputs[] = {
        whole_numbers(call, x, kilni_onnx_in(call, 2), 0),
        whole_numbers(call, weight, kilni_onnx_in(call, 5), rank - 1),
        kilni_onnx_opt(call, 8) != NULL
            ? kilni_onnx_cast(call, kilni_onnx_opt(call, 8), KILN_DTYPE_F32)
            : NULL};
    kilni_onnx_ref sums = kilni_onnx_as(call, kilni_onnx_op_conv, inputs, 3);
    const kilni_onnx_ref scales[] = {
        kilni_onnx_scale_before(call, kilni_onnx_in(call, 1), 0),
        kilni_onnx_scale_before(call, kilni_onnx_in(call, 4), rank - 2),
        kilni_onnx_scale_before(call, kilni_onnx_in(call, 6), 0)};
    kilni_onnx_out(call, 0, requantised(call, sums, scales, kilni_onnx_in(call, 7)));
}
