// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_LISTENER_H
#define KILN_RPC_LISTENER_H

/// Listening, and the calls that come in. gRPC runs while somebody is connected.

#include "rpc_stream.h"

enum { KILNI_RPC_CALLER = 64 }; ///< bytes of a caller's name with its end

typedef struct kilni_rpc_listener kilni_rpc_listener;

typedef struct kilni_rpc_listen_options {
    const char *const *addresses; ///< HOST:PORT or unix:PATH
    size_t n_addresses;
    const int *fds; ///< sockets that listen already; without TLS
    size_t n_fds;
    const kilni_rpc_identity *identity; ///< with a certificate: TLS, but for unix
    uint64_t max_message; ///< bytes of one that is received, when more than a session's
    bool last; ///< gRPC is left running: the process ends soon after the listener
    uint32_t rest_ms; ///< gRPC is taken down when nobody has been there for so long; 0: 12 seconds
    int *out_ports; ///< what was bound; 0 for a socket file
} kilni_rpc_listen_options;

kiln_status kilni_rpc_listen(const kiln_env *env, const kilni_rpc_listen_options *options,
                             kilni_rpc_listener **out_listener, kiln_error *err);

/// Those who connect from now on are shown this certificate and measured by these authorities; what
/// cannot be used is not, and the one before stays. Without TLS: nothing. It is copied. Errors:
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_listener_renew(kilni_rpc_listener *listener,
                                     const kilni_rpc_identity *identity, kiln_error *err);

/// Waits for the next call, below 0 until there is one; NULL: the time is over, or the listener was
/// shut down. A call that could not be accepted is logged. Several threads at a time: gRPC keeps
/// one busy with a connection as long as it has something to read.
kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener, int64_t timeout_ms);

/// Answers the start of a call that was accepted; with `single`, the one message of whose client is
/// there already, the start leaves with the answer. It waits, as long as its connection is busy, so
/// it is for the call's own thread. False: nobody waits for the call any more; it is to be closed.
bool kilni_rpc_begin_call(kilni_rpc_listener *listener, kilni_rpc_stream *stream, bool single);

/// Ends a call that was accepted and not begun, and does not wait for it.
void kilni_rpc_drop_call(kilni_rpc_listener *listener, kilni_rpc_stream *stream);

/// Whether a text is `Bearer` with one of the tokens, one a line: TOKEN, or NAME TOKEN. `out_name`
/// is its name, or one that is made of the token and does not tell it.
bool kilni_rpc_is_token(const char *text, size_t length, const char *tokens,
                        char out_name[KILNI_RPC_CALLER]);

/// The same for what the call carries as `authorization`.
bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens,
                             char out_name[KILNI_RPC_CALLER]);

/// The common name of the client's certificate, or without one its first other name; false: it
/// showed none.
bool kilni_rpc_certificate_name(const kilni_rpc_stream *stream, char out_name[KILNI_RPC_CALLER]);

/// Metadata of a call, "" when there is none or it is too long; and where it comes from.
void kilni_rpc_header(const kilni_rpc_stream *stream, const char *key, char *out_text, size_t size);
void kilni_rpc_peer(const kilni_rpc_stream *stream, char *out_text, size_t size);

/// `stop` takes no more calls, and makes accept give NULL; `shutdown` also cancels those that run.
/// `close` after the streams are closed.
void kilni_rpc_listener_stop(kilni_rpc_listener *listener);
void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener);
void kilni_rpc_listener_close(kilni_rpc_listener *listener);

/// Of a call that a server accepted. One thread at a time.
const char *kilni_rpc_method(const kilni_rpc_stream *stream);

#endif
