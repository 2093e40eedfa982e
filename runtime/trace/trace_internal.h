// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TRACE_INTERNAL_H
#define KILN_TRACE_INTERNAL_H

/// What a trace holds: shared by trace.c, which fills it, and trace_write.c, which writes it.

#include "rt_context.h"
#include "rt_trace.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct kilni_span { ///< what a thread of the host did
    kilni_span_kind kind;
    uint32_t device;
    uint64_t thread;
    uint64_t start_ns;
    uint64_t end_ns;
    const char *name;
    const char *detail;
    // Of an ENQUEUE alone:
    uint64_t tag; ///< of the device's commands that came of it
    const kiln_plan *plan; ///< compared, never followed
    uint32_t step;
    uint32_t block;
    uint64_t bytes; ///< read and written
    uint64_t memory; ///< held by tensors afterwards
} kilni_span;

typedef struct kilni_ran { ///< what a device did
    kiln_device_span span;
    uint32_t device;
} kilni_ran;

struct kilni_trace { ///< of a context, to its end
    const kiln_env *env;
    uint64_t start_ns;
    _Atomic(uint64_t) last_tag;
    pthread_mutex_t lock; ///< guards the rest; nothing else is locked under it
    kiln_arena arena; ///< texts
    kilni_span *spans;
    size_t n_spans;
    size_t spans_capacity;
    kilni_ran *ran; ///< of one device in order
    size_t n_ran;
    size_t ran_capacity;
    const char **devices;
    size_t n_devices;
    size_t devices_capacity;
    uint64_t n_lost; ///< what there was no room for
};

/// Writes the trace as JSON. Errors: UNAVAILABLE for the file, RESOURCE_EXHAUSTED.
kiln_status kilni_trace_save(kilni_trace *trace, const char *path, kiln_error *err);

#endif
