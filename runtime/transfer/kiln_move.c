// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving tensors between devices, of whatever kind. The call prepares both ends and returns; a
// context's mover carries moves out, the earliest first of those whose devices have done what was
// queued before, so that nobody waits with a device's lock and none waits for another: one thread
// reads chunks from the source into two stages, another writes them to the target meanwhile.
// Backends pin their own staging. A mover never gives up the last hold of a device: closing one
// waits for its moves instead.

#include "rt_attrs.h"
#include "rt_aux_queues.h"
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_moves.h"
#include "rt_tensor.h"

enum { STAGES = 2 };
static const size_t chunk_bytes = 4u << 20;

/// A queue that an end's bytes travel in, and its lock.
typedef struct way {
    kiln_backend *backend;
    pthread_mutex_t *lock;
} way;

/// What both ends keep until a move has ended.
typedef struct move {
    kilni_mover *mover;
    uint32_t waits; ///< ends whose earlier work goes on; the mover's lock
    bool lost; ///< an end's has failed; the mover's lock
    kiln_device *source;
    kiln_device *target;
    kilni_moving leaving; ///< at the source
    kilni_moving coming; ///< and at the target
    bool leaves_by_aux_queue; ///< the reader's
    bool comes_by_aux_queue; ///< the writer's, then the reader's
    kilni_binding input;
    kilni_binding output;
    kilni_future *future;
    size_t bytes;
    struct move *next;
} move;

typedef struct chunk {
    size_t offset;
    size_t bytes;
    const unsigned char *data;
} chunk;

struct kilni_mover {
    const kiln_env *env;
    pthread_t reader;
    pthread_t writer;
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    move *first;
    move *last;
    bool closing;
    move *current; ///< the writer's
    chunk chunks[STAGES];
    uint64_t filled; ///< chunks of the current move that were read
    uint64_t written; ///< and written
    kiln_error failure; ///< of writing the current move
    unsigned char *stages[STAGES]; ///< the reader's; made when needed
};

// ---- earlier work ----

/// An end's earlier work is done, or has failed, which the transfer will find out. On a thread of
/// the driver.
static void end_is_ready(kiln_status status, void *user)
{
    move *self = user;
    kilni_mover *mover = self->mover;
    pthread_mutex_lock(&mover->lock);
    self->lost = self->lost || status != KILN_STATUS_OK;
    self->waits--;
    pthread_cond_broadcast(&mover->changed);
    pthread_mutex_unlock(&mover->lock);
}

/// Lets the move begin only when what is queued on the device by now is done. Without that the
/// transfer itself would wait. Under the device's lock.
static void wait_for_work(kiln_device *device, move *self)
{
    const kiln_backend_queue_ops *queues = device->backend->queue;
    kiln_event *event = NULL;
    if (queues == NULL || queues->marker(device->backend, &event, NULL) != KILN_STATUS_OK) {
        return;
    }
    pthread_mutex_lock(&self->mover->lock);
    self->waits++;
    pthread_mutex_unlock(&self->mover->lock);
    if (queues->event_after(event, end_is_ready, self, NULL) != KILN_STATUS_OK) {
        pthread_mutex_lock(&self->mover->lock);
        self->waits--;
        pthread_mutex_unlock(&self->mover->lock);
    }
    queues->event_destroy(event);
}

/// Under the mover's lock.
static void await_ends(kilni_mover *mover, const move *self)
{
    while (self->waits > 0) {
        pthread_cond_wait(&mover->changed, &mover->lock);
    }
}

/// Takes the first move whose ends are ready, or NULL. Under the mover's lock.
static move *take_ready(kilni_mover *mover)
{
    move *before = NULL;
    move *found = mover->first;
    while (found != NULL && found->waits > 0) {
        before = found;
        found = found->next;
    }
    if (found != NULL) {
        *(before != NULL ? &before->next : &mover->first) = found->next;
        mover->last = mover->last == found ? before : mover->last;
    }
    return found;
}

// ---- moves of a device (under its lock) ----

static void enter(kiln_device *device, kilni_moving *end)
{
    *end = (kilni_moving){.number = device->moves.next_number++, .before = device->moves.last};
    *(end->before != NULL ? &end->before->next : &device->moves.first) = end;
    device->moves.last = end;
}

/// Who syncs or closes the device waits for this.
static void leave(kiln_device *device, const kilni_moving *end)
{
    *(end->before != NULL ? &end->before->next : &device->moves.first) = end->next;
    *(end->next != NULL ? &end->next->before : &device->moves.last) = end->before;
    pthread_cond_broadcast(&device->future_ended);
}

// ---- ways ----

/// Locks a queue for bytes that leave or enter the device: the auxiliary queue from when there is
/// one, for a user event may then come into the device's own queue; `*in_aux_queue` says that it
/// was there before, and nobody waits with its lock. Of a device that was lost only its own queue
/// says so.
static way lock_way(const move *current, kiln_device *device, kilni_aux_queue *aux_queue,
                    bool *in_aux_queue)
{
    if (!*in_aux_queue) {
        pthread_mutex_lock(&device->lock);
        if (aux_queue->backend == NULL || current->lost) {
            return (way){device->backend, &device->lock};
        }
        pthread_mutex_unlock(&device->lock);
        *in_aux_queue = true;
    }
    pthread_mutex_lock(&aux_queue->lock);
    return (way){aux_queue->backend, &aux_queue->lock};
}

static way lock_source(move *current)
{
    return lock_way(current, current->source, &current->source->out, &current->leaves_by_aux_queue);
}

static way lock_target(move *current)
{
    return lock_way(current, current->target, &current->target->in, &current->comes_by_aux_queue);
}

static void unlock_way(const way *self)
{
    pthread_mutex_unlock(self->lock);
}

/// Waits for a read, or with `bytes` 0 for all that was queued, and without the lock where it can.
/// The way is an auxiliary queue and locked, and unlocked when it ends.
static kiln_status fetch(const way *from, kiln_buffer *buffer, size_t offset, void *out_data,
                         size_t bytes, kiln_error *err)
{
    kiln_backend *backend = from->backend;
    kiln_pending *pending = NULL;
    kiln_status status =
        backend->transfer->read_begin(backend, buffer, offset, out_data, bytes, &pending, err);
    if (pending != NULL) {
        unlock_way(from);
        backend->transfer->read_wait(pending, /*cancel=*/false);
        pthread_mutex_lock(from->lock);
        status = backend->transfer->read_end(backend, pending, err);
    }
    unlock_way(from);
    return status;
}

// ---- the writer ----

static kiln_status write_chunk(move *current, const chunk *part, kiln_error *err)
{
    const kiln_view *view = &current->output.view;
    const way to = lock_target(current);
    kiln_status status = to.backend->transfer->upload(to.backend, view->buffer,
                                                      (size_t)view->offset_bytes + part->offset,
                                                      part->data, part->bytes, err);
    unlock_way(&to);
    return status;
}

/// Waits for what was written to another queue than the one of who uses it.
static kiln_status await_writes(move *current, kiln_error *err)
{
    const way to = lock_target(current);
    if (to.backend != current->target->backend) {
        return fetch(&to, NULL, 0, NULL, 0, err);
    }
    unlock_way(&to);
    return KILN_STATUS_OK;
}

static void *write_all(void *user)
{
    kilni_mover *mover = user;
    pthread_mutex_lock(&mover->lock);
    while (!mover->closing) {
        if (mover->written == mover->filled) {
            pthread_cond_wait(&mover->changed, &mover->lock);
            continue;
        }
        const chunk part = mover->chunks[mover->written % STAGES];
        kiln_error err = mover->failure;
        pthread_mutex_unlock(&mover->lock);
        if (err.code == KILN_STATUS_OK) { // after a failure the rest is only taken in
            err.code = (int32_t)write_chunk(mover->current, &part, &err);
        }
        pthread_mutex_lock(&mover->lock);
        mover->failure = err;
        mover->written++;
        pthread_cond_broadcast(&mover->changed);
    }
    pthread_mutex_unlock(&mover->lock);
    return NULL;
}

// ---- the reader ----

/// Waits until at most `behind` chunks are read and not written. False: writing failed.
static bool await_writer(kilni_mover *mover, uint64_t behind)
{
    pthread_mutex_lock(&mover->lock);
    while (mover->filled - mover->written > behind) {
        pthread_cond_wait(&mover->changed, &mover->lock);
    }
    bool sound = mover->failure.code == KILN_STATUS_OK;
    pthread_mutex_unlock(&mover->lock);
    return sound;
}

static void hand_over(kilni_mover *mover, const chunk *part)
{
    pthread_mutex_lock(&mover->lock);
    mover->chunks[mover->filled % STAGES] = *part;
    mover->filled++;
    pthread_cond_broadcast(&mover->changed);
    pthread_mutex_unlock(&mover->lock);
}

static kiln_status read_chunk(kilni_mover *mover, move *current, chunk *part, kiln_error *err)
{
    unsigned char **stage = &mover->stages[mover->filled % STAGES];
    if (*stage == NULL) {
        *stage = kiln_alloc(mover->env, chunk_bytes);
    }
    if (*stage == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes", chunk_bytes);
    }
    const kiln_view *view = &current->input.view;
    size_t offset = (size_t)view->offset_bytes + part->offset;
    part->data = *stage;
    const way from = lock_source(current);
    if (from.backend != current->source->backend) {
        return fetch(&from, view->buffer, offset, *stage, part->bytes, err);
    }
    kiln_status status =
        from.backend->transfer->read(from.backend, view->buffer, offset, *stage, part->bytes, err);
    unlock_way(&from);
    return status;
}

/// Where the source's memory is the host's, its bytes are written from where they lie: `*out_data`
/// is NULL elsewhere.
static kiln_status map_source(move *current, unsigned char **out_data, kiln_error *err)
{
    *out_data = NULL;
    kiln_backend *backend = current->source->backend;
    bool is_shared = backend->queue != NULL &&
                     (backend->device->info(backend)->features & KILN_FEATURE_UNIFIED_MEMORY) != 0;
    if (is_shared) {
        void *data = NULL;
        const kiln_view *view = &current->input.view;
        const way from = lock_source(current);
        kiln_status status =
            backend->queue->map(from.backend, view->buffer, (size_t)view->offset_bytes,
                                current->bytes, KILN_MAP_READ, &data, err);
        unlock_way(&from);
        *out_data = data;
        return status;
    }
    return KILN_STATUS_OK;
}

static kiln_status unmap_source(move *current, void *data, kiln_error *err)
{
    if (data != NULL) {
        const way from = lock_source(current); // any queue of the context may unmap
        kiln_status status =
            from.backend->queue->unmap(from.backend, current->input.view.buffer, data, err);
        unlock_way(&from);
        return status;
    }
    return KILN_STATUS_OK;
}

static kiln_status copy_chunks(kilni_mover *mover, move *current, unsigned char *mapped,
                               kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t done = 0; done < current->bytes && status == KILN_STATUS_OK; done += chunk_bytes) {
        size_t left = current->bytes - done;
        chunk part = {.offset = done, .bytes = left < chunk_bytes ? left : chunk_bytes};
        if (!await_writer(mover, /*behind=*/STAGES - 1)) {
            break;
        }
        if (mapped != NULL) {
            part.data = mapped + done;
        } else {
            status = read_chunk(mover, current, &part, err);
        }
        if (status == KILN_STATUS_OK) {
            hand_over(mover, &part);
        }
    }
    if (!await_writer(mover, /*behind=*/0) && status == KILN_STATUS_OK) {
        *err = mover->failure;
        status = (kiln_status)err->code;
    }
    return status == KILN_STATUS_OK ? await_writes(current, err) : status;
}

/// From one server to another, when both ends are such and the target may ask the source.
/// `*out_done` false: nothing has moved.
static kiln_status pass_directly(const move *current, bool *out_done, kiln_error *err)
{
    const kiln_view *input = &current->input.view;
    const kiln_view *output = &current->output.view;
    kiln_transfer transfer = {0};
    *out_done = false;
    const kiln_backend_peer_ops *peer = current->source->backend->peer;
    if (peer == NULL || peer != current->target->backend->peer || input->offset_bytes != 0 ||
        output->offset_bytes != 0) {
        return KILN_STATUS_OK;
    }
    pthread_mutex_lock(&current->target->lock);
    kiln_status status = peer->identify(current->target->backend, &transfer, err);
    pthread_mutex_unlock(&current->target->lock);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&current->source->lock);
        status = peer->expose(current->source->backend, input->buffer, &transfer, err);
        pthread_mutex_unlock(&current->source->lock);
    }
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&current->target->lock);
        status = peer->obtain(current->target->backend, output->buffer, &transfer, err);
        pthread_mutex_unlock(&current->target->lock);
        if (status != KILN_STATUS_OK) {
            pthread_mutex_lock(&current->source->lock);
            peer->withdraw(current->source->backend, &transfer);
            pthread_mutex_unlock(&current->source->lock);
        }
    }
    bool refused = status == KILN_STATUS_PERMISSION_DENIED || status == KILN_STATUS_UNIMPLEMENTED;
    *out_done = !refused;
    return refused ? KILN_STATUS_OK : status;
}

static kiln_status carry_out(kilni_mover *mover, move *current, kiln_error *err)
{
    bool done = false;
    unsigned char *mapped = NULL;
    pthread_mutex_lock(&mover->lock);
    mover->current = current;
    mover->filled = 0;
    mover->written = 0;
    mover->failure = (kiln_error)KILN_ERROR_INIT;
    pthread_mutex_unlock(&mover->lock);
    pthread_mutex_lock(&current->source->lock); // what it was computed from has come, or failed
    kiln_status status = kilni_binding_status(&current->input, err);
    pthread_mutex_unlock(&current->source->lock);
    status = status == KILN_STATUS_OK ? pass_directly(current, &done, err) : status;
    if (status == KILN_STATUS_OK && !done) {
        status = map_source(current, &mapped, err);
    }
    if (status == KILN_STATUS_OK && !done) {
        status = copy_chunks(mover, current, mapped, err);
        kiln_status unmapped = unmap_source(current, mapped, status == KILN_STATUS_OK ? err : NULL);
        status = status == KILN_STATUS_OK ? unmapped : status;
    }
    if (status != KILN_STATUS_OK) {
        kiln_error_context(err, "moving %zu bytes from %s to %s", current->bytes,
                           current->source->address, current->target->address);
    }
    return status;
}

static void finish(kilni_mover *mover, move *ended, const kiln_error *result)
{
    kiln_device *source = ended->source;
    kiln_device *target = ended->target;
    pthread_mutex_lock(&source->lock);
    kilni_binding_clear(source, &ended->input);
    leave(source, &ended->leaving);
    pthread_mutex_unlock(&source->lock);
    pthread_mutex_lock(&target->lock);
    kilni_binding_clear(target, &ended->output);
    kilni_future_end(ended->future, result);
    leave(target, &ended->coming);
    kiln_free(mover->env, ended);
    pthread_mutex_unlock(&target->lock);
}

static void *read_all(void *user)
{
    kilni_mover *mover = user;
    pthread_mutex_lock(&mover->lock);
    while (mover->first != NULL || !mover->closing) {
        move *current = take_ready(mover);
        if (current == NULL) {
            pthread_cond_wait(&mover->changed, &mover->lock);
            continue;
        }
        pthread_mutex_unlock(&mover->lock);
        kiln_error err = KILN_ERROR_INIT;
        err.code = (int32_t)carry_out(mover, current, &err);
        finish(mover, current, &err);
        pthread_mutex_lock(&mover->lock);
    }
    pthread_mutex_unlock(&mover->lock);
    return NULL;
}

// ---- the mover ----

static void close_mover(kilni_mover *mover)
{
    pthread_mutex_lock(&mover->lock);
    mover->closing = true;
    pthread_cond_broadcast(&mover->changed);
    pthread_mutex_unlock(&mover->lock);
}

static void free_mover(kilni_mover *mover)
{
    for (int i = 0; i < STAGES; i++) {
        kiln_free(mover->env, mover->stages[i]);
    }
    pthread_cond_destroy(&mover->changed);
    pthread_mutex_destroy(&mover->lock);
    kiln_free(mover->env, mover);
}

static void destroy_mover(kilni_mover *mover)
{
    close_mover(mover);
    pthread_join(mover->reader, NULL);
    pthread_join(mover->writer, NULL);
    free_mover(mover);
}

static kiln_status create_mover(const kiln_env *env, kilni_mover **out_mover, kiln_error *err)
{
    kilni_mover *mover = kiln_alloc(env, sizeof(*mover));
    if (mover == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to move tensors");
    }
    mover->env = env;
    pthread_mutex_init(&mover->lock, NULL);
    pthread_cond_init(&mover->changed, NULL);
    bool reads = pthread_create(&mover->reader, NULL, read_all, mover) == 0;
    if (reads && pthread_create(&mover->writer, NULL, write_all, mover) == 0) {
        *out_mover = mover;
        return KILN_STATUS_OK;
    }
    close_mover(mover);
    if (reads) {
        pthread_join(mover->reader, NULL);
    }
    free_mover(mover);
    return kiln_fail(err, RESOURCE_EXHAUSTED, "no threads to move tensors");
}

static kiln_status mover_of(kiln_context *context, kilni_mover **out_mover, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&context->lock);
    if (context->mover == NULL) {
        status = create_mover(&context->env, &context->mover, err);
        context->mover_destroy = destroy_mover;
    }
    *out_mover = context->mover;
    pthread_mutex_unlock(&context->lock);
    return status;
}

static void enqueue(kilni_mover *mover, move *next)
{
    pthread_mutex_lock(&mover->lock);
    if (mover->first == NULL) {
        mover->first = next;
    } else {
        mover->last->next = next;
    }
    mover->last = next;
    pthread_cond_broadcast(&mover->changed);
    pthread_mutex_unlock(&mover->lock);
}

// ---- both ends ----

/// Submits what the tensor needs, and keeps its elements dense.
static kiln_status lend(kiln_tensor *tensor, move *self, kiln_error *err)
{
    kiln_device *device = tensor->device;
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_await_futures(device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    if (status == KILN_STATUS_OK && kiln_view_is_contiguous(&tensor->binding.view)) {
        kilni_binding_share(&self->input, &tensor->binding, &tensor->binding.view);
    } else if (status == KILN_STATUS_OK) {
        status = kilni_binding_dense(device, &tensor->desc, &tensor->binding, &self->input, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_storage_settle(device, self->input.storage, err);
    }
    if (status == KILN_STATUS_OK) {
        status = device->backend->device->flush(device->backend, err);
    }
    if (status == KILN_STATUS_OK) {
        enter(device, &self->leaving);
        wait_for_work(device, self);
    } else {
        kilni_binding_clear(device, &self->input);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status receive_locked(kiln_device *handle, const kiln_tensor_desc *desc,
                                  kiln_param_id param, move *self, kiln_tensor **out_tensor,
                                  kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if ((device->backend->device->dtype_usage(device->backend, desc->dtype) & KILN_USAGE_STORAGE) ==
        0) {
        return kiln_fail(err, UNIMPLEMENTED, "%s does not store %s", device->address,
                         kiln_dtype_name(desc->dtype));
    }
    kiln_tensor *tensor = kilni_tensor_new(handle, desc);
    if (tensor == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
    }
    tensor->param = param;
    *out_tensor = tensor;
    kiln_status status = kilni_binding_alloc(device, &tensor->desc, &tensor->binding, err);
    if (status != KILN_STATUS_OK || self == NULL) {
        return status;
    }
    self->future = kilni_future_create(device);
    if (self->future == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a move");
    }
    tensor->future = self->future;
    kilni_binding_share(&self->output, &tensor->binding, &tensor->binding.view);
    enter(device, &self->coming);
    wait_for_work(device, self);
    return KILN_STATUS_OK;
}

/// Makes the target's tensor; `self` NULL: one without elements, which is there at once.
static kiln_status receive(kiln_device *handle, const kiln_tensor *tensor, move *self,
                           kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kiln_param_id param = kiln_tensor_param(tensor);
    pthread_mutex_lock(&device->lock);
    kiln_status status = receive_locked(handle, &tensor->desc, param, self, out_tensor, err);
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_release(*out_tensor);
        *out_tensor = NULL;
    }
    return status;
}

static kiln_status start_move(kiln_tensor *tensor, kiln_device *device, kiln_tensor **out_tensor,
                              kiln_error *err)
{
    kilni_mover *mover = NULL;
    kiln_status status = mover_of(kilni_core(device)->context, &mover, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    move *self = kiln_alloc(mover->env, sizeof(*self));
    if (self == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a move");
    }
    self->mover = mover;
    self->source = tensor->device;
    self->target = kilni_core(device);
    self->bytes = kiln_tensor_bytes(tensor);
    status = lend(tensor, self, err);
    if (status == KILN_STATUS_OK) {
        status = receive(device, tensor, self, out_tensor, err);
        if (status != KILN_STATUS_OK) {
            pthread_mutex_lock(&mover->lock);
            await_ends(mover, self);
            pthread_mutex_unlock(&mover->lock);
            pthread_mutex_lock(&self->source->lock);
            kilni_binding_clear(self->source, &self->input);
            leave(self->source, &self->leaving);
            pthread_mutex_unlock(&self->source->lock);
        }
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(mover->env, self);
        return status;
    }
    enqueue(mover, self);
    return KILN_STATUS_OK;
}

/// What a tensor becomes on another handle of its device: a float of the default dtype is cast to
/// the other's, by a recorded operation; everything else is the tensor itself.
static kiln_status hand_over_to(kiln_tensor *tensor, kiln_device *handle, kiln_tensor **out_tensor,
                                kiln_error *err)
{
    if (tensor->handle == handle || tensor->desc.dtype != tensor->handle->float_dtype) {
        *out_tensor = kiln_retain(tensor);
        return KILN_STATUS_OK;
    }
    const kiln_attr dtype = kilni_attr_dtype(handle->float_dtype);
    return kiln_record(handle, KILN_OP_CAST, &tensor, 1, &dtype, 1, out_tensor, err);
}

kiln_status kiln_to_device(kiln_tensor *tensor, kiln_device *device, kiln_tensor **out_tensor,
                           kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (tensor == NULL || device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "tensor and device must not be NULL");
    }
    if (tensor->device == kilni_core(device)) {
        kiln_status handed = hand_over_to(tensor, device, out_tensor, err);
        if (handed == KILN_STATUS_OK && *out_tensor != tensor) { // a cast, which names no parameter
            kiln_tensor_set_param(*out_tensor, kiln_tensor_param(tensor));
        }
        return handed;
    }
    if (kiln_tensor_bytes(tensor) > 0) {
        return start_move(tensor, device, out_tensor, err);
    }
    pthread_mutex_lock(&tensor->device->lock);
    kiln_status status = kilni_await_futures(tensor->device, &tensor, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_bind(tensor, err);
    }
    pthread_mutex_unlock(&tensor->device->lock);
    return status == KILN_STATUS_OK ? receive(device, tensor, NULL, out_tensor, err) : status;
}
