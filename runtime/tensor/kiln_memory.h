// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_MEMORY_H
#define KILN_KILN_MEMORY_H

/// Memory of tensors: wrapped, staged, persistent, shared by handles.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A tensor in the caller's memory, dense and row-major, without a copy where the device shares
/// the host's memory and `memory` is aligned to its `memory_align`; otherwise a copy. Nothing is
/// ever written to it. `release` (may be NULL) is called once when the memory is not needed any
/// more: at once after a copy, else after the last use on the device, on any thread; it must not
/// call Kiln. On failure it is not called.
/// Ownership: `memory` stays the caller's; `*out_tensor` is the caller's hold. Lifetime: until the
/// last release. Thread: any. Errors: as kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_wrap(kiln_device *device, kiln_dtype dtype,
                                                     size_t rank, const int64_t *dims, void *memory,
                                                     void (*release)(void *user), void *user,
                                                     kiln_tensor **out_tensor, kiln_error *err);

/// Staging memory: host memory from which kiln_tensor_create and to which reads go without another
/// copy, at the speed of the link (pinned, where the device has memory of its own).
/// Ownership: `*out_memory` is the caller's (kiln_host_free, on the same device). Lifetime: until
/// freed; not longer than the device. Thread: any. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_host_alloc(kiln_device *device, size_t bytes,
                                                    void **out_memory, kiln_error *err);
KILN_API void kiln_host_free(kiln_device *device, void *memory);

/// Between begin and end, what this thread creates and computes on the device gets memory of its
/// exact size, which does not come from the pool and does not go back to it: for weights. Scopes
/// may nest. Both submit what was recorded before.
/// Ownership: n/a. Lifetime: n/a. Thread: begin and end on one thread. Errors: FAILED_PRECONDITION
/// inside a capture or without begin; whatever submitting gives.
KILN_NODISCARD KILN_API kiln_status kiln_persistent_begin(kiln_device *device, kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_persistent_end(kiln_device *device, kiln_error *err);

struct kiln_view; // ir_view.h

/// A tensor's memory without the tensor, for who moves values between interpreters of operations
/// (a server, a router): a handle shares the memory, and a tensor made from it shares it again.
/// Making one runs what the tensor needs and does not wait. Kinds are told apart, so that a value
/// cannot come back as another: the wrong one is INVALID_ARGUMENT.
/// Ownership: `*out_handle` is the caller's (kiln_handle_release), `*out_tensor` the caller's hold;
/// the view is borrowed. Lifetime: until released; it keeps the device open. Thread: any. Errors:
/// INVALID_ARGUMENT for the wrong kind, RESOURCE_EXHAUSTED, the cause when the value failed.
typedef struct kiln_handle kiln_handle;
typedef enum kiln_handle_kind {
    KILN_HANDLE_FLOAT = 1,
    KILN_HANDLE_INT = 2,
    KILN_HANDLE_BOOL = 3,
    KILN_HANDLE_QUANTISED = 4
} kiln_handle_kind;
KILN_API kiln_handle_kind kiln_handle_kind_of(kiln_dtype dtype);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_to_handle(kiln_tensor *tensor,
                                                          kiln_handle_kind kind,
                                                          kiln_handle **out_handle,
                                                          kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_from_handle(const kiln_handle *handle,
                                                            kiln_handle_kind kind,
                                                            kiln_tensor **out_tensor,
                                                            kiln_error *err);
KILN_API const struct kiln_view *kiln_handle_view(const kiln_handle *handle);
KILN_API void kiln_handle_release(kiln_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
