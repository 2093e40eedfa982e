// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln devices`: every device of every provider with what it stores and computes, and on request
// its facts.
// The rows of dtypes are a word and names: what is stored, computed in, and computed in fast, and
// what is made where no dtype is named (float, integer, bool).
// What is a device and in which order they come is decided by the providers. The one that the
// option `device` names is marked; a name that is none of them is an error.

#include "cli.h"

#include <stdio.h>
#include <string.h>

typedef struct devices_options {
    bool verbose;
    const char *address; ///< this one alone; NULL: all
} devices_options;

static const struct argp_option devices_options_table[] = {
    {"verbose", 'v', NULL, 0, "print the facts of each device too", 0},
    {0},
};

static error_t parse_devices_option(int key, char *text, struct argp_state *state)
{
    devices_options *options = state->input;
    switch (key) {
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->address != NULL) {
            argp_error(state, "one ADDRESS");
        }
        options->address = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_usage_row(kiln_device *device, uint32_t bit, const char *name)
{
    printf("  %-13s", name);
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        if ((kiln_device_dtype_usage(device, (kiln_dtype)dtype) & bit) != 0) {
            printf(" %s", kiln_dtype_name((kiln_dtype)dtype));
        }
    }
    printf("\n");
}

static void print_facts(kiln_device *device)
{
    char memory[32];
    char single[32];
    const kiln_device_info *info = kiln_device_info_of(device);
    printf("  %-13s %s\n", "driver", info->driver);
    printf("  %-13s %s, %s at most in one buffer\n", "memory",
           cli_format_bytes(memory, (double)info->memory_bytes),
           cli_format_bytes(single, (double)info->max_alloc_bytes));
    printf("  %-13s %u, work-groups up to %llu\n", "compute units", info->compute_units,
           (unsigned long long)info->max_work_group);
}

static void print_usage(kiln_device *device)
{
    print_usage_row(device, KILN_USAGE_STORAGE, "stores");
    print_usage_row(device, KILN_USAGE_ARITHMETIC, "computes");
    print_usage_row(device, KILN_USAGE_ACCELERATED, "accelerates");
    printf("  %-13s %s %s %s\n", "defaults",
           kiln_dtype_name(kiln_device_default_dtype(device, KILN_KIND_FLOAT)),
           kiln_dtype_name(kiln_device_default_dtype(device, KILN_KIND_INT)),
           kiln_dtype_name(kiln_device_default_dtype(device, KILN_KIND_BOOL)));
}

/// Whether the option means this address: the same text, or its scheme alone for the first of it.
static bool is_chosen(const char *option, const char *address)
{
    size_t length = strlen(option);
    bool scheme = length > 0 && strncmp(address, option, length) == 0 &&
                  (strcmp(address + length, ":0") == 0 ||
                   (option[length - 1] == ':' && strcmp(address + length, "0") == 0));
    return strcmp(option, address) == 0 || scheme;
}

/// Devices elsewhere and those that only compute for tests are not listed: the first are not asked,
/// the others opened, so that a wrong name is told here.
static kiln_status check_choice(kiln_context *context, const char *option, bool found,
                                kiln_error *err)
{
    if (option[0] == '\0' || found) {
        return KILN_STATUS_OK;
    }
    if (strstr(option, "://") != NULL || strncmp(option, "unix:", 5) == 0) {
        printf("%-12s opened when none is named, by the option device; not asked now\n", option);
        return KILN_STATUS_OK;
    }
    kiln_device *device = NULL;
    kiln_status status = kiln_device_open(context, option, &device, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "the option device");
    }
    printf("%-12s %s (the option device says it)\n", kiln_device_address(device),
           kiln_device_info_of(device)->name);
    kiln_device_release(device);
    return KILN_STATUS_OK;
}

static kiln_status show_usage(kiln_context *context, const char *address, const char *line,
                              bool verbose, kiln_error *err)
{
    kiln_device *device = NULL;
    kiln_status status = kiln_device_open(context, address, &device, err);
    if (status == KILN_STATUS_OK && line == NULL) { // one elsewhere: only now it has said its name
        printf("%-12s %s\n", address, kiln_device_info_of(device)->name);
    }
    if (status == KILN_STATUS_OK && verbose) {
        print_facts(device);
    }
    if (status == KILN_STATUS_OK) {
        print_usage(device);
    }
    kiln_device_release(device);
    return status;
}

int cmd_devices(int argc, char **argv)
{
    static const struct argp argp = {
        devices_options_table,
        parse_devices_option,
        "[ADDRESS]",
        "Lists the devices, or the one at ADDRESS. The address is what "
        "--device takes.",
        NULL,
        NULL,
        NULL};
    devices_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    cli_device_options none = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    if (cli_open_context(&none, &context, &err) != KILN_STATUS_OK) {
        return cli_fail("devices", &err);
    }
    const char *option = kiln_config_string(kiln_context_env(context)->config, KILN_OPTION_DEVICE);
    bool found = false, shown = false;
    int result = CLI_OK;
    char address[64];
    char line[192];
    for (size_t i = 0; kiln_device_describe(context, i, address, line, &err) == KILN_STATUS_OK &&
                       result == CLI_OK;
         i++) {
        bool chosen = is_chosen(option, address);
        found = found || chosen;
        if (options.address != NULL && strcmp(address, options.address) != 0) {
            continue;
        }
        shown = true;
        printf("%-12s %s%s\n", address, line, chosen ? " (the option device says it)" : "");
        if (show_usage(context, address, line, options.verbose, &err) != KILN_STATUS_OK) {
            result = cli_fail("devices", &err);
        }
    }
    if (options.address != NULL) {
        found = true; // what the option says was not asked for
    }
    if (result == CLI_OK && options.address != NULL && !shown) {
        if (show_usage(context, options.address, NULL, options.verbose, &err) != KILN_STATUS_OK) {
            result = cli_fail("devices", &err);
        }
    }
    if (result == CLI_OK && check_choice(context, option, found, &err) != KILN_STATUS_OK) {
        result = cli_fail("devices", &err);
    }
    cli_close_context(context);
    return result;
}
