// SPDX-License-Identifier: MIT OR Apache-2.0
// Views as copies: elements in the order that NumPy gives.
#include "ir_support.h"

static const float count_up[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

static void test_moves(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    const void *data[1] = {count_up};
    kiln_attr attr = TEST_INTS(1, 0);
    EXPECT_F32(KILN_OP_PERMUTE, &x, data, 1, &attr, 0, 0, 3, 1, 4, 2, 5);
    attr = TEST_INTS(0);
    EXPECT_F32(KILN_OP_FLIP, &x, data, 1, &attr, 0, 3, 4, 5, 0, 1, 2);
    attr = test_none();
    EXPECT_F32(KILN_OP_FLIP, &x, data, 1, &attr, 0, 5, 4, 3, 2, 1, 0);
    attr = TEST_INTS(3, 2);
    EXPECT_F32(KILN_OP_RESHAPE, &x, data, 1, &attr, 0, 0, 1, 2, 3, 4, 5);
    x = test_desc(KILN_DTYPE_F32, 2, 2, 1);
    attr = TEST_INTS(2, 2, 2);
    EXPECT_F32(KILN_OP_EXPAND, &x, data, 1, &attr, 0, 0, 0, 1, 1, 0, 0, 1, 1);
}

static void test_slices(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 10);
    const void *data[1] = {count_up};
    const kiln_attr backwards[3] = {TEST_INTS(8), TEST_INTS(1), TEST_INTS(-3)};
    EXPECT_F32(KILN_OP_SLICE, &x, data, 1, backwards, 0, 8, 5, 2);
    const kiln_attr from_end[3] = {TEST_INTS(-3), TEST_INTS(100), TEST_INTS(2)};
    EXPECT_F32(KILN_OP_SLICE, &x, data, 1, from_end, 0, 7, 9);
    const kiln_attr whole[3] = {TEST_INTS(INT64_MAX), TEST_INTS(INT64_MIN), TEST_INTS(-4)};
    EXPECT_F32(KILN_OP_SLICE, &x, data, 1, whole, 0, 9, 5, 1);
    x = test_desc(KILN_DTYPE_F32, 2, 3, 4);
    const kiln_attr block[3] = {TEST_INTS(1, 0), TEST_INTS(3, 4), TEST_INTS(1, 3)};
    EXPECT_F32(KILN_OP_SLICE, &x, data, 1, block, 0, 4, 7, 8, 11);
}

KILN_TEST_MAIN("unit/ir/reference_view", KILN_TEST(test_moves), KILN_TEST(test_slices))
