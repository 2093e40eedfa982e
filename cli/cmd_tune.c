// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln tune MODEL`: runs a model until the candidates of every fused block were measured, a block
// in each run, so that later runs start with the winners. Progress goes to standard error.

#include "cli.h"
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

static kiln_graph_info info_of(const kiln_graph *graph)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(graph, &info);
    return info;
}

static kiln_status run_once(model_session *session, kiln_error *err)
{
    kiln_tensor *outputs[MODEL_RUN_MAX_IO] = {NULL};
    kiln_status status = model_session_run(session, outputs, err);
    for (size_t i = 0; i < MODEL_RUN_MAX_IO; i++) {
        kiln_release(outputs[i]);
    }
    return status == KILN_STATUS_OK ? kiln_sync(session->device, err) : status;
}

/// One run more than there are blocks: one that cannot be measured ends nothing.
static kiln_status tune(model_session *session, uint64_t *out_measured, uint64_t *out_all,
                        kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t all = info_of(session->graph).blocks_open, open = all;
    for (uint64_t run = 0; run <= all && open > 0 && status == KILN_STATUS_OK; run++) {
        show(all - open, all);
        status = run_once(session, err);
        open = info_of(session->graph).blocks_open;
    }
    if (status == KILN_STATUS_OK && all > 0) {
        show(all - open, all);
    }
    *out_measured = all - open;
    *out_all = all;
    return status;
}

int cmd_tune(int argc, char **argv)
{
    static const struct argp_child children[] = {{&model_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        NULL,
        NULL,
        "MODEL",
        "Measures the candidates of every fused block of a model, with the shapes of the inputs, "
        "and keeps the winners in the cache.",
        children,
        NULL,
        NULL};
    model_options options = {.device = {.tune_default = "full"}};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    model_session session;
    uint64_t measured = 0, all = 0;
    kiln_status status = model_session_open(&session, &options, /*zeros=*/true, &err);
    if (status == KILN_STATUS_OK && session.graph == NULL) {
        status = kiln_fail(&err, UNIMPLEMENTED,
                           "the model reads values while it is recorded; `kiln run --tune lazy` "
                           "measures what runs often");
    }
    if (status == KILN_STATUS_OK) {
        status = tune(&session, &measured, &all, &err);
    }
    if (status == KILN_STATUS_OK && all == 0) {
        uint64_t blocks = info_of(session.graph).blocks;
        printf("nothing left to measure: %llu fused blocks%s\n", (unsigned long long)blocks,
               blocks > 0 ? ", each with its winner" : "");
    } else if (status == KILN_STATUS_OK) {
        printf("%llu of %llu blocks measured\n", (unsigned long long)measured,
               (unsigned long long)all);
    }
    model_session_close(&session);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("tune", &err);
}
