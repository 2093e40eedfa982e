// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a model file on .npy inputs and counts. Decides what "first run" and "repeated run" mean;
// opening is model_session.c's, printing the commands'.

#include "model_run.h"
#include "cli_progress.h"
#include "model_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Memory for an output, once for all runs.
static kiln_status make_output(kiln_tensor *tensor, kiln_npy *array, kiln_error *err)
{
    if (array->data == NULL) {
        array->dtype = kiln_tensor_dtype(tensor);
        array->rank = kiln_tensor_rank(tensor);
        memcpy(array->dims, kiln_tensor_dims(tensor), array->rank * sizeof(int64_t));
        array->bytes = kiln_tensor_bytes(tensor);
        array->data = malloc(array->bytes > 0 ? array->bytes : 1);
    }
    if (array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", array->bytes);
    }
    return KILN_STATUS_OK;
}

/// All outputs with one wait: a decoder has two of each layer.
static kiln_status read_outputs(kiln_tensor *const *outputs, size_t count, kiln_npy *arrays,
                                kiln_error *err)
{
    void *data[MODEL_RUN_MAX_IO];
    size_t bytes[MODEL_RUN_MAX_IO];
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = make_output(outputs[i], &arrays[i], err);
        data[i] = arrays[i].data;
        bytes[i] = kiln_tensor_bytes(outputs[i]);
    }
    return status == KILN_STATUS_OK ? kiln_read_many(outputs, data, bytes, count, err) : status;
}

/// Maps with the same keys become a table of their values.
static kiln_status take_maps(const kiln_onnx_maps *maps, kiln_npy *array, kiln_error *err)
{
    array->dtype = maps->dtype;
    array->rank = 2;
    array->dims[0] = (int64_t)maps->rows;
    array->dims[1] = (int64_t)maps->count;
    array->bytes = maps->rows * maps->count * kiln_dtype_size(maps->dtype);
    free(array->data);
    array->data = malloc(array->bytes + 1);
    if (array->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", array->bytes);
    }
    memcpy(array->data, maps->values, array->bytes);
    return KILN_STATUS_OK;
}

static kiln_status take_texts(const kiln_onnx_texts *texts, kiln_npy *array, kiln_error *err)
{
    array->rank = texts->rank;
    memcpy(array->dims, texts->dims, texts->rank * sizeof(array->dims[0]));
    return kiln_npy_set_texts(array, texts->texts, err);
}

static kiln_status take_value(const kiln_onnx_value *value, const char *name, kiln_npy *array,
                              kiln_error *err)
{
    switch (value->kind) {
    case KILN_ONNX_KIND_TENSOR:
        return read_outputs(&value->tensor, 1, array, err);
    case KILN_ONNX_KIND_TEXTS:
        return take_texts(value->host, array, err);
    case KILN_ONNX_KIND_MAP:
        return take_maps(value->host, array, err);
    default:
        return kiln_fail(err, UNIMPLEMENTED,
                         "output '%s' is a sequence or nothing: the C interface gives it", name);
    }
}

static kiln_status run_values(model_session *self, model_run *run, kiln_error *err)
{
    kiln_onnx_value values[MODEL_RUN_MAX_IO];
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(self->model, &count);
    kiln_status status = model_session_run_values(self, values, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = take_value(&values[i], infos[i].name, &run->outputs[i], err);
    }
    kiln_onnx_values_free(kiln_context_env(self->context), values, count);
    return status;
}

kiln_status model_run_once(model_session *self, model_run *run, kiln_error *err)
{
    if (self->on_host) {
        return run_values(self, run, err);
    }
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(self, outputs, err);
    if (status == KILN_STATUS_OK) {
        status = read_outputs(outputs, self->n_outputs, run->outputs, err);
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
        status = status == KILN_STATUS_OK ? model_run_once(self, run, err) : status;
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
        status = status == KILN_STATUS_OK ? cli_check_output(run->wanted_path[i], err) : status;
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
    kiln_status status = model_run_once(session, run, err);
    run->report.times.first = lap_without_tuning(session, &run->report.times, mark);
    run->report.first_ns =
        run->report.times.open + run->report.times.first + run->report.times.tune;
    if (status == KILN_STATUS_OK) {
        copy_names(session, run);
        fill_report(session, run);
        run->report.parts = model_parts(session->session);
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
    if (status == KILN_STATUS_OK && run->with_profile) {
        status = model_profile(session, &run->report.profile, &run->report.profile_rows, err);
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
    if (status == KILN_STATUS_OK && options->trace != NULL && options->trace[0] != '\0') {
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
        kiln_npy_free(&run->outputs[i]);
    }
    free(run->report.memory);
    free(run->report.profile);
    json_decref(run->report.profile_rows);
    json_decref(run->report.parts);
}
