// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures choices: a program is captured in contexts of their own, so that nothing is remembered;
// one lets its candidates compete lazily, one fully, and three judge. A candidate's time is the
// least that any judge saw; what is chosen without measuring is what all of them begin with.

#include "choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUDGES = 3, MAX_BLOCKS = 256, MAX_WAYS = 10, LAZY_RUNS = 12 };

static const double near = 1.05; // of the fastest

typedef struct way { ///< to run a block; the first is its operations alone
    char who[72];
    double ns; ///< least of the judges; 0: never measured
} way;

typedef struct block {
    uint32_t first;
    uint32_t n_ops;
    way ways[MAX_WAYS];
    uint32_t n_ways;
    int chosen[CHOICE_MODES]; ///< way; -1: in another block
} block;

typedef struct session {
    kiln_context *context;
    kiln_device *device;
    kiln_tensor *inputs[CHOICE_MAX_IO];
    size_t n_inputs;
    size_t n_results;
    kiln_graph *graph;
} session;

// ---- a program in a context of its own ---------------------------------------------------------

static kiln_status capture(session *s, const choice_program *program, kiln_error *err)
{
    static kiln_tensor *results[CHOICE_MAX_IO];
    kiln_graph_destroy(s->graph);
    s->graph = NULL;
    kiln_status status = kiln_graph_begin(s->device, s->inputs, s->n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    s->n_results = 0;
    status = program->record(s->device, program->user, s->inputs, results, &s->n_results, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(s->device, results, s->n_results, &s->graph, err);
    } else {
        kiln_graph_cancel(s->device);
    }
    for (size_t i = 0; i < s->n_results; i++) {
        kiln_release(results[i]);
    }
    return status;
}

static kiln_status run(session *s, kiln_error *err)
{
    static kiln_tensor *results[CHOICE_MAX_IO];
    kiln_status status =
        kiln_graph_run(s->graph, s->inputs, s->n_inputs, results, s->n_results, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(s->device, err);
    }
    for (size_t i = 0; i < s->n_results; i++) {
        kiln_release(results[i]);
    }
    return status;
}

static void close_session(session *s)
{
    kiln_graph_destroy(s->graph);
    for (size_t i = 0; i < s->n_inputs; i++) {
        kiln_release(s->inputs[i]);
    }
    kiln_device_release(s->device);
    kiln_context_destroy(s->context);
    memset(s, 0, sizeof(*s));
}

static kiln_status open_session(session *s, const choice_program *program, const char *device,
                                const char *tune, kiln_error *err)
{
    memset(s, 0, sizeof(*s));
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &s->context, err));
    KILN_TRY(out, status, kiln_context_set(s->context, "cache-dir", "off", err));
    KILN_TRY(out, status, kiln_context_set(s->context, "tune", tune, err));
    KILN_TRY(out, status, kiln_device_open(s->context, device, &s->device, err));
    KILN_TRY(out, status, program->make(s->device, program->user, s->inputs, &s->n_inputs, err));
    status = capture(s, program, err);
out:
    return status;
}

// ---- blocks and who may run them ---------------------------------------------------------------

static block *block_at(block *blocks, uint32_t *count, const kiln_explained_block *given)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (blocks[i].first == given->ops[0] && blocks[i].n_ops == given->n_ops) {
            return &blocks[i];
        }
    }
    if (*count == MAX_BLOCKS) {
        return NULL;
    }
    block *added = &blocks[(*count)++];
    memset(added, 0, sizeof(*added));
    added->first = given->ops[0];
    added->n_ops = given->n_ops;
    snprintf(added->ways[0].who, sizeof(added->ways[0].who), "alone");
    added->n_ways = 1;
    return added;
}

static int way_of(block *b, const char *who)
{
    for (uint32_t i = 0; i < b->n_ways; i++) {
        if (strncmp(b->ways[i].who, who, sizeof(b->ways[i].who) - 1) == 0) {
            return (int)i;
        }
    }
    if (b->n_ways == MAX_WAYS) {
        return -1;
    }
    snprintf(b->ways[b->n_ways].who, sizeof(b->ways[b->n_ways].who), "%s", who);
    return (int)b->n_ways++;
}

static void note_time(way *w, double ns)
{
    w->ns = ns > 0 && (w->ns <= 0 || ns < w->ns) ? ns : w->ns;
}

/// What a judge's tournaments said.
static void judge(block *blocks, uint32_t *count, const kiln_explanation *e)
{
    for (uint32_t i = 0; i < e->n_blocks; i++) {
        block *b = block_at(blocks, count, &e->blocks[i]);
        if (b == NULL) {
            continue;
        }
        note_time(&b->ways[0], e->blocks[i].alone_ns);
        for (uint32_t k = 0; k < e->blocks[i].n_candidates; k++) {
            const kiln_explained_candidate *c = &e->blocks[i].candidates[k];
            int at = c->measured_ns > 0 ? way_of(b, c->fuser) : -1;
            if (at >= 0) {
                note_time(&b->ways[at], c->measured_ns);
            }
        }
    }
}

/// Who has each block in this plan.
static void note_choices(block *blocks, uint32_t count, const kiln_explanation *e, choice_mode mode)
{
    for (uint32_t i = 0; i < count; i++) {
        block *b = &blocks[i];
        uint32_t now = b->first < e->n_ops ? e->ops[b->first].block : UINT32_MAX;
        bool same = now != UINT32_MAX && e->blocks[now].ops[0] == b->first &&
                    e->blocks[now].n_ops == b->n_ops;
        b->chosen[mode] = now == UINT32_MAX ? 0 : same ? way_of(b, e->blocks[now].fuser) : -1;
    }
}

// ---- sessions ----------------------------------------------------------------------------------

static kiln_status settle(session *s, const char *tune, kiln_error *err)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(s->graph, &info);
    uint64_t runs = info.blocks_open + 1 + (tune[0] == 'l' ? LAZY_RUNS : 0);
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; i < runs && status == KILN_STATUS_OK; i++) {
        status = run(s, err); // measures one block at most
    }
    return status;
}

static kiln_status look(session *s, block *blocks, uint32_t *count, int mode, kiln_error *err)
{
    kiln_explanation e;
    kiln_status status = kiln_graph_explained(s->graph, &e, err);
    if (status == KILN_STATUS_OK) {
        if (mode < 0) {
            judge(blocks, count, &e);
        } else {
            note_choices(blocks, *count, &e, (choice_mode)mode);
        }
        kiln_graph_explained_fini(&e);
    }
    return status;
}

static kiln_status judge_once(const choice_program *program, const char *device, block *blocks,
                              uint32_t *count, bool first, kiln_error *err)
{
    session s;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, open_session(&s, program, device, "full", err));
    if (first) { // the blocks must be known before what was chosen for them
        KILN_TRY(out, status, look(&s, blocks, count, -1, err));
        KILN_TRY(out, status, look(&s, blocks, count, CHOICE_OFF, err));
    }
    KILN_TRY(out, status, settle(&s, "full", err));
    status = look(&s, blocks, count, -1, err);
out:
    close_session(&s);
    return status;
}

static kiln_status choose(const choice_program *program, const char *device, block *blocks,
                          uint32_t *count, choice_mode mode, kiln_error *err)
{
    session s;
    const char *tune = mode == CHOICE_LAZY ? "lazy" : "full";
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, open_session(&s, program, device, tune, err));
    KILN_TRY(out, status, settle(&s, tune, err));
    KILN_TRY(out, status, capture(&s, program, err)); // with what was measured
    status = look(&s, blocks, count, (int)mode, err);
out:
    close_session(&s);
    return status;
}

// ---- the tally ---------------------------------------------------------------------------------

static void count_block(const choice_program *program, const block *b, choice_tally *tally)
{
    static const char *const modes[] = {"off", "lazy", "full"};
    uint32_t best = 0, measured = 0;
    for (uint32_t i = 0; i < b->n_ways; i++) {
        measured += b->ways[i].ns > 0;
        best = b->ways[i].ns > 0 && (b->ways[best].ns <= 0 || b->ways[i].ns < b->ways[best].ns)
                   ? i
                   : best;
    }
    if (measured < 2) {
        tally->failed++;
        return;
    }
    tally->blocks++;
    for (int mode = 0; mode < CHOICE_MODES; mode++) {
        int chosen = b->chosen[mode];
        double ns = chosen >= 0 ? b->ways[chosen].ns : 0;
        bool good = ns > 0 && ns <= b->ways[best].ns * near;
        tally->good[mode] += good;
        tally->recut[mode] += chosen < 0;
        if (!good && !tally->quiet) {
            printf("  miss, tune %s: %s, %u operations from %u: %s %.1f us, %s %.1f us\n",
                   modes[mode], program->name, b->n_ops, b->first,
                   chosen >= 0 ? b->ways[chosen].who : "another block", ns / 1e3, b->ways[best].who,
                   b->ways[best].ns / 1e3);
        }
    }
}

kiln_status choice_measure(const choice_program *program, choice_tally *tally, kiln_error *err)
{
    block *blocks = calloc(MAX_BLOCKS, sizeof(*blocks));
    uint32_t count = 0;
    kiln_status status = KILN_STATUS_OK;
    if (blocks == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for choices");
    }
    for (int i = 0; i < JUDGES; i++) {
        KILN_TRY(out, status, judge_once(program, tally->device, blocks, &count, i == 0, err));
    }
    KILN_TRY(out, status, choose(program, tally->device, blocks, &count, CHOICE_LAZY, err));
    KILN_TRY(out, status, choose(program, tally->device, blocks, &count, CHOICE_FULL, err));
    for (uint32_t i = 0; i < count; i++) {
        count_block(program, &blocks[i], tally);
    }
out:
    free(blocks);
    return status;
}
