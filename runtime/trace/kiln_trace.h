// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_TRACE_H
#define KILN_KILN_TRACE_H

/// Traces: what was recorded, planned and run, and when.

#include "kiln_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Notes from now on what is recorded, planned, built and queued on the context's devices, and when
/// they run it. Devices then use queues that measure; without a trace nothing is noted and nothing
/// paid. The knob `trace` starts one with the first device and writes it when the context ends.
/// Ownership: the context's. Lifetime: the context's. Thread: any. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_trace_start(kiln_context *context, kiln_error *err);

/// Waits for the devices and writes what was noted so far as JSON in Chrome's trace event format,
/// for Perfetto and chrome://tracing. Ownership: borrowed. Lifetime: n/a. Thread: any.
/// Errors: FAILED_PRECONDITION without a trace, UNAVAILABLE for the file, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_trace_write(kiln_context *context, const char *path,
                                                     kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
