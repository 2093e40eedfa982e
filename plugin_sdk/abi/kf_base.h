// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_base.h: the version of the fuser ABI, its statuses and strings, and what tells which fields a
// struct has. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_BASE_H
#define KILN_PLUGIN_SDK_KF_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if UINTPTR_MAX != UINT64_MAX
#error "the fuser ABI 1 is for 64-bit machines"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the fuser ABI 1 is for little-endian machines"
#endif

#define KF_ABI_MAJOR 1u
#ifndef KF_ABI_MINOR // an author may pin an older minor, like Py_LIMITED_API
#define KF_ABI_MINOR 1u
#endif
#define KF_SDK_VERSION "1.1"

#if defined(__cplusplus)
#define KF_ASSERT(c) static_assert(c, #c)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define KF_ASSERT(c) _Static_assert(c, #c)
#else
#define KF_CAT2(a, b) a##b
#define KF_CAT(a, b) KF_CAT2(a, b)
#define KF_ASSERT(c) typedef char KF_CAT(kf_assert_, __COUNTER__)[(c) ? 1 : -1]
#endif
#define KF_EXPORT __attribute__((visibility("default")))

/// Does `p` carry field `f` of `T`? Is it there and set?
#define KF_HAS(p, T, f) ((p)->struct_size >= offsetof(T, f) + sizeof(((T *)0)->f))
#define KF_CAN(p, T, f) (KF_HAS(p, T, f) && (p)->f)
#define KF_NONE 0xFFFFFFFFu // "no index" in every 32-bit index of the ABI

typedef int32_t kf_status;
#define KF_OK 0
#define KF_DECLINED 1 // a normal answer, never logged as an error
#define KF_E_INVALID (-1) // the caller broke the contract
#define KF_E_UNSUPPORTED (-2)
#define KF_E_NOMEM (-3)
#define KF_E_VERSION (-4) // a flag or non-zero tail not understood; a stale state blob
#define KF_E_INTERNAL (-5) // a bug of the plugin: a strike
#define KF_E_CANCELLED (-6)

typedef struct kf_str { // frozen
    const char *ptr;
    uint64_t len;
} kf_str;

typedef struct kf_blob { // frozen
    const void *ptr;
    uint64_t len;
} kf_blob;

#define KF_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

/// Copies `src` into a caller-allocated out-struct, never past what the caller has. The caller sets
/// `struct_size` before the call and keeps it.
static inline void kf_out_(void *dst, const void *src, uint32_t dst_size, uint32_t src_size)
{
    uint32_t n = dst_size < src_size ? dst_size : src_size;
    uint32_t i;
    for (i = 4; i < n; i++) {
        ((unsigned char *)dst)[i] = ((const unsigned char *)src)[i];
    }
}
#define KF_OUT(dst, src) kf_out_((dst), (src), (dst)->struct_size, (uint32_t)sizeof(*(src)))

#ifdef __cplusplus
}
#endif
#endif
