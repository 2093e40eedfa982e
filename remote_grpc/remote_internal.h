// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_INTERNAL_H
#define KILN_REMOTE_INTERNAL_H

/// What client and server share: frames, limits and the blocking stream. gRPC's types stay in
/// rpc_stream.c, which defines the opaque ones.

#include "remote_grpc.h"

#include <kiln/v1/kiln.pb.h>

enum {
    KILNI_RPC_VERSION = 1,
    KILNI_RPC_CHUNK = 1 << 20, ///< bytes of data in one frame
    KILNI_RPC_MAX_MESSAGE = 3 << 20, ///< bytes of a whole message
    KILNI_RPC_BINDINGS = 128, ///< as in kiln.options
    KILNI_RPC_BATCH = 64 ///< operations sent together
};

// ---- frames
// --------------------------------------------------------------------------------------

/// A frame with its two long fields as bytes. Decoded: they point into the message.
typedef struct kilni_rpc_frame {
    kiln_v1_Frame body; ///< the callbacks of graph and data are set by encode and decode
    const void *graph;
    size_t graph_length;
    const void *data;
    size_t data_length;
} kilni_rpc_frame;

/// Ownership: `*out_message` goes back through kiln_free. Lifetime: until freed. Thread: any.
/// Errors: RESOURCE_EXHAUSTED; INTERNAL for a frame that does not fit its schema.
kiln_status kilni_rpc_frame_encode(const kiln_env *env, kilni_rpc_frame *frame,
                                   kiln_blob *out_message, kiln_error *err);

/// Ownership: `*out_frame` points into `message`. Lifetime: the message's. Thread: any. Errors:
/// INVALID_ARGUMENT.
kiln_status kilni_rpc_frame_decode(const void *message, size_t length, kilni_rpc_frame *out_frame,
                                   kiln_error *err);

// ---- limits (limits.c: plain arithmetic)
// -----------------------------------------------------------

typedef struct kilni_rpc_limits {
    uint64_t max_bytes;
    uint64_t max_buffers;
    uint64_t max_data_bytes;
} kilni_rpc_limits;

/// Whether [offset, offset + length) lies in `size`, without overflow.
kiln_status kilni_rpc_check_range(uint64_t offset, uint64_t length, uint64_t size, const char *what,
                                  kiln_error *err);

/// Whether a session that holds `held` bytes may hold `more`.
kiln_status kilni_rpc_check_bytes(const kilni_rpc_limits *limits, uint64_t held, uint64_t more,
                                  kiln_error *err);
kiln_status kilni_rpc_check_buffers(const kilni_rpc_limits *limits, uint64_t held, kiln_error *err);

/// Whether `address` (without scheme) stays on this machine: unix:, localhost, 127.x.y.z or [::1].
bool kilni_rpc_is_loopback(const char *address);

// ---- blocking streams (rpc_stream.c)
// -----------------------------------------------------------------

typedef struct kilni_rpc_stream kilni_rpc_stream;
typedef struct kilni_rpc_listener kilni_rpc_listener;

/// Connects and starts a session call; waits at most `timeout_ms` for the server.
/// Ownership: `*out_stream` is the caller's (kilni_rpc_stream_close). Lifetime: until closed.
/// Thread: one at a time. Errors: UNAVAILABLE, DEADLINE_EXCEEDED.
kiln_status kilni_rpc_connect(const kiln_env *env, const char *target, int64_t timeout_ms,
                              kilni_rpc_stream **out_stream, kiln_error *err);

/// Sends one message; returns when gRPC has taken it. `receive` waits for the next one, `*out_end`
/// true when the other side has finished. Ownership: messages are copied; a received one goes back
/// through kiln_free. Lifetime: n/a. Thread: one at a time. Errors: UNAVAILABLE with the cause,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_send(kilni_rpc_stream *stream, const void *message, size_t length,
                           kiln_error *err);
kiln_status kilni_rpc_receive(kilni_rpc_stream *stream, kiln_blob *out_message, bool *out_end,
                              kiln_error *err);

/// From now on sending and receiving fail with DEADLINE_EXCEEDED, and the session is over, when
/// they last until `timeout_ms` from now; below 0: they wait as long as the connection stands.
void kilni_rpc_set_deadline(kilni_rpc_stream *stream, int64_t timeout_ms);

/// Ends the call politely: half-close by a client, status by a server.
void kilni_rpc_stream_close(kilni_rpc_stream *stream, const kiln_error *status);

/// Listens at `address`; `out_port` is what was bound (0 for a socket file).
kiln_status kilni_rpc_listen(const kiln_env *env, const char *address,
                             kilni_rpc_listener **out_listener, int *out_port, kiln_error *err);

/// Waits for the next session; NULL when the listener was shut down, and only then: a session that
/// could not be accepted is logged.
kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener);

/// Makes accept give NULL and cancels running sessions. `close` after the streams are closed.
void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener);
void kilni_rpc_listener_close(kilni_rpc_listener *listener);

#endif
