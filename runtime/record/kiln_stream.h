// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_STREAM_H
#define KILN_KILN_STREAM_H

/// Streams and events: which operations are planned together, and what waits for what.

#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_stream kiln_stream;
typedef struct kiln_event kiln_event;

/// A stream is a sequence of operations that are planned together. Each thread has one of its own
/// on each device; a program may make more, so that work that has nothing to do with each other is
/// not looked at together, or so that several threads add to one. Values cross streams freely: what
/// needs a value comes after what gives it. All streams of a device share its queue.
///
/// Ownership: `*out_stream` is the caller's hold (kiln_stream_release; what was recorded still
/// runs). Lifetime: until the last release; it keeps the device open. Thread: any. Errors:
/// INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_stream_create(kiln_device *device,
                                                       kiln_stream **out_stream, kiln_error *err);
KILN_API kiln_stream *kiln_stream_retain(kiln_stream *stream);
KILN_API void kiln_stream_release(kiln_stream *stream);

/// What the calling thread records on the device from now on goes to `stream`; NULL: to its own
/// again, as after the stream's last release. An open capture goes on. Like torch.cuda.set_stream.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT for a stream of
/// another device, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_stream_set(kiln_device *device, kiln_stream *stream,
                                                    kiln_error *err);

/// An event stands for what the calling thread's stream has recorded so far. `kiln_stream_wait`:
/// what this thread's stream on `device` records from now on runs after that; the host does not
/// wait, unless the event is of another device. `kiln_event_wait` waits on the host; `poll` says
/// whether it would not have to. Both hand out what they wait for. Values need no events, they are
/// waited for anyway: events are for what Kiln does not see, such as memory that a program wrapped.
/// Ownership: `*out_event` is the caller's (kiln_event_destroy, which does not wait). Lifetime:
/// until destroyed; it keeps the device open. Thread: any. Errors: FAILED_PRECONDITION while this
/// thread captures; failures of planning and of the device; those of operations stay with their
/// results.
KILN_NODISCARD KILN_API kiln_status kiln_event_record(kiln_device *device, kiln_event **out_event,
                                                      kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_stream_wait(kiln_device *device, kiln_event *event,
                                                     kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_event_wait(kiln_event *event, kiln_error *err);
KILN_API bool kiln_event_poll(kiln_event *event);
KILN_API void kiln_event_destroy(kiln_event *event);

#ifdef __cplusplus
}
#endif

#endif
