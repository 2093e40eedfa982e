// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory beyond the pool: staging memory of the host, tensors in the caller's memory, and handles,
// which are a tensor's memory without the tensor.

#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_memory_account.h"
#include "rt_tensor.h"

// ---- staging ----

kiln_status kiln_host_alloc(kiln_device *device, size_t bytes, void **out_memory, kiln_error *err)
{
    if (out_memory == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_memory must not be NULL");
    }
    *out_memory = NULL;
    device = kilni_core(device);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status =
        device->backend->memory->host_alloc(device->backend, bytes, out_memory, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

void kiln_host_free(kiln_device *device, void *memory)
{
    if (device == NULL) {
        return;
    }
    if (memory == NULL) {
        return;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    device->backend->memory->host_free(device->backend, memory);
    pthread_mutex_unlock(&device->lock);
}

// ---- tensors in the caller's memory ----

static void released_already(void *user)
{
    (void)user;
}

kiln_status kilni_tensor_around(kiln_device *handle, const kiln_tensor_desc *desc,
                                kiln_buffer *buffer, int64_t offset_bytes, kiln_tensor **out_tensor,
                                kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kilni_storage *storage = kiln_alloc(&device->context->env, sizeof(*storage));
    kiln_tensor *tensor = storage != NULL ? kilni_tensor_new(handle, desc) : NULL;
    if (tensor == NULL) {
        kiln_free(&device->context->env, storage);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
    }
    *storage = (kilni_storage){.refs = 1, .buffer = buffer, .foreign = true};
    tensor->binding.storage = storage;
    tensor->binding.view = kiln_view_dense(desc, buffer);
    tensor->binding.view.offset_bytes = offset_bytes;
    tensor->binding.bound = true;
    *out_tensor = tensor;
    return KILN_STATUS_OK;
}

typedef struct lent_memory {
    void *memory;
    void (*release)(void *user);
    void *user;
} lent_memory;

/// The tensor comes before its buffer: once there is a buffer nothing can fail, and giving one back
/// would call `release`.
static kiln_status wrap(kiln_device *handle, const kiln_tensor_desc *desc, const lent_memory *lent,
                        kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_backend *backend = kilni_core(handle)->backend;
    kiln_buffer *buffer = NULL;
    kiln_tensor *tensor = NULL;
    kiln_error refused = KILN_ERROR_INIT;
    kiln_status status = kilni_tensor_around(handle, desc, NULL, 0, &tensor, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = backend->memory->wrap_host(backend, lent->memory, (size_t)kiln_desc_bytes(desc),
                                        lent->release, lent->user, &buffer, &refused);
    if (status == KILN_STATUS_OK) {
        tensor->binding.storage->buffer = buffer;
        tensor->binding.view.buffer = buffer;
        *out_tensor = tensor;
        return status;
    }
    kiln_free(&kilni_core(handle)->context->env, tensor->binding.storage);
    tensor->binding = (kilni_binding){0};
    kilni_tensor_release(tensor);
    if (status != KILN_STATUS_UNIMPLEMENTED && err != NULL) {
        *err = refused;
    }
    return status;
}

kiln_status kiln_tensor_wrap(kiln_device *device, kiln_dtype dtype, size_t rank,
                             const int64_t *dims, void *memory, void (*release)(void *user),
                             void *user, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    kiln_tensor_desc desc;
    kiln_device *handle = device;
    *out_tensor = NULL;
    device = kilni_core(device);
    if (device == NULL || memory == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and memory must not be NULL");
    }
    release = release != NULL ? release : released_already;
    kiln_status status = kilni_describe(dtype, rank, dims, &desc, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const lent_memory lent = {memory, release, user};
    status = KILN_STATUS_UNIMPLEMENTED;
    pthread_mutex_lock(&device->lock);
    if (kiln_desc_bytes(&desc) > 0 &&
        (device->backend->device->dtype_usage(device->backend, dtype) & KILN_USAGE_STORAGE) != 0) {
        status = wrap(handle, &desc, &lent, out_tensor, err);
    }
    pthread_mutex_unlock(&device->lock);
    if (status == KILN_STATUS_UNIMPLEMENTED) {
        status = kiln_tensor_create(handle, dtype, rank, dims, memory, out_tensor, err);
        if (status == KILN_STATUS_OK) {
            release(user);
        }
    }
    return status;
}

/// As wrap: the tensor comes before its buffer.
static kiln_status wrap_constant(kiln_device *handle, const kiln_tensor_desc *desc,
                                 const kiln_host_origin *origin, kiln_tensor **out_tensor,
                                 kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kiln_buffer *buffer = NULL;
    kiln_tensor *tensor = NULL;
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    kiln_status status = kilni_tensor_around(handle, desc, NULL, 0, &tensor, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = device->backend->memory->alloc_from(device->backend, origin, bytes, &buffer, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, tensor->binding.storage);
        tensor->binding = (kilni_binding){0};
        kilni_tensor_release(tensor);
        return status;
    }
    kilni_storage *storage = tensor->binding.storage;
    storage->buffer = buffer;
    storage->comes_again = true;
    storage->bytes = bytes;
    kilni_count_live(&device->memory, bytes);
    tensor->binding.view.buffer = buffer;
    tensor->desc.flags |= KILN_TENSOR_CONST;
    *out_tensor = tensor;
    return status;
}

/// A copy, of bytes that are made by way of the host.
static kiln_status create_from(kiln_device *handle, const kiln_tensor_desc *desc,
                               const kiln_host_origin *origin, kiln_tensor **out_tensor,
                               kiln_error *err)
{
    const kiln_env *env = &kilni_core(handle)->context->env;
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    void *made = origin->read != NULL ? kiln_alloc(env, bytes + 1) : NULL;
    if (origin->read != NULL && made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant of %zu bytes", bytes);
    }
    if (made != NULL) {
        origin->read(origin->user, 0, bytes, made);
    }
    kiln_status status = kiln_tensor_create(handle, desc->dtype, desc->rank, desc->dims,
                                            made != NULL ? made : origin->memory, out_tensor, err);
    kiln_free(env, made);
    return status;
}

/// Whether a caller's struct has a member, which older ones end before.
#define HAS(memory, member)                                                                        \
    ((memory)->struct_size >= offsetof(kiln_constant_memory, member) + sizeof((memory)->member))

kiln_status kiln_tensor_wrap_constant(kiln_device *device, kiln_dtype dtype, size_t rank,
                                      const int64_t *dims, const kiln_constant_memory *memory,
                                      kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    kiln_tensor_desc desc;
    kiln_device *core = kilni_core(device);
    kiln_error refused = KILN_ERROR_INIT;
    *out_tensor = NULL;
    if (core == NULL || memory == NULL || memory->bytes == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and memory must not be NULL");
    }
    kiln_status status = kilni_describe(dtype, rank, dims, &desc, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_host_origin origin = {
        .memory = memory->bytes,
        .copied = memory->copied,
        .release = memory->release != NULL ? memory->release : released_already,
        .user = memory->user,
        .stamp = HAS(memory, stamp) ? memory->stamp : (kiln_hash128){0},
        .read = HAS(memory, read) ? memory->read : NULL};
    status = KILN_STATUS_UNIMPLEMENTED;
    pthread_mutex_lock(&core->lock);
    if (kiln_desc_bytes(&desc) > 0 &&
        (core->backend->device->dtype_usage(core->backend, dtype) & KILN_USAGE_STORAGE) != 0) {
        status = wrap_constant(device, &desc, &origin, out_tensor, &refused);
    }
    pthread_mutex_unlock(&core->lock);
    if (status != KILN_STATUS_UNIMPLEMENTED) {
        if (status != KILN_STATUS_OK && err != NULL) {
            *err = refused;
        }
        return status;
    }
    status = create_from(device, &desc, &origin, out_tensor, err);
    if (status == KILN_STATUS_OK) {
        kiln_tensor_mark_constant(*out_tensor);
        if (origin.copied != NULL) {
            origin.copied(origin.user, 0, (size_t)kiln_desc_bytes(&desc));
        }
        origin.release(origin.user);
    }
    return status;
}

#undef HAS

// ---- handles ----

struct kiln_handle {
    kiln_device *device; ///< held
    kiln_handle_kind kind;
    kiln_tensor_desc desc;
    kilni_binding binding;
};

static const char *kind_name(kiln_handle_kind kind)
{
    static const char *const names[] = {"nothing", "float", "int", "bool", "quantised"};
    return kind >= KILN_HANDLE_FLOAT && kind <= KILN_HANDLE_QUANTISED ? names[kind] : names[0];
}

kiln_handle_kind kiln_handle_kind_of(kiln_dtype dtype)
{
    switch (kiln_dtype_kind_of(dtype)) {
    case KILN_KIND_FLOAT:
    case KILN_KIND_SMALL:
        return KILN_HANDLE_FLOAT;
    case KILN_KIND_INT:
    case KILN_KIND_UINT:
        return KILN_HANDLE_INT;
    case KILN_KIND_QUANT:
        return KILN_HANDLE_QUANTISED;
    default:
        return KILN_HANDLE_BOOL;
    }
}

kiln_status kiln_tensor_to_handle(kiln_tensor *tensor, kiln_handle_kind kind,
                                  kiln_handle **out_handle, kiln_error *err)
{
    if (out_handle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_handle must not be NULL");
    }
    *out_handle = NULL;
    if (tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor must not be NULL");
    }
    if (kind != kiln_handle_kind_of(kiln_tensor_dtype(tensor))) {
        return kiln_fail(err, INVALID_ARGUMENT, "a tensor of %s gives no handle of kind %s",
                         kiln_dtype_name(kiln_tensor_dtype(tensor)), kind_name(kind));
    }
    kiln_device *device = tensor->device;
    kiln_handle *handle = kiln_alloc(&device->context->env, sizeof(*handle));
    if (handle == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a handle");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_await_futures(device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    if (status == KILN_STATUS_OK) {
        handle->kind = kind;
        handle->desc = tensor->desc;
        kilni_binding_share(&handle->binding, &tensor->binding, &tensor->binding.view);
        handle->device = kiln_device_retain(device);
    }
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_free(&device->context->env, handle);
        return status;
    }
    *out_handle = handle;
    return KILN_STATUS_OK;
}

kiln_status kiln_tensor_from_handle(const kiln_handle *handle, kiln_handle_kind kind,
                                    kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (handle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "handle must not be NULL");
    }
    if (kind != handle->kind) {
        return kiln_fail(err, INVALID_ARGUMENT, "a handle of kind %s gives no %s tensor",
                         kind_name(handle->kind), kind_name(kind));
    }
    kiln_device *device = handle->device;
    pthread_mutex_lock(&device->lock);
    kiln_tensor *tensor = kilni_tensor_new(device, &handle->desc);
    if (tensor != NULL) {
        kilni_binding_share(&tensor->binding, &handle->binding, &handle->binding.view);
    }
    pthread_mutex_unlock(&device->lock);
    *out_tensor = tensor;
    return tensor != NULL ? KILN_STATUS_OK
                          : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
}

const kiln_view *kiln_handle_view(const kiln_handle *handle)
{
    return &handle->binding.view;
}

void kiln_handle_release(kiln_handle *handle)
{
    if (handle == NULL) {
        return;
    }
    kiln_device *device = handle->device;
    pthread_mutex_lock(&device->lock);
    kilni_binding_clear(device, &handle->binding);
    pthread_mutex_unlock(&device->lock);
    kiln_free(&device->context->env, handle);
    kiln_device_release(device);
}

kiln_status kilni_tensor_lie_dense(kiln_tensor *tensor, kiln_error *err)
{
    kiln_device *device = tensor->device;
    kilni_binding dense = {0};
    kiln_status status = kilni_await_futures(device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    if (status == KILN_STATUS_OK && !kiln_view_is_contiguous(&tensor->binding.view)) {
        status = kilni_binding_dense(device, &tensor->desc, &tensor->binding, &dense, err);
        if (status == KILN_STATUS_OK) {
            kilni_binding_clear(device, &tensor->binding);
            tensor->binding = dense;
        }
    }
    return status;
}
