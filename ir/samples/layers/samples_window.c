// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of operators over windows: one to three spatial axes, strides, dilations, groups,
// uneven padding, windows that hang over, lengths of 0 and 1. Sums get values of ordinary size,
// what only compares or moves gets the special values.
#include <string.h>

#include "samples_internal.h"

typedef struct int_list {
    uint32_t count;
    int64_t values[KILN_MAX_RANK];
} int_list;

static kiln_attr optional(const int_list *list)
{
    return list->count > 0 ? kilni_attr_ints(list->values, list->count) : kilni_attr_none();
}

static kilni_sample_tensor tensor_of(const int_list *shape, kilni_fill fill)
{
    kilni_sample_tensor tensor = {.rank = (uint8_t)shape->count, .fill = fill};
    memcpy(tensor.dims, shape->values, shape->count * sizeof(shape->values[0]));
    return tensor;
}

// ---- convolutions ----

typedef struct conv_case {
    int_list x;
    int_list weight;
    int_list y; ///< spatial lengths of the result
    bool bias;
    int_list strides;
    int_list padding;
    int_list dilations;
    int64_t groups;
} conv_case;

static const conv_case conv_cases[] = {
    {{4, {1, 1, 1, 1}}, {4, {1, 1, 1, 1}}, {2, {1, 1}}, false, {0}, {0}, {0}, 1},
    {{4, {2, 3, 8, 9}}, {4, {4, 3, 3, 3}}, {2, {8, 9}}, true, {0}, {4, {1, 1, 1, 1}}, {0}, 1},
    {{4, {1, 4, 7, 7}},
     {4, {6, 2, 3, 2}},
     {2, {4, 7}},
     true,
     {2, {2, 1}},
     {4, {0, 1, 2, 0}},
     {0},
     2},
    {{4, {2, 4, 9, 8}},
     {4, {4, 1, 3, 3}},
     {2, {5, 4}},
     false,
     {2, {2, 2}},
     {4, {2, 2, 2, 2}},
     {2, {2, 2}},
     4},
    {{4, {0, 2, 5, 5}}, {4, {3, 2, 3, 3}}, {2, {3, 3}}, true, {0}, {0}, {0}, 1},
    {{4, {1, 2, 3, 3}}, {4, {0, 2, 3, 3}}, {2, {1, 1}}, false, {0}, {0}, {0}, 1},
    {{4, {1, 8, 6, 6}}, {4, {5, 8, 1, 1}}, {2, {2, 2}}, true, {2, {3, 3}}, {0}, {0}, 1},
    {{4, {1, 1, 4, 20}},
     {4, {2, 1, 1, 7}},
     {2, {4, 4}},
     true,
     {2, {1, 2}},
     {4, {0, 3, 0, 3}},
     {2, {1, 3}},
     1},
    {{3, {2, 3, 11}}, {3, {4, 3, 3}}, {1, {6}}, true, {1, {2}}, {2, {1, 1}}, {0}, 1},
    {{3, {1, 6, 40}}, {3, {18, 2, 5}}, {1, {40}}, true, {0}, {2, {4, 4}}, {1, {2}}, 3},
    {{5, {1, 2, 3, 4, 5}},
     {5, {3, 2, 2, 3, 2}},
     {3, {4, 2, 4}},
     true,
     {0},
     {6, {1, 0, 0, 1, 0, 0}},
     {0},
     1},
    {{5, {2, 4, 5, 4, 6}},
     {5, {8, 2, 3, 1, 2}},
     {3, {3, 2, 3}},
     false,
     {3, {2, 3, 2}},
     {6, {1, 1, 0, 1, 0, 1}},
     {3, {1, 1, 2}},
     2},
    {{4, {1, 20, 9, 13}}, {4, {19, 20, 3, 3}}, {2, {9, 13}}, true, {0}, {4, {1, 1, 1, 1}}, {0}, 1},
    {{4, {1, 9, 5, 8}}, {4, {33, 9, 1, 1}}, {2, {5, 8}}, true, {0}, {0}, {0}, 1},
    {{4, {1, 3, 10, 67}},
     {4, {16, 3, 3, 3}},
     {2, {5, 34}},
     false,
     {2, {2, 2}},
     {4, {1, 1, 1, 1}},
     {0},
     1},
};
enum { N_CONV_CASES = sizeof(conv_cases) / sizeof(conv_cases[0]) };

/// strides, padding, dilations, groups
static void conv_attrs(const conv_case *c, kiln_attr out_attrs[4])
{
    out_attrs[0] = optional(&c->strides);
    out_attrs[1] = optional(&c->padding);
    out_attrs[2] = optional(&c->dilations);
    out_attrs[3] = kilni_attr_i64(c->groups);
}

static kilni_sample_tensor conv_result(const conv_case *c)
{
    int_list shape = {2 + c->y.count, {c->x.values[0], c->weight.values[0]}};
    memcpy(&shape.values[2], c->y.values, c->y.count * sizeof(c->y.values[0]));
    return tensor_of(&shape, KILNI_FILL_SMALL);
}

void kiln_samples_conv(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_CONV_CASES; i++) {
        const conv_case *c = &conv_cases[i];
        const kilni_sample_tensor inputs[3] = {
            tensor_of(&c->x, KILNI_FILL_SMALL),
            tensor_of(&c->weight, KILNI_FILL_SMALL),
            {.rank = 1, .dims = {c->weight.values[0]}, .fill = KILNI_FILL_SMALL}};
        kiln_attr attrs[4];
        conv_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, c->bias ? 3 : 2, attrs);
    }
}

/// i8 and u8 with each other; other integers are refused and get no sample of their own.
void kiln_samples_conv_integer(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kiln_dtype narrow = kiln_dtype_kind_of(dtype) == KILN_KIND_INT ? KILN_DTYPE_I8 : KILN_DTYPE_U8;
    for (unsigned i = 0; i < N_CONV_CASES; i++) {
        const conv_case *c = &conv_cases[i];
        kiln_dtype other = i % 3 == 0 ? KILN_DTYPE_I8 : KILN_DTYPE_U8;
        kilni_sample_tensor inputs[4] = {tensor_of(&c->x, KILNI_FILL_SPECIAL),
                                         tensor_of(&c->weight, KILNI_FILL_SPECIAL),
                                         {.rank = 0, .fill = KILNI_FILL_POSITIVE, .dtype = narrow},
                                         {.rank = i % 2,
                                          .dims = {c->weight.values[0]},
                                          .fill = KILNI_FILL_SMALL,
                                          .dtype = other}};
        inputs[0].dtype = narrow;
        inputs[1].dtype = other;
        kiln_attr attrs[4];
        conv_attrs(c, attrs);
        kilni_sample_emit(sink, op, dtype, inputs, (uint16_t)(2 + i % 3), attrs);
    }
}

void kiln_samples_conv_transpose(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        int_list x;
        int_list weight;
        bool bias;
        int_list strides;
        int_list padding;
        int_list dilations;
        int64_t groups;
        int_list output_padding;
    } cases[] = {
        {{4, {1, 1, 1, 1}}, {4, {1, 1, 1, 1}}, false, {0}, {0}, {0}, 1, {0}},
        {{4, {2, 3, 4, 5}},
         {4, {3, 2, 3, 3}},
         true,
         {2, {2, 3}},
         {4, {1, 1, 1, 1}},
         {0},
         1,
         {2, {1, 2}}},
        {{4, {1, 4, 3, 4}}, {4, {4, 3, 2, 3}}, true, {0}, {4, {0, 1, 1, 0}}, {2, {2, 1}}, 2, {0}},
        {{4, {1, 2, 3, 3}},
         {4, {2, 2, 2, 2}},
         true,
         {2, {2, 2}},
         {4, {1, 0, 0, 3}},
         {2, {3, 3}},
         1,
         {2, {2, 2}}},
        {{4, {1, 2, 2, 3}}, {4, {2, 2, 2, 2}}, true, {0}, {0}, {2, {4, 4}}, 1, {2, {3, 2}}},
        {{4, {0, 2, 3, 3}}, {4, {2, 2, 2, 2}}, false, {0}, {0}, {0}, 1, {0}},
        {{3, {2, 4, 9}}, {3, {4, 1, 4}}, true, {1, {2}}, {2, {1, 1}}, {0}, 4, {0}},
        {{3, {1, 2, 2}}, {3, {2, 2, 3}}, false, {0}, {2, {4, 0}}, {0}, 1, {1, {2}}},
        {{5, {1, 2, 2, 3, 2}},
         {5, {2, 3, 2, 2, 3}},
         true,
         {3, {2, 1, 2}},
         {6, {1, 0, 0, 0, 0, 1}},
         {0},
         1,
         {3, {1, 0, 1}}},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kilni_sample_tensor inputs[3] = {
            tensor_of(&cases[i].x, KILNI_FILL_SMALL),
            tensor_of(&cases[i].weight, KILNI_FILL_SMALL),
            {.rank = 1,
             .dims = {cases[i].weight.values[1] * cases[i].groups},
             .fill = KILNI_FILL_SMALL}};
        const kiln_attr attrs[5] = {optional(&cases[i].strides), optional(&cases[i].padding),
                                    optional(&cases[i].dilations), kilni_attr_i64(cases[i].groups),
                                    optional(&cases[i].output_padding)};
        kilni_sample_emit(sink, op, dtype, inputs, cases[i].bias ? 3 : 2, attrs);
    }
}

static void conv_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink, bool of_x)
{
    for (unsigned i = 0; i < N_CONV_CASES; i++) {
        const conv_case *c = &conv_cases[i];
        const int_list *shape = of_x ? &c->x : &c->weight;
        kilni_sample_tensor y = conv_result(c);
        kilni_sample_tensor other = tensor_of(of_x ? &c->weight : &c->x, KILNI_FILL_SMALL);
        const kilni_sample_tensor inputs[2] = {of_x ? y : other, of_x ? other : y};
        kiln_attr attrs[5] = {kilni_attr_ints(shape->values, shape->count)};
        conv_attrs(c, attrs + 1);
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

void kiln_samples_conv_x_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    conv_backward(op, dtype, sink, true);
}

void kiln_samples_conv_weight_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    conv_backward(op, dtype, sink, false);
}

/// conv_transpose goes from y to x: its gradient has the lengths of x. Every other sample has one
/// window less than fits, as output padding makes it.
static void turned_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink, bool of_x)
{
    for (unsigned i = 0; i < N_CONV_CASES; i++) {
        const conv_case *c = &conv_cases[i];
        kilni_sample_tensor y = conv_result(c);
        kilni_sample_tensor grad = tensor_of(&c->x, KILNI_FILL_SMALL);
        kilni_sample_tensor weight = tensor_of(&c->weight, KILNI_FILL_SMALL);
        y.dims[y.rank - 1] -= y.dims[y.rank - 1] > 1 ? i % 2 : 0;
        const kilni_sample_tensor inputs[2] = {of_x ? grad : y, of_x ? weight : grad};
        kiln_attr attrs[5] = {of_x ? kilni_attr_ints(y.dims, y.rank)
                                   : kilni_attr_ints(c->weight.values, c->weight.count)};
        conv_attrs(c, attrs + 1);
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

void kiln_samples_conv_transpose_x_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    turned_backward(op, dtype, sink, true);
}

void kiln_samples_conv_transpose_weight_backward(kiln_op op, kiln_dtype dtype,
                                                 kiln_sample_sink *sink)
{
    turned_backward(op, dtype, sink, false);
}

void kiln_samples_conv_bias_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int_list shapes[] = {
        {2, {3, 4}}, {3, {2, 3, 70}}, {4, {2, 5, 3, 4}}, {5, {2, 1, 3, 2, 4}}, {4, {0, 3, 2, 2}}};
    for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        kilni_sample_tensor grad = tensor_of(&shapes[i], KILNI_FILL_SMALL);
        kilni_sample_emit(sink, op, dtype, &grad, 1, NULL);
    }
}

// ---- pools and columns ----

typedef struct pool_case {
    int_list x;
    int_list kernel;
    int_list y; ///< spatial lengths of the result
    int_list strides;
    int_list padding;
    int_list dilations;
    bool ceil_mode;
} pool_case;

static const pool_case pool_cases[] = {
    {{4, {1, 1, 1, 1}}, {2, {1, 1}}, {2, {1, 1}}, {0}, {0}, {0}, false},
    {{4, {2, 3, 8, 9}}, {2, {2, 2}}, {2, {4, 4}}, {2, {2, 2}}, {0}, {0}, false},
    {{4, {2, 3, 9, 8}}, {2, {3, 2}}, {2, {5, 3}}, {2, {2, 3}}, {4, {1, 0, 1, 1}}, {0}, true},
    {{4, {1, 2, 7, 7}},
     {2, {3, 3}},
     {2, {5, 5}},
     {2, {1, 1}},
     {4, {1, 1, 1, 1}},
     {2, {2, 2}},
     false},
    {{4, {0, 2, 5, 5}}, {2, {2, 2}}, {2, {2, 2}}, {2, {2, 2}}, {0}, {0}, false},
    {{4, {1, 1, 6, 6}}, {2, {6, 6}}, {2, {1, 1}}, {0}, {0}, {0}, false},
    {{4, {1, 2, 5, 5}}, {2, {2, 2}}, {2, {3, 3}}, {2, {2, 2}}, {4, {1, 1, 1, 1}}, {0}, true},
    {{3, {2, 3, 41}}, {1, {5}}, {1, {21}}, {1, {2}}, {2, {2, 2}}, {0}, false},
    {{3, {1, 2, 7}}, {1, {2}}, {1, {4}}, {1, {2}}, {0}, {0}, true},
    {{5, {1, 2, 4, 5, 6}},
     {3, {2, 3, 2}},
     {3, {3, 3, 6}},
     {3, {2, 1, 1}},
     {6, {1, 0, 0, 1, 0, 1}},
     {0},
     false},
    {{5, {1, 2, 5, 4, 7}},
     {3, {2, 1, 3}},
     {3, {3, 4, 2}},
     {3, {2, 1, 2}},
     {0},
     {3, {1, 1, 2}},
     true},
};
enum { N_POOL_CASES = sizeof(pool_cases) / sizeof(pool_cases[0]) };

/// kernel, strides, padding, dilations, ceil_mode
static void pool_attrs(const pool_case *c, kiln_attr *out_attrs)
{
    out_attrs[0] = kilni_attr_ints(c->kernel.values, c->kernel.count);
    out_attrs[1] = optional(&c->strides);
    out_attrs[2] = optional(&c->padding);
    out_attrs[3] = optional(&c->dilations);
    out_attrs[4] = kilni_attr_bool(c->ceil_mode);
}

static kiln_attr pool_variant(kiln_op op, int variant)
{
    static const double exponents[] = {2, 1, 3};
    if (op == KILN_OP_LP_POOL) {
        return kilni_attr_f64(exponents[variant]);
    }
    return kilni_attr_bool(variant != 0);
}

void kiln_samples_pool(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    bool sums = op == KILN_OP_AVG_POOL || op == KILN_OP_LP_POOL;
    int variants = op == KILN_OP_LP_POOL ? 3 : op == KILN_OP_AVG_POOL ? 2 : 1;
    for (unsigned i = 0; i < N_POOL_CASES; i++) {
        const pool_case *c = &pool_cases[i];
        kilni_sample_tensor x = tensor_of(&c->x, sums         ? KILNI_FILL_SMALL
                                                 : i % 2 == 0 ? KILNI_FILL_SPECIAL
                                                              : KILNI_FILL_TIES);
        for (int variant = 0; variant < variants; variant++) {
            kiln_attr attrs[6];
            pool_attrs(c, attrs);
            attrs[5] = pool_variant(op, variant);
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

static kilni_sample_tensor pool_result(const pool_case *c, kilni_fill fill)
{
    int_list shape = {2 + c->y.count, {c->x.values[0], c->x.values[1]}};
    memcpy(&shape.values[2], c->y.values, c->y.count * sizeof(c->y.values[0]));
    return tensor_of(&shape, fill);
}

static int64_t plane_of(const int_list *shape)
{
    int64_t plane = 1;
    for (uint32_t i = 2; i < shape->count; i++) {
        plane *= shape->values[i];
    }
    return plane;
}

void kiln_samples_max_pool_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_POOL_CASES; i++) {
        const pool_case *c = &pool_cases[i];
        kilni_sample_tensor inputs[2] = {pool_result(c, KILNI_FILL_SMALL),
                                         pool_result(c, KILNI_FILL_INDEX)};
        inputs[1].limit = plane_of(&c->x);
        inputs[1].dtype = i % 2 == 0 ? KILN_DTYPE_I64 : KILN_DTYPE_I32;
        kiln_attr attrs[6] = {kilni_attr_ints(c->x.values, c->x.count)};
        pool_attrs(c, attrs + 1);
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

void kiln_samples_avg_pool_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < 2 * N_POOL_CASES; i++) {
        const pool_case *c = &pool_cases[i / 2];
        kilni_sample_tensor grad = pool_result(c, KILNI_FILL_SMALL);
        kiln_attr attrs[7] = {kilni_attr_ints(c->x.values, c->x.count)};
        pool_attrs(c, attrs + 1);
        attrs[6] = kilni_attr_bool(i % 2 != 0);
        kilni_sample_emit(sink, op, dtype, &grad, 1, attrs);
    }
}

static const struct {
    int_list x;
    int_list size;
} adaptive_cases[] = {
    {{4, {1, 1, 1, 1}}, {2, {1, 1}}}, {{4, {2, 3, 8, 9}}, {2, {4, 4}}},
    {{4, {1, 2, 5, 3}}, {2, {7, 5}}}, {{3, {2, 3, 41}}, {1, {7}}},
    {{3, {1, 2, 4}}, {1, {0}}},       {{5, {1, 2, 4, 5, 6}}, {3, {3, 1, 6}}},
    {{4, {0, 2, 4, 4}}, {2, {2, 2}}},
};

void kiln_samples_adaptive_pool(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    bool sums = op == KILN_OP_ADAPTIVE_AVG_POOL;
    for (unsigned i = 0; i < sizeof(adaptive_cases) / sizeof(adaptive_cases[0]); i++) {
        const int_list *size = &adaptive_cases[i].size;
        kilni_sample_tensor x =
            tensor_of(&adaptive_cases[i].x, sums ? KILNI_FILL_SMALL : KILNI_FILL_SPECIAL);
        const kiln_attr attr = kilni_attr_ints(size->values, size->count);
        kilni_sample_emit(sink, op, dtype, &x, 1, &attr);
    }
}

void kiln_samples_adaptive_pool_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < sizeof(adaptive_cases) / sizeof(adaptive_cases[0]); i++) {
        const int_list *shape = &adaptive_cases[i].x;
        kilni_sample_tensor grad = tensor_of(shape, KILNI_FILL_SMALL);
        memcpy(&grad.dims[2], adaptive_cases[i].size.values,
               adaptive_cases[i].size.count * sizeof(grad.dims[0]));
        const kiln_attr attr = kilni_attr_ints(shape->values, shape->count);
        kilni_sample_emit(sink, op, dtype, &grad, 1, &attr);
    }
}

void kiln_samples_max_unpool(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_POOL_CASES; i++) {
        const pool_case *c = &pool_cases[i];
        kilni_sample_tensor inputs[2] = {pool_result(c, KILNI_FILL_SPECIAL),
                                         pool_result(c, KILNI_FILL_INDEX)};
        inputs[1].limit = plane_of(&c->x);
        inputs[1].dtype = i % 2 == 0 ? KILN_DTYPE_I64 : KILN_DTYPE_I32;
        const kiln_attr attr = kilni_attr_ints(c->x.values, c->x.count);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &attr);
    }
}

void kiln_samples_im2col(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_POOL_CASES; i++) {
        if (!pool_cases[i].ceil_mode) {
            kilni_sample_tensor x = tensor_of(&pool_cases[i].x, KILNI_FILL_SPECIAL);
            kiln_attr attrs[5];
            pool_attrs(&pool_cases[i], attrs);
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_col2im(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_POOL_CASES; i++) {
        const pool_case *c = &pool_cases[i];
        int_list shape = {3, {c->x.values[0], c->x.values[1], 1}};
        for (uint32_t k = 0; k < c->kernel.count; k++) {
            shape.values[1] *= c->kernel.values[k];
            shape.values[2] *= c->y.values[k];
        }
        if (!c->ceil_mode) {
            kilni_sample_tensor columns = tensor_of(&shape, KILNI_FILL_SMALL);
            kiln_attr attrs[6] = {kilni_attr_ints(&c->x.values[2], c->x.count - 2)};
            pool_attrs(c, attrs + 1);
            kilni_sample_emit(sink, op, dtype, &columns, 1, attrs);
        }
    }
}
