// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RECORD_H
#define KILN_RUNTIME_RECORD_H

/// Recording, for those who record themselves; and the streams that threads record on.

#include "rt_streams.h"

/// The stream on which this thread records, made when needed. Under the lock.
kiln_status kilni_stream_current(kiln_device *device, kilni_stream **out_stream, kiln_error *err);
kiln_status kilni_stream_create(kiln_device *device, bool whole, kilni_stream **out_stream,
                                kiln_error *err);
void kilni_stream_destroy(kilni_stream *stream);

/// Ends the streams of threads that have nothing queued. Under the lock.
void kilni_streams_prune(kiln_device *device);

/// A call of an operator.
typedef struct kilni_op_call {
    kiln_op op;
    uint32_t unused; ///< bit i: result i is not needed, and stays NULL where that spares work
    kiln_tensor *const *inputs;
    size_t n_inputs;
    const kiln_attr *attrs;
    size_t n_attrs;
} kilni_op_call;

/// Checks the operation, makes its results and queues it. Under the lock.
kiln_status kilni_stream_record(kilni_stream *stream, const kilni_op_call *call,
                                kiln_tensor **out_tensors, kiln_error *err);

/// Records the tensor's last use on the stream that queued it. Under the lock.
kiln_status kilni_tensor_drop(kiln_tensor *tensor, kilni_stream *stream, kiln_error *err);

/// The operator that the attributes of a custom operation name. Errors: NOT_FOUND.
kiln_status kilni_custom_find(kiln_device *device, const kiln_attr *attrs,
                              const kiln_custom_op **out_op, kiln_error *err);

/// kiln_record for an operator with several results; a NULL in `outputs` says that this one is not
/// wanted. Not under the lock.
kiln_status kilni_record_several(kiln_device *device, kiln_op op, kiln_tensor *const *inputs,
                                 size_t n_inputs, const kiln_attr *attrs, size_t n_attrs,
                                 kiln_tensor **const *outputs, kiln_error *err);

/// Fills in the dtype of a result that the call leaves open, from the handle's defaults: `*attrs`
/// becomes `scratch` then.
void kilni_name_dtype(const kiln_device *handle, kiln_op op, const kiln_attr **attrs,
                      kiln_attr scratch[KILN_MAX_ATTRS]);

#endif
