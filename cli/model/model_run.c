// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a model file on .npy inputs: opens, matches inputs by name or position, captures, runs,
// counts. Decides what "first run" and "repeated run" mean; printing is the commands'.

#include "model_run.h"
#include "cli_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- opening ----

static const struct argp_option options_table[] = {
    {"input", 'i', "[NAME=]FILE", 0,
     "an input from a .npy file, in the model's order when it has no name; an unknown name gets "
     "the "
     "list of them",
     0},
    {0},
};

/// "[NAME=]FILE", or a FILE that is there; `text` is cut in place.
static void add_option(model_options *options, char *text, struct argp_state *state)
{
    if (options->n_inputs == MODEL_RUN_MAX_IO) {
        argp_error(state, "more than %d inputs", MODEL_RUN_MAX_IO);
    }
    bool whole = access(text, F_OK) == 0; // a file whose path holds one
    char *equals = whole ? NULL : strchr(text, '=');
    model_run_input input = {.path = equals != NULL ? equals + 1 : text};
    if (equals != NULL) {
        *equals = '\0';
        input.name = text;
    }
    options->inputs[options->n_inputs++] = input;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    model_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'i':
        add_option(options, text, state);
        return 0;
    case ARGP_KEY_ARG:
        if (options->model != NULL) {
            argp_error(state, "one model at a time; inputs are given with --input");
        }
        options->model = text;
        return 0;
    case ARGP_KEY_END:
        if (options->model == NULL) {
            argp_error(state, "say which model");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
const struct argp model_options_argp = {options_table, parse, NULL, NULL, children, NULL, NULL};

/// Of a model's inputs or outputs, in their order, as its errors list them.
enum { NAMES_ROOM = 128 };
static const char *list_names(const kiln_onnx_value_info *infos, size_t count,
                              char out_text[NAMES_ROOM])
{
    cli_names names = {.text = out_text, .capacity = NAMES_ROOM};
    for (size_t i = 0; i < count; i++) {
        cli_names_add(&names, infos[i].name);
    }
    return cli_names_end(&names);
}

static kiln_status find_input(const model_session *self, const model_run_input *input, size_t place,
                              const char **out_name, kiln_error *err)
{
    size_t count = 0;
    char names[NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &count);
    if (input->name == NULL) {
        if (place >= count) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "the model's inputs are %s; %.60s is one too many",
                             list_names(infos, count, names), input->path);
        }
        *out_name = infos[place].name;
        return KILN_STATUS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, input->name) == 0) {
            *out_name = infos[i].name;
            return KILN_STATUS_OK;
        }
    }
    return kiln_fail(err, NOT_FOUND, "the model has no input \"%.40s\"; its inputs are %s",
                     input->name, list_names(infos, count, names));
}

kiln_status model_run_find_output(const kiln_onnx_model *model, const char *text, size_t place,
                                  size_t *out_index, const char **out_path, kiln_error *err)
{
    size_t count = 0;
    char names[NAMES_ROOM];
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(model, &count);
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals != NULL && i < count; i++) {
        size_t length = (size_t)(equals - text);
        if (strlen(infos[i].name) == length && strncmp(infos[i].name, text, length) == 0) {
            *out_index = i;
            *out_path = equals + 1;
            return KILN_STATUS_OK;
        }
    }
    if (equals != NULL) {
        return kiln_fail(err, NOT_FOUND, "the model has no output \"%.*s\"; its outputs are %s",
                         (int)(equals - text < 40 ? equals - text : 40), text,
                         list_names(infos, count, names));
    }
    if (place >= count) {
        return kiln_fail(err, NOT_FOUND,
                         "the model's outputs are %s; --output %.60s is one too many",
                         list_names(infos, count, names), text);
    }
    *out_index = place;
    *out_path = text;
    return KILN_STATUS_OK;
}

/// Floats of both signs below 1, the same in every run, so that a wrong kernel shows; integers may
/// be indices and stay 0.
static void fill_floats(npy_array *array)
{
    size_t size = kiln_dtype_size(array->dtype);
    bool floats = kiln_dtype_kind_of(array->dtype) == KILN_KIND_FLOAT;
    for (uint64_t i = 0; floats && i < array->bytes / size; i++) {
        const kiln_attr value = {.type = KILN_ATTR_F64,
                                 .count = 1,
                                 .v.f = (double)(kiln_hash64(&i, sizeof(i), 0) % 511) / 256 -
                                        255.0 / 256};
        (void)kiln_number_store(&value, array->dtype, (char *)array->data + i * size);
    }
}

/// An array of the model's shape; lengths that it leaves open are 1.
static kiln_status make_array(const kiln_onnx_value_info *info, npy_array *out_array,
                              kiln_error *err)
{
    size_t size = kiln_dtype_size(info->dtype);
    if (size == 0 || info->rank > NPY_MAX_RANK) {
        return kiln_fail(err, UNIMPLEMENTED, "input \"%s\" of type %s; give it with --input",
                         info->name, info->type_name);
    }
    out_array->dtype = info->dtype;
    out_array->rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        out_array->dims[i] = info->dims[i].length >= 0 ? info->dims[i].length : 1;
        if (__builtin_mul_overflow(size, (size_t)out_array->dims[i], &size)) {
            return kiln_fail(err, OUT_OF_RANGE, "input \"%s\" is too large", info->name);
        }
    }
    out_array->bytes = size;
    out_array->data = calloc(1, size > 0 ? size : 1);
    if (out_array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", size);
    }
    fill_floats(out_array);
    return KILN_STATUS_OK;
}

static bool has_input(const model_session *self, const char *name)
{
    for (size_t i = 0; i < self->n_inputs; i++) {
        if (strcmp(self->inputs[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/// Uploads arrays[n_inputs] as the input `name`.
static kiln_status add_input(model_session *self, const char *name, kiln_error *err)
{
    size_t place = self->n_inputs;
    const npy_array *array = &self->arrays[place];
    kiln_status status = kiln_tensor_create(self->device, array->dtype, array->rank, array->dims,
                                            array->data, &self->tensors[place], err);
    if (status == KILN_STATUS_OK) {
        self->inputs[place] =
            (kiln_onnx_input){.name = name, .tensor = self->tensors[place], .host = array->data};
        self->n_inputs++;
    }
    return status;
}

static kiln_status missing_input(const kiln_onnx_value_info *info, kiln_error *err)
{
    char wanted[96];
    kiln_onnx_value_info_text(info, wanted, sizeof(wanted));
    if (info->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: a .npy file holds no such thing, the C "
                         "interface takes it",
                         info->name, wanted);
    }
    if (info->dtype == KILN_DTYPE_NONE) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model's input \"%s\" is %s: element type %s is not supported",
                         info->name, wanted, info->type_name);
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "the model's input \"%s\", %s, is missing; add --input %s=FILE.npy",
                     info->name, wanted, info->name);
}

static kiln_status load_inputs(model_session *self, const model_run_input *inputs, size_t n_inputs,
                               bool invent, kiln_error *err)
{
    size_t wanted = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(self->model, &wanted);
    for (size_t i = 0; i < n_inputs; i++) {
        const char *name = NULL;
        kiln_status status = find_input(self, &inputs[i], i, &name, err);
        if (status == KILN_STATUS_OK && has_input(self, name)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "input \"%s\" is given twice", name);
        }
        if (status == KILN_STATUS_OK) {
            status = npy_read(inputs[i].path, &self->arrays[i], err);
        }
        if (status == KILN_STATUS_OK) {
            status = add_input(self, name, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < wanted; i++) {
        if (has_input(self, infos[i].name)) {
            continue;
        }
        if (!invent) {
            return missing_input(&infos[i], err);
        }
        if (self->n_inputs == MODEL_RUN_MAX_IO) {
            return kiln_fail(err, UNIMPLEMENTED, "more than %d inputs", MODEL_RUN_MAX_IO);
        }
        kiln_status status = make_array(&infos[i], &self->arrays[self->n_inputs], err);
        if (status == KILN_STATUS_OK) {
            status = add_input(self, infos[i].name, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

/// Leaves `graph` NULL for a model that cannot be captured.
static kiln_status capture(model_session *self, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = kiln_graph_begin(self->device, self->tensors, self->n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, outputs,
                                   self->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(self->device, outputs, self->n_outputs, &self->graph, err);
    } else {
        kiln_graph_cancel(self->device);
        if (status == KILN_STATUS_FAILED_PRECONDITION) {
            status = KILN_STATUS_OK; // it reads values while recording: every run records
        }
    }
    for (size_t i = 0; i < self->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

kiln_status model_session_open(model_session *self, const model_options *options, bool invent,
                               kiln_error *err)
{
    memset(self, 0, sizeof(*self));
    kiln_status status = cli_open_context(&options->device, &self->context, err);
    if (status == KILN_STATUS_OK && options->trace != NULL) {
        status = kiln_trace_start(self->context, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_model_open(kiln_context_env(self->context), options->model, &self->model,
                                      err);
    }
    if (status == KILN_STATUS_OK) {
        (void)kiln_onnx_model_outputs(self->model, &self->n_outputs);
        if (self->n_outputs > MODEL_RUN_MAX_IO) {
            status = kiln_fail(err, UNIMPLEMENTED, "a model with %zu outputs", self->n_outputs);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options->device, self->context, &self->device, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_inputs(self, options->inputs, options->n_inputs, invent, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(self->model, self->device, &self->session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = capture(self, err);
    }
    return status;
}

kiln_status model_session_recapture(model_session *self, kiln_error *err)
{
    kiln_graph_destroy(self->graph);
    self->graph = NULL;
    return capture(self, err);
}

kiln_status model_session_run(model_session *self, kiln_tensor **out_tensors, kiln_error *err)
{
    if (self->graph != NULL) {
        return kiln_graph_run(self->graph, self->tensors, self->n_inputs, out_tensors,
                              self->n_outputs, err);
    }
    return kiln_onnx_session_run(self->session, self->inputs, self->n_inputs, out_tensors,
                                 self->n_outputs, err);
}

kiln_status model_session_run_once(model_session *self, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(self, outputs, err);
    if (status == KILN_STATUS_OK) { // while the results are held, so that they are computed
        status = kiln_sync(self->device, err);
    }
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

kiln_status model_session_meet(model_session *self, kiln_error *err)
{
    enum { MEETING_RUNS = 3 };
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; self->graph == NULL && i < MEETING_RUNS && status == KILN_STATUS_OK; i++) {
        status = model_session_run_once(self, err);
    }
    return status;
}

typedef struct naming {
    model_graph_fn fn;
    void *user;
} naming;

static void name_part(const kiln_onnx_graph_info *info, void *user)
{
    const naming *n = user;
    char name[160];
    snprintf(name, sizeof(name), "%.60s, nodes %u to %u of %u, from %.40s on",
             info->where[0] != '\0' ? info->where : "graph", info->first_node,
             info->first_node + info->n_nodes - 1, info->n_others, info->op_type);
    n->fn(name, info->graph, n->user);
}

void model_session_graphs(const model_session *self, model_graph_fn fn, void *user)
{
    naming n = {fn, user};
    if (self->graph != NULL) {
        fn("", self->graph, user);
    } else {
        kiln_onnx_session_graphs(self->session, name_part, &n);
    }
}

void model_session_close(model_session *self)
{
    kiln_graph_destroy(self->graph);
    kiln_onnx_session_destroy(self->session);
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(self->tensors[i]);
        npy_free(&self->arrays[i]);
    }
    kiln_onnx_model_close(self->model);
    kiln_device_release(self->device);
    cli_close_context(self->context);
    memset(self, 0, sizeof(*self));
}

// ---- running ----

static kiln_status read_output(kiln_tensor *tensor, npy_array *out_array, kiln_error *err)
{
    size_t bytes = kiln_tensor_bytes(tensor);
    if (out_array->data == NULL) {
        out_array->dtype = kiln_tensor_dtype(tensor);
        out_array->rank = kiln_tensor_rank(tensor);
        memcpy(out_array->dims, kiln_tensor_dims(tensor), out_array->rank * sizeof(int64_t));
        out_array->bytes = bytes;
        out_array->data = malloc(bytes > 0 ? bytes : 1);
    }
    if (out_array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    }
    return kiln_read(tensor, out_array->data, bytes, err);
}

static kiln_status run_once(model_session *self, model_run *run, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(self, outputs, err);
    for (size_t i = 0; i < self->n_outputs && status == KILN_STATUS_OK; i++) {
        status = read_output(outputs[i], &run->outputs[i], err);
    }
    for (size_t i = 0; i < self->n_outputs; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

/// Asks the next fusers where programs failed: each that failed is never chosen again.
static kiln_status replace_failed(model_session *self, kiln_error *err)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    if (self->graph != NULL) {
        kiln_graph_info_get(self->graph, &info);
    }
    return info.blocks_failed > 0 ? model_session_recapture(self, err) : KILN_STATUS_OK;
}

/// Launches of the model itself: those that compared candidates for its blocks are told apart.
static uint64_t kernels_of(const kiln_device_stats *stats)
{
    return stats->backend.kernels_launched - stats->kernels_measuring;
}

static uint64_t blas_calls_of(const kiln_device_stats *stats)
{
    return stats->backend.blas_calls - stats->blas_measuring;
}

static kiln_status run_repeatedly(model_session *self, uint32_t repeats, model_run *run,
                                  kiln_error *err)
{
    enum { REPLACEMENTS = 8 }; // what fails later stays alone
    double *samples = calloc(repeats + 1u, sizeof(*samples));
    kiln_status status =
        samples != NULL ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory");
    for (uint32_t i = 0; i < repeats && status == KILN_STATUS_OK; i++) {
        kiln_device_stats before = KILN_DEVICE_STATS_INIT;
        kiln_device_stats after = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(self->device, &before);
        uint64_t start = kiln_time_ns();
        status = i < REPLACEMENTS ? replace_failed(self, err) : status;
        status = status == KILN_STATUS_OK ? run_once(self, run, err) : status;
        samples[i] = (double)(kiln_time_ns() - start);
        kiln_device_stats_get(self->device, &after);
        run->report.kernels = kernels_of(&after) - kernels_of(&before);
        run->report.blas_calls = blas_calls_of(&after) - blas_calls_of(&before);
        run->report.pool_reuses = after.backend.pool_reuses - before.backend.pool_reuses;
        run->report.values_planned = after.values_planned - before.values_planned;
    }
    if (status == KILN_STATUS_OK && repeats > 0) {
        run->report.repeat_ns = kiln_quantile(samples, repeats, 0.5);
        run->report.repeats = repeats;
    }
    free(samples);
    return status;
}

static void fill_report(model_session *self, model_run *run)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self->device, &stats);
    model_run_report *report = &run->report;
    snprintf(report->device_name, sizeof(report->device_name), "%s (%s)",
             kiln_device_address(self->device), kiln_device_info_of(self->device)->name);
    report->remote = cli_is_remote(self->device);
    report->computes = strncmp(kiln_device_address(self->device), "null", 4) != 0;
    report->build_ns = (double)stats.backend.build_ns;
    report->built = stats.backend.programs_built;
    report->loaded = stats.backend.programs_loaded;
    report->ops = stats.ops_recorded;
    report->ops_fused = stats.ops_fused;
    report->blocks = stats.blocks_fused;
    report->kernels = kernels_of(&stats);
    report->blas_calls = blas_calls_of(&stats);
}

/// What the graph became: of what failed, in the end.
static void count_blocks(const model_session *self, model_run_report *report)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    if (self->graph != NULL) {
        kiln_graph_info_get(self->graph, &info);
        report->ops = info.ops;
        report->ops_fused = info.ops_fused;
        report->blocks = info.blocks;
    }
}

static void copy_names(model_session *self, model_run *run)
{
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(self->model, &run->n_outputs);
    for (size_t i = 0; i < run->n_outputs; i++) {
        snprintf(run->name_text[i], sizeof(run->name_text[i]), "%s", infos[i].name);
        cli_make_shown(run->name_text[i]);
        run->names[i] = run->name_text[i];
    }
}

/// With the model alone, before a device is opened.
static kiln_status find_outputs(const char *path, model_run *run, kiln_error *err)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_onnx_model *model = NULL;
    kiln_status status =
        run->n_wanted > 0 ? kiln_onnx_model_open(&env, path, &model, err) : KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < run->n_wanted; i++) {
        status = model_run_find_output(model, run->wanted[i], i, &run->wanted_index[i],
                                       &run->wanted_path[i], err);
    }
    kiln_onnx_model_close(model);
    return status;
}

typedef struct memory_table {
    FILE *out;
    uint32_t graphs;
    kiln_status status;
    kiln_error *err;
} memory_table;

/// One graph's memory: all of it, then step by step.
static void write_graph_memory(const char *name, kiln_graph *graph, void *user)
{
    memory_table *table = user;
    kiln_graph_memory memory = KILN_GRAPH_MEMORY_INIT;
    kiln_graph_memory_step step = KILN_GRAPH_MEMORY_STEP_INIT;
    char sizes[5][32];
    table->graphs++;
    if (table->status == KILN_STATUS_OK) {
        table->status = kiln_graph_memory_get(graph, &memory, table->err);
    }
    if (table->status != KILN_STATUS_OK) {
        return;
    }
    if (name[0] != '\0') {
        fprintf(table->out, "graph %u: %s\n", table->graphs, name);
    }
    fprintf(table->out,
            "memory of a run: %s (arena %s, results %s); liveness needs %s, without sharing %s\n",
            cli_format_bytes(sizes[0], (double)memory.peak_bytes),
            cli_format_bytes(sizes[1], (double)memory.arena_bytes),
            cli_format_bytes(sizes[2], (double)memory.result_bytes),
            cli_format_bytes(sizes[3], (double)memory.bound_bytes),
            cli_format_bytes(sizes[4], (double)memory.all_bytes));
    fprintf(table->out, "values: %u, of them %u assigned with the plan, %u in place\n",
            memory.values, memory.values_planned, memory.values_in_place);
    fprintf(table->out, "%4s  %-40s %12s %12s %12s\n", "step", "operator or kernel", "written",
            "temporary", "alive");
    for (uint32_t i = 0; i < memory.steps && table->status == KILN_STATUS_OK; i++) {
        table->status = kiln_graph_memory_step_get(graph, i, &step, table->err);
        fprintf(table->out, "%4u  %-40.40s %12s %12s %12s\n", i, step.name,
                cli_format_bytes(sizes[0], (double)step.written_bytes),
                cli_format_bytes(sizes[1], (double)step.temporary_bytes),
                cli_format_bytes(sizes[2], (double)step.live_bytes));
    }
}

/// Of the model's graph, or of those of its parts, one after the other.
static kiln_status write_memory(model_session *session, model_run_report *report, kiln_error *err)
{
    size_t length = 0;
    memory_table table = {.status = model_session_meet(session, err), .err = err};
    if (table.status != KILN_STATUS_OK) {
        return table.status;
    }
    table.out = open_memstream(&report->memory, &length);
    if (table.out == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a table");
    }
    model_session_graphs(session, write_graph_memory, &table);
    if (session->graph == NULL) {
        fprintf(table.out,
                "graphs: %u; what lies in none is recorded in each run, and its memory comes from "
                "the pool\n",
                table.graphs);
    }
    return fclose(table.out) == 0 ? table.status
                                  : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a table");
}

/// Since `*mark`, which is now then.
static double lap(uint64_t *mark)
{
    uint64_t before = *mark;
    *mark = kiln_time_ns();
    return (double)(*mark - before);
}

/// What tournaments took of a phase is told apart.
static double lap_without_tuning(const model_session *session, model_run_times *times,
                                 uint64_t *mark)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(session->device, &stats);
    double tune = (double)stats.measuring_ns - times->tune;
    times->tune += tune;
    return lap(mark) - tune;
}

static kiln_status run_first(model_session *session, model_run *run, uint64_t *mark,
                             cli_progress *progress, kiln_error *err)
{
    kiln_status status = run_once(session, run, err);
    run->report.times.first = lap_without_tuning(session, &run->report.times, mark);
    run->report.first_ns =
        run->report.times.open + run->report.times.first + run->report.times.tune;
    if (status == KILN_STATUS_OK) {
        copy_names(session, run);
        fill_report(session, run);
        cli_progress_clear(progress);
        status = run->on_first != NULL ? run->on_first(run, run->user, err) : status;
    }
    run->report.times.show = lap(mark);
    return status;
}

static kiln_status run_again(model_session *session, uint32_t repeats, model_run *run,
                             uint64_t *mark, kiln_error *err)
{
    kiln_status status = run_repeatedly(session, repeats, run, err);
    count_blocks(session, &run->report);
    if (status == KILN_STATUS_OK) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(session->device, &stats);
        run->report.peak_bytes = stats.backend.bytes_peak;
        run->report.pooled_peak_bytes = stats.backend.bytes_pooled_peak;
        run->report.budget_bytes = stats.backend.bytes_budget;
        run->report.measuring = stats.kernels_measuring + stats.blas_measuring;
        status = run->with_memory ? write_memory(session, &run->report, err) : status;
    }
    run->report.times.repeat = lap_without_tuning(session, &run->report.times, mark);
    return status;
}

kiln_status model_run_execute(const model_options *options, uint32_t repeats, model_run *run,
                              kiln_error *err)
{
    model_session session;
    model_run_times *times = &run->report.times;
    uint64_t mark = kiln_time_ns();
    kiln_status status = find_outputs(options->model, run, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    cli_progress *progress = cli_progress_begin("opening the device");
    status = model_session_open(&session, options, /*invent=*/false, err);
    times->open = lap(&mark);
    cli_progress_say(progress, "compiling and running for the first time");
    if (status == KILN_STATUS_OK) {
        status = run_first(&session, run, &mark, progress, err);
    }
    cli_progress_say(progress, "running again");
    if (status == KILN_STATUS_OK) {
        status = run_again(&session, repeats, run, &mark, err);
    }
    cli_progress_say(progress, "storing programs for the next process");
    if (status == KILN_STATUS_OK && options->trace != NULL) {
        status = kiln_trace_write(session.context, options->trace, err);
    }
    model_session_close(&session);
    times->close = lap(&mark);
    cli_progress_end(progress);
    return status;
}

void model_run_free(model_run *run)
{
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        npy_free(&run->outputs[i]);
    }
    free(run->report.memory);
}
