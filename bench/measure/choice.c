// SPDX-License-Identifier: MIT OR Apache-2.0
// Measures choices: a program is captured in contexts of their own, so that nothing is remembered;
// one lets its candidates compete lazily, one fully, and others judge. What is chosen without
// measuring is what all of them begin with.
//
// A judge's tournament measures all ways in turns, so that their ratios hold whatever the machine
// does beside; from judge to judge memory and threads lie elsewhere. The fastest way is the one
// with the least median ratio to the unfused operations. A choice is good when the median of its
// ratios to the fastest is at most 1.05. Is one above 1.025, more judges are asked. One above 1.05
// is a miss, unless after all judges the 95 % interval of its median (order statistics) reaches
// down to 1: then the two cannot be told apart. These ties are counted, and shown apart.

#include "choice.h"
#include "kiln_explained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JUDGES = 3, MORE_JUDGES = 9, MAX_BLOCKS = 256, MAX_WAYS = 10, LAZY_RUNS = 24 };

static const double near = 1.05; // of the fastest
static const double unclear = 1.025;

typedef struct way { ///< to run a block; the first is its unfused operations
    char who[72];
    double ns[MORE_JUDGES]; ///< by judge; 0: not measured
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

// ---- a program in a context of its own ----

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
    KILN_TRY(out, status, kiln_context_set(s->context, "tune-budget", "1000000", err));
    KILN_TRY(out, status, kiln_device_open(s->context, device, &s->device, err));
    KILN_TRY(out, status, program->make(s->device, program->user, s->inputs, &s->n_inputs, err));
    status = capture(s, program, err);
out:
    return status;
}

// ---- blocks and who may run them ----

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
    snprintf(added->ways[0].who, sizeof(added->ways[0].who), "unfused");
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

/// What a judge's tournaments said so far.
static void note_judge(block *blocks, uint32_t *count, const kiln_explanation *e, int judge)
{
    for (uint32_t i = 0; i < e->n_blocks; i++) {
        block *b = block_at(blocks, count, &e->blocks[i]);
        if (b == NULL || b->ways[0].ns[judge] > 0) {
            continue;
        }
        b->ways[0].ns[judge] = e->blocks[i].alone_ns;
        for (uint32_t k = 0; k < e->blocks[i].n_candidates; k++) {
            const kiln_explained_candidate *c = &e->blocks[i].candidates[k];
            int at = c->measured_ns > 0 ? way_of(b, c->fuser) : -1;
            if (at >= 0) {
                b->ways[at].ns[judge] = c->measured_ns;
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

// ---- sessions ----

static kiln_status look(session *s, block *blocks, uint32_t *count, choice_mode mode,
                        kiln_error *err)
{
    kiln_explanation e;
    kiln_status status = kiln_graph_explained(s->graph, &e, err);
    if (status == KILN_STATUS_OK) {
        note_choices(blocks, *count, &e, mode);
        kiln_graph_explained_fini(&e);
    }
    return status;
}

static kiln_status ask_judge(session *s, block *blocks, uint32_t *count, int judge, kiln_error *err)
{
    kiln_explanation e;
    kiln_status status = kiln_graph_explained(s->graph, &e, err);
    if (status == KILN_STATUS_OK) {
        note_judge(blocks, count, &e, judge);
        kiln_graph_explained_fini(&e);
    }
    return status;
}

static uint64_t runs_of(const session *s, const char *tune)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    kiln_graph_info_get(s->graph, &info);
    return info.blocks_open * (tune[0] == 'l' ? 3 : 1) + 1 + (tune[0] == 'l' ? LAZY_RUNS : 0);
}

static kiln_status judge_once(const choice_program *program, const char *device, block *blocks,
                              uint32_t *count, int judge, kiln_error *err)
{
    session s;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, open_session(&s, program, device, "full", err));
    KILN_TRY(out, status, ask_judge(&s, blocks, count, judge, err)); // the blocks: no times yet
    if (judge == 0) {
        KILN_TRY(out, status, look(&s, blocks, count, CHOICE_OFF, err));
    }
    for (uint64_t i = runs_of(&s, "full"); i > 0; i--) { // a run measures one block at most
        KILN_TRY(out, status, run(&s, err));
        KILN_TRY(out, status, ask_judge(&s, blocks, count, judge, err));
    }
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
    for (uint64_t i = runs_of(&s, tune); i > 0; i--) {
        KILN_TRY(out, status, run(&s, err));
    }
    KILN_TRY(out, status, capture(&s, program, err)); // with what was measured
    status = look(&s, blocks, count, mode, err);
out:
    close_session(&s);
    return status;
}

// ---- the tally ----

static kiln_ratio ratio_of(const way *a, const way *b)
{
    double all[MORE_JUDGES];
    size_t n = 0;
    for (int i = 0; i < MORE_JUDGES; i++) {
        if (a->ns[i] > 0 && b->ns[i] > 0) {
            all[n++] = a->ns[i] / b->ns[i];
        }
    }
    return kiln_ratio_of(all, n);
}

static uint32_t fastest(const block *b)
{
    uint32_t best = 0;
    double least = 1; // the unfused operations
    for (uint32_t i = 1; i < b->n_ways; i++) {
        kiln_ratio r = ratio_of(&b->ways[i], &b->ways[0]);
        if (r.count > 0 && r.median < least) {
            least = r.median;
            best = i;
        }
    }
    return best;
}

static bool was_measured(const block *b)
{
    uint32_t others = 0;
    for (uint32_t i = 1; i < b->n_ways; i++) {
        others += ratio_of(&b->ways[i], &b->ways[0]).count > 0;
    }
    return others > 0;
}

/// How much slower than the fastest the choice is: 1 when it is that itself.
static kiln_ratio verdict_on(const block *b, choice_mode mode)
{
    uint32_t best = fastest(b);
    return b->chosen[mode] < 0 ? kiln_ratio_of(NULL, 0)
                               : ratio_of(&b->ways[b->chosen[mode]], &b->ways[best]);
}

static bool all_clear(const block *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (int mode = 0; mode < CHOICE_MODES; mode++) {
            kiln_ratio r = verdict_on(&blocks[i], (choice_mode)mode);
            if (r.count > 0 && r.median > unclear) {
                return false;
            }
        }
    }
    return true;
}

static double median_ns(const way *w)
{
    double all[MORE_JUDGES];
    size_t n = 0;
    for (int i = 0; i < MORE_JUDGES; i++) {
        all[n] = w->ns[i];
        n += w->ns[i] > 0;
    }
    return kiln_quantile(all, n, 0.5);
}

static void count_block(const choice_program *program, const block *b, choice_tally *tally)
{
    static const char *const modes[] = {"off", "lazy", "full"};
    uint32_t best = fastest(b);
    if (!was_measured(b)) {
        tally->failed++;
        return;
    }
    tally->blocks++;
    for (int mode = 0; mode < CHOICE_MODES; mode++) {
        int chosen = b->chosen[mode];
        kiln_ratio r = verdict_on(b, (choice_mode)mode);
        bool tie = r.count >= 6 && r.median > near && r.low <= 1;
        bool good = tie || (r.count > 0 && r.median <= near);
        tally->good[mode] += good;
        tally->ties[mode] += tie;
        tally->recut[mode] += chosen < 0;
        if ((!good || tie) && !tally->quiet) {
            printf("  %s, tune %s: %s, %u operations from %u: %s %.1f us, %s %.1f us; %.2f times "
                   "as long, at least %.2f, %zu judges\n",
                   tie ? "tie" : "miss", modes[mode], program->name, b->n_ops, b->first,
                   chosen >= 0 ? b->ways[chosen].who : "another block",
                   chosen >= 0 ? median_ns(&b->ways[chosen]) / 1e3 : 0, b->ways[best].who,
                   median_ns(&b->ways[best]) / 1e3, r.median, r.low, r.count);
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
        KILN_TRY(out, status, judge_once(program, tally->device, blocks, &count, i, err));
    }
    KILN_TRY(out, status, choose(program, tally->device, blocks, &count, CHOICE_LAZY, err));
    KILN_TRY(out, status, choose(program, tally->device, blocks, &count, CHOICE_FULL, err));
    for (int i = JUDGES; i < MORE_JUDGES && !all_clear(blocks, count); i++) {
        KILN_TRY(out, status, judge_once(program, tally->device, blocks, &count, i, err));
    }
    for (uint32_t i = 0; i < count; i++) {
        count_block(program, &blocks[i], tally);
    }
out:
    free(blocks);
    return status;
}
