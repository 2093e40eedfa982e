// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln run MODEL`: one model, inputs from .npy files, outputs printed or written, with times,
// counts and memory. The model is captured as a graph at the first run; the repeated runs replay
// it.

#include "bundle_cli.h"
#include "cli_json.h"
#include "model_parts.h"
#include "model_run.h"
#include "model_show.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run_options {
    model_options model;
    char *outputs[MODEL_RUN_MAX_IO]; ///< NAME=FILE or FILE
    size_t n_outputs;
    const char *expected;
    long row; ///< of `expected`; -1: all of it
    double tolerance;
    bool draw;
    bool memory;
    bool profile;
    bool turns;
    bool no_compile;
    long repeat;
    long top;
    model_labels labels;
    cli_json_options json;
} run_options;

enum { OPTION_NO_COMPILE = 't' + 258 };

static const struct argp_option run_options_table[] = {
    {"output", 'o', "[NAME=]FILE", 0,
     "write an output as .npy, in the model's order when it has no name; an unknown name gets the "
     "list of them",
     0},
    {"runs", 'r', "COUNT", 0, "repeated runs after the first, which are timed (default 20)", 0},
    {"repeat", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"top", 'k', "COUNT", 0, "print the best classes of the first output, of each of its rows", 0},
    {"labels", 'l', "FILE", 0, "names of the classes, a line each", 0},
    {"expected", 'e', "FILE", 0, "compare the first output with a .npy file; fail when it differs",
     0},
    {"row", 'R', "INDEX", 0, "compare with one row of --expected: its first axis", 0},
    {"draw", 'D', NULL, 0, "draw the first input as a picture: its last two axes", 0},
    {"memory", 'm', NULL, 0, "print how the values of the model share memory, step by step", 0},
    {"profile", 'P', NULL, 0,
     "print which blocks and operations the runs spend their time in, and how fast these are", 0},
    {"tolerance", 't', "NUMBER", 0, "of --expected, times its largest value (default 1e-4)", 0},
    {"trace", 't' + 256, "FILE", 0,
     "write what host and device did, for Perfetto and chrome://tracing", 0},
    {"no-compile", OPTION_NO_COMPILE, NULL, 0, "of a bundle: run from binaries alone", 0},
    {"turns", 't' + 257, NULL, 0,
     "after the first run, run as lines of standard input say, \"run SECONDS\" or \"write FILE\", "
     "for programs that measure; a line answers each",
     0},
    {0},
};

static error_t parse_run_option(int key, char *text, struct argp_state *state)
{
    run_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'o':
        if (options->n_outputs == MODEL_RUN_MAX_IO) {
            argp_error(state, "more than %d outputs", MODEL_RUN_MAX_IO);
        }
        options->outputs[options->n_outputs++] = text;
        return 0;
    case 'r':
        options->repeat = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0' || options->repeat < 0 || options->repeat > 1000000) {
            argp_error(state, "--runs %s: a count from 0", text);
        }
        return 0;
    case 'k':
        options->top = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0' || options->top < 1 || options->top > 1000) {
            argp_error(state, "--top %s: a count from 1 to 1000", text);
        }
        return 0;
    case 'l':
        options->labels.path = text;
        return 0;
    case 'e':
        options->expected = text;
        return 0;
    case 'R':
        options->row = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0' || options->row < 0) {
            argp_error(state, "--row %s: an index from 0", text);
        }
        return 0;
    case 'D':
        options->draw = true;
        return 0;
    case 't' + 256:
        options->model.trace = text;
        return 0;
    case OPTION_NO_COMPILE:
        options->no_compile = true;
        return 0;
    case 't' + 257:
        options->turns = true;
        return 0;
    case 'm':
        options->memory = true;
        return 0;
    case 'P':
        options->profile = true;
        return 0;
    case 't':
        options->tolerance = strtod(text, &end);
        if (*text == '\0' || *end != '\0' || !(options->tolerance >= 0)) {
            argp_error(state, "--tolerance %s: a number from 0", text);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- printing ----

static void print_work(const model_run_report *report)
{
    cli_print_fused(report->remote, report->ops, report->ops_fused, report->blocks);
    if (!report->remote) {
        printf("kernels launched: %llu a run, BLAS calls %llu\n",
               (unsigned long long)report->kernels, (unsigned long long)report->blas_calls);
    }
    if (report->measuring > 0) {
        printf("kernels launched to compare fusers: %llu\n", (unsigned long long)report->measuring);
    }
}

static double sum_of(const model_run_times *times)
{
    return times->open + times->first + times->show + times->repeat + times->tune + times->close;
}

/// Where the time went, so that nobody has to guess what a first process does.
static void print_times(const model_run_times *times)
{
    const struct {
        const char *name;
        double ns;
    } parts[] = {{"opening", times->open},         {"first run", times->first},
                 {"repeated runs", times->repeat}, {"tuning", times->tune},
                 {"printing", times->show},        {"closing", times->close}};
    char text[32];
    printf("all of it: %s", cli_format_ns(text, sum_of(times)));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        printf("%s%s %s", i == 0 ? ": " : ", ", parts[i].name, cli_format_ns(text, parts[i].ns));
    }
    printf("\n");
}

static void print_report(const model_run_report *report)
{
    char first[32];
    char repeated[32];
    char memory[32];
    printf("device: %s\n", report->device_name);
    if (json_array_size(report->parts) > 1) {
        model_print_parts(report->parts);
    }
    printf("first run: %s", cli_format_ns(first, report->first_ns));
    if (report->built > 0) {
        printf(", of it %s compiling %llu %s", cli_format_ns(memory, report->build_ns),
               (unsigned long long)report->built,
               kiln_plural(report->built, "program", "programs"));
    }
    if (report->loaded > 0) {
        printf(", %llu %s taken from the cache", (unsigned long long)report->loaded,
               kiln_plural(report->loaded, "program", "programs"));
    }
    printf("\n");
    if (report->repeats > 0) {
        printf("repeated run: %s (median of %u)\n", cli_format_ns(repeated, report->repeat_ns),
               report->repeats);
    }
    print_work(report);
    print_times(&report->times);
    printf("peak of device memory: %s\n", cli_format_bytes(memory, (double)report->peak_bytes));
    if (report->memory != NULL) {
        printf("held by the device at most: %s\n",
               cli_format_bytes(memory, (double)report->pooled_peak_bytes));
        printf("budget: %s\n", cli_format_bytes(memory, (double)report->budget_bytes));
        printf("a repeated run: %llu %s from its plan, %llu from the pool\n",
               (unsigned long long)report->values_planned,
               kiln_plural(report->values_planned, "value", "values"),
               (unsigned long long)report->pool_reuses);
        fputs(report->memory, stdout);
    }
    if (report->profile != NULL) {
        fputs(report->profile, stdout);
    }
}

// ---- comparing and writing ----

/// Narrows an array to one index of its first axis. The data stay where they are; `*out_start` is
/// the first element.
static kiln_status take_row(const char *path, long row, kiln_npy *array, size_t *out_start,
                            kiln_error *err)
{
    *out_start = 0;
    if (row < 0) {
        return KILN_STATUS_OK;
    }
    if (array->rank == 0 || row >= array->dims[0]) {
        return kiln_fail(err, OUT_OF_RANGE, "--row %ld: %.150s has %lld rows, counted from 0", row,
                         path, array->rank == 0 ? 0 : (long long)array->dims[0]);
    }
    array->bytes /= (size_t)array->dims[0];
    *out_start = (size_t)row * kiln_npy_count(array);
    return KILN_STATUS_OK;
}

/// What is compared has `count` elements.
static kiln_status check_count(const kiln_npy *expected, size_t count, const run_options *options,
                               const char *row, kiln_error *err)
{
    char hint[64] = "";
    size_t wanted = kiln_npy_count(expected);
    size_t rows = expected->rank > 0 ? (size_t)expected->dims[0] : 0;
    if (wanted == count) {
        return KILN_STATUS_OK;
    }
    if (options->row < 0 && rows > 0 && wanted / rows == count) {
        snprintf(hint, sizeof(hint), "; --row INDEX compares with one of %zu rows", rows);
    }
    return kiln_fail(err, FAILED_PRECONDITION, "%.100s%s has %zu elements, the output %zu%s",
                     options->expected, row, wanted, count, hint);
}

/// Infinite between a number and none, or infinities that are not the same.
static double distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    double apart = fabs(a - b);
    return isnan(apart) ? (double)INFINITY : apart;
}

/// `row` is how the messages go on behind the file's name.
static kiln_status compare_elements(const kiln_npy *array, const kiln_npy *expected, size_t start,
                                    const run_options *options, const char *row, kiln_error *err)
{
    size_t count = kiln_npy_count(array);
    size_t worst = 0;
    size_t differ = 0;
    double furthest = 0;
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double wanted = fabs(kiln_npy_number(expected, start + i));
        largest = isfinite(wanted) ? fmax(largest, wanted) : largest;
    }
    double allowed = options->tolerance * largest;
    for (size_t i = 0; i < count; i++) {
        double apart = distance(kiln_npy_number(array, i), kiln_npy_number(expected, start + i));
        worst = apart > furthest ? i : worst;
        furthest = fmax(furthest, apart);
        differ += apart > allowed;
    }
    if (differ > 0) {
        char at[CLI_INDEX_ROOM];
        cli_format_index(at, array->rank, array->dims, worst);
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the output differs from %.70s%s most at %s: %.6g, expected %.6g; %zu of "
                         "%zu elements by more than %.3g",
                         options->expected, row, at, kiln_npy_number(array, worst),
                         kiln_npy_number(expected, start + worst), differ, count, allowed);
    }
    if (!cli_json_is_shown(&options->json)) {
        printf("as expected: differs by %.3g of at most %.3g\n", furthest, allowed);
    }
    return KILN_STATUS_OK;
}

static kiln_status compare(const kiln_npy *array, const run_options *options, kiln_error *err)
{
    kiln_npy expected;
    char row[32] = "";
    size_t start = 0;
    kiln_status status = kiln_npy_read(options->expected, &expected, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (options->row >= 0) {
        snprintf(row, sizeof(row), ", row %ld,", options->row);
    }
    status = take_row(options->expected, options->row, &expected, &start, err);
    if (status == KILN_STATUS_OK) {
        status = check_count(&expected, kiln_npy_count(array), options, row, err);
    }
    if (status == KILN_STATUS_OK) {
        status = compare_elements(array, &expected, start, options, row, err);
    }
    kiln_npy_free(&expected);
    return status;
}

/// The last two axes of an array as rows of blocks, darker for larger elements.
static kiln_status draw(const char *path, kiln_error *err)
{
    static const char *const shades[] = {"  ", "\u2591\u2591", "\u2592\u2592", "\u2593\u2593",
                                         "\u2588\u2588"};
    kiln_npy array;
    kiln_status status = kiln_npy_read(path, &array, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    // Without elements a length says nothing; with some, one picture is a part of them.
    size_t count = array.rank >= 2 ? kiln_npy_count(&array) : 0;
    size_t height = count > 0 ? (size_t)array.dims[array.rank - 2] : 0;
    size_t width = count > 0 ? (size_t)array.dims[array.rank - 1] : 0;
    double largest = 0;
    for (size_t i = 0; i < height * width; i++) {
        largest = fmax(largest, kiln_npy_number(&array, i));
    }
    for (size_t y = 0; y < height && width <= 80; y++) {
        for (size_t x = 0; x < width; x++) {
            double shade = largest > 0 ? kiln_npy_number(&array, y * width + x) / largest : 0;
            fputs(shades[shade > 0 ? (int)(shade * 4 + 0.5) : 0], stdout);
        }
        putchar('\n');
    }
    kiln_npy_free(&array);
    return KILN_STATUS_OK;
}

static kiln_status write_outputs(const model_run *run, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < run->n_wanted; i++) {
        status = kiln_npy_write(run->wanted_path[i], &run->outputs[run->wanted_index[i]], err);
    }
    return status;
}

/// The results come first: what else a process does is for later ones.
static kiln_status show_results(const model_run *run, void *user, kiln_error *err)
{
    const run_options *options = user;
    kiln_status status = options->draw && options->model.n_inputs > 0
                             ? draw(options->model.inputs[0].path, err)
                             : KILN_STATUS_OK;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!run->report.computes) {
        if (!cli_json_is_shown(&options->json)) {
            printf("no results: this device computes nothing\n");
        }
        return run->n_wanted == 0 && options->expected == NULL
                   ? KILN_STATUS_OK
                   : kiln_fail(err, FAILED_PRECONDITION,
                               "--output and --expected want a device that computes");
    }
    if (!cli_json_is_shown(&options->json)) {
        model_print_outputs(run, &options->labels, options->top);
    }
    if (options->expected != NULL && run->n_outputs > 0) {
        status = compare(&run->outputs[0], options, err);
    }
    if (status == KILN_STATUS_OK) {
        status = write_outputs(run, err);
    }
    fflush(stdout);
    return status;
}

/// What is wrong with the command line or its files is told before a device is opened.
static kiln_status check_run(run_options *options, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (options->labels.path != NULL) {
        KILN_TRY(out, status, model_labels_read(&options->labels, err));
    }
    if (options->expected != NULL && access(options->expected, R_OK) != 0) {
        return kiln_fail(err, NOT_FOUND, "%s: %s", options->expected, strerror(errno));
    }
    if (options->model.trace != NULL) {
        KILN_TRY(out, status, cli_check_output(options->model.trace, err));
    }
out:
    return status;
}

/// A folder with a bundle runs as the model would whose it is; what the importer or the planner
/// would tell is not there.
static kiln_status check_bundle_options(const run_options *options, kiln_error *err)
{
    const model_options *model = &options->model;
    return model->random || model->n_shapes > 0 || model->batch != 0 || model->trace != NULL ||
                   options->memory || options->profile || options->turns || model->device.n_more > 0
               ? kiln_fail(
                     err, INVALID_ARGUMENT,
                     "a bundle takes --input, --output, --runs, --expected, --row, --top, "
                     "--labels, --draw, --json and --no-compile, and the options of one device")
               : KILN_STATUS_OK;
}

/// The results go where a model's go.
static void take_bundle_result(bundle_result *result, model_run *run)
{
    run->n_outputs = result->n_outputs;
    for (size_t i = 0; i < result->n_outputs; i++) {
        run->outputs[i] = result->outputs[i];
        run->names[i] = result->names[i];
    }
    run->report.computes = true;
}

static kiln_status run_bundle(run_options *options, kiln_error *err)
{
    model_run run = {.user = options};
    bundle_result result = {0};
    bundle_request request = {.device = &options->model.device,
                              .folder = options->model.model,
                              .n_inputs = options->model.n_inputs,
                              .n_outputs = options->n_outputs,
                              .repeats = (uint32_t)options->repeat,
                              .no_compile = options->no_compile};
    for (size_t i = 0; i < request.n_inputs; i++) {
        request.inputs[i] = (bundle_file){.name = options->model.inputs[i].name,
                                          .path = options->model.inputs[i].path};
    }
    for (size_t i = 0; i < request.n_outputs; i++) {
        request.outputs[i] = bundle_file_of(options->outputs[i]);
    }
    kiln_status status = check_bundle_options(options, err);
    if (status == KILN_STATUS_OK) {
        status = bundle_execute(&request, &result, err);
    }
    if (status == KILN_STATUS_OK) {
        take_bundle_result(&result, &run);
        status = show_results(&run, options, err);
    }
    if (status == KILN_STATUS_OK && !cli_json_is_shown(&options->json)) {
        bundle_print_report(&result);
    }
    if (status == KILN_STATUS_OK && options->json.wanted) {
        json_t *made = bundle_report_json(&request, &result);
        model_results_json(made, &run, &options->labels, options->top);
        status = cli_json_write(&options->json, made, err);
    }
    bundle_result_free(&result);
    return status;
}

static kiln_status run_model(run_options *options, kiln_error *err)
{
    model_run run = {.n_wanted = options->n_outputs,
                     .with_memory = options->memory,
                     .with_profile = options->profile,
                     .on_first = show_results,
                     .user = options};
    memcpy(run.wanted, options->outputs, sizeof(run.wanted));
    bool traced = options->model.trace != NULL;
    if (options->profile && !traced) {
        options->model.trace = "";
    }
    kiln_status status = model_run_execute(&options->model, (uint32_t)options->repeat, &run, err);
    if (status == KILN_STATUS_OK && !cli_json_is_shown(&options->json)) {
        if (traced) {
            printf("trace: %s\n", options->model.trace);
        }
        print_report(&run.report);
    }
    if (status == KILN_STATUS_OK && options->json.wanted) {
        json_t *made = model_run_json(&options->model, &run, &options->labels, options->top);
        status = cli_json_write(&options->json, made, err);
    }
    model_run_free(&run);
    return status;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_options_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {run_options_table,
                                     parse_run_option,
                                     "MODEL",
                                     "Runs an ONNX model on inputs from .npy, .npz, .png and .jpg "
                                     "files, or a bundle, which is a "
                                     "folder (see `kiln bundle`), on inputs from .npy files.",
                                     children,
                                     NULL,
                                     NULL};
    run_options options = {.model = {.device = {.several = true, .tune_default = "lazy"}},
                           .repeat = 20,
                           .tolerance = 1e-4,
                           .row = -1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.row >= 0 && options.expected == NULL) {
        return cli_usage("run", "--row is one of --expected, which is not there");
    }
    kiln_error err = KILN_ERROR_INIT;
    bool is_bundle = bundle_is_at(options.model.model);
    kiln_status status =
        options.turns && !is_bundle ? model_turns(&options.model, &err) : check_run(&options, &err);
    if (status == KILN_STATUS_OK && !options.turns) {
        status = is_bundle ? run_bundle(&options, &err) : run_model(&options, &err);
    }
    model_labels_free(&options.labels);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("run", &err);
}
