// SPDX-License-Identifier: MIT OR Apache-2.0
// A device's lanes: queues beside the one that operations run in, for what must not stand behind
// queued operations, which may themselves wait for it. Made when a group first needs them; each has
// a lock of its own, so that who works there never needs the device's. What travels in them is
// coll_memory.c's.

#include "rt_device.h"
#include "rt_lanes.h"

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

static kiln_status open_lane(kiln_device *device, kilni_lane *lane, kiln_error *err)
{
    if (lane->backend != NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_cl_open_lane(device->backend, &lane->backend, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_init(&lane->lock, NULL);
    }
    return status;
}

kiln_status kilni_lanes_open(kiln_device *device, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&device->lock);
    if (kiln_cl_is(device->backend)) {
        status = open_lane(device, &device->in, err);
    }
    if (status == KILN_STATUS_OK && kiln_cl_is(device->backend)) {
        status = open_lane(device, &device->out, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
#else
kiln_status kilni_lanes_open(kiln_device *device, kiln_error *err)
{
    (void)device, (void)err;
    return KILN_STATUS_OK;
}
#endif

static void close_lane(kilni_lane *lane)
{
    if (lane->backend != NULL) {
        lane->backend->ops->close(lane->backend);
        pthread_mutex_destroy(&lane->lock);
    }
}

void kilni_lanes_close(kiln_device *device)
{
    close_lane(&device->in);
    close_lane(&device->out);
}

/// Whoever is at work there may wait for the driver, and we have the device's lock.
static void trim_lane(kilni_lane *lane)
{
    if (lane->backend != NULL && pthread_mutex_trylock(&lane->lock) == 0) {
        lane->backend->ops->trim(lane->backend);
        pthread_mutex_unlock(&lane->lock);
    }
}

void kilni_lanes_set_budget(kiln_device *device, uint64_t bytes)
{
    kilni_lane *lanes[] = {&device->in, &device->out};
    pthread_mutex_lock(&device->lock); // those that come later take it from the device
    bool has_lanes = device->out.backend != NULL;
    pthread_mutex_unlock(&device->lock);
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]) && has_lanes; i++) {
        pthread_mutex_lock(&lanes[i]->lock);
        lanes[i]->backend->ops->set_budget(lanes[i]->backend, bytes);
        pthread_mutex_unlock(&lanes[i]->lock);
    }
}

bool kilni_lanes_trim(kiln_device *device)
{
    trim_lane(&device->in);
    trim_lane(&device->out);
    return device->in.backend != NULL;
}
