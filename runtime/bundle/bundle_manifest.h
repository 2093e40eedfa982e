// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_BUNDLE_MANIFEST_H
#define KILNI_BUNDLE_MANIFEST_H

/// A bundle as data: what manifest.json says. Everything lies in one arena.

#include "bundle_files.h"
#include "kiln_bundle.h"

#define BUNDLE_MANIFEST "manifest.json"
#define BUNDLE_CONSTANTS "constants.safetensors"

enum { BUNDLE_VERSION = 1, BUNDLE_MOST = 1 << 20, BUNDLE_BANKS = 32 };

typedef enum bundle_buffer_kind {
    BUNDLE_BUFFER_INPUT = 1,
    BUNDLE_BUFFER_CONSTANT = 2,
    BUNDLE_BUFFER_SCRATCH = 3 ///< also of outputs
} bundle_buffer_kind;

typedef struct bundle_buffer {
    bundle_buffer_kind kind;
    uint64_t bytes;
    uint64_t offset; ///< of a CONSTANT, in the file of constants
    uint32_t bank; ///< of the device's memory, below the manifest's `n_banks`; 0 where that is 0
    uint32_t first; ///< first and last step that uses it; UINT32_MAX: none
    uint32_t last;
} bundle_buffer;

typedef struct bundle_arg {
    enum { BUNDLE_ARG_BUFFER = 1, BUNDLE_ARG_BYTES = 2, BUNDLE_ARG_LOCAL = 3 } kind;
    uint32_t buffer; ///< UINT32_MAX: a null pointer
    uint64_t length; ///< BYTES, LOCAL
    const unsigned char *bytes;
} bundle_arg;

typedef struct bundle_step {
    bool is_copy;
    uint32_t program; ///< of a launch
    uint32_t kernel; ///< of the program
    uint32_t n_dims;
    uint64_t global[3];
    uint64_t local[3]; ///< local[0] == 0: the driver's choice
    bundle_arg *args;
    uint32_t n_args;
    uint32_t source; ///< of a copy
    uint32_t target;
    uint64_t source_offset;
    uint64_t target_offset;
    uint64_t bytes;
} bundle_step;

typedef struct bundle_value {
    kiln_bundle_value shown;
    uint32_t buffer;
    uint64_t offset; ///< in it
} bundle_value;

typedef struct bundle_shapes { ///< a set of shapes, and what runs for it
    bundle_value *inputs;
    bundle_value *outputs;
    bundle_buffer *buffers;
    uint32_t n_buffers;
    bundle_step *steps;
    uint32_t n_steps;
} bundle_shapes;

typedef struct bundle_parameter {
    const char *name; ///< NULL: unknown
    bool read_only; ///< false: the kernel may write through it
} bundle_parameter;

typedef struct bundle_kernel {
    const char *name;
    uint32_t n_args;
    bundle_parameter *parameters; ///< while it is made; NULL: unknown
} bundle_kernel;

typedef struct bundle_program {
    const char *file; ///< of its source
    const char *options;
    bool exact; ///< with the device's options for exact arithmetic
    const char *key; ///< hash of source and options, in hex: what a binary was made of
    bundle_kernel *kernels;
    uint32_t n_kernels;
    const char *text; ///< while it is made
    const char *connections; ///< while it is made: banks for v++; NULL: there are none
} bundle_program;

typedef struct bundle_wants { ///< of a device
    uint64_t work_group; ///< work-items of the largest
    uint64_t buffer_bytes; ///< of the largest
    uint64_t memory_bytes;
    uint64_t local_bytes;
    uint64_t parameter_bytes; ///< arguments of a kernel
    uint32_t features; ///< KILN_FEATURE_*, of those below
} bundle_wants;

typedef struct bundle_feature { ///< that a device has or lacks
    const char *name; ///< among facts and wants
    const char *what; ///< in words
    uint32_t feature; ///< KILN_FEATURE_*
    bool may_lack; ///< older facts do not have it: no
} bundle_feature;

typedef struct bundle_manifest {
    const char *device; ///< for which it was planned
    const char *driver;
    bundle_wants wants;
    bundle_program *programs;
    uint32_t n_programs;
    uint32_t n_banks; ///< of memory that buffers are dealt out to; 0: no bank is named
    uint32_t n_inputs;
    uint32_t n_outputs;
    bundle_shapes *shapes;
    uint32_t n_shapes;
    uint64_t constants_start; ///< in the file, of the bytes that offsets count from
} bundle_manifest;

/// Reads and checks a manifest: every number in it is in its range. Errors: DATA_LOSS.
kiln_status kilni_bundle_manifest_read(kiln_arena *arena, const char *text, size_t length,
                                       bundle_manifest *out_manifest, kiln_error *err);
void kilni_bundle_manifest_write(const bundle_manifest *manifest, kiln_string *out);

/// All features that have a name, in the order of facts.
const bundle_feature *kilni_bundle_features(size_t *out_count);

/// The first of the features that a bundle wants and a device lacks; NULL: there is none.
const bundle_feature *kilni_bundle_lacks(const bundle_wants *wants, const kiln_device_info *device);

/// Changes of program from launch to launch: what an FPGA pays with a bitstream for each.
uint32_t kilni_bundle_reprograms(const bundle_shapes *shapes);

/// The bytes that the tensor has, 0 for a dtype whose elements are no whole bytes.
uint64_t kilni_bundle_value_bytes(const kiln_bundle_value *value);

#endif
