// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernels' text. The first walks rows or columns, joins every vector into the partial
// results of all reductions at once, and writes what the block keeps of the data on the way.
// Without parts it also finishes the results; with parts it leaves them in temporaries, and the
// second kernel joins those in order and finishes.
//
// Names: pN inputs, qN outputs, oN offsets, tN_A strides along the value's axis A, aK scalars, eG
// extents of groups of axes, cG coordinates in them; wK temporaries; vN values; mN partial results,
// gN those of one stretch; column form has arrays of both, one for each vector of the block,
// and hN for one slab of rows, whose coordinates are in sG.
#include "reduce_internal.h"

enum { LONG_VECTORS = 32 }; // of a line
enum { STRETCH = 64 }; // vectors that are joined before they join the rest: keeps sums accurate

typedef struct emitter {
    kf_text *text;
    const rd_plan *plan;
    const kf_rows *rows;
} emitter;

static const kf_chain_value *value_of(const emitter *e, uint32_t i)
{
    return &e->rows->chain.values[i];
}

static kf_dtype dtype_of(const emitter *e, uint32_t i)
{
    return kf_dtype_of(value_of(e, i)->dtype);
}

static const kf_chain_op *result_of(const emitter *e, uint32_t i)
{
    return &e->rows->chain.ops[e->plan->results[i]];
}

static kf_dtype partial_of(const kf_chain_op *op)
{
    return kf_dtype_of(kf_rows_partial_dtype(op->dtype));
}

static uint32_t is_full(const emitter *e, uint32_t value)
{
    return kf_rows_is_full(e->rows, value);
}

/// The axis of a value in a group, -1 when it does not move there.
static int axis_in(const emitter *e, uint32_t value, uint32_t group)
{
    return rd_value_axis(e->rows, value, e->plan->groups[group].first);
}

// ---- functions ---------------------------------------------------------------------------------

static void emit_access(const emitter *e, uint64_t read, uint64_t written)
{
    uint32_t width = e->plan->width;
    for (uint32_t dtype = 1; dtype < 64; dtype++) {
        if ((read >> dtype & 1u) != 0) {
            kf_rows_take_function(e->text, dtype, width);
        }
        if ((written >> dtype & 1u) != 0) {
            kf_ew_template(e->text,
                           "static inline void give_$X(__global $S *p, $T x, int count) {\n"
                           "    if (count == $V) {\n        keep_$X(p, x, 0);\n"
                           "    } else {\n        put_$X(p, x, count);\n    }\n"
                           "}\n",
                           dtype, width, NULL);
        }
    }
}

static void emit_joins(const emitter *e)
{
    uint64_t only = 0;
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = result_of(e, i);
        uint32_t partial = kf_rows_partial_dtype(op->dtype), again = 0;
        for (uint32_t k = 0; k < i && !again; k++) {
            again = result_of(e, k)->kind == op->kind &&
                    kf_rows_partial_dtype(result_of(e, k)->dtype) == partial;
        }
        if (!again) {
            kf_rows_functions(e->text, op->kind, partial, e->plan->width);
            if (e->plan->group != 0 && !e->plan->columns) {
                kf_rows_team_function(e->text, op->kind, partial, e->plan->width);
            }
        }
        if ((only >> partial & 1u) == 0) {
            only |= 1ull << partial;
            kf_rows_only_function(e->text, partial, e->plan->width);
            kf_ew_template(e->text,
                           "static inline void stash_$X(__global $C *p, $T x, int count) {\n"
                           "    $C e[$V];\n"
                           "    vstore$V(x, 0, e);\n"
                           "    for (int k = 0; k < count; k++) {\n"
                           "        p[k] = e[k];\n"
                           "    }\n"
                           "}\n",
                           partial, e->plan->width, NULL);
        }
    }
}

static void emit_functions(const emitter *e)
{
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = value_of(e, i);
        read |= value->computed ? 0 : 1ull << value->dtype;
        written |= kf_chain_is_output(value) ? 1ull << value->dtype : 0;
    }
    kf_chain_functions(e->text, &e->rows->chain, e->plan->width, e->plan->wide, read, written, 0);
    kf_text_addf(e->text, "typedef %s udx;\n", e->plan->wide ? "ulong" : "uint");
    emit_access(e, read, written);
    if (e->plan->device->is_cpu) {
        kf_ew_ahead_macro(e->text);
    }
    emit_joins(e);
}

// ---- signature ---------------------------------------------------------------------------------

static void emit_param(const emitter *e, const rd_param *param)
{
    static const char *const names[] = {
        [RD_PARAM_ITEMS] = "items", [RD_PARAM_CHUNK] = "chunk", [RD_PARAM_UNITS] = "units",
        [RD_PARAM_EACH] = "each",   [RD_PARAM_TOTAL] = "total", [RD_PARAM_RESULTS] = "results",
        [RD_PARAM_PARTS] = "parts", [RD_PARAM_BLOCK] = "block",
    };
    uint32_t i = param->index;
    switch (param->kind) {
    case RD_PARAM_INPUT:
        kf_text_addf(e->text, "__global const %s *p%u", dtype_of(e, i).storage, i);
        break;
    case RD_PARAM_OUTPUT:
        kf_text_addf(e->text, "__global %s *q%u", dtype_of(e, i).storage, i);
        break;
    case RD_PARAM_OFFSET:
        kf_text_addf(e->text, "const idx o%u", i);
        break;
    case RD_PARAM_STRIDE:
        kf_text_addf(e->text, "const idx t%u_%u", i, param->axis);
        break;
    case RD_PARAM_SCALAR:
        kf_text_addf(e->text, "const %s a%u", kf_chain_number_type(&e->rows->chain.numbers[i]), i);
        break;
    case RD_PARAM_EXTENT:
        kf_text_addf(e->text, "const idx e%u", i);
        break;
    case RD_PARAM_PARTIAL:
        kf_text_addf(e->text, "__global %s *w%u", partial_of(result_of(e, i)).compute, i);
        break;
    default:
        kf_text_addf(e->text, "const idx %s", names[param->kind]);
    }
}

static void emit_signature(const emitter *e, const char *name, const rd_launch *launch)
{
    kf_text_addf(e->text, "__kernel void %s(", name);
    for (uint32_t i = 0; i < launch->n_params; i++) {
        kf_text_add(e->text, i == 0 ? "" : ", ");
        emit_param(e, &launch->params[i]);
    }
    kf_text_add(e->text, ") {\n");
    kf_chain_numbers(e->text, &e->rows->chain, e->plan->width);
    for (uint32_t i = 0; i < launch->n_params; i++) {
        if (launch->params[i].kind == RD_PARAM_OFFSET) {
            kf_text_addf(e->text, "    p%u += o%u;\n", launch->params[i].index,
                         launch->params[i].index);
        }
    }
}

// ---- coordinates and distances -----------------------------------------------------------------

/// Takes `from` apart into the coordinates of the kept or the reduced groups before `end`.
static void emit_coordinates(const emitter *e, const char *from, uint32_t reduced, uint32_t end)
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
static void emit_step(const emitter *e, uint32_t value, uint32_t group, uint32_t is_dense)
{
    if (!is_dense) {
        kf_text_addf(e->text, " * t%u_%u", value, (uint32_t)axis_in(e, value, group));
        return;
    }
    for (uint32_t right = group + 1; right < e->plan->n_groups; right++) {
        if (axis_in(e, value, right) >= 0 || value_of(e, value)->computed) {
            kf_text_addf(e->text, " * e%u", right);
        }
    }
}

/// The distance from a value's start along all groups before the last.
static void emit_distance(const emitter *e, uint32_t value)
{
    const char *plus = "";
    for (uint32_t g = 0; g + 1 < e->plan->n_groups; g++) {
        uint32_t computed = value_of(e, value)->computed; // a result as large as the space
        if (axis_in(e, value, g) >= 0 || computed) {
            kf_text_addf(e->text, "%sc%u", plus, g);
            emit_step(e, value, g, computed || value_of(e, value)->contiguous);
            plus = " + ";
        }
    }
    kf_text_add(e->text, *plus == '\0' ? "0" : "");
}

/// May a vector that reaches past its line be read whole, where memory goes on? Other work-items
/// may be writing there when the block has results as large as the space.
static uint32_t reads_neighbours(const emitter *e, uint32_t value)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(value_of(e, i)) && is_full(e, i)) {
            return 0;
        }
    }
    return e->plan->group == 0 && !value_of(e, value)->computed && value_of(e, value)->contiguous &&
           is_full(e, value);
}

/// zN: elements of such an input.
static void emit_totals(const emitter *e)
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
static void emit_load(const emitter *e, uint32_t value, const char *indent)
{
    kf_dtype dtype = dtype_of(e, value);
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
    if (!value_of(e, value)->contiguous) {
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

// ---- values ------------------------------------------------------------------------------------

static void emit_loads(const emitter *e, uint32_t full, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (!value_of(e, i)->computed && is_full(e, i) == full) {
            emit_load(e, i, indent);
        }
    }
}

static void emit_ops(const emitter *e, uint32_t full, uint32_t phase, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (!rd_is_reduction(op) && is_full(e, op->result) == full &&
            e->rows->places[op->result].phase == phase) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, indent);
        }
    }
}

/// What lies on kept axes alone and needs no result: inputs, and what follows from them.
static void emit_kept(const emitter *e, const char *indent)
{
    emit_loads(e, 0, indent);
    emit_ops(e, 0, 0, indent);
}

static void emit_full_outputs(const emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(value_of(e, i)) && is_full(e, i)) {
            kf_text_addf(e->text, "            give_%s(q%u + ", dtype_of(e, i).name, i);
            emit_distance(e, i);
            kf_text_addf(e->text, " + i, v%u, count);\n", i);
        }
    }
}

/// Joins the vector to the partial results `prefix`N.
static void emit_terms(const emitter *e, char prefix)
{
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = result_of(e, i);
        kf_dtype dtype = partial_of(op);
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
static void declare_partials(const emitter *e, char prefix, const char *many)
{
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_dtype dtype = partial_of(result_of(e, i));
        const char *each = *many != '\0' ? "        for (int c = 0; c < VECTORS; c++) {\n    " : "";
        kf_text_addf(e->text, "        %s%u %c%u%s;\n%s        %c%u%s = (%s%u)(", dtype.compute,
                     e->plan->width, prefix, i, many, each, prefix, i, *many != '\0' ? "[c]" : "",
                     dtype.compute, e->plan->width);
        kf_rows_identity(e->text, result_of(e, i)->kind, dtype.id);
        kf_text_add(e->text, *many != '\0' ? ");\n        }\n" : ");\n");
    }
}

static void join_stretch(const emitter *e)
{
    const char *at = e->plan->columns ? "[c]" : "";
    kf_text_add(e->text, e->plan->columns ? "        for (int c = 0; c < VECTORS; c++) {\n" : "");
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_text_addf(e->text, "        m%u%s = join_%u_%s(m%u%s, g%u%s);\n", i, at,
                     result_of(e, i)->kind, partial_of(result_of(e, i)).name, i, at, i, at);
    }
    kf_text_add(e->text, e->plan->columns ? "        }\n" : "");
}

// ---- walking rows ------------------------------------------------------------------------------

static void emit_count(const emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    kf_text_addf(e->text, "            const int count = e%u - i < %u ? (int)(e%u - i) : %u;\n",
                 last, e->plan->width, last, e->plan->width);
}

static void emit_body(const emitter *e, char prefix)
{
    emit_loads(e, 1, "            ");
    emit_ops(e, 1, 0, "            ");
    emit_full_outputs(e);
    emit_terms(e, prefix);
}

/// A unit is a vector; the vectors of one row of the last group follow each other.
static void emit_rows(const emitter *e)
{
    uint32_t last = e->plan->n_groups - 1, width = e->plan->width;
    kf_text_addf(e->text, "        const udx line = ((udx)e%u + %u) / %u;\n", last, width - 1,
                 width);
    declare_partials(e, 'm', "");
    if (e->plan->group != 0) {
        kf_text_add(e->text, "        for (udx u = begin + (udx)lane; u < end; u += (udx)lanes) {\n"
                             "        const udx outer = u / line;\n");
        emit_coordinates(e, "outer", 1, last);
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
    emit_coordinates(e, "outer", 1, last);
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

// ---- walking columns ---------------------------------------------------------------------------

static void emit_column(const emitter *e)
{
    kf_text_addf(e->text,
                 "        for (int c = 0; c < VECTORS; c++) {\n"
                 "            const idx i = column + c * %u;\n"
                 "            if (i >= edge) {\n                break;\n            }\n",
                 e->plan->width);
    emit_count(e);
}

static uint32_t count_reduced(const emitter *e)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        count += e->plan->groups[g].reduced;
    }
    return count;
}

/// Where the rows of a slab are: their coordinates are worked out once for all columns.
static void emit_slab(const emitter *e)
{
    kf_text_add(e->text,
                "        const int high = to - base < slab ? (int)(to - base) : (int)slab;\n");
    if (count_reduced(e) == 1) {
        return;
    }
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text, "        idx s%u[SLAB];\n", g);
        }
    }
    kf_text_add(e->text, "        for (int k = 0; k < high; k++) {\n");
    emit_coordinates(e, "base + (udx)k", 1, e->plan->n_groups - 1);
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text, "        s%u[k] = c%u;\n", g, g);
        }
    }
    kf_text_add(e->text, "        }\n");
}

/// Asks for the same columns of the next slab, which a processor's prefetcher does not foresee.
static void emit_ahead(const emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = value_of(e, i);
        uint32_t line = 64 / dtype_of(e, i).bytes;
        if (value->computed || !value->contiguous || !is_full(e, i)) {
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
static void emit_down(const emitter *e, const char *condition, uint32_t ahead)
{
    kf_text_addf(e->text, "            %s\n            for (int k = 0; k < tall; k++) {\n",
                 condition);
    for (uint32_t g = 0; g < e->plan->n_groups; g++) {
        if (e->plan->groups[g].reduced) {
            kf_text_addf(e->text,
                         count_reduced(e) == 1
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
static void emit_slab_height(const emitter *e)
{
    if (e->plan->vectors > 1) {
        kf_text_addf(e->text, "        const udx slab = block >= %u ? SLAB / 2 : SLAB;\n",
                     LONG_VECTORS * e->plan->width);
    } else {
        kf_text_add(e->text, "        const udx slab = SLAB;\n");
    }
}

static void emit_whole_slab(const emitter *e, const char *height)
{
    char condition[160];
    snprintf(condition, sizeof(condition),
             "if (count == %u && high == %s) {\n            const int count = %u, tall = %s;",
             e->plan->width, height, e->plan->width, height);
    emit_down(e, condition, e->plan->device->is_cpu && count_reduced(e) == 1);
    kf_text_add(e->text, "            else ");
}

/// A unit is a row of the reduced axes. A slab of them is joined vector by vector in registers, so
/// that memory is read in long lines and the arrays of partial results are touched seldom.
static void emit_columns(const emitter *e)
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
    emit_column(e);
    emit_kept(e, "            ");
    declare_partials(e, 'h', "");
    emit_whole_slab(e, "SLAB");
    if (e->plan->vectors > 1) {
        emit_whole_slab(e, "SLAB / 2");
    }
    emit_down(e, "{\n            const int tall = high;", 0);
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        kf_text_addf(e->text, "            g%u[c] = join_%u_%s(g%u[c], h%u);\n", i,
                     result_of(e, i)->kind, partial_of(result_of(e, i)).name, i, i);
    }
    kf_text_add(e->text, "        }\n        }\n");
    join_stretch(e);
    kf_text_add(e->text, "        }\n");
}

// ---- results -----------------------------------------------------------------------------------

/// Rounds and divides the joined partial result named by `what` into the operation's value.
static void emit_total(const emitter *e, uint32_t result, const char *what, const char *indent)
{
    const kf_chain_op *op = result_of(e, result);
    kf_dtype partial = partial_of(op), to = dtype_of(e, op->result);
    uint32_t narrow = to.kind == KF_KIND_FLOAT && to.bytes == 2;
    kf_text_addf(e->text, "%sconst %s%u v%u = ", indent, to.compute, e->plan->width,
                 (unsigned)op->result);
    if (narrow) {
        kf_text_addf(e->text, "round_%s", to.name);
    }
    kf_text_addf(e->text, "(%s", what);
    if (op->kind == KF_OP_MEAN) {
        kf_text_addf(e->text, " / (%s%u)((%s)total)", partial.compute, e->plan->width,
                     partial.compute);
    }
    kf_text_add(e->text, ");\n");
}

static void emit_outputs(const emitter *e, const char *indent, const char *at, const char *count)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(value_of(e, i)) && !is_full(e, i)) {
            kf_text_addf(e->text, "%sput_%s(q%u + %s, v%u, %s);\n", indent, dtype_of(e, i).name, i,
                         at, i, count);
        }
    }
}

static void finish_rows(const emitter *e)
{
    uint32_t group = e->plan->group != 0;
    const char *writer = group ? "        if (lane == 0 && live) {\n" : "        {\n";
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = result_of(e, i);
        kf_dtype partial = partial_of(op);
        kf_text_addf(e->text, "        m%u = ", i);
        if (group) {
            kf_text_addf(e->text, "team_%u_%s(m%u, (__local %s *)(seats + team), lane, lanes);\n",
                         op->kind, partial.name, i, partial.compute);
        } else {
            kf_text_addf(e->text, "half_%u_%s(m%u);\n", op->kind, partial.name, i);
        }
    }
    kf_text_add(e->text, writer);
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        char name[16];
        snprintf(name, sizeof(name), "m%u", i);
        if (e->plan->split) {
            kf_text_addf(e->text,
                         "            w%u[(size_t)part * (size_t)results + (size_t)item] = "
                         "m%u.s0;\n",
                         i, i);
        } else {
            emit_total(e, i, name, "            ");
        }
    }
    if (!e->plan->split) {
        emit_ops(e, 0, 1, "            ");
        emit_outputs(e, "            ", "item", "1");
    }
    kf_text_add(e->text, "        }\n");
}

static void finish_columns(const emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    emit_column(e);
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        char name[16];
        snprintf(name, sizeof(name), "m%u[c]", i);
        if (e->plan->split) {
            kf_text_addf(e->text,
                         "            stash_%s(w%u + (size_t)part * (size_t)results + "
                         "(size_t)kept * (size_t)e%u + (size_t)i, %s, count);\n",
                         partial_of(result_of(e, i)).name, i, last, name);
        } else {
            emit_total(e, i, name, "            ");
        }
    }
    if (!e->plan->split) {
        char at[48];
        snprintf(at, sizeof(at), "kept * e%u + i", last);
        emit_kept(e, "            ");
        emit_ops(e, 0, 1, "            ");
        emit_outputs(e, "            ", at, "count");
    }
    kf_text_add(e->text, "        }\n");
}

// ---- kernels -----------------------------------------------------------------------------------

/// Which items this work-item has, and which part of each.
static void emit_items(const emitter *e)
{
    const char *axis = e->plan->group != 0 && !e->plan->columns ? "2" : "1";
    if (e->plan->split) {
        kf_text_addf(e->text,
                     "    const udx part = (udx)get_global_id(%s), begin = part * (udx)each;\n"
                     "    const udx end = begin >= (udx)units ? begin : (udx)units - begin < "
                     "(udx)each ? (udx)units : begin + (udx)each;\n",
                     axis);
    } else {
        kf_text_add(e->text, "    const udx begin = 0, end = (udx)units;\n");
    }
    if (e->plan->group == 0) {
        kf_text_add(e->text, "    const idx first = (idx)get_global_id(0) * chunk;\n"
                             "    const idx last = items - first < chunk ? items : first + chunk;\n"
                             "    for (idx item = first; item < last; item++) {\n");
        return;
    }
    if (e->plan->columns) {
        kf_text_add(e->text, "    const size_t wanted = get_global_id(0);\n"
                             "    if (wanted >= (size_t)items) {\n        return;\n    }\n"
                             "    const idx item = (idx)wanted;\n    {\n");
        return;
    }
    kf_text_addf(e->text,
                 "    __local ulong seats[%u];\n"
                 "    const idx lane = (idx)get_local_id(0), lanes = (idx)get_local_size(0);\n"
                 "    const idx team = (idx)get_local_id(1) * lanes;\n"
                 "    const size_t wanted = get_global_id(1);\n"
                 "    const int live = wanted < (size_t)items;\n"
                 "    const idx item = live ? (idx)wanted : items - 1;\n    {\n",
                 e->plan->group);
}

static void emit_first(const emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    emit_signature(e, "kiln_reduce", &e->plan->first);
    emit_totals(e);
    emit_items(e);
    if (e->plan->columns) {
        kf_text_addf(e->text,
                     "        const idx blocks = (e%u - 1) / block + 1;\n"
                     "        const idx kept = item / blocks, column = (item - kept * blocks) * "
                     "block;\n"
                     "        const idx edge = e%u - column < block ? e%u : column + block;\n",
                     last, last, last);
        emit_coordinates(e, "kept", 0, last);
        emit_columns(e);
        finish_columns(e);
    } else {
        emit_coordinates(e, "item", 0, last);
        emit_kept(e, "        ");
        if (e->plan->group != 0) {
            // A row past the end has its work-items run along for the barriers, over nothing.
            kf_text_add(e->text,
                        "        const udx begin_all = begin, end_all = live ? end : begin;\n"
                        "        {\n        const udx begin = begin_all, end = end_all;\n");
        }
        emit_rows(e);
        finish_rows(e);
        kf_text_add(e->text, e->plan->group != 0 ? "        }\n" : "");
    }
    kf_text_add(e->text, "    }\n}\n");
}

/// One work-item for each element of the results.
static void emit_second(const emitter *e)
{
    emit_signature(e, "kiln_reduce_join", &e->plan->second);
    kf_text_add(e->text, "    const size_t wanted = get_global_id(0);\n"
                         "    if (wanted >= (size_t)results) {\n        return;\n    }\n"
                         "    const idx item = (idx)wanted;\n");
    emit_coordinates(e, "item", 0, e->plan->n_groups);
    if (e->plan->columns) {
        kf_text_addf(e->text, "        const idx i = c%u;\n        const int count = 1;\n",
                     e->plan->n_groups - 1);
    }
    emit_kept(e, "        ");
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = result_of(e, i);
        kf_dtype partial = partial_of(op);
        char name[16];
        snprintf(name, sizeof(name), "m%u", i);
        kf_text_addf(e->text, "        %s%u m%u = (%s%u)(w%u[item]);\n", partial.compute,
                     e->plan->width, i, partial.compute, e->plan->width, i);
        kf_text_addf(e->text,
                     "        for (idx part = 1; part < parts; part++) {\n"
                     "            m%u = join_%u_%s(m%u, (%s%u)(w%u[(size_t)part * "
                     "(size_t)results + (size_t)item]));\n"
                     "        }\n",
                     i, op->kind, partial.name, i, partial.compute, e->plan->width, i);
        emit_total(e, i, name, "        ");
    }
    emit_ops(e, 0, 1, "        ");
    emit_outputs(e, "        ", "item", "1");
    kf_text_add(e->text, "}\n");
}

void rd_emit_kernels(kf_text *text, const rd_plan *plan)
{
    const emitter e = {text, plan, plan->rows};
    emit_functions(&e);
    kf_text_addf(text, "#define VECTORS %u\n#define SLAB %u\n", plan->vectors, RD_SLAB);
    emit_first(&e);
    if (plan->split) {
        emit_second(&e);
    }
}
