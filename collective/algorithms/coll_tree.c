// SPDX-License-Identifier: MIT OR Apache-2.0
// Algorithms on a tree: latency grows with the logarithm of the ranks. Nothing is combined here, so
// there is no order to keep.
#include "collective_internal.h"

enum { ARITY = 2 };

void kilni_coll_broadcast_tree(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_range whole = {0, shape->count};
    uint32_t parent = kilni_coll_tree_parent(shape->ranks, ARITY, shape->root, shape->rank);
    if (parent == UINT32_MAX) {
        kilni_coll_copy(schedule, (kilni_coll_place){SLOT_OUTPUT, 0},
                        (kilni_coll_place){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    } else {
        kilni_coll_receive(schedule, parent, SLOT_OUTPUT, whole);
    }
    for (uint32_t i = 0; i < ARITY; i++) {
        uint32_t child = kilni_coll_tree_child(shape->ranks, ARITY, shape->root, shape->rank, i);
        if (child != UINT32_MAX) {
            kilni_coll_send(schedule, child, SLOT_OUTPUT, whole);
        }
    }
    kilni_coll_fence(schedule);
}
