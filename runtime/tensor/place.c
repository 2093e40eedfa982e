// SPDX-License-Identifier: MIT OR Apache-2.0
// Where tensors are: buffers shared by views, and faults shared by everything that depended on one.
// Decides when memory goes back to the backend: with the last view of it. All under the device's
// lock.

#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_memory_account.h"
#include "rt_place.h"

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

static kiln_status alloc_buffer(kiln_device *device, size_t bytes, const kilni_place *place,
                                kiln_buffer **out_buffer, kiln_error *err)
{
    if (device->memory.allocator != NULL) {
        return device->memory.allocator->alloc(device->memory.allocator, bytes, place, out_buffer,
                                               err);
    }
    const kiln_backend_ops *ops = device->backend->ops;
    bool persists = device->memory.persistent && ops->alloc_persistent != NULL;
    return (persists ? ops->alloc_persistent : ops->alloc)(device->backend, bytes, out_buffer, err);
}

kiln_status kilni_place_alloc(kiln_device *device, const kiln_tensor_desc *desc, kilni_place *place,
                              kiln_error *err)
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
        kiln_status status = alloc_buffer(device, (size_t)bytes, place, &storage->buffer, err);
        if (status == KILN_STATUS_RESOURCE_EXHAUSTED && kilni_reclaim(device)) {
            status = alloc_buffer(device, (size_t)bytes, place, &storage->buffer, err);
        }
        if (status != KILN_STATUS_OK) {
            kiln_free(&device->context->env, storage);
            return status;
        }
        storage->refs = 1;
        storage->bytes = (uint64_t)bytes;
        kilni_count_live(&device->memory, storage->bytes);
    }
    place->storage = storage;
    place->view = kiln_view_dense(desc, storage != NULL ? storage->buffer : NULL);
    place->placed = true;
    return KILN_STATUS_OK;
}

void kilni_place_share(kilni_place *place, const kilni_place *source, const kiln_view *view)
{
    place->storage = source->storage;
    if (place->storage != NULL) {
        place->storage->refs++;
    }
    place->view = *view;
    place->placed = true;
}

void kilni_place_fail(kiln_device *device, kilni_place *place, kilni_fault *fault)
{
    kilni_place_clear(device, place);
    fault->refs++;
    place->fault = fault;
    place->placed = true;
}

void kilni_place_clear(kiln_device *device, kilni_place *place)
{
    kilni_storage *storage = place->storage;
    if (storage != NULL && --storage->refs == 0) {
        kilni_dependencies_release(storage->dependencies);
        storage->dependencies = NULL;
        if (!storage->planned) {
            device->memory.live -= storage->bytes;
            device->backend->ops->free(device->backend, storage->buffer);
            kiln_free(&device->context->env, storage);
        }
    } else if (storage != NULL && storage->kept > 0 && storage->refs == storage->kept) {
        device->memory.reclaimers->forget(device, storage);
    }
    kilni_fault_release(device, place->fault);
    place->storage = NULL;
    place->fault = NULL;
    place->placed = false;
    place->described = false;
}

void kilni_place_describe(kilni_place *place)
{
    place->described = true;
    place->flags = KILN_TENSOR_PLACED;
    place->align_log2 = 0;
    if (place->fault != NULL) {
        return;
    }
    if (kiln_view_is_contiguous(&place->view)) {
        place->flags |= KILN_TENSOR_CONTIGUOUS;
        place->flags |= place->view.offset_bytes == 0 ? KILN_TENSOR_ZERO_OFFSET : 0;
    }
    uint64_t offset = (uint64_t)place->view.offset_bytes;
    place->align_log2 = 7; // what every backend gives the start of a buffer: 128 bytes
    while (place->align_log2 > 0 && (offset & ((1u << place->align_log2) - 1)) != 0) {
        place->align_log2--;
    }
}

// ---- elements ----

kiln_status kilni_place_dense(kiln_device *device, const kiln_tensor_desc *desc,
                              const kilni_place *place, kilni_place *out_dense, kiln_error *err)
{
    kiln_status status = kilni_place_alloc(device, desc, out_dense, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_op_record record = {
        .op = KILN_OP_CONTIGUOUS, .n_inputs = 1, .n_outputs = 1, .inputs = desc, .outputs = desc};
    if (!kilni_storage_await(out_dense->storage, &device->context->env,
                             kilni_place_dependencies(place))) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to follow a tensor's value");
    }
    return device->backend->ops->execute(device->backend, &record, &place->view, &out_dense->view,
                                         err);
}

kiln_status kilni_place_read(kiln_device *device, const kiln_tensor_desc *desc,
                             const kilni_place *place, void *out_data, kiln_error *err)
{
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    kilni_place dense = {0};
    if (bytes == 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_place_dense(device, desc, place, &dense, err);
    if (status == KILN_STATUS_OK) {
        status = device->backend->ops->read(device->backend, dense.view.buffer,
                                            (size_t)dense.view.offset_bytes, out_data, bytes, err);
    }
    kilni_place_clear(device, &dense);
    return status;
}
