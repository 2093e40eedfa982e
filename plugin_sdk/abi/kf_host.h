// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_host.h: what the host does for a plugin: reports, memory, extensions. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_HOST_H
#define KILN_PLUGIN_SDK_KF_HOST_H

#include "kf_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_SEVERITY_DEBUG 0u
#define KF_SEVERITY_INFO 1u // declines; what `kiln explain` shows
#define KF_SEVERITY_WARNING 2u
#define KF_SEVERITY_ERROR 3u
#define KF_SEVERITY_PLUGIN_MISBEHAVING 4u
#define KF_SEVERITY_HOST_MISBEHAVING 5u

// Diagnostic codes. The upper 16 bits are the owner: 1 is this ABI, 0x8000 and above are free for
// plugins. Numbers are permanent: `kiln explain`, logs and tests match them.
#define KF_CODE_UNKNOWN_OP 0x00010001u // the operator is not one of this fuser's
#define KF_CODE_NOT_UNDERSTOOD 0x00010002u // a newer version, flag or critical attribute
#define KF_CODE_DTYPE 0x00010003u // dtype not handled, or not on this device
#define KF_CODE_SHAPE 0x00010004u // shapes do not fit the block
#define KF_CODE_LAYOUT 0x00010005u // strides, offset or alignment not handled
#define KF_CODE_LIMIT 0x00010006u // too many tensors, arguments, instructions
#define KF_CODE_HAZARD 0x00010007u // aliasing or ordering forbids it
#define KF_CODE_COST 0x00010008u // possible but slower
#define KF_CODE_DEVICE 0x00010009u // the device lacks something
#define KF_CODE_DATA 0x0001000Au // needs a value that is only known at run time
#define KF_CODE_NOMEM 0x0001000Bu
#define KF_CODE_INTERNAL 0x0001000Cu

typedef struct kf_diag { // borrowed for the call, the host copies
    uint32_t struct_size;
    uint32_t severity; // KF_SEVERITY_*
    uint32_t code; // KF_CODE_*
    uint32_t op_index; // position in the block, KF_NONE = the whole block
    kf_str message;
} kf_diag;
KF_ASSERT(sizeof(kf_diag) == 32);

typedef struct kf_host kf_host;
struct kf_host { // lives longer than every fuser created with it
    uint32_t struct_size;
    uint32_t abi_minor;
    void *ctx;
    kf_str name;
    kf_str version;
    void (*report)(const kf_host *host, const kf_diag *diag); // [any]
    void *(*alloc)(const kf_host *host, uint64_t size, uint64_t align); // [any] optional
    void (*free)(const kf_host *host, void *ptr); // [any]
    uint32_t (*cancelled)(const kf_host *host); // [any] in long work
    const void *(*extension)(const kf_host *host, const char *id); // [any]
};
KF_ASSERT(sizeof(kf_host) == 88);

/// A place in the host's cache for what a plugin wants to know again in another process, as what it
/// was told by kf_plugin.fuser_measured. It may change estimates and nothing else. It belongs to
/// the plugin's file (another build begins anew) and the device with its driver, and may be gone at
/// any time. `host->extension(host, KF_STORE_EXTENSION)`; NULL: there is none, because the host has
/// no cache, or nothing measured may decide (option `deterministic`).
#define KF_STORE_EXTENSION "kiln.store/1"
#define KF_STORE_MAX_KEY 256u
#define KF_STORE_MAX_VALUE 65536u

typedef struct kf_store {
    uint32_t struct_size;
    uint32_t reserved;
    // [any] Copies what fits into `out` and gives the whole length. KF_DECLINED: nothing is there.
    kf_status (*get)(const kf_host *host, kf_blob key, void *out, uint64_t capacity,
                     uint64_t *out_length);
    // [any] Replaces what is there. KF_DECLINED: it could not be kept.
    kf_status (*put)(const kf_host *host, kf_blob key, kf_blob value);
} kf_store;
KF_ASSERT(sizeof(kf_store) == 24);

#ifdef __cplusplus
}
#endif
#endif
