// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bundle run|check|compile|add|facts`: words that need a bundle's folder and no model. What
// they find and write is the runtime's; here are only their options and what they print.

#include "bundle_cli.h"

#include <stdio.h>
#include <string.h>

enum { OPTION_NO_COMPILE = 256, OPTION_FACTS, OPTION_NAME, OPTION_DRIVER, MOST_FILES = 256 };

typedef struct tools_options {
    cli_device_options device;
    cli_json_options json;
    bundle_request request;
    const char *facts;
    const char *name;
    const char *driver;
    const char *output;
    const char *files[MOST_FILES]; ///< behind the folder
    size_t n_files;
    bool files_too;
    bool no_folder;
} tools_options;

static error_t parse_place(int key, char *text, struct argp_state *state)
{
    tools_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case OPTION_FACTS:
        options->facts = text;
        return 0;
    case ARGP_KEY_ARG:
        if (options->no_folder || (options->request.folder != NULL && !options->files_too) ||
            options->n_files == MOST_FILES) {
            argp_error(state, "%s is one argument too many", text);
        } else if (options->request.folder == NULL) {
            options->request.folder = text;
        } else {
            options->files[options->n_files++] = text;
        }
        return 0;
    case ARGP_KEY_END:
        if (!options->no_folder && options->request.folder == NULL) {
            argp_error(state, "say which FOLDER");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child device_child[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
static const struct argp_child json_children[] = {
    {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};

/// Of words that print a table.
static error_t parse_place_and_json(int key, char *text, struct argp_state *state)
{
    tools_options *options = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[1] = &options->json;
    }
    return parse_place(key, text, state);
}

static kiln_status open_device(const tools_options *options, kiln_context **out_context,
                               kiln_device **out_device, kiln_error *err)
{
    kiln_status status = cli_open_context(&options->device, out_context, err);
    return status == KILN_STATUS_OK
               ? cli_open_device(&options->device, *out_context, out_device, err)
               : status;
}

static void close_device(kiln_context *context, kiln_device *device)
{
    kiln_device_release(device);
    if (context != NULL) {
        cli_close_context(context);
    }
}

// ---- run ----

static error_t parse_bundle_run(int key, char *text, struct argp_state *state)
{
    tools_options *options = state->input;
    bundle_request *request = &options->request;
    char rest = '\0';
    unsigned count = 0;
    switch (key) {
    case 'i':
    case 'o':
        if (*(key == 'i' ? &request->n_inputs : &request->n_outputs) == BUNDLE_MOST_IO) {
            argp_error(state, "more than %d files", BUNDLE_MOST_IO);
        } else if (key == 'i') {
            request->inputs[request->n_inputs++] = bundle_file_of(text);
        } else {
            request->outputs[request->n_outputs++] = bundle_file_of(text);
        }
        return 0;
    case 'r':
        if (sscanf(text, "%u%c", &count, &rest) != 1 || count > 1000000) {
            argp_error(state, "--runs %s: a count from 0", text);
        }
        request->repeats = count;
        return 0;
    case OPTION_NO_COMPILE:
        request->no_compile = true;
        return 0;
    default:
        return parse_place_and_json(key, text, state);
    }
}

static void print_outputs(const bundle_result *result)
{
    for (size_t i = 0; i < result->n_outputs; i++) {
        size_t count = kiln_npy_count(&result->outputs[i]);
        printf("%s: %s, %zu %s\n", result->names[i], kiln_dtype_name(result->outputs[i].dtype),
               count, kiln_plural(count, "element", "elements"));
    }
}

int bundle_run_word(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"input", 'i', "[NAME=]FILE", 0, "an input from a .npy file", 0},
        {"output", 'o', "[NAME=]FILE", 0, "write an output as .npy", 0},
        {"runs", 'r', "COUNT", 0, "repeated runs after the first, which are timed (default 20)", 0},
        {"no-compile", OPTION_NO_COMPILE, NULL, 0, "run from binaries alone", 0},
        {0}};
    static const struct argp argp = {table,         parse_bundle_run,
                                     "FOLDER",      "Runs a bundle on inputs from .npy files.",
                                     json_children, NULL,
                                     NULL};
    tools_options options = {.request = {.repeats = 20}};
    bundle_result result;
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    options.request.device = &options.device;
    kiln_status status = bundle_execute(&options.request, &result, &err);
    if (status == KILN_STATUS_OK && !cli_json_is_shown(&options.json)) {
        print_outputs(&result);
        bundle_print_report(&result);
    }
    if (status == KILN_STATUS_OK && options.json.wanted) {
        status = cli_json_write(&options.json, bundle_report_json(&options.request, &result), &err);
    }
    bundle_result_free(&result);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("bundle run", &err);
}

// ---- check ----

static void add_miss(const char *text, void *user)
{
    json_t *misses = user;
    json_array_append_new(misses, cli_json_text(text));
}

/// Takes the list over.
static kiln_status tell_check(const tools_options *options, const char *device,
                              const kiln_bundle_info *info, json_t *take_misses, kiln_error *err)
{
    size_t count = json_array_size(take_misses);
    if (!cli_json_is_shown(&options->json)) {
        for (size_t i = 0; i < count; i++) {
            printf("missing: %s\n", json_string_value(json_array_get(take_misses, i)));
        }
        if (count == 0) {
            printf("%s has all of it\n", device);
        }
        printf("%u %s; a run changes the program %u %s\n", info->n_programs,
               kiln_plural(info->n_programs, "program", "programs"), info->reprograms,
               kiln_plural(info->reprograms, "time", "times"));
    }
    if (options->json.wanted) {
        return cli_json_write(
            &options->json,
            json_pack("{s:o, s:o, s:o, s:I, s:I}", "bundle", cli_json_text(options->request.folder),
                      "device", cli_json_text(device), "missing", take_misses, "programs",
                      (json_int_t)info->n_programs, "reprograms", (json_int_t)info->reprograms),
            err);
    }
    json_decref(take_misses);
    return KILN_STATUS_OK;
}

static kiln_status check_for(const tools_options *options, kiln_context *context,
                             uint32_t *out_misses, kiln_error *err)
{
    const kiln_env *env = kiln_context_env(context);
    const kiln_device_info *facts = NULL;
    kiln_device_info read;
    kiln_device *device = NULL;
    kiln_arena arena;
    kiln_arena_init(&arena, env);
    kiln_status status = KILN_STATUS_OK;
    if (options->facts != NULL) {
        status = kiln_bundle_facts_read(env, options->facts, &arena, &read, err);
        facts = &read;
    } else {
        status = cli_open_device(&options->device, context, &device, err);
        facts = status == KILN_STATUS_OK ? kiln_device_info_of(device) : NULL;
    }
    json_t *misses = json_array();
    kiln_bundle_info info = {.struct_size = sizeof(info)};
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_info_read(env, options->request.folder, &info, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_check(env, options->request.folder, facts, add_miss, misses,
                                   out_misses, err);
    }
    if (status == KILN_STATUS_OK) {
        status = tell_check(options, facts->name, &info, misses, err);
    } else {
        json_decref(misses);
    }
    kiln_device_release(device);
    kiln_arena_fini(&arena);
    return status;
}

int bundle_check(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"facts", OPTION_FACTS, "FILE", 0,
         "of the device, as `kiln bundle facts` wrote them there, in place of a device here", 0},
        {0}};
    static const struct argp argp = {
        table,         parse_place_and_json,
        "FOLDER",      "Checks the files of a bundle, and lists what a device would miss.",
        json_children, NULL,
        NULL};
    tools_options options = {0};
    uint32_t misses = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = check_for(&options, context, &misses, &err);
        cli_close_context(context);
    }
    if (status != KILN_STATUS_OK) {
        return cli_fail("bundle check", &err);
    }
    return misses == 0 ? CLI_OK : CLI_FAILED;
}

// ---- compile ----

static kiln_status compile_bundle(kiln_device *device, const char *folder, uint32_t *out_programs,
                                  kiln_error *err)
{
    kiln_bundle_options options = KILN_BUNDLE_OPTIONS_INIT;
    kiln_bundle_info info = {.struct_size = sizeof(info)};
    kiln_bundle *bundle = NULL;
    options.no_binaries = 1;
    kiln_status status = kiln_bundle_open(device, folder, &options, &bundle, err);
    if (status == KILN_STATUS_OK) {
        kiln_bundle_info_get(bundle, &info);
        *out_programs = info.n_programs;
        status = bundle_try_all(device, bundle, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_keep(bundle, err);
    }
    kiln_bundle_close(bundle);
    return status;
}

int bundle_compile(int argc, char **argv)
{
    static const struct argp argp = {
        NULL,
        parse_place,
        "FOLDER",
        "Compiles the sources of a bundle for a device, and puts the binaries into its folder.",
        device_child,
        NULL,
        NULL};
    tools_options options = {0};
    uint32_t programs = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = open_device(&options, &context, &device, &err);
    if (status == KILN_STATUS_OK) {
        status = compile_bundle(device, options.request.folder, &programs, &err);
    }
    if (status == KILN_STATUS_OK) {
        const kiln_device_info *info = kiln_device_info_of(device);
        printf("%u %s for %s, driver %s\n", programs, kiln_plural(programs, "program", "programs"),
               info->name, info->driver);
    }
    close_device(context, device);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("bundle compile", &err);
}

// ---- add ----

static error_t parse_bundle_add(int key, char *text, struct argp_state *state)
{
    tools_options *options = state->input;
    switch (key) {
    case OPTION_NAME:
        options->name = text;
        return 0;
    case OPTION_DRIVER:
        options->driver = text;
        return 0;
    case ARGP_KEY_END:
        if (options->n_files == 0) {
            argp_error(state, "say the FOLDER of a bundle and at least one FILE");
        }
        if (options->name == NULL && options->facts == NULL) {
            argp_error(state, "say for which device: --name or --facts");
        }
        return 0;
    default:
        return parse_place(key, text, state);
    }
}

static kiln_status add_binaries(const tools_options *options, const kiln_env *env, kiln_error *err)
{
    kiln_device_info facts = {.name = options->name, .driver = ""};
    kiln_arena arena;
    kiln_arena_init(&arena, env);
    kiln_status status = KILN_STATUS_OK;
    if (options->facts != NULL) {
        status = kiln_bundle_facts_read(env, options->facts, &arena, &facts, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_add(env, options->request.folder,
                                 options->name != NULL ? options->name : facts.name,
                                 options->driver != NULL ? options->driver : facts.driver,
                                 options->files, options->n_files, err);
    }
    kiln_arena_fini(&arena);
    return status;
}

int bundle_add(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"facts", OPTION_FACTS, "FILE", 0, "of the device, as `kiln bundle facts` writes them", 0},
        {"name", OPTION_NAME, "TEXT", 0, "name of the device", 0},
        {"driver", OPTION_DRIVER, "TEXT", 0, "version of its driver; empty: any", 0},
        {0}};
    static const struct argp argp = {
        table,
        parse_bundle_add,
        "FOLDER FILE...",
        "Puts binaries that other tools made into a bundle. The name of a file, without its "
        "ending, is that of its source in the bundle.",
        device_child,
        NULL,
        NULL};
    tools_options options = {.files_too = true};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = add_binaries(&options, kiln_context_env(context), &err);
        cli_close_context(context);
    }
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("bundle add", &err);
}

// ---- facts ----

static error_t parse_bundle_facts(int key, char *text, struct argp_state *state)
{
    tools_options *options = state->input;
    if (key == 'o') {
        options->output = text;
        return 0;
    }
    return parse_place(key, text, state);
}

static kiln_status write_facts(const char *path, const char *text, kiln_error *err)
{
    FILE *file = path != NULL ? fopen(path, "w") : stdout;
    bool written = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && path != NULL) {
        written = fclose(file) == 0 && written;
    }
    return written ? KILN_STATUS_OK
                   : kiln_fail(err, UNAVAILABLE, "%.150s cannot be written",
                               path != NULL ? path : "standard output");
}

int bundle_facts(int argc, char **argv)
{
    static const struct argp_option table[] = {{"output", 'o', "FILE", 0, "write to a file", 0},
                                               {0}};
    static const struct argp argp = {
        table,        parse_bundle_facts,
        "",           "Writes what a bundle has to know of a device, as JSON.",
        device_child, NULL,
        NULL};
    tools_options options = {.no_folder = true};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    char *text = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status =
        options.output != NULL ? cli_check_output(options.output, &err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK) {
        status = open_device(&options, &context, &device, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_bundle_facts(device, &text, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = write_facts(options.output, text, &err);
        kiln_text_free(context, text);
    }
    close_device(context, device);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("bundle facts", &err);
}
