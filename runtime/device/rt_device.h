// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_DEVICE_H
#define KILN_RUNTIME_DEVICE_H

/// A device: what it is, its tables, and the objects that its rooms keep in it. The device's lock
/// guards the objects whose comment says so, and all calls of its backend. Order: context, device.

#include "rt_arena.h"
#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_check_state.h"
#include "rt_context.h"
#include "rt_engines.h"
#include "rt_memory_account.h"
#include "rt_moves.h"
#include "rt_persistent_temps.h"
#include "rt_random.h"
#include "rt_sampling.h"
#include "rt_streams.h"
#include "rt_tensor_pool.h"
#include "rt_threads.h"

#include <pthread.h>
#include <stdatomic.h>

/// What runs the operations that streams have queued: the executor, for those below it. Under the
/// lock.
typedef struct kilni_executor {
    /// Runs what is ready on a stream; with `drain`, all of it.
    kiln_status (*run)(kilni_stream *stream, bool drain, kiln_error *err);
    /// Runs what all threads have recorded.
    kiln_status (*drain)(kiln_device *device, kiln_error *err);
    /// Records a tensor's last use on the stream that queued it.
    kiln_status (*drop)(kiln_tensor *tensor, kilni_stream *stream, kiln_error *err);
} kilni_executor;

/// What another thread has done with, and cannot give back without the device's lock.
typedef struct kilni_ended {
    struct kilni_ended *next;
    void (*free)(kiln_device *device, struct kilni_ended *self); ///< under the lock
} kilni_ended;

/// What a device has done. All under the device's lock.
typedef struct kilni_device_counts {
    uint64_t blocks_fused;
    uint64_t ops_fused;
    uint64_t values_planned; ///< values that a layout gave memory to
    uint64_t runs_repeated; ///< replays that only enqueued
    uint64_t indices_outside;
    uint64_t kernels_measuring; ///< launched by tournaments
    uint64_t blas_measuring;
    uint64_t bytes_uploaded;
    uint64_t bytes_read;
} kilni_device_counts;

/// What is told of a device while others have its lock. Its own lock guards the counts; nothing
/// else is locked under it.
typedef struct kilni_shown {
    pthread_mutex_t lock;
    kiln_device_stats stats;
    uint64_t at_ns; ///< the device's lock
} kilni_shown;

/// What the next sweep gives back. Its lock guards it; nothing else is locked under it.
typedef struct kilni_ended_list {
    pthread_mutex_t lock;
    kilni_ended *first;
} kilni_ended_list;

struct kiln_device {
    kiln_device *core; ///< itself; of a light handle the device that it stands for
    kiln_dtype float_dtype; ///< what operations make where no dtype is named
    kiln_dtype int_dtype;
    // From here: of the core alone. These stay as they were made.
    atomic_uint refs;
    kiln_context *context;
    kiln_backend *backend;
    const kilni_executor *executor;
    const struct kilni_run_hooks *hooks;
    void (*close)(kiln_device *device); ///< when the last hold goes
    char address[KILNI_ADDRESS_BYTES];
    char plain_name[48];
    char fused_name[64];
    int64_t facts[KILN_FACT_COUNT];
    kiln_device *next; ///< the context's lock
    pthread_mutex_t lock;
    // Objects with locks of their own.
    kilni_aux_queue in; ///< for collective calls: arithmetic, and what comes from the host
    kilni_aux_queue out; ///< and what goes there
    kilni_ended_list ended;
    kilni_shown shown;
    _Atomic(kilni_trace *) trace; ///< NULL: nothing is noted
    // From here: the device's lock.
    uint32_t trace_number; ///< of this device in it
    kiln_device *full; ///< the light handle whose floats are f32, or NULL
    kilni_stream_list streams;
    kilni_threads threads;
    kilni_tensor_pool tensors;
    kilni_memory_account memory;
    kilni_engines engines;
    kilni_execution execution;
    kilni_arena arena;
    kilni_sampling samples;
    kilni_check_state check;
    kilni_device_counts counts;
    kilni_faults faults;
    kilni_moves moves;
    pthread_cond_t future_ended; ///< a future on this device has ended
    kilni_dependencies *awaited; ///< what the queue waits or waited for since the last sync
    kilni_random random;
    struct kilni_observer *observers; ///< of what is recorded (rt_observe.h)
    uint32_t n_observers; ///< that there were
    atomic_uint n_mixed; ///< threads whose products of f32 compute in another dtype
};

/// The device that a caller's handle stands for: what every function that takes one begins with.
static inline kiln_device *kilni_core(const kiln_device *device)
{
    return device != NULL ? device->core : NULL;
}

static inline kiln_fuse_engine *kilni_device_engine(const kiln_device *device)
{
    return device->engines.fusion ? device->engines.fused : device->engines.plain;
}

static inline kiln_status kilni_run_queued(kilni_stream *stream, kiln_error *err)
{
    return stream->device->executor->run(stream, /*drain=*/true, err);
}

static inline kiln_status kilni_run_all_queued(kiln_device *device, kiln_error *err)
{
    return device->executor->drain(device, err);
}

/// Waits for all that the backend was given, without the lock, which is held again on return.
kiln_status kilni_device_wait(kiln_device *device, kiln_error *err);

/// Leaves something to be given back by the next sweep. Any thread.
void kilni_device_put_ended(kiln_device *device, kilni_ended *ended);

/// Gives back what was left. Under the lock.
void kilni_device_sweep(kiln_device *device);
void kilni_device_set_names(kiln_device *device);

/// Whether the device's queue can wait for what it does not run itself.
static inline bool kilni_device_has_user_events(const kiln_device *device)
{
    return device->in.backend != NULL;
}

#endif
