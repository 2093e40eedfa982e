// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SERVICES_H
#define KILN_RPC_SERVICES_H

/// The small services beside sessions: Info, health (grpc.health.v1) and reflection. Each takes its
/// stream and closes it.

#include "rpc_server.h"

/// What the party sees of the server.
void kilni_rpc_serve_info(kiln_rpc_server *server, kilni_rpc_party *party,
                          kilni_rpc_stream *stream);

/// `state` is a serving status of grpc.health.v1: 1 serving, 2 not serving.
void kilni_rpc_serve_check(const atomic_int *state, kilni_rpc_stream *stream);

/// The request of a call of health; the whole server and the one service are known.
kiln_status kilni_rpc_receive_service(kilni_rpc_stream *stream, bool *out_known, kiln_error *err);

/// v1 and v1alpha, which have the same messages.
void kilni_rpc_serve_reflection(const kiln_env *env, kilni_rpc_stream *stream);

/// The FileDescriptorSet of all services, made by protoc and embedded by the build.
extern const unsigned char kilni_rpc_descriptors[];
extern const size_t kilni_rpc_descriptors_length;

#endif
