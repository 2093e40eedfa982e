// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln explain MODEL`: how the model is cut into blocks, what every fuser offered for them, who
// won, what it took, and why the rest runs unfused; as text, as JSON, as a page. Inputs without a
// file are numbers of ours in the model's shape, unknown lengths 1. Decides how often the model
// runs to be measured.

#include "cli_json.h"
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_HTML = 256, KEY_BESIDE, MOST_EXPLAINED_RUNS = 60, MOST_GRAPHS = 256 };

typedef struct explain_options {
    model_options model;
    bool source;
    const char *html;
    const char *beside; ///< file with another run as JSON
    char *beside_text;
    cli_json_options json;
    long runs;
} explain_options;

static const struct argp_option explain_options_table[] = {
    {"source", 'S', NULL, 0, "with the source of each fused kernel", 0},
    {"html", KEY_HTML, "FILE", 0, "write a page with the graph, in one file (- : standard output)",
     0},
    {"beside", KEY_BESIDE, "FILE", 0,
     "with --html: another run, as --json wrote it, shown side by side with this one", 0},
    {"runs", 'r', "COUNT", 0,
     "runs that are measured, at most 60 (default 5; 0: nothing runs and nothing is measured)", 0},
    {0},
};

static error_t parse_explain_option(int key, char *text, struct argp_state *state)
{
    explain_options *options = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        state->child_inputs[1] = &options->json;
        return 0;
    case 'S':
        options->source = true;
        return 0;
    case KEY_BESIDE:
        options->beside = text;
        return 0;
    case ARGP_KEY_END:
        if (options->beside != NULL && options->html == NULL) {
            argp_error(state, "--beside goes with --html");
        }
        return 0;
    case KEY_HTML:
        options->html = text;
        return 0;
    case 'r':
        options->runs = strtol(text, &end, 10);
        if (*text == '\0' || *end != '\0' || options->runs < 0 ||
            options->runs > MOST_EXPLAINED_RUNS) {
            argp_error(state, "--runs %s: a count from 0 to %d", text, MOST_EXPLAINED_RUNS);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- running ----

/// Lets tournaments end when some were asked for, and takes their winners into the graph.
static kiln_status settle(model_session *session, kiln_error *err)
{
    const char *tune =
        kiln_config_string(kiln_context_env(session->context)->config, KILN_OPTION_TUNE);
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (session->graph == NULL) { // its parts take winners when they are captured
        return KILN_STATUS_OK;
    }
    kiln_graph_info_get(session->graph, &info);
    uint64_t runs = strcmp(tune, "full") == 0 ? info.blocks_open : 0; // each run measures one block
    for (uint64_t i = 0; i < runs && status == KILN_STATUS_OK; i++) {
        status = model_session_run_once(session, err);
    }
    return status == KILN_STATUS_OK && runs > 0 ? model_session_recapture(session, err) : status;
}

static kiln_status measure(model_session *session, long runs, kiln_error *err)
{
    kiln_status status = settle(session, err);
    if (status == KILN_STATUS_OK) {
        status = model_session_run_once(session, err); // compiles
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_trace_start(session->context, err);
    }
    for (long i = 0; i < runs && status == KILN_STATUS_OK; i++) {
        status = model_session_run_once(session, err);
    }
    return status;
}

// ---- writing ----

typedef struct explained {
    explain_graph *graphs;
    size_t count;
    size_t more; ///< than there is room for
} explained;

static void add_graph(const char *name, kiln_graph *graph, void *user)
{
    explained *all = user;
    if (all->count == MOST_GRAPHS) {
        all->more++;
        return;
    }
    explain_graph *one = &all->graphs[all->count++];
    one->graph = graph;
    snprintf(one->name, sizeof(one->name), "%s", name);
}

/// The model's graph, or those of its parts.
static kiln_status find_graphs(const model_session *session, explained *all, kiln_error *err)
{
    all->graphs = calloc(MOST_GRAPHS, sizeof(*all->graphs));
    if (all->graphs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an explanation");
    }
    model_session_graphs(session, add_graph, all);
    if (all->count == 0) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "the model reads values while it is recorded, and nothing between two "
                         "reads became a graph (--runs 0 runs nothing)");
    }
    return KILN_STATUS_OK;
}

static kiln_status write_text(const explain_options *options, model_session *session,
                              const explained *all, kiln_error *err)
{
    uint32_t flags = KILN_EXPLAIN_MEMORY | (options->source ? KILN_EXPLAIN_SOURCE : 0);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < all->count && status == KILN_STATUS_OK; i++) {
        char *text = NULL;
        status = kiln_graph_explain(all->graphs[i].graph, flags, &text, err);
        if (status == KILN_STATUS_OK && all->graphs[i].name[0] != '\0') {
            printf("%sgraph %zu of %zu: %s\n", i > 0 ? "\n" : "", i + 1, all->count + all->more,
                   all->graphs[i].name);
        }
        if (status == KILN_STATUS_OK) {
            kiln_graph_info info = KILN_GRAPH_INFO_INIT;
            kiln_graph_info_get(all->graphs[i].graph, &info);
            cli_print_fused(false, info.ops, info.ops_fused, info.blocks);
            fputs(text, stdout);
            kiln_text_free(session->context, text);
        }
    }
    return status;
}

static kiln_status write_data(const explain_options *options, const model_session *session,
                              explained *all, kiln_error *err)
{
    char *json = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < all->count && status == KILN_STATUS_OK; i++) {
        status = kiln_graph_explained(all->graphs[i].graph, &all->graphs[i].explanation, err);
    }
    if (status == KILN_STATUS_OK) {
        status = explain_json(session, options->model.model, all->graphs, all->count, &json, err);
    }
    if (status == KILN_STATUS_OK && options->json.wanted) {
        status = explain_write(options->json.path != NULL ? options->json.path : "-", json, err);
    }
    if (status == KILN_STATUS_OK && options->html != NULL) {
        status = explain_html(options->html, json, options->beside_text, err);
    }
    free(json);
    for (size_t i = 0; i < all->count; i++) {
        kiln_graph_explained_fini(&all->graphs[i].explanation);
    }
    return status;
}

static kiln_status explain(explain_options *options, kiln_error *err)
{
    model_session session = {0};
    explained all = {0};
    kiln_status status = KILN_STATUS_OK;
    if (options->beside != NULL) {
        KILN_TRY(out, status, explain_read(options->beside, &options->beside_text, err));
    }
    if (options->html != NULL) {
        KILN_TRY(out, status, cli_check_output(options->html, err));
    }
    status = model_session_open(&session, &options->model, /*invent=*/true, err);
    if (status == KILN_STATUS_OK) {
        status = cli_check_local(session.device, "explain", err);
    }
    if (status == KILN_STATUS_OK && options->runs > 0) {
        status = model_session_meet(&session, err);
    }
    if (status == KILN_STATUS_OK && options->runs > 0) {
        status = measure(&session, options->runs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = find_graphs(&session, &all, err);
    }
    if (status == KILN_STATUS_OK && options->html == NULL && !options->json.wanted) {
        status = write_text(options, &session, &all, err);
    } else if (status == KILN_STATUS_OK) {
        status = write_data(options, &session, &all, err);
    }
out:
    free(options->beside_text);
    free(all.graphs);
    model_session_close(&session);
    return status;
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_options_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        explain_options_table,
        parse_explain_option,
        "MODEL",
        "Tells for each block the operations, the candidates with their scores and the "
        "winner, and for each operation left unfused the reason; as text, as JSON or as a page.",
        children,
        NULL,
        NULL};
    explain_options options = {.runs = 5, .model.with_nodes = true};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    return explain(&options, &err) == KILN_STATUS_OK ? CLI_OK : cli_fail("explain", &err);
}
