// SPDX-License-Identifier: MIT OR Apache-2.0
// Written by tools/gen_ops from ir/op/ops.def and ir/op/attrs.def.
#ifndef KILN_KILN_OPS_H
#define KILN_KILN_OPS_H

/// The operators of Kiln as functions. Each records one operation and gives a handle to its
/// result at once; see kiln_record in kiln.h.
///
/// Any thread may call these functions; operations of one thread on one device run in the
/// order of recording. Inputs are borrowed, attributes copied; `*out_tensor` is the caller's
/// reference (kiln_release) and keeps its device open. They can fail with INVALID_ARGUMENT,
/// naming operator, shapes and values; RESOURCE_EXHAUSTED; FAILED_PRECONDITION for inputs of
/// different devices. NULL where a pointer is needed is INVALID_ARGUMENT.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

// clang-format off
/// absolute value; of the smallest integer: itself.
KILN_NODISCARD KILN_API kiln_status kiln_abs(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// -x; integers wrap.
KILN_NODISCARD KILN_API kiln_status kiln_neg(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// -1, 0 or 1; NaN stays NaN, a zero keeps its sign.
KILN_NODISCARD KILN_API kiln_status kiln_sign(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// e raised to x.
KILN_NODISCARD KILN_API kiln_status kiln_exp(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// exp(x) - 1, accurate near 0.
KILN_NODISCARD KILN_API kiln_status kiln_expm1(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// natural logarithm.
KILN_NODISCARD KILN_API kiln_status kiln_log(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// log(1 + x), accurate near 0.
KILN_NODISCARD KILN_API kiln_status kiln_log1p(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// error function.
KILN_NODISCARD KILN_API kiln_status kiln_erf(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// square root.
KILN_NODISCARD KILN_API kiln_status kiln_sqrt(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// 1 / sqrt(x).
KILN_NODISCARD KILN_API kiln_status kiln_rsqrt(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// 1 / x.
KILN_NODISCARD KILN_API kiln_status kiln_recip(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// sine of x in radians.
KILN_NODISCARD KILN_API kiln_status kiln_sin(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// cosine of x in radians.
KILN_NODISCARD KILN_API kiln_status kiln_cos(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// tangent of x in radians.
KILN_NODISCARD KILN_API kiln_status kiln_tan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// hyperbolic sine.
KILN_NODISCARD KILN_API kiln_status kiln_sinh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// hyperbolic cosine.
KILN_NODISCARD KILN_API kiln_status kiln_cosh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// hyperbolic tangent.
KILN_NODISCARD KILN_API kiln_status kiln_tanh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse sine.
KILN_NODISCARD KILN_API kiln_status kiln_asin(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse cosine.
KILN_NODISCARD KILN_API kiln_status kiln_acos(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse tangent.
KILN_NODISCARD KILN_API kiln_status kiln_atan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse hyperbolic sine.
KILN_NODISCARD KILN_API kiln_status kiln_asinh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse hyperbolic cosine.
KILN_NODISCARD KILN_API kiln_status kiln_acosh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// inverse hyperbolic tangent.
KILN_NODISCARD KILN_API kiln_status kiln_atanh(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// nearest integer, halves to even.
KILN_NODISCARD KILN_API kiln_status kiln_round(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// largest integer not above x.
KILN_NODISCARD KILN_API kiln_status kiln_floor(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// smallest integer not below x.
KILN_NODISCARD KILN_API kiln_status kiln_ceil(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// integer part of x.
KILN_NODISCARD KILN_API kiln_status kiln_trunc(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// max(x, 0); NaN stays NaN.
KILN_NODISCARD KILN_API kiln_status kiln_relu(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// 1 / (1 + exp(-x)).
KILN_NODISCARD KILN_API kiln_status kiln_sigmoid(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// whether x is not a number.
KILN_NODISCARD KILN_API kiln_status kiln_is_nan(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// whether x is an infinity.
KILN_NODISCARD KILN_API kiln_status kiln_is_inf(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// not x.
KILN_NODISCARD KILN_API kiln_status kiln_logical_not(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// all bits of x inverted.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_not(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// a + b; integers wrap.
KILN_NODISCARD KILN_API kiln_status kiln_add(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a - b; integers wrap.
KILN_NODISCARD KILN_API kiln_status kiln_sub(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a * b; integers wrap.
KILN_NODISCARD KILN_API kiln_status kiln_mul(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a / b; integers round to 0, x/0 = 0, smallest/-1 = smallest.
KILN_NODISCARD KILN_API kiln_status kiln_div(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a - b * floor(a / b): the sign of b; integer x%0 = 0.
KILN_NODISCARD KILN_API kiln_status kiln_rem(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a - b * trunc(a / b): the sign of a; integer x%0 = 0.
KILN_NODISCARD KILN_API kiln_status kiln_fmod(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a raised to b; integers wrap, a negative exponent truncates the true value, 0 to it is 0.
KILN_NODISCARD KILN_API kiln_status kiln_pow(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// the smaller; NaN if either is NaN.
KILN_NODISCARD KILN_API kiln_status kiln_minimum(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// the larger; NaN if either is NaN.
KILN_NODISCARD KILN_API kiln_status kiln_maximum(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// angle of the point (b, a).
KILN_NODISCARD KILN_API kiln_status kiln_atan2(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// sqrt(a*a + b*b) without overflow.
KILN_NODISCARD KILN_API kiln_status kiln_hypot(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a == b; NaN equals nothing.
KILN_NODISCARD KILN_API kiln_status kiln_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a != b.
KILN_NODISCARD KILN_API kiln_status kiln_not_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a < b.
KILN_NODISCARD KILN_API kiln_status kiln_less(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a <= b.
KILN_NODISCARD KILN_API kiln_status kiln_less_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a > b.
KILN_NODISCARD KILN_API kiln_status kiln_greater(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a >= b.
KILN_NODISCARD KILN_API kiln_status kiln_greater_equal(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a and b.
KILN_NODISCARD KILN_API kiln_status kiln_logical_and(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a or b.
KILN_NODISCARD KILN_API kiln_status kiln_logical_or(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// either a or b.
KILN_NODISCARD KILN_API kiln_status kiln_logical_xor(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// bits set in both.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_and(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// bits set in any.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_or(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// bits set in one.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_xor(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a * 2^b; 0 when b is negative or the width or more.
KILN_NODISCARD KILN_API kiln_status kiln_shift_left(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// a shifted right, with the sign when signed; 0 when b is negative or the width or more.
KILN_NODISCARD KILN_API kiln_status kiln_shift_right(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor, kiln_error *err);

/// x + value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_add_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x - value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_sub_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x * value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_mul_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x / value, as div.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_div_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as rem with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_rem_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as pow with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_pow_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// max(x, value); NaN stays NaN.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_clamp_min(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// min(x, value); NaN stays NaN.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_clamp_max(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x == value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x != value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_not_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x < value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_less_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x <= value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_less_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x > value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_greater_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x >= value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_greater_equal_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as bitwise_and with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_and_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as bitwise_or with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_or_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as bitwise_xor with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_bitwise_xor_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as shift_left with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_shift_left_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// as shift_right with value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_shift_right_scalar(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// min(max(x, min), max); NaN stays NaN.
/// `min`: lower bound.
/// `max`: upper bound.
KILN_NODISCARD KILN_API kiln_status kiln_clamp(kiln_tensor *x, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err);

/// x where x >= 0, else slope * x.
/// `slope`: factor for negative elements.
KILN_NODISCARD KILN_API kiln_status kiln_leaky_relu(kiln_tensor *x, double slope, kiln_tensor **out_tensor, kiln_error *err);

/// x * P(X <= x) of the normal distribution; approximate: by tanh.
/// `approximate`: use the cheaper formula.
KILN_NODISCARD KILN_API kiln_status kiln_gelu(kiln_tensor *x, bool approximate, kiln_tensor **out_tensor, kiln_error *err);

/// a where mask, else b; the mask is bool.
KILN_NODISCARD KILN_API kiln_status kiln_where(kiln_tensor *a, kiln_tensor *b, kiln_tensor *mask, kiln_tensor **out_tensor, kiln_error *err);

/// value where mask, else x; the mask is bool.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_mask_fill(kiln_tensor *x, kiln_tensor *mask, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// x as dtype; float to integer saturates and truncates, NaN gives 0; integers wrap; bool is x != 0.
/// `dtype`: element type of the result.
KILN_NODISCARD KILN_API kiln_status kiln_cast(kiln_tensor *x, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err);

/// the bits of x, as a number, in the small float dtype of number value (f8e4m3fn is 20): the nearest, as a cast to it.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_encode_small(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// what bits x, an integer from 0 to 255, stand for in the small float dtype of number value.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_decode_small(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// a copy of x with dense row-major layout.
KILN_NODISCARD KILN_API kiln_status kiln_contiguous(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// slope * x where x < 0, else x.
KILN_NODISCARD KILN_API kiln_status kiln_prelu(kiln_tensor *x, kiln_tensor *slope, kiln_tensor **out_tensor, kiln_error *err);

/// min(max(alpha * x + beta, 0), 1).
/// `alpha`: first factor of the formula.
/// `beta`: second factor of the formula.
KILN_NODISCARD KILN_API kiln_status kiln_hard_sigmoid(kiln_tensor *x, double alpha, double beta, kiln_tensor **out_tensor, kiln_error *err);

/// logarithm of sigmoid, computed without it.
KILN_NODISCARD KILN_API kiln_status kiln_log_sigmoid(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// grad where output = relu(x) is above 0, else 0.
KILN_NODISCARD KILN_API kiln_status kiln_relu_backward(kiln_tensor *output, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

/// grad * derivative of gelu at x.
/// `approximate`: use the cheaper formula.
KILN_NODISCARD KILN_API kiln_status kiln_gelu_backward(kiln_tensor *x, kiln_tensor *grad, bool approximate, kiln_tensor **out_tensor, kiln_error *err);

/// grad * output * (1 - output), output = sigmoid(x).
KILN_NODISCARD KILN_API kiln_status kiln_sigmoid_backward(kiln_tensor *output, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

/// grad * sigmoid(-x).
KILN_NODISCARD KILN_API kiln_status kiln_log_sigmoid_backward(kiln_tensor *x, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

/// x * sigmoid(x), also called swish.
KILN_NODISCARD KILN_API kiln_status kiln_silu(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// log(1 + exp(x)) without overflow.
KILN_NODISCARD KILN_API kiln_status kiln_softplus(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// x where x > 0, else alpha * (exp(x) - 1).
/// `alpha`: first factor of the formula.
KILN_NODISCARD KILN_API kiln_status kiln_elu(kiln_tensor *x, double alpha, kiln_tensor **out_tensor, kiln_error *err);

/// x * tanh(softplus(x)).
KILN_NODISCARD KILN_API kiln_status kiln_mish(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// x * min(max(x / 6 + 1 / 2, 0), 1).
KILN_NODISCARD KILN_API kiln_status kiln_hard_swish(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// x with other lengths, same elements in row-major order; one length may be -1.
/// `shape`: lengths of the result.
KILN_NODISCARD KILN_API kiln_status kiln_reshape(kiln_tensor *x, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err);

/// x broadcast to shape; -1 keeps a length.
/// `shape`: lengths of the result.
KILN_NODISCARD KILN_API kiln_status kiln_expand(kiln_tensor *x, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err);

/// axis i of the result is axis axes[i] of x; empty: reversed.
/// `axes`: axes; negative counts from the last; empty: all.
KILN_NODISCARD KILN_API kiln_status kiln_permute(kiln_tensor *x, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err);

/// x[starts:ends:steps] as in Python, for every axis in order.
/// `starts`: first index of each axis, clamped like Python's.
/// `ends`: index after the last of each axis, clamped like Python's.
/// `steps`: step of each axis, not 0; empty: 1.
KILN_NODISCARD KILN_API kiln_status kiln_slice(kiln_tensor *x, const int64_t *starts, size_t n_starts, const int64_t *ends, size_t n_ends, const int64_t *steps, size_t n_steps, kiln_tensor **out_tensor, kiln_error *err);

/// x reversed along axes; empty: along all.
/// `axes`: axes; negative counts from the last; empty: all.
KILN_NODISCARD KILN_API kiln_status kiln_flip(kiln_tensor *x, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err);

/// windows of x along axis; their elements run along a new last axis.
/// `axis`: axis; negative counts from the last.
/// `size`: length of a window or block.
/// `stride`: distance between the beginnings of windows.
KILN_NODISCARD KILN_API kiln_status kiln_unfold(kiln_tensor *x, int64_t axis, int64_t size, int64_t stride, kiln_tensor **out_tensor, kiln_error *err);

/// elements [.., i, i + offset] of x; the diagonal is the last axis.
/// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
KILN_NODISCARD KILN_API kiln_status kiln_diagonal(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err);

/// sum; of nothing: 0.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_sum(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// arithmetic mean; of nothing: NaN.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_mean(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// product; of nothing: 1.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_prod(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// largest; NaN if any is NaN; of nothing: the smallest value of the dtype, -inf for floats.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_max(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// smallest; NaN if any is NaN; of nothing: the largest value of the dtype, inf for floats.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_min(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// largest absolute value; NaN if any is NaN; of nothing: 0.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_max_abs(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// whether any is true; of nothing: false.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_any(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// whether all are true; of nothing: true.
/// `axes`: axes; negative counts from the last; empty: all.
/// `keepdims`: keep reduced axes with length 1.
KILN_NODISCARD KILN_API kiln_status kiln_all(kiln_tensor *x, const int64_t *axes, size_t n_axes, bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// index of the largest along axis; NaN counts as largest.
/// `axis`: axis; negative counts from the last.
/// `keepdims`: keep reduced axes with length 1.
/// `last`: of equal elements take the last, not the first.
KILN_NODISCARD KILN_API kiln_status kiln_argmax(kiln_tensor *x, int64_t axis, bool keepdims, bool last, kiln_tensor **out_tensor, kiln_error *err);

/// index of the smallest along axis; NaN counts as smallest.
/// `axis`: axis; negative counts from the last.
/// `keepdims`: keep reduced axes with length 1.
/// `last`: of equal elements take the last, not the first.
KILN_NODISCARD KILN_API kiln_status kiln_argmin(kiln_tensor *x, int64_t axis, bool keepdims, bool last, kiln_tensor **out_tensor, kiln_error *err);

/// largest along axis and its index, the first of equals; NaN counts as largest.
/// `axis`: axis; negative counts from the last.
/// `keepdims`: keep reduced axes with length 1.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_max_with_indices(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

/// smallest along axis and its index, the first of equals; NaN counts as smallest.
/// `axis`: axis; negative counts from the last.
/// `keepdims`: keep reduced axes with length 1.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_min_with_indices(kiln_tensor *x, int64_t axis, bool keepdims, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

/// matrix product over the last two axes, the others broadcast; rank 1 as in NumPy.
/// `transpose_a`: swap the last two axes of a.
/// `transpose_b`: swap the last two axes of b.
KILN_NODISCARD KILN_API kiln_status kiln_matmul(kiln_tensor *a, kiln_tensor *b, bool transpose_a, bool transpose_b, kiln_tensor **out_tensor, kiln_error *err);

/// matmul of (a - a_zero) with (b - b_zero), each i8 or u8, in i32; a_zero is one number or one for each row of a, b_zero one or one for each column of b.
/// `transpose_a`: swap the last two axes of a.
/// `transpose_b`: swap the last two axes of b.
/// Inputs from `a_zero` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_matmul_integer(kiln_tensor *a, kiln_tensor *b, kiln_tensor *a_zero, kiln_tensor *b_zero, bool transpose_a, bool transpose_b, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_options {
    uint32_t struct_size;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_options;

#define KILN_CONV_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_options), .groups = 1}

/// cross-correlation of x [n,c,..] with weight [o,c/groups,..], plus bias [o].
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `bias` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_conv(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, const kiln_conv_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_integer_options {
    uint32_t struct_size;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_integer_options;

#define KILN_CONV_INTEGER_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_integer_options), .groups = 1}

/// conv of (x - x_zero) with (weight - weight_zero), each i8 or u8, in i32; x_zero is one number, weight_zero one or one for each of its o; padding is x_zero.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `x_zero` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_conv_integer(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *x_zero, kiln_tensor *weight_zero, const kiln_conv_integer_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_transpose_options {
    uint32_t struct_size;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
    const int64_t *output_padding; ///< elements appended to the result along each spatial axis
    size_t n_output_padding;
} kiln_conv_transpose_options;

#define KILN_CONV_TRANSPOSE_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_transpose_options), .groups = 1}

/// what conv gives back to its x: x [n,c,..], weight [c,o/groups,..], plus bias [o]; padding is cut off, output_padding appended.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `bias` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_conv_transpose(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, const kiln_conv_transpose_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_x_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_x_backward_options;

#define KILN_CONV_X_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_x_backward_options), .groups = 1}

/// gradient of conv for its x, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_conv_x_backward(kiln_tensor *grad, kiln_tensor *weight, const kiln_conv_x_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_weight_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_weight_backward_options;

#define KILN_CONV_WEIGHT_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_weight_backward_options), .groups = 1}

/// gradient of conv for its weight, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_conv_weight_backward(kiln_tensor *x, kiln_tensor *grad, const kiln_conv_weight_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

/// gradient of conv and conv_transpose for their bias: the sum over all axes but channels.
KILN_NODISCARD KILN_API kiln_status kiln_conv_bias_backward(kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_transpose_x_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_transpose_x_backward_options;

#define KILN_CONV_TRANSPOSE_X_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_transpose_x_backward_options), .groups = 1}

/// gradient of conv_transpose for its x, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_conv_transpose_x_backward(kiln_tensor *grad, kiln_tensor *weight, const kiln_conv_transpose_x_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_conv_transpose_weight_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
} kiln_conv_transpose_weight_backward_options;

#define KILN_CONV_TRANSPOSE_WEIGHT_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_conv_transpose_weight_backward_options), .groups = 1}

/// gradient of conv_transpose for its weight, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_conv_transpose_weight_backward(kiln_tensor *x, kiln_tensor *grad, const kiln_conv_transpose_weight_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_im2col_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
} kiln_im2col_options;

#define KILN_IM2COL_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_im2col_options)}

/// the windows of x [n,c,..] as columns [n,c*kernel,windows]; 0 in the padding.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_im2col(kiln_tensor *x, const kiln_im2col_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_col2im_options {
    uint32_t struct_size;
    const int64_t *output_size; ///< spatial lengths of the result
    size_t n_output_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
} kiln_col2im_options;

#define KILN_COL2IM_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_col2im_options)}

/// sums of columns [n,c*kernel,windows] at their places in [n,c,output_size]; what im2col gives back to its x.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_col2im(kiln_tensor *columns, const kiln_col2im_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_deform_im2col_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t offset_groups; ///< groups of channels that share offsets
} kiln_deform_im2col_options;

#define KILN_DEFORM_IM2COL_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_deform_im2col_options), .offset_groups = 1}

/// im2col of x [n,c,h,w] with each element read at its place plus offset [n,offset_groups*kernel*2,..], between elements, 0 outside, times mask [n,offset_groups*kernel,..] or one number.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `mask` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_deform_im2col(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *mask, const kiln_deform_im2col_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_deform_im2col_backward_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t offset_groups; ///< groups of channels that share offsets
} kiln_deform_im2col_backward_options;

#define KILN_DEFORM_IM2COL_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_deform_im2col_backward_options), .offset_groups = 1}

/// gradients of deform_im2col for x, offset and mask.
/// `options` may be NULL only when nothing in it is required.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_deform_im2col_backward(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *mask, kiln_tensor *grad, const kiln_deform_im2col_backward_options *options, kiln_tensor **out_x_grad, kiln_tensor **out_offset_grad, kiln_tensor **out_mask_grad, kiln_error *err);

typedef struct kiln_deform_conv_options {
    uint32_t struct_size;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
    int64_t offset_groups; ///< groups of channels that share offsets
} kiln_deform_conv_options;

#define KILN_DEFORM_CONV_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_deform_conv_options), .groups = 1, .offset_groups = 1}

/// conv of two spatial axes over deform_im2col; without a mask but with a bias, the mask is one 1.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `mask` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_deform_conv(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *weight, kiln_tensor *mask, kiln_tensor *bias, const kiln_deform_conv_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_deform_conv_backward_options {
    uint32_t struct_size;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    int64_t groups; ///< number of channel groups
    int64_t offset_groups; ///< groups of channels that share offsets
} kiln_deform_conv_backward_options;

#define KILN_DEFORM_CONV_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_deform_conv_backward_options), .groups = 1, .offset_groups = 1}

/// gradients of deform_conv for x, offset, weight, mask and bias.
/// `options` may be NULL only when nothing in it is required.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_deform_conv_backward(kiln_tensor *x, kiln_tensor *offset, kiln_tensor *weight, kiln_tensor *mask, kiln_tensor *grad, const kiln_deform_conv_backward_options *options, kiln_tensor **out_x_grad, kiln_tensor **out_offset_grad, kiln_tensor **out_weight_grad, kiln_tensor **out_mask_grad, kiln_tensor **out_bias_grad, kiln_error *err);

typedef struct kiln_max_pool_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
} kiln_max_pool_options;

#define KILN_MAX_POOL_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_max_pool_options)}

/// largest of each window of x [n,c,..]; padding never wins; NaN propagates.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_max_pool(kiln_tensor *x, const kiln_max_pool_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_avg_pool_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
    bool include_pad; ///< divide by the window length with its padding
} kiln_avg_pool_options;

#define KILN_AVG_POOL_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_avg_pool_options)}

/// mean of each window of x [n,c,..].
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_avg_pool(kiln_tensor *x, const kiln_avg_pool_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_lp_pool_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
    double p; ///< exponent of the norm
} kiln_lp_pool_options;

#define KILN_LP_POOL_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_lp_pool_options)}

/// (sum of |x|^p)^(1/p) of each window of x [n,c,..].
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_lp_pool(kiln_tensor *x, const kiln_lp_pool_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_max_pool_with_indices_options {
    uint32_t struct_size;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
} kiln_max_pool_with_indices_options;

#define KILN_MAX_POOL_WITH_INDICES_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_max_pool_with_indices_options)}

/// max_pool, and the places in the plane of spatial axes: of equal elements the first, -1 in a window of padding alone.
/// `options` may be NULL only when nothing in it is required.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_max_pool_with_indices(kiln_tensor *x, const kiln_max_pool_with_indices_options *options, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

typedef struct kiln_max_pool_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
} kiln_max_pool_backward_options;

#define KILN_MAX_POOL_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_max_pool_backward_options)}

/// gradient of max_pool for its x, which has the shape; an index outside the window gives nothing.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_max_pool_backward(kiln_tensor *grad, kiln_tensor *indices, const kiln_max_pool_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_avg_pool_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const int64_t *kernel; ///< window length along each spatial axis
    size_t n_kernel;
    const int64_t *strides; ///< step of the window along each spatial axis
    size_t n_strides;
    const int64_t *padding; ///< elements added: all beginnings, then all ends
    size_t n_padding;
    const int64_t *dilations; ///< distance of window elements along each spatial axis
    size_t n_dilations;
    bool ceil_mode; ///< round the number of windows up; each must start inside input or left padding
    bool include_pad; ///< divide by the window length with its padding
} kiln_avg_pool_backward_options;

#define KILN_AVG_POOL_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_avg_pool_backward_options)}

/// gradient of avg_pool for its x, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_avg_pool_backward(kiln_tensor *grad, const kiln_avg_pool_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

/// means of x [n,c,..] over output_size windows, each from floor(i*in/out) to ceil((i+1)*in/out).
/// `output_size`: spatial lengths of the result.
KILN_NODISCARD KILN_API kiln_status kiln_adaptive_avg_pool(kiln_tensor *x, const int64_t *output_size, size_t n_output_size, kiln_tensor **out_tensor, kiln_error *err);

/// the largest of each window of adaptive_avg_pool, and its place as max_pool_with_indices has it.
/// `output_size`: spatial lengths of the result.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_adaptive_max_pool(kiln_tensor *x, const int64_t *output_size, size_t n_output_size, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

/// gradient of adaptive_avg_pool for its x, which has the shape.
/// `shape`: lengths of the result.
KILN_NODISCARD KILN_API kiln_status kiln_adaptive_avg_pool_backward(kiln_tensor *grad, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err);

/// x at the places that indices say, of a plane of the shape, else 0; the last of several; an index outside is dropped.
/// `shape`: lengths of the result.
KILN_NODISCARD KILN_API kiln_status kiln_max_unpool(kiln_tensor *x, kiln_tensor *indices, const int64_t *shape, size_t n_shape, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_interpolate_options {
    uint32_t struct_size;
    const int64_t *output_size; ///< spatial lengths of the result
    size_t n_output_size;
    const char *mode; ///< named variant
    const char *coordinates; ///< where elements of the result lie in the input, by ONNX's names
    const double *scales; ///< lengths of the result by those of the input, of the last axes; 0 or absent: what they are
    size_t n_scales;
    const double *region; ///< of the last axes, all beginnings and all ends as parts of the input
    size_t n_region;
    double cubic_a; ///< the free coefficient of the cubic filter
    bool exclude_outside; ///< weights outside the input are 0 and the others scaled to 1
    bool antialias; ///< filters as wide as the elements of the result
} kiln_interpolate_options;

#define KILN_INTERPOLATE_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_interpolate_options)}

/// x with other lengths of its last axes; mode linear, cubic, lanczos3, nearest (halves down), nearest_up, nearest_floor, nearest_ceil.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_interpolate(kiln_tensor *x, const kiln_interpolate_options *options, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_interpolate_backward_options {
    uint32_t struct_size;
    const int64_t *shape; ///< lengths of the result
    size_t n_shape;
    const char *mode; ///< named variant
    const char *coordinates; ///< where elements of the result lie in the input, by ONNX's names
    const double *scales; ///< lengths of the result by those of the input, of the last axes; 0 or absent: what they are
    size_t n_scales;
    const double *region; ///< of the last axes, all beginnings and all ends as parts of the input
    size_t n_region;
    double cubic_a; ///< the free coefficient of the cubic filter
    bool exclude_outside; ///< weights outside the input are 0 and the others scaled to 1
    bool antialias; ///< filters as wide as the elements of the result
} kiln_interpolate_backward_options;

#define KILN_INTERPOLATE_BACKWARD_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_interpolate_backward_options)}

/// gradient of interpolate for its x, which has the shape.
/// `options` may be NULL only when nothing in it is required.
KILN_NODISCARD KILN_API kiln_status kiln_interpolate_backward(kiln_tensor *grad, const kiln_interpolate_backward_options *options, kiln_tensor **out_tensor, kiln_error *err);

/// x [n,c,..] at points grid [n,..,axes], the last axis of x first, from -1 to 1; mode linear, nearest or cubic.
/// `mode`: named variant.
/// `padding_mode`: what is outside: zeros, border or reflection.
/// `align_corners`: -1 and 1 are the middles of the outer elements, not their edges.
/// `cubic_a`: the free coefficient of the cubic filter.
KILN_NODISCARD KILN_API kiln_status kiln_grid_sample(kiln_tensor *x, kiln_tensor *grid, const char *mode, const char *padding_mode, bool align_corners, double cubic_a, kiln_tensor **out_tensor, kiln_error *err);

/// means (mode avg) or largest weighted elements (max) of bins of boxes [r,4] (x1,y1,x2,y2) in x [n,c,h,w]; a batch index outside is clamped.
/// `output_size`: spatial lengths of the result.
/// `mode`: named variant.
/// `coordinates`: where elements of the result lie in the input, by ONNX's names.
/// `sampling_ratio`: samples along each axis of a bin; 0: as many as it has elements.
/// `spatial_scale`: factor from coordinates of boxes to those of x.
KILN_NODISCARD KILN_API kiln_status kiln_roi_align(kiln_tensor *x, kiln_tensor *boxes, kiln_tensor *batch_indices, const int64_t *output_size, size_t n_output_size, const char *mode, const char *coordinates, int64_t sampling_ratio, double spatial_scale, kiln_tensor **out_tensor, kiln_error *err);

/// exp(x - max) / sum of it along axis.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_softmax(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// logarithm of softmax, computed without it.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_log_softmax(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, each of length x.dims[1].
/// `epsilon`: added to the variance.
KILN_NODISCARD KILN_API kiln_status kiln_batch_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, kiln_tensor *mean, kiln_tensor *variance, double epsilon, kiln_tensor **out_tensor, kiln_error *err);

/// softmax of -x along axis.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_softmin(kiln_tensor *x, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// output * (grad - sum of grad * output along axis), output = softmax(x).
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_softmax_backward(kiln_tensor *output, kiln_tensor *grad, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// grad - exp(output) * sum of grad along axis, output = log_softmax(x).
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_log_softmax_backward(kiln_tensor *output, kiln_tensor *grad, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, over the axes from axis on; scale and bias broadcast to them.
/// `axis`: axis; negative counts from the last.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_layer_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, int64_t axis, double epsilon, kiln_tensor **out_tensor, kiln_error *err);

/// x / sqrt(mean of x * x + epsilon) * scale, over the axes from axis on; scale broadcasts to them.
/// `axis`: axis; negative counts from the last.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_rms_norm(kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_tensor, kiln_error *err);

/// as layer_norm over each group of channels (axis 1) and the axes after; scale and bias for each channel.
/// `groups`: number of channel groups.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_group_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, int64_t groups, double epsilon, kiln_tensor **out_tensor, kiln_error *err);

/// group_norm with a group for each channel.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_instance_norm(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, double epsilon, kiln_tensor **out_tensor, kiln_error *err);

/// derivatives of layer_norm by x, scale and bias; scale of rank 0 stands for the same everywhere.
/// `axis`: axis; negative counts from the last.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_layer_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err);

/// derivatives of rms_norm by x and scale.
/// `axis`: axis; negative counts from the last.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_rms_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t axis, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_error *err);

/// derivatives of group_norm by x, scale and bias.
/// `groups`: number of channel groups.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_group_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, int64_t groups, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err);

/// derivatives of instance_norm by x, scale and bias.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_instance_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err);

/// batch_norm with mean and variance of this x; and running * momentum + this * (1 - momentum) of both.
/// `epsilon`: added to the variance.
/// `momentum`: share of the old value in a running one.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_batch_norm_train(kiln_tensor *x, kiln_tensor *scale, kiln_tensor *bias, kiln_tensor *mean, kiln_tensor *variance, double epsilon, double momentum, kiln_tensor **out_values, kiln_tensor **out_running_mean, kiln_tensor **out_running_variance, kiln_error *err);

/// derivatives of batch_norm_train by x, scale and bias.
/// `epsilon`: added to the variance.
/// Inputs from `scale` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_batch_norm_backward(kiln_tensor *grad, kiln_tensor *x, kiln_tensor *scale, double epsilon, kiln_tensor **out_x_grad, kiln_tensor **out_scale_grad, kiln_tensor **out_bias_grad, kiln_error *err);

/// out[i][j].. = x[..indices[i][j]..] along axis; indices (i32, i64) as long as x elsewhere or shorter.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_gather(kiln_tensor *x, kiln_tensor *indices, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// x at indices (i32, i64, rank 1) along axis.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_select(kiln_tensor *x, kiln_tensor *indices, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// x at the tuples that indices (i32, i64) hold along their last axis; batch_dims leading axes are shared.
/// `batch_dims`: number of leading axes that inputs share.
KILN_NODISCARD KILN_API kiln_status kiln_gather_nd(kiln_tensor *x, kiln_tensor *indices, int64_t batch_dims, kiln_tensor **out_tensor, kiln_error *err);

/// x with out[..indices[i][j]..] = values[i][j] along axis, or combined with it by mode, in order; an index outside is dropped.
/// `axis`: axis; negative counts from the last.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_scatter(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, int64_t axis, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// x with parts at the tuples of indices replaced by values, or combined with them by mode, in order; a tuple outside is dropped.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_scatter_nd(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// x with its parts at indices (rank 1) along axis replaced by values, or combined with them by mode, in order; an index outside is dropped.
/// `axis`: axis; negative counts from the last.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_select_assign(kiln_tensor *x, kiln_tensor *values, kiln_tensor *indices, int64_t axis, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// x with x[starts:ends:steps] replaced by value.
/// `starts`: first index of each axis, clamped like Python's.
/// `ends`: index after the last of each axis, clamped like Python's.
/// `steps`: step of each axis, not 0; empty: 1.
KILN_NODISCARD KILN_API kiln_status kiln_slice_assign(kiln_tensor *x, kiln_tensor *value, const int64_t *starts, size_t n_starts, const int64_t *ends, size_t n_ends, const int64_t *steps, size_t n_steps, kiln_tensor **out_tensor, kiln_error *err);

/// rows of weights [n,d] at indices of any shape.
KILN_NODISCARD KILN_API kiln_status kiln_embedding(kiln_tensor *weights, kiln_tensor *indices, kiln_tensor **out_tensor, kiln_error *err);

/// count rows, each the sum of the rows of grad whose index names it, in order; an index outside is dropped.
/// `count`: number of elements.
KILN_NODISCARD KILN_API kiln_status kiln_embedding_backward(kiln_tensor *grad, kiln_tensor *indices, int64_t count, kiln_tensor **out_tensor, kiln_error *err);

/// values[1] where the place along the new axis of length count is the index, else values[0]; an index outside hits nothing.
/// `count`: number of elements.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_one_hot(kiln_tensor *values, kiln_tensor *indices, int64_t count, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// the first lengths[b] elements along axis reversed for each b along batch_axis; lengths are clamped.
/// `axis`: axis; negative counts from the last.
/// `batch_axis`: axis of independent parts; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_reverse_sequence(kiln_tensor *x, kiln_tensor *lengths, int64_t axis, int64_t batch_axis, kiln_tensor **out_tensor, kiln_error *err);

/// x beside itself repeats[i] times along axis i (tile).
/// `repeats`: how often along each axis.
KILN_NODISCARD KILN_API kiln_status kiln_repeat(kiln_tensor *x, const int64_t *repeats, size_t n_repeats, kiln_tensor **out_tensor, kiln_error *err);

/// x moved by shifts[i] places along axes[i]; what leaves at the end comes in at the beginning.
/// `shifts`: places to move along each of the axes.
/// `axes`: axes; negative counts from the last; empty: all.
KILN_NODISCARD KILN_API kiln_status kiln_roll(kiln_tensor *x, const int64_t *shifts, size_t n_shifts, const int64_t *axes, size_t n_axes, kiln_tensor **out_tensor, kiln_error *err);

/// x with 0 above diagonal offset of its last two axes.
/// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
KILN_NODISCARD KILN_API kiln_status kiln_tril(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err);

/// x with 0 below diagonal offset of its last two axes.
/// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
KILN_NODISCARD KILN_API kiln_status kiln_triu(kiln_tensor *x, int64_t offset, kiln_tensor **out_tensor, kiln_error *err);

/// a matrix of 0 with 1 on diagonal offset.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
KILN_NODISCARD KILN_API kiln_status kiln_eye(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, int64_t offset, kiln_tensor **out_tensor, kiln_error *err);

/// x [n,c,h,w]: each size * size channels become a block of the plane; mode dcr: the place in the block is the outer part of the channel, crd: the inner.
/// `size`: length of a window or block.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_depth_to_space(kiln_tensor *x, int64_t size, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// x [n,c,h,w]: each block of size * size places becomes channels; the inverse of depth_to_space.
/// `size`: length of a window or block.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_space_to_depth(kiln_tensor *x, int64_t size, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// sum of the elements up to each one; exclusive: without it; reverse: from it on.
/// `axis`: axis; negative counts from the last.
/// `exclusive`: without the element itself.
/// `reverse`: from the end to the beginning.
KILN_NODISCARD KILN_API kiln_status kiln_cum_sum(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err);

/// product of the elements up to each one; exclusive and reverse as cum_sum.
/// `axis`: axis; negative counts from the last.
/// `exclusive`: without the element itself.
/// `reverse`: from the end to the beginning.
KILN_NODISCARD KILN_API kiln_status kiln_cum_prod(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err);

/// largest of the elements up to each one, NaN once one is NaN; of none: as max.
/// `axis`: axis; negative counts from the last.
/// `exclusive`: without the element itself.
/// `reverse`: from the end to the beginning.
KILN_NODISCARD KILN_API kiln_status kiln_cum_max(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err);

/// smallest of the elements up to each one, NaN once one is NaN; of none: as min.
/// `axis`: axis; negative counts from the last.
/// `exclusive`: without the element itself.
/// `reverse`: from the end to the beginning.
KILN_NODISCARD KILN_API kiln_status kiln_cum_min(kiln_tensor *x, int64_t axis, bool exclusive, bool reverse, kiln_tensor **out_tensor, kiln_error *err);

/// x in order along axis; which of -0 and 0 comes first is left open.
/// `axis`: axis; negative counts from the last.
/// `descending`: from the largest down.
KILN_NODISCARD KILN_API kiln_status kiln_sort(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_tensor, kiln_error *err);

/// indices that put x in order along axis; equals keep their order.
/// `axis`: axis; negative counts from the last.
/// `descending`: from the largest down.
KILN_NODISCARD KILN_API kiln_status kiln_argsort(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_tensor, kiln_error *err);

/// x in order along axis and where each element was; equals keep their order.
/// `axis`: axis; negative counts from the last.
/// `descending`: from the largest down.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_sort_with_indices(kiln_tensor *x, int64_t axis, bool descending, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

/// the count largest along axis from the largest down, or the smallest up, and their indices; of equals the first.
/// `count`: number of elements.
/// `axis`: axis; negative counts from the last.
/// `descending`: from the largest down.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_top_k(kiln_tensor *x, int64_t count, int64_t axis, bool descending, kiln_tensor **out_values, kiln_tensor **out_indices, kiln_error *err);

/// cross product along axis, of length 3 in both; the others broadcast.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_cross(kiln_tensor *a, kiln_tensor *b, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// [count, rank]: indices of the first `count` true elements in row-major order; 0 beyond the last.
/// `count`: number of elements.
KILN_NODISCARD KILN_API kiln_status kiln_argwhere(kiln_tensor *mask, int64_t count, kiln_tensor **out_tensor, kiln_error *err);

/// [b, classes, min(count, n)]: boxes [b,n,4] (y1, x1, y2, x2) by falling score [b,classes,n] that none before covers; -1 beyond the last.
/// `count`: number of elements.
/// `overlap`: share of the union that the intersection of two boxes must exceed.
/// `least`: scores must exceed it; absent: all but NaN and -inf do.
/// `center`: boxes are middle x, middle y, width, height.
KILN_NODISCARD KILN_API kiln_status kiln_nms(kiln_tensor *boxes, kiln_tensor *scores, int64_t count, double overlap, double least, bool center, kiln_tensor **out_tensor, kiln_error *err);

/// [n, count]: what the leaves give that each row of x [n,columns] reaches from every root. Node i asks whether column features[i] / 2 is at most thresholds[i], NaN being so where features[i] is odd: then i + 1 is next, else others[i]. A leaf has -1 - (its weights) as features[i], and others[i] is the first of them: weights[k] goes to column targets[k]. mode sum, min or max, 0 of none; a way that leads back or out has no leaf.
/// `count`: number of elements.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_tree_ensemble(kiln_tensor *x, kiln_tensor *thresholds, kiln_tensor *weights, kiln_tensor *features, kiln_tensor *others, kiln_tensor *roots, kiln_tensor *targets, int64_t count, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// inputs one after the other along axis.
/// `axis`: axis; negative counts from the last.
KILN_NODISCARD KILN_API kiln_status kiln_concat(kiln_tensor *const *inputs, size_t n_inputs, int64_t axis, kiln_tensor **out_tensor, kiln_error *err);

/// x with elements added; mode constant, edge or reflect; negative padding removes.
/// `padding`: elements added: all beginnings, then all ends.
/// `mode`: named variant.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_pad(kiln_tensor *x, const int64_t *padding, size_t n_padding, const char *mode, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// every element is value.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `value`: scalar operand.
KILN_NODISCARD KILN_API kiln_status kiln_full(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number value, kiln_tensor **out_tensor, kiln_error *err);

/// start + i * step for i in [0, count).
/// `count`: number of elements.
/// `dtype`: element type of the result.
/// `start`: first value.
/// `step`: difference of neighbours.
KILN_NODISCARD KILN_API kiln_status kiln_arange(kiln_device *device, int64_t count, kiln_dtype dtype, kiln_number start, kiln_number step, kiln_tensor **out_tensor, kiln_error *err);

/// uniform numbers, min <= x < max.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `min`: lower bound.
/// `max`: upper bound.
KILN_NODISCARD KILN_API kiln_status kiln_random_uniform(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err);

/// uniform integers, min <= x <= max.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `min`: lower bound.
/// `max`: upper bound.
KILN_NODISCARD KILN_API kiln_status kiln_random_int(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, kiln_number min, kiln_number max, kiln_tensor **out_tensor, kiln_error *err);

/// normally distributed numbers.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `mean`: centre of the distribution.
/// `deviation`: standard deviation, not negative.
KILN_NODISCARD KILN_API kiln_status kiln_random_normal(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, double mean, double deviation, kiln_tensor **out_tensor, kiln_error *err);

/// 1 with a probability, else 0.
/// `shape`: lengths of the result.
/// `dtype`: element type of the result.
/// `probability`: chance of 1, from 0 to 1.
KILN_NODISCARD KILN_API kiln_status kiln_random_bernoulli(kiln_device *device, const int64_t *shape, size_t n_shape, kiln_dtype dtype, double probability, kiln_tensor **out_tensor, kiln_error *err);

/// x [.., i] times weight [i, o], plus bias [o].
/// Inputs from `bias` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_linear(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **out_tensor, kiln_error *err);

/// derivative of linear by x: grad [.., o] times weight [i, o] turned.
KILN_NODISCARD KILN_API kiln_status kiln_linear_x_backward(kiln_tensor *grad, kiln_tensor *weight, kiln_tensor **out_tensor, kiln_error *err);

/// derivative of linear by weight: the sum of x [.., i] turned times grad [.., o].
KILN_NODISCARD KILN_API kiln_status kiln_linear_weight_backward(kiln_tensor *x, kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

/// derivative of linear by bias: the sum of grad [.., o] over all axes but the last.
KILN_NODISCARD KILN_API kiln_status kiln_linear_bias_backward(kiln_tensor *grad, kiln_tensor **out_tensor, kiln_error *err);

/// softmax of query [.., q, d] times key [.., k, d] turned and scaled, times value [.., k, v]; where mask (false of rank 0 where only bias is given) is true, a key is not seen; bias is added to the scores; who sees nothing gets NaN.
/// `scale`: factor of the scores; 0: 1 / sqrt(length of a query).
/// `softcap`: scores become softcap * tanh(scores / softcap); 0: as they are.
/// `causal`: position i sees none after i.
/// Inputs from `mask` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_attention(kiln_tensor *query, kiln_tensor *key, kiln_tensor *value, kiln_tensor *mask, kiln_tensor *bias, double scale, double softcap, bool causal, kiln_tensor **out_tensor, kiln_error *err);

/// sum of products over all letters that the result has not, as NumPy's einsum; a repeated letter runs along the diagonal.
/// `equation`: letters of each input's axes, with commas, then -> and the result's.
KILN_NODISCARD KILN_API kiln_status kiln_einsum(kiln_tensor *const *inputs, size_t n_inputs, const char *equation, kiln_tensor **out_tensor, kiln_error *err);

typedef struct kiln_lstm_options {
    uint32_t struct_size;
    const char *direction; ///< forward, reverse or bidirectional
    const char *activations; ///< names with commas, for each direction; empty: the usual ones
    const double *alphas; ///< alpha of each activation; empty: the usual ones
    size_t n_alphas;
    const double *betas; ///< beta of each activation; empty: the usual ones
    size_t n_betas;
    double clip; ///< bound of what activations get; 0: none
    bool input_forget; ///< the forget gate is 1 - the input gate
} kiln_lstm_options;

#define KILN_LSTM_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_lstm_options)}

/// x [t, b, i], weight [d, 4h, i], recurrence [d, 4h, h], gates in the order input, output, forget, cell; bias [d, 8h] of x and then of the state; states [d, b, h]; peephole [d, 3h]: input, output, forget; an input to be skipped is 0 of rank 0; lengths [b] end sequences early, whose values are 0 then.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `bias` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_lstm(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *initial_c, kiln_tensor *peephole, kiln_tensor *lengths, const kiln_lstm_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_tensor **out_last_c, kiln_error *err);

typedef struct kiln_gru_options {
    uint32_t struct_size;
    const char *direction; ///< forward, reverse or bidirectional
    const char *activations; ///< names with commas, for each direction; empty: the usual ones
    const double *alphas; ///< alpha of each activation; empty: the usual ones
    size_t n_alphas;
    const double *betas; ///< beta of each activation; empty: the usual ones
    size_t n_betas;
    double clip; ///< bound of what activations get; 0: none
    bool reset_after; ///< the reset gate acts after the matrix product
} kiln_gru_options;

#define KILN_GRU_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_gru_options)}

/// as lstm, gates in the order update, reset, hidden.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `bias` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_gru(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *lengths, const kiln_gru_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_error *err);

typedef struct kiln_rnn_options {
    uint32_t struct_size;
    const char *direction; ///< forward, reverse or bidirectional
    const char *activations; ///< names with commas, for each direction; empty: the usual ones
    const double *alphas; ///< alpha of each activation; empty: the usual ones
    size_t n_alphas;
    const double *betas; ///< beta of each activation; empty: the usual ones
    size_t n_betas;
    double clip; ///< bound of what activations get; 0: none
} kiln_rnn_options;

#define KILN_RNN_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_rnn_options)}

/// as lstm with one gate, whose activation is the state.
/// `options` may be NULL only when nothing in it is required.
/// Inputs from `bias` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_rnn(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *recurrence, kiln_tensor *bias, kiln_tensor *initial_h, kiln_tensor *lengths, const kiln_rnn_options *options, kiln_tensor **out_values, kiln_tensor **out_last_h, kiln_error *err);

/// discrete Fourier transform along axis; imaginary absent: 0.
/// `axis`: axis; negative counts from the last.
/// `inverse`: the inverse transform, divided by the length.
/// Inputs from `imaginary` on may be NULL.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_fft(kiln_tensor *real, kiln_tensor *imaginary, int64_t axis, bool inverse, kiln_tensor **out_real, kiln_tensor **out_imaginary, kiln_error *err);

/// the first length / 2 + 1 elements of fft of a real signal, which is cut or filled with zeros to length.
/// `axis`: axis; negative counts from the last.
/// `length`: length of the signal; 0: what the input says.
/// A result that is not wanted may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_rfft(kiln_tensor *x, int64_t axis, int64_t length, kiln_tensor **out_real, kiln_tensor **out_imaginary, kiln_error *err);

/// the real signal of length elements, 2 * (n - 1) when not given, of which this is rfft.
/// `axis`: axis; negative counts from the last.
/// `length`: length of the signal; 0: what the input says.
KILN_NODISCARD KILN_API kiln_status kiln_irfft(kiln_tensor *real, kiln_tensor *imaginary, int64_t axis, int64_t length, kiln_tensor **out_tensor, kiln_error *err);

/// connectionist temporal classification: -log of the probability of targets [b, s] under log_probs [t, b, classes]; infinite where no path gives them; lengths are clamped to t and s, labels to the classes.
/// `blank`: class that stands for no label.
KILN_NODISCARD KILN_API kiln_status kiln_ctc_loss(kiln_tensor *log_probs, kiln_tensor *targets, kiln_tensor *input_lengths, kiln_tensor *target_lengths, int64_t blank, kiln_tensor **out_tensor, kiln_error *err);

/// derivative of ctc_loss by log_probs, each an input of its own; 0 where the loss is infinite.
/// `blank`: class that stands for no label.
KILN_NODISCARD KILN_API kiln_status kiln_ctc_loss_backward(kiln_tensor *log_probs, kiln_tensor *grad, kiln_tensor *targets, kiln_tensor *input_lengths, kiln_tensor *target_lengths, int64_t blank, kiln_tensor **out_tensor, kiln_error *err);

/// determinant of the square matrices in the last two axes; of no rows: 1.
KILN_NODISCARD KILN_API kiln_status kiln_det(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// 0 to count - 1 in random order: the order of as many 64-bit numbers.
/// `count`: number of elements.
/// `dtype`: element type of the result.
KILN_NODISCARD KILN_API kiln_status kiln_random_permutation(kiln_device *device, int64_t count, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err);

/// x / scale of its block (/ global) to the nearest value of dtype, halves to even, outside clamped; NaN and x/0 are 0.
/// `dtype`: element type of the result.
/// `blocks`: length of a quantisation block along each axis: a power of 2, or 0 for all of it; empty: one scale.
/// Inputs from `global` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_quantize(kiln_tensor *x, kiln_tensor *scales, kiln_tensor *global, kiln_dtype dtype, const int64_t *blocks, size_t n_blocks, kiln_tensor **out_tensor, kiln_error *err);

/// values times the scale of their block (times global), rounded once to dtype.
/// `dtype`: element type of the result.
KILN_NODISCARD KILN_API kiln_status kiln_dequantize(kiln_tensor *x, kiln_dtype dtype, kiln_tensor **out_tensor, kiln_error *err);

/// quantize with the scales 2 r / (highest - lowest), r of each block by mode: min_max (largest magnitude) or abs_mean.
/// `dtype`: element type of the result.
/// `blocks`: length of a quantisation block along each axis: a power of 2, or 0 for all of it; empty: one scale.
/// `scale_dtype`: element type of the scales: f32, f16 or bf16.
/// `mode`: named variant.
KILN_NODISCARD KILN_API kiln_status kiln_quantize_dynamic(kiln_tensor *x, kiln_dtype dtype, const int64_t *blocks, size_t n_blocks, kiln_dtype scale_dtype, const char *mode, kiln_tensor **out_tensor, kiln_error *err);

/// the scales of the blocks of x, one axis of blocks for each axis.
KILN_NODISCARD KILN_API kiln_status kiln_quantized_scales(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

/// matmul in dtype of operands of which any may be quantised.
/// `dtype`: element type of the result.
/// `transpose_a`: swap the last two axes of a.
/// `transpose_b`: swap the last two axes of b.
KILN_NODISCARD KILN_API kiln_status kiln_matmul_quantized(kiln_tensor *a, kiln_tensor *b, kiln_dtype dtype, bool transpose_a, bool transpose_b, kiln_tensor **out_tensor, kiln_error *err);

/// linear with a quantised weight [i, o].
/// Inputs from `bias` on may be NULL.
KILN_NODISCARD KILN_API kiln_status kiln_linear_quantized(kiln_tensor *x, kiln_tensor *weight, kiln_tensor *bias, kiln_tensor **out_tensor, kiln_error *err);

/// x of all members of a group combined; not to be used before collective_sync; of a group of one: x.
/// `reduction`: how values are combined: sum, mean, min, max or prod.
/// `group`: group of devices, by kiln_collective_id; 0: this device alone.
/// `member`: which device of this process's part of the group, from 0.
KILN_NODISCARD KILN_API kiln_status kiln_all_reduce(kiln_tensor *x, const char *reduction, int64_t group, int64_t member, kiln_tensor **out_tensor, kiln_error *err);

/// x, the result of an all_reduce, which the device waits for.
KILN_NODISCARD KILN_API kiln_status kiln_collective_sync(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err);

// clang-format on
#ifdef __cplusplus
}
#endif
#endif
