// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_READ_H
#define KILN_KILN_READ_H

/// Reading values back, now or later.

#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Runs what the tensor needs, waits, and copies all of it, dense and row-major, to `out_data`.
/// Ownership: the caller's memory. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT when
/// `bytes` is not kiln_tensor_bytes; the first cause when something that it depends on failed.
KILN_NODISCARD KILN_API kiln_status kiln_read(kiln_tensor *tensor, void *out_data, size_t bytes,
                                              kiln_error *err);

/// Reads of several tensors, of one device or of several, with one wait for each device. On failure
/// what `out_data` holds is not known.
/// Ownership: the caller's memory. Lifetime: n/a. Thread: any. Errors: as kiln_read, the first.
KILN_NODISCARD KILN_API kiln_status kiln_read_many(kiln_tensor *const *tensors,
                                                   void *const *out_data, const size_t *bytes,
                                                   size_t count, kiln_error *err);

/// A read that does not wait: its place in the order is that of this call, so the tensor may be
/// released at once. `poll` says whether `wait` would not have to wait for the device; `wait` waits
/// and gives the result, any number of times; after `cancel` nothing is written to `out_data` any
/// more and `wait` gives CANCELLED; `destroy` cancels what was not waited for.
/// Ownership: `out_data` stays the caller's, and must live until waited for or cancelled;
/// `*out_request` is the caller's (kiln_request_destroy). Lifetime: until destroyed; it keeps the
/// device open. Thread: any; one at a time for a request. Errors: as kiln_read.
typedef struct kiln_request kiln_request;
KILN_NODISCARD KILN_API kiln_status kiln_read_async(kiln_tensor *tensor, void *out_data,
                                                    size_t bytes, kiln_request **out_request,
                                                    kiln_error *err);
KILN_API bool kiln_request_poll(kiln_request *request);
KILN_NODISCARD KILN_API kiln_status kiln_request_wait(kiln_request *request, kiln_error *err);
KILN_API void kiln_request_cancel(kiln_request *request);
KILN_API void kiln_request_destroy(kiln_request *request);

/// Waits for a tensor's value and lets the caller look at it, dense and row-major: where it lies,
/// when the device shares the host's memory, otherwise in a copy.
/// Ownership: `*out_data` is borrowed and not to be written; `*out_mapping` is the caller's
/// (kiln_mapping_release). Lifetime: until released, also when the tensor is released before.
/// Thread: any. Errors: as kiln_read.
typedef struct kiln_mapping kiln_mapping;
KILN_NODISCARD KILN_API kiln_status kiln_tensor_map(kiln_tensor *tensor, const void **out_data,
                                                    kiln_mapping **out_mapping, kiln_error *err);
KILN_API void kiln_mapping_release(kiln_mapping *mapping);

#ifdef __cplusplus
}
#endif

#endif
