// SPDX-License-Identifier: MIT OR Apache-2.0
// The classes of tolerances that ops.def names, and the comparison that applies them. Where
// OpenCL 1.2 (section 7.4, full profile) names an error bound for a function, that bound stands;
// what is computed exactly or only moved has none; sums, products and rows are measured against the
// largest result, because their error follows the terms.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir_quant.h"
#include "judge_internal.h"

/// What the largest result is not less than, in the measure of errors.
typedef enum operands { NOTHING, LARGEST, PRODUCT } operands;

/// Classes of operators. WITHIN_n: functions, in units of the last place. TERMS, PRODUCTS and
/// ROWS_n: against the largest result; where terms cancel, against the largest term or product of
/// two.
typedef enum class {
    EXACT,
    CHOSEN,
    UPDATED,
    WITHIN_2,
    WITHIN_2_5,
    WITHIN_3,
    WITHIN_4,
    WITHIN_5,
    WITHIN_6,
    WITHIN_8,
    WITHIN_16,
    TERMS_16,
    TERMS_64,
    PRODUCTS_4,
    PRODUCTS_64,
    ROWS_16,
    ROWS_64,
    CLASS_COUNT
} class;

// clang-format off
/// One row for each class: the numbers of f64, f32, f16 and bf16, and what goes with them.
static const struct {
    double units[4];
    bool scaled; ///< of the largest result instead of the result itself
    bool any_zero;
    operands floor;
} classes[CLASS_COUNT] = {
    [EXACT]        = {{0, 0, 0, 0}, false, false, NOTHING},
    [CHOSEN]       = {{0, 0, 0, 0}, false, true, NOTHING},
    [UPDATED]      = {{0, 0, 1, 1}, false, true, NOTHING},
    [WITHIN_2]     = {{2, 2, 1, 1}, false, false, NOTHING},
    [WITHIN_2_5]   = {{2.5, 2.5, 1, 1}, false, false, NOTHING},
    [WITHIN_3]     = {{3, 3, 1, 1}, false, false, NOTHING},
    [WITHIN_4]     = {{4, 4, 1, 1}, false, false, NOTHING},
    [WITHIN_5]     = {{5, 5, 1, 1}, false, false, NOTHING},
    [WITHIN_6]     = {{6, 6, 1, 1}, false, false, NOTHING},
    [WITHIN_8]     = {{8, 8, 1, 1}, false, false, NOTHING},
    [WITHIN_16]    = {{16, 16, 1, 1}, false, false, NOTHING},
    [TERMS_16]     = {{16, 16, 2, 2}, true, true, LARGEST},
    [TERMS_64]     = {{64, 64, 2, 2}, true, true, LARGEST},
    [PRODUCTS_4]   = {{4, 4, 2, 2}, true, true, PRODUCT},
    [PRODUCTS_64]  = {{64, 64, 2, 2}, true, true, PRODUCT},
    [ROWS_16]      = {{16, 16, 2, 2}, true, true, NOTHING},
    [ROWS_64]      = {{64, 64, 2, 2}, true, true, NOTHING},
};
// clang-format on

static const uint8_t classes_of_operators[KILN_OP_COUNT] = {
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    [KILN_OP_##id] = tol,
#include "ops.def"
#undef KILN_OP
};

static class class_of(kiln_op op)
{
    return (unsigned)op < (unsigned)KILN_OP_COUNT ? (class)classes_of_operators[op] : EXACT;
}

kiln_tolerance kiln_tolerance_of(kiln_op op, kiln_dtype dtype)
{
    class is = class_of(op);
    unsigned column = dtype == KILN_DTYPE_F64    ? 0
                      : dtype == KILN_DTYPE_F16  ? 2
                      : dtype == KILN_DTYPE_BF16 ? 3
                                                 : 1;
    double units = classes[is].units[column];
    return (kiln_tolerance){.ulps = classes[is].scaled ? 0 : units,
                            .scaled = classes[is].scaled ? units : 0,
                            .any_zero = classes[is].any_zero};
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

kiln_tolerance kiln_tolerance_for(const kiln_op_record *record, unsigned output,
                                  const void *const *data)
{
    kiln_tolerance tolerance = kiln_tolerance_of(record->op, record->outputs[output].dtype);
    operands floor = classes[class_of(record->op)].floor;
    double measure[2] = {0, 0};
    for (unsigned i = 0; i < record->n_inputs && i < 2; i++) {
        const kiln_tensor_desc *in = &record->inputs[i];
        if (kiln_dtype_kind_of(in->dtype) == KILN_KIND_FLOAT) {
            measure[i] = largest(data[i], in->dtype, kiln_desc_count(in));
        }
    }
    tolerance.least_scale = floor == LARGEST   ? measure[0]
                            : floor == PRODUCT ? measure[0] * measure[1]
                                               : 0;
    return tolerance;
}

double kilni_tolerance_allowed(kiln_tolerance tolerance, kiln_dtype dtype, double scale,
                               double expected)
{
    float_format format = format_of(dtype);
    return tolerance.scaled > 0 ? tolerance.scaled * ldexp(scale, 1 - format.digits)
                                : tolerance.ulps * ulp_of(expected, format);
}

double kilni_tolerance_scale(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                             const void *expected)
{
    return fmax(largest(expected, dtype, count), tolerance.least_scale);
}

static bool close_enough(kiln_tolerance tolerance, kiln_dtype dtype, double scale, double actual,
                         double expected)
{
    if (isnan(expected) || isnan(actual)) {
        return isnan(expected) && isnan(actual);
    }
    if (actual == expected) {
        return actual != 0 || tolerance.any_zero || signbit(actual) == signbit(expected);
    }
    if (isinf(expected) || isinf(actual)) {
        return false;
    }
    return fabs(actual - expected) <= kilni_tolerance_allowed(tolerance, dtype, scale, expected);
}

static bool compare_floats(kiln_tolerance tolerance, kiln_dtype dtype, int64_t count,
                           const void *actual, const void *expected, char *out_text,
                           size_t capacity)
{
    int digits = dtype == KILN_DTYPE_F64 ? 17 : 9;
    double scale = kilni_tolerance_scale(tolerance, dtype, count, expected);
    for (int64_t i = 0; i < count; i++) {
        double a = load(actual, dtype, i);
        double e = load(expected, dtype, i);
        if (!close_enough(tolerance, dtype, scale, a, e)) {
            snprintf(out_text, capacity,
                     "element %" PRId64 " of %" PRId64 " is %.*g, expected %.*g", i, count, digits,
                     a, digits, e);
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
    const kiln_tolerance near = {.ulps = 2};
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

bool kiln_tolerance_judge(const kiln_op_record *record, unsigned output, const void *const *data,
                          const void *actual, const void *expected, char *out_text, size_t capacity)
{
    const kiln_tensor_desc *out = &record->outputs[output];
    if (kiln_dtype_kind_of(out->dtype) == KILN_KIND_QUANT) {
        return kiln_quant_compare(out, record->op == KILN_OP_QUANTIZE, actual, expected, out_text,
                                  capacity);
    }
    return kiln_tolerance_compare(kiln_tolerance_for(record, output, data), out->dtype,
                                  kiln_desc_count(out), actual, expected, out_text, capacity);
}
