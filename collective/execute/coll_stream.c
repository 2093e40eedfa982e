// SPDX-License-Identifier: MIT OR Apache-2.0
// A schedule on a memory apart from the host's. Two threads walk it: the feeder carries out the
// sends, piece by piece through the memory's stages; the worker all else, where a receive and the
// steps after it on the same elements are done together for each piece. Neither minds fences: a
// piece is sent when the steps before have written it, and written over when the sends before have
// fetched it. What there is to do is the schedule's affair; whole messages are coll_execute.c's.
#include "coll_execute.h"

#include "base_wait.h"

#include <pthread.h>
#include <string.h>

enum {
    DEPTH = 2, ///< pieces that a device takes in at once
    TOGETHER = 6 ///< steps after a receive that are done with its pieces
};

/// How far a thread is: all its steps before `step`, and of that the first `elems` elements.
typedef struct progress {
    size_t step;
    size_t end; ///< of the steps that are done together with it
    uint64_t elems;
} progress;

/// A piece on its way from the device to a peer.
typedef struct outgoing {
    kiln_coll_message message;
    kiln_coll_ticket *ticket; ///< not fetched yet
    bool is_posted;
    size_t step;
    uint64_t end; ///< elements of the step that are fetched with it
} outgoing;

/// And one on its way in.
typedef struct incoming {
    kiln_coll_message message;
    kiln_coll_ticket *ticket;
    uint64_t end;
} incoming;

typedef struct stream {
    const kilni_coll_run *run;
    const kilni_coll_schedule *schedule;
    const kilni_coll_lot *lots;
    void *stages[KILN_COLL_STAGES];
    outgoing out[KILN_COLL_STAGES]; ///< the feeder's, a ring
    uint64_t begun; ///< pieces of the feeder, in all
    uint64_t fetched;
    pthread_mutex_t lock; ///< guards what follows
    pthread_cond_t changed;
    progress worker;
    progress feeder;
    kiln_error failure; ///< the first of either thread
} stream;

// ---- what waits for what ----

static bool is_computed(const kilni_coll_step *step)
{
    return step->kind != STEP_SEND && step->kind != STEP_FENCE;
}

/// The elements [out_start, out_end) of `step` whose `place` lies in `area`.
static bool touches(const stream *self, const kilni_coll_step *step, kilni_coll_operand place,
                    const kiln_coll_area *area, uint64_t *out_end)
{
    const kiln_coll_area own =
        kilni_coll_area_of(self->lots, place, (kilni_coll_range){0, step->count});
    uint64_t size = kiln_dtype_size(own.dtype);
    uint64_t end = area->offset + kiln_coll_area_bytes(area);
    if (own.buffer != area->buffer || own.offset >= end ||
        own.offset + kiln_coll_area_bytes(&own) <= area->offset) {
        return false;
    }
    uint64_t elems = (end - own.offset + size - 1) / size;
    *out_end = elems < step->count ? elems : step->count;
    return true;
}

/// Whether every step before `limit` that touches the area, in its source for sends or else its
/// target, is as far as that. Under the lock.
static bool is_passed(const stream *self, const progress *other, bool sends, size_t limit,
                      const kiln_coll_area *area)
{
    uint64_t end = 0;
    for (size_t i = other->step; i < limit; i++) {
        const kilni_coll_step *step = &self->schedule->steps[i];
        bool is_other = sends ? step->kind == STEP_SEND : is_computed(step);
        if (is_other && touches(self, step, sends ? step->source : step->target, area, &end) &&
            (i >= other->end || end > other->elems)) {
            return false;
        }
    }
    return true;
}

static kiln_status await_passed(stream *self, const progress *other, bool sends, size_t limit,
                                const kiln_coll_area *area, kiln_error *err)
{
    // What the other thread waits for ends at its deadline, and names who is late: that comes
    // first.
    uint64_t begin_ns = kiln_time_ns();
    uint64_t deadline_ns = begin_ns + 2 * self->run->deadline_ns;
    kilni_coll_thread own = other == &self->worker ? COLL_FEEDER : COLL_WORKER;
    kiln_status status = KILN_STATUS_OK;
    kilni_coll_watch_end(self->run->watch, own);
    pthread_mutex_lock(&self->lock);
    while (self->failure.code == KILN_STATUS_OK && kiln_time_ns() < deadline_ns &&
           !is_passed(self, other, sends, limit, area)) {
        (void)kiln_cond_wait_until(&self->changed, &self->lock, deadline_ns);
    }
    if (self->failure.code != KILN_STATUS_OK) {
        status = (kiln_status)self->failure.code;
        if (err != NULL) {
            *err = self->failure;
        }
    } else if (!is_passed(self, other, sends, limit, area)) {
        status = kiln_fail(err, DEADLINE_EXCEEDED, "the device did not go on before the deadline");
    }
    pthread_mutex_unlock(&self->lock);
    kilni_coll_watch_touch(self->run->watch, own);
    if (own == COLL_WORKER) {
        kilni_coll_spend(self->run, KILN_COLL_WAITING, begin_ns);
    }
    return status;
}

static void advance(stream *self, progress *own, progress to)
{
    pthread_mutex_lock(&self->lock);
    *own = to;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static kiln_status fail_stream(stream *self, kiln_status status, const kiln_error *cause)
{
    if (status != KILN_STATUS_OK) {
        pthread_mutex_lock(&self->lock);
        if (self->failure.code == KILN_STATUS_OK) {
            self->failure = *cause;
        }
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
        self->run->transport->ops->abort(self->run->transport, cause);
    }
    return status;
}

// ---- the feeder ----

/// Waits for the oldest piece that is being fetched, and sends it.
static kiln_status post_oldest(stream *self, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_coll_transport *transport = self->run->transport;
    outgoing *piece = &self->out[self->fetched % KILN_COLL_STAGES];
    self->fetched++;
    kilni_coll_watch_touch(self->run->watch, COLL_FEEDER);
    uint64_t begin_ns = kilni_coll_now(self->run);
    kiln_status status = memory->stream->fetched(memory, piece->ticket, err);
    kilni_coll_spend(self->run, KILN_COLL_FETCHING, begin_ns);
    piece->ticket = NULL;
    if (status == KILN_STATUS_OK) {
        advance(self, &self->feeder, (progress){piece->step, piece->step + 1, piece->end});
        status = transport->ops->post(transport, &piece->message, err);
        piece->is_posted = status == KILN_STATUS_OK;
    }
    return status;
}

static kiln_status post_all(stream *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (self->fetched < self->begun && status == KILN_STATUS_OK) {
        status = post_oldest(self, err);
    }
    return status;
}

/// The stage of the next piece, once its last one has arrived.
static kiln_status free_stage(stream *self, outgoing **out_piece, kiln_error *err)
{
    kiln_coll_transport *transport = self->run->transport;
    outgoing *piece = &self->out[self->begun % KILN_COLL_STAGES];
    kiln_status status = KILN_STATUS_OK;
    if (self->begun - self->fetched == KILN_COLL_STAGES) {
        status = post_oldest(self, err);
    }
    if (status == KILN_STATUS_OK && piece->is_posted) {
        kilni_coll_watch_end(self->run->watch, COLL_FEEDER);
        status = transport->ops->wait(transport, &piece->message,
                                      kiln_time_ns() + self->run->deadline_ns, err);
        piece->is_posted = status != KILN_STATUS_OK;
    }
    *out_piece = piece;
    return status;
}

static kiln_status feed_piece(stream *self, size_t index, kilni_coll_range range, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    const kilni_coll_step *step = &self->schedule->steps[index];
    const kiln_coll_area area = kilni_coll_area_of(self->lots, step->source, range);
    outgoing *piece = NULL;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&self->lock);
    bool is_ready = is_passed(self, &self->worker, /*sends=*/false, index, &area);
    pthread_mutex_unlock(&self->lock);
    if (!is_ready) { // others may need what is fetched, for us to go on
        KILN_TRY(out, status, post_all(self, err));
        kilni_coll_watch_touch(self->run->watch, COLL_FEEDER);
        KILN_TRY(out, status,
                 await_passed(self, &self->worker, /*sends=*/false, index, &area, err));
    }
    KILN_TRY(out, status, free_stage(self, &piece, err));
    void *host = self->stages[self->begun % KILN_COLL_STAGES];
    kilni_coll_watch_touch(self->run->watch, COLL_FEEDER);
    KILN_TRY(out, status, memory->stream->fetch(memory, &area, host, &piece->ticket, err));
    piece->message = (kiln_coll_message){.is_send = true,
                                         .peer = step->peer,
                                         .sequence = self->run->sequence,
                                         .data = host,
                                         .bytes = kiln_coll_area_bytes(&area)};
    piece->step = index;
    piece->end = range.start + range.count;
    self->begun++;
    if (self->begun - self->fetched > 2) { // two travel while the third is sent
        status = post_oldest(self, err);
    }
out:
    return status;
}

static kiln_status feed_step(stream *self, size_t index, kiln_error *err)
{
    const kilni_coll_step *step = &self->schedule->steps[index];
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; status == KILN_STATUS_OK; i++) {
        kilni_coll_range piece =
            kilni_coll_piece(self->run, self->lots[step->source.slot].dtype, step->count, i);
        if (piece.count == 0) {
            break;
        }
        status = feed_piece(self, index, piece, err);
    }
    return status;
}

/// Waits for what is under way; after a failure takes it back.
static kiln_status settle_feeder(stream *self, kiln_status status, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_coll_transport *transport = self->run->transport;
    for (uint64_t i = 0; i < KILN_COLL_STAGES; i++) {
        outgoing *piece = &self->out[i];
        kilni_coll_watch_touch(self->run->watch, COLL_FEEDER);
        if (piece->ticket != NULL) { // only after a failure
            (void)memory->stream->fetched(memory, piece->ticket, NULL);
            piece->ticket = NULL;
        }
        kilni_coll_watch_end(self->run->watch, COLL_FEEDER);
        if (piece->is_posted && status == KILN_STATUS_OK) {
            status = transport->ops->wait(transport, &piece->message,
                                          kiln_time_ns() + self->run->deadline_ns, err);
            piece->is_posted = status != KILN_STATUS_OK;
        }
    }
    for (uint64_t i = 0; i < KILN_COLL_STAGES; i++) {
        if (self->out[i].is_posted) {
            transport->ops->cancel(transport, &self->out[i].message);
        }
    }
    return status;
}

static void *feed(void *user)
{
    stream *self = user;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < self->schedule->step_count && status == KILN_STATUS_OK; i++) {
        if (self->schedule->steps[i].kind == STEP_SEND) {
            status = feed_step(self, i, &err);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = post_all(self, &err);
    }
    status = fail_stream(self, status, &err);
    (void)fail_stream(self, settle_feeder(self, status, &err), &err);
    kilni_coll_watch_end(self->run->watch, COLL_FEEDER);
    return NULL;
}

// ---- the worker ----

/// Whether elements of two places meet without being the same ones.
static bool is_crossed(const stream *self, const kilni_coll_step *one, kilni_coll_operand place,
                       const kilni_coll_step *two, kilni_coll_operand other)
{
    uint64_t end = 0;
    const kiln_coll_area a = kilni_coll_area_of(self->lots, place, (kilni_coll_range){0, 1});
    const kiln_coll_area b =
        kilni_coll_area_of(self->lots, other, (kilni_coll_range){0, two->count});
    bool same = a.buffer == b.buffer && a.offset == b.offset && a.dtype == b.dtype;
    return !same && touches(self, one, place, &b, &end);
}

static bool disturbs(const stream *self, const kilni_coll_step *own, const kilni_coll_step *before)
{
    bool reduces = own->kind == STEP_REDUCE;
    bool reads_left = before->kind == STEP_REDUCE;
    bool reads = before->kind != STEP_RECEIVE;
    return is_crossed(self, own, own->target, before, before->target) ||
           is_crossed(self, own, own->source, before, before->target) ||
           (reduces && is_crossed(self, own, own->left, before, before->target)) ||
           (reads && is_crossed(self, own, own->target, before, before->source)) ||
           (reads_left && is_crossed(self, own, own->target, before, before->left));
}

/// Whether `later` may be done with each piece of what begins at `first`: it meets the steps before
/// in the same elements only.
static bool goes_along(const stream *self, size_t first, size_t later)
{
    const kilni_coll_step *steps = self->schedule->steps;
    const kilni_coll_step *own = &steps[later];
    bool goes = (own->kind == STEP_REDUCE || own->kind == STEP_COPY) &&
                own->count == steps[first].count && later - first <= TOGETHER;
    for (size_t i = first; i < later && goes; i++) {
        goes = !is_computed(&steps[i]) || !disturbs(self, own, &steps[i]);
    }
    return goes;
}

/// The end of the steps that are done with each piece of the receive at `first`.
static size_t end_of_group(const stream *self, size_t first)
{
    size_t end = first + 1;
    for (size_t i = end; i < self->schedule->step_count; i++) {
        if (self->schedule->steps[i].kind == STEP_FENCE) {
            continue;
        }
        if (!goes_along(self, first, i)) {
            break;
        }
        end = i + 1;
    }
    return end;
}

/// The reductions and copies of steps [first, end) on some elements.
static kiln_status compute(stream *self, size_t first, size_t end, kilni_coll_range range,
                           kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = first; i < end && status == KILN_STATUS_OK; i++) {
        const kilni_coll_step *step = &self->schedule->steps[i];
        if (!is_computed(step)) {
            continue;
        }
        const kiln_coll_area area = kilni_coll_area_of(self->lots, step->target, range);
        kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
        status = await_passed(self, &self->feeder, /*sends=*/true, i, &area, err);
        if (status == KILN_STATUS_OK && step->kind == STEP_REDUCE) {
            status = kilni_coll_step_reduce(self->run, self->lots, step, range, err);
        } else if (status == KILN_STATUS_OK && step->kind == STEP_COPY) {
            status = kilni_coll_step_copy(self->run, self->lots, step, range, err);
        }
    }
    return status;
}

/// Waits until the device is past a piece.
static kiln_status await_piece(stream *self, incoming *piece, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_status status = KILN_STATUS_OK;
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    if (piece->ticket != NULL) {
        uint64_t begin_ns = kilni_coll_now(self->run);
        status = memory->stream->reached(memory, piece->ticket, err);
        kilni_coll_spend(self->run, KILN_COLL_COPYING, begin_ns);
        piece->ticket = NULL;
    }
    return status;
}

/// Its sender gets its stage back.
static void release_piece(stream *self, incoming *piece)
{
    kiln_coll_transport *transport = self->run->transport;
    if (piece->message.handle != NULL) {
        transport->ops->release(transport, &piece->message);
    }
}

/// A piece that was computed: the feeder goes on.
static kiln_status finish_piece(stream *self, incoming *piece, progress to, kiln_error *err)
{
    kiln_status status = await_piece(self, piece, err);
    if (status == KILN_STATUS_OK) {
        release_piece(self, piece);
        to.elems = piece->end;
        advance(self, &self->worker, to);
    }
    return status;
}

/// Takes one piece in and queues what is done with it.
static kiln_status take_piece(stream *self, incoming *piece, progress group, kilni_coll_range range,
                              kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_coll_transport *transport = self->run->transport;
    const kilni_coll_step *step = &self->schedule->steps[group.step];
    const kiln_coll_area area = kilni_coll_area_of(self->lots, step->target, range);
    kiln_status status = KILN_STATUS_OK;
    piece->end = range.start + range.count;
    piece->message = (kiln_coll_message){
        .peer = step->peer, .sequence = self->run->sequence, .bytes = kiln_coll_area_bytes(&area)};
    kilni_coll_watch_end(self->run->watch, COLL_WORKER);
    uint64_t begin_ns = kilni_coll_now(self->run);
    KILN_TRY(out, status, transport->ops->post(transport, &piece->message, err));
    KILN_TRY(out, status,
             transport->ops->accept(transport, &piece->message,
                                    kiln_time_ns() + self->run->deadline_ns, err));
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    kilni_coll_spend(self->run, KILN_COLL_WAITING, begin_ns);
    KILN_TRY(out, status,
             await_passed(self, &self->feeder, /*sends=*/true, group.step, &area, err));
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    begin_ns = kilni_coll_now(self->run);
    KILN_TRY(out, status, memory->stream->put(memory, &area, piece->message.data, err));
    kilni_coll_spend(self->run, KILN_COLL_COPYING, begin_ns);
    KILN_TRY(out, status, compute(self, group.step + 1, group.end, range, err));
    KILN_TRY(out, status, memory->stream->mark(memory, &piece->ticket, err));
out:
    return status;
}

/// After a failure the device may still read what a piece brought, so that its work is waited for
/// first. A mark would not do: it may be what has failed.
static void drop_pieces(stream *self, incoming *pieces)
{
    (void)kilni_coll_settle(self->run, NULL);
    for (int i = 0; i < DEPTH; i++) {
        (void)await_piece(self, &pieces[i], NULL);
        release_piece(self, &pieces[i]);
    }
}

static kiln_status take_in(stream *self, progress group, kiln_error *err)
{
    const kilni_coll_step *step = &self->schedule->steps[group.step];
    incoming pieces[DEPTH] = {0};
    kiln_status status = KILN_STATUS_OK;
    uint64_t taken = 0;
    for (;; taken++) {
        kilni_coll_range range =
            kilni_coll_piece(self->run, self->lots[step->target.slot].dtype, step->count, taken);
        incoming *piece = &pieces[taken % DEPTH];
        if (taken >= DEPTH) {
            KILN_TRY(out, status, finish_piece(self, piece, group, err));
        }
        if (range.count == 0) {
            break;
        }
        *piece = (incoming){0};
        KILN_TRY(out, status, take_piece(self, piece, group, range, err));
    }
    for (uint64_t i = taken < DEPTH ? 0 : taken - DEPTH + 1; i < taken; i++) {
        KILN_TRY(out, status, finish_piece(self, &pieces[i % DEPTH], group, err));
    }
out:
    if (status != KILN_STATUS_OK) {
        (void)fail_stream(self, status, err); // the others need not wait for the device too
        drop_pieces(self, pieces);
    }
    return status;
}

/// Steps that nothing arrives for, whole.
static kiln_status compute_whole(stream *self, progress group, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_coll_ticket *ticket = NULL;
    const kilni_coll_range whole = {0, self->schedule->steps[group.step].count};
    kiln_status status = compute(self, group.step, group.end, whole, err);
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    uint64_t begin_ns = kilni_coll_now(self->run);
    if (status == KILN_STATUS_OK) {
        status = memory->stream->mark(memory, &ticket, err);
    }
    if (status == KILN_STATUS_OK) {
        status = memory->stream->reached(memory, ticket, err);
    }
    kilni_coll_spend(self->run, KILN_COLL_COPYING, begin_ns);
    return status;
}

static kiln_status work(stream *self, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    size_t count = self->schedule->step_count;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK;) {
        const kilni_coll_step *step = &self->schedule->steps[i];
        progress group = {.step = i, .end = i + 1};
        if (step->kind == STEP_RECEIVE) {
            group.end = end_of_group(self, i);
            advance(self, &self->worker, group);
            status = take_in(self, group, err);
        } else if (is_computed(step)) {
            advance(self, &self->worker, group);
            status = compute_whole(self, group, err);
        }
        i = group.end;
    }
    if (status == KILN_STATUS_OK) { // else the feeder must not fetch what was not written
        advance(self, &self->worker, (progress){.step = count, .end = count});
    }
    return fail_stream(self, status, err);
}

// ---- both ----

static kiln_status take_stages(stream *self, kiln_error *err)
{
    kiln_coll_memory *memory = self->run->memory;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < KILN_COLL_STAGES && status == KILN_STATUS_OK; i++) {
        size_t bytes = self->run->chunk_bytes < 8 ? 8 : (size_t)self->run->chunk_bytes;
        status = memory->stream->stage(memory, i, bytes, &self->stages[i], err);
    }
    return status;
}

static kiln_status work_and_feed(stream *self, kiln_error *err)
{
    pthread_t feeder;
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    if (pthread_create(&feeder, NULL, feed, self) != 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread to send with");
    }
    kiln_status status = work(self, err);
    kilni_coll_watch_end(self->run->watch, COLL_WORKER); // the feeder is watched for itself
    pthread_join(feeder, NULL);
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    if (status == KILN_STATUS_OK && self->failure.code != KILN_STATUS_OK) {
        *err = self->failure;
        status = (kiln_status)self->failure.code;
    }
    return status;
}

kiln_status kilni_coll_stream(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                              const kilni_coll_lot *lots, kiln_error *err)
{
    stream self = {.run = run, .schedule = schedule, .lots = lots};
    pthread_mutex_init(&self.lock, NULL);
    kiln_cond_init(&self.changed);
    kiln_status status = take_stages(&self, err);
    if (status == KILN_STATUS_OK) {
        status = work_and_feed(&self, err);
    }
    pthread_cond_destroy(&self.changed);
    pthread_mutex_destroy(&self.lock);
    return status;
}
