// SPDX-License-Identifier: MIT OR Apache-2.0
// Values on their way: a tensor's handle may be there before its value, which a mover or a
// collective call brings. Decides who waits and who is refused; bringing is kiln_move.c's and
// coll_bridge.c's.

#include "runtime_internal.h"

kilni_arrival *kilni_arrival_create(kiln_device *device, bool must_resolve)
{
    kilni_arrival *arrival = kiln_alloc(&device->context->env, sizeof(*arrival));
    if (arrival != NULL) {
        arrival->refs = 2;
        arrival->must_resolve = must_resolve;
    }
    return arrival;
}

void kilni_arrival_release(kiln_device *device, kilni_arrival *arrival)
{
    if (arrival != NULL && --arrival->refs == 0) {
        kiln_free(&device->context->env, arrival);
    }
}

void kilni_arrival_end(kiln_device *device, kilni_arrival *arrival, const kiln_error *result)
{
    arrival->error = *result;
    arrival->ended = true;
    pthread_cond_broadcast(&device->arrived);
    kilni_arrival_release(device, arrival);
}

/// Waits for one tensor's value. Another thread may be as far at the same time.
static void await(kiln_tensor *tensor)
{
    kiln_device *device = tensor->device;
    while (tensor->arrival != NULL && !tensor->arrival->ended) {
        pthread_cond_wait(&device->arrived, &device->lock);
    }
    kilni_arrival *arrival = tensor->arrival;
    if (arrival == NULL) {
        return;
    }
    tensor->arrival = NULL;
    if (arrival->error.code != KILN_STATUS_OK) {
        kilni_fault *fault = kilni_fault_create(device, &arrival->error);
        kilni_place_fail(device, &tensor->place, fault);
        kilni_fault_release(device, fault);
    }
    kilni_arrival_release(device, arrival);
}

kiln_status kilni_await_arrivals(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                 kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *tensor = tensors[i];
        if (tensor == NULL || tensor->device != device || tensor->arrival == NULL) {
            continue;
        }
        if (tensor->arrival->must_resolve) {
            return kiln_fail(err, FAILED_PRECONDITION,
                             "the tensor is the result of a collective call; "
                             "call kiln_collective_resolve first");
        }
        await(tensor);
    }
    return KILN_STATUS_OK;
}

// ---- results of collective calls
// -----------------------------------------------------------------

kiln_status kiln_collective_resolve(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&tensor->device->lock);
    await(tensor);
    const kilni_fault *fault = tensor->place.fault;
    if (fault != NULL) {
        status = (kiln_status)fault->error.code;
        if (err != NULL) {
            *err = fault->error;
        }
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return status;
}

bool kiln_collective_ended(const kiln_tensor *tensor)
{
    pthread_mutex_lock(&tensor->device->lock);
    bool ended = tensor->arrival == NULL || tensor->arrival->ended;
    pthread_mutex_unlock(&tensor->device->lock);
    return ended;
}

void kiln_collective_assume_resolved(kiln_tensor *tensor)
{
    pthread_mutex_lock(&tensor->device->lock);
    kilni_arrival_release(tensor->device, tensor->arrival);
    tensor->arrival = NULL;
    pthread_mutex_unlock(&tensor->device->lock);
}
