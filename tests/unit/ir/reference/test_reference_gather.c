// SPDX-License-Identifier: MIT OR Apache-2.0
// Gathers with indices inside and outside, concat, the modes of pad, full and arange.
#include <math.h>

#include "ir_support.h"

static const float six[6] = {0, 1, 2, 3, 4, 5};

static void test_gather(void)
{
    const int64_t indices[4] = {2, 0, 1, -1};
    const kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 2, 2, 3),
                                       test_desc(KILN_DTYPE_I64, 2, 2, 2)};
    const void *data[2] = {six, indices};
    kiln_attr axis = test_i64(1);
    EXPECT_F32(KILN_OP_GATHER, descs, data, 2, &axis, 0, 2, 0, 4, 5);
    const int64_t wild[4] = {INT64_MAX, INT64_MIN, 3, -4};
    data[1] = wild;
    EXPECT_F32(KILN_OP_GATHER, descs, data, 2, &axis, 0, 2, 0, 5, 3);
}

static void test_select(void)
{
    const int32_t indices[4] = {1, -1, 100, -100};
    const kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 2, 2, 3),
                                       test_desc(KILN_DTYPE_I32, 1, 4)};
    const void *data[2] = {six, indices};
    kiln_attr axis = test_i64(1);
    EXPECT_F32(KILN_OP_SELECT, descs, data, 2, &axis, 0, 1, 2, 2, 0, 4, 5, 5, 3);
    axis = test_none();
    EXPECT_F32(KILN_OP_SELECT, descs, data, 2, &axis, 0, 3, 4, 5, 3, 4, 5, 3, 4, 5, 0, 1, 2);
}

static void test_concat(void)
{
    const kiln_tensor_desc descs[3] = {test_desc(KILN_DTYPE_F32, 2, 2, 1),
                                       test_desc(KILN_DTYPE_F32, 2, 2, 0),
                                       test_desc(KILN_DTYPE_F32, 2, 2, 2)};
    const void *data[3] = {six, six, six};
    kiln_attr axis = test_i64(1);
    EXPECT_F32(KILN_OP_CONCAT, descs, data, 3, &axis, 0, 0, 0, 1, 1, 2, 3);
}

static void pad(int length, int64_t begin, int64_t end, const char *mode, size_t count,
                const float *expected, int line)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, length);
    const kiln_attr attrs[3] = {TEST_INTS(begin, end), test_text(mode), test_f64(9)};
    const void *data[1] = {six};
    test_expect_f32(KILN_OP_PAD, &x, data, 1, attrs, count, expected, 0, __FILE__, line);
}
#define PAD(length, begin, end, mode, ...)                                                         \
    pad(length, begin, end, mode, sizeof((const float[]){__VA_ARGS__}) / sizeof(float),            \
        (const float[]){__VA_ARGS__}, __LINE__)

static void test_pad(void)
{
    PAD(4, 3, 2, "reflect", 3, 2, 1, 0, 1, 2, 3, 2, 1);
    PAD(4, 3, 5, "edge", 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3);
    PAD(4, 1, 2, "constant", 9, 0, 1, 2, 3, 9, 9);
    PAD(4, -1, 1, "constant", 1, 2, 3, 9);
    PAD(5, 2, -2, "reflect", 2, 1, 0, 1, 2);
    PAD(5, -2, 2, "reflect", 2, 3, 4, 3, 2);
    PAD(5, -3, 2, "edge", 3, 4, 4, 4);
    PAD(0, 1, 1, "constant", 9, 9);
}

static void test_creation(void)
{
    const kiln_attr full[3] = {TEST_INTS(2, 2), test_dtype(KILN_DTYPE_F32), test_f64(-0.5)};
    EXPECT_F32(KILN_OP_FULL, NULL, NULL, 0, full, 0, -0.5f, -0.5f, -0.5f, -0.5f);
    const kiln_attr range[4] = {test_i64(4), test_dtype(KILN_DTYPE_F32), test_f64(1.5),
                                test_f64(-0.3)};
    EXPECT_F32(KILN_OP_ARANGE, NULL, NULL, 0, range, 0, 1.5f, 1.20000005f, 0.899999976f,
               0.599999964f);
    const kiln_attr bytes[4] = {test_i64(4), test_dtype(KILN_DTYPE_U8), test_i64(250), test_i64(3)};
    uint8_t out[4] = {0};
    KILN_CHECK_INT(RUN(KILN_OP_ARANGE, NULL, NULL, 0, bytes, out), 4);
    KILN_CHECK_MEM(out, ((const uint8_t[]){250, 253, 0, 3}), 4);
}

KILN_TEST_MAIN("unit/ir/reference_gather", KILN_TEST(test_gather), KILN_TEST(test_select),
               KILN_TEST(test_concat), KILN_TEST(test_pad), KILN_TEST(test_creation))
