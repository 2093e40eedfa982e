// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin allow FILE...`: puts the SHA-256 of files into the list of plugins that may be
// loaded from the folders of plugin-path. What the list means is decided by fusion_host.

#include "plugin_cli.h"

#include "fusion_host.h"

#include <stdio.h>

typedef struct allow_options {
    cli_device_options device;
    const char *files[32];
    size_t n_files;
} allow_options;

static error_t parse_allow_option(int key, char *text, struct argp_state *state)
{
    allow_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case ARGP_KEY_ARG:
        if (options->n_files == sizeof(options->files) / sizeof(options->files[0])) {
            argp_error(state, "too many files");
        }
        options->files[options->n_files++] = text;
        return 0;
    case ARGP_KEY_END:
        if (options->n_files == 0) {
            argp_error(state, "say which FILE");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int plugin_allow(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL,
                                     parse_allow_option,
                                     "FILE...",
                                     "Adds the SHA-256 of plugins to the list of the option "
                                     "plugin-allow; without the option, to kiln/plugins.allow in "
                                     "$XDG_CONFIG_HOME.",
                                     children,
                                     NULL,
                                     NULL};
    allow_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_status status = cli_open_context(&options.device, &context, &err);
    for (size_t i = 0; i < options.n_files && status == KILN_STATUS_OK; i++) {
        status = kiln_fuse_plugin_allow(kiln_context_env(context), options.files[i], &err);
        if (status == KILN_STATUS_ALREADY_EXISTS) {
            status = KILN_STATUS_OK;
            printf("%s was allowed before\n", options.files[i]);
        } else if (status == KILN_STATUS_OK) {
            printf("%s is allowed\n", options.files[i]);
        }
    }
    cli_close_context(context);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin allow", &err);
}
