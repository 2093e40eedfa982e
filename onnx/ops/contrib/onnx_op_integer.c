// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's products of bytes that give floats: what ONNX Runtime joins of MatMulInteger with
// the quantisation before it and the scales behind it.
#include "onnx_parts.h"

/// Sums of a product in units of both scales, as floats.
static kilni_onnx_ref scaled_sums(kilni_onnx_call *call, kilni_onnx_ref sums,
                                  const kilni_onnx_ref scales[2])
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kilni_onnx_ref unit =
        kilni_onnx_binary(call, KILN_OP_MUL, kilni_onnx_scale_before(call, scales[0], 1),
                          kilni_onnx_scale_before(call, scales[1], 0));
    kilni_onnx_ref y = kilni_onnx_cast(call, sums, KILN_DTYPE_F32);
    return kilni_onnx_binary(call, KILN_OP_MUL, y, kilni_onnx_cast(call, unit, KILN_DTYPE_F32));
}

kilni_onnx_ref kilni_onnx_float_product(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref b,
                                        const kilni_onnx_ref scales[2],
                                        const kilni_onnx_ref zeros[2])
{
    static const bool as_they_are[2];
    kilni_onnx_ref sums = kilni_onnx_integer_product(call, a, b, zeros, as_they_are);
    return scaled_sums(call, sums, scales);
}

static void give_with_bias(kilni_onnx_call *call, kilni_onnx_ref y, kilni_onnx_ref bias,
                           kiln_dtype dtype)
{
    if (bias != NULL) {
        bias = kilni_onnx_cast(call, bias, KILN_DTYPE_F32);
        y = kilni_onnx_binary(call, KILN_OP_ADD, y, bias);
    }
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, y, dtype));
}

void kilni_onnx_op_matmul_integer_to_float(kilni_onnx_call *call)
{
    const kilni_onnx_ref scales[] = {kilni_onnx_in(call, 2), kilni_onnx_in(call, 3)};
    const kilni_onnx_ref zeros[] = {kilni_onnx_opt(call, 4), kilni_onnx_opt(call, 5)};
    kilni_onnx_ref y = kilni_onnx_float_product(call, kilni_onnx_in(call, 0),
                                                kilni_onnx_in(call, 1), scales, zeros);
    if (kilni_onnx_ok(call)) {
        give_with_bias(call, y, kilni_onnx_opt(call, 6), scales[0]->desc.dtype);
    }
}

void kilni_onnx_op_dynamic_quantize_matmul(kilni_onnx_call *call)
{
    kilni_onnx_quantised a = kilni_onnx_quantise_by_range(call, kilni_onnx_in(call, 0));
    const kilni_onnx_ref scales[] = {a.scale, kilni_onnx_in(call, 2)};
    const kilni_onnx_ref zeros[] = {a.zero, kilni_onnx_opt(call, 3)};
    kilni_onnx_ref y =
        kilni_onnx_float_product(call, a.values, kilni_onnx_in(call, 1), scales, zeros);
    give_with_bias(call, y, kilni_onnx_opt(call, 4), KILN_DTYPE_F32);
}

/// C is in units of the sums; without a scale of the result it is floats.
void kilni_onnx_op_quantised_gemm(kilni_onnx_call *call)
{
    const kilni_onnx_ref scales[] = {kilni_onnx_in(call, 1), kilni_onnx_in(call, 4)};
    const kilni_onnx_ref zeros[] = {kilni_onnx_in(call, 2), kilni_onnx_in(call, 5)};
    kilni_onnx_ref c = kilni_onnx_opt(call, 6), zero = kilni_onnx_opt(call, 8);
    kilni_onnx_ref scale = kilni_onnx_opt(call, 7);
    double alpha = kilni_onnx_attr_float(call, "alpha", 1);
    const bool turned[] = {kilni_onnx_attr_int(call, "transA", 0) != 0,
                           kilni_onnx_attr_int(call, "transB", 0) != 0};
    kilni_onnx_ref y = kilni_onnx_integer_product(call, kilni_onnx_in(call, 0),
                                                  kilni_onnx_in(call, 3), zeros, turned);
    y = c == NULL ? y : kilni_onnx_binary(call, KILN_OP_ADD, y, c);
    y = scaled_sums(call, y, scales);
    y = alpha == 1.0 ? y : kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, alpha);
    if (kilni_onnx_ok(call) && (scale == NULL) != (zero == NULL)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "y_scale and y_zero_point go together");
    }
    if (scale != NULL && kilni_onnx_ok(call)) {
        y = kilni_onnx_binary(call, KILN_OP_DIV, y, kilni_onnx_scale_before(call, scale, 0));
        y = kilni_onnx_unary(call, KILN_OP_ROUND, y);
        y = kilni_onnx_binary(
            call, KILN_OP_ADD, y,
            kilni_onnx_scale_before(call, kilni_onnx_cast(call, zero, KILN_DTYPE_F32), 0));
        y = kilni_onnx_cast(call, y, zero->desc.dtype);
    }
    kilni_onnx_out(call, 0, y);
}

// ---- LSTM ----

/// Weights [directions, terms, gates] as ONNX's LSTM has them, with a scale and a zero point for
/// each direction, or for each of its gates.
static kilni_onnx_ref float_gates(kilni_onnx_call *call, uint32_t at, uint32_t units)
{
    static const int64_t turned[] = {0, 2, 1};
    kilni_onnx_ref x = kilni_onnx_in(call, at),
                   parts[2] = {kilni_onnx_in(call, units), kilni_onnx_in(call, units + 1)};
    if (kilni_onnx_ok(call) && x->desc.rank != 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "weights of rank %u, not 3", x->desc.rank);
    }
    for (int i = 0; i < 2 && kilni_onnx_ok(call); i++) {
        int64_t count = kiln_desc_count(&parts[i]->desc);
        const int64_t *d = x->desc.dims;
        const int64_t dims[] = {d[0], 1, count == d[0] ? 1 : d[2]};
        parts[i] =
            kilni_onnx_cast(call, kilni_onnx_reshape(call, parts[i], dims, 3), KILN_DTYPE_F32);
    }
    x = kilni_onnx_cast(call, x, KILN_DTYPE_F32);
    x = kilni_onnx_binary(call, KILN_OP_SUB, x, parts[1]);
    x = kilni_onnx_binary(call, KILN_OP_MUL, x, parts[0]);
    return kilni_onnx_permute(call, x, turned, 3);
}

/// The input is not quantised: what that would lose is the only difference.
void kilni_onnx_op_dynamic_quantize_lstm(kilni_onnx_call *call)
{
    kilni_onnx_ref inputs[8] = {kilni_onnx_in(call, 0), float_gates(call, 1, 8),
                                float_gates(call, 2, 10)};
    for (uint32_t i = 3; i < 8; i++) {
        inputs[i] = kilni_onnx_opt(call, i);
    }
    kilni_onnx_become(call, kilni_onnx_op_lstm, inputs, 8);
}
