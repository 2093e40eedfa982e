// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of the elementwise operators. At a kink a gradient is one of those on its two sides, or
// their mean.
#include "gradients.h"

// ---- one input ----

/// The gradient of the result times `slope`.
static void give_times(kilni_rule *rule, kiln_tensor *slope)
{
    kilni_g_give(rule, 0, kilni_g_mul(rule, kilni_g_grad(rule, 0), slope));
}

static void give_over(kilni_rule *rule, kiln_tensor *divisor)
{
    kilni_g_give(rule, 0, kilni_g_div(rule, kilni_g_grad(rule, 0), divisor));
}

/// factor * a + term
static kiln_tensor *line(kilni_rule *rule, kiln_tensor *a, double factor, double term)
{
    return kilni_g_shift(rule, factor == 1 ? a : kilni_g_scale(rule, a, factor), term);
}

void kilni_gradient_pass(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_grad(rule, 0));
}

void kilni_gradient_neg(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_neg(rule, kilni_g_grad(rule, 0)));
}

void kilni_gradient_abs(kilni_rule *rule)
{
    give_times(rule, kilni_g_1(rule, KILN_OP_SIGN, kilni_g_in(rule, 0)));
}

void kilni_gradient_exp(kilni_rule *rule)
{
    give_times(rule, kilni_g_out(rule, 0));
}

void kilni_gradient_expm1(kilni_rule *rule)
{
    give_times(rule, kilni_g_shift(rule, kilni_g_out(rule, 0), 1));
}

void kilni_gradient_log(kilni_rule *rule)
{
    give_over(rule, kilni_g_in(rule, 0));
}

void kilni_gradient_log1p(kilni_rule *rule)
{
    give_over(rule, kilni_g_shift(rule, kilni_g_in(rule, 0), 1));
}

/// 2 / sqrt(pi) * exp(-x * x)
void kilni_gradient_erf(kilni_rule *rule)
{
    kiln_tensor *bell = kilni_g_neg(rule, kilni_g_square(rule, kilni_g_in(rule, 0)));
    bell = kilni_g_1(rule, KILN_OP_EXP, bell);
    give_times(rule, kilni_g_scale(rule, bell, 1.1283791670955126));
}

void kilni_gradient_sqrt(kilni_rule *rule)
{
    give_over(rule, kilni_g_scale(rule, kilni_g_out(rule, 0), 2));
}

/// -y^3 / 2
void kilni_gradient_rsqrt(kilni_rule *rule)
{
    kiln_tensor *y = kilni_g_out(rule, 0);
    give_times(rule, kilni_g_scale(rule, kilni_g_mul(rule, kilni_g_square(rule, y), y), -0.5));
}

void kilni_gradient_recip(kilni_rule *rule)
{
    give_times(rule, kilni_g_neg(rule, kilni_g_square(rule, kilni_g_out(rule, 0))));
}

void kilni_gradient_sin(kilni_rule *rule)
{
    give_times(rule, kilni_g_1(rule, KILN_OP_COS, kilni_g_in(rule, 0)));
}

void kilni_gradient_cos(kilni_rule *rule)
{
    give_times(rule, kilni_g_neg(rule, kilni_g_1(rule, KILN_OP_SIN, kilni_g_in(rule, 0))));
}

void kilni_gradient_tan(kilni_rule *rule)
{
    give_times(rule, line(rule, kilni_g_square(rule, kilni_g_out(rule, 0)), 1, 1));
}

void kilni_gradient_sinh(kilni_rule *rule)
{
    give_times(rule, kilni_g_1(rule, KILN_OP_COSH, kilni_g_in(rule, 0)));
}

void kilni_gradient_cosh(kilni_rule *rule)
{
    give_times(rule, kilni_g_1(rule, KILN_OP_SINH, kilni_g_in(rule, 0)));
}

void kilni_gradient_tanh(kilni_rule *rule)
{
    give_times(rule, line(rule, kilni_g_square(rule, kilni_g_out(rule, 0)), -1, 1));
}

/// 1 / sqrt(1 - x * x)
static kiln_tensor *arc(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *rest = kilni_g_mul(rule, line(rule, x, -1, 1), line(rule, x, 1, 1));
    return kilni_g_1(rule, KILN_OP_RSQRT, rest);
}

void kilni_gradient_asin(kilni_rule *rule)
{
    give_times(rule, arc(rule));
}

void kilni_gradient_acos(kilni_rule *rule)
{
    give_times(rule, kilni_g_neg(rule, arc(rule)));
}

void kilni_gradient_atan(kilni_rule *rule)
{
    give_over(rule, line(rule, kilni_g_square(rule, kilni_g_in(rule, 0)), 1, 1));
}

void kilni_gradient_asinh(kilni_rule *rule)
{
    kiln_tensor *length = line(rule, kilni_g_square(rule, kilni_g_in(rule, 0)), 1, 1);
    give_times(rule, kilni_g_1(rule, KILN_OP_RSQRT, length));
}

void kilni_gradient_acosh(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *rest = kilni_g_mul(rule, line(rule, x, 1, -1), line(rule, x, 1, 1));
    give_times(rule, kilni_g_1(rule, KILN_OP_RSQRT, rest));
}

void kilni_gradient_atanh(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_in(rule, 0);
    give_over(rule, kilni_g_mul(rule, line(rule, x, -1, 1), line(rule, x, 1, 1)));
}

// ---- activations ----

void kilni_gradient_relu(kilni_rule *rule)
{
    kilni_g_give(
        rule, 0,
        kilni_g_2(rule, KILN_OP_RELU_BACKWARD, kilni_g_out(rule, 0), kilni_g_grad(rule, 0)));
}

/// The gradient for `grad` alone: where output is 0, that for output is 0 on both sides.
void kilni_gradient_relu_backward(kilni_rule *rule)
{
    kiln_tensor *none = kilni_g_scalar(rule, KILN_OP_LESS_EQUAL_SCALAR, kilni_g_in(rule, 0), 0);
    kilni_g_give(rule, 1, kilni_g_fill(rule, kilni_g_grad(rule, 0), none, 0));
}

void kilni_gradient_sigmoid(kilni_rule *rule)
{
    kilni_g_give(
        rule, 0,
        kilni_g_2(rule, KILN_OP_SIGMOID_BACKWARD, kilni_g_out(rule, 0), kilni_g_grad(rule, 0)));
}

void kilni_gradient_log_sigmoid(kilni_rule *rule)
{
    kilni_g_give(
        rule, 0,
        kilni_g_2(rule, KILN_OP_LOG_SIGMOID_BACKWARD, kilni_g_in(rule, 0), kilni_g_grad(rule, 0)));
}

void kilni_gradient_gelu(kilni_rule *rule)
{
    kilni_g_give(rule, 0,
                 kilni_g_with_2(rule, KILN_OP_GELU_BACKWARD, kilni_g_in(rule, 0),
                                kilni_g_grad(rule, 0), rule->call->attrs, 1));
}

void kilni_gradient_softplus(kilni_rule *rule)
{
    give_times(rule, kilni_g_1(rule, KILN_OP_SIGMOID, kilni_g_in(rule, 0)));
}

/// t + x * (1 - t * t) * sigmoid(x), t = tanh(softplus(x))
void kilni_gradient_mish(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *t = kilni_g_1(rule, KILN_OP_TANH, kilni_g_1(rule, KILN_OP_SOFTPLUS, x));
    kiln_tensor *rise = kilni_g_mul(rule, x, kilni_g_1(rule, KILN_OP_SIGMOID, x));
    rise = kilni_g_mul(rule, rise, line(rule, kilni_g_square(rule, t), -1, 1));
    give_times(rule, kilni_g_add(rule, t, rise));
}

/// As x >= 0, x itself being on that side.
void kilni_gradient_leaky_relu(kilni_rule *rule)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kiln_tensor *above = kilni_g_scalar(rule, KILN_OP_GREATER_EQUAL_SCALAR, kilni_g_in(rule, 0), 0);
    kiln_tensor *low = kilni_g_scale(rule, grad, kilni_g_f64(rule, KILN_KEY_SLOPE));
    kilni_g_give(rule, 0, kilni_g_where(rule, grad, low, above));
}

// ---- two inputs ----

void kilni_gradient_add(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_grad(rule, 0));
    kilni_g_give(rule, 1, kilni_g_grad(rule, 0));
}

void kilni_gradient_sub(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_grad(rule, 0));
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, kilni_g_neg(rule, kilni_g_grad(rule, 0)));
    }
}

void kilni_gradient_mul(kilni_rule *rule)
{
    for (unsigned i = 0; i < 2; i++) {
        if (kilni_g_wants(rule, i)) {
            kiln_tensor *other = kilni_g_in(rule, 1 - i);
            kilni_g_give(rule, i, kilni_g_mul(rule, kilni_g_grad(rule, 0), other));
        }
    }
}

void kilni_gradient_div(kilni_rule *rule)
{
    kiln_tensor *part = kilni_g_div(rule, kilni_g_grad(rule, 0), kilni_g_in(rule, 1));
    kilni_g_give(rule, 0, part);
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, kilni_g_neg(rule, kilni_g_mul(rule, part, kilni_g_out(rule, 0))));
    }
}

/// a - b * (a / b made whole by `op`)
static void give_remainder(kilni_rule *rule, kiln_op op)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kilni_g_give(rule, 0, grad);
    if (kilni_g_wants(rule, 1)) {
        kiln_tensor *times = kilni_g_div(rule, kilni_g_in(rule, 0), kilni_g_in(rule, 1));
        times = kilni_g_neg(rule, kilni_g_1(rule, op, times));
        kilni_g_give(rule, 1, kilni_g_mul(rule, grad, times));
    }
}

void kilni_gradient_rem(kilni_rule *rule)
{
    give_remainder(rule, KILN_OP_FLOOR);
}

void kilni_gradient_fmod(kilni_rule *rule)
{
    give_remainder(rule, KILN_OP_TRUNC);
}

/// For a: b * a^(b - 1), 0 where b is 0. For b: y * log(a), 0 where a and y are 0.
void kilni_gradient_pow(kilni_rule *rule)
{
    kiln_tensor *a = kilni_g_in(rule, 0);
    kiln_tensor *b = kilni_g_in(rule, 1);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 0)) {
        kiln_tensor *slope = kilni_g_2(rule, KILN_OP_POW, a, kilni_g_shift(rule, b, -1));
        slope = kilni_g_mul(rule, b, slope);
        kiln_tensor *flat = kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, b, 0);
        kilni_g_give(rule, 0, kilni_g_mul(rule, grad, kilni_g_fill(rule, slope, flat, 0)));
    }
    if (kilni_g_wants(rule, 1)) {
        kiln_tensor *y = kilni_g_out(rule, 0);
        kiln_tensor *slope = kilni_g_mul(rule, y, kilni_g_1(rule, KILN_OP_LOG, a));
        kiln_tensor *flat = kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, y, 0);
        kilni_g_give(rule, 1, kilni_g_mul(rule, grad, kilni_g_fill(rule, slope, flat, 0)));
    }
}

/// Where both are the same, each gets half.
void kilni_gradient_extreme_of_two(kilni_rule *rule)
{
    kiln_op wins = rule->call->op == KILN_OP_MAXIMUM ? KILN_OP_GREATER : KILN_OP_LESS;
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kiln_tensor *half = kilni_g_scale(rule, grad, 0.5);
    kiln_tensor *same = kilni_g_2(rule, KILN_OP_EQUAL, kilni_g_in(rule, 0), kilni_g_in(rule, 1));
    for (unsigned i = 0; i < 2; i++) {
        if (kilni_g_wants(rule, i)) {
            kiln_tensor *rest = kilni_g_2(rule, wins, kilni_g_in(rule, i), kilni_g_in(rule, 1 - i));
            rest = kilni_g_fill(rule, grad, kilni_g_1(rule, KILN_OP_LOGICAL_NOT, rest), 0);
            kilni_g_give(rule, i, kilni_g_where(rule, half, rest, same));
        }
    }
}

void kilni_gradient_atan2(kilni_rule *rule)
{
    kiln_tensor *a = kilni_g_in(rule, 0);
    kiln_tensor *b = kilni_g_in(rule, 1);
    kiln_tensor *square = kilni_g_add(rule, kilni_g_square(rule, a), kilni_g_square(rule, b));
    kiln_tensor *part = kilni_g_div(rule, kilni_g_grad(rule, 0), square);
    kilni_g_give(rule, 0, kilni_g_mul(rule, part, b));
    kilni_g_give(rule, 1, kilni_g_neg(rule, kilni_g_mul(rule, part, a)));
}

/// 0 at the origin.
void kilni_gradient_hypot(kilni_rule *rule)
{
    kiln_tensor *y = kilni_g_out(rule, 0);
    kiln_tensor *part = kilni_g_div(rule, kilni_g_grad(rule, 0), y);
    part = kilni_g_fill(rule, part, kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, y, 0), 0);
    kilni_g_give(rule, 0, kilni_g_mul(rule, part, kilni_g_in(rule, 0)));
    kilni_g_give(rule, 1, kilni_g_mul(rule, part, kilni_g_in(rule, 1)));
}

// ---- one input and numbers ----

/// x * value or x / value: the gradient by the same operator.
void kilni_gradient_scaled(kilni_rule *rule)
{
    kilni_g_give(rule, 0,
                 kilni_g_with(rule, rule->call->op, kilni_g_grad(rule, 0), rule->call->attrs, 1));
}

void kilni_gradient_pow_scalar(kilni_rule *rule)
{
    double power = kilni_g_f64(rule, KILN_KEY_VALUE);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (power == 0) {
        kilni_g_give(rule, 0, kilni_g_full(rule, kilni_g_desc(rule, 0), 0));
        return;
    }
    kiln_tensor *slope = kilni_g_in(rule, 0);
    slope = power == 2 ? slope : kilni_g_scalar(rule, KILN_OP_POW_SCALAR, slope, power - 1);
    kilni_g_give(rule, 0, kilni_g_mul(rule, kilni_g_scale(rule, grad, power), slope));
}

/// Both bounds belong to what is let through.
void kilni_gradient_clamp(kilni_rule *rule)
{
    kiln_op op = rule->call->op;
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (op != KILN_OP_CLAMP_MAX) {
        const kiln_attr *low = &rule->call->attrs[0];
        grad = kilni_g_fill(rule, grad, kilni_g_with(rule, KILN_OP_LESS_SCALAR, x, low, 1), 0);
    }
    if (op != KILN_OP_CLAMP_MIN) {
        const kiln_attr *high = &rule->call->attrs[op == KILN_OP_CLAMP ? 1 : 0];
        grad = kilni_g_fill(rule, grad, kilni_g_with(rule, KILN_OP_GREATER_SCALAR, x, high, 1), 0);
    }
    kilni_g_give(rule, 0, grad);
}

void kilni_gradient_where(kilni_rule *rule)
{
    kiln_tensor *mask = kilni_g_in(rule, 2);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 0)) {
        kiln_tensor *other = kilni_g_1(rule, KILN_OP_LOGICAL_NOT, mask);
        kilni_g_give(rule, 0, kilni_g_fill(rule, grad, other, 0));
    }
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, kilni_g_fill(rule, grad, mask, 0));
    }
}

void kilni_gradient_mask_fill(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_fill(rule, kilni_g_grad(rule, 0), kilni_g_in(rule, 1), 0));
}
