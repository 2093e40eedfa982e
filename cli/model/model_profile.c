// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln run --profile`: which blocks and single operations a run spends its time in, as the trace
// of the runs has it, beside what each of them computes and moves. Decides what counts as work; the
// times are the trace's.

#include "kiln_explained.h"
#include "model_run.h"

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

/// What the device reaches at best.
typedef struct peaks {
    double flops_per_ns; ///< of a large product of f32
    double bytes_per_ns; ///< of a copy, read plus written
    double clock_flops_per_ns; ///< as the device's clock and width say
} peaks;

typedef struct profile {
    FILE *out;
    json_t *list;
    peaks peak;
    uint32_t graphs;
    kiln_status status;
    kiln_error *err;
} profile;

// ---- peaks ----

static kiln_status run_product(kiln_device *device, kiln_tensor *a, kiln_tensor *b, double *out_ns,
                               kiln_error *err)
{
    kiln_tensor *product = NULL;
    uint64_t start = kiln_time_ns();
    kiln_status status = kiln_matmul(a, b, false, false, &product, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_ns = (double)(kiln_time_ns() - start);
    kiln_release(product);
    return status;
}

/// The best of a few products: what the device computes when nothing hinders it.
static kiln_status measure_peaks(kiln_device *device, peaks *out_peaks, kiln_error *err)
{
    enum { EXTENT = 1024, PRODUCTS = 5 };
    static const int64_t dims[] = {EXTENT, EXTENT};
    const kiln_device_info *info = kiln_device_info_of(device);
    kiln_tensor *a = NULL;
    kiln_status status = KILN_STATUS_OK;
    double least = INFINITY;
    KILN_TRY(out, status,
             kiln_full(device, dims, 2, KILN_DTYPE_F32, kiln_f64(1.0 / EXTENT), &a, err));
    for (int i = 0; i < PRODUCTS; i++) {
        double ns = 0;
        KILN_TRY(out, status, run_product(device, a, a, &ns, err));
        least = ns < least ? ns : least;
    }
    *out_peaks = (peaks){.flops_per_ns = 2.0 * EXTENT * EXTENT * EXTENT / least,
                         .bytes_per_ns = (double)info->bytes_per_s / 1e9,
                         .clock_flops_per_ns = (double)info->flops_f32 / 1e9};
out:
    kiln_release(a);
    return status;
}

/// How near a row comes to the peak that is nearer: 1 is all of it.
static double share_of_peak(const peaks *peak, const row *r)
{
    double flops = peak->flops_per_ns > 0 ? r->flops / peak->flops_per_ns : 0;
    double bytes = peak->bytes_per_ns > 0 ? r->bytes / peak->bytes_per_ns : 0;
    return r->ns > 0 ? fmax(flops, bytes) / r->ns : 0;
}

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
    fprintf(p->out,
            "the device as measured: %.1f GFLOP/s of f32 in a large product (%.1f by its clock), "
            "%.1f GB/s in a copy\n",
            p->peak.flops_per_ns, p->peak.clock_flops_per_ns, p->peak.bytes_per_ns);
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
    kiln_status status = measure_peaks(session->device, &p.peak, err);
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
