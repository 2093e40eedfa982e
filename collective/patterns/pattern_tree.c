// SPDX-License-Identifier: MIT OR Apache-2.0
// A complete tree over the ranks, numbered level by level from any root: who is above, who
// below. It fits any number of ranks; what travels up or down is the algorithms' affair.
#include "coll_patterns.h"

static uint32_t number_of(uint32_t ranks, uint32_t root, uint32_t rank)
{
    return (rank + ranks - root) % ranks;
}

uint32_t kilni_coll_tree_parent(uint32_t ranks, uint32_t arity, uint32_t root, uint32_t rank)
{
    uint32_t number = number_of(ranks, root, rank);
    return number == 0 ? UINT32_MAX : ((number - 1) / arity + root) % ranks;
}

uint32_t kilni_coll_tree_child(uint32_t ranks, uint32_t arity, uint32_t root, uint32_t rank,
                               uint32_t index)
{
    uint64_t number = (uint64_t)number_of(ranks, root, rank) * arity + 1 + index;
    return index >= arity || number >= ranks ? UINT32_MAX : (uint32_t)((number + root) % ranks);
}
