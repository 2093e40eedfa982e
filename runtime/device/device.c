// SPDX-License-Identifier: MIT OR Apache-2.0
// A device as everybody knows it: its holds, what it is, and waiting for its queue. What its rooms
// do for it, and its end, come from the tables that it was made with (rooms.c).

#include "rt_device.h"
#include "rt_trace.h"

kiln_device *kiln_device_retain(kiln_device *device)
{
    if (device != NULL) {
        atomic_fetch_add(&device->core->refs, 1);
    }
    return device;
}

void kiln_device_release(kiln_device *device)
{
    device = kilni_core(device);
    if (device != NULL && atomic_fetch_sub(&device->refs, 1) == 1) {
        device->close(device);
    }
}

const kiln_device_info *kiln_device_info_of(const kiln_device *device)
{
    if (device == NULL) {
        return NULL;
    }
    device = kilni_core(device);
    return device->backend->device->info(device->backend);
}

const char *kiln_device_address(const kiln_device *device)
{
    return kilni_core(device)->address;
}

kiln_context *kiln_device_context(const kiln_device *device)
{
    if (device == NULL) {
        return NULL;
    }
    return kilni_core(device)->context;
}

// ---- waiting ----

kiln_status kilni_device_wait(kiln_device *device, kiln_error *err)
{
    kiln_backend *backend = device->backend;
    kiln_pending *pending = NULL;
    kiln_status status = backend->transfer->read_begin(backend, NULL, 0, NULL, 0, &pending, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_unlock(&device->lock);
    uint64_t start_ns = kilni_trace_now(device);
    if (pending != NULL) {
        backend->transfer->read_wait(pending, /*cancel=*/false);
    }
    kilni_trace_span(device, KILNI_SPAN_WAIT, NULL, start_ns);
    pthread_mutex_lock(&device->lock);
    if (pending != NULL) {
        status = backend->transfer->read_end(backend, pending, err);
    }
    kilni_device_sweep(device);
    return status;
}

// ---- what waits for the lock to be given back ----

void kilni_device_put_ended(kiln_device *device, kilni_ended *ended)
{
    pthread_mutex_lock(&device->ended.lock);
    ended->next = device->ended.first;
    device->ended.first = ended;
    pthread_mutex_unlock(&device->ended.lock);
}

void kilni_device_sweep(kiln_device *device)
{
    pthread_mutex_lock(&device->ended.lock);
    kilni_ended *ended = device->ended.first;
    device->ended.first = NULL;
    pthread_mutex_unlock(&device->ended.lock);
    while (ended != NULL) {
        kilni_ended *next = ended->next;
        ended->free(device, ended);
        ended = next;
    }
}
