// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements of each dtype as wide values, order with NaN, walks over views.
#include <math.h>
#include <string.h>

#include "ir_support.h"
#include "reference_internal.h"

static unsigned char bytes[64];
static kiln_buffer memory = {.data = bytes, .bytes = sizeof(bytes)};

static kiln_view one(kiln_dtype dtype)
{
    return (kiln_view){.buffer = &memory, .dtype = dtype, .offset_bytes = 8};
}

static void test_integers_extend_and_wrap(void)
{
    static const struct {
        kiln_dtype dtype;
        uint64_t stored;
        int64_t loaded;
    } cases[] = {{KILN_DTYPE_I8, 0x1ff, -1},
                 {KILN_DTYPE_U8, 0x1ff, 255},
                 {KILN_DTYPE_I16, 0x8000, -32768},
                 {KILN_DTYPE_I32, 0x80000000, INT32_MIN},
                 {KILN_DTYPE_U32, UINT64_MAX, 0xffffffff},
                 {KILN_DTYPE_I64, UINT64_MAX, -1},
                 {KILN_DTYPE_BOOL, 2, 1}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_view view = one(cases[i].dtype);
        memset(bytes, 0xee, sizeof(bytes));
        kilni_ref_store(&view, 0, (kilni_ref_value){.u = cases[i].stored});
        KILN_CHECK_INT(kilni_ref_load(&view, 0).i, cases[i].loaded);
        KILN_CHECK_INT(bytes[7], 0xee);
        KILN_CHECK_INT(bytes[8 + kiln_dtype_size(cases[i].dtype)], 0xee);
    }
}

static void test_ends(void)
{
    KILN_CHECK_INT(kilni_ref_lowest(KILN_DTYPE_I8).i, -128);
    KILN_CHECK_INT(kilni_ref_highest(KILN_DTYPE_I8).i, 127);
    KILN_CHECK_INT(kilni_ref_highest(KILN_DTYPE_U16).i, 65535);
    KILN_CHECK_INT(kilni_ref_lowest(KILN_DTYPE_I64).i, INT64_MIN);
    KILN_CHECK(kilni_ref_highest(KILN_DTYPE_U64).u == UINT64_MAX);
    KILN_CHECK_INT(kilni_ref_lowest(KILN_DTYPE_U32).u, 0);
    KILN_CHECK(isinf(kilni_ref_lowest(KILN_DTYPE_F16).f));
    KILN_CHECK_INT(kilni_ref_abs((kilni_ref_value){.i = -128}, KILN_DTYPE_I8).i, -128);
    KILN_CHECK_INT(kilni_ref_abs((kilni_ref_value){.i = INT64_MIN}, KILN_DTYPE_I64).i, INT64_MIN);
    KILN_CHECK_INT(kilni_ref_abs((kilni_ref_value){.i = -5}, KILN_DTYPE_I32).i, 5);
}

static void test_order(void)
{
    kilni_ref_value nan = kilni_ref_of_float((double)NAN);
    kilni_ref_value two = kilni_ref_of_float(2);
    KILN_CHECK(isnan(kilni_ref_max(nan, two, KILN_DTYPE_F32).f));
    KILN_CHECK(isnan(kilni_ref_max(two, nan, KILN_DTYPE_F32).f));
    KILN_CHECK(isnan(kilni_ref_min(two, nan, KILN_DTYPE_F32).f));
    kilni_ref_value minus = {.i = -1};
    kilni_ref_value plus = {.i = 1};
    KILN_CHECK(kilni_ref_less(minus, plus, KILN_DTYPE_I32));
    KILN_CHECK(!kilni_ref_less(minus, plus, KILN_DTYPE_U64));
}

static void test_walk(void)
{
    const int64_t dims[2] = {2, 3};
    kiln_view column = {.dtype = KILN_DTYPE_U8, .rank = 2, .dims = {2, 1}, .strides = {5, 9}};
    kiln_view row = {.dtype = KILN_DTYPE_U8, .rank = 1, .dims = {3}, .strides = {-2}};
    static const int64_t expected[6][2] = {{0, 0}, {0, -2}, {0, -4}, {5, 0}, {5, -2}, {5, -4}};
    kilni_ref_walk walk;
    unsigned n = 0;
    kilni_ref_walk_init(&walk, dims, 2);
    kilni_ref_walk_add(&walk, &column);
    kilni_ref_walk_add(&walk, &row);
    for (; !walk.done && n < 6; kilni_ref_walk_next(&walk), n++) {
        KILN_CHECK_INT(walk.at[0], expected[n][0]);
        KILN_CHECK_INT(walk.at[1], expected[n][1]);
    }
    KILN_CHECK_INT(n, 6);
    KILN_CHECK(walk.done);
    kilni_ref_walk_init(&walk, dims, 0);
    KILN_CHECK(!walk.done);
    kilni_ref_walk_next(&walk);
    KILN_CHECK(walk.done);
}

KILN_TEST_MAIN("unit/ir/reference_value", KILN_TEST(test_integers_extend_and_wrap),
               KILN_TEST(test_ends), KILN_TEST(test_order), KILN_TEST(test_walk))
