// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of activations and their derivatives: every special value once, and values of
// ordinary size in every kind of shape, which the tolerances then compare closely.
#include "samples_internal.h"

static const kilni_sample_tensor nn_shapes[] = {
    {.rank = 0, .fill = KILNI_FILL_SMALL},
    {.rank = 1, .dims = {0}, .fill = KILNI_FILL_SMALL},
    {.rank = 1, .dims = {101}, .fill = KILNI_FILL_SMALL},
    {.rank = 2, .dims = {17, 5}, .fill = KILNI_FILL_SMALL},
    {.rank = 4, .dims = {2, 3, 1, 5}, .fill = KILNI_FILL_SMALL},
    {.rank = 8, .dims = {1, 2, 1, 3, 2, 1, 2, 3}, .fill = KILNI_FILL_SMALL},
};
enum { N_SHAPES = sizeof(nn_shapes) / sizeof(nn_shapes[0]) };

/// The i-th choice of attributes that an activation is tried with: absent, then others.
static void numbers_of(kiln_op op, unsigned i, kiln_attr attrs[2])
{
    attrs[0] = attrs[1] = kilni_attr_none();
    if (op == KILN_OP_GELU_BACKWARD) {
        attrs[0] = i % 3 == 0 ? kilni_attr_none() : kilni_attr_bool(i % 3 == 1);
    } else if (i % 2 == 1) {
        attrs[0] = kilni_attr_f64(0.25);
        attrs[1] = kilni_attr_f64(0.75);
    }
}

void kiln_samples_activation(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const kilni_sample_tensor line = {.rank = 1, .dims = {kilni_special_count(dtype) + 3}};
    kiln_attr attrs[2];
    for (unsigned i = 0; i < N_SHAPES; i++) {
        numbers_of(op, i, attrs);
        kilni_sample_emit(sink, op, dtype, &nn_shapes[i], 1, attrs);
        kilni_sample_emit(sink, op, dtype, &line, 1, attrs);
    }
}

void kiln_samples_activation_2(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const int64_t n = kilni_special_count(dtype);
    const kilni_sample_tensor all[2] = {
        {.rank = 1, .dims = {n}},
        {.rank = 2, .dims = {3, 1}, .fill = KILNI_FILL_SMALL},
    };
    kiln_attr attrs[2];
    for (unsigned i = 0; i < N_SHAPES; i++) {
        const kilni_sample_tensor same[2] = {nn_shapes[i], nn_shapes[i]};
        const kilni_sample_tensor one[2] = {nn_shapes[i], nn_shapes[0]};
        numbers_of(op, i, attrs);
        kilni_sample_emit(sink, op, dtype, same, 2, attrs);
        kilni_sample_emit(sink, op, dtype, one, 2, attrs);
    }
    for (unsigned i = 0; i < 3; i++) {
        numbers_of(op, i, attrs);
        kilni_sample_emit(sink, op, dtype, all, 2, attrs);
    }
}
