// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of a product's text on NVIDIA's tensor cores that its number of columns decides: sums in
// registers, wgmma, and the way of the sums to local memory. Instructions of sm_90a are comments
// that begin `//@` (plugins/nvidia_tensor/README.md).
#include "convolution_nhwc.h"

enum { WGMMAS = 4, WGMMA_TERMS = 16 }; // of a step of 64 terms

static void names(kf_text *text, uint32_t sums, const char *before, const char *after)
{
    for (uint32_t i = 0; i < sums; i++) {
        kf_text_addf(text, "%s%s%u%s", i == 0 ? "" : ", ", before, i, after);
    }
}

/// MULTIPLY(a, b, adds): the products of a step of 64 rows; `adds`: to what the sums are.
static void multiply_text(kf_text *text, uint32_t columns, const char *dtype)
{
    uint32_t sums = columns / 2;
    kf_text_add(text, "#define MULTIPLY(a, b, adds) do { \\\n");
    for (uint32_t i = 0; i < WGMMAS; i++) {
        kf_text_addf(text,
                     "    asm volatile(\"//@ { .reg .pred p; setp.ne.b32 p, %%%u, 0; "
                     "wgmma.mma_async.sync.aligned.m64n%uk%u.f32.%s.%s {",
                     sums + 2, columns, (unsigned)WGMMA_TERMS, dtype, dtype);
        names(text, sums, "%", "");
        kf_text_addf(text, "}, %%%u, %%%u, p, 1, 1, 0, 0; }\" : ", sums, sums + 1);
        names(text, sums, "\"+f\"(d", ")");
        kf_text_addf(text, " : \"l\"((a) + %u), \"l\"((b) + %u), \"r\"(%s) : \"memory\"); \\\n",
                     2 * i, 2 * i, i == 0 ? "adds" : "1");
    }
    kf_text_add(text, "    } while (0)\n");
}

void cv_nhwc_tensor_text(kf_text *text, uint32_t columns, const char *dtype)
{
    uint32_t sums = columns / 2;
    kf_text_add(text, "#define SUMS ");
    names(text, sums, "d", " = 0");
    kf_text_add(text, "\n");
    multiply_text(text, columns, dtype);
    kf_text_add(text, "#define AWAIT(left) asm volatile(\"//@ wgmma.wait_group.sync.aligned \" "
                      "left \";\" : ");
    names(text, sums, "\"+f\"(d", ")");
    kf_text_add(text, " :: \"memory\")\n#define SETTLE(own, line) do { \\\n");
    for (uint32_t i = 0; i < sums; i += 4) {
        kf_text_addf(text,
                     "    *(__local float2 *)((own) + %u) = (float2)(d%u, d%u); \\\n"
                     "    *(__local float2 *)((own) + 8 * (line) + %u) = (float2)(d%u, d%u); \\\n",
                     2 * i, i, i + 1, 2 * i, i + 2, i + 3);
    }
    kf_text_add(text, "    } while (0)\n");
}
