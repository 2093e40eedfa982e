// SPDX-License-Identifier: MIT OR Apache-2.0
// Building a schedule step by step in an arena, and how much of each private slot it needs. It
// knows nothing of dtypes or memory: which steps there are is the algorithms' affair.
#include "coll_schedule.h"

#include <string.h>

enum { FIRST_STEPS = 32 };

static void append(kilni_coll_schedule *schedule, kilni_coll_step step)
{
    if (schedule->failed) {
        return;
    }
    if (schedule->step_count == schedule->capacity) {
        size_t capacity = schedule->capacity == 0 ? FIRST_STEPS : schedule->capacity * 2;
        kilni_coll_step *steps = kiln_arena_alloc(schedule->arena, capacity * sizeof(*steps));
        if (steps == NULL) {
            schedule->failed = true;
            return;
        }
        if (schedule->step_count > 0) {
            memcpy(steps, schedule->steps, schedule->step_count * sizeof(*steps));
        }
        schedule->steps = steps;
        schedule->capacity = capacity;
    }
    schedule->steps[schedule->step_count++] = step;
}

static void note(kilni_coll_schedule *schedule, kilni_coll_operand place, uint64_t count)
{
    uint64_t end = place.start + count;
    if (end > schedule->slot_elems[place.slot]) {
        schedule->slot_elems[place.slot] = end;
    }
}

void kilni_coll_send(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                     kilni_coll_range range)
{
    kilni_coll_operand source = {.slot = slot, .start = range.start};
    if (range.count > 0) {
        note(schedule, source, range.count);
        append(schedule,
               (kilni_coll_step){
                   .kind = STEP_SEND, .peer = peer, .source = source, .count = range.count});
    }
}

void kilni_coll_receive(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                        kilni_coll_range range)
{
    kilni_coll_operand target = {.slot = slot, .start = range.start};
    if (range.count > 0) {
        note(schedule, target, range.count);
        append(schedule,
               (kilni_coll_step){
                   .kind = STEP_RECEIVE, .peer = peer, .target = target, .count = range.count});
    }
}

static void two_places(kilni_coll_schedule *schedule, kilni_coll_step step)
{
    if (step.count > 0) {
        note(schedule, step.target, step.count);
        note(schedule, step.source, step.count);
        append(schedule, step);
    }
}

void kilni_coll_reduce(kilni_coll_schedule *schedule, kilni_coll_operand target,
                       kilni_coll_operand left, kilni_coll_operand source, uint64_t count)
{
    note(schedule, left, count);
    two_places(
        schedule,
        (kilni_coll_step){
            .kind = STEP_REDUCE, .target = target, .left = left, .source = source, .count = count});
}

void kilni_coll_copy(kilni_coll_schedule *schedule, kilni_coll_operand target,
                     kilni_coll_operand source, uint64_t count, bool divide)
{
    two_places(schedule, (kilni_coll_step){.kind = STEP_COPY,
                                           .divide = divide,
                                           .target = target,
                                           .source = source,
                                           .count = count});
}

void kilni_coll_fence(kilni_coll_schedule *schedule)
{
    append(schedule, (kilni_coll_step){.kind = STEP_FENCE});
}

void kilni_coll_receive_reduce_raw(kilni_coll_schedule *schedule, const kilni_coll_shape *shape,
                                   uint32_t peer, kilni_coll_slot left)
{
    kilni_coll_operand raw = {.slot = SLOT_RAW, .start = 0};
    kilni_coll_operand arrived = raw;
    kilni_coll_receive(schedule, peer, SLOT_RAW, (kilni_coll_range){0, shape->count});
    if (shape->is_wide) {
        arrived.slot = SLOT_SCRATCH;
        kilni_coll_copy(schedule, arrived, raw, shape->count, /*divide=*/false);
    }
    kilni_coll_reduce(schedule, (kilni_coll_operand){SLOT_WORK, 0}, (kilni_coll_operand){left, 0},
                      arrived, shape->count);
}
