// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of views: one unknown length, broadcasting, permutations, Python's slices.
#include "ir_support.h"

static kiln_error err;
static kiln_tensor_desc out;

static kiln_status view(kiln_op op, kiln_tensor_desc x, kiln_attr attr)
{
    return test_infer(op, &x, 1, &attr, &out, &err);
}

static void test_reshape(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 4, 6);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(3, -1)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 3, 8);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(5, -1)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "reshape: [4,6] with 24 elements does not become [5,-1]");
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(-1, -1)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(-24)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(1, 1, 1, 1, 1, 1, 1, 1, 24)),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(INT64_C(1) << 40, INT64_C(1) << 40)),
                   KILN_STATUS_INVALID_ARGUMENT);
    x = test_desc(KILN_DTYPE_F32, 1, 1);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, test_ints(0, NULL)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 0);
    x = test_desc(KILN_DTYPE_F32, 2, 0, 3);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(5, 0)), KILN_STATUS_OK);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(-1, 3)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 0, 3);
    KILN_CHECK_INT(view(KILN_OP_RESHAPE, x, TEST_INTS(-1, 0)), KILN_STATUS_INVALID_ARGUMENT);
}

static void test_expand(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 3, 1);
    KILN_CHECK_INT(view(KILN_OP_EXPAND, x, TEST_INTS(2, -1, 5)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 2, 3, 5);
    KILN_CHECK_INT(view(KILN_OP_EXPAND, x, TEST_INTS(3, 0)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 3, 0);
    KILN_CHECK_INT(view(KILN_OP_EXPAND, x, TEST_INTS(4, 5)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "expand: [3,1] does not broadcast to [4,5]");
    KILN_CHECK_INT(view(KILN_OP_EXPAND, x, TEST_INTS(3)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_EXPAND, x, TEST_INTS(-1, 3, 1)), KILN_STATUS_INVALID_ARGUMENT);
}

static void test_permute_and_flip(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 3, 2, 3, 4);
    KILN_CHECK_INT(view(KILN_OP_PERMUTE, x, TEST_INTS(2, 0, -2)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 4, 2, 3);
    KILN_CHECK_INT(view(KILN_OP_PERMUTE, x, test_none()), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 4, 3, 2);
    KILN_CHECK_INT(view(KILN_OP_PERMUTE, x, TEST_INTS(0, 1)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_PERMUTE, x, TEST_INTS(0, 1, 1)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_FLIP, x, TEST_INTS(0, -1)), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 2, 3, 4);
    KILN_CHECK_INT(view(KILN_OP_FLIP, x, TEST_INTS(3)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(view(KILN_OP_FLIP, test_desc(KILN_DTYPE_F32, 0), test_none()), KILN_STATUS_OK);
}

static int64_t sliced(int64_t length, int64_t start, int64_t end, int64_t step)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, (int)length);
    const kiln_attr attrs[3] = {test_ints(1, &start), test_ints(1, &end), test_ints(1, &step)};
    if (test_infer(KILN_OP_SLICE, &x, 1, attrs, &out, &err) != KILN_STATUS_OK) {
        return -1;
    }
    return out.dims[0];
}

/* Lengths as len(range(n)[a:b:c]) gives them in Python. */
static void test_slice(void)
{
    KILN_CHECK_INT(sliced(10, 8, 1, -3), 3);
    KILN_CHECK_INT(sliced(10, -3, 100, 2), 2);
    KILN_CHECK_INT(sliced(5, 10, 2, -1), 2);
    KILN_CHECK_INT(sliced(10, 0, 10, 3), 4);
    KILN_CHECK_INT(sliced(10, 5, 5, 1), 0);
    KILN_CHECK_INT(sliced(10, 7, 2, 1), 0);
    KILN_CHECK_INT(sliced(10, INT64_MAX, INT64_MIN, -4), 3);
    KILN_CHECK_INT(sliced(10, INT64_MIN, INT64_MAX, INT64_MAX), 1);
    KILN_CHECK_INT(sliced(10, 9, INT64_MIN, INT64_MIN), 1);
    KILN_CHECK_INT(sliced(0, -1, 5, 1), 0);
    KILN_CHECK_INT(sliced(0, 5, -5, -1), 0);
    KILN_CHECK_INT(sliced(10, 0, 5, 0), -1);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 3, 4);
    const kiln_attr attrs[3] = {TEST_INTS(0), TEST_INTS(1, 2), test_none()};
    KILN_CHECK_INT(test_infer(KILN_OP_SLICE, &x, 1, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "slice: 1 starts, 2 ends and 0 steps are given for rank 2");
}

KILN_TEST_MAIN("unit/ir/shape_view", KILN_TEST(test_reshape), KILN_TEST(test_expand),
               KILN_TEST(test_permute_and_flip), KILN_TEST(test_slice))
