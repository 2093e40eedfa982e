// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_COLL_MEMORY_H
#define KILN_RUNTIME_COLL_MEMORY_H

/// What coll_memory.c and coll_on_host.c (a device as the memory of a rank), coll_bridge.c (groups
/// of devices) and coll_calls.c (calls on tensors) share.

#include "collective.h"
#include "rt_binding.h"
#include "rt_device.h"

typedef struct kilni_staging { ///< of the host, for a mapping
    void *data;
    size_t bytes;
    bool is_used;
    struct kilni_staging *next;
} kilni_staging;

/// The event of a rank's call. Places share the buffers of input and output, so that both stay
/// whatever becomes of the tensors.
typedef struct kilni_rank_call {
    kilni_ended ended; ///< comes first
    kilni_binding input; ///< shares the input's buffer, or has a dense copy of it
    kilni_binding output;
    kilni_future *future; ///< of the output; NULL: this rank has none
    kilni_dependencies *depends; ///< what the input's value depended on before the call
    const char *kind; ///< what is called, of how many bytes: for a trace
    uint64_t bytes;
    kiln_coll_times times; ///< likewise
} kilni_rank_call;

typedef struct kilni_device_memory {
    kiln_coll_memory base;
    kiln_device *device; ///< held
    kilni_staging *staging; ///< the worker's
    void *stages[KILN_COLL_STAGES]; ///< pinned, of the device's out auxiliary queue
    kiln_coll_memory *host; ///< arithmetic for dtypes that the device does not compute in
    kilni_dependencies
        *starting; ///< what the input of the call that starts depends on; the device's lock
    const kiln_coll_memory_ops *commands; ///< with `direct`: the steps as commands
    kiln_coll_memory_ops direct; ///< the worker's steps on the spot (coll_on_host.c)
    bool is_queued; ///< commands may still run that use its buffers; the worker's
} kilni_device_memory;

/// The caller's, or, once it is a member's, the member's: its table's `close` frees it. Holds the
/// device. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_device_memory_create(kiln_device *device, kilni_device_memory **out_memory,
                                       kiln_error *err);

/// The steps of its calls are the worker's from now on, without commands: for mapped memory of a
/// device with auxiliary queues, before it is a member's.
void kilni_device_memory_direct(kilni_device_memory *self);

/// The operator that combines two; the sum's of a mean.
kiln_op kilni_coll_operation(kiln_coll_op op);

/// target = op(inputs), of flat views of one length, on one of the device's backends, under the
/// lock that guards it. `attr`: the operation's, or NULL.
kiln_status kilni_execute_flat(kiln_backend *backend, kiln_op op, const kiln_view *inputs,
                               uint16_t n_inputs, const kiln_attr *attr, const kiln_view *output,
                               kiln_error *err);

/// A call that was not started. Under the device's lock.
void kilni_rank_call_free(kiln_device *device, kilni_rank_call *call, const kiln_error *result);

// ---- groups ----

typedef struct kilni_collective_rank {
    kilni_device_memory *memory; ///< the member's
    kiln_coll_member *member;
    uint32_t number; ///< among all ranks; ascending
} kilni_collective_rank;

struct kiln_collective {
    kiln_context *context;
    kiln_coll_group *group;
    int64_t id; ///< of this process, never 0
    atomic_uint holds; ///< each is given up by a destroy
    pthread_mutex_t lock; ///< one call starts at a time, on all ranks
    size_t count; ///< ranks of this process
    uint32_t total;
    uint64_t deadline_ns; ///< of one wait
    kilni_collective_rank *ranks;
    uint32_t users; ///< operations that start a call right now; the context's lock of groups
    struct kiln_collective *next; ///< in the context's list; likewise
};

/// The part of a group that wishes `colour`, which devices of this process do; the caller holds it.
/// `wishes` are of all ranks.
kiln_status kilni_collective_part(const kiln_collective *whole, const kiln_coll_wish *wishes,
                                  int32_t colour, kiln_collective **out_part, kiln_error *err);

/// The group with this id, for as long as it takes to start a call, or NULL.
kiln_collective *kilni_collective_enter(kiln_context *context, int64_t id);
void kilni_collective_leave(kiln_collective *collective);

#endif
