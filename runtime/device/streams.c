// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams that a device lists: found by id, by who chose them, by what they allocate. Making,
// choosing and ending them is thread_streams.c's.

#include "rt_device.h"
#include "rt_streams.h"
#include "rt_threads.h"

kilni_stream *kilni_stream_find(const kiln_device *device, uint64_t id)
{
    if (device->streams.current != NULL && device->streams.current->id == id) {
        return device->streams.current;
    }
    kilni_stream *stream = id != 0 ? device->streams.first : NULL;
    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

void kilni_stream_enlist(kilni_stream *stream)
{
    kiln_device *device = stream->device;
    stream->next = device->streams.first;
    device->streams.first = stream;
    device->streams.count++;
    device->streams.current = NULL;
}

kilni_stream *kilni_stream_chosen_by(const kiln_device *device, uint64_t thread)
{
    const kilni_thread *found = kilni_thread_find(device, thread);
    return found != NULL ? found->chosen : NULL;
}

bool kilni_stream_is_mine(const kilni_stream *stream)
{
    uint64_t thread = kiln_thread_id();
    return stream->thread == thread || kilni_stream_chosen_by(stream->device, thread) == stream;
}

bool kilni_stream_captures_input(const kiln_device *device, const kiln_tensor *tensor,
                                 size_t *out_index)
{
    for (const kilni_stream *s = device->streams.first; s != NULL; s = s->next) {
        bool here = s->capturing && s->thread == kiln_thread_id();
        for (size_t i = 0; here && i < s->n_inputs; i++) {
            if (s->inputs[i] == tensor) {
                *out_index = i;
                return true;
            }
        }
    }
    return false;
}

bool kilni_device_persists(const kiln_device *device)
{
    for (const kilni_stream *s = device->streams.first; s != NULL; s = s->next) {
        if (s->persistent > 0 && kilni_stream_is_mine(s)) {
            return true;
        }
    }
    return false;
}
