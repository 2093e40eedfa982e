// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of tolerances and the comparison that applies it. Where OpenCL 1.2 (section 7.4, full
// profile) names an error bound for a function, that bound stands; what is computed exactly or only
// moved has none; sums, products and rows are measured against the largest result, because their
// error follows the terms.
#include "tolerance.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
    kiln_op op;
    kiln_tolerance tolerance;
} row;

static const row rows[] = {
    {KILN_OP_EXP, {3, 1, 0, 0, false}},
    {KILN_OP_EXPM1, {3, 1, 0, 0, false}},
    {KILN_OP_LOG, {3, 1, 0, 0, false}},
    {KILN_OP_LOG1P, {2, 1, 0, 0, false}},
    {KILN_OP_ERF, {16, 1, 0, 0, false}},
    {KILN_OP_SQRT, {3, 1, 0, 0, false}},
    {KILN_OP_RSQRT, {2, 1, 0, 0, false}},
    {KILN_OP_RECIP, {2.5, 1, 0, 0, false}},
    {KILN_OP_SIN, {4, 1, 0, 0, false}},
    {KILN_OP_COS, {4, 1, 0, 0, false}},
    {KILN_OP_TAN, {5, 1, 0, 0, false}},
    {KILN_OP_SINH, {4, 1, 0, 0, false}},
    {KILN_OP_COSH, {4, 1, 0, 0, false}},
    {KILN_OP_TANH, {5, 1, 0, 0, false}},
    {KILN_OP_ASIN, {4, 1, 0, 0, false}},
    {KILN_OP_ACOS, {4, 1, 0, 0, false}},
    {KILN_OP_ATAN, {5, 1, 0, 0, false}},
    {KILN_OP_ASINH, {4, 1, 0, 0, false}},
    {KILN_OP_ACOSH, {4, 1, 0, 0, false}},
    {KILN_OP_ATANH, {5, 1, 0, 0, false}},
    {KILN_OP_SIGMOID, {8, 1, 0, 0, false}},
    {KILN_OP_RELU, {0, 0, 0, 0, true}},
    {KILN_OP_DIV, {2.5, 1, 0, 0, false}},
    {KILN_OP_DIV_SCALAR, {2.5, 1, 0, 0, false}},
    {KILN_OP_POW, {16, 1, 0, 0, false}},
    {KILN_OP_POW_SCALAR, {16, 1, 0, 0, false}},
    {KILN_OP_ATAN2, {6, 1, 0, 0, false}},
    {KILN_OP_HYPOT, {4, 1, 0, 0, false}},
    {KILN_OP_MINIMUM, {0, 0, 0, 0, true}},
    {KILN_OP_MAXIMUM, {0, 0, 0, 0, true}},
    {KILN_OP_CLAMP, {0, 0, 0, 0, true}},
    {KILN_OP_CLAMP_MIN, {0, 0, 0, 0, true}},
    {KILN_OP_CLAMP_MAX, {0, 0, 0, 0, true}},
    {KILN_OP_MIN, {0, 0, 0, 0, true}},
    {KILN_OP_MAX, {0, 0, 0, 0, true}},
    {KILN_OP_MAX_POOL, {0, 0, 0, 0, true}},
    {KILN_OP_SUM, {0, 0, 64, 2, true}},
    {KILN_OP_MEAN, {0, 0, 64, 2, true}},
    {KILN_OP_PROD, {0, 0, 64, 2, true}},
    {KILN_OP_MATMUL, {0, 0, 64, 2, true}},
    {KILN_OP_CONV, {0, 0, 64, 2, true}},
    {KILN_OP_AVG_POOL, {0, 0, 16, 2, true}},
    {KILN_OP_INTERPOLATE, {0, 0, 64, 2, true}},
    {KILN_OP_INTERPOLATE_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_GRID_SAMPLE, {0, 0, 64, 2, true}},
    {KILN_OP_ROI_ALIGN, {0, 0, 64, 2, true}},
    {KILN_OP_DEFORM_IM2COL, {0, 0, 64, 2, true}},
    {KILN_OP_DEFORM_IM2COL_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_DEFORM_CONV, {0, 0, 64, 2, true}},
    {KILN_OP_DEFORM_CONV_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_LP_POOL, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_TRANSPOSE, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_X_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_WEIGHT_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_BIAS_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_TRANSPOSE_X_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_COL2IM, {0, 0, 16, 2, true}},
    {KILN_OP_MAX_POOL_WITH_INDICES, {0, 0, 0, 0, true}},
    {KILN_OP_MAX_POOL_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_AVG_POOL_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_ADAPTIVE_AVG_POOL, {0, 0, 16, 2, true}},
    {KILN_OP_ADAPTIVE_MAX_POOL, {0, 0, 0, 0, true}},
    {KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_SOFTMAX, {0, 0, 16, 2, true}},
    {KILN_OP_LOG_SOFTMAX, {0, 0, 16, 2, true}},
    {KILN_OP_BATCH_NORM, {0, 0, 16, 2, true}},
    {KILN_OP_MATMUL_QUANTIZED, {0, 0, 64, 2, true}},
    {KILN_OP_LINEAR_QUANTIZED, {0, 0, 64, 2, true}},
    {KILN_OP_RANDOM_NORMAL, {4, 1, 0, 0, false}},
    {KILN_OP_GELU, {0, 0, 16, 2, true}},
    {KILN_OP_SOFTMIN, {0, 0, 16, 2, true}},
    {KILN_OP_SOFTMAX_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_LOG_SOFTMAX_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_LAYER_NORM, {0, 0, 64, 2, true}},
    {KILN_OP_RMS_NORM, {0, 0, 64, 2, true}},
    {KILN_OP_GROUP_NORM, {0, 0, 64, 2, true}},
    {KILN_OP_INSTANCE_NORM, {0, 0, 64, 2, true}},
    {KILN_OP_LAYER_NORM_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_RMS_NORM_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_GROUP_NORM_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_INSTANCE_NORM_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_BATCH_NORM_TRAIN, {0, 0, 64, 2, true}},
    {KILN_OP_BATCH_NORM_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_LINEAR, {0, 0, 64, 2, true}},
    {KILN_OP_LINEAR_X_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_LINEAR_WEIGHT_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_LINEAR_BIAS_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_ATTENTION, {0, 0, 64, 2, true}},
    {KILN_OP_EINSUM, {0, 0, 64, 2, true}},
    {KILN_OP_LSTM, {0, 0, 64, 2, true}},
    {KILN_OP_GRU, {0, 0, 64, 2, true}},
    {KILN_OP_RNN, {0, 0, 64, 2, true}},
    {KILN_OP_FFT, {0, 0, 64, 2, true}},
    {KILN_OP_RFFT, {0, 0, 64, 2, true}},
    {KILN_OP_IRFFT, {0, 0, 64, 2, true}},
    {KILN_OP_CTC_LOSS, {0, 0, 64, 2, true}},
    {KILN_OP_CTC_LOSS_BACKWARD, {0, 0, 64, 2, true}},
    {KILN_OP_DET, {0, 0, 64, 2, true}},
    {KILN_OP_PRELU, {0, 0, 16, 2, true}},
    {KILN_OP_HARD_SIGMOID, {0, 0, 16, 2, true}},
    {KILN_OP_LOG_SIGMOID, {0, 0, 16, 2, true}},
    {KILN_OP_GELU_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_SIGMOID_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_LOG_SIGMOID_BACKWARD, {0, 0, 16, 2, true}},
    {KILN_OP_SILU, {0, 0, 16, 2, true}},
    {KILN_OP_SOFTPLUS, {0, 0, 16, 2, true}},
    {KILN_OP_ELU, {0, 0, 16, 2, true}},
    {KILN_OP_MISH, {0, 0, 16, 2, true}},
    {KILN_OP_HARD_SWISH, {0, 0, 16, 2, true}},
    {KILN_OP_CUM_SUM, {0, 0, 64, 2, true}},
    {KILN_OP_CUM_PROD, {0, 0, 64, 2, true}},
    {KILN_OP_CUM_MAX, {0, 0, 0, 0, true}},
    {KILN_OP_CUM_MIN, {0, 0, 0, 0, true}},
    {KILN_OP_SORT, {0, 0, 0, 0, true}},
    {KILN_OP_CROSS, {0, 0, 4, 2, true}},
    {KILN_OP_SCATTER, {0, 1, 0, 0, true}},
    {KILN_OP_SCATTER_ND, {0, 1, 0, 0, true}},
    {KILN_OP_SELECT_ASSIGN, {0, 1, 0, 0, true}},
    {KILN_OP_EMBEDDING_BACKWARD, {0, 1, 0, 0, true}},
};

kiln_tolerance kiln_tolerance_of(kiln_op op)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].op == op) {
            return rows[i].tolerance;
        }
    }
    return (kiln_tolerance){0, 0, 0, 0, false};
}

typedef struct float_format {
    int digits; ///< of the significand, the hidden one included
    int min_exponent; ///< of the smallest normal number
} float_format;

static float_format format_of(kiln_dtype dtype)
{
    switch (dtype) {
    case KILN_DTYPE_F16:
        return (float_format){11, -14};
    case KILN_DTYPE_BF16:
        return (float_format){8, -126};
    case KILN_DTYPE_F32:
        return (float_format){24, -126};
    default:
        return (float_format){53, -1022};
    }
}

static double load(const void *data, kiln_dtype dtype, int64_t i)
{
    uint16_t half = 0;
    float narrow = 0;
    double wide = 0;
    const unsigned char *p = (const unsigned char *)data + (size_t)i * kiln_dtype_size(dtype);
    switch (dtype) {
    case KILN_DTYPE_F16:
        memcpy(&half, p, sizeof(half));
        return kiln_f16_to_f32(half);
    case KILN_DTYPE_BF16:
        memcpy(&half, p, sizeof(half));
        return kiln_bf16_to_f32(half);
    case KILN_DTYPE_F32:
        memcpy(&narrow, p, sizeof(narrow));
        return narrow;
    default:
        memcpy(&wide, p, sizeof(wide));
        return wide;
    }
}

static double ulp_of(double value, float_format format)
{
    int exponent = format.min_exponent;
    if (value != 0 && isfinite(value)) {
        exponent = ilogb(value) > exponent ? ilogb(value) : exponent;
    }
    return ldexp(1, exponent - format.digits + 1);
}

static double largest(const void *data, kiln_dtype dtype, int64_t count)
{
    double result = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = fabs(load(data, dtype, i));
        result = isfinite(value) && value > result ? value : result;
    }
    return result;
}

static bool close_enough(kiln_tolerance tolerance, kiln_dtype dtype, double scale, double actual,
                         double expected)
{
    float_format format = format_of(dtype);
    bool half = kiln_dtype_size(dtype) == 2;
    double scaled = half ? tolerance.half_scaled : tolerance.scaled;
    double ulps = half ? tolerance.half_ulps : tolerance.ulps;
    if (isnan(expected) || isnan(actual)) {
        return isnan(expected) && isnan(actual);
    }
    if (actual == expected) {
        return actual != 0 || tolerance.any_zero || signbit(actual) == signbit(expected);
    }
    if (isinf(expected) || isinf(actual)) {
        return false;
    }
    double allowed =
        scaled > 0 ? scaled * ldexp(scale, 1 - format.digits) : ulps * ulp_of(expected, format);
    return fabs(actual - expected) <= allowed;
}

static bool compare_floats(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                           const void *actual, const void *expected, char *out_text,
                           size_t capacity)
{
    double scale = largest(expected, dtype, count);
    for (int64_t i = 0; i < count; i++) {
        double a = load(actual, dtype, i);
        double e = load(expected, dtype, i);
        if (!close_enough(tolerance, dtype, scale, a, e)) {
            snprintf(out_text, capacity,
                     "element %" PRId64 " of %" PRId64 " is %.9g, expected %.9g", i, count, a, e);
            return false;
        }
    }
    return true;
}

bool kiln_tolerance_compare(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                            const void *actual, const void *expected, char *out_text,
                            size_t capacity)
{
    size_t size = kiln_dtype_size(dtype);
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        return compare_floats(tolerance, dtype, count, actual, expected, out_text, capacity);
    }
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *a = (const unsigned char *)actual + (size_t)i * size;
        const unsigned char *e = (const unsigned char *)expected + (size_t)i * size;
        if (memcmp(a, e, size) != 0) {
            uint64_t bits[2] = {0, 0};
            memcpy(&bits[0], a, size);
            memcpy(&bits[1], e, size);
            snprintf(out_text, capacity,
                     "element %" PRId64 " of %" PRId64 " is 0x%" PRIx64 ", expected 0x%" PRIx64, i,
                     count, bits[0], bits[1]);
            return false;
        }
    }
    return true;
}

static int32_t quant_value(const unsigned char *data, kiln_dtype dtype, int64_t i)
{
    uint32_t word = 0;
    uint32_t bits = kiln_quant_bits(dtype);
    int64_t per_word = 32 / (int64_t)bits;
    memcpy(&word, data + i / per_word * 4, sizeof(word));
    uint32_t raw = word >> ((uint32_t)(i % per_word) * bits) & ((1u << bits) - 1);
    return (int32_t)raw - ((raw >> (bits - 1)) != 0 ? (int32_t)(1u << bits) : 0);
}

bool kiln_quant_compare(const kiln_tensor_desc *desc, bool exact, const void *actual,
                        const void *expected, char *out_text, size_t capacity)
{
    const unsigned char *a = actual;
    const unsigned char *e = expected;
    const kiln_tolerance near = {.ulps = 2, .half_ulps = 2};
    kiln_quant_layout l;
    if (!kiln_quant_layout_of(desc, &l)) {
        snprintf(out_text, capacity, "the result has no layout");
        return false;
    }
    for (int64_t i = 0; i < l.bytes && exact; i++) {
        if (a[i] != e[i]) {
            snprintf(out_text, capacity, "byte %" PRId64 " of %" PRId64 " is %u, expected %u", i,
                     l.bytes, a[i], e[i]);
            return false;
        }
    }
    for (int64_t i = 0; i < l.count; i++) {
        int32_t x = quant_value(a, desc->dtype, i);
        int32_t y = quant_value(e, desc->dtype, i);
        if (x - y > 1 || y - x > 1) {
            snprintf(out_text, capacity, "value %" PRId64 " is %d, expected %d", i, x, y);
            return false;
        }
    }
    return kiln_tolerance_compare(near, kiln_scheme_scale(desc->scheme), l.scales, a + l.scales_at,
                                  e + l.scales_at, out_text, capacity);
}
