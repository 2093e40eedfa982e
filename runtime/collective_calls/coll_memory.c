// SPDX-License-Identifier: MIT OR Apache-2.0
// A device's memory as collective/ sees it, through a backend's table: that of the device's
// auxiliary queues, where it has some, so that a call neither stands behind queued operations nor
// needs the device's lock; else the device's own. Reductions are operations on the device. Bytes
// leave it through mapped memory where that is the host's, else in pinned pieces. Where the host
// finds them without a command, coll_on_host.c does the steps instead. Which algorithm runs, and in
// which order it combines, is decided by collective/; the public calls are in coll_calls.c.

#include "coll_memory.h"
#include "kiln_trace.h"
#include "rt_attrs.h"
#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_tensor.h"

#include <stdio.h>

static const size_t kept_staging_bytes = 256u << 20;

static kiln_device *device_of(kiln_coll_memory *memory)
{
    return ((kilni_device_memory *)memory)->device;
}

static kiln_backend *backend_of(kiln_coll_memory *memory)
{
    kiln_device *device = device_of(memory);
    return kilni_device_has_user_events(device) ? device->in.backend : device->backend;
}

static void lock(kiln_coll_memory *memory)
{
    kiln_device *device = device_of(memory);
    pthread_mutex_lock(kilni_device_has_user_events(device) ? &device->in.lock : &device->lock);
}

static void unlock(kiln_coll_memory *memory)
{
    kiln_device *device = device_of(memory);
    pthread_mutex_unlock(kilni_device_has_user_events(device) ? &device->in.lock : &device->lock);
}

// ---- memory ----

/// What the device's own pool does not use goes back to the device, unless somebody is busy there.
static bool trim_device(kiln_device *device)
{
    kiln_backend *backend = device->backend;
    if (!kilni_device_has_user_events(device) || pthread_mutex_trylock(&device->lock) != 0) {
        return false;
    }
    backend->memory->trim(backend);
    pthread_mutex_unlock(&device->lock);
    return true;
}

static kiln_status memory_alloc(kiln_coll_memory *memory, size_t bytes,
                                kiln_coll_buffer **out_buffer, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_buffer *buffer = NULL;
    lock(memory);
    kiln_status status = backend->memory->alloc(backend, bytes, &buffer, err);
    unlock(memory);
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED && trim_device(device_of(memory))) {
        lock(memory);
        status = backend->memory->alloc(backend, bytes, &buffer, err);
        unlock(memory);
    }
    *out_buffer = (kiln_coll_buffer *)buffer;
    return status;
}

static void memory_free(kiln_coll_memory *memory, kiln_coll_buffer *buffer)
{
    kiln_backend *backend = backend_of(memory);
    lock(memory);
    backend->memory->free(backend, (kiln_buffer *)buffer);
    unlock(memory);
}

// Where the backend maps, a mapping is the device's memory or the driver's copy of it; elsewhere it
// is a copy of ours, filled by a read and brought back by an upload.

/// The queues of the device, or NULL.
static const kiln_backend_queue_ops *queues_of(kiln_coll_memory *memory)
{
    return backend_of(memory)->queue;
}

/// Where the device's memory is the host's. Elsewhere the backend's own staging, which is pinned,
/// is faster than what a driver does to map.
static bool maps(kiln_coll_memory *memory)
{
    kiln_backend *backend = backend_of(memory);
    return queues_of(memory) != NULL &&
           (backend->device->info(backend)->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
}

// Blocks of the host are kept between mappings: fresh ones cost a page fault for every page.

static kilni_staging *find_staging(kilni_device_memory *self, const void *pointer)
{
    kilni_staging *block = self->staging;
    while (block != NULL && block->data != pointer) {
        block = block->next;
    }
    return block;
}

static kilni_staging *take_staging(kilni_device_memory *self, size_t bytes)
{
    const kiln_env *env = &self->device->context->env;
    kilni_staging *block = self->staging;
    while (block != NULL && (block->is_used || block->bytes < bytes)) {
        block = block->next;
    }
    if (block == NULL) {
        block = kiln_alloc(env, sizeof(*block));
        void *data = block == NULL
                         ? NULL
                         : env->allocator.alloc(env->allocator.user, bytes, /*alignment=*/64);
        if (data == NULL) {
            kiln_free(env, block);
            return NULL;
        }
        *block = (kilni_staging){.data = data, .bytes = bytes, .next = self->staging};
        self->staging = block;
    }
    block->is_used = true;
    return block;
}

/// At the end of a call: a call of other lengths shall not find blocks of all earlier ones.
static void drop_staging(kilni_device_memory *self, size_t most_bytes)
{
    const kiln_env *env = &self->device->context->env;
    size_t kept = 0;
    for (kilni_staging **link = &self->staging; *link != NULL;) {
        kilni_staging *block = *link;
        kept += block->bytes;
        if (block->is_used || kept <= most_bytes) {
            link = &block->next;
            continue;
        }
        kept -= block->bytes;
        *link = block->next;
        kiln_free(env, block->data);
        kiln_free(env, block);
    }
}

static kiln_status map_shared(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    uint32_t flags = access == KILN_COLL_READ ? KILN_MAP_READ : KILN_MAP_WRITE;
    return queues_of(memory)->map(backend_of(memory), (kiln_buffer *)area->buffer,
                                  (size_t)area->offset, kiln_coll_area_bytes(area), flags,
                                  out_pointer, err);
}

static kiln_status unmap_shared(kiln_coll_memory *memory, const kiln_coll_area *area, void *pointer,
                                kiln_error *err)
{
    return queues_of(memory)->unmap(backend_of(memory), (kiln_buffer *)area->buffer, pointer, err);
}

/// Reads an area, or, with NULL, waits for all work: where the backend can, without the lock
/// meanwhile, since who wants the device must not wait for a network.
static kiln_status read_back(kiln_coll_memory *memory, const kiln_coll_area *area, void *data,
                             kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    kiln_pending *pending = NULL;
    kiln_buffer *buffer = area != NULL ? (kiln_buffer *)area->buffer : NULL;
    size_t offset = area != NULL ? (size_t)area->offset : 0;
    size_t bytes = area != NULL ? kiln_coll_area_bytes(area) : 0;
    lock(memory);
    kiln_status status =
        backend->transfer->read_begin(backend, buffer, offset, data, bytes, &pending, err);
    unlock(memory);
    if (pending != NULL) {
        backend->transfer->read_wait(pending, /*cancel=*/false);
        lock(memory);
        status = backend->transfer->read_end(backend, pending, err);
        unlock(memory);
    }
    return status;
}

static kiln_status map_copy(kiln_coll_memory *memory, const kiln_coll_area *area,
                            kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    size_t bytes = kiln_coll_area_bytes(area);
    kilni_staging *block = take_staging((kilni_device_memory *)memory, bytes);
    if (block == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", bytes);
    }
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_READ) {
        status = read_back(memory, area, block->data, err);
    }
    block->is_used = status == KILN_STATUS_OK;
    *out_pointer = status == KILN_STATUS_OK ? block->data : NULL;
    return status;
}

static kiln_status memory_write(kiln_coll_memory *memory, const kiln_coll_area *area,
                                const void *data, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    lock(memory);
    kiln_status status =
        backend->transfer->upload(backend, (kiln_buffer *)area->buffer, (size_t)area->offset, data,
                                  kiln_coll_area_bytes(area), err);
    unlock(memory);
    return status;
}

/// Through the host, where a backend would wait for a network inside its copy, with the lock.
static kiln_status copy_far(kiln_coll_memory *memory, const kiln_coll_area *target,
                            const kiln_coll_area *source, kiln_error *err)
{
    void *data = NULL;
    kiln_status status = map_copy(memory, source, KILN_COLL_READ, &data, err);
    if (status == KILN_STATUS_OK) {
        status = memory_write(memory, target, data, err);
        find_staging((kilni_device_memory *)memory, data)->is_used = false;
    }
    return status;
}

static kiln_status memory_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                               const kiln_coll_area *source, kiln_error *err)
{
    kiln_backend *backend = backend_of(memory);
    if (backend->device->info(backend)->type == KILN_DEVICE_REMOTE) {
        return copy_far(memory, target, source, err);
    }
    lock(memory);
    kiln_status status = backend->transfer->copy(
        backend, (kiln_buffer *)source->buffer, (size_t)source->offset,
        (kiln_buffer *)target->buffer, (size_t)target->offset, kiln_coll_area_bytes(target), err);
    unlock(memory);
    return status;
}

static kiln_status unmap_copy(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void *pointer, kiln_error *err)
{
    kilni_staging *block = find_staging((kilni_device_memory *)memory, pointer);
    kiln_status status = KILN_STATUS_OK;
    if (access == KILN_COLL_WRITE) {
        status = memory_write(memory, area, pointer, err);
    }
    block->is_used = false;
    return status;
}

static kiln_status memory_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    if (!maps(memory)) {
        return map_copy(memory, area, access, out_pointer, err);
    }
    lock(memory);
    kiln_status status = map_shared(memory, area, access, out_pointer, err);
    unlock(memory);
    return status;
}

static kiln_status memory_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                                kiln_coll_access access, void *pointer, kiln_error *err)
{
    if (!maps(memory)) {
        return unmap_copy(memory, area, access, pointer, err);
    }
    lock(memory);
    kiln_status status = unmap_shared(memory, area, pointer, err);
    unlock(memory);
    return status;
}

// ---- arithmetic ----

static kiln_view view_of(const kiln_coll_area *area)
{
    return (kiln_view){.buffer = (kiln_buffer *)area->buffer,
                       .offset_bytes = (int64_t)area->offset,
                       .dtype = area->dtype,
                       .rank = 1,
                       .dims = {(int64_t)area->count},
                       .strides = {1}};
}

/// A remote device computes on whole buffers only, and the bytes come over the network anyway.
static bool computes_on_views(kiln_coll_memory *memory)
{
    return strcmp(backend_of(memory)->scheme, "grpc") != 0;
}

kiln_status kilni_execute_flat(kiln_backend *backend, kiln_op op, const kiln_view *inputs,
                               uint16_t n_inputs, const kiln_attr *attr, const kiln_view *output,
                               kiln_error *err)
{
    kiln_tensor_desc descs[3];
    for (uint16_t i = 0; i <= n_inputs; i++) {
        const kiln_view *view = i < n_inputs ? &inputs[i] : output;
        descs[i] = (kiln_tensor_desc){
            .id = kilni_tensor_ids(1), .dtype = view->dtype, .rank = 1, .dims = {view->dims[0]}};
    }
    const kiln_op_record record = {.op = op,
                                   .n_inputs = n_inputs,
                                   .n_outputs = 1,
                                   .n_attrs = attr != NULL,
                                   .inputs = descs,
                                   .outputs = &descs[n_inputs],
                                   .attrs = attr};
    return backend->device->execute(backend, &record, inputs, output, err);
}

static kiln_status execute_flat(kiln_coll_memory *memory, kiln_op op, const kiln_view *inputs,
                                uint16_t n_inputs, const kiln_attr *attr, const kiln_view *output,
                                kiln_error *err)
{
    lock(memory);
    kiln_status status =
        kilni_execute_flat(backend_of(memory), op, inputs, n_inputs, attr, output, err);
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
    kiln_coll_memory *host = ((kilni_device_memory *)memory)->host;
    const kiln_env *env = &((kilni_device_memory *)memory)->device->context->env;
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
    if (!computes_on_views(memory)) {
        return convert_on_host(memory, target, source, divisor, err);
    }
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
    kiln_coll_memory *host = ((kilni_device_memory *)memory)->host;
    const kiln_env *env = &((kilni_device_memory *)memory)->device->context->env;
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

kiln_op kilni_coll_operation(kiln_coll_op op)
{
    static const kiln_op ops[KILN_COLL_OP_COUNT] = {
        [KILN_COLL_SUM] = KILN_OP_ADD,     [KILN_COLL_MEAN] = KILN_OP_ADD,
        [KILN_COLL_MIN] = KILN_OP_MINIMUM, [KILN_COLL_MAX] = KILN_OP_MAXIMUM,
        [KILN_COLL_PROD] = KILN_OP_MUL,
    };
    return ops[op];
}

static kiln_status memory_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                                 const kiln_coll_area *left, const kiln_coll_area *right,
                                 kiln_coll_op op, kiln_error *err)
{
    const kiln_view inputs[] = {view_of(left), view_of(right)};
    const kiln_view output = view_of(target);
    kiln_status status = KILN_STATUS_UNIMPLEMENTED;
    if (computes_on_views(memory)) {
        status = execute_flat(memory, kilni_coll_operation(op), inputs, 2, NULL, &output, err);
    }
    return status == KILN_STATUS_UNIMPLEMENTED
               ? reduce_on_host(memory, target, left, right, op, err)
               : status;
}

// ---- the end of work ----

typedef struct after_call {
    const kiln_env *env;
    kiln_coll_done_fn done;
    void *user;
    kilni_dependencies *dependencies; ///< what the work depended on
} after_call;

static void pass_on(kiln_status status, void *user)
{
    after_call call = *(after_call *)user;
    kiln_free(call.env, user);
    if (status == KILN_STATUS_OK) {
        status = kilni_dependencies_status(call.dependencies, NULL, NULL);
    }
    kilni_dependencies_release(call.dependencies);
    call.done(status, call.user);
}

static kiln_status after_mark(kiln_backend *backend, after_call from, kiln_error *err)
{
    kiln_event *event = NULL;
    after_call *call = kiln_alloc(from.env, sizeof(*call));
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to wait for a device");
    }
    *call = from;
    kilni_dependencies_retain(call->dependencies);
    kiln_status status = backend->queue->marker(backend, &event, err);
    if (status == KILN_STATUS_OK) {
        status = backend->queue->event_after(event, pass_on, call, err);
        backend->queue->event_destroy(event);
    }
    if (status != KILN_STATUS_OK) {
        kilni_dependencies_release(call->dependencies);
        kiln_free(from.env, call);
    }
    return status;
}

/// Of what was queued on the device: calls start under its lock.
static kiln_status memory_after(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                kiln_error *err)
{
    kiln_device *device = device_of(memory);
    if (kilni_device_has_user_events(device)) {
        const after_call call = {&device->context->env, done, user,
                                 ((kilni_device_memory *)memory)->starting};
        return after_mark(device->backend, call, err);
    }
    // The call's work stands behind earlier work, and fails with it.
    done(KILN_STATUS_OK, user);
    return KILN_STATUS_OK;
}

static kiln_status memory_finish(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                 kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (queues_of(memory) != NULL) {
        const after_call call = {&device_of(memory)->context->env, done, user, NULL};
        lock(memory);
        status = after_mark(backend_of(memory), call, err);
        unlock(memory);
        return status;
    }
    status = read_back(memory, NULL, NULL, err);
    if (status == KILN_STATUS_OK) {
        done(KILN_STATUS_OK, user);
    }
    return status;
}

/// It was started, and is over.
static void free_ended(kiln_device *device, kilni_ended *ended)
{
    const kiln_error none = KILN_ERROR_INIT;
    kilni_rank_call_free(device, (kilni_rank_call *)ended, &none);
}

/// A span of the call with where its time went, in microseconds.
static void trace_call(kiln_device *device, const kilni_rank_call *call)
{
    static const char *const names[KILN_COLL_PASTIMES] = {"copying", "combining", "waiting",
                                                          "settling", "fetching"};
    const uint64_t *at = call->times.at_ns;
    char detail[320];
    int length = snprintf(detail, sizeof(detail), "bytes %llu", (unsigned long long)call->bytes);
    const char *const until[] = {"behind", "computing", "agreeing", "travelling"};
    for (int i = KILN_COLL_BEGUN; i <= KILN_COLL_ENDED && at[i] != 0; i++) {
        length += snprintf(detail + length, sizeof(detail) - (size_t)length, ", %s %.1f",
                           until[i - 1], (double)(at[i] - at[i - 1]) / 1e3);
    }
    for (int i = 0; i < KILN_COLL_PASTIMES; i++) {
        length += snprintf(detail + length, sizeof(detail) - (size_t)length, ", %s %.1f", names[i],
                           (double)call->times.spent_ns[i] / 1e3);
    }
    kiln_trace_note(device, call->kind, detail, at[KILN_COLL_STARTED]);
}

/// What was lent to the call goes back, and its result is there. Who has the device's lock may be
/// waiting for that: what needs the lock is left to whoever comes by with it.
static void memory_signal(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    kilni_device_memory *self = (kilni_device_memory *)memory;
    kiln_device *device = self->device;
    kilni_rank_call *call = event;
    kilni_future *future = call->future;
    if (call->kind != NULL) {
        trace_call(device, call);
    }
    drop_staging(self, kept_staging_bytes);
    call->future = NULL;
    call->ended.free = free_ended;
    kilni_device_put_ended(device, &call->ended);
    if (future != NULL) {
        kilni_future_end(future, result);
    }
    if (pthread_mutex_trylock(&device->lock) == 0) {
        kilni_device_sweep(device);
        pthread_mutex_unlock(&device->lock);
    }
}

/// The result is there; what was lent stays until the worker comes back.
static void memory_give_up(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    kilni_rank_call *call = event;
    kilni_future *future = call->future;
    (void)memory;
    call->future = NULL;
    if (future != NULL) {
        kilni_future_end(future, result);
    }
}

void kilni_rank_call_free(kiln_device *device, kilni_rank_call *call, const kiln_error *result)
{
    kilni_binding_clear(device, &call->input);
    kilni_binding_clear(device, &call->output);
    kilni_dependencies_release(call->depends);
    if (call->future != NULL) {
        kilni_future_end(call->future, result);
    }
    kiln_free(&device->context->env, call);
}

// ---- pieces of long calls ----

/// The out auxiliary queue's lock is held while a read is queued, never while it is waited for.
static kiln_status memory_stage(kiln_coll_memory *memory, uint32_t index, size_t bytes,
                                void **out_host, kiln_error *err)
{
    kilni_device_memory *self = (kilni_device_memory *)memory;
    kilni_aux_queue *out = &self->device->out;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&out->lock);
    if (self->stages[index] == NULL) {
        status = out->backend->memory->host_alloc(out->backend, bytes, &self->stages[index], err);
    }
    pthread_mutex_unlock(&out->lock);
    *out_host = self->stages[index];
    return status;
}

static void drop_stages(kilni_device_memory *self)
{
    kilni_aux_queue *out = &self->device->out;
    for (uint32_t i = 0; i < KILN_COLL_STAGES; i++) {
        if (self->stages[i] != NULL) {
            pthread_mutex_lock(&out->lock);
            out->backend->memory->host_free(out->backend, self->stages[i]);
            pthread_mutex_unlock(&out->lock);
        }
    }
}

static kiln_status memory_fetch(kiln_coll_memory *memory, const kiln_coll_area *area, void *host,
                                kiln_coll_ticket **out_ticket, kiln_error *err)
{
    kilni_aux_queue *out = &device_of(memory)->out;
    kiln_pending *pending = NULL;
    pthread_mutex_lock(&out->lock);
    kiln_status status = out->backend->transfer->read_begin(
        out->backend, (kiln_buffer *)area->buffer, (size_t)area->offset, host,
        kiln_coll_area_bytes(area), &pending, err);
    pthread_mutex_unlock(&out->lock);
    *out_ticket = (kiln_coll_ticket *)pending;
    return status;
}

static kiln_status memory_fetched(kiln_coll_memory *memory, kiln_coll_ticket *ticket,
                                  kiln_error *err)
{
    kilni_aux_queue *out = &device_of(memory)->out;
    kiln_pending *pending = (kiln_pending *)ticket;
    if (pending == NULL) {
        return KILN_STATUS_OK;
    }
    out->backend->transfer->read_wait(pending, /*cancel=*/false);
    pthread_mutex_lock(&out->lock);
    kiln_status status = out->backend->transfer->read_end(out->backend, pending, err);
    pthread_mutex_unlock(&out->lock);
    return status;
}

static kiln_status memory_put(kiln_coll_memory *memory, const kiln_coll_area *area,
                              const void *host, kiln_error *err)
{
    lock(memory);
    kiln_status status =
        queues_of(memory)->write(backend_of(memory), (kiln_buffer *)area->buffer,
                                 (size_t)area->offset, host, kiln_coll_area_bytes(area), err);
    unlock(memory);
    return status;
}

static kiln_status memory_mark(kiln_coll_memory *memory, kiln_coll_ticket **out_ticket,
                               kiln_error *err)
{
    kiln_event *event = NULL;
    lock(memory);
    kiln_status status = queues_of(memory)->marker(backend_of(memory), &event, err);
    unlock(memory);
    *out_ticket = (kiln_coll_ticket *)event;
    return status;
}

static kiln_status memory_reached(kiln_coll_memory *memory, kiln_coll_ticket *ticket,
                                  kiln_error *err)
{
    const kiln_backend_queue_ops *queues = queues_of(memory);
    kiln_event *event = (kiln_event *)ticket;
    kiln_status status = queues->event_wait(event, err);
    queues->event_destroy(event);
    return status;
}

/// The last of its member; perhaps long after the group, and then also the last of the device.
static void memory_close(kiln_coll_memory *base)
{
    kilni_device_memory *memory = (kilni_device_memory *)base;
    kiln_device *device = memory->device;
    kiln_context *context = device->context;
    kilni_context_retain(context);
    pthread_mutex_lock(&device->lock);
    kilni_device_sweep(device);
    pthread_mutex_unlock(&device->lock);
    kiln_coll_host_memory_destroy(memory->host);
    drop_staging(memory, 0);
    drop_stages(memory);
    kiln_free(&context->env, memory);
    kiln_device_release(device);
    kilni_context_release(context);
}

// ---- the tables ----

#define COMMON                                                                                     \
    .struct_size = (uint32_t)sizeof(kiln_coll_memory_ops), .is_left = true, .alloc = memory_alloc, \
    .free = memory_free, .copy = memory_copy, .convert = memory_convert, .reduce = memory_reduce,  \
    .map = memory_map, .unmap = memory_unmap, .after = memory_after, .finish = memory_finish,      \
    .signal = memory_signal, .give_up = memory_give_up, .close = memory_close

/// Memory that is the host's.
static const kiln_coll_memory_ops mapped_ops = {COMMON, .name = "device",
                                                .write = kiln_coll_no_write};

static const kiln_coll_memory_ops copying_ops = {COMMON, .name = "device, copying",
                                                 .is_written = true, .write = memory_write};

/// Devices with auxiliary queues, where the memory is not the host's.
static const kiln_coll_stream_ops stream_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_stream_ops),
    .stage = memory_stage,
    .fetch = memory_fetch,
    .fetched = memory_fetched,
    .put = memory_put,
    .mark = memory_mark,
    .reached = memory_reached,
};

static kiln_coll_memory tables_of(kiln_coll_memory *memory)
{
    bool is_mapped = maps(memory);
    bool streams = !is_mapped && kilni_device_has_user_events(device_of(memory));
    return (kiln_coll_memory){.ops = is_mapped ? &mapped_ops : &copying_ops,
                              .stream = streams ? &stream_ops : NULL};
}

kiln_status kilni_device_memory_create(kiln_device *device, kilni_device_memory **out_memory,
                                       kiln_error *err)
{
    device = kilni_core(device);
    kilni_device_memory *memory = kiln_alloc(&device->context->env, sizeof(*memory));
    if (memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a member");
    }
    memory->device = kiln_device_retain(device);
    kiln_status status = kilni_aux_queues_open(device, err);
    memory->base = tables_of(&memory->base);
    if (status == KILN_STATUS_OK && maps(&memory->base) && kilni_device_has_user_events(device)) {
        kilni_device_memory_direct(memory);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_coll_host_memory_create(&device->context->env, &memory->host, err);
    }
    if (status != KILN_STATUS_OK) {
        memory_close(&memory->base);
        return status;
    }
    *out_memory = memory;
    return status;
}
