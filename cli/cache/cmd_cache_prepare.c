// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln cache prepare MODEL`: fills the cache with the binaries that a device without a compiler
// needs for a model: fused as such a device chooses, and every operation unfused. To be run where
// the same device has its compiler; the cache's folder is then taken along.

#include "cli.h"
#include "model_run.h"

#include <stdio.h>

typedef struct prepared {
    uint64_t compiled;
    uint64_t stored; ///< before
    uint64_t blocks;
} prepared;

static kiln_status prepare(const model_options *options, prepared *sum, kiln_error *err)
{
    model_session session;
    kiln_status status = model_session_open(&session, options, /*invent=*/true, err);
    if (status == KILN_STATUS_OK) {
        status = cli_check_local(session.device, "cache prepare", err);
    }
    for (int run = 0; run < 2 && status == KILN_STATUS_OK; run++) { // a graph repeats the second
        status = model_session_run_once(&session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = model_session_meet(&session, err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(session.device, &stats);
        sum->compiled += stats.backend.programs_built;
        sum->stored += stats.backend.programs_loaded;
        sum->blocks += stats.blocks_fused;
    }
    model_session_close(&session);
    return status;
}

int cmd_cache_prepare(int argc, char **argv)
{
    static const struct argp_child children[] = {{&model_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,
        NULL,
        "MODEL",
        "Compiles all that a model needs, with the shapes of the inputs, and keeps it in the cache "
        "for a device of this kind without a compiler.",
        children,
        NULL,
        NULL};
    model_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    prepared sum = {0};
    kiln_status status = KILN_STATUS_OK;
    cli_device_options *device = &options.device;
    if (device->n_settings == sizeof(device->settings) / sizeof(device->settings[0])) {
        return cli_usage("cache prepare", "too many settings");
    }
    device->settings[device->n_settings++] = "compiler=prepare";
    bool alone_only = device->no_fusion;
    if (!alone_only) {
        status = prepare(&options, &sum, &err);
    }
    if (status == KILN_STATUS_OK) {
        device->no_fusion = true;
        status = prepare(&options, &sum, &err);
    }
    if (status != KILN_STATUS_OK) {
        return cli_fail("cache prepare", &err);
    }
    printf("%llu %s compiled, %llu %s stored; %llu fused %s\n", (unsigned long long)sum.compiled,
           kiln_plural(sum.compiled, "program", "programs"), (unsigned long long)sum.stored,
           kiln_plural(sum.stored, "was", "were"), (unsigned long long)sum.blocks,
           kiln_plural(sum.blocks, "block", "blocks"));
    return CLI_OK;
}
