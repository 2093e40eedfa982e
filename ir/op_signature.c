// SPDX-License-Identifier: MIT OR Apache-2.0
// The signatures that ops.def names: inputs in order, and attributes with their role in plans and
// their value when absent. Data inputs come first, then masks and indices. A record carries its
// attributes in the order given here; what they mean for shapes is in shape_*.c, for elements in
// reference_*.c.
#include <math.h>

#include "ir_internal.h"

#define REQUIRED(id, kind)                                                                         \
    {                                                                                              \
        .key = KILN_KEY_##id, .role = KILN_ROLE_##kind                                             \
    }
#define OPTIONAL(id, kind, number)                                                                 \
    {                                                                                              \
        .key = KILN_KEY_##id, .role = KILN_ROLE_##kind, .optional = true, .fallback = (number)     \
    }

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

const kiln_op_signature kiln_signature_matmul = {
    .inputs = {"a", "b"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 2,
    .attrs = {OPTIONAL(TRANSPOSE_A, IDENTITY, 0), OPTIONAL(TRANSPOSE_B, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_conv = {
    .inputs = {"x", "weight", "bias"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 4,
    .attrs = {OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_conv_integer = {
    .inputs = {"x", "weight", "x_zero", "weight_zero"},
    .min_inputs = 2,
    .max_inputs = 4,
    .free_inputs = 1u << 1 | 1u << 2 | 1u << 3,
    .n_attrs = 4,
    .attrs = {OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_conv_transpose = {
    .inputs = {"x", "weight", "bias"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 5,
    .attrs = {OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1),
              OPTIONAL(OUTPUT_PADDING, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_conv_backward_of_weight = {
    .inputs = {"grad", "weight"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 5,
    .attrs = {REQUIRED(SHAPE, HOST), OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_conv_backward_of_x = {
    .inputs = {"x", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 5,
    .attrs = {REQUIRED(SHAPE, HOST), OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_conv_bias_backward = {
    .inputs = {"grad"},
    .min_inputs = 1,
    .max_inputs = 1,
};

const kiln_op_signature kiln_signature_deform_im2col = {
    .inputs = {"x", "offset", "mask"},
    .min_inputs = 2,
    .max_inputs = 3,
    .n_attrs = 5,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(OFFSET_GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_deform_im2col_backward = {
    .inputs = {"x", "offset", "mask", "grad"},
    .outputs = {"x_grad", "offset_grad", "mask_grad"},
    .min_inputs = 4,
    .max_inputs = 4,
    .n_attrs = 5,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(OFFSET_GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_deform_conv = {
    .inputs = {"x", "offset", "weight", "mask", "bias"},
    .min_inputs = 3,
    .max_inputs = 5,
    .n_attrs = 5,
    .attrs = {OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1),
              OPTIONAL(OFFSET_GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_deform_conv_backward = {
    .inputs = {"x", "offset", "weight", "mask", "grad"},
    .outputs = {"x_grad", "offset_grad", "weight_grad", "mask_grad", "bias_grad"},
    .min_inputs = 5,
    .max_inputs = 5,
    .n_attrs = 5,
    .attrs = {OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1), OPTIONAL(GROUPS, IDENTITY, 1),
              OPTIONAL(OFFSET_GROUPS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_im2col = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 4,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_col2im = {
    .inputs = {"columns"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 5,
    .attrs = {REQUIRED(OUTPUT_SIZE, HOST), REQUIRED(KERNEL, IDENTITY),
              OPTIONAL(STRIDES, IDENTITY, 1), OPTIONAL(PADDING, IDENTITY, 0),
              OPTIONAL(DILATIONS, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_pool = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 5,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_pool_with_indices = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = {"values", "indices"},
    .n_attrs = 5,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_avg_pool = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 6,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0), OPTIONAL(INCLUDE_PAD, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_lp_pool = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 6,
    .attrs = {REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0), OPTIONAL(P, IDENTITY, 2)},
};

const kiln_op_signature kiln_signature_max_pool_backward = {
    .inputs = {"grad", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 6,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_avg_pool_backward = {
    .inputs = {"grad"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 7,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(KERNEL, IDENTITY), OPTIONAL(STRIDES, IDENTITY, 1),
              OPTIONAL(PADDING, IDENTITY, 0), OPTIONAL(DILATIONS, IDENTITY, 1),
              OPTIONAL(CEIL_MODE, IDENTITY, 0), OPTIONAL(INCLUDE_PAD, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_adaptive_pool = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(OUTPUT_SIZE, IDENTITY)},
};

const kiln_op_signature kiln_signature_adaptive_pool_with_indices = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .outputs = {"values", "indices"},
    .n_attrs = 1,
    .attrs = {REQUIRED(OUTPUT_SIZE, IDENTITY)},
};

const kiln_op_signature kiln_signature_adaptive_pool_backward = {
    .inputs = {"grad"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(SHAPE, HOST)},
};

const kiln_op_signature kiln_signature_max_unpool = {
    .inputs = {"x", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {REQUIRED(SHAPE, HOST)},
};

const kiln_op_signature kiln_signature_interpolate = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 8,
    .attrs = {REQUIRED(OUTPUT_SIZE, HOST),
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "linear"},
              {.key = KILN_KEY_COORDINATES,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "half_pixel"},
              OPTIONAL(SCALES, IDENTITY, 0),
              OPTIONAL(REGION, IDENTITY, 0),
              OPTIONAL(CUBIC_A, IDENTITY, -0.75),
              OPTIONAL(EXCLUDE_OUTSIDE, IDENTITY, 0),
              OPTIONAL(ANTIALIAS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_interpolate_backward = {
    .inputs = {"grad"},
    .min_inputs = 1,
    .max_inputs = 1,
    .n_attrs = 8,
    .attrs = {REQUIRED(SHAPE, HOST),
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "linear"},
              {.key = KILN_KEY_COORDINATES,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "half_pixel"},
              OPTIONAL(SCALES, IDENTITY, 0),
              OPTIONAL(REGION, IDENTITY, 0),
              OPTIONAL(CUBIC_A, IDENTITY, -0.75),
              OPTIONAL(EXCLUDE_OUTSIDE, IDENTITY, 0),
              OPTIONAL(ANTIALIAS, IDENTITY, 0)},
};

const kiln_op_signature kiln_signature_grid_sample = {
    .inputs = {"x", "grid"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 4,
    .attrs = {{.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "linear"},
              {.key = KILN_KEY_PADDING_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "zeros"},
              OPTIONAL(ALIGN_CORNERS, IDENTITY, 0),
              OPTIONAL(CUBIC_A, IDENTITY, -0.75)},
};

const kiln_op_signature kiln_signature_roi_align = {
    .inputs = {"x", "boxes", "batch_indices"},
    .min_inputs = 3,
    .max_inputs = 3,
    .index_inputs = 1u << 2,
    .n_attrs = 5,
    .attrs = {REQUIRED(OUTPUT_SIZE, IDENTITY),
              {.key = KILN_KEY_MODE,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "avg"},
              {.key = KILN_KEY_COORDINATES,
               .role = KILN_ROLE_IDENTITY,
               .optional = true,
               .fallback_text = "half_pixel"},
              OPTIONAL(SAMPLING_RATIO, IDENTITY, 0),
              OPTIONAL(SPATIAL_SCALE, IDENTITY, 1)},
};

const kiln_op_signature kiln_signature_axis = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
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

const kiln_op_signature kiln_signature_gather = {
    .inputs = {"x", "indices"},
    .min_inputs = 2,
    .max_inputs = 2,
    .index_inputs = 1u << 1,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, 0)},
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

const kiln_op_signature kiln_signature_eye = {
    .min_inputs = 0,
    .max_inputs = 0,
    .n_attrs = 3,
    .attrs = {REQUIRED(SHAPE, HOST), REQUIRED(DTYPE, IDENTITY), OPTIONAL(OFFSET, HOST, 0)},
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

const kiln_op_signature kiln_signature_drop = {
    .inputs = {"x"},
    .min_inputs = 1,
    .max_inputs = 1,
};

// ---- activations
// ---------------------------------------------------------------------------------

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

// ---- normalisations
// ------------------------------------------------------------------------------

const kiln_op_signature kiln_signature_axis_backward = {
    .inputs = {"output", "grad"},
    .min_inputs = 2,
    .max_inputs = 2,
    .n_attrs = 1,
    .attrs = {OPTIONAL(AXIS, IDENTITY, -1)},
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

// ---- layers
// --------------------------------------------------------------------------------------

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
