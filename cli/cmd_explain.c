// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln explain MODEL`: how the model is cut into blocks, what every fuser offered for them, who
// won, and why the rest runs alone. Inputs without a file are zeros of the model's shape, unknown
// lengths 1.

#include "cli.h"
#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct explain_options {
    model_options model;
    bool source;
} explain_options;

static const struct argp_option options_table[] = {
    {"source", 'S', NULL, 0, "with the source of each fused kernel", 0},
    {0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    explain_options *options = state->input;
    (void)text;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        return 0;
    case 'S':
        options->source = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static kiln_status explain(const explain_options *options, kiln_error *err)
{
    model_session session;
    char *text = NULL;
    kiln_status status = model_session_open(&session, &options->model, /*zeros=*/true, err);
    if (status == KILN_STATUS_OK && session.graph == NULL) {
        status = kiln_fail(err, UNIMPLEMENTED,
                           "the model reads values while it is recorded, so there is no one graph");
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_explain(session.graph, options->source ? KILN_EXPLAIN_SOURCE : 0, &text,
                                    err);
    }
    if (status == KILN_STATUS_OK) {
        fputs(text, stdout);
        kiln_text_free(session.context, text);
    }
    model_session_close(&session);
    return status;
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp_child children[] = {{&model_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options_table,
        parse,
        "MODEL",
        "Tells for each block the operations, the candidates with their scores and the "
        "winner, and for each operation left alone the reason.",
        children,
        NULL,
        NULL};
    explain_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    return explain(&options, &err) == KILN_STATUS_OK ? CLI_OK : cli_fail("explain", &err);
}
