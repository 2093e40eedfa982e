// SPDX-License-Identifier: MIT OR Apache-2.0
// Algorithms on a ring: every link carries about the same number of bytes at the same time, each
// rank sends 2 (n-1)/n of the buffer in an all-reduce whatever n is. Patarasuk and Yuan, Bandwidth
// optimal all-reduce algorithms, 2009. The order of combining part c begins at the rank where c
// starts and follows the ring; it depends on the number of ranks and the length only.
#include "coll_algorithms.h"

/// The ranks of a ring: `number` of `ranks`, which are `stride` apart.
typedef struct ring {
    uint32_t ranks;
    uint32_t number;
    uint32_t stride;
} ring;

/// Combines along the ring: number r begins by sending part r + shift and ends with part r + shift
/// + 1 whole, in WORK. Partial results travel in the wide dtype. A rank's own values are read where
/// they lie, in `own`, each part once.
static void combine(kilni_coll_schedule *schedule, const ring *round, uint64_t count,
                    uint32_t shift, kilni_coll_slot own)
{
    for (uint32_t step = 0; step + 1 < round->ranks; step++) {
        kilni_coll_ring_step at = kilni_coll_ring_at(round->ranks, round->number, step, shift);
        kilni_coll_range out = kilni_coll_part(count, round->ranks, at.send_part);
        kilni_coll_range in = kilni_coll_part(count, round->ranks, at.receive_part);
        kilni_coll_send(schedule, at.next * round->stride, step == 0 ? own : SLOT_WORK, out);
        kilni_coll_receive(schedule, at.previous * round->stride, SLOT_SCRATCH,
                           (kilni_coll_range){0, in.count});
        kilni_coll_fence(schedule); // nothing of WORK is mapped while the device writes to it
        kilni_coll_reduce(schedule, (kilni_coll_operand){SLOT_WORK, in.start},
                          (kilni_coll_operand){own, in.start},
                          (kilni_coll_operand){SLOT_SCRATCH, 0}, in.count);
    }
}

/// Values that have to be widened first, or that nothing will be combined with, begin in WORK.
static kilni_coll_slot begin(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    if (!shape->is_wide && shape->ranks > 1) {
        return SLOT_INPUT;
    }
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_WORK, 0},
                    (kilni_coll_operand){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    return SLOT_WORK;
}

/// Divides the part that is whole here and passes the parts round until OUTPUT has all.
static void pass_round(kilni_coll_schedule *schedule, const kilni_coll_shape *shape,
                       const ring *round)
{
    uint32_t own = (round->number + 1) % round->ranks;
    kilni_coll_range part = kilni_coll_part(shape->count, round->ranks, own);
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, part.start},
                    (kilni_coll_operand){SLOT_WORK, part.start}, part.count, shape->is_mean);
    for (uint32_t step = 0; step + 1 < round->ranks; step++) {
        kilni_coll_ring_step at =
            kilni_coll_ring_at(round->ranks, round->number, step, /*shift=*/1);
        kilni_coll_send(schedule, at.next * round->stride, SLOT_OUTPUT,
                        kilni_coll_part(shape->count, round->ranks, at.send_part));
        kilni_coll_receive(schedule, at.previous * round->stride, SLOT_OUTPUT,
                           kilni_coll_part(shape->count, round->ranks, at.receive_part));
        kilni_coll_fence(schedule);
    }
}

void kilni_coll_all_reduce_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const ring round = {shape->ranks, shape->rank, 1};
    combine(schedule, &round, shape->count, /*shift=*/0, begin(schedule, shape));
    pass_round(schedule, shape, &round);
}

/// Devices of a host first, then hosts: the network carries what one rank of each node sends.
void kilni_coll_all_reduce_hierarchical(kilni_coll_schedule *schedule,
                                        const kilni_coll_shape *shape)
{
    const kilni_coll_range whole = {0, shape->count};
    const ring leaders = {shape->ranks / shape->node, shape->rank / shape->node, shape->node};
    uint32_t leader = leaders.number * shape->node;
    if (shape->rank != leader) {
        kilni_coll_send(schedule, leader, SLOT_INPUT, whole);
        kilni_coll_fence(schedule);
        kilni_coll_receive(schedule, leader, SLOT_OUTPUT, whole);
        return;
    }
    kilni_coll_slot left = begin(schedule, shape);
    for (uint32_t i = 1; i < shape->node; i++) {
        kilni_coll_receive_reduce_raw(schedule, shape, leader + i, left);
        left = SLOT_WORK;
    }
    combine(schedule, &leaders, shape->count, /*shift=*/0, SLOT_WORK);
    pass_round(schedule, shape, &leaders);
    for (uint32_t i = 1; i < shape->node; i++) {
        kilni_coll_send(schedule, leader + i, SLOT_OUTPUT, whole);
    }
    kilni_coll_fence(schedule);
}

void kilni_coll_reduce_scatter_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const ring round = {shape->ranks, shape->rank, 1};
    combine(schedule, &round, shape->count, /*shift=*/shape->ranks - 1, begin(schedule, shape));
    kilni_coll_range part = kilni_coll_part(shape->count, shape->ranks, shape->rank);
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                    (kilni_coll_operand){SLOT_WORK, part.start}, part.count, shape->is_mean);
}

void kilni_coll_all_gather_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    uint64_t total = shape->count * shape->ranks;
    kilni_coll_range own = kilni_coll_part(total, shape->ranks, shape->rank);
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, own.start},
                    (kilni_coll_operand){SLOT_INPUT, 0}, own.count, /*divide=*/false);
    for (uint32_t step = 0; step + 1 < shape->ranks; step++) {
        kilni_coll_ring_step at = kilni_coll_ring_at(shape->ranks, shape->rank, step, /*shift=*/0);
        kilni_coll_send(schedule, at.next, SLOT_OUTPUT,
                        kilni_coll_part(total, shape->ranks, at.send_part));
        kilni_coll_receive(schedule, at.previous, SLOT_OUTPUT,
                           kilni_coll_part(total, shape->ranks, at.receive_part));
        kilni_coll_fence(schedule);
    }
}
