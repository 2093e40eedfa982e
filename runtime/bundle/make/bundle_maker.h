// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_MAKER_H
#define KILNI_BUNDLE_MAKER_H

/// A bundle that is put together: its manifest so far, and the constants that it refers to.

#include "bundle_manifest.h"
#include "ir_backend.h"

enum { BUNDLE_PROGRAMS = 4096, BUNDLE_SHAPES = 64, BUNDLE_KERNELS = 64 };

typedef struct bundle_chunk { ///< bytes in the file of constants
    kiln_hash128 hash;
    uint64_t offset;
    uint64_t length;
    void *data; ///< kiln_alloc
    struct bundle_chunk *next;
} bundle_chunk;

/// What was called last. Each works on what the ones before have left.
typedef enum bundle_stage {
    BUNDLE_STAGE_CREATED = 0,
    BUNDLE_STAGE_ADD = 1,
    BUNDLE_STAGE_SINGLE = 2,
    BUNDLE_STAGE_MERGE = 3,
    BUNDLE_STAGE_ORDER = 4,
    BUNDLE_STAGE_BANKS = 5,
    BUNDLE_STAGE_WRITE = 6
} bundle_stage;

struct kiln_bundle_maker {
    const kiln_env *env;
    bundle_stage stage;
    kiln_arena arena;
    bundle_manifest manifest; ///< lists have the room above
    bundle_chunk *chunks; ///< in the order of their offsets
    bundle_chunk **last_chunk;
    uint64_t constant_bytes;
};

/// Goes on to `stage`. Errors: FAILED_PRECONDITION where it is over.
kiln_status kilni_bundle_stage(kiln_bundle_maker *maker, bundle_stage stage, kiln_error *err);

/// Finds bytes among the constants, or adds them; `take_data` is the maker's from now on. Errors:
/// RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_chunk_add(kiln_bundle_maker *maker, void *take_data, uint64_t length,
                                   uint64_t *out_offset, kiln_error *err);

/// Finds a program by its text and options, or adds it. Errors: RESOURCE_EXHAUSTED, OUT_OF_RANGE.
kiln_status kilni_bundle_program_add(kiln_bundle_maker *maker, const bundle_program *program,
                                     const char *label, uint32_t *out_index, kiln_error *err);

/// The hash of source and options. NULL: no memory.
char *kilni_bundle_program_key(kiln_bundle_maker *maker, const bundle_program *program);
kiln_status kilni_bundle_kernel_add(kiln_bundle_maker *maker, uint32_t program, const char *name,
                                    uint32_t n_args, uint32_t *out_index, kiln_error *err);

/// Notes that a step uses a buffer; UINT32_MAX is none.
void kilni_bundle_use(bundle_shapes *shapes, uint32_t buffer, uint32_t step);

/// Asks the device's compiler for the parameters of all kernels; those that it does not tell stay
/// unknown. Errors: RESOURCE_EXHAUSTED, UNIMPLEMENTED without OpenCL.
kiln_status kilni_bundle_parameters_ask(kiln_bundle_maker *maker, kiln_device *device,
                                        kiln_error *err);

/// Orders the steps of a set of shapes for few changes of program; parameters that are not known
/// may be written through. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_bundle_order(kiln_bundle_maker *maker, bundle_shapes *shapes, kiln_error *err);

/// Places buffers in 1 to BUNDLE_BANKS banks, and connects the kernels' arguments, whose parameters
/// are known. Errors, after which there are no banks: RESOURCE_EXHAUSTED, UNIMPLEMENTED for a
/// kernel whose parameters are not.
kiln_status kilni_bundle_banks(kiln_bundle_maker *maker, uint32_t n_banks, kiln_error *err);

/// Whether a device has what one launch wants. Errors: UNIMPLEMENTED, with the kernel and the size.
kiln_status kilni_bundle_launch_fits(const kiln_device_info *device, const char *kernel,
                                     const bundle_step *step, const bundle_wants *wants,
                                     kiln_error *err);

/// What a text uses of the features that the backend's device has. Errors: UNIMPLEMENTED, in words,
/// where the device that it plans for lacks one of them.
kiln_status kilni_bundle_program_fits(kiln_backend *backend, const bundle_program *program,
                                      const char *label, uint32_t *out_features, kiln_error *err);

/// Errors: UNIMPLEMENTED for two sets of steps that differ in more than where scratch lies.
kiln_status kilni_bundle_check_same(const bundle_manifest *manifest, const bundle_shapes *a,
                                    const bundle_shapes *b, kiln_error *err);

#endif
