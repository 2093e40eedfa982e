// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVE_MODELS_H
#define KILN_SERVE_MODELS_H

/// What `kiln serve` offers beside devices: models of a folder, over gRPC and HTTP.

#include "cli.h"
#include "serve_library.h"
#include "serve_log.h"

/// The options and what they opened. Where the build has no models, none of these does anything.
typedef struct serve_models serve_models;

/// NULL: no memory. `close` frees it.
serve_models *serve_models_new(void);

/// Put it among an argp's children with a serve_models as its input.
extern const struct argp serve_models_argp;

/// Looks at the folder and names it in the server's options. Nothing happens without --models.
kiln_status serve_models_open(serve_models *self, kiln_device *const *devices, uint32_t n_devices,
                              kiln_rpc_server_options *server, kiln_error *err);

/// Listens for HTTP with the server's certificates; the running server lets calls in, and the log
/// is told of them. All are borrowed until `hang_up`. Nothing happens without --http.
kiln_status serve_models_listen(serve_models *self, const kiln_rpc_server_options *server,
                                const serve_library *library, kiln_rpc_server *running,
                                serve_log *log, kiln_error *err);

/// Prints where HTTP is answered, with a space before.
void serve_models_say(const serve_models *self);

/// Whether what was to be loaded was tried; without models at once.
bool serve_models_are_ready(const serve_models *self);

void serve_models_drain(serve_models *self);

/// Ends HTTP, and then, when the server is gone, the models.
void serve_models_hang_up(serve_models *self);
void serve_models_close(serve_models *self);

#endif
