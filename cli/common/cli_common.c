// SPDX-License-Identifier: MIT OR Apache-2.0
// What the subcommands share: options that open a device, errors, units. Decides how Kiln speaks to
// a terminal.

#include "cli.h"
#include "cli_progress.h"
#include "kiln_bundle.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_MODEL_DTYPE = 768, KEY_DEVICE_FACTS };

static const struct argp_option device_options[] = {
    {"device", 'd', "ADDRESS", 0, "device to use, such as opencl:0 (see `kiln devices`)", 0},
    {"device-facts", KEY_DEVICE_FACTS, "FILE", 0,
     "plan for the device of these facts, as `kiln bundle facts` wrote them there: a bundle's, or "
     "those of --device null, which runs nothing",
     0},
    {"no-fusion", 'F', NULL, 0, "run every operation on its own", 0},
    {"plugin", 'p', "FILE", 0, "load one more fuser; may be repeated", 0},
    {"tune", 'T', "MODE", 0, "measure fused candidates: off, lazy or full", 0},
    {"check", 'C', "MODE", 0,
     "compare fused blocks with their unfused operations: off, first, always", 0},
    {"model-dtype", KEY_MODEL_DTYPE, "TYPE", 0,
     "keep weights and intermediates of an ONNX model of f32 in f16 or bf16", 0},
    {"set", 's', "NAME=VALUE", 0, "set an option (see `kiln config`); may be repeated", 0},
    {0},
};

static void add_device(cli_device_options *options, const char *text, struct argp_state *state)
{
    if (options->device == NULL) {
        options->device = text;
    } else if (!options->several) {
        argp_error(state, "--device %s: one device; run, benchmark and generate take several",
                   text);
    } else if (options->n_more == CLI_MAX_DEVICES - 1) {
        argp_error(state, "more than %d --device", CLI_MAX_DEVICES);
    } else {
        options->more[options->n_more++] = text;
    }
}

static error_t parse_device(int key, char *text, struct argp_state *state)
{
    cli_device_options *options = state->input;
    switch (key) {
    case 'd':
        add_device(options, text, state);
        return 0;
    case KEY_DEVICE_FACTS:
        options->facts = text;
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
    case KEY_MODEL_DTYPE:
        options->model_dtype = text;
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

static atomic_bool counts_only; // what is logged for the line of progress is not printed

static void print_log(const kiln_log_record *record, void *user)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    (void)user;
    if (strncmp(record->message, "compiling ", 10) == 0) {
        cli_progress_compiling();
    }
    if (record->level >= KILN_LOG_INFO && atomic_load(&counts_only)) {
        return;
    }
    fprintf(stderr, "kiln: %s: %s: %s\n", names[record->level], record->module, record->message);
}

static const char *option_of_kiln(size_t index, const void *unused)
{
    (void)unused;
    return index < KILN_OPTION_COUNT ? kiln_option_name((kiln_option)index) : NULL;
}

static kiln_status apply_setting(kiln_context *context, const char *setting, kiln_error *err)
{
    char name[64]; // longer than any option's, so that what is cut is none
    const char *equals = strchr(setting, '=');
    snprintf(name, sizeof(name), "%.*s", (int)(equals - setting), setting);
    kiln_status status = kiln_context_set(context, name, equals + 1, err);
    if (status == KILN_STATUS_NOT_FOUND) {
        char guess[CLI_GUESS_ROOM], told[sizeof(err->message)];
        memcpy(told, err->message, sizeof(told));
        (void)kiln_fail(err, NOT_FOUND, "%.120s%s", told,
                        cli_guess(guess, name, option_of_kiln, NULL));
    }
    return status;
}

/// --tune, else what the user set elsewhere, else the command's own default.
static kiln_status apply_tune(const cli_device_options *options, kiln_context *context,
                              kiln_error *err)
{
    const kiln_config *config = kiln_context_env(context)->config;
    const char *mode = options->tune;
    if (mode == NULL && kiln_config_origin(config, KILN_OPTION_TUNE) == KILN_ORIGIN_DEFAULT) {
        mode = options->tune_default;
    }
    return mode == NULL ? KILN_STATUS_OK : kiln_context_set(context, "tune", mode, err);
}

// ---- signals ----

enum { MAX_OPEN = 32 };

static _Atomic(kiln_context *) open_contexts[MAX_OPEN]; // a handler gets no argument

static void forgive(int number)
{
    for (size_t i = 0; i < MAX_OPEN; i++) {
        kiln_context *context = atomic_load(&open_contexts[i]);
        if (context != NULL) {
            cli_fusers_forgive(context);
        }
    }
    (void)raise(number); // its default action, once the handler is left
}

static void watch_signals(kiln_context *context)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = forgive, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
    kiln_context *none = NULL;
    for (size_t i = 0; i < MAX_OPEN; i++, none = NULL) {
        if (atomic_compare_exchange_strong(&open_contexts[i], &none, context)) {
            return;
        }
    }
}

kiln_status cli_open_context(const cli_device_options *options, kiln_context **out_context,
                             kiln_error *err)
{
    kiln_context_options wanted = KILN_CONTEXT_OPTIONS_INIT;
    wanted.log = print_log;
    kiln_context *context = NULL;
    kiln_status status = kiln_context_create(&wanted, &context, err);
    if (status == KILN_STATUS_OK) {
        watch_signals(context);
    }
    if (status == KILN_STATUS_OK && options->afresh) {
        status = kiln_context_set(context, "plugin-failures", "0", err);
    }
    for (size_t i = 0; i < options->n_settings && status == KILN_STATUS_OK; i++) {
        status = apply_setting(context, options->settings[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = apply_tune(options, context, err);
    }
    if (status == KILN_STATUS_OK && options->check != NULL) {
        status = kiln_context_set(context, "check", options->check, err);
    }
    if (status == KILN_STATUS_OK && options->model_dtype != NULL) {
        status = kiln_context_set(context, "model-dtype", options->model_dtype, err);
    }
    if (status == KILN_STATUS_OK) {
        status = cli_fusers_load(options, context, err);
    }
    if (status != KILN_STATUS_OK) {
        cli_close_context(context);
        return status;
    }
    *out_context = context;
    return KILN_STATUS_OK;
}

kiln_status cli_count_compiling(kiln_context *context, kiln_error *err)
{
    const kiln_config *config = kiln_context_env(context)->config;
    bool said = kiln_config_origin(config, KILN_OPTION_LOG) != KILN_ORIGIN_DEFAULT;
    if (said || !cli_progress_is_seen()) {
        return KILN_STATUS_OK;
    }
    atomic_store(&counts_only, true);
    return kiln_context_set(context, "log", "warn,cl_backend=info", err);
}

void cli_close_context(kiln_context *context)
{
    for (size_t i = 0; i < MAX_OPEN; i++) {
        kiln_context *own = context;
        (void)atomic_compare_exchange_strong(&open_contexts[i], &own, NULL);
    }
    kiln_context_destroy(context);
}

static kiln_status open_address(const cli_device_options *options, kiln_context *context,
                                const char *address, kiln_device **out_device, kiln_error *err)
{
    kiln_device_options how = KILN_DEVICE_OPTIONS_INIT;
    kiln_device_info facts;
    kiln_arena arena;
    kiln_status status = KILN_STATUS_OK;
    kiln_arena_init(&arena, kiln_context_env(context));
    if (options->facts != NULL) {
        how.plan_for = &facts;
        status =
            kiln_bundle_facts_read(kiln_context_env(context), options->facts, &arena, &facts, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_open_with(context, address, &how, out_device, err);
    }
    kiln_arena_fini(&arena);
    if (status == KILN_STATUS_OK && options->no_fusion) {
        status = cli_fusers_leave(*out_device, err);
    }
    return status;
}

kiln_status cli_open_device(const cli_device_options *options, kiln_context *context,
                            kiln_device **out_device, kiln_error *err)
{
    return open_address(options, context, options->device, out_device, err);
}

kiln_status cli_open_devices(const cli_device_options *options, kiln_context *context,
                             kiln_device *out_devices[CLI_MAX_DEVICES], size_t *inout_count,
                             kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i <= options->n_more && status == KILN_STATUS_OK; i++) {
        kiln_device *device = NULL;
        status = open_address(options, context, i == 0 ? options->device : options->more[i - 1],
                              &device, err);
        if (device != NULL) {
            out_devices[(*inout_count)++] = device;
        }
    }
    return status;
}

bool cli_is_remote(const kiln_device *device)
{
    return kiln_device_info_of(device)->type == KILN_DEVICE_REMOTE;
}

void cli_print_fused(bool remote, uint64_t ops, uint64_t fused, uint64_t blocks)
{
    if (remote) {
        printf("operations: %" PRIu64 "; the server plans, fuses and compiles\n", ops);
    } else {
        printf("operations: %" PRIu64 ", of them %" PRIu64 " in %" PRIu64 " fused %s\n", ops, fused,
               blocks, kiln_plural(blocks, "block", "blocks"));
    }
}

kiln_status cli_check_local(const kiln_device *device, const char *command, kiln_error *err)
{
    if (!cli_is_remote(device)) {
        return KILN_STATUS_OK;
    }
    const char *name = kiln_device_info_of(device)->name;
    const char *at = strrchr(name, ' '); // "DEVICE at ADDRESS"
    return kiln_fail(err, FAILED_PRECONDITION,
                     "the server at %.100s plans and fuses, nothing of it is here; run `kiln %s` "
                     "on its machine",
                     at != NULL ? at + 1 : name, command);
}

kiln_status cli_check_output(const char *path, kiln_error *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    struct stat stat_of;
    bool there = stat(path, &stat_of) == 0;
    if (strcmp(path, "-") == 0) {
        return KILN_STATUS_OK;
    }
    if (there && S_ISDIR(stat_of.st_mode)) {
        return kiln_fail(err, UNAVAILABLE, "%.200s: is a folder", path);
    }
    snprintf(folder, sizeof(folder), "%.*s",
             slash == NULL   ? 1
             : slash == path ? 1
                             : (int)(slash - path),
             slash == NULL ? "." : path);
    return access(there ? path : folder, there ? W_OK : W_OK | X_OK) == 0
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "%.200s: %s", path, strerror(errno));
}

const char *cli_colour_of(FILE *file, cli_colour colour)
{
    static const char *const sequences[] = {"\033[0m", "\033[31m", "\033[32m", "\033[33m",
                                            "\033[1m"};
    const char *off = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool wanted = (off == NULL || *off == '\0') && term != NULL && strcmp(term, "dumb") != 0;
    return wanted && isatty(fileno(file)) != 0 ? sequences[colour] : "";
}

static void print_name(const char *command)
{
    fprintf(stderr, "%skiln %s:%s ", cli_colour_of(stderr, CLI_RED), command,
            cli_colour_of(stderr, CLI_PLAIN));
}

int cli_fail(const char *command, const kiln_error *err)
{
    print_name(command);
    fprintf(stderr, "%s\n", err->message);
    return CLI_FAILED;
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_name(command);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; see `kiln %s --help`\n", command);
    va_end(args);
    return CLI_USAGE;
}

void cli_make_utf8(char *text)
{
    json_t *made = json_string(text); // which takes nothing else
    for (; made == NULL && *text != '\0'; text++) {
        *text = (unsigned char)*text < 0x80 ? *text : '?';
    }
    json_decref(made);
}

void cli_make_shown(char *text)
{
    for (; *text != '\0'; text++) {
        *text = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
    }
}

void cli_names_add(cli_names *names, const char *name)
{
    enum { END = 24 }; // " and 4294967295 more"
    size_t wanted = strlen(name) + 2;
    if (names->more > 0 || wanted + END > names->capacity - names->length) {
        names->more++;
        return;
    }
    char *at = names->text + names->length;
    int written = snprintf(at, wanted + 1, "%s%s", names->length > 0 ? ", " : "", name);
    cli_make_shown(at);
    names->length += (size_t)written;
}

const char *cli_names_end(cli_names *names)
{
    char *at = names->text + names->length;
    size_t room = names->capacity - names->length;
    if (names->more > 0) {
        snprintf(at, room, "%s%u%s", names->length > 0 ? " and " : "", names->more,
                 names->length > 0 ? " more" : " with long names");
    } else if (names->length == 0) {
        snprintf(at, room, "none");
    }
    return names->text;
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

const char *cli_format_index(char out_text[CLI_INDEX_ROOM], size_t rank, const int64_t *dims,
                             size_t element)
{
    size_t length = (size_t)snprintf(out_text, CLI_INDEX_ROOM, "[");
    size_t below = 1; // elements of one step along an axis
    for (size_t i = 1; i < rank; i++) {
        below *= (size_t)dims[i];
    }
    for (size_t i = 0; i < rank && length < CLI_INDEX_ROOM; i++) {
        length += (size_t)snprintf(out_text + length, CLI_INDEX_ROOM - length, "%s%zu",
                                   i == 0 ? "" : ",", element / below);
        element %= below;
        below /= i + 1 < rank ? (size_t)dims[i + 1] : 1;
    }
    snprintf(out_text + (length < CLI_INDEX_ROOM - 1 ? length : CLI_INDEX_ROOM - 2), 2, "]");
    return out_text;
}
