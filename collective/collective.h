// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_H
#define KILN_COLLECTIVE_H

/// collective: N ranks, each with memory of its own, that combine buffers: all-reduce, reduce,
/// broadcast, all-gather, reduce-scatter, barrier. A rank is a device of this process or of another
/// one; what its memory is, and how bytes travel, reaches this folder through two small tables of
/// functions. An algorithm is data: a pattern (who talks to whom) made into a schedule of sends,
/// receives, reductions and copies. The order in which values are combined depends on the
/// algorithm, the number of ranks and the length only, never on timing: results are the same bits
/// on every rank and in every run.
///
/// All ranks make the same calls in the same order. A rank that is late, leaves, fails or asks for
/// something else than the others poisons the group: every call that has not ended and every later
/// one, on every rank, ends with the same error, which names the rank, the code and the cause,
/// until the group is destroyed. A rank whose part was over before a failure elsewhere returns OK,
/// with a whole result. Nothing waits without a deadline: where a driver or a network does not come
/// back, the calls end all the same, and what they hold is let go when it does.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- what can be asked ----

typedef enum kiln_coll_kind {
    KILN_COLL_ALL_REDUCE = 0,
    KILN_COLL_REDUCE = 1,
    KILN_COLL_BROADCAST = 2,
    KILN_COLL_ALL_GATHER = 3,
    KILN_COLL_REDUCE_SCATTER = 4,
    KILN_COLL_BARRIER = 5,
    KILN_COLL_KIND_COUNT
} kiln_coll_kind;

/// f16 and bf16 are combined in f32 and rounded once. Integers wrap; their mean is the wrapped sum
/// divided towards zero. NaN goes through min and max.
typedef enum kiln_coll_op {
    KILN_COLL_SUM = 0,
    KILN_COLL_MEAN = 1, ///< the sum divided by the number of ranks, or by the call's divisor
    KILN_COLL_MIN = 2,
    KILN_COLL_MAX = 3,
    KILN_COLL_PROD = 4,
    KILN_COLL_OP_COUNT
} kiln_coll_op;

typedef enum kiln_coll_algorithm {
    KILN_COLL_AUTO = 0, ///< chosen by size and ranks
#define KILN_COLL_ALGORITHM(kind, id, name, init, min_ranks, constraint, low, high, first, last,   \
                            doc, reference)                                                        \
    KILN_COLL_##kind##_##id,
#include "algorithms.def"
#undef KILN_COLL_ALGORITHM
    KILN_COLL_ALGORITHM_COUNT
} kiln_coll_algorithm;

/// A row of algorithms.def. `name` is unique within its kind.
typedef struct kiln_coll_algorithm_info {
    kiln_coll_kind kind;
    const char *name;
    uint32_t min_ranks;
    const char *constraint; ///< "" or what the ranks must satisfy
    uint64_t low_bytes; ///< default range of message sizes, [low, high)
    uint64_t high_bytes;
    uint32_t first_ranks; ///< default range of group sizes, [first, last]
    uint32_t last_ranks;
    const char *doc;
    const char *reference;
} kiln_coll_algorithm_info;

/// Names and rows; NULL past the end. A name that is none gives the COUNT value.
/// Ownership: static storage. Lifetime: the process. Thread: any. Errors: none.
KILN_API const char *kiln_coll_kind_name(kiln_coll_kind kind);
KILN_API const char *kiln_coll_op_name(kiln_coll_op op);
KILN_API kiln_coll_op kiln_coll_op_from_name(const char *name);
KILN_API const kiln_coll_algorithm_info *kiln_coll_algorithm_row(kiln_coll_algorithm algorithm);

/// Whether an algorithm can run on so many ranks; one that cannot is never chosen.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: none.
KILN_API bool kiln_coll_algorithm_fits(kiln_coll_algorithm algorithm, uint32_t ranks,
                                       uint32_t ranks_per_node);

// ---- groups and members ----

typedef struct kiln_coll_group kiln_coll_group;
typedef struct kiln_coll_member kiln_coll_member;
typedef struct kiln_coll_memory kiln_coll_memory;
typedef struct kiln_coll_transport kiln_coll_transport;
typedef struct kiln_coll_request kiln_coll_request;

/// A buffer of a rank's memory: only the memory's own functions look into it.
typedef struct kiln_coll_buffer kiln_coll_buffer;

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

/// A group of `options->ranks` ranks, like an MPI communicator.
/// Ownership: `*out_group` is the caller's (kiln_coll_group_destroy). Lifetime: `env` outlives it;
/// members hold it, so that it may be destroyed before them. Thread: any. Errors: INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_coll_group_create(const kiln_env *env,
                                                           const kiln_coll_group_options *options,
                                                           kiln_coll_group **out_group,
                                                           kiln_error *err);
KILN_API void kiln_coll_group_destroy(kiln_coll_group *group);

/// Changes the choice of algorithms for calls that start later; all ranks have to do it at the same
/// point of their calls. The grammar is that of the options. Ownership: the text is copied.
/// Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_coll_group_select(kiln_coll_group *group,
                                                           const char *select, kiln_error *err);

/// OK, or the failure that poisoned the group; `out_rank` (may be NULL) gets the rank that caused
/// it, or -1. Ownership: `err` is the caller's. Lifetime: n/a. Thread: any. Errors: the group's.
KILN_API kiln_status kiln_coll_group_status(kiln_coll_group *group, int32_t *out_rank,
                                            kiln_error *err);

/// Makes `rank` a member, with a worker thread that carries out its calls in order. `transport`
/// NULL: ranks of this process, by shared memory. Ownership: `*out_member` is the caller's
/// (kiln_coll_member_destroy); memory and transport are borrowed. Lifetime: memory and transport
/// outlive the member. Thread: any. Errors: INVALID_ARGUMENT, ALREADY_EXISTS, RESOURCE_EXHAUSTED,
/// the group's failure.
KILN_NODISCARD KILN_API kiln_status kiln_coll_member_create(kiln_coll_group *group, uint32_t rank,
                                                            kiln_coll_memory *memory,
                                                            kiln_coll_transport *transport,
                                                            kiln_coll_member **out_member,
                                                            kiln_error *err);

/// Says that this rank cannot go on, such as when its device failed outside a call: poisons the
/// group. Ownership: `cause` is borrowed. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_coll_member_abort(kiln_coll_member *member, const kiln_error *cause);

/// Waits until the calls that were started have ended, well or not: each does by its deadlines.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: none.
KILN_API void kiln_coll_member_drain(kiln_coll_member *member);

/// Leaves the group. Calls of this member that have not ended are cancelled, which poisons the
/// group; a group whose members leave with nothing pending stays sound, but a later call of another
/// one fails. Where the memory has not come back from a call, see its `close`.
/// Ownership: takes the member. Lifetime: its requests stay valid. Thread: not while it
/// starts. Errors: none.
KILN_API void kiln_coll_member_destroy(kiln_coll_member *member);

// ---- calls ----

/// One collective call, as one rank makes it. `count` is: of all elements for all-reduce, reduce
/// and broadcast; of one rank's part for all-gather (the output has ranks * count); of all elements
/// of the input for reduce-scatter, of which rank r gets the r-th part: the first count % ranks
/// parts have one element more. Output may be the input. Buffers not needed by this rank may be
/// NULL.
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
} kiln_coll_call;

#define KILN_COLL_CALL_INIT                                                                        \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_coll_call)                                            \
    }

/// Begins a call and returns. Work that was issued to the rank's memory before is waited for, on
/// the worker. With `out_request` NULL the end is told by the call's event alone.
/// Ownership: `*out_request` is the caller's and goes back through kiln_coll_wait.
/// Lifetime: the buffers stay untouched until the call has ended. Thread: one at a time per member;
/// the order of starts is the order of calls. Errors: INVALID_ARGUMENT, UNIMPLEMENTED,
/// RESOURCE_EXHAUSTED, the group's failure.
KILN_NODISCARD KILN_API kiln_status kiln_coll_start(kiln_coll_member *member,
                                                    const kiln_coll_call *call,
                                                    kiln_coll_request **out_request,
                                                    kiln_error *err);

/// Waits for the end of a call, and gives its result. `kiln_coll_ended` looks without waiting.
/// After a failure the buffers may be touched until the call's event is signalled, or the member
/// drained and destroyed: its memory may not have come back. Ownership: wait takes the request.
/// Lifetime: n/a. Thread: any, once. Errors: the group's failure.
KILN_API kiln_status kiln_coll_wait(kiln_coll_request *request, kiln_error *err);
KILN_API bool kiln_coll_ended(const kiln_coll_request *request);

/// Start and wait in one.
/// Ownership: none. Lifetime: n/a. Thread: one at a time per member. Errors: as kiln_coll_start.
KILN_API kiln_status kiln_coll_run(kiln_coll_member *member, const kiln_coll_call *call,
                                   kiln_error *err);

/// The memory of the host: a kiln_coll_buffer is the address of the first byte, cast. Reductions
/// run on the calling thread. Also what staging uses. Ownership: `*out_memory` is the caller's
/// (kiln_coll_host_memory_destroy). Lifetime: `env` outlives it. Thread: any. Errors:
/// RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_coll_host_memory_create(const kiln_env *env,
                                                                 kiln_coll_memory **out_memory,
                                                                 kiln_error *err);
KILN_API void kiln_coll_host_memory_destroy(kiln_coll_memory *memory);

// =================================================================================================
// For those who bring a memory or a transport. Others can stop reading here.
// =================================================================================================

typedef enum kiln_coll_access {
    KILN_COLL_READ = 1,
    KILN_COLL_WRITE = 2 ///< everything mapped is written; what was there is not wanted
} kiln_coll_access;

/// Called once when the work is done, on any thread, with its status. It must not call back into
/// the memory.
typedef void (*kiln_coll_done_fn)(kiln_status status, void *user);

/// Elements that lie one after another in a buffer.
typedef struct kiln_coll_area {
    kiln_coll_buffer *buffer;
    uint64_t offset; ///< bytes
    kiln_dtype dtype;
    size_t count;
} kiln_coll_area;

static inline size_t kiln_coll_area_bytes(const kiln_coll_area *area)
{
    return area->count * kiln_dtype_size(area->dtype);
}

enum { KILN_COLL_STAGES = 6 };
/// What was begun and is waited for; the memory's own.
typedef struct kiln_coll_ticket kiln_coll_ticket;

/// A rank's memory. Calls come from the member's worker, `after` also from the thread that starts;
/// work takes effect in the order issued and may run later. Target and source have one count, and
/// are equal or apart.
typedef struct kiln_coll_memory_ops {
    uint32_t struct_size;
    const char *name;
    kiln_status (*alloc)(kiln_coll_memory *memory, size_t bytes, kiln_coll_buffer **out_buffer,
                         kiln_error *err);
    void (*free)(kiln_coll_memory *memory, kiln_coll_buffer *buffer);
    /// Both of one dtype.
    kiln_status (*copy)(kiln_coll_memory *memory, const kiln_coll_area *target,
                        const kiln_coll_area *source, kiln_error *err);
    /// target = source / divisor, rounded once where the dtypes differ: equal dtypes, or one is f16
    /// or bf16 and the other f32.
    kiln_status (*convert)(kiln_coll_memory *memory, const kiln_coll_area *target,
                           const kiln_coll_area *source, uint32_t divisor, kiln_error *err);
    /// target = op(left, right), elementwise, all of one dtype; never MEAN, never f16, bf16 or
    /// bool. The target may be `left` or `right`.
    kiln_status (*reduce)(kiln_coll_memory *memory, const kiln_coll_area *target,
                          const kiln_coll_area *left, const kiln_coll_area *right, kiln_coll_op op,
                          kiln_error *err);
    /// A host pointer to the area, after all work issued before. Several areas may be mapped at
    /// once; none of them is touched by other work until it is unmapped.
    kiln_status (*map)(kiln_coll_memory *memory, const kiln_coll_area *area,
                       kiln_coll_access access, void **out_pointer, kiln_error *err);
    /// Ends a mapping; what was written is seen by all later work.
    kiln_status (*unmap)(kiln_coll_memory *memory, const kiln_coll_area *area,
                         kiln_coll_access access, void *pointer, kiln_error *err);
    /// Copies bytes of the host over the area, before it returns or not at all. NULL: areas are
    /// mapped for that.
    kiln_status (*write)(kiln_coll_memory *memory, const kiln_coll_area *area, const void *data,
                         kiln_error *err);
    /// Calls `done` when all work issued so far has ended. On an error it is not called.
    kiln_status (*after)(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                         kiln_error *err);
    /// The call that carried `event` has ended; `result` is the error, or has code 0.
    void (*signal)(kiln_coll_memory *memory, void *event, const kiln_error *result);
    /// As `after`, of the worker's own work, where that does not queue behind other work of the
    /// memory. NULL: `after` serves for both.
    kiln_status (*finish)(kiln_coll_memory *memory, kiln_coll_done_fn done, void *user,
                          kiln_error *err);
    /// For memory apart from the host's: long calls travel in chunks, out and in at the same time.
    /// NULL, all of them: areas are mapped or written. `stage` gives one of the first
    /// KILN_COLL_STAGES pieces of host memory, of `bytes`, from which every memory of the process
    /// copies fast; it is kept, and asked for with the same `bytes` each time. `fetch` begins a
    /// copy of an area to such a piece, in parallel to all else, and `fetched` waits for it and
    /// takes the ticket; both are called from a second thread. `put` begins a copy from the host,
    /// in order with copy, convert and reduce; the source stays until a `mark` made afterwards is
    /// reached. Every ticket is waited for.
    kiln_status (*stage)(kiln_coll_memory *memory, uint32_t index, size_t bytes, void **out_host,
                         kiln_error *err);
    kiln_status (*fetch)(kiln_coll_memory *memory, const kiln_coll_area *area, void *host,
                         kiln_coll_ticket **out_ticket, kiln_error *err);
    kiln_status (*fetched)(kiln_coll_memory *memory, kiln_coll_ticket *ticket, kiln_error *err);
    kiln_status (*put)(kiln_coll_memory *memory, const kiln_coll_area *area, const void *host,
                       kiln_error *err);
    kiln_status (*mark)(kiln_coll_memory *memory, kiln_coll_ticket **out_ticket, kiln_error *err);
    kiln_status (*reached)(kiln_coll_memory *memory, kiln_coll_ticket *ticket, kiln_error *err);
    /// The call that carried `event` has the result `result` although its worker has not come back
    /// from a function of this table; `signal` follows when it has, and nothing touches the call's
    /// buffers any more. On the group's guard, so it must not wait for anything. NULL: not wanted.
    void (*give_up)(kiln_coll_memory *memory, void *event, const kiln_error *result);
    /// The member has gone: the memory's last call, on any thread. With it, destroying a member
    /// whose worker has not come back leaves it behind; memory and transport are used until then.
    /// NULL: that waits.
    void (*close)(kiln_coll_memory *memory);
} kiln_coll_memory_ops;

struct kiln_coll_memory { ///< first member of every memory
    const kiln_coll_memory_ops *ops;
};

/// What a rank asks for; must be equal on all ranks.
typedef struct kiln_coll_signature {
    uint32_t kind;
    uint32_t op;
    uint32_t dtype;
    uint32_t root;
    uint32_t algorithm;
    uint32_t divisor;
    uint64_t count;
    uint64_t tag;
} kiln_coll_signature;

/// Bytes on their way. Owned by the worker, in the transport's hands from post until wait or cancel
/// return.
typedef struct kiln_coll_message {
    bool is_send;
    uint32_t peer;
    uint64_t sequence; ///< number of the call; messages of one pair arrive in the order posted
    void *data;
    size_t bytes;
    /// Of a receive: called instead of copying to `data`, with what has come. NULL: copy.
    void (*take)(const void *data, size_t bytes, void *user);
    void *user;
    // The transport's own:
    uint32_t state;
    uint32_t sender;
    struct kiln_coll_message *next;
    void *handle;
} kiln_coll_message;

/// How a rank reaches the others. One transport object is one rank's end, used by the worker and,
/// for sends, by a second thread of the same call. Deadlines are points of
/// kiln_time_ns(). After abort every wait of every rank ends with that cause.
typedef struct kiln_coll_transport_ops {
    uint32_t struct_size;
    const char *name;
    /// Waits until all ranks are at call `sequence` and compares what they ask for.
    kiln_status (*agree)(kiln_coll_transport *transport, uint64_t sequence,
                         const kiln_coll_signature *signature, uint64_t deadline_ns,
                         kiln_error *err);
    kiln_status (*post)(kiln_coll_transport *transport, kiln_coll_message *message,
                        kiln_error *err);
    kiln_status (*wait)(kiln_coll_transport *transport, kiln_coll_message *message,
                        uint64_t deadline_ns, kiln_error *err);
    /// Takes a posted message back, whatever its state.
    void (*cancel)(kiln_coll_transport *transport, kiln_coll_message *message);
    /// Tells all ranks that this one failed; the first failure of a group stays.
    void (*abort)(kiln_coll_transport *transport, const kiln_error *cause);
    /// The failure that ended the group: OK when there is none.
    kiln_status (*failure)(kiln_coll_transport *transport, int32_t *out_rank, kiln_error *err);
    /// This rank takes no further part.
    void (*leave)(kiln_coll_transport *transport);
    /// As wait, for a receive without data and take: sets `data` to where the sender's bytes lie,
    /// which stay until `release`.
    kiln_status (*accept)(kiln_coll_transport *transport, kiln_coll_message *message,
                          uint64_t deadline_ns, kiln_error *err);
    void (*release)(kiln_coll_transport *transport, kiln_coll_message *message);
} kiln_coll_transport_ops;

struct kiln_coll_transport { ///< first member of every transport
    const kiln_coll_transport_ops *ops;
};

/// The ranks of a group as its network sees them: the hub is where the ranks of this process meet,
/// and where the network stands in for all others. Messages to a rank wait there in the order of
/// their sends.
typedef struct kiln_coll_hub kiln_coll_hub;
typedef struct kiln_coll_network kiln_coll_network;

/// Where the ranks of a process stand among all that a network joins.
typedef struct kiln_coll_place {
    uint32_t first_rank; ///< of this process; its others follow
    uint32_t ranks; ///< of all processes
    uint32_t ranks_per_node; ///< 0: not all processes have as many
} kiln_coll_place;

typedef struct kiln_coll_network_ops {
    uint32_t struct_size;
    const char *name;
    /// Begins to stand in for the other processes' ranks, on a thread of its own.
    kiln_status (*attach)(kiln_coll_network *network, kiln_coll_hub *hub, uint64_t deadline_ns,
                          kiln_error *err);
    /// Ends that, whether it began or not, and frees the network. The hub is not touched
    /// afterwards.
    void (*detach)(kiln_coll_network *network);
} kiln_coll_network_ops;

struct kiln_coll_network { ///< first member of every network
    const kiln_coll_network_ops *ops;
};

/// How far a rank is. `agreed` is the last call that all ranks have come to. A rank gets at most
/// two calls ahead of what others know of it: what it asked for is kept for both, call n at n % 2.
typedef struct kiln_coll_arrival {
    uint64_t sequence;
    kiln_coll_signature signatures[2];
    uint64_t agreed;
    bool left;
} kiln_coll_arrival;

/// For a network, all of them: `take` gives the oldest message to a rank elsewhere, or NULL; its
/// bytes stay until `sent`. `deliver` lays one down in the name of its `sender` for `peer`, which
/// must stay until `delivered`. `arrival` tells of a rank of this process; `arrive`, `leave` and
/// `fail` act for one elsewhere: `arrive` at a call only when all have agreed on the one before.
/// Ownership: messages stay their owner's. Lifetime: the hub's. Thread: any. Errors: `failure`
/// gives the group's.
KILN_API kiln_coll_message *kiln_coll_hub_take(kiln_coll_hub *hub, uint32_t rank);
KILN_API void kiln_coll_hub_sent(kiln_coll_hub *hub, kiln_coll_message *message);
KILN_API void kiln_coll_hub_deliver(kiln_coll_hub *hub, kiln_coll_message *message);
KILN_API bool kiln_coll_hub_delivered(kiln_coll_hub *hub, kiln_coll_message *message);
KILN_API void kiln_coll_hub_arrival(kiln_coll_hub *hub, uint32_t rank,
                                    kiln_coll_arrival *out_arrival);
KILN_API void kiln_coll_hub_arrive(kiln_coll_hub *hub, uint32_t rank, uint64_t sequence,
                                   const kiln_coll_signature *signature);
KILN_API void kiln_coll_hub_leave(kiln_coll_hub *hub, uint32_t rank);
KILN_API void kiln_coll_hub_propose(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);
KILN_API bool kiln_coll_hub_proposal(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err);
KILN_API void kiln_coll_hub_fail(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);
KILN_API kiln_status kiln_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
