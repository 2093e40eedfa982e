// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVE_LIBRARY_H
#define KILN_SERVE_LIBRARY_H

/// The library that serves, loaded when `kiln serve` is called: no other command pays for gRPC.

#include "remote_grpc.h"

/// The functions of remote_grpc.h that serve.
typedef struct serve_library {
    kiln_status (*create)(kiln_device *const *devices, uint32_t n_devices,
                          const kiln_rpc_server_options *options, kiln_rpc_server **out_server,
                          kiln_error *err);
    bool (*drain)(kiln_rpc_server *server, uint32_t timeout_ms);
    void (*destroy)(kiln_rpc_server *server);
    const char *(*address)(const kiln_rpc_server *server, uint32_t index);
    void (*stats)(kiln_rpc_server *server, kiln_rpc_server_stats *out_stats);
    kiln_status (*admit)(kiln_rpc_server *server, const char *authorization,
                         const char *certificate, kiln_rpc_caller **out_caller, kiln_error *err);
    const kiln_models *(*caller_models)(const kiln_rpc_caller *caller);
    const char *(*caller_name)(const kiln_rpc_caller *caller);
    void (*caller_end)(kiln_rpc_caller *caller);
} serve_library;

/// Errors: NOT_FOUND (built without gRPC), FAILED_PRECONDITION (of another version).
kiln_status serve_library_load(serve_library *out_library, kiln_error *err);

#endif
