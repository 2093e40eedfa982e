// SPDX-License-Identifier: MIT OR Apache-2.0
// Algorithms on a tree: latency grows with the logarithm of the ranks. Up the tree values are
// combined, at each rank its own first, then what its children have combined, in their order; down
// the tree the result is copied. Partial results travel in the wide dtype.
#include "coll_algorithms.h"

/// WORK of the root holds the combined values in the end.
static void combine_up(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t root,
                       uint32_t arity)
{
    const kilni_coll_operand work = {SLOT_WORK, 0};
    const kilni_coll_operand arrived = {SLOT_SCRATCH, 0};
    const kilni_coll_range whole = {0, shape->count};
    uint32_t parent = kilni_coll_tree_parent(shape->ranks, arity, root, shape->rank);
    kilni_coll_slot left = SLOT_INPUT;
    if (shape->is_wide || shape->ranks == 1) {
        kilni_coll_copy(schedule, work, (kilni_coll_operand){SLOT_INPUT, 0}, shape->count,
                        /*divide=*/false);
        left = SLOT_WORK;
    }
    for (uint32_t i = 0; i < arity; i++) {
        uint32_t child = kilni_coll_tree_child(shape->ranks, arity, root, shape->rank, i);
        if (child != UINT32_MAX) {
            kilni_coll_receive(schedule, child, SLOT_SCRATCH, whole);
            kilni_coll_reduce(schedule, work, (kilni_coll_operand){left, 0}, arrived, shape->count);
            left = SLOT_WORK;
        }
    }
    if (parent != UINT32_MAX) {
        kilni_coll_send(schedule, parent, left, whole);
        kilni_coll_fence(schedule);
    }
}

/// OUTPUT of the root reaches that of all others.
static void pass_down(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t root,
                      uint32_t arity)
{
    const kilni_coll_range whole = {0, shape->count};
    uint32_t parent = kilni_coll_tree_parent(shape->ranks, arity, root, shape->rank);
    if (parent != UINT32_MAX) {
        kilni_coll_receive(schedule, parent, SLOT_OUTPUT, whole);
    }
    for (uint32_t i = 0; i < arity; i++) {
        uint32_t child = kilni_coll_tree_child(shape->ranks, arity, root, shape->rank, i);
        if (child != UINT32_MAX) {
            kilni_coll_send(schedule, child, SLOT_OUTPUT, whole);
        }
    }
    kilni_coll_fence(schedule);
}

static void reduce(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t root,
                   uint32_t arity)
{
    combine_up(schedule, shape, root, arity);
    if (shape->rank == root) {
        kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                        (kilni_coll_operand){SLOT_WORK, 0}, shape->count, shape->is_mean);
    }
}

static void broadcast(kilni_coll_schedule *schedule, const kilni_coll_shape *shape, uint32_t arity)
{
    if (shape->rank == shape->root) {
        kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0},
                        (kilni_coll_operand){SLOT_INPUT, 0}, shape->count, /*divide=*/false);
    }
    pass_down(schedule, shape, shape->root, arity);
}

void kilni_coll_all_reduce_tree(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    reduce(schedule, shape, /*root=*/0, /*arity=*/2);
    pass_down(schedule, shape, /*root=*/0, /*arity=*/2);
}

void kilni_coll_all_reduce_tree4(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    reduce(schedule, shape, /*root=*/0, /*arity=*/4);
    pass_down(schedule, shape, /*root=*/0, /*arity=*/4);
}

void kilni_coll_reduce_tree(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    reduce(schedule, shape, shape->root, /*arity=*/2);
}

void kilni_coll_reduce_tree4(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    reduce(schedule, shape, shape->root, /*arity=*/4);
}

void kilni_coll_broadcast_tree(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    broadcast(schedule, shape, /*arity=*/2);
}

void kilni_coll_broadcast_tree4(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    broadcast(schedule, shape, /*arity=*/4);
}
