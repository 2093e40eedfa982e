// SPDX-License-Identifier: MIT OR Apache-2.0
// Kiln beside a program's own OpenCL: devices on its queue, tensors in its memory, memory lent out.
// Decides what may be written over (nothing that is shared); what OpenCL is told is cl_backend's.

#include "kiln_opencl.h"

#include "rt_assembly.h"
#include "rt_binding.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_tensor.h"
#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"

typedef struct given {
    void *context;
    void *queue;
} given;

static kiln_status open_given(const kiln_env *env, const char *address, kiln_backend **out_backend,
                              kiln_error *err, void *user)
{
    const given *self = user;
    (void)address;
    return kiln_cl_open_queue(env, self->context, self->queue, out_backend, err);
}

kiln_status kiln_opencl_device_open(kiln_context *context, struct _cl_context *cl_context,
                                    struct _cl_command_queue *cl_queue, kiln_device **out_device,
                                    kiln_error *err)
{
    if (out_device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_device must not be NULL");
    }
    given user = {cl_context, cl_queue};
    const kiln_backend_provider provider = {
        .struct_size = sizeof(provider),
        .scheme = "opencl",
        .open = open_given,
        .user = &user,
        .interface = KILN_BACKEND_INTERFACE,
    };
    *out_device = NULL;
    if (context == NULL || cl_context == NULL || cl_queue == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "context and queue must not be NULL");
    }
    return kilni_device_create(context, "opencl:given", &provider, /*plan_for=*/NULL, out_device,
                               err);
}

static kiln_status check_device(const kiln_device *device, kiln_error *err)
{
    if (device == NULL || !kiln_cl_is(kilni_core(device)->backend)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the device is not one of OpenCL");
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_opencl_wrap(kiln_device *device, struct _cl_mem *mem, size_t offset,
                             kiln_dtype dtype, size_t rank, const int64_t *dims,
                             struct _cl_event *ready, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    kiln_tensor_desc desc;
    kiln_buffer *buffer = NULL;
    kiln_device *handle = device;
    *out_tensor = NULL;
    device = kilni_core(device);
    kiln_status status = check_device(device, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_describe(dtype, rank, dims, &desc, err);
    }
    if (status == KILN_STATUS_OK && mem == NULL) {
        status = kiln_fail(err, INVALID_ARGUMENT, "the memory object must not be NULL");
    }
    if (status == KILN_STATUS_OK && offset % kiln_dtype_size(dtype) != 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "offset %zu is no multiple of the size of %s",
                           offset, kiln_dtype_name(dtype));
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    status = kiln_cl_buffer_wrap(device->backend, mem, offset + (size_t)kiln_desc_bytes(&desc),
                                 ready, &buffer, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_around(handle, &desc, buffer, (int64_t)offset, out_tensor, err);
        if (status != KILN_STATUS_OK) {
            device->backend->memory->free(device->backend, buffer);
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status lend_locked(kiln_tensor *tensor, struct _cl_mem **out_mem, size_t *out_offset,
                               struct _cl_event **out_ready, kiln_error *err)
{
    kiln_device *device = tensor->device;
    void *mem = NULL;
    void *event = NULL;
    kiln_status status = kilni_tensor_lie_dense(tensor, err);
    if (status == KILN_STATUS_OK && tensor->binding.storage == NULL) {
        status = kiln_fail(err, INVALID_ARGUMENT, "a tensor without elements has no memory");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_storage_settle(device, tensor->binding.storage, err);
    }
    if (status == KILN_STATUS_OK) {
        status =
            kiln_cl_buffer_lend(device->backend, tensor->binding.view.buffer, &mem, &event, err);
    }
    if (status == KILN_STATUS_OK) {
        tensor->binding.storage->foreign = true;
        *out_mem = mem;
        *out_offset = (size_t)tensor->binding.view.offset_bytes;
        *out_ready = event;
    }
    return status;
}

kiln_status kiln_opencl_lend(kiln_tensor *tensor, struct _cl_mem **out_mem, size_t *out_offset,
                             struct _cl_event **out_ready, kiln_error *err)
{
    if (out_mem == NULL || out_ready == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_mem and out_ready must not be NULL");
    }
    *out_mem = NULL;
    *out_ready = NULL;
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    kiln_status status = check_device(tensor->device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&tensor->device->lock);
    status = lend_locked(tensor, out_mem, out_offset, out_ready, err);
    pthread_mutex_unlock(&tensor->device->lock);
    return status;
}

kiln_status kiln_opencl_wait(kiln_device *device, struct _cl_event *event, kiln_error *err)
{
    device = kilni_core(device);
    kiln_status status = check_device(device, err);
    if (status == KILN_STATUS_OK && event == NULL) {
        status = kiln_fail(err, INVALID_ARGUMENT, "event must not be NULL");
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    status = kilni_device_drain(device, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_cl_wait_event(device->backend, event, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

#else

static kiln_status without(kiln_error *err)
{
    return kiln_fail(err, UNIMPLEMENTED, "this build has no OpenCL backend");
}

kiln_status kiln_opencl_device_open(kiln_context *context, struct _cl_context *cl_context,
                                    struct _cl_command_queue *cl_queue, kiln_device **out_device,
                                    kiln_error *err)
{
    (void)context;
    (void)cl_context;
    (void)cl_queue;
    if (out_device != NULL) {
        *out_device = NULL;
    }
    return without(err);
}

kiln_status kiln_opencl_wrap(kiln_device *device, struct _cl_mem *mem, size_t offset,
                             kiln_dtype dtype, size_t rank, const int64_t *dims,
                             struct _cl_event *ready, kiln_tensor **out_tensor, kiln_error *err)
{
    (void)device;
    (void)mem;
    (void)offset;
    (void)dtype;
    (void)rank;
    (void)dims;
    (void)ready;
    if (out_tensor != NULL) {
        *out_tensor = NULL;
    }
    return without(err);
}

kiln_status kiln_opencl_lend(kiln_tensor *tensor, struct _cl_mem **out_mem, size_t *out_offset,
                             struct _cl_event **out_ready, kiln_error *err)
{
    (void)tensor;
    (void)out_offset;
    if (out_mem != NULL && out_ready != NULL) {
        *out_mem = NULL;
        *out_ready = NULL;
    }
    return without(err);
}

kiln_status kiln_opencl_wait(kiln_device *device, struct _cl_event *event, kiln_error *err)
{
    (void)device;
    (void)event;
    return without(err);
}

#endif
