// SPDX-License-Identifier: MIT OR Apache-2.0
// When commands ran: their events are kept while a trace is on, and become spans in the host's
// clock. The queue is another one then, with profiling, so that nothing is paid when it is off.
// What a tag means is the caller's.

#include <string.h>

#include "cl_error.h"
#include "cl_queue.h"
#include "cl_state.h"
#include "cl_trace.h"

enum { NAME_BYTES = 56, HARVEST = 2048, CALIBRATIONS = 9 };

struct kilni_cl_noted { ///< one command
    cl_event event;
    uint64_t tag;
    char name[NAME_BYTES];
};

// ---- the two clocks ----

static cl_int profile(cl_event event, cl_profiling_info what, uint64_t *out_ns)
{
    cl_ulong value = 0;
    cl_int code = clGetEventProfilingInfo(event, what, sizeof(value), &value, NULL);
    *out_ns = value;
    return code;
}

/// The moment at which a command was queued is known in both clocks; the shortest call says it
/// best.
static kiln_status calibrate(kilni_cl_backend *backend, kiln_error *err)
{
    uint64_t shortest = UINT64_MAX;
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < CALIBRATIONS && code == CL_SUCCESS; i++) {
        cl_event event = NULL;
        uint64_t device = 0;
        uint64_t before = kiln_time_ns();
        code = clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &event);
        uint64_t after = kiln_time_ns();
        if (code == CL_SUCCESS) {
            code = clWaitForEvents(1, &event);
        }
        if (code == CL_SUCCESS) {
            code = profile(event, CL_PROFILING_COMMAND_QUEUED, &device);
        }
        if (event != NULL) {
            clReleaseEvent(event);
        }
        if (code == CL_SUCCESS && after - before < shortest) {
            shortest = after - before;
            backend->trace.host_minus_device = (int64_t)(before + shortest / 2) - (int64_t)device;
        }
    }
    return code == CL_SUCCESS ? KILN_STATUS_OK
                              : kilni_cl_fail(backend, err, code, "the device's clock");
}

static uint64_t in_host_clock(const kilni_cl_backend *backend, uint64_t device_ns)
{
    return (uint64_t)((int64_t)device_ns + backend->trace.host_minus_device);
}

// ---- noting ----

static void add_span(kilni_cl_backend *backend, const kilni_cl_noted *noted)
{
    kilni_cl_trace *trace = &backend->trace;
    uint64_t t[4] = {0};
    if (trace->n_spans == trace->most_spans) {
        trace->n_lost++;
        return;
    }
    if (profile(noted->event, CL_PROFILING_COMMAND_QUEUED, &t[0]) != CL_SUCCESS ||
        profile(noted->event, CL_PROFILING_COMMAND_SUBMIT, &t[1]) != CL_SUCCESS ||
        profile(noted->event, CL_PROFILING_COMMAND_START, &t[2]) != CL_SUCCESS ||
        profile(noted->event, CL_PROFILING_COMMAND_END, &t[3]) != CL_SUCCESS) {
        return;
    }
    if (trace->n_spans == trace->spans_capacity) {
        size_t capacity = trace->spans_capacity == 0 ? HARVEST : 2 * trace->spans_capacity;
        kiln_device_span *more =
            kiln_realloc(backend->env, trace->spans, trace->spans_capacity * sizeof(*more),
                         capacity * sizeof(*more));
        if (more == NULL) {
            trace->n_lost++;
            return;
        }
        trace->spans = more;
        trace->spans_capacity = capacity;
    }
    kiln_device_span *span = &trace->spans[trace->n_spans++];
    *span = (kiln_device_span){.tag = noted->tag,
                               .queued_ns = in_host_clock(backend, t[0]),
                               .submit_ns = in_host_clock(backend, t[1]),
                               .start_ns = in_host_clock(backend, t[2]),
                               .end_ns = in_host_clock(backend, t[3])};
    memcpy(span->name, noted->name, sizeof(noted->name));
}

/// Turns what is over into spans; a queue in order ends its commands in order.
static void harvest(kilni_cl_backend *backend, bool all)
{
    kilni_cl_trace *trace = &backend->trace;
    size_t done = 0;
    while (done < trace->n_noted) {
        cl_int state = CL_COMPLETE;
        cl_event event = trace->noted[done].event;
        bool known = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state,
                                    NULL) == CL_SUCCESS;
        if (known && state > CL_COMPLETE && !all) {
            break;
        }
        if (known && state == CL_COMPLETE) {
            add_span(backend, &trace->noted[done]);
        }
        clReleaseEvent(event);
        done++;
    }
    if (done > 0) {
        memmove(trace->noted, trace->noted + done, (trace->n_noted - done) * sizeof(*trace->noted));
        trace->n_noted -= done;
    }
}

void kilni_cl_trace_note(kilni_cl_backend *backend, const char *name, cl_event event)
{
    kilni_cl_trace *trace = &backend->trace;
    if (trace->n_noted >= HARVEST && trace->n_noted % HARVEST == 0) {
        harvest(backend, /*all=*/false);
    }
    if (trace->n_noted == trace->noted_capacity) {
        size_t capacity = trace->noted_capacity == 0 ? HARVEST : 2 * trace->noted_capacity;
        kilni_cl_noted *more =
            kiln_realloc(backend->env, trace->noted, trace->noted_capacity * sizeof(*more),
                         capacity * sizeof(*more));
        if (more == NULL) {
            trace->n_lost++;
            clReleaseEvent(event);
            return;
        }
        trace->noted = more;
        trace->noted_capacity = capacity;
    }
    kilni_cl_noted *noted = &trace->noted[trace->n_noted++];
    *noted = (kilni_cl_noted){.event = event, .tag = trace->tag};
    size_t length = strlen(name);
    memcpy(noted->name, name, length < NAME_BYTES ? length : NAME_BYTES - 1);
}

void kilni_cl_trace_and_keep(kilni_cl_backend *backend, const char *name, bool keeps,
                             cl_event take_event)
{
    if (take_event != NULL && backend->trace.on &&
        (!keeps || clRetainEvent(take_event) == CL_SUCCESS)) {
        kilni_cl_trace_note(backend, name, take_event);
    }
    if (keeps) {
        kilni_cl_set_last(backend, take_event);
    }
}

// ---- on, off, out ----

static void swap_queue(kilni_cl_backend *backend, cl_command_queue queue)
{
    kilni_cl_flight_reset(backend);
    clReleaseCommandQueue(backend->queue);
    backend->queue = queue;
}

/// A queue that measures in place of the backend's own. One that the program gave stays.
static kiln_status replace_queue(kilni_cl_backend *backend, bool profiling, kiln_error *err)
{
    cl_command_queue_properties has = 0;
    cl_int code =
        clGetCommandQueueInfo(backend->queue, CL_QUEUE_PROPERTIES, sizeof(has), &has, NULL);
    if (code == CL_SUCCESS && ((has & CL_QUEUE_PROFILING_ENABLE) != 0) == profiling) {
        return KILN_STATUS_OK;
    }
    if (code == CL_SUCCESS && backend->foreign_queue) {
        return profiling ? kiln_fail(err, FAILED_PRECONDITION,
                                     "the program's own queue does not measure: make it with "
                                     "CL_QUEUE_PROFILING_ENABLE")
                         : KILN_STATUS_OK;
    }
    cl_command_queue queue = NULL;
    if (code == CL_SUCCESS) {
        queue = clCreateCommandQueue(backend->context, backend->device,
                                     profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(backend, err, code, "a queue for a trace");
    }
    swap_queue(backend, queue);
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_trace_set(kiln_backend *base, bool on, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = KILN_STATUS_OK;
    if (backend->trace.on == on) {
        return KILN_STATUS_OK;
    }
    KILN_TRY(out, status, kilni_cl_drain(backend, err));
    harvest(backend, /*all=*/true);
    KILN_TRY(out, status, replace_queue(backend, on, err));
    if (on) {
        KILN_TRY(out, status, calibrate(backend, err));
    }
    backend->trace.on = on;
    backend->trace.most_spans = KILNI_CL_MOST_SPANS;
out:
    return status;
}

void kilni_cl_trace_tag(kiln_backend *base, uint64_t tag)
{
    kilni_cl_backend_of(base)->trace.tag = tag;
}

kiln_status kilni_cl_trace_take(kiln_backend *base,
                                void (*take)(const kiln_device_span *span, void *user), void *user,
                                uint64_t *out_lost, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_status status = kilni_cl_drain(backend, err);
    harvest(backend, /*all=*/true);
    for (size_t i = 0; i < backend->trace.n_spans; i++) {
        take(&backend->trace.spans[i], user);
    }
    *out_lost = backend->trace.n_lost;
    backend->trace.n_spans = 0;
    backend->trace.n_lost = 0;
    return status;
}

void kilni_cl_trace_close(kilni_cl_backend *backend)
{
    for (size_t i = 0; i < backend->trace.n_noted; i++) {
        clReleaseEvent(backend->trace.noted[i].event);
    }
    kiln_free(backend->env, backend->trace.noted);
    kiln_free(backend->env, backend->trace.spans);
    backend->trace = (kilni_cl_trace){0};
}
