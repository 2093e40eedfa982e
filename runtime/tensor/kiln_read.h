// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_READ_H
#define KILN_KILN_READ_H

/// Reading values back, now or later.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it reports INVALID_ARGUMENT when `bytes` is not kiln_tensor_bytes, and the first cause
/// when something that the tensor depends on failed. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Runs what the tensor needs, waits, and copies all of it, dense and row-major, to `out_data`.
KILN_NODISCARD KILN_API kiln_status kiln_read(kiln_tensor *tensor, void *out_data, size_t bytes,
                                              kiln_error *err);

/// Reads several tensors, of one device or of several, with one wait for each device. On failure
/// the contents of `out_data` are not known. Errors: the first.
KILN_NODISCARD KILN_API kiln_status kiln_read_many(kiln_tensor *const *tensors,
                                                   void *const *out_data, const size_t *bytes,
                                                   size_t count, kiln_error *err);

/// A read that does not wait. Its place in the order is that of the call that made it.
typedef struct kiln_request kiln_request;

/// Starts a read. The tensor may be released at once. `out_data` must live until the read was
/// waited for or cancelled. The caller owns `*out_request` (kiln_request_destroy), which keeps the
/// device open; one thread at a time may use it.
KILN_NODISCARD KILN_API kiln_status kiln_read_async(kiln_tensor *tensor, void *out_data,
                                                    size_t bytes, kiln_request **out_request,
                                                    kiln_error *err);

/// Whether kiln_request_wait would return without waiting for the device; true for NULL.
KILN_API bool kiln_request_poll(kiln_request *request);

/// Waits for the read and returns its result. It may be called any number of times. Errors: also
/// CANCELLED after kiln_request_cancel.
KILN_NODISCARD KILN_API kiln_status kiln_request_wait(kiln_request *request, kiln_error *err);

/// Cancels the read: nothing is written to `out_data` after it returns.
KILN_API void kiln_request_cancel(kiln_request *request);

/// Frees the request, and cancels it if nobody waited for it. Takes NULL.
KILN_API void kiln_request_destroy(kiln_request *request);

/// A look at a tensor's value, from kiln_tensor_map to kiln_mapping_release.
typedef struct kiln_mapping kiln_mapping;

/// Waits for a tensor's value and gives its address, dense and row-major: where it lies when the
/// device shares the host's memory, otherwise in a copy. `*out_data` must not be written; it lives
/// until kiln_mapping_release, also when the tensor is released before.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_map(kiln_tensor *tensor, const void **out_data,
                                                    kiln_mapping **out_mapping, kiln_error *err);

/// Ends a look at a tensor's value. Takes NULL.
KILN_API void kiln_mapping_release(kiln_mapping *mapping);

#ifdef __cplusplus
}
#endif

#endif
