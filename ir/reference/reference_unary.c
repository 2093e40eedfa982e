// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of elementwise operators with one input. Each function is the row's doc line in
// ops.def written down; the C library's functions in double stand for the real ones.
#include <math.h>

#include "reference_internal.h"

typedef kilni_ref_value (*unary_fn)(kilni_ref_value x, kiln_dtype dtype);

static kiln_status map_value(const kiln_view *inputs, const kiln_view *outputs, unary_fn fn)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value x = kilni_ref_load(&inputs[0], walk.at[0]);
        kilni_ref_store(&outputs[0], walk.at[1], fn(x, inputs[0].dtype));
    }
    return KILN_STATUS_OK;
}

static kiln_status map_float(const kiln_view *inputs, const kiln_view *outputs,
                             double (*fn)(double))
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double x = kilni_ref_load(&inputs[0], walk.at[0]).f;
        kilni_ref_store(&outputs[0], walk.at[1], kilni_ref_of_float(fn(x)));
    }
    return KILN_STATUS_OK;
}

#define REFERENCE(name, map, fn)                                                                   \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        (void)call;                                                                                \
        (void)err;                                                                                 \
        return map(inputs, outputs, fn);                                                           \
    }

static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

static double recip_of(double x)
{
    return 1 / x;
}

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

static kilni_ref_value neg_of(kilni_ref_value x, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float(-x.f);
    }
    return (kilni_ref_value){.u = 0 - x.u};
}

static kilni_ref_value sign_of(kilni_ref_value x, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return x.f > 0 ? kilni_ref_of_float(1) : x.f < 0 ? kilni_ref_of_float(-1) : x;
    }
    if (kilni_ref_is_signed(dtype)) {
        return (kilni_ref_value){.i = (x.i > 0) - (x.i < 0)};
    }
    return kilni_ref_of_bool(x.u != 0);
}

static kilni_ref_value relu_of(kilni_ref_value x, kiln_dtype dtype)
{
    kilni_ref_value zero = {0};
    return kilni_ref_is_nan(x, dtype) || kilni_ref_less(zero, x, dtype) ? x : zero;
}

static kilni_ref_value is_nan_of(kilni_ref_value x, kiln_dtype dtype)
{
    return kilni_ref_of_bool(kilni_ref_is_nan(x, dtype));
}

static kilni_ref_value is_inf_of(kilni_ref_value x, kiln_dtype dtype)
{
    (void)dtype;
    return kilni_ref_of_bool(isinf(x.f));
}

static kilni_ref_value logical_not_of(kilni_ref_value x, kiln_dtype dtype)
{
    (void)dtype;
    return kilni_ref_of_bool(x.u == 0);
}

static kilni_ref_value bitwise_not_of(kilni_ref_value x, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = ~x.u};
}

REFERENCE(abs, map_value, kilni_ref_abs)
REFERENCE(neg, map_value, neg_of)
REFERENCE(sign, map_value, sign_of)
REFERENCE(exp, map_float, exp)
REFERENCE(expm1, map_float, expm1)
REFERENCE(log, map_float, log)
REFERENCE(log1p, map_float, log1p)
REFERENCE(erf, map_float, erf)
REFERENCE(sqrt, map_float, sqrt)
REFERENCE(rsqrt, map_float, rsqrt_of)
REFERENCE(recip, map_float, recip_of)
REFERENCE(sin, map_float, sin)
REFERENCE(cos, map_float, cos)
REFERENCE(tan, map_float, tan)
REFERENCE(sinh, map_float, sinh)
REFERENCE(cosh, map_float, cosh)
REFERENCE(tanh, map_float, tanh)
REFERENCE(asin, map_float, asin)
REFERENCE(acos, map_float, acos)
REFERENCE(atan, map_float, atan)
REFERENCE(asinh, map_float, asinh)
REFERENCE(acosh, map_float, acosh)
REFERENCE(atanh, map_float, atanh)
REFERENCE(round, map_float, nearbyint)
REFERENCE(floor, map_float, floor)
REFERENCE(ceil, map_float, ceil)
REFERENCE(trunc, map_float, trunc)
REFERENCE(relu, map_value, relu_of)
REFERENCE(sigmoid, map_float, sigmoid_of)
REFERENCE(is_nan, map_value, is_nan_of)
REFERENCE(is_inf, map_value, is_inf_of)
REFERENCE(logical_not, map_value, logical_not_of)
REFERENCE(bitwise_not, map_value, bitwise_not_of)

#undef REFERENCE

static double gelu_of(double x)
{
    return x * 0.5 * (1 + erf(x * M_SQRT1_2));
}

/// Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2.
static double gelu_tanh_of(double x)
{
    return x * 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

kiln_status kiln_ref_gelu(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    return map_float(inputs, outputs,
                     kiln_op_attr_i64(call, KILN_KEY_APPROXIMATE) != 0 ? gelu_tanh_of : gelu_of);
}

kiln_status kiln_ref_leaky_relu(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    double slope = kilni_ref_scalar(call, KILN_KEY_SLOPE, inputs[0].dtype).f;
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double x = kilni_ref_load(&inputs[0], walk.at[0]).f;
        kilni_ref_store(&outputs[0], walk.at[1], kilni_ref_of_float(x >= 0 ? x : slope * x));
    }
    return KILN_STATUS_OK;
}

static double encoded(kiln_dtype dtype, double x)
{
    return kiln_f64_to_small(dtype, x);
}

static double decoded(kiln_dtype dtype, double x)
{
    return (double)kiln_small_to_f32(dtype, (uint8_t)(!(x > 0) ? 0 : x < 255 ? x : 255));
}

static kiln_status map_small(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, double (*of)(kiln_dtype dtype, double x))
{
    kiln_dtype dtype = (kiln_dtype)kiln_op_attr_f64(call, KILN_KEY_VALUE);
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double x = kilni_ref_load(&inputs[0], walk.at[0]).f;
        kilni_ref_store(&outputs[0], walk.at[1], kilni_ref_of_float(of(dtype, x)));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_encode_small(const kiln_op_record *call, const kiln_view *inputs,
                                  const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    return map_small(call, inputs, outputs, encoded);
}

kiln_status kiln_ref_decode_small(const kiln_op_record *call, const kiln_view *inputs,
                                  const kiln_view *outputs, kiln_error *err)
{
    (void)err;
    return map_small(call, inputs, outputs, decoded);
}

kiln_status kiln_ref_contiguous(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    (void)call;
    (void)err;
    kilni_ref_copy(&inputs[0], &outputs[0]);
    return KILN_STATUS_OK;
}

/// Truncates towards 0; what is outside the type becomes its last value, NaN becomes 0.
static kilni_ref_value float_to_int(double x, kiln_dtype dtype)
{
    kilni_ref_value low = kilni_ref_lowest(dtype);
    kilni_ref_value high = kilni_ref_highest(dtype);
    bool is_signed = kilni_ref_is_signed(dtype);
    double least = is_signed ? (double)low.i : 0;
    double above = ldexp(1, (int)kiln_dtype_size(dtype) * 8 - (is_signed ? 1 : 0));
    double whole = trunc(x);
    if (isnan(x)) {
        return (kilni_ref_value){.u = 0};
    }
    if (whole < least) {
        return low;
    }
    if (whole >= above) {
        return high;
    }
    return is_signed ? (kilni_ref_value){.i = (int64_t)whole}
                     : (kilni_ref_value){.u = (uint64_t)whole};
}

/// u64 and i64 to f32 and below: through float, to avoid rounding twice.
static double int_to_float(kilni_ref_value x, kiln_dtype from, kiln_dtype to)
{
    if (to == KILN_DTYPE_F64) {
        return kilni_ref_is_signed(from) ? (double)x.i : (double)x.u;
    }
    return kilni_ref_is_signed(from) ? (double)(float)x.i : (double)(float)x.u;
}

static kilni_ref_value cast_of(kilni_ref_value x, kiln_dtype from, kiln_dtype to)
{
    if (to == KILN_DTYPE_BOOL) {
        return kilni_ref_of_bool(kilni_ref_is_float(from) ? x.f != 0 : x.u != 0);
    }
    if (kilni_ref_is_float(from)) {
        return kilni_ref_is_float(to) ? x : float_to_int(x.f, to);
    }
    return kilni_ref_is_float(to) ? kilni_ref_of_float(int_to_float(x, from, to)) : x;
}

kiln_status kiln_ref_cast(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value x = kilni_ref_load(&inputs[0], walk.at[0]);
        kilni_ref_store(&outputs[0], walk.at[1], cast_of(x, inputs[0].dtype, outputs[0].dtype));
    }
    return KILN_STATUS_OK;
}
