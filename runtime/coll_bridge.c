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

static kiln_status memory_copy(kiln_coll_memory *memory, kiln_coll_buffer *target,
                               uint64_t target_offset, kiln_coll_buffer *source,
                               uint64_t source_offset, size_t bytes, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    lock(memory);
    kiln_status status =
        backend->ops->copy(backend, (kiln_buffer *)source, (size_t)source_offset,
                           (kiln_buffer *)target, (size_t)target_offset, bytes, err);
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

static kiln_status map_shared(kiln_coll_memory *memory, kiln_coll_buffer *buffer, uint64_t offset,
                              size_t bytes, kiln_coll_access access, void **out_pointer,
                              kiln_error *err)
{
#ifdef KILN_RUNTIME_CL
    uint32_t flags = access == KILN_COLL_READ ? KILN_CL_MAP_READ : KILN_CL_MAP_WRITE;
    return kiln_cl_map(backend_of(memory), (kiln_buffer *)buffer, (size_t)offset, bytes, flags,
                       out_pointer, err);
#else
    (void)memory, (void)buffer, (void)offset, (void)bytes, (void)access, (void)out_pointer;
    return kiln_fail(err, INTERNAL, "this build maps no device memory");
#endif
}

static kiln_status unmap_shared(kiln_coll_memory *memory, kiln_coll_buffer *buffer, void *pointer,
                                kiln_error *err)
{
#ifdef KILN_RUNTIME_CL
    return kiln_cl_unmap(backend_of(memory), (kiln_buffer *)buffer, pointer, err);
#else
    (void)memory, (void)buffer, (void)pointer;
    return kiln_fail(err, INTERNAL, "this build maps no device memory");
#endif
}

static kiln_status map_copy(kiln_coll_memory *memory, kiln_coll_buffer *buffer, uint64_t offset,
                            size_t bytes, kiln_coll_access access, void **out_pointer,
                            kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    const kiln_allocator *allocator = &((device_memory *)memory)->device->context->env.allocator;
    void *staging = allocator->alloc(allocator->user, bytes, /*alignment=*/64);
    if (staging == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_READ) {
        status =
            backend->ops->read(backend, (kiln_buffer *)buffer, (size_t)offset, staging, bytes, err);
    }
    if (status != KILN_STATUS_OK) {
        allocator->free(allocator->user, staging);
        return status;
    }
    *out_pointer = staging;
    return KILN_STATUS_OK;
}

static kiln_status unmap_copy(kiln_coll_memory *memory, kiln_coll_buffer *buffer, uint64_t offset,
                              size_t bytes, kiln_coll_access access, void *pointer, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_WRITE) {
        status = backend->ops->upload(backend, (kiln_buffer *)buffer, (size_t)offset, pointer,
                                      bytes, err);
    }
    kiln_free(&((device_memory *)memory)->device->context->env, pointer);
    return status;
}

static kiln_status memory_map(kiln_coll_memory *memory, kiln_coll_buffer *buffer, uint64_t offset,
                              size_t bytes, kiln_coll_access access, void **out_pointer,
                              kiln_error *err)
{
    lock(memory);
    kiln_status status = maps(memory)
                             ? map_shared(memory, buffer, offset, bytes, access, out_pointer, err)
                             : map_copy(memory, buffer, offset, bytes, access, out_pointer, err);
    unlock(memory);
    return status;
}

static kiln_status memory_unmap(kiln_coll_memory *memory, kiln_coll_buffer *buffer, uint64_t offset,
                                size_t bytes, kiln_coll_access access, void *pointer,
                                kiln_error *err)
{
    lock(memory);
    kiln_status status = maps(memory)
                             ? unmap_shared(memory, buffer, pointer, err)
                             : unmap_copy(memory, buffer, offset, bytes, access, pointer, err);
    unlock(memory);
    return status;
}

// ---- arithmetic
// ----------------------------------------------------------------------------------

static kiln_view flat_view(kiln_coll_buffer *buffer, uint64_t offset, size_t count,
                           kiln_dtype dtype)
{
    return (kiln_view){.buffer = (kiln_buffer *)buffer,
                       .offset_bytes = (int64_t)offset,
                       .dtype = dtype,
                       .rank = 1,
                       .dims = {(int64_t)count},
                       .strides = {1}};
}

/// Runs one operation on flat views, the first input's length.
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

/// The same on the host, over mapped ranges, for what the device cannot compute.
static kiln_status host_convert(kiln_coll_memory *memory, const kiln_view *target,
                                const kiln_view *source, uint32_t divisor, kiln_error *err)
{
    kiln_coll_memory *host = ((device_memory *)memory)->host;
    kiln_coll_buffer *to = (kiln_coll_buffer *)target->buffer;
    kiln_coll_buffer *from = (kiln_coll_buffer *)source->buffer;
    uint64_t to_offset = (uint64_t)target->offset_bytes;
    uint64_t from_offset = (uint64_t)source->offset_bytes;
    size_t count = (size_t)target->dims[0];
    size_t to_bytes = count * kiln_dtype_size(target->dtype);
    size_t from_bytes = count * kiln_dtype_size(source->dtype);
    void *target_data = NULL;
    void *source_data = NULL;
    kiln_status status =
        memory_map(memory, from, from_offset, from_bytes, KILN_COLL_READ, &source_data, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = memory_map(memory, to, to_offset, to_bytes, KILN_COLL_WRITE, &target_data, err);
    if (status == KILN_STATUS_OK) {
        kiln_status done = host->ops->convert(host, target_data, 0, target->dtype, source_data, 0,
                                              source->dtype, count, divisor, err);
        status = memory_unmap(memory, to, to_offset, to_bytes, KILN_COLL_WRITE, target_data,
                              done == KILN_STATUS_OK ? err : NULL);
        status = done == KILN_STATUS_OK ? status : done;
    }
    kiln_status unmapped = memory_unmap(memory, from, from_offset, from_bytes, KILN_COLL_READ,
                                        source_data, status == KILN_STATUS_OK ? err : NULL);
    return status == KILN_STATUS_OK ? unmapped : status;
}

static kiln_status memory_convert(kiln_coll_memory *memory, kiln_coll_buffer *target,
                                  uint64_t target_offset, kiln_dtype target_dtype,
                                  kiln_coll_buffer *source, uint64_t source_offset,
                                  kiln_dtype source_dtype, size_t count, uint32_t divisor,
                                  kiln_error *err)
{
    kiln_view from = flat_view(source, source_offset, count, source_dtype);
    kiln_view to = flat_view(target, target_offset, count, target_dtype);
    bool is_float = kiln_dtype_kind_of(source_dtype) == KILN_KIND_FLOAT;
    kiln_attr number = is_float ? kilni_attr_f64(divisor) : kilni_attr_i64(divisor);
    kiln_attr dtype = kilni_attr_dtype(target_dtype);
    kiln_status status = KILN_STATUS_UNIMPLEMENTED;
    if (target_dtype == source_dtype) {
        status = execute_flat(memory, KILN_OP_DIV_SCALAR, &from, 1, &number, &to, err);
    } else if (divisor == 1) {
        status = execute_flat(memory, KILN_OP_CAST, &from, 1, &dtype, &to, err);
    }
    return status == KILN_STATUS_UNIMPLEMENTED ? host_convert(memory, &to, &from, divisor, err)
                                               : status;
}

static kiln_status memory_reduce(kiln_coll_memory *memory, kiln_coll_buffer *target,
                                 uint64_t target_offset, kiln_coll_buffer *source,
                                 uint64_t source_offset, size_t count, kiln_dtype dtype,
                                 kiln_coll_op op, kiln_error *err)
{
    static const kiln_op ops[KILN_COLL_OP_COUNT] = {
        [KILN_COLL_SUM] = KILN_OP_ADD,     [KILN_COLL_MEAN] = KILN_OP_ADD,
        [KILN_COLL_MIN] = KILN_OP_MINIMUM, [KILN_COLL_MAX] = KILN_OP_MAXIMUM,
        [KILN_COLL_PROD] = KILN_OP_MUL,
    };
    const kiln_view views[] = {flat_view(target, target_offset, count, dtype),
                               flat_view(source, source_offset, count, dtype)};
    return execute_flat(memory, ops[op], views, 2, NULL, &views[0], err);
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
    if (devices == NULL || count == 0 || count > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group needs devices");
    }
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
    for (size_t i = 0; i < collective->count; i++) {
        kiln_coll_member_destroy(collective->ranks[i].member);
        kiln_coll_host_memory_destroy(collective->ranks[i].memory.host);
    }
    kiln_coll_group_destroy(collective->group);
    for (size_t i = 0; i < collective->count; i++) {
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
    memset(out_tensors, 0, collective->count * sizeof(*out_tensors));
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
