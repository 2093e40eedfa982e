// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernels' text: functions, parameters, which items a work-item has, and what becomes of
// their results. The first walks rows or columns (reduce_walk.c), joins every vector into the
// partial results of all reductions at once, and writes what the block keeps of the data on the
// way. Without parts it also finishes the results; with parts it leaves them in temporaries, and
// the second kernel joins those in order and finishes.
//
// Names: pN inputs, qN outputs, oN offsets, tN_A strides along the value's axis A, aK scalars, eG
// extents of groups of axes, cG coordinates in them; wK temporaries; vN values; mN partial results,
// gN those of one stretch; column form has arrays of both, one for each vector of the block,
// and hN for one slab of rows, whose coordinates are in sG.
#include "reduce_internal.h"

// ---- functions ----

static void emit_access(const rd_emitter *e, uint64_t read, uint64_t written)
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

static void emit_joins(const rd_emitter *e)
{
    uint64_t only = 0;
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = rd_result_of(e, i);
        uint32_t partial = kf_rows_partial_dtype(op->dtype), again = 0;
        for (uint32_t k = 0; k < i && !again; k++) {
            again = rd_result_of(e, k)->kind == op->kind &&
                    kf_rows_partial_dtype(rd_result_of(e, k)->dtype) == partial;
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

static void emit_functions(const rd_emitter *e)
{
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = rd_value_of(e, i);
        read |= value->computed ? 0 : 1ull << value->dtype;
        written |= kf_chain_is_output(value) ? 1ull << value->dtype : 0;
    }
    if (e->plan->group != 0 && (e->plan->device->features & KF_FEATURE_WGMMA) != 0) {
        kf_text_add(e->text, "#define JOIN_PTX\n");
    }
    for (uint32_t dtype = 1; dtype < 64; dtype++) {
        if (((read | written) & e->plan->near) >> dtype & 1u) {
            kf_text_addf(e->text, "#define NEAR_%s\n", kf_dtype_of(dtype).name);
        }
    }
    kf_chain_functions(e->text, &e->rows->chain, e->plan->width, e->plan->wide, read, written, 0);
    kf_text_addf(e->text, "typedef %s udx;\n", e->plan->wide ? "ulong" : "uint");
    emit_access(e, read, written);
    if (e->plan->device->is_cpu) {
        kf_ew_ahead_macro(e->text);
    }
    emit_joins(e);
}

// ---- signature ----

static void emit_param(const rd_emitter *e, const rd_param *param)
{
    static const char *const names[] = {
        [RD_PARAM_ITEMS] = "items", [RD_PARAM_CHUNK] = "chunk", [RD_PARAM_UNITS] = "units",
        [RD_PARAM_EACH] = "each",   [RD_PARAM_TOTAL] = "total", [RD_PARAM_RESULTS] = "results",
        [RD_PARAM_PARTS] = "parts", [RD_PARAM_BLOCK] = "block",
    };
    uint32_t i = param->index;
    switch (param->kind) {
    case RD_PARAM_INPUT:
        kf_text_addf(e->text, "__global const %s *p%u", rd_dtype_of(e, i).storage, i);
        break;
    case RD_PARAM_OUTPUT:
        kf_text_addf(e->text, "__global %s *q%u", rd_dtype_of(e, i).storage, i);
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
        kf_text_addf(e->text, "__global %s *w%u", kf_rows_partial(rd_result_of(e, i)).compute, i);
        break;
    default:
        kf_text_addf(e->text, "const idx %s", names[param->kind]);
    }
}

static void emit_signature(const rd_emitter *e, const char *name, const rd_launch *launch)
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

// ---- results ----

/// Rounds and divides the joined partial result named by `what` into the operation's value.
static void emit_total(const rd_emitter *e, uint32_t result, const char *what, const char *indent)
{
    const kf_chain_op *op = rd_result_of(e, result);
    kf_dtype partial = kf_rows_partial(op), to = rd_dtype_of(e, op->result);
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

static void emit_outputs(const rd_emitter *e, const char *indent, const char *at, const char *count)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(rd_value_of(e, i)) && !rd_is_full(e, i)) {
            kf_text_addf(e->text, "%sput_%s(q%u + %s, v%u, %s);\n", indent, rd_dtype_of(e, i).name,
                         i, at, i, count);
        }
    }
}

static void finish_rows(const rd_emitter *e)
{
    uint32_t group = e->plan->group != 0;
    const char *writer = group ? "        if (lane == 0 && live) {\n" : "        {\n";
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = rd_result_of(e, i);
        kf_dtype partial = kf_rows_partial(op);
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
        rd_emit_ops(e, 0, 1, "            ");
        emit_outputs(e, "            ", "item", "1");
    }
    kf_text_add(e->text, "        }\n");
}

static void finish_columns(const rd_emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    rd_emit_column(e);
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        char name[16];
        snprintf(name, sizeof(name), "m%u[c]", i);
        if (e->plan->split) {
            kf_text_addf(e->text,
                         "            stash_%s(w%u + (size_t)part * (size_t)results + "
                         "(size_t)kept * (size_t)e%u + (size_t)i, %s, count);\n",
                         kf_rows_partial(rd_result_of(e, i)).name, i, last, name);
        } else {
            emit_total(e, i, name, "            ");
        }
    }
    if (!e->plan->split) {
        char at[48];
        snprintf(at, sizeof(at), "kept * e%u + i", last);
        rd_emit_kept(e, "            ");
        rd_emit_ops(e, 0, 1, "            ");
        emit_outputs(e, "            ", at, "count");
    }
    kf_text_add(e->text, "        }\n");
}

// ---- kernels ----

/// Which items this work-item has, and which part of each.
static void emit_items(const rd_emitter *e)
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

static void emit_first(const rd_emitter *e)
{
    uint32_t last = e->plan->n_groups - 1;
    emit_signature(e, "kiln_reduce", &e->plan->first);
    rd_emit_totals(e);
    emit_items(e);
    if (e->plan->columns) {
        kf_text_addf(e->text,
                     "        const idx blocks = (e%u - 1) / block + 1;\n"
                     "        const idx kept = item / blocks, column = (item - kept * blocks) * "
                     "block;\n"
                     "        const idx edge = e%u - column < block ? e%u : column + block;\n",
                     last, last, last);
        rd_emit_coordinates(e, "kept", 0, last);
        rd_emit_columns(e);
        finish_columns(e);
    } else {
        rd_emit_coordinates(e, "item", 0, last);
        rd_emit_kept(e, "        ");
        if (e->plan->group != 0) {
            // A row past the end has its work-items run along for the barriers, over nothing.
            kf_text_add(e->text,
                        "        const udx begin_all = begin, end_all = live ? end : begin;\n"
                        "        {\n        const udx begin = begin_all, end = end_all;\n");
        }
        rd_emit_rows(e);
        finish_rows(e);
        kf_text_add(e->text, e->plan->group != 0 ? "        }\n" : "");
    }
    kf_text_add(e->text, "    }\n}\n");
}

/// One work-item for each element of the results.
static void emit_second(const rd_emitter *e)
{
    emit_signature(e, "kiln_reduce_join", &e->plan->second);
    kf_text_add(e->text, "    const size_t wanted = get_global_id(0);\n"
                         "    if (wanted >= (size_t)results) {\n        return;\n    }\n"
                         "    const idx item = (idx)wanted;\n");
    rd_emit_coordinates(e, "item", 0, e->plan->n_groups);
    if (e->plan->columns) {
        kf_text_addf(e->text, "        const idx i = c%u;\n        const int count = 1;\n",
                     e->plan->n_groups - 1);
    }
    rd_emit_kept(e, "        ");
    for (uint32_t i = 0; i < e->plan->n_results; i++) {
        const kf_chain_op *op = rd_result_of(e, i);
        kf_dtype partial = kf_rows_partial(op);
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
    rd_emit_ops(e, 0, 1, "        ");
    emit_outputs(e, "        ", "item", "1");
    kf_text_add(e->text, "}\n");
}

void rd_emit_kernels(kf_text *text, const rd_plan *plan)
{
    const rd_emitter e = {text, plan, plan->rows};
    emit_functions(&e);
    kf_text_addf(text, "#define VECTORS %u\n#define SLAB %u\n", plan->vectors, RD_SLAB);
    emit_first(&e);
    if (plan->split) {
        emit_second(&e);
    }
}
