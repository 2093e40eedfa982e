// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream of operations from a replayable file, or from a model that records one, ready to be
// captured and run. Decides which of a model's streams stands for it: the longest.

#include "plugin_job.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_IDS = 1 << 20 };

// ---- a model's stream ----

/// `kiln explain`, which needs no inputs, with the option that records.
static void run_model(const cli_device_options *options, const char *model, const char *folder)
{
    char record[4200];
    const char *args[24] = {"kiln", "explain", model, "--runs", "1", "--json=/dev/null"};
    size_t n = 6;
    snprintf(record, sizeof(record), "record=%s", folder);
    args[n++] = "--set";
    args[n++] = record;
    if (options->device != NULL) {
        args[n++] = "--device";
        args[n++] = options->device;
    }
    for (size_t i = 0; i < options->n_plugins && n + 2 < sizeof(args) / sizeof(args[0]); i++) {
        args[n++] = "--plugin";
        args[n++] = options->plugins[i];
    }
    args[n] = NULL;
    execv("/proc/self/exe", (char *const *)(uintptr_t)args);
    _exit(127);
}

/// Reads each stream of the folder and keeps the one of most operations; the folder goes.
static kiln_status take_longest(const kiln_env *env, const char *folder, kiln_replay **out_replay,
                                kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[4400];
        kiln_replay *replay = NULL;
        snprintf(path, sizeof(path), "%.4000s/%.300s", folder, entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (status == KILN_STATUS_OK) {
            status = kiln_replay_read(env, path, &replay, err);
        }
        bool longer = replay != NULL &&
                      (*out_replay == NULL || kiln_ir_graph_op_count(replay->graph) >
                                                  kiln_ir_graph_op_count((*out_replay)->graph));
        if (longer) {
            kiln_replay_destroy(*out_replay);
            *out_replay = replay;
        } else {
            kiln_replay_destroy(replay);
        }
        unlink(path);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(folder);
    return status;
}

static kiln_status record_model(const cli_device_options *options, const kiln_env *env,
                                const char *model, kiln_replay **out_replay, kiln_error *err)
{
    char folder[] = "/tmp/kiln-record-XXXXXX";
    int ended = 1;
    if (mkdtemp(folder) == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s: %s", folder, strerror(errno));
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        run_model(options, model, folder);
    }
    if (child > 0) {
        waitpid(child, &ended, 0);
    }
    kiln_status status = take_longest(env, folder, out_replay, err);
    if (status == KILN_STATUS_OK && (ended != 0 || *out_replay == NULL)) {
        status = kiln_fail(err, FAILED_PRECONDITION,
                           "%s does not run, or runs no operation: try kiln run %s", model, model);
    }
    return status;
}

// ---- opening ----

void plugin_job_close(plugin_job *job)
{
    for (size_t i = 0; i < job->n_tensors; i++) {
        kiln_release(job->tensors[i]);
    }
    free((void *)job->tensors);
    free((void *)job->inputs);
    kiln_replay_destroy(job->replay);
    kiln_device_release(job->device);
    cli_close_context(job->context);
    memset(job, 0, sizeof(*job));
}

static kiln_status upload(plugin_job *job, kiln_error *err)
{
    size_t n = 0;
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(job->replay->graph, &n);
    kiln_status status = KILN_STATUS_OK;
    job->tensors = calloc(n + 1, sizeof(kiln_tensor *));
    job->inputs = calloc(n + 1, sizeof(kiln_tensor *));
    if (job->tensors == NULL || job->inputs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the inputs");
    }
    for (size_t i = 0; i < n && status == KILN_STATUS_OK; i++) {
        status = kiln_tensor_create(job->device, descs[i].dtype, descs[i].rank, descs[i].dims,
                                    job->replay->inputs[i].data, &job->tensors[i], err);
        if (status != KILN_STATUS_OK) {
            break;
        }
        job->n_tensors = i + 1;
        if ((descs[i].flags & KILN_TENSOR_CONST) != 0) {
            kiln_tensor_mark_constant(job->tensors[i]);
        } else {
            job->inputs[job->n_inputs++] = job->tensors[i];
        }
    }
    return status;
}

kiln_status plugin_job_take(const cli_device_options *options, kiln_context *context,
                            kiln_replay *replay, plugin_job *job, kiln_error *err)
{
    *job = (plugin_job){.context = context, .replay = replay};
    kiln_status status = kiln_replay_fill(replay, 1, err);
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(options, context, &job->device, err);
    }
    return status == KILN_STATUS_OK ? upload(job, err) : status;
}

kiln_status plugin_job_open(const cli_device_options *options, const char *path, plugin_job *job,
                            kiln_error *err)
{
    size_t length = strlen(path);
    kiln_context *context = NULL;
    kiln_replay *replay = NULL;
    *job = (plugin_job){0};
    cli_device_options afresh = *options;
    afresh.afresh = true; // what failed before is what one wants to see here
    kiln_status status = cli_open_context(&afresh, &context, err);
    if (status == KILN_STATUS_OK) {
        bool is_model = length > 5 && strcmp(path + length - 5, ".onnx") == 0;
        status = is_model ? record_model(options, kiln_context_env(context), path, &replay, err)
                          : kiln_replay_read(kiln_context_env(context), path, &replay, err);
    }
    if (status != KILN_STATUS_OK) {
        *job = (plugin_job){.context = context, .replay = replay};
        return status;
    }
    return plugin_job_take(options, context, replay, job, err);
}

// ---- recording ----

static uint64_t last_id(const kiln_replay *replay)
{
    size_t n = 0;
    uint64_t last = 0;
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(replay->graph, &n);
    for (size_t i = 0; i < n; i++) {
        last = descs[i].id > last ? descs[i].id : last;
    }
    for (size_t i = 0; i < kiln_ir_graph_op_count(replay->graph); i++) {
        const kiln_op_record *op = kiln_ir_graph_op(replay->graph, i);
        for (unsigned k = 0; k < op->n_outputs; k++) {
            last = op->outputs[k].id > last ? op->outputs[k].id : last;
        }
    }
    return last;
}

static kiln_status record(plugin_job *job, const kiln_op_record *op, kiln_tensor **alive,
                          kiln_error *err)
{
    kiln_tensor *in[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *out[KILN_MAX_OUTPUTS] = {NULL};
    for (unsigned i = 0; i < op->n_inputs && i < KILN_MAX_INPUTS; i++) {
        in[i] = alive[op->inputs[i].id];
        if (in[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " is used after its drop",
                             op->inputs[i].id);
        }
    }
    if (op->op == KILN_OP_DROP) {
        kiln_release(in[0]);
        alive[op->inputs[0].id] = NULL;
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kiln_record(job->device, op->op, in, op->n_inputs, op->attrs, op->n_attrs, out, err);
    for (unsigned i = 0; i < op->n_outputs && status == KILN_STATUS_OK; i++) {
        alive[op->outputs[i].id] = out[i];
    }
    return status;
}

static kiln_status end_capture(plugin_job *job, kiln_tensor **alive, kiln_graph **out_graph,
                               kiln_error *err)
{
    size_t n = 0;
    const uint64_t *ids = kiln_ir_graph_outputs(job->replay->graph, &n);
    kiln_tensor **outputs = calloc(n + 1, sizeof(kiln_tensor *));
    if (outputs == NULL) {
        kiln_graph_cancel(job->device);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the outputs");
    }
    for (size_t i = 0; i < n; i++) {
        outputs[i] = alive[ids[i]];
    }
    kiln_status status = kiln_graph_end(job->device, outputs, n, out_graph, err);
    free((void *)outputs);
    return status;
}

kiln_status plugin_job_capture(plugin_job *job, kiln_graph **out_graph, kiln_error *err)
{
    size_t n = 0;
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(job->replay->graph, &n);
    uint64_t last = last_id(job->replay);
    if (last > MOST_IDS) {
        return kiln_fail(err, UNIMPLEMENTED, "the stream counts its tensors beyond %d", MOST_IDS);
    }
    kiln_tensor **alive = calloc(last + 1, sizeof(kiln_tensor *));
    if (alive == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the stream's tensors");
    }
    for (size_t i = 0; i < n; i++) {
        alive[descs[i].id] = kiln_retain(job->tensors[i]);
    }
    kiln_status status = kiln_graph_begin(job->device, job->inputs, job->n_inputs, err);
    bool begun = status == KILN_STATUS_OK;
    size_t n_ops = kiln_ir_graph_op_count(job->replay->graph);
    for (size_t i = 0; i < n_ops && status == KILN_STATUS_OK; i++) {
        status = record(job, kiln_ir_graph_op(job->replay->graph, i), alive, err);
    }
    if (status == KILN_STATUS_OK) {
        status = end_capture(job, alive, out_graph, err);
    } else if (begun) {
        kiln_graph_cancel(job->device);
    }
    for (uint64_t i = 0; i <= last; i++) {
        kiln_release(alive[i]);
    }
    free((void *)alive);
    return status;
}

kiln_status plugin_job_run(plugin_job *job, kiln_graph *graph, uint64_t *out_ns, kiln_error *err)
{
    size_t n = 0;
    (void)kiln_ir_graph_outputs(job->replay->graph, &n);
    kiln_tensor **out = calloc(n + 1, sizeof(kiln_tensor *));
    if (out == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the outputs");
    }
    uint64_t begin = kiln_time_ns();
    kiln_status status = kiln_graph_run(graph, job->inputs, job->n_inputs, out, n, err);
    status = status == KILN_STATUS_OK ? kiln_sync(job->device, err) : status;
    *out_ns = kiln_time_ns() - begin;
    for (size_t i = 0; i < n; i++) {
        kiln_release(out[i]);
    }
    free((void *)out);
    return status;
}

double plugin_job_bytes(const plugin_job *job)
{
    size_t n_outputs = 0;
    double bytes = 0;
    const uint64_t *ids = kiln_ir_graph_outputs(job->replay->graph, &n_outputs);
    for (size_t i = 0; i < job->n_tensors; i++) {
        bytes += (double)kiln_tensor_bytes(job->tensors[i]);
    }
    for (size_t i = 0; i < kiln_ir_graph_op_count(job->replay->graph); i++) {
        const kiln_op_record *op = kiln_ir_graph_op(job->replay->graph, i);
        for (unsigned k = 0; k < op->n_outputs; k++) {
            for (size_t o = 0; o < n_outputs; o++) {
                bytes += op->outputs[k].id == ids[o] ? (double)kiln_desc_bytes(&op->outputs[k]) : 0;
            }
        }
    }
    return bytes;
}
