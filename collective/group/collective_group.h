// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_GROUP_H
#define KILN_COLLECTIVE_GROUP_H

/// Groups of ranks, their members in this process, and the calls that members make.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. No pointer is NULL unless a
/// function takes it.

#include "collective_algorithm.h"
#include "collective_memory.h"
#include "collective_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- groups and members ----

typedef struct kiln_coll_group kiln_coll_group;
typedef struct kiln_coll_member kiln_coll_member;
typedef struct kiln_coll_request kiln_coll_request;

typedef struct kiln_coll_group_options {
    uint32_t struct_size;
    uint32_t ranks; ///< all of them, in this process or not
    uint64_t deadline_ns; ///< for each wait; 0: 30 seconds
    uint32_t ranks_per_node; ///< ranks that share a host, numbered together; 0: not known
    uint32_t reserved;
    /// Overrides the choice of algorithms: items "kind:algorithm" or "kind:where:algorithm",
    /// separated by commas; `where` is a range of sizes "low-high" in bytes with K, M or G, a range
    /// of ranks "@first-last", or both, "64K-2M@2-8"; high and last may be left out. The first that
    /// matches wins: "all_reduce:0-64K@2-4:centralised,all_reduce:64K-:ring". NULL: the table's.
    const char *select;
    /// Stands in for the ranks of other processes: taken over, also on failure. NULL: there are
    /// none.
    struct kiln_coll_network *network;
    /// Messages are cut in pieces of so many bytes, which travel one after another, the next while
    /// the last is combined; equal on all ranks. 0: 4 MiB.
    uint64_t chunk_bytes;
} kiln_coll_group_options;

#define KILN_COLL_GROUP_OPTIONS_INIT                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_coll_group_options)                                   \
    }

/// Makes a group of `options->ranks` ranks, like an MPI communicator. `*out_group` is the caller's
/// (kiln_coll_group_destroy). `env` outlives it; members hold it, so that it may be destroyed
/// before them.
KILN_NODISCARD KILN_API kiln_status kiln_coll_group_create(const kiln_env *env,
                                                           const kiln_coll_group_options *options,
                                                           kiln_coll_group **out_group,
                                                           kiln_error *err);

/// Gives up the caller's hold of the group. Takes NULL.
KILN_API void kiln_coll_group_destroy(kiln_coll_group *group);

/// Changes the choice of algorithms for calls that start later; all ranks have to do it at the same
/// point of their calls. The grammar is that of the options. The text is copied.
KILN_NODISCARD KILN_API kiln_status kiln_coll_group_select(kiln_coll_group *group,
                                                           const char *select, kiln_error *err);

/// OK, or the failure that poisoned the group; `out_rank` (may be NULL) gets the rank that caused
/// it, or -1.
KILN_API kiln_status kiln_coll_group_status(kiln_coll_group *group, int32_t *out_rank,
                                            kiln_error *err);

/// Makes `rank` a member, with a worker thread that carries out its calls in order. `transport`
/// NULL: ranks of this process, by shared memory. `*out_member` is the caller's
/// (kiln_coll_member_destroy); memory and transport outlive it. Errors: also ALREADY_EXISTS, and
/// the group's failure.
KILN_NODISCARD KILN_API kiln_status kiln_coll_member_create(kiln_coll_group *group, uint32_t rank,
                                                            kiln_coll_memory *memory,
                                                            kiln_coll_transport *transport,
                                                            kiln_coll_member **out_member,
                                                            kiln_error *err);

/// Says that this rank cannot go on, such as when its device failed outside a call: poisons the
/// group.
KILN_API void kiln_coll_member_abort(kiln_coll_member *member, const kiln_error *cause);

/// Waits until the calls that were started have ended, well or not: each does by its deadlines.
KILN_API void kiln_coll_member_drain(kiln_coll_member *member);

/// Leaves the group. Calls of this member that have not ended are cancelled, which poisons the
/// group; a group whose members leave with nothing pending stays sound, but a later call of another
/// one fails. Where the memory has not come back from a call, see its `close`. Not while the member
/// starts a call. Its requests stay valid.
KILN_API void kiln_coll_member_destroy(kiln_coll_member *member);

// ---- parts of a group ----

/// What a rank asks for in a split of its group.
typedef struct kiln_coll_wish {
    int32_t colour; ///< ranks of one colour make a group; below 0: the rank joins none
    int32_t key; ///< their order in it; ranks of one key keep theirs
    int32_t mark; ///< kiln_coll_group_mark in the rank's process
} kiln_coll_wish;

/// What ranks of this process put into their wishes, so that all processes number the parts alike.
KILN_API int32_t kiln_coll_group_mark(const kiln_coll_group *group);

/// The number that `rank` of `ranks` gets in its part; UINT32_MAX: it joins none.
KILN_API uint32_t kiln_coll_split_rank(const kiln_coll_wish *wishes, uint32_t ranks, uint32_t rank);

/// Makes the group of the ranks that wish `colour`, with the parent's deadline, pieces and choice
/// of algorithms. `wishes` has one entry for each rank of the parent, and is the same in all
/// processes that have such ranks: each of them calls this once. Groups of several processes are
/// split, made and destroyed in one order. The part lives on without its parent. The caller owns
/// `*out_group`. Errors: also the parent's failure, and UNIMPLEMENTED for a network without parts.
KILN_NODISCARD KILN_API kiln_status kiln_coll_group_split(kiln_coll_group *group,
                                                          const kiln_coll_wish *wishes,
                                                          int32_t colour,
                                                          kiln_coll_group **out_group,
                                                          kiln_error *err);

// ---- calls ----

/// One collective call, as one rank makes it. `count` is: of all elements for all-reduce, reduce,
/// broadcast, send and receive; of one rank's part for all-gather and gather (the output has ranks
/// * count), scatter (the root's input has) and all-to-all (both have: part i goes to rank i, where
/// it becomes the part of the rank that sent it); of all elements of the input for reduce-scatter,
/// of which rank r gets the r-th part: the first count % ranks parts have one element more. `root`
/// of a send or receive is the other rank. Output may be the input, but for all-to-all. Buffers not
/// needed by this rank may be NULL.
typedef struct kiln_coll_times kiln_coll_times;

typedef struct kiln_coll_call {
    uint32_t struct_size;
    kiln_coll_kind kind;
    kiln_coll_op op;
    kiln_dtype dtype;
    uint32_t root;
    kiln_coll_algorithm algorithm;
    uint64_t count;
    kiln_coll_buffer *input;
    uint64_t input_offset; ///< bytes
    kiln_coll_buffer *output;
    uint64_t output_offset;
    uint32_t divisor; ///< of MEAN, equal on all ranks; 0: the number of ranks
    uint32_t reserved;
    uint64_t tag; ///< anything else that ranks must agree on, such as a hash of the shape
    void *event; ///< given to the memory's `signal` when the call has ended; NULL: none
    kiln_coll_times *times; ///< filled before `signal`; NULL: nobody asks
} kiln_coll_call;

#define KILN_COLL_CALL_INIT                                                                        \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_coll_call)                                            \
    }

/// What a call's worker did after the ranks agreed.
typedef enum kiln_coll_pastime {
    KILN_COLL_COPYING, ///< to and from the memory: mapping, writing, what streams until it is used
    KILN_COLL_COMBINING, ///< queueing reductions and copies
    KILN_COLL_WAITING, ///< for messages, whose copy is in it where the memory is mapped
    KILN_COLL_SETTLING, ///< until the memory's last work had ended
    KILN_COLL_FETCHING, ///< out of a memory that streams, by the second thread, beside all these
    KILN_COLL_PASTIMES
} kiln_coll_pastime;

typedef enum kiln_coll_moment {
    KILN_COLL_STARTED,
    KILN_COLL_BEGUN, ///< the member's calls before had ended
    KILN_COLL_READY, ///< and the memory's work before
    KILN_COLL_AGREED, ///< all ranks had come
    KILN_COLL_ENDED,
    KILN_COLL_MOMENTS
} kiln_coll_moment;

/// Where the time of a call went.
struct kiln_coll_times {
    uint64_t at_ns[KILN_COLL_MOMENTS]; ///< as kiln_time_ns; 0: it failed before
    uint64_t spent_ns[KILN_COLL_PASTIMES];
};

/// A send and its receive are the affair of two ranks: only they agree, and other ranks need not
/// come. Between two ranks sends arrive in their order, and both ranks order them alike among their
/// calls on the group. Within a process a send ends when its receive has come: two ranks that both
/// send to each other first end at the deadline.
///
/// Begins a call and returns. Work that was issued to the rank's memory before is waited for, on
/// the worker. With `out_request` NULL the end is told by the call's event alone. `*out_request` is
/// the caller's and goes back through kiln_coll_wait. The buffers stay untouched until the call has
/// ended. One thread at a time for each member; the order of starts is the order of calls. Errors:
/// also UNIMPLEMENTED, and the group's failure.
KILN_NODISCARD KILN_API kiln_status kiln_coll_start(kiln_coll_member *member,
                                                    const kiln_coll_call *call,
                                                    kiln_coll_request **out_request,
                                                    kiln_error *err);

/// Waits for the end of a call, gives its result, and takes the request, once. After a failure the
/// buffers may be touched until the call's event is signalled, or the member drained and destroyed:
/// its memory may not have come back. Errors: the group's failure.
KILN_API kiln_status kiln_coll_wait(kiln_coll_request *request, kiln_error *err);

/// Whether a call has ended, without waiting.
KILN_API bool kiln_coll_ended(const kiln_coll_request *request);

#ifdef __cplusplus
}
#endif
#endif
