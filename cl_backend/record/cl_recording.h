// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CL_RECORDING_H
#define KILN_CL_RECORDING_H

/// What a device enqueued, as data: for bundles. Only a backend that was opened with the option
/// `compiler` as `record` can tell; it keeps the source of every program that it makes, passes
/// every buffer to kernels as one argument, and has no sub-buffers.
///
/// Unless a function says otherwise: it is called under the backend's lock and borrows its
/// arguments.

#include "ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_cl_recorded_program { ///< as the compiler got it
    const char *text; ///< with all that stands before it; terminated
    size_t length;
    const char *options; ///< without those for exact arithmetic, which depend on the device
    const char *label; ///< for people
    bool exact; ///< had these options
} kiln_cl_recorded_program;

typedef struct kiln_cl_recorded_buffer {
    kiln_buffer *buffer; ///< valid while nothing frees it
    uint64_t bytes;
    bool fresh; ///< given out since the recording began: nothing that matters was in it
} kiln_cl_recorded_buffer;

typedef struct kiln_cl_recorded_arg {
    enum { KILN_CL_ARG_BUFFER = 1, KILN_CL_ARG_BYTES = 2, KILN_CL_ARG_LOCAL = 3 } kind;
    uint32_t buffer; ///< BUFFER: its number; UINT32_MAX: a null pointer
    size_t bytes; ///< BYTES, LOCAL
    size_t at; ///< BYTES: place in the recording's bytes
} kiln_cl_recorded_arg;

typedef struct kiln_cl_recorded_step {
    enum { KILN_CL_STEP_LAUNCH = 1, KILN_CL_STEP_COPY = 2, KILN_CL_STEP_WRITE = 3 } kind;
    // LAUNCH
    uint32_t program;
    const char *kernel;
    uint32_t n_dims;
    size_t global[3];
    size_t local[3]; ///< local[0] == 0: the driver's choice
    uint32_t first_arg; ///< in the recording's arguments
    uint32_t n_args;
    // COPY, WRITE
    uint32_t source; ///< COPY: number of a buffer
    uint32_t target; ///< number of a buffer
    size_t source_offset; ///< WRITE: place in the recording's bytes
    size_t target_offset;
    size_t bytes;
} kiln_cl_recorded_step;

typedef struct kiln_cl_recording { ///< owned by its maker; texts are the backend's, while it lives
    const kiln_cl_recorded_program *programs; ///< all that the backend made so far
    uint32_t n_programs;
    const kiln_cl_recorded_buffer *buffers; ///< that the steps use
    uint32_t n_buffers;
    const kiln_cl_recorded_step *steps; ///< in the order of the queue
    uint32_t n_steps;
    const kiln_cl_recorded_arg *args;
    uint32_t n_args;
    const unsigned char *bytes;
    size_t n_bytes;
    uint32_t reads; ///< values that the host asked for meanwhile
} kiln_cl_recording;

/// Begins anew. Errors: FAILED_PRECONDITION for a device that keeps no sources.
KILN_NODISCARD KILN_API kiln_status kiln_cl_record_begin(kiln_backend *backend, kiln_error *err);

/// Ends it. `*out_recording` is the backend's, until the next begin or the close. Errors:
/// RESOURCE_EXHAUSTED, UNIMPLEMENTED for a program that came without its source.
KILN_NODISCARD KILN_API kiln_status kiln_cl_record_end(kiln_backend *backend,
                                                       const kiln_cl_recording **out_recording,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
