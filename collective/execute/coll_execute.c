// SPDX-License-Identifier: MIT OR Apache-2.0
// Carrying out one rank's schedule over its memory and its transport: what is mapped when, and that
// nothing stays mapped, posted or allocated whatever fails. It knows no algorithm. Where the slots
// lie is coll_slots.c's.
#include "coll_execute.h"

typedef struct pending_send {
    kiln_coll_message *messages; ///< one for each piece
    uint64_t count;
    uint64_t posted;
    void *data; ///< what is mapped
    kiln_coll_area area;
} pending_send;

typedef struct execution {
    const kilni_coll_run *run;
    kiln_coll_memory *memory;
    kilni_coll_lot lots[SLOT_COUNT];
    pending_send *sends;
    size_t send_count;
} execution;

// ---- steps ----

static kiln_coll_area whole_of(const execution *exec, kilni_coll_operand place, uint64_t count)
{
    return kilni_coll_area_of(exec->lots, place, (kilni_coll_range){0, count});
}

static uint64_t count_pieces(const kilni_coll_run *run, const kiln_coll_area *area)
{
    uint64_t pieces = 0;
    while (kilni_coll_piece(run, area->dtype, area->count, pieces).count > 0) {
        pieces++;
    }
    return pieces;
}

static kiln_status post_pieces(const execution *exec, pending_send *send, uint32_t peer,
                               kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; i < send->count && status == KILN_STATUS_OK; i++) {
        kilni_coll_range piece = kilni_coll_piece(exec->run, send->area.dtype, send->area.count, i);
        size_t size = kiln_dtype_size(send->area.dtype);
        send->messages[i] =
            (kiln_coll_message){.is_send = true,
                                .peer = peer,
                                .sequence = exec->run->sequence,
                                .data = (unsigned char *)send->data + piece.start * size,
                                .bytes = piece.count * size};
        status = transport->ops->post(transport, &send->messages[i], err);
        send->posted += status == KILN_STATUS_OK;
    }
    return status;
}

static kiln_status step_send(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    pending_send *send = &exec->sends[exec->send_count];
    *send = (pending_send){.area = whole_of(exec, step->source, step->count)};
    send->count = count_pieces(exec->run, &send->area);
    send->messages = kiln_arena_alloc(exec->run->arena, send->count * sizeof(*send->messages));
    if (send->messages == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a message");
    }
    uint64_t begin_ns = kilni_coll_now(exec->run);
    kiln_status status =
        exec->memory->ops->map(exec->memory, &send->area, KILN_COLL_READ, &send->data, err);
    kilni_coll_spend(exec->run, KILN_COLL_COPYING, begin_ns);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    exec->send_count++;
    return post_pieces(exec, send, step->peer, err);
}

static kiln_status receive(const execution *exec, kiln_coll_message *message, kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    uint64_t begin_ns = kilni_coll_now(exec->run);
    kiln_status status = transport->ops->post(transport, message, err);
    if (status == KILN_STATUS_OK) {
        kilni_coll_watch_end(exec->run->watch, COLL_WORKER);
        status =
            transport->ops->wait(transport, message, kiln_time_ns() + exec->run->deadline_ns, err);
        if (status != KILN_STATUS_OK) {
            transport->ops->cancel(transport, message);
        }
        kilni_coll_watch_touch(exec->run->watch, COLL_WORKER);
    }
    kilni_coll_spend(exec->run, KILN_COLL_WAITING, begin_ns);
    return status;
}

typedef struct written_receive {
    const kilni_coll_run *run;
    kiln_coll_area area;
    uint64_t ns; ///< that it took, of the wait for the message
    kiln_status status;
    kiln_error error;
} written_receive;

static void write_received(const void *data, size_t bytes, void *user)
{
    written_receive *self = user;
    kiln_coll_memory *memory = self->run->memory;
    (void)bytes; // the area's
    kilni_coll_watch_touch(self->run->watch, COLL_WORKER);
    uint64_t begin_ns = kilni_coll_now(self->run);
    self->status = memory->ops->write(memory, &self->area, data, &self->error);
    kilni_coll_spend(self->run, KILN_COLL_COPYING, begin_ns);
    self->ns = kilni_coll_now(self->run) - begin_ns;
}

/// For a memory that takes bytes from where the sender has them.
static kiln_status receive_written(const execution *exec, const kilni_coll_step *step,
                                   kiln_error *err)
{
    kiln_dtype dtype = exec->lots[step->target.slot].dtype;
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; status == KILN_STATUS_OK; i++) {
        kilni_coll_range piece = kilni_coll_piece(exec->run, dtype, step->count, i);
        if (piece.count == 0) {
            break;
        }
        written_receive received = {.run = exec->run,
                                    .area = kilni_coll_area_of(exec->lots, step->target, piece)};
        kiln_coll_message message = {.peer = step->peer,
                                     .sequence = exec->run->sequence,
                                     .bytes = kiln_coll_area_bytes(&received.area),
                                     .take = write_received,
                                     .user = &received};
        status = receive(exec, &message, err);
        if (exec->run->call->times != NULL) {
            exec->run->call->times->spent_ns[KILN_COLL_WAITING] -= received.ns;
        }
        if (status == KILN_STATUS_OK && received.status != KILN_STATUS_OK) {
            status = received.status;
            if (err != NULL) {
                *err = received.error;
            }
        }
    }
    return status;
}

static kiln_status receive_pieces(const execution *exec, const kilni_coll_step *step,
                                  const kiln_coll_area *area, void *data, kiln_error *err)
{
    size_t size = kiln_dtype_size(area->dtype);
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; status == KILN_STATUS_OK; i++) {
        kilni_coll_range piece = kilni_coll_piece(exec->run, area->dtype, area->count, i);
        if (piece.count == 0) {
            break;
        }
        kiln_coll_message message = {.peer = step->peer,
                                     .sequence = exec->run->sequence,
                                     .data = (unsigned char *)data + piece.start * size,
                                     .bytes = piece.count * size};
        status = receive(exec, &message, err);
    }
    return status;
}

static kiln_status step_receive(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    if (exec->memory->ops->is_written) {
        return receive_written(exec, step, err);
    }
    void *data = NULL;
    kiln_coll_area area = whole_of(exec, step->target, step->count);
    uint64_t begin_ns = kilni_coll_now(exec->run);
    kiln_status status = exec->memory->ops->map(exec->memory, &area, KILN_COLL_WRITE, &data, err);
    kilni_coll_spend(exec->run, KILN_COLL_COPYING, begin_ns);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = receive_pieces(exec, step, &area, data, err);
    kiln_error *unmap_err = status == KILN_STATUS_OK ? err : NULL;
    begin_ns = kilni_coll_now(exec->run);
    kiln_status unmapped =
        exec->memory->ops->unmap(exec->memory, &area, KILN_COLL_WRITE, data, unmap_err);
    kilni_coll_spend(exec->run, KILN_COLL_COPYING, begin_ns);
    return status == KILN_STATUS_OK ? unmapped : status;
}

static kiln_status await_pieces(const execution *exec, pending_send *send, kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    kiln_status status = KILN_STATUS_OK;
    while (send->posted > 0 && status == KILN_STATUS_OK) {
        kiln_coll_message *last = &send->messages[send->posted - 1];
        uint64_t begin_ns = kilni_coll_now(exec->run);
        kilni_coll_watch_end(exec->run->watch, COLL_WORKER);
        status =
            transport->ops->wait(transport, last, kiln_time_ns() + exec->run->deadline_ns, err);
        kilni_coll_watch_touch(exec->run->watch, COLL_WORKER);
        kilni_coll_spend(exec->run, KILN_COLL_WAITING, begin_ns);
        send->posted -= status == KILN_STATUS_OK;
    }
    return status;
}

static kiln_status step_fence(execution *exec, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (exec->send_count > 0 && status == KILN_STATUS_OK) {
        pending_send *send = &exec->sends[exec->send_count - 1];
        status = await_pieces(exec, send, err);
        if (status == KILN_STATUS_OK) {
            uint64_t begin_ns = kilni_coll_now(exec->run);
            exec->send_count--;
            status = exec->memory->ops->unmap(exec->memory, &send->area, KILN_COLL_READ, send->data,
                                              err);
            kilni_coll_spend(exec->run, KILN_COLL_COPYING, begin_ns);
        }
    }
    return status;
}

static kiln_status run_step(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    kilni_coll_watch_touch(exec->run->watch, COLL_WORKER);
    const kilni_coll_range whole = {0, step->count};
    switch (step->kind) {
    case STEP_SEND:
        return step_send(exec, step, err);
    case STEP_RECEIVE:
        return step_receive(exec, step, err);
    case STEP_REDUCE:
        return kilni_coll_step_reduce(exec->run, exec->lots, step, whole, err);
    case STEP_COPY:
        return kilni_coll_step_copy(exec->run, exec->lots, step, whole, err);
    case STEP_FENCE:
        return step_fence(exec, err);
    }
    return kiln_fail(err, INTERNAL, "no step of kind %d", step->kind);
}

// ---- a whole schedule ----

/// The most sends that are under way between two fences.
static size_t most_sends(const kilni_coll_schedule *schedule)
{
    size_t most = 0;
    size_t now = 0;
    for (size_t i = 0; i < schedule->step_count; i++) {
        now += schedule->steps[i].kind == STEP_SEND;
        most = now > most ? now : most;
        now = schedule->steps[i].kind == STEP_FENCE ? 0 : now;
    }
    return most;
}

/// After a failure: nobody may look into our memory any longer.
static void withdraw_sends(execution *exec)
{
    kiln_coll_transport *transport = exec->run->transport;
    while (exec->send_count > 0) {
        pending_send *send = &exec->sends[--exec->send_count];
        while (send->posted > 0) {
            transport->ops->cancel(transport, &send->messages[--send->posted]);
        }
        exec->memory->ops->unmap(exec->memory, &send->area, KILN_COLL_READ, send->data, NULL);
    }
}

/// Long calls, where the memory can; short ones are through before a second thread has begun.
static bool is_streamed(const kilni_coll_run *run)
{
    const kiln_coll_call *call = run->call;
    uint64_t bytes = call->count * kiln_dtype_size(call->dtype);
    return run->memory->stream != NULL && bytes > run->chunk_bytes / 4;
}

static kiln_status run_steps(execution *exec, const kilni_coll_schedule *schedule, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (is_streamed(exec->run)) {
        return kilni_coll_stream(exec->run, schedule, exec->lots, err);
    }
    for (size_t i = 0; i < schedule->step_count && status == KILN_STATUS_OK; i++) {
        status = run_step(exec, &schedule->steps[i], err);
    }
    return status;
}

kiln_status kilni_coll_execute(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                               kiln_error *err)
{
    execution exec = {.run = run, .memory = run->memory};
    size_t sends = most_sends(schedule);
    kiln_status status = KILN_STATUS_OK;
    exec.sends = kiln_arena_alloc(run->arena, sends * sizeof(*exec.sends));
    if (schedule->failed || exec.sends == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the schedule of a call");
    }
    KILN_TRY(out, status, kilni_coll_slots_open(run, schedule, exec.lots, err));
    KILN_TRY(out, status, run_steps(&exec, schedule, err));
    KILN_TRY(out, status, kilni_coll_settle(run, err));
out:
    if (status != KILN_STATUS_OK) {
        run->transport->ops->abort(run->transport, err);
        withdraw_sends(&exec);
        (void)kilni_coll_settle(run, NULL); // the private slots may still be in use by the memory
    }
    kilni_coll_slots_close(run, exec.lots);
    return status;
}
