// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln devices`: every device of every provider with what it stores and computes, and on request
// its facts.
// What is a device and in which order they come is decided by the providers.

#include "cli.h"

#include <stdio.h>

typedef struct devices_options {
    bool verbose;
} devices_options;

static const struct argp_option options_table[] = {
    {"verbose", 'v', NULL, 0, "print the facts of each device too", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    devices_options *options = state->input;
    (void)text;
    switch (key) {
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "no arguments are taken");
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
}

int cmd_devices(int argc, char **argv)
{
    static const struct argp argp = {
        options_table, parse, NULL, "Lists the devices. The address is what --device takes.",
        NULL,          NULL,  NULL};
    devices_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    cli_device_options none = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    if (cli_open_context(&none, &context, &err) != KILN_STATUS_OK) {
        return cli_fail("devices", &err);
    }
    int result = CLI_OK;
    char address[64];
    char line[192];
    for (size_t i = 0; kiln_device_describe(context, i, address, line, &err) == KILN_STATUS_OK &&
                       result == CLI_OK;
         i++) {
        printf("%-12s %s\n", address, line);
        kiln_device *device = NULL;
        if (kiln_device_open(context, address, &device, &err) != KILN_STATUS_OK) {
            result = cli_fail("devices", &err);
            continue;
        }
        if (options.verbose) {
            print_facts(device);
        }
        print_usage(device);
        kiln_device_release(device);
    }
    kiln_context_destroy(context);
    return result;
}
