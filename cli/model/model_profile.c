// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln run --profile`: which blocks and single operations a run spends its time in, as the trace
// of the runs has it, beside what each of them computes and moves. Decides what counts as work; the
// times are the trace's.

#include "kiln_explained.h"
#include "model_run.h"

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
    const kiln_device_info *info;
    uint32_t graphs;
    kiln_status status;
    kiln_error *err;
} profile;

// ---- work ----

typedef struct extents {
    uint32_t rank;
    double dims[KILN_MAX_RANK];
} extents;

/// Of a tensor's text, such as "f32[1,64,56,56]".
static extents extents_of(const kiln_explanation *e, uint32_t tensor)
{
    extents made = {0};
    const char *at = tensor < e->n_tensors ? strchr(e->tensors[tensor].text, '[') : NULL;
    while (at != NULL && *at != ']' && made.rank < KILN_MAX_RANK) {
        char *end = NULL;
        made.dims[made.rank] = (double)strtoll(at + 1, &end, 10);
        made.rank += end != at + 1;
        at = end != at + 1 ? end : NULL;
    }
    return made;
}

/// The extent so many axes before the end; 1 beyond the first.
static double from_end(const extents *x, uint32_t axes)
{
    return axes <= x->rank ? x->dims[x->rank - axes] : 1;
}

static double count_of(const extents *x)
{
    double count = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        count *= x->dims[i];
    }
    return count;
}

/// Multiplications and additions of a contraction; of others 0: they are bound by what they move.
static double flops_of(const kiln_explanation *e, const kiln_explained_op *op)
{
    if (op->n_inputs < 2 || op->n_outputs < 1) {
        return 0;
    }
    extents a = extents_of(e, op->inputs[0]), b = extents_of(e, op->inputs[1]);
    extents result = extents_of(e, op->outputs[0]);
    if (strcmp(op->name, "matmul") == 0 || strcmp(op->name, "matmul_integer") == 0 ||
        strcmp(op->name, "linear") == 0) {
        bool turned = a.rank > 1 && strstr(op->text, "transpose_a=true") != NULL;
        return 2 * count_of(&result) * from_end(&a, turned ? 2 : 1);
    }
    if (strcmp(op->name, "conv") == 0 || strcmp(op->name, "conv_integer") == 0) {
        return b.dims[0] > 0 ? 2 * count_of(&result) * count_of(&b) / b.dims[0] : 0;
    }
    if (strcmp(op->name, "attention") == 0) {
        return 2 * from_end(&b, 2) * (count_of(&a) + count_of(&result));
    }
    if (op->n_inputs > 2 && (strcmp(op->name, "lstm") == 0 || strcmp(op->name, "gru") == 0 ||
                             strcmp(op->name, "rnn") == 0)) {
        extents recurrence = extents_of(e, op->inputs[2]);
        return 2 * a.dims[0] * from_end(&a, 2) * (count_of(&b) + count_of(&recurrence));
    }
    return 0;
}

static double bytes_of(const kiln_explanation *e, const uint32_t *tensors, uint32_t count)
{
    double bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool again = tensors[i] >= e->n_tensors;
        for (uint32_t k = 0; k < i && !again; k++) {
            again = tensors[k] == tensors[i];
        }
        bytes += again ? 0 : (double)e->tensors[tensors[i]].bytes;
    }
    return bytes;
}

/// What an operation alone reads and writes: of a table, no more than its result has.
static double moved_by(const kiln_explanation *e, const kiln_explained_op *op)
{
    double written = bytes_of(e, op->outputs, op->n_outputs);
    double read = bytes_of(e, op->inputs, op->n_inputs);
    bool indexed = strcmp(op->name, "select") == 0 || strcmp(op->name, "gather") == 0;
    if (indexed && op->n_inputs > 0) {
        double table = bytes_of(e, op->inputs, 1);
        read -= table > written ? table - written : 0;
    }
    return read + written;
}

static void fill_work(const kiln_explanation *e, row *r)
{
    if (r->block == UINT32_MAX) {
        r->flops = flops_of(e, &e->ops[r->op]);
        r->bytes = moved_by(e, &e->ops[r->op]);
        return;
    }
    const kiln_explained_block *block = &e->blocks[r->block];
    for (uint32_t i = 0; i < block->n_ops; i++) {
        r->flops += flops_of(e, &e->ops[block->ops[i]]);
    }
    r->bytes = bytes_of(e, block->tensors, block->n_tensors);
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
        if (flops_of(e, last) > 0 && last->inputs[1] < e->n_tensors) {
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
            fprintf(out, "%5.1f %% %10s %35s    step %u: %s\n", 100 * step->measured_ns / all,
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
    fprintf(p->out,
            "the device: %.1f GFLOP/s of f32 by its clock, a copy moves %.1f GB/s as measured\n",
            (double)p->info->flops_f32 / 1e9, (double)p->info->bytes_per_s / 1e9);
    fprintf(p->out, "%7s %10s %8s %8s %8s %6s  %s\n", "share", "time", "launches", "GFLOP/s",
            "GB/s", "block", "what");
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        const row *r = &rows[i];
        fprintf(p->out, "%5.1f %% %10s %8u", all > 0 ? 100 * r->ns / all : 0,
                cli_format_ns(text, r->ns), r->launches);
        write_rate(p->out, r->flops, r->ns);
        write_rate(p->out, r->bytes, r->ns);
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
        write_rows(p, &e, rows, collect_rows(&e, rows));
    }
    free(rows);
    kiln_graph_explained_fini(&e);
}

kiln_status model_profile(const model_session *session, char **out_text, kiln_error *err)
{
    size_t length = 0;
    profile p = {.info = kiln_device_info_of(session->device), .err = err};
    p.out = open_memstream(out_text, &length);
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
