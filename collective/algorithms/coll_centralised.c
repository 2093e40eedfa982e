// SPDX-License-Identifier: MIT OR Apache-2.0
// All at one rank, which sends to or receives from every other. A reduction: it takes the others'
// values in the order of ranks from itself on, whoever sends first. Few messages, so the choice for
// short ones; a long one makes the root the bottleneck. The order of combining is (x[root] op
// x[root+1]) op x[root+2] ..., round to root-1.
#include "coll_algorithms.h"

/// WORK of the root holds the result; the others send their input.
static void gather_at(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t root)
{
    const kilni_coll_range whole = {0, shape->count};
    const kilni_coll_operand work = {SLOT_WORK, 0};
    if (shape->rank != root) {
        kilni_coll_send(schedule, root, SLOT_INPUT, whole);
        kilni_coll_fence(schedule);
        return;
    }
    // The input is read where it lies, unless it has to be widened, or nothing will be combined
    // with it.
    kilni_coll_slot left = SLOT_INPUT;
    if (shape->is_wide || shape->ranks == 1) {
        kilni_coll_copy(schedule, work, (kilni_coll_operand){SLOT_INPUT, 0}, shape->count,
                        /*divide=*/false);
        left = SLOT_WORK;
    }
    for (uint32_t i = 1; i < shape->ranks; i++) {
        kilni_coll_receive_reduce_raw(schedule, shape, (root + i) % shape->ranks, left);
        left = SLOT_WORK;
    }
}

/// The root's result, divided, in OUTPUT.
static void finish(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t root)
{
    if (shape->rank == root) {
        kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                        (kilni_coll_operand){SLOT_WORK, 0}, shape->count, shape->is_mean);
    }
}

void kilni_coll_reduce_centralised(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    gather_at(schedule, shape, shape->root);
    finish(schedule, shape, shape->root);
}

void kilni_coll_all_reduce_centralised(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_range whole = {0, shape->count};
    gather_at(schedule, shape, /*root=*/0);
    finish(schedule, shape, /*root=*/0);
    if (shape->rank != 0) {
        kilni_coll_receive(schedule, 0, SLOT_OUTPUT, whole);
        return;
    }
    for (uint32_t peer = 1; peer < shape->ranks; peer++) {
        kilni_coll_send(schedule, peer, SLOT_OUTPUT, whole);
    }
    kilni_coll_fence(schedule);
}

void kilni_coll_reduce_scatter_centralised(kilni_coll_schedule *schedule,
                                           const kilni_coll_shape *shape)
{
    const kilni_coll_operand raw = {SLOT_RAW, 0};
    kilni_coll_range own = kilni_coll_part(shape->count, shape->ranks, shape->rank);
    gather_at(schedule, shape, /*root=*/0);
    if (shape->rank != 0) {
        kilni_coll_receive(schedule, 0, SLOT_OUTPUT, (kilni_coll_range){0, own.count});
        return;
    }
    // RAW is free again, and of the call's dtype, as what is sent must be.
    kilni_coll_copy(schedule, raw, (kilni_coll_operand){SLOT_WORK, 0}, shape->count,
                    shape->is_mean);
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0}, raw, own.count, false);
    for (uint32_t peer = 1; peer < shape->ranks; peer++) {
        kilni_coll_send(schedule, peer, SLOT_RAW,
                        kilni_coll_part(shape->count, shape->ranks, peer));
    }
    kilni_coll_fence(schedule);
}

void kilni_coll_broadcast_centralised(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_range whole = {0, shape->count};
    if (shape->rank != shape->root) {
        kilni_coll_receive(schedule, shape->root, SLOT_OUTPUT, whole);
        return;
    }
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                    (kilni_coll_operand){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    for (uint32_t i = 1; i < shape->ranks; i++) {
        kilni_coll_send(schedule, (shape->root + i) % shape->ranks, SLOT_OUTPUT, whole);
    }
    kilni_coll_fence(schedule);
}

void kilni_coll_gather_centralised(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const uint64_t count = shape->count;
    if (shape->rank != shape->root) {
        kilni_coll_send(schedule, shape->root, SLOT_INPUT, (kilni_coll_range){0, count});
        kilni_coll_fence(schedule);
        return;
    }
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, count * shape->root},
                    (kilni_coll_operand){SLOT_INPUT, 0}, count, /*divide=*/false);
    for (uint32_t i = 1; i < shape->ranks; i++) {
        uint32_t peer = (shape->root + i) % shape->ranks;
        kilni_coll_receive(schedule, peer, SLOT_OUTPUT, (kilni_coll_range){count * peer, count});
    }
}

void kilni_coll_scatter_centralised(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const uint64_t count = shape->count;
    if (shape->rank != shape->root) {
        kilni_coll_receive(schedule, shape->root, SLOT_OUTPUT, (kilni_coll_range){0, count});
        return;
    }
    for (uint32_t i = 1; i < shape->ranks; i++) {
        uint32_t peer = (shape->root + i) % shape->ranks;
        kilni_coll_send(schedule, peer, SLOT_INPUT, (kilni_coll_range){count * peer, count});
    }
    kilni_coll_fence(schedule); // the output may be the input
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                    (kilni_coll_operand){SLOT_INPUT, count * shape->root}, count, /*divide=*/false);
}
