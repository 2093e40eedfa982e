// SPDX-License-Identifier: MIT OR Apache-2.0
// The streaming memory: two queues over the host's memory. Nothing but the tickets orders them.
#include "coll_streaming.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"

typedef enum job_kind { JOB_COPY, JOB_CONVERT, JOB_REDUCE, JOB_BYTES } job_kind;

struct streaming_job {
    job_kind kind;
    kiln_coll_area target;
    kiln_coll_area left;
    kiln_coll_area right;
    kiln_coll_op op;
    uint32_t divisor;
    void *to; ///< of BYTES
    const void *from;
    size_t bytes;
    streaming_job *next;
};

struct kiln_coll_ticket {
    uint64_t number;
};

static streaming_memory *self_of(kiln_coll_memory *memory)
{
    return (streaming_memory *)memory;
}

/// Counts; the call that is to fail does.
static kiln_status step(kiln_coll_memory *memory, const char *what, kiln_error *err)
{
    streaming_memory *self = self_of(memory);
    unsigned number = atomic_fetch_add(&self->calls, 1) + 1;
    snag_pass(&self->snag, number);
    bool fails = self->is_lost_then && self->fail_at != 0 ? number >= self->fail_at
                                                          : number == self->fail_at;
    return fails ? kiln_fail(err, DEVICE_LOST, "%s failed on purpose", what) : KILN_STATUS_OK;
}

// ---- a lane ----

static void carry_out(const streaming_lane *lane, const streaming_job *job)
{
    const kiln_coll_memory_ops *ops = lane->host->ops;
    kiln_status status = KILN_STATUS_OK;
    switch (job->kind) {
    case JOB_COPY:
        status = ops->copy(lane->host, &job->target, &job->left, NULL);
        break;
    case JOB_CONVERT:
        status = ops->convert(lane->host, &job->target, &job->left, job->divisor, NULL);
        break;
    case JOB_REDUCE:
        status = ops->reduce(lane->host, &job->target, &job->left, &job->right, job->op, NULL);
        break;
    case JOB_BYTES:
        memcpy(job->to, job->from, job->bytes);
        break;
    }
    KILN_CHECK_INT(status, KILN_STATUS_OK);
}

static void take_time(streaming_lane *lane)
{
    lane->state = lane->state * 6364136223846793005u + 1442695040888963407u;
    unsigned us = lane->pause_us > 0 ? lane->pause_us : (lane->state >> 60) == 0 ? 50 : 0;
    if (us > 0) {
        struct timespec pause = {.tv_nsec = (long)us * 1000};
        nanosleep(&pause, NULL);
    }
}

static void *work(void *user)
{
    streaming_lane *lane = user;
    pthread_mutex_lock(&lane->mutex);
    for (;;) {
        while (lane->first == NULL && !lane->closing) {
            pthread_cond_wait(&lane->changed, &lane->mutex);
        }
        streaming_job *job = lane->first;
        if (job == NULL) {
            break;
        }
        lane->first = job->next;
        lane->current = job;
        pthread_mutex_unlock(&lane->mutex);
        take_time(lane);
        carry_out(lane, job);
        pthread_mutex_lock(&lane->mutex);
        lane->current = NULL;
        free(job);
        lane->done++;
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&lane->mutex);
    return NULL;
}

static uint64_t push(streaming_lane *lane, streaming_job job)
{
    streaming_job *copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        abort();
    }
    *copy = job;
    copy->next = NULL;
    pthread_mutex_lock(&lane->mutex);
    if (lane->first == NULL) {
        lane->first = copy;
    } else {
        lane->last->next = copy;
    }
    lane->last = copy;
    uint64_t number = ++lane->queued;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
    return number;
}

static void await(streaming_lane *lane, uint64_t number)
{
    pthread_mutex_lock(&lane->mutex);
    while (lane->done < number) {
        pthread_cond_wait(&lane->changed, &lane->mutex);
    }
    pthread_mutex_unlock(&lane->mutex);
}

static void lane_init(streaming_lane *lane, kiln_coll_memory *host, uint64_t seed)
{
    *lane = (streaming_lane){.host = host, .state = seed};
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->changed, NULL);
    KILN_CHECK_INT(pthread_create(&lane->thread, NULL, work, lane), 0);
}

static void lane_fini(streaming_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->closing = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->mutex);
}

// ---- the table ----

static kiln_status streaming_alloc(kiln_coll_memory *memory, size_t bytes,
                                   kiln_coll_buffer **out_buffer, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    return host->ops->alloc(host, bytes, out_buffer, err);
}

static void streaming_free(kiln_coll_memory *memory, kiln_coll_buffer *buffer)
{
    kiln_coll_memory *host = self_of(memory)->host;
    host->ops->free(host, buffer);
}

static kiln_status streaming_copy(kiln_coll_memory *memory, const kiln_coll_area *target,
                                  const kiln_coll_area *source, kiln_error *err)
{
    (void)err;
    push(&self_of(memory)->up,
         (streaming_job){.kind = JOB_COPY, .target = *target, .left = *source});
    return KILN_STATUS_OK;
}

static kiln_status streaming_convert(kiln_coll_memory *memory, const kiln_coll_area *target,
                                     const kiln_coll_area *source, uint32_t divisor,
                                     kiln_error *err)
{
    (void)err;
    push(&self_of(memory)->up,
         (streaming_job){
             .kind = JOB_CONVERT, .target = *target, .left = *source, .divisor = divisor});
    return KILN_STATUS_OK;
}

static kiln_status streaming_reduce(kiln_coll_memory *memory, const kiln_coll_area *target,
                                    const kiln_coll_area *left, const kiln_coll_area *right,
                                    kiln_coll_op op, kiln_error *err)
{
    kiln_status status = step(memory, "reduce", err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    push(&self_of(memory)->up,
         (streaming_job){
             .kind = JOB_REDUCE, .target = *target, .left = *left, .right = *right, .op = op});
    return KILN_STATUS_OK;
}

static kiln_status streaming_map(kiln_coll_memory *memory, const kiln_coll_area *area,
                                 kiln_coll_access access, void **out_pointer, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    await(&self_of(memory)->up, self_of(memory)->up.queued);
    return host->ops->map(host, area, access, out_pointer, err);
}

static kiln_status streaming_unmap(kiln_coll_memory *memory, const kiln_coll_area *area,
                                   kiln_coll_access access, void *pointer, kiln_error *err)
{
    kiln_coll_memory *host = self_of(memory)->host;
    return host->ops->unmap(host, area, access, pointer, err);
}

static kiln_status streaming_after(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                   kiln_error *err)
{
    (void)memory, (void)err;
    done(KILN_STATUS_OK, user);
    return KILN_STATUS_OK;
}

static kiln_status streaming_finish(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                                    kiln_error *err)
{
    (void)err;
    await(&self_of(memory)->up, self_of(memory)->up.queued);
    done(KILN_STATUS_OK, user);
    return KILN_STATUS_OK;
}

static void streaming_signal(kiln_coll_memory *memory, void *event, const kiln_error *result)
{
    (void)memory;
    *(int *)event = result->code;
}

static kiln_status streaming_stage(kiln_coll_memory *memory, uint32_t index, size_t bytes,
                                   void **out_host, kiln_error *err)
{
    void **stage = &self_of(memory)->stages[index];
    if (*stage == NULL) {
        *stage = malloc(bytes);
    }
    *out_host = *stage;
    return *stage != NULL ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "no stage");
}

static kiln_status give_ticket(uint64_t number, kiln_coll_ticket **out_ticket, kiln_error *err)
{
    *out_ticket = malloc(sizeof(**out_ticket));
    if (*out_ticket == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no ticket");
    }
    (*out_ticket)->number = number;
    return KILN_STATUS_OK;
}

static kiln_status streaming_fetch(kiln_coll_memory *memory, const kiln_coll_area *area, void *host,
                                   kiln_coll_ticket **out_ticket, kiln_error *err)
{
    streaming_memory *self = self_of(memory);
    kiln_status status = step(memory, "fetch", err);
    atomic_fetch_add(&self->fetches, 1);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const unsigned char *bytes = (const unsigned char *)area->buffer + area->offset;
    uint64_t number = push(&self->down, (streaming_job){.kind = JOB_BYTES,
                                                        .to = host,
                                                        .from = bytes,
                                                        .bytes = kiln_coll_area_bytes(area)});
    return give_ticket(number, out_ticket, err);
}

static kiln_status streaming_fetched(kiln_coll_memory *memory, kiln_coll_ticket *ticket,
                                     kiln_error *err)
{
    await(&self_of(memory)->down, ticket->number);
    free(ticket);
    return step(memory, "fetched", err);
}

static kiln_status streaming_put(kiln_coll_memory *memory, const kiln_coll_area *area,
                                 const void *host, kiln_error *err)
{
    kiln_status status = step(memory, "put", err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    push(&self_of(memory)->up, (streaming_job){.kind = JOB_BYTES,
                                               .to = (unsigned char *)area->buffer + area->offset,
                                               .from = host,
                                               .bytes = kiln_coll_area_bytes(area)});
    return KILN_STATUS_OK;
}

static kiln_status streaming_mark(kiln_coll_memory *memory, kiln_coll_ticket **out_ticket,
                                  kiln_error *err)
{
    kiln_status status = step(memory, "mark", err);
    return status == KILN_STATUS_OK ? give_ticket(self_of(memory)->up.queued, out_ticket, err)
                                    : status;
}

static kiln_status streaming_reached(kiln_coll_memory *memory, kiln_coll_ticket *ticket,
                                     kiln_error *err)
{
    await(&self_of(memory)->up, ticket->number);
    free(ticket);
    return step(memory, "reached", err);
}

static const kiln_coll_memory_ops streaming_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_memory_ops),
    .name = "streaming",
    .alloc = streaming_alloc,
    .free = streaming_free,
    .copy = streaming_copy,
    .convert = streaming_convert,
    .reduce = streaming_reduce,
    .map = streaming_map,
    .unmap = streaming_unmap,
    .write = kiln_coll_no_write,
    .after = streaming_after,
    .finish = streaming_finish,
    .signal = streaming_signal,
    .give_up = kiln_coll_no_give_up,
    .close = kiln_coll_no_close,
};

static const kiln_coll_stream_ops stream_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_stream_ops),
    .stage = streaming_stage,
    .fetch = streaming_fetch,
    .fetched = streaming_fetched,
    .put = streaming_put,
    .mark = streaming_mark,
    .reached = streaming_reached,
};

void streaming_init(streaming_memory *memory, const kiln_env *env)
{
    *memory = (streaming_memory){.base = {.ops = &streaming_ops, .stream = &stream_ops}};
    snag_init(&memory->snag);
    KILN_CHECK_INT(kiln_coll_host_memory_create(env, &memory->host, NULL), KILN_STATUS_OK);
    lane_init(&memory->up, memory->host, (uint64_t)(uintptr_t)memory);
    lane_init(&memory->down, memory->host, (uint64_t)(uintptr_t)memory + 1);
}

void streaming_fini(streaming_memory *memory)
{
    lane_fini(&memory->up);
    lane_fini(&memory->down);
    for (int i = 0; i < KILN_COLL_STAGES; i++) {
        free(memory->stages[i]);
    }
    kiln_coll_host_memory_destroy(memory->host);
    snag_fini(&memory->snag);
}

bool streaming_reads(streaming_memory *memory, const void *host)
{
    streaming_lane *up = &memory->up;
    pthread_mutex_lock(&up->mutex);
    bool reads = up->current != NULL && up->current->from == host;
    for (const streaming_job *job = up->first; job != NULL && !reads; job = job->next) {
        reads = job->from == host;
    }
    pthread_mutex_unlock(&up->mutex);
    return reads;
}
