// SPDX-License-Identifier: MIT OR Apache-2.0
// The signatures that ops.def names: inputs in order, and attributes with their role in plans and
// their value when absent. Data inputs come first, then masks and indices. A record carries its
// attributes in the order given here; what they mean for shapes is in shape_*.c, for elements in
// reference_*.c. Here: elementwise operators, views and reductions; the others by family in
// op_signature_*.c.
#include "op_signature_internal.h"

const kiln_op_signature kiln_signature_unary = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
};

const kiln_op_signature kiln_signature_binary = {
    .inputs = {"a", "b"},
    .min_inputs = 2,
    .max_inputs = 2,
};

const kiln_op_signature kiln_signature_scalar = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(VALUE, SCALAR)},
};

const kiln_op_signature kiln_signature_clamp = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {REQUIRED(MIN, SCALAR), REQUIRED(MAX, SCALAR)},
};

const kiln_op_signature kiln_signature_where = {
    .inputs = {"a", "b", "mask"},
    .min_inputs = 3,
    .max_inputs = 3,
    .mask_inputs = 1u << 2,
};

const kiln_op_signature kiln_signature_mask_fill = {
    .inputs = {"x", "mask"},
    .min_inputs = 2,
    .max_inputs = 2,
    .mask_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(VALUE, SCALAR)},
};

const kiln_op_signature kiln_signature_cast = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(DTYPE, IDENTITY)},
};

const kiln_op_signature kiln_signature_reshape = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(SHAPE, HOST)},
};

const kiln_op_signature kiln_signature_axes = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXES, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_slice = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(STARTS, HOST), REQUIRED(ENDS, HOST), OPTIONAL(STEPS, HOST, 1)},
};

const kiln_op_signature kiln_signature_reduce = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 2,
    .attrs = {OPTIONAL(AXES, IDENTITY, 0), OPTIONAL(KEEPDIMS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_argreduce = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(AXIS, IDENTITY), OPTIONAL(KEEPDIMS, IDENTITY, 0),
              OPTIONAL(LAST, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_unfold = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(AXIS, IDENTITY), REQUIRED(SIZE, HOST), OPTIONAL(STRIDE, HOST, 1)},
};

const kiln_op_signature kiln_signature_diagonal = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(OFFSET, HOST, 0)},
};

const kiln_op_signature kiln_signature_drop = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
};

// ---- collectives ----

const kiln_op_signature kiln_signature_all_reduce = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 3,
    .attrs = {REQUIRED(REDUCTION, IDENTITY), REQUIRED(GROUP, SCALAR), REQUIRED(MEMBER, SCALAR)},
};

const kiln_op_signature kiln_signature_collective_sync = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
};

// ---- operators of plugins ----

const kiln_op_signature kiln_signature_custom = {
    .inputs = {"inputs"},
    .min_inputs = 1,
    .max_inputs = KILN_MAX_INPUTS,
    .foreign = true,
    .n_attrs = 3,
    .attrs = {REQUIRED(NAME, IDENTITY), REQUIRED(VERSION, IDENTITY),
              REQUIRED(ATTRIBUTES, IDENTITY)},
};
