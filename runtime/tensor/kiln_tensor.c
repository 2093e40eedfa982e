// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors: handles to values, their holds and pins, data in. A tensor lives while the user
// holds it or a queued operation mentions it. Decides what a release means: freed at once, or
// recorded as the tensor's last use.

#include "rt_attrs.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_memory_account.h"
#include "rt_streams.h"
#include "rt_tensor.h"

// Tensor records kept for reuse on each device, and how many numbers it takes of the process's.
enum { KEPT_TENSORS = 256, IDS_AT_ONCE = 1024 };

uint64_t kilni_tensor_ids(uint64_t count)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, count, memory_order_relaxed) + 1;
}

static uint64_t next_id(kiln_device *device)
{
    if (device->tensors.next_id == device->tensors.end_id) {
        device->tensors.next_id = kilni_tensor_ids(IDS_AT_ONCE);
        device->tensors.end_id = device->tensors.next_id + IDS_AT_ONCE;
    }
    return device->tensors.next_id++;
}

void kilni_tensor_unhold(kiln_device *device)
{
    if (--device->tensors.held == 0) {
        atomic_fetch_sub(&device->refs, 1); // not the last
    }
}

/// What a record that was used before starts with; the view follows from `bound`.
static void clear(kiln_tensor *tensor)
{
    tensor->pins = 0;
    tensor->stream = 0;
    tensor->future = NULL;
    tensor->next_free = NULL;
    atomic_store_explicit(&tensor->mark, 0, memory_order_relaxed);
    tensor->slot = 0;
    tensor->shared = tensor->pending = tensor->pending_free = false;
    tensor->captured = tensor->unresolved = false;
    tensor->param = 0;
    tensor->binding.bound = tensor->binding.described = false;
    tensor->binding.storage = NULL;
    tensor->binding.fault = NULL;
}

// Cold: recording pays for them in its registers otherwise, and few devices have a list.
static void list(kilni_tensor_pool *tensors, kiln_tensor *tensor) KILN_COLD;
static void unlist(kilni_tensor_pool *tensors, const kiln_tensor *tensor) KILN_COLD;

static void list(kilni_tensor_pool *tensors, kiln_tensor *tensor)
{
    tensor->previous_listed = NULL;
    tensor->next_listed = tensors->first;
    if (tensors->first != NULL) {
        tensors->first->previous_listed = tensor;
    }
    tensors->first = tensor;
}

static void unlist(kilni_tensor_pool *tensors, const kiln_tensor *tensor)
{
    if (tensor->previous_listed != NULL) {
        tensor->previous_listed->next_listed = tensor->next_listed;
    } else {
        tensors->first = tensor->next_listed;
    }
    if (tensor->next_listed != NULL) {
        tensor->next_listed->previous_listed = tensor->previous_listed;
    }
}

kiln_tensor *kilni_tensor_new(kiln_device *handle, const kiln_tensor_desc *desc)
{
    kiln_device *device = kilni_core(handle);
    kiln_tensor *tensor = device->tensors.free;
    if (tensor != NULL) {
        device->tensors.free = tensor->next_free;
        device->tensors.n_free--;
        clear(tensor);
    } else {
        tensor = kiln_alloc(&device->context->env, sizeof(*tensor));
        if (tensor == NULL) {
            return NULL;
        }
    }
    if (device->tensors.held++ == 0) {
        (void)kiln_device_retain(device);
    }
    atomic_init(&tensor->refs, 1);
    tensor->held = true;
    tensor->device = device;
    tensor->handle = handle;
    tensor->desc = *desc;
    tensor->desc.id = next_id(device);
    tensor->desc.flags = 0;
    tensor->bytes = (uint64_t)kiln_desc_bytes(desc);
    device->tensors.live++;
    tensor->listed = device->tensors.listed;
    if (tensor->listed) {
        list(&device->tensors, tensor);
    }
    return tensor;
}

void kilni_tensor_settle(kiln_tensor *tensor, const kilni_binding *binding)
{
    if (binding->fault != NULL) {
        kilni_binding_fail(tensor->device, &tensor->binding, binding->fault);
    } else {
        kilni_binding_share(&tensor->binding, binding, &binding->view);
    }
}

void kilni_tensor_rename(kiln_tensor *tensor, uint64_t id)
{
    tensor->desc.id = id;
    tensor->desc.flags = 0;
    tensor->param = 0;
    atomic_store_explicit(&tensor->mark, 0, memory_order_relaxed);
}

void kilni_tensor_renew(kiln_tensor *tensor, const kilni_binding *binding)
{
    kilni_tensor_rename(tensor, next_id(tensor->device));
    kilni_tensor_settle(tensor, binding);
}

static void free_tensor(kiln_tensor *tensor)
{
    kiln_device *device = tensor->device;
    kilni_future_release(tensor->future);
    tensor->future = NULL;
    kilni_binding_clear(device, &tensor->binding);
    kilni_tensor_unpend(tensor);
    kilni_tensor_unpend_free(tensor);
    device->tensors.live--;
    if (device->tensors.n_free < KEPT_TENSORS) {
        tensor->next_free = device->tensors.free;
        device->tensors.free = tensor;
        device->tensors.n_free++;
    } else {
        kiln_free(&device->context->env, tensor);
    }
}

void kilni_tensor_pin(kiln_tensor *tensor, kilni_stream *stream)
{
    tensor->shared = tensor->pins > 0 && (tensor->shared || tensor->stream != stream->id);
    tensor->stream = stream->id;
    tensor->pins++;
}

void kilni_tensor_unpin(kiln_tensor *tensor)
{
    if (--tensor->pins > 0) {
        return;
    }
    tensor->stream = 0;
    if (!tensor->held) {
        free_tensor(tensor);
    }
}

void kilni_tensor_disown(kiln_tensor *tensor)
{
    tensor->held = false;
    if (tensor->listed) {
        unlist(&tensor->device->tensors, tensor);
    }
    if (tensor->pins == 0) {
        free_tensor(tensor);
    }
}

kiln_tensor *kiln_retain(kiln_tensor *tensor)
{
    if (tensor != NULL) {
        atomic_fetch_add(&tensor->refs, 1);
    }
    return tensor;
}

/// The last hold is gone. A tensor that queued operations mention is dropped in the order of its
/// stream, so that the plan knows its last use; a value of a graph, or one queued on several
/// streams, just goes when nobody mentions it.
static void let_go(kiln_tensor *tensor)
{
    kilni_stream *stream = kilni_stream_find(tensor->device, tensor->stream);
    bool outside = stream != NULL && stream->capturing && tensor->binding.bound;
    if (stream != NULL && !tensor->shared && !outside) {
        // Without memory for the record the tensor only lives until the queue has run.
        (void)tensor->device->executor->drop(tensor, stream, /*err=*/NULL);
    }
    kilni_tensor_disown(tensor);
}

void kilni_tensor_release(kiln_tensor *tensor)
{
    if (atomic_fetch_sub(&tensor->refs, 1) == 1) {
        kiln_device *device = tensor->device;
        let_go(tensor);
        kilni_tensor_unhold(device);
    }
}

void kilni_tensors_release_listed(kiln_device *device)
{
    pthread_mutex_lock(&device->lock);
    while (device->tensors.first != NULL) {
        kiln_tensor *tensor = device->tensors.first;
        atomic_store(&tensor->refs, 0);
        let_go(tensor);
        kilni_tensor_unhold(device);
    }
    pthread_mutex_unlock(&device->lock);
}

/// A handle without holds waits to be the next tensor; the device is open as long as it does.
static void tell_released_before(kiln_tensor *tensor)
{
    uint32_t below = UINT32_MAX;
    (void)atomic_compare_exchange_strong(&tensor->refs, &below, 0);
    kiln_log_write(&tensor->device->context->env, KILN_LOG_WARN, "runtime",
                   "a tensor is released more often than it is held");
}

/// Gives up a hold. Who has the only one shares it with nobody, and needs no atomic subtraction.
static bool is_last(kiln_tensor *tensor)
{
    if (atomic_load_explicit(&tensor->refs, memory_order_acquire) == 1) {
        atomic_store_explicit(&tensor->refs, 0, memory_order_relaxed);
        return true;
    }
    uint32_t before = atomic_fetch_sub(&tensor->refs, 1);
    if (before == 0) {
        tell_released_before(tensor);
    }
    return before == 1;
}

void kiln_release(kiln_tensor *tensor)
{
    if (tensor == NULL || !is_last(tensor)) {
        return;
    }
    kiln_device *device = tensor->device;
    pthread_mutex_lock(&device->lock);
    let_go(tensor);
    bool last = --device->tensors.held == 0;
    pthread_mutex_unlock(&device->lock);
    if (last) {
        kiln_device_release(device);
    }
}

// ---- description ----

kiln_dtype kiln_tensor_dtype(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return KILN_DTYPE_NONE;
    }
    return tensor->desc.small != 0 ? (kiln_dtype)tensor->desc.small : tensor->desc.dtype;
}

size_t kiln_tensor_rank(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return 0;
    }
    return tensor->desc.rank;
}

const int64_t *kiln_tensor_dims(const kiln_tensor *tensor)
{
    return tensor->desc.dims;
}

int64_t kiln_tensor_count(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return 0;
    }
    return kiln_desc_count(&tensor->desc);
}

size_t kiln_tensor_bytes(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return 0;
    }
    return (size_t)kiln_desc_bytes(&tensor->desc);
}

kiln_device *kiln_tensor_device(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return NULL;
    }
    return tensor->handle;
}

void kiln_tensor_mark_constant(kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return;
    }
    pthread_mutex_lock(&tensor->device->lock);
    tensor->desc.flags |= KILN_TENSOR_CONST;
    pthread_mutex_unlock(&tensor->device->lock);
}

// ---- parameters' identity ----

void kiln_tensor_set_param(kiln_tensor *tensor, kiln_param_id id)
{
    if (tensor == NULL) {
        return;
    }
    pthread_mutex_lock(&tensor->device->lock);
    tensor->param = id;
    pthread_mutex_unlock(&tensor->device->lock);
}

kiln_param_id kiln_tensor_param(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return 0;
    }
    pthread_mutex_lock(&tensor->device->lock);
    kiln_param_id id = tensor->param;
    pthread_mutex_unlock(&tensor->device->lock);
    return id;
}

bool kiln_tensor_is_distributed(const kiln_tensor *tensor)
{
    return kiln_tensor_param(tensor) != 0;
}

// ---- data in ----

kiln_status kilni_describe(kiln_dtype dtype, size_t rank, const int64_t *dims,
                           kiln_tensor_desc *out_desc, kiln_error *err)
{
    kiln_tensor_desc desc = {.dtype = dtype, .rank = (uint8_t)rank};
    if (kiln_dtype_name(dtype) == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%d is no dtype", (int)dtype);
    }
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_QUANT) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a tensor of %s needs a scheme: kiln_tensor_create_quantised",
                         kiln_dtype_name(dtype));
    }
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL) {
        desc.dtype = KILN_DTYPE_U8;
        desc.small = (uint8_t)dtype;
    }
    if (rank > KILN_MAX_RANK || (rank > 0 && dims == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "rank %zu; at most %d, with dims", rank,
                         KILN_MAX_RANK);
    }
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "dims[%zu] is %lld", i, (long long)dims[i]);
        }
        desc.dims[i] = dims[i];
    }
    if (kiln_desc_bytes(&desc) < 0) {
        return kiln_fail(err, OUT_OF_RANGE, "a tensor has more bytes than an int64 can say");
    }
    *out_desc = desc;
    return KILN_STATUS_OK;
}

static kiln_status fill(kiln_device *device, kiln_tensor *tensor, const void *data, kiln_error *err)
{
    size_t bytes = kiln_tensor_bytes(tensor);
    device->memory.persistent = kilni_device_persists(device);
    kiln_status status = kilni_binding_alloc(device, &tensor->desc, &tensor->binding, err);
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED) { // what waits in queues may hold memory
        kilni_run_for_memory(device);
        status = kilni_binding_alloc(device, &tensor->desc, &tensor->binding, err);
    }
    device->memory.persistent = false;
    if (status != KILN_STATUS_OK || bytes == 0) {
        return status;
    }
    if (data != NULL) {
        device->counts.bytes_uploaded += bytes;
        return device->backend->transfer->upload(device->backend, tensor->binding.storage->buffer,
                                                 0, data, bytes, err);
    }
    // Zeros are made on the device.
    const kiln_attr attrs[] = {kilni_attr_ints(tensor->desc.dims, tensor->desc.rank),
                               kilni_attr_dtype(tensor->desc.dtype), kilni_attr_i64(0)};
    const kiln_op_record record = {
        .op = KILN_OP_FULL, .n_outputs = 1, .n_attrs = 3, .outputs = &tensor->desc, .attrs = attrs};
    return device->backend->device->execute(device->backend, &record, NULL, &tensor->binding.view,
                                            err);
}

static kiln_status create(kiln_device *handle, const kiln_tensor_desc *desc, const void *data,
                          kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor *tensor = NULL;
    pthread_mutex_lock(&device->lock);
    if ((device->backend->device->dtype_usage(device->backend, desc->dtype) & KILN_USAGE_STORAGE) ==
        0) {
        status = kiln_fail(err, UNIMPLEMENTED, "%s does not store %s", device->address,
                           kiln_dtype_name(desc->dtype));
    } else if ((tensor = kilni_tensor_new(handle, desc)) == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
    } else {
        status = fill(device, tensor, data, err);
    }
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_release(tensor);
        return status;
    }
    *out_tensor = tensor;
    return KILN_STATUS_OK;
}

kiln_status kiln_tensor_create(kiln_device *device, kiln_dtype dtype, size_t rank,
                               const int64_t *dims, const void *data, kiln_tensor **out_tensor,
                               kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    kiln_tensor_desc desc;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    kiln_status status = kilni_describe(dtype, rank, dims, &desc, err);
    return status == KILN_STATUS_OK ? create(device, &desc, data, out_tensor, err) : status;
}

kiln_status kiln_tensor_create_quantised(kiln_device *device, kiln_dtype dtype, uint64_t scheme,
                                         size_t rank, const int64_t *dims, const void *data,
                                         kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    kiln_tensor_desc desc;
    kiln_quant_layout layout;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    kiln_status status = kilni_describe(KILN_DTYPE_U8, rank, dims, &desc, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (data == NULL && kiln_desc_count(&desc) > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "data must not be NULL");
    }
    desc.dtype = dtype;
    desc.scheme = scheme;
    if (!kiln_quant_layout_of(&desc, &layout)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s with scheme %llx is no quantised tensor of rank %zu",
                         kiln_dtype_name(dtype) != NULL ? kiln_dtype_name(dtype) : "no dtype",
                         (unsigned long long)scheme, rank);
    }
    return create(device, &desc, data, out_tensor, err);
}

uint64_t kiln_tensor_scheme(const kiln_tensor *tensor)
{
    if (tensor == NULL) {
        return 0;
    }
    return tensor->desc.scheme;
}

kiln_status kilni_tensor_bind(kiln_tensor *tensor, kiln_error *err)
{
    if (tensor->captured) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the tensor stands for a value of a captured graph; run the graph");
    }
    kilni_stream *stream = kilni_stream_find(tensor->device, tensor->stream);
    if (!tensor->binding.bound && stream != NULL) {
        kiln_status status = kilni_run_queued(stream, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (!tensor->binding.bound) {
        return kiln_fail(err, INTERNAL, "the plan gave no value to tensor %llu",
                         (unsigned long long)tensor->desc.id);
    }
    return kilni_binding_status(&tensor->binding, err);
}
