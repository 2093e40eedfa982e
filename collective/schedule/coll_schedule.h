// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_SCHEDULE_H
#define KILN_COLLECTIVE_COLL_SCHEDULE_H

/// What one rank does in a call, as data: steps over slots of elements.

#include "base.h"
#include "coll_patterns.h"

typedef enum kilni_coll_slot {
    SLOT_INPUT, ///< the caller's, of the call's dtype
    SLOT_OUTPUT, ///< the caller's, of the call's dtype
    SLOT_WORK, ///< what is combined, of the wide dtype: the output itself when that is the call's
               ///< dtype
    SLOT_SCRATCH, ///< arrivals of the wide dtype
    SLOT_RAW, ///< arrivals of the call's dtype that are to be widened
    SLOT_COUNT
} kilni_coll_slot;

typedef enum kilni_coll_step_kind {
    STEP_SEND, ///< source to `peer`; must not change before the next FENCE
    STEP_RECEIVE, ///< from `peer` to target
    STEP_REDUCE, ///< target = op(left, source)
    STEP_COPY, ///< target = source, between dtypes, divided when `divide` is set
    STEP_FENCE ///< all sends so far have arrived
} kilni_coll_step_kind;

typedef struct kilni_coll_operand {
    kilni_coll_slot slot;
    uint64_t start; ///< elements
} kilni_coll_operand;

typedef struct kilni_coll_step {
    kilni_coll_step_kind kind;
    uint32_t peer;
    bool divide;
    kilni_coll_operand target;
    kilni_coll_operand left; ///< of REDUCE: the target itself or apart from it
    kilni_coll_operand source;
    uint64_t count;
} kilni_coll_step;

/// What an algorithm is told.
typedef struct kilni_coll_shape {
    uint32_t rank;
    uint32_t ranks;
    uint32_t root;
    uint32_t node; ///< ranks of one node; only algorithms with the constraint NODES look at it
    uint64_t count;
    bool is_wide; ///< the wide dtype differs from the call's: arrivals are widened
    bool is_mean;
} kilni_coll_shape;

typedef struct kilni_coll_schedule {
    kiln_arena *arena;
    kilni_coll_step *steps;
    size_t step_count;
    size_t capacity;
    uint64_t slot_elems[SLOT_COUNT]; ///< needed of WORK (when wide), SCRATCH and RAW
    bool failed; ///< no memory
} kilni_coll_schedule;

/// Appends. Steps of zero elements are left out, on both sides alike. It lives in the arena. One
/// thread at a time. Errors: `failed`.
void kilni_coll_send(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                     kilni_coll_range range);
void kilni_coll_receive(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                        kilni_coll_range range);
void kilni_coll_reduce(kilni_coll_schedule *schedule, kilni_coll_operand target,
                       kilni_coll_operand left, kilni_coll_operand source, uint64_t count);
void kilni_coll_copy(kilni_coll_schedule *schedule, kilni_coll_operand target,
                     kilni_coll_operand source, uint64_t count, bool divide);
void kilni_coll_fence(kilni_coll_schedule *schedule);

/// Receives values of the call's dtype and combines them: WORK = op(`left`, what came), for the
/// whole length.
void kilni_coll_receive_reduce_raw(kilni_coll_schedule *schedule, const kilni_coll_shape *shape,
                                   uint32_t peer, kilni_coll_slot left);

#endif
