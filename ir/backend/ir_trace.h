// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_TRACE_H
#define KILN_IR_TRACE_H

/// The trace of a backend: when commands ran on the device. Every backend has this table; one that
/// does not know takes the default below, and a trace then has the host's times only.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock. An error means
/// a trace without the device's times, and nothing else.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

/// When a command was on the device, in the clock of kiln_time_ns.
typedef struct kiln_device_span {
    uint64_t tag; ///< that stood when it was queued
    uint64_t queued_ns;
    uint64_t submit_ns;
    uint64_t start_ns;
    uint64_t end_ns;
    char name[64]; ///< kernel, or kind of transfer
} kiln_device_span;

typedef struct kiln_backend_trace_ops {
    uint32_t struct_size;
    /// Begins or ends noting; waits.
    kiln_status (*set)(kiln_backend *backend, bool on, kiln_error *err);
    void (*tag)(kiln_backend *backend, uint64_t tag); ///< the number of commands from here on
    /// Waits, and hands over what was noted since the last call, in order, and how many commands
    /// there was no room for. A span is the backend's, for the call.
    kiln_status (*take)(kiln_backend *backend,
                        void (*take)(const kiln_device_span *span, void *user), void *user,
                        uint64_t *out_lost, kiln_error *err);
} kiln_backend_trace_ops;

/// Default of the table: nothing is noted.
extern KILN_API const kiln_backend_trace_ops kiln_backend_no_trace;

#ifdef __cplusplus
}
#endif

#endif
