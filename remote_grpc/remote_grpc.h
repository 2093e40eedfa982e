// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_GRPC_H
#define KILN_REMOTE_GRPC_H

/// remote_grpc: a device on another machine. The server offers one of its devices; the client is a
/// backend, so a program uses "grpc://host:port" like any other device. Built on gRPC's C core; no
/// type of gRPC or protobuf leaves the folder. Lives in libkiln_remote.so, which libkiln opens at
/// the first such address.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens "grpc://HOST:PORT" and "unix:PATH": a session with the server there.
/// Ownership: static storage. Lifetime: the process. Thread: any.
/// Errors: of open: UNAVAILABLE (nobody answers), FAILED_PRECONDITION (another protocol),
/// DEADLINE_EXCEEDED.
KILN_API const kiln_backend_provider *kiln_rpc_provider(void);
KILN_API const kiln_backend_provider *kiln_rpc_unix_provider(void);

typedef struct kiln_rpc_server kiln_rpc_server;

typedef struct kiln_rpc_server_options {
    uint32_t struct_size;
    uint32_t max_sessions; ///< 0: 8
    const char *address; ///< NULL: 127.0.0.1 with a free port; "unix:PATH" for a socket file
    uint64_t max_bytes; ///< held by one session; 0: half of the device's memory
    uint32_t
        allow_public; ///< 1: an address beyond loopback is allowed although nothing is encrypted
    uint32_t max_buffers; ///< of one session; 0: 65536
} kiln_rpc_server_options;

#define KILN_RPC_SERVER_OPTIONS_INIT                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_rpc_server_options)                                   \
    }

/// Listens and serves sessions on threads of its own until it is destroyed. Beyond loopback it
/// refuses to listen unless `allow_public` is set: anyone who reaches the port can use the device.
/// Ownership: `*out_server` is the caller's (kiln_rpc_server_destroy); the device is held.
/// Lifetime: until destroyed. Thread: any. Errors: INVALID_ARGUMENT, PERMISSION_DENIED (not
/// loopback), UNAVAILABLE (the address is taken).
KILN_NODISCARD KILN_API kiln_status kiln_rpc_server_create(kiln_device *device,
                                                           const kiln_rpc_server_options *options,
                                                           kiln_rpc_server **out_server,
                                                           kiln_error *err);

/// Ends all sessions and waits for their threads. Takes NULL.
/// Ownership: ends the caller's. Lifetime: n/a. Thread: not from a callback. Errors: none.
KILN_API void kiln_rpc_server_destroy(kiln_rpc_server *server);

/// The address that a client opens, such as "grpc://127.0.0.1:40123".
/// Ownership: borrowed. Lifetime: the server's. Thread: any. Errors: none.
KILN_API const char *kiln_rpc_server_address(const kiln_rpc_server *server);

#ifdef __cplusplus
}
#endif
#endif
