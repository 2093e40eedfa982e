// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of operators that go along one axis in order. Sorts get the special values and few
// different ones, so that equals meet; sums and products have ordinary size, except in one short
// case where infinities and NaN pass through.
#include "samples_internal.h"

#define COUNT_OF(cases) (sizeof(cases) / sizeof((cases)[0]))

typedef struct axis_case {
    kilni_sample_tensor x;
    int64_t axis;
} axis_case;

static const axis_case axes[] = {
    {{.rank = 1, .dims = {1}}, 0},        {{.rank = 1, .dims = {70}}, -1},
    {{.rank = 2, .dims = {5, 301}}, 1},   {{.rank = 2, .dims = {37, 20}}, 0},
    {{.rank = 3, .dims = {2, 17, 3}}, 1}, {{.rank = 4, .dims = {2, 3, 4, 5}}, -3},
    {{.rank = 2, .dims = {3, 0}}, 1},     {{.rank = 2, .dims = {0, 3}}, 1},
    {{.rank = 1, .dims = {2500}}, 0},
};

void kiln_samples_cumulative(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    bool computes = op == KILN_OP_CUM_SUM || op == KILN_OP_CUM_PROD;
    for (size_t i = 0; i < COUNT_OF(axes); i++) {
        kilni_sample_tensor x = axes[i].x;
        bool is_product = op == KILN_OP_CUM_PROD && kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
        x.fill = computes ? KILNI_FILL_SMALL : KILNI_FILL_SPECIAL;
        for (int way = 0; way < 4; way++) {
            const kiln_attr attrs[] = {
                kilni_attr_i64(axes[i].axis),
                (way & 1) != 0 ? kilni_attr_bool(true) : kilni_attr_none(),
                (way & 2) != 0 ? kilni_attr_bool(true) : kilni_attr_none(),
            };
            if (!is_product || x.dims[0] < 1000) {
                kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
            }
        }
    }
    const kilni_sample_tensor few = {.rank = 2, .dims = {12, 4}};
    const kiln_attr down[] = {kilni_attr_i64(0), kilni_attr_none(), kilni_attr_none()};
    kilni_sample_emit(sink, op, dtype, &few, 1, down);
}

void kiln_samples_sort(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (size_t i = 0; i < COUNT_OF(axes); i++) {
        for (int way = 0; way < 4; way++) {
            kilni_sample_tensor x = axes[i].x;
            x.fill = (way & 1) != 0 ? KILNI_FILL_TIES : KILNI_FILL_SPECIAL;
            const kiln_attr attrs[] = {kilni_attr_i64(axes[i].axis),
                                       (way & 2) != 0 ? kilni_attr_bool(true) : kilni_attr_none()};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_top_k(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t counts[COUNT_OF(axes)] = {1, 5, 3, 37, 0, 2, 0, 2, 7};
    for (size_t i = 0; i < COUNT_OF(axes); i++) {
        for (int way = 0; way < 4; way++) {
            kilni_sample_tensor x = axes[i].x;
            x.fill = (way & 1) != 0 ? KILNI_FILL_TIES : KILNI_FILL_SPECIAL;
            const kiln_attr attrs[] = {kilni_attr_i64(counts[i]), kilni_attr_i64(axes[i].axis),
                                       (way & 2) != 0 ? kilni_attr_bool(false) : kilni_attr_none()};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_with_indices(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (size_t i = 0; i < COUNT_OF(axes); i++) {
        if (i == 6) { // nothing to point to
            continue;
        }
        for (int way = 0; way < 4; way++) {
            kilni_sample_tensor x = axes[i].x;
            x.fill = (way & 1) != 0 ? KILNI_FILL_TIES : KILNI_FILL_SPECIAL;
            const kiln_attr attrs[] = {kilni_attr_i64(axes[i].axis),
                                       (way & 2) != 0 ? kilni_attr_bool(true) : kilni_attr_none()};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_cross(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor inputs[2];
        int64_t axis;
    } cases[] = {
        {{{.rank = 1, .dims = {3}}, {.rank = 1, .dims = {3}}}, -1},
        {{{.rank = 2, .dims = {7, 3}}, {.rank = 2, .dims = {7, 3}}}, 1},
        {{{.rank = 3, .dims = {2, 3, 20}}, {.rank = 3, .dims = {2, 3, 20}}}, 1},
        {{{.rank = 3, .dims = {4, 1, 3}}, {.rank = 2, .dims = {5, 3}}}, -1},
        {{{.rank = 2, .dims = {3, 0}}, {.rank = 2, .dims = {3, 0}}}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kilni_sample_tensor inputs[] = {cases[i].inputs[0], cases[i].inputs[1]};
        inputs[0].fill = inputs[1].fill = KILNI_FILL_SMALL;
        kiln_attr axis = cases[i].axis == -1 ? kilni_attr_none() : kilni_attr_i64(cases[i].axis);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &axis);
    }
}
