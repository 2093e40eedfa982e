// SPDX-License-Identifier: MIT OR Apache-2.0
// A program's own OpenCL objects: its context and queue as a backend, its memory as buffers, and
// buffers as memory for it. An auxiliary queue is a backend on another one's context in the same
// way.

#include "cl_interop.h"
#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_origin.h"
#include "cl_pool.h"
#include "cl_queue.h"
#include "cl_state.h"

static kiln_status check_queue(cl_context context, cl_command_queue queue, kiln_error *err)
{
    cl_context own = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &own, NULL);
    if (code == CL_SUCCESS) {
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties,
                                     NULL);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "the given queue");
    }
    if (own != context) {
        return kiln_fail(err, INVALID_ARGUMENT, "the given queue is of another context");
    }
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "the given queue is not in order");
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_cl_take_queue(kilni_cl_backend *backend, void *context, void *queue,
                                kiln_error *err)
{
    cl_device_id device = NULL;
    kiln_status status = check_queue(context, queue, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cl_int code =
        clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL);
    if (code == CL_SUCCESS) {
        code = clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id),
                               &backend->platform, NULL);
    }
    if (code == CL_SUCCESS) {
        code = clRetainDevice(device);
    }
    if (code == CL_SUCCESS) {
        backend->device = device;
        code = clRetainContext(context);
    }
    if (code == CL_SUCCESS) {
        backend->context = context;
        code = clRetainCommandQueue(queue);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "taking the given queue");
    }
    backend->queue = queue;
    backend->foreign_queue = true;
    return KILN_STATUS_OK;
}

kiln_status kiln_cl_wait_event(kiln_backend *base, void *event, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    cl_event given = event;
    cl_int code = clEnqueueBarrierWithWaitList(backend->queue, 1, &given, NULL);
    return code == CL_SUCCESS ? kilni_cl_queued(backend, err)
                              : kilni_cl_fail(backend, err, code, "waiting for the given event");
}

static kiln_status check_mem(const kilni_cl_backend *backend, cl_mem mem, size_t bytes,
                             kiln_error *err)
{
    cl_context own = NULL;
    size_t size = 0;
    cl_int code = clGetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof(cl_context), &own, NULL);
    if (code == CL_SUCCESS) {
        code = clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof(size), &size, NULL);
    }
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "the given memory");
    }
    if (own != backend->context) {
        return kiln_fail(err, INVALID_ARGUMENT, "the given memory is of another context");
    }
    return bytes <= size
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "the given memory has %zu bytes; the tensor ends at %zu", size, bytes);
}

kiln_status kiln_cl_buffer_wrap(kiln_backend *base, void *mem, size_t bytes, void *ready,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    *out_buffer = NULL;
    kiln_status status = check_mem(backend, mem, bytes, err);
    if (status == KILN_STATUS_OK && ready != NULL) {
        status = kiln_cl_wait_event(base, ready, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    clRetainMemObject(mem);
    status = kilni_cl_buffer_adopt(backend, mem, bytes, out_buffer, err);
    if (status != KILN_STATUS_OK) {
        clReleaseMemObject(mem);
    }
    return status;
}

/// The memory as it is; of shared virtual memory, which goes with the device (cl_svm.c), a copy.
/// The caller's.
static cl_mem lent_memory(kilni_cl_backend *backend, const kilni_cl_buffer *buffer, cl_mem mem,
                          cl_int *code)
{
    if (buffer->shared == NULL) {
        *code = clRetainMemObject(mem);
        return mem;
    }
    cl_mem copy = clCreateBuffer(backend->context, CL_MEM_READ_WRITE, buffer->bytes, NULL, code);
    if (*code == CL_SUCCESS) {
        *code = clEnqueueCopyBuffer(backend->queue, mem, copy, 0, 0, buffer->bytes, 0, NULL, NULL);
    }
    return copy;
}

kiln_status kiln_cl_buffer_lend(kiln_backend *base, kiln_buffer *buffer, void **out_mem,
                                void **out_ready, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kilni_cl_buffer *own = kilni_cl_buffer_of(buffer);
    cl_int code = CL_SUCCESS;
    cl_mem mem = kilni_cl_mem_of(backend, own, &code), lent = NULL;
    cl_event event = NULL;
    if (code == CL_SUCCESS) {
        lent = lent_memory(backend, own, mem, &code);
    }
    if (code == CL_SUCCESS) {
        code = clEnqueueMarkerWithWaitList(backend->queue, 0, NULL, &event);
    }
    if (code == CL_SUCCESS) {
        code = clFlush(backend->queue);
    }
    if (code != CL_SUCCESS) {
        if (event != NULL) {
            clReleaseEvent(event);
        }
        if (lent != NULL) {
            clReleaseMemObject(lent);
        }
        return kilni_cl_fail(backend, err, code, "lending memory");
    }
    *out_mem = lent;
    *out_ready = event;
    return KILN_STATUS_OK;
}
