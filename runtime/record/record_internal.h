// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RECORD_INTERNAL_H
#define KILN_RUNTIME_RECORD_INTERNAL_H

/// What recording shares: a call goes from kiln_record.c (the public call) by way of record.c
/// (which device and stream), record_composite.c (what it stands for) to record_op.c (the queue).

#include "runtime_internal.h"

/// An operation as a fuser's stream takes it; the record points into the rest.
typedef struct kilni_prepared_op {
    kiln_op_record record;
    kiln_attr filled[KILN_MAX_ATTRS]; ///< the call's, with its draw of random numbers
    kiln_tensor_desc inputs[KILN_MAX_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    void *tokens[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
} kilni_prepared_op;

// ---- one operation (record_op.c; under the lock) ----

/// Describes the inputs and infers the results. Runs other streams that an input comes from.
kiln_status kilni_record_prepare(kilni_stream *stream, const kilni_op_call *call,
                                 kilni_prepared_op *self, kiln_error *err);
/// Queues what was prepared, and makes the handles of its results.
kiln_status kilni_record_queue(kilni_stream *stream, kilni_prepared_op *self,
                               kiln_tensor **out_tensors, kiln_error *err);

// ---- a call (record.c; not under the lock) ----

/// Sets the results to NULL and checks the call against the table: its counts, and that all inputs
/// are of one device. `*handle` NULL becomes that of the first input.
kiln_status kilni_record_check(kiln_device **handle, const kilni_op_call *call,
                               kiln_tensor **out_tensors, kiln_error *err);
/// Records a call that moves nothing quantised on the thread's stream.
kiln_status kilni_record_call(kiln_device *handle, const kilni_op_call *call,
                              kiln_tensor **out_tensors, kiln_error *err);

// ---- quantised tensors (record_quantised.c; not under the lock) ----

/// Whether this moves elements of a quantised tensor; recording it then.
bool kilni_moves_quantised(const kilni_op_call *call);
kiln_status kilni_record_moved(kiln_device *handle, const kilni_op_call *call,
                               kiln_tensor **out_tensor, kiln_error *err);

#endif
