// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators with two inputs: corner cases by hand, and as NumPy 1.24 gives them.
#include <math.h>

#include "ir_support.h"

static void binary(kiln_op op, int count, const float cases[3][8], double tolerance, int line)
{
    const kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 1, count),
                                       test_desc(KILN_DTYPE_F32, 1, count)};
    const void *data[2] = {cases[0], cases[1]};
    test_expect_f32(op, descs, data, 2, NULL, (size_t)count, cases[2], tolerance, __FILE__, line);
}
#define BINARY(op, count, tolerance, ...)                                                          \
    do {                                                                                           \
        const float cases[3][8] = {__VA_ARGS__};                                                   \
        binary(op, count, cases, tolerance, __LINE__);                                             \
    } while (0)

static void test_floats(void)
{
    BINARY(KILN_OP_ADD, 3, 0, {0.1f, INFINITY, 1}, {0.2f, -INFINITY, 2}, {0.300000012f, NAN, 3});
    BINARY(KILN_OP_DIV, 4, 0, {1, 1, -1, 0}, {3, 0, 0, 0},
           {0.333333343f, INFINITY, -INFINITY, NAN});
    BINARY(KILN_OP_MAXIMUM, 4, 0, {1, NAN, 1, -INFINITY}, {2, 1, NAN, 3}, {2, NAN, NAN, 3});
    BINARY(KILN_OP_MINIMUM, 3, 0, {1, NAN, 1}, {2, 1, NAN}, {1, NAN, NAN});
    BINARY(KILN_OP_POW, 6, 1e-7, {2, -2, 0, -1, 3, NAN}, {0.5f, 3, 0, 0.5f, -2, 0},
           {1.41421354f, -8, 1, NAN, 0.111111112f, 1});
    BINARY(KILN_OP_ATAN2, 3, 1e-7, {1, 0, -1}, {1, -1, 0},
           {0.785398163f, 3.14159265f, -1.57079633f});
    BINARY(KILN_OP_HYPOT, 2, 1e-7, {3, 3e30f}, {4, 4e30f}, {5, 5e30f});
}

static void test_remainders(void)
{
    BINARY(KILN_OP_REM, 8, 0, {5, -5, 5, -5, 7.5f, -0.0f, 0, 3},
           {3, 3, -3, -3, -2, 3, -3, INFINITY}, {2, 1, -1, -2, -0.5f, 0, -0.0f, 3});
    BINARY(KILN_OP_FMOD, 8, 0, {5, -5, 5, -5, 7.5f, -0.0f, 0, 3},
           {3, 3, -3, -3, -2, 3, -3, INFINITY}, {2, -2, 2, -2, 1.5f, -0.0f, 0, 3});
    BINARY(KILN_OP_REM, 3, 0, {1, INFINITY, NAN}, {0, 2, 2}, {NAN, NAN, NAN});
}

static void ints(kiln_op op, kiln_dtype dtype, int count, const int32_t cases[3][8], int line)
{
    const kiln_tensor_desc descs[2] = {test_desc(dtype, 1, count), test_desc(dtype, 1, count)};
    const void *data[2] = {cases[0], cases[1]};
    int32_t out[8] = {0};
    int64_t got = test_run(op, descs, data, 2, NULL, out, __FILE__, line);
    kiln_test_check_int(got, count, __FILE__, line, "elements");
    kiln_test_check_mem(out, cases[2], (size_t)count * 4, __FILE__, line,
                        kiln_op_info_of(op)->name);
}
#define INTS(op, dtype, count, ...)                                                                \
    do {                                                                                           \
        const int32_t cases[3][8] = {__VA_ARGS__};                                                 \
        ints(op, dtype, count, cases, __LINE__);                                                   \
    } while (0)

static void test_signed(void)
{
    kiln_dtype i32 = KILN_DTYPE_I32;
    INTS(KILN_OP_ADD, i32, 2, {INT32_MAX, 5}, {1, -7}, {INT32_MIN, -2});
    INTS(KILN_OP_SUB, i32, 1, {INT32_MIN}, {1}, {INT32_MAX});
    INTS(KILN_OP_MUL, i32, 2, {65536, -3}, {65536, 7}, {0, -21});
    INTS(KILN_OP_DIV, i32, 5, {7, -7, 7, INT32_MIN, 0}, {2, 2, 0, -1, 0}, {3, -3, 0, INT32_MIN, 0});
    INTS(KILN_OP_REM, i32, 6, {5, -5, 5, -5, INT32_MIN, 3}, {3, 3, -3, -3, -1, 0},
         {2, 1, -1, -2, 0, 0});
    INTS(KILN_OP_FMOD, i32, 6, {5, -5, 5, -5, INT32_MIN, 3}, {3, 3, -3, -3, -1, 0},
         {2, -2, 2, -2, 0, 0});
    INTS(KILN_OP_POW, i32, 8, {3, 2, 2, 1, -1, -1, 0, 0}, {21, 32, -1, -5, -3, -4, -2, 0},
         {1870418611, 0, 0, 1, -1, 1, 0, 1});
    INTS(KILN_OP_SHIFT_LEFT, i32, 5, {1, 1, 1, 1, -1}, {4, 31, 32, -1, 1},
         {16, INT32_MIN, 0, 0, -2});
    INTS(KILN_OP_SHIFT_RIGHT, i32, 6, {-8, -1, 8, -8, -8, 8}, {1, 31, 2, 32, -1, 0},
         {-4, -1, 2, 0, 0, 8});
    INTS(KILN_OP_MAXIMUM, i32, 2, {-1, 3}, {1, 2}, {1, 3});
    INTS(KILN_OP_BITWISE_XOR, i32, 2, {6, -1}, {3, 1}, {5, -2});
}

static void test_unsigned(void)
{
    kiln_dtype u32 = KILN_DTYPE_U32;
    INTS(KILN_OP_DIV, u32, 2, {-1, 7}, {2, 0}, {INT32_MAX, 0});
    INTS(KILN_OP_REM, u32, 2, {-1, 7}, {10, 0}, {5, 0});
    INTS(KILN_OP_SUB, u32, 1, {0}, {1}, {-1});
    INTS(KILN_OP_SHIFT_RIGHT, u32, 3, {-8, -8, 1}, {1, 40, -1}, {0x7ffffffc, 0, 0});
    INTS(KILN_OP_MAXIMUM, u32, 1, {-1}, {1}, {-1});
}

static void test_comparisons(void)
{
    const float a[4] = {1, NAN, 2, -0.0f};
    const float b[4] = {2, NAN, 2, 0};
    const kiln_tensor_desc descs[2] = {test_desc(KILN_DTYPE_F32, 1, 4),
                                       test_desc(KILN_DTYPE_F32, 1, 4)};
    const void *data[2] = {a, b};
    static const struct {
        kiln_op op;
        unsigned char expected[4];
    } cases[] = {{KILN_OP_EQUAL, {0, 0, 1, 1}},   {KILN_OP_NOT_EQUAL, {1, 1, 0, 0}},
                 {KILN_OP_LESS, {1, 0, 0, 0}},    {KILN_OP_LESS_EQUAL, {1, 0, 1, 1}},
                 {KILN_OP_GREATER, {0, 0, 0, 0}}, {KILN_OP_GREATER_EQUAL, {0, 0, 1, 1}}};
    for (unsigned i = 0; i < 6; i++) {
        unsigned char out[4] = {9, 9, 9, 9};
        KILN_CHECK_INT(RUN(cases[i].op, descs, data, 2, NULL, out), 4);
        KILN_CHECK_MEM(out, cases[i].expected, 4);
    }
}

static void test_scalars(void)
{
    const float x[4] = {1, -2, NAN, 5};
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 1, 4);
    const void *data[1] = {x};
    kiln_attr value = test_f64(2);
    EXPECT_F32(KILN_OP_SUB_SCALAR, &desc, data, 1, &value, 0, -1, -4, NAN, 3);
    EXPECT_F32(KILN_OP_POW_SCALAR, &desc, data, 1, &value, 0, 1, 4, NAN, 25);
    EXPECT_F32(KILN_OP_CLAMP_MIN, &desc, data, 1, &value, 0, 2, 2, NAN, 5);
    EXPECT_F32(KILN_OP_CLAMP_MAX, &desc, data, 1, &value, 0, 1, -2, NAN, 2);
    const kiln_attr bounds[2] = {test_f64(-1), test_i64(3)};
    EXPECT_F32(KILN_OP_CLAMP, &desc, data, 1, bounds, 0, 1, -1, NAN, 3);
    const kiln_attr crossed[2] = {test_f64(4), test_i64(3)};
    EXPECT_F32(KILN_OP_CLAMP, &desc, data, 1, crossed, 0, 3, 3, NAN, 3);
    /* The scalar is an element of the dtype: 0.1 in f32, not in double. */
    value = test_f64(0.1);
    const float tenth[4] = {0.1f, 1, 1, 1};
    data[0] = tenth;
    EXPECT_F32(KILN_OP_SUB_SCALAR, &desc, data, 1, &value, 0, 0, 0.899999976f, 0.899999976f,
               0.899999976f);
}

static void test_masks(void)
{
    const float a[3] = {1, 2, NAN};
    const float b[1] = {9};
    const unsigned char mask[6] = {1, 0, 1, 0, 1, 0};
    const kiln_tensor_desc where[3] = {test_desc(KILN_DTYPE_F32, 1, 3),
                                       test_desc(KILN_DTYPE_F32, 0),
                                       test_desc(KILN_DTYPE_BOOL, 2, 2, 3)};
    const void *data[3] = {a, b, mask};
    EXPECT_F32(KILN_OP_WHERE, where, data, 3, NULL, 0, 1, 9, NAN, 9, 2, 9);
    const kiln_tensor_desc fill[2] = {where[0], where[2]};
    const void *fill_data[2] = {a, mask};
    kiln_attr value = test_i64(7);
    EXPECT_F32(KILN_OP_MASK_FILL, fill, fill_data, 2, &value, 0, 7, 2, 7, 1, 7, NAN);
}

KILN_TEST_MAIN("unit/ir/reference_binary", KILN_TEST(test_floats), KILN_TEST(test_remainders),
               KILN_TEST(test_signed), KILN_TEST(test_unsigned), KILN_TEST(test_comparisons),
               KILN_TEST(test_scalars), KILN_TEST(test_masks))
