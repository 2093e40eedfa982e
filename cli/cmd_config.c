// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln config`: every option with its value, where the value came from, and what it does.
// Precedence and checks are those of base/; nothing is changed here.

#include "cli_json.h"

#include <stdio.h>

typedef struct config_options {
    cli_device_options device;
    cli_json_options json;
} config_options;

static error_t parse_config_option(int key, char *text, struct argp_state *state)
{
    config_options *options = state->input;
    (void)text;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
    }
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static const char *const origins[] = {"default", "file", "environment", "flag"};

static void print_options(const kiln_config *config)
{
    for (int option = 0; option < KILN_OPTION_COUNT; option++) {
        const char *value = kiln_config_string(config, (kiln_option)option);
        printf("%-15s %-12s %-11s %s\n", kiln_option_name((kiln_option)option),
               value[0] != '\0' ? value : "-",
               origins[kiln_config_origin(config, (kiln_option)option)],
               kiln_option_environment((kiln_option)option));
        printf("%15s %s\n", "", kiln_option_help((kiln_option)option));
    }
}

static json_t *options_json(const kiln_config *config)
{
    json_t *list = json_array();
    for (int option = 0; option < KILN_OPTION_COUNT; option++) {
        kiln_option id = (kiln_option)option;
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:s, s:s, s:s}", "name", kiln_option_name(id), "value",
                            cli_json_text(kiln_config_string(config, id)), "origin",
                            origins[kiln_config_origin(config, id)], "environment",
                            kiln_option_environment(id), "help", kiln_option_help(id)));
    }
    return list;
}

int cmd_config(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,     parse_config_option,
        NULL,     "Shows the options. Precedence: --set, environment, file, default.",
        children, NULL,
        NULL};
    config_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        const kiln_config *config = kiln_context_env(context)->config;
        if (options.json.wanted) {
            status = cli_json_write(&options.json, options_json(config), &err);
        } else {
            print_options(config);
        }
        cli_close_context(context);
    }
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("config", &err);
}
