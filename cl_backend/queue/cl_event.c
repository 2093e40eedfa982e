// SPDX-License-Identifier: MIT OR Apache-2.0
// Points in the queue that other threads and devices follow: markers, which are reached when the
// work before them is done, and user events, which hold back the work behind them until somebody
// signals them.

#include "cl_error.h"
#include "cl_follow.h"
#include "cl_queue.h"
#include "cl_state.h"

#include <time.h>

enum { TRIES = 1000 };

struct kiln_event {
    kilni_cl_backend *backend;
    cl_event event;
    bool is_user; ///< and not signalled
};

typedef struct after_call {
    kilni_cl_backend *backend;
    kiln_event_fn done;
    void *user;
} after_call;

/// A queue that waits for the event stands until it is complete, so a driver that cannot do that
/// now is asked again.
static void complete(cl_event event)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < TRIES && clSetUserEventStatus(event, CL_COMPLETE) != CL_SUCCESS; i++) {
        (void)nanosleep(&pause, NULL);
    }
}

static kiln_status event_create(kilni_cl_backend *backend, bool is_user, kiln_cl_event **out_event,
                                kiln_error *err)
{
    *out_event = NULL;
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_cl_event *event = kiln_alloc(backend->env, sizeof(*event));
    if (event == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an event");
    }
    event->backend = backend;
    event->is_user = is_user;
    *out_event = event;
    return KILN_STATUS_OK;
}

kiln_status kiln_cl_mark(kiln_backend *base, kiln_cl_event **out_event, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_cl_event *event;
    kiln_status status = event_create(backend, /*is_user=*/false, &event, err);
    *out_event = NULL;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = kilni_cl_all_done(backend, &event->event);
    if (code == CL_SUCCESS) {
        code = clFlush(backend->queue);
    }
    if (code != CL_SUCCESS) {
        kiln_cl_event_destroy(event);
        return kilni_cl_fail(backend, err, code, "marking the queue");
    }
    *out_event = event;
    return KILN_STATUS_OK;
}

kiln_status kiln_cl_gate(kiln_backend *base, kiln_cl_event **out_event, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_cl_event *event;
    kiln_status status = event_create(backend, /*is_user=*/true, &event, err);
    *out_event = NULL;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = CL_SUCCESS;
    event->event = clCreateUserEvent(backend->context, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueBarrierWithWaitList(backend->queue, 1, &event->event, NULL);
        if (code != CL_SUCCESS) {
            complete(event->event);
        }
    }
    if (code != CL_SUCCESS) {
        event->is_user = false;
        kiln_cl_event_destroy(event);
        return kilni_cl_fail(backend, err, code, "gating the queue");
    }
    atomic_fetch_add(&backend->flight.user_events, 1);
    kilni_cl_set_last(backend, NULL);
    *out_event = event;
    return KILN_STATUS_OK;
}

// The user event always completes: drivers differ in what a negative status does to the rest of an
// in-order queue. The failure is kept instead and reported by the next wait.
void kiln_cl_event_signal(kiln_cl_event *event, kiln_status status)
{
    if (event == NULL || !event->is_user) {
        return;
    }
    event->is_user = false;
    if (status != KILN_STATUS_OK) {
        atomic_store(&event->backend->flight.failed_signal, (int)status);
    }
    complete(event->event);
    atomic_fetch_sub(&event->backend->flight.user_events, 1);
}

void kiln_cl_event_destroy(kiln_cl_event *event)
{
    if (event == NULL) {
        return;
    }
    kiln_cl_event_signal(event, KILN_STATUS_CANCELLED); // a user event that nobody signalled
    if (event->event != NULL) {
        clReleaseEvent(event->event);
    }
    kiln_free(event->backend->env, event);
}

kiln_status kiln_cl_event_wait(kiln_cl_event *event, kiln_error *err)
{
    cl_int code = kilni_cl_await(event->backend, event->event);
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail_wait(NULL, err, code, "waiting for a marker");
}

static void CL_CALLBACK event_passed(cl_event event, cl_int code, void *user)
{
    (void)event;
    after_call call = *(after_call *)user;
    kiln_free(call.backend->env, user);
    call.done(code == CL_COMPLETE ? KILN_STATUS_OK : KILN_STATUS_DEVICE_LOST, call.user);
    atomic_fetch_sub(&call.backend->flight.callbacks, 1); // the backend may be gone from here on
}

kiln_status kiln_cl_event_after(kiln_cl_event *event, kiln_event_fn done, void *user,
                                kiln_error *err)
{
    kilni_cl_backend *backend = event->backend;
    after_call *call = kiln_alloc(backend->env, sizeof(*call));
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a callback");
    }
    *call = (after_call){.backend = backend, .done = done, .user = user};
    atomic_fetch_add(&backend->flight.callbacks, 1);
    cl_int code = backend->flight.follows
                      ? kilni_cl_follow(backend, event->event, event_passed, call)
                      : clSetEventCallback(event->event, CL_COMPLETE, event_passed, call);
    if (code != CL_SUCCESS) {
        atomic_fetch_sub(&backend->flight.callbacks, 1);
        kiln_free(backend->env, call);
        return kilni_cl_fail(NULL, err, code, "setting a callback");
    }
    return KILN_STATUS_OK;
}
