// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernel's text. A row is walked once for each phase, but a maximum and the sum of
// powers that waits for it span by span in turn; between two passes partial results are joined, in
// a fixed order: lanes of a vector, then on a GPU the work-items of the row as a tree in local
// memory. Values of a row are vectors with equal lanes, so one way of writing an operation serves
// all.
#include "rowwise_internal.h"

// ---- functions ----

static void emit_give(const rw_emitter *e, uint32_t dtype)
{
    kf_ew_template(e->text,
                   "static inline void give_$X(__global $S *p, $T x, int count, int stream) {\n"
                   "    if (count == $V) {\n        keep_$X(p, x, stream);\n"
                   "    } else {\n        put_$X(p, x, count);\n    }\n"
                   "}\n",
                   dtype, e->plan->width, NULL);
}

static void emit_reduction_functions(const rw_emitter *e)
{
    uint64_t only = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        uint32_t again = 0;
        if (!kf_rows_is_reduction(op)) {
            continue;
        }
        for (uint32_t k = 0; k < i && !again; k++) {
            const kf_chain_op *other = &e->rows->chain.ops[k];
            again = kf_rows_is_reduction(other) && other->kind == op->kind &&
                    kf_rows_partial_dtype(other->dtype) == kf_rows_partial_dtype(op->dtype);
        }
        if (!again) {
            kf_rows_functions(e->text, op->kind, kf_rows_partial_dtype(op->dtype), e->plan->width);
            if (e->plan->group != 0) {
                kf_rows_team_function(e->text, op->kind, kf_rows_partial_dtype(op->dtype),
                                      e->plan->width);
            }
        }
        if ((only >> kf_rows_partial_dtype(op->dtype) & 1u) == 0) {
            only |= 1ull << kf_rows_partial_dtype(op->dtype);
            kf_rows_only_function(e->text, kf_rows_partial_dtype(op->dtype), e->plan->width);
        }
    }
}

/// A vector of a parameter that repeats: each of its `period` elements serves `each` neighbours.
static void emit_turn(const rw_emitter *e, uint32_t dtype)
{
    kf_ew_template(e->text,
                   "static inline $T turn_$X(__global const $S *p, udx from, udx each, udx period) "
                   "{\n"
                   "    const udx at = from / each, place = at % period;\n"
                   "    if (from - at * each + $V <= each) {\n"
                   "        return ($T)(one_$X(p + place));\n"
                   "    }\n"
                   "    if (each == 1 && place + $V <= period) {\n"
                   "        return load_$X(p + place);\n"
                   "    }\n"
                   "    $C e[$V];\n"
                   "    for (int k = 0; k < $V; k++) {\n"
                   "        e[k] = one_$X(p + (from + (udx)k) / each % period);\n"
                   "    }\n"
                   "    return vload$V(0, e);\n"
                   "}\n",
                   dtype, e->plan->width, NULL);
}

static void emit_functions(const rw_emitter *e)
{
    uint64_t read = 0, written = 0, turned = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = &e->rows->chain.values[i];
        read |= value->computed ? 0 : 1ull << value->dtype;
        turned |= !value->computed && rw_is_turned(e->rows, i) ? 1ull << value->dtype : 0;
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
    kf_chain_functions(e->text, &e->rows->chain, e->plan->width, e->plan->wide, read, written,
                       e->plan->stream != 0);
    kf_text_addf(e->text, "typedef %s udx;\n", e->plan->wide ? "ulong" : "uint");
    for (uint32_t dtype = 1; dtype < 64; dtype++) {
        if ((read >> dtype & 1u) != 0) {
            kf_rows_take_function(e->text, dtype, e->plan->width);
        }
        if ((turned >> dtype & 1u) != 0) {
            emit_turn(e, dtype);
        }
        if ((written >> dtype & 1u) != 0) {
            emit_give(e, dtype);
        }
    }
    if (e->plan->device->is_cpu) {
        kf_ew_ahead_macro(e->text);
    }
    emit_reduction_functions(e);
}

// ---- signature ----

static void emit_param(const rw_emitter *e, const rw_param *param)
{
    uint32_t i = param->index;
    switch (param->kind) {
    case RW_PARAM_INPUT:
        kf_text_addf(e->text, "__global const %s *p%u", rw_dtype_of(e, i).storage, i);
        break;
    case RW_PARAM_OUTPUT:
        kf_text_addf(e->text, "__global %s *q%u", rw_dtype_of(e, i).storage, i);
        break;
    case RW_PARAM_OFFSET:
        kf_text_addf(e->text, "const idx o%u", i);
        break;
    case RW_PARAM_STRIDE:
        kf_text_addf(e->text, "const idx t%u_%u", i, param->axis);
        break;
    case RW_PARAM_SCALAR:
        kf_text_addf(e->text, "const %s a%u", kf_chain_number_type(&e->rows->chain.numbers[i]), i);
        break;
    case RW_PARAM_EXTENT:
        kf_text_addf(e->text, "const idx e%u", i);
        break;
    case RW_PARAM_ROWS:
        kf_text_add(e->text, "const idx rows");
        break;
    case RW_PARAM_LENGTH:
        kf_text_add(e->text, "const idx n");
        break;
    case RW_PARAM_CHUNK:
        kf_text_add(e->text, "const idx chunk");
        break;
    case RW_PARAM_CAP:
        kf_text_add(e->text, "const idx cap");
        break;
    case RW_PARAM_SLOT:
        kf_text_add(e->text, "__local ulong *memory");
        break;
    case RW_PARAM_EACH:
        kf_text_addf(e->text, "const idx b%u", i);
        break;
    case RW_PARAM_PERIOD:
        kf_text_addf(e->text, "const idx f%u", i);
        break;
    }
}

// ---- where a row is ----

static void emit_coordinates(const rw_emitter *e)
{
    uint32_t n = e->plan->n_groups;
    for (uint32_t g = n; g > 1; g--) {
        const char *from = g == n ? "row" : NULL;
        kf_text_addf(e->text, "        const idx d%u = ", g - 1);
        kf_text_addf(e->text, from != NULL ? "row" : "d%u", g);
        kf_text_addf(e->text, " / e%u, c%u = ", g - 1, g - 1);
        kf_text_addf(e->text, from != NULL ? "row" : "d%u", g);
        kf_text_addf(e->text, " - d%u * e%u;\n", g - 1, g - 1);
    }
    if (n > 0) {
        kf_text_addf(e->text,
                     n == 1 ? "        const idx c0 = row;\n" : "        const idx c0 = d1;\n");
    }
}

static void emit_row_start(const rw_emitter *e, uint32_t value)
{
    const char *plus = "";
    uint32_t n = e->plan->n_groups;
    for (uint32_t g = 0; g < n; g++) {
        int axis = rw_value_axis(e->rows, value, e->plan->groups[g].first);
        if (axis < 0) {
            continue;
        }
        kf_text_addf(e->text, "%sc%u", plus, g);
        plus = " + ";
        if (!e->rows->chain.values[value].contiguous) {
            kf_text_addf(e->text, " * t%u_%u", value, (uint32_t)axis);
            continue;
        }
        for (uint32_t right = g + 1; right < n; right++) {
            if (rw_value_axis(e->rows, value, e->plan->groups[right].first) >= 0) {
                kf_text_addf(e->text, " * e%u", right);
            }
        }
        kf_text_add(e->text, kf_rows_is_full(e->rows, value) ? " * n" : "");
    }
    kf_text_add(e->text, *plus == '\0' ? "0" : "");
}

static void emit_row_inputs(const rw_emitter *e)
{
    emit_coordinates(e);
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        kf_dtype dtype = rw_dtype_of(e, i);
        if (e->rows->chain.values[i].computed || rw_is_turned(e->rows, i)) {
            continue;
        }
        if (kf_rows_is_full(e->rows, i)) {
            kf_text_addf(e->text, "        __global const %s *r%u = p%u + ", dtype.storage, i, i);
            emit_row_start(e, i);
            kf_text_add(e->text, ";\n");
            continue;
        }
        kf_text_addf(e->text, "        const %s%u v%u = (%s%u)(one_%s(p%u + ", dtype.compute,
                     e->plan->width, i, dtype.compute, e->plan->width, dtype.name, i);
        emit_row_start(e, i);
        kf_text_add(e->text, "));\n");
    }
}

// ---- between passes ----

static void emit_total(const rw_emitter *e, const kf_chain_op *op)
{
    kf_dtype partial = kf_rows_partial(op), to = rw_dtype_of(e, op->result);
    uint32_t narrow = to.kind == KF_KIND_FLOAT && to.bytes == 2;
    kf_text_addf(e->text, "        const %s%u v%u = ", to.compute, e->plan->width,
                 (unsigned)op->result);
    if (narrow) {
        kf_text_addf(e->text, "round_%s", to.name);
    }
    kf_text_add(e->text, "(");
    if (e->plan->group != 0) {
        kf_text_addf(e->text, "team_%u_%s(m%u, (__local %s *)(seats + team), lane, lanes)",
                     op->kind, partial.name, (unsigned)op->result, partial.compute);
    } else {
        kf_text_addf(e->text, "half_%u_%s(m%u)", op->kind, partial.name, (unsigned)op->result);
    }
    if (op->kind == KF_OP_MEAN) {
        kf_text_addf(e->text, " / (%s%u)((%s)n)", partial.compute, e->plan->width, partial.compute);
    }
    kf_text_add(e->text, ");\n");
}

/// Values of the row that have this phase: results of the pass before, and what follows from them.
static void emit_between(const rw_emitter *e, uint32_t phase)
{
    for (uint32_t i = 0; phase > 0 && i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, phase - 1)) {
            emit_total(e, op);
        }
    }
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (!kf_rows_is_reduction(op) && !kf_rows_is_full(e->rows, op->result) &&
            e->rows->places[op->result].phase == phase) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, "        ");
        }
    }
}

static void emit_row_results(const rw_emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(&e->rows->chain.values[i]) && !kf_rows_is_full(e->rows, i)) {
            kf_text_addf(e->text, "        %sput_%s(q%u + row, v%u, 1);\n",
                         e->plan->group != 0 ? "if (lane == 0 && live > 0) " : "",
                         rw_dtype_of(e, i).name, i, i);
        }
    }
}

// ---- the kernel ----

static void emit_row_loop(const rw_emitter *e)
{
    if (e->plan->stream != 0) {
        kf_text_addf(e->text,
                     "    const int stream = n %% %u == 0 && (ulong)rows * (ulong)n >= %u;\n",
                     e->plan->width, e->plan->stream);
    }
    if (e->plan->group == 0) {
        kf_text_add(e->text, e->plan->slot_bytes != 0 ? "    __local ulong *slot = memory;\n" : "");
        kf_text_add(e->text, "    const idx first = (idx)get_global_id(0) * chunk;\n"
                             "    const idx last = rows - first < chunk ? rows : first + chunk;\n"
                             "    for (idx row = first; row < last; row++) {\n");
        return;
    }
    kf_text_addf(e->text,
                 "    __local ulong seats[%u];\n"
                 "    const idx lane = (idx)get_local_id(0), lanes = (idx)get_local_size(0);\n"
                 "    const idx team = (idx)get_local_id(1) * lanes;\n"
                 "    const size_t wanted = get_global_id(1);\n"
                 "    const idx live = wanted < (size_t)rows ? n : 0;\n"
                 "    const idx row = live > 0 ? (idx)wanted : rows - 1;\n",
                 e->plan->group);
    kf_text_add(e->text, "    {\n");
}

void rw_emit_kernel(kf_text *text, const rw_plan *plan)
{
    const rw_emitter e = {text, plan, plan->rows};
    emit_functions(&e);
    kf_text_add(text, "__kernel void kiln_rowwise(");
    for (uint32_t i = 0; i < plan->n_params; i++) {
        kf_text_add(text, i == 0 ? "" : ", ");
        emit_param(&e, &plan->params[i]);
    }
    kf_text_add(text, ") {\n");
    kf_chain_numbers(text, &plan->rows->chain, plan->width);
    for (uint32_t i = 0; i < plan->n_params; i++) {
        if (plan->params[i].kind == RW_PARAM_OFFSET) {
            kf_text_addf(text, "    p%u += o%u;\n", plan->params[i].index, plan->params[i].index);
        }
    }
    emit_row_loop(&e);
    emit_row_inputs(&e);
    rw_emit_held(&e);
    emit_between(&e, 0);
    for (uint32_t loop = 0; loop < plan->loops; loop++) {
        rw_emit_pass(&e, loop);
        emit_between(&e, loop + 1);
    }
    emit_row_results(&e);
    kf_text_add(text, "    }\n}\n");
}
