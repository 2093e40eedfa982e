// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_INTERNAL_H
#define KILNI_BUNDLE_INTERNAL_H

/// An open bundle, and what its files share. All of it is used under the device's lock, save what
/// stays as it was opened.

#include "bundle_target.h"
#include "rt_device.h"

typedef struct bundle_ready { ///< a program on the device
    kiln_program program; ///< of one source
    kiln_program_source source;
    kiln_program_launch *launches; ///< a kernel each
    kiln_built *built;
    kiln_blob code; ///< of `source`
} bundle_ready;

typedef struct bundle_memory { ///< of a set of shapes; index of a buffer
    kiln_buffer **buffers; ///< those of a run are changed for it
    bool *owned; ///< else it is another set's too, or the run's
    uint32_t *only; ///< the output that alone has this buffer from its start on; UINT32_MAX: none
    kiln_launch_arg *args; ///< room for the longest launch
} bundle_memory;

struct kiln_bundle {
    kiln_device *device; ///< held
    const kiln_env *env;
    kiln_arena arena;
    bundle_folder folder;
    bundle_manifest manifest;
    bundle_target *targets;
    bundle_ready *ready; ///< of each program
    bundle_memory *memory; ///< of each set of shapes
    kiln_bundle_info info;
};

/// Reads the manifest and the lists of binaries, and checks all files that are there. The folder's
/// path and arena are set. Without `constants` their file is left to who reads it.
kiln_status kilni_bundle_files_read(bundle_folder *folder, bundle_manifest *out_manifest,
                                    bundle_target **out_targets, bool constants, kiln_error *err);

/// Memory for a buffer, in its bank where the device has banks. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_alloc(kiln_bundle *bundle, const bundle_buffer *buffer,
                               kiln_buffer **out_buffer, kiln_error *err);

/// Gives back what the device has of a bundle.
void kilni_bundle_free_memory(kiln_bundle *bundle);
void kilni_bundle_free_programs(kiln_bundle *bundle);
kiln_status kilni_bundle_make_memory(kiln_bundle *bundle, bool poison, kiln_error *err);
kiln_status kilni_bundle_make_programs(kiln_bundle *bundle, const kiln_bundle_options *options,
                                       kiln_error *err);

#endif
