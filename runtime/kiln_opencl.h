// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_OPENCL_H
#define KILN_OPENCL_H

/// Kiln beside a program's own OpenCL: a device on the program's context and queue, tensors in its
/// memory, and memory of tensors for its kernels. The types are those of CL/cl.h, named by their
/// tags so that this header needs no other: pass cl_context, cl_command_queue, cl_mem and cl_event
/// as they are.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_context;
struct _cl_command_queue;
struct _cl_mem;
struct _cl_event;

/// Makes a device that works on the caller's queue, which must be in order and of `context`. What
/// the caller enqueues there and what Kiln does keep the order in which they were enqueued. Every
/// call makes a device of its own. Context and queue are retained. The caller holds `*out_device`
/// (kiln_device_release). Errors: INVALID_ARGUMENT for a queue that is out of order or of another
/// context, UNIMPLEMENTED without the OpenCL backend.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_device_open(kiln_context *context,
                                                            struct _cl_context *cl_context,
                                                            struct _cl_command_queue *cl_queue,
                                                            kiln_device **out_device,
                                                            kiln_error *err);

/// Makes a tensor, dense and row-major, in the caller's memory object, from byte `offset` on. Work
/// on it waits for `ready` when that is not NULL. Kiln never writes to it. `mem` is retained until
/// the last release; the caller must not write to it before kiln_sync after the last use. The
/// caller holds `*out_tensor`. Errors: INVALID_ARGUMENT for memory of another context, too small,
/// or a misaligned offset.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_wrap(kiln_device *device, struct _cl_mem *mem,
                                                     size_t offset, kiln_dtype dtype, size_t rank,
                                                     const int64_t *dims, struct _cl_event *ready,
                                                     kiln_tensor **out_tensor, kiln_error *err);

/// Gives the memory object in which a tensor lies, dense and row-major from byte `*out_offset` on,
/// and an event that is complete when the value is there. It is for reading: other tensors may
/// share it, or it is a copy, where the device's memory is pieces of larger ones (NVIDIA). Both are
/// retained for the caller (clReleaseMemObject, clReleaseEvent). The tensor must be held as long as
/// the memory is used. Errors: as kiln_read; INVALID_ARGUMENT for a tensor without elements or of
/// another backend.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_lend(kiln_tensor *tensor, struct _cl_mem **out_mem,
                                                     size_t *out_offset,
                                                     struct _cl_event **out_ready, kiln_error *err);

/// Lets what the device does from now on wait for `event`, such as one of the caller's other queue.
/// Errors: INVALID_ARGUMENT, and those of submitting.
KILN_NODISCARD KILN_API kiln_status kiln_opencl_wait(kiln_device *device, struct _cl_event *event,
                                                     kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
