// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_LISTENER_H
#define KILN_RPC_LISTENER_H

/// Listening, and the calls that come in.

#include "rpc_digest.h"
#include "rpc_stream.h"

typedef struct kilni_rpc_listener kilni_rpc_listener;

typedef struct kilni_rpc_listen_options {
    const char *const *addresses; ///< HOST:PORT or unix:PATH
    size_t n_addresses;
    const kilni_rpc_identity *identity; ///< with a certificate: TLS, but for unix
    uint64_t max_message; ///< bytes of one that is received, when more than a session's
    int *out_ports; ///< what was bound; 0 for a socket file
} kilni_rpc_listen_options;

kiln_status kilni_rpc_listen(const kiln_env *env, const kilni_rpc_listen_options *options,
                             kilni_rpc_listener **out_listener, kiln_error *err);

/// Those who connect from now on are shown this certificate and measured by these authorities; what
/// cannot be used is not, and the one before stays. Without TLS: nothing. It is copied. Errors:
/// RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_listener_renew(kilni_rpc_listener *listener,
                                     const kilni_rpc_identity *identity, kiln_error *err);

/// Waits for the next call; NULL when the listener was shut down, and only then: a call that could
/// not be accepted is logged.
kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener);

/// Whether the call carries `authorization: Bearer` with one of the lines of `tokens`.
bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens);

/// Whether a text is `Bearer` with one of those lines.
bool kilni_rpc_is_token(const char *text, size_t length, const char *tokens);

/// Who calls: a digest of the token that is a line of `tokens` (NULL: none is asked for) and of the
/// certificate's names. All who show neither are one caller.
void kilni_rpc_caller(const kilni_rpc_stream *stream, const char *tokens,
                      kilni_rpc_digest *out_caller);

/// `stop` takes no more calls, and makes accept give NULL; `shutdown` also cancels those that run.
/// `close` after the streams are closed.
void kilni_rpc_listener_stop(kilni_rpc_listener *listener);
void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener);
void kilni_rpc_listener_close(kilni_rpc_listener *listener);

/// Of a call that a server accepted. One thread at a time.
const char *kilni_rpc_method(const kilni_rpc_stream *stream);

#endif
