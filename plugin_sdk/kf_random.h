// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_random.h: random numbers inside a fused kernel, the same as those of the operators alone: a
// function of (seed, stream, position, element), by Philox4x32-10 (Salmon, Moraes, Dror, Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Nothing is read; a block of the
// generator serves four elements.
//   kf_random_served     is this operator drawn here, for this dtype?
//   kf_random_functions  the text of the functions that expressions call, in one of two forms:
//                        small work-items draw the vector that they need, which begins at a
//                        multiple of 4; loops draw 64 elements at once into a `random_ahead` of
//                        theirs (one for each draw, its `from` begun as RANDOM_NONE) and take
//                        vectors out of it that begin anywhere
//   random_bits(...)     32 bits for each element, of random_bernoulli (of every dtype) and
//                        random_uniform (of f32)
//   random_normals(...)  of mean 0 and deviation 1, of random_normal (of f32)
//   KF_RANDOM_ROUNDS, _SPREAD, _POLYNOMIALS  the steps themselves; the operators' own kernels are
//                        built from them, too
#ifndef KILN_PLUGIN_SDK_KF_RANDOM_H
#define KILN_PLUGIN_SDK_KF_RANDOM_H

#include "kf_elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_RANDOM_BERNOULLI 1u // bits of `kinds`
#define KF_RANDOM_UNIFORM 2u
#define KF_RANDOM_NORMAL 4u
#define KF_RANDOM_AHEAD 64u // elements, in the form for loops

/// The kind of an operator as a bit; 0 when it is not drawn here.
static inline uint32_t kf_random_served(uint32_t op, uint32_t dtype)
{
    return op == KF_OP_RANDOM_BERNOULLI                          ? KF_RANDOM_BERNOULLI
           : op == KF_OP_RANDOM_UNIFORM && dtype == KF_DTYPE_F32 ? KF_RANDOM_UNIFORM
           : op == KF_OP_RANDOM_NORMAL && dtype == KF_DTYPE_F32  ? KF_RANDOM_NORMAL
                                                                 : 0;
}

/// "uint4", or "uint" for one.
static inline void kf_random_type(kf_text *text, const char *element, uint32_t lanes)
{
    kf_text_add(text, element);
    if (lanes > 1) {
        kf_text_addf(text, "%u", lanes);
    }
}

/// Replaces $U $L $F $I by the vectors of one lane for each block: uint, ulong, float, int.
static inline void kf_random_template(kf_text *text, const char *pattern, uint32_t lanes)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '$') {
            kf_text_bytes(text, pattern, 1);
            continue;
        }
        pattern++;
        kf_random_type(text,
                       *pattern == 'U'   ? "uint"
                       : *pattern == 'L' ? "ulong"
                       : *pattern == 'F' ? "float"
                                         : "int",
                       lanes);
    }
}

/// Writes the elements `first` to `first + width - 1` of what lies block by block in w[0] to w[3].
static inline void kf_random_turn(kf_text *text, const char *element, uint32_t first,
                                  uint32_t width, uint32_t lanes)
{
    uint32_t i;
    kf_text_addf(text, "(%s%u)(", element, width);
    for (i = first; i < first + width; i++) {
        kf_text_addf(text, "%sw[%u]", i == first ? "" : ", ", i % 4);
        if (lanes > 1) {
            kf_text_addf(text, ".s%x", i / 4);
        }
    }
    kf_text_add(text, ")");
}

// The generator's ten rounds on the words of counters; a and b are the key.
#define KF_RANDOM_ROUNDS                                                                           \
    "static inline void random_rounds($U *w, uint a, uint b) {\n"                                  \
    "    for (int round = 0; round < 10; round++) {\n"                                             \
    "        const $U high = mul_hi(w[0], ($U)(0xD2511F53u));\n"                                   \
    "        const $U low = w[0] * 0xD2511F53u;\n"                                                 \
    "        w[0] = mul_hi(w[2], ($U)(0xCD9E8D57u)) ^ w[1] ^ a;\n"                                 \
    "        w[1] = w[2] * 0xCD9E8D57u;\n"                                                         \
    "        w[2] = high ^ w[3] ^ b;\n"                                                            \
    "        w[3] = low;\n"                                                                        \
    "        a += 0x9E3779B9u;\n"                                                                  \
    "        b += 0xBB67AE85u;\n"                                                                  \
    "    }\n"                                                                                      \
    "}\n"

static inline void kf_random_words(kf_text *text, uint32_t lanes)
{
    uint32_t i;
    kf_random_template(text, KF_RANDOM_ROUNDS, lanes);
    kf_random_template(text,
                       "static inline void random_words($U *w, long i, ulong seed, uint stream, "
                       "ulong position) {\n"
                       "    const $L number = (ulong)i / 4",
                       lanes);
    if (lanes > 1) {
        kf_random_template(text, " + ($L)(0", lanes);
        for (i = 1; i < lanes; i++) {
            kf_text_addf(text, ", %u", i);
        }
        kf_text_add(text, ")");
    }
    kf_random_template(text,
                       ";\n"
                       "    w[0] = convert_$U(number);\n"
                       "    w[1] = (convert_$U(number >> 32) & 0xFFFFu) | "
                       "((uint)(position >> 32) << 16);\n"
                       "    w[2] = ($U)((uint)position);\n"
                       "    w[3] = ($U)(stream);\n"
                       "    random_rounds(w, (uint)seed, (uint)(seed >> 32));\n"
                       "}\n",
                       lanes);
}

// Uniform numbers from `low` to below `low + range`, which rounding may reach: the highest bits of
// a word, as many as the type has digits; `unit` is two to minus their number.
#define KF_RANDOM_SPREAD                                                                           \
    "static inline $F random_spread($U w, uint digits, float unit, $F low, $F range) {\n"          \
    "    return low + convert_$F(w >> (32u - digits)) * unit * range;\n"                           \
    "}\n"

// Box and Muller: sqrt(-2 log u) and the two waves of an angle that is exact up to its last factor.
// Polynomials of Cephes' logf, sinf and cosf (Moshier).
#define KF_RANDOM_POLYNOMIALS                                                                      \
    "static inline $F random_radius($U w) {\n"                                                     \
    "    const $F u = (convert_$F(w >> 9) + 0.5f) * 0x1p-23f;\n"                                   \
    "    const $I e = (as_$I(u) - 0x3f3504f3) >> 23;\n"                                            \
    "    const $F x = as_$F(as_$I(u) - (e << 23)) - 1.0f;\n"                                       \
    "    const $F scale = convert_$F(e);\n"                                                        \
    "    const $F z = x * x;\n"                                                                    \
    "    $F y = x * 7.0376836292e-2f - 1.1514610310e-1f;\n"                                        \
    "    y = y * x + 1.1676998740e-1f;\n"                                                          \
    "    y = y * x - 1.2420140846e-1f;\n"                                                          \
    "    y = y * x + 1.4249322787e-1f;\n"                                                          \
    "    y = y * x - 1.6668057665e-1f;\n"                                                          \
    "    y = y * x + 2.0000714765e-1f;\n"                                                          \
    "    y = y * x - 2.4999993993e-1f;\n"                                                          \
    "    y = y * x + 3.3333331174e-1f;\n"                                                          \
    "    y = y * x * z;\n"                                                                         \
    "    y += scale * -2.12194440e-4f;\n"                                                          \
    "    y -= 0.5f * z;\n"                                                                         \
    "    return sqrt(-2.0f * (scale * 0.693359375f + (x + y)));\n"                                 \
    "}\n"                                                                                          \
    "static inline void random_waves($U w, $F *cosine, $F *sine) {\n"                              \
    "    const $U turn = w >> 6;\n"                                                                \
    "    const $U nearest = (turn + (1u << 23)) >> 24;\n"                                          \
    "    const $F rest = convert_$F(as_$I(turn - (nearest << 24))) + 0.5f;\n"                      \
    "    const $F x = rest * (0x1p-25f * 3.14159265358979f);\n"                                    \
    "    const $F z = x * x;\n"                                                                    \
    "    $F s = z * -1.9515295891e-4f + 8.3321608736e-3f;\n"                                       \
    "    s = (s * z - 1.6666654611e-1f) * z * x + x;\n"                                            \
    "    $F c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;\n"                              \
    "    c = (c * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;\n"                         \
    "    const $I odd = as_$I((nearest & 1u) != 0u);\n"                                            \
    "    *cosine = as_$F(as_$U(select(c, s, odd)) ^ (((nearest + 1u) & 2u) << 30));\n"             \
    "    *sine = as_$F(as_$U(select(s, c, odd)) ^ ((nearest & 2u) << 30));\n"                      \
    "}\n"

/// One function that gives a vector, `made` from the words of each block by `make`.
static inline void kf_random_draw(kf_text *text, const char *name, const char *element,
                                  const char *make, uint32_t width, uint32_t ahead)
{
    static const char key[] = "long i, ulong seed, uint stream, ulong position";
    uint32_t lanes = ahead ? KF_RANDOM_AHEAD / 4 : width / 4, i;
    if (ahead) {
        kf_text_addf(text, "static void ahead_%s(random_ahead *a, %s) {\n", name, key);
    } else {
        kf_text_addf(text, "static inline %s%u random_%s(%s) {\n", element, width, name, key);
    }
    kf_random_template(text, "    $U w[4];\n    random_words(w, i, seed, stream, position);\n",
                       lanes);
    kf_random_template(text, make, lanes);
    if (!ahead) {
        kf_text_addf(text, "    return as_%s%u(", element, width);
        kf_random_turn(text, "uint", 0, width, lanes);
        kf_text_add(text, ");\n}\n");
        return;
    }
    kf_text_add(text, "    a->from = i;\n");
    for (i = 0; i < KF_RANDOM_AHEAD; i += 16) {
        kf_text_add(text, "    vstore16(");
        kf_random_turn(text, "uint", i, 16, lanes);
        kf_text_addf(text, ", 0, a->words + %u);\n", i);
    }
    kf_text_addf(text,
                 "}\n"
                 "static inline %s%u random_%s(random_ahead *a, %s) {\n"
                 "    if (i < a->from || i + %u > a->from + %u) {\n"
                 "        ahead_%s(a, i & ~3L, seed, stream, position);\n"
                 "    }\n"
                 "    return as_%s%u(vload%u(0, a->words + (i - a->from)));\n"
                 "}\n",
                 element, width, name, key, width, KF_RANDOM_AHEAD, name, element, width, width);
}

/// Writes the functions for vectors of `width` elements, at most 32. `kinds`: KF_RANDOM_*; `ahead`:
/// for loops.
static inline void kf_random_functions(kf_text *text, uint32_t kinds, uint32_t width,
                                       uint32_t ahead)
{
    uint32_t lanes = ahead ? KF_RANDOM_AHEAD / 4 : width / 4;
    if (kinds == 0) {
        return;
    }
    if (ahead) {
        kf_text_addf(text,
                     "#define RANDOM_NONE (-%u)\n"
                     "typedef struct {\n"
                     "    long from;\n"
                     "    uint words[%u];\n"
                     "} random_ahead;\n",
                     KF_RANDOM_AHEAD, KF_RANDOM_AHEAD);
    }
    kf_random_words(text, lanes);
    if ((kinds & (KF_RANDOM_BERNOULLI | KF_RANDOM_UNIFORM)) != 0) {
        kf_random_draw(text, "bits", "uint", "", width, ahead);
    }
    if ((kinds & KF_RANDOM_UNIFORM) != 0) {
        kf_random_template(text,
                           KF_RANDOM_SPREAD
                           "static inline $F random_between($U w, $F low, $F high) {\n"
                           "    const $F z = random_spread(w, 24u, 0x1p-24f, low, high - low);\n"
                           "    return select(z, low, z >= high);\n"
                           "}\n",
                           width);
    }
    if ((kinds & KF_RANDOM_NORMAL) != 0) {
        kf_random_template(text, KF_RANDOM_POLYNOMIALS, lanes);
        kf_random_draw(text, "normals", "float",
                       "    for (int pair = 0; pair < 4; pair += 2) {\n"
                       "        const $F r = random_radius(w[pair]);\n"
                       "        $F cosine, sine;\n"
                       "        random_waves(w[pair + 1], &cosine, &sine);\n"
                       "        w[pair] = as_$U(r * cosine);\n"
                       "        w[pair + 1] = as_$U(r * sine);\n"
                       "    }\n",
                       width, ahead);
    }
}

/// The chance of 1 as a threshold for 32 random bits, up to 2^32.
static inline uint64_t kf_random_threshold(double probability)
{
    return probability > 0 ? (uint64_t)((probability < 1 ? probability : 1) * 4294967296.0 + 0.5)
                           : 0;
}

#ifdef __cplusplus
}
#endif
#endif
