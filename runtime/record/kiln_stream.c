// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams that a program names, and events: who records where, and what is to be there before what.
// Operations of all streams of a device end up in one queue, in the order in which streams hand
// them out; so waiting for an event of the same device is handing out what was recorded before it.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_threads.h"

struct kiln_stream {
    atomic_uint refs;
    kiln_device *device; ///< held
    kilni_stream *inner;
};

// ---- streams ----

kiln_status kiln_stream_create(kiln_device *handle, kiln_stream **out_stream, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL || out_stream == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and out_stream must not be NULL");
    }
    *out_stream = NULL;
    kiln_stream *stream = kiln_alloc(&device->context->env, sizeof(*stream));
    if (stream == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    atomic_init(&stream->refs, 1);
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_create(device, /*whole=*/false, &stream->inner, err);
    if (status == KILN_STATUS_OK) {
        stream->inner->thread = 0;
        stream->inner->named = true;
        kilni_stream_enlist(stream->inner);
    }
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, stream);
        return status;
    }
    stream->device = kiln_device_retain(device);
    *out_stream = stream;
    return KILN_STATUS_OK;
}

kiln_stream *kiln_stream_retain(kiln_stream *stream)
{
    if (stream != NULL) {
        atomic_fetch_add(&stream->refs, 1);
    }
    return stream;
}

void kiln_stream_release(kiln_stream *stream)
{
    if (stream == NULL || atomic_fetch_sub(&stream->refs, 1) != 1) {
        return;
    }
    kiln_device *device = stream->device;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < device->threads.capacity; i++) {
        kilni_thread *thread = &device->threads.places[i];
        thread->chosen = thread->chosen == stream->inner ? NULL : thread->chosen;
    }
    device->streams.current = NULL;
    stream->inner->named = false; // goes once nothing is queued on it
    pthread_mutex_unlock(&device->lock);
    kiln_free(&device->context->env, stream);
    kiln_device_release(device);
}

/// `stream` NULL: its own again.
static kiln_status choose(kiln_device *device, kilni_stream *stream, kiln_error *err)
{
    uint64_t id = kiln_thread_id();
    kilni_thread *thread =
        stream != NULL ? kilni_thread_get(device, id) : kilni_thread_find(device, id);
    if (thread == NULL && stream != NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to choose a stream");
    }
    if (thread != NULL) {
        thread->chosen = stream;
    }
    device->streams.current = NULL;
    return KILN_STATUS_OK;
}

kiln_status kiln_stream_set(kiln_device *handle, kiln_stream *stream, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    if (stream != NULL && stream->device != device) {
        return kiln_fail(err, INVALID_ARGUMENT, "the stream is of %s, not of %s",
                         stream->device->address, device->address);
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = choose(device, stream != NULL ? stream->inner : NULL, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_stream_vary_lengths(kiln_device *handle, bool on, bool *out_before,
                                     kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "the lengths of a capture do not vary: a graph is bound to new ones");
    }
    if (status == KILN_STATUS_OK) {
        bool before = kiln_fuse_stream_vary(stream->queue, on);
        *(out_before != NULL ? out_before : &before) = before;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

// ---- events ----

struct kiln_event {
    kiln_device *device; ///< held
    uint64_t stream; ///< id
    uint64_t position; ///< what the stream had recorded
    pthread_mutex_t lock; ///< guards what follows; the device's comes after it
    bool marked; ///< all of it is in the queue, and `pending` waits behind it
    bool ended;
    kiln_pending *pending;
    kiln_error result;
};

kiln_status kiln_event_record(kiln_device *handle, kiln_event **out_event, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL || out_event == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and out_event must not be NULL");
    }
    *out_event = NULL;
    kiln_event *event = kiln_alloc(&device->context->env, sizeof(*event));
    if (event == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an event");
    }
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION, "event inside a capture");
    }
    if (status == KILN_STATUS_OK) {
        event->stream = stream->id;
        event->position = stream->recorded;
    }
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, event);
        return status;
    }
    event->device = kiln_device_retain(device);
    pthread_mutex_init(&event->lock, NULL);
    event->result = (kiln_error)KILN_ERROR_INIT;
    *out_event = event;
    return KILN_STATUS_OK;
}

/// What was recorded before the event goes to the queue. Under the device's lock.
static kiln_status hand_out(const kiln_event *event, kiln_error *err)
{
    kilni_stream *stream = kilni_stream_find(event->device, event->stream);
    if (stream == NULL ||
        stream->recorded - kiln_fuse_stream_pending(stream->queue) >= event->position) {
        return KILN_STATUS_OK;
    }
    return kilni_stream_run(stream, /*drain=*/true, err);
}

/// Puts a mark behind it, once. Under the event's lock.
static void mark(kiln_event *event)
{
    kiln_device *device = event->device;
    if (event->marked) {
        return;
    }
    event->marked = true;
    pthread_mutex_lock(&device->lock);
    kiln_status status = hand_out(event, &event->result);
    if (status == KILN_STATUS_OK) {
        status = device->backend->transfer->read_begin(device->backend, NULL, 0, NULL, 0,
                                                       &event->pending, &event->result);
    }
    pthread_mutex_unlock(&device->lock);
    event->ended = event->pending == NULL;
    event->result.code = (int32_t)status;
}

/// Waits for the mark. Under the event's lock.
static void end(kiln_event *event)
{
    kiln_backend *backend = event->device->backend;
    backend->transfer->read_wait(event->pending, /*cancel=*/false);
    pthread_mutex_lock(&event->device->lock);
    event->result.code =
        (int32_t)backend->transfer->read_end(backend, event->pending, &event->result);
    pthread_mutex_unlock(&event->device->lock);
    event->pending = NULL;
    event->ended = true;
}

bool kiln_event_poll(kiln_event *event)
{
    if (event == NULL) {
        return true;
    }
    if (pthread_mutex_trylock(&event->lock) != 0) {
        return false; // somebody waits for it
    }
    mark(event);
    if (!event->ended && event->device->backend->transfer->read_poll(event->pending)) {
        end(event);
    }
    bool ended = event->ended;
    pthread_mutex_unlock(&event->lock);
    return ended;
}

kiln_status kiln_event_wait(kiln_event *event, kiln_error *err)
{
    if (event == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "event must not be NULL");
    }
    pthread_mutex_lock(&event->lock);
    mark(event);
    if (!event->ended) {
        end(event);
    }
    kiln_status status = (kiln_status)event->result.code;
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = event->result;
    }
    pthread_mutex_unlock(&event->lock);
    return status;
}

kiln_status kiln_stream_wait(kiln_device *handle, kiln_event *event, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kilni_stream *stream = NULL;
    if (device == NULL || event == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and event must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION, "wait for an event inside a capture");
    }
    if (status == KILN_STATUS_OK && device == event->device && stream->id != event->stream) {
        status = hand_out(event, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status == KILN_STATUS_OK && device != event->device ? kiln_event_wait(event, err)
                                                               : status;
}

void kiln_event_destroy(kiln_event *event)
{
    if (event == NULL) {
        return;
    }
    kiln_device *device = event->device;
    if (event->pending != NULL) {
        device->backend->transfer->read_wait(event->pending, /*cancel=*/true);
        end(event);
    }
    pthread_mutex_destroy(&event->lock);
    kiln_free(&device->context->env, event);
    kiln_device_release(device);
}
