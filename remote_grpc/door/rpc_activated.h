// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_ACTIVATED_H
#define KILN_RPC_ACTIVATED_H

/// Sockets that somebody else has bound and listens at for us, such as systemd: gRPC's core takes
/// only connections, so they are accepted here. They speak no TLS.

#include "base.h"

struct grpc_server;

typedef struct kilni_rpc_activated kilni_rpc_activated;

/// The socket's own address: "unix:PATH" or "HOST:PORT". Errors: INVALID_ARGUMENT (no listening
/// socket of a stream).
kiln_status kilni_rpc_activated_name(int fd, char *out_text, size_t size, kiln_error *err);

/// Accepts connections on a thread of its own until it is stopped. The descriptor stays the
/// caller's. `*out_activated` is the caller's (stop). Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_activated_start(const kiln_env *env, struct grpc_server *server, int fd,
                                      kilni_rpc_activated **out_activated, kiln_error *err);
void kilni_rpc_activated_stop(kilni_rpc_activated *activated);

#endif
