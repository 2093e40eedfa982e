// SPDX-License-Identifier: MIT OR Apache-2.0
// Puts kernels into the queue: arguments, launches, how much may be in flight, waits, and points in
// the queue (marks and gates) that other threads and devices can follow. What is launched is for
// others to decide.

#include <stdio.h>
#include <time.h>

#include "cl_internal.h"

// ---- arguments ----

kilni_cl_args kilni_cl_args_begin(kilni_cl_backend *backend, kilni_cl_kernel *kernel)
{
    return (kilni_cl_args){.backend = backend, .kernel = kernel};
}

static void push(kilni_cl_args *args, size_t bytes, const void *value)
{
    if (args->code == CL_SUCCESS) {
        args->code = clSetKernelArg(args->kernel->kernel, args->index, bytes, value);
        args->index += args->code == CL_SUCCESS;
    }
}

void kilni_cl_push_buffer(kilni_cl_args *args, kiln_buffer *buffer)
{
    push(args, sizeof(cl_mem), buffer != NULL ? &kilni_cl_buffer_of(buffer)->mem : NULL);
}

void kilni_cl_push_bytes(kilni_cl_args *args, const void *value, size_t bytes)
{
    push(args, bytes, value);
}

void kilni_cl_push_i32(kilni_cl_args *args, int32_t value)
{
    push(args, sizeof(value), &value);
}

void kilni_cl_push_u32(kilni_cl_args *args, uint32_t value)
{
    push(args, sizeof(value), &value);
}

void kilni_cl_push_i64(kilni_cl_args *args, int64_t value)
{
    push(args, sizeof(value), &value);
}

void kilni_cl_push_f32(kilni_cl_args *args, float value)
{
    push(args, sizeof(value), &value);
}

void kilni_cl_push_local(kilni_cl_args *args, size_t bytes)
{
    push(args, bytes, NULL);
}

// ---- launches ----

kiln_status kilni_cl_usable(const kilni_cl_backend *backend, kiln_error *err)
{
    if (backend->lost) {
        return backend->lost_why[0] == '\0'
                   ? kiln_fail(err, DEVICE_LOST, "device %s was lost; open it again",
                               backend->info.name)
                   : kiln_fail(err, DEVICE_LOST, "device given up: %s", backend->lost_why);
    }
    return KILN_STATUS_OK;
}

// Some drivers give memory to a buffer only now: when there is none, idle buffers go and it is
// tried once more.
static cl_int enqueue_kernel(kilni_cl_backend *backend, cl_command_queue queue, cl_kernel kernel,
                             cl_uint dims, const size_t *global, const size_t *local,
                             cl_event *out_event)
{
    cl_int code =
        clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global, local, 0, NULL, out_event);
    if (kilni_cl_is_memory_code(code) && backend->pool.idle_bytes > 0 &&
        clFinish(queue) == CL_SUCCESS) {
        kilni_cl_pool_trim(backend);
        code = clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global, local, 0, NULL, out_event);
    }
    return code;
}

kiln_status kilni_cl_enqueue_on(kilni_cl_args *args, cl_command_queue queue, cl_uint dims,
                                const size_t *global, const size_t *local, cl_event *out_event,
                                kiln_error *err)
{
    kilni_cl_backend *backend = args->backend;
    kilni_cl_kernel *kernel = args->kernel;
    if (args->code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, args->code, "argument %u of kernel %s", args->index,
                             kernel->name);
    }
    kiln_status status = kilni_cl_usable(backend, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = enqueue_kernel(backend, queue, kernel->kernel, dims, global, local, out_event);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "kernel %s over %zu x %zu x %zu", kernel->name,
                             global[0], dims > 1 ? global[1] : 1, dims > 2 ? global[2] : 1);
    }
    backend->stats.kernels_launched++;
    kilni_cl_program_ran(backend, kernel, dims, global, local);
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_enqueue(kilni_cl_args *args, cl_uint dims, const size_t *global,
                             const size_t *local, kiln_error *err)
{
    for (cl_uint i = 0; i < dims; i++) {
        if (global[i] == 0) {
            return KILN_STATUS_OK;
        }
    }
    cl_event event;
    kiln_status status = kilni_cl_enqueue_on(args, args->backend->queue, dims, global, local,
                                             kilni_cl_trace_event(args->backend, &event), err);
    kilni_cl_trace_end(args->backend, args->kernel->name, event);
    return status == KILN_STATUS_OK ? kilni_cl_queued(args->backend, err) : status;
}

// ---- what is in flight ----

// Every window ends with a mark; before a third is begun the oldest must have been passed. Not
// while a gate is closed: it may open only by what the caller does next.
static kiln_status next_window(kilni_cl_backend *backend, kiln_error *err)
{
    backend->since_mark = 0;
    if (atomic_load(&backend->gates) > 0) {
        return KILN_STATUS_OK;
    }
    if (backend->marks[0] != NULL) {
        cl_int code = clWaitForEvents(1, &backend->marks[0]);
        clReleaseEvent(backend->marks[0]);
        backend->marks[0] = NULL;
        if (code != CL_SUCCESS) {
            return kilni_cl_fail_wait(backend, err, code, "waiting for earlier work");
        }
    }
    backend->marks[0] = backend->marks[1];
    backend->marks[1] = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &backend->marks[1]);
    if (code == CL_SUCCESS) {
        code = clFlush(backend->queue);
    }
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(backend, err, code, "marking the queue");
}

kiln_status kilni_cl_queued(kilni_cl_backend *backend, kiln_error *err)
{
    backend->since_mark++;
    if (backend->since_mark >= KILNI_CL_WINDOW) {
        return next_window(backend, err);
    }
    if (backend->since_mark % KILNI_CL_FLUSH == 0) {
        cl_int code = clFlush(backend->queue);
        if (code != CL_SUCCESS) {
            return kilni_cl_fail(backend, err, code, "flushing the queue");
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_take_failure(kilni_cl_backend *backend, kiln_error *err)
{
    int failed = atomic_exchange(&backend->gate_failed, KILN_STATUS_OK);
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
    cl_int code = clFinish(backend->queue);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail_wait(backend, err, code, "waiting for the device");
    }
    return kilni_cl_take_failure(backend, err);
}

void kilni_cl_abandon(kiln_backend *base, const char *why)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    if (backend->tail == NULL &&
        clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &backend->tail) == CL_SUCCESS) {
        clFlush(backend->queue);
    }
    backend->lost = true;
    snprintf(backend->lost_why, sizeof(backend->lost_why), "%s", why);
    kiln_log_write(backend->env, KILN_LOG_ERROR, "cl_backend", "device %s is given up: %s",
                   backend->info.name, why);
}

bool kilni_cl_is_stuck(const kilni_cl_backend *backend)
{
    cl_int state = CL_COMPLETE;
    return backend->tail != NULL &&
           clGetEventInfo(backend->tail, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state,
                          NULL) == CL_SUCCESS &&
           state > CL_COMPLETE;
}

/// A queue is finished before its callbacks are. Those of a lost device may never come.
static void await_callbacks(const kilni_cl_backend *backend)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t give_up_ns = kiln_time_ns() + 10000000000u;
    while (atomic_load(&backend->callbacks) > 0 && kiln_time_ns() < give_up_ns) {
        nanosleep(&nap, NULL);
    }
}

void kilni_cl_queue_close(kilni_cl_backend *backend)
{
    await_callbacks(backend);
    for (int i = 0; i < 2; i++) {
        if (backend->marks[i] != NULL) {
            clReleaseEvent(backend->marks[i]);
            backend->marks[i] = NULL;
        }
    }
    if (backend->tail != NULL) {
        clReleaseEvent(backend->tail);
    }
    kilni_cl_trace_close(backend);
    if (backend->timing_queue != NULL) {
        clReleaseCommandQueue(backend->timing_queue);
    }
    if (backend->queue != NULL) {
        clReleaseCommandQueue(backend->queue);
    }
}

// ---- marks and gates ----

struct kiln_cl_event {
    kilni_cl_backend *backend;
    cl_event event;
    bool gate;
};

typedef struct after_call {
    kilni_cl_backend *backend;
    kiln_cl_event_fn done;
    void *user;
} after_call;

static kiln_status event_create(kilni_cl_backend *backend, bool gate, kiln_cl_event **out_event,
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
    event->gate = gate;
    *out_event = event;
    return KILN_STATUS_OK;
}

kiln_status kiln_cl_mark(kiln_backend *base, kiln_cl_event **out_event, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_cl_event *event;
    kiln_status status = event_create(backend, /*gate=*/false, &event, err);
    *out_event = NULL;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &event->event);
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
    kiln_status status = event_create(backend, /*gate=*/true, &event, err);
    *out_event = NULL;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code = CL_SUCCESS;
    event->event = clCreateUserEvent(backend->context, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueBarrierWithWaitList(backend->queue, 1, &event->event, NULL);
        if (code != CL_SUCCESS) {
            clSetUserEventStatus(event->event, CL_COMPLETE);
        }
    }
    if (code != CL_SUCCESS) {
        event->gate = false;
        kiln_cl_event_destroy(event);
        return kilni_cl_fail(backend, err, code, "gating the queue");
    }
    atomic_fetch_add(&backend->gates, 1);
    *out_event = event;
    return KILN_STATUS_OK;
}

// The user event always completes: drivers differ in what a negative status does to the rest of an
// in-order queue. The failure is kept instead and reported by the next wait.
void kiln_cl_event_signal(kiln_cl_event *event, kiln_status status)
{
    if (event == NULL || !event->gate) {
        return;
    }
    event->gate = false;
    if (status != KILN_STATUS_OK) {
        atomic_store(&event->backend->gate_failed, (int)status);
    }
    clSetUserEventStatus(event->event, CL_COMPLETE);
    atomic_fetch_sub(&event->backend->gates, 1);
}

void kiln_cl_event_destroy(kiln_cl_event *event)
{
    if (event == NULL) {
        return;
    }
    kiln_cl_event_signal(event, KILN_STATUS_CANCELLED); // a gate that nobody opened
    if (event->event != NULL) {
        clReleaseEvent(event->event);
    }
    kiln_free(event->backend->env, event);
}

kiln_status kiln_cl_event_wait(kiln_cl_event *event, kiln_error *err)
{
    cl_int code = clWaitForEvents(1, &event->event);
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail_wait(NULL, err, code, "waiting for a mark");
}

static void CL_CALLBACK event_passed(cl_event event, cl_int code, void *user)
{
    (void)event;
    after_call call = *(after_call *)user;
    kiln_free(call.backend->env, user);
    call.done(code == CL_COMPLETE ? KILN_STATUS_OK : KILN_STATUS_DEVICE_LOST, call.user);
    atomic_fetch_sub(&call.backend->callbacks, 1); // the backend may be gone from here on
}

kiln_status kiln_cl_event_after(kiln_cl_event *event, kiln_cl_event_fn done, void *user,
                                kiln_error *err)
{
    kilni_cl_backend *backend = event->backend;
    after_call *call = kiln_alloc(backend->env, sizeof(*call));
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a callback");
    }
    *call = (after_call){.backend = backend, .done = done, .user = user};
    atomic_fetch_add(&backend->callbacks, 1);
    cl_int code = clSetEventCallback(event->event, CL_COMPLETE, event_passed, call);
    if (code != CL_SUCCESS) {
        atomic_fetch_sub(&backend->callbacks, 1);
        kiln_free(backend->env, call);
        return kilni_cl_fail(NULL, err, code, "setting a callback");
    }
    return KILN_STATUS_OK;
}
