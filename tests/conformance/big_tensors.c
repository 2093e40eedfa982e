// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors of more than 2^31 elements on a device that has the memory: every element of each result
// against arithmetic on the host. A device without it is skipped by name. --rows=N and --columns=N
// run the same on other shapes; --device=ADDRESS elsewhere than on the first OpenCL device.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kiln.h"

static int64_t rows = 46349; // rows * columns is odd, and 0.01 % above 2^31
static int64_t columns = 46337;
static const char *address = "opencl:0";
static kiln_context *context;
static kiln_device *device;
static uint8_t *host; ///< x
static kiln_tensor *x; ///< [rows, columns] of u8
static kiln_error err = KILN_ERROR_INIT;

static uint8_t pattern(int64_t i)
{
    return (uint8_t)((uint64_t)i * 0x9E3779B97F4A7C15u >> 57);
}

// ---- what every case needs ----

/* Opens the device and makes x; skips the case where there is no room, for host and device too. */
static bool begin(void)
{
    if (x != NULL) {
        return true;
    }
    if (context == NULL &&
        !KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK)) {
        return false;
    }
    if (device == NULL &&
        kiln_device_open(context, kiln_test_address(address), &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("%s", err.message);
        return false;
    }
    const kiln_device_info *info = kiln_device_info_of(device);
    uint64_t bytes = (uint64_t)(rows * columns);
    if (info->max_alloc_bytes < 2 * bytes || info->memory_bytes < 16 * bytes) {
        kiln_test_skip("%s: buffers of %.1f GiB at most, %.1f GiB in all; this needs %.1f and %.1f",
                       info->name, (double)info->max_alloc_bytes / (1 << 30),
                       (double)info->memory_bytes / (1 << 30), 2.0 * (double)bytes / (1 << 30),
                       16.0 * (double)bytes / (1 << 30));
        return false;
    }
    const int64_t dims[] = {rows, columns};
    host = malloc(bytes);
    for (int64_t i = 0; host != NULL && i < rows * columns; i++) {
        host[i] = pattern(i);
    }
    return KILN_CHECK(host != NULL) &&
           KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_U8, 2, dims, host, &x, &err),
                          KILN_STATUS_OK);
}

static bool good(kiln_status status)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return status == KILN_STATUS_OK;
}

typedef uint8_t (*expected_fn)(int64_t i);

/* Every element of a result of u8, which is released. */
static void check_all(kiln_tensor *result, expected_fn expected)
{
    size_t bytes = kiln_tensor_bytes(result);
    uint8_t *data = malloc(bytes);
    if (KILN_CHECK(data != NULL) && good(kiln_read(result, data, bytes, &err))) {
        for (size_t i = 0; i < bytes; i++) {
            if (data[i] != expected((int64_t)i)) {
                KILN_FAIL("element %zu of %zu is %u, expected %u", i, bytes, data[i],
                          expected((int64_t)i));
                break;
            }
        }
    }
    free(data);
    kiln_release(result);
}

static kiln_tensor *flat(void)
{
    const int64_t shape[] = {rows * columns};
    kiln_tensor *out = NULL;
    return good(kiln_reshape(x, shape, 1, &out, &err)) ? out : NULL;
}

static kiln_tensor *indices(const int64_t *values, int64_t count)
{
    kiln_tensor *out = NULL;
    return good(kiln_tensor_create(device, KILN_DTYPE_I64, 1, &count, values, &out, &err)) ? out
                                                                                           : NULL;
}

// ---- copies and elementwise ----

static uint8_t expect_flipped(int64_t i)
{
    return host[rows * columns - 1 - i];
}

static void test_copy(void)
{
    kiln_tensor *view = NULL;
    kiln_tensor *out = NULL;
    if (begin() && good(kiln_flip(x, NULL, 0, &view, &err)) &&
        good(kiln_contiguous(view, &out, &err))) {
        check_all(out, expect_flipped);
    }
    kiln_release(view);
}

static uint8_t expect_tripled(int64_t i)
{
    return (uint8_t)(3 * host[i]);
}

static void test_elementwise(void)
{
    kiln_tensor *twice = NULL;
    kiln_tensor *out = NULL;
    if (begin() && good(kiln_add(x, x, &twice, &err)) && good(kiln_add(twice, x, &out, &err))) {
        check_all(out, expect_tripled);
    }
    kiln_release(twice);
}

static uint8_t expect_other_row(int64_t i)
{
    return (uint8_t)(host[i] + host[(rows - 1) * columns + i % columns]);
}

static void test_broadcast(void)
{
    const int64_t starts[] = {rows - 1, 0};
    const int64_t ends[] = {rows, columns};
    kiln_tensor *row = NULL;
    kiln_tensor *out = NULL;
    if (begin() && good(kiln_slice(x, starts, 2, ends, 2, NULL, 0, &row, &err)) &&
        good(kiln_add(x, row, &out, &err))) {
        check_all(out, expect_other_row);
    }
    kiln_release(row);
}

static uint8_t expect_halved(int64_t i)
{
    return host[i] / 2;
}

/* To f16 and back: twice as many bytes between. */
static void test_cast(void)
{
    kiln_tensor *wide = NULL;
    kiln_tensor *half = NULL;
    kiln_tensor *out = NULL;
    if (begin() && good(kiln_cast(x, KILN_DTYPE_F16, &wide, &err)) &&
        good(kiln_flush(device, &err)) && good(kiln_mul_scalar(wide, kiln_f64(0.5), &half, &err)) &&
        good(kiln_cast(half, KILN_DTYPE_U8, &out, &err))) {
        check_all(out, expect_halved);
    }
    kiln_release(wide);
    kiln_release(half);
}

// ---- reductions ----

static void test_sum(void)
{
    uint8_t sum = 0;
    uint8_t expected = 0;
    kiln_tensor *out = NULL;
    if (!begin() || !good(kiln_sum(x, NULL, 0, false, &out, &err))) {
        return;
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        expected = (uint8_t)(expected + host[i]);
    }
    if (good(kiln_read(out, &sum, 1, &err))) {
        KILN_CHECK_INT(sum, expected);
    }
    kiln_release(out);
}

static uint8_t *sums;

static uint8_t expect_sum(int64_t i)
{
    return sums[i];
}

static void check_sum_along(int64_t axis)
{
    kiln_tensor *out = NULL;
    if (!good(kiln_sum(x, &axis, 1, false, &out, &err))) {
        return;
    }
    sums = calloc((size_t)(rows > columns ? rows : columns), 1);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < columns; k++) {
            uint8_t *sum = &sums[axis == 0 ? k : i];
            *sum = (uint8_t)(*sum + host[i * columns + k]);
        }
    }
    check_all(out, expect_sum);
    free(sums);
}

static void test_sum_rows(void)
{
    if (begin()) {
        check_sum_along(1);
    }
}

static void test_sum_columns(void)
{
    if (begin()) {
        check_sum_along(0);
    }
}

/* The last place of the largest value, behind 2^31. */
static void test_argmax(void)
{
    int64_t place = -1;
    int64_t expected = 0;
    kiln_tensor *line = begin() ? flat() : NULL;
    kiln_tensor *out = NULL;
    if (line == NULL || !good(kiln_argmax(line, 0, false, true, &out, &err))) {
        kiln_release(line);
        return;
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        expected = host[i] >= host[expected] ? i : expected;
    }
    if (good(kiln_read(out, &place, sizeof(place), &err))) {
        KILN_CHECK_INT(place, expected);
    }
    kiln_release(out);
    kiln_release(line);
}

static uint8_t *running;

static uint8_t expect_running(int64_t i)
{
    return running[i];
}

static void test_cumulative_sum(void)
{
    kiln_tensor *line = begin() ? flat() : NULL;
    kiln_tensor *out = NULL;
    running = line != NULL ? malloc((size_t)(rows * columns)) : NULL;
    if (running != NULL && good(kiln_cum_sum(line, 0, false, false, &out, &err))) {
        uint8_t sum = 0;
        for (int64_t i = 0; i < rows * columns; i++) {
            sum = (uint8_t)(sum + host[i]);
            running[i] = sum;
        }
        check_all(out, expect_running);
    }
    free(running);
    kiln_release(line);
}

// ---- places ----

static uint8_t expect_turned(int64_t i)
{
    return host[i % rows * columns + i / rows];
}

static void test_transpose(void)
{
    kiln_tensor *view = NULL;
    kiln_tensor *out = NULL;
    if (begin() && good(kiln_permute(x, NULL, 0, &view, &err)) &&
        good(kiln_contiguous(view, &out, &err))) {
        check_all(out, expect_turned);
    }
    kiln_release(view);
}

static int64_t places[6];

static uint8_t expect_places(int64_t i)
{
    return host[places[i]];
}

/* Single elements, around 2^31 and at the end. */
static void test_gather_elements(void)
{
    int64_t count = rows * columns;
    int64_t edge = (int64_t)1 << 31;
    const int64_t wanted[6] = {0, edge - 1, edge, edge + 1, count - 2, count - 1};
    kiln_tensor *line = begin() ? flat() : NULL;
    kiln_tensor *which = NULL;
    kiln_tensor *out = NULL;
    for (int i = 0; i < 6; i++) {
        places[i] = wanted[i] < count ? wanted[i] : count - 1;
    }
    which = line != NULL ? indices(places, 6) : NULL;
    if (which != NULL && good(kiln_select(line, which, 0, &out, &err))) {
        check_all(out, expect_places);
    }
    kiln_release(which);
    kiln_release(line);
}

static uint8_t expect_rows_upside_down(int64_t i)
{
    return host[(rows - 1 - i / columns) * columns + i % columns];
}

/* All rows, the last first. */
static void test_gather_rows(void)
{
    int64_t *wanted = begin() ? malloc((size_t)rows * sizeof(*wanted)) : NULL;
    kiln_tensor *which = NULL;
    kiln_tensor *out = NULL;
    for (int64_t i = 0; wanted != NULL && i < rows; i++) {
        wanted[i] = rows - 1 - i;
    }
    which = wanted != NULL ? indices(wanted, rows) : NULL;
    if (which != NULL && good(kiln_select(x, which, 0, &out, &err))) {
        check_all(out, expect_rows_upside_down);
    }
    kiln_release(which);
    free(wanted);
}

// ---- products ----

static kiln_tensor *part(int64_t first_row, int64_t end_row, int64_t first, int64_t end)
{
    const int64_t starts[] = {first_row, first};
    const int64_t ends[] = {end_row, end};
    kiln_tensor *out = NULL;
    return good(kiln_slice(x, starts, 2, ends, 2, NULL, 0, &out, &err)) ? out : NULL;
}

static uint8_t expect_outer(int64_t i)
{
    return (uint8_t)(host[i / columns * columns] * host[(rows - 1) * columns + i % columns]);
}

/* A column times a row: the result is as large as x. */
static void test_matmul_large_result(void)
{
    kiln_tensor *column = begin() ? part(0, rows, 0, 1) : NULL;
    kiln_tensor *row = column != NULL ? part(rows - 1, rows, 0, columns) : NULL;
    kiln_tensor *out = NULL;
    if (row != NULL && good(kiln_matmul(column, row, false, false, &out, &err))) {
        check_all(out, expect_outer);
    }
    kiln_release(column);
    kiln_release(row);
}

enum { WIDTH = 3 };

static uint8_t expect_product(int64_t i)
{
    uint8_t sum = 0;
    const uint8_t *left = host + i / WIDTH * columns;
    const uint8_t *right = host + i % WIDTH * columns;
    for (int64_t k = 0; k < columns; k++) {
        sum = (uint8_t)(sum + left[k] * right[k]);
    }
    return sum;
}

/* x times its own first rows, in u8 and, exactly, in f16's place: ones count each row. */
static void test_matmul_large_operand(void)
{
    kiln_tensor *right = begin() ? part(0, WIDTH, 0, columns) : NULL;
    kiln_tensor *out = NULL;
    if (right != NULL && good(kiln_matmul(x, right, false, true, &out, &err))) {
        check_all(out, expect_product);
    }
    kiln_release(right);
}

static uint8_t expect_parity(int64_t i)
{
    uint32_t sum = 0;
    for (int64_t k = 0; k < columns; k++) {
        sum += host[i * columns + k] & 1u;
    }
    return (uint8_t)(sum > 127 ? 127 : sum);
}

/* f32 is what BLAS libraries take: 8 GiB of zeros and ones times a column of ones. */
static void test_matmul_f32(void)
{
    const int64_t dims[] = {columns, 1};
    kiln_tensor *odd = NULL;
    kiln_tensor *wide = NULL;
    kiln_tensor *ones = NULL;
    kiln_tensor *sum = NULL;
    kiln_tensor *least = NULL;
    kiln_tensor *out = NULL;
    bool fits =
        begin() && kiln_device_info_of(device)->max_alloc_bytes >= 4 * (uint64_t)(rows * columns);
    if (x != NULL && !fits) {
        kiln_test_skip("%s: no buffer of 8 GiB", kiln_device_info_of(device)->name);
    }
    if (fits && good(kiln_bitwise_and_scalar(x, kiln_i64(1), &odd, &err)) &&
        good(kiln_cast(odd, KILN_DTYPE_F32, &wide, &err)) &&
        good(kiln_full(device, dims, 2, KILN_DTYPE_F32, kiln_f64(1), &ones, &err)) &&
        good(kiln_matmul(wide, ones, false, false, &sum, &err)) &&
        good(kiln_clamp_max(sum, kiln_f64(127), &least, &err)) &&
        good(kiln_cast(least, KILN_DTYPE_U8, &out, &err))) {
        check_all(out, expect_parity);
    }
    kiln_release(odd);
    kiln_release(wide);
    kiln_release(ones);
    kiln_release(sum);
    kiln_release(least);
}

static void take_options(int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], "--rows=", 7) == 0) {
            rows = strtoll(argv[i] + 7, NULL, 10);
        } else if (strncmp(argv[i], "--columns=", 10) == 0) {
            columns = strtoll(argv[i] + 10, NULL, 10);
        } else if (strncmp(argv[i], "--device=", 9) == 0) {
            address = argv[i] + 9;
        } else {
            argv[kept++] = argv[i];
        }
    }
    *argc = kept;
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_copy),
        KILN_TEST(test_elementwise),
        KILN_TEST(test_broadcast),
        KILN_TEST(test_cast),
        KILN_TEST(test_sum),
        KILN_TEST(test_sum_rows),
        KILN_TEST(test_sum_columns),
        KILN_TEST(test_argmax),
        KILN_TEST(test_cumulative_sum),
        KILN_TEST(test_transpose),
        KILN_TEST(test_gather_elements),
        KILN_TEST(test_gather_rows),
        KILN_TEST(test_matmul_large_result),
        KILN_TEST(test_matmul_large_operand),
        KILN_TEST(test_matmul_f32),
    };
    take_options(&argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = kiln_test_run("conformance/big_tensors", cases, sizeof(cases) / sizeof(cases[0]),
                               argc, argv);
    kiln_release(x);
    kiln_device_release(device);
    kiln_context_destroy(context);
    free(host);
    return status;
}
