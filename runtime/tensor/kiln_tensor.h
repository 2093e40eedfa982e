// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_TENSOR_H
#define KILN_KILN_TENSOR_H

/// A tensor: a handle to a value on one device.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; the caller holds each tensor that it makes until kiln_release, and a tensor keeps its
/// device open, also after kiln_device_release and kiln_context_destroy; what it returns is
/// borrowed and lives as long as the tensor; it can fail with INVALID_ARGUMENT or
/// RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

#include "ir_quant.h"
#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_tensor kiln_tensor;

/// Makes a tensor with a copy of `data`, all of it, dense and row-major; NULL: zeros. Rank 0 is one
/// element. Errors: also UNIMPLEMENTED when the device does not store the dtype.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create(kiln_device *device, kiln_dtype dtype,
                                                       size_t rank, const int64_t *dims,
                                                       const void *data, kiln_tensor **out_tensor,
                                                       kiln_error *err);

/// Makes a tensor of the device's default float dtype from numbers, each rounded once. Errors: as
/// kiln_tensor_create.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_floats(kiln_device *device, size_t rank,
                                                          const int64_t *dims,
                                                          const double *numbers,
                                                          kiln_tensor **out_tensor,
                                                          kiln_error *err);

/// Makes a tensor of the device's default integer dtype from numbers. Errors: as
/// kiln_tensor_create; INVALID_ARGUMENT for a number that the dtype cannot hold.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_of_ints(kiln_device *device, size_t rank,
                                                        const int64_t *dims, const int64_t *numbers,
                                                        kiln_tensor **out_tensor, kiln_error *err);

/// Makes a quantised tensor from its bytes, laid out as ir_quant.h says; kiln_quant_layout_of tells
/// how many there are, and kiln_read gives them back. `data` may be NULL for a tensor without
/// elements. kiln_quantize and kiln_quantize_dynamic make quantised tensors too. Errors: as
/// kiln_tensor_create; INVALID_ARGUMENT for a scheme that does not fit.
KILN_NODISCARD KILN_API kiln_status kiln_tensor_create_quantised(
    kiln_device *device, kiln_dtype dtype, uint64_t scheme, size_t rank, const int64_t *dims,
    const void *data, kiln_tensor **out_tensor, kiln_error *err);

/// Marks a tensor as constant for as long as plans live, as weights are. Fusers may then prepare
/// copies of it once.
KILN_API void kiln_tensor_mark_constant(kiln_tensor *tensor);

/// Takes one more reference to the tensor and returns it. Takes NULL.
KILN_API kiln_tensor *kiln_retain(kiln_tensor *tensor);

/// Gives up one reference to the tensor. The last release records that the tensor is not used any
/// more, and the handle is not used after it, as a pointer is not after free: it may be another
/// tensor already. While it is not, and its device is open, one more release is only logged. Takes
/// NULL.
KILN_API void kiln_release(kiln_tensor *tensor);

/// Dtype of the tensor.
KILN_API kiln_dtype kiln_tensor_dtype(const kiln_tensor *tensor);

/// Number of axes.
KILN_API size_t kiln_tensor_rank(const kiln_tensor *tensor);

/// Length of each axis.
KILN_API const int64_t *kiln_tensor_dims(const kiln_tensor *tensor);

/// Number of elements.
KILN_API int64_t kiln_tensor_count(const kiln_tensor *tensor);

/// Bytes that kiln_read writes.
KILN_API size_t kiln_tensor_bytes(const kiln_tensor *tensor);

/// Scheme of a quantised tensor; 0 for others.
KILN_API uint64_t kiln_tensor_scheme(const kiln_tensor *tensor);

/// The device that the tensor was made with.
KILN_API kiln_device *kiln_tensor_device(const kiln_tensor *tensor);

/// Copies the tensor to another device, of whatever platform. On the same device it takes one more
/// reference to the tensor, or casts it (kiln_device_full_precision). It returns at once: the bytes
/// travel in chunks behind the calls, and the first use of the copy waits for them. The tensor may
/// be released before. Errors: as kiln_tensor_create. A failure on the way comes with the first use
/// of the copy.
KILN_NODISCARD KILN_API kiln_status kiln_to_device(kiln_tensor *tensor, kiln_device *device,
                                                   kiln_tensor **out_tensor, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
