// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of element types, and the 16-bit floats against a model in double: every value of
// 16 bits, every rounding boundary between two of them with its neighbours, and a sweep of
// binary32.
#include <math.h>
#include <string.h>

#include "base.h"
#include "harness.h"

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void test_table(void)
{
    KILN_CHECK_STR(kiln_dtype_name(KILN_DTYPE_BF16), "bf16");
    KILN_CHECK_INT(kiln_dtype_size(KILN_DTYPE_F64), 8);
    KILN_CHECK_INT(kiln_dtype_size(KILN_DTYPE_BOOL), 1);
    KILN_CHECK_INT(kiln_dtype_kind_of(KILN_DTYPE_U16), KILN_KIND_UINT);
    for (int i = -2; i < KILN_DTYPE_LIMIT + 3; i++) {
        kiln_dtype dtype = (kiln_dtype)i;
        const char *name = kiln_dtype_name(dtype);
        if (i < 1 || i >= KILN_DTYPE_LIMIT) {
            KILN_CHECK(name == NULL && kiln_dtype_size(dtype) == 0);
            KILN_CHECK_INT(kiln_dtype_kind_of(dtype), KILN_KIND_NONE);
        } else if (KILN_CHECK(name != NULL)) {
            KILN_CHECK_INT(kiln_dtype_from_name(name), dtype);
        }
    }
    KILN_CHECK_INT(kiln_dtype_from_name("float"), KILN_DTYPE_NONE);
    KILN_CHECK_INT(kiln_dtype_from_name(NULL), KILN_DTYPE_NONE);
    KILN_CHECK_INT(kiln_dtype_from_name(""), KILN_DTYPE_NONE);
}

/// Value of the positive finite pattern of a float with `fraction_bits` and an exponent bias.
static double model(uint32_t bits, int fraction_bits, int bias)
{
    int exponent = (int)(bits >> fraction_bits);
    double fraction = bits & ((1u << fraction_bits) - 1);
    double one = (double)(1u << fraction_bits);
    return exponent == 0 ? ldexp(fraction / one, 1 - bias)
                         : ldexp(1 + fraction / one, exponent - bias);
}

typedef struct half_kind {
    float (*widen)(uint16_t bits);
    uint16_t (*narrow)(float value);
    int fraction_bits;
    int bias;
    uint32_t infinity;
} half_kind;

static const half_kind f16 = {kiln_f16_to_f32, kiln_f32_to_f16, 10, 15, 0x7c00};
static const half_kind bf16 = {kiln_bf16_to_f32, kiln_f32_to_bf16, 7, 127, 0x7f80};

static void test_widen_all(void)
{
    const half_kind *kind = kiln_test_param();
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint32_t magnitude = bits & 0x7fff;
        float value = kind->widen((uint16_t)bits);
        bool ok = signbit(value) == 0 ? bits < 0x8000 : bits >= 0x8000;
        if (magnitude > kind->infinity) {
            ok = ok && isnan(value) && isnan(kind->widen(kind->narrow(value)));
        } else {
            double expected = magnitude == kind->infinity
                                  ? INFINITY
                                  : model(magnitude, kind->fraction_bits, kind->bias);
            ok = ok && fabs((double)value) == expected && kind->narrow(value) == bits;
        }
        if (!ok) {
            KILN_FAIL("pattern 0x%04x gives %a", bits, (double)value);
            return;
        }
    }
}

/// The nearest pattern by the definition: compare distances in double, ties to the even pattern.
static uint32_t nearest(const half_kind *kind, double value, uint32_t low)
{
    double below = model(low, kind->fraction_bits, kind->bias);
    double above =
        model(low + 1, kind->fraction_bits, kind->bias); // infinity: the next power of two
    if (value - below == above - value) {
        return (low & 1) == 0 ? low : low + 1;
    }
    return value - below < above - value ? low : low + 1;
}

static void test_narrow_boundaries(void)
{
    const half_kind *kind = kiln_test_param();
    for (uint32_t low = 0; low < kind->infinity; low++) {
        double below = model(low, kind->fraction_bits, kind->bias);
        double above = model(low + 1, kind->fraction_bits, kind->bias);
        float middle = (float)((below + above) / 2);
        const float tried[] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        for (int i = 0; i < 3; i++) {
            if ((double)tried[i] < below || isinf(tried[i])) {
                continue;
            }
            uint32_t expected = nearest(kind, (double)tried[i], low);
            if (kind->narrow(tried[i]) != expected ||
                kind->narrow(-tried[i]) != (expected | 0x8000)) {
                KILN_FAIL("%a gives 0x%04x, not 0x%04x", (double)tried[i], kind->narrow(tried[i]),
                          expected);
                return;
            }
        }
    }
}

static void test_narrow_sweep(void)
{
    const half_kind *kind = kiln_test_param();
    uint32_t low = 0;
    for (uint64_t bits = 0; bits < 0x7f800000; bits += 997) {
        float value = from_bits((uint32_t)bits);
        while (low + 1 < kind->infinity &&
               model(low + 1, kind->fraction_bits, kind->bias) <= (double)value) {
            low++;
        }
        double top = model(kind->infinity, kind->fraction_bits, kind->bias);
        uint32_t expected =
            (double)value >= top ? kind->infinity : nearest(kind, (double)value, low);
        if (kind->narrow(value) != expected) {
            KILN_FAIL("%a gives 0x%04x, not 0x%04x", (double)value, kind->narrow(value), expected);
            return;
        }
    }
}

static void test_narrow_special(void)
{
    const half_kind *kind = kiln_test_param();
    KILN_CHECK_INT(kind->narrow(INFINITY), kind->infinity);
    KILN_CHECK_INT(kind->narrow(-INFINITY), kind->infinity | 0x8000);
    KILN_CHECK_INT(kind->narrow(3.4028234663852886e38f), kind->infinity);
    KILN_CHECK_INT(kind->narrow(-0.0f), 0x8000);
    KILN_CHECK_INT(kind->narrow(from_bits(1)), 0);
    for (uint32_t payload = 1; payload != 0 && payload < 0x800000; payload <<= 1) {
        float nan = from_bits(0xff800000u | payload);
        KILN_CHECK(isnan(kind->widen(kind->narrow(nan))));
        KILN_CHECK(to_bits(kind->widen(kind->narrow(nan))) >> 31 == 1);
    }
}

KILN_TEST_MAIN("unit/base/dtype", KILN_TEST(test_table),
               KILN_TEST_PARAM(test_widen_all, "widen f16", &f16),
               KILN_TEST_PARAM(test_widen_all, "widen bf16", &bf16),
               KILN_TEST_PARAM(test_narrow_boundaries, "boundaries f16", &f16),
               KILN_TEST_PARAM(test_narrow_boundaries, "boundaries bf16", &bf16),
               KILN_TEST_PARAM(test_narrow_sweep, "sweep f16", &f16),
               KILN_TEST_PARAM(test_narrow_sweep, "sweep bf16", &bf16),
               KILN_TEST_PARAM(test_narrow_special, "special f16", &f16),
               KILN_TEST_PARAM(test_narrow_special, "special bf16", &bf16))
