// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the text of a pass over a row: vectors by twos that are loaded, computed and joined to
// partial results, stretch by stretch; two passes that take turns.
#include "rowwise_internal.h"

enum {
    STRETCH = 64, // vectors that are summed before they join the rest: keeps sums accurate
    SPAN = 16, // vectors of a turn, where two passes take turns: memory is busy all the time
    SPAN_AHEAD = 8192, // bytes between what is computed on and what is asked for meanwhile
    RISE = 8 // of the maximum, until which a sum of powers stays as it is
};

// ---- one vector ----

static void emit_load(const rw_emitter *e, uint32_t value, const char *indent)
{
    kf_dtype dtype = rw_dtype_of(e, value);
    if (rw_is_turned(e->rows, value)) {
        kf_text_addf(e->text,
                     "%sconst %s%u v%u = turn_%s(p%u, (udx)row * (udx)n + (udx)i, (udx)b%u, "
                     "(udx)f%u);\n",
                     indent, dtype.compute, e->plan->width, value, dtype.name, value, value, value);
        return;
    }
    kf_text_addf(e->text, "%sconst %s%u v%u = take_%s(r%u + i", indent, dtype.compute,
                 e->plan->width, value, dtype.name, value);
    if (e->rows->chain.values[value].contiguous) {
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

static void emit_ops(const rw_emitter *e, const uint8_t *wanted, uint32_t from, uint32_t to,
                     const char *indent)
{
    for (uint32_t i = from; i < to; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (wanted[op->result] && !kf_rows_is_reduction(op) &&
            kf_rows_is_full(e->rows, op->result) && rw_summed_op(e->rows, op->result) == NULL) {
            kf_chain_op_text(e->text, &e->rows->chain, op, e->plan->width, indent);
        }
    }
}

static uint32_t is_loaded(const rw_emitter *e, const uint8_t *wanted, uint32_t value)
{
    return wanted[value] && !e->rows->chain.values[value].computed &&
           kf_rows_is_full(e->rows, value);
}

static void emit_loads(const rw_emitter *e, const uint8_t *wanted, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (is_loaded(e, wanted, i)) {
            emit_load(e, i, indent);
        }
    }
}

/// The position behind the operation that computes `value`; 0 for one that is read.
static uint32_t after_op_of(const rw_emitter *e, uint32_t value)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        if (e->rows->chain.ops[i].result == value) {
            return i + 1;
        }
    }
    return 0;
}

/// The cached value, from the slot or, past its end, computed again.
static void emit_cached(const rw_emitter *e, uint32_t value, const uint8_t *needs)
{
    uint8_t derives[KF_CHAIN_VALUES];
    kf_dtype dtype = rw_dtype_of(e, value);
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

static void emit_written(const rw_emitter *e, uint32_t loop)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (rw_is_written(e->rows, i, loop)) {
            kf_text_addf(e->text, "            give_%s(q%u + row * n + i, v%u, count, %s);\n",
                         rw_dtype_of(e, i).name, i, i, e->plan->stream != 0 ? "stream" : "0");
        }
    }
}

static void emit_results(const rw_emitter *e, uint32_t loop)
{
    uint32_t next = loop + 1 < e->plan->loops ? e->plan->cached[loop + 1] : RW_NO_VALUE;
    if (next != RW_NO_VALUE && next != e->plan->cached[loop]) {
        kf_text_addf(e->text,
                     "            if (i < cap) {\n"
                     "                vstore%u(v%u, 0, (__local %s *)slot + i);\n"
                     "            }\n",
                     e->plan->width, next, rw_dtype_of(e, next).compute);
    }
    emit_written(e, loop);
}

/// Which of two whole vectors that are done together.
typedef enum turn { TURN_ALONE, TURN_FIRST, TURN_SECOND } turn;

/// A reduction to the largest or least of floats, where a NaN wins. Of two vectors together: NaN is
/// passed over, and one comparison remembers where either had one, so that neither waits for it.
static uint32_t is_extreme(const kf_chain_op *op)
{
    return (op->kind == KF_OP_MAX || op->kind == KF_OP_MIN || op->kind == KF_OP_MAX_ABS) &&
           kf_rows_partial(op).kind == KF_KIND_FLOAT;
}

static void emit_extreme(const rw_emitter *e, const kf_chain_op *op, turn which)
{
    uint32_t i = op->result;
    char prefix = which == TURN_FIRST ? 'g' : 'h';
    kf_text_addf(e->text, "            %c%u = select(%c%u, x%u, x%u %c %c%u);\n", prefix, i, prefix,
                 i, i, i, op->kind == KF_OP_MIN ? '<' : '>', prefix, i);
    if (which == TURN_FIRST) {
        kf_text_addf(e->text, "            y%u = x%u;\n", i, i);
    } else {
        kf_text_addf(e->text, "            n%u |= (y%u != y%u) | (x%u != x%u);\n", i, i, i, i, i);
    }
}

/// Adds e to the power of what the exponential takes; that of lanes past the row's end is nothing.
static void emit_summed(const rw_emitter *e, const kf_chain_op *sum, const kf_chain_op *op,
                        const char *partial)
{
    const char *type = rw_dtype_of(e, op->result).compute, *name = kf_rows_partial(sum).name;
    kf_text_addf(e->text,
                 "            %s = plus_exp_%s(%s, count == %u ? v%u : only_%s(v%u, -INFINITY, "
                 "count));\n",
                 partial, type, partial, e->plan->width, (unsigned)op->inputs[0], name,
                 (unsigned)op->inputs[0]);
}

/// Adds the vector to the partial results `prefix`N.
static void emit_terms(const rw_emitter *e, uint32_t loop, char prefix, turn which)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        const kf_chain_op *exponential = rw_summed_op(e->rows, op->inputs[0]);
        uint32_t partial = kf_rows_partial_dtype(op->dtype);
        kf_dtype dtype = kf_dtype_of(partial);
        char name[16], sum[16];
        if (!rw_is_reduced(e->rows, op, loop)) {
            continue;
        }
        snprintf(name, sizeof(name), "v%u", (unsigned)op->inputs[0]);
        snprintf(sum, sizeof(sum), "%c%u", prefix, (unsigned)op->result);
        if (exponential != NULL) {
            emit_summed(e, op, exponential, sum);
            continue;
        }
        kf_text_addf(e->text, "            const %s%u x%u = ", dtype.compute, e->plan->width,
                     (unsigned)op->result);
        kf_rows_term(e->text, op->kind, partial, e->plan->width, name);
        kf_text_add(e->text, ";\n");
        if (which != TURN_ALONE && is_extreme(op)) {
            emit_extreme(e, op, which);
            continue;
        }
        kf_text_addf(e->text, "            %s = join_%u_%s(%s, count == %u ? x%u : only_%s(x%u, ",
                     sum, op->kind, dtype.name, sum, e->plan->width, (unsigned)op->result,
                     dtype.name, (unsigned)op->result);
        kf_rows_identity(e->text, op->kind, partial);
        kf_text_add(e->text, ", count));\n");
    }
}

/// How many elements of a vector at `i` are the row's.
static void emit_count(const rw_emitter *e)
{
    uint32_t width = e->plan->width;
    kf_text_addf(e->text,
                 e->plan->even ? "            const int count = %u;\n"
                               : "            const int count = n - i < %u ? (int)(n - i) : %u;\n",
                 width, width);
}

/// The vector at `start`; one of two is known not to reach past the row's end.
static void emit_vector(const rw_emitter *e, uint32_t loop, char prefix, const char *start,
                        turn which)
{
    uint8_t needs[KF_CHAIN_VALUES];
    uint32_t cached = e->plan->cached[loop], split = 0;
    rw_needs(e->rows, loop, cached, needs);
    if (cached != RW_NO_VALUE && !needs[cached]) {
        cached = RW_NO_VALUE;
    }
    kf_text_addf(e->text, "            const idx i = (idx)(%s);\n", start);
    if (which != TURN_ALONE) {
        kf_text_addf(e->text, "            const int count = %u;\n", e->plan->width);
    } else {
        emit_count(e);
    }
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
    emit_terms(e, loop, prefix, which);
}

// ---- a stretch of vectors ----

/// The result of the first reduction over what loop `loop` computes; RW_NO_VALUE: there is none.
static uint32_t reduced_by(const rw_emitter *e, uint32_t loop)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        if (rw_is_reduced(e->rows, &e->rows->chain.ops[i], loop)) {
            return e->rows->chain.ops[i].result;
        }
    }
    return RW_NO_VALUE;
}

static void declare_partials(const rw_emitter *e, uint32_t loop, char prefix, const char *indent)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, loop)) {
            kf_dtype dtype = kf_rows_partial(op);
            kf_text_addf(e->text, "%s%s%u %c%u = (%s%u)(", indent, dtype.compute, e->plan->width,
                         prefix, (unsigned)op->result, dtype.compute, e->plan->width);
            kf_rows_identity(e->text, op->kind, kf_rows_partial_dtype(op->dtype));
            kf_text_add(e->text, ");\n");
        }
    }
}

static void join_partials(const rw_emitter *e, uint32_t loop, char prefix)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        if (rw_is_reduced(e->rows, op, loop)) {
            kf_text_addf(e->text, "        m%u = join_%u_%s(m%u, %c%u);\n", (unsigned)op->result,
                         op->kind, kf_rows_partial(op).name, (unsigned)op->result, prefix,
                         (unsigned)op->result);
        }
    }
}

/// Asks for the next row of input `value`, `parts` quarters of it from quarter `first` on, while
/// the passes over this row go through two vectors at `u`.
static void emit_quarters(const rw_emitter *e, uint32_t value, uint32_t first, uint32_t parts)
{
    uint32_t line = 64 / rw_dtype_of(e, value).bytes;
    for (uint32_t at = 0; at < 2 * e->plan->width * parts / 4; at += line) {
        kf_text_addf(e->text, "            AHEAD(r%u + n + (udx)n / 4 * %u + u / 4 * %u + %u);\n",
                     value, first, parts, at);
    }
}

/// Asks for one half of a later span while a turn goes through two vectors of this one at `u`.
static void emit_halves(const rw_emitter *e, uint32_t value, uint32_t half)
{
    uint32_t bytes = rw_dtype_of(e, value).bytes, line = 64 / bytes;
    for (uint32_t at = 0; at < e->plan->width; at += line) {
        kf_text_addf(e->text, "            AHEAD(r%u + from + (u - from) / 2 + %u);\n", value,
                     SPAN_AHEAD / bytes + half * SPAN / 2 * e->plan->width + at);
    }
}

/// The first two passes compute on what was brought near before them; meanwhile they ask for what
/// comes next: where they take turns, for as much each, else for the next row, of which the first
/// pass, which is the quicker one as a rule, asks for a quarter.
static void emit_ahead(const rw_emitter *e, uint32_t loop)
{
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        const kf_chain_value *value = &e->rows->chain.values[i];
        if (e->plan->loops == 1 || loop > 1 || value->computed || !value->contiguous ||
            !kf_rows_is_full(e->rows, i) || rw_is_turned(e->rows, i)) {
            continue;
        }
        if (e->plan->running != RW_NO_VALUE) {
            emit_halves(e, i, loop);
        } else {
            emit_quarters(e, i, loop, loop == 0 ? 1 : 3);
        }
    }
}

/// Declares what two vectors together need for the largest or least of this loop (`end` 0), or puts
/// a NaN over the result where one was met.
static void emit_met(const rw_emitter *e, uint32_t loop, uint32_t end)
{
    for (uint32_t i = 0; i < e->rows->chain.n_ops; i++) {
        const kf_chain_op *op = &e->rows->chain.ops[i];
        kf_dtype dtype = kf_rows_partial(op);
        uint32_t w = e->plan->width, k = op->result;
        const char *mask = dtype.bytes > 4 ? "long" : "int";
        if (!rw_is_reduced(e->rows, op, loop) || !is_extreme(op)) {
            continue;
        }
        if (end) {
            kf_text_addf(e->text, "        g%u = as_%s%u(as_%s%u(g%u) | n%u);\n", k, dtype.compute,
                         w, mask, w, k, k);
        } else {
            kf_text_addf(e->text, "        %s%u y%u;\n        %s%u n%u = (%s%u)(0);\n",
                         dtype.compute, w, k, mask, w, k, mask, w);
        }
    }
}

/// Whole vectors by twos, with partial results of their own so that neither waits for the other;
/// then the rest of the stretch.
static void emit_stretch(const rw_emitter *e, uint32_t loop)
{
    uint32_t width = e->plan->width, two = reduced_by(e, loop) != RW_NO_VALUE;
    char second[24];
    snprintf(second, sizeof(second), "u + %u", width);
    declare_partials(e, loop, 'g', "        ");
    declare_partials(e, loop, 'h', "        ");
    kf_text_add(e->text, "        udx u = from;\n");
    emit_met(e, loop, 0);
    kf_text_addf(e->text, "        for (; to - u >= %u; u += %u) {\n", 2 * width, 2 * width);
    if (e->plan->device->is_cpu) {
        emit_ahead(e, loop);
    }
    kf_text_add(e->text, "            {\n");
    emit_vector(e, loop, 'g', "u", TURN_FIRST);
    kf_text_add(e->text, "            }\n            {\n");
    emit_vector(e, loop, two ? 'h' : 'g', second, TURN_SECOND);
    kf_text_add(e->text, "            }\n        }\n");
    emit_met(e, loop, 1);
    kf_text_addf(e->text, "        for (; u < to; u += %u) {\n", width);
    emit_vector(e, loop, 'g', "u", TURN_ALONE);
    kf_text_add(e->text, "        }\n");
}

// ---- a row in registers ----

void rw_emit_held(const rw_emitter *e)
{
    uint8_t seen[KF_CHAIN_VALUES] = {0};
    for (uint32_t loop = 1; e->plan->group != 0 && loop < e->plan->loops; loop++) {
        uint32_t value = e->plan->cached[loop];
        if (value != RW_NO_VALUE && !seen[value]) {
            seen[value] = 1;
            kf_text_addf(e->text, "        %s%u w%u[%u];\n", rw_dtype_of(e, value).compute,
                         e->plan->width, value, e->plan->held);
        }
    }
}

/// Opens the loop over a work-item's vectors in registers; `i` and `count` are those of vector `j`.
static void open_held(const rw_emitter *e)
{
    uint32_t width = e->plan->width;
    kf_text_addf(e->text,
                 "        #pragma unroll\n"
                 "        for (int j = 0; j < %u; j++) {\n"
                 "            const idx i = (lane + j * lanes) * %u;\n",
                 e->plan->held, width);
    emit_count(e);
}

/// The vectors of a pass that a work-item keeps. It asks for all of them before it computes, so
/// that as much as can be is under way.
static void emit_held_vectors(const rw_emitter *e, uint32_t loop)
{
    uint8_t needs[KF_CHAIN_VALUES];
    uint32_t cached = e->plan->cached[loop];
    uint32_t next = loop + 1 < e->plan->loops ? e->plan->cached[loop + 1] : RW_NO_VALUE;
    rw_needs(e->rows, loop, cached, needs);
    cached = cached != RW_NO_VALUE && needs[cached] ? cached : RW_NO_VALUE;
    if (cached != RW_NO_VALUE) {
        needs[cached] = 0;
    }
    kf_text_add(e->text, "        {\n");
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (is_loaded(e, needs, i)) {
            kf_text_addf(e->text, "        %s%u l%u[%u];\n", rw_dtype_of(e, i).compute,
                         e->plan->width, i, e->plan->held);
        }
    }
    open_held(e);
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (is_loaded(e, needs, i)) {
            kf_text_add(e->text, "            if (i < live) {\n");
            emit_load(e, i, "                ");
            kf_text_addf(e->text, "                l%u[j] = v%u;\n            }\n", i, i);
        }
    }
    kf_text_add(e->text, "        }\n");
    open_held(e);
    kf_text_add(e->text, "            if (i < live) {\n");
    for (uint32_t i = 0; i < e->rows->chain.n_values; i++) {
        if (is_loaded(e, needs, i) || i == cached) {
            kf_text_addf(e->text, "            const %s%u v%u = %c%u[j];\n",
                         rw_dtype_of(e, i).compute, e->plan->width, i, i == cached ? 'w' : 'l', i);
        }
    }
    emit_ops(e, needs, 0, e->rows->chain.n_ops, "            ");
    if (next != RW_NO_VALUE && next != e->plan->cached[loop]) {
        kf_text_addf(e->text, "            w%u[j] = v%u;\n", next, next);
    }
    emit_written(e, loop);
    emit_terms(e, loop, 'm', TURN_ALONE);
    kf_text_add(e->text, "            }\n        }\n        }\n");
}

/// The rest of a longer row, which is computed from what is read in each pass.
static void emit_other_vectors(const rw_emitter *e, uint32_t loop)
{
    uint8_t needs[KF_CHAIN_VALUES];
    uint32_t width = e->plan->width;
    rw_needs(e->rows, loop, RW_NO_VALUE, needs);
    kf_text_addf(e->text,
                 "        for (udx u = ((udx)lane + (udx)lanes * %u) * %u; u < (udx)live; "
                 "u += (udx)lanes * %u) {\n"
                 "            const idx i = (idx)u;\n",
                 e->plan->held, width, width);
    emit_count(e);
    emit_loads(e, needs, "            ");
    emit_ops(e, needs, 0, e->rows->chain.n_ops, "            ");
    emit_written(e, loop);
    emit_terms(e, loop, 'm', TURN_ALONE);
    kf_text_add(e->text, "        }\n");
}

// ---- a row ----

/// One stretch of a pass: partial results of its own, which join those of the row.
static void emit_joined_stretch(const rw_emitter *e, uint32_t loop)
{
    emit_stretch(e, loop);
    join_partials(e, loop, 'g');
    join_partials(e, loop, 'h');
}

static void open_stretches(const rw_emitter *e, uint32_t vectors)
{
    uint32_t step = e->plan->width * vectors;
    kf_text_addf(e->text,
                 "        for (udx from = 0; from < (udx)n; from += %u) {\n"
                 "        const udx to = (udx)n - from < %u ? (udx)n : from + %u;\n",
                 step, step, step);
}

static void emit_own_pass(const rw_emitter *e, uint32_t loop)
{
    declare_partials(e, loop, 'm', "        ");
    if (e->plan->group != 0) {
        emit_held_vectors(e, loop);
        emit_other_vectors(e, loop);
        return;
    }
    open_stretches(e, STRETCH);
    emit_joined_stretch(e, loop);
    kf_text_add(e->text, "        }\n");
}

/// The sum's span joins that of the row, with what rounding took from the ones before: spans are
/// short, and many.
static void emit_added_span(const rw_emitter *e, uint32_t sum)
{
    emit_stretch(e, 1);
    kf_text_addf(e->text,
                 "        const float%u part = g%u + h%u - lost, after = m%u + part;\n"
                 "        lost = (after - m%u) - part;\n"
                 "        m%u = after;\n",
                 e->plan->width, sum, sum, sum, sum, sum);
}

/// The first two passes, span by span in turn: the largest of each lane so far, and the sum of the
/// powers of what is left when `base` is taken off, which follows the largest where that has risen
/// by more than RISE: a power is at most e to the 8, and of what a sum was before 13 rises nothing
/// is left. No lane begins with -inf, which taken off itself is NaN.
static void emit_turns(const rw_emitter *e)
{
    uint32_t w = e->plan->width, most = reduced_by(e, 0), sum = reduced_by(e, 1);
    declare_partials(e, 0, 'm', "        ");
    declare_partials(e, 1, 'm', "        ");
    kf_text_addf(e->text, "        float%u base = (float%u)(-FLT_MAX), lost = (float%u)(0);\n", w,
                 w, w);
    open_stretches(e, SPAN);
    kf_text_add(e->text, "        {\n");
    emit_joined_stretch(e, 0);
    kf_text_addf(e->text,
                 "        }\n"
                 "        if (any(m%u > base + %u)) {\n"
                 "            const float%u before = base;\n"
                 "            base = select(base, m%u, m%u > base + %u);\n"
                 "            const float%u less = plus_exp_float((float%u)(0), before - base);\n"
                 "            m%u *= less;\n"
                 "            lost *= less;\n"
                 "        }\n"
                 "        {\n"
                 "        const float%u v%u = base;\n",
                 most, RISE, w, most, most, RISE, w, w, sum, w, e->plan->running);
    emit_added_span(e, sum);
    kf_text_add(e->text, "        }\n        }\n");
}

void rw_emit_pass(const rw_emitter *e, uint32_t loop)
{
    if (e->plan->running == RW_NO_VALUE || loop > 1) {
        emit_own_pass(e, loop);
    } else if (loop == 0) {
        emit_turns(e);
    } else { // the lanes meet at the row's largest
        kf_text_addf(e->text, "        m%u *= plus_exp_float((float%u)(0), base - v%u);\n",
                     reduced_by(e, 1), e->plan->width, e->plan->running);
    }
}
