// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_STREAM_H
#define KILN_RPC_STREAM_H

/// A call of gRPC as blocking send and receive. gRPC's types stay in rpc_stream.c, rpc_channel.c
/// and rpc_listener.c, which share rpc_grpc.h.

#include "rpc_address.h"
#include "rpc_identity.h"
#include "rpc_wire.h"

#include <stdatomic.h>

typedef struct kilni_rpc_stream kilni_rpc_stream;

// ---- messages that arrived ----

/// Bytes as gRPC delivered them, in pieces. Zeroed: none.
typedef struct kilni_rpc_message {
    void *buffer;
    size_t length;
} kilni_rpc_message;

void kilni_rpc_message_free(kilni_rpc_message *message);

/// A pointer to a range that lies in one piece, or NULL; `copy` takes any range. Both inside the
/// message.
const void *kilni_rpc_message_peek(const kilni_rpc_message *message, size_t offset, size_t length);
void kilni_rpc_message_copy(const kilni_rpc_message *message, size_t offset, size_t length,
                            void *out_bytes);

/// Counts the slices of gRPC that still point into memory of ours.
typedef struct kilni_rpc_hold {
    atomic_uint refs;
} kilni_rpc_hold;

/// Waits until nobody but the caller points there.
void kilni_rpc_hold_drain(kilni_rpc_hold *hold);

// ---- messages to be sent ----

/// One message to be sent: its head, and data that may stay where they are.
typedef struct kilni_rpc_parcel {
    struct kilni_rpc_parcel *next;
    uint64_t number; ///< of the frame in its session
    kilni_rpc_hold *hold; ///< NULL: data are in the head
    const void *data;
    size_t data_length;
    size_t head_length;
    char head[];
} kilni_rpc_parcel;

// ---- streams ----

/// Connects and starts a call of `method`; waits at most `timeout_ms` for the server. `*out_stream`
/// is the caller's (kilni_rpc_stream_close). One thread at a time. Errors: UNAVAILABLE,
/// DEADLINE_EXCEEDED, PERMISSION_DENIED (a token is not sent in the clear).
kiln_status kilni_rpc_connect(const kiln_env *env, const kilni_rpc_address *address,
                              const kilni_rpc_identity *identity, const char *method,
                              int64_t timeout_ms, kilni_rpc_stream **out_stream, kiln_error *err);

/// Sends one message; returns when gRPC has taken it. The head is copied, held data are counted in
/// their hold. One thread at a time. Errors: UNAVAILABLE with the cause, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_send(kilni_rpc_stream *stream, const kilni_rpc_parcel *parcel,
                           kiln_error *err);
kiln_status kilni_rpc_send_bytes(kilni_rpc_stream *stream, const void *bytes, size_t length,
                                 kiln_error *err);

/// Keeps the last message of a server: it leaves in one piece with the status when the stream is
/// closed, and not at all when that is a failure. The pieces are copied, behind each other. Once.
void kilni_rpc_send_last(kilni_rpc_stream *stream, const kilni_wire_piece *pieces, size_t count);

/// Begins to send a message, a server's, and does not wait; one at a time, as `is_sent` says. Gives
/// false when the call has ended.
bool kilni_rpc_send_later(kilni_rpc_stream *stream, const void *bytes, size_t length);
bool kilni_rpc_is_sent(kilni_rpc_stream *stream);

/// Waits for the next message, below 0 as long as the connection stands; `*out_end` true when the
/// other side has finished. A received one goes back through kilni_rpc_message_free. One thread at
/// a time. Errors: DEADLINE_EXCEEDED (the stream goes on), UNAVAILABLE with the cause.
kiln_status kilni_rpc_receive(kilni_rpc_stream *stream, int64_t timeout_ms,
                              kilni_rpc_message *out_message, bool *out_end, kiln_error *err);

/// For threads that wait beside the one that receives: `stand_by`, in turn with that one, says how
/// far the stream is and keeps it from closing, and must be followed by `await`, which returns when
/// something was there since, taken or not, or the call has ended; on any thread.
uint64_t kilni_rpc_stand_by(kilni_rpc_stream *stream);
void kilni_rpc_await(kilni_rpc_stream *stream, uint64_t seen);

/// Nothing more will be sent by this client.
void kilni_rpc_finish_sending(kilni_rpc_stream *stream);

/// Ends the call from any thread: sending and receiving fail from now on.
void kilni_rpc_cancel(kilni_rpc_stream *stream);

/// Whether a batch has failed: nothing more can be sent or received.
bool kilni_rpc_is_broken(const kilni_rpc_stream *stream);

/// Waits at most `timeout_ms` for the end of a call that a server accepted: the client cancelled it
/// or is gone.
bool kilni_rpc_is_ended(kilni_rpc_stream *stream, int64_t timeout_ms);

/// Ends the call politely: half-close by a client, status by a server.
void kilni_rpc_stream_close(kilni_rpc_stream *stream, const kiln_error *status);

#endif
