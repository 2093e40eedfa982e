// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_OPENCL_H
#define KILN_OPENCL_H

/// Kiln beside a program's own OpenCL: a device on the program's context and queue, tensors in its
/// memory, and memory of tensors for its kernels. The types are those of CL/cl.h, named by their
/// tags so that this header needs no other: pass cl_context, cl_command_queue, cl_mem and cl_event
/// as they are.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_context;
struct _cl_command_queue;
struct _cl_mem;
struct _cl_event;

/// A device that works on the caller's queue, which has to be in order and of `context`; what the
/// caller enqueues there and what Kiln does keep the order in which they were enqueued. Every call
/// makes a device of its own.
/// Ownership: context and queue are retained; `*out_device` is the caller's hold
/// (kiln_device_release). Lifetime: until released. Thread: any. Errors: INVALID_ARGUMENT for a
/// queue that is out of order or of another context, UNIMPLEMENTED without the OpenCL backend.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_device_open(kiln_context *context,
                                                            struct _cl_context *cl_context,
                                                            struct _cl_command_queue *cl_queue,
                                                            kiln_device **out_device,
                                                            kiln_error *err);

/// A tensor, dense and row-major, in the caller's memory object, from byte `offset` on. Work on it
/// waits for `ready`, when that is not NULL. Kiln never writes to it.
/// Ownership: `mem` is retained until the last release; `*out_tensor` is the caller's hold.
/// Lifetime: the caller must not write to the memory before kiln_sync after the last use. Thread:
/// any. Errors: INVALID_ARGUMENT for memory of another context, too small, or a misaligned offset.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_wrap(kiln_device *device, struct _cl_mem *mem,
                                                     size_t offset, kiln_dtype dtype, size_t rank,
                                                     const int64_t *dims, struct _cl_event *ready,
                                                     kiln_tensor **out_tensor, kiln_error *err);

/// The memory object in which a tensor lies, dense and row-major from byte `*out_offset` on, and an
/// event that is complete when the value is there. For reading: other tensors may share it.
/// Ownership: both are retained for the caller (clReleaseMemObject, clReleaseEvent). Lifetime: the
/// tensor must be held as long as the memory is used. Thread: any. Errors: as kiln_read;
/// INVALID_ARGUMENT for a tensor without elements or of another backend.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_lend(kiln_tensor *tensor, struct _cl_mem **out_mem,
                                                     size_t *out_offset,
                                                     struct _cl_event **out_ready, kiln_error *err);

/// What the device does from now on waits for `event`, such as one of the caller's other queue.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT, and what submitting
/// gives.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_wait(kiln_device *device, struct _cl_event *event,
                                                     kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
