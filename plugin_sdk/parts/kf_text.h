// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_text.h: a string builder, for OpenCL C and for names. Part of kf_util.h.
#ifndef KILN_PLUGIN_SDK_KF_TEXT_H
#define KILN_PLUGIN_SDK_KF_TEXT_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KF_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define KF_PRINTF(f, a)
#endif

/// A growing string. A failed allocation sets `failed` and makes everything after it do nothing, so
/// only the end needs a check. Zero-initialise; kf_text_free gives the memory back.
typedef struct kf_text {
    char *ptr;
    uint64_t len;
    uint64_t cap;
    uint32_t failed;
    uint32_t reserved;
} kf_text;

static inline void kf_text_free(kf_text *text)
{
    free(text->ptr);
    memset(text, 0, sizeof(*text));
}

static inline uint32_t kf_text_reserve(kf_text *text, uint64_t extra)
{
    uint64_t need = text->len + extra + 1;
    if (text->failed) {
        return 0;
    }
    if (need > text->cap) {
        uint64_t cap = text->cap * 2 > need ? text->cap * 2 : need + 256;
        char *grown = (char *)realloc(text->ptr, (size_t)cap);
        if (grown == NULL) {
            text->failed = 1;
            return 0;
        }
        text->ptr = grown;
        text->cap = cap;
    }
    return 1;
}

static inline void kf_text_bytes(kf_text *text, const char *bytes, uint64_t len)
{
    if (kf_text_reserve(text, len)) {
        memcpy(text->ptr + text->len, bytes, (size_t)len);
        text->len += len;
        text->ptr[text->len] = '\0';
    }
}

static inline void kf_text_add(kf_text *text, const char *string)
{
    kf_text_bytes(text, string, strlen(string));
}

static inline void kf_text_addf(kf_text *text, const char *format, ...) KF_PRINTF(2, 3);
static inline void kf_text_addf(kf_text *text, const char *format, ...)
{
    va_list args, again;
    int n;
    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        text->failed = 1;
    } else if (kf_text_reserve(text, (uint64_t)n)) {
        vsnprintf(text->ptr + text->len, (size_t)n + 1, format, again);
        text->len += (uint64_t)n;
    }
    va_end(again);
}

// ---- OpenCL C ----

/// The first lines of every source: no contraction, and double where it is used.
static inline void kf_cl_prelude(kf_text *text, uint32_t uses_f64)
{
    kf_text_add(text, "#pragma OPENCL FP_CONTRACT OFF\n");
    if (uses_f64) {
        kf_text_add(text, "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                          "#endif\n");
    }
}

#ifdef __cplusplus
}
#endif
#endif
