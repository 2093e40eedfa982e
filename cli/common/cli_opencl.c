// SPDX-License-Identifier: MIT OR Apache-2.0
// The backend of an OpenCL device without the runtime above it, for commands that prepare a device
// and run no program on it.

#include "cl_backend.h"
#include "cli.h"

#include <string.h>

kiln_status cli_open_opencl(const cli_device_options *options, const kiln_env *env,
                            kiln_backend **out_backend, kiln_error *err)
{
    const kiln_backend_provider *provider = kiln_cl_provider();
    const char *address = options->device != NULL
                              ? options->device
                              : kiln_config_string(env->config, KILN_OPTION_DEVICE);
    if (address[0] == '\0') {
        address = "opencl:";
    }
    if (strncmp(address, "opencl", 6) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s is no OpenCL device; say --device opencl:0",
                         address);
    }
    return provider->open(env, address, out_backend, err, provider->user);
}
