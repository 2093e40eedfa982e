// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_DEPENDENCY_INTERNAL_H
#define KILN_RUNTIME_DEPENDENCY_INTERNAL_H

/// What is inside a value under way and a dependency set: for dependency.c, which keeps them, and
/// future.c, which waits for them.

#include "rt_binding.h"
#include "rt_device.h"

struct kilni_future {
    atomic_uint refs;
    const kiln_env *env;
    bool is_awaited; ///< the device's queue waits for it already; the device's lock
    pthread_mutex_t lock; ///< guards what follows; nothing else is locked under it
    pthread_cond_t changed;
    bool ended;
    kiln_error error; ///< code 0: it is there
    kiln_event *event; ///< a user event that work waits for, or NULL
    const kiln_backend_queue_ops *queues; ///< of the backend that the event is of
};

/// Never changes; shared by all memory that depends on the same futures.
struct kilni_dependencies {
    atomic_uint refs;
    const kiln_env *env;
    uint32_t count;
    kilni_future *futures[];
};

/// True when it has ended; `out_error` then gets its result. Any thread.
bool kilni_future_has_ended(kilni_future *future, kiln_error *out_error);
/// Completes a user event and frees it. Any thread.
void kilni_user_event_complete(const kiln_backend_queue_ops *queues, kiln_event *event);

#endif
