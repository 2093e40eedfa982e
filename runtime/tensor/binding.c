// SPDX-License-Identifier: MIT OR Apache-2.0
// Where tensors are: buffers shared by views, and faults shared by everything that depended on one.
// Decides when memory goes back to the backend: with the last view of it. All under the device's
// lock.

#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_memory_account.h"

#include <string.h>

kilni_fault *kilni_fault_create(kiln_device *device, const kiln_error *cause)
{
    kilni_fault *fault = kiln_alloc(&device->context->env, sizeof(*fault));
    if (fault == NULL) {
        device->faults.no_memory.refs++;
        return &device->faults.no_memory;
    }
    fault->refs = 1;
    fault->error = *cause;
    return fault;
}

void kilni_fault_release(kiln_device *device, kilni_fault *fault)
{
    if (fault != NULL && --fault->refs == 0) {
        kiln_free(&device->context->env, fault);
    }
}

static kiln_status alloc_buffer(kiln_device *device, size_t bytes, const kilni_binding *binding,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    if (device->memory.allocator != NULL) {
        return device->memory.allocator->alloc(device->memory.allocator, bytes, binding, out_buffer,
                                               err);
    }
    const kiln_backend_memory_ops *memory = device->backend->memory;
    return (device->memory.persistent ? memory->alloc_persistent
                                      : memory->alloc)(device->backend, bytes, out_buffer, err);
}

kiln_status kilni_binding_alloc(kiln_device *device, const kiln_tensor_desc *desc,
                                kilni_binding *binding, kiln_error *err)
{
    int64_t bytes = kiln_desc_bytes(desc);
    if (bytes < 0) {
        return kiln_fail(err, OUT_OF_RANGE, "a tensor has more bytes than an int64 can say");
    }
    kilni_storage *storage = NULL;
    if (bytes > 0) {
        storage = kiln_alloc(&device->context->env, sizeof(*storage));
        if (storage == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for a buffer's record");
        }
        kiln_status status = alloc_buffer(device, (size_t)bytes, binding, &storage->buffer, err);
        if (status == KILN_STATUS_RESOURCE_EXHAUSTED && kilni_reclaim(device)) {
            status = alloc_buffer(device, (size_t)bytes, binding, &storage->buffer, err);
        }
        if (status != KILN_STATUS_OK) {
            kiln_free(&device->context->env, storage);
            return status;
        }
        storage->refs = 1;
        storage->bytes = (uint64_t)bytes;
        kilni_count_live(&device->memory, storage->bytes);
    }
    binding->storage = storage;
    binding->view = kiln_view_dense(desc, storage != NULL ? storage->buffer : NULL);
    binding->bound = true;
    return KILN_STATUS_OK;
}

void kilni_binding_share(kilni_binding *binding, const kilni_binding *source, const kiln_view *view)
{
    binding->storage = source->storage;
    if (binding->storage != NULL) {
        binding->storage->refs++;
    }
    binding->view = *view;
    binding->bound = true;
}

void kilni_binding_fail(kiln_device *device, kilni_binding *binding, kilni_fault *fault)
{
    kilni_binding_clear(device, binding);
    fault->refs++;
    binding->fault = fault;
    binding->bound = true;
}

void kilni_binding_clear(kiln_device *device, kilni_binding *binding)
{
    kilni_storage *storage = binding->storage;
    if (storage != NULL && --storage->refs == 0) {
        kilni_dependencies_release(storage->dependencies);
        storage->dependencies = NULL;
        kilni_storage_set_behind(device, storage, NULL);
        if (!storage->planned) {
            device->memory.live -= storage->bytes;
            device->backend->memory->free(device->backend, storage->buffer);
            kiln_free(&device->context->env, storage);
        }
    } else if (storage != NULL && storage->kept > 0 && storage->refs == storage->kept) {
        device->memory.reclaimers->forget(device, storage);
    }
    kilni_fault_release(device, binding->fault);
    binding->storage = NULL;
    binding->fault = NULL;
    binding->bound = false;
    binding->described = false;
}

kiln_status kilni_storage_settle(kiln_device *device, kilni_storage *storage, kiln_error *err)
{
    if (storage == NULL || !storage->comes_again) {
        return KILN_STATUS_OK;
    }
    storage->comes_again = false;
    return device->backend->memory->reside(device->backend, storage->buffer, /*there=*/true, err);
}

void kilni_binding_describe(kilni_binding *binding)
{
    binding->described = true;
    binding->flags = KILN_TENSOR_PLACED;
    binding->align_log2 = 0;
    if (binding->fault != NULL) {
        return;
    }
    binding->flags |= kiln_view_is_contiguous(&binding->view)       ? KILN_TENSOR_CONTIGUOUS
                      : kiln_view_is_turned(&binding->view)         ? KILN_TENSOR_TURNED
                      : kiln_view_is_dense_along(&binding->view, 1) ? KILN_TENSOR_LINES
                      : kiln_view_is_dense_along(&binding->view, 2) ? KILN_TENSOR_COLUMNS
                                                                    : 0;
    if ((binding->flags & (KILN_TENSOR_CONTIGUOUS | KILN_TENSOR_TURNED)) != 0 &&
        binding->view.offset_bytes == 0) {
        binding->flags |= KILN_TENSOR_ZERO_OFFSET;
    }
    uint64_t offset = (uint64_t)binding->view.offset_bytes;
    binding->align_log2 = 7; // what every backend gives the start of a buffer: 128 bytes
    while (binding->align_log2 > 0 && (offset & ((1u << binding->align_log2) - 1)) != 0) {
        binding->align_log2--;
    }
}

// ---- elements ----

kiln_status kilni_binding_dense(kiln_device *device, const kiln_tensor_desc *desc,
                                const kilni_binding *binding, kilni_binding *out_dense,
                                kiln_error *err)
{
    kiln_status status = kilni_binding_alloc(device, desc, out_dense, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_op_record record = {
        .op = KILN_OP_CONTIGUOUS, .n_inputs = 1, .n_outputs = 1, .inputs = desc, .outputs = desc};
    if (!kilni_storage_await(out_dense->storage, &device->context->env,
                             kilni_binding_dependencies(binding))) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
    }
    return device->backend->device->execute(device->backend, &record, &binding->view,
                                            &out_dense->view, err);
}

kiln_status kilni_buffer_read_twice(kiln_device *device, kiln_buffer *buffer, size_t offset,
                                    void *out_data, size_t bytes, kiln_error *err)
{
    enum { PIECE = 1 << 20 };
    kiln_backend *backend = device->backend;
    const unsigned char *first = out_data;
    unsigned char *second = kiln_alloc(backend->env, bytes < PIECE ? bytes + 1 : PIECE);
    if (second == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to read %zu bytes twice", bytes);
    }
    kiln_status status = backend->transfer->read(backend, buffer, offset, out_data, bytes, err);
    for (size_t at = 0; at < bytes && status == KILN_STATUS_OK; at += PIECE) {
        size_t part = bytes - at < PIECE ? bytes - at : PIECE;
        for (size_t i = 0; i < part; i++) {
            second[i] = (unsigned char)~first[at + i]; // what is not written differs
        }
        status = backend->transfer->read(backend, buffer, offset + at, second, part, err);
        if (status == KILN_STATUS_OK && memcmp(first + at, second, part) != 0) {
            status = kiln_fail(err, DATA_LOSS, "two reads of the same %zu bytes differ", part);
        }
    }
    kiln_free(backend->env, second);
    return status;
}

kiln_status kilni_binding_read(kiln_device *device, const kiln_tensor_desc *desc,
                               const kilni_binding *binding, void *out_data, kiln_error *err)
{
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    kilni_binding dense = {0};
    if (bytes == 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_binding_dense(device, desc, binding, &dense, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_buffer_read_twice(device, dense.view.buffer, (size_t)dense.view.offset_bytes,
                                         out_data, bytes, err);
    }
    kilni_binding_clear(device, &dense);
    return status;
}
