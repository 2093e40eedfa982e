// SPDX-License-Identifier: MIT OR Apache-2.0
// Algorithms on a ring: every link carries about the same number of bytes at the same time, each
// rank sends 2 (n-1)/n of the buffer in an all-reduce whatever n is. Patarasuk and Yuan, Bandwidth
// optimal all-reduce algorithms, 2009. The order of combining part c begins at the rank where c
// starts and follows the ring; it depends on the number of ranks and the length only.
#include "collective_internal.h"

/// Combines along the ring: rank r begins by sending part r + shift and ends with part r + shift +
/// 1 whole, in WORK. Partial results travel in the wide dtype. A rank's own values are read where
/// they lie, each part once, unless they have to be widened first.
static void combine(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t shift)
{
    kilni_coll_slot own = SLOT_INPUT;
    if (shape->is_wide || shape->ranks == 1) {
        own = SLOT_WORK;
        kilni_coll_copy(schedule, (kilni_coll_place){SLOT_WORK, 0},
                        (kilni_coll_place){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    }
    for (uint32_t step = 0; step + 1 < shape->ranks; step++) {
        kilni_coll_ring_step at = kilni_coll_ring_at(shape->ranks, shape->rank, step, shift);
        kilni_coll_range out = kilni_coll_part(shape->count, shape->ranks, at.send_part);
        kilni_coll_range in = kilni_coll_part(shape->count, shape->ranks, at.receive_part);
        kilni_coll_send(schedule, at.next, step == 0 ? own : SLOT_WORK, out);
        kilni_coll_receive(schedule, at.previous, SLOT_SCRATCH, (kilni_coll_range){0, in.count});
        kilni_coll_fence(schedule); // nothing of WORK is mapped while the device writes to it
        kilni_coll_reduce(schedule, (kilni_coll_place){SLOT_WORK, in.start},
                          (kilni_coll_place){own, in.start}, (kilni_coll_place){SLOT_SCRATCH, 0},
                          in.count);
    }
}

void kilni_coll_all_reduce_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    combine(schedule, shape, /*shift=*/0);
    uint32_t own = (shape->rank + 1) % shape->ranks;
    kilni_coll_range part = kilni_coll_part(shape->count, shape->ranks, own);
    kilni_coll_copy(schedule, (kilni_coll_place){SLOT_OUTPUT, part.start},
                    (kilni_coll_place){SLOT_WORK, part.start}, part.count, shape->is_mean);
    for (uint32_t step = 0; step + 1 < shape->ranks; step++) {
        kilni_coll_ring_step at = kilni_coll_ring_at(shape->ranks, shape->rank, step, /*shift=*/1);
        kilni_coll_send(schedule, at.next, SLOT_OUTPUT,
                        kilni_coll_part(shape->count, shape->ranks, at.send_part));
        kilni_coll_receive(schedule, at.previous, SLOT_OUTPUT,
                           kilni_coll_part(shape->count, shape->ranks, at.receive_part));
        kilni_coll_fence(schedule);
    }
}

void kilni_coll_reduce_scatter_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    combine(schedule, shape, /*shift=*/shape->ranks - 1);
    kilni_coll_range part = kilni_coll_part(shape->count, shape->ranks, shape->rank);
    kilni_coll_copy(schedule, (kilni_coll_place){SLOT_OUTPUT, 0},
                    (kilni_coll_place){SLOT_WORK, part.start}, part.count, shape->is_mean);
}

void kilni_coll_all_gather_ring(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    uint64_t total = shape->count * shape->ranks;
    kilni_coll_range own = kilni_coll_part(total, shape->ranks, shape->rank);
    kilni_coll_copy(schedule, (kilni_coll_place){SLOT_OUTPUT, own.start},
                    (kilni_coll_place){SLOT_INPUT, 0}, own.count, /*divide=*/false);
    for (uint32_t step = 0; step + 1 < shape->ranks; step++) {
        kilni_coll_ring_step at = kilni_coll_ring_at(shape->ranks, shape->rank, step, /*shift=*/0);
        kilni_coll_send(schedule, at.next, SLOT_OUTPUT,
                        kilni_coll_part(total, shape->ranks, at.send_part));
        kilni_coll_receive(schedule, at.previous, SLOT_OUTPUT,
                           kilni_coll_part(total, shape->ranks, at.receive_part));
        kilni_coll_fence(schedule);
    }
}
