// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_ew_text.h: expressions and casts of elementwise operators as OpenCL C, from templates. Part of
// kf_elementwise.h, which says what a template's letters mean.
#ifndef KILN_PLUGIN_SDK_KF_EW_TEXT_H
#define KILN_PLUGIN_SDK_KF_EW_TEXT_H

#include "kf_util.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline uint32_t kf_ew_compute_bytes(const kf_dtype *dtype)
{
    return dtype->kind == KF_KIND_FLOAT && dtype->bytes == 2 ? 4 : dtype->bytes;
}

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

// The vector x of type $T as one of type $R, whose masks are $N: the last lines of a function. What
// an integer cannot hold becomes the nearest that it can, $B to $A, and NaN 0; $H, one above $A,
// and $L, which is $B, are exact as floats, where $A may not be.
#define KF_EW_CAST_TO_BOOL "    return as_$R(convert_$N(x != ($T)(0))) & ($R)(1);\n"
#define KF_EW_CAST_FLOAT_TO_INT                                                                    \
    "    const $T above = $H, below = $L;\n"                                                       \
    "    $R y = convert_$R_rtz(select(x, ($T)(0), (x >= above) | (x < below) | (x != x)));\n"      \
    "    y = select(y, ($R)($A), convert_$N(x >= above));\n"                                       \
    "    return select(y, ($R)($B), convert_$N(x < below));\n"
#define KF_EW_CAST_PLAIN "    return convert_$R(x);\n"

static inline void kf_ew_cast_limit(kf_text *text, char letter, const kf_dtype *from,
                                    const kf_dtype *to)
{
    uint32_t bits = to->bytes * 8, is_signed = to->kind == KF_KIND_INT;
    uint64_t highest = ~0ull >> (64 - bits + is_signed);
    const char *suffix = from->bytes == 8 ? "" : "f";
    double above = 1;
    for (uint32_t i = is_signed; i < bits; i++) {
        above *= 2;
    }
    if (letter == 'H' || letter == 'L') {
        kf_text_addf(text, "%.1f%s", letter == 'H' ? above : is_signed ? -above : 0.0, suffix);
    } else {
        kf_text_addf(text, "0x%llx",
                     (unsigned long long)(letter == 'A' ? highest
                                          : is_signed   ? highest + 1
                                                        : 0));
    }
}

static inline void kf_ew_cast(kf_text *text, uint32_t from_id, uint32_t to_id, uint32_t width)
{
    kf_dtype from = kf_dtype_of(from_id), to = kf_dtype_of(to_id);
    const char *p = to.kind == KF_KIND_BOOL ? KF_EW_CAST_TO_BOOL
                    : from.kind == KF_KIND_FLOAT && to.kind != KF_KIND_FLOAT
                        ? KF_EW_CAST_FLOAT_TO_INT
                        : KF_EW_CAST_PLAIN;
    kf_text_addf(text, "static inline %s%u cast_%s_%s(%s%u x) {\n", to.compute, width, from.name,
                 to.name, from.compute, width);
    for (; *p != '\0'; p++) {
        if (*p != '$') {
            kf_text_bytes(text, p, 1);
            continue;
        }
        p++;
        if (*p == 'T' || *p == 'R' || *p == 'N') {
            kf_text_addf(text, "%s%u",
                         *p == 'T'   ? from.compute
                         : *p == 'R' ? to.compute
                                     : kf_ew_mask(kf_ew_compute_bytes(&to)),
                         width);
        } else {
            kf_ew_cast_limit(text, *p, &from, &to);
        }
    }
    kf_text_add(text, "}\n");
}

#ifdef __cplusplus
}
#endif
#endif
