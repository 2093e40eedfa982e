// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_TENSOR_H
#define KILN_RUNTIME_TENSOR_H

/// A tensor's record, its holds and pins (kiln_tensor.c).

#include "rt_device.h"

#include <stdatomic.h>

/// Recording is bound by the cache lines of tensors that it touches: what it looks at comes first.
struct kiln_tensor {
    atomic_uint refs; ///< the user's holds; while there are some, the device is held too
    // From here: the device's lock, save device and handle, which stay.
    uint32_t pins; ///< occurrences in queued operations
    kiln_device *device;
    kiln_device *handle; ///< of the device, with which the tensor was made; lives as long
    uint64_t stream; ///< id of the stream that queued it last; 0: none, or only a finished graph
    kilni_future *future; ///< of a move; NULL: the value is here, or will be computed here
    _Atomic uint64_t mark; ///< any thread: of an observer (rt_observe.h); 0: none
    uint32_t slot; ///< number in the segment that runs now
    bool held; ///< the user's last release has not been seen under the lock
    bool shared; ///< queued on more than one stream: its last use is not known
    bool pending; ///< counted in the device's bytes_pending
    bool pending_free; ///< counted in its bytes pending to be freed
    bool captured; ///< stands for a value of a graph: never bound itself
    bool listed; ///< in the device's list of tensors that are held
    bool unresolved; ///< the result of a collective call: refused until kiln_collective_resolve
    kiln_tensor_desc desc; ///< dtype, rank and dims never change, the id only with the value
    uint64_t bytes; ///< of its elements
    kiln_param_id param; ///< 0: stands for no parameter
    kiln_tensor *next_free;
    kilni_binding binding;
    kiln_tensor *next_listed;
    kiln_tensor *previous_listed;
};

/// A queued result is counted, and no longer: it was bound, dropped, or will never be computed.
static inline void kilni_tensor_pend(kiln_tensor *tensor)
{
    tensor->pending = true;
    tensor->device->memory.pending += tensor->bytes;
}

static inline void kilni_tensor_unpend(kiln_tensor *tensor)
{
    if (tensor->pending) {
        tensor->pending = false;
        tensor->device->memory.pending -= tensor->bytes;
    }
}

/// A tensor with memory is dropped, and gone.
static inline void kilni_tensor_pend_free(kiln_tensor *tensor)
{
    if (!tensor->pending_free && tensor->binding.bound) {
        tensor->pending_free = true;
        tensor->device->memory.pending_free += tensor->bytes;
    }
}

static inline void kilni_tensor_unpend_free(kiln_tensor *tensor)
{
    if (tensor->pending_free) {
        tensor->pending_free = false;
        tensor->device->memory.pending_free -= tensor->bytes;
    }
}

kiln_status kilni_describe(kiln_dtype dtype, size_t rank, const int64_t *dims,
                           kiln_tensor_desc *out_desc, kiln_error *err);

/// A tensor whose elements lie in `buffer`, dense; takes it over on success. Under the lock.
kiln_status kilni_tensor_around(kiln_device *handle, const kiln_tensor_desc *desc,
                                kiln_buffer *buffer, int64_t offset_bytes, kiln_tensor **out_tensor,
                                kiln_error *err);

/// A tensor without a binding, with one hold of the user. Under the lock. NULL: no memory.
kiln_tensor *kilni_tensor_new(kiln_device *handle, const kiln_tensor_desc *desc);
void kilni_tensor_pin(kiln_tensor *tensor, kilni_stream *stream);
void kilni_tensor_unpin(kiln_tensor *tensor);

/// The user's last hold is gone and no drop is recorded: freed now, or with the last pin. Under the
/// lock; the device's count is the caller's.
void kilni_tensor_disown(kiln_tensor *tensor);

/// Gives a tensor that nobody else mentions the value, or the fault, in `binding`; `renew` makes it
/// another tensor in the same record.
void kilni_tensor_settle(kiln_tensor *tensor, const kilni_binding *binding);
void kilni_tensor_renew(kiln_tensor *tensor, const kilni_binding *binding);
/// The record stands for another value, of which `id` is the first that has it (kilni_tensor_ids).
void kilni_tensor_rename(kiln_tensor *tensor, uint64_t id);

/// Takes one of the user's holds from a tensor. The caller has the device's lock and another hold
/// on the device.
void kilni_tensor_unhold(kiln_device *device);

/// kiln_release for a caller that has the device's lock and another hold on the device.
void kilni_tensor_release(kiln_tensor *tensor);

/// Gives up every hold on the tensors that the device lists. The caller holds the device.
void kilni_tensors_release_listed(kiln_device *device);

/// The first of `count` ids that no other tensor of the process has. Any thread.
uint64_t kilni_tensor_ids(uint64_t count);

/// Runs what the tensor needs, so that it has a binding. Its fault, when it has one. Under the
/// lock.
kiln_status kilni_tensor_bind(kiln_tensor *tensor, kiln_error *err);

/// Binds it, once what it waits for has come, to a buffer in which it lies dense from now on. Under
/// the lock.
kiln_status kilni_tensor_lie_dense(kiln_tensor *tensor, kiln_error *err);

/// The tensor's description with the facts about its memory.
static inline void kilni_tensor_snapshot(kiln_tensor *tensor, kiln_tensor_desc *out_desc)
{
    *out_desc = tensor->desc;
    if (!tensor->binding.bound) {
        return;
    }
    if (!tensor->binding.described) {
        kilni_binding_describe(&tensor->binding);
    }
    out_desc->flags |= tensor->binding.flags;
    out_desc->align_log2 = tensor->binding.align_log2;
}

#endif
