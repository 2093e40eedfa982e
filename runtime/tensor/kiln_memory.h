// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_MEMORY_H
#define KILN_KILN_MEMORY_H

/// Memory of tensors: wrapped, staged, persistent, shared by handles.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Makes a tensor in the caller's memory, dense and row-major. There is no copy when the device
/// shares the host's memory and `memory` is aligned to its `memory_align`; otherwise the bytes are
/// copied. Nothing is ever written to `memory`. `release` may be NULL. It is called once when the
/// memory is not needed any more: at once after a copy, else after the last use on the device, on
/// any thread; it must not call Kiln. On failure it is not called. The caller holds `*out_tensor`.
/// Errors: as kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_wrap(kiln_device *device, kiln_dtype dtype,
                                                     size_t rank, const int64_t *dims, void *memory,
                                                     void (*release)(void *user), void *user,
                                                     kiln_tensor **out_tensor, kiln_error *err);

/// Memory of the caller's that holds a constant, dense and row-major, at any address, and stays as
/// it is until `release`. The functions come on any thread and must not call Kiln.
typedef struct kiln_constant_memory {
    uint32_t struct_size;
    const void *bytes;
    /// These bytes were copied and are not read again soon, so that pages of a file may go; may be
    /// NULL.
    void (*copied)(void *user, size_t offset, size_t bytes);
    void (*release)(void *user); ///< called once, as that of kiln_tensor_wrap; may be NULL
    void *user;
    /// Names these bytes beyond this process, so that a server that has them is found without
    /// reading them: of a file its device, number, size, times, and the place in it. Zeros:
    /// unknown.
    kiln_hash128 stamp;
    /// Writes `bytes` of the tensor's from `offset` on to `out`, whenever they are needed: of a
    /// constant that is made of the memory and does not lie in it, such as weights that are rounded
    /// on their way; NULL: it lies there.
    void (*read)(void *user, size_t offset, size_t bytes, void *out);
} kiln_constant_memory;

#define KILN_CONSTANT_MEMORY_INIT                                                                  \
    {                                                                                              \
        sizeof(kiln_constant_memory), NULL, NULL, NULL, NULL, {0, 0}, NULL                         \
    }

/// Makes a constant tensor (kiln_tensor_mark_constant) of the caller's memory. The device has a
/// copy only while it needs one: from the first use until what was packed from it is used instead.
/// It copies again when the tensor is used after all; reads take the bytes from the memory. A
/// device that cannot do this copies them now. On failure `release` is not called. The caller holds
/// `*out_tensor`. Errors: as kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_wrap_constant(kiln_device *device, kiln_dtype dtype,
                                                              size_t rank, const int64_t *dims,
                                                              const kiln_constant_memory *memory,
                                                              kiln_tensor **out_tensor,
                                                              kiln_error *err);

/// Allocates staging memory: kiln_tensor_create copies from it, and reads copy to it, at the speed
/// of the link (pinned, where the device has memory of its own). The caller frees it with
/// kiln_host_free on the same device, before the device is released. Errors: RESOURCE_EXHAUSTED,
/// DEVICE_LOST.
KILN_NODISCARD KILN_API kiln_status kiln_host_alloc(kiln_device *device, size_t bytes,
                                                    void **out_memory, kiln_error *err);

/// Frees memory of kiln_host_alloc. Takes NULL.
KILN_API void kiln_host_free(kiln_device *device, void *memory);

/// Gives what this thread creates and computes on the device until kiln_persistent_end memory of
/// its exact size, which does not come from the pool and does not go back to it: for weights.
/// Scopes may nest. What was recorded before is submitted. Errors: FAILED_PRECONDITION inside a
/// capture; those of submitting.
KILN_NODISCARD KILN_API kiln_status kiln_persistent_begin(kiln_device *device, kiln_error *err);

/// Ends the innermost scope, on the thread that began it. What was recorded in it is submitted.
/// Errors: FAILED_PRECONDITION without begin or inside a capture; those of submitting.
KILN_NODISCARD KILN_API kiln_status kiln_persistent_end(kiln_device *device, kiln_error *err);

struct kiln_view; // ir_view.h

/// A tensor's memory without the tensor, for code that moves values between interpreters of
/// operations, such as a server or a router. A handle shares the memory, and a tensor made from it
/// shares it again. It keeps the device open.
typedef struct kiln_handle kiln_handle;

/// Kinds are told apart so that a value cannot come back as another.
typedef enum kiln_handle_kind {
    KILN_HANDLE_FLOAT = 1,
    KILN_HANDLE_INT = 2,
    KILN_HANDLE_BOOL = 3,
    KILN_HANDLE_QUANTISED = 4
} kiln_handle_kind;

/// The kind of handle for tensors of a dtype.
KILN_API kiln_handle_kind kiln_handle_kind_of(kiln_dtype dtype);

/// Makes a handle: runs what the tensor needs and does not wait. The caller owns `*out_handle`
/// (kiln_handle_release). Errors: INVALID_ARGUMENT for the wrong kind, RESOURCE_EXHAUSTED, the
/// cause when the value failed.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_to_handle(kiln_tensor *tensor,
                                                          kiln_handle_kind kind,
                                                          kiln_handle **out_handle,
                                                          kiln_error *err);

/// Makes a tensor that shares the handle's memory. The caller holds `*out_tensor`. Errors: as
/// kiln_tensor_to_handle.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_from_handle(const kiln_handle *handle,
                                                            kiln_handle_kind kind,
                                                            kiln_tensor **out_tensor,
                                                            kiln_error *err);

/// Where the value lies. The view lives as long as the handle.
KILN_API const struct kiln_view *kiln_handle_view(const kiln_handle *handle);

/// Gives up the handle. Takes NULL.
KILN_API void kiln_handle_release(kiln_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
