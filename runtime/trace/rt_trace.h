// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_TRACE_H
#define KILN_RUNTIME_TRACE_H

/// Spans and steps as they are noted (trace.c); with no trace they cost a load.

#include "rt_device.h"
#include "rt_run.h"

#include <stdatomic.h>

typedef enum kilni_span_kind {
    KILNI_SPAN_RECORD,
    KILNI_SPAN_PLAN, ///< found
    KILNI_SPAN_SEARCH, ///< planned
    KILNI_SPAN_BUILD,
    KILNI_SPAN_RUN, ///< a segment, or a graph
    KILNI_SPAN_ENQUEUE, ///< a step
    KILNI_SPAN_READ,
    KILNI_SPAN_WAIT,
    KILNI_SPAN_MEASURE, ///< a tournament
    KILNI_SPAN_NOTE ///< the program's own
} kilni_span_kind;

static inline kilni_trace *kilni_trace_of(const kiln_device *device)
{
    return atomic_load_explicit(&device->trace, memory_order_acquire);
}

/// The time when the device has a trace, else 0. Any thread.
static inline uint64_t kilni_trace_now(const kiln_device *device)
{
    return kilni_trace_of(device) != NULL ? kiln_time_ns() : 0;
}

/// Notes a span from `start_ns` to now. Any thread.
void kilni_trace_note_span(kiln_device *device, kilni_span_kind kind, const char *name,
                           uint64_t start_ns);

/// The same from a time of kilni_trace_now: nothing when it is 0.
static inline void kilni_trace_span(kiln_device *device, kilni_span_kind kind, const char *name,
                                    uint64_t start_ns)
{
    if (start_ns != 0) {
        kilni_trace_note_span(device, kind, name, start_ns);
    }
}

/// Around each step of a plan; what is queued in between carries the step's number. Under the lock.
typedef struct kilni_step_mark {
    uint64_t tag;
    uint64_t start_ns; ///< 0: not noted
} kilni_step_mark;

kilni_step_mark kilni_trace_step_begin(const kilni_run *run);
void kilni_trace_step_end(const kilni_run *run, uint32_t index, kilni_step_mark mark);

static inline void kilni_trace_tag(kiln_device *device, uint64_t tag)
{
    device->backend->trace->tag(device->backend, tag);
}

typedef struct kilni_step_time {
    uint64_t median_ns; ///< on the device, where that is known
    uint64_t start_ns; ///< of the last run
    uint64_t last_ns;
    uint32_t runs;
} kilni_step_time;

/// What the steps of a plan took. False without a trace. Waits. Under the lock.
bool kilni_trace_times(kiln_device *device, const kiln_plan *plan, kilni_step_time *out_times);

/// The context's trace, made now when the option asks for one; NULL: none. Errors: UNAVAILABLE when
/// the option's file cannot be written, RESOURCE_EXHAUSTED.
kiln_status kilni_context_trace(kiln_context *context, kilni_trace **out_trace, kiln_error *err);

/// From now on the device is part of it; no longer, when it closes. Under the lock.
void kilni_trace_join(kiln_device *device, kilni_trace *trace);
void kilni_trace_leave(kiln_device *device);

/// Writes the trace that the option asked for, and forgets it.
void kilni_trace_end(kiln_context *context);
void kilni_trace_destroy(kilni_trace *trace);

#endif
