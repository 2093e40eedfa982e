// SPDX-License-Identifier: MIT OR Apache-2.0
// Activations and their derivatives as simpler operations, elementwise, so that fusers see nothing
// else. Decides in which
// order they are rounded; f16 and bf16 are computed in f32.
#include "decompose_internal.h"

/// x * 0.5 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) for erf.
void kiln_decompose_gelu(kiln_expander *expander)
{
    kilni_value x = kilni_expand_wide(expander, kilni_expand_input(expander, 0));
    kilni_value inner = 0;
    if (kiln_op_attr_i64(kilni_expand_call(expander), KILN_KEY_APPROXIMATE) != 0) {
        kilni_value cube = kilni_expand_2(expander, KILN_OP_MUL, x, x);
        cube = kilni_expand_2(expander, KILN_OP_MUL, cube, x);
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, cube, 0.044715);
        inner = kilni_expand_2(expander, KILN_OP_ADD, x, inner);
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, inner, 0.7978845608028654);
        inner = kilni_expand_1(expander, KILN_OP_TANH, inner);
    } else {
        inner = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, x, 0.7071067811865476);
        inner = kilni_expand_1(expander, KILN_OP_ERF, inner);
    }
    kilni_value gate = kilni_expand_scalar(expander, KILN_OP_ADD_SCALAR, inner, 1);
    kilni_value half = kilni_expand_scalar(expander, KILN_OP_MUL_SCALAR, x, 0.5);
    kilni_expand_output(expander, 0, kilni_expand_2(expander, KILN_OP_MUL, half, gate));
}

/// 0.5 * (1 + erf(x / sqrt 2)) + x * exp(-x * x / 2) / sqrt(2 pi)
static kilni_value gelu_slope(kiln_expander *expander, kilni_value x)
{
    kilni_value below =
        kilni_expand_1(expander, KILN_OP_ERF, kilni_x_scale(expander, x, 0.7071067811865476));
    below = kilni_x_scale(expander, kilni_x_shift(expander, below, 1), 0.5);
    kilni_value bell = kilni_x_scale(expander, kilni_x_mul(expander, x, x), -0.5);
    bell = kilni_expand_1(expander, KILN_OP_EXP, bell);
    bell = kilni_x_scale(expander, bell, 0.3989422804014327);
    return kilni_x_add(expander, below, kilni_x_mul(expander, x, bell));
}

/// With t = tanh(u), u = k * (x + c * x^3): 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * u'
static kilni_value gelu_tanh_slope(kiln_expander *expander, kilni_value x)
{
    kilni_value square = kilni_x_mul(expander, x, x);
    kilni_value inner = kilni_x_shift(expander, kilni_x_scale(expander, square, 0.044715), 1);
    inner = kilni_x_scale(expander, kilni_x_mul(expander, x, inner), 0.7978845608028654);
    kilni_value t = kilni_expand_1(expander, KILN_OP_TANH, inner);
    kilni_value rise = kilni_x_shift(expander, kilni_x_scale(expander, square, 0.134145), 1);
    rise = kilni_x_scale(expander, kilni_x_mul(expander, x, rise), 0.3989422804014327);
    kilni_value flat = kilni_expand_1(expander, KILN_OP_NEG, kilni_x_mul(expander, t, t));
    rise = kilni_x_mul(expander, rise, kilni_x_shift(expander, flat, 1));
    kilni_value half = kilni_x_scale(expander, kilni_x_shift(expander, t, 1), 0.5);
    return kilni_x_add(expander, half, rise);
}

/// Beyond 30 the slope is 0 or 1 in every dtype, so what overflows is kept out.
void kiln_decompose_gelu_backward(kiln_expander *expander)
{
    kilni_value x = kilni_x_clamp(expander, kilni_x_input(expander, 0), -30, 30);
    bool by_tanh = kilni_x_i64(expander, KILN_KEY_APPROXIMATE) != 0;
    kilni_value slope = by_tanh ? gelu_tanh_slope(expander, x) : gelu_slope(expander, x);
    kilni_expand_output(expander, 0, kilni_x_mul(expander, slope, kilni_x_input(expander, 1)));
}

void kiln_decompose_prelu(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value scaled = kilni_x_mul(expander, x, kilni_x_input(expander, 1));
    kilni_value negative = kilni_expand_scalar(expander, KILN_OP_LESS_SCALAR, x, 0);
    kilni_expand_output(expander, 0, kilni_expand_3(expander, KILN_OP_WHERE, scaled, x, negative));
}

static kilni_value hard_sigmoid(kiln_expander *expander, kilni_value x, double alpha, double beta)
{
    x = kilni_x_shift(expander, kilni_x_scale(expander, x, alpha), beta);
    return kilni_x_clamp(expander, x, 0, 1);
}

void kiln_decompose_hard_sigmoid(kiln_expander *expander)
{
    double alpha = kilni_x_f64(expander, KILN_KEY_ALPHA);
    double beta = kilni_x_f64(expander, KILN_KEY_BETA);
    kilni_expand_output(expander, 0,
                        hard_sigmoid(expander, kilni_x_input(expander, 0), alpha, beta));
}

void kiln_decompose_hard_swish(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value gate = hard_sigmoid(expander, x, 1.0 / 6, 0.5);
    kilni_expand_output(expander, 0, kilni_x_mul(expander, x, gate));
}

/// log(1 + exp(-|x|))
static kilni_value softplus_tail(kiln_expander *expander, kilni_value x)
{
    kilni_value size = kilni_expand_1(expander, KILN_OP_ABS, x);
    size = kilni_expand_1(expander, KILN_OP_NEG, size);
    return kilni_expand_1(expander, KILN_OP_LOG1P, kilni_expand_1(expander, KILN_OP_EXP, size));
}

static kilni_value softplus(kiln_expander *expander, kilni_value x)
{
    return kilni_x_add(expander, kilni_expand_1(expander, KILN_OP_RELU, x),
                       softplus_tail(expander, x));
}

void kiln_decompose_softplus(kiln_expander *expander)
{
    kilni_expand_output(expander, 0, softplus(expander, kilni_x_input(expander, 0)));
}

void kiln_decompose_log_sigmoid(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value low = kilni_expand_scalar(expander, KILN_OP_CLAMP_MAX, x, 0);
    kilni_expand_output(expander, 0, kilni_x_sub(expander, low, softplus_tail(expander, x)));
}

void kiln_decompose_mish(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value gate = kilni_expand_1(expander, KILN_OP_TANH, softplus(expander, x));
    kilni_expand_output(expander, 0, kilni_x_mul(expander, x, gate));
}

void kiln_decompose_silu(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value gate = kilni_expand_1(expander, KILN_OP_SIGMOID, x);
    kilni_expand_output(expander, 0, kilni_x_mul(expander, x, gate));
}

void kiln_decompose_elu(kiln_expander *expander)
{
    kilni_value x = kilni_x_input(expander, 0);
    kilni_value low = kilni_expand_1(expander, KILN_OP_EXPM1, x);
    low = kilni_x_scale(expander, low, kilni_x_f64(expander, KILN_KEY_ALPHA));
    kilni_value positive = kilni_expand_scalar(expander, KILN_OP_GREATER_SCALAR, x, 0);
    kilni_expand_output(expander, 0, kilni_expand_3(expander, KILN_OP_WHERE, x, low, positive));
}

void kiln_decompose_relu_backward(kiln_expander *expander)
{
    kilni_value output = kilni_expand_input(expander, 0);
    const kilni_value filled[] = {
        kilni_expand_input(expander, 1),
        kilni_expand_scalar(expander, KILN_OP_LESS_EQUAL_SCALAR, output, 0)};
    const kiln_attr zero = {.type = KILN_ATTR_F64, .count = 1, .v.f = 0};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_MASK_FILL, filled, 2, &zero, 1, &result);
    kilni_expand_output(expander, 0, result);
}

void kiln_decompose_sigmoid_backward(kiln_expander *expander)
{
    kilni_value output = kilni_x_input(expander, 0);
    kilni_value rest = kilni_expand_1(expander, KILN_OP_NEG, output);
    rest = kilni_x_mul(expander, output, kilni_x_shift(expander, rest, 1));
    kilni_expand_output(expander, 0, kilni_x_mul(expander, kilni_x_input(expander, 1), rest));
}

void kiln_decompose_log_sigmoid_backward(kiln_expander *expander)
{
    kilni_value slope = kilni_expand_1(expander, KILN_OP_EXP, kilni_x_input(expander, 0));
    slope = kilni_expand_scalar(expander, KILN_OP_ADD_SCALAR, slope, 1);
    slope = kilni_expand_1(expander, KILN_OP_RECIP, slope);
    kilni_expand_output(expander, 0, kilni_x_mul(expander, kilni_x_input(expander, 1), slope));
}
