// SPDX-License-Identifier: MIT OR Apache-2.0
// The host's arithmetic at its edges: wrapping, NaN, signs, rounding, unaligned addresses.
#include <math.h>
#include <string.h>

#include "coll_host_reduce.h"
#include "harness.h"

#define CHECK_REDUCE(type, dtype, op, a, b, expected)                                              \
    do {                                                                                           \
        type target = (a);                                                                         \
        type source = (b);                                                                         \
        type wanted = (expected);                                                                  \
        KILN_CHECK(kilni_coll_host_reduce(&target, &target, &source, 1, KILN_DTYPE_##dtype, op));  \
        KILN_CHECK_MEM(&target, &wanted, sizeof(wanted));                                          \
    } while (0)

static void test_integers_wrap(void)
{
    CHECK_REDUCE(int8_t, I8, KILN_COLL_SUM, 127, 1, -128);
    CHECK_REDUCE(uint8_t, U8, KILN_COLL_SUM, 255, 2, 1);
    CHECK_REDUCE(uint16_t, U16, KILN_COLL_PROD, 65535, 65535, 1);
    CHECK_REDUCE(int32_t, I32, KILN_COLL_SUM, INT32_MAX, 1, INT32_MIN);
    CHECK_REDUCE(int64_t, I64, KILN_COLL_SUM, INT64_MIN, -1, INT64_MAX);
    CHECK_REDUCE(int64_t, I64, KILN_COLL_PROD, INT64_MIN, -1, INT64_MIN);
    CHECK_REDUCE(int16_t, I16, KILN_COLL_MIN, -3, 2, -3);
    CHECK_REDUCE(uint32_t, U32, KILN_COLL_MAX, 0x80000000u, 1, 0x80000000u);
    CHECK_REDUCE(uint64_t, U64, KILN_COLL_MIN, UINT64_MAX, 7, 7);
}

static void test_floats(void)
{
    CHECK_REDUCE(float, F32, KILN_COLL_SUM, 16777216.0f, 1.0f, 16777216.0f);
    CHECK_REDUCE(double, F64, KILN_COLL_PROD, 1e200, 1e200, INFINITY);
    CHECK_REDUCE(float, F32, KILN_COLL_MAX, -1.0f, -INFINITY, -1.0f);
    for (int op = KILN_COLL_MIN; op <= KILN_COLL_MAX; op++) {
        for (int side = 0; side < 2; side++) {
            float target = side == 0 ? NAN : 1.0f;
            float source = side == 0 ? 1.0f : NAN;
            KILN_CHECK(kilni_coll_host_reduce(&target, &target, &source, 1, KILN_DTYPE_F32,
                                              (kiln_coll_op)op));
            KILN_CHECK(isnan(target));
        }
    }
}

static void test_refused(void)
{
    float a = 1;
    KILN_CHECK(!kilni_coll_host_reduce(&a, &a, &a, 1, KILN_DTYPE_F16, KILN_COLL_SUM));
    KILN_CHECK(!kilni_coll_host_reduce(&a, &a, &a, 1, KILN_DTYPE_BOOL, KILN_COLL_SUM));
    KILN_CHECK(!kilni_coll_host_reduce(&a, &a, &a, 1, KILN_DTYPE_F32, KILN_COLL_MEAN));
    KILN_CHECK(!kilni_coll_host_convert(&a, KILN_DTYPE_I32, &a, KILN_DTYPE_F32, 1, 1));
    KILN_CHECK(!kilni_coll_host_convert(&a, KILN_DTYPE_NONE, &a, KILN_DTYPE_NONE, 1, 1));
}

static void test_divide(void)
{
    int8_t bytes[] = {-7, 7, -128};
    int8_t thirds[] = {-2, 2, -42};
    KILN_CHECK(kilni_coll_host_convert(bytes, KILN_DTYPE_I8, bytes, KILN_DTYPE_I8, 3, 3));
    KILN_CHECK_MEM(bytes, thirds, 3);
    int64_t large = INT64_MIN;
    KILN_CHECK(kilni_coll_host_convert(&large, KILN_DTYPE_I64, &large, KILN_DTYPE_I64, 1, 2));
    KILN_CHECK_INT(large, INT64_MIN / 2);
    uint64_t unsigned_large = UINT64_MAX;
    KILN_CHECK(kilni_coll_host_convert(&unsigned_large, KILN_DTYPE_U64, &unsigned_large,
                                       KILN_DTYPE_U64, 1, 17));
    KILN_CHECK(unsigned_large == UINT64_MAX / 17);
}

/// Narrowing happens once, after the division.
static void test_halves(void)
{
    float sum = 2049.0f * 3;
    uint16_t bits = 0;
    KILN_CHECK(kilni_coll_host_convert(&bits, KILN_DTYPE_F16, &sum, KILN_DTYPE_F32, 1, 3));
    KILN_CHECK_INT(bits, kiln_f32_to_f16(2049.0f));
    float wide = 0;
    KILN_CHECK(kilni_coll_host_convert(&wide, KILN_DTYPE_F32, &bits, KILN_DTYPE_F16, 1, 1));
    KILN_CHECK(wide == 2048.0f);
    float large = 3e38f;
    KILN_CHECK(kilni_coll_host_convert(&bits, KILN_DTYPE_BF16, &large, KILN_DTYPE_F32, 1, 1));
    KILN_CHECK_INT(bits, kiln_f32_to_bf16(3e38f));
    KILN_CHECK(kilni_coll_host_convert(&wide, KILN_DTYPE_F32, &bits, KILN_DTYPE_BF16, 1, 2));
    KILN_CHECK(wide == kiln_bf16_to_f32(bits) / 2);
}

static void test_unaligned(void)
{
    unsigned char target[64];
    unsigned char source[64];
    double a[] = {1, 2, 3};
    double b[] = {10, 20, 30};
    double sum[] = {11, 22, 33};
    for (size_t shift = 0; shift < 8; shift++) {
        memcpy(target + shift, a, sizeof(a));
        memcpy(source + 7 - shift, b, sizeof(b));
        KILN_CHECK(kilni_coll_host_reduce(target + shift, target + shift, source + 7 - shift, 3,
                                          KILN_DTYPE_F64, KILN_COLL_SUM));
        KILN_CHECK_MEM(target + shift, sum, sizeof(sum));
    }
}

KILN_TEST_MAIN("unit/collective/host_reduce", KILN_TEST(test_integers_wrap), KILN_TEST(test_floats),
               KILN_TEST(test_refused), KILN_TEST(test_divide), KILN_TEST(test_halves),
               KILN_TEST(test_unaligned))
