// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin list`: the candidate files that were looked at and what became of each.
// Whether a file is taken is decided by fusion_host; this prints its reasons.

#include "cli_json.h"
#include "plugin_cli.h"

#include <stdio.h>
#include <string.h>

typedef struct list_options {
    cli_device_options device;
    bool why;
    cli_json_options json;
} list_options;

static const struct argp_option list_options_table[] = {
    {"why", 'w', NULL, 0, "every file that was looked at, with the reason", 0},
    {0},
};

static error_t parse_list_option(int key, char *text, struct argp_state *state)
{
    list_options *options = state->input;
    (void)text;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'w':
        options->why = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_plugin(const kiln_plugin_info *info, bool why)
{
    bool taken = strcmp(info->state, "taken") == 0;
    char load[32];
    if (!taken && !why) {
        return;
    }
    char path[4096];
    snprintf(path, sizeof(path), "%s", info->path);
    cli_make_shown(path);
    printf("%-8s %-24s %-10s %s\n", info->state, info->id[0] != '\0' ? info->id : "-",
           info->version[0] != '\0' ? info->version : "-", path);
    if (why) {
        printf("         %s\n", info->reason);
    }
    if (why && taken) {
        printf("         %u %s, loaded in %s\n", info->n_fusers,
               kiln_plural(info->n_fusers, "fuser", "fusers"),
               cli_format_ns(load, (double)info->load_ns));
    }
}

static json_t *plugin_json(const kiln_plugin_info *info)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:I}", "state", info->state, "id", info->id,
                     "version", info->version, "path", cli_json_text(info->path), "reason",
                     cli_json_text(info->reason), "fusers", (int)info->n_fusers, "load_ns",
                     (json_int_t)info->load_ns);
}

/// To `list`, when there is one, else as text.
static kiln_status tell_plugins(kiln_context *context, bool why, json_t *list, kiln_error *err)
{
    for (size_t i = 0;; i++) {
        kiln_plugin_info info = KILN_PLUGIN_INFO_INIT;
        kiln_status status = kiln_plugin_get(context, i, &info, err);
        if (status != KILN_STATUS_OK) {
            return status == KILN_STATUS_NOT_FOUND ? KILN_STATUS_OK : status;
        }
        if (list == NULL) {
            print_plugin(&info, why);
        } else if (why || strcmp(info.state, "taken") == 0) {
            json_array_append_new(list, plugin_json(&info));
        }
    }
}

int plugin_list(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        list_options_table,
        parse_list_option,
        NULL,
        "Lists the fusers that were found beside libkiln and in the folders of the option "
        "plugin-path.",
        children,
        NULL,
        NULL};
    list_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    size_t n_plugins = options.device.n_plugins;
    options.device.n_plugins = 0; // one that is refused must not keep the others from the list
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    if (cli_open_context(&options.device, &context, &err) != KILN_STATUS_OK) {
        return cli_fail("plugin list", &err);
    }
    int code = CLI_OK;
    for (size_t i = 0; i < n_plugins; i++) {
        if (kiln_plugin_load(context, options.device.plugins[i], &err) != KILN_STATUS_OK) {
            code = cli_fail("plugin list", &err);
        }
    }
    json_t *list = options.json.wanted ? json_array() : NULL;
    kiln_status status = tell_plugins(context, options.why, list, &err);
    if (status == KILN_STATUS_OK && options.json.wanted) {
        status = cli_json_write(&options.json, json_incref(list), &err);
    }
    json_decref(list);
    code = status == KILN_STATUS_OK ? code : cli_fail("plugin list", &err);
    cli_close_context(context);
    return code;
}
