// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives over devices: a device's memory as collective/ sees it, through its backend's table,
// and the public calls that take tensors. Reductions are operations on the device, and bytes leave
// it through mapped memory where the backend has that. Which algorithm runs, and in which order it
// combines, is decided by collective/.

#include "collective.h"
#include "runtime_internal.h"

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

/// One device as the memory of a rank.
typedef struct device_memory {
    kiln_coll_memory base;
    kiln_device *device;
    kiln_coll_memory *host; ///< arithmetic for dtypes that the device does not compute in
} device_memory;

static kiln_backend *backend_of(kiln_coll_memory *memory)
{
    return ((device_memory *)memory)->device->backend;
}

static void lock(kiln_coll_memory *memory)
{
    pthread_mutex_lock(&((device_memory *)memory)->device->lock);
}

static void unlock(kiln_coll_memory *memory)
{
    pthread_mutex_unlock(&((device_memory *)memory)->device->lock);
}

// ---- memory
// --------------------------------------------------------------------------------------

static kiln_status memory_alloc(kiln_coll_memory *memory, size_t bytes,
                                kiln_coll_buffer **out_buffer, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_buffer *buffer = NULL;
    lock(memory);
    kiln_status status = backend->ops->alloc(backend, bytes, &buffer, err);
    unlock(memory);
    *out_buffer = (kiln_coll_buffer *)buffer;
    return status;
}

static void memory_free(kiln_coll_memory *memory, kiln_coll_buffer *buffer)
{
    kiln_backend *backend = backend_of(memory);
    lock(memory);
    backend->ops->free(backend, (kiln_buffer *)buffer);
    unlock(memory);
}

static kiln_status memory_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                               const kiln_coll_area *source, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    lock(memory);
    kiln_status status = backend->ops->copy(
        backend, (kiln_buffer *)source->buffer, (size_t)source->offset,
        (kiln_buffer *)target->buffer, (size_t)target->offset, kiln_coll_area_bytes(target), err);
    unlock(memory);
    return status;
}

// Where the backend maps, a mapping is the device's memory or the driver's copy of it; elsewhere it
// is a copy of ours, filled by a read and brought back by an upload.

static bool maps(kiln_coll_memory *memory)
{
#ifdef KILN_RUNTIME_CL
    return kiln_cl_is(backend_of(memory));
#else
    (void)memory;
    return false;
#endif
}

static kiln_status map_shared(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
#ifdef KILN_RUNTIME_CL
    uint32_t flags = access == KILN_COLL_READ ? KILN_CL_MAP_READ : KILN_CL_MAP_WRITE;
    return kiln_cl_map(backend_of(memory), (kiln_buffer *)area->buffer, (size_t)area->offset,
                       kiln_coll_area_bytes(area), flags, out_pointer, err);
#else
    (void)memory, (void)area, (void)access, (void)out_pointer;
    return kiln_fail(err, INTERNAL, "this build maps no device memory");
#endif
}

static kiln_status unmap_shared(kiln_coll_memory *memory, const kiln_coll_area *area, void *pointer,
                                kiln_error *err)
{
#ifdef KILN_RUNTIME_CL
    return kiln_cl_unmap(backend_of(memory), (kiln_buffer *)area->buffer, pointer, err);
#else
    (void)memory, (void)area, (void)pointer;
    return kiln_fail(err, INTERNAL, "this build maps no device memory");
#endif
}

static kiln_status map_copy(kiln_coll_memory *memory, const kiln_coll_area *area,
                            kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    const kiln_allocator *allocator = &((device_memory *)memory)->device->context->env.allocator;
    size_t bytes = kiln_coll_area_bytes(area);
    void *staging = allocator->alloc(allocator->user, bytes, /*alignment=*/64);
    if (staging == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_READ) {
        status = backend->ops->read(backend, (kiln_buffer *)area->buffer, (size_t)area->offset,
                                    staging, bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        allocator->free(allocator->user, staging);
        return status;
    }
    *out_pointer = staging;
    return KILN_STATUS_OK;
}

static kiln_status unmap_copy(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void *pointer, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_WRITE) {
        status = backend->ops->upload(backend, (kiln_buffer *)area->buffer, (size_t)area->offset,
                                      pointer, kiln_coll_area_bytes(area), err);
    }
    kiln_free(&((device_memory *)memory)->device->context->env, pointer);
    return status;
}

static kiln_status memory_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    lock(memory);
    kiln_status status = maps(memory) ? map_shared(memory, area, access, out_pointer, err)
                                      : map_copy(memory, area, access, out_pointer, err);
    unlock(memory);
    return status;
}

static kiln_status memory_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                                kiln_coll_access access, void *pointer, kiln_error *err)
{
    lock(memory);
    kiln_status status = maps(memory) ? unmap_shared(memory, area, pointer, err)
                                      : unmap_copy(memory, area, access, pointer, err);
    unlock(memory);
    return status;
}

// ---- arithmetic
// ----------------------------------------------------------------------------------

static kiln_view view_of(const kiln_coll_area *area)
{
    return (kiln_view){.buffer = (kiln_buffer *)area->buffer,
                       .offset_bytes = (int64_t)area->offset,
                       .dtype = area->dtype,
                       .rank = 1,
                       .dims = {(int64_t)area->count},
                       .strides = {1}};
}

/// Runs one operation on flat views of one length.
static kiln_status execute_flat(kiln_coll_memory *memory, kiln_op op, const kiln_view *inputs,
                                uint16_t n_inputs, const kiln_attr *attr, const kiln_view *output,
                                kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_tensor_desc descs[3];
    for (uint16_t i = 0; i <= n_inputs; i++) {
        const kiln_view *view = i < n_inputs ? &inputs[i] : output;
        descs[i] = (kiln_tensor_desc){.dtype = view->dtype, .rank = 1, .dims = {view->dims[0]}};
    }
    const kiln_op_record record = {.op = op,
                                   .n_inputs = n_inputs,
                                   .n_outputs = 1,
                                   .n_attrs = attr != NULL,
                                   .inputs = descs,
                                   .outputs = &descs[n_inputs],
                                   .attrs = attr};
    lock(memory);
    kiln_status status = backend->ops->execute(backend, &record, inputs, output, err);
    unlock(memory);
    return status;
}

// What the device cannot compute goes through the host.

/// Copies an area out to `data`, or in from it.
static kiln_status transfer(kiln_coll_memory *memory, const kiln_coll_area *area,
                            kiln_coll_access access, void *data, kiln_error *err)
{
    void *mapped = NULL;
    kiln_status status = memory_map(memory, area, access, &mapped, err);
    if (mapped == NULL) {
        return status;
    }
    bool is_read = access == KILN_COLL_READ;
    memcpy(is_read ? data : mapped, is_read ? mapped : data, kiln_coll_area_bytes(area));
    return memory_unmap(memory, area, access, mapped, err);
}

static kiln_status convert_on_host(kiln_coll_memory *memory, const kiln_coll_area *target,
                                   const kiln_coll_area *source, uint32_t divisor, kiln_error *err)
{
    kiln_coll_memory *host = ((device_memory *)memory)->host;
    const kiln_env *env = &((device_memory *)memory)->device->context->env;
    size_t from_bytes = kiln_coll_area_bytes(source);
    unsigned char *data = kiln_alloc(env, from_bytes + kiln_coll_area_bytes(target));
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", from_bytes);
    }
    kiln_coll_buffer *buffer = (kiln_coll_buffer *)data;
    kiln_coll_area from = {buffer, 0, source->dtype, source->count};
    kiln_coll_area to = {buffer, from_bytes, target->dtype, target->count};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, transfer(memory, source, KILN_COLL_READ, data, err));
    KILN_TRY(out, status, host->ops->convert(host, &to, &from, divisor, err));
    KILN_TRY(out, status, transfer(memory, target, KILN_COLL_WRITE, data + from_bytes, err));
out:
    kiln_free(env, data);
    return status;
}

static kiln_status memory_convert(kiln_coll_memory *memory, const kiln_coll_area *target,
                                  const kiln_coll_area *source, uint32_t divisor, kiln_error *err)
{
    kiln_view from = view_of(source);
    kiln_view to = view_of(target);
    bool is_float = kiln_dtype_kind_of(source->dtype) == KILN_KIND_FLOAT;
    kiln_attr number = is_float ? kilni_attr_f64(divisor) : kilni_attr_i64(divisor);
    kiln_attr dtype = kilni_attr_dtype(target->dtype);
    kiln_status status = KILN_STATUS_UNIMPLEMENTED;
    if (target->dtype == source->dtype) {
        status = execute_flat(memory, KILN_OP_DIV_SCALAR, &from, 1, &number, &to, err);
    } else if (divisor == 1) {
        status = execute_flat(memory, KILN_OP_CAST, &from, 1, &dtype, &to, err);
    }
    return status == KILN_STATUS_UNIMPLEMENTED
               ? convert_on_host(memory, target, source, divisor, err)
               : status;
}

static kiln_status reduce_on_host(kiln_coll_memory *memory, const kiln_coll_area *target,
                                  const kiln_coll_area *left, const kiln_coll_area *right,
                                  kiln_coll_op op, kiln_error *err)
{
    kiln_coll_memory *host = ((device_memory *)memory)->host;
    const kiln_env *env = &((device_memory *)memory)->device->context->env;
    size_t bytes = kiln_coll_area_bytes(target);
    unsigned char *data = kiln_alloc_array(env, 2, bytes);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", 2 * bytes);
    }
    kiln_coll_area sums = {(kiln_coll_buffer *)data, 0, target->dtype, target->count};
    kiln_coll_area others = {(kiln_coll_buffer *)data, bytes, target->dtype, target->count};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, transfer(memory, left, KILN_COLL_READ, data, err));
    KILN_TRY(out, status, transfer(memory, right, KILN_COLL_READ, data + bytes, err));
    KILN_TRY(out, status, host->ops->reduce(host, &sums, &sums, &others, op, err));
    KILN_TRY(out, status, transfer(memory, target, KILN_COLL_WRITE, data, err));
out:
    kiln_free(env, data);
    return status;
}

static kiln_status memory_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                                 const kiln_coll_area *left, const kiln_coll_area *right,
                                 kiln_coll_op op, kiln_error *err)
{
    static const kiln_op ops[KILN_COLL_OP_COUNT] = {
        [KILN_COLL_SUM] = KILN_OP_ADD,     [KILN_COLL_MEAN] = KILN_OP_ADD,
        [KILN_COLL_MIN] = KILN_OP_MINIMUM, [KILN_COLL_MAX] = KILN_OP_MAXIMUM,
        [KILN_COLL_PROD] = KILN_OP_MUL,
    };
    const kiln_view inputs[] = {view_of(left), view_of(right)};
    const kiln_view output = view_of(target);
    kiln_status status = execute_flat(memory, ops[op], inputs, 2, NULL, &output, err);
    return status == KILN_STATUS_UNIMPLEMENTED
               ? reduce_on_host(memory, target, left, right, op, err)
               : status;
}

// ---- the end of work
// -----------------------------------------------------------------------------

static kiln_status memory_after(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_status status = KILN_STATUS_OK;
#ifdef KILN_RUNTIME_CL
    if (maps(memory)) {
        kiln_cl_event *event = NULL;
        lock(memory);
        status = kiln_cl_mark(backend, &event, err);
        unlock(memory);
        if (status == KILN_STATUS_OK) {
            status = kiln_cl_event_after(event, done, user, err);
            kiln_cl_event_destroy(event);
        }
        return status;
    }
#endif
    lock(memory);
    status = backend->ops->sync(backend, err);
    unlock(memory);
    if (status == KILN_STATUS_OK) {
        done(KILN_STATUS_OK, user);
    }
    return status;
}

/// The calls below wait themselves and carry no events.
static void memory_signal(kiln_coll_memory *memory, void *event, kiln_status status)
{
    (void)memory;
    (void)event;
    (void)status;
}

static const kiln_coll_memory_ops memory_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_memory_ops),
    .name = "device",
    .alloc = memory_alloc,
    .free = memory_free,
    .copy = memory_copy,
    .convert = memory_convert,
    .reduce = memory_reduce,
    .map = memory_map,
    .unmap = memory_unmap,
    .after = memory_after,
    .signal = memory_signal,
};

// ---- groups of devices
// ---------------------------------------------------------------------------

typedef struct collective_rank {
    device_memory memory;
    kiln_coll_member *member;
    // During a call:
    kilni_place input; ///< shares the input's buffer, or has a dense copy of it
    kiln_tensor *output;
    kiln_coll_request *request;
} collective_rank;

struct kiln_collective {
    kiln_context *context;
    kiln_coll_group *group;
    pthread_mutex_t lock; ///< one call at a time
    size_t count;
    collective_rank *ranks;
};

static kiln_status open_rank(kiln_collective *collective, uint32_t index, kiln_device *device,
                             kiln_error *err)
{
    collective_rank *rank = &collective->ranks[index];
    rank->memory.base.ops = &memory_ops;
    rank->memory.device = kiln_device_retain(device);
    kiln_status status =
        kiln_coll_host_memory_create(&collective->context->env, &rank->memory.host, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kiln_coll_member_create(collective->group, index, &rank->memory.base,
                                   /*transport=*/NULL, &rank->member, err);
}

static kiln_status check_devices(kiln_device *const *devices, size_t count,
                                 const kiln_coll_group_options *options, kiln_error *err)
{
    if (options != NULL && options->ranks != 0 && options->ranks != count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu devices for %u ranks", count, options->ranks);
    }
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "device %zu of the group is NULL", i);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_collective_create(kiln_device *const *devices, size_t count,
                                   const kiln_coll_group_options *options,
                                   kiln_collective **out_collective, kiln_error *err)
{
    *out_collective = NULL;
    if (devices == NULL || count == 0 || count > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group needs devices");
    }
    kiln_status status = check_devices(devices, count, options, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_context *context = devices[0]->context;
    const kiln_env *env = &context->env;
    kiln_coll_group_options settled = KILN_COLL_GROUP_OPTIONS_INIT;
    settled = options != NULL ? *options : settled;
    settled.ranks = (uint32_t)count;
    kiln_collective *collective = kiln_alloc(env, sizeof(*collective));
    if (collective == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of devices");
    }
    kilni_context_retain(context);
    collective->context = context;
    pthread_mutex_init(&collective->lock, NULL);
    collective->ranks = kiln_alloc_array(env, count, sizeof(*collective->ranks));
    if (collective->ranks == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of devices");
        goto out;
    }
    KILN_TRY(out, status, kiln_coll_group_create(env, &settled, &collective->group, err));
    for (size_t i = 0; i < count; i++) {
        collective->count = i + 1;
        KILN_TRY(out, status, open_rank(collective, (uint32_t)i, devices[i], err));
    }
    *out_collective = collective;
    collective = NULL;
out:
    kiln_collective_destroy(collective);
    return status;
}

void kiln_collective_destroy(kiln_collective *collective)
{
    if (collective == NULL) {
        return;
    }
    kiln_context *context = collective->context;
    for (size_t i = 0; i < collective->count && collective->ranks != NULL; i++) {
        kiln_coll_member_destroy(collective->ranks[i].member);
        kiln_coll_host_memory_destroy(collective->ranks[i].memory.host);
    }
    kiln_coll_group_destroy(collective->group);
    for (size_t i = 0; i < collective->count && collective->ranks != NULL; i++) {
        kiln_device_release(collective->ranks[i].memory.device);
    }
    pthread_mutex_destroy(&collective->lock);
    kiln_free(&context->env, collective->ranks);
    kiln_free(&context->env, collective);
    kilni_context_release(context);
}

// ---- all-reduce
// ----------------------------------------------------------------------------------

static kiln_status check_inputs(const kiln_collective *collective, kiln_tensor *const *inputs,
                                kiln_error *err)
{
    for (size_t i = 0; i < collective->count; i++) {
        const kiln_tensor *tensor = inputs[i];
        if (tensor == NULL || tensor->device != collective->ranks[i].memory.device) {
            return kiln_fail(err, INVALID_ARGUMENT, "rank %zu: the tensor is not on device %s", i,
                             collective->ranks[i].memory.device->address);
        }
        size_t bytes = tensor->desc.rank * sizeof(tensor->desc.dims[0]);
        if (tensor->desc.dtype != inputs[0]->desc.dtype ||
            tensor->desc.rank != inputs[0]->desc.rank ||
            memcmp(tensor->desc.dims, inputs[0]->desc.dims, bytes) != 0) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "rank %zu: %s of %lld elements and another shape or dtype than rank 0",
                             i, kiln_dtype_name(tensor->desc.dtype),
                             (long long)kiln_desc_count(&tensor->desc));
        }
    }
    return KILN_STATUS_OK;
}

/// Runs what the input needs, holds its buffer, and makes the output. Nothing waits.
static kiln_status prepare_locked(kiln_device *device, collective_rank *rank, kiln_tensor *input,
                                  kiln_error *err)
{
    kiln_status status = kilni_tensor_place(input, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (kiln_view_is_contiguous(&input->place.view)) {
        kilni_place_share(&rank->input, &input->place, &input->place.view);
    } else {
        status = kilni_place_dense(device, &input->desc, &input->place, &rank->input, err);
    }
    if (status == KILN_STATUS_OK) {
        rank->output = kilni_tensor_new(device, &input->desc);
        status = rank->output == NULL
                     ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record")
                     : kilni_place_alloc(device, &input->desc, &rank->output->place, err);
    }
    return status == KILN_STATUS_OK ? device->backend->ops->flush(device->backend, err) : status;
}

static kiln_status prepare(collective_rank *rank, kiln_tensor *input, kiln_error *err)
{
    kiln_device *device = rank->memory.device;
    pthread_mutex_lock(&device->lock);
    kiln_status status = prepare_locked(device, rank, input, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status start(collective_rank *rank, kiln_coll_op op, kiln_error *err)
{
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    const kiln_view *input = &rank->input.view;
    const kiln_view *output = &rank->output->place.view;
    call.kind = KILN_COLL_ALL_REDUCE;
    call.op = op;
    call.dtype = rank->output->desc.dtype;
    call.count = (uint64_t)kiln_desc_count(&rank->output->desc);
    call.input = (kiln_coll_buffer *)input->buffer;
    call.input_offset = (uint64_t)input->offset_bytes;
    call.output = (kiln_coll_buffer *)output->buffer;
    call.output_offset = (uint64_t)output->offset_bytes;
    return kiln_coll_start(rank->member, &call, &rank->request, err);
}

/// Waits for what has been started. The first error; the others' are the same.
static kiln_status finish(kiln_collective *collective, kiln_status status, kiln_error *err)
{
    for (size_t i = 0; i < collective->count; i++) {
        collective_rank *rank = &collective->ranks[i];
        if (rank->request != NULL) {
            kiln_status ended =
                kiln_coll_wait(rank->request, status == KILN_STATUS_OK ? err : NULL);
            rank->request = NULL;
            status = status == KILN_STATUS_OK ? ended : status;
        }
    }
    return status;
}

/// Gives the inputs back, and the outputs to the caller or away.
static void hand_out(kiln_collective *collective, kiln_status status, kiln_tensor **out_tensors)
{
    for (size_t i = 0; i < collective->count; i++) {
        collective_rank *rank = &collective->ranks[i];
        kiln_device *device = rank->memory.device;
        pthread_mutex_lock(&device->lock);
        kilni_place_clear(device, &rank->input);
        pthread_mutex_unlock(&device->lock);
        out_tensors[i] = status == KILN_STATUS_OK ? rank->output : NULL;
        if (status != KILN_STATUS_OK) {
            kiln_release(rank->output);
        }
        rank->output = NULL;
    }
}

static kiln_status all_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                              kiln_coll_op op, kiln_error *err)
{
    kiln_status status = kiln_coll_group_status(collective->group, NULL, err);
    // All devices get their work before any of them is waited for.
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        status = prepare(&collective->ranks[i], inputs[i], err);
    }
    bool started = false;
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        kiln_error cause = KILN_ERROR_INIT;
        status = start(&collective->ranks[i], op, &cause);
        if (status != KILN_STATUS_OK) {
            if (started) { // the others would wait for this one until the deadline
                kiln_coll_member_abort(collective->ranks[i].member, &cause);
            }
            if (err != NULL) {
                *err = cause;
            }
        }
        started = true;
    }
    return finish(collective, status, err);
}

kiln_status kiln_collective_all_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                       const char *op, kiln_tensor **out_tensors, kiln_error *err)
{
    if (collective == NULL || inputs == NULL || out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    for (size_t i = 0; i < collective->count; i++) {
        out_tensors[i] = NULL;
    }
    kiln_coll_op reduction = op == NULL ? KILN_COLL_OP_COUNT : kiln_coll_op_from_name(op);
    if (reduction == KILN_COLL_OP_COUNT) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "no reduction is named '%s'; there are sum, mean, min, max and prod",
                         op == NULL ? "" : op);
    }
    kiln_status status = check_inputs(collective, inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&collective->lock);
    status = all_reduce(collective, inputs, reduction, err);
    hand_out(collective, status, out_tensors);
    pthread_mutex_unlock(&collective->lock);
    return status;
}

kiln_status kiln_collective_status(kiln_collective *collective, int32_t *out_rank, kiln_error *err)
{
    return kiln_coll_group_status(collective->group, out_rank, err);
}
