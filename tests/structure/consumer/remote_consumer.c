// SPDX-License-Identifier: MIT OR Apache-2.0
// A user's program that offers a device to others and opens it as a client.
#include <kiln/remote_grpc.h>
#include <stdio.h>

int main(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_device *far = NULL;
    kiln_rpc_server *server = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, &err));
    KILN_TRY(out, status, kiln_device_open(context, "reference", &device, &err));
    KILN_TRY(out, status, kiln_rpc_server_create(&device, 1, &options, &server, &err));
    KILN_TRY(out, status,
             kiln_device_open(context, kiln_rpc_server_address(server, 0), &far, &err));
out:
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
    }
    kiln_device_release(far);
    kiln_rpc_server_destroy(server);
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status != KILN_STATUS_OK;
}
