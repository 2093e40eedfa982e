// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of lstm, gru and rnn: every direction and activation, inputs left out and given,
// sequences that end early, one step, no step, more steps than are joined at once.
#include "samples_internal.h"

typedef struct recurrent_case {
    int64_t steps, batch, inputs, hidden;
    const char *direction;
    const char *activations; ///< of an lstm; the others take as many as they have
    uint16_t n_inputs; ///< of an lstm: 3 to 8
    bool rank_0; ///< inputs that may be, are
    double clip;
    bool flag; ///< input_forget or reset_after
} recurrent_case;

static const recurrent_case recurrent_cases[] = {
    {3, 2, 4, 5, NULL, NULL, 3, false, 0, false},
    {4, 2, 3, 2, "reverse", NULL, 4, false, 0, true},
    {3, 1, 2, 3, "bidirectional", NULL, 8, false, 0, false},
    {5, 3, 2, 4, "bidirectional", NULL, 8, false, 0.5, true},
    {1, 1, 1, 1, "forward", "HardSigmoid,Softsign,Affine", 5, false, 0, false},
    {2, 2, 3, 3, NULL, "sigmoid,relu,elu", 6, false, 0, true},
    {2, 2, 3, 3, NULL, "ScaledTanh,LeakyRelu,Softplus", 7, false, 0, false},
    {2, 2, 3, 3, NULL, "Affine,ThresholdedRelu,Tanh", 7, true, 2, true},
    {0, 2, 3, 2, NULL, NULL, 5, false, 0, false},
    {37, 1, 2, 3, "reverse", NULL, 4, false, 0, false},
};

static kilni_sample_tensor small_tensor(uint8_t rank, int64_t a, int64_t b, int64_t c)
{
    return (kilni_sample_tensor){.rank = rank, .dims = {a, b, c}, .fill = KILNI_FILL_SMALL};
}

/// The activations of one direction that this operator takes, twice when there are two.
static void activations_of(const recurrent_case *c, unsigned each, char out_text[128])
{
    size_t length = 0;
    unsigned names = 0;
    for (const char *p = c->activations; *p != '\0' && names < each; p++) {
        names += *p == ',' ? 1 : 0;
        if (names < each) {
            out_text[length++] = *p;
        }
    }
    out_text[length] = '\0';
}

static uint16_t make_inputs(kiln_op op, const recurrent_case *c, kilni_sample_tensor inputs[8])
{
    int64_t d = c->direction != NULL && c->direction[0] == 'b' ? 2 : 1;
    int64_t gates = op == KILN_OP_LSTM ? 4 : op == KILN_OP_GRU ? 3 : 1;
    int64_t rows = gates * c->hidden;
    kilni_sample_tensor state = small_tensor(3, d, c->batch, c->hidden);
    kilni_sample_tensor lengths = small_tensor(1, c->batch, 0, 0);
    lengths.fill = KILNI_FILL_INDEX;
    lengths.limit = c->steps;
    lengths.dtype = KILN_DTYPE_I32;
    inputs[0] = small_tensor(3, c->steps, c->batch, c->inputs);
    inputs[1] = small_tensor(3, d, rows, c->inputs);
    inputs[2] = small_tensor(3, d, rows, c->hidden);
    inputs[3] = small_tensor(c->rank_0 ? 0 : 2, d, 2 * rows, 0);
    inputs[4] = state;
    inputs[5] = op == KILN_OP_LSTM ? state : lengths;
    inputs[6] = small_tensor(c->rank_0 ? 0 : 2, d, 3 * c->hidden, 0);
    inputs[7] = lengths;
    if (c->rank_0) {
        inputs[4].rank = 0;
    }
    return op == KILN_OP_LSTM || c->n_inputs < 6 ? c->n_inputs : 6;
}

void kiln_samples_recurrent(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const double alphas[] = {0.75, 0.25};
    const double betas[] = {0.5};
    unsigned each = op == KILN_OP_LSTM ? 3 : op == KILN_OP_GRU ? 2 : 1;
    for (unsigned i = 0; i < sizeof(recurrent_cases) / sizeof(recurrent_cases[0]); i++) {
        const recurrent_case *c = &recurrent_cases[i];
        char text[128];
        kilni_sample_tensor inputs[8];
        kiln_attr attrs[6];
        for (unsigned k = 0; k < 6; k++) {
            attrs[k] = kilni_attr_none();
        }
        if (c->direction != NULL) {
            attrs[0] = kilni_attr_text(c->direction);
        }
        if (c->activations != NULL) {
            activations_of(c, each, text);
            attrs[1] = kilni_attr_text(text);
            attrs[2] = (kiln_attr){KILN_ATTR_F64_LIST, i % 3, {.floats = alphas}};
            attrs[3] = (kiln_attr){KILN_ATTR_F64_LIST, i % 2, {.floats = betas}};
        }
        attrs[4] = c->clip > 0 ? kilni_attr_f64(c->clip) : kilni_attr_none();
        attrs[5] = kilni_attr_bool(c->flag);
        uint16_t count = make_inputs(op, c, inputs);
        kilni_sample_emit(sink, op, dtype, inputs, count, attrs);
    }
}
