// SPDX-License-Identifier: MIT OR Apache-2.0
// Reductions: by hand, over no elements, with NaN, and integers that wrap.
#include <math.h>

#include "ir_support.h"

static const float x23[6] = {1, 2, 3, 4, 5, -6};

static void test_axes(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    const void *data[1] = {x23};
    kiln_attr attrs[2] = {TEST_INTS(0), test_none()};
    EXPECT_F32(KILN_OP_SUM, &x, data, 1, attrs, 0, 5, 7, -3);
    EXPECT_F32(KILN_OP_MAX, &x, data, 1, attrs, 0, 4, 5, 3);
    EXPECT_F32(KILN_OP_MIN, &x, data, 1, attrs, 0, 1, 2, -6);
    attrs[0] = TEST_INTS(-1);
    EXPECT_F32(KILN_OP_SUM, &x, data, 1, attrs, 0, 6, 3);
    EXPECT_F32(KILN_OP_MEAN, &x, data, 1, attrs, 0, 2, 1);
    EXPECT_F32(KILN_OP_PROD, &x, data, 1, attrs, 0, 6, -120);
    EXPECT_F32(KILN_OP_MAX_ABS, &x, data, 1, attrs, 0, 3, 6);
    attrs[0] = test_none();
    attrs[1] = test_bool(true);
    EXPECT_F32(KILN_OP_SUM, &x, data, 1, attrs, 0, 9);
}

static void test_of_nothing(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 2, 0);
    const void *data[1] = {x23};
    const kiln_attr attrs[2] = {TEST_INTS(1), test_none()};
    EXPECT_F32(KILN_OP_SUM, &x, data, 1, attrs, 0, 0, 0);
    EXPECT_F32(KILN_OP_MEAN, &x, data, 1, attrs, 0, NAN, NAN);
    EXPECT_F32(KILN_OP_PROD, &x, data, 1, attrs, 0, 1, 1);
    EXPECT_F32(KILN_OP_MAX, &x, data, 1, attrs, 0, -INFINITY, -INFINITY);
    EXPECT_F32(KILN_OP_MIN, &x, data, 1, attrs, 0, INFINITY, INFINITY);
    EXPECT_F32(KILN_OP_MAX_ABS, &x, data, 1, attrs, 0, 0, 0);
    unsigned char truth[2] = {9, 9};
    x.dtype = KILN_DTYPE_BOOL;
    KILN_CHECK_INT(RUN(KILN_OP_ANY, &x, data, 1, attrs, truth), 2);
    KILN_CHECK_MEM(truth, ((const unsigned char[]){0, 0}), 2);
    KILN_CHECK_INT(RUN(KILN_OP_ALL, &x, data, 1, attrs, truth), 2);
    KILN_CHECK_MEM(truth, ((const unsigned char[]){1, 1}), 2);
    signed char lowest[2] = {0, 0};
    x.dtype = KILN_DTYPE_I8;
    KILN_CHECK_INT(RUN(KILN_OP_MAX, &x, data, 1, attrs, lowest), 2);
    KILN_CHECK_INT(lowest[1], -128);
}

static void test_special(void)
{
    const float nan_first[3] = {NAN, 1, INFINITY};
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 3);
    const void *data[1] = {nan_first};
    const kiln_attr attrs[2] = {test_none(), test_none()};
    EXPECT_F32(KILN_OP_MAX, &x, data, 1, attrs, 0, NAN);
    EXPECT_F32(KILN_OP_MIN, &x, data, 1, attrs, 0, NAN);
    EXPECT_F32(KILN_OP_MAX_ABS, &x, data, 1, attrs, 0, NAN);
    const int8_t wraps[4] = {100, 100, -128, 3};
    kiln_tensor_desc i8 = test_desc(KILN_DTYPE_I8, 1, 4);
    int8_t out = 0;
    data[0] = wraps;
    KILN_CHECK_INT(RUN(KILN_OP_SUM, &i8, data, 1, attrs, &out), 1);
    KILN_CHECK_INT(out, 75);
    KILN_CHECK_INT(RUN(KILN_OP_MAX_ABS, &i8, data, 1, attrs, &out), 1);
    KILN_CHECK_INT(out, 100);
    /* f16 sums are kept wide: 2048 + 1 + 1 would stay 2048 in f16 itself. */
    const uint16_t halves[3] = {26624, 15360, 15360};
    uint16_t half = 0;
    kiln_tensor_desc f16 = test_desc(KILN_DTYPE_F16, 1, 3);
    data[0] = halves;
    KILN_CHECK_INT(RUN(KILN_OP_SUM, &f16, data, 1, attrs, &half), 1);
    KILN_CHECK_INT(half, 26625);
}

static int64_t arg(kiln_op op, const float *values, bool last)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 4);
    const void *data[1] = {values};
    const kiln_attr attrs[3] = {test_i64(0), test_none(), test_bool(last)};
    int64_t out = -1;
    KILN_CHECK_INT(RUN(op, &x, data, 1, attrs, &out), 1);
    return out;
}

static void test_arg(void)
{
    const float ties[4] = {1, 3, 3, 1};
    const float nans[4] = {1, NAN, 9, NAN};
    KILN_CHECK_INT(arg(KILN_OP_ARGMAX, ties, false), 1);
    KILN_CHECK_INT(arg(KILN_OP_ARGMAX, ties, true), 2);
    KILN_CHECK_INT(arg(KILN_OP_ARGMIN, ties, false), 0);
    KILN_CHECK_INT(arg(KILN_OP_ARGMIN, ties, true), 3);
    KILN_CHECK_INT(arg(KILN_OP_ARGMAX, nans, false), 1);
    KILN_CHECK_INT(arg(KILN_OP_ARGMIN, nans, true), 3);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    const void *data[1] = {x23};
    const kiln_attr attrs[3] = {test_i64(0), test_bool(true), test_none()};
    int64_t out[3] = {9, 9, 9};
    KILN_CHECK_INT(RUN(KILN_OP_ARGMIN, &x, data, 1, attrs, out), 3);
    KILN_CHECK_MEM(out, ((const int64_t[]){0, 0, 1}), 24);
}

KILN_TEST_MAIN("unit/ir/reference_reduce", KILN_TEST(test_axes), KILN_TEST(test_of_nothing),
               KILN_TEST(test_special), KILN_TEST(test_arg))
