// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_TENSOR_H
#define KILN_KILN_TENSOR_H

/// A tensor: a handle to a value on one device.

#include "ir_quant.h"
#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_tensor kiln_tensor;

/// A tensor with a copy of `data`: dense, row-major, all of it; NULL: zeros. Rank 0 is one element.
/// Ownership: `data` is copied before return; `*out_tensor` is the caller's hold (kiln_release).
/// Lifetime: until the last release. Thread: any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED,
/// UNIMPLEMENTED (dtype not stored on the device).
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create(kiln_device *device, kiln_dtype dtype,
                                                       size_t rank, const int64_t *dims,
                                                       const void *data, kiln_tensor **out_tensor,
                                                       kiln_error *err);

/// A tensor of the device's default float or integer dtype from numbers, each rounded once; an
/// integer that the dtype has not is refused. Ownership: `numbers` are copied before return;
/// `*out_tensor` is the caller's hold. Lifetime: until the last release. Thread: any. Errors: as
/// kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_floats(kiln_device *device, size_t rank,
                                                          const int64_t *dims,
                                                          const double *numbers,
                                                          kiln_tensor **out_tensor,
                                                          kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_ints(kiln_device *device, size_t rank,
                                                        const int64_t *dims, const int64_t *numbers,
                                                        kiln_tensor **out_tensor, kiln_error *err);

/// A quantised tensor from its bytes as ir.h lays them out (kiln_quant_layout_of says how many);
/// kiln_read gives them back. Elsewhere quantised tensors come from kiln_quantize and
/// kiln_quantize_dynamic; operators that take none say so. `data` may be NULL without elements.
/// Ownership: as kiln_tensor_create. Lifetime: until the last release. Thread: any. Errors: as
/// kiln_tensor_create; INVALID_ARGUMENT for a scheme that does not fit.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create_quantised(
    kiln_device *device, kiln_dtype dtype, uint64_t scheme, size_t rank, const int64_t *dims,
    const void *data, kiln_tensor **out_tensor, kiln_error *err);

/// Marks a tensor as constant for as long as plans live (weights): fusers may prepare copies of it
/// once. Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_tensor_mark_constant(kiln_tensor *tensor);

/// One more hold, and one less; both take NULL. The last release records that the tensor is not
/// used any more. Ownership: as said. Lifetime: n/a. Thread: any. Errors: none.
KILN_API kiln_tensor *kiln_retain(kiln_tensor *tensor);
KILN_API void kiln_release(kiln_tensor *tensor);

/// Description of a tensor. Ownership: borrowed. Lifetime: the tensor's. Thread: any. Errors: none.
KILN_API kiln_dtype kiln_tensor_dtype(const kiln_tensor *tensor);
KILN_API size_t kiln_tensor_rank(const kiln_tensor *tensor);
KILN_API const int64_t *kiln_tensor_dims(const kiln_tensor *tensor);
KILN_API int64_t kiln_tensor_count(const kiln_tensor *tensor);
KILN_API size_t kiln_tensor_bytes(const kiln_tensor *tensor);
KILN_API uint64_t kiln_tensor_scheme(const kiln_tensor *tensor); ///< 0 when not quantised
KILN_API kiln_device *kiln_tensor_device(const kiln_tensor *tensor); ///< as it was made with

/// A copy on another device, of whatever platform; on the same device one more hold of the tensor
/// itself, or its cast (kiln_device_full_precision). Returns at once: bytes travel in chunks behind
/// the calls, and the first use of the copy waits for them. Ownership: `*out_tensor` is the
/// caller's hold. Lifetime: until released; the tensor itself may be released before. Thread: any.
/// Errors: as create; INVALID_ARGUMENT. A failure on the way comes with the first use of the copy.
KILN_NODISCARD KILN_API kiln_status kiln_to_device(kiln_tensor *tensor, kiln_device *device,
                                                   kiln_tensor **out_tensor, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
