// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_RECORD_H
#define KILN_KILN_RECORD_H

/// Operations by number; kiln_ops.h has them by name.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; the caller holds each tensor that it gives; operations of one thread on one device run in
/// the order of recording; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a
/// pointer is needed is INVALID_ARGUMENT; a function without a status then does nothing and gives
/// 0.

#include "ir_op.h"
#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A scalar operand: kiln_f64(0.5) or kiln_i64(3). It is converted to the dtype of the operation.
typedef struct kiln_number {
    bool is_integer;
    union {
        int64_t i;
        double f;
    } v;
} kiln_number;

static inline kiln_number kiln_f64(double value)
{
    kiln_number number;
    number.is_integer = false;
    number.v.f = value;
    return number;
}

static inline kiln_number kiln_i64(int64_t value)
{
    kiln_number number;
    number.is_integer = true;
    number.v.i = value;
    return number;
}

/// Records any operator of the table; the functions of kiln_ops.h do this by name. `attrs` are in
/// the order of the operator's schema, KILN_ATTR_NONE for an absent optional one; everything is
/// copied. `device` may be NULL when there are inputs. For KILN_OP_CUSTOM (see kiln_custom)
/// `out_tensors` has KILN_MAX_OUTPUTS places. Errors: INVALID_ARGUMENT with operator, shapes and
/// values; FAILED_PRECONDITION for inputs of different devices; NOT_FOUND for a custom operator
/// that no plugin brings.
KILN_NODISCARD KILN_API kiln_status kiln_record(kiln_device *device, kiln_op op,
                                                kiln_tensor *const *inputs, size_t n_inputs,
                                                const kiln_attr *attrs, size_t n_attrs,
                                                kiln_tensor **out_tensors, kiln_error *err);

/// Makes products of f32 that the calling thread records on the device from now on (matmul, linear,
/// conv, conv_transpose, attention, einsum) compute in `dtype`, f16 or bf16: their operands are
/// cast, their sums are of f32, and their results are cast to f32; F32: no more. All else stays in
/// f32. A tape watches what is computed, so that gradients of such products compute in `dtype`,
/// too. `out_before`, if not NULL, gets what was set before. Errors: also UNIMPLEMENTED for a
/// device without the dtype.
KILN_NODISCARD KILN_API kiln_status kiln_products_in(kiln_device *device, kiln_dtype dtype,
                                                     kiln_dtype *out_before, kiln_error *err);

/// Gives the bits of a tensor another name, without a copy: those of a small float dtype (f8e4m3fn
/// and the others of dtype.def) as u8, those of u8 as a small float dtype. kiln_cast gives numbers.
/// Errors: also INVALID_ARGUMENT for other dtypes.
KILN_NODISCARD KILN_API kiln_status kiln_bits_as(kiln_tensor *x, kiln_dtype dtype,
                                                 kiln_tensor **out_tensor, kiln_error *err);

struct kiln_replay; // ir_replay.h

/// Records a replayable stream (ir_replay.h): its inputs, with the strides that they had, its
/// operations and drops. out_tensors[i] is output i of its graph. Errors: INVALID_ARGUMENT for an
/// input without data; those of kiln_tensor_create and kiln_record.
KILN_NODISCARD KILN_API kiln_status kiln_replay_run(kiln_device *device,
                                                    const struct kiln_replay *replay,
                                                    kiln_tensor **out_tensors, kiln_error *err);

/// Gives the indices of the elements that are not 0 as a tensor [count, rank] in row-major order,
/// like NumPy's argwhere. The length of the result depends on contents, so the call counts on the
/// device, waits for that one number, then records argwhere. Errors: those of kiln_record and
/// kiln_read; FAILED_PRECONDITION while this thread captures.
KILN_NODISCARD KILN_API kiln_status kiln_nonzero(kiln_tensor *x, kiln_tensor **out_tensor,
                                                 kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
