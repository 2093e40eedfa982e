// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of lstm, gru and rnn: for each direction, step and sequence the formulas of
// ONNX operator set 14 in double; the state is rounded only where it is stored as a result.
#include <math.h>
#include <string.h>

#include "recurrent.h"
#include "reference_internal.h"

typedef struct recurrent_job {
    kilni_recurrent r;
    const kiln_view *inputs;
    const kiln_view *outputs;
    uint32_t d;
    double *h; ///< [batch, hidden]
    double *c;
    double *gates; ///< [gates, hidden] of one sequence
    double *next; ///< [hidden]
} recurrent_job;

/// Element of an input at up to three indices; of rank 0 the only one; 0 of an input left out.
static double at(const recurrent_job *j, unsigned input, int64_t a, int64_t b, int64_t c)
{
    const int64_t index[] = {a, b, c};
    const kiln_view *view = &j->inputs[input];
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        offset += index[i] * view->strides[i];
    }
    return kilni_ref_load(view, offset).f;
}

static double activate(const recurrent_job *j, unsigned index, double x)
{
    const kilni_activation *a = &j->r.activations[j->d][index];
    if (j->r.clip > 0) {
        x = x > j->r.clip ? j->r.clip : x < -j->r.clip ? -j->r.clip : x;
    }
    switch (a->kind) {
    case KILNI_RELU:
        return x < 0 ? 0 : x;
    case KILNI_TANH:
        return tanh(x);
    case KILNI_SIGMOID:
        return 1 / (1 + exp(-x));
    case KILNI_AFFINE:
        return a->alpha * x + a->beta;
    case KILNI_LEAKY_RELU:
        return x < 0 ? a->alpha * x : x;
    case KILNI_THRESHOLDED_RELU:
        return x <= a->alpha ? 0 : x;
    case KILNI_SCALED_TANH:
        return a->alpha * tanh(a->beta * x);
    case KILNI_HARD_SIGMOID:
        x = a->alpha * x + a->beta;
        return x < 0 ? 0 : x > 1 ? 1 : x;
    case KILNI_ELU:
        return x > 0 ? x : a->alpha * expm1(x);
    case KILNI_SOFTSIGN:
        return x / (1 + fabs(x));
    default:
        return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
    }
}

static double bias(const recurrent_job *j, int64_t row)
{
    return j->r.bias == 0 ? 0 : at(j, j->r.bias, j->d, row, 0);
}

static double peephole(const recurrent_job *j, int64_t gate, int64_t k)
{
    return j->r.peephole == 0 ? 0 : at(j, j->r.peephole, j->d, gate * j->r.hidden + k, 0);
}

/// Row `row` of the weights with the input of a step.
static double of_input(const recurrent_job *j, int64_t t, int64_t b, int64_t row)
{
    double sum = bias(j, row);
    for (int64_t i = 0; i < j->r.inputs; i++) {
        sum += at(j, 0, t, b, i) * at(j, 1, j->d, row, i);
    }
    return sum;
}

/// Row `row` of the recurrent weights with the state, which `factor` multiplies when given.
static double of_state(const recurrent_job *j, int64_t b, int64_t row, const double *factor)
{
    double sum = bias(j, j->r.gates * j->r.hidden + row);
    for (int64_t i = 0; i < j->r.hidden; i++) {
        double h = j->h[b * j->r.hidden + i];
        sum += (factor != NULL ? h * factor[i] : h) * at(j, 2, j->d, row, i);
    }
    return sum;
}

static void lstm_step(recurrent_job *j, int64_t t, int64_t b)
{
    const int64_t n = j->r.hidden;
    double *cells = j->c + b * n;
    for (int64_t row = 0; row < 4 * n; row++) {
        j->gates[row] = of_input(j, t, b, row) + of_state(j, b, row, NULL);
    }
    for (int64_t k = 0; k < n; k++) {
        double old = cells[k];
        double input = activate(j, 0, j->gates[k] + peephole(j, 0, k) * old);
        double forget = j->r.input_forget
                            ? 1 - input
                            : activate(j, 0, j->gates[2 * n + k] + peephole(j, 2, k) * old);
        cells[k] = forget * old + input * activate(j, 1, j->gates[3 * n + k]);
        double output = activate(j, 0, j->gates[n + k] + peephole(j, 1, k) * cells[k]);
        j->next[k] = output * activate(j, 2, cells[k]);
    }
}

static void gru_step(recurrent_job *j, int64_t t, int64_t b)
{
    const int64_t n = j->r.hidden;
    double *reset = j->gates + n;
    for (int64_t row = 0; row < 2 * n; row++) {
        j->gates[row] = activate(j, 0, of_input(j, t, b, row) + of_state(j, b, row, NULL));
    }
    for (int64_t k = 0; k < n; k++) {
        double state = j->r.reset_after ? reset[k] * of_state(j, b, 2 * n + k, NULL)
                                        : of_state(j, b, 2 * n + k, reset);
        double candidate = activate(j, 1, of_input(j, t, b, 2 * n + k) + state);
        double update = j->gates[k];
        j->next[k] = (1 - update) * candidate + update * j->h[b * n + k];
    }
}

static void rnn_step(recurrent_job *j, int64_t t, int64_t b)
{
    for (int64_t k = 0; k < j->r.hidden; k++) {
        j->next[k] = activate(j, 0, of_input(j, t, b, k) + of_state(j, b, k, NULL));
    }
}

static void store(const kiln_view *out, int64_t a, int64_t b, int64_t c, int64_t d, double value)
{
    const int64_t index[] = {a, b, c, d};
    const int64_t *from = out->rank == 4 ? index : index + 1;
    kilni_ref_store(out, kilni_ref_offset(out, from), kilni_ref_of_float(value));
}

static void run_step(recurrent_job *j, int64_t t, int64_t b)
{
    const int64_t n = j->r.hidden;
    const kiln_view *lengths = &j->inputs[j->r.lengths];
    bool over = j->r.lengths != 0 && kilni_ref_load(lengths, b * lengths->strides[0]).i <= t;
    if (!over && j->r.gates == 4) {
        lstm_step(j, t, b);
    } else if (!over && j->r.gates == 3) {
        gru_step(j, t, b);
    } else if (!over) {
        rnn_step(j, t, b);
    }
    for (int64_t k = 0; k < n; k++) {
        j->h[b * n + k] = over ? j->h[b * n + k] : j->next[k];
        store(&j->outputs[0], t, j->d, b, k, over ? 0 : j->next[k]);
    }
}

static void run_direction(recurrent_job *j, unsigned n_outputs)
{
    const int64_t n = j->r.hidden;
    for (int64_t i = 0; i < j->r.batch * n; i++) {
        j->h[i] = j->r.initial_h == 0 ? 0 : at(j, j->r.initial_h, j->d, i / n, i % n);
        j->c[i] = j->r.initial_c == 0 ? 0 : at(j, j->r.initial_c, j->d, i / n, i % n);
    }
    for (int64_t i = 0; i < j->r.steps; i++) {
        for (int64_t b = 0; b < j->r.batch; b++) {
            run_step(j, j->r.reverse[j->d] ? j->r.steps - 1 - i : i, b);
        }
    }
    for (int64_t i = 0; i < j->r.batch * n; i++) {
        store(&j->outputs[1], 0, j->d, i / n, i % n, j->h[i]);
        if (n_outputs > 2) {
            store(&j->outputs[2], 0, j->d, i / n, i % n, j->c[i]);
        }
    }
}

static kiln_status recurrent(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    recurrent_job j = {.inputs = inputs, .outputs = outputs};
    kiln_status status = kilni_ir_recurrent_of(call, &j.r, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    size_t state = (size_t)(j.r.batch * j.r.hidden);
    size_t gates = (size_t)(j.r.gates * j.r.hidden);
    double *memory =
        kiln_alloc_array(&env, 2 * state + gates + (size_t)j.r.hidden + 1, sizeof(double));
    if (memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for the state",
                         kilni_ir_op_name(call));
    }
    j.h = memory;
    j.c = j.h + state;
    j.gates = j.c + state;
    j.next = j.gates + gates;
    for (j.d = 0; j.d < j.r.directions; j.d++) {
        run_direction(&j, call->n_outputs);
    }
    kiln_free(&env, memory);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_lstm(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    return recurrent(call, inputs, outputs, err);
}

kiln_status kiln_ref_gru(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    return recurrent(call, inputs, outputs, err);
}

kiln_status kiln_ref_rnn(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    return recurrent(call, inputs, outputs, err);
}
