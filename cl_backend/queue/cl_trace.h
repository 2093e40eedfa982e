// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_TRACE_H
#define KILNI_CL_TRACE_H

/// When commands ran.

#include "cl_opencl.h"

enum { KILNI_CL_MOST_SPANS = 1 << 20 };

typedef struct kilni_cl_noted kilni_cl_noted;

typedef struct kilni_cl_trace {
    bool on;
    uint64_t tag; ///< of commands from now on
    int64_t host_minus_device; ///< clocks, in ns
    kilni_cl_noted *noted; ///< commands that may still run
    size_t n_noted;
    size_t noted_capacity;
    kiln_device_span *spans; ///< those that are over
    size_t n_spans;
    size_t spans_capacity;
    size_t most_spans; ///< until somebody takes them: a forgotten trace ends somewhere
    uint64_t n_lost; ///< there was no room for them
} kilni_cl_trace;

/// As the backend's table says.
KILN_NODISCARD kiln_status kilni_cl_trace_set(kiln_backend *base, bool on, kiln_error *err);
void kilni_cl_trace_tag(kiln_backend *base, uint64_t tag);
KILN_NODISCARD kiln_status kilni_cl_trace_take(kiln_backend *base,
                                               void (*take)(const kiln_device_span *span,
                                                            void *user),
                                               void *user, uint64_t *out_lost, kiln_error *err);
void kilni_cl_trace_close(kilni_cl_backend *backend);

/// A command's event, whose hold goes to the trace; only while one is on. The name is copied. What
/// cannot be kept is left out.
void kilni_cl_trace_note(kilni_cl_backend *backend, const char *name, cl_event event);

/// Takes the event, or NULL, of the command that was queued last: a trace may want it, and, where
/// the queue keeps such commands' events, whoever waits.
void kilni_cl_trace_and_keep(kilni_cl_backend *backend, const char *name, bool keeps,
                             cl_event take_event);

/// What to pass to an enqueue; NULL when no trace is on.
static inline cl_event *kilni_cl_trace_event(const kilni_cl_trace *trace, cl_event *event)
{
    *event = NULL;
    return trace->on ? event : NULL;
}

/// After that enqueue.
static inline void kilni_cl_trace_end(kilni_cl_backend *backend, const char *name, cl_event event)
{
    if (event != NULL) {
        kilni_cl_trace_note(backend, name, event);
    }
}

#endif
