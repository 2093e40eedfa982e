// SPDX-License-Identifier: MIT OR Apache-2.0
// Making and ending devices and contexts. Decides what a device has from its first moment to its
// last; what the rooms above it do for it is rooms.c's.

#include "base_wait.h"
#include "rt_assembly.h"
#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_local.h"
#include "rt_memory_account.h"
#include "rt_tensor.h"
#include "rt_trace.h"

#include <stdio.h>

void kilni_device_free(kiln_device *device)
{
    kiln_context *context = device->context;
    kilni_trace_leave(device);
    kilni_rooms_leave(device);
    while (device->tensors.free != NULL) {
        kiln_tensor *tensor = device->tensors.free;
        device->tensors.free = tensor->next_free;
        kiln_free(&context->env, tensor);
    }
    kiln_free(&context->env, device->full);
    kiln_free(&context->env, device->threads.places);
    if (device->faults.first != NULL) {
        kilni_fault_release(device, device->faults.first);
    }
    kilni_dependencies_release(device->awaited);
    kilni_aux_queues_close(device);
    if (device->backend != NULL) {
        device->backend->device->close(device->backend);
    }
    pthread_cond_destroy(&device->future_ended);
    pthread_mutex_destroy(&device->shown.lock);
    pthread_mutex_destroy(&device->ended.lock);
    pthread_mutex_destroy(&device->lock);
    kiln_free(&context->env, device);
    kilni_context_release(context);
}

static void close_device(kiln_device *device)
{
    kiln_context *context = device->context;
    pthread_mutex_lock(&context->lock);
    kiln_device **link = &context->devices;
    while (*link != NULL && *link != device) {
        link = &(*link)->next;
    }
    if (*link == device) {
        *link = device->next;
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_lock(&device->lock);
    kilni_rooms_close(device);
    kilni_device_sweep(device);
    pthread_mutex_unlock(&device->lock);
    kilni_device_free(device);
}

kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider,
                                const kiln_device_info *plan_for, kiln_device **out_device,
                                kiln_error *err)
{
    kiln_device *device = kiln_alloc(&context->env, sizeof(*device));
    if (device == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device");
    }
    kilni_context_retain(context);
    atomic_init(&device->refs, 1);
    device->core = device;
    device->float_dtype = KILN_DTYPE_F32;
    device->int_dtype = KILN_DTYPE_I64;
    device->context = context;
    kilni_rooms_enter(device);
    device->close = close_device;
    snprintf(device->address, sizeof(device->address), "%s", address);
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->ended.lock, NULL);
    pthread_mutex_init(&device->shown.lock, NULL);
    kiln_cond_init(&device->future_ended);
    device->faults.no_memory.refs = 1;
    (void)kiln_fail(&device->faults.no_memory.error, RESOURCE_EXHAUSTED, "no host memory");
    kilni_trace *trace = NULL;
    kiln_status status = kilni_context_trace(context, &trace, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_backend_open(provider, &context->env, address, &device->backend, err);
    }
    if (status == KILN_STATUS_OK && plan_for != NULL) {
        status = kilni_local_plan_for(device->backend, plan_for, err);
    }
    if (status == KILN_STATUS_OK) {
        device->arena.off = device->backend->arena == NULL;
        kilni_device_set_names(device);
        kilni_trace_join(device, trace);
        status = kilni_rooms_open(device, err);
        kilni_pressure_init(device);
    }
    if (status != KILN_STATUS_OK) {
        kilni_device_free(device);
        return status;
    }
    *out_device = device;
    return KILN_STATUS_OK;
}

void kiln_context_destroy(kiln_context *context)
{
    if (context != NULL) {
        kilni_rooms_forget(context);
    }
    kilni_context_release(context);
}
