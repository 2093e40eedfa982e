// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes of allocations that live long: what a thread records inside one is placed in memory of its
// own kind. Decides that what was recorded before a scope is not part of it.

#include "rt_device.h"
#include "rt_execute.h"
#include "rt_record.h"
#include "rt_streams.h"

kiln_status kiln_persistent_begin(kiln_device *device, kiln_error *err)
{
    device = kilni_core(device);
    kilni_stream *stream = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION, "a graph is being captured");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_run(stream, /*drain=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        stream->persistent++;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_persistent_end(kiln_device *device, kiln_error *err)
{
    device = kilni_core(device);
    kilni_stream *stream = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->persistent == 0) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "this thread has no open scope of persistent allocations");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_run(stream, /*drain=*/true, err);
        stream->persistent--;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
