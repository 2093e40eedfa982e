// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_PATTERNS_H
#define KILN_COLLECTIVE_COLL_PATTERNS_H

/// Who talks to whom at which step: pure arithmetic, without state, failure or I/O. One .c file for
/// each shape of traffic.

#include <stdint.h>

/// Part `index` of `count` elements cut in `parts`: the first count % parts have one element more.
typedef struct kilni_coll_range {
    uint64_t start;
    uint64_t count;
} kilni_coll_range;
kilni_coll_range kilni_coll_part(uint64_t count, uint32_t parts, uint32_t index);

/// One step of a pass round the ring: which part goes to the next rank, which comes from the one
/// before. In the passing-on of finished parts (`gather`) rank r begins with part `r + shift`.
typedef struct kilni_coll_ring_step {
    uint32_t next;
    uint32_t previous;
    uint32_t send_part;
    uint32_t receive_part;
} kilni_coll_ring_step;
kilni_coll_ring_step kilni_coll_ring_at(uint32_t ranks, uint32_t rank, uint32_t step,
                                        uint32_t shift);

/// All-to-all by pairs: whom a rank sends to and receives from in step 1, 2, ... below `ranks`.
typedef struct kilni_coll_pairwise_step {
    uint32_t to;
    uint32_t from;
} kilni_coll_pairwise_step;
kilni_coll_pairwise_step kilni_coll_pairwise_at(uint32_t ranks, uint32_t rank, uint32_t step);

/// A tree of `arity` over the ranks counted from `root`. Parent of the root: none (UINT32_MAX).
uint32_t kilni_coll_tree_parent(uint32_t ranks, uint32_t arity, uint32_t root, uint32_t rank);
/// The index-th child, UINT32_MAX past the last.
uint32_t kilni_coll_tree_child(uint32_t ranks, uint32_t arity, uint32_t root, uint32_t rank,
                               uint32_t index);

/// Recursive doubling: the number of rounds, and the partner of a rank in one, UINT32_MAX for none.
/// The ranks past the largest power of two fold into the ones before it in round 0 and unfold in
/// the last round.
uint32_t kilni_coll_doubling_rounds(uint32_t ranks);
uint32_t kilni_coll_doubling_partner(uint32_t ranks, uint32_t rank, uint32_t round);

#endif
