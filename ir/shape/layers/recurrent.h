// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RECURRENT_H
#define KILN_RECURRENT_H

/// lstm, gru and rnn as one description, for all who run them: sizes, directions, activations, and
/// where the inputs that may be left out stand.

#include "ir_op.h"

typedef enum kilni_activation_kind {
    KILNI_RELU,
    KILNI_TANH,
    KILNI_SIGMOID,
    KILNI_AFFINE,
    KILNI_LEAKY_RELU,
    KILNI_THRESHOLDED_RELU,
    KILNI_SCALED_TANH,
    KILNI_HARD_SIGMOID,
    KILNI_ELU,
    KILNI_SOFTSIGN,
    KILNI_SOFTPLUS,
    KILNI_ACTIVATIONS
} kilni_activation_kind;

typedef struct kilni_activation {
    kilni_activation_kind kind;
    double alpha;
    double beta;
} kilni_activation;

enum { KILNI_RECURRENT_ACTIVATIONS = 3 };

typedef struct kilni_recurrent {
    int64_t steps;
    int64_t batch;
    int64_t inputs;
    int64_t hidden;
    uint32_t gates; ///< 4 (input, output, forget, cell), 3 (update, reset, hidden) or 1
    uint32_t directions;
    bool reverse[2]; ///< whether this direction begins with the last step
    unsigned n_activations; ///< of each direction
    kilni_activation activations[2][KILNI_RECURRENT_ACTIVATIONS];
    double clip; ///< 0: none
    bool input_forget;
    bool reset_after;
    unsigned bias; ///< number of the input; 0: left out
    unsigned initial_h;
    unsigned initial_c;
    unsigned peephole;
    unsigned lengths;
} kilni_recurrent;

/// Errors: INVALID_ARGUMENT.
kiln_status kilni_ir_recurrent_of(const kiln_op_record *call, kilni_recurrent *out_recurrent,
                                  kiln_error *err);

#endif
