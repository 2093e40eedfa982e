// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_LAUNCH_H
#define KILNI_CL_LAUNCH_H

/// A kernel on its way into the queue: kilni_cl_kernel_get (cl_kernel.h), kilni_cl_args_begin,
/// kilni_cl_push_*, kilni_cl_enqueue.

#include "cl_program.h"

/// Arguments in order; the first error sticks and is returned by kilni_cl_enqueue.
typedef struct kilni_cl_args {
    kilni_cl_backend *backend;
    kilni_cl_kernel *kernel;
    cl_uint index;
    cl_int code;
} kilni_cl_args;

kilni_cl_args kilni_cl_args_begin(kilni_cl_backend *backend, kilni_cl_kernel *kernel);
void kilni_cl_push_buffer(kilni_cl_args *args, kiln_buffer *buffer); ///< NULL passes a null pointer
void kilni_cl_push_bytes(kilni_cl_args *args, const void *value, size_t bytes); ///< also structs
void kilni_cl_push_i32(kilni_cl_args *args, int32_t value);
void kilni_cl_push_u32(kilni_cl_args *args, uint32_t value);
void kilni_cl_push_i64(kilni_cl_args *args, int64_t value);
void kilni_cl_push_f32(kilni_cl_args *args, float value);
void kilni_cl_push_local(kilni_cl_args *args, size_t bytes);

/// Queues the kernel. `local` NULL lets the driver choose: on PoCL each local size is compiled
/// apart, so name one, always the same, and round `global` up to it. Nothing waits. A global size
/// of 0 is no launch. Errors: also those of the arguments, and INVALID_ARGUMENT.
KILN_NODISCARD kiln_status kilni_cl_enqueue(kilni_cl_args *args, cl_uint dims, const size_t *global,
                                            const size_t *local, kiln_error *err);

/// The same on a given queue, with an optional event.
kiln_status kilni_cl_enqueue_on(kilni_cl_args *args, cl_command_queue queue, cl_uint dims,
                                const size_t *global, const size_t *local, cl_event *out_event,
                                kiln_error *err);

#endif
