// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln devices`: every device of every provider with what it stores and computes, and on request
// its facts.
// The rows of dtypes are a word and names: what is stored, computed in, and computed in fast, and
// what is made where no dtype is named (float, integer, bool).
// What is a device and in which order they come is decided by the providers. The one that the
// option `device` names is marked; a name that is none of them is an error.

#include "devices_remote.h"

#include <stdio.h>
#include <string.h>

typedef struct devices_options {
    bool verbose;
    cli_json_options json;
    const char *address; ///< this one alone; NULL: all
} devices_options;

static const struct argp_option devices_options_table[] = {
    {"device", 'd', "ADDRESS", 0, "the same as ADDRESS", 0},
    {"verbose", 'v', NULL, 0, "print the facts of each device too", 0},
    {0},
};

static error_t parse_devices_option(int key, char *text, struct argp_state *state)
{
    devices_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->json;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case 'd':
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

static json_t *usage_json(kiln_device *device, uint32_t bit)
{
    json_t *list = json_array();
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        if ((kiln_device_dtype_usage(device, (kiln_dtype)dtype) & bit) != 0) {
            json_array_append_new(list, json_string(kiln_dtype_name((kiln_dtype)dtype)));
        }
    }
    return list;
}

static json_t *device_json(const char *address, kiln_device *device, bool chosen)
{
    const kiln_device_info *info = kiln_device_info_of(device);
    json_t *made = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:b, s:i, s:I, s:I, s:I}", "address", address, "name",
        cli_json_text(info->name), "vendor", cli_json_text(info->vendor), "platform",
        cli_json_text(info->platform), "driver", cli_json_text(info->driver), "chosen", chosen,
        "compute_units", (int)info->compute_units, "memory_bytes", (json_int_t)info->memory_bytes,
        "max_alloc_bytes", (json_int_t)info->max_alloc_bytes, "max_work_group",
        (json_int_t)info->max_work_group);
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "bytes_per_s",
        cli_json_figure((double)info->bytes_per_s), "flops_f32",
        cli_json_figure((double)info->flops_f32), "launch_ns",
        cli_json_figure((double)info->launch_ns), "stores", usage_json(device, KILN_USAGE_STORAGE),
        "computes", usage_json(device, KILN_USAGE_ARITHMETIC), "accelerates",
        usage_json(device, KILN_USAGE_ACCELERATED), "speeds_doubtful", (int)info->speeds_doubtful);
    if (made != NULL && more != NULL) {
        (void)json_object_update(made, more);
    }
    json_decref(more);
    return made;
}

typedef struct shower {
    kiln_context *context;
    const devices_options *options;
    json_t *list; ///< NULL: as text
} shower;

/// `line` is NULL for a device elsewhere: only when it is open it says its name.
static kiln_status show_device(const shower *s, const char *address, const char *line, bool chosen,
                               kiln_error *err)
{
    kiln_device *device = NULL;
    const char *mark = chosen ? " (the option device says it)" : "";
    if (line != NULL && s->list == NULL) {
        printf("%-12s %s%s\n", address, line, mark);
    }
    kiln_status status = kiln_device_open(s->context, address, &device, err);
    if (status == KILN_STATUS_OK && s->list != NULL) {
        json_array_append_new(s->list, device_json(address, device, chosen));
    } else if (status == KILN_STATUS_OK) {
        if (line == NULL) {
            printf("%-12s %s%s\n", address, kiln_device_info_of(device)->name, mark);
        }
        if (s->options->verbose) {
            print_facts(device);
        }
        print_usage(device);
    }
    kiln_device_release(device);
    return status;
}

/// Devices elsewhere and those that only compute for tests are not listed: the first are not asked,
/// the others opened, so that a wrong name is told here.
static kiln_status check_choice(const shower *s, const char *option, bool found, kiln_error *err)
{
    if (option[0] == '\0' || found) {
        return KILN_STATUS_OK;
    }
    if (strstr(option, "://") != NULL || strncmp(option, "unix:", 5) == 0) {
        if (s->list == NULL) {
            printf("%-12s opened when none is named, by the option device; not asked now\n",
                   option);
        }
        return KILN_STATUS_OK;
    }
    kiln_device *device = NULL;
    kiln_status status = kiln_device_open(s->context, option, &device, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "the option device");
    }
    const char *address = kiln_device_address(device);
    if (s->list != NULL) {
        json_array_append_new(s->list, device_json(address, device, true));
    } else {
        printf("%-12s %s (the option device says it)\n", address,
               kiln_device_info_of(device)->name);
    }
    kiln_device_release(device);
    return KILN_STATUS_OK;
}

/// All devices, or the one that was asked for.
static kiln_status show_devices(const shower *s, kiln_error *err)
{
    const char *option =
        kiln_config_string(kiln_context_env(s->context)->config, KILN_OPTION_DEVICE);
    const char *asked = s->options->address;
    bool found = false, shown = false;
    char address[64];
    char line[192];
    kiln_status status = KILN_STATUS_OK;
    if (asked != NULL && devices_is_server(asked)) {
        return devices_show_server(s->context, asked, s->list, err);
    }
    for (size_t i = 0; status == KILN_STATUS_OK &&
                       kiln_device_describe(s->context, i, address, line, err) == KILN_STATUS_OK;
         i++) {
        bool chosen = is_chosen(option, address);
        found = found || chosen;
        if (asked == NULL || strcmp(address, asked) == 0) {
            shown = true;
            status = show_device(s, address, line, chosen, err);
        }
    }
    if (status != KILN_STATUS_OK || asked != NULL) {
        return status != KILN_STATUS_OK || shown ? status : show_device(s, asked, NULL, false, err);
    }
    if (!shown) {
        fprintf(stderr, "kiln devices: there is no OpenCL device; `kiln doctor` says why\n");
    }
    return check_choice(s, option, found, err);
}

int cmd_devices(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        devices_options_table,
        parse_devices_option,
        "[ADDRESS]",
        "Lists the devices, or the one at ADDRESS. The address is what "
        "--device takes; that of a server without a device lists what the server has.",
        children,
        NULL,
        NULL};
    devices_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    cli_device_options none = {0};
    kiln_error err = KILN_ERROR_INIT;
    shower s = {.options = &options};
    kiln_status status = cli_open_context(&none, &s.context, &err);
    if (status == KILN_STATUS_OK) {
        s.list = options.json.wanted ? json_array() : NULL;
        status = show_devices(&s, &err);
    }
    if (status == KILN_STATUS_OK && options.json.wanted) {
        status = cli_json_write(&options.json, json_incref(s.list), &err);
    }
    json_decref(s.list);
    cli_close_context(s.context);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("devices", &err);
}
