// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_STREAM_H
#define KILN_KILN_STREAM_H

/// Streams and events: which operations are planned together, and what waits for what. Each thread
/// has a stream of its own on each device. A program may make more, to keep unrelated work apart or
/// to let several threads add to one. Values cross streams freely: what needs a value runs after
/// what makes it. All streams of a device share its queue. Values need no events; events are for
/// what Kiln does not see, such as memory that a program wrapped.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; streams and events keep their device open; it can fail with INVALID_ARGUMENT or
/// RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_stream kiln_stream;

typedef struct kiln_event kiln_event;

/// Makes a stream. The caller holds `*out_stream` (kiln_stream_release).
KILN_NODISCARD KILN_API kiln_status kiln_stream_create(kiln_device *device,
                                                       kiln_stream **out_stream, kiln_error *err);

/// Takes one more reference to the stream and returns it. Takes NULL.
KILN_API kiln_stream *kiln_stream_retain(kiln_stream *stream);

/// Gives up one reference to the stream. What was recorded still runs. Takes NULL.
KILN_API void kiln_stream_release(kiln_stream *stream);

/// Sends what the calling thread records on the device from now on to `stream`; NULL: to the
/// thread's own stream, as after the stream's last release. An open capture goes on. Like
/// torch.cuda.set_stream. Errors: also INVALID_ARGUMENT for a stream of another device.
KILN_NODISCARD KILN_API kiln_status kiln_stream_set(kiln_device *device, kiln_stream *stream,
                                                    kiln_error *err);

/// Says whether lengths differ from run to run in what the calling thread's stream records from now
/// on, as those of a text that grows. With `on`, operations wait until a value is needed or
/// kiln_flush is called, and are planned all at once; a plan that was made for other lengths
/// serves, up to sixteen times as long or short. Otherwise other lengths are planned for anew now
/// and then: when they pass a power of two, divide by 16, or are equal to another length of the
/// program. Errors: FAILED_PRECONDITION while this thread captures.
KILN_NODISCARD KILN_API kiln_status kiln_stream_vary_lengths(kiln_device *device, bool on,
                                                             bool *out_before, kiln_error *err);

/// Makes an event for what the calling thread's stream has recorded so far. The caller owns
/// `*out_event` (kiln_event_destroy). Errors: FAILED_PRECONDITION while this thread captures; those
/// of planning and of the device. Failures of operations stay with their results.
KILN_NODISCARD KILN_API kiln_status kiln_event_record(kiln_device *device, kiln_event **out_event,
                                                      kiln_error *err);

/// Lets what this thread's stream on `device` records from now on run after the event. The host
/// waits only when the event is of another device. Errors: as kiln_event_record.
KILN_NODISCARD KILN_API kiln_status kiln_stream_wait(kiln_device *device, kiln_event *event,
                                                     kiln_error *err);

/// Submits what the event stands for, and waits on the host until it has happened. Errors: as
/// kiln_event_record.
KILN_NODISCARD KILN_API kiln_status kiln_event_wait(kiln_event *event, kiln_error *err);

/// Whether kiln_event_wait would return at once; true for NULL. Submits what it would wait for.
KILN_API bool kiln_event_poll(kiln_event *event);

/// Frees the event and does not wait. Takes NULL.
KILN_API void kiln_event_destroy(kiln_event *event);

#ifdef __cplusplus
}
#endif

#endif
