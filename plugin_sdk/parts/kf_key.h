// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_key.h: the key of a program: a hash of its text and its launches. Part of kf_chain.h.
#ifndef KILN_PLUGIN_SDK_KF_KEY_H
#define KILN_PLUGIN_SDK_KF_KEY_H

#include "kf_text.h"
#include "kiln_fuser.h"

#ifdef __cplusplus
extern "C" {
#endif

/// FNV-1a; start with two different `hash` for a key of 16 bytes.
static inline uint64_t kf_hash(uint64_t hash, const void *bytes, uint64_t len)
{
    uint64_t i;
    for (i = 0; i < len; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3ull;
    }
    return hash;
}

static inline uint64_t kf_hash_expr(uint64_t hash, kf_expr expr)
{
    return kf_hash(hash, expr.ins, expr.n * sizeof(kf_ins));
}

/// A launch by its sizes and bindings; with the source's text and the length, all that a key needs.
static inline uint64_t kf_hash_launch(uint64_t hash, const kf_launch *launch)
{
    uint32_t i;
    for (i = 0; i < launch->n_args; i++) {
        hash = kf_hash(hash, &launch->args[i], offsetof(kf_karg, value));
        hash = kf_hash_expr(hash, launch->args[i].value);
    }
    for (i = 0; i < launch->dims; i++) {
        hash = kf_hash_expr(hash, launch->global[i]);
        hash = kf_hash_expr(hash, launch->local[i]);
    }
    return kf_hash(hash, launch->kernel.ptr, launch->kernel.len);
}

/// The key of a program of one launch: its text, its launch and the length of its block.
static inline void kf_launch_key(uint8_t key[16], const kf_text *code, const kf_launch *launch,
                                 uint32_t len)
{
    uint64_t halves[2] = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull};
    uint32_t i;
    for (i = 0; i < 2; i++) {
        halves[i] = kf_hash(halves[i], code->ptr, code->len);
        halves[i] = kf_hash_launch(halves[i], launch);
        halves[i] = kf_hash(halves[i], &len, sizeof(len));
    }
    memcpy(key, halves, sizeof(halves));
}

#ifdef __cplusplus
}
#endif
#endif
