// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bundle MODEL`: runs a model, writes what that launched as a bundle, and runs the bundle to
// see that it gives the same bits, with memory that held something else before. Decides which other
// inputs show that nothing depends on values.

#include "bundle_cli.h"
#include "model_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum make_choice {
    CHOICE_BY_DEVICE, ///< yes where the device runs loops in a single work-item best, as FPGAs do
    CHOICE_YES,
    CHOICE_NO
} make_choice;

typedef struct make_options {
    model_options model;
    const char *output;
    make_choice merge;
    make_choice single;
    uint32_t banks; ///< of memory; 0: none are named
} make_options;

enum { OPTION_MERGE = 1024, OPTION_SINGLE, OPTION_BANKS };

static const struct argp_option make_table[] = {
    {"output", 'o', "FOLDER", 0, "where the bundle goes; empty or not there yet", 0},
    {"merge", OPTION_MERGE, "yes|no", OPTION_ARG_OPTIONAL,
     "one source for all kernels, as an FPGA's bitstream wants it; planned for an FPGA: yes", 0},
    {"single-work-item", OPTION_SINGLE, "yes|no", OPTION_ARG_OPTIONAL,
     "kernels as loops in a single work-item, as FPGAs run them best; planned for one: yes", 0},
    {"banks", OPTION_BANKS, "N", 0,
     "deal buffers out to N banks of an FPGA board's memory, and write what connects them", 0},
    {0}};

static make_choice parse_choice(const char *name, const char *text, struct argp_state *state)
{
    bool yes = text == NULL || strcmp(text, "yes") == 0;
    if (!yes && strcmp(text, "no") != 0) {
        argp_error(state, "--%s=%s is neither yes nor no", name, text);
    }
    return yes ? CHOICE_YES : CHOICE_NO;
}

static uint32_t parse_banks(const char *text, struct argp_state *state)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < 1 || number > 32) {
        argp_error(state, "--banks %s is no number from 1 to 32", text);
    }
    return (uint32_t)number;
}

static error_t parse_make_option(int key, char *text, struct argp_state *state)
{
    make_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        return 0;
    case 'o':
        options->output = text;
        return 0;
    case OPTION_MERGE:
        options->merge = parse_choice("merge", text, state);
        return 0;
    case OPTION_SINGLE:
        options->single = parse_choice("single-work-item", text, state);
        return 0;
    case OPTION_BANKS:
        options->banks = parse_banks(text, state);
        return 0;
    case ARGP_KEY_END:
        if (options->output == NULL) {
            argp_error(state, "say where the bundle goes: -o FOLDER");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child make_children[] = {{&model_options_argp, 0, NULL, 0}, {0}};
static const struct argp make_argp = {
    make_table,
    parse_make_option,
    "MODEL -o FOLDER [--next --input FILE...]...",
    "Writes what a model launches on a device, for the shapes of the inputs, as a folder that runs "
    "without a compiler, a fuser or the model.\vBehind --next stand inputs of another set of "
    "shapes.",
    make_children,
    NULL,
    NULL};

// ---- one set of shapes ----

typedef struct made_shapes { ///< a set of shapes that was run by the model
    model_session session;
    kiln_tensor *others[MODEL_RUN_MAX_IO];
    kiln_npy expected[2][MODEL_RUN_MAX_IO]; ///< of the inputs, and of the others
} made_shapes;

/// The same elements in the opposite order: whatever is a good index or mask stays one. A single
/// float is changed.
static void turn_elements(const kiln_npy *from, void *out)
{
    size_t size = kiln_dtype_size(from->dtype);
    size_t count = size > 0 ? from->bytes / size : 0;
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)out + i * size, (const char *)from->data + (count - 1 - i) * size, size);
    }
    if (count == 1 && from->dtype == KILN_DTYPE_F32) {
        *(float *)out += 1;
    }
}

static kiln_status make_others(made_shapes *shapes, kiln_error *err)
{
    model_session *session = &shapes->session;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < session->n_inputs && status == KILN_STATUS_OK; i++) {
        const kiln_npy *array = &session->arrays[i];
        void *turned = calloc(1, array->bytes + 8);
        if (turned == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for inputs");
        }
        turn_elements(array, turned);
        status = kiln_tensor_create(session->device, kiln_tensor_dtype(session->tensors[i]),
                                    array->rank, array->dims, turned, &shapes->others[i], err);
        free(turned);
    }
    return status;
}

static kiln_status run_model_on(made_shapes *shapes, kiln_tensor **inputs, kiln_npy *expected,
                                kiln_error *err)
{
    model_session *session = &shapes->session;
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status =
        kiln_graph_run(session->graph, inputs, session->n_inputs, outputs, session->n_outputs, err);
    for (size_t i = 0; i < session->n_outputs && status == KILN_STATUS_OK; i++) {
        status = bundle_read(outputs[i], &expected[i], err);
    }
    for (size_t i = 0; i < session->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

static kiln_status open_shapes(made_shapes *shapes, const model_options *options, kiln_error *err)
{
    kiln_status status = model_session_open(&shapes->session, options, /*invent=*/true, err);
    if (status == KILN_STATUS_OK) {
        status = cli_check_local(shapes->session.device, "bundle", err);
    }
    if (status == KILN_STATUS_OK && shapes->session.graph == NULL) {
        status = kiln_fail(err, UNIMPLEMENTED,
                           shapes->session.on_host
                               ? "the model takes or gives strings, maps or lists, which no bundle "
                                 "has"
                               : "the model reads values back while it runs: what it launches "
                                 "depends on them, and a bundle is a fixed list");
    }
    return status == KILN_STATUS_OK ? make_others(shapes, err) : status;
}

static void close_shapes(made_shapes *shapes)
{
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(shapes->others[i]);
        kiln_npy_free(&shapes->expected[0][i]);
        kiln_npy_free(&shapes->expected[1][i]);
    }
    if (shapes->session.context != NULL) {
        model_session_close(&shapes->session);
    }
}

static kiln_status record_shapes(made_shapes *shapes, kiln_bundle_maker *maker, kiln_error *err)
{
    model_session *session = &shapes->session;
    const char *inputs[MODEL_RUN_MAX_IO];
    const char *outputs[MODEL_RUN_MAX_IO];
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(session->model, &(size_t){0});
    for (size_t i = 0; i < session->n_inputs; i++) {
        inputs[i] = session->inputs[i].name;
    }
    for (size_t i = 0; i < session->n_outputs; i++) {
        outputs[i] = infos[i].name;
    }
    const kiln_bundle_work work = {.struct_size = sizeof(work),
                                   .n_inputs = (uint32_t)session->n_inputs,
                                   .n_outputs = (uint32_t)session->n_outputs,
                                   .graph = session->graph,
                                   .device = session->device,
                                   .inputs = session->tensors,
                                   .others = shapes->others,
                                   .input_names = inputs,
                                   .output_names = outputs};
    kiln_status status = kiln_bundle_maker_add(maker, &work, err);
    if (status == KILN_STATUS_OK) {
        status = run_model_on(shapes, session->tensors, shapes->expected[0], err);
    }
    return status == KILN_STATUS_OK ? run_model_on(shapes, shapes->others, shapes->expected[1], err)
                                    : status;
}

// ---- the bundle gives the same ----

static kiln_status compare_run(made_shapes *shapes, kiln_bundle *bundle, int which, kiln_error *err)
{
    model_session *session = &shapes->session;
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = kiln_bundle_run(bundle, which == 0 ? session->tensors : shapes->others,
                                         session->n_inputs, outputs, session->n_outputs, err);
    for (size_t i = 0; i < session->n_outputs && status == KILN_STATUS_OK; i++) {
        const kiln_npy *expected = &shapes->expected[which][i];
        kiln_npy array = {0};
        status = bundle_read(outputs[i], &array, err);
        if (status == KILN_STATUS_OK && (array.bytes != expected->bytes ||
                                         memcmp(array.data, expected->data, array.bytes) != 0)) {
            status = kiln_fail(err, INTERNAL,
                               "output %zu of the bundle is not the model's: something that it "
                               "needs is not among its steps",
                               i);
        }
        kiln_npy_free(&array);
    }
    for (size_t i = 0; i < session->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

static kiln_status compare_bundle(made_shapes *shapes, const char *folder, kiln_bundle_info *out,
                                  kiln_error *err)
{
    kiln_bundle_options options = KILN_BUNDLE_OPTIONS_INIT;
    kiln_bundle *bundle = NULL;
    options.poison = 1;
    options.no_binaries = 1;
    kiln_status status = kiln_bundle_open(shapes->session.device, folder, &options, &bundle, err);
    if (status == KILN_STATUS_OK) {
        kiln_bundle_info_get(bundle, out);
        status = compare_run(shapes, bundle, 0, err);
    }
    if (status == KILN_STATUS_OK) {
        status = compare_run(shapes, bundle, 1, err);
    }
    kiln_bundle_close(bundle);
    return status;
}

// ---- the command ----

enum { MOST_SETS = 64 };

typedef struct make_sets {
    make_options options[MOST_SETS];
    made_shapes *shapes[MOST_SETS]; ///< open
    size_t count;
    bool single;
    uint32_t grids; ///< programs that are no loops in a single work-item
    uint32_t saved; ///< changes of program that the order of the steps avoids
} make_sets;

/// Device and settings are those of the first set.
static void parse_sets(make_sets *sets, int argc, char **argv)
{
    int begin = 0;
    for (int end = 1; end <= argc; end++) {
        if (end < argc && strcmp(argv[end], "--next") != 0) {
            continue;
        }
        if (sets->count == MOST_SETS) {
            exit(cli_usage("bundle", "more than %d sets of shapes", MOST_SETS));
        }
        make_options *set = &sets->options[sets->count++];
        if (begin > 0) {
            const make_options *first = &sets->options[0];
            set->output = first->output;
            set->model.model = first->model.model;
            set->model.device = first->model.device;
            set->model.batch = first->model.batch;
            set->model.picture = first->model.picture;
            argv[begin] = argv[0];
        }
        argp_parse(&make_argp, end - begin, argv + begin, 0, NULL, set);
        begin = end;
    }
}

/// Without its list of hashes nobody runs it; the rest shows what was wrong.
static void spoil_bundle(const char *folder)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/HASHES", folder) < (int)sizeof(path)) {
        (void)unlink(path);
    }
}

/// What would be told at the end only: a bundle goes into a new folder, or into an empty one.
static kiln_status check_folder(const char *folder, kiln_error *err)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, NULL);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    if (count < 0) {
        return errno == ENOENT ? cli_check_output(folder, err)
                               : kiln_fail(err, UNAVAILABLE, "%.150s: %s", folder, strerror(errno));
    }
    return count == 2 // itself, and the folder above
               ? KILN_STATUS_OK
               : kiln_fail(err, ALREADY_EXISTS,
                           "%.150s is not empty: remove it or name another folder", folder);
}

static bool chosen(const make_sets *sets, make_choice choice)
{
    const kiln_device_info *info = kiln_device_info_of(sets->shapes[0]->session.device);
    return choice == CHOICE_YES ||
           (choice == CHOICE_BY_DEVICE && (info->features & KILN_FEATURE_SINGLE_WORK_ITEM) != 0);
}

static kiln_status make_bundle(make_sets *sets, kiln_bundle_info *out_info, kiln_error *err)
{
    kiln_bundle_maker *maker = NULL;
    const char *folder = sets->options[0].output;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sets->count; i++) {
        made_shapes *shapes = calloc(1, sizeof(*shapes));
        if (shapes == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
        }
        sets->shapes[i] = shapes;
        KILN_TRY(out, status, open_shapes(shapes, &sets->options[i].model, err));
        if (maker == NULL) {
            KILN_TRY(
                out, status,
                kiln_bundle_maker_create(kiln_context_env(shapes->session.context), &maker, err));
        }
        KILN_TRY(out, status, record_shapes(shapes, maker, err));
    }
    sets->single = chosen(sets, sets->options[0].single);
    if (sets->single) {
        KILN_TRY(
            out, status,
            kiln_bundle_maker_single(maker, sets->shapes[0]->session.device, &sets->grids, err));
    }
    if (chosen(sets, sets->options[0].merge)) {
        KILN_TRY(out, status, kiln_bundle_maker_merge(maker, err));
    }
    KILN_TRY(out, status,
             kiln_bundle_maker_order(maker, sets->shapes[0]->session.device, &sets->saved, err));
    if (sets->options[0].banks > 0) {
        KILN_TRY(out, status,
                 kiln_bundle_maker_banks(maker, sets->shapes[0]->session.device,
                                         sets->options[0].banks, err));
    }
    KILN_TRY(out, status, kiln_bundle_maker_write(maker, folder, err));
    for (size_t i = 0; i < sets->count && status == KILN_STATUS_OK; i++) {
        status = compare_bundle(sets->shapes[i], folder, out_info, err);
    }
    if (status != KILN_STATUS_OK) {
        spoil_bundle(folder);
    }
out:
    kiln_bundle_maker_destroy(maker);
    return status;
}

static kiln_status set_recording(make_sets *sets, kiln_error *err)
{
    for (size_t i = 0; i < sets->count; i++) {
        cli_device_options *device = &sets->options[i].model.device;
        if (device->n_settings == sizeof(device->settings) / sizeof(device->settings[0])) {
            return kiln_fail(err, INVALID_ARGUMENT, "too many settings");
        }
        device->settings[device->n_settings++] = "compiler=record";
        device->facts = sets->options[0].model.device.facts;
        device->tune = device->tune != NULL ? device->tune : "off";
    }
    return KILN_STATUS_OK;
}

int bundle_make(int argc, char **argv)
{
    make_sets *sets = calloc(1, sizeof(*sets));
    kiln_bundle_info info = {.struct_size = sizeof(info)};
    kiln_error err = KILN_ERROR_INIT;
    if (sets == NULL) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory");
        return cli_fail("bundle", &err);
    }
    parse_sets(sets, argc, argv);
    kiln_status status = check_folder(sets->options[0].output, &err);
    if (status == KILN_STATUS_OK) {
        status = set_recording(sets, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = make_bundle(sets, &info, &err);
    }
    if (status == KILN_STATUS_OK) {
        char text[32];
        printf("%s: %u %s of shapes, %u %s, %s of constants; it gives the model's bits\n",
               sets->options[0].output, info.n_shapes, kiln_plural(info.n_shapes, "set", "sets"),
               info.n_programs, kiln_plural(info.n_programs, "program", "programs"),
               cli_format_bytes(text, (double)info.constant_bytes));
        if (info.n_programs > 1) {
            printf("a run changes the program %u %s, %u fewer than in the model's order\n",
                   info.reprograms, kiln_plural(info.reprograms, "time", "times"), sets->saved);
        }
        if (sets->single) {
            printf("%u %s no loops in a single work-item\n", sets->grids,
                   kiln_plural(sets->grids, "program is", "programs are"));
        }
    }
    for (size_t i = 0; i < sets->count; i++) {
        if (sets->shapes[i] != NULL) {
            close_shapes(sets->shapes[i]);
            free(sets->shapes[i]);
        }
    }
    free(sets);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("bundle", &err);
}
