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

#ifdef __cplusplus
}
#endif
#endif
