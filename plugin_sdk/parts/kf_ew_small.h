// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_ew_small.h: bits of floats of 8 bits and fewer to numbers and back, as templates of OpenCL C.
// Part of kf_elementwise.h.
//
// The formats in the order of their dtypes' numbers: f8e4m3fn 20, f8e4m3fnuz, f8e5m2, f8e5m2fnuz,
// f8e8m0, f4e2m1. `f` is the number less 20, in all lanes the same: odd ones have one NaN in the
// place of -0, 4 has neither sign nor fraction. Arithmetic is on integers, so that no device's
// treatment of subnormal numbers matters.
#ifndef KILN_PLUGIN_SDK_KF_EW_SMALL_H
#define KILN_PLUGIN_SDK_KF_EW_SMALL_H

// m bits of fraction, the exponent's bias, the bit of the sign.
#define KF_EW_SMALL_FORMAT                                                                         \
    "    $M f = convert_$M(format) - 20;\n"                                                        \
    "    $M m = select(select(($M)(3), ($M)(2), f > 1), select(($M)(0), ($M)(1), f > 4), f > "     \
    "3);\n"                                                                                        \
    "    $M bias = select(($M)(7), ($M)(15), f > 1) + (f & 1);\n"                                  \
    "    bias = select(bias, select(($M)(127), ($M)(1), f > 4), f > 3);\n"                         \
    "    $M sign = select(($M)(128), select(($M)(0), ($M)(8), f > 4), f > 3);\n"

// BITS of fraction and BIAS of the floats that are computed with. LOWEST is 2^-127, which may be
// subnormal.
#define KF_EW_DECODE_SMALL(BITS, BIAS, LOWEST)                                                     \
    "static inline $T decode_$C($T x, $T format) {\n" KF_EW_SMALL_FORMAT                           \
    "    $M c = convert_$M(fmin(fmax(x, ($T)(0)), ($T)(255)));\n"                                  \
    "    $M magnitude = select(c & (sign - 1), c, f == 4);\n"                                      \
    "    $M e = magnitude >> m;\n"                                                                 \
    "    $M below = (e == 0) & (f != 4);\n"                                                        \
    "    $M units = (magnitude & ((($M)(1) << m) - 1)) + select(($M)(1) << m, ($M)(0), below);\n"  \
    "    $M k = select(e, ($M)(1), below) - bias - m;\n"                                           \
    "    $T y = convert_$T(units) * as_$T((k + " BIAS ") << " BITS ");\n"                          \
    "    y = select(y, as_$T(($M)(" LOWEST ")), (f == 4) & (magnitude == 0));\n"                   \
    "    y = select(y, ($T)(INFINITY), (f == 2) & (magnitude == 124));\n"                          \
    "    $M nan = ((f == 0) & (magnitude == 127)) | ((f == 2) & (magnitude > 124)) |\n"            \
    "             ((f == 4) & (magnitude == 255)) | ((f < 4) & ((f & 1) != 0) & (c == 128));\n"    \
    "    y = select(y, ($T)(NAN), nan);\n"                                                         \
    "    return select(y, copysign(y, ($T)(-1)), (c & sign) != 0);\n"                              \
    "}\n"

// ABS is all bits but the sign. LEAST and SECOND are 2^-127 and 2^-126, between which f8e8m0 has
// nothing and any number counts as nearer to the second. In C an infinity's exponent has the bits
// 2 * BIAS + 1.
#define KF_EW_ENCODE_SMALL(BITS, BIAS, ABS, LEAST, SECOND)                                         \
    "static inline $T encode_$C($T x, $T format) {\n" KF_EW_SMALL_FORMAT "    $M nan = x != x;\n"  \
    "    $M a = convert_$M(as_$U(x) & ($U)(" ABS "));\n"                                           \
    "    a = min(a, ($M)(2 * " BIAS " + 1) << " BITS ");\n"                                        \
    "    $M negative = as_$U(x) > ($U)(" ABS ");\n"                                                \
    "    $M shift = " BITS " - m;\n"                                                               \
    "    $M c = (a + (($M)(1) << (shift - 1)) - 1 + ((a >> shift) & 1)) >> shift;\n"               \
    "    c = c - ((" BIAS " - bias) << m);\n"                                                      \
    "    $M below = a < ((" BIAS " + 1 - bias) << " BITS ");\n"                                    \
    "    $T unit = as_$T((" BIAS " + bias + m - 1) << " BITS ");\n"                                \
    "    c = select(c, convert_$M(rint(fmin(fabs(x), ($T)(1)) * unit)), below);\n"                 \
    "    $M most = select(select(($M)(127), ($M)(124), f == 2), ($M)(128), (f & 1) != 0);\n"       \
    "    most = select(most, ($M)(7), f == 5);\n"                                                  \
    "    $M none = select(select(($M)(127), ($M)(126), f == 2), ($M)(128), (f & 1) != 0);\n"       \
    "    none = select(none, ($M)(0), f == 5);\n"                                                  \
    "    c = select(min(c, most), none, nan);\n"                                                   \
    "    $M signed_ = negative ^ (nan & (f == 5));\n"                                              \
    "    signed_ = signed_ & ((c != 0) | ((f & 1) == 0) | (f == 5));\n"                            \
    "    c = c | select(($M)(0), sign, signed_);\n"                                                \
    "    $M p = ((a + (($M)(1) << (" BITS " - 1))) >> " BITS ") - (" BIAS " - 127);\n"             \
    "    p = select(p, select(($M)(0), ($M)(1), a > ($M)(" LEAST ")), a < ($M)(" SECOND "));\n"    \
    "    p = select(min(p, ($M)(255)), ($M)(255), negative | (a == 0) | nan);\n"                   \
    "    return convert_$T(select(c, p, f == 4));\n"                                               \
    "}\n"

#endif
