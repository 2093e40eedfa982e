// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernel's text. A row is walked once for each phase; between two passes its partial
// results are joined, in a fixed order: lanes of a vector, then on a GPU the work-items of the row
// as a tree in local memory. Values of a row are vectors with equal lanes, so one way of writing an
// operation serves all.
//
// Names: pN inputs, qN outputs, oN offsets, tN_A strides along the value's axis A, aK scalars, eG
// extents of merged axes; rN where input N's row starts; vN values, kN one that may come from the
// slot, mN partial results of a reduction, gN and hN those of one stretch of a row; of a parameter
// of the space's second shape fN elements, each for bN neighbours.
#include "rowwise_internal.h"

enum { STRETCH = 64 }; // vectors that are summed before they join the rest: keeps sums accurate

typedef struct emitter {
    kf_text *text;
    const rw_plan *plan;
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

static kf_dtype partial_of(const kf_chain_op *op)
{
    return kf_dtype_of(kf_rows_partial_dtype(op->dtype));
}

static uint32_t is_full(const emitter *e, uint32_t value)
{
    return kf_rows_is_full(e->rows, value);
}

// ---- functions ---------------------------------------------------------------------------------

static void emit_give(const emitter *e, uint32_t dtype)
{
    kf_ew_template(e->text,
                   "static inline void give_$X(__global $S *p, $T x, int count, int stream) {\n"
                   "    if (count == $V) {\n        keep_$X(p, x, stream);\n"
                   "    } else {\n        put_$X(p, x, count);\n    }\n"
                   "}\n",
                   dtype, e->plan->width, NULL);
}

static uint32_t is_reduction(const kf_chain_op *op)
{
    return op->row == NULL && op->kind != KF_CHAIN_ALIAS;
}

static void emit_reduction_functions(const emitter *e)
{
    uint64_t only = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        uint32_t again = 0;
        if (!is_reduction(op)) {
            continue;
        }
        for (uint32_t k = 0; k < i && !again; k++) {
            const kf_chain_op *other = &e->rows->chain.ops[k];
            again = is_reduction(other) && other->kind == op->kind &&
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
static void emit_turn(const emitter *e, uint32_t dtype)
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

static void emit_functions(const emitter *e)
{
    uint64_t read = 0, written = 0, turned = 0;
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = value_of(e, i);
        read |= value->computed ? 0 : 1ull << value->dtype;
        turned |= !value->computed && rw_is_turned(e->rows, i) ? 1ull << value->dtype : 0;
        written |= kf_chain_is_output(value) ? 1ull << value->dtype : 0;
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

// ---- signature ---------------------------------------------------------------------------------

static void emit_param(const emitter *e, const rw_param *param)
{
    uint32_t i = param->index;
    switch (param->kind) {
    case RW_PARAM_INPUT:
        kf_text_addf(e->text, "__global const %s *p%u", dtype_of(e, i).storage, i);
        break;
    case RW_PARAM_OUTPUT:
        kf_text_addf(e->text, "__global %s *q%u", dtype_of(e, i).storage, i);
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

// ---- where a row is ----------------------------------------------------------------------------

static void emit_coordinates(const emitter *e)
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

static void emit_row_start(const emitter *e, uint32_t value)
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
        if (!value_of(e, value)->contiguous) {
            kf_text_addf(e->text, " * t%u_%u", value, (uint32_t)axis);
            continue;
        }
        for (uint32_t right = g + 1; right < n; right++) {
            if (rw_value_axis(e->rows, value, e->plan->groups[right].first) >= 0) {
                kf_text_addf(e->text, " * e%u", right);
            }
        }
        kf_text_add(e->text, is_full(e, value) ? " * n" : "");
    }
    kf_text_add(e->text, *plus == '\0' ? "0" : "");
}

static void emit_row_inputs(const emitter *e)
{
    emit_coordinates(e);
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        kf_dtype dtype = dtype_of(e, i);
        if (value_of(e, i)->computed || rw_is_turned(e->rows, i)) {
            continue;
        }
        if (is_full(e, i)) {
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

// ---- one pass ----------------------------------------------------------------------------------

static void emit_load(const emitter *e, uint32_t value, const char *indent)
{
    kf_dtype dtype = dtype_of(e, value);
    if (rw_is_turned(e->rows, value)) {
        kf_text_addf(e->text,
                     "%sconst %s%u v%u = turn_%s(p%u, (udx)row * (udx)n + (udx)i, (udx)b%u, "
                     "(udx)f%u);\n",
                     indent, dtype.compute, e->plan->width, value, dtype.name, value, value, value);
        return;
    }
    kf_text_addf(e->text, "%sconst %s%u v%u = take_%s(r%u + i", indent, dtype.compute,
                 e->plan->width, value, dtype.name, value);
    if (value_of(e, value)->contiguous) {
        uint32_t every = e->rows->places[value].mask == kf_rows_all(e->rows);
        kf_text_add(e->text, every && e->plan->group == 0 ? ", 1, count, (last - row) * n - i);\n"
                                                          : ", 1, count, 0);\n");
        return;
    }
    for (uint32_t axis = 0; axis < e->rows->rank; axis++) {
        int own = rw_value_axis(e->rows, value, axis);
        if ((e->rows->reduced >> axis & 1u) != 0 && own >= 0) {
            kf_text_addf(e->text, " * t%u_%u, t%u_%u, count, 0);\n", value, (uint32_t)own, value,
                         (uint32_t)own);
        }
    }
}

static void emit_ops(const emitter *e, const uint8_t *wanted, uint32_t from, uint32_t to,
                     const char *indent)
{
    for (uint32_t i = from; i < to; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (wanted[op->result] && !is_reduction(op) && is_full(e, op->result)) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, indent);
        }
    }
}

static void emit_loads(const emitter *e, const uint8_t *wanted, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (wanted[i] && !value_of(e, i)->computed && is_full(e, i)) {
            emit_load(e, i, indent);
        }
    }
}

/// The position behind the operation that computes `value`; 0 for one that is read.
static uint32_t after_op_of(const emitter *e, uint32_t value)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        if (e->rows->chain.ops[i].result == value) {
            return i + 1;
        }
    }
    return 0;
}

/// The cached value, from the slot or, past its end, computed again.
static void emit_cached(const emitter *e, uint32_t value, const uint8_t *needs)
{
    uint8_t derives[KF_CHAIN_VALUES];
    kf_dtype dtype = dtype_of(e, value);
    rw_derives(e->rows, value, derives);
    for (uint32_t i = 0; i < KF_CHAIN_VALUES; i++) {
        derives[i] = derives[i] && (!needs[i] || i == value);
    }
    kf_text_addf(e->text,
                 "            %s%u k%u;\n"
                 "            if (i < cap) {\n"
                 "                k%u = vload%u(0, (__local %s *)slot + i);\n"
                 "            } else {\n",
                 dtype.compute, e->plan->width, value, value, e->plan->width, dtype.compute);
    emit_loads(e, derives, "                ");
    emit_ops(e, derives, 0, after_op_of(e, value), "                ");
    kf_text_addf(e->text,
                 "                k%u = v%u;\n            }\n"
                 "            const %s%u v%u = k%u;\n",
                 value, value, dtype.compute, e->plan->width, value, value);
}

static void emit_results(const emitter *e, uint32_t loop)
{
    uint32_t next = loop + 1 < e->plan->loops ? e->plan->cached[loop + 1] : RW_NO_VALUE;
    if (next != RW_NO_VALUE && next != e->plan->cached[loop]) {
        kf_text_addf(e->text,
                     "            if (i < cap) {\n"
                     "                vstore%u(v%u, 0, (__local %s *)slot + i);\n"
                     "            }\n",
                     e->plan->width, next, dtype_of(e, next).compute);
    }
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (rw_is_written(e->rows, i, loop)) {
            kf_text_addf(e->text, "            give_%s(q%u + row * n + i, v%u, count, %s);\n",
                         dtype_of(e, i).name, i, i, e->plan->stream != 0 ? "stream" : "0");
        }
    }
}

/// Adds the vector to the partial results `prefix`N.
static void emit_terms(const emitter *e, uint32_t loop, char prefix)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        uint32_t partial = kf_rows_partial_dtype(op->dtype);
        kf_dtype dtype = kf_dtype_of(partial);
        char name[16];
        if (!rw_is_reduced(e->rows, op, loop)) {
            continue;
        }
        snprintf(name, sizeof(name), "v%u", (unsigned)op->inputs[0]);
        kf_text_addf(e->text, "            const %s%u x%u = ", dtype.compute, e->plan->width,
                     (unsigned)op->result);
        kf_rows_term(e->text, op->kind, partial, e->plan->width, name);
        kf_text_addf(
            e->text, ";\n            %c%u = join_%u_%s(%c%u, count == %u ? x%u : only_%s(x%u, ",
            prefix, (unsigned)op->result, op->kind, dtype.name, prefix, (unsigned)op->result,
            e->plan->width, (unsigned)op->result, dtype.name, (unsigned)op->result);
        kf_rows_identity(e->text, op->kind, partial);
        kf_text_add(e->text, ", count));\n");
    }
}

/// The vector at `start`; `whole`: it is known not to reach past the row's end.
static void emit_vector(const emitter *e, uint32_t loop, char prefix, const char *start,
                        uint32_t whole)
{
    uint8_t needs[KF_CHAIN_VALUES];
    uint32_t cached = e->plan->cached[loop], split = 0;
    rw_needs(e->rows, loop, cached, needs);
    if (cached != RW_NO_VALUE && !needs[cached]) {
        cached = RW_NO_VALUE;
    }
    kf_text_addf(e->text, "            const idx i = (idx)(%s);\n", start);
    kf_text_addf(e->text,
                 whole ? "            const int count = %u;\n"
                       : "            const int count = n - i < %u ? (int)(n - i) : %u;\n",
                 e->plan->width, e->plan->width);
    if (cached != RW_NO_VALUE) {
        needs[cached] = 0;
    }
    emit_loads(e, needs, "            ");
    if (cached != RW_NO_VALUE) {
        split = after_op_of(e, cached);
        emit_ops(e, needs, 0, split, "            ");
        emit_cached(e, cached, needs);
    }
    emit_ops(e, needs, split, e->rows->chain.n_ops, "            ");
    emit_results(e, loop);
    emit_terms(e, loop, prefix);
}

static uint32_t has_partials(const emitter *e, uint32_t loop)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        if (rw_is_reduced(e->rows, &e->rows->chain.ops[i], loop)) {
            return 1;
        }
    }
    return 0;
}

static void declare_partials(const emitter *e, uint32_t loop, char prefix, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, loop)) {
            kf_dtype dtype = partial_of(op);
            kf_text_addf(e->text, "%s%s%u %c%u = (%s%u)(", indent, dtype.compute, e->plan->width,
                         prefix, (unsigned)op->result, dtype.compute, e->plan->width);
            kf_rows_identity(e->text, op->kind, kf_rows_partial_dtype(op->dtype));
            kf_text_add(e->text, ");\n");
        }
    }
}

static void join_partials(const emitter *e, uint32_t loop, char prefix)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, loop)) {
            kf_text_addf(e->text, "        m%u = join_%u_%s(m%u, %c%u);\n", (unsigned)op->result,
                         op->kind, partial_of(op).name, (unsigned)op->result, prefix,
                         (unsigned)op->result);
        }
    }
}

/// The second pass computes on what the first has brought near; meanwhile it asks for the next row.
static void emit_ahead(const emitter *e, uint32_t loop)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = value_of(e, i);
        uint32_t line = 64 / dtype_of(e, i).bytes;
        if (loop != 1 || value->computed || !value->contiguous || !is_full(e, i) ||
            rw_is_turned(e->rows, i)) {
            continue;
        }
        for (uint32_t at = 0; at < 2 * e->plan->width; at += line) {
            kf_text_addf(e->text, "            AHEAD(r%u + u + %u + n);\n", i, at);
        }
    }
}

/// Whole vectors by twos, with partial results of their own so that neither waits for the other;
/// then the rest of the stretch.
static void emit_stretch(const emitter *e, uint32_t loop)
{
    uint32_t width = e->plan->width, two = has_partials(e, loop);
    char second[24];
    snprintf(second, sizeof(second), "u + %u", width);
    kf_text_addf(e->text, "        udx u = from;\n        for (; to - u >= %u; u += %u) {\n",
                 2 * width, 2 * width);
    if (e->plan->device->is_cpu) {
        emit_ahead(e, loop);
    }
    kf_text_add(e->text, "            {\n");
    emit_vector(e, loop, 'g', "u", 1);
    kf_text_add(e->text, "            }\n            {\n");
    emit_vector(e, loop, two ? 'h' : 'g', second, 1);
    kf_text_addf(e->text, "            }\n        }\n        for (; u < to; u += %u) {\n", width);
    emit_vector(e, loop, 'g', "u", 0);
    kf_text_add(e->text, "        }\n");
}

static void emit_pass(const emitter *e, uint32_t loop)
{
    uint32_t width = e->plan->width;
    declare_partials(e, loop, 'm', "        ");
    if (e->plan->group != 0) {
        kf_text_addf(
            e->text,
            "        for (udx u = (udx)lane * %u; u < (udx)live; u += (udx)lanes * %u) {\n", width,
            width);
        emit_vector(e, loop, 'm', "u", 0);
        kf_text_add(e->text, "        }\n");
        return;
    }
    kf_text_addf(e->text,
                 "        for (udx from = 0; from < (udx)n; from += %u) {\n"
                 "        const udx to = (udx)n - from < %u ? (udx)n : from + %u;\n",
                 width * STRETCH, width * STRETCH, width * STRETCH);
    declare_partials(e, loop, 'g', "        ");
    declare_partials(e, loop, 'h', "        ");
    emit_stretch(e, loop);
    join_partials(e, loop, 'g');
    join_partials(e, loop, 'h');
    kf_text_add(e->text, "        }\n");
}

// ---- between passes ----------------------------------------------------------------------------

static void emit_total(const emitter *e, const kf_chain_op *op)
{
    kf_dtype partial = partial_of(op), to = dtype_of(e, op->result);
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
static void emit_between(const emitter *e, uint32_t phase)
{
    for (uint32_t i = 0; phase > 0 && i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, phase - 1)) {
            emit_total(e, op);
        }
    }
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (!is_reduction(op) && !is_full(e, op->result) &&
            e->rows->places[op->result].phase == phase) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, "        ");
        }
    }
}

static void emit_row_results(const emitter *e)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (kf_chain_is_output(value_of(e, i)) && !is_full(e, i)) {
            kf_text_addf(e->text, "        %sput_%s(q%u + row, v%u, 1);\n",
                         e->plan->group != 0 ? "if (lane == 0 && live > 0) " : "",
                         dtype_of(e, i).name, i, i);
        }
    }
}

// ---- the kernel --------------------------------------------------------------------------------

static void emit_row_loop(const emitter *e)
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
    if (e->plan->slot_bytes != 0) {
        kf_text_addf(e->text,
                     "    __local uchar *slot = (__local uchar *)memory + "
                     "(size_t)get_local_id(1) * (size_t)cap * %u;\n",
                     e->plan->slot_bytes);
    }
    kf_text_add(e->text, "    {\n");
}

void rw_emit_kernel(kf_text *text, const rw_plan *plan)
{
    const emitter e = {text, plan, plan->rows};
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
    emit_between(&e, 0);
    for (uint32_t loop = 0; loop < plan->loops; loop++) {
        emit_pass(&e, loop);
        emit_between(&e, loop + 1);
    }
    emit_row_results(&e);
    kf_text_add(text, "    }\n}\n");
}
