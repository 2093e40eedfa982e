// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln run --profile`: which blocks and single operations a run spends its time in, as the trace
// of the runs has it, beside what each of them computes and moves. Decides what counts as work; the
// times are the trace's.

#include "kiln_explained.h"
#include "model_run.h"
#include "model_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40 }; // rows

typedef struct row { ///< a block, or an operation alone
    uint32_t block; ///< UINT32_MAX: alone
    uint32_t op; ///< of one that is alone
    uint32_t launches; ///< steps
    double ns;
    double flops; ///< 0: not known
    double bytes;
} row;

typedef struct profile {
    FILE *out;
    json_t *list;
    model_peaks peak;
    uint32_t graphs;
    kiln_status status;
    kiln_error *err;
} profile;

/// How near a row comes to the peak that is nearer: 1 is all of it.
static double share_of_peak(const model_peaks *peak, const row *r)
{
    double flops = peak->flops_per_ns > 0 ? r->flops / peak->flops_per_ns : 0;
    double bytes = peak->bytes_per_ns > 0 ? r->bytes / peak->bytes_per_ns : 0;
    return r->ns > 0 ? fmax(flops, bytes) / r->ns : 0;
}

static void fill_work(const kiln_explanation *e, row *r)
{
    model_work work = r->block == UINT32_MAX ? model_work_of_op(e, &e->ops[r->op])
                                             : model_work_of_block(e, &e->blocks[r->block]);
    r->flops = work.flops;
    r->bytes = work.bytes;
}

// ---- rows ----

static int by_time(const void *a, const void *b)
{
    double x = ((const row *)a)->ns, y = ((const row *)b)->ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

/// Views run nothing; a step that a device did not see yet has no time.
static bool took_time(const kiln_explanation *e, const kiln_explained_step *step)
{
    bool known = step->block < e->n_blocks || step->op < e->n_ops;
    bool view = step->op < e->n_ops && strcmp(e->ops[step->op].kind, "view") == 0;
    return step->runs > 0 && known && !view;
}

/// One for each block, then one for each operation alone, sorted.
static size_t collect_rows(const kiln_explanation *e, row *rows)
{
    size_t count = 0;
    for (uint32_t i = 0; i < e->n_blocks; i++) {
        rows[i] = (row){.block = i, .op = UINT32_MAX};
    }
    size_t alone = e->n_blocks;
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const kiln_explained_step *step = &e->steps[i];
        bool in_block = step->block < e->n_blocks;
        if (!took_time(e, step)) {
            continue;
        }
        row *r = &rows[in_block ? step->block : alone++];
        *r = in_block ? *r : (row){.block = UINT32_MAX, .op = step->op};
        r->launches++;
        r->ns += step->measured_ns;
    }
    for (size_t i = 0; i < alone; i++) {
        if (rows[i].launches > 0) {
            rows[count] = rows[i];
            fill_work(e, &rows[count++]);
        }
    }
    qsort(rows, count, sizeof(*rows), by_time);
    return count;
}

/// "fuser: operators -> result" or "operator weights -> result".
static void write_name(FILE *out, const kiln_explanation *e, const row *r)
{
    const kiln_explained_op *last = NULL;
    if (r->block == UINT32_MAX) {
        last = &e->ops[r->op];
        fprintf(out, "%s", last->name);
        if (model_work_of_op(e, last).flops > 0 && last->inputs[1] < e->n_tensors) {
            fprintf(out, " %s", e->tensors[last->inputs[1]].text);
        }
    } else {
        const kiln_explained_block *block = &e->blocks[r->block];
        const char *slash = strrchr(block->fuser, '/');
        uint32_t shown = 0;
        fprintf(out, "%s:", slash != NULL ? slash + 1 : block->fuser);
        for (uint32_t i = 0; i < block->n_ops; i++) {
            const kiln_explained_op *op = &e->ops[block->ops[i]];
            if (op->n_outputs > 0) {
                fprintf(out, shown < 6 ? " %s" : shown == 6 ? " ..." : "", op->name);
                shown++;
                last = op;
            }
        }
    }
    if (last != NULL && last->n_outputs > 0 && last->outputs[0] < e->n_tensors) {
        fprintf(out, " -> %s", e->tensors[last->outputs[0]].text);
    }
    fputc('\n', out);
}

static void write_rate(FILE *out, double work, double ns)
{
    if (work > 0 && ns > 0) {
        fprintf(out, " %8.*f", work / ns < 10 ? 3 : 1, work / ns);
    } else {
        fprintf(out, " %8s", "-");
    }
}

/// The launches of a block that has several, in their order, but for those below a hundredth of
/// `all`.
static void write_launches(FILE *out, const kiln_explanation *e, const row *r, double all)
{
    char text[32];
    for (uint32_t i = 0; i < e->n_steps && r->launches > 1; i++) {
        const kiln_explained_step *step = &e->steps[i];
        if (step->block == r->block && step->kernel != NULL && step->measured_ns * 100 >= all) {
            fprintf(out, "%5.1f %% %10s %43s    step %u: %s\n", 100 * step->measured_ns / all,
                    cli_format_ns(text, step->measured_ns), "", i, step->kernel);
        }
    }
}

static void write_rows(const profile *p, const kiln_explanation *e, const row *rows, size_t count)
{
    double all = 0, rest = 0;
    char text[32];
    for (size_t i = 0; i < count; i++) {
        all += rows[i].ns;
        rest += i >= SHOWN ? rows[i].ns : 0;
    }
    fprintf(p->out, "profile: %s in %zu blocks and single operations, medians of the runs\n",
            cli_format_ns(text, all), count);
    fprintf(
        p->out,
        "the device: %.1f GFLOP/s of f32 by its clock, %.1f as measured in a product, a copy moves "
        "%.1f GB/s as measured\n",
        p->peak.clock_flops_per_ns, p->peak.flops_per_ns, p->peak.bytes_per_ns);
    fprintf(p->out, "%7s %10s %8s %8s %8s %7s %6s  %s\n", "share", "time", "launches", "GFLOP/s",
            "GB/s", "of peak", "block", "what");
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        const row *r = &rows[i];
        fprintf(p->out, "%5.1f %% %10s %8u", all > 0 ? 100 * r->ns / all : 0,
                cli_format_ns(text, r->ns), r->launches);
        write_rate(p->out, r->flops, r->ns);
        write_rate(p->out, r->bytes, r->ns);
        fprintf(p->out, " %5.0f %%", 100 * share_of_peak(&p->peak, r));
        if (r->block == UINT32_MAX) {
            fprintf(p->out, " %6s  ", "-");
        } else {
            fprintf(p->out, " %6u  ", r->block);
        }
        write_name(p->out, e, r);
        write_launches(p->out, e, r, all);
    }
    if (count > SHOWN) {
        fprintf(p->out, "%5.1f %% %10s  %zu more\n", all > 0 ? 100 * rest / all : 0,
                cli_format_ns(text, rest), count - SHOWN);
    }
}

static json_t *launches_json(const kiln_explanation *e, const row *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const kiln_explained_step *step = &e->steps[i];
        bool own = r->block != UINT32_MAX ? step->block == r->block : step->op == r->op;
        if (own && step->runs > 0) {
            json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "step", (int)i, "kernel",
                                                  cli_json_text(step->kernel), "ns",
                                                  cli_json_figure(step->measured_ns)));
        }
    }
    return list;
}

static json_t *row_json(const profile *p, const kiln_explanation *e, const row *r, double all)
{
    char *what = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&what, &length);
    if (out == NULL) {
        return NULL;
    }
    write_name(out, e, r);
    if (fclose(out) != 0) {
        return NULL;
    }
    what[strcspn(what, "\n")] = '\0';
    json_t *made =
        json_pack("{s:o, s:o, s:f, s:f, s:i, s:o, s:o, s:o, s:o}", "what", cli_json_text(what),
                  "block", r->block != UINT32_MAX ? json_integer(r->block) : json_null(), "ns",
                  r->ns, "share", all > 0 ? r->ns / all : 0.0, "launches", (int)r->launches,
                  "flops", cli_json_figure(r->flops), "bytes", cli_json_figure(r->bytes), "of_peak",
                  cli_json_figure(share_of_peak(&p->peak, r)), "steps", launches_json(e, r));
    free(what);
    return made;
}

static void add_rows(const profile *p, const kiln_explanation *e, const row *rows, size_t count)
{
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        all += rows[i].ns;
    }
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(p->list, row_json(p, e, &rows[i], all));
    }
}

static void write_graph(const char *name, kiln_graph *graph, void *user)
{
    profile *p = user;
    kiln_explanation e;
    p->graphs++;
    if (p->status != KILN_STATUS_OK) {
        return;
    }
    p->status = kiln_graph_explained(graph, &e, p->err);
    if (p->status != KILN_STATUS_OK) {
        return;
    }
    row *rows = calloc((size_t)e.n_blocks + e.n_steps + 1, sizeof(*rows));
    if (rows == NULL) {
        p->status = kiln_fail(p->err, RESOURCE_EXHAUSTED, "no memory for a profile");
    } else {
        if (name[0] != '\0') {
            fprintf(p->out, "graph %u: %s\n", p->graphs, name);
        }
        size_t count = collect_rows(&e, rows);
        write_rows(p, &e, rows, count);
        add_rows(p, &e, rows, count);
    }
    free(rows);
    kiln_graph_explained_fini(&e);
}

kiln_status model_profile(const model_session *session, char **out_text, json_t **out_rows,
                          kiln_error *err)
{
    size_t length = 0;
    profile p = {.err = err};
    kiln_status status = model_measure_peaks(session->device, &p.peak, err);
    if (status != KILN_STATUS_OK) {
        return kiln_error_context(err, "measuring the device");
    }
    p.out = open_memstream(out_text, &length);
    p.list = *out_rows = json_array();
    if (p.out == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a profile");
    }
    model_session_graphs(session, write_graph, &p);
    if (session->graph == NULL) {
        fprintf(p.out, "graphs: %u; what lies in none is recorded in each run and not shown\n",
                p.graphs);
    }
    return fclose(p.out) == 0 ? p.status
                              : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a profile");
}
