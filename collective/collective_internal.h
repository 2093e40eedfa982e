// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLLECTIVE_INTERNAL_H
#define KILN_COLLECTIVE_COLLECTIVE_INTERNAL_H

/// The parts of collective/ that the files of this folder share, from the bottom up: patterns,
/// schedules, algorithms and their choice, execution, the transport within a process.

#include "collective.h"

#include <stdatomic.h>

// ---- patterns: pure arithmetic, no state, no failure ----

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

// ---- schedules: what one rank does, as data ----

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

typedef struct kilni_coll_place {
    kilni_coll_slot slot;
    uint64_t start; ///< elements
} kilni_coll_place;

typedef struct kilni_coll_step {
    kilni_coll_step_kind kind;
    uint32_t peer;
    bool divide;
    kilni_coll_place target;
    kilni_coll_place left; ///< of REDUCE: the target itself or apart from it
    kilni_coll_place source;
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

/// Appends. Steps of zero elements are left out, on both sides alike.
/// Ownership: the arena's. Lifetime: the arena. Thread: one at a time. Errors: `failed`.
void kilni_coll_send(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                     kilni_coll_range range);
void kilni_coll_receive(kilni_coll_schedule *schedule, uint32_t peer, kilni_coll_slot slot,
                        kilni_coll_range range);
void kilni_coll_reduce(kilni_coll_schedule *schedule, kilni_coll_place target,
                       kilni_coll_place left, kilni_coll_place source, uint64_t count);
void kilni_coll_copy(kilni_coll_schedule *schedule, kilni_coll_place target,
                     kilni_coll_place source, uint64_t count, bool divide);
void kilni_coll_fence(kilni_coll_schedule *schedule);

/// Receives values of the call's dtype and combines them: WORK = op(`left`, what came), for the
/// whole length.
void kilni_coll_receive_reduce_raw(kilni_coll_schedule *schedule, const kilni_coll_shape *shape,
                                   uint32_t peer, kilni_coll_slot left);

// ---- algorithms and their choice ----

typedef void (*kilni_coll_init_fn)(kilni_coll_schedule *schedule, const kilni_coll_shape *shape);

#define KILN_COLL_ALGORITHM(kind, id, name, init, min_ranks, constraint, low, high, first, last,   \
                            doc, reference)                                                        \
    void init(kilni_coll_schedule *schedule, const kilni_coll_shape *shape);
#include "algorithms.def"
#undef KILN_COLL_ALGORITHM

kilni_coll_init_fn kilni_coll_init_of(kiln_coll_algorithm algorithm);

/// How many ranks, and how many of them share a node, numbered together; 0: that is not known.
typedef struct kilni_coll_extent {
    uint32_t ranks;
    uint32_t node;
} kilni_coll_extent;

/// True when the algorithm may run on these ranks.
bool kilni_coll_fits(kiln_coll_algorithm algorithm, kilni_coll_extent extent);

/// The algorithm for a message: the first item of `select` that matches, else the first row in
/// range. Ownership: values. Lifetime: n/a. Thread: any. Errors: KILN_COLL_AUTO when there is none.
kiln_coll_algorithm kilni_coll_choose(const char *select, kiln_coll_kind kind, uint64_t bytes,
                                      kilni_coll_extent extent);

/// Checks the grammar and the names of an override.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT with the item.
kiln_status kilni_coll_select_check(const char *select, kiln_error *err);

// ---- execution ----

/// The dtype in which values of `dtype` are combined.
kiln_dtype kilni_coll_wide(kiln_dtype dtype);

/// Since when each thread of a rank has been in a call into its memory; 0: in none. `touch` before
/// such calls, `end` before waits that have a deadline of their own.
typedef enum kilni_coll_thread { COLL_WORKER, COLL_FEEDER, COLL_THREADS } kilni_coll_thread;
typedef struct kilni_coll_watch {
    atomic_uint_fast64_t since[COLL_THREADS];
} kilni_coll_watch;
void kilni_coll_watch_touch(kilni_coll_watch *watch, kilni_coll_thread thread);
void kilni_coll_watch_end(kilni_coll_watch *watch, kilni_coll_thread thread);
/// For how long the thread that is longest in such a call has been in it; 0: none is.
uint64_t kilni_coll_watch_ns(const kilni_coll_watch *watch);

typedef struct kilni_coll_run {
    kiln_coll_memory *memory;
    kiln_coll_transport *transport;
    const kiln_coll_call *call;
    uint64_t sequence;
    uint64_t deadline_ns; ///< of one wait
    uint64_t chunk_bytes; ///< messages are cut in these
    uint32_t rank;
    uint32_t divisor; ///< of a mean
    kiln_arena *arena;
    kilni_coll_watch *watch;
} kilni_coll_run;

/// Carries a schedule out. On return nothing is mapped, posted or allocated; a failure has been
/// told to the others. `err` must not be NULL. Ownership: all borrowed. Lifetime: n/a. Thread: the
/// worker. Errors: the memory's and the transport's.
kiln_status kilni_coll_execute(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                               kiln_error *err);

/// Where a slot lies.
typedef struct kilni_coll_lot {
    kiln_coll_buffer *buffer;
    uint64_t offset;
    kiln_dtype dtype;
    bool is_ours;
} kilni_coll_lot;

/// The part of `place` from element `range.start` on, in a rank's memory.
kiln_coll_area kilni_coll_area_of(const kilni_coll_lot *lots, kilni_coll_place place,
                                  kilni_coll_range range);

/// Piece `index` of a message of `count` elements; none past the last. Both ends cut alike.
kilni_coll_range kilni_coll_piece(const kilni_coll_run *run, kiln_dtype dtype, uint64_t count,
                                  uint64_t index);

/// REDUCE and COPY, of elements `range` of the step.
kiln_status kilni_coll_step_reduce(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                   const kilni_coll_step *step, kilni_coll_range range,
                                   kiln_error *err);
kiln_status kilni_coll_step_copy(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                 const kilni_coll_step *step, kilni_coll_range range,
                                 kiln_error *err);

/// All steps of a schedule on a memory that streams: sends on a second thread, each piece as soon
/// as it is there, receives combined piece by piece. As kilni_coll_execute, but the slots are
/// there.
kiln_status kilni_coll_stream(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                              const kilni_coll_lot *lots, kiln_error *err);

/// Waits until all work that `after` stands for has ended.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: the work's, DEADLINE_EXCEEDED.
typedef struct kilni_coll_gate kilni_coll_gate;
typedef kiln_status (*kilni_coll_after_fn)(kiln_coll_memory *memory, kiln_coll_done_fn done,
                                           void *user, kiln_error *err);
kiln_status kilni_coll_gate_open(const kiln_env *env, kiln_coll_memory *memory,
                                 kilni_coll_after_fn after, kilni_coll_gate **out_gate,
                                 kiln_error *err);
kiln_status kilni_coll_gate_wait(kilni_coll_gate *gate, uint64_t deadline_ns, kiln_error *err);

// ---- transport within a process ----

/// The meeting point of all ranks; its ends are taken by the members of this process.
/// Ownership: the group's. Lifetime: longer than its ends. Thread: any. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_coll_hub_create(const kiln_env *env, uint32_t ranks, kiln_coll_hub **out_hub,
                                  kiln_error *err);
void kilni_coll_hub_destroy(kiln_coll_hub *hub);
/// A network will decide what the group's failure is.
void kilni_coll_hub_set_network(kiln_coll_hub *hub);
kiln_coll_transport *kilni_coll_hub_end(kiln_coll_hub *hub, uint32_t rank);
/// So that a rank that is held up by its memory is named, whoever times out first. NULL: no longer.
void kilni_coll_hub_set_watch(kiln_coll_hub *hub, uint32_t rank, const kilni_coll_watch *watch);

/// A line for what a rank asked, "all_reduce sum f32 of 12 with ring".
void kilni_coll_signature_text(const kiln_coll_signature *signature, char out_text[96]);

#endif
