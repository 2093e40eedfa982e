// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls on a whole device: status, flush and sync, fusion on and off, giving memory back. Decides
// which failures a sync reports, and that each is reported once.

#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_engines.h"
#include "rt_execute.h"
#include "rt_memory_account.h"
#include "rt_record.h"
#include "rt_streams.h"

static kiln_status report_fault(kiln_device *device, kiln_error *err)
{
    if (device->faults.first == NULL) {
        return KILN_STATUS_OK;
    }
    if (err != NULL) {
        *err = device->faults.first->error;
    }
    return (kiln_status)device->faults.first->error.code;
}

kiln_status kiln_device_status(kiln_device *device, kiln_error *err)
{
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kiln_status status = report_fault(device, err);
    kiln_error lost = KILN_ERROR_INIT; // by a call of the host's, or after the first failure
    if (status != KILN_STATUS_DEVICE_LOST &&
        (device->backend->device->flush(device->backend, &lost) == KILN_STATUS_DEVICE_LOST ||
         kilni_aux_queues_lost(device, &lost))) {
        status = KILN_STATUS_DEVICE_LOST;
        if (err != NULL) {
            *err = lost;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

// ---- flush and sync ----

/// Streams that are left have run all they had, and go on with another engine.
static kiln_status renew_named(kiln_device *device, kiln_fuse_engine *engine, kiln_error *err)
{
    for (kilni_stream *s = device->streams.first; s != NULL; s = s->next) {
        kiln_fuse_stream *queue = NULL;
        if (s->engine == engine) {
            continue;
        }
        kiln_status status = kiln_fuse_stream_create(engine, /*whole=*/false, &queue, err);
        if (status != KILN_STATUS_OK) {
            return status; // those before keep the new engine: results are the same
        }
        kiln_fuse_stream_destroy(s->queue);
        s->queue = queue;
        s->engine = engine;
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_device_set_fusion(kiln_device *device, bool on, kiln_error *err)
{
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_device_drain(device, err);
    for (kilni_stream *s = device->streams.first; s != NULL && status == KILN_STATUS_OK;
         s = s->next) {
        if (s->capturing) {
            status = kiln_fail(err, FAILED_PRECONDITION, "a graph is being captured");
        }
    }
    if (status == KILN_STATUS_OK && on && device->engines.fused == NULL) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "%s takes no programs, so nothing can be fused", device->address);
    }
    if (status == KILN_STATUS_OK && device->engines.fusion != on) {
        kilni_streams_prune(device);
        status = renew_named(device, on ? device->engines.fused : device->engines.plain, err);
    }
    if (status == KILN_STATUS_OK) {
        device->engines.fusion = on;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_flush(kiln_device *device, kiln_error *err)
{
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_stream *stream = NULL;
    kiln_status status = kilni_stream_current(device, &stream, err);
    if (status == KILN_STATUS_OK && stream->capturing) {
        status = kiln_fail(err, FAILED_PRECONDITION, "flush inside a capture");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_run(stream, /*drain=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        status = device->backend->device->flush(device->backend, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/// The first failure of calls that the queue waited for and that have all ended. After a failure of
/// something else they are the next sync's.
static kiln_status report_awaited(kiln_device *device, kilni_dependencies *awaited,
                                  kiln_status status, kiln_error *err)
{
    if (status == KILN_STATUS_OK) {
        status = kilni_dependencies_status(awaited, NULL, err);
    } else {
        (void)kilni_dependencies_add(&device->awaited, &device->context->env, awaited);
    }
    kilni_dependencies_release(awaited);
    return status;
}

kiln_status kiln_sync(kiln_device *device, kiln_error *err)
{
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_await_moves(device); // they are work too; a failure stays with the tensor
    kiln_status status = kilni_run_all_queued(device, err);
    kilni_dependencies *awaited = NULL;
    if (status == KILN_STATUS_OK) {
        kiln_error local = KILN_ERROR_INIT;
        awaited = device->awaited; // those that come while others have the lock are not over then
        device->awaited = NULL;
        status = kilni_device_wait(device, &local);
        if (status != KILN_STATUS_OK && device->faults.first == NULL) {
            device->faults.first = kilni_fault_create(device, &local);
        }
        if (status != KILN_STATUS_OK && err != NULL) {
            *err = local;
        }
    }
    if (status == KILN_STATUS_OK) {
        status = report_fault(device, err);
        // Reported once; only a lost device stays so.
        if (device->faults.first != NULL && status != KILN_STATUS_DEVICE_LOST) {
            kilni_fault_release(device, device->faults.first);
            device->faults.first = NULL;
        }
    }
    status = report_awaited(device, awaited, status, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

void kiln_device_trim(kiln_device *device)
{
    if (device == NULL) {
        return;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    (void)kilni_reclaim(device);
    device->backend->memory->trim(device->backend);
    pthread_mutex_unlock(&device->lock);
}
