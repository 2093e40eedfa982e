// SPDX-License-Identifier: MIT OR Apache-2.0
// The queue: whether it may be used, how much is in flight, waits, and giving it up when a kernel
// does not end. Points in it that other threads follow are cl_event.c's.

#include <stdio.h>
#include <time.h>

#include "cl_error.h"
#include "cl_query.h"
#include "cl_queue.h"
#include "cl_state.h"

enum { AWAKE = 8 }; ///< commands between two looks that no processor falls asleep

// ---- waits ----

static void begin_wait(const kilni_cl_backend *backend)
{
    kiln_awake_begin();
    kilni_cl_spin_begin(backend->flight.spin);
}

static void end_wait(const kilni_cl_backend *backend)
{
    kilni_cl_spin_end(backend->flight.spin);
    kiln_awake_end();
}

cl_int kilni_cl_await(const kilni_cl_backend *backend, cl_event event)
{
    if (!backend->flight.awake) {
        return clWaitForEvents(1, &event);
    }
    begin_wait(backend);
    cl_int code = clWaitForEvents(1, &event);
    end_wait(backend);
    return code;
}

static cl_int finish(const kilni_cl_backend *backend)
{
    if (!backend->flight.awake) {
        return clFinish(backend->queue);
    }
    begin_wait(backend);
    cl_int code = clFinish(backend->queue);
    end_wait(backend);
    return code;
}

// ---- the last command ----

// A marker is one more command: the driver wakes a worker for it once the launch before it is done.

void kilni_cl_set_last(kilni_cl_backend *backend, cl_event take_event)
{
    if (backend->flight.last != NULL) {
        clReleaseEvent(backend->flight.last);
    }
    backend->flight.last = take_event;
}

cl_int kilni_cl_all_done(kilni_cl_backend *backend, cl_event *out_event)
{
    if (backend->flight.last == NULL) {
        return clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, out_event);
    }
    cl_int code = clRetainEvent(backend->flight.last);
    *out_event = code == CL_SUCCESS ? backend->flight.last : NULL;
    return code;
}

bool kilni_cl_is_idle(const kilni_cl_backend *backend)
{
    cl_int state = CL_QUEUED;
    return backend->flight.last != NULL &&
           clGetEventInfo(backend->flight.last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state),
                          &state, NULL) == CL_SUCCESS &&
           state == CL_COMPLETE;
}

// ---- what is in flight ----

kiln_status kilni_cl_usable(const kilni_cl_backend *backend, kiln_error *err)
{
    if (backend->flight.lost) {
        return backend->flight.lost_why[0] == '\0'
                   ? kiln_fail(err, DEVICE_LOST, "device %s was lost; open it again",
                               backend->info.name)
                   : kiln_fail(err, DEVICE_LOST, "device given up: %s", backend->flight.lost_why);
    }
    return KILN_STATUS_OK;
}

// Every batch ends with a marker; before a third is begun the oldest must have been passed. Not
// while a user event is not signalled: that may happen only by what the caller does next.
static kiln_status next_batch(kilni_cl_backend *backend, kiln_error *err)
{
    backend->flight.since_marker = 0;
    if (atomic_load(&backend->flight.user_events) > 0) {
        return KILN_STATUS_OK;
    }
    if (backend->flight.markers[0] != NULL) {
        cl_int code = kilni_cl_await(backend, backend->flight.markers[0]);
        clReleaseEvent(backend->flight.markers[0]);
        backend->flight.markers[0] = NULL;
        if (code != CL_SUCCESS) {
            return kilni_cl_fail_wait(backend, err, code, "waiting for earlier work");
        }
    }
    backend->flight.markers[0] = backend->flight.markers[1];
    backend->flight.markers[1] = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &backend->flight.markers[1]);
    if (code == CL_SUCCESS) {
        code = clFlush(backend->queue);
    }
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(backend, err, code, "marking the queue");
}

kiln_status kilni_cl_queued(kilni_cl_backend *backend, kiln_error *err)
{
    kilni_cl_set_last(backend, NULL);
    if (backend->flight.awake && backend->flight.since_marker % AWAKE == 0) {
        kiln_awake_while();
    }
    kilni_cl_spin_queued(backend->flight.spin);
    backend->flight.since_marker++;
    if (backend->flight.since_marker >= KILNI_CL_BATCH) {
        return next_batch(backend, err);
    }
    if (backend->flight.since_marker % KILNI_CL_FLUSH == 0) {
        cl_int code = clFlush(backend->queue);
        if (code != CL_SUCCESS) {
            return kilni_cl_fail(backend, err, code, "flushing the queue");
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_take_failure(kilni_cl_backend *backend, kiln_error *err)
{
    int failed = atomic_exchange(&backend->flight.failed_signal, KILN_STATUS_OK);
    if (failed != KILN_STATUS_OK) {
        return kiln_error_set(err, (kiln_status)failed, KILN_FILE_NAME, __LINE__,
                              "work that queued work waited for failed: %s",
                              kiln_status_name((kiln_status)failed));
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_drain(kilni_cl_backend *backend, kiln_error *err)
{
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    backend->counters.host_waits++;
    cl_int code = finish(backend);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail_wait(backend, err, code, "waiting for the device");
    }
    return kilni_cl_take_failure(backend, err);
}

void kilni_cl_abandon(kiln_backend *base, const char *why)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    if (backend->flight.tail == NULL &&
        clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &backend->flight.tail) == CL_SUCCESS) {
        clFlush(backend->queue);
    }
    backend->flight.lost = true;
    snprintf(backend->flight.lost_why, sizeof(backend->flight.lost_why), "%s", why);
    kiln_log_write(backend->env, KILN_LOG_ERROR, "cl_backend", "device %s is given up: %s",
                   backend->info.name, why);
}

bool kilni_cl_is_stuck(const kilni_cl_backend *backend)
{
    cl_int state = CL_COMPLETE;
    return backend->flight.tail != NULL &&
           clGetEventInfo(backend->flight.tail, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state),
                          &state, NULL) == CL_SUCCESS &&
           state > CL_COMPLETE;
}

/// A queue is finished before its callbacks are. Those of a lost device may never come.
static void await_callbacks(const kilni_cl_backend *backend)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t give_up_ns = kiln_time_ns() + 10000000000u;
    while (atomic_load(&backend->flight.callbacks) > 0 && kiln_time_ns() < give_up_ns) {
        nanosleep(&nap, NULL);
    }
}

void kilni_cl_flight_reset(kilni_cl_backend *backend)
{
    kilni_cl_set_last(backend, NULL);
    for (int i = 0; i < 2; i++) {
        if (backend->flight.markers[i] != NULL) {
            clReleaseEvent(backend->flight.markers[i]);
            backend->flight.markers[i] = NULL;
        }
    }
}

void kilni_cl_queue_open(kilni_cl_backend *backend)
{
    bool workers = backend->pocl && backend->info.type == KILN_DEVICE_CPU;
    backend->flight.keeps_last = workers && !backend->foreign_queue;
    backend->flight.follows = kilni_cl_is_nvidia(backend->info.extensions);
    backend->flight.awake = workers && kiln_config_bool(backend->env->config, KILN_OPTION_AWAKE);
    if (backend->flight.awake && kiln_awake_open()) {
        backend->flight.spin = kilni_cl_spin_open(backend->env, backend->context, backend->device,
                                                  backend->info.compute_units);
    }
}

void kilni_cl_queue_leave(kilni_cl_backend *backend)
{
    if (backend->flight.awake) {
        backend->flight.awake = false;
        kilni_cl_spin_stop(backend->flight.spin);
        kiln_awake_close();
    }
}

void kilni_cl_queue_close(kilni_cl_backend *backend)
{
    kilni_cl_queue_leave(backend);
    kilni_cl_spin_close(backend->flight.spin);
    await_callbacks(backend);
    kilni_cl_follow_end(backend);
    kilni_cl_flight_reset(backend);
    if (backend->flight.tail != NULL) {
        clReleaseEvent(backend->flight.tail);
    }
    if (backend->timing_queue != NULL) {
        clReleaseCommandQueue(backend->timing_queue);
    }
    if (backend->queue != NULL) {
        clReleaseCommandQueue(backend->queue);
    }
}
