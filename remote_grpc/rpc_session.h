// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SESSION_H
#define KILN_RPC_SESSION_H

/// One session on the server: its buffers and what each frame does to them.

#include "remote_internal.h"

typedef struct kilni_rpc_session kilni_rpc_session;

typedef struct kilni_rpc_session_options {
    kiln_device *device; ///< held by the server
    kilni_rpc_limits limits;
    uint64_t instance;
} kilni_rpc_session_options;

/// Serves `stream` until the client goes or breaks the rules, then closes it and frees everything
/// of the session. Ownership: takes the stream. Lifetime: n/a. Thread: the session's own. Errors:
/// told to the client.
void kilni_rpc_session_serve(const kiln_env *env, const kilni_rpc_session_options *options,
                             kilni_rpc_stream *stream);

#endif
