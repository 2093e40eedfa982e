// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SERVICES_H
#define KILN_RPC_SERVICES_H

/// The small services beside sessions: Info, health (grpc.health.v1) and reflection. Each takes its
/// stream and closes it.

#include "ir.h"
#include "kiln.h"
#include "rpc_stream.h"

void kilni_rpc_serve_info(const kiln_env *env, kiln_device *const *devices, uint32_t n_devices,
                          uint64_t instance, kilni_rpc_stream *stream);

/// `state` is a serving status of grpc.health.v1: 1 serving, 2 not serving. Watch ends when the
/// client goes or `*stop` is set.
void kilni_rpc_serve_check(const kiln_env *env, const atomic_int *state, kilni_rpc_stream *stream);
void kilni_rpc_serve_watch(const kiln_env *env, const atomic_int *state, const atomic_bool *stop,
                           kilni_rpc_stream *stream);

/// v1 and v1alpha, which have the same messages.
void kilni_rpc_serve_reflection(const kiln_env *env, kilni_rpc_stream *stream);

/// The FileDescriptorSet of all services, made by protoc and embedded by the build.
extern const unsigned char kilni_rpc_descriptors[];
extern const size_t kilni_rpc_descriptors_length;

#endif
