// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device remembers of threads: a table by their ids, found in the same time however many
// there were. Nobody says when a thread has ended; what is not worth remembering goes when the
// table grows.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_threads.h"

static kilni_thread *place_of(const kilni_threads *threads, uint64_t id)
{
    size_t mask = threads->capacity - 1;
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (threads->places[at].id != id && threads->places[at].id != 0) {
        at = (at + 1) & mask;
    }
    return &threads->places[at];
}

kilni_thread *kilni_thread_find(const kiln_device *device, uint64_t id)
{
    if (device->threads.count == 0) {
        return NULL;
    }
    kilni_thread *place = place_of(&device->threads, id);
    return place->id == id ? place : NULL;
}

/// Whether there is something to remember of a thread.
static bool is_kept(const kilni_thread *thread)
{
    return thread->has_rng_stream || thread->chosen != NULL || thread->products != KILN_DTYPE_NONE;
}

static bool grow_threads(kiln_device *device)
{
    const kiln_env *env = &device->context->env;
    const kilni_threads before = device->threads;
    size_t used = 0;
    for (size_t i = 0; i < before.capacity; i++) {
        used += is_kept(&before.places[i]);
    }
    kilni_threads after = {.capacity = 8};
    while (after.capacity < 4 * used) {
        after.capacity *= 2;
    }
    after.places = kiln_alloc_array(env, after.capacity, sizeof(*after.places));
    if (after.places == NULL) {
        return false;
    }
    for (size_t i = 0; i < before.capacity; i++) {
        const kilni_thread *thread = &before.places[i];
        if (is_kept(thread)) {
            *place_of(&after, thread->id) = *thread;
            after.count++;
        }
    }
    kiln_free(env, before.places);
    device->threads = after;
    return true;
}

kilni_thread *kilni_thread_get(kiln_device *device, uint64_t id)
{
    kilni_thread *found = kilni_thread_find(device, id);
    if (found != NULL) {
        return found;
    }
    if (2 * device->threads.count >= device->threads.capacity && !grow_threads(device)) {
        return NULL;
    }
    found = place_of(&device->threads, id);
    found->id = id;
    device->threads.count++;
    return found;
}
