// SPDX-License-Identifier: MIT OR Apache-2.0
// Signatures of contractions, activations, normalisations, recurrent layers, transforms and losses.
// What belongs to every signature is said in op_signature.c. Decides the order of inputs and
// attributes in records, and what absent ones stand for.
#include "op_signature_internal.h"

const kiln_op_signature kiln_signature_matmul = {
    .inputs = {"a", "b"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(TRANSPOSE_A, IDENTITY, 0), OPTIONAL(TRANSPOSE_B, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_leaky_relu = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(SLOPE, SCALAR, 0.01)},
};

const kiln_op_signature kiln_signature_gelu = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(APPROXIMATE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_prelu = {
    .inputs = {"x", "slope"},
    .min_inputs = 2,
    .max_inputs = 2,
};

const kiln_op_signature kiln_signature_hard_sigmoid = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(ALPHA, SCALAR, 0.2), OPTIONAL(BETA, SCALAR, 0.5)},
};

const kiln_op_signature kiln_signature_elu = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(ALPHA, SCALAR, 1)},
};

const kiln_op_signature kiln_signature_output_grad = {
    .inputs = {"output", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
};

const kiln_op_signature kiln_signature_x_grad = {
    .inputs = {"x", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
};

const kiln_op_signature kiln_signature_gelu_backward = {
    .inputs = {"x", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 1,
    .attrs = {OPTIONAL(APPROXIMATE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_axis = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1)},
};

const kiln_op_signature kiln_signature_axis_backward = {
    .inputs = {"output", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1)},
};

const kiln_op_signature kiln_signature_batch_norm = {
    .inputs = {"x", "scale", "bias", "mean", "variance"},
    .min_inputs = 5,
    .max_inputs = 5,
    .n_attrs = 1,
    .attrs = {OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_layer_norm = {
    .inputs = {"x", "scale", "bias"},
    .min_inputs = 1,
    .max_inputs = 3,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_rms_norm = {
    .inputs = {"x", "scale"},
    .min_inputs = 1,
    .max_inputs = 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_group_norm = {
    .inputs = {"x", "scale", "bias"},
    .min_inputs = 1,
    .max_inputs = 3,
    .n_attrs = 2,
    .attrs = {REQUIRED(GROUPS, IDENTITY), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_instance_norm = {
    .inputs = {"x", "scale", "bias"},
    .min_inputs = 1,
    .max_inputs = 3,
    .n_attrs = 1,
    .attrs = {OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_batch_norm_train = {
    .inputs = {"x", "scale", "bias", "mean", "variance"},
    .outputs = {"values", "running_mean", "running_variance"},
    .min_inputs = 5,
    .max_inputs = 5,
    .n_attrs = 2,
    .attrs = {OPTIONAL(EPSILON, SCALAR, 1e-5), OPTIONAL(MOMENTUM, SCALAR, 0.9)},
};

const kiln_op_signature kiln_signature_layer_norm_backward = {
    .inputs = {"grad", "x", "scale"},
    .outputs = {"x_grad", "scale_grad", "bias_grad"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_rms_norm_backward = {
    .inputs = {"grad", "x", "scale"},
    .outputs = {"x_grad", "scale_grad"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_group_norm_backward = {
    .inputs = {"grad", "x", "scale"},
    .outputs = {"x_grad", "scale_grad", "bias_grad"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 2,
    .attrs = {REQUIRED(GROUPS, IDENTITY), OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_channel_norm_backward = {
    .inputs = {"grad", "x", "scale"},
    .outputs = {"x_grad", "scale_grad", "bias_grad"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 1,
    .attrs = {OPTIONAL(EPSILON, SCALAR, 1e-5)},
};

const kiln_op_signature kiln_signature_linear = {
    .inputs = {"x", "weight", "bias"},
    .min_inputs = 2,
    .max_inputs = 3,
};

const kiln_op_signature kiln_signature_linear_x_backward = {
    .inputs = {"grad", "weight"},
    .min_inputs = 2,
    .max_inputs = 2,
};

const kiln_op_signature kiln_signature_linear_bias_backward = {
    .inputs = {"grad"},
    .min_inputs = 1,
    .max_inputs = 1,
};

const kiln_op_signature kiln_signature_attention = {
    .inputs = {"query", "key", "value", "mask", "bias"},
    .min_inputs = 3,
    .max_inputs = 5,
    .mask_inputs = 1u << 3,
    .n_attrs = 3,
    .attrs = {OPTIONAL(SCALE, SCALAR, 0), OPTIONAL(SOFTCAP, SCALAR, 0),
              OPTIONAL(CAUSAL, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_einsum = {
    .inputs = {"inputs"},
    .min_inputs = 1,
    .max_inputs = KILN_MAX_INPUTS,
    .n_attrs = 1,
    .attrs = {REQUIRED(EQUATION, IDENTITY)},
};

const kiln_op_signature kiln_signature_lstm = {
    .inputs = {"x", "weight", "recurrence", "bias", "initial_h", "initial_c", "peephole",
               "lengths"},
    .outputs = {"values", "last_h", "last_c"},
    .min_inputs = 3,
    .max_inputs = 8,
    .index_inputs = 1u << 7,
    .n_attrs = 6,
    .attrs = {{.key = KILN_KEY_DIRECTION,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "forward"},
              {.key = KILN_KEY_ACTIVATIONS,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = ""},
              OPTIONAL(ALPHAS, IDENTITY, 0),
              OPTIONAL(BETAS, IDENTITY, 0),
              OPTIONAL(CLIP, IDENTITY, 0),
              OPTIONAL(INPUT_FORGET, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_gru = {
    .inputs = {"x", "weight", "recurrence", "bias", "initial_h", "lengths"},
    .outputs = {"values", "last_h"},
    .min_inputs = 3,
    .max_inputs = 6,
    .index_inputs = 1u << 5,
    .n_attrs = 6,
    .attrs = {{.key = KILN_KEY_DIRECTION,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "forward"},
              {.key = KILN_KEY_ACTIVATIONS,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = ""},
              OPTIONAL(ALPHAS, IDENTITY, 0),
              OPTIONAL(BETAS, IDENTITY, 0),
              OPTIONAL(CLIP, IDENTITY, 0),
              OPTIONAL(RESET_AFTER, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_rnn = {
    .inputs = {"x", "weight", "recurrence", "bias", "initial_h", "lengths"},
    .outputs = {"values", "last_h"},
    .min_inputs = 3,
    .max_inputs = 6,
    .index_inputs = 1u << 5,
    .n_attrs = 5,
    .attrs = {{.key = KILN_KEY_DIRECTION,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "forward"},
              {.key = KILN_KEY_ACTIVATIONS,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = ""},
              OPTIONAL(ALPHAS, IDENTITY, 0),
              OPTIONAL(BETAS, IDENTITY, 0),
              OPTIONAL(CLIP, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_fft = {
    .inputs = {"real", "imaginary"},
    .outputs = {"real", "imaginary"},
    .min_inputs = 1,
    .max_inputs = 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(INVERSE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_rfft = {
    .inputs = {"x"},
    .outputs = {"real", "imaginary"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(LENGTH, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_irfft = {
    .inputs = {"real", "imaginary"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(LENGTH, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_ctc_loss = {
    .inputs = {"log_probs", "targets", "input_lengths", "target_lengths"},
    .min_inputs = 4,
    .max_inputs = 4,
    .index_inputs = 7u << 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(BLANK, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_ctc_loss_backward = {
    .inputs = {"log_probs", "grad", "targets", "input_lengths", "target_lengths"},
    .min_inputs = 5,
    .max_inputs = 5,
    .index_inputs = 7u << 2,
    .n_attrs = 1,
    .attrs = {OPTIONAL(BLANK, IDENTITY, 0)},
};
