// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_elementwise.h: the meaning of every elementwise operator as OpenCL C (kf_elementwise.def), for
// any fuser with an elementwise prologue or epilogue. The operators' own kernels are built from the
// same texts, so fused results equal theirs bit for bit.
//   kf_ew_row_of         the row of an operator: operands, cost, expression for each kind of dtype
//   kf_ew_template       writes an expression or helper for a dtype and a vector width
//   kf_ew_helper_at      functions that expressions call; kf_ew_cast writes one conversion
//   kf_ew_ahead_macro    a processor's prefetch
//   kf_ew_loads, _stores functions for memory of one dtype: one, load, part; keep, put
// Everything works on vectors of V elements, the ends of rows included: there the lanes past the
// end read as 1. sin, cos, tan and fmod of f64 go lane by lane: at vector width PoCL's depend on
// neighbours.
//
// Templates: $C element type of the computation, $T $U $M its vector, the unsigned and the mask
// vector, $V elements, $W bits, $X name of the element type, $S type in memory; $a $b $c operands,
// $s $t scalars, $0 $1 zero and one.
#ifndef KILN_PLUGIN_SDK_KF_ELEMENTWISE_H
#define KILN_PLUGIN_SDK_KF_ELEMENTWISE_H

#include "kf_util.h"

#ifdef __cplusplus
extern "C" {
#endif

// kf_ew_row.result
#define KF_EW_SAME 1u // the dtype of input 0
#define KF_EW_MASK 2u // bool; the expression is a comparison's -1 or 0
#define KF_EW_CAST 3u // the attribute dtype

typedef struct kf_ew_row { ///< of kf_elementwise.def
    uint32_t op; // KF_OP_*
    uint32_t cost; // in additions
    uint32_t inputs;
    uint32_t scalars;
    uint32_t result; // KF_EW_*
    uint32_t reserved;
    const char *name;
    const char *text[4]; // by kind: float, signed, unsigned, bool
} kf_ew_row;

/// The rows one after the other; NULL past the last.
static inline const kf_ew_row *kf_ew_row_at(uint32_t index)
{
    static const kf_ew_row rows[] = {
#define EW(op, cost, inputs, scalars, result, f, s, u, b)                                          \
    {KF_OP_##op, cost, inputs, scalars, KF_EW_##result, 0, #op, {f, s, u, b}},
#include "kf_elementwise.def"
#undef EW
    };
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

/// The row of an operator, NULL when it is not elementwise.
static inline const kf_ew_row *kf_ew_row_of(uint32_t op)
{
    const kf_ew_row *row;
    uint32_t i;
    for (i = 0; (row = kf_ew_row_at(i)) != NULL; i++) {
        if (row->op == op) {
            return row;
        }
    }
    return NULL;
}

/// The expression of a row for an element type; NULL when there is none.
static inline const char *kf_ew_text(const kf_ew_row *row, uint32_t dtype)
{
    uint32_t kind = kf_dtype_of(dtype).kind;
    return kind == KF_KIND_FLOAT  ? row->text[0]
           : kind == KF_KIND_INT  ? row->text[1]
           : kind == KF_KIND_UINT ? row->text[2]
           : kind == KF_KIND_BOOL ? row->text[3]
                                  : NULL;
}

// ---- functions that expressions call ----

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
    };
    return index < sizeof(helpers) / sizeof(helpers[0]) ? &helpers[index] : NULL;
}

static inline uint32_t kf_ew_compute_bytes(const kf_dtype *dtype)
{
    return dtype->kind == KF_KIND_FLOAT && dtype->bytes == 2 ? 4 : dtype->bytes;
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

// ---- templates ----

static inline const char *kf_ew_mask(uint32_t bytes)
{
    return bytes == 1 ? "char" : bytes == 2 ? "short" : bytes == 4 ? "int" : "long";
}

static inline void kf_ew_template(kf_text *text, const char *template_text, uint32_t dtype_id,
                                  uint32_t width, const char *const *operands)
{
    kf_dtype dtype = kf_dtype_of(dtype_id);
    const char *mask = kf_ew_mask(kf_ew_compute_bytes(&dtype));
    for (const char *p = template_text; *p != '\0'; p++) {
        if (*p != '$') {
            kf_text_bytes(text, p, 1);
            continue;
        }
        p++;
        switch (*p) {
        case 'a':
        case 'b':
        case 'c':
            kf_text_add(text, operands[*p - 'a']);
            break;
        case 's':
        case 't':
            kf_text_add(text, operands[3 + *p - 's']);
            break;
        case '0':
        case '1':
            kf_text_addf(text, "(%s%u)(%c)", dtype.compute, width, *p);
            break;
        case 'C':
            kf_text_add(text, dtype.compute);
            break;
        case 'T':
            kf_text_addf(text, "%s%u", dtype.compute, width);
            break;
        case 'U':
            kf_text_addf(text, "%s%u", dtype.unsign, width);
            break;
        case 'M':
            kf_text_addf(text, "%s%u", mask, width);
            break;
        case 'V':
            kf_text_addf(text, "%u", width);
            break;
        case 'W':
            kf_text_addf(text, "%u", kf_ew_compute_bytes(&dtype) * 8);
            break;
        case 'X':
            kf_text_add(text, dtype.name);
            break;
        case 'S':
            kf_text_add(text, dtype.storage);
            break;
        default:
            text->failed = 1;
            return;
        }
    }
}

// ---- casts ----

static inline void kf_ew_float_to_int(kf_text *text, const kf_dtype *from, const kf_dtype *to,
                                      uint32_t width)
{
    uint32_t bits = to->bytes * 8, is_signed = to->kind == KF_KIND_INT;
    double above = 1;
    const char *suffix = from->bytes == 8 ? "" : "f";
    const char *mask = kf_ew_mask(to->bytes);
    uint64_t high = ~0ull >> (64 - bits + is_signed);
    for (uint32_t i = is_signed; i < bits; i++) {
        above *= 2;
    }
    kf_text_addf(text, "    const %s%u above = %.1f%s, below = %.1f%s;\n", from->compute, width,
                 above, suffix, is_signed ? -above : 0.0, suffix);
    kf_text_addf(text,
                 "    %s%u y = convert_%s%u_rtz(select(x, (%s%u)(0), (x >= above) | "
                 "(x < below) | (x != x)));\n",
                 to->compute, width, to->compute, width, from->compute, width);
    kf_text_addf(text, "    y = select(y, (%s%u)(0x%llx), convert_%s%u(x >= above));\n",
                 to->compute, width, (unsigned long long)high, mask, width);
    kf_text_addf(text, "    return select(y, (%s%u)(0x%llx), convert_%s%u(x < below));\n",
                 to->compute, width, is_signed ? (unsigned long long)high + 1 : 0ull, mask, width);
}

static inline void kf_ew_cast(kf_text *text, uint32_t from_id, uint32_t to_id, uint32_t width)
{
    kf_dtype from = kf_dtype_of(from_id), to = kf_dtype_of(to_id);
    kf_text_addf(text, "static inline %s%u cast_%s_%s(%s%u x) {\n", to.compute, width, from.name,
                 to.name, from.compute, width);
    if (to.kind == KF_KIND_BOOL) {
        kf_text_addf(text,
                     "    return as_uchar%u(convert_char%u(x != (%s%u)(0))) & (uchar%u)(1);\n",
                     width, width, from.compute, width, width);
    } else if (from.kind == KF_KIND_FLOAT && to.kind != KF_KIND_FLOAT) {
        kf_ew_float_to_int(text, &from, &to, width);
    } else {
        kf_text_addf(text, "    return convert_%s%u(x);\n", to.compute, width);
    }
    kf_text_add(text, "}\n");
}

// ---- memory ----

// Memory is read and written as ushorts: PoCL's vload_half takes a vector's alignment for granted.
static inline void kf_ew_f16_functions(kf_text *text, uint32_t width)
{
    kf_ew_template(text,
                   "static inline float$V round_f16(float$V x) {\n"
                   "    ushort bits[$V];\n"
                   "    vstore_half$V_rte(x, 0, (__private half *)bits);\n"
                   "    return vload_half$V(0, (const __private half *)bits);\n"
                   "}\n"
                   "static inline float$V values_f16(ushort$V bits) {\n"
                   "    return vload_half$V(0, (const __private half *)&bits);\n"
                   "}\n"
                   "static inline ushort$V bits_f16(float$V x) {\n"
                   "    ushort$V bits;\n"
                   "    vstore_half$V_rte(x, 0, (__private half *)&bits);\n"
                   "    return bits;\n"
                   "}\n"
                   "static inline float value_f16(ushort bits) {\n"
                   "    return vload_half(0, (const __private half *)&bits);\n"
                   "}\n"
                   // PoCL's store of one element loses what a NaN carries; of several it keeps it.
                   "static inline ushort bit_f16(float x) {\n"
                   "    uint u = as_uint(x);\n"
                   "    ushort bits;\n"
                   "    vstore_half_rte(x, 0, (__private half *)&bits);\n"
                   "    return x != x ? (ushort)(((u >> 16) & 0x8000u) | 0x7e00u | ((u >> 13) & "
                   "0x3ffu)) : bits;\n"
                   "}\n",
                   KF_DTYPE_F16, width, NULL);
}

static inline void kf_ew_bf16_functions(kf_text *text, uint32_t width)
{
    kf_ew_template(text,
                   "static inline ushort$V bits_bf16(float$V x) {\n"
                   "    uint$V u = as_uint$V(x);\n"
                   "    uint$V r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;\n"
                   "    return convert_ushort$V(select(r, (u >> 16) | 0x40u, x != x) & 0xffffu);\n"
                   "}\n"
                   "static inline float value_bf16(ushort bits) {\n"
                   "    return as_float((uint)bits << 16);\n"
                   "}\n"
                   "static inline float$V values_bf16(ushort$V bits) {\n"
                   "    return as_float$V(convert_uint$V(bits) << 16);\n"
                   "}\n"
                   "static inline float$V round_bf16(float$V x) {\n"
                   "    return values_bf16(bits_bf16(x));\n"
                   "}\n",
                   KF_DTYPE_BF16, width, NULL);
}

/// VLOAD_x(p), VSTORE_x(v, p): a vector as it is stored. PoCL puts those of its library together
/// from pieces of 16 bytes; so there it is a vector that is only as aligned as its elements.
static inline void kf_ew_vectors(kf_text *text, uint32_t dtype, uint32_t width)
{
    kf_dtype all = kf_dtype_of(dtype);
    const char *type = dtype == KF_DTYPE_F16 ? "ushort" : all.storage;
    kf_text_addf(text,
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "typedef %s%u near_%s __attribute__((aligned(sizeof(%s))));\n"
                 "#define VLOAD_%s(p) (*(__global const near_%s *)(p))\n"
                 "#define VSTORE_%s(v, p) (*(__global near_%s *)(p) = (v))\n"
                 "#else\n"
                 "#define VLOAD_%s(p) vload%u(0, p)\n"
                 "#define VSTORE_%s(v, p) vstore%u(v, 0, p)\n"
                 "#endif\n",
                 type, width, all.name, type, all.name, all.name, all.name, all.name, all.name,
                 width, all.name, width);
}

// one: an element; load, keep: a vector; part, put: the first `count` lanes, `stride` apart
static inline void kf_ew_loads(kf_text *text, uint32_t dtype, uint32_t width)
{
    const char *one = "*p", *load = "VLOAD_$X(p)";
    if (dtype == KF_DTYPE_F16) {
        one = "vload_half(0, p)";
        load = "values_f16(VLOAD_$X((__global const ushort *)p))";
    } else if (dtype == KF_DTYPE_BF16) {
        one = "value_bf16(*p)";
        load = "values_bf16(VLOAD_$X(p))";
    } else if (dtype == KF_DTYPE_BOOL) {
        one = "*p != 0";
        load = "as_uchar$V(VLOAD_$X(p) != (uchar$V)(0)) & (uchar$V)(1)";
    }
    kf_ew_template(text, "static inline $C one_$X(__global const $S *p) {\n    return ", dtype,
                   width, NULL);
    kf_ew_template(text, one, dtype, width, NULL);
    kf_ew_template(text, ";\n}\nstatic inline $T load_$X(__global const $S *p) {\n    return ",
                   dtype, width, NULL);
    kf_ew_template(text, load, dtype, width, NULL);
    kf_ew_template(text,
                   ";\n}\n"
                   "static inline $T part_$X(__global const $S *p, idx stride, int count) {\n"
                   "    $C e[$V];\n"
                   "    for (int k = 0; k < $V; k++) {\n"
                   "        e[k] = k < count ? one_$X(p + k * stride) : ($C)1;\n"
                   "    }\n"
                   "    return vload$V(0, e);\n"
                   "}\n",
                   dtype, width, NULL);
}

static inline void kf_ew_stores(kf_text *text, uint32_t dtype, uint32_t width, uint32_t stream)
{
    const char *bits = "x", *put = "p[k] = e[k];";
    kf_ew_template(text, "static inline void keep_$X(__global $S *p, $T x, int stream) {\n", dtype,
                   width, NULL);
    if (dtype == KF_DTYPE_F16) {
        put = "((__global ushort *)p)[k] = bit_f16(e[k]);";
        kf_ew_template(text, "    VSTORE_$X(bits_f16(x), (__global ushort *)p);\n", dtype, width,
                       NULL);
    } else {
        bits = dtype == KF_DTYPE_BF16 ? "bits_bf16(x)" : "x";
        if (stream) {
            kf_ew_template(text,
                           "#ifdef STREAM\n"
                           "    if (stream) {\n"
                           "        __builtin_nontemporal_store(",
                           dtype, width, NULL);
            kf_text_add(text, bits);
            kf_ew_template(text, ", (__global $S$V *)p);\n        return;\n    }\n#endif\n", dtype,
                           width, NULL);
        }
        kf_ew_template(text, "    VSTORE_$X(", dtype, width, NULL);
        kf_text_addf(text, "%s, p);\n", bits);
    }
    kf_ew_template(text,
                   "}\n"
                   "static inline void put_$X(__global $S *p, $T x, int count) {\n",
                   dtype, width, NULL);
    kf_ew_template(text, dtype == KF_DTYPE_BF16 ? "    ushort e[$V];\n" : "    $C e[$V];\n", dtype,
                   width, NULL);
    kf_text_addf(text, "    vstore%u(%s, 0, e);\n    for (int k = 0; k < count; k++) {\n        ",
                 width, bits);
    kf_text_addf(text, "%s\n    }\n}\n", put);
}

/// AHEAD(p): asks for the cache line at p, which may lie past the end of its buffer; AHEAD_2(p):
/// into the second level cache only. PoCL alone is known to hand the processor's own instruction
/// on; others refuse it only when a kernel is made.
static inline void kf_ew_ahead_macro(kf_text *text)
{
    kf_text_add(text, "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                      "#define AHEAD(p) __builtin_prefetch((const __private void *)(size_t)(p))\n"
                      "#define AHEAD_2(p) "
                      "__builtin_prefetch((const __private void *)(size_t)(p), 0, 2)\n"
                      "#else\n"
                      "#define AHEAD(p)\n"
                      "#define AHEAD_2(p)\n"
                      "#endif\n");
}

/// In a loop over i: asks for the vector of p<pointer>[i] that is read some turns later. Arithmetic
/// fills the queue in which loads would wait for memory, and a processor's own prefetcher begins
/// anew on each page.
static inline void kf_ew_ahead(kf_text *text, uint32_t pointer, uint32_t bytes, uint32_t width)
{
    enum { LINE = 64, DISTANCE = 2048 };
    uint32_t at;
    for (at = 0; at < width; at += LINE / bytes) {
        kf_text_addf(text, "        AHEAD(p%u + i + %u);\n", pointer, DISTANCE / bytes + at);
    }
}

#ifdef __cplusplus
}
#endif
#endif
