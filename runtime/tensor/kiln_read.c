// SPDX-License-Identifier: MIT OR Apache-2.0
// Data out: reads, alone or many at once, waited for or asked about, and looking at a value where
// it lies. A read takes its place in the order when it is called; whoever waits does so without the
// device's lock, so that others go on recording.

#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_tensor.h"
#include "rt_trace.h"

struct kiln_request {
    kiln_device *device; ///< held
    kilni_binding binding; ///< what is read: kept, so that nothing is written over it
    kiln_pending *pending; ///< NULL when there is nothing to wait for
    bool waited; ///< `pending` has been
    kiln_error result;
};

// ---- parts of a read (begin and end under the lock, wait without) ----

/// Keeps the tensor's elements, dense, in the request.
static kiln_status take_place(kiln_request *request, kiln_tensor *tensor, kiln_error *err)
{
    kiln_device *device = tensor->device;
    size_t input = 0;
    if (kilni_stream_captures_input(device, tensor, &input)) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "input %zu of the capture has another value in each run of the graph; "
                         "read it before the capture",
                         input);
    }
    kiln_status status = kilni_await_futures(device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (kiln_view_is_contiguous(&tensor->binding.view)) {
        kilni_binding_share(&request->binding, &tensor->binding, &tensor->binding.view);
        return KILN_STATUS_OK;
    }
    return kilni_binding_dense(device, &tensor->desc, &tensor->binding, &request->binding, err);
}

static kiln_status begin_bytes(kiln_request *request, void *out_data, size_t bytes, kiln_error *err)
{
    kiln_backend *backend = request->device->backend;
    const kiln_view *view = &request->binding.view;
    size_t offset = (size_t)view->offset_bytes;
    if (bytes == 0) {
        return KILN_STATUS_OK;
    }
    request->device->counts.bytes_read += bytes;
    return backend->transfer->read_begin(backend, view->buffer, offset, out_data, bytes,
                                         &request->pending, err);
}

static kiln_status begin(kiln_request *request, kiln_tensor *tensor, void *out_data, size_t bytes,
                         kiln_error *err)
{
    *request = (kiln_request){.device = tensor->device};
    kiln_status status = take_place(request, tensor, err);
    if (status == KILN_STATUS_OK) {
        status = begin_bytes(request, out_data, bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_binding_clear(request->device, &request->binding);
    }
    return status;
}

static void wait_for(kiln_request *request, bool cancel)
{
    if (request->pending != NULL && !request->waited) {
        request->device->backend->transfer->read_wait(request->pending, cancel);
    }
    request->waited = true;
}

static void end(kiln_request *request)
{
    kiln_backend *backend = request->device->backend;
    if (request->pending != NULL) {
        kiln_error err = KILN_ERROR_INIT;
        if (backend->transfer->read_end(backend, request->pending, &err) != KILN_STATUS_OK &&
            request->result.code == KILN_STATUS_OK) {
            request->result = err;
        }
        request->pending = NULL;
    }
    if (request->result.code == KILN_STATUS_OK) { // what it waited for may have failed meanwhile
        request->result.code = (int32_t)kilni_binding_status(&request->binding, &request->result);
    }
    kilni_binding_clear(request->device, &request->binding);
    kilni_device_sweep(request->device);
}

static kiln_status result_of(const kiln_request *request, kiln_error *err)
{
    if (request->result.code != KILN_STATUS_OK && err != NULL) {
        *err = request->result;
    }
    return (kiln_status)request->result.code;
}

// ---- reads ----

static kiln_status check_read(const kiln_tensor *tensor, const void *out_data, size_t bytes,
                              kiln_error *err)
{
    if (tensor == NULL || (out_data == NULL && bytes > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor and out_data must not be NULL");
    }
    if (bytes != kiln_tensor_bytes(tensor)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the tensor has %zu bytes, not %zu",
                         kiln_tensor_bytes(tensor), bytes);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_read(kiln_tensor *tensor, void *out_data, size_t bytes, kiln_error *err)
{
    return kiln_read_many(&tensor, &out_data, &bytes, 1, err);
}

/// Ends `count` reads, of which the last is waited for first: on a queue in order the others are
/// done by then, so that there is one wait.
static void finish(kiln_request *requests, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        wait_for(&requests[i], /*cancel=*/false);
    }
    for (size_t i = 0; i < count; i++) {
        kiln_device *device = requests[i].device;
        pthread_mutex_lock(&device->lock);
        end(&requests[i]);
        pthread_mutex_unlock(&device->lock);
    }
}

enum { READS_AT_ONCE = 64 };

static kiln_status read_some(kiln_tensor *const *tensors, void *const *out_data,
                             const size_t *bytes, size_t count, kiln_error *err)
{
    kiln_request requests[READS_AT_ONCE];
    kiln_status status = KILN_STATUS_OK;
    size_t begun = 0;
    while (begun < count && status == KILN_STATUS_OK) {
        kiln_device *device = tensors[begun]->device;
        pthread_mutex_lock(&device->lock);
        status = begin(&requests[begun], tensors[begun], out_data[begun], bytes[begun], err);
        pthread_mutex_unlock(&device->lock);
        begun += status == KILN_STATUS_OK ? 1 : 0;
    }
    finish(requests, begun);
    for (size_t i = 0; i < begun && status == KILN_STATUS_OK; i++) {
        status = result_of(&requests[i], err);
    }
    return status;
}

kiln_status kiln_read_many(kiln_tensor *const *tensors, void *const *out_data, const size_t *bytes,
                           size_t count, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (count > 0 && (tensors == NULL || out_data == NULL || bytes == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensors, out_data and bytes must not be NULL");
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = check_read(tensors[i], out_data[i], bytes[i], err);
    }
    uint64_t start_ns =
        count > 0 && status == KILN_STATUS_OK ? kilni_trace_now(tensors[0]->device) : 0;
    for (size_t at = 0; at < count && status == KILN_STATUS_OK; at += READS_AT_ONCE) {
        size_t part = count - at < READS_AT_ONCE ? count - at : READS_AT_ONCE;
        status = read_some(tensors + at, out_data + at, bytes + at, part, err);
    }
    if (start_ns != 0) {
        kilni_trace_span(tensors[0]->device, KILNI_SPAN_READ, NULL, start_ns);
    }
    return status;
}

// ---- requests ----

kiln_status kiln_read_async(kiln_tensor *tensor, void *out_data, size_t bytes,
                            kiln_request **out_request, kiln_error *err)
{
    if (out_request == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_request must not be NULL");
    }
    *out_request = NULL;
    kiln_status status = check_read(tensor, out_data, bytes, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_device *device = tensor->device;
    kiln_request *request = kiln_alloc(&device->context->env, sizeof(*request));
    if (request == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a request");
    }
    pthread_mutex_lock(&device->lock);
    status = begin(request, tensor, out_data, bytes, err);
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, request);
        return status;
    }
    kiln_device_retain(device);
    *out_request = request;
    return KILN_STATUS_OK;
}

bool kiln_request_poll(kiln_request *request)
{
    if (request == NULL) {
        return true;
    }
    return request->waited || request->pending == NULL ||
           request->device->backend->transfer->read_poll(request->pending);
}

kiln_status kiln_request_wait(kiln_request *request, kiln_error *err)
{
    if (request == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "request must not be NULL");
    }
    finish(request, 1);
    return result_of(request, err);
}

void kiln_request_cancel(kiln_request *request)
{
    if (request == NULL || (request->waited && request->pending == NULL)) {
        return;
    }
    wait_for(request, /*cancel=*/true);
    (void)kiln_fail(&request->result, CANCELLED, "the read was cancelled");
    finish(request, 1);
}

void kiln_request_destroy(kiln_request *request)
{
    if (request == NULL) {
        return;
    }
    kiln_device *device = request->device;
    kiln_request_cancel(request);
    kiln_free(&device->context->env, request);
    kiln_device_release(device);
}

// ---- looking at a value where it lies ----

struct kiln_mapping {
    kiln_device *device; ///< held
    kilni_binding binding;
    const void *data;
    void *copy; ///< where the device's memory is not the host's
};

/// The bytes themselves, or NULL with OK when they have to be copied.
static kiln_status map_locked(kiln_mapping *mapping, kiln_tensor *tensor, size_t bytes,
                              kiln_error *err)
{
    kiln_device *device = mapping->device;
    kiln_request request = {.device = device};
    kiln_status status = take_place(&request, tensor, err);
    mapping->binding = request.binding;
    if (status == KILN_STATUS_OK) {
        status = kilni_device_wait(device, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_binding_status(&mapping->binding, err);
    }
    if (status != KILN_STATUS_OK || bytes == 0) {
        return status;
    }
    kiln_error refused = KILN_ERROR_INIT;
    const kiln_view *view = &mapping->binding.view;
    status = device->backend->memory->map(device->backend, view->buffer, (size_t)view->offset_bytes,
                                          bytes, &mapping->data, &refused);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        return KILN_STATUS_OK;
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = refused;
    }
    return status;
}

kiln_status kiln_tensor_map(kiln_tensor *tensor, const void **out_data, kiln_mapping **out_mapping,
                            kiln_error *err)
{
    if (out_data == NULL || out_mapping == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_data and out_mapping must not be NULL");
    }
    *out_data = NULL;
    *out_mapping = NULL;
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    kiln_device *device = tensor->device;
    const kiln_env *env = &device->context->env;
    size_t bytes = kiln_tensor_bytes(tensor);
    kiln_mapping *mapping = kiln_alloc(env, sizeof(*mapping));
    if (mapping == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a mapping");
    }
    *mapping = (kiln_mapping){.device = kiln_device_retain(device)};
    pthread_mutex_lock(&device->lock);
    kiln_status status = map_locked(mapping, tensor, bytes, err);
    pthread_mutex_unlock(&device->lock);
    if (status == KILN_STATUS_OK && mapping->data == NULL) {
        mapping->copy = kiln_alloc(env, bytes > 0 ? bytes : 1);
        status = mapping->copy != NULL
                     ? kiln_read(tensor, mapping->copy, bytes, err)
                     : kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
        mapping->data = mapping->copy;
    }
    if (status != KILN_STATUS_OK) {
        kiln_mapping_release(mapping);
        return status;
    }
    *out_data = mapping->data;
    *out_mapping = mapping;
    return KILN_STATUS_OK;
}

void kiln_mapping_release(kiln_mapping *mapping)
{
    if (mapping == NULL) {
        return;
    }
    kiln_device *device = mapping->device;
    pthread_mutex_lock(&device->lock);
    if (mapping->copy == NULL && mapping->data != NULL) {
        device->backend->memory->unmap(device->backend, mapping->binding.view.buffer,
                                       mapping->data);
    }
    kilni_binding_clear(device, &mapping->binding);
    pthread_mutex_unlock(&device->lock);
    kiln_free(&device->context->env, mapping->copy);
    kiln_free(&device->context->env, mapping);
    kiln_device_release(device);
}
