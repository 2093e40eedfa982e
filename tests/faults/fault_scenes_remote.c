// SPDX-License-Identifier: MIT OR Apache-2.0
// A server of this process behind a local socket, with a context and memory of its own: what fails
// is the client's.
#include <stdio.h>
#include <unistd.h>

#include "fault_scenes.h"
#include "harness.h"
#include "remote_grpc.h"

static char address[64];
static const char *const listen_at[] = {address};
static kiln_context *context;
static kiln_device *device;
static kiln_rpc_server *server;

static bool serve(kiln_error *err)
{
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.listen = listen_at;
    options.n_listen = 1;
    snprintf(address, sizeof(address), "unix:/tmp/kiln-no-memory-%d", (int)getpid());
    return kiln_context_create(NULL, &context, err) == KILN_STATUS_OK &&
           kiln_device_open(context, kiln_test_address("opencl:0"), &device, err) ==
               KILN_STATUS_OK &&
           kiln_rpc_server_create(&device, 1, &options, &server, err) == KILN_STATUS_OK;
}

/// The server has nothing left of its clients either.
static void stop(void)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_rpc_server_destroy(server);
    server = NULL;
    if (device != NULL) {
        kiln_device_stats_get(device, &stats);
    }
    KILN_CHECK_INT(stats.tensors_live, 0);
    kiln_device_release(device);
    device = NULL;
    kiln_context_destroy(context);
    context = NULL;
}

static kiln_status use_server(kiln_context *its_context, kiln_error *err)
{
    return kiln_context_add_provider(its_context, kiln_rpc_unix_provider(), err);
}

const scene scene_remote = {.name = "remote",
                            .n_devices = 1,
                            .addresses = listen_at,
                            .configure = use_server,
                            .ready = serve,
                            .run = world_run_chain,
                            .done = stop};
