// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RECORD_INTERNAL_H
#define KILN_RUNTIME_RECORD_INTERNAL_H

/// What recording shares: a call goes from kiln_record.c (the public call) by way of
/// record_any.c (which kind) and record.c (which device and stream) to record_op.c (the queue).

#include "rt_record.h"
#include "rt_tensor.h"

// ---- a call (record.c; not under the lock) ----

/// Sets the results to NULL and checks the call against the table: its counts, and that all inputs
/// are of one device. `*handle` NULL becomes that of the first input.
kiln_status kilni_record_check(kiln_device **handle, const kilni_op_call *call,
                               kiln_tensor **out_tensors, kiln_error *err);
/// Records a call that moves nothing quantised on the thread's stream. Where it leaves a dtype
/// open, `call->attrs` is no good afterwards.
kiln_status kilni_record_call(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                              kiln_error *err);

// ---- any call (record_any.c; not under the lock) ----

/// Records a call of any kind, and tells observers of it.
kiln_status kilni_record_any(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                             kiln_error *err);

// ---- mixed precision (record_mixed.c; not under the lock) ----

/// In which dtype this thread has the product compute; NONE: as it is, or it is no product.
kiln_dtype kilni_product_dtype(const kilni_op_call *call);
/// Records the product in that dtype; its one result is of f32.
kiln_status kilni_record_product(kiln_device *handle, const kilni_op_call *call, kiln_dtype dtype,
                                 kiln_tensor **out_tensors, kiln_error *err);

// ---- observers (observe.c; not under the lock) ----

/// Whether an observer may have marked an input.
static inline bool kilni_is_marked(const kilni_op_call *call)
{
    uint64_t marks = 0;
    for (size_t i = 0; i < call->n_inputs; i++) {
        marks |= atomic_load_explicit(&call->inputs[i]->mark, memory_order_relaxed);
    }
    return marks != 0;
}

/// Tells the observer of a recorded call whose inputs are marked. On failure the results are gone.
kiln_status kilni_record_observed(const kilni_op_call *call, kiln_tensor **out_tensors,
                                  kiln_error *err);

// ---- quantised tensors (record_quantised.c; not under the lock) ----

/// Whether this moves elements of a quantised tensor; recording it then.
bool kilni_moves_quantised(const kilni_op_call *call);
kiln_status kilni_record_moved(kiln_device *handle, const kilni_op_call *call,
                               kiln_tensor **out_tensor, kiln_error *err);
/// Whether this computes with a quantised tensor that the operator takes as floats alone; recording
/// it then.
bool kilni_computes_quantised(const kilni_op_call *call);
kiln_status kilni_record_dequantised(kiln_device *handle, const kilni_op_call *call,
                                     kiln_tensor **out_tensors, kiln_error *err);

// ---- small floats (record_small.c; not under the lock) ----

/// Whether an input is of a small float dtype, or this casts to one; recording it then.
bool kilni_has_small(const kilni_op_call *call);
kiln_status kilni_record_small(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                               kiln_error *err);

#endif
