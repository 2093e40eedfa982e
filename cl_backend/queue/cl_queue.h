// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_QUEUE_H
#define KILNI_CL_QUEUE_H

/// The queue: whether it may be used, how much is in flight, waits, and giving it up.

#include "cl_follow.h"
#include "cl_opencl.h"
#include "cl_spin.h"
#include <stdatomic.h>

enum {
    KILNI_CL_FLUSH = 32, ///< commands between two flushes
    KILNI_CL_BATCH = 512 ///< commands between two markers; at most three batches are in flight
};

typedef struct kilni_cl_flight { ///< what is in the queue, and what came of it
    cl_event markers[2]; ///< at the ends of the last two batches
    uint32_t since_marker; ///< commands
    atomic_uint callbacks; ///< asked for and not yet over
    atomic_uint user_events; ///< in the queue, and not signalled
    bool follows; ///< a driver whose callbacks come late, as NVIDIA's do: marks have a thread
    kilni_cl_follower follower;
    atomic_int failed_signal; ///< status that a user event was signalled with
    bool keeps_last; ///< a driver that makes an event for each command anyway, and Kiln's own queue
    bool keeps_copies; ///< an auxiliary queue, whose markers a driver may hold up behind the
                       ///< kernels of other queues, as NVIDIA's does
    cl_event last; ///< then: of the last command, if that is a launch, a copy or a read; else NULL
    bool awake; ///< the device is this machine's processors, which must not sleep meanwhile
    kilni_cl_spin *spin; ///< then: nor its workers; NULL: they do
    bool lost; ///< DEVICE_LOST until reopened
    char lost_why[200];
    cl_event tail; ///< of a queue that was given up: whether it has come back; NULL: it was not
} kilni_cl_flight;

/// OK, or DEVICE_LOST when the device was lost before.
kiln_status kilni_cl_usable(const kilni_cl_backend *backend, kiln_error *err);

/// Counts one enqueued command; flushes and bounds what is in flight.
kiln_status kilni_cl_queued(kilni_cl_backend *backend, kiln_error *err);

/// clWaitForEvents for one event.
cl_int kilni_cl_await(const kilni_cl_backend *backend, cl_event event);

/// Says which command is the last, behind kilni_cl_queued; the event's hold goes to the queue.
/// NULL: what the last command is has no event.
void kilni_cl_set_last(kilni_cl_backend *backend, cl_event take_event);
/// An event that is passed when all that is queued is done: the last command's, or a new marker's.
cl_int kilni_cl_all_done(kilni_cl_backend *backend, cl_event *out_event);

/// Whether it is known, without a wait, that all that was queued is done.
bool kilni_cl_is_idle(const kilni_cl_backend *backend);

/// Waits for the queue and reports what failed since the last wait.
kiln_status kilni_cl_drain(kilni_cl_backend *backend, kiln_error *err);

/// The failure that a user event was signalled with, once; OK when there was none.
kiln_status kilni_cl_take_failure(kilni_cl_backend *backend, kiln_error *err);

/// The table's `abandon`; and whether the queue that it was for is still at work.
void kilni_cl_abandon(kiln_backend *base, const char *why);
bool kilni_cl_is_stuck(const kilni_cl_backend *backend);

/// Forgets the markers of a queue that is replaced.
void kilni_cl_flight_reset(kilni_cl_backend *backend);
void kilni_cl_queue_open(kilni_cl_backend *backend);
/// Of a queue that is not closed because it is stuck: no threads keep processors awake for it.
void kilni_cl_queue_leave(kilni_cl_backend *backend);
void kilni_cl_queue_close(kilni_cl_backend *backend);

#endif
