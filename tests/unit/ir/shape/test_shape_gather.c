// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of gather, select, concat and pad.
#include "ir_support.h"

static kiln_error err;
static kiln_tensor_desc out;

static kiln_status gather(kiln_op op, kiln_tensor_desc x, kiln_tensor_desc indices, int64_t axis)
{
    const kiln_tensor_desc inputs[2] = {x, indices};
    kiln_attr attr = test_i64(axis);
    return test_infer(op, inputs, 2, &attr, &out, &err);
}

static void test_gather(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 3, 4);
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I32, 2, 2, 9), -1), 0);
    CHECK_SHAPE(out, 2, 2, 9);
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I32, 2, 4, 9), 1), wrong);
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I32, 1, 4), 1), wrong);
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I32, 2, 3, 4), 2), wrong);
    x = test_desc(KILN_DTYPE_F32, 2, 3, 0);
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I64, 2, 3, 1), 1), wrong);
    KILN_CHECK_CONTAINS(err.message, "has nothing to take");
    KILN_CHECK_INT(gather(KILN_OP_GATHER, x, test_desc(KILN_DTYPE_I64, 2, 0, 1), 1), 0);
}

static void test_select(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 3, 3, 4, 5);
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(gather(KILN_OP_SELECT, x, test_desc(KILN_DTYPE_I64, 1, 7), 1), 0);
    CHECK_SHAPE(out, 3, 3, 7, 5);
    KILN_CHECK_INT(gather(KILN_OP_SELECT, x, test_desc(KILN_DTYPE_I64, 2, 7, 1), 1), wrong);
    KILN_CHECK_INT(
        gather(KILN_OP_SELECT, test_desc(KILN_DTYPE_F32, 0), test_desc(KILN_DTYPE_I64, 1, 7), 0),
        wrong);
}

static void test_concat(void)
{
    kiln_tensor_desc inputs[3] = {test_desc(KILN_DTYPE_I8, 2, 2, 3),
                                  test_desc(KILN_DTYPE_I8, 2, 2, 0),
                                  test_desc(KILN_DTYPE_I8, 2, 2, 4)};
    kiln_attr axis = test_i64(-1);
    KILN_CHECK_INT(test_infer(KILN_OP_CONCAT, inputs, 3, &axis, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 2, 7);
    axis = test_i64(0);
    KILN_CHECK_INT(test_infer(KILN_OP_CONCAT, inputs, 3, &axis, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "concat: input 1 of shape [2,0] does not join [2,3] along axis 0");
    inputs[1].rank = 1;
    axis = test_i64(1);
    KILN_CHECK_INT(test_infer(KILN_OP_CONCAT, inputs, 3, &axis, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(test_infer(KILN_OP_CONCAT, inputs, 0, &axis, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_tensor_desc scalar = test_desc(KILN_DTYPE_I8, 0);
    axis = test_i64(0);
    KILN_CHECK_INT(test_infer(KILN_OP_CONCAT, &scalar, 1, &axis, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
}

static kiln_status pad(int length, int64_t begin, int64_t end, const char *mode)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, length);
    const kiln_attr attrs[3] = {TEST_INTS(begin, end), mode != NULL ? test_text(mode) : test_none(),
                                test_none()};
    return test_infer(KILN_OP_PAD, &x, 1, attrs, &out, &err);
}

static void test_pad(void)
{
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(pad(5, 2, 3, NULL), KILN_STATUS_OK);
    CHECK_SHAPE(out, 1, 10);
    KILN_CHECK_INT(pad(5, -2, -3, "constant"), KILN_STATUS_OK);
    CHECK_SHAPE(out, 1, 0);
    KILN_CHECK_INT(pad(5, -3, -3, "constant"), wrong);
    KILN_CHECK_INT(pad(5, 4, 4, "reflect"), KILN_STATUS_OK);
    KILN_CHECK_INT(pad(5, 5, 0, "reflect"), wrong);
    KILN_CHECK_STR(err.message, "pad: axis 0 of length 5 cannot reflect 5 elements");
    KILN_CHECK_INT(pad(5, -2, 3, "reflect"), wrong);
    KILN_CHECK_INT(pad(0, 1, 0, "edge"), wrong);
    KILN_CHECK_INT(pad(1, 9, 9, "edge"), KILN_STATUS_OK);
    KILN_CHECK_INT(pad(5, 1, 1, "wrap"), wrong);
    KILN_CHECK_STR(err.message, "pad: the mode \"wrap\" is not constant, edge or reflect");
    KILN_CHECK_INT(pad(5, INT64_MAX, 1, "constant"), KILN_STATUS_OUT_OF_RANGE);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 2, 2);
    const kiln_attr attrs[3] = {TEST_INTS(1, 1), test_none(), test_none()};
    KILN_CHECK_INT(test_infer(KILN_OP_PAD, &x, 1, attrs, &out, &err), wrong);
}

KILN_TEST_MAIN("unit/ir/shape_gather", KILN_TEST(test_gather), KILN_TEST(test_select),
               KILN_TEST(test_concat), KILN_TEST(test_pad))
