// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_entry.h: the plugin's table of functions and the one symbol that gives it. Part of
// kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_ENTRY_H
#define KILN_PLUGIN_SDK_KF_ENTRY_H

#include "kf_device.h"
#include "kf_host.h"
#include "kf_op.h"
#include "kf_program.h"
#include "kf_state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kf_fuser kf_fuser; // one per (fuser kind, device)
typedef struct kf_builder kf_builder; // one candidate block
typedef struct kf_opt kf_opt; // a finished block, immutable

/// Lifecycle: query -> init -> fuser_create -> builder_create -> builder_fuse* -> builder_finish ->
/// opt_info, opt_describe -> destroys in any order that keeps parents last -> deinit. builder_fuse
/// after CLOSED is legal and changes nothing. fuse(a) then fuse(b) equals fuse([a, b]). A clone is
/// an independent copy. reset equals a fresh builder. finish needs `ready`, does not consume the
/// builder, and covers exactly kf_state.len operations. Destroy functions accept NULL. What opt_*
/// return as views lives until opt_destroy. Whoever creates destroys: no memory crosses.
typedef struct kf_plugin {
    uint32_t struct_size;
    uint32_t abi_minor;
    kf_str id; // reverse domain: "org.example.fast-softmax"
    kf_str version;
    kf_str vendor;
    const kf_str *fuser_ids;
    uint64_t n_fusers;
    kf_status (*init)(void); // [main] counted: may be called once per runtime in the process
    void (*deinit)(void); // [main]
    const void *(*extension)(const char *id); // [any] may be NULL
    // [any] KF_DECLINED: not for this device. KF_E_INVALID: there is no fuser of this index.
    kf_status (*fuser_create)(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out);
    void (*fuser_destroy)(kf_fuser *fuser); // [any]
    kf_status (*builder_create)(const kf_fuser *fuser, kf_builder **out); // [any]
    kf_status (*builder_clone)(const kf_builder *builder, kf_builder **out); // [builder]
    kf_status (*builder_fuse)(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out); // [builder]
    kf_status (*builder_state)(const kf_builder *builder, kf_state *out); // [builder]
    kf_status (*builder_reset)(kf_builder *builder); // [builder]
    kf_status (*builder_finish)(kf_builder *builder, kf_opt **out); // [builder]
    void (*builder_destroy)(kf_builder *builder); // [builder]
    kf_status (*opt_info)(const kf_opt *opt, kf_opt_info *out); // [any]
    kf_status (*opt_describe)(const kf_opt *opt, uint32_t variant, kf_program *out); // [any]
    // A finished block as bytes, for hosts that keep plugins' objects. Kiln keeps programs instead,
    // and calls these in `kiln plugin check` only. Both, or both NULL.
    kf_status (*opt_to_state)(const kf_opt *opt, kf_blob *out); // [any]
    kf_status (*opt_from_state)(const kf_fuser *fuser, kf_blob state, kf_opt **out); // [any]
    void (*opt_destroy)(kf_opt *opt); // [any]
    // [any] may be NULL; since 1.1. What the host has measured of a program of the fuser. It may
    // change estimates from then on, and nothing else: neither what is covered nor any program.
    void (*fuser_measured)(const kf_fuser *fuser, const kf_measured *measured);
} kf_plugin;
KF_ASSERT(sizeof(kf_plugin) == 216);
#define KF_PLUGIN_SIZE_V1_0 208u // the host accepts any struct_size from here up

/// The only exported symbol; the major version is in its name. Pure, may be called twice.
#define KF_QUERY_SYMBOL "kf_plugin_query_v1"
typedef const kf_plugin *(*kf_query_fn)(uint32_t host_abi_minor);
KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor);

#ifdef __cplusplus
}
#endif
#endif
