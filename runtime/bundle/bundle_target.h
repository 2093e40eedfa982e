// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_TARGET_H
#define KILNI_BUNDLE_TARGET_H

/// Binaries of a bundle: a folder below bin/ for each kind of device, with target.json and HASHES
/// of its own.

#include "bundle_manifest.h"

#define BUNDLE_TARGET "target.json"
#define BUNDLE_BINARIES "bin"

enum { BUNDLE_WHY_ROOM = 128 };

typedef struct bundle_target {
    bundle_folder folder;
    const char *name; ///< of the folder, below bin/
    const char *device;
    const char *driver; ///< "": any
    const char **files; ///< of each program; NULL: none
    const char **keys; ///< what each was made of
    struct bundle_target *next;
} bundle_target;

/// Reads what lies below bin/, in the order of its names, and checks all of it. Errors: DATA_LOSS.
kiln_status kilni_bundle_targets_read(const bundle_folder *folder, const bundle_manifest *manifest,
                                      bundle_target **out_targets, kiln_error *err);

/// The target that has a binary of a program for a device; NULL: none, and `why` says what there is
/// instead, "" for nothing.
const bundle_target *kilni_bundle_target_find(const bundle_target *targets,
                                              const bundle_manifest *manifest, uint32_t program,
                                              const kiln_device_info *device,
                                              char why[BUNDLE_WHY_ROOM]);

typedef struct bundle_target_file { ///< a binary to be written
    const char *name;
    const void *bytes;
    size_t length;
} bundle_target_file;

/// Writes binaries into the folder of the device below bin/, in place of those that are there: a
/// file for each program, or none where its name is NULL.
kiln_status kilni_bundle_target_write(const bundle_folder *folder, const bundle_manifest *manifest,
                                      const char *device, const char *driver,
                                      const bundle_target_file *files, kiln_error *err);

#endif
