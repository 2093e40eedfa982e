// SPDX-License-Identifier: MIT OR Apache-2.0
// Serves the reference device over gRPC on loopback. Decides only that: what is compared with what
// is conformance.c's, and a failure to listen is reported there.
#include "remote_host.h"

#include "remote_grpc.h"

static kiln_context *context;
static kiln_device *device;
static kiln_rpc_server *server;

const char *remote_host_start(kiln_error *err)
{
    kiln_status status = kiln_context_create(NULL, &context, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_device_open(context, "reference", &device, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_rpc_server_create(&device, 1, NULL, &server, err);
    }
    if (status != KILN_STATUS_OK) {
        remote_host_stop();
        return NULL;
    }
    return kiln_rpc_server_address(server, 0);
}

void remote_host_stop(void)
{
    kiln_rpc_server_destroy(server);
    server = NULL;
    if (device != NULL) {
        kiln_device_release(device);
        device = NULL;
    }
    if (context != NULL) {
        kiln_context_destroy(context);
        context = NULL;
    }
}
