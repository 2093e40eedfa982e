// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_RECORD_H
#define KILNI_CL_RECORD_H

/// The backend's side of recordings: each room tells what it enqueues. All take a backend that may
/// keep nothing; then they do nothing.

#include "cl_program.h"

typedef struct kilni_cl_recorder kilni_cl_recorder; ///< NULL: sources are not kept

/// Once the device's facts are known: whether the option `compiler` wants recordings.
kiln_status kilni_cl_recorder_open(kilni_cl_backend *backend, kiln_error *err);
void kilni_cl_recorder_close(kilni_cl_backend *backend);

/// A program was made, from `parts` one behind the other; NULL parts: not from OpenCL C.
void kilni_cl_record_program(kilni_cl_backend *backend, const void *program,
                             const char *const parts[2], const size_t lengths[2],
                             const char *options, const char *label);
/// Arguments of a kernel: begin, each in its order, then the launch.
void kilni_cl_record_args(kilni_cl_backend *backend);
void kilni_cl_record_buffer(kilni_cl_backend *backend, kiln_buffer *buffer, uint64_t bytes);
void kilni_cl_record_bytes(kilni_cl_backend *backend, const void *value, size_t bytes);
void kilni_cl_record_launch(kilni_cl_backend *backend, const kilni_cl_kernel *kernel, cl_uint dims,
                            const size_t *global, const size_t *local);
void kilni_cl_record_copy(kilni_cl_backend *backend, const kiln_cl_recorded_buffer *source,
                          size_t source_offset, const kiln_cl_recorded_buffer *target,
                          size_t target_offset, size_t bytes);
void kilni_cl_record_write(kilni_cl_backend *backend, const kiln_cl_recorded_buffer *target,
                           size_t offset, const void *source, size_t bytes);
void kilni_cl_record_read(kilni_cl_backend *backend);
/// Memory was given out, or is gone: what a buffer of this address held before is another matter.
void kilni_cl_record_given(kilni_cl_backend *backend, kiln_buffer *buffer);
void kilni_cl_record_gone(kilni_cl_backend *backend, const kiln_buffer *buffer);

#endif
