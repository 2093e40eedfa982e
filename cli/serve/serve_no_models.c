// SPDX-License-Identifier: MIT OR Apache-2.0
// Stands in for serve_models.c in a build without the ONNX importer: there are devices and no
// models.

#include "serve_models.h"

#include <stdlib.h>

const struct argp serve_models_argp = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};

serve_models *serve_models_new(void)
{
    return calloc(1, 1);
}

kiln_status serve_models_open(serve_models *self, kiln_device *const *devices, uint32_t n_devices,
                              kiln_rpc_server_options *server, kiln_error *err)
{
    (void)self;
    (void)devices;
    (void)n_devices;
    (void)server;
    (void)err;
    return KILN_STATUS_OK;
}

kiln_status serve_models_listen(serve_models *self, const kiln_rpc_server_options *server,
                                const serve_library *library, kiln_rpc_server *running,
                                serve_log *log, kiln_error *err)
{
    (void)self;
    (void)server;
    (void)library;
    (void)running;
    (void)log;
    (void)err;
    return KILN_STATUS_OK;
}

void serve_models_say(const serve_models *self)
{
    (void)self;
}

bool serve_models_are_ready(const serve_models *self)
{
    (void)self;
    return true;
}

void serve_models_drain(serve_models *self)
{
    (void)self;
}

void serve_models_hang_up(serve_models *self)
{
    (void)self;
}

void serve_models_close(serve_models *self)
{
    free(self);
}
