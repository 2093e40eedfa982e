// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of elementwise operators: special values against each other, every rank, lengths 0
// and 1, broadcasting along all kinds of axes, every scalar that a dtype's kind has.
#include "samples_internal.h"

static const kilni_sample_tensor elementwise_shapes[] = {
    {.rank = 0},
    {.rank = 1, .dims = {1}},
    {.rank = 1, .dims = {0}},
    {.rank = 1, .dims = {61}},
    {.rank = 2, .dims = {17, 5}},
    {.rank = 3, .dims = {2, 0, 3}},
    {.rank = 4, .dims = {2, 3, 4, 5}},
    {.rank = 8, .dims = {1, 2, 1, 3, 2, 1, 2, 3}},
};
enum { N_SHAPES = sizeof(elementwise_shapes) / sizeof(elementwise_shapes[0]) };

void kiln_samples_unary(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const kiln_attr slopes[] = {kilni_attr_none(), kilni_attr_f64(0.25)};
    for (unsigned i = 0; i < N_SHAPES; i++) {
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[i], 1, &slopes[i % 2]);
    }
}

void kiln_samples_gelu(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const kiln_attr ways[] = {kilni_attr_none(), kilni_attr_bool(true), kilni_attr_bool(false)};
    kilni_sample_tensor line = {.rank = 1, .dims = {101}, .fill = KILNI_FILL_SMALL};
    for (unsigned i = 0; i < N_SHAPES; i++) {
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[i], 1, &ways[i % 3]);
        kilni_sample_emit(sink, op, dtype, &line, 1, &ways[i % 3]);
    }
}

void kiln_samples_scalar(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kilni_sample_tensor line = {.rank = 1, .dims = {kilni_special_count(dtype) + 3}};
    kiln_attr value = kilni_sample_number(dtype, 0);
    for (unsigned i = 0; value.type != KILN_ATTR_NONE; i++) {
        kilni_sample_emit(sink, op, dtype, &line, 1, &value);
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[i % N_SHAPES], 1, &value);
        value = kilni_sample_number(dtype, i + 1);
    }
}

static const kilni_sample_tensor shape_pairs[][2] = {
    {{.rank = 0}, {.rank = 0}},
    {{.rank = 1, .dims = {33}}, {.rank = 1, .dims = {33}}},
    {{.rank = 1, .dims = {4}}, {.rank = 0}},
    {{.rank = 0}, {.rank = 2, .dims = {3, 5}}},
    {{.rank = 1, .dims = {0}}, {.rank = 1, .dims = {1}}},
    {{.rank = 2, .dims = {5, 1}}, {.rank = 2, .dims = {1, 0}}},
    {{.rank = 3, .dims = {3, 1, 5}}, {.rank = 2, .dims = {7, 1}}},
    {{.rank = 2, .dims = {64, 3}}, {.rank = 1, .dims = {3}}},
    {{.rank = 4, .dims = {2, 3, 1, 5}}, {.rank = 4, .dims = {2, 1, 4, 5}}},
    {{.rank = 8, .dims = {2, 1, 2, 1, 3, 1, 2, 2}}, {.rank = 5, .dims = {2, 1, 3, 1, 2}}},
};
enum { N_PAIRS = sizeof(shape_pairs) / sizeof(shape_pairs[0]) };

void kiln_samples_binary(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    int64_t n = kilni_special_count(dtype);
    kilni_sample_tensor all[2] = {{.rank = 2, .dims = {n, 1}}, {.rank = 1, .dims = {n}}};
    kilni_sample_emit(sink, op, dtype, all, 2, NULL);
    for (unsigned i = 0; i < N_PAIRS; i++) {
        kilni_sample_emit(sink, op, dtype, shape_pairs[i], 2, NULL);
    }
}

void kiln_samples_clamp(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kilni_sample_tensor line = {.rank = 1, .dims = {kilni_special_count(dtype) + 3}};
    for (unsigned i = 0; i < 4; i++) {
        kiln_attr bounds[2] = {kilni_sample_number(dtype, i), kilni_sample_number(dtype, i + 1)};
        kilni_sample_emit(sink, op, dtype, &line, 1, bounds);
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[2 * i], 1, bounds);
    }
    const kiln_attr unbounded[2] = {kilni_attr_f64(-1e308 * 10), kilni_attr_i64(6)};
    kilni_sample_emit(sink, op, dtype, &line, 1, unbounded);
}

/// Special values as numbers and as bits; where no bits are asked, they are far outside.
void kiln_samples_small(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kilni_sample_tensor line = {.rank = 1, .dims = {kilni_special_count(dtype) + 3}};
    kilni_sample_tensor few = {.rank = 2, .dims = {7, 37}, .fill = KILNI_FILL_SMALL};
    for (int to = KILN_DTYPE_F8E4M3FN; to <= KILN_DTYPE_F4E2M1; to++) {
        kiln_attr number = kilni_attr_i64(to);
        kilni_sample_emit(sink, op, dtype, &line, 1, &number);
        kilni_sample_emit(sink, op, dtype, &few, 1, &number);
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[to % N_SHAPES], 1, &number);
    }
}

static kilni_sample_tensor masked(kilni_sample_tensor tensor)
{
    tensor.fill = KILNI_FILL_MASK;
    tensor.dtype = KILN_DTYPE_BOOL;
    return tensor;
}

void kiln_samples_where(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_PAIRS; i++) {
        const kilni_sample_tensor by_shape[3] = {shape_pairs[i][0], shape_pairs[i][1],
                                                 masked(shape_pairs[i][1])};
        const kilni_sample_tensor by_one[3] = {shape_pairs[i][1], shape_pairs[i][1],
                                               masked(elementwise_shapes[0])};
        kilni_sample_emit(sink, op, dtype, by_shape, 3, NULL);
        kilni_sample_emit(sink, op, dtype, by_one, 3, NULL);
    }
}

void kiln_samples_mask_fill(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_PAIRS; i++) {
        const kilni_sample_tensor inputs[2] = {shape_pairs[i][0], masked(shape_pairs[i][1])};
        kiln_attr value = kilni_sample_number(dtype, i % 2);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &value);
    }
}

void kiln_samples_cast(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kilni_sample_tensor line = {.rank = 1, .dims = {kilni_special_count(dtype) + 3}};
    for (int to = 1; to < KILN_DTYPE_LIMIT; to++) {
        kiln_dtype_kind kind = kiln_dtype_kind_of((kiln_dtype)to);
        if (kind == KILN_KIND_QUANT || kind == KILN_KIND_SMALL) {
            continue;
        }
        kiln_attr target = kilni_attr_dtype((kiln_dtype)to);
        kilni_sample_emit(sink, op, dtype, &line, 1, &target);
        kilni_sample_emit(sink, op, dtype, &elementwise_shapes[to % N_SHAPES], 1, &target);
    }
}

void kiln_samples_full(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_SHAPES; i++) {
        kiln_attr value = kilni_sample_number(dtype, i);
        value = value.type != KILN_ATTR_NONE ? value : kilni_attr_i64(1);
        const kiln_attr attrs[3] = {
            kilni_attr_ints(elementwise_shapes[i].dims, elementwise_shapes[i].rank),
            kilni_attr_dtype(dtype), value};
        kilni_sample_emit(sink, op, dtype, NULL, 0, attrs);
    }
}

void kiln_samples_arange(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t counts[] = {0, 1, 5, 100};
    bool is_float = kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
    for (unsigned i = 0; i < 4; i++) {
        const kiln_attr attrs[4] = {kilni_attr_i64(counts[i]), kilni_attr_dtype(dtype),
                                    kilni_attr_i64(3),
                                    is_float ? kilni_attr_f64(-0.3) : kilni_attr_i64(7)};
        const kiln_attr plain[4] = {kilni_attr_i64(counts[i]), kilni_attr_dtype(dtype),
                                    kilni_attr_none(), kilni_attr_none()};
        kilni_sample_emit(sink, op, dtype, NULL, 0, attrs);
        kilni_sample_emit(sink, op, dtype, NULL, 0, plain);
    }
}

void kiln_samples_none(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    const kilni_sample_tensor input = {.rank = 1, .dims = {3}};
    kilni_sample_emit(sink, op, dtype, &input, 1, NULL);
}
