// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_CLIENT_H
#define KILN_RPC_CLIENT_H

/// A client's state and what its files do with it, from the top down: rpc_provider.c opens it,
/// rpc_client.c is the backend, rpc_pending.c asks and waits, rpc_dial.c keeps the session,
/// rpc_answers.c lists what is still to be answered. One thread at a time, under the lock, unless
/// said otherwise.

#include "rpc_batch.h"
#include "rpc_digest.h"
#include "rpc_link.h"
#include "rpc_memory.h"
#include "rpc_protocol.h"

#include <pthread.h>

struct kiln_buffer {
    uint64_t id;
    size_t bytes;
    uint64_t epoch; ///< the session that knows it; 0: none yet
    uint64_t born; ///< serial of the batch that makes it; 0: not by a batch
    kiln_host_origin origin; ///< of a constant: where its bytes are; NULL memory: nowhere
    bool written; ///< it was a constant, and has other bytes than its origin
    bool has_digest;
    kilni_rpc_digest digest; ///< of the bytes at the origin
    kiln_pending *offer; ///< on its way: whether the server has them
    bool listed; ///< among the client's `offered`
    kiln_buffer *next; ///< of the client's `unfreed`
};

typedef struct kilni_rpc_client kilni_rpc_client;

struct kiln_pending { ///< an answer on its way
    kilni_rpc_client *client;
    uint64_t request;
    char *target; ///< for its data; NULL: they are not wanted
    size_t length; ///< of them
    size_t at; ///< of them: there
    bool done;
    bool forgotten; ///< freed as soon as it is done
    bool shared; ///< the server writes to memory of a program: nobody may let go of it before
    kiln_error result;
    struct kiln_pending *next;
};

enum { KILNI_RPC_OFFERS = 128 }; ///< on their way at a time

struct kilni_rpc_client {
    kiln_backend base;
    const kiln_env *env;
    pthread_mutex_t lock; ///< for all below: whoever waits for an answer holds no other
    kilni_rpc_addresses servers;
    uint32_t server; ///< of them: the session's, or the next one's
    kilni_rpc_address address; ///< the session's
    kilni_rpc_identity identity;
    int64_t timeout_ms; ///< for coming back after the connection broke
    bool is_open; ///< there is a session
    uint64_t epoch; ///< counts sessions, from 1
    kiln_error lost; ///< how the last session ended
    kilni_rpc_link link;
    kilni_rpc_inbox *inbox;
    kilni_rpc_batch *batch;
    kiln_buffer *unfreed; ///< that the program has freed, and the server is still to be told of
    uint64_t next_buffer;
    uint64_t next_request;
    kiln_pending *pending;
    size_t n_pending;
    uint64_t awaited_bytes; ///< of their data
    kiln_device_info info;
    kiln_v1_Welcome welcome;
    bool transfers; ///< the server exposes and fetches
    bool keeps; ///< the server keeps weights for later sessions
    kiln_buffer *offered[KILNI_RPC_OFFERS]; ///< constants that the next Run may need
    size_t n_offered;
    bool takes_memory; ///< the server is of this machine and maps what this process offers
    bool offered_memory; ///< in this session
    kilni_rpc_memory slots; ///< that both map; none when it was refused
    kilni_rpc_memory memories[KILNI_RPC_MEMORIES]; ///< of host_alloc, from 1
    uint64_t shared_in[KILNI_RPC_MEMORIES]; ///< the epoch in which the server has mapped each
    bool sought; ///< the store below was opened, or cannot be
    kiln_store *digests; ///< of constants, by their stamps; NULL: none
    size_t chunk; ///< bytes of data that the server takes in one frame
    size_t told; ///< and bytes of shared memory that one tells of
    char name[160];
    kiln_backend_stats stats;
};

static inline kilni_rpc_client *kilni_rpc_client_of(kiln_backend *backend)
{
    return (kilni_rpc_client *)backend;
}

/// The tables of a client.
extern const kiln_backend kilni_rpc_client_backend;

/// Opens a session when there is none, at the first server that takes it. Errors: UNAVAILABLE,
/// FAILED_PRECONDITION (another protocol), DEADLINE_EXCEEDED.
kiln_status kilni_rpc_client_open(kilni_rpc_client *self, kiln_error *err);

/// Ends the session: its buffers hold nothing any more, and who uses them is told `message`. Gives
/// `code`.
kiln_status kilni_rpc_client_lose(kilni_rpc_client *self, kiln_status code, const char *message,
                                  kiln_error *err);

/// Sends in the session, coming back to it when the connection breaks. Errors: the session is lost;
/// RESOURCE_EXHAUSTED while it is open: nothing was sent, for want of memory.
kiln_status kilni_rpc_client_send(kilni_rpc_client *self, kilni_rpc_frame *frame, kiln_error *err);

/// Takes one frame of the server to where it belongs, coming back to the session when the
/// connection breaks; below 0 waits as long as that takes. Errors: DEADLINE_EXCEEDED: none came;
/// any other: the session is lost.
kiln_status kilni_rpc_client_take(kilni_rpc_client *self, int64_t timeout_ms, kiln_error *err);

/// Waits until the server has everything up to frame `number`. Errors: the session is lost.
kiln_status kilni_rpc_client_settle(kilni_rpc_client *self, uint64_t number, kiln_error *err);

/// Points no longer into memory of callers.
void kilni_rpc_client_drop_kept(kilni_rpc_client *self);

/// Closes the session and frees the client.
void kilni_rpc_client_end(kilni_rpc_client *self);

// ---- answers on their way: the list (rpc_answers.c) ----

/// Puts a frame where it belongs; false: nobody has asked for it.
bool kilni_rpc_pending_take(kilni_rpc_client *self, const kilni_rpc_frame *frame);
void kilni_rpc_pending_fail_all(kilni_rpc_client *self, const kiln_error *cause);

// ---- asking and waiting (rpc_pending.c) ----

/// Sends a frame that wants an answer, whose data go to `out_data`: `length` bytes. `*out_pending`
/// goes to `settle` or to `end`. Errors: the session is lost; RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_pending_begin(kilni_rpc_client *self, kilni_rpc_frame *frame, void *out_data,
                                    size_t length, kiln_pending **out_pending, kiln_error *err);

/// Waits, and gives what was answered. Errors: those of the server, under its codes.
kiln_status kilni_rpc_pending_settle(kilni_rpc_client *self, kiln_pending *pending,
                                     kiln_error *err);

/// read_poll, read_wait and read_end of the backend; these take the lock.
bool kilni_rpc_pending_poll(kiln_pending *pending);
void kilni_rpc_pending_wait(kiln_pending *pending, bool cancel);
kiln_status kilni_rpc_pending_end(kiln_backend *backend, kiln_pending *pending, kiln_error *err);

// ---- memory that both share (rpc_shared.c) ----

/// Whether so many bytes go that way; hands the memory over at the first time.
bool kilni_rpc_shares(kilni_rpc_client *self, size_t bytes);

/// Writes a part of a buffer, when `shares` says so. Errors: as of kilni_rpc_client_send.
kiln_status kilni_rpc_shared_write(kilni_rpc_client *self, const kiln_buffer *buffer, size_t offset,
                                   const void *source, size_t bytes, kiln_error *err);

/// Fills in where a read goes when `out_data` lies in memory of a program that the server maps:
/// then the answer carries no data. False: it does not.
bool kilni_rpc_shared_target(const kilni_rpc_client *self, const void *out_data, size_t bytes,
                             kiln_v1_Read *inout_read);

/// Memory of the host for a program; shared with the server where it can be, so that tensors go to
/// and from it without a copy of this process. Takes the lock.
kiln_status kilni_rpc_host_alloc(kiln_backend *backend, size_t bytes, void **out_memory,
                                 kiln_error *err);
void kilni_rpc_host_free(kiln_backend *backend, void *memory);

// ---- bytes for the server (rpc_upload.c) ----

/// Writes a part of a buffer in a session that is open. Large pieces are sent from where they are:
/// the server has them when this returns. Errors: as of kilni_rpc_client_send.
kiln_status kilni_rpc_upload(kilni_rpc_client *self, const kiln_buffer *buffer, size_t offset,
                             const void *source, size_t bytes, kiln_error *err);

/// Whether the buffer is a constant that this session's server does not have yet.
bool kilni_rpc_is_owed(const kilni_rpc_client *self, const kiln_buffer *buffer);

/// Offers a constant that is owed, and does not wait for the answer: `settle` does, and uploads
/// what the server has not. Until then no frame may use the buffer. Errors: as of
/// kilni_rpc_client_send; what could not be uploaded is settled by the next `settle`.
kiln_status kilni_rpc_offer_constant(kilni_rpc_client *self, kiln_buffer *buffer, kiln_error *err);
kiln_status kilni_rpc_settle_constants(kilni_rpc_client *self, kiln_error *err);

/// Offers the graph of a Run, which loses it when the server has it. Meanwhile constants are
/// settled. Errors: the session is lost, and the frame with it; or as of kilni_rpc_client_send.
kiln_status kilni_rpc_settle_run(kilni_rpc_client *self, kilni_rpc_frame *run, kiln_error *err);

// ---- what is gathered (rpc_gather.c) ----

/// Sends it, behind the constants that it uses. Errors: as of kilni_rpc_client_send; what was not
/// sent goes another time.
kiln_status kilni_rpc_gather_send(kilni_rpc_client *self, kiln_error *err);

/// The program has freed the buffer: the server is told with what is gathered, now or later.
void kilni_rpc_gather_free(kilni_rpc_client *self, kiln_buffer *take_buffer);

#endif
