// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_ew_helpers.h: functions that the expressions of elementwise operators call, as templates of
// OpenCL C. Part of kf_elementwise.h.
#ifndef KILN_PLUGIN_SDK_KF_EW_HELPERS_H
#define KILN_PLUGIN_SDK_KF_EW_HELPERS_H

#include "kf_ew_small.h"
#include "kf_ew_text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kf_ew_helper {
    const char *name; // followed by the element type in expressions: "div_int"
    uint32_t kinds; // bit KF_KIND_*, or KF_EW_FLOAT32 or _FLOAT64
    const char *text;
} kf_ew_helper;

#define KF_EW_FLOATS (1u << KF_KIND_FLOAT)
#define KF_EW_FLOAT32 (1u << 16) // floats that are computed in 32 bits
#define KF_EW_FLOAT64 (1u << 17)
#define KF_EW_SIGNED (1u << KF_KIND_INT)
#define KF_EW_UNSIGNED (1u << KF_KIND_UINT)

// FMA(a, b, c): with one rounding where the device does that fast (FAST_FMA), with two elsewhere.
#define KF_EW_FMA                                                                                  \
    "#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)\n"                \
    "#define FMA fma\n"                                                                            \
    "#define FAST_FMA 1\n"                                                                         \
    "#else\n"                                                                                      \
    "#define FMA(a, b, c) ((a) * (b) + (c))\n"                                                     \
    "#define FAST_FMA 0\n"                                                                         \
    "#endif\n"

#define KF_EW_EACH(name, function)                                                                 \
    "static inline $T " name "$C($T x) {\n"                                                        \
    "    $C e[$V];\n"                                                                              \
    "    vstore$V(x, 0, e);\n"                                                                     \
    "    for (int k = 0; k < $V; k++) {\n"                                                         \
    "        e[k] = " function "(e[k]);\n"                                                         \
    "    }\n"                                                                                      \
    "    return vload$V(0, e);\n"                                                                  \
    "}\n"

// sin, cos and tan of floats by vectors: what is left of x after the nearest multiple of pi/2,
// taken off in three parts (Cody and Waite 1980; the first step is exact), minimax polynomials of
// our own for it and the quarter of the turn: 1.6 ulp, tan 2.5. Beyond 32768, and where FMA is not
// fast, each lane by itself.
#define KF_EW_TURN_NEAR                                                                            \
    "    $T s = FMA(($T)(-1.95172339e-4f), z, ($T)(8.332178e-3f));\n"                              \
    "    s = FMA(FMA(s, z, ($T)(-0.166666552f)) * z, r, r);\n"                                     \
    "    $T c = FMA(($T)(2.44383791e-5f), z, ($T)(-1.38873665e-3f));\n"                            \
    "    c = FMA(FMA(c, z, ($T)(4.16666456e-2f)) * z, z, FMA(z, ($T)(-0.5f), ($T)(1)));\n"         \
    "    r = select(s, c, (quarter & 1) != 0);\n"                                                  \
    "    r = select(r, -r, (quarter & 2) != 0);\n"

#define KF_EW_TAN_NEAR                                                                             \
    "    $T p = FMA(($T)(0.00437844638f), z, ($T)(8.52409357e-5f));\n"                             \
    "    p = FMA(p, z, ($T)(0.010839114f));\n"                                                     \
    "    p = FMA(p, z, ($T)(0.0212809481f));\n"                                                    \
    "    p = FMA(p, z, ($T)(0.0540601499f));\n"                                                    \
    "    p = FMA(p, z, ($T)(0.13332662f));\n"                                                      \
    "    p = FMA(p, z, ($T)(0.333333492f));\n"                                                     \
    "    r = FMA(p * z, r, r);\n"                                                                  \
    "    r = select(r, ($T)(-1) / r, (quarter & 1) != 0);\n"

#define KF_EW_TURN(function, near, ahead, at_zero)                                                 \
    KF_EW_FMA                                                                                      \
    "static inline $T " function "_$C($T x) {\n"                                                   \
    "    $M far = (fabs(x) > ($T)(FAST_FMA ? 32768.0f : -1.0f)) | (x != x);\n"                     \
    "    $T y = select(x, ($T)(0), far);\n"                                                        \
    "    $T k = rint(y * ($T)(0.636619772f));\n"                                                   \
    "    $T r = FMA(k, ($T)(-1.57079637f), y);\n"                                                  \
    "    r = FMA(k, ($T)(4.37113883e-8f), r);\n"                                                   \
    "    r = FMA(k, ($T)(1.71512451e-15f), r);\n"                                                  \
    "    $T z = r * r;\n"                                                                          \
    "    $M quarter = convert_$M(k) + " ahead ";\n" near "    r = select(r, " at_zero              \
    ", x == 0);\n"                                                                                 \
    "    if (any(far)) {\n"                                                                        \
    "        $C e[$V], f[$V];\n"                                                                   \
    "        vstore$V(x, 0, e);\n"                                                                 \
    "        vstore$V(r, 0, f);\n"                                                                 \
    "        for (int i = 0; i < $V; i++) {\n"                                                     \
    "            f[i] = fabs(e[i]) <= (FAST_FMA ? 32768.0f : -1.0f) ? f[i] : " function            \
    "(e[i]);\n"                                                                                    \
    "        }\n"                                                                                  \
    "        r = vload$V(0, f);\n"                                                                 \
    "    }\n"                                                                                      \
    "    return r;\n"                                                                              \
    "}\n"

#define KF_EW_EACH_FMOD                                                                            \
    "    $C x[$V], y[$V];\n"                                                                       \
    "    vstore$V(a, 0, x);\n"                                                                     \
    "    vstore$V(b, 0, y);\n"                                                                     \
    "    for (int k = 0; k < $V; k++) {\n"                                                         \
    "        x[k] = fmod(x[k], y[k]);\n"                                                           \
    "    }\n"                                                                                      \
    "    return vload$V(0, x);\n"                                                                  \
    "}\n"

#define KF_EW_FMOD64(name) "static inline $T " name "$C($T a, $T b) {\n" KF_EW_EACH_FMOD

// Quotients below 2^22 are off by one at the most, and what FMA leaves of a is exact then; where it
// is not from 0 to below b, or no number, each lane by itself.
#define KF_EW_FMOD32(name)                                                                         \
    KF_EW_FMA                                                                                      \
    "static inline $T " name "$C($T a, $T b) {\n"                                                  \
    "    $T d = fabs(b);\n"                                                                        \
    "    $T q = trunc(fabs(a) / d);\n"                                                             \
    "    $T r = FMA(-q, d, fabs(a));\n"                                                            \
    "    r = select(r, r + d, r < ($T)(0));\n"                                                     \
    "    $M done = (q < ($T)(FAST_FMA ? 4194304.0f : -1.0f)) & (r >= ($T)(0)) & (r < d);\n"        \
    "    if (all(done)) {\n"                                                                       \
    "        return copysign(r, a);\n"                                                             \
    "    }\n" KF_EW_EACH_FMOD

// As Python's %, with mod_ before it.
#define KF_EW_REM                                                                                  \
    "static inline $T rem_$C($T a, $T b) {\n"                                                      \
    "    $T r = mod_$C(a, b);\n"                                                                   \
    "    $T s = select(r, r + b, ((r < ($T)(0)) ^ (b < ($T)(0))) & (r == r));\n"                   \
    "    return select(s, copysign(($T)(0), b), r == ($T)(0));\n"                                  \
    "}\n"

// A division by 0 or of the smallest by -1 would trap: those lanes are divided by 1 and replaced.
/// The n-th helper function; NULL past the last.
static inline const kf_ew_helper *kf_ew_helper_at(uint32_t index)
{
    static const kf_ew_helper helpers[] = {
        {"sin_", KF_EW_FLOAT32, KF_EW_TURN("sin", KF_EW_TURN_NEAR, "0", "x")},
        {"cos_", KF_EW_FLOAT32, KF_EW_TURN("cos", KF_EW_TURN_NEAR, "1", "($T)(1)")},
        {"sin_", KF_EW_FLOAT64, KF_EW_EACH("sin_", "sin")},
        {"cos_", KF_EW_FLOAT64, KF_EW_EACH("cos_", "cos")},
        {"tan_", KF_EW_FLOAT32, KF_EW_TURN("tan", KF_EW_TAN_NEAR, "0", "x")},
        {"tan_", KF_EW_FLOAT64, KF_EW_EACH("tan_", "tan")},
        // x P(x^2) / Q(x^2), a minimax fit of our own to erf(x) / x on [0, 3.92]: 7 ulp; above it
        // erf is 1 to the last bit.
        {"erf_", KF_EW_FLOAT32,
         KF_EW_FMA
         "static inline $T erf_$C($T x) {\n"
         "    $T z = x * x;\n"
         "    $T p = FMA(($T)(2.0500854e-6f), z, ($T)(2.848806e-4f));\n"
         "    p = FMA(p, z, ($T)(3.7655602e-3f));\n"
         "    p = FMA(p, z, ($T)(5.2748542e-2f));\n"
         "    p = FMA(p, z, ($T)(1.9040526e-1f));\n"
         "    p = FMA(p, z, ($T)(1.1283791f));\n"
         "    $T q = FMA(($T)(3.8091584e-5f), z, ($T)(1.1625203e-3f));\n"
         "    q = FMA(q, z, ($T)(1.4969103e-2f));\n"
         "    q = FMA(q, z, ($T)(1.1410860e-1f));\n"
         "    q = FMA(q, z, ($T)(5.0207502e-1f));\n"
         "    q = FMA(q, z, ($T)(1));\n"
         "    $T y = x * (p / q);\n"
         "    return select(y, copysign(($T)(1), x), (fabs(x) > 3.92f) | (fabs(y) > 1));\n"
         "}\n"},
        {"erf_", KF_EW_FLOAT64,
         "static inline $T erf_$C($T x) {\n"
         "    return select(erf(x), copysign(($T)(1), x), fabs(x) > 6);\n"
         "}\n"},
        // e to the power of x, which is at most 0 or NaN: what is left of x after the nearest
        // multiple of ln 2, taken off in two parts (Cody and Waite 1980), and a minimax polynomial
        // of our own for it: 1.1 ulp, 1.4 where FMA is not fast. `z` ends in the multiple, which
        // becomes the exponent; 2^64 too large, so that the product with the coefficients, which
        // are as much smaller, rounds once where the result is subnormal.
        {"decay_", KF_EW_FLOAT32,
         KF_EW_FMA "static inline $T decay_$C($T x) {\n"
                   "    x = select(x, ($T)(-104.0f), x < -104.0f);\n"
                   "    $T z = FMA(x, ($T)(1.44269504f), ($T)(12583103.0f));\n"
                   "    $T k = z - 12583103.0f;\n"
                   "    $T r = FMA(k, ($T)(-0.693359375f), x);\n"
                   "    r = FMA(k, ($T)(2.1219444e-4f), r);\n"
                   "    const float small = 0x1p-64f;\n"
                   "    $T p = FMA(($T)(1.38436072e-3f * small), r, ($T)(8.3741955e-3f * small));\n"
                   "    p = FMA(p, r, ($T)(4.16680053e-2f * small));\n"
                   "    p = FMA(p, r, ($T)(0.166664302f * small));\n"
                   "    p = FMA(p, r, ($T)(0.49999994f * small));\n"
                   "    p = FMA(p, r, ($T)(small));\n"
                   "    p = FMA(p, r, ($T)(small));\n"
                   "    return p * as_$T(as_$U(z) << 23);\n"
                   "}\n"},
        // sum + e to the power of x, where x is as above and the sum, in the end, at least 1: a
        // degree and a part of ln 2 less, which are beyond the last bit of such a sum.
        {"plus_exp_", KF_EW_FLOAT32,
         KF_EW_FMA "static inline $T plus_exp_$C($T sum, $T x) {\n"
                   "    x = select(x, ($T)(-104.0f), x < -104.0f);\n"
                   "    $T z = FMA(x, ($T)(1.44269504f), ($T)(12583103.0f));\n"
                   "    $T r = FMA(z - 12583103.0f, ($T)(-0.693147182f), x);\n"
                   "    const float small = 0x1p-64f;\n"
                   "    $T p = FMA(($T)(8.3125029e-3f * small), r, ($T)(4.1890334e-2f * small));\n"
                   "    p = FMA(p, r, ($T)(0.16667116f * small));\n"
                   "    p = FMA(p, r, ($T)(0.49999231f * small));\n"
                   "    p = FMA(p, r, ($T)(small));\n"
                   "    p = FMA(p, r, ($T)(small));\n"
                   "    return FMA(p, as_$T(as_$U(z) << 23), sum);\n"
                   "}\n"},
        {"div_", KF_EW_SIGNED,
         "static inline $T div_$C($T a, $T b) {\n"
         "    $M zero = b == ($T)(0), minus = b == ($T)(-1);\n"
         "    $T q = a / select(b, ($T)(1), zero | minus);\n"
         "    q = select(q, as_$T(($U)(0) - as_$U(a)), minus);\n"
         "    return select(q, ($T)(0), zero);\n"
         "}\n"},
        {"div_", KF_EW_UNSIGNED,
         "static inline $T div_$C($T a, $T b) {\n"
         "    $M zero = b == ($T)(0);\n"
         "    return select(a / select(b, ($T)(1), zero), ($T)(0), zero);\n"
         "}\n"},
        {"fmod_", KF_EW_FLOAT32, KF_EW_FMOD32("fmod_")},
        {"fmod_", KF_EW_FLOAT64, KF_EW_FMOD64("fmod_")},
        {"fmod_", KF_EW_SIGNED,
         "static inline $T fmod_$C($T a, $T b) {\n"
         "    return a % select(b, ($T)(1), (b == ($T)(0)) | (b == ($T)(-1)));\n"
         "}\n"},
        {"fmod_", KF_EW_UNSIGNED,
         "static inline $T fmod_$C($T a, $T b) {\n"
         "    return a % select(b, ($T)(1), b == ($T)(0));\n"
         "}\n"},
        {"rem_", KF_EW_SIGNED,
         "static inline $T rem_$C($T a, $T b) {\n"
         "    $T r = a % select(b, ($T)(1), (b == ($T)(0)) | (b == ($T)(-1)));\n"
         "    return select(r, r + b, (r != ($T)(0)) & ((r ^ b) < ($T)(0)));\n"
         "}\n"},
        {"rem_", KF_EW_FLOAT32, KF_EW_FMOD32("mod_") KF_EW_REM},
        {"rem_", KF_EW_FLOAT64, KF_EW_FMOD64("mod_") KF_EW_REM},
        {"pow_", KF_EW_FLOATS, // PoCL's pow of double vectors fails at the ends of the range
         "static inline $T pow_$C($T a, $T b) {\n"
         "    if (sizeof($C) < 8) {\n"
         "        return pow(a, b);\n"
         "    }\n"
         "    $C x[$V], y[$V];\n"
         "    vstore$V(a, 0, x);\n"
         "    vstore$V(b, 0, y);\n"
         "    for (int k = 0; k < $V; k++) {\n"
         "        x[k] = pow(x[k], y[k]);\n"
         "    }\n"
         "    return vload$V(0, x);\n"
         "}\n"},
        {"pow_", KF_EW_SIGNED,
         "static inline $T pow_$C($T a, $T b) {\n"
         "    $C x[$V], n[$V];\n"
         "    vstore$V(a, 0, x);\n"
         "    vstore$V(b, 0, n);\n"
         "    for (int k = 0; k < $V; k++) {\n"
         "        if (n[k] < 0) {\n"
         "            x[k] = x[k] == 1 ? 1 : x[k] == -1 ? ((n[k] & 1) != 0 ? -1 : 1) : 0;\n"
         "            continue;\n"
         "        }\n"
         "        ulong r = 1, s = (ulong)x[k];\n"
         "        for (ulong e = (ulong)n[k]; e != 0; e >>= 1) {\n"
         "            r *= (e & 1) != 0 ? s : 1;\n"
         "            s *= s;\n"
         "        }\n"
         "        x[k] = ($C)r;\n"
         "    }\n"
         "    return vload$V(0, x);\n"
         "}\n"},
        {"pow_", KF_EW_UNSIGNED,
         "static inline $T pow_$C($T a, $T b) {\n"
         "    $C x[$V], n[$V];\n"
         "    vstore$V(a, 0, x);\n"
         "    vstore$V(b, 0, n);\n"
         "    for (int k = 0; k < $V; k++) {\n"
         "        ulong r = 1, s = x[k];\n"
         "        for (ulong e = n[k]; e != 0; e >>= 1) {\n"
         "            r *= (e & 1) != 0 ? s : 1;\n"
         "            s *= s;\n"
         "        }\n"
         "        x[k] = ($C)r;\n"
         "    }\n"
         "    return vload$V(0, x);\n"
         "}\n"},
        {"shl_", KF_EW_SIGNED | KF_EW_UNSIGNED,
         "static inline $T shl_$C($T a, $T b) {\n"
         "    $M valid = as_$U(b) < ($U)($W);\n"
         "    $U r = as_$U(a) << as_$U(select(($T)(0), b, valid));\n"
         "    return select(($T)(0), as_$T(r), valid);\n"
         "}\n"},
        {"shr_", KF_EW_SIGNED | KF_EW_UNSIGNED,
         "static inline $T shr_$C($T a, $T b) {\n"
         "    $M valid = as_$U(b) < ($U)($W);\n"
         "    return select(($T)(0), a >> select(($T)(0), b, valid), valid);\n"
         "}\n"},
        {"clamp_", KF_EW_FLOATS,
         "static inline $T clamp_$C($T x, $T low, $T high) {\n"
         "    x = select(x, low, (x < low) | (low != low));\n"
         "    return select(x, high, (high < x) | (high != high));\n"
         "}\n"},
        {"decode_", KF_EW_FLOAT32, KF_EW_DECODE_SMALL("23", "127", "0x400000")},
        {"decode_", KF_EW_FLOAT64, KF_EW_DECODE_SMALL("52", "1023", "896l << 52")},
        {"encode_", KF_EW_FLOAT32,
         KF_EW_ENCODE_SMALL("23", "127", "0x7fffffff", "0x400000", "0x800000")},
        {"encode_", KF_EW_FLOAT64,
         KF_EW_ENCODE_SMALL("52", "1023", "0x7fffffffffffffffl", "896l << 52", "897l << 52")},
    };
    return index < sizeof(helpers) / sizeof(helpers[0]) ? &helpers[index] : NULL;
}

/// Is the helper for elements of this type?
static inline uint32_t kf_ew_helper_serves(const kf_ew_helper *helper, const kf_dtype *dtype)
{
    uint32_t kinds = 1u << dtype->kind;
    if (dtype->kind == KF_KIND_FLOAT) {
        kinds |= kf_ew_compute_bytes(dtype) == 4 ? KF_EW_FLOAT32 : KF_EW_FLOAT64;
    }
    return (helper->kinds & kinds) != 0;
}

#ifdef __cplusplus
}
#endif
#endif
