// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams of a device: which of them a thread records on, and how long those of threads that
// have nothing queued are kept. Explicit streams are kiln_stream.c's, running what is queued
// segments.c's.
#include "rt_context.h"
#include "rt_device.h"
#include "rt_memory_account.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"

// Streams of threads that have nothing queued are kept up to this number, so that a thread that
// comes back finds its own; beyond it they are made again when needed.
enum { IDLE_STREAMS = 32 };
// Nobody drains the streams of threads that have ended: from this number on what all threads have
// recorded is run, so that theirs go too.
enum { MOST_STREAMS = 256 };

kiln_status kilni_stream_create(kiln_device *device, bool whole, kilni_stream **out_stream,
                                kiln_error *err)
{
    kilni_stream *stream = kiln_alloc(&device->context->env, sizeof(*stream));
    if (stream == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    stream->id = ++device->streams.last_id;
    stream->device = device;
    stream->thread = kiln_thread_id();
    stream->capturing = whole;
    stream->engine = kilni_device_engine(device);
    kiln_status status = kiln_fuse_stream_create(stream->engine, whole, &stream->queue, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, stream);
        return status;
    }
    *out_stream = stream;
    return KILN_STATUS_OK;
}

static void unpin_token(void *token, void *user)
{
    (void)user;
    kilni_tensor_unpin(token);
}

/// What is still queued is let go without being planned or run.
void kilni_stream_destroy(kilni_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (!stream->replaying) {
        kiln_fuse_stream_discard(stream->queue, unpin_token, NULL);
    }
    if (stream->device->streams.current == stream) {
        stream->device->streams.current = NULL;
    }
    kiln_fuse_stream_destroy(stream->queue);
    kiln_free(&stream->device->context->env, stream);
}

void kilni_streams_prune(kiln_device *device)
{
    kilni_stream **link = &device->streams.first;
    while (*link != NULL) {
        kilni_stream *stream = *link;
        if (!stream->capturing && !stream->named && stream->persistent == 0 &&
            kiln_fuse_stream_pending(stream->queue) == 0) {
            *link = stream->next;
            device->streams.count--;
            kilni_stream_destroy(stream);
        } else {
            link = &stream->next;
        }
    }
}

/// A capture comes before the stream that the thread chose, and that before its own.
static kilni_stream *find_for_thread(const kiln_device *device, uint64_t thread)
{
    kilni_stream *own = NULL;
    kilni_stream *chosen = kilni_stream_chosen_by(device, thread);
    for (kilni_stream *s = device->streams.first; s != NULL; s = s->next) {
        if (s->thread == thread && s->capturing) {
            return s;
        }
        own = s->thread == thread ? s : own;
    }
    return chosen != NULL ? chosen : own;
}

/// Before there is one stream more.
static void make_way(kiln_device *device)
{
    if (device->streams.count >= IDLE_STREAMS) {
        kilni_streams_prune(device);
    }
    if (device->streams.count >= MOST_STREAMS) {
        kilni_run_for_memory(device);
        kilni_streams_prune(device);
    }
}

kiln_status kilni_stream_current(kiln_device *device, kilni_stream **out_stream, kiln_error *err)
{
    uint64_t thread = kiln_thread_id();
    kilni_stream *stream = device->streams.current;
    if (stream != NULL && device->streams.current_thread == thread) {
        *out_stream = stream;
        return KILN_STATUS_OK;
    }
    stream = find_for_thread(device, thread);
    if (stream == NULL) {
        make_way(device);
        kiln_status status = kilni_stream_create(device, /*whole=*/false, &stream, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_stream_enlist(stream);
    }
    device->streams.current = stream;
    device->streams.current_thread = thread;
    *out_stream = stream;
    return KILN_STATUS_OK;
}
