// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin reset ID...`: forgets what was held against plugins: a scan that failed, a process
// that ended in them, failures of their fusers. `--all` forgets everything.

#include "plugin_cli.h"

#include <stdio.h>
#include <string.h>

typedef struct reset_options {
    cli_device_options device;
    const char *ids[32];
    size_t n_ids;
    bool all;
} reset_options;

static const struct argp_option reset_options_table[] = {
    {"all", 'a', NULL, 0, "of all plugins", 0},
    {0},
};

static error_t parse_reset_option(int key, char *text, struct argp_state *state)
{
    reset_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'a':
        options->all = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->n_ids == sizeof(options->ids) / sizeof(options->ids[0])) {
            argp_error(state, "too many plugins");
        }
        options->ids[options->n_ids++] = text;
        return 0;
    case ARGP_KEY_END:
        if (!options->all && options->n_ids == 0) {
            argp_error(state, "say which ID, or --all");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// After nothing was found to forget: fails when no plugin has the id, either.
static kiln_status check_known(kiln_context *context, const char *id, kiln_error *err)
{
    char text[128];
    cli_names names = {.text = text, .capacity = sizeof(text)};
    for (size_t i = 0;; i++) {
        kiln_plugin_info info = KILN_PLUGIN_INFO_INIT;
        kiln_status status = kiln_plugin_get(context, i, &info, err);
        if (status == KILN_STATUS_NOT_FOUND) {
            return kiln_fail(err, NOT_FOUND,
                             "there is no plugin \"%.40s\", nor a record of one; there are %s", id,
                             cli_names_end(&names));
        }
        if (status != KILN_STATUS_OK || strcmp(info.id, id) == 0) {
            return status;
        }
        if (info.id[0] != '\0') {
            cli_names_add(&names, info.id);
        }
    }
}

int plugin_reset(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        reset_options_table,
        parse_reset_option,
        "[ID...]",
        "Forgets why plugins were refused or their fusers put away; they are scanned again.",
        children,
        NULL,
        NULL};
    reset_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_status status = cli_open_context(&options.device, &context, &err);
    uint32_t total = 0;
    for (size_t i = 0; i < (options.all ? 1 : options.n_ids) && status == KILN_STATUS_OK; i++) {
        uint32_t count = 0;
        status = kiln_plugin_reset(context, options.all ? NULL : options.ids[i], &count, &err);
        if (status == KILN_STATUS_OK && count == 0 && !options.all) {
            status = check_known(context, options.ids[i], &err);
        }
        total += count;
    }
    cli_close_context(context);
    if (status != KILN_STATUS_OK) {
        return cli_fail("plugin reset", &err);
    }
    printf("%u %s forgotten\n", total, kiln_plural(total, "record", "records"));
    return CLI_OK;
}
