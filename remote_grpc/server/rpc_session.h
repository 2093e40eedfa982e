// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SESSION_H
#define KILN_RPC_SESSION_H

/// One session on the server: its buffers, its graphs, and what each frame does to them. Private to
/// rpc_session.c, rpc_handle.c, rpc_buffers.c, rpc_run.c and those that start and end sessions.

#include "ir.h"
#include "remote_grpc.h"
#include "rpc_limits.h"
#include "rpc_link.h"
#include "rpc_memory.h"
#include "rpc_parties.h"
#include "rpc_transfer.h"
#include "rpc_turns.h"
#include "rpc_vault.h"

#include <pthread.h>

enum { KILNI_RPC_BUCKETS = 1024, KILNI_RPC_VALUES = 3 * KILNI_RPC_BINDINGS };

/// Memory for bytes on their way: those that came and are no tensor yet, and those that were read
/// and are being sent.
typedef struct kilni_rpc_staging {
    kilni_rpc_hold hold;
    struct kilni_rpc_staging *next;
    size_t capacity;
    size_t charged; ///< of what all sessions may hold as raw bytes
    char *bytes;
    kiln_mapping *mapping; ///< not NULL: `bytes` are the tensor's own, and not to be written
    kilni_rpc_mapped file; ///< `bytes` are a mapping of a file; NULL: they are not
} kilni_rpc_staging;

/// A buffer of the client: raw bytes, then a tensor; or neither, and why.
typedef struct kilni_rpc_entry {
    uint64_t id;
    uint64_t bytes;
    kilni_rpc_staging *raw; ///< NULL: a tensor, or nothing was written yet
    kilni_rpc_staging *shadow; ///< of a tensor that is read in parts: all of it on the host
    uint64_t staged; ///< of `raw`: what is there, the rest is zeros
    kiln_tensor *tensor; ///< NULL while it is raw
    kiln_error *failed; ///< the work that should have filled it failed
    bool unfenced; ///< an output since the last fence
    bool offered; ///< its bytes are to be kept when all of them are there and have this digest
    kilni_rpc_digest digest;
    struct kilni_rpc_entry *next;
} kilni_rpc_entry;

/// What it takes to run a known graph as a whole, without recording its operations again.
typedef struct kilni_rpc_replay {
    bool never; ///< each of its Runs is recorded
    bool charged; ///< it counts for a capture too
    uint32_t alike; ///< Runs in a row that kept the same values
    uint32_t n_kept;
    uint64_t kept[KILNI_RPC_BINDINGS]; ///< by them in buffers
    uint64_t bytes; ///< of the results of its operations
    uint64_t work; ///< that it is (rpc_pace.h)
    kiln_graph *graph; ///< NULL: it is not captured
} kilni_rpc_replay;

/// A graph that runs by its number.
typedef struct kilni_rpc_known_graph {
    uint64_t id;
    uint64_t charge; ///< bytes that it counts for
    kiln_ir_graph *graph;
    struct kilni_rpc_known_graph *next;
    kilni_rpc_replay replay;
} kilni_rpc_known_graph;

typedef struct kilni_rpc_value {
    uint64_t id;
    uint64_t holds; ///< bytes of memory that it keeps: a view all of what it is a view of
    kiln_tensor *tensor; ///< held from its definition to its last use
    uint32_t uses; ///< by operations and outputs that are still to come
    uint32_t next; ///< in its bucket, from 1
} kilni_rpc_value;

struct kilni_rpc_session;

/// Waits with the rest of a session's work until its client is back; false: it does not come.
typedef bool (*kilni_rpc_pause_fn)(void *server, struct kilni_rpc_session *session);

/// Bit n: the device uses the dtype with number n so.
typedef struct kilni_rpc_dtypes {
    uint64_t storage;
    uint64_t arithmetic;
    uint64_t accelerated;
} kilni_rpc_dtypes;

typedef struct kilni_rpc_session_options {
    kiln_device *const *devices; ///< held by the server
    const kilni_rpc_dtypes *dtypes; ///< of each device
    uint32_t n_devices;
    kilni_rpc_limits limits;
    uint64_t max_raw_bytes; ///< of all sessions together
    atomic_ullong *raw_bytes; ///< the server's: what they hold
    atomic_ullong *operations; ///< the server's: of all sessions, since its start
    uint64_t instance;
    uint32_t resume_seconds;
    const char *advertise; ///< "": where the client came in
    kilni_rpc_exposures *exposures;
    const kilni_rpc_peers *peers;
    bool takes_memory; ///< there is a desk for it
    kilni_rpc_vault *vault; ///< NULL: nothing is kept for later sessions
    kilni_rpc_parties *parties;
    kilni_rpc_turns *const *turns; ///< of each device
    kilni_rpc_pause_fn pause;
    void *server;
    const atomic_bool *stopping; ///< the server's: nothing more is begun
} kilni_rpc_session_options;

/// What a session has launched and not waited for.
typedef struct kilni_rpc_pace {
    uint64_t work;
    uint64_t budget; ///< of work
    uint64_t begun_ns;
} kilni_rpc_pace;

typedef struct kilni_rpc_session {
    const kiln_env *env;
    const kilni_rpc_session_options *options;
    kiln_device *device;
    const kilni_rpc_dtypes *dtypes; ///< the server's, of the device
    kilni_rpc_party *party; ///< held
    kilni_rpc_lane *lane; ///< of the party, at the device
    kilni_rpc_pace pace;
    char client[64]; ///< what it calls itself
    uint64_t operations; ///< that it has recorded
    uint64_t begun_ns;
    kilni_rpc_link link;
    uint64_t id;
    unsigned char token[KILNI_RPC_TOKEN];
    kilni_rpc_digest caller; ///< of the party's name: whose uploads it finds again
    pthread_mutex_t memory_lock; ///< for these, and while bytes are copied from or to them
    kilni_rpc_memory memories[KILNI_RPC_MEMORIES]; ///< that the client shares
    uint64_t offered_graph; ///< to be kept when it comes with this digest; 0: none
    kilni_rpc_digest graph_digest;
    kiln_error failed; ///< the first failure that was not told yet
    uint64_t failed_frame; ///< and which frame it was
    uint64_t held_bytes;
    uint64_t held_buffers;
    uint64_t held_graphs;
    atomic_ullong exposed_bytes;
    kilni_rpc_entry *buckets[KILNI_RPC_BUCKETS];
    kilni_rpc_known_graph *graphs[KILNI_RPC_BUCKETS];
    kilni_rpc_entry *shadowed; ///< the one buffer that has a shadow
    kilni_rpc_staging *spare; ///< kept for the next one
    kilni_rpc_staging *lent; ///< no buffer's any more, but still being sent
    uint64_t run_bytes; ///< of the results of the graph being recorded
    kilni_rpc_value values[KILNI_RPC_VALUES]; ///< of the graph being recorded
    uint32_t n_values;
    uint32_t value_heads[KILNI_RPC_BUCKETS];
    // The server's table of sessions, under its lock.
    struct kilni_rpc_session *next;
    bool attached; ///< a thread serves it
    bool paused; ///< that thread waits for the client to come back
    bool wanted; ///< the client is back
    bool dropped; ///< nobody waits for the client any more
    kilni_rpc_stream *active; ///< over which
    uint64_t expires_ns; ///< while nobody does, or while it is paused
} kilni_rpc_session;

// ---- rpc_session.c ----

/// A session of `party` with an id and a token. `*out_session` is the caller's
/// (kilni_rpc_session_destroy). Errors: RESOURCE_EXHAUSTED, UNAVAILABLE, NOT_FOUND (the device),
/// PERMISSION_DENIED.
kiln_status kilni_rpc_session_create(const kiln_env *env, const kilni_rpc_session_options *options,
                                     kilni_rpc_party *party, const kiln_v1_Hello *hello,
                                     kilni_rpc_session **out_session, kiln_error *err);

/// Frees everything of the session; a stream that is left is closed with `status`.
void kilni_rpc_session_destroy(kilni_rpc_session *session, const kiln_error *status);

/// What this protocol has beyond its first version and the server offers, by name, from 0; NULL
/// past the last.
const char *kilni_rpc_session_feature(const kilni_rpc_session_options *options, size_t index);

/// Answers Hello and serves `stream`, which the link takes, until the client goes, breaks the
/// rules, or the connection ends. Gives true when the session may be resumed; otherwise `out_error`
/// says how it ended. The stream stays open. On the session's own thread.
bool kilni_rpc_session_serve(kilni_rpc_session *session, kilni_rpc_stream *stream,
                             const kilni_rpc_frame *hello, kiln_error *out_error);

// ---- rpc_handle.c ----

/// Does what a frame of the client says. Errors: those that end the session; others are told with
/// the next answer.
kiln_status kilni_rpc_session_handle(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                     kiln_error *err);

/// Gives it memory of its client, when the token is its own and it has none of this number; takes
/// it on success. Without memory it lets go of all that it has. Gives what is answered
/// (KILNI_RPC_MEMORY_..). Under the server's lock.
char kilni_rpc_session_share(kilni_rpc_session *session, const kilni_rpc_memory_hello *hello,
                             const kilni_rpc_memory *memory);

/// Lets go of all of it. Under the lock of memory, or when nobody else has the session.
void kilni_rpc_session_unshare(kilni_rpc_session *session);

// ---- rpc_buffers.c ----

kilni_rpc_entry **kilni_rpc_entry_find(kilni_rpc_session *session, uint64_t id);

/// The buffer, when there is one and what should have filled it did not fail. Errors: NOT_FOUND,
/// that failure.
kiln_status kilni_rpc_entry_need(kilni_rpc_session *session, uint64_t id,
                                 kilni_rpc_entry **out_entry, kiln_error *err);

/// The entry of `id`, made when there is none, now with `bytes` and nothing in it.
kiln_status kilni_rpc_entry_renew(kilni_rpc_session *session, uint64_t id, uint64_t bytes,
                                  kilni_rpc_entry **out_entry, kiln_error *err);
void kilni_rpc_entry_remove(kilni_rpc_session *session, uint64_t id);
void kilni_rpc_entry_remove_all(kilni_rpc_session *session);

/// Empties the buffer for good: whoever uses it is told `cause`, until it is filled anew. Without
/// memory for that there is no such buffer any more.
void kilni_rpc_entry_fail(kilni_rpc_session *session, uint64_t id, const kiln_error *cause);

/// Makes all of the raw bytes there. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_entry_stage(kilni_rpc_session *session, kilni_rpc_entry *entry,
                                  kiln_error *err);

/// Puts the data of a Write where it says.
kiln_status kilni_rpc_entry_write(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                  kiln_error *err);

/// All bytes of a buffer on the host; with `again` more of them will be asked for. The entry's, or
/// when `*out_owned` the caller's (kilni_rpc_staging_release).
kiln_status kilni_rpc_entry_bytes(kilni_rpc_session *session, kilni_rpc_entry *entry, bool again,
                                  kilni_rpc_staging **out_staging, bool *out_owned,
                                  kiln_error *err);

kilni_rpc_staging *kilni_rpc_staging_new(kilni_rpc_session *session, size_t bytes);

/// Memory for a buffer's raw bytes, counted with those of all sessions until its release. Errors:
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_staging_raw(kilni_rpc_session *session, uint64_t bytes,
                                  kilni_rpc_staging **out_staging, kiln_error *err);

/// Raw bytes that are a mapping of a file; they take it on success. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_staging_adopt(kilni_rpc_session *session, const kilni_rpc_mapped *mapped,
                                    kilni_rpc_staging **out_staging, kiln_error *err);
void kilni_rpc_staging_release(kilni_rpc_session *session, kilni_rpc_staging *staging);

/// Whether somebody still sends the bytes.
bool kilni_rpc_staging_is_lent(const kilni_rpc_staging *staging);
void kilni_rpc_staging_free(const kiln_env *env, kilni_rpc_staging *staging);

/// Whether the session, and all of its party together, may hold `more` bytes, exposed ones counted.
kiln_status kilni_rpc_session_charge(kilni_rpc_session *session, uint64_t more, kiln_error *err);

/// Counts bytes that it holds from now on, or no more.
void kilni_rpc_session_hold(kilni_rpc_session *session, uint64_t bytes);
void kilni_rpc_session_let_go(kilni_rpc_session *session, uint64_t bytes);

// ---- rpc_run.c ----

/// Runs a graph: that of the frame, or one that is known. Gives the first failure.
kiln_status kilni_rpc_run(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                          kiln_error *err);

// ---- rpc_graphs.c ----

/// The graph that the frame carries or names, which `*out_known` keeps, or NULL: it is the caller's
/// (kiln_ir_graph_destroy). Both NULL: the frame has none. Errors: NOT_FOUND, INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_graph_get(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_ir_graph **out_graph, kilni_rpc_known_graph **out_known,
                                kiln_error *err);

/// Notes a Run. Whether it is to be replayed; it may have to be captured first.
bool kilni_rpc_graph_is_replayed(kilni_rpc_replay *replay, const kiln_v1_Run *run);

/// Whether the Run frees this buffer, so that nothing is kept in it.
bool kilni_rpc_is_freed(const kiln_v1_Run *run, uint64_t buffer);

/// Counts what it needs beside the graph to be replayed. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_graph_charge_replay(kilni_rpc_session *session, kilni_rpc_known_graph *known,
                                          kiln_error *err);

/// Keeps a graph from the wire under its number. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_graph_learn(kilni_rpc_session *session, uint64_t id, const void *bytes,
                                  size_t length, kiln_error *err);
void kilni_rpc_graph_forget(kilni_rpc_session *session, uint64_t id);
void kilni_rpc_graph_forget_all(kilni_rpc_session *session);

// ---- rpc_offer.c ----

/// Fills a buffer, or makes a graph known, from what the same caller has uploaded before. Errors:
/// NOT_FOUND (it has not: the client uploads it, and it is kept), INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_offer(kilni_rpc_session *session, const kiln_v1_Offer *offer,
                            kiln_error *err);

/// After a Write, and after a Run with a graph: keeps what was offered and has come. Errors:
/// INVALID_ARGUMENT: it has another digest; nothing is kept, and the buffer has failed.
kiln_status kilni_rpc_offer_written(kilni_rpc_session *session, uint64_t buffer, kiln_error *err);
kiln_status kilni_rpc_offer_ran(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err);

#endif
