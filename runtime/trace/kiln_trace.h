// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_TRACE_H
#define KILN_KILN_TRACE_H

/// Traces: what was recorded, planned and run, and when.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts a trace: from now on the context notes what is recorded, planned, built and queued on its
/// devices, and when they run it. Devices then use queues that measure; without a trace nothing is
/// noted and nothing is paid. The option `trace` starts one with the first device and writes it
/// when the context ends.
KILN_NODISCARD KILN_API kiln_status kiln_trace_start(kiln_context *context, kiln_error *err);

/// Waits for the devices and writes what was noted so far as JSON in Chrome's trace event format,
/// for Perfetto and chrome://tracing. Errors: FAILED_PRECONDITION without a trace, UNAVAILABLE for
/// the file, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_trace_write(kiln_context *context, const char *path,
                                                     kiln_error *err);

/// Notes what the calling thread did since `start_ns` (kiln_time_ns), such as a request that it
/// answered, with a text about it, such as the request's id; both are copied. Without a trace
/// nothing happens. It cannot fail.
KILN_API void kiln_trace_note(kiln_device *device, const char *name, const char *detail,
                              uint64_t start_ns);

#ifdef __cplusplus
}
#endif

#endif
