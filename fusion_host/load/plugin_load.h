// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_PLUGIN_LOAD_H
#define KILN_FUSION_HOST_PLUGIN_LOAD_H

/// One candidate file: its manifest, its scan, and loading it; and the registry of them.

#include "fuse_plugin.h"

typedef struct kilni_fuse_manifest { ///< the note, verified and terminated
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t min_host_minor;
    uint32_t opset_max;
    uint32_t sanitizer;
    uint64_t cpu_features;
    uint64_t flags;
    char id[64];
    char version[32];
    char build[32];
} kilni_fuse_manifest;

/// Reads the manifest and the symbol table from the bytes of a shared object, trusting none of
/// them.
kiln_status kilni_fuse_elf_manifest(const void *bytes, size_t length,
                                    kilni_fuse_manifest *out_manifest, kiln_error *err);
/// One exported function, no import that a plugin with these manifest flags must not have, no
/// executable stack, no text relocation.
kiln_status kilni_fuse_elf_check(const void *bytes, size_t length, uint64_t flags, kiln_error *err);

/// Runs the helper on a file. False: it could not be run. `out_fault` is empty when all is well.
bool kilni_fuse_scan(const kiln_env *env, const char *helper, const char *path, uint32_t limit_ms,
                     char *out_fault, size_t capacity);

/// Does the order of work of one candidate, up to the smoke test; what became of it is in
/// plugin->info, and the reason for a refusal also in `err`. The plugins of the registry were
/// before it, for duplicate ids.
kiln_status kilni_fuse_plugin_load(kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                   const char *path, kilni_fuse_trust trust, kiln_error *err);
void kilni_fuse_plugin_destroy(const kiln_env *env, kilni_fuse_plugin *plugin);

/// A registry that gives each plugin to `smoke_test` before it is taken.
kiln_status kilni_fuse_registry_open(const kiln_env *env, const kiln_fuse_registry_options *options,
                                     kilni_fuse_smoke_test_fn smoke_test,
                                     kiln_fuse_registry **out_registry, kiln_error *err);

#endif
