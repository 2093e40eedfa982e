// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_TRANSPORT_H
#define KILN_COLLECTIVE_TRANSPORT_H

/// How ranks reach each other, for those who bring a transport or a network. A user of groups needs
/// none of it: within a process there is one, and MPI's is in libkiln_mpi.so.
///
/// Any thread may call these functions; messages stay their owner's, and live as long as the hub.
/// No pointer is NULL unless a function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_coll_transport kiln_coll_transport;

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

/// In place of a call's number: a call between two ranks, which no other one counts. Calls of all
/// ranks are counted from 1.
#define KILN_COLL_PAIR 0u

/// Bytes on their way. Owned by the worker, in the transport's hands from post until wait or cancel
/// return.
typedef struct kiln_coll_message {
    bool is_send;
    uint32_t peer;
    uint64_t sequence; ///< number of the call, or KILN_COLL_PAIR; messages of one pair arrive in
                       ///< the order posted
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

// ---- networks: ranks of other processes ----

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
    /// A number that no network of this process has had, for a part that is to come: the largest of
    /// those that the part's processes know is one that none of them has used.
    uint32_t (*next_part)(kiln_coll_network *network);
    /// A network of its own for some of the ranks: `ranks[i]` becomes rank i. All their processes
    /// give the same ranks and the same number. Nothing waits. The parent may be detached before.
    kiln_status (*part)(kiln_coll_network *network, const uint32_t *ranks, uint32_t count,
                        uint32_t number, kiln_coll_network **out_network, kiln_error *err);
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

// What a network does with the hub.

/// Gives the oldest message to a rank elsewhere, or NULL; its bytes stay until kiln_coll_hub_sent.
KILN_API kiln_coll_message *kiln_coll_hub_take(kiln_coll_hub *hub, uint32_t rank);

/// Says that a message that was taken has been sent.
KILN_API void kiln_coll_hub_sent(kiln_coll_hub *hub, kiln_coll_message *message);

/// Lays a message down in the name of its `sender` for `peer`. It must stay until
/// kiln_coll_hub_delivered says so.
KILN_API void kiln_coll_hub_deliver(kiln_coll_hub *hub, kiln_coll_message *message);

/// Whether the receiver is done with a message.
KILN_API bool kiln_coll_hub_delivered(kiln_coll_hub *hub, kiln_coll_message *message);

/// How far a rank of this process is.
KILN_API void kiln_coll_hub_arrival(kiln_coll_hub *hub, uint32_t rank,
                                    kiln_coll_arrival *out_arrival);

/// A rank elsewhere has come to a call; only when all have agreed on the call before.
KILN_API void kiln_coll_hub_arrive(kiln_coll_hub *hub, uint32_t rank, uint64_t sequence,
                                   const kiln_coll_signature *signature);

/// A rank elsewhere has left the group.
KILN_API void kiln_coll_hub_leave(kiln_coll_hub *hub, uint32_t rank);

/// Proposes a failure that a rank caused; the network decides with the others which is the group's.
KILN_API void kiln_coll_hub_propose(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);

/// Whether a rank of this process has proposed a failure, and which.
KILN_API bool kiln_coll_hub_proposal(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err);

/// The group fails, by the fault of `rank`.
KILN_API void kiln_coll_hub_fail(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);

/// OK, or the group's failure and the rank that caused it.
KILN_API kiln_status kiln_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
