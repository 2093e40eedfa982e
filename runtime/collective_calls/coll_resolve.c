// SPDX-License-Identifier: MIT OR Apache-2.0
// Results of collective calls: refused until they are resolved, which puts a user event into the
// device's queue, or waits where the device has none. Decides when a result counts as resolved.

#include "coll_memory.h"
#include "rt_binding.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_tensor.h"

/// The call begins, if it only was recorded, and the device's queue waits for its end.
static kiln_status resolve_locked(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor->captured) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the tensor stands for a value of a graph; call kiln_collective_sync, "
                         "which records the wait");
    }
    kiln_status status = kilni_tensor_bind(tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_binding_await(tensor->device, &tensor->binding, err);
    }
    return status == KILN_STATUS_OK ? kilni_binding_status(&tensor->binding, err) : status;
}

kiln_status kiln_collective_resolve(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&tensor->device->lock);
    if (tensor->unresolved) {
        status = resolve_locked(tensor, err);
        // Else nothing waits for the value yet, and this call can be repeated.
        tensor->unresolved = status != KILN_STATUS_OK &&
                             kilni_binding_status(&tensor->binding, NULL) == KILN_STATUS_OK;
    } else if (tensor->binding.bound) {
        status = kilni_binding_status(&tensor->binding, err);
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return status;
}

bool kiln_collective_ended(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return true;
    }
    bool open = false;
    pthread_mutex_lock(&tensor->device->lock);
    if (tensor->binding.bound) {
        (void)kilni_dependencies_status(kilni_binding_dependencies(&tensor->binding), &open, NULL);
    } else {
        open = tensor->unresolved;
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return !open;
}

void kiln_collective_assume_resolved(kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return;
    }
    pthread_mutex_lock(&tensor->device->lock);
    // The device's own queue may still have the last step to do, behind what has come.
    if (tensor->unresolved && !tensor->captured) {
        tensor->unresolved = resolve_locked(tensor, NULL) != KILN_STATUS_OK &&
                             kilni_binding_status(&tensor->binding, NULL) == KILN_STATUS_OK;
    }
    pthread_mutex_unlock(&tensor->device->lock);
}
