// SPDX-License-Identifier: MIT OR Apache-2.0
// In the place of cli_fusers.c in a build without operators: there are no fusers, so --no-fusion
// holds, and --plugin is refused.

#include "cli.h"

kiln_status cli_fusers_load(const cli_device_options *options, kiln_context *context,
                            kiln_error *err)
{
    (void)context;
    return options->n_plugins == 0
               ? KILN_STATUS_OK
               : kiln_fail(err, UNIMPLEMENTED, "this kiln runs bundles and loads no fusers");
}

kiln_status cli_fusers_leave(kiln_device *device, kiln_error *err)
{
    (void)device;
    (void)err;
    return KILN_STATUS_OK;
}

void cli_fusers_forgive(kiln_context *context)
{
    (void)context;
}
