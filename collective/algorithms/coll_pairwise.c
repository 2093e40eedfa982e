// SPDX-License-Identifier: MIT OR Apache-2.0
// All-to-all by pairs: in every step each rank sends one block and receives one, so that no rank is
// the goal of two at once. Thakur, Rabenseifner and Gropp, Optimization of collective communication
// operations in MPICH, 2005, section 4.2. The output is apart from the input.
#include "coll_algorithms.h"

void kilni_coll_all_to_all_pairwise(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const uint64_t count = shape->count;
    const uint64_t own = count * shape->rank;
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, own},
                    (kilni_coll_operand){SLOT_INPUT, own}, count, /*divide=*/false);
    for (uint32_t step = 1; step < shape->ranks; step++) {
        kilni_coll_pairwise_step at = kilni_coll_pairwise_at(shape->ranks, shape->rank, step);
        kilni_coll_send(schedule, at.to, SLOT_INPUT, (kilni_coll_range){count * at.to, count});
        kilni_coll_receive(schedule, at.from, SLOT_OUTPUT,
                           (kilni_coll_range){count * at.from, count});
        kilni_coll_fence(schedule);
    }
}
