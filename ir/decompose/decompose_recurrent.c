// SPDX-License-Identifier: MIT OR Apache-2.0
// lstm, gru and rnn step by step: one matrix product for all inputs, then for each step one with
// the state and elementwise operations, which fusers join. What a step leaves behind is dropped at
// once. Formulas: ONNX operator set 14, LSTM, GRU, RNN.
#include "decompose_internal.h"
#include "recurrent.h"

enum { PARTS = 32 };

typedef struct layer { ///< one direction
    kiln_expander *x;
    kilni_recurrent r;
    uint32_t d;
    kilni_value projected; ///< of all steps: [steps, batch, gates * hidden], with the biases
    kilni_value recurrence; ///< [gates * hidden, hidden]
    kilni_value hidden_bias; ///< of the last gate, when the reset gate acts on it; else 0
    kilni_value peephole[3]; ///< input, output, forget; 0: none
    kilni_value lengths; ///< [batch, 1]
    kilni_value h;
    kilni_value c;
    kilni_value parts[PARTS]; ///< results of steps, in order of their making
    uint32_t n_parts;
} layer;

// ---- pieces ----

static kilni_value with_number(kiln_expander *x, kiln_op op, kilni_value value, double a, double b,
                               unsigned count)
{
    const kiln_attr attrs[] = {{.type = KILN_ATTR_F64, .count = 1, .v.f = a},
                               {.type = KILN_ATTR_F64, .count = 1, .v.f = b}};
    kilni_value result = 0;
    kilni_expand_op(x, op, &value, 1, attrs, count, &result);
    return result;
}

static kilni_value softsign(kiln_expander *x, kilni_value value)
{
    kilni_value size = kilni_x_shift(x, kilni_expand_1(x, KILN_OP_ABS, value), 1);
    return kilni_expand_2(x, KILN_OP_DIV, value, size);
}

static kilni_value above(kiln_expander *x, kilni_value value, double least)
{
    const kilni_value inputs[] = {value,
                                  kilni_expand_scalar(x, KILN_OP_LESS_EQUAL_SCALAR, value, least)};
    const kiln_attr zero = {.type = KILN_ATTR_F64, .count = 1, .v.f = 0};
    kilni_value result = 0;
    kilni_expand_op(x, KILN_OP_MASK_FILL, inputs, 2, &zero, 1, &result);
    return result;
}

static kilni_value activate(const layer *l, unsigned index, kilni_value value)
{
    kiln_expander *x = l->x;
    const kilni_activation *a = &l->r.activations[l->d][index];
    value = l->r.clip > 0 ? kilni_x_clamp(x, value, -l->r.clip, l->r.clip) : value;
    switch (a->kind) {
    case KILNI_RELU:
        return kilni_expand_1(x, KILN_OP_RELU, value);
    case KILNI_TANH:
        return kilni_expand_1(x, KILN_OP_TANH, value);
    case KILNI_SIGMOID:
        return kilni_expand_1(x, KILN_OP_SIGMOID, value);
    case KILNI_AFFINE:
        return kilni_x_shift(x, kilni_x_scale(x, value, a->alpha), a->beta);
    case KILNI_LEAKY_RELU:
        return with_number(x, KILN_OP_LEAKY_RELU, value, a->alpha, 0, 1);
    case KILNI_THRESHOLDED_RELU:
        return above(x, value, a->alpha);
    case KILNI_SCALED_TANH:
        value = kilni_expand_1(x, KILN_OP_TANH, kilni_x_scale(x, value, a->beta));
        return kilni_x_scale(x, value, a->alpha);
    case KILNI_HARD_SIGMOID:
        return with_number(x, KILN_OP_HARD_SIGMOID, value, a->alpha, a->beta, 2);
    case KILNI_ELU:
        return with_number(x, KILN_OP_ELU, value, a->alpha, 0, 1);
    case KILNI_SOFTSIGN:
        return softsign(x, value);
    default:
        return kilni_expand_1(x, KILN_OP_SOFTPLUS, value);
    }
}

/// The d-th of axis 0, without that axis; an input of rank 0 first becomes `dims`.
static kilni_value of_direction(const layer *l, unsigned input, const int64_t *dims, uint32_t rank)
{
    kilni_value value = kilni_x_input(l->x, input);
    if (kilni_expand_desc(l->x, value).rank == 0) {
        const kiln_attr shape = {.type = KILN_ATTR_I64_LIST, .count = rank, .v.ints = dims};
        kilni_value spread = 0;
        kilni_expand_op(l->x, KILN_OP_EXPAND, &value, 1, &shape, 1, &spread);
        value = spread;
    }
    value = kilni_expand_slice(l->x, value, 0, l->d, l->d + 1);
    return kilni_expand_reshape(l->x, value, dims + 1, rank - 1);
}

static kilni_value gate_of(const layer *l, kilni_value value, uint32_t gate, uint32_t count)
{
    return kilni_expand_slice(l->x, value, 1, gate * l->r.hidden, (gate + count) * l->r.hidden);
}

// ---- before the first step ----

/// Both biases are added to all inputs at once; but of a gru whose reset gate acts after the
/// product the state's bias of the last gate waits for it.
static void add_biases(layer *l)
{
    const int64_t rows = l->r.gates * l->r.hidden;
    const int64_t dims[] = {l->r.directions, 2 * rows};
    const int64_t pair[] = {2, rows};
    kilni_value both = of_direction(l, l->r.bias, dims, 2);
    both = kilni_expand_reshape(l->x, both, pair, 2);
    kilni_value of_input = kilni_expand_slice(l->x, both, 0, 0, 1);
    kilni_value of_state = kilni_expand_slice(l->x, both, 0, 1, 2);
    if (l->r.reset_after) {
        const int64_t first = 2 * l->r.hidden;
        l->hidden_bias = kilni_expand_slice(l->x, of_state, 1, first, rows);
        const kilni_value parts[] = {
            kilni_expand_slice(l->x, of_state, 1, 0, first),
            kilni_x_scale(l->x, l->hidden_bias, 0),
        };
        const kiln_attr axis = {.type = KILN_ATTR_I64, .count = 1, .v.i = 1};
        kilni_expand_op(l->x, KILN_OP_CONCAT, parts, 2, &axis, 1, &of_state);
    }
    kilni_value sum = kilni_x_add(l->x, of_input, of_state);
    l->projected = kilni_x_add(l->x, l->projected, sum);
}

static kilni_value initial(const layer *l, unsigned input, kiln_dtype dtype)
{
    const int64_t dims[] = {l->r.directions, l->r.batch, l->r.hidden};
    return input != 0 ? of_direction(l, input, dims, 3)
                      : kilni_expand_full(l->x, dims + 1, 2, dtype, 0);
}

static void begin(layer *l)
{
    const kilni_recurrent *r = &l->r;
    const int64_t rows = r->gates * r->hidden;
    const int64_t flat[] = {r->steps * r->batch, r->inputs};
    const int64_t weight[] = {r->directions, rows, r->inputs};
    const int64_t recurrence[] = {r->directions, rows, r->hidden};
    const int64_t stepped[] = {r->steps, r->batch, rows};
    kilni_value all = kilni_expand_reshape(l->x, kilni_x_input(l->x, 0), flat, 2);
    kilni_value projected =
        kilni_expand_matmul(l->x, all, of_direction(l, 1, weight, 3), false, true);
    l->projected = kilni_expand_reshape(l->x, projected, stepped, 3);
    l->recurrence = of_direction(l, 2, recurrence, 3);
    if (r->bias != 0) {
        add_biases(l);
    }
    kiln_dtype dtype = kilni_expand_desc(l->x, l->projected).dtype;
    l->h = initial(l, r->initial_h, dtype);
    l->c = r->gates == 4 ? initial(l, r->initial_c, dtype) : 0;
    if (r->peephole != 0) {
        const int64_t dims[] = {r->directions, 3 * r->hidden};
        kilni_value line = of_direction(l, r->peephole, dims, 2);
        for (unsigned i = 0; i < 3; i++) {
            l->peephole[i] = kilni_expand_slice(l->x, line, 0, (int64_t)i * r->hidden,
                                                (int64_t)(i + 1) * r->hidden);
        }
    }
    if (r->lengths != 0) {
        const int64_t dims[] = {r->batch, 1};
        l->lengths = kilni_expand_reshape(l->x, kilni_expand_input(l->x, r->lengths), dims, 2);
    }
}

// ---- one step ----

static kilni_value peeped(const layer *l, kilni_value gate, unsigned index, kilni_value cell)
{
    return l->peephole[index] == 0
               ? gate
               : kilni_x_add(l->x, gate, kilni_x_mul(l->x, l->peephole[index], cell));
}

static kilni_value rest_of(kiln_expander *x, kilni_value value)
{
    return kilni_x_shift(x, kilni_expand_1(x, KILN_OP_NEG, value), 1);
}

static kilni_value lstm_step(layer *l, kilni_value in, kilni_value *cell)
{
    kiln_expander *x = l->x;
    in = kilni_x_add(x, in, kilni_expand_matmul(x, l->h, l->recurrence, false, true));
    kilni_value input = activate(l, 0, peeped(l, gate_of(l, in, 0, 1), 0, l->c));
    kilni_value forget = l->r.input_forget
                             ? rest_of(x, input)
                             : activate(l, 0, peeped(l, gate_of(l, in, 2, 1), 2, l->c));
    kilni_value candidate = activate(l, 1, gate_of(l, in, 3, 1));
    *cell = kilni_x_add(x, kilni_x_mul(x, forget, l->c), kilni_x_mul(x, input, candidate));
    kilni_value output = activate(l, 0, peeped(l, gate_of(l, in, 1, 1), 1, *cell));
    return kilni_x_mul(x, output, activate(l, 2, *cell));
}

static kilni_value gru_step(layer *l, kilni_value in)
{
    kiln_expander *x = l->x;
    const int64_t hidden = l->r.hidden;
    kilni_value gates = gate_of(l, in, 0, 2);
    kilni_value candidate = gate_of(l, in, 2, 1);
    kilni_value of_state = 0;
    if (l->r.reset_after) {
        kilni_value all = kilni_expand_matmul(x, l->h, l->recurrence, false, true);
        gates = kilni_x_add(x, gates, gate_of(l, all, 0, 2));
        of_state = gate_of(l, all, 2, 1);
        of_state = l->hidden_bias == 0 ? of_state : kilni_x_add(x, of_state, l->hidden_bias);
    } else {
        kilni_value first = kilni_expand_slice(x, l->recurrence, 0, 0, 2 * hidden);
        gates = kilni_x_add(x, gates, kilni_expand_matmul(x, l->h, first, false, true));
    }
    gates = activate(l, 0, gates);
    kilni_value update = gate_of(l, gates, 0, 1);
    kilni_value reset = gate_of(l, gates, 1, 1);
    if (l->r.reset_after) {
        of_state = kilni_x_mul(x, reset, of_state);
    } else {
        kilni_value last = kilni_expand_slice(x, l->recurrence, 0, 2 * hidden, 3 * hidden);
        of_state = kilni_expand_matmul(x, kilni_x_mul(x, reset, l->h), last, false, true);
    }
    candidate = activate(l, 1, kilni_x_add(x, candidate, of_state));
    return kilni_x_add(x, kilni_x_mul(x, rest_of(x, update), candidate),
                       kilni_x_mul(x, update, l->h));
}

static kilni_value rnn_step(layer *l, kilni_value in)
{
    kilni_value of_state = kilni_expand_matmul(l->x, l->h, l->recurrence, false, true);
    return activate(l, 0, kilni_x_add(l->x, in, of_state));
}

/// Joins the parts that there are, in order of time.
static kilni_value joined(layer *l)
{
    kilni_value inputs[PARTS];
    const kiln_attr axis = {.type = KILN_ATTR_I64, .count = 1, .v.i = 0};
    kilni_value result = l->parts[0];
    for (uint32_t i = 0; i < l->n_parts; i++) {
        inputs[i] = l->parts[l->r.reverse[l->d] ? l->n_parts - 1 - i : i];
    }
    if (l->n_parts > 1) {
        kilni_expand_op(l->x, KILN_OP_CONCAT, inputs, l->n_parts, &axis, 1, &result);
        for (uint32_t i = 0; i < l->n_parts; i++) {
            kilni_expand_drop(l->x, l->parts[i]);
        }
    }
    return result;
}

/// A sequence that is over keeps its state and gives 0.
static kilni_value masked(layer *l, int64_t step, kilni_value h, kilni_value *cell)
{
    kiln_expander *x = l->x;
    const kiln_attr zero = {.type = KILN_ATTR_F64, .count = 1, .v.f = 0};
    const kiln_attr at = {.type = KILN_ATTR_I64, .count = 1, .v.i = step};
    kilni_value over = 0;
    kilni_value shown = 0;
    kilni_expand_op(x, KILN_OP_LESS_EQUAL_SCALAR, &l->lengths, 1, &at, 1, &over);
    const kilni_value inputs[] = {h, over};
    kilni_expand_op(x, KILN_OP_MASK_FILL, inputs, 2, &zero, 1, &shown);
    l->h = kilni_expand_3(x, KILN_OP_WHERE, l->h, h, over);
    *cell = *cell == 0 ? 0 : kilni_expand_3(x, KILN_OP_WHERE, l->c, *cell, over);
    return shown;
}

/// Drops every value after `mark` that is not kept.
static void drop_after(kiln_expander *x, kilni_value mark, const kilni_value *kept, unsigned count)
{
    kilni_value last = 0;
    for (unsigned i = 0; i < count; i++) {
        last = kept[i] > last ? kept[i] : last;
    }
    for (kilni_value v = mark + 1; v < last; v++) {
        bool keep = false;
        for (unsigned i = 0; i < count; i++) {
            keep |= kept[i] == v;
        }
        if (!keep) {
            kilni_expand_drop(x, v);
        }
    }
}

static void step(layer *l, int64_t at)
{
    kiln_expander *x = l->x;
    const int64_t row[] = {l->r.batch, l->r.gates * l->r.hidden};
    const int64_t part[] = {1, 1, l->r.batch, l->r.hidden};
    const kilni_value old_h = l->h;
    const kilni_value old_c = l->c;
    kilni_value cell = 0;
    if (l->n_parts == PARTS) {
        l->parts[0] = joined(l);
        l->n_parts = 1;
    }
    kilni_value in = kilni_expand_slice(x, l->projected, 0, at, at + 1);
    const kilni_value mark = in - 1;
    in = kilni_expand_reshape(x, in, row, 2);
    kilni_value h = l->r.gates == 4   ? lstm_step(l, in, &cell)
                    : l->r.gates == 3 ? gru_step(l, in)
                                      : rnn_step(l, in);
    kilni_value shown = l->lengths != 0 ? masked(l, at, h, &cell) : h;
    l->h = l->lengths != 0 ? l->h : h;
    l->c = cell;
    l->parts[l->n_parts++] = kilni_expand_reshape(x, shown, part, 4);
    const kilni_value kept[] = {l->h, l->c, l->parts[l->n_parts - 1]};
    drop_after(x, mark, kept, 3);
    if (at !=
        (l->r.reverse[l->d] ? l->r.steps - 1 : 0)) { // the first state may be a view of an input
        kilni_expand_drop(x, old_h);
        kilni_expand_drop(x, old_c);
    }
}

// ---- the whole ----

static kilni_value over_directions(kiln_expander *x, const kilni_value *values, uint32_t count,
                                   int64_t axis)
{
    const kiln_attr attr = {.type = KILN_ATTR_I64, .count = 1, .v.i = axis};
    kilni_value result = values[0];
    if (count > 1) {
        kilni_expand_op(x, KILN_OP_CONCAT, values, count, &attr, 1, &result);
    }
    return result;
}

static void decompose(kiln_expander *x)
{
    kilni_recurrent r;
    kilni_value all[2] = {0};
    kilni_value h[2] = {0};
    kilni_value c[2] = {0};
    const kiln_op_record *call = kilni_expand_call(x);
    if (kilni_ir_recurrent_of(call, &r, NULL) != KILN_STATUS_OK) {
        kilni_expand_fail(x, KILN_STATUS_INTERNAL, "its shapes were not checked");
        return;
    }
    const int64_t state[] = {1, r.batch, r.hidden};
    for (uint32_t d = 0; d < r.directions; d++) {
        layer l = {.x = x, .r = r, .d = d};
        begin(&l);
        for (int64_t i = 0; i < r.steps; i++) {
            step(&l, r.reverse[d] ? r.steps - 1 - i : i);
        }
        const int64_t none[] = {0, 1, r.batch, r.hidden};
        all[d] = r.steps > 0 ? joined(&l)
                             : kilni_expand_full(x, none, 4, kilni_expand_desc(x, l.h).dtype, 0);
        h[d] = kilni_expand_reshape(x, l.h, state, 3);
        c[d] = l.c == 0 ? 0 : kilni_expand_reshape(x, l.c, state, 3);
    }
    kilni_expand_output(x, 0, over_directions(x, all, r.directions, 1));
    kilni_expand_output(x, 1, over_directions(x, h, r.directions, 0));
    if (call->n_outputs > 2) {
        kilni_expand_output(x, 2, over_directions(x, c, r.directions, 0));
    }
}

void kiln_decompose_lstm(kiln_expander *expander)
{
    decompose(expander);
}

void kiln_decompose_gru(kiln_expander *expander)
{
    decompose(expander);
}

void kiln_decompose_rnn(kiln_expander *expander)
{
    decompose(expander);
}
