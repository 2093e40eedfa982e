// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin reduce FILE`: the smallest part of a replayable file whose results still differ from
// the reference. It takes --plugin and --set as `kiln run` does, so one fuser can be tried alone.

#include "ir_judge.h"
#include "plugin_cli.h"
#include "plugin_job.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct reduce_options {
    cli_device_options device;
    const char *path;
    const char *out;
} reduce_options;

static bool output_wrong(kiln_judge *judge, size_t place, kiln_tensor *tensor)
{
    char text[160];
    size_t bytes = kiln_tensor_bytes(tensor);
    void *data = malloc(bytes + 1);
    bool wrong = data != NULL && kiln_read(tensor, data, bytes, NULL) == KILN_STATUS_OK &&
                 !kiln_judge_output(judge, place, data, NULL, text, sizeof(text));
    free(data);
    return wrong;
}

/// What cannot run shows nothing.
static bool outputs_wrong(kiln_device *device, const kiln_replay *replay, kiln_judge *judge)
{
    size_t n_outputs = 0;
    bool wrong = false;
    (void)kiln_ir_graph_outputs(replay->graph, &n_outputs);
    kiln_tensor **out = calloc(n_outputs + 1, sizeof(kiln_tensor *));
    if (out == NULL || kiln_replay_run(device, replay, out, NULL) != KILN_STATUS_OK) {
        n_outputs = 0;
    }
    for (size_t i = 0; i < n_outputs; i++) {
        wrong = wrong || output_wrong(judge, i, out[i]);
        kiln_release(out[i]);
    }
    free(out);
    return wrong;
}

static bool fails(const kiln_replay *replay, void *user)
{
    kiln_judge *judge = NULL;
    const void **data = calloc(replay->n_inputs + 1, sizeof(*data));
    for (size_t i = 0; data != NULL && i < replay->n_inputs; i++) {
        data[i] = replay->inputs[i].data;
    }
    bool wrong =
        data != NULL &&
        kiln_judge_create(replay->env, replay->graph, data, &judge, NULL) == KILN_STATUS_OK &&
        outputs_wrong(user, replay, judge);
    kiln_judge_destroy(judge);
    free(data);
    return wrong;
}

static kiln_status reduce(const reduce_options *options, plugin_job *j, kiln_error *err)
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

static const struct argp_option reduce_options_table[] = {
    {"output", 'o', "FILE", 0, "where the smaller stream goes (default small.replay)", 0},
    {0},
};

static error_t parse_reduce_option(int key, char *text, struct argp_state *state)
{
    reduce_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'o':
        options->out = text;
        return 0;
    default:
        return cli_parse_file(key, text, state, "which replayable FILE", &options->path);
    }
}

int plugin_reduce(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        reduce_options_table,
        parse_reduce_option,
        "FILE",
        "Writes the smallest part of a stream whose results still differ from the reference.",
        children,
        NULL,
        NULL};
    reduce_options options = {.out = "small.replay"};
    kiln_error err = KILN_ERROR_INIT;
    plugin_job job;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = plugin_job_open(&options.device, options.path, &job, &err);
    status = status == KILN_STATUS_OK ? reduce(&options, &job, &err) : status;
    plugin_job_close(&job);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin reduce", &err);
}
