// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_manifest.h: what a plugin says of itself before it is loaded: an ELF note. Part of
// kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_MANIFEST_H
#define KILN_PLUGIN_SDK_KF_MANIFEST_H

#include "kf_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_NOTE_SECTION ".note.kiln_fuser"
#define KF_NOTE_NAME "KFU"
#define KF_NOTE_TYPE 1u

// kf_manifest.sanitizer: must equal the host's
#define KF_SANITIZER_NONE 0u
#define KF_SANITIZER_ADDRESS 1u
#define KF_SANITIZER_THREAD 2u
#define KF_SANITIZER_MEMORY 3u

// kf_manifest.cpu_features: instructions that the library's own code needs
#define KF_CPU_X86_AVX (1ull << 0)
#define KF_CPU_X86_AVX2 (1ull << 1)
#define KF_CPU_X86_AVX512F (1ull << 2)
#define KF_CPU_ARM_SVE (1ull << 32)

// kf_manifest.flags
#define KF_MANIFEST_USES_THREADS 1ull
#define KF_MANIFEST_NEEDS_EXEC 2ull // wants the extension that lets a plugin enqueue by itself

typedef struct kf_manifest {
    uint32_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t min_host_minor;
    uint32_t opset_max; // newest operator table that the author has seen
    uint32_t sanitizer; // KF_SANITIZER_*
    uint64_t cpu_features;
    uint64_t flags;
    char id[64]; // NUL-terminated, equal to kf_plugin.id
    char version[32];
    char build[32];
} kf_manifest;
KF_ASSERT(sizeof(kf_manifest) == 168);
#define KF_MANIFEST_SIZE_V1_0 168u // the host accepts any struct_size from here up

typedef struct kf_note {
    uint32_t namesz;
    uint32_t descsz;
    uint32_t type;
    char name[4];
    kf_manifest desc;
} kf_note;
KF_ASSERT(sizeof(kf_note) == 184);

#if defined(__SANITIZE_ADDRESS__)
#define KF_SANITIZER_HERE KF_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define KF_SANITIZER_HERE KF_SANITIZER_THREAD
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_THREAD
#elif __has_feature(memory_sanitizer)
#define KF_SANITIZER_HERE KF_SANITIZER_MEMORY
#endif
#endif
#ifndef KF_SANITIZER_HERE
#define KF_SANITIZER_HERE KF_SANITIZER_NONE
#endif

/// Put it once at file scope of the plugin. `ID` and `VERSION` are string literals.
#define KF_MANIFEST(ID, VERSION, MIN_HOST_MINOR, OPSET_MAX, CPU_FEATURES, FLAGS)                   \
    __attribute__((section(KF_NOTE_SECTION), used, aligned(8))) static const kf_note kf_note_ = {  \
        4,                                                                                         \
        (uint32_t)sizeof(kf_manifest),                                                             \
        KF_NOTE_TYPE,                                                                              \
        {'K', 'F', 'U', 0},                                                                        \
        {(uint32_t)sizeof(kf_manifest), KF_ABI_MAJOR, KF_ABI_MINOR, (MIN_HOST_MINOR), (OPSET_MAX), \
         KF_SANITIZER_HERE, (CPU_FEATURES), (FLAGS), ID, VERSION, "sdk " KF_SDK_VERSION}}

#ifdef __cplusplus
}
#endif
#endif
