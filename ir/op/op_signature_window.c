// SPDX-License-Identifier: MIT OR Apache-2.0
// Signatures of what looks through windows or between elements: convolutions, pooling, resampling.
// What belongs to every signature is said in op_signature.c. Decides the order of inputs and
// attributes in records, and what absent ones stand for.
#include "op_signature_internal.h"

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
