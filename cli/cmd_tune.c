// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln tune MODEL`: runs a model until the candidates of every fused block were measured, a block
// in each run, so that later runs start with the winners, and says how many blocks each fuser won.
// Progress goes to standard error.

#include "cli_json.h"
#include "kiln_explained.h"
#include "model_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// A bar on a terminal, a line for each step elsewhere.
static void show(uint64_t done, uint64_t all)
{
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    size_t full = all == 0 ? WIDTH : (size_t)(done * WIDTH / all);
    memset(bar, '.', WIDTH);
    memset(bar, '#', full);
    bar[WIDTH] = '\0';
    bool terminal = isatty(STDERR_FILENO) != 0;
    fprintf(stderr, "%s[%s] %llu of %llu blocks%s", terminal ? "\r" : "", bar,
            (unsigned long long)done, (unsigned long long)all, terminal && done < all ? "" : "\n");
    fflush(stderr);
}

typedef struct blocks {
    uint64_t all;
    uint64_t open; ///< not measured yet
} blocks;

static void add_blocks(const char *name, kiln_graph *graph, void *user)
{
    blocks *sum = user;
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    (void)name;
    kiln_graph_info_get(graph, &info);
    sum->all += info.blocks;
    sum->open += info.blocks_open;
}

static blocks blocks_of(const model_session *session)
{
    blocks sum = {0};
    model_session_graphs(session, add_blocks, &sum);
    return sum;
}

static uint64_t measured_of(const model_session *session)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(session->device, &stats);
    return stats.blocks_measured;
}

/// Each run of a graph measures one of its blocks. What lies in no graph is measured, too, but who
/// is left there only shows when runs find nothing more: so there is an end to that.
static kiln_status tune(model_session *session, uint64_t *out_measured, blocks *out_left,
                        kiln_error *err)
{
    enum { MOST_TUNE_RUNS = 1000, IDLE_RUNS = 3 };
    kiln_status status = model_session_meet(session, err);
    blocks left = blocks_of(session);
    uint64_t done = measured_of(session);
    for (int run = 0, idle = 0;
         run < MOST_TUNE_RUNS && idle < IDLE_RUNS && status == KILN_STATUS_OK &&
         (left.open > 0 || session->graph == NULL);
         run++) {
        show(done, done + left.open);
        status = model_session_run_once(session, err);
        uint64_t now = measured_of(session);
        idle = now == done ? idle + 1 : 0;
        done = now;
        left = blocks_of(session);
    }
    if (status == KILN_STATUS_OK && done + left.open > 0) {
        show(done, done + left.open);
    }
    *out_measured = done;
    *out_left = left;
    return status;
}

/// The options may forbid what this command is for.
static kiln_status check_measures(const model_session *session, kiln_error *err)
{
    const kiln_config *config = kiln_context_env(session->context)->config;
    if (strcmp(kiln_config_string(config, KILN_OPTION_TUNE), "off") == 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the option tune is off, so nothing is measured; add --tune full");
    }
    if (kiln_config_bool(config, KILN_OPTION_DETERMINISTIC)) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the option deterministic is 1, so nothing is measured");
    }
    return KILN_STATUS_OK;
}

// ---- who won ----

enum { MOST_WINNERS = 64 };

typedef struct winners {
    const char *fusers[MOST_WINNERS]; ///< of the registry, which outlives the graphs
    uint64_t blocks[MOST_WINNERS];
    size_t count;
    uint64_t unfused; ///< operations
    kiln_error err;
    kiln_status status;
} winners;

static void add_winner(winners *all, const char *fuser)
{
    size_t i = 0;
    while (i < all->count && strcmp(all->fusers[i], fuser) != 0) {
        i++;
    }
    if (i == MOST_WINNERS) {
        return;
    }
    all->fusers[i] = fuser;
    all->blocks[i]++;
    all->count += i == all->count;
}

static void add_winners(const char *name, kiln_graph *graph, void *user)
{
    winners *all = user;
    kiln_explanation explanation;
    (void)name;
    if (all->status != KILN_STATUS_OK) {
        return;
    }
    all->status = kiln_graph_explained(graph, &explanation, &all->err);
    if (all->status != KILN_STATUS_OK) {
        return;
    }
    for (uint32_t i = 0; i < explanation.n_blocks; i++) {
        add_winner(all, explanation.blocks[i].fuser);
    }
    for (uint32_t i = 0; i < explanation.n_ops; i++) {
        const kiln_explained_op *op = &explanation.ops[i];
        all->unfused += op->block == UINT32_MAX && op->step != UINT32_MAX;
    }
    kiln_graph_explained_fini(&explanation);
}

typedef struct tuned {
    uint64_t measured;
    blocks left;
    winners won;
} tuned;

/// The graph as the next process has it, and who has its blocks.
static kiln_status find_winners(model_session *session, winners *all, kiln_error *err)
{
    kiln_status status =
        session->graph != NULL ? model_session_recapture(session, err) : KILN_STATUS_OK;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    model_session_graphs(session, add_winners, all);
    if (all->status != KILN_STATUS_OK) {
        *err = all->err;
    }
    return all->status;
}

static void print_tuned(const tuned *t, const char *model)
{
    uint64_t all = t->measured + t->left.open;
    if (all == 0) {
        printf("nothing left to measure: %llu fused %s%s\n", (unsigned long long)t->left.all,
               kiln_plural(t->left.all, "block", "blocks"),
               t->left.all > 0 ? ", each with its winner" : "");
    } else {
        printf("%llu of %llu %s measured\n", (unsigned long long)t->measured,
               (unsigned long long)all, kiln_plural(all, "block", "blocks"));
    }
    for (size_t i = 0; i < t->won.count; i++) {
        printf("  %-36s won %llu %s\n", t->won.fusers[i], (unsigned long long)t->won.blocks[i],
               kiln_plural(t->won.blocks[i], "block", "blocks"));
    }
    if (t->won.unfused > 0) {
        printf("  %-36s %llu %s\n", "unfused", (unsigned long long)t->won.unfused,
               kiln_plural(t->won.unfused, "operation", "operations"));
    }
    printf("`kiln explain %s` tells of each block\n", model);
}

static json_t *tuned_json(const tuned *t, const char *model)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->won.count; i++) {
        json_array_append_new(list,
                              json_pack("{s:o, s:I}", "fuser", cli_json_text(t->won.fusers[i]),
                                        "blocks", (json_int_t)t->won.blocks[i]));
    }
    return json_pack("{s:o, s:I, s:I, s:I, s:o}", "model", cli_json_text(model), "measured",
                     (json_int_t)t->measured, "open", (json_int_t)t->left.open, "unfused",
                     (json_int_t)t->won.unfused, "winners", list);
}

typedef struct tune_options {
    model_options model;
    cli_json_options json;
} tune_options;

static error_t parse_tune_option(int key, char *text, struct argp_state *state)
{
    tune_options *options = state->input;
    (void)text;
    if (key != ARGP_KEY_INIT) {
        return ARGP_ERR_UNKNOWN;
    }
    state->child_inputs[0] = &options->model;
    state->child_inputs[1] = &options->json;
    return 0;
}

static kiln_status run_tune(model_session *session, const tune_options *options, kiln_error *err)
{
    tuned made = {.won = {.err = KILN_ERROR_INIT}};
    kiln_status status = cli_check_local(session->device, "tune", err);
    if (status == KILN_STATUS_OK) {
        status = check_measures(session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = tune(session, &made.measured, &made.left, err);
    }
    if (status == KILN_STATUS_OK) {
        status = find_winners(session, &made.won, err);
    }
    if (status == KILN_STATUS_OK && !cli_json_is_shown(&options->json)) {
        print_tuned(&made, options->model.model);
    }
    if (status == KILN_STATUS_OK && options->json.wanted) {
        status = cli_json_write(&options->json, tuned_json(&made, options->model.model), err);
    }
    return status;
}

int cmd_tune(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_options_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,
        parse_tune_option,
        "MODEL\nblas",
        "Measures the candidates of every fused block of a model, with the shapes of the inputs, "
        "and keeps the winners in the cache; or searches parameters of CLBlast for a device.",
        children,
        NULL,
        NULL};
    tune_options options = {.model.device = {.tune_default = "full"}};
#ifdef KILN_WITH_CL
    if (argc > 1 && strcmp(argv[1], "blas") == 0) {
        static char name[] = "kiln tune blas";
        argv[1] = name;
        return cmd_tune_blas(argc - 1, argv + 1);
    }
#endif
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.model.device.no_fusion) {
        return cli_usage("tune", "--no-fusion leaves no fused block to measure");
    }
    kiln_error err = KILN_ERROR_INIT;
    model_session session;
    kiln_status status = model_session_open(&session, &options.model, /*invent=*/true, &err);
    if (status == KILN_STATUS_OK) {
        status = run_tune(&session, &options, &err);
    }
    model_session_close(&session);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("tune", &err);
}
