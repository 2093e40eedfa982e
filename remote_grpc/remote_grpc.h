// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REMOTE_GRPC_H
#define KILN_REMOTE_GRPC_H

/// remote_grpc: devices on another machine. The server offers devices of its own; the client is a
/// backend, so a program uses "grpc://host:port/0" like any other device. Built on gRPC's C core;
/// no type of gRPC or protobuf leaves the folder. Lives in libkiln_remote.so, which libkiln opens
/// at the first such address, and in libkiln_client.so, which is Kiln without devices of its own.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; texts that it returns live as long as the process, those of a server as long as it; it can
/// fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln.h"
#include "remote_events.h"
#include "remote_models.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens "grpc://HOST:PORT/DEVICE": a session with the server there. Port and device may be left
/// out (3000, 0). The options remote-... say who the client is and how long it tries. Errors of its
/// `open`: UNAVAILABLE (nobody answers), FAILED_PRECONDITION (another protocol), DEADLINE_EXCEEDED,
/// UNAUTHENTICATED, NOT_FOUND (the device).
KILN_API const struct kiln_backend_provider *kiln_rpc_provider(void);

/// Opens "grpcs://HOST:PORT/DEVICE": the same over TLS.
KILN_API const struct kiln_backend_provider *kiln_rpc_tls_provider(void);

/// Opens "unix:PATH#DEVICE": the same over a socket of this machine. PATH is the file's name, in
/// which nothing is decoded.
KILN_API const struct kiln_backend_provider *kiln_rpc_unix_provider(void);

// ---- addresses: one number for each, in this process ----

/// The number of an address, given at its first sight: equal addresses, however they are written,
/// have one number. "grpc:" has one of its own: what it opens is the option remote-address's.
KILN_NODISCARD KILN_API kiln_status kiln_rpc_address_id(const char *address, uint32_t *out_id,
                                                        kiln_error *err);

/// The canonical text of an address with this number; NULL for a number that was not given, such as
/// UINT32_MAX.
KILN_API const char *kiln_rpc_address_of(uint32_t id);

/// The number of an address with the type of the device (KILN_DEVICE_REMOTE) in the upper half.
KILN_NODISCARD KILN_API kiln_status kiln_rpc_device_id(const char *address, uint64_t *out_device_id,
                                                       kiln_error *err);

/// The canonical text for such a number. Errors: INVALID_ARGUMENT for another type, NOT_FOUND for a
/// number that was not given.
KILN_NODISCARD KILN_API kiln_status kiln_rpc_device_address(uint64_t device_id,
                                                            const char **out_address,
                                                            kiln_error *err);

// ---- what a server has ----

typedef struct kiln_rpc_listing kiln_rpc_listing;

typedef struct kiln_rpc_listed_device {
    const char *address; ///< that opens it
    const char *name;
    const char *driver;
    kiln_device_type type;
    uint64_t memory_bytes;
    uint64_t storage_dtypes; ///< bit n: the dtype with number n
    uint64_t arithmetic_dtypes;
    uint64_t accelerated_dtypes;
} kiln_rpc_listed_device;

typedef struct kiln_rpc_listed_model { ///< a version of a model
    const char *name;
    const char *version;
    const char *state; ///< such as "READY"
    const char *reason; ///< why it is not
} kiln_rpc_listed_model;

/// Asks the server at an address, whatever device it names, for its devices and models; opens no
/// session. The options remote-... say who asks. `*out_listing`, with all texts in it, is the
/// caller's (kiln_rpc_listing_destroy); `context` outlives it. Errors: as those of opening a
/// device.
KILN_NODISCARD KILN_API kiln_status kiln_rpc_listing_create(kiln_context *context,
                                                            const char *address,
                                                            kiln_rpc_listing **out_listing,
                                                            kiln_error *err);

/// Frees a listing. Takes NULL.
KILN_API void kiln_rpc_listing_destroy(kiln_rpc_listing *listing);

/// Name and version of the server.
KILN_API const char *kiln_rpc_listing_server(const kiln_rpc_listing *listing);

/// Its devices, from 0; NULL past the last.
KILN_API const kiln_rpc_listed_device *kiln_rpc_listing_device(const kiln_rpc_listing *listing,
                                                               size_t index);

/// The versions of its models, from 0; NULL past the last, and where it has none.
KILN_API const kiln_rpc_listed_model *kiln_rpc_listing_model(const kiln_rpc_listing *listing,
                                                             size_t index);

// ---- servers ----

typedef struct kiln_rpc_server kiln_rpc_server;

typedef struct kiln_rpc_server_options {
    uint32_t struct_size;
    uint32_t max_sessions; ///< 0: 64
    const char *const *listen; ///< HOST:PORT or unix:PATH; NULL: 127.0.0.1 with a free port
    uint32_t n_listen;
    uint32_t max_buffers; ///< of one session; 0: 65536
    uint64_t max_bytes; ///< held by one session; 0: half of the device's memory
    uint32_t max_graphs; ///< known to one session; 0: 1024
    uint32_t resume_seconds; ///< a session is kept without its connection; 0: 60
    const char *tls_cert; ///< files in PEM: HOST:PORT speaks TLS
    const char *tls_key;
    const char *client_ca; ///< clients must have a certificate that it signed
    const char *token_file; ///< clients must have one of its lines as their token
    const char *advertise; ///< where other servers reach this one; NULL: where its clients do
    const char *const *fetch_peers; ///< addresses of servers that this one may fetch tensors from
    uint32_t n_fetch_peers;
    uint32_t allow_public; ///< 1: listen beyond loopback without TLS or without knowing the clients
    const kiln_models *models; ///< offered too; borrowed, it outlives the server; NULL: none
    uint64_t max_request_bytes; ///< of a request to a model; 0: 64 MiB
    uint64_t max_raw_bytes; ///< written by all sessions and not used yet; 0: as max_bytes' default
    const char *access_file; ///< what each identity may use, docs/serving.md; NULL: all of them all
    const int *listen_fds; ///< sockets that listen already, of this machine; the caller's
    uint32_t n_listen_fds; ///< with some and without `listen`, nothing else is listened at
    kiln_rpc_event_fn event; ///< is told what happens; NULL: nobody
    void *event_user;
    uint32_t last; ///< 1: the process ends soon after the server, which then leaves gRPC running:
                   ///< gRPC's own end may wait ten seconds for a thread of its
} kiln_rpc_server_options;

#define KILN_RPC_SERVER_OPTIONS_INIT                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_rpc_server_options)                                   \
    }

/// Listens and serves sessions on threads of its own until it is destroyed. Beyond loopback it
/// listens only with TLS and either client certificates or tokens, unless `allow_public` is set.
/// `*out_server` is the caller's (kiln_rpc_server_destroy); the devices, all of one context, are
/// held. Errors: also PERMISSION_DENIED (not loopback), UNAVAILABLE (the address is taken),
/// NOT_FOUND (a file).
KILN_NODISCARD KILN_API kiln_status kiln_rpc_server_create(kiln_device *const *devices,
                                                           uint32_t n_devices,
                                                           const kiln_rpc_server_options *options,
                                                           kiln_rpc_server **out_server,
                                                           kiln_error *err);

/// A call that comes in by another way than gRPC, such as HTTP, and whose it is.
typedef struct kiln_rpc_caller kiln_rpc_caller;

/// Lets a call in that shows this `authorization` text (NULL: none) and a client's certificate of
/// this name (NULL: none). Who it is and what it may use is decided as for gRPC. `*out_caller` is
/// the caller's (kiln_rpc_caller_end), before the server ends. Errors: also UNAUTHENTICATED,
/// PERMISSION_DENIED.
KILN_NODISCARD KILN_API kiln_status kiln_rpc_server_admit(kiln_rpc_server *server,
                                                          const char *authorization,
                                                          const char *certificate,
                                                          kiln_rpc_caller **out_caller,
                                                          kiln_error *err);

/// The server's models as this caller may use them. They live as long as the caller.
KILN_API const kiln_models *kiln_rpc_caller_models(const kiln_rpc_caller *caller);

/// Who it is: the name of its identity.
KILN_API const char *kiln_rpc_caller_name(const kiln_rpc_caller *caller);

/// The call has been answered. Takes NULL.
KILN_API void kiln_rpc_caller_end(kiln_rpc_caller *caller);

/// Tells health checks that it is going, takes no new sessions, and waits at most `timeout_ms`
/// until the clients of those that run are gone and models have answered. Gives whether they are.
/// One thread at a time.
KILN_API bool kiln_rpc_server_drain(kiln_rpc_server *server, uint32_t timeout_ms);

/// Ends all sessions and waits for their threads. Takes NULL. Not from a callback.
KILN_API void kiln_rpc_server_destroy(kiln_rpc_server *server);

/// The address that a client opens, such as "grpc://127.0.0.1:40123", for each that is listened at,
/// from 0; NULL past the last.
KILN_API const char *kiln_rpc_server_address(const kiln_rpc_server *server, uint32_t index);

typedef struct kiln_rpc_server_stats {
    uint32_t struct_size;
    uint32_t sessions; ///< now, those without a connection too
    uint32_t detached; ///< of them: without a connection
    uint32_t resumed; ///< since the start
    uint64_t opened; ///< since the start
    uint64_t calls; ///< that are being answered, sessions too
    uint64_t served; ///< calls, since the start
    uint64_t refused; ///< of them
    uint64_t held_bytes; ///< by all sessions
    uint64_t raw_bytes; ///< of them: written and not used yet
    uint64_t operations; ///< of sessions, since the start
} kiln_rpc_server_stats;

/// Counts of sessions and calls.
KILN_API void kiln_rpc_server_stats_get(kiln_rpc_server *server, kiln_rpc_server_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
