// SPDX-License-Identifier: MIT OR Apache-2.0
// The helper of the out-of-process scan (plugin_scan.c of fusion_host/load): loads one plugin, with
// its smoke test, and writes one line: "ok", or "refused: " and why. It touches no device, no cache
// and no configuration. Whatever else happens to it is an answer, too.

#include "fusion_host.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    kiln_fuse_registry *registry = NULL;
    kiln_error err = KILN_ERROR_INIT;
    options.developer = 1;
    if (argc != 2) {
        fprintf(stderr, "usage: kiln-plugin-scan FILE (run by Kiln itself)\n");
        return 2;
    }
    kiln_status status = kiln_config_create(&env.allocator, NULL, false, &env.config, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_fuse_registry_create(&env, &options, &registry, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_fuse_registry_add(registry, argv[1], &err);
    }
    kiln_fuse_registry_destroy(registry);
    kiln_config_destroy(env.config);
    if (status == KILN_STATUS_OK) {
        printf("ok\n");
    } else {
        printf("refused: %s\n", err.message);
    }
    return 0;
}
