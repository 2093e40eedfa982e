// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of matmul as NumPy gives them, of windows as PyTorch 1.13 gives them.
#include "ir_support.h"

static kiln_error err;
static kiln_tensor_desc out;

static kiln_status matmul(kiln_tensor_desc a, kiln_tensor_desc b, bool transpose_a,
                          bool transpose_b)
{
    const kiln_tensor_desc inputs[2] = {a, b};
    const kiln_attr attrs[2] = {test_bool(transpose_a), test_bool(transpose_b)};
    return test_infer(KILN_OP_MATMUL, inputs, 2, attrs, &out, &err);
}

static void test_matmul(void)
{
    kiln_dtype f32 = KILN_DTYPE_F32;
    KILN_CHECK_INT(matmul(test_desc(f32, 2, 2, 3), test_desc(f32, 2, 3, 4), false, false), 0);
    CHECK_SHAPE(out, 2, 2, 4);
    KILN_CHECK_INT(matmul(test_desc(f32, 2, 3, 2), test_desc(f32, 2, 4, 3), true, true), 0);
    CHECK_SHAPE(out, 2, 2, 4);
    KILN_CHECK_INT(matmul(test_desc(f32, 1, 3), test_desc(f32, 1, 3), false, false), 0);
    CHECK_SHAPE(out, 0);
    KILN_CHECK_INT(matmul(test_desc(f32, 1, 3), test_desc(f32, 3, 5, 3, 4), false, false), 0);
    CHECK_SHAPE(out, 2, 5, 4);
    KILN_CHECK_INT(matmul(test_desc(f32, 3, 5, 2, 3), test_desc(f32, 1, 3), false, false), 0);
    CHECK_SHAPE(out, 2, 5, 2);
    KILN_CHECK_INT(matmul(test_desc(f32, 4, 7, 1, 2, 3), test_desc(f32, 3, 5, 3, 4), false, false),
                   0);
    CHECK_SHAPE(out, 4, 7, 5, 2, 4);
    KILN_CHECK_INT(matmul(test_desc(f32, 2, 2, 0), test_desc(f32, 2, 0, 4), false, false), 0);
    CHECK_SHAPE(out, 2, 2, 4);
}

static void test_matmul_refuses(void)
{
    kiln_dtype f32 = KILN_DTYPE_F32;
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(matmul(test_desc(f32, 2, 2, 3), test_desc(f32, 2, 4, 3), false, false), wrong);
    KILN_CHECK_STR(err.message, "matmul: [2,3] and [4,3]: the inner lengths 3 and 4 differ");
    KILN_CHECK_INT(matmul(test_desc(f32, 0), test_desc(f32, 1, 3), false, false), wrong);
    KILN_CHECK_INT(matmul(test_desc(f32, 1, 3), test_desc(f32, 2, 3, 3), true, false), wrong);
    KILN_CHECK_INT(matmul(test_desc(f32, 3, 2, 1, 3), test_desc(f32, 3, 3, 3, 1), false, false),
                   wrong);
    KILN_CHECK_CONTAINS(err.message, "batches");
}

static void test_conv(void)
{
    kiln_tensor_desc inputs[3] = {test_desc(KILN_DTYPE_F32, 4, 1, 4, 4, 4),
                                  test_desc(KILN_DTYPE_F32, 4, 6, 2, 3, 2),
                                  test_desc(KILN_DTYPE_F32, 1, 6)};
    kiln_attr attrs[4] = {TEST_INTS(2, 1), TEST_INTS(1, 0, 2, 1), TEST_INTS(1, 2), test_i64(2)};
    KILN_CHECK_INT(test_infer(KILN_OP_CONV, inputs, 3, attrs, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 6, 3, 3);
    attrs[3] = test_i64(3);
    KILN_CHECK_INT(test_infer(KILN_OP_CONV, inputs, 3, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "conv: x [1,4,4,4] weight [6,2,3,2] bias [6]: "
                                "the channels do not fit");
    attrs[3] = test_i64(0);
    KILN_CHECK_INT(test_infer(KILN_OP_CONV, inputs, 3, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    attrs[3] = test_i64(2);
    inputs[2].dims[0] = 5;
    KILN_CHECK_INT(test_infer(KILN_OP_CONV, inputs, 3, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    attrs[1] = test_none();
    attrs[2] = TEST_INTS(2, 1);
    KILN_CHECK_INT(test_infer(KILN_OP_CONV, inputs, 2, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "conv: a window of 5 exceeds the padded length 4");
}

static kiln_status pool(int length, int64_t kernel, int64_t stride, int64_t begin, int64_t end,
                        int64_t dilation, bool ceil_mode)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 4, 1, 1, length, length);
    const int64_t padding[4] = {begin, begin, end, end};
    const kiln_attr attrs[5] = {TEST_INTS(kernel, kernel), TEST_INTS(stride, stride),
                                test_ints(4, padding), TEST_INTS(dilation, dilation),
                                test_bool(ceil_mode)};
    return test_infer(KILN_OP_MAX_POOL, &x, 1, attrs, &out, &err);
}

static void test_pool(void)
{
    KILN_CHECK_INT(pool(5, 2, 2, 0, 0, 1, false), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 2, 2);
    KILN_CHECK_INT(pool(5, 2, 2, 0, 0, 1, true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 3, 3);
    /* One more window would start in the padding at the end: it is left out. */
    KILN_CHECK_INT(pool(5, 2, 2, 1, 1, 1, true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 3, 3);
    KILN_CHECK_INT(pool(6, 2, 2, 1, 1, 1, true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 4, 4);
    KILN_CHECK_INT(pool(6, 3, 2, 0, 0, 1, true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 3, 3);
    KILN_CHECK_INT(pool(5, 2, 1, 0, 0, 2, false), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 1, 1, 3, 3);
}

static void test_pool_refuses(void)
{
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(pool(5, 6, 1, 0, 0, 1, false), wrong);
    KILN_CHECK_INT(pool(5, 0, 1, 0, 0, 1, false), wrong);
    KILN_CHECK_INT(pool(5, 2, 0, 0, 0, 1, false), wrong);
    KILN_CHECK_INT(pool(5, 2, 1, -1, 0, 1, false), wrong);
    KILN_CHECK_INT(pool(5, 2, 1, 0, 0, 0, false), wrong);
    KILN_CHECK_INT(pool(5, INT64_MAX, 1, 0, 0, INT64_MAX, false), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(pool(5, 2, 1, INT64_MAX, 5, 1, false), KILN_STATUS_OUT_OF_RANGE);
    kiln_tensor_desc flat = test_desc(KILN_DTYPE_F32, 2, 5, 5);
    const kiln_attr attrs[5] = {TEST_INTS(2, 2), test_none(), test_none(), test_none(),
                                test_none()};
    KILN_CHECK_INT(test_infer(KILN_OP_MAX_POOL, &flat, 1, attrs, &out, &err), wrong);
}

KILN_TEST_MAIN("unit/ir/shape_contraction", KILN_TEST(test_matmul), KILN_TEST(test_matmul_refuses),
               KILN_TEST(test_conv), KILN_TEST(test_pool), KILN_TEST(test_pool_refuses))
