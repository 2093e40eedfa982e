// SPDX-License-Identifier: MIT OR Apache-2.0
// softmax, log_softmax and batch_norm as PyTorch 1.13 computed them for the same inputs.
#include <math.h>

#include "ir_support.h"

static void test_softmax(void)
{
    const float x[6] = {1, 2, 3, 1000, 1000, -1000};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    const void *data[1] = {x};
    kiln_attr axis = test_none();
    EXPECT_F32(KILN_OP_SOFTMAX, &desc, data, 1, &axis, 1e-7, 0.0900305733f, 0.244728476f,
               0.665240943f, 0.5f, 0.5f, 0);
    EXPECT_F32(KILN_OP_LOG_SOFTMAX, &desc, data, 1, &axis, 1e-7, -2.40760589f, -1.40760589f,
               -0.407605946f, -0.693147182f, -0.693147182f, -2000.69312f);
    axis = test_i64(0);
    EXPECT_F32(KILN_OP_SOFTMAX, &desc, data, 1, &axis, 1e-7, 0, 0, 1, 1, 1, 0);
}

static void test_softmax_special(void)
{
    const float x[6] = {NAN, 1, 2, -INFINITY, -INFINITY, -INFINITY};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    const void *data[1] = {x};
    kiln_attr axis = test_i64(-1);
    EXPECT_F32(KILN_OP_SOFTMAX, &desc, data, 1, &axis, 0, NAN, NAN, NAN, NAN, NAN, NAN);
    const float masked[3] = {-INFINITY, 0, 0};
    data[0] = masked;
    desc = test_desc(KILN_DTYPE_F32, 1, 3);
    EXPECT_F32(KILN_OP_SOFTMAX, &desc, data, 1, &axis, 0, 0, 0.5f, 0.5f);
}

static void test_batch_norm(void)
{
    const float x[4] = {1, 2, 3, 5};
    const float scale[2] = {1, 3};
    const float bias[2] = {0, -1};
    const float mean[2] = {0.5f, 1};
    const float variance[2] = {2, 4};
    kiln_tensor_desc descs[5] = {test_desc(KILN_DTYPE_F32, 2, 2, 2)};
    for (unsigned i = 1; i < 5; i++) {
        descs[i] = test_desc(KILN_DTYPE_F32, 1, 2);
    }
    const void *data[5] = {x, scale, bias, mean, variance};
    kiln_attr epsilon = test_f64(0.25);
    EXPECT_F32(KILN_OP_BATCH_NORM, descs, data, 5, &epsilon, 1e-7, 0.333333343f, 0.455213785f,
               1.66666675f, 4.82085514f);
}

KILN_TEST_MAIN("unit/ir/reference_row", KILN_TEST(test_softmax), KILN_TEST(test_softmax_special),
               KILN_TEST(test_batch_norm))
