// SPDX-License-Identifier: MIT OR Apache-2.0
// Small floats against a model of their own: every code by the formula of its format, and every
// number by searching the nearest of all codes: each value, each middle of two with its neighbours,
// and a sweep of binary32.
#include <math.h>
#include <string.h>

#include "base.h"
#include "harness.h"

typedef struct small_kind {
    kiln_dtype dtype;
    int exponent_bits;
    int fraction_bits;
    int bias;
    int n_values; ///< numbers that are not negative
    int above; ///< code of what is too large
    int nan;
} small_kind;

static const small_kind kinds[] = {
    {KILN_DTYPE_F8E4M3FN, 4, 3, 7, 127, 0x7f, 0x7f},
    {KILN_DTYPE_F8E4M3FNUZ, 4, 3, 8, 128, 0x80, 0x80},
    {KILN_DTYPE_F8E5M2, 5, 2, 15, 124, 0x7c, 0x7e},
    {KILN_DTYPE_F8E5M2FNUZ, 5, 2, 16, 128, 0x80, 0x80},
    {KILN_DTYPE_F4E2M1, 2, 1, 1, 8, 7, 8},
};

static double number_of_code(const small_kind *kind, int code)
{
    int exponent = code >> kind->fraction_bits;
    int fraction = code & ((1 << kind->fraction_bits) - 1);
    double one = (double)(1 << kind->fraction_bits);
    return exponent == 0 ? ldexp(fraction / one, 1 - kind->bias)
                         : ldexp(1 + fraction / one, exponent - kind->bias);
}

static void test_all_codes(void)
{
    const small_kind *kind = kiln_test_param();
    int sign = kind->exponent_bits + kind->fraction_bits;
    for (int code = 0; code < kind->n_values; code++) {
        double want = number_of_code(kind, code);
        float up = kiln_small_to_f32(kind->dtype, (uint8_t)code);
        float down = kiln_small_to_f32(kind->dtype, (uint8_t)(code | 1 << sign));
        KILN_CHECK((double)up == want && signbit(up) == 0);
        if (code == 0 && kind->nan == 0x80) {
            KILN_CHECK(isnan(down)); // one NaN, in the place of -0
        } else {
            KILN_CHECK((double)down == -want && signbit(down) != 0);
        }
    }
    for (int code = kind->n_values; code < 1 << sign; code++) {
        float value = kiln_small_to_f32(kind->dtype, (uint8_t)code);
        bool infinite = kind->dtype == KILN_DTYPE_F8E5M2 && code == 0x7c;
        KILN_CHECK(infinite ? isinf(value) != 0 : isnan(value));
    }
}

/// The code nearest to `value` >= 0 by search; of two as near, the even one.
static int nearest_code(const small_kind *kind, double value)
{
    int best = 0;
    double top = number_of_code(kind, kind->n_values); // what would come next
    for (int code = 1; code <= kind->n_values; code++) {
        double number = code == kind->n_values ? top : number_of_code(kind, code);
        double old = best == kind->n_values ? top : number_of_code(kind, best);
        double nearer = fabs(value - number) - fabs(value - old);
        if (nearer < 0 || (nearer == 0 && code % 2 == 0)) {
            best = code;
        }
    }
    return best == kind->n_values ? kind->above : best;
}

static bool encodes(const small_kind *kind, double value)
{
    int sign = 1 << (kind->exponent_bits + kind->fraction_bits);
    int up = nearest_code(kind, value);
    int down = up | sign;
    if (kind->nan == 0x80 && up == 0) {
        down = 0;
    }
    return kiln_f64_to_small(kind->dtype, value) == up &&
           kiln_f64_to_small(kind->dtype, -value) == down;
}

static void test_boundaries(void)
{
    const small_kind *kind = kiln_test_param();
    for (int code = 0; code < kind->n_values; code++) {
        double value = number_of_code(kind, code);
        double middle = (value + number_of_code(kind, code + 1)) / 2;
        KILN_CHECK(encodes(kind, value) && encodes(kind, middle));
        KILN_CHECK(encodes(kind, nextafter(middle, 0)) && encodes(kind, nextafter(middle, 1e9)));
        KILN_CHECK(encodes(kind, nextafter(value, 0)) && encodes(kind, nextafter(value, 1e9)));
    }
}

static void test_sweep(void)
{
    const small_kind *kind = kiln_test_param();
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x1f3d7) {
        float value;
        memcpy(&value, &bits, sizeof(value));
        if (!encodes(kind, fmin((double)value, 1e6))) {
            KILN_CHECK_INT(bits, 0);
            return;
        }
    }
}

static void test_special(void)
{
    const small_kind *kind = kiln_test_param();
    int sign = 1 << (kind->exponent_bits + kind->fraction_bits);
    KILN_CHECK_INT(kiln_f64_to_small(kind->dtype, (double)INFINITY), kind->above);
    KILN_CHECK_INT(kiln_f64_to_small(kind->dtype, 1e300), kind->above);
    KILN_CHECK_INT(kiln_f64_to_small(kind->dtype, -(double)INFINITY),
                   kind->above == 0x80 ? 0x80 : kind->above | sign);
    KILN_CHECK_INT(kiln_f64_to_small(kind->dtype, fabs((double)NAN)), kind->nan);
    KILN_CHECK_INT(kiln_f64_to_small(kind->dtype, 5e-324), 0);
}

/// Every code, the middles, and what is no positive number.
static void test_powers(void)
{
    for (int code = 0; code < 255; code++) {
        double value = ldexp(1, code - 127);
        uint8_t up = (uint8_t)(code + 1);
        KILN_CHECK((double)kiln_small_to_f32(KILN_DTYPE_F8E8M0, (uint8_t)code) == value);
        KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_F8E8M0, value), code);
        KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_F8E8M0, 1.5 * value), up);
        if (code > 0) {
            KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_F8E8M0, nextafter(1.5 * value, 0)), code);
        }
    }
    const double none[] = {0, -0.0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY, 1e300};
    KILN_CHECK(isnan(kiln_small_to_f32(KILN_DTYPE_F8E8M0, 255)));
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_F8E8M0, none[i]), 255);
    }
    KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_F8E8M0, 1e-300), 0);
}

static void test_others(void)
{
    KILN_CHECK(kiln_small_to_f32(KILN_DTYPE_F16, 60) == 0);
    KILN_CHECK(kiln_small_to_f32((kiln_dtype)-1, 60) == 0);
    KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_U8, 60), 0);
    KILN_CHECK_INT(kiln_f64_to_small(KILN_DTYPE_LIMIT, 60), 0);
    KILN_CHECK_INT(kiln_dtype_kind_of(KILN_DTYPE_F4E2M1), KILN_KIND_SMALL);
    KILN_CHECK_INT(kiln_dtype_size(KILN_DTYPE_F4E2M1), 1);
}

#define EACH_KIND(test, name)                                                                      \
    KILN_TEST_PARAM(test, name " f8e4m3fn", &kinds[0]),                                            \
        KILN_TEST_PARAM(test, name " f8e4m3fnuz", &kinds[1]),                                      \
        KILN_TEST_PARAM(test, name " f8e5m2", &kinds[2]),                                          \
        KILN_TEST_PARAM(test, name " f8e5m2fnuz", &kinds[3]),                                      \
        KILN_TEST_PARAM(test, name " f4e2m1", &kinds[4])

KILN_TEST_MAIN("unit/base/small_float", EACH_KIND(test_all_codes, "codes"),
               EACH_KIND(test_boundaries, "boundaries"), EACH_KIND(test_sweep, "sweep"),
               EACH_KIND(test_special, "special"), KILN_TEST(test_powers), KILN_TEST(test_others))
