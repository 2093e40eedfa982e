// SPDX-License-Identifier: MIT OR Apache-2.0
// The verifier of one operation: counts, dtypes, attributes, and what its errors say.
#include <math.h>
#include <string.h>

#include "ir_support.h"

static kiln_error err;
static kiln_tensor_desc out;

static kiln_status infer2(kiln_op op, kiln_dtype a, kiln_dtype b)
{
    const kiln_tensor_desc inputs[2] = {test_desc(a, 1, 3), test_desc(b, 1, 3)};
    return test_infer(op, inputs, 2, NULL, &out, &err);
}

static void test_dtypes_of_inputs(void)
{
    KILN_CHECK_INT(infer2(KILN_OP_ADD, KILN_DTYPE_F32, KILN_DTYPE_F32), KILN_STATUS_OK);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_F32);
    KILN_CHECK_INT(infer2(KILN_OP_LESS, KILN_DTYPE_I8, KILN_DTYPE_I8), KILN_STATUS_OK);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_BOOL);
    KILN_CHECK_INT(infer2(KILN_OP_ADD, KILN_DTYPE_F32, KILN_DTYPE_F64),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "add: input b is f64 but input a is f32");
    KILN_CHECK_INT(infer2(KILN_OP_ADD, KILN_DTYPE_BOOL, KILN_DTYPE_BOOL),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "add: does not take bool (input a)");
    KILN_CHECK_INT(infer2(KILN_OP_BITWISE_AND, KILN_DTYPE_F32, KILN_DTYPE_F32),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(infer2(KILN_OP_EQUAL, KILN_DTYPE_BOOL, KILN_DTYPE_BOOL), KILN_STATUS_OK);
    KILN_CHECK_INT(infer2(KILN_OP_ADD, (kiln_dtype)77, (kiln_dtype)77),
                   KILN_STATUS_INVALID_ARGUMENT);
}

static void test_masks_and_indices(void)
{
    kiln_tensor_desc where[3] = {test_desc(KILN_DTYPE_I16, 1, 3), test_desc(KILN_DTYPE_I16, 0),
                                 test_desc(KILN_DTYPE_BOOL, 2, 4, 1)};
    KILN_CHECK_INT(test_infer(KILN_OP_WHERE, where, 3, NULL, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 2, 4, 3);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_I16);
    where[2].dtype = KILN_DTYPE_I16;
    KILN_CHECK_INT(test_infer(KILN_OP_WHERE, where, 3, NULL, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "where: input mask is i16, it must be bool");
    kiln_tensor_desc gather[2] = {test_desc(KILN_DTYPE_F32, 1, 3), test_desc(KILN_DTYPE_U8, 1, 2)};
    kiln_attr axis = test_i64(0);
    KILN_CHECK_INT(test_infer(KILN_OP_GATHER, gather, 2, &axis, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "gather: input indices is u8, it must be i32 or i64");
}

static void test_counts(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 3);
    kiln_op_record record = {.op = KILN_OP_ADD, .n_inputs = 1, .n_outputs = 1, .inputs = &x};
    KILN_CHECK_INT(kiln_ir_infer(&record, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "add: 1 inputs given, it takes 2");
    record = (kiln_op_record){.op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 2, .inputs = &x};
    KILN_CHECK_INT(kiln_ir_infer(&record, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
    record = (kiln_op_record){.op = KILN_OP_SUM, .n_inputs = 1, .n_outputs = 1, .inputs = &x};
    KILN_CHECK_INT(kiln_ir_infer(&record, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "sum: 0 attributes given, it has 2");
    record = (kiln_op_record){.op = (kiln_op)5000};
    KILN_CHECK_INT(kiln_ir_infer(&record, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
}

static kiln_status infer_attr(kiln_op op, kiln_dtype dtype, kiln_attr attr)
{
    kiln_tensor_desc x = test_desc(dtype, 1, 3);
    return test_infer(op, &x, 1, &attr, &out, &err);
}

static void test_attributes(void)
{
    kiln_status wrong = KILN_STATUS_INVALID_ARGUMENT;
    KILN_CHECK_INT(infer_attr(KILN_OP_ADD_SCALAR, KILN_DTYPE_F32, test_none()), wrong);
    KILN_CHECK_STR(err.message, "add_scalar: attribute value is missing");
    KILN_CHECK_INT(infer_attr(KILN_OP_ADD_SCALAR, KILN_DTYPE_F32, test_bool(true)), wrong);
    KILN_CHECK_INT(infer_attr(KILN_OP_ADD_SCALAR, KILN_DTYPE_F32, test_i64(3)), KILN_STATUS_OK);
    KILN_CHECK_INT(infer_attr(KILN_OP_ADD_SCALAR, KILN_DTYPE_I32, test_f64(0.5)), wrong);
    KILN_CHECK_STR(err.message, "add_scalar: value 0.5 is not a value of i32");
    KILN_CHECK_INT(infer_attr(KILN_OP_ADD_SCALAR, KILN_DTYPE_U8, test_i64(-1)), wrong);
    KILN_CHECK_STR(err.message, "add_scalar: value -1 is not a value of u8");
    KILN_CHECK_INT(infer_attr(KILN_OP_CAST, KILN_DTYPE_F32, test_dtype(KILN_DTYPE_U16)),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_U16);
    KILN_CHECK_INT(infer_attr(KILN_OP_CAST, KILN_DTYPE_F32, test_dtype((kiln_dtype)99)), wrong);
    KILN_CHECK_INT(infer_attr(KILN_OP_SOFTMAX, KILN_DTYPE_F32, test_none()), KILN_STATUS_OK);
    kiln_attr no_list = {KILN_ATTR_I64_LIST, 4, {.ints = NULL}};
    KILN_CHECK_INT(infer_attr(KILN_OP_RESHAPE, KILN_DTYPE_F32, no_list), wrong);
}

static void test_sizes(void)
{
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 2, 1, 1);
    x.dims[0] = INT64_C(1) << 40;
    kiln_tensor_desc pair[2] = {x, x};
    pair[1].dims[0] = 1;
    pair[1].dims[1] = INT64_C(1) << 40;
    KILN_CHECK_INT(test_infer(KILN_OP_ADD, pair, 2, NULL, &out, &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_CONTAINS(err.message, "exceeds 64-bit sizes");
    x.dims[1] = -4;
    KILN_CHECK_INT(test_infer(KILN_OP_NEG, &x, 1, NULL, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
    x.rank = 9;
    KILN_CHECK_INT(test_infer(KILN_OP_NEG, &x, 1, NULL, &out, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(test_infer(KILN_OP_NEG, &x, 1, NULL, &out, NULL), KILN_STATUS_INVALID_ARGUMENT);
}

static void test_creation(void)
{
    const kiln_attr full[3] = {TEST_INTS(2, 0, 3), test_dtype(KILN_DTYPE_BOOL), test_i64(1)};
    KILN_CHECK_INT(test_infer(KILN_OP_FULL, NULL, 0, full, &out, &err), KILN_STATUS_OK);
    CHECK_SHAPE(out, 3, 2, 0, 3);
    KILN_CHECK_INT(out.dtype, KILN_DTYPE_BOOL);
    const kiln_attr wrong[3] = {TEST_INTS(2), test_dtype(KILN_DTYPE_BOOL), test_i64(2)};
    KILN_CHECK_INT(test_infer(KILN_OP_FULL, NULL, 0, wrong, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    const kiln_attr arange[4] = {test_i64(5), test_dtype(KILN_DTYPE_BOOL), test_none(),
                                 test_none()};
    KILN_CHECK_INT(test_infer(KILN_OP_ARANGE, NULL, 0, arange, &out, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "arange: does not give bool");
}

KILN_TEST_MAIN("unit/ir/infer", KILN_TEST(test_dtypes_of_inputs), KILN_TEST(test_masks_and_indices),
               KILN_TEST(test_counts), KILN_TEST(test_attributes), KILN_TEST(test_sizes),
               KILN_TEST(test_creation))
