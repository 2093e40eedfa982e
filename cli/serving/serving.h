// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_H
#define KILN_SERVING_H

/// serving: models from a folder, with requests joined into batches. The folder is laid out as
/// Triton's: NAME/config.pbtxt (optional), NAME/VERSION/model.onnx. kiln_rpc_server answers with
/// them over gRPC; the same over HTTP is here. A model that cannot be served is listed with its
/// reason and changes nothing for the others.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; texts that it returns live as long as the object; it can fail with INVALID_ARGUMENT or
/// RESOURCE_EXHAUSTED.

#include "remote_grpc.h"

typedef struct kiln_serving kiln_serving;

typedef struct kiln_serving_options {
    const char *folder;
    uint32_t poll_seconds; ///< looks for changes so often; 0: models change when a client says so
    const char *const *load; ///< names that are loaded at the start; with none: all
    uint32_t n_load;
    bool load_nothing; ///< at the start
    uint32_t max_batch; ///< of models that do not say theirs; 0: 4
    uint32_t max_queue; ///< requests that wait for a model that does not say; 0: 1024
    bool shared_memory; ///< clients of this machine may name some
} kiln_serving_options;

/// Looks at the folder and loads models on a thread of its own. `*out_serving` is the caller's
/// (kiln_serving_destroy); the devices, all of one context, are held. Errors: also NOT_FOUND (the
/// folder).
kiln_status kiln_serving_create(kiln_device *const *devices, uint32_t n_devices,
                                const kiln_serving_options *options, kiln_serving **out_serving,
                                kiln_error *err);

/// What a server answers with; lives as long as the object.
const kiln_models *kiln_serving_models(const kiln_serving *serving);

/// Says from now on that it is not ready, answers what is queued, and takes no more requests.
void kiln_serving_drain(kiln_serving *serving);

/// Stops loading, answers what is queued and unloads all. Takes NULL. No server uses it.
void kiln_serving_destroy(kiln_serving *serving);

// ---- HTTP ----

typedef struct kiln_serving_http kiln_serving_http;

/// A call over HTTP that was let in.
typedef struct kiln_serving_caller {
    void *handle;
    const char *name;
    const kiln_models *models; ///< as this caller may use them
} kiln_serving_caller;

/// Who lets calls in: the server over gRPC, so that identities are one thing. `user` goes into each
/// function.
typedef struct kiln_serving_door {
    void *user;
    /// `authorization` is the call's header, NULL: none. Errors: UNAUTHENTICATED,
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED.
    kiln_status (*admit)(void *user, const char *authorization, kiln_serving_caller *out_caller,
                         kiln_error *err);
    void (*end)(void *user, kiln_serving_caller *caller);
    void (*tell)(void *user, const kiln_rpc_event *event); ///< of each call
    void (*stats)(void *user, kiln_rpc_server_stats *out_stats);
} kiln_serving_door;

typedef struct kiln_serving_http_options {
    const char *address; ///< HOST:PORT; port 0: a free one
    const char *tls_cert; ///< with its key: HTTPS
    const char *tls_key;
    const char *client_ca; ///< clients must have a certificate that it signed
    bool allow_public; ///< listen beyond loopback
    uint64_t max_request_bytes; ///< 0: 64 MiB
    const kiln_serving_door *door; ///< borrowed, it outlives HTTP
} kiln_serving_http_options;

/// Answers the protocol's REST form and /metrics until it is destroyed. Errors: also UNAVAILABLE
/// (the address is taken), PERMISSION_DENIED (not loopback), UNIMPLEMENTED (built without HTTP).
kiln_status kiln_serving_http_create(kiln_serving *serving,
                                     const kiln_serving_http_options *options,
                                     kiln_serving_http **out_http, kiln_error *err);

/// "http://127.0.0.1:8000".
const char *kiln_serving_http_address(const kiln_serving_http *http);

/// Takes no more calls and waits for those that run, a few seconds. Takes NULL.
void kiln_serving_http_destroy(kiln_serving_http *http);

#endif
