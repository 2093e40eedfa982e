// SPDX-License-Identifier: MIT OR Apache-2.0
// Broadcasting by NumPy's rule, reductions, axes.
#include "ir_support.h"

static kiln_error err;
static kiln_tensor_desc out;

static void test_broadcast(void)
{
    kiln_tensor_desc pair[2] = {test_desc(KILN_DTYPE_F32, 3, 8, 1, 6),
                                test_desc(KILN_DTYPE_F32, 2, 7, 1)};
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 8, 7, 6);
    pair[0] = test_desc(KILN_DTYPE_F32, 0);
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 7, 1);
    pair[0] = test_desc(KILN_DTYPE_F32, 1, 0);
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 7, 0);
    pair[0] = test_desc(KILN_DTYPE_F32, 2, 3, 2);
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "add: shapes [3,2] and [7,1] do not broadcast");
    pair[0] = test_desc(KILN_DTYPE_F32, 2, 7, 0);
    pair[1] = test_desc(KILN_DTYPE_F32, 2, 7, 2);
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
}

static kiln_status reduce(kiln_tensor_desc x, kiln_attr axes, bool keepdims)
{
    const kiln_attr attrs[2] = {axes, test_bool(keepdims)};
    return test_infer(KILN_OP_SUM, &x, 1, attrs, &out, &err);
}

static void test_reduce(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 3, 2, 3, 4);
    KILN_CHECK_INT(reduce(x, test_none(), false), KILN_STATUS_OK);
    CHECK_SHAPE(out, 0);
    KILN_CHECK_INT(reduce(x, test_none(), true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 1, 1, 1);
    KILN_CHECK_INT(reduce(x, TEST_INTS(-2), false), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 2, 4);
    KILN_CHECK_INT(reduce(x, TEST_INTS(2, 0), true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 1, 3, 1);
    KILN_CHECK_INT(reduce(x, TEST_INTS(3), false), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "sum: axis 3 is outside rank 3");
    KILN_CHECK_INT(reduce(x, TEST_INTS(-4), false), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(reduce(x, TEST_INTS(0, -3), false), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "sum: axis 0 is given twice");
    KILN_CHECK_INT(reduce(test_desc(KILN_DTYPE_F32, 0), test_none(), true), KILN_STATUS_OK);
    CHECK_SHAPE(out, 0);
}

static void test_argreduce(void)
{
    const kiln_attr attrs[3] = {test_i64(-1), test_none(), test_none()};
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F16, 2, 3, 0);
    KILN_CHECK_INT(test_infer(KILN_OP_ARGMAX, &x, 1, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    x = test_desc(KILN_DTYPE_F16, 2, 0, 4);
    KILN_CHECK_INT(test_infer(KILN_OP_ARGMAX, &x, 1, attrs, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 1, 0);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_I64);
}

static void test_batch_norm(void)
{
    kiln_attr epsilon = test_none();
    kiln_tensor_desc inputs[5] = {test_desc(KILN_DTYPE_F32, 4, 2, 3, 5, 5)};
    for (unsigned i = 1; i < 5; i++) {
        inputs[i] = test_desc(KILN_DTYPE_F32, 1, 3);
    }
    KILN_CHECK_INT(test_infer(KILN_OP_BATCH_NORM, inputs, 5, &epsilon, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 4, 2, 3, 5, 5);
    inputs[3].dims[0] = 4;
    KILN_CHECK_INT(test_infer(KILN_OP_BATCH_NORM, inputs, 5, &epsilon, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "mean has the shape [4]");
    inputs[0] = test_desc(KILN_DTYPE_F32, 1, 3);
    KILN_CHECK_INT(test_infer(KILN_OP_BATCH_NORM, inputs, 5, &epsilon, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
}

static void test_creation_and_drop(void)
{
    kiln_attr attrs[4] = {test_i64(-1), test_dtype(KILN_DTYPE_I32), test_none(), test_none()};
    KILN_CHECK_INT(test_infer(KILN_OP_ARANGE, NULL, 0, attrs, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    attrs[0] = test_i64(7);
    KILN_CHECK_INT(test_infer(KILN_OP_ARANGE, NULL, 0, attrs, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 1, 7);
    const kiln_attr full[3] = {TEST_INTS(2, -1), test_dtype(KILN_DTYPE_I32), test_i64(0)};
    KILN_CHECK_INT(test_infer(KILN_OP_FULL, NULL, 0, full, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_I32, 1, 3);
    KILN_CHECK_INT(test_infer(KILN_OP_DROP, &x, 1, NULL, &out, &err), KILN_STATUS_OK);
}

KILN_TEST_MAIN("unit/ir/shape_axis", KILN_TEST(test_broadcast), KILN_TEST(test_reduce),
               KILN_TEST(test_argreduce), KILN_TEST(test_batch_norm),
               KILN_TEST(test_creation_and_drop))
