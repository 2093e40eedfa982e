// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators with one input against values worked out by hand, or by PyTorch in double.
#include <math.h>

#include "ir_support.h"

static void unary(kiln_op op, int count, const float *x, const float *expected, double tolerance,
                  int line)
{
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 1, count);
    const void *data[1] = {x};
    kiln_attr slope = test_none();
    test_expect_f32(op, &desc, data, 1, &slope, (size_t)count, expected, tolerance, __FILE__, line);
}
#define UNARY(op, count, tolerance, ...)                                                           \
    do {                                                                                           \
        const float cases[2][count] = {__VA_ARGS__};                                               \
        unary(op, count, cases[0], cases[1], tolerance, __LINE__);                                 \
    } while (0)

static void test_signs(void)
{
    UNARY(KILN_OP_NEG, 4, 0, {0.0f, -0.0f, 2, -INFINITY}, {-0.0f, 0.0f, -2, INFINITY});
    UNARY(KILN_OP_ABS, 4, 0, {-0.0f, -3, NAN, -INFINITY}, {0, 3, NAN, INFINITY});
    UNARY(KILN_OP_SIGN, 6, 0, {-0.0f, 0, -3, 1e-40f, NAN, INFINITY}, {-0.0f, 0, -1, 1, NAN, 1});
    UNARY(KILN_OP_RELU, 5, 0, {-1, 2, NAN, INFINITY, -INFINITY}, {0, 2, NAN, INFINITY, 0});
    UNARY(KILN_OP_LEAKY_RELU, 4, 1e-7, {-100, 2, NAN, -1}, {-1, 2, NAN, -0.01f});
}

static void test_rounding(void)
{
    UNARY(KILN_OP_ROUND, 6, 0, {0.5f, 1.5f, 2.5f, -0.5f, -2.5f, 2.4f}, {0, 2, 2, -0.0f, -2, 2});
    UNARY(KILN_OP_FLOOR, 4, 0, {-0.5f, 0.5f, -0.0f, -2}, {-1, 0, -0.0f, -2});
    UNARY(KILN_OP_CEIL, 4, 0, {-0.5f, 0.5f, -0.0f, -2}, {-0.0f, 1, -0.0f, -2});
    UNARY(KILN_OP_TRUNC, 4, 0, {-1.5f, 1.5f, -0.5f, 9}, {-1, 1, -0.0f, 9});
}

static void test_functions(void)
{
    UNARY(KILN_OP_EXP, 4, 1e-7, {0, 1, -INFINITY, 1000}, {1, 2.71828183f, 0, INFINITY});
    UNARY(KILN_OP_EXPM1, 3, 1e-7, {0, 1e-5f, -INFINITY}, {0, 1.00000500e-5f, -1});
    UNARY(KILN_OP_LOG, 4, 1e-7, {1, 0, -1, 10}, {0, -INFINITY, NAN, 2.30258509f});
    UNARY(KILN_OP_LOG1P, 3, 1e-7, {0, -1, -2}, {0, -INFINITY, NAN});
    UNARY(KILN_OP_ERF, 3, 1e-7, {0.5f, INFINITY, -0.5f}, {0.520499878f, 1, -0.520499878f});
    UNARY(KILN_OP_SQRT, 4, 0, {2, -0.0f, -1, INFINITY}, {1.41421354f, -0.0f, NAN, INFINITY});
    UNARY(KILN_OP_RSQRT, 3, 0, {4, 0, INFINITY}, {0.5f, INFINITY, 0});
    UNARY(KILN_OP_RECIP, 4, 0, {3, 0, -0.0f, INFINITY}, {0.333333343f, INFINITY, -INFINITY, 0});
    UNARY(KILN_OP_SIGMOID, 4, 1e-7, {0, -3, INFINITY, -INFINITY}, {0.5f, 0.0474258732f, 1, 0});
    UNARY(KILN_OP_TANH, 3, 1e-7, {0.5f, 100, -100}, {0.462117157f, 1, -1});
    UNARY(KILN_OP_SIN, 3, 1e-7, {0.5f, -0.5f, INFINITY}, {0.479425539f, -0.479425539f, NAN});
    UNARY(KILN_OP_COS, 2, 1e-7, {0.5f, 0}, {0.877582562f, 1});
    UNARY(KILN_OP_TAN, 2, 1e-7, {0.5f, 0}, {0.546302490f, 0});
    UNARY(KILN_OP_SINH, 2, 1e-7, {0.5f, 0}, {0.521095305f, 0});
    UNARY(KILN_OP_COSH, 2, 1e-7, {0.5f, 0}, {1.12762597f, 1});
    UNARY(KILN_OP_ASIN, 3, 1e-7, {0.5f, 1, 2}, {0.523598776f, 1.57079633f, NAN});
    UNARY(KILN_OP_ACOS, 3, 1e-7, {0.5f, 1, 2}, {1.04719755f, 0, NAN});
    UNARY(KILN_OP_ATAN, 2, 1e-7, {0.5f, INFINITY}, {0.463647609f, 1.57079633f});
    UNARY(KILN_OP_ASINH, 2, 1e-7, {0.5f, 0}, {0.481211825f, 0});
    UNARY(KILN_OP_ACOSH, 3, 1e-7, {1.5f, 1, 0.5f}, {0.962423650f, 0, NAN});
    UNARY(KILN_OP_ATANH, 3, 1e-7, {0.5f, 1, 2}, {0.549306144f, INFINITY, NAN});
}

static void test_bools_and_bits(void)
{
    const float x[4] = {NAN, INFINITY, -INFINITY, 1};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 1, 4);
    const void *data[1] = {x};
    unsigned char out[4] = {9, 9, 9, 9};
    KILN_CHECK_INT(RUN(KILN_OP_IS_NAN, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){1, 0, 0, 0}), 4);
    KILN_CHECK_INT(RUN(KILN_OP_IS_INF, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){0, 1, 1, 0}), 4);
    const unsigned char bits[4] = {0, 1, 0x80, 0xff};
    data[0] = bits;
    desc.dtype = KILN_DTYPE_U8;
    KILN_CHECK_INT(RUN(KILN_OP_BITWISE_NOT, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){0xff, 0xfe, 0x7f, 0}), 4);
    desc.dtype = KILN_DTYPE_I8;
    KILN_CHECK_INT(RUN(KILN_OP_NEG, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){0, 0xff, 0x80, 1}), 4);
    KILN_CHECK_INT(RUN(KILN_OP_SIGN, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){0, 1, 0xff, 0xff}), 4);
    KILN_CHECK_INT(RUN(KILN_OP_ABS, &desc, data, 1, NULL, out), 4);
    KILN_CHECK_MEM(out, ((const unsigned char[]){0, 1, 0x80, 1}), 4);
}

static void cast_floats(kiln_dtype to, void *out)
{
    const float x[8] = {1.9f, -1.9f, 300, -300, NAN, INFINITY, -INFINITY, 3e9f};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 1, 8);
    const void *data[1] = {x};
    kiln_attr dtype = test_dtype(to);
    KILN_CHECK_INT(RUN(KILN_OP_CAST, &desc, data, 1, &dtype, out), 8);
}

static void test_cast_from_float(void)
{
    int8_t i8[8];
    uint8_t u8[8];
    int32_t i32[8];
    int64_t i64[8];
    uint64_t u64[8];
    cast_floats(KILN_DTYPE_I8, i8);
    KILN_CHECK_MEM(i8, ((const int8_t[]){1, -1, 127, -128, 0, 127, -128, 127}), 8);
    cast_floats(KILN_DTYPE_U8, u8);
    KILN_CHECK_MEM(u8, ((const uint8_t[]){1, 0, 255, 0, 0, 255, 0, 255}), 8);
    cast_floats(KILN_DTYPE_BOOL, u8);
    KILN_CHECK_MEM(u8, ((const uint8_t[]){1, 1, 1, 1, 1, 1, 1, 1}), 8);
    cast_floats(KILN_DTYPE_I32, i32);
    KILN_CHECK_MEM(i32, ((const int32_t[]){1, -1, 300, -300, 0, INT32_MAX, INT32_MIN, INT32_MAX}),
                   32);
    cast_floats(KILN_DTYPE_I64, i64);
    KILN_CHECK_MEM(i64, ((const int64_t[]){1, -1, 300, -300, 0, INT64_MAX, INT64_MIN, 3000000000}),
                   64);
    cast_floats(KILN_DTYPE_U64, u64);
    KILN_CHECK_MEM(u64, ((const uint64_t[]){1, 0, 300, 0, 0, UINT64_MAX, 0, 3000000000}), 64);
}

static void test_cast_from_int(void)
{
    const int64_t x[4] = {300, -1, 16777217, INT64_MIN};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_I64, 1, 4);
    const void *data[1] = {x};
    uint8_t u8[4];
    float f32[4];
    kiln_attr dtype = test_dtype(KILN_DTYPE_U8);
    KILN_CHECK_INT(RUN(KILN_OP_CAST, &desc, data, 1, &dtype, u8), 4);
    KILN_CHECK_MEM(u8, ((const uint8_t[]){44, 255, 1, 0}), 4);
    dtype = test_dtype(KILN_DTYPE_F32);
    KILN_CHECK_INT(RUN(KILN_OP_CAST, &desc, data, 1, &dtype, f32), 4);
    KILN_CHECK_MEM(f32, ((const float[]){300, -1, 16777216, -0x1p63f}), 16);
}

static void test_cast_to_half(void)
{
    const double x[5] = {65519, 65520, 1.00048828125 + 1e-12, -0.0, 6e-8};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F64, 1, 5);
    const void *data[1] = {x};
    uint16_t f16[5];
    kiln_attr dtype = test_dtype(KILN_DTYPE_F16);
    KILN_CHECK_INT(RUN(KILN_OP_CAST, &desc, data, 1, &dtype, f16), 5);
    KILN_CHECK_MEM(f16, ((const uint16_t[]){31743, 31744, 15361, 0x8000, 1}), 10);
}

KILN_TEST_MAIN("unit/ir/reference_unary", KILN_TEST(test_signs), KILN_TEST(test_rounding),
               KILN_TEST(test_functions), KILN_TEST(test_bools_and_bits),
               KILN_TEST(test_cast_from_float), KILN_TEST(test_cast_from_int),
               KILN_TEST(test_cast_to_half))
