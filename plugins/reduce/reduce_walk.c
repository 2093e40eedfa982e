// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes how a work-item of the first kernel goes over its part of the data: where elements lie,
// what is computed for a vector of them, and the order in which vectors join the partial results.
// What is around that is in reduce_emit.c, as are the names in the text.
#include "reduce_internal.h"

enum { LONG_VECTORS = 32 }; // of a line
enum { STRETCH = 64 }; // vectors that are joined before they join the rest: keeps sums accurate

/// The axis of a value in a group, -1 when it does not move there.
static int axis_in(const rd_emitter *e, uint32_t value, uint32_t group)
{
    return kf_rows_value_axis(e->rows, value, e->plan->groups[group].first);
}

// ---- coordinates and distances ----

void rd_emit_coordinates(const rd_emitter *e, const char *from, uint32_t reduced, uint32_t end)
{
    uint32_t first = end;
    for (uint32_t g = end; g > 0; g--) {
        first = e->plan->groups[g - 1].reduced == reduced ? g - 1 : first;
    }
    if (first == end) {
        return;
    }
    kf_text_addf(e->text, "        idx rest%u = (idx)(%s);\n", reduced, from);
    for (uint32_t g = end; g > first + 1; g--) {
        if (e->plan->groups[g - 1].reduced == reduced) {
            kf_text_addf(e->text,
                         "        const idx c%u = rest%u %% e%u;\n        rest%u /= e%u;\n", g - 1,
                         reduced, g - 1, reduced, g - 1);
        }
    }
    kf_text_addf(e->text, "        const idx c%u = rest%u;\n", first, reduced);
}

/// How far apart neighbours of a value are along a group: `* e2 * e3`, or `* t4_1`.
static void emit_step(const rd_emitter *e, uint32_t value, uint32_t group, uint32_t is_dense)
{
    if (!is_dense) {
        kf_text_addf(e->text, " * t%u_%u", value, (uint32_t)axis_in(e, value, group));
        return;
    }
    for (uint32_t right = group + 1; right < e->plan->n_groups; right++) {
        if (axis_in(e, value, right) >= 0 || rd_value_of(e, value)->computed) {
            kf_text_addf(e->text, " * e%u", right);
        }
    }
}

/// The distance from a value's start along all groups before the last.
static void emit_distance(const rd_emitter *e, uint32_t value)
{
    const char *plus = "";
    for (uint32_t g = 0; g + 1 < e->plan->n_groups; g++) {
        uint32_t computed = rd_value_of(e, value)->computed; // a result as large as the space
        if (axis_in(e, value, g) >= 0 || computed) {
            kf_text_addf(e->text, "%sc%u", plus, g);
            emit_step(e, value, g, computed || rd_value_of(e, value)->contiguous);
            plus = " + ";
        }
    }
    kf_text_add(e->text, *plus == '\0' ? "0" : "");
}

/// May a vector that reaches past its line be read whole, where memory goes on? Other work-items
/// may be writing there when the block has results as large as the space.
static uint32_t reads_neighbours(const rd_emitter *e, uint32_t value)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(rd_value_of(e, i)) && rd_is_full(e, i)) {
            return 0;
        }
    }
    return e->plan->group == 0 && !rd_value_of(e, value)->computed &&
           rd_value_of(e, value)->contiguous && rd_is_full(e, value);
}

/// zN: elements of such an input.
void rd_emit_totals(const rd_emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const char *times = "";
        if (!reads_neighbours(e, i)) {
            continue;
        }
        kf_text_addf(e->text, "    const idx z%u = ", i);
        for (uint32_t g = 0; g < e->plan->n_groups; g++) {
            if (axis_in(e, i, g) >= 0) {
                kf_text_addf(e->text, "%se%u", times, g);
                times = " * ";
            }
        }
        kf_text_add(e->text, ";\n");
    }
}

/// A vector of input `value` at element `i` of the last group.
static void emit_load(const rd_emitter *e, uint32_t value, const char *indent)
{
    kf_dtype dtype = rd_dtype_of(e, value);
    int axis = axis_in(e, value, e->plan->n_groups - 1);
    kf_text_addf(e->text, "%sconst %s%u v%u = ", indent, dtype.compute, e->plan->width, value);
    if (axis < 0) {
        kf_text_addf(e->text, "(%s%u)(one_%s(p%u + ", dtype.compute, e->plan->width, dtype.name,
                     value);
        emit_distance(e, value);
        kf_text_add(e->text, "));\n");
        return;
    }
    kf_text_addf(e->text, "take_%s(p%u + ", dtype.name, value);
    emit_distance(e, value);
    if (!rd_value_of(e, value)->contiguous) {
        kf_text_addf(e->text, " + i * t%u_%u, t%u_%u, count, 0);\n", value, (uint32_t)axis, value,
                     (uint32_t)axis);
    } else if (reads_neighbours(e, value)) {
        kf_text_addf(e->text, " + i, 1, count, z%u - (", value);
        emit_distance(e, value);
        kf_text_add(e->text, " + i));\n");
    } else {
        kf_text_add(e->text, " + i, 1, count, 0);\n");
    }
}

// ---- values ----

static void emit_loads(const rd_emitter *e, uint32_t full, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (!rd_value_of(e, i)->computed && rd_is_full(e, i) == full) {
            emit_load(e, i, indent);
        }
    }
}

void rd_emit_ops(const rd_emitter *e, uint32_t full, uint32_t phase, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (!kf_rows_is_reduction(op) && rd_is_full(e, op->result) == full &&
            e->rows->places[op->result].phase == phase) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, indent);
        }
    }
}

void rd_emit_kept(const rd_emitter *e, const char *indent)
{
    emit_loads(e, 0, indent);
    rd_emit_ops(e, 0, 0, indent);
}

static void emit_full_outputs(const rd_emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(rd_value_of(e, i)) && rd_is_full(e, i)) {
            kf_text_addf(e->text, "            give_%s(q%u + ", rd_dtype_of(e, i).name, i);
            emit_distance(e, i);
            kf_text_addf(e->text, " + i, v%u, count);\n", i);
        }
    }
}

/// Joins the vector to the partial results `prefix`N.
static void emit_terms(const rd_emitter *e, char prefix)
{
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = rd_result_of(e, i);
        kf_dtype dtype = kf_rows_partial(op);
        char name[16];
        snprintf(name, sizeof(name), "v%u", (unsigned)op->inputs[0]);
        kf_text_addf(e->text, "            const %s%u x%u = ", dtype.compute, e->plan->width, i);
        kf_rows_term(e->text, op->kind, dtype.id, e->plan->width, name);
        kf_text_addf(e->text, ";\n            %c%u = join_%u_%s(%c%u, ", prefix, i, op->kind,
                     dtype.name, prefix, i);
        if (e->plan->columns) {
            kf_text_addf(e->text, "x%u);\n", i); // lanes past the end are never written
            continue;
        }
        kf_text_addf(e->text, "count == %u ? x%u : only_%s(x%u, ", e->plan->width, i, dtype.name,
                     i);
        kf_rows_identity(e->text, op->kind, dtype.id);
        kf_text_add(e->text, ", count));\n");
    }
}

/// `many` is "[VECTORS]" for an array of them, else "".
static void declare_partials(const rd_emitter *e, char prefix, const char *many)
{
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_dtype dtype = kf_rows_partial(rd_result_of(e, i));
        const char *each = *many != '\0' ? "        for (int c = 0; c < VECTORS; c++) {\n    " : "";
        kf_text_addf(e->text, "        %s%u %c%u%s;\n%s        %c%u%s = (%s%u)(", dtype.compute,
                     e->plan->width, prefix, i, many, each, prefix, i, *many != '\0' ? "[c]" : "",
                     dtype.compute, e->plan->width);
        kf_rows_identity(e->text, rd_result_of(e, i)->kind, dtype.id);
        kf_text_add(e->text, *many != '\0' ? ");\n        }\n" : ");\n");
    }
}

static void join_stretch(const rd_emitter *e)
{
    const char *at = e->plan->columns ? "[c]" : "";
    kf_text_add(e->text, e->plan->columns ? "        for (int c = 0; c < VECTORS; c++) {\n" : "");
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_text_addf(e->text, "        m%u%s = join_%u_%s(m%u%s, g%u%s);\n", i, at,
                     rd_result_of(e, i)->kind, kf_rows_partial(rd_result_of(e, i)).name, i, at, i,
                     at);
    }
    kf_text_add(e->text, e->plan->columns ? "        }\n" : "");
}

// ---- walking rows ----

static void emit_count(const rd_emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    if (e->plan->even) {
        kf_text_addf(e->text, "            const int count = %u;\n", e->plan->width);
        return;
    }
    kf_text_addf(e->text, "            const int count = e%u - i < %u ? (int)(e%u - i) : %u;\n",
                 last, e->plan->width, last, e->plan->width);
}

static void emit_body(const rd_emitter *e, char prefix)
{
    emit_loads(e, 1, "            ");
    rd_emit_ops(e, 1, 0, "            ");
    emit_full_outputs(e);
    emit_terms(e, prefix);
}

static uint32_t is_loaded(const rd_emitter *e, uint32_t value)
{
    return !rd_value_of(e, value)->computed && rd_is_full(e, value);
}

/// The vectors of one line by a lane of a group: a few are under way at a time.
static void emit_line(const rd_emitter *e)
{
    kf_text_addf(e->text,
                 "        for (udx b = begin + (udx)lane; b < end; b += (udx)lanes * %u) {\n",
                 e->plan->ahead);
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (is_loaded(e, i)) {
            kf_text_addf(e->text, "        %s%u l%u[%u];\n", rd_dtype_of(e, i).compute,
                         e->plan->width, i, e->plan->ahead);
        }
    }
    for (int joins = 0; joins < 2; joins++) {
        kf_text_addf(e->text,
                     "        #pragma unroll\n        for (int j = 0; j < %u; j++) {\n"
                     "            const udx u = b + (udx)j * (udx)lanes;\n"
                     "            const idx i = (idx)u * %u;\n",
                     e->plan->ahead, e->plan->width);
        emit_count(e);
        kf_text_add(e->text, "            if (u < end) {\n");
        for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
            if (is_loaded(e, i) && joins) {
                kf_text_addf(e->text, "            const %s%u v%u = l%u[j];\n",
                             rd_dtype_of(e, i).compute, e->plan->width, i, i);
            } else if (is_loaded(e, i)) {
                emit_load(e, i, "            ");
                kf_text_addf(e->text, "            l%u[j] = v%u;\n", i, i);
            }
        }
        if (joins) {
            rd_emit_ops(e, 1, 0, "            ");
            emit_full_outputs(e);
            emit_terms(e, 'm');
        }
        kf_text_add(e->text, "            }\n        }\n");
    }
    kf_text_add(e->text, "        }\n");
}

/// A unit is a vector; the vectors of one row of the last group follow each other.
void rd_emit_rows(const rd_emitter *e)
{
    uint32_t last = e->plan->n_groups - 1, width = e->plan->width;
    declare_partials(e, 'm', "");
    if (e->plan->ahead != 0) {
        emit_line(e);
        return;
    }
    kf_text_addf(e->text, "        const udx line = ((udx)e%u + %u) / %u;\n", last, width - 1,
                 width);
    if (e->plan->group != 0) {
        kf_text_add(e->text, "        for (udx u = begin + (udx)lane; u < end; u += (udx)lanes) {\n"
                             "        const udx outer = u / line;\n");
        rd_emit_coordinates(e, "outer", 1, last);
        kf_text_addf(e->text, "            const idx i = (idx)(u - outer * line) * %u;\n", width);
        emit_count(e);
        emit_body(e, 'm');
        kf_text_add(e->text, "        }\n");
        return;
    }
    kf_text_addf(e->text,
                 "        for (udx u = begin; u < end;) {\n"
                 "        const udx outer = u / line, at = u - outer * line;\n"
                 "        udx stop = end - u < line - at ? at + (end - u) : line;\n"
                 "        stop = stop - at > %u ? at + %u : stop;\n",
                 STRETCH, STRETCH);
    rd_emit_coordinates(e, "outer", 1, last);
    declare_partials(e, 'g', "");
    kf_text_addf(e->text,
                 "        for (udx k = at; k < stop; k++) {\n"
                 "            const idx i = (idx)k * %u;\n",
                 width);
    emit_count(e);
    emit_body(e, 'g');
    kf_text_add(e->text, "        }\n");
    join_stretch(e);
    kf_text_add(e->text, "        u += stop - at;\n        }\n");
}

// ---- walking columns ----

void rd_emit_column(const rd_emitter *e)
{
    kf_text_addf(e->text,
                 "        for (int c = 0; c < VECTORS; c++) {\n"
                 "            const idx i = column + c * %u;\n"
                 "            if (i >= edge) {\n                break;\n            }\n",
                 e->plan->width);
    emit_count(e);
}

/// Where the rows of a slab are: their coordinates are worked out once for all columns.
static void emit_slab(const rd_emitter *e)
{
    kf_text_add(e->text,
                "        const int high = to - base < slab ? (int)(to - base) : (int)slab;\n");
    if (rd_count_reduced(e->plan) == 1) {
        return;
    }
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text, "        idx s%u[SLAB];\n", g);
        }
    }
    kf_text_add(e->text, "        for (int k = 0; k < high; k++) {\n");
    rd_emit_coordinates(e, "base + (udx)k", 1, e->plan->n_groups - 1);
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text, "        s%u[k] = c%u;\n", g, g);
        }
    }
    kf_text_add(e->text, "        }\n");
}

/// Asks for the same columns of the next slab, which a processor's prefetcher does not foresee.
static void emit_ahead(const rd_emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = rd_value_of(e, i);
        uint32_t line = 64 / rd_dtype_of(e, i).bytes;
        if (value->computed || !value->contiguous || !rd_is_full(e, i)) {
            continue;
        }
        kf_text_add(e->text,
                    "            {\n            const udx below = base + (udx)k + slab;\n");
        for (uint32_t g = 0; g < e->plan->n_groups; g++) {
            if (e->plan->groups[g].reduced) {
                kf_text_addf(e->text,
                             "            const idx c%u = (idx)(below < end ? below : end - 1);\n",
                             g);
            }
        }
        for (uint32_t at = 0; at < e->plan->width; at += line) {
            kf_text_addf(e->text, "            AHEAD(p%u + ", i);
            emit_distance(e, i);
            kf_text_addf(e->text, " + i + %u);\n", at);
        }
        kf_text_add(e->text, "            }\n");
    }
}

/// One vector of columns down the rows of a slab, joined in registers.
static void emit_down(const rd_emitter *e, const char *condition, uint32_t ahead)
{
    kf_text_addf(e->text, "            %s\n            for (int k = 0; k < tall; k++) {\n",
                 condition);
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text,
                         rd_count_reduced(e->plan) == 1
                             ? "            const idx c%u = (idx)(base + (udx)k);\n"
                             : "            const idx c%u = s%u[k];\n",
                         g, g);
        }
    }
    if (ahead) {
        emit_ahead(e);
    }
    emit_body(e, 'h');
    kf_text_add(e->text, "            }\n            }\n");
}

/// Lines that fill a page's half are joined four at a time: more of them, a power of two apart,
/// would push each other out of the first cache. Short ones are asked for early enough only by
/// eight.
static void emit_slab_height(const rd_emitter *e)
{
    if (e->plan->vectors > 1) {
        kf_text_addf(e->text, "        const udx slab = block >= %u ? SLAB / 2 : SLAB;\n",
                     LONG_VECTORS * e->plan->width);
    } else {
        kf_text_add(e->text, "        const udx slab = SLAB;\n");
    }
}

static void emit_whole_slab(const rd_emitter *e, const char *height)
{
    char condition[160];
    snprintf(condition, sizeof(condition),
             "if (count == %u && high == %s) {\n            const int count = %u, tall = %s;",
             e->plan->width, height, e->plan->width, height);
    emit_down(e, condition, e->plan->device->is_cpu && rd_count_reduced(e->plan) == 1);
    kf_text_add(e->text, "            else ");
}

/// A unit is a row of the reduced axes. A slab of them is joined vector by vector in registers, so
/// that memory is read in long lines and the arrays of partial results are touched seldom.
void rd_emit_columns(const rd_emitter *e)
{
    emit_slab_height(e);
    declare_partials(e, 'm', "[VECTORS]");
    kf_text_addf(e->text,
                 "        for (udx from = begin; from < end; from += %u * SLAB) {\n"
                 "        const udx to = end - from < %u * SLAB ? end : from + %u * SLAB;\n",
                 STRETCH, STRETCH, STRETCH);
    declare_partials(e, 'g', "[VECTORS]");
    kf_text_add(e->text, "        for (udx base = from; base < to; base += slab) {\n");
    emit_slab(e);
    rd_emit_column(e);
    rd_emit_kept(e, "            ");
    declare_partials(e, 'h', "");
    emit_whole_slab(e, "SLAB");
    if (e->plan->vectors > 1) {
        emit_whole_slab(e, "SLAB / 2");
    }
    emit_down(e, "{\n            const int tall = high;", 0);
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_text_addf(e->text, "            g%u[c] = join_%u_%s(g%u[c], h%u);\n", i,
                     rd_result_of(e, i)->kind, kf_rows_partial(rd_result_of(e, i)).name, i, i);
    }
    kf_text_add(e->text, "        }\n        }\n");
    join_stretch(e);
    kf_text_add(e->text, "        }\n");
}
