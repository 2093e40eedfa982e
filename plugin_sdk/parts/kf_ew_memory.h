// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_ew_memory.h: OpenCL C that reads and writes memory of one dtype by vectors. Part of
// kf_elementwise.h.
#ifndef KILN_PLUGIN_SDK_KF_EW_MEMORY_H
#define KILN_PLUGIN_SDK_KF_EW_MEMORY_H

#include "kf_ew_text.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/// VLOAD_x(p), VSTORE_x(v, p): a vector as it is stored. Where the kernel's text defines NEAR_x
/// before, each lies at a multiple of its size, and is one access: GPUs take the elements of others
/// one by one. PoCL puts those of its library together from pieces of 16 bytes; so there it is a
/// vector that is only as aligned as its elements.
static inline void kf_ew_vectors(kf_text *text, uint32_t dtype, uint32_t width)
{
    kf_dtype all = kf_dtype_of(dtype);
    const char *type = dtype == KF_DTYPE_F16 ? "ushort" : all.storage;
    kf_text_addf(text,
                 "#ifdef NEAR_%s\n"
                 "#define VLOAD_%s(p) (*(__global const %s%u *)(p))\n"
                 "#define VSTORE_%s(v, p) (*(__global %s%u *)(p) = (v))\n"
                 "#elif defined(POCL_DEVICE_ADDRESS_BITS)\n"
                 "typedef %s%u near_%s __attribute__((aligned(sizeof(%s))));\n"
                 "#define VLOAD_%s(p) (*(__global const near_%s *)(p))\n"
                 "#define VSTORE_%s(v, p) (*(__global near_%s *)(p) = (v))\n"
                 "#else\n"
                 "#define VLOAD_%s(p) vload%u(0, p)\n"
                 "#define VSTORE_%s(v, p) vstore%u(v, 0, p)\n"
                 "#endif\n",
                 all.name, all.name, type, width, all.name, type, width, type, width, all.name,
                 type, all.name, all.name, all.name, all.name, all.name, width, all.name, width);
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
