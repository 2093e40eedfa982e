// SPDX-License-Identifier: MIT OR Apache-2.0
// Signatures of what makes tensors from attributes: filled, random and quantised ones.
// What belongs to every signature is said in op_signature.c. Decides the order of inputs and
// attributes in records, and what absent ones stand for.
#include "op_signature_internal.h"

const kiln_op_signature kiln_signature_full = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 3,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), REQUIRED(VALUE, SCALAR)},
};

const kiln_op_signature kiln_signature_arange = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 4,
    .attrs = {REQUIRED(COUNT, HOST), REQUIRED(DTYPE, IDENTITY), OPTIONAL(START, SCALAR, 0),
              OPTIONAL(STEP, SCALAR, 1)},
};

const kiln_op_signature kiln_signature_eye = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 3,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), OPTIONAL(OFFSET, HOST, 0)},
};

/* Where the numbers are taken from; the runtime fills in what is absent. */
#define PLACE OPTIONAL(SEED, SCALAR, 0), OPTIONAL(STREAM, SCALAR, 0), OPTIONAL(POSITION, SCALAR, 0)

const kiln_op_signature kiln_signature_random_range = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 7,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), REQUIRED(MIN, SCALAR),
              REQUIRED(MAX, SCALAR), PLACE},
};

const kiln_op_signature kiln_signature_random_normal = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 7,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), OPTIONAL(MEAN, SCALAR, 0),
              OPTIONAL(DEVIATION, SCALAR, 1), PLACE},
};

const kiln_op_signature kiln_signature_random_bernoulli = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 6,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), OPTIONAL(PROBABILITY, SCALAR, 0.5),
              PLACE},
};

const kiln_op_signature kiln_signature_random_permutation = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 5,
    .attrs = {REQUIRED(COUNT, HOST), REQUIRED(DTYPE, IDENTITY), PLACE},
};

#define SCALE_DTYPE                                                                                \
    {                                                                                              \
        .key = KILN_KEY_SCALE_DTYPE, .role = KILN_ROLE_IDENTITY, .optional = true,                 \
        .fallback = KILN_DTYPE_F32                                                                 \
    }

const kiln_op_signature kiln_signature_quantize = {
    .inputs = {"x", "scales", "global"},
    .min_inputs = 2,
    .max_inputs = 3,
    .free_inputs = 1u << 1 | 1u << 2,
    .n_attrs = 2,
    .attrs = {REQUIRED(DTYPE, IDENTITY), OPTIONAL(BLOCKS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_dequantize = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .quant_inputs = 1u << 0,
    .n_attrs = 1,
    .attrs = {REQUIRED(DTYPE, IDENTITY)},
};

const kiln_op_signature kiln_signature_quantize_dynamic = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 4,
    .attrs = {REQUIRED(DTYPE, IDENTITY),
              OPTIONAL(BLOCKS, IDENTITY, 0),
              SCALE_DTYPE,
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "min_max"}},
};

const kiln_op_signature kiln_signature_quantized_scales = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .quant_inputs = 1u << 0,
};

const kiln_op_signature kiln_signature_matmul_quantized = {
    .inputs = {"a", "b"},
    .min_inputs = 2,
    .max_inputs = 2,
    .free_inputs = 1u << 0 | 1u << 1,
    .quant_inputs = 1u << 0 | 1u << 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(DTYPE, IDENTITY), OPTIONAL(TRANSPOSE_A, IDENTITY, 0),
              OPTIONAL(TRANSPOSE_B, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_linear_quantized = {
    .inputs = {"x", "weight", "bias"},
    .min_inputs = 2,
    .max_inputs = 3,
    .quant_inputs = 1u << 1,
};
