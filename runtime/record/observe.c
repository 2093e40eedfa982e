// SPDX-License-Identifier: MIT OR Apache-2.0
// Observers of what is recorded, and the marks of tensors by which they are found. What an observer
// makes of an operation is its own.

#include "attr_make.h"
#include "record_internal.h"
#include "rt_device.h"
#include "rt_observe.h"
#include "rt_tensor.h"

void kilni_observe(kiln_device *device, kilni_observer *observer)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    device->n_observers += device->n_observers == UINT32_MAX ? 2 : 1;
    observer->number = device->n_observers;
    observer->thread = kiln_thread_id();
    observer->next = device->observers;
    device->observers = observer;
    pthread_mutex_unlock(&device->lock);
}

void kilni_unobserve(kiln_device *device, kilni_observer *observer)
{
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_observer **link = &device->observers;
    while (*link != NULL && *link != observer) {
        link = &(*link)->next;
    }
    if (*link == observer) {
        *link = observer->next;
    }
    pthread_mutex_unlock(&device->lock);
}

uint64_t kilni_mark_of(const kiln_tensor *tensor)
{
    return atomic_load_explicit(&tensor->mark, memory_order_relaxed);
}

void kilni_mark_set(kiln_tensor *tensor, uint64_t mark)
{
    atomic_store_explicit(&tensor->mark, mark, memory_order_relaxed);
}

const kiln_tensor_desc *kilni_observed_desc(const kiln_tensor *tensor)
{
    return &tensor->desc;
}

/// Whether the observer of the tensor is there, and, with `watching`, is not paused.
static bool find_marker(const kiln_tensor *tensor, bool watching)
{
    uint64_t mark = kilni_mark_of(tensor);
    kiln_device *device = tensor->device;
    pthread_mutex_lock(&device->lock);
    const kilni_observer *observer = device->observers;
    while (observer != NULL && mark >> 32 != observer->number) {
        observer = observer->next;
    }
    bool own = observer != NULL && observer->thread == kiln_thread_id(); // others' may change
    bool found = observer != NULL && !(watching && own && observer->paused > 0);
    pthread_mutex_unlock(&device->lock);
    return found;
}

bool kilni_is_observed(const kiln_tensor *tensor)
{
    return find_marker(tensor, /*watching=*/false);
}

bool kilni_is_watched(const kiln_tensor *tensor)
{
    return find_marker(tensor, /*watching=*/true);
}

kiln_status kilni_unobserved(kiln_tensor *tensor, kiln_tensor **out_tensor, kiln_error *err)
{
    if (kilni_mark_of(tensor) == 0) {
        *out_tensor = kiln_retain(tensor);
        return KILN_STATUS_OK;
    }
    const kiln_attr shape = kilni_attr_ints(tensor->desc.dims, tensor->desc.rank);
    kilni_op_call call = {KILN_OP_RESHAPE, 0, &tensor, 1, &shape, 1};
    return kilni_record_call(NULL, &call, out_tensor, err);
}

/// The next observer of this thread, behind `before` or NULL, that marked an input; NULL: there is
/// none.
static const kilni_observer *find_observer(const kilni_op_call *call, const kilni_observer *before)
{
    kiln_device *device = call->inputs[0]->device;
    const kilni_observer *found = NULL;
    uint64_t thread = kiln_thread_id();
    pthread_mutex_lock(&device->lock);
    for (const kilni_observer *o = before != NULL ? before->next : device->observers;
         o != NULL && found == NULL; o = o->next) {
        for (size_t i = 0; i < call->n_inputs && o->thread == thread && found == NULL; i++) {
            found = kilni_mark_of(call->inputs[i]) >> 32 == o->number ? o : NULL;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return found;
}

kiln_status kilni_record_observed(const kilni_op_call *call, kiln_tensor **out_tensors,
                                  kiln_error *err)
{
    const kilni_observer *observer = find_observer(call, NULL);
    if (observer == NULL) {
        return KILN_STATUS_OK;
    }
    size_t n_outputs = call->op == KILN_OP_CUSTOM ? 0 : kiln_op_info_of(call->op)->n_outputs;
    while (call->op == KILN_OP_CUSTOM && n_outputs < KILN_MAX_OUTPUTS &&
           out_tensors[n_outputs] != NULL) {
        n_outputs++;
    }
    const kilni_observed seen = {.op = call->op,
                                 .inputs = call->inputs,
                                 .n_inputs = call->n_inputs,
                                 .attrs = call->attrs,
                                 .n_attrs = call->n_attrs,
                                 .outputs = out_tensors,
                                 .n_outputs = n_outputs};
    kiln_status status = KILN_STATUS_OK;
    for (; observer != NULL && status == KILN_STATUS_OK; observer = find_observer(call, observer)) {
        status = observer->recorded(observer->user, &seen, err);
    }
    for (size_t i = 0; i < n_outputs && status != KILN_STATUS_OK; i++) {
        kiln_release(out_tensors[i]);
        out_tensors[i] = NULL;
    }
    return status;
}
