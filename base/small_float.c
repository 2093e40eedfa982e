// SPDX-License-Identifier: MIT OR Apache-2.0
// The bits of floats of 8 bits and fewer, one way for all of them: OCP's 8-bit and microscaling
// formats (f8e4m3fn, f8e5m2, f8e8m0, f4e2m1) and those with one NaN in the place of -0 (fnuz). What
// ONNX's `saturate` and `round_mode` add is arithmetic before and after, and not here.
#include "base.h"

#include <math.h>

typedef struct format {
    int fraction; ///< bits of it
    int bias;
    int sign; ///< the bit
    int largest; ///< magnitude of the largest number
    int infinity; ///< magnitude that a number above it gets
    int nan; ///< magnitude
    bool no_minus_zero; ///< its place is the NaN's
} format;

static const format formats[KILN_DTYPE_LIMIT] = {
    [KILN_DTYPE_F8E4M3FN] = {3, 7, 0x80, 0x7e, 0x7f, 0x7f, false},
    [KILN_DTYPE_F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0x80, 0x80, true},
    [KILN_DTYPE_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, false},
    [KILN_DTYPE_F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0x80, 0x80, true},
    [KILN_DTYPE_F4E2M1] = {1, 1, 0x8, 0x7, 0x7, 0, false},
};

static const format *format_of(kiln_dtype dtype)
{
    static const format none = {0};
    return (unsigned)dtype < (unsigned)KILN_DTYPE_LIMIT ? &formats[dtype] : &none;
}

static float from_scale(uint8_t bits)
{
    return bits == 0xff ? NAN : ldexpf(1, (int)bits - 127);
}

float kiln_small_to_f32(kiln_dtype dtype, uint8_t bits)
{
    const format *f = format_of(dtype);
    if (f->sign == 0) {
        return dtype == KILN_DTYPE_F8E8M0 ? from_scale(bits) : 0;
    }
    int magnitude = bits & (f->sign - 1);
    int exponent = magnitude >> f->fraction;
    int fraction = magnitude & ((1 << f->fraction) - 1);
    int units = exponent == 0 ? fraction : fraction + (1 << f->fraction);
    float value = ldexpf((float)units, (exponent == 0 ? 1 : exponent) - f->bias - f->fraction);
    if (f->no_minus_zero ? bits == 0x80 : magnitude > f->largest) {
        value = magnitude == f->infinity && f->infinity != f->nan ? INFINITY : NAN;
    }
    return (bits & f->sign) != 0 ? copysignf(value, -1) : value;
}

/// Below 2^-126 there is 2^-127 only, and above it the next counts as nearer, as f32's fraction
/// rounds.
static uint8_t to_scale(double value)
{
    int exponent = 0;
    if (!(value > 0) || value >= 0x1.8p127) {
        return 0xff;
    }
    if (value < 0x1p-126) {
        return value > 0x1p-127;
    }
    double half = frexp(value, &exponent); // half <= .. < 1
    return (uint8_t)(exponent + 126 + (half >= 0.75));
}

static int magnitude_of(const format *f, double value)
{
    int exponent = 0;
    if (isnan(value)) {
        return f->nan;
    }
    if (isinf(value)) {
        return f->infinity;
    }
    (void)frexp(value, &exponent); // of 0: 0
    exponent = value == 0 || exponent - 1 < 1 - f->bias ? 1 - f->bias : exponent - 1;
    exponent = exponent > 64 ? 64 : exponent;
    double units = rint(ldexp(value, f->fraction - exponent));
    double magnitude = units + (double)((exponent + f->bias - 1) << f->fraction);
    return magnitude > f->largest ? f->infinity : (int)magnitude;
}

uint8_t kiln_f64_to_small(kiln_dtype dtype, double value)
{
    const format *f = format_of(dtype);
    if (f->sign == 0) {
        return dtype == KILN_DTYPE_F8E8M0 ? to_scale(value) : 0;
    }
    int magnitude = magnitude_of(f, fabs(value));
    bool negative = signbit(value) != 0;
    if (f->no_minus_zero) {
        negative = negative && magnitude != 0;
    } else if (dtype == KILN_DTYPE_F4E2M1 && isnan(value)) {
        negative = !negative; // there is no NaN: which zero it becomes is ml_dtypes' choice
    }
    return (uint8_t)(magnitude | (negative ? f->sign : 0));
}
