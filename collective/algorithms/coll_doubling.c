// SPDX-License-Identifier: MIT OR Apache-2.0
// Recursive doubling: as many rounds as the ranks have bits, each rank working in all of them.
// Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH,
// 2005. What the lower rank of a pair brings stands left, so both compute the same bits.
#include "coll_algorithms.h"

/// Sends what is combined so far to the partner and takes its own in, or only one of both.
static void exchange(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t partner,
                     bool sends, bool receives)
{
    const kilni_coll_range whole = {0, shape->count};
    const kilni_coll_operand work = {SLOT_WORK, 0};
    const kilni_coll_operand arrived = {SLOT_SCRATCH, 0};
    if (sends) {
        kilni_coll_send(schedule, partner, SLOT_WORK, whole);
    }
    if (receives) {
        kilni_coll_receive(schedule, partner, SLOT_SCRATCH, whole);
    }
    kilni_coll_fence(schedule);
    if (receives) {
        bool is_lower = shape->rank < partner;
        kilni_coll_reduce(schedule, work, is_lower ? work : arrived, is_lower ? arrived : work,
                          shape->count);
    }
}

void kilni_coll_all_reduce_doubling(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_range whole = {0, shape->count};
    uint32_t rounds = kilni_coll_doubling_rounds(shape->ranks);
    bool folds = (shape->ranks & (shape->ranks - 1)) != 0;
    uint32_t first = folds ? 1 : 0;
    uint32_t fold = folds ? kilni_coll_doubling_partner(shape->ranks, shape->rank, 0) : UINT32_MAX;
    bool is_beyond = fold != UINT32_MAX && fold < shape->rank;
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_WORK, 0},
                    (kilni_coll_operand){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    if (fold != UINT32_MAX) {
        exchange(schedule, shape, fold, is_beyond, !is_beyond);
    }
    for (uint32_t round = first; round + first < rounds && !is_beyond; round++) {
        exchange(schedule, shape, kilni_coll_doubling_partner(shape->ranks, shape->rank, round),
                 /*sends=*/true, /*receives=*/true);
    }
    if (is_beyond) {
        kilni_coll_receive(schedule, fold, SLOT_OUTPUT, whole);
        return;
    }
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                    (kilni_coll_operand){SLOT_WORK, 0}, shape->count, shape->is_mean);
    if (fold != UINT32_MAX) {
        kilni_coll_send(schedule, fold, SLOT_OUTPUT, whole);
        kilni_coll_fence(schedule);
    }
}

void kilni_coll_all_gather_doubling(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    uint64_t count = shape->count;
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, shape->rank * count},
                    (kilni_coll_operand){SLOT_INPUT, 0}, count, /*divide=*/false);
    uint32_t rounds = kilni_coll_doubling_rounds(shape->ranks);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t partner = kilni_coll_doubling_partner(shape->ranks, shape->rank, round);
        uint32_t width = 1u << round; // ranks whose parts each of the two has by now
        kilni_coll_send(schedule, partner, SLOT_OUTPUT,
                        (kilni_coll_range){shape->rank / width * width * count, width * count});
        kilni_coll_receive(schedule, partner, SLOT_OUTPUT,
                           (kilni_coll_range){partner / width * width * count, width * count});
        kilni_coll_fence(schedule);
    }
}
