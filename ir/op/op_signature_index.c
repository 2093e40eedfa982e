// SPDX-License-Identifier: MIT OR Apache-2.0
// Signatures of what takes and puts elements by index, arranges them anew, orders or finds them.
// What belongs to every signature is said in op_signature.c. Decides the order of inputs and
// attributes in records, and what absent ones stand for.
#include <math.h>

#include "op_signature_internal.h"

const kiln_op_signature kiln_signature_gather = {
    .inputs = {"x", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_gather_nd = {
    .inputs = {"x", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(BATCH_DIMS, IDENTITY, 0)},
};

#define UPDATE_MODE                                                                                \
    {                                                                                              \
        .key = KILN_KEY_MODE, .role = KILN_ROLE_IDENTITY, .optional = true,                        \
        .fallback_text = "assign"                                                                  \
    }

const kiln_op_signature kiln_signature_scatter = {
    .inputs = {"x", "values", "indices"},
    .min_inputs = 3,
    .max_inputs = 3,
    .index_inputs = 1u << 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, 0), UPDATE_MODE},
};

const kiln_op_signature kiln_signature_scatter_nd = {
    .inputs = {"x", "values", "indices"},
    .min_inputs = 3,
    .max_inputs = 3,
    .index_inputs = 1u << 2,
    .n_attrs = 1,
    .attrs = {UPDATE_MODE},
};

const kiln_op_signature kiln_signature_slice_assign = {
    .inputs = {"x", "value"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 3,
    .attrs = {REQUIRED(STARTS, HOST), REQUIRED(ENDS, HOST), OPTIONAL(STEPS, HOST, 1)},
};

const kiln_op_signature kiln_signature_embedding = {
    .inputs = {"weights", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
};

const kiln_op_signature kiln_signature_embedding_backward = {
    .inputs = {"grad", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(COUNT, HOST)},
};

const kiln_op_signature kiln_signature_one_hot = {
    .inputs = {"values", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 2,
    .attrs = {REQUIRED(COUNT, HOST), OPTIONAL(AXIS, IDENTITY, -1)},
};

const kiln_op_signature kiln_signature_reverse_sequence = {
    .inputs = {"x", "lengths"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, 0), OPTIONAL(BATCH_AXIS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_repeat = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(REPEATS, HOST)},
};

const kiln_op_signature kiln_signature_roll = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {REQUIRED(SHIFTS, HOST), OPTIONAL(AXES, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_blocks = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {REQUIRED(SIZE, HOST),
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "dcr"}},
};

const kiln_op_signature kiln_signature_cumulative = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(EXCLUSIVE, IDENTITY, 0),
              OPTIONAL(REVERSE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_sort = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(DESCENDING, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_sort_with_indices = {
    .inputs = {"x"},
    .outputs = {"values", "indices"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1), OPTIONAL(DESCENDING, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_top_k = {
    .inputs = {"x"},
    .outputs = {"values", "indices"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(COUNT, HOST), OPTIONAL(AXIS, IDENTITY, -1),
              OPTIONAL(DESCENDING, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_with_indices = {
    .inputs = {"x"},
    .outputs = {"values", "indices"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {REQUIRED(AXIS, IDENTITY), OPTIONAL(KEEPDIMS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_cross = {
    .inputs = {"a", "b"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1)},
};

const kiln_op_signature kiln_signature_argwhere = {
    .inputs = {"mask"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(COUNT, HOST)},
};

const kiln_op_signature kiln_signature_nms = {
    .inputs = {"boxes", "scores"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 4,
    .attrs = {REQUIRED(COUNT, HOST), OPTIONAL(OVERLAP, SCALAR, 0),
              OPTIONAL(LEAST, SCALAR, -HUGE_VAL), OPTIONAL(CENTER, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_concat = {
    .inputs = {"inputs"},
    .min_inputs = 1,
    .max_inputs = KILN_MAX_INPUTS,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_pad = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(PADDING, IDENTITY),
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "constant"},
              OPTIONAL(VALUE, SCALAR, 0)},
};
