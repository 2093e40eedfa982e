// SPDX-License-Identifier: MIT OR Apache-2.0
// A device's memory where the host finds the very bytes that kernels work on: the steps of a call
// are done by its worker, on the spot. As commands (coll_memory.c) each of them waits for its turn
// behind kernels of a step that has all processors; a thread has its share of these.
//
// A call begins behind the work that its buffers were in, and what is queued meanwhile and uses
// them waits for its end: so nothing else touches them. What lies elsewhere is a command after all,
// and has to have ended before a step on the spot.

#include "coll_memory.h"

#include <pthread.h>

static kilni_device_memory *self_of(kiln_coll_memory *memory)
{
    return (kilni_device_memory *)memory;
}

static kilni_aux_queue *lane_of(kiln_coll_memory *memory)
{
    return &self_of(memory)->device->in;
}

/// The table of the steps as commands, for one of them.
static const kiln_coll_memory_ops *queue_of(kiln_coll_memory *memory)
{
    kilni_aux_queue *in = lane_of(memory);
    pthread_mutex_lock(&in->lock);
    in->steps++;
    pthread_mutex_unlock(&in->lock);
    self_of(memory)->is_queued = true;
    return self_of(memory)->commands;
}

/// The area as memory of the host. False: it is not known where it lies.
static bool find(kiln_coll_memory *memory, const kiln_coll_area *area, kiln_coll_area *out_area)
{
    kilni_aux_queue *in = lane_of(memory);
    pthread_mutex_lock(&in->lock);
    unsigned char *address =
        in->backend->queue->host_address(in->backend, (kiln_buffer *)area->buffer);
    pthread_mutex_unlock(&in->lock);
    *out_area =
        (kiln_coll_area){(kiln_coll_buffer *)address, area->offset, area->dtype, area->count};
    return address != NULL;
}

// ---- what is still queued ----

typedef struct passing { ///< of the end of what is queued
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_over;
    kiln_status status;
} passing;

static void passed(kiln_status status, void *user)
{
    passing *end = user;
    pthread_mutex_lock(&end->lock);
    end->status = status;
    end->is_over = true;
    pthread_cond_signal(&end->changed);
    pthread_mutex_unlock(&end->lock);
}

/// Waits for all that is queued, without the lane's lock, which others need meanwhile.
static kiln_status await_lane(kiln_coll_memory *memory, kiln_error *err)
{
    passing end = {.is_over = false};
    pthread_mutex_init(&end.lock, NULL);
    pthread_cond_init(&end.changed, NULL);
    kiln_status status = self_of(memory)->commands->finish(memory, passed, &end, err);
    pthread_mutex_lock(&end.lock);
    while (status == KILN_STATUS_OK && !end.is_over) {
        pthread_cond_wait(&end.changed, &end.lock);
    }
    pthread_mutex_unlock(&end.lock);
    pthread_cond_destroy(&end.changed);
    pthread_mutex_destroy(&end.lock);
    return status != KILN_STATUS_OK || end.status == KILN_STATUS_OK
               ? status
               : kiln_error_set(err, end.status, KILN_FILE_NAME, __LINE__,
                                "steps that were queued before have failed");
}

/// Before a step on the spot: commands of before, which may use its buffers, have ended.
static kiln_status drain(kiln_coll_memory *memory, kiln_error *err)
{
    kilni_device_memory *self = self_of(memory);
    kilni_aux_queue *in = lane_of(memory);
    if (!self->is_queued) {
        return KILN_STATUS_OK;
    }
    pthread_mutex_lock(&in->lock);
    uint64_t steps = in->steps;
    bool ended = in->ended >= steps;
    pthread_mutex_unlock(&in->lock);
    kiln_status status = ended ? KILN_STATUS_OK : await_lane(memory, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&in->lock);
        in->ended = in->ended > steps ? in->ended : steps;
        pthread_mutex_unlock(&in->lock);
        self->is_queued = false;
    }
    return status;
}

/// A call that was given up leaves commands behind, and its buffers to the next one.
static kiln_status direct_alloc(kiln_coll_memory *memory, size_t bytes,
                                kiln_coll_buffer **out_buffer, kiln_error *err)
{
    kilni_aux_queue *in = lane_of(memory);
    kiln_status status = self_of(memory)->commands->alloc(memory, bytes, out_buffer, err);
    pthread_mutex_lock(&in->lock);
    self_of(memory)->is_queued |= in->ended < in->steps;
    pthread_mutex_unlock(&in->lock);
    return status;
}

// ---- the steps ----

static kiln_status direct_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                              kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    kiln_coll_area found;
    if (!find(memory, area, &found)) {
        return queue_of(memory)->map(memory, area, access, out_pointer, err);
    }
    *out_pointer = (unsigned char *)found.buffer + found.offset;
    return drain(memory, err);
}

static kiln_status direct_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                                kiln_coll_access access, void *pointer, kiln_error *err)
{
    kiln_coll_area found;
    return find(memory, area, &found) ? KILN_STATUS_OK
                                      : queue_of(memory)->unmap(memory, area, access, pointer, err);
}

static kiln_status direct_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                               const kiln_coll_area *source, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    kiln_coll_area to, from;
    if (!find(memory, target, &to) || !find(memory, source, &from)) {
        return queue_of(memory)->copy(memory, target, source, err);
    }
    kiln_status status = drain(memory, err);
    return status == KILN_STATUS_OK ? host->ops->copy(host, &to, &from, err) : status;
}

static kiln_status direct_convert(kiln_coll_memory *memory, const kiln_coll_area *target,
                                  const kiln_coll_area *source, uint32_t divisor, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    kiln_coll_area to, from;
    if (!find(memory, target, &to) || !find(memory, source, &from)) {
        return queue_of(memory)->convert(memory, target, source, divisor, err);
    }
    kiln_status status = drain(memory, err);
    return status == KILN_STATUS_OK ? host->ops->convert(host, &to, &from, divisor, err) : status;
}

static kiln_status direct_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                                 const kiln_coll_area *left, const kiln_coll_area *right,
                                 kiln_coll_op op, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    kiln_coll_area to, a, b;
    if (!find(memory, target, &to) || !find(memory, left, &a) || !find(memory, right, &b)) {
        return queue_of(memory)->reduce(memory, target, left, right, op, err);
    }
    kiln_status status = drain(memory, err);
    return status == KILN_STATUS_OK ? host->ops->reduce(host, &to, &a, &b, op, err) : status;
}

static kiln_status direct_finish(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                 kiln_error *err)
{
    if (self_of(memory)->is_queued) {
        return self_of(memory)->commands->finish(memory, done, user, err);
    }
    done(KILN_STATUS_OK, user);
    return KILN_STATUS_OK;
}

void kilni_device_memory_direct(kilni_device_memory *self)
{
    self->commands = self->base.ops;
    self->direct = *self->commands;
    self->direct.name = "device, on the spot";
    self->direct.alloc = direct_alloc;
    self->direct.map = direct_map;
    self->direct.unmap = direct_unmap;
    self->direct.copy = direct_copy;
    self->direct.convert = direct_convert;
    self->direct.reduce = direct_reduce;
    self->direct.finish = direct_finish;
    self->base.ops = &self->direct;
}
