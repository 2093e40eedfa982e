// SPDX-License-Identifier: MIT OR Apache-2.0
// What the options that open a device ask of fusers: which are loaded, whether any is used, and
// that none is blamed for what a signal ends. Apart, because a build for bundles has no fusers.

#include "cli.h"

kiln_status cli_fusers_load(const cli_device_options *options, kiln_context *context,
                            kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < options->n_plugins && status == KILN_STATUS_OK; i++) {
        status = kiln_plugin_load(context, options->plugins[i], err);
    }
    return status;
}

kiln_status cli_fusers_leave(kiln_device *device, kiln_error *err)
{
    return kiln_device_set_fusion(device, false, err);
}

void cli_fusers_forgive(kiln_context *context)
{
    kiln_context_interrupted(context);
}
