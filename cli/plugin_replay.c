// SPDX-License-Identifier: MIT OR Apache-2.0
// What `kiln plugin` does with a replayable file (docs/replay.md): run it, dump what the fusers
// made of it, time it fused and operation by operation, and shrink one that goes wrong. Every one
// takes
// --plugin and --set as `kiln run` does, so one fuser can be tried alone.

#include "plugin_cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 1024, MAX_IO = 64 };

typedef struct job_options {
    cli_device_options device;
    const char *path;
    const char *out; ///< reduce
    unsigned repeat; ///< bench
} job_options;

typedef struct job {
    kiln_context *context;
    kiln_device *device;
    kiln_replay *replay;
    kiln_tensor *inputs[MAX_IO];
    size_t n_inputs;
    kiln_tensor *varying[MAX_IO]; ///< borrowed: the inputs that are not constant
    size_t n_varying;
} job;

static void job_close(job *j)
{
    for (size_t i = 0; i < j->n_inputs; i++) {
        kiln_release(j->inputs[i]);
    }
    kiln_replay_destroy(j->replay);
    kiln_device_release(j->device);
    kiln_context_destroy(j->context);
}

static kiln_status job_open(const job_options *options, job *j, kiln_error *err)
{
    memset(j, 0, sizeof(*j));
    kiln_status status = cli_open_context(&options->device, &j->context, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_read(kiln_context_env(j->context), options->path, &j->replay, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_fill(j->replay, 1, err);
    }
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options->device, j->context, &j->device, err);
    }
    if (status == KILN_STATUS_OK && j->replay->n_inputs > MAX_IO) {
        status = kiln_fail(err, UNIMPLEMENTED, "the stream has more than %d inputs", MAX_IO);
    }
    size_t n_inputs = 0;
    const kiln_tensor_desc *descs =
        status == KILN_STATUS_OK ? kiln_ir_graph_inputs(j->replay->graph, &n_inputs) : NULL;
    for (size_t i = 0; i < n_inputs && status == KILN_STATUS_OK; i++) {
        status = kiln_tensor_create(j->device, descs[i].dtype, descs[i].rank, descs[i].dims,
                                    j->replay->inputs[i].data, &j->inputs[i], err);
        j->n_inputs = i + 1;
        if (status == KILN_STATUS_OK && (descs[i].flags & KILN_TENSOR_CONST) != 0) {
            kiln_tensor_mark_constant(j->inputs[i]);
        } else {
            j->varying[j->n_varying++] = j->inputs[i];
        }
    }
    return status;
}

// ---- recording a stream ------------------------------------------------------------------------

typedef struct names { ///< tensors of a stream that are alive
    uint64_t ids[MAX_TENSORS];
    kiln_tensor *tensors[MAX_TENSORS];
    size_t n;
} names;

static kiln_tensor **name_of(names *all, uint64_t id)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->ids[i] == id) {
            return &all->tensors[i];
        }
    }
    return NULL;
}

static bool name_add(names *all, uint64_t id, kiln_tensor *tensor)
{
    if (all->n == MAX_TENSORS) {
        kiln_release(tensor);
        return false;
    }
    all->ids[all->n] = id;
    all->tensors[all->n++] = tensor;
    return true;
}

static kiln_status record(job *j, const kiln_op_record *op, names *all, kiln_error *err)
{
    kiln_tensor *in[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *out[KILN_MAX_OUTPUTS] = {NULL};
    for (unsigned i = 0; i < op->n_inputs && i < KILN_MAX_INPUTS; i++) {
        kiln_tensor **tensor = name_of(all, op->inputs[i].id);
        if (tensor == NULL || *tensor == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "%%%" PRIu64 " is used after its drop",
                             op->inputs[i].id);
        }
        in[i] = *tensor;
        if (op->op == KILN_OP_DROP) {
            kiln_release(*tensor);
            *tensor = NULL;
            return KILN_STATUS_OK;
        }
    }
    kiln_status status =
        kiln_record(j->device, op->op, in, op->n_inputs, op->attrs, op->n_attrs, out, err);
    for (unsigned i = 0; i < op->n_outputs && status == KILN_STATUS_OK; i++) {
        if (!name_add(all, op->outputs[i].id, out[i])) {
            status =
                kiln_fail(err, UNIMPLEMENTED, "the stream has more than %d tensors", MAX_TENSORS);
        }
    }
    return status;
}

/// The stream as a graph; its inputs are those of the graph, but for the constants.
static kiln_status capture(job *j, kiln_graph **out_graph, kiln_error *err)
{
    static names all;
    size_t n_inputs, n_outputs = 0;
    kiln_tensor *outputs[MAX_IO];
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(j->replay->graph, &n_inputs);
    const uint64_t *ids = kiln_ir_graph_outputs(j->replay->graph, &n_outputs);
    memset(&all, 0, sizeof(all));
    for (size_t i = 0; i < n_inputs; i++) {
        (void)name_add(&all, descs[i].id, kiln_retain(j->inputs[i]));
    }
    kiln_status status =
        n_outputs > MAX_IO
            ? kiln_fail(err, UNIMPLEMENTED, "the stream has more than %d outputs", MAX_IO)
            : kiln_graph_begin(j->device, j->varying, j->n_varying, err);
    bool begun = status == KILN_STATUS_OK;
    for (size_t i = 0; i < kiln_ir_graph_op_count(j->replay->graph) && status == KILN_STATUS_OK;
         i++) {
        status = record(j, kiln_ir_graph_op(j->replay->graph, i), &all, err);
    }
    for (size_t i = 0; i < n_outputs && status == KILN_STATUS_OK; i++) {
        kiln_tensor **tensor = name_of(&all, ids[i]);
        outputs[i] = tensor == NULL ? NULL : *tensor;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(j->device, outputs, n_outputs, out_graph, err);
    } else if (begun) {
        kiln_graph_cancel(j->device);
    }
    for (size_t i = 0; i < all.n; i++) {
        kiln_release(all.tensors[i]);
    }
    return status;
}

// ---- dump --------------------------------------------------------------------------------------

static kiln_status dump(const job_options *options, job *j, kiln_error *err)
{
    kiln_graph *graph = NULL;
    char *text = NULL;
    (void)options;
    kiln_status status = capture(j, &graph, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_explain(graph, KILN_EXPLAIN_SOURCE, &text, err);
    }
    if (status == KILN_STATUS_OK) {
        fputs(text, stdout);
        kiln_text_free(j->context, text);
    }
    kiln_graph_destroy(graph);
    return status;
}

// ---- bench -------------------------------------------------------------------------------------

static kiln_status run_once(job *j, kiln_graph *graph, uint64_t *best, kiln_error *err)
{
    kiln_tensor *out[MAX_IO] = {NULL};
    size_t n_outputs = 0;
    (void)kiln_ir_graph_outputs(j->replay->graph, &n_outputs);
    uint64_t begin = kiln_time_ns();
    kiln_status status = kiln_graph_run(graph, j->varying, j->n_varying, out, n_outputs, err);
    status = status == KILN_STATUS_OK ? kiln_sync(j->device, err) : status;
    uint64_t ns = kiln_time_ns() - begin;
    *best = *best == 0 || ns < *best ? ns : *best;
    for (size_t i = 0; i < n_outputs; i++) {
        kiln_release(out[i]);
    }
    return status;
}

/// What must move: inputs once, outputs once.
static double bytes_of(job *j)
{
    size_t n_outputs = 0;
    double bytes = 0;
    const uint64_t *ids = kiln_ir_graph_outputs(j->replay->graph, &n_outputs);
    for (size_t i = 0; i < j->n_inputs; i++) {
        bytes += (double)kiln_tensor_bytes(j->inputs[i]);
    }
    for (size_t i = 0; i < kiln_ir_graph_op_count(j->replay->graph); i++) {
        const kiln_op_record *op = kiln_ir_graph_op(j->replay->graph, i);
        for (unsigned k = 0; k < op->n_outputs; k++) {
            for (size_t o = 0; o < n_outputs; o++) {
                bytes += op->outputs[k].id == ids[o] ? (double)kiln_desc_bytes(&op->outputs[k]) : 0;
            }
        }
    }
    return bytes;
}

static void print_times(job *j, const uint64_t *best, const kiln_graph_info *info)
{
    char text[32];
    uint64_t rate = kiln_device_info_of(j->device)->bytes_per_s;
    double copy = rate == 0 ? 0 : bytes_of(j) / (double)rate * 1e9;
    printf("operations    %s\n", cli_format_ns(text, (double)best[1]));
    printf("fused         %s  %.2f times as fast, %" PRIu64 " of %" PRIu64 " operations in %" PRIu64
           " blocks\n",
           cli_format_ns(text, (double)best[0]), (double)best[1] / (double)best[0], info->ops_fused,
           info->ops, info->blocks);
    printf("copy limit    %s  fused reaches %.2f of it\n", cli_format_ns(text, copy),
           copy / (double)best[0]);
}

static kiln_status bench(const job_options *options, job *j, kiln_error *err)
{
    kiln_graph *graphs[2] = {NULL, NULL}; // fused, operation by operation
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    uint64_t best[2] = {0, 0};
    kiln_status status = capture(j, &graphs[0], err);
    if (status == KILN_STATUS_OK) {
        status = kiln_device_set_fusion(j->device, false, err);
    }
    if (status == KILN_STATUS_OK) {
        status = capture(j, &graphs[1], err);
    }
    for (unsigned i = 0; i < 2 * (options->repeat + 1) && status == KILN_STATUS_OK; i++) {
        if (i == 2) { // the first run of each compiles
            best[0] = best[1] = 0;
        }
        status = run_once(j, graphs[i % 2], &best[i % 2], err);
    }
    if (status == KILN_STATUS_OK) {
        kiln_graph_info_get(graphs[0], &info);
        print_times(j, best, &info);
    }
    kiln_graph_destroy(graphs[0]);
    kiln_graph_destroy(graphs[1]);
    return status;
}

// ---- reduce ------------------------------------------------------------------------------------

static bool outputs_wrong(kiln_device *device, const kiln_replay *replay, kiln_judge *judge)
{
    kiln_tensor *out[MAX_IO] = {NULL};
    size_t n_outputs = 0;
    bool wrong = false;
    (void)kiln_ir_graph_outputs(replay->graph, &n_outputs);
    if (n_outputs > MAX_IO || kiln_replay_run(device, replay, out, NULL) != KILN_STATUS_OK) {
        return false; // what cannot run shows nothing
    }
    for (size_t i = 0; i < n_outputs; i++) {
        char text[160];
        size_t bytes = kiln_tensor_bytes(out[i]);
        void *data = malloc(bytes + 1);
        wrong = wrong || (data != NULL && kiln_read(out[i], data, bytes, NULL) == KILN_STATUS_OK &&
                          !kiln_judge_output(judge, i, data, NULL, text, sizeof(text)));
        free(data);
        kiln_release(out[i]);
    }
    return wrong;
}

static bool fails(const kiln_replay *replay, void *user)
{
    const void *data[MAX_IO];
    kiln_judge *judge = NULL;
    if (replay->n_inputs > MAX_IO) {
        return false;
    }
    for (size_t i = 0; i < replay->n_inputs; i++) {
        data[i] = replay->inputs[i].data;
    }
    if (kiln_judge_create(replay->env, replay->graph, data, &judge, NULL) != KILN_STATUS_OK) {
        return false;
    }
    bool wrong = outputs_wrong(user, replay, judge);
    kiln_judge_destroy(judge);
    return wrong;
}

static kiln_status reduce(const job_options *options, job *j, kiln_error *err)
{
    kiln_replay *small = NULL;
    kiln_status status = kiln_replay_reduce(j->replay, fails, j->device, 400, &small, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_write(small, options->out, err);
    }
    if (status == KILN_STATUS_OK) {
        printf("%s: %zu of %zu operations and drops show it\n", options->out,
               kiln_ir_graph_op_count(small->graph), kiln_ir_graph_op_count(j->replay->graph));
    }
    kiln_replay_destroy(small);
    return status;
}

// ---- the words ---------------------------------------------------------------------------------

static const struct argp_option options_table[] = {
    {"repeat", 'r', "COUNT", 0, "bench: timed runs (default 20)", 0},
    {"output", 'o', "FILE", 0, "reduce: where the smaller stream goes (default small.replay)", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    job_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'r':
        options->repeat = (unsigned)strtoul(text, &end, 10);
        if (*text < '1' || *text > '9' || *end != '\0' || options->repeat > 100000) {
            argp_error(state, "--repeat %s: a number from 1 to 100000", text);
        }
        return 0;
    case 'o':
        options->out = text;
        return 0;
    case ARGP_KEY_ARG:
        if (options->path != NULL) {
            argp_error(state, "one FILE");
        }
        options->path = text;
        return 0;
    case ARGP_KEY_END:
        if (options->path == NULL) {
            argp_error(state, "say which replayable FILE");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_job(int argc, char **argv, const char *word, const char *doc,
                   kiln_status (*work)(const job_options *, job *, kiln_error *))
{
    const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {options_table, parse, "FILE", doc, children, NULL, NULL};
    job_options options = {.repeat = 20, .out = "small.replay"};
    kiln_error err = KILN_ERROR_INIT;
    job j;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = job_open(&options, &j, &err);
    status = status == KILN_STATUS_OK ? work(&options, &j, &err) : status;
    job_close(&j);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail(word, &err);
}

int plugin_dump(int argc, char **argv)
{
    return run_job(argc, argv, "plugin dump",
                   "Shows what the fusers made of a stream: blocks, candidates, launches, sources.",
                   dump);
}

int plugin_bench(int argc, char **argv)
{
    return run_job(argc, argv, "plugin bench",
                   "Times a stream fused and operation by operation, beside the time of a copy of "
                   "the bytes that must move.",
                   bench);
}

int plugin_reduce(int argc, char **argv)
{
    return run_job(
        argc, argv, "plugin reduce",
        "Writes the smallest part of a stream whose results still differ from the reference.",
        reduce);
}
