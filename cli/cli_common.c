// SPDX-License-Identifier: MIT OR Apache-2.0
// What the subcommands share: options that open a device, errors, units. Decides how Kiln speaks to
// a terminal.

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option device_options[] = {
    {"device", 'd', "ADDRESS", 0, "device to use, such as opencl:0 (see `kiln devices`)", 0},
    {"no-fusion", 'F', NULL, 0, "run every operation on its own", 0},
    {"plugin", 'p', "FILE", 0, "load one more fuser; may be repeated", 0},
    {"tune", 'T', "MODE", 0, "measure fused candidates: off, lazy or full", 0},
    {"check", 'C', "MODE", 0,
     "compare fused blocks with their operations alone: off, first, always", 0},
    {"set", 's', "NAME=VALUE", 0, "set a knob (see `kiln config`); may be repeated", 0},
    {0},
};

static error_t parse_device(int key, char *text, struct argp_state *state)
{
    cli_device_options *options = state->input;
    switch (key) {
    case 'd':
        options->device = text;
        return 0;
    case 'F':
        options->no_fusion = true;
        return 0;
    case 'p':
        if (options->n_plugins == sizeof(options->plugins) / sizeof(options->plugins[0])) {
            argp_error(state, "too many --plugin");
        }
        options->plugins[options->n_plugins++] = text;
        return 0;
    case 'T':
        options->tune = text;
        return 0;
    case 'C':
        options->check = text;
        return 0;
    case 's':
        if (strchr(text, '=') == NULL) {
            argp_error(state, "--set %s: write NAME=VALUE", text);
        }
        if (options->n_settings == sizeof(options->settings) / sizeof(options->settings[0])) {
            argp_error(state, "too many --set");
        }
        options->settings[options->n_settings++] = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_device_argp = {device_options, parse_device, NULL, NULL, NULL, NULL, NULL};

error_t cli_parse_file(int key, char *text, struct argp_state *state, const char *which,
                       const char **path)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (*path != NULL) {
            argp_error(state, "one FILE");
        }
        *path = text;
        return 0;
    case ARGP_KEY_END:
        if (*path == NULL) {
            argp_error(state, "say %s", which);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_log(const kiln_log_record *record, void *user)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    (void)user;
    fprintf(stderr, "kiln: %s: %s: %s\n", names[record->level], record->module, record->message);
}

static kiln_status apply_setting(kiln_context *context, const char *setting, kiln_error *err)
{
    char name[64];
    const char *equals = strchr(setting, '=');
    size_t length = (size_t)(equals - setting);
    if (length >= sizeof(name)) {
        return kiln_fail(err, NOT_FOUND, "no knob is called \"%.*s\"", (int)length, setting);
    }
    memcpy(name, setting, length);
    name[length] = '\0';
    return kiln_context_set(context, name, equals + 1, err);
}

/// --tune, else what the user set elsewhere, else the command's own default.
static kiln_status apply_tune(const cli_device_options *options, kiln_context *context,
                              kiln_error *err)
{
    const kiln_config *config = kiln_context_env(context)->config;
    const char *mode = options->tune;
    if (mode == NULL && kiln_config_origin(config, KILN_KNOB_TUNE) == KILN_ORIGIN_DEFAULT) {
        mode = options->tune_default;
    }
    return mode == NULL ? KILN_STATUS_OK : kiln_context_set(context, "tune", mode, err);
}

kiln_status cli_open_context(const cli_device_options *options, kiln_context **out_context,
                             kiln_error *err)
{
    kiln_context_options wanted = KILN_CONTEXT_OPTIONS_INIT;
    wanted.log = print_log;
    kiln_context *context = NULL;
    kiln_status status = kiln_context_create(&wanted, &context, err);
    for (size_t i = 0; i < options->n_settings && status == KILN_STATUS_OK; i++) {
        status = apply_setting(context, options->settings[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = apply_tune(options, context, err);
    }
    if (status == KILN_STATUS_OK && options->check != NULL) {
        status = kiln_context_set(context, "check", options->check, err);
    }
    for (size_t i = 0; i < options->n_plugins && status == KILN_STATUS_OK; i++) {
        status = kiln_plugin_load(context, options->plugins[i], err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_context_destroy(context);
        return status;
    }
    *out_context = context;
    return KILN_STATUS_OK;
}

kiln_status cli_open_device(const cli_device_options *options, kiln_context *context,
                            kiln_device **out_device, kiln_error *err)
{
    kiln_status status = kiln_device_open(context, options->device, out_device, err);
    if (status == KILN_STATUS_OK && options->no_fusion) {
        status = kiln_device_set_fusion(*out_device, false, err);
    }
    return status;
}

int cli_fail(const char *command, const kiln_error *err)
{
    fprintf(stderr, "kiln %s: %s\n", command, err->message);
    return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "kiln %s: ", command);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; see `kiln %s --help`\n", command);
    va_end(args);
    return CLI_USAGE;
}

const char *cli_format_ns(char out_text[32], double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    while (ns >= 1000.0 && unit < 3) {
        ns /= 1000.0;
        unit++;
    }
    snprintf(out_text, 32, ns < 10 ? "%.2f %s" : "%.1f %s", ns, units[unit]);
    return out_text;
}

const char *cli_format_bytes(char out_text[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024.0 && unit < 4) {
        bytes /= 1024.0;
        unit++;
    }
    snprintf(out_text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out_text;
}
