// SPDX-License-Identifier: MIT OR Apache-2.0
// Values on their way: memory may be there before its value, which a mover or a collective call
// brings. Decides who waits, where, and who is refused; bringing is kiln_move.c's and
// coll_run.c's. Three ways to wait: a tensor that was moved here is waited for by the host at its
// first use; the result of a collective call is refused until it is resolved, which puts a
// user event into the device's queue; and what was computed from it meanwhile remembers it, so that
// a failure that comes later reaches that too.

#include "base_wait.h"
#include "dependency_internal.h"
#include "rt_binding.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_tensor.h"

// ---- waiting on the device ----

static void await_end(kilni_future *future)
{
    pthread_mutex_lock(&future->lock);
    while (!future->ended) {
        pthread_cond_wait(&future->changed, &future->lock);
    }
    pthread_mutex_unlock(&future->lock);
}

/// Work queued from now on waits for the future.
static kiln_status await_one(kiln_device *device, kilni_future *future, kiln_error *err)
{
    kiln_error error = KILN_ERROR_INIT;
    const kiln_backend_queue_ops *queues = device->backend->queue;
    kiln_event *event = NULL;
    if (future->is_awaited || kilni_future_has_ended(future, &error)) {
        return KILN_STATUS_OK;
    }
    kiln_status status = queues->user_event(device->backend, &event, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    future->is_awaited = true;
    pthread_mutex_lock(&future->lock);
    bool late = future->ended;
    future->event = late ? NULL : event;
    future->queues = queues;
    pthread_mutex_unlock(&future->lock);
    if (late) {
        kilni_user_event_complete(queues, event);
    }
    return KILN_STATUS_OK;
}

static kiln_status await_all(kiln_device *device, kilni_dependencies *dependencies, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < dependencies->count && status == KILN_STATUS_OK; i++) {
        status = await_one(device, dependencies->futures[i], err);
    }
    if (status == KILN_STATUS_OK &&
        !kilni_dependencies_add(&device->awaited, dependencies->env, dependencies)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a call");
    }
    return status;
}

static kiln_status run_behind(kiln_device *device, kilni_storage *storage, kiln_error *err)
{
    if (storage->behind == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = storage->behind->run(device, storage->behind, err);
    if (status == KILN_STATUS_OK) {
        kilni_storage_set_behind(device, storage, NULL);
    }
    return status;
}

kiln_status kilni_binding_await(kiln_device *device, const kilni_binding *binding, kiln_error *err)
{
    kilni_dependencies *dependencies =
        kilni_dependencies_retain(kilni_binding_dependencies(binding));
    if (dependencies != NULL && kilni_device_has_user_events(device)) {
        kiln_status status = await_all(device, dependencies, err);
        kilni_dependencies_release(dependencies);
        return status == KILN_STATUS_OK ? run_behind(device, binding->storage, err) : status;
    }
    // A device whose work is done by the host waits where that is done. Others may use it
    // meanwhile.
    if (dependencies != NULL) {
        pthread_mutex_unlock(&device->lock);
        for (uint32_t i = 0; i < dependencies->count; i++) {
            await_end(dependencies->futures[i]);
        }
        pthread_mutex_lock(&device->lock);
        kilni_dependencies_release(dependencies);
    }
    return KILN_STATUS_OK;
}

// ---- tensors ----

/// Waits for the value of a tensor that was moved here. Another thread may be as far at the same
/// time. False: it did not come in time.
static bool await(kiln_tensor *tensor, uint64_t deadline_ns)
{
    if (tensor->future == NULL) {
        return true;
    }
    kiln_device *device = tensor->device;
    kiln_error error = KILN_ERROR_INIT;
    while (tensor->future != NULL && !kilni_future_has_ended(tensor->future, &error)) {
        if (kiln_time_ns() >= deadline_ns) {
            return false;
        }
        (void)kiln_cond_wait_until(&device->future_ended, &device->lock, deadline_ns);
    }
    kilni_future *future = tensor->future;
    if (future == NULL) {
        return true;
    }
    tensor->future = NULL;
    if (error.code != KILN_STATUS_OK) {
        kilni_fault *fault = kilni_fault_create(device, &error);
        kilni_binding_fail(device, &tensor->binding, fault);
        kilni_fault_release(device, fault);
    }
    kilni_future_release(future);
    return true;
}

kiln_status kilni_await_futures(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                kiln_error *err)
{
    return kilni_await_futures_until(device, tensors, count, INT64_MAX, err);
}

kiln_status kilni_await_futures_until(kiln_device *device, kiln_tensor *const *tensors,
                                      size_t count, uint64_t deadline_ns, kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *tensor = tensors[i];
        if (tensor == NULL || tensor->device != device) {
            continue;
        }
        if (tensor->unresolved) {
            return kiln_fail(err, FAILED_PRECONDITION,
                             "the tensor is the result of a collective call; "
                             "call kiln_collective_resolve first");
        }
        if (!await(tensor, deadline_ns)) {
            return kiln_fail(err, DEADLINE_EXCEEDED,
                             "the tensor was still on its way to %s at the deadline",
                             device->address);
        }
    }
    return KILN_STATUS_OK;
}

// ---- moves ----

void kilni_await_moves(kiln_device *device)
{
    uint64_t end = device->moves.next_number; // others may go on moving for ever
    while (device->moves.first != NULL && device->moves.first->number < end) {
        pthread_cond_wait(&device->future_ended, &device->lock);
    }
}
