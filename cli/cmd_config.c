// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln config`: every option with its value, where the value came from, and what it does.
// Precedence and checks are those of base/; nothing is changed here.

#include "cli.h"

#include <stdio.h>

int cmd_config(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,     NULL, NULL, "Shows the options. Precedence: --set, environment, file, default.",
        children, NULL, NULL};
    static const char *const origins[] = {"default", "file", "environment", "flag"};
    cli_device_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    if (cli_open_context(&options, &context, &err) != KILN_STATUS_OK) {
        return cli_fail("config", &err);
    }
    const kiln_config *config = kiln_context_env(context)->config;
    for (int option = 0; option < KILN_OPTION_COUNT; option++) {
        const char *value = kiln_config_string(config, (kiln_option)option);
        printf("%-15s %-12s %-11s %s\n", kiln_option_name((kiln_option)option),
               value[0] != '\0' ? value : "-",
               origins[kiln_config_origin(config, (kiln_option)option)],
               kiln_option_environment((kiln_option)option));
        printf("%15s %s\n", "", kiln_option_help((kiln_option)option));
    }
    cli_close_context(context);
    return CLI_OK;
}
