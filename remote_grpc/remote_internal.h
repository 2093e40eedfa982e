// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_INTERNAL_H
#define KILN_REMOTE_INTERNAL_H

/// What client and server share: addresses, limits, messages, frames, blocking streams, and links
/// that survive a broken connection. gRPC's types stay in rpc_stream.c, rpc_channel.c and
/// rpc_listener.c, which define the opaque ones.

#include "ir.h"
#include "remote_grpc.h"

#include <kiln/v1/kiln.pb.h>
#include <stdatomic.h>

enum {
    KILNI_RPC_VERSION = 1,
    KILNI_RPC_PORT = 3000, ///< where an address names none
    KILNI_RPC_CHUNK = 1 << 20, ///< bytes of data in one frame
    KILNI_RPC_MAX_MESSAGE = 3 << 20, ///< bytes of a whole message
    KILNI_RPC_BINDINGS = 128, ///< as in kiln.options
    KILNI_RPC_BATCH = 64, ///< operations sent together
    KILNI_RPC_TOKEN = 32, ///< bytes of a session's token and of a transfer's secret
    KILNI_RPC_WINDOW_BYTES = 32 << 20, ///< sent without an ack
    KILNI_RPC_WINDOW_FRAMES = 1024,
    KILNI_RPC_UNTAKEN_BYTES = 64 << 20, ///< of answers without an ack, when a frame is taken
    KILNI_RPC_TELL_BYTES = 512 << 10, ///< that arrive are acknowledged at once
    KILNI_RPC_GREETING_MS = 5000 ///< for connecting, and for Hello and Welcome
};

#define KILNI_RPC_SESSION "/kiln.v1.Compute/Session"
#define KILNI_RPC_INFO "/kiln.v1.Compute/Info"
#define KILNI_RPC_FETCH "/kiln.v1.Compute/Fetch"

// ---- addresses (rpc_address.c) ----

typedef struct kilni_rpc_address {
    char scheme[8]; ///< "grpc", "grpcs" or "unix"
    char host[256]; ///< lower case, IPv6 without brackets; of unix: the path
    uint16_t port;
    uint32_t device;
    char target[288]; ///< as gRPC dials it: HOST:PORT or unix:PATH
    char text[320]; ///< canonical, with the device
} kilni_rpc_address;

/// Parses "grpc://HOST[:PORT][/DEVICE]", "grpcs://..." and "unix:PATH[#DEVICE]"; the bare schemes
/// "grpc:" and "grpcs:" take `fallback`, or the default port of this machine.
/// Ownership: the caller's struct. Lifetime: n/a. Thread: any. Errors: INVALID_ARGUMENT.
kiln_status kilni_rpc_address_parse(const char *text, kilni_rpc_address *out_address,
                                    kiln_error *err);
bool kilni_rpc_address_is_tls(const kilni_rpc_address *address);

/// Fills `bytes` from the system's source of randomness. Errors: UNAVAILABLE.
kiln_status kilni_rpc_random(void *bytes, size_t length, kiln_error *err);

/// A number for a transfer, never given twice in this process. Errors: as random.
kiln_status kilni_rpc_transfer_id(uint64_t *out_id, kiln_error *err);

/// Whether two secrets are equal, in a time that does not depend on where they differ.
bool kilni_rpc_same_secret(const void *a, const void *b, size_t length);

/// A whole file as a terminated text. Ownership: through kiln_free. Errors: NOT_FOUND,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_read_file(const kiln_env *env, const char *path, char **out_text,
                                kiln_error *err);

// ---- limits (rpc_limits.c: plain arithmetic) ----

typedef struct kilni_rpc_limits {
    uint64_t max_bytes;
    uint64_t max_buffers;
    uint64_t max_data_bytes;
    uint64_t max_graphs;
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

// ---- frames (rpc_frame.c) ----

/// A frame with its two long fields apart. Decoded: they point into the message, except data that
/// came in pieces, which only kilni_rpc_frame_data reads.
typedef struct kilni_rpc_frame {
    kiln_v1_Frame body; ///< the callbacks of graph and data are set by encode and decode
    const void *graph;
    size_t graph_length;
    const void *data; ///< NULL when it is in pieces
    size_t data_length;
    kilni_rpc_hold *hold; ///< to be sent: data stays where it is until this is released
    const kilni_rpc_message *pieces; ///< arrived: where the data are
    size_t data_offset;
} kilni_rpc_frame;

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

/// A message of `body` and, behind it, field 15 with `data`; those of some length stay where they
/// are when there is a hold. NULL: no memory.
kilni_rpc_parcel *kilni_rpc_parcel_new(const kiln_env *env, const void *body, size_t body_length,
                                       const void *data, size_t data_length, kilni_rpc_hold *hold);

/// Ownership: `*out_parcel` goes back through kilni_rpc_parcel_free; it counts in the frame's hold.
/// Lifetime: until freed. Thread: any. Errors: RESOURCE_EXHAUSTED; INTERNAL for a frame that does
/// not fit its schema.
kiln_status kilni_rpc_frame_encode(const kiln_env *env, kilni_rpc_frame *frame,
                                   kilni_rpc_parcel **out_parcel, kiln_error *err);
void kilni_rpc_parcel_free(const kiln_env *env, kilni_rpc_parcel *parcel);

/// Ownership: `*out_frame` points into `message`. Lifetime: the message's. Thread: any. Errors:
/// INVALID_ARGUMENT.
kiln_status kilni_rpc_frame_decode(const void *message, size_t length, kilni_rpc_frame *out_frame,
                                   kiln_error *err);

/// Copies the data of a frame that arrived, `data_length` bytes.
void kilni_rpc_frame_data(const kilni_rpc_frame *frame, void *out_bytes);

/// A message cut before the data of its field 15, when that is the last one.
typedef struct kilni_rpc_parts {
    const void *head;
    size_t head_length;
    size_t data_offset; ///< the message's length: all of it is head
} kilni_rpc_parts;

/// Errors: RESOURCE_EXHAUSTED. Ownership: `*out_flat`, when set, goes back through kiln_free.
kiln_status kilni_rpc_split(const kiln_env *env, const kilni_rpc_message *message, char **out_flat,
                            kilni_rpc_parts *out_parts, kiln_error *err);

/// A frame that arrived, with what it points into. Zeroed: none.
typedef struct kilni_rpc_inbox {
    kilni_rpc_message message;
    char *flat; ///< the head, when it came in pieces
    kilni_rpc_frame frame;
} kilni_rpc_inbox;

/// Decodes `inbox->message`. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_inbox_decode(const kiln_env *env, kilni_rpc_inbox *inbox, kiln_error *err);
void kilni_rpc_inbox_clear(const kiln_env *env, kilni_rpc_inbox *inbox);

// ---- blocking streams (rpc_stream.c, rpc_channel.c, rpc_listener.c) ----

typedef struct kilni_rpc_stream kilni_rpc_stream;
typedef struct kilni_rpc_listener kilni_rpc_listener;

/// Who one is and whom one trusts: PEM texts and a token; NULL: none.
typedef struct kilni_rpc_identity {
    char *authorities;
    char *certificate;
    char *key;
    char *token;
} kilni_rpc_identity;

/// The identity that the knobs remote-ca, remote-cert, remote-key and remote-token-file name.
kiln_status kilni_rpc_identity_load(const kiln_env *env, kilni_rpc_identity *out_identity,
                                    kiln_error *err);
void kilni_rpc_identity_fini(const kiln_env *env, kilni_rpc_identity *identity);

/// Connects and starts a call of `method`; waits at most `timeout_ms` for the server.
/// Ownership: `*out_stream` is the caller's (kilni_rpc_stream_close). Lifetime: until closed.
/// Thread: one at a time. Errors: UNAVAILABLE, DEADLINE_EXCEEDED, PERMISSION_DENIED (a token is not
/// sent in the clear).
kiln_status kilni_rpc_connect(const kiln_env *env, const kilni_rpc_address *address,
                              const kilni_rpc_identity *identity, const char *method,
                              int64_t timeout_ms, kilni_rpc_stream **out_stream, kiln_error *err);

/// Sends one message; returns when gRPC has taken it. Ownership: the head is copied, held data are
/// counted in their hold. Lifetime: n/a. Thread: one at a time. Errors: UNAVAILABLE with the cause,
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_send(kilni_rpc_stream *stream, const kilni_rpc_parcel *parcel,
                           kiln_error *err);
kiln_status kilni_rpc_send_bytes(kilni_rpc_stream *stream, const void *bytes, size_t length,
                                 kiln_error *err);

/// Waits for the next message, below 0 as long as the connection stands; `*out_end` true when the
/// other side has finished. Ownership: a received one goes back through kilni_rpc_message_free.
/// Lifetime: n/a. Thread: one at a time. Errors: DEADLINE_EXCEEDED (the stream goes on),
/// UNAVAILABLE with the cause.
kiln_status kilni_rpc_receive(kilni_rpc_stream *stream, int64_t timeout_ms,
                              kilni_rpc_message *out_message, bool *out_end, kiln_error *err);

/// Nothing more will be sent by this client.
void kilni_rpc_finish_sending(kilni_rpc_stream *stream);

/// Ends the call from any thread: sending and receiving fail from now on.
void kilni_rpc_cancel(kilni_rpc_stream *stream);

/// Whether a batch has failed: nothing more can be sent or received.
bool kilni_rpc_is_broken(const kilni_rpc_stream *stream);

/// Waits at most `timeout_ms` for the end of a call that a server accepted: the client cancelled it
/// or is gone.
bool kilni_rpc_is_ended(kilni_rpc_stream *stream, int64_t timeout_ms);

/// Of a call that a server accepted. Ownership: borrowed. Lifetime: the stream's. Thread: one at a
/// time.
const char *kilni_rpc_method(const kilni_rpc_stream *stream);

/// Ends the call politely: half-close by a client, status by a server.
void kilni_rpc_stream_close(kilni_rpc_stream *stream, const kiln_error *status);

typedef struct kilni_rpc_listen_options {
    const char *const *addresses; ///< HOST:PORT or unix:PATH
    size_t n_addresses;
    const kilni_rpc_identity *identity; ///< with a certificate: TLS, but for unix
    int *out_ports; ///< what was bound; 0 for a socket file
} kilni_rpc_listen_options;

kiln_status kilni_rpc_listen(const kiln_env *env, const kilni_rpc_listen_options *options,
                             kilni_rpc_listener **out_listener, kiln_error *err);

/// Those who connect from now on are shown this certificate and measured by these authorities; what
/// cannot be used is not, and the one before stays. Without TLS: nothing. Ownership: copied.
/// Lifetime: n/a. Thread: any. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_listener_renew(kilni_rpc_listener *listener,
                                     const kilni_rpc_identity *identity, kiln_error *err);

/// Waits for the next call; NULL when the listener was shut down, and only then: a call that could
/// not be accepted is logged.
kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener);

/// Whether the call carries `authorization: Bearer` with one of the lines of `tokens`.
bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens);

/// `stop` takes no more calls, and makes accept give NULL; `shutdown` also cancels those that run.
/// `close` after the streams are closed.
void kilni_rpc_listener_stop(kilni_rpc_listener *listener);
void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener);
void kilni_rpc_listener_close(kilni_rpc_listener *listener);

// ---- links: numbered frames over streams that may break (rpc_link.c) ----

typedef struct kilni_rpc_link {
    const kiln_env *env;
    kilni_rpc_stream *stream; ///< NULL: no connection
    bool resumable; ///< sent frames are kept until they are acknowledged
    bool cut; ///< the stream broke
    kiln_error why; ///< it was cut
    uint64_t sent; ///< frames numbered so far, from 1
    uint64_t acked; ///< of them: arrived
    uint64_t received; ///< frames of the other side
    uint64_t told; ///< of them: acknowledged
    uint64_t untold_bytes;
    uint64_t kept_bytes;
    kilni_rpc_parcel *kept; ///< in order
    kilni_rpc_parcel **kept_end;
} kilni_rpc_link;

void kilni_rpc_link_init(kilni_rpc_link *link, const kiln_env *env);

/// Lets go of what is kept and of the stream, which is closed with `status`.
void kilni_rpc_link_fini(kilni_rpc_link *link, const kiln_error *status);

/// Goes on over `stream`, which it takes, also on failure: frames above `arrived` are sent again.
/// Errors: INVALID_ARGUMENT for a number that cannot be; a broken stream shows as `cut`.
kiln_status kilni_rpc_link_attach(kilni_rpc_link *link, kilni_rpc_stream *stream, uint64_t arrived,
                                  kiln_error *err);

/// Closes the stream; what is kept stays.
void kilni_rpc_link_detach(kilni_rpc_link *link, const kiln_error *status);

/// Numbers the frame, keeps it when resumable, and passes it on. Errors: RESOURCE_EXHAUSTED,
/// INTERNAL; of a link that does not resume also a broken stream.
kiln_status kilni_rpc_link_send(kilni_rpc_link *link, kilni_rpc_frame *frame, kiln_error *err);

/// The next frame, which may be an acknowledgement and no more. Errors: as kilni_rpc_receive; with
/// `cut` set the connection is to blame, otherwise the other side.
kiln_status kilni_rpc_link_take(kilni_rpc_link *link, int64_t timeout_ms,
                                kilni_rpc_inbox *out_inbox, bool *out_end, bool *out_only_ack,
                                kiln_error *err);

/// The next frame that is more than an acknowledgement. Errors: as take.
kiln_status kilni_rpc_link_receive(kilni_rpc_link *link, int64_t timeout_ms,
                                   kilni_rpc_inbox *out_inbox, bool *out_end, kiln_error *err);

/// Sends or receives one message beside the numbering: Hello and Welcome.
kiln_status kilni_rpc_greet(const kiln_env *env, kilni_rpc_stream *stream, kilni_rpc_frame *frame,
                            kiln_error *err);
kiln_status kilni_rpc_greeted(const kiln_env *env, kilni_rpc_stream *stream,
                              kilni_rpc_inbox *out_inbox, kiln_error *err);

#endif
