// SPDX-License-Identifier: MIT OR Apache-2.0
// Carrying out one rank's schedule over its memory and its transport: where the slots lie, what is
// mapped when, and that nothing stays mapped, posted or allocated whatever fails. It knows no
// algorithm.
#include "collective_internal.h"

typedef struct slot_place {
    kiln_coll_buffer *buffer;
    uint64_t offset;
    kiln_dtype dtype;
    bool is_ours;
} slot_place;

typedef struct pending_send {
    kiln_coll_message message;
    kiln_coll_area area;
} pending_send;

typedef struct execution {
    const kilni_coll_run *run;
    kiln_coll_memory *memory;
    slot_place slots[SLOT_COUNT];
    pending_send *sends;
    size_t send_count;
} execution;

kiln_dtype kilni_coll_wide(kiln_dtype dtype)
{
    bool is_half = dtype == KILN_DTYPE_F16 || dtype == KILN_DTYPE_BF16;
    return is_half ? KILN_DTYPE_F32 : dtype;
}

// ---- slots
// ------------------------------------------------------------------------------------------

static kiln_status alloc_slot(execution *exec, kilni_coll_slot slot, kiln_dtype dtype,
                              uint64_t elems, kiln_error *err)
{
    exec->slots[slot] = (slot_place){.dtype = dtype};
    if (elems == 0) {
        return KILN_STATUS_OK;
    }
    size_t bytes = (size_t)elems * kiln_dtype_size(dtype);
    kiln_status status =
        exec->memory->ops->alloc(exec->memory, bytes, &exec->slots[slot].buffer, err);
    exec->slots[slot].is_ours = status == KILN_STATUS_OK;
    return status;
}

/// The output can be worked in when it has the dtype and the length of what is combined.
static bool works_in_output(const kilni_coll_run *run)
{
    const kiln_coll_call *call = run->call;
    return kilni_coll_wide(call->dtype) == call->dtype &&
           (call->kind == KILN_COLL_ALL_REDUCE ||
            (call->kind == KILN_COLL_REDUCE && run->rank == call->root));
}

static kiln_status place_slots(execution *exec, const kilni_coll_schedule *schedule,
                               kiln_error *err)
{
    const kiln_coll_call *call = exec->run->call;
    kiln_dtype wide = kilni_coll_wide(call->dtype);
    const uint64_t *elems = schedule->slot_elems;
    kiln_status status = KILN_STATUS_OK;
    exec->slots[SLOT_INPUT] = (slot_place){call->input, call->input_offset, call->dtype, false};
    exec->slots[SLOT_OUTPUT] = (slot_place){call->output, call->output_offset, call->dtype, false};
    if (works_in_output(exec->run)) {
        exec->slots[SLOT_WORK] = exec->slots[SLOT_OUTPUT];
    } else {
        KILN_TRY(out, status, alloc_slot(exec, SLOT_WORK, wide, elems[SLOT_WORK], err));
    }
    KILN_TRY(out, status, alloc_slot(exec, SLOT_SCRATCH, wide, elems[SLOT_SCRATCH], err));
    KILN_TRY(out, status, alloc_slot(exec, SLOT_RAW, call->dtype, elems[SLOT_RAW], err));
out:
    return status;
}

static void free_slots(execution *exec)
{
    for (int i = 0; i < SLOT_COUNT; i++) {
        if (exec->slots[i].is_ours) {
            exec->memory->ops->free(exec->memory, exec->slots[i].buffer);
        }
    }
}

static kiln_coll_area area_of(const execution *exec, kilni_coll_place place, uint64_t count)
{
    const slot_place *slot = &exec->slots[place.slot];
    return (kiln_coll_area){.buffer = slot->buffer,
                            .offset = slot->offset + place.start * kiln_dtype_size(slot->dtype),
                            .dtype = slot->dtype,
                            .count = (size_t)count};
}

// ---- steps
// ------------------------------------------------------------------------------------------

static kiln_status map_area(execution *exec, const kiln_coll_area *area, kiln_coll_access access,
                            kiln_coll_message *message, kiln_error *err)
{
    message->sequence = exec->run->sequence;
    message->bytes = kiln_coll_area_bytes(area);
    return exec->memory->ops->map(exec->memory, area, access, &message->data, err);
}

static kiln_status step_send(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    pending_send *send = &exec->sends[exec->send_count];
    *send = (pending_send){.message = {.is_send = true, .peer = step->peer},
                           .area = area_of(exec, step->source, step->count)};
    kiln_status status = map_area(exec, &send->area, KILN_COLL_READ, &send->message, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    exec->send_count++;
    return transport->ops->post(transport, &send->message, err);
}

typedef struct written_receive {
    kiln_coll_memory *memory;
    kiln_coll_area area;
    kiln_status status;
    kiln_error error;
} written_receive;

static void write_received(const void *data, size_t bytes, void *user)
{
    written_receive *self = user;
    (void)bytes; // the area's
    self->status = self->memory->ops->write(self->memory, &self->area, data, &self->error);
}

/// For a memory that takes bytes from where the sender has them.
static kiln_status receive_written(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    written_receive received = {.memory = exec->memory,
                                .area = area_of(exec, step->target, step->count)};
    kiln_coll_message message = {.is_send = false,
                                 .peer = step->peer,
                                 .sequence = exec->run->sequence,
                                 .bytes = kiln_coll_area_bytes(&received.area),
                                 .take = write_received,
                                 .user = &received};
    kiln_status status = transport->ops->post(transport, &message, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status =
        transport->ops->wait(transport, &message, kiln_time_ns() + exec->run->deadline_ns, err);
    if (status != KILN_STATUS_OK) {
        transport->ops->cancel(transport, &message);
        return status;
    }
    if (received.status != KILN_STATUS_OK && err != NULL) {
        *err = received.error;
    }
    return received.status;
}

static kiln_status step_receive(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    if (exec->memory->ops->write != NULL) {
        return receive_written(exec, step, err);
    }
    kiln_coll_transport *transport = exec->run->transport;
    kiln_coll_message message = {.is_send = false, .peer = step->peer};
    kiln_coll_area area = area_of(exec, step->target, step->count);
    kiln_status status = map_area(exec, &area, KILN_COLL_WRITE, &message, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = transport->ops->post(transport, &message, err);
    if (status == KILN_STATUS_OK) {
        status =
            transport->ops->wait(transport, &message, kiln_time_ns() + exec->run->deadline_ns, err);
        if (status != KILN_STATUS_OK) {
            transport->ops->cancel(transport, &message);
        }
    }
    kiln_error *unmap_err = status == KILN_STATUS_OK ? err : NULL;
    kiln_status unmapped =
        exec->memory->ops->unmap(exec->memory, &area, KILN_COLL_WRITE, message.data, unmap_err);
    return status == KILN_STATUS_OK ? unmapped : status;
}

static kiln_status step_reduce(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    kiln_coll_area target = area_of(exec, step->target, step->count);
    kiln_coll_area left = area_of(exec, step->left, step->count);
    kiln_coll_area source = area_of(exec, step->source, step->count);
    kiln_coll_op op = exec->run->call->op;
    return exec->memory->ops->reduce(exec->memory, &target, &left, &source,
                                     op == KILN_COLL_MEAN ? KILN_COLL_SUM : op, err);
}

static kiln_status step_copy(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    const kiln_coll_memory_ops *ops = exec->memory->ops;
    kiln_coll_area target = area_of(exec, step->target, step->count);
    kiln_coll_area source = area_of(exec, step->source, step->count);
    uint32_t divisor = step->divide ? exec->run->divisor : 1;
    if (target.dtype != source.dtype || divisor != 1) {
        return ops->convert(exec->memory, &target, &source, divisor, err);
    }
    if (target.buffer == source.buffer && target.offset == source.offset) {
        return KILN_STATUS_OK;
    }
    return ops->copy(exec->memory, &target, &source, err);
}

static kiln_status step_fence(execution *exec, kiln_error *err)
{
    kiln_coll_transport *transport = exec->run->transport;
    kiln_status status = KILN_STATUS_OK;
    while (exec->send_count > 0 && status == KILN_STATUS_OK) {
        pending_send *send = &exec->sends[exec->send_count - 1];
        status = transport->ops->wait(transport, &send->message,
                                      kiln_time_ns() + exec->run->deadline_ns, err);
        if (status == KILN_STATUS_OK) {
            exec->send_count--;
            status = exec->memory->ops->unmap(exec->memory, &send->area, KILN_COLL_READ,
                                              send->message.data, err);
        }
    }
    return status;
}

static kiln_status run_step(execution *exec, const kilni_coll_step *step, kiln_error *err)
{
    switch (step->kind) {
    case STEP_SEND:
        return step_send(exec, step, err);
    case STEP_RECEIVE:
        return step_receive(exec, step, err);
    case STEP_REDUCE:
        return step_reduce(exec, step, err);
    case STEP_COPY:
        return step_copy(exec, step, err);
    case STEP_FENCE:
        return step_fence(exec, err);
    }
    return kiln_fail(err, INTERNAL, "no step of kind %d", step->kind);
}

// ---- a whole schedule
// -------------------------------------------------------------------------------

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
        transport->ops->cancel(transport, &send->message);
        exec->memory->ops->unmap(exec->memory, &send->area, KILN_COLL_READ, send->message.data,
                                 NULL);
    }
}

/// The caller's buffers are ready when the memory's own work has ended too.
static kiln_status settle(execution *exec, kiln_error *err)
{
    kilni_coll_gate *gate = NULL;
    kiln_status status = kilni_coll_gate_open(exec->run->arena->env, exec->memory, &gate, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kilni_coll_gate_wait(gate, kiln_time_ns() + exec->run->deadline_ns, err);
}

kiln_status kilni_coll_execute(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                               kiln_error *err)
{
    execution exec = {.run = run, .memory = run->memory};
    size_t sends = most_sends(schedule);
    kiln_status status = KILN_STATUS_OK;
    exec.sends = kiln_arena_alloc(run->arena, sends * sizeof *exec.sends);
    if (schedule->failed || exec.sends == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the schedule of a call");
    }
    KILN_TRY(out, status, place_slots(&exec, schedule, err));
    for (size_t i = 0; i < schedule->step_count; i++) {
        KILN_TRY(out, status, run_step(&exec, &schedule->steps[i], err));
    }
    KILN_TRY(out, status, settle(&exec, err));
out:
    if (status != KILN_STATUS_OK) {
        run->transport->ops->abort(run->transport, err);
        withdraw_sends(&exec);
        settle(&exec, NULL); // the private slots may still be in use by the memory
    }
    free_slots(&exec);
    return status;
}
