// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln replay FILE`: runs a recorded stream of operations on a device and says what came out; with
// --compare, whether it is what the reference says. Exit status 1 when it is not. The file's form
// is docs/replay.md.

#include "cli_json.h"
#include "ir_judge.h"
#include "ir_replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct replay_options {
    cli_device_options device;
    const char *path;
    bool compare;
    cli_json_options json;
    unsigned long long seed;
} replay_options;

static const struct argp_option replay_options_table[] = {
    {"compare", 'c', NULL, 0, "compare each output with the reference; fail when one differs", 0},
    {"seed", 'S', "NUMBER", 0, "of the elements of inputs that the file has none for (default 1)",
     0},
    {0},
};

static error_t parse_replay_option(int key, char *text, struct argp_state *state)
{
    replay_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'c':
        options->compare = true;
        return 0;
    case 'S':
        options->seed = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end != '\0') {
            argp_error(state, "--seed %s: a number from 0", text);
        }
        return 0;
    default:
        return cli_parse_file(key, text, state, "which FILE", &options->path);
    }
}

static void print_replayed(uint64_t id, const kiln_tensor *tensor)
{
    printf("output %%%" PRIu64 ": %s[", id, kiln_dtype_name(kiln_tensor_dtype(tensor)));
    for (size_t i = 0; i < kiln_tensor_rank(tensor); i++) {
        printf("%s%lld", i == 0 ? "" : ",", (long long)kiln_tensor_dims(tensor)[i]);
    }
    printf("]");
}

static kiln_status make_judge(const kiln_replay *replay, kiln_judge **out_judge, kiln_error *err)
{
    const void **data = calloc(replay->n_inputs + 1, sizeof(*data));
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to compare");
    }
    for (size_t i = 0; i < replay->n_inputs; i++) {
        data[i] = replay->inputs[i].data;
    }
    kiln_status status = kiln_judge_create(replay->env, replay->graph, data, out_judge, err);
    free((void *)data);
    return status;
}

static json_t *output_json(uint64_t id, const kiln_tensor *tensor, bool judged, bool same,
                           const char *text)
{
    json_t *dims = json_array();
    for (size_t i = 0; i < kiln_tensor_rank(tensor); i++) {
        json_array_append_new(dims, json_integer((json_int_t)kiln_tensor_dims(tensor)[i]));
    }
    return json_pack("{s:I, s:s, s:o, s:o, s:s}", "id", (json_int_t)id, "dtype",
                     kiln_dtype_name(kiln_tensor_dtype(tensor)), "dims", dims, "as_reference",
                     judged ? json_boolean(same) : json_null(), "difference", text);
}

typedef struct looks {
    kiln_judge *judge; ///< NULL: nothing is compared
    json_t *list; ///< NULL: as text
    unsigned differs;
} looks;

/// Reads an output, and says what the judge, if there is one, thinks of it.
static kiln_status look_at(looks *l, size_t output, uint64_t id, kiln_tensor *tensor,
                           kiln_error *err)
{
    char text[160] = "";
    size_t bytes = kiln_tensor_bytes(tensor);
    void *data = malloc(bytes + 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an output");
    }
    kiln_status status = kiln_read(tensor, data, bytes, err);
    if (status == KILN_STATUS_OK) {
        bool same =
            l->judge == NULL || kiln_judge_output(l->judge, output, data, NULL, text, sizeof(text));
        l->differs += !same;
        if (l->list != NULL) {
            json_array_append_new(l->list, output_json(id, tensor, l->judge != NULL, same, text));
        } else {
            print_replayed(id, tensor);
            printf("%s%s\n", same ? l->judge == NULL ? "" : " as the reference" : " ", text);
        }
    }
    free(data);
    return status;
}

static kiln_status look_at_all(const replay_options *options, const kiln_replay *replay,
                               kiln_tensor *const *tensors, kiln_error *err)
{
    size_t n_outputs = 0;
    const uint64_t *ids = kiln_ir_graph_outputs(replay->graph, &n_outputs);
    looks l = {.list = options->json.wanted ? json_array() : NULL};
    kiln_status status = options->compare ? make_judge(replay, &l.judge, err) : KILN_STATUS_OK;
    for (size_t i = 0; i < n_outputs && status == KILN_STATUS_OK; i++) {
        status = look_at(&l, i, ids[i], tensors[i], err);
    }
    kiln_judge_destroy(l.judge);
    if (status == KILN_STATUS_OK && options->json.wanted) {
        status = cli_json_write(&options->json, json_pack("{s:O}", "outputs", l.list), err);
    }
    json_decref(l.list);
    if (status == KILN_STATUS_OK && l.differs > 0) {
        status = kiln_fail(err, FAILED_PRECONDITION, "%u of %zu outputs differ from the reference",
                           l.differs, n_outputs);
    }
    return status;
}

static kiln_status run(const replay_options *options, kiln_device *device,
                       const kiln_replay *replay, kiln_error *err)
{
    size_t n_outputs = 0;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    (void)kiln_ir_graph_outputs(replay->graph, &n_outputs);
    kiln_tensor **tensors = calloc(n_outputs + 1, sizeof(kiln_tensor *));
    if (tensors == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the outputs");
    }
    kiln_status status = kiln_replay_run(device, replay, tensors, err);
    if (status == KILN_STATUS_OK) {
        status = look_at_all(options, replay, tensors, err);
        kiln_device_stats_get(device, &stats);
        if (!cli_json_is_shown(&options->json)) {
            cli_print_fused(cli_is_remote(device), stats.ops_recorded, stats.ops_fused,
                            stats.blocks_fused);
        }
    }
    for (size_t i = 0; i < n_outputs; i++) {
        kiln_release(tensors[i]);
    }
    free((void *)tensors);
    return status;
}

int cmd_replay(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        replay_options_table,
        parse_replay_option,
        "FILE",
        "Runs a recorded stream of operations on a device, with the strides that its inputs had.",
        children,
        NULL,
        NULL};
    replay_options options = {.device.afresh = true, .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_replay *replay = NULL;
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_read(kiln_context_env(context), options.path, &replay, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_replay_fill(replay, options.seed, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = cli_open_device(&options.device, context, &device, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_custom_look_up(device, replay->graph, &err);
    }
    if (status == KILN_STATUS_OK && replay->note != NULL && !cli_json_is_shown(&options.json)) {
        printf("%s\n", replay->note);
    }
    if (status == KILN_STATUS_OK) {
        status = run(&options, device, replay, &err);
    }
    kiln_device_release(device);
    kiln_replay_destroy(replay);
    cli_close_context(context);
    const char *own = argv[0] + strlen("kiln "); // `kiln plugin run` is this too
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail(own, &err);
}
