// SPDX-License-Identifier: MIT OR Apache-2.0
// matmul as NumPy 1.24, conv and pools as PyTorch 1.13 computed them for the same inputs.
#include <math.h>

#include "ir_support.h"

static float count_up[25];

static void fill(void)
{
    for (int i = 0; i < 25; i++) {
        count_up[i] = (float)i;
    }
}

static void test_matmul(void)
{
    kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 2, 2, 3),
                                 test_desc(KILN_DTYPE_F32, 2, 3, 4)};
    kiln_attr attrs[2] = {test_none(), test_none()};
    fill();
    const void *data[2] = {count_up, count_up};
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 20, 23, 26, 29, 56, 68, 80, 92);
    attrs[0] = test_bool(true);
    descs[1] = test_desc(KILN_DTYPE_F32, 2, 2, 4);
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 12, 15, 18, 21, 16, 21, 26, 31, 20, 27, 34,
               41);
    attrs[0] = test_none();
    descs[0] = test_desc(KILN_DTYPE_F32, 1, 3);
    descs[1] = test_desc(KILN_DTYPE_F32, 2, 3, 4);
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 20, 23, 26, 29);
    descs[1] = test_desc(KILN_DTYPE_F32, 1, 3);
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 5);
    descs[0] = test_desc(KILN_DTYPE_F32, 2, 2, 0);
    descs[1] = test_desc(KILN_DTYPE_F32, 2, 0, 2);
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 0, 0, 0, 0);
}

static void test_matmul_batched(void)
{
    const float b[6] = {0, 1, 4, 5, 8, 9};
    const kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 3, 2, 4, 3),
                                       test_desc(KILN_DTYPE_F32, 2, 3, 2)};
    const kiln_attr attrs[2] = {test_none(), test_none()};
    fill();
    const void *data[2] = {count_up, b};
    EXPECT_F32(KILN_OP_MATMUL, descs, data, 2, attrs, 0, 20, 23, 56, 68, 92, 113, 128, 158, 164,
               203, 200, 248, 236, 293, 272, 338);
    const int32_t large[2] = {1 << 30, 3};
    const kiln_tensor_desc ints[2] = {test_desc(KILN_DTYPE_I32, 1, 2),
                                      test_desc(KILN_DTYPE_I32, 1, 2)};
    const void *int_data[2] = {large, large};
    int32_t out = 0;
    KILN_CHECK_INT(RUN(KILN_OP_MATMUL, ints, int_data, 2, attrs, &out), 1);
    KILN_CHECK_INT(out, 9);
}

static void test_conv(void)
{
    float x[32];
    float weight[24];
    const float bias[4] = {0.5f, -1, 2, 0};
    for (int i = 0; i < 32; i++) {
        x[i] = (float)(i % 7 - 3);
    }
    for (int i = 0; i < 24; i++) {
        weight[i] = (float)(i % 5 - 2);
    }
    const kiln_tensor_desc descs[3] = {test_desc(KILN_DTYPE_F32, 4, 1, 2, 4, 4),
                                       test_desc(KILN_DTYPE_F32, 4, 4, 1, 3, 2),
                                       test_desc(KILN_DTYPE_F32, 1, 4)};
    const kiln_attr attrs[4] = {TEST_INTS(2, 1), TEST_INTS(1, 0, 2, 1), TEST_INTS(1, 2),
                                test_i64(2)};
    const void *data[3] = {x, weight, bias};
    EXPECT_F32(KILN_OP_CONV, descs, data, 3, attrs, 0, -4.5f, 10.5f, 6.5f, 5.5f, 10.5f, -11.5f,
               -0.5f, -3.5f, 6.5f, -11, -4, -8, -5, -6, 2, -3, -4, 2, -5, 1, 6, -1, -1, 7, 1, 2, 2,
               -1, -3, -2, -4, -10, -6, -5, -2, -1);
}

static void test_pools(void)
{
    const kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 4, 1, 1, 5, 5);
    kiln_attr attrs[6] = {TEST_INTS(3, 2), TEST_INTS(2, 2), TEST_INTS(1, 1, 1, 1),
                          test_none(),     test_bool(true), test_none()};
    fill();
    const void *data[1] = {count_up};
    EXPECT_F32(KILN_OP_MAX_POOL, &x, data, 1, attrs, 0, 5, 7, 9, 15, 17, 19, 20, 22, 24);
    EXPECT_F32(KILN_OP_AVG_POOL, &x, data, 1, attrs, 0, 2.5f, 4, 6, 10, 11.5f, 13.5f, 17.5f, 19,
               21);
    attrs[5] = test_bool(true);
    EXPECT_F32(KILN_OP_AVG_POOL, &x, data, 1, attrs, 0, 0.833333313f, 2.66666675f, 4, 5, 11.5f,
               13.5f, 5.83333349f, 12.666667f, 14);
    const kiln_attr dilated[5] = {TEST_INTS(2, 2), test_none(), test_none(), TEST_INTS(2, 2),
                                  test_none()};
    EXPECT_F32(KILN_OP_MAX_POOL, &x, data, 1, dilated, 0, 12, 13, 14, 17, 18, 19, 22, 23, 24);
}

/* With ceil_mode the last window hangs over; only what is inside input and padding counts. */
static void test_pool_overhang(void)
{
    const kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 4, 1, 1, 3, 3);
    const kiln_attr attrs[6] = {TEST_INTS(2, 2), TEST_INTS(2, 2), test_none(),
                                test_none(),     test_bool(true), test_bool(true)};
    fill();
    const void *data[1] = {count_up};
    EXPECT_F32(KILN_OP_AVG_POOL, &x, data, 1, attrs, 0, 2, 3.5f, 6.5f, 8);
    const int8_t bytes[9] = {-5, -6, -7, -8, -9, -10, -11, -12, -13};
    const kiln_tensor_desc i8 = test_desc(KILN_DTYPE_I8, 4, 1, 1, 3, 3);
    const kiln_attr padded[5] = {TEST_INTS(2, 2), TEST_INTS(2, 2), TEST_INTS(1, 1, 0, 0),
                                 test_none(), test_none()};
    int8_t out[4] = {0};
    data[0] = bytes;
    KILN_CHECK_INT(RUN(KILN_OP_MAX_POOL, &i8, data, 1, padded, out), 4);
    KILN_CHECK_MEM(out, ((const int8_t[]){-5, -6, -8, -9}), 4);
}

KILN_TEST_MAIN("unit/ir/reference_contraction", KILN_TEST(test_matmul),
               KILN_TEST(test_matmul_batched), KILN_TEST(test_conv), KILN_TEST(test_pools),
               KILN_TEST(test_pool_overhang))
