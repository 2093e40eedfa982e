// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of the deformable convolution: offsets that reach outside, groups of both kinds,
// with and without mask and bias, offsets that are no numbers.
#include "samples_internal.h"

typedef struct deform_case {
    int64_t x[4];
    int64_t outputs;
    int64_t kernel[2];
    int64_t out[2];
    int64_t strides[2];
    int64_t padding[4];
    int64_t dilations[2];
    int64_t groups;
    int64_t offset_groups;
    unsigned inputs; ///< of deform_conv
} deform_case;

static const deform_case deform_cases[] = {
    {{1, 1, 3, 3}, 1, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, 1, 4},
    {{2, 4, 6, 5}, 6, {3, 2}, {3, 5}, {2, 1}, {1, 0, 1, 1}, {1, 1}, 2, 2, 5},
    {{1, 3, 5, 7}, 2, {2, 3}, {3, 7}, {1, 1}, {0, 1, 0, 1}, {2, 1}, 1, 1, 3},
    {{1, 2, 4, 19}, 5, {1, 2}, {4, 18}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, 2, 5},
    {{0, 2, 4, 4}, 2, {2, 2}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, 1, 4},
};
enum { N_DEFORM_CASES = sizeof(deform_cases) / sizeof(deform_cases[0]) };

static kilni_sample_tensor filled_tensor(int64_t a, int64_t b, int64_t c, int64_t d,
                                         kilni_fill fill)
{
    return (kilni_sample_tensor){.rank = 4, .dims = {a, b, c, d}, .fill = fill};
}

static kilni_sample_tensor per_window(const deform_case *c, int64_t each, kilni_fill fill)
{
    return filled_tensor(c->x[0], each * c->kernel[0] * c->kernel[1] * c->offset_groups, c->out[0],
                         c->out[1], fill);
}

static kilni_sample_tensor x_of(const deform_case *c)
{
    return filled_tensor(c->x[0], c->x[1], c->x[2], c->x[3], KILNI_FILL_SMALL);
}

static kilni_sample_tensor weight_of(const deform_case *c)
{
    return filled_tensor(c->outputs, c->x[1] / c->groups, c->kernel[0], c->kernel[1],
                         KILNI_FILL_SMALL);
}

/// kernel, strides, padding, dilations, offset_groups
static void column_attrs(const deform_case *c, kiln_attr out_attrs[5])
{
    out_attrs[0] = kilni_attr_ints(c->kernel, 2);
    out_attrs[1] = kilni_attr_ints(c->strides, 2);
    out_attrs[2] = kilni_attr_ints(c->padding, 4);
    out_attrs[3] = kilni_attr_ints(c->dilations, 2);
    out_attrs[4] = kilni_attr_i64(c->offset_groups);
}

void kiln_samples_deform_im2col(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < 2 * N_DEFORM_CASES; i++) {
        const deform_case *c = &deform_cases[i / 2];
        const kilni_sample_tensor one = {.rank = 0, .fill = KILNI_FILL_POSITIVE};
        const kilni_sample_tensor inputs[3] = {
            x_of(c), per_window(c, 2, i == 3 ? KILNI_FILL_SPECIAL : KILNI_FILL_SMALL),
            i % 3 == 0 ? one : per_window(c, 1, KILNI_FILL_SMALL)};
        kiln_attr attrs[5];
        column_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, (uint16_t)(2 + i % 2), attrs);
    }
}

void kiln_samples_deform_im2col_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_DEFORM_CASES; i++) {
        const deform_case *c = &deform_cases[i];
        const kilni_sample_tensor inputs[4] = {
            x_of(c),
            per_window(c, 2, KILNI_FILL_SMALL),
            per_window(c, 1, KILNI_FILL_SMALL),
            {.rank = 3,
             .dims = {c->x[0], c->x[1] * c->kernel[0] * c->kernel[1], c->out[0] * c->out[1]},
             .fill = KILNI_FILL_SMALL}};
        kiln_attr attrs[5];
        column_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, 4, attrs);
    }
}

/// strides, padding, dilations, groups, offset_groups
static void deform_attrs(const deform_case *c, kiln_attr out_attrs[5])
{
    out_attrs[0] = kilni_attr_ints(c->strides, 2);
    out_attrs[1] = kilni_attr_ints(c->padding, 4);
    out_attrs[2] = kilni_attr_ints(c->dilations, 2);
    out_attrs[3] = kilni_attr_i64(c->groups);
    out_attrs[4] = kilni_attr_i64(c->offset_groups);
}

void kiln_samples_deform_conv(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_DEFORM_CASES; i++) {
        const deform_case *c = &deform_cases[i];
        const kilni_sample_tensor inputs[5] = {
            x_of(c),
            per_window(c, 2, KILNI_FILL_SMALL),
            weight_of(c),
            per_window(c, 1, KILNI_FILL_SMALL),
            {.rank = 1, .dims = {c->outputs}, .fill = KILNI_FILL_SMALL}};
        kiln_attr attrs[5];
        deform_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, (uint16_t)c->inputs, attrs);
    }
}

void kiln_samples_deform_conv_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_DEFORM_CASES; i++) {
        const deform_case *c = &deform_cases[i];
        const kilni_sample_tensor inputs[5] = {
            x_of(c), per_window(c, 2, KILNI_FILL_SMALL), weight_of(c),
            per_window(c, 1, KILNI_FILL_SMALL),
            filled_tensor(c->x[0], c->outputs, c->out[0], c->out[1], KILNI_FILL_SMALL)};
        kiln_attr attrs[5];
        deform_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, 5, attrs);
    }
}
