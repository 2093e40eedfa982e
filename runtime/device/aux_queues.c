// SPDX-License-Identifier: MIT OR Apache-2.0
// A device's auxiliary queues: queues beside the one that operations run in, for what must not
// stand behind queued operations, which may themselves wait for it. Made when a group first needs
// them; each has a lock of its own, so that who works there never needs the device's. What travels
// in them is coll_memory.c's.

#include "rt_aux_queues.h"
#include "rt_device.h"

static kiln_status open_queue(kiln_device *device, kilni_aux_queue *aux_queue, kiln_error *err)
{
    if (aux_queue->backend != NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status =
        device->backend->queue->open_auxiliary(device->backend, &aux_queue->backend, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_init(&aux_queue->lock, NULL);
    }
    return status;
}

kiln_status kilni_aux_queues_open(kiln_device *device, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&device->lock);
    if (device->backend->queue != NULL) {
        status = open_queue(device, &device->in, err);
        status = status == KILN_STATUS_OK ? open_queue(device, &device->out, err) : status;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void close_queue(kilni_aux_queue *aux_queue)
{
    if (aux_queue->backend != NULL) {
        aux_queue->backend->device->close(aux_queue->backend);
        pthread_mutex_destroy(&aux_queue->lock);
    }
}

void kilni_aux_queues_close(kiln_device *device)
{
    close_queue(&device->in);
    close_queue(&device->out);
}

/// What works there now will hear of it itself.
static bool is_lost(kilni_aux_queue *aux_queue, kiln_error *err)
{
    kiln_backend *backend = aux_queue->backend;
    if (backend == NULL || pthread_mutex_trylock(&aux_queue->lock) != 0) {
        return false;
    }
    bool lost = backend->device->flush(backend, err) == KILN_STATUS_DEVICE_LOST;
    pthread_mutex_unlock(&aux_queue->lock);
    return lost;
}

bool kilni_aux_queues_lost(kiln_device *device, kiln_error *err)
{
    return is_lost(&device->in, err) || is_lost(&device->out, err);
}

/// Whoever is at work there may wait for the driver, and we have the device's lock.
static void trim_queue(kilni_aux_queue *aux_queue)
{
    if (aux_queue->backend != NULL && pthread_mutex_trylock(&aux_queue->lock) == 0) {
        aux_queue->backend->memory->trim(aux_queue->backend);
        pthread_mutex_unlock(&aux_queue->lock);
    }
}

kiln_status kilni_aux_queues_set_budget(kiln_device *device, uint64_t bytes, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kilni_aux_queue *aux_queues[] = {&device->in, &device->out};
    pthread_mutex_lock(&device->lock); // those that come later take it from the device
    bool has_queues = device->out.backend != NULL;
    pthread_mutex_unlock(&device->lock);
    for (size_t i = 0; i < sizeof(aux_queues) / sizeof(aux_queues[0]) && has_queues; i++) {
        kiln_backend *backend = aux_queues[i]->backend;
        pthread_mutex_lock(&aux_queues[i]->lock);
        status =
            status == KILN_STATUS_OK ? backend->memory->set_budget(backend, bytes, err) : status;
        pthread_mutex_unlock(&aux_queues[i]->lock);
    }
    return status;
}

bool kilni_aux_queues_trim(kiln_device *device)
{
    trim_queue(&device->in);
    trim_queue(&device->out);
    return device->in.backend != NULL;
}
