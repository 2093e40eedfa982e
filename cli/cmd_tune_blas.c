// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln tune blas`: searches the parameters of CLBlast for a device, and takes them to other
// machines with the same one as a file of text. The search is the backend's (cl_backend.h); here
// are its limits, its progress and what it says at the end.

#include "cl_backend.h"
#include "cli_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tune_blas_options {
    cli_device_options device;
    cli_json_options json;
    kiln_dtype dtype;
    unsigned long seconds; ///< 0: not said
    bool again;
    const char *export_path;
    const char *import_path;
} tune_blas_options;

enum { OPTION_EXPORT = 256, OPTION_IMPORT, OPTION_AGAIN, OPTION_SECONDS, OPTION_DTYPE };

static const struct argp_option tune_blas_table[] = {
    {"seconds", OPTION_SECONDS, "N", 0, "what a search may take (default 120)", 0},
    {"dtype", OPTION_DTYPE, "DTYPE", 0, "f32 (default) or f64", 0},
    {"again", OPTION_AGAIN, NULL, 0, "search though the last search is less than 30 days old", 0},
    {"export", OPTION_EXPORT, "FILE", 0,
     "write what is known for the device as text, without a search unless --seconds is said", 0},
    {"import", OPTION_IMPORT, "FILE", 0, "keep what such a file has for the device", 0},
    {0},
};

static error_t parse_tune_blas_option(int key, char *text, struct argp_state *state)
{
    tune_blas_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case OPTION_SECONDS:
        options->seconds = strtoul(text, &end, 10);
        if (end == text || *end != '\0' || options->seconds == 0 || options->seconds > 86400) {
            argp_error(state, "say --seconds 1 to 86400, not \"%s\"", text);
        }
        return 0;
    case OPTION_DTYPE:
        if (strcmp(text, "f32") != 0 && strcmp(text, "f64") != 0) {
            argp_error(state, "CLBlast multiplies f32 and f64, not \"%s\"", text);
        }
        options->dtype = strcmp(text, "f32") == 0 ? KILN_DTYPE_F32 : KILN_DTYPE_F64;
        return 0;
    case OPTION_AGAIN:
        options->again = true;
        return 0;
    case OPTION_EXPORT:
        options->export_path = text;
        return 0;
    case OPTION_IMPORT:
        options->import_path = text;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- files ----

static kiln_status write_parameters(const kiln_env *env, kiln_backend *backend, const char *path,
                                    kiln_error *err)
{
    kiln_string text;
    kiln_string_init(&text, env);
    kiln_status status = kiln_cl_blas_export(backend, &text, err);
    if (status == KILN_STATUS_OK && text.length == 0) {
        status = kiln_fail(err, NOT_FOUND,
                           "CLBlast has its own parameters on this device; `kiln tune blas` "
                           "searches others");
    }
    if (status == KILN_STATUS_OK) {
        FILE *file = fopen(path, "wb");
        bool whole = file != NULL && fwrite(text.text, 1, text.length, file) == text.length;
        if (file == NULL || fclose(file) != 0 || !whole) {
            status = kiln_fail(err, UNAVAILABLE, "%s cannot be written: %s", path, strerror(errno));
        }
    }
    kiln_string_fini(&text);
    return status;
}

static kiln_status read_parameters(const char *path, char **out_text, size_t *out_length,
                                   kiln_error *err)
{
    enum { MOST_BYTES = 1 << 20 };
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be read: %s", path, strerror(errno));
    }
    *out_text = malloc(MOST_BYTES);
    *out_length = *out_text != NULL ? fread(*out_text, 1, MOST_BYTES, file) : 0;
    bool whole = feof(file) != 0;
    fclose(file);
    return whole ? KILN_STATUS_OK
                 : kiln_fail(err, INVALID_ARGUMENT, "%s is larger than 1 MiB, or cannot be read",
                             path);
}

static kiln_status bring_parameters(const tune_blas_options *options, kiln_backend *backend,
                                    const char *text, size_t length, json_t *told, kiln_error *err)
{
    uint32_t lines = 0;
    kiln_status status = kiln_cl_blas_import(backend, text, length, &lines, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "%s", options->import_path);
    }
    json_object_set_new(told, "lines_taken", json_integer(lines));
    if (!cli_json_is_shown(&options->json)) {
        printf("%u of its lines are of this device\n", lines);
    }
    return KILN_STATUS_OK;
}

// ---- the search ----

static void show_search(double done, void *user)
{
    (void)user;
    if (isatty(STDERR_FILENO) != 0) {
        fprintf(stderr, "\rsearching: %.0f %% of the time ", done * 100);
        fflush(stderr);
    }
}

static void print_search(const kiln_cl_blas_report *report)
{
    printf("%u sets of parameters tried, %u of them refused or wrong\n", report->tried,
           report->refused);
    printf("  small products  %7.1f GFLOP/s, %.1f with what ships\n", report->small_after * 1e-9,
           report->small_before * 1e-9);
    printf("  large products  %7.1f GFLOP/s, %.1f with what ships\n", report->large_after * 1e-9,
           report->large_before * 1e-9);
    printf("  large are those from %u on\n", report->border);
}

/// Speeds are FLOP/s.
static json_t *search_json(const kiln_cl_blas_report *report)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "tried", (json_int_t)report->tried,
                     "refused", (json_int_t)report->refused, "border", (json_int_t)report->border,
                     "small_before", cli_json_figure(report->small_before), "small_after",
                     cli_json_figure(report->small_after), "large_before",
                     cli_json_figure(report->large_before), "large_after",
                     cli_json_figure(report->large_after));
}

static kiln_status search_parameters(const tune_blas_options *options, kiln_backend *backend,
                                     json_t *told, kiln_error *err)
{
    enum { USUAL_SECONDS = 120 };
    uint64_t seconds = options->seconds != 0 ? options->seconds : USUAL_SECONDS;
    kiln_cl_blas_report report;
    bool fresh = false;
    (void)kiln_cl_blas_searched(backend, options->dtype, &fresh);
    bool silent = cli_json_is_shown(&options->json);
    if (fresh && !options->again) {
        if (!silent) {
            printf(
                "nothing to search: what is known is less than 30 days old (--again searches)\n");
        }
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_cl_blas_search(
        backend, options->dtype, seconds * UINT64_C(1000000000), show_search, NULL, &report, err);
    if (isatty(STDERR_FILENO) != 0) {
        fprintf(stderr, "\r%40s\r", "");
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    json_object_set_new(told, "search", search_json(&report));
    if (!silent) {
        print_search(&report);
    }
    return KILN_STATUS_OK;
}

// ---- the command ----

static kiln_status tune_blas(const tune_blas_options *options, kiln_context *context,
                             kiln_error *err)
{
    const kiln_env *env = kiln_context_env(context);
    kiln_backend *backend = NULL;
    json_t *told = json_pack("{s:n, s:n}", "lines_taken", "search");
    char *brought = NULL;
    size_t length = 0;
    kiln_status status = KILN_STATUS_OK;
    if (options->import_path != NULL) {
        KILN_TRY(out, status, read_parameters(options->import_path, &brought, &length, err));
    }
    if (options->export_path != NULL) {
        KILN_TRY(out, status, cli_check_output(options->export_path, err));
    }
    KILN_TRY(out, status, cli_open_opencl(&options->device, env, &backend, err));
    if (brought != NULL) {
        KILN_TRY(out, status, bring_parameters(options, backend, brought, length, told, err));
    }
    if (options->seconds != 0 || (options->import_path == NULL && options->export_path == NULL)) {
        KILN_TRY(out, status, search_parameters(options, backend, told, err));
    }
    if (options->export_path != NULL) {
        KILN_TRY(out, status, write_parameters(env, backend, options->export_path, err));
    }
    if (options->json.wanted) {
        status = cli_json_write(&options->json, json_incref(told), err);
    }
out:
    json_decref(told);
    if (backend != NULL) {
        backend->device->close(backend);
    }
    free(brought);
    return status;
}

int cmd_tune_blas(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        tune_blas_table,
        parse_tune_blas_option,
        NULL,
        "Searches parameters of CLBlast for the small and the large products of a device, and "
        "keeps the best in the cache. A file of them serves machines with the same device.",
        children,
        NULL,
        NULL};
    tune_blas_options options = {.dtype = KILN_DTYPE_F32};
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = tune_blas(&options, context, &err);
        cli_close_context(context);
    }
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("tune blas", &err);
}
