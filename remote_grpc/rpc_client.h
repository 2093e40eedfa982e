// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_CLIENT_H
#define KILN_RPC_CLIENT_H

/// A client's state, shared by rpc_client.c, the backend, and rpc_dial.c, which keeps its session.

#include "rpc_batch.h"

struct kiln_buffer {
    uint64_t id;
    size_t bytes;
    uint64_t epoch; ///< the session that knows it; 0: none yet
    uint64_t born; ///< serial of the batch that makes it; 0: not by a batch
};

typedef struct kilni_rpc_client {
    kiln_backend base;
    const kiln_env *env;
    kilni_rpc_address address;
    kilni_rpc_identity identity;
    int64_t timeout_ms; ///< for coming back after the connection broke
    bool is_open; ///< there is a session
    uint64_t epoch; ///< counts sessions, from 1
    kiln_error lost; ///< how the last session ended
    kilni_rpc_link link;
    kilni_rpc_inbox *inbox;
    kilni_rpc_batch *batch;
    uint64_t next_buffer;
    uint64_t next_request;
    kiln_device_info info;
    kiln_v1_Welcome welcome;
    bool transfers; ///< the server exposes and fetches
    size_t chunk; ///< bytes of data that the server takes in one frame
    char name[160];
    kiln_backend_stats stats;
} kilni_rpc_client;

static inline kilni_rpc_client *kilni_rpc_client_of(kiln_backend *backend)
{
    return (kilni_rpc_client *)backend;
}

extern const kiln_backend_ops kilni_rpc_client_ops;

/// Opens a session when there is none. Errors: UNAVAILABLE, FAILED_PRECONDITION (another protocol),
/// DEADLINE_EXCEEDED.
kiln_status kilni_rpc_client_open(kilni_rpc_client *self, kiln_error *err);

/// Ends the session: its buffers hold nothing any more, and who uses them is told `message`. Gives
/// `code`.
kiln_status kilni_rpc_client_lose(kilni_rpc_client *self, kiln_status code, const char *message,
                                  kiln_error *err);

/// Sends in the session, coming back to it when the connection breaks. Errors: the session is lost.
kiln_status kilni_rpc_client_send(kilni_rpc_client *self, kilni_rpc_frame *frame, kiln_error *err);

/// The next frame of the server, in `inbox`. Errors: the session is lost.
kiln_status kilni_rpc_client_receive(kilni_rpc_client *self, kiln_error *err);

/// Waits until the server has everything up to frame `number`. Errors: the session is lost.
kiln_status kilni_rpc_client_settle(kilni_rpc_client *self, uint64_t number, kiln_error *err);

/// Points no longer into memory of callers.
void kilni_rpc_client_drop_kept(kilni_rpc_client *self);

/// Closes the session and frees the client.
void kilni_rpc_client_end(kilni_rpc_client *self);

#endif
