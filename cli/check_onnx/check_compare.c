// SPDX-License-Identifier: MIT OR Apache-2.0
// Compares a tensor with the one that a test case of ONNX expects. Decides how close is close
// enough, what bfloat16 in a file of uint16 means, and what random numbers have to have in common.
#include "check_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_at(kiln_dtype dtype, const void *data, int64_t index)
{
    const char *at = (const char *)data + (size_t)index * kiln_dtype_size(dtype);
    uint16_t half = 0;
    float single = 0;
    double value = 0;
    switch (dtype) {
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, at, sizeof(half));
        return (double)(dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half));
    case KILN_DTYPE_F32:
        memcpy(&single, at, sizeof(single));
        return (double)single;
    case KILN_DTYPE_F64:
        memcpy(&value, at, sizeof(value));
        return value;
    default:
        memcpy(&half, at, 1);
        return (double)half;
    }
}

static bool is_close(double actual, double expected, const check_how *how)
{
    if (isnan(expected) || isinf(expected)) {
        return isnan(expected) ? isnan(actual) != 0 : actual == expected;
    }
    return fabs(actual - expected) <= how->absolute + how->relative * fabs(expected);
}

static int64_t count_of(const kiln_onnx_tensor_info *info)
{
    return (int64_t)(info->bytes / kiln_dtype_size(info->dtype));
}

static const char *index_of(char out_text[CLI_INDEX_ROOM], const kiln_onnx_tensor_info *info,
                            int64_t element)
{
    return cli_format_index(out_text, info->rank, info->dims, (size_t)element);
}

static kiln_status compare_floats(kiln_dtype dtype, const kiln_onnx_tensor_info *expected,
                                  const void *actual, const check_how *how, kiln_error *err)
{
    char at[CLI_INDEX_ROOM];
    for (int64_t i = 0; i < count_of(expected); i++) {
        double got = number_at(dtype, actual, i);
        double want = number_at(dtype, expected->data, i);
        if (!is_close(got, want, how)) {
            return kiln_fail(err, INTERNAL, "element %s is %.9g, expected %.9g",
                             index_of(at, expected, i), got, want);
        }
    }
    return KILN_STATUS_OK;
}

static int64_t integer_at(kiln_dtype dtype, const void *at)
{
    uint64_t bits = 0;
    size_t size = kiln_dtype_size(dtype);
    memcpy(&bits, at, size);
    bool negative = kiln_dtype_kind_of(dtype) == KILN_KIND_INT && size < sizeof(bits) &&
                    (bits >> (8 * size - 1)) != 0;
    return (int64_t)(negative ? bits - (UINT64_C(1) << (8 * size)) : bits);
}

static kiln_status compare_bytes(kiln_dtype dtype, const kiln_onnx_tensor_info *expected,
                                 const void *actual, kiln_error *err)
{
    char at[CLI_INDEX_ROOM];
    size_t size = kiln_dtype_size(dtype);
    for (int64_t i = 0; i < count_of(expected); i++) {
        const char *want = (const char *)expected->data + (size_t)i * size;
        const char *got = (const char *)actual + (size_t)i * size;
        if (memcmp(got, want, size) != 0) {
            return kiln_fail(err, INTERNAL, "element %s is %lld, expected %lld",
                             index_of(at, expected, i), (long long)integer_at(dtype, got),
                             (long long)integer_at(dtype, want));
        }
    }
    return KILN_STATUS_OK;
}

/// The cases' bfloat16 is float32 cut off, Kiln's is rounded: equal, or one step further from 0.
static kiln_status compare_cut(const kiln_onnx_tensor_info *expected, const void *actual,
                               kiln_error *err)
{
    char at[CLI_INDEX_ROOM];
    for (int64_t i = 0; i < count_of(expected); i++) {
        uint16_t want = 0;
        uint16_t got = 0;
        memcpy(&want, (const char *)expected->data + i * 2, sizeof(want));
        memcpy(&got, (const char *)actual + i * 2, sizeof(got));
        bool is_nan = (want & 0x7fff) > 0x7f80;
        bool same = is_nan ? (got & 0x7fff) > 0x7f80 : got == want || got == want + 1;
        if (!same) {
            return kiln_fail(err, INTERNAL, "element %s is %04x, expected %04x",
                             index_of(at, expected, i), got, want);
        }
    }
    return KILN_STATUS_OK;
}

typedef struct moments {
    double mean;
    double variance;
    double lowest;
    double highest;
} moments;

static moments moments_of(kiln_dtype dtype, int64_t count, const void *data)
{
    moments m = {.lowest = (double)INFINITY, .highest = -(double)INFINITY};
    for (int64_t i = 0; i < count; i++) {
        double value = number_at(dtype, data, i);
        m.mean += value / (double)count;
        m.lowest = fmin(m.lowest, value);
        m.highest = fmax(m.highest, value);
    }
    for (int64_t i = 0; i < count; i++) {
        double distance = number_at(dtype, data, i) - m.mean;
        m.variance += distance * distance / (double)count;
    }
    return m;
}

/// Random numbers of one distribution: means within five standard errors, variances of one size,
/// and the range not far beyond that of the expected ones.
static kiln_status compare_moments(kiln_dtype dtype, int64_t count, const void *expected,
                                   const void *actual, kiln_error *err)
{
    moments want = moments_of(dtype, count, expected);
    moments got = moments_of(dtype, count, actual);
    double n = (double)count;
    double apart = fabs(want.mean - got.mean);
    double spread = want.highest - want.lowest;
    bool near_mean = apart <= 5 * sqrt((want.variance + got.variance) / n) + CHECK_ABSOLUTE;
    bool same_size = got.variance <= want.variance * (1 + 10 / sqrt(n)) + CHECK_ABSOLUTE;
    bool in_range = got.lowest >= want.lowest - spread && got.highest <= want.highest + spread;
    if (count > 0 && !(near_mean && same_size && in_range)) {
        return kiln_fail(err, INTERNAL,
                         "mean %.4g and variance %.4g in [%.4g, %.4g], expected %.4g and %.4g in "
                         "[%.4g, %.4g]",
                         got.mean, got.variance, got.lowest, got.highest, want.mean, want.variance,
                         want.lowest, want.highest);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_lengths(const kiln_onnx_tensor_info *expected, uint32_t rank,
                                 const int64_t *dims, kiln_error *err)
{
    if (expected->rank != rank) {
        return kiln_fail(err, INTERNAL, "rank is %u, expected %u", rank, expected->rank);
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (expected->dims[i] != dims[i]) {
            return kiln_fail(err, INTERNAL, "axis %u has length %lld, expected %lld", i,
                             (long long)dims[i], (long long)expected->dims[i]);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_shape(const kiln_onnx_tensor_info *expected, kiln_dtype dtype,
                               const kiln_tensor *actual, kiln_error *err)
{
    if (dtype != kiln_tensor_dtype(actual)) {
        return kiln_fail(err, INTERNAL, "type is %s, expected %s",
                         kiln_dtype_name(kiln_tensor_dtype(actual)), kiln_dtype_name(dtype));
    }
    return check_lengths(expected, (uint32_t)kiln_tensor_rank(actual), kiln_tensor_dims(actual),
                         err);
}

/// A float is the same when it is the same number: 1 may be written 1.0.
static bool same_text(const char *got, const char *want)
{
    char *ends[2];
    double numbers[] = {strtod(got, &ends[0]), strtod(want, &ends[1])};
    bool both = ends[0] != got && ends[1] != want && *ends[0] == '\0' && *ends[1] == '\0';
    return strcmp(got, want) == 0 || (both && (float)numbers[0] == (float)numbers[1]);
}

kiln_status check_compare_texts(const kiln_onnx_tensor_info *expected,
                                const kiln_onnx_value *actual, kiln_error *err)
{
    char at[CLI_INDEX_ROOM];
    const kiln_onnx_texts *texts = actual->host;
    const char *const *wanted = expected->data;
    size_t count = expected->bytes / sizeof(*wanted);
    kiln_status status =
        strcmp(expected->type_name, "string") == 0
            ? check_lengths(expected, texts->rank, texts->dims, err)
            : kiln_fail(err, INTERNAL, "type is string, expected %s", expected->type_name);
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        if (!same_text(texts->texts[i], wanted[i])) {
            return kiln_fail(err, INTERNAL, "element %s is '%.60s', expected '%.60s'",
                             index_of(at, expected, (int64_t)i), texts->texts[i], wanted[i]);
        }
    }
    return status;
}

kiln_status check_compare(const kiln_onnx_value_info *info, const kiln_onnx_tensor_info *expected,
                          kiln_tensor *actual, const check_how *how, kiln_error *err)
{
    bool cut = info->dtype == KILN_DTYPE_BF16 && expected->dtype == KILN_DTYPE_U16;
    kiln_dtype dtype = cut ? KILN_DTYPE_BF16 : expected->dtype;
    kiln_status status = check_shape(expected, dtype, actual, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    void *data = malloc(expected->bytes + 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", expected->bytes);
    }
    status = kiln_read(actual, data, expected->bytes, err);
    bool is_float = kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
    bool has_moments = how->statistics && (is_float || dtype == KILN_DTYPE_BOOL);
    if (status == KILN_STATUS_OK) {
        status = has_moments ? compare_moments(dtype, count_of(expected), expected->data, data, err)
                 : cut       ? compare_cut(expected, data, err)
                 : is_float  ? compare_floats(dtype, expected, data, how, err)
                             : compare_bytes(dtype, expected, data, err);
    }
    free(data);
    return status;
}
