// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of operators that are not elementwise: views, reductions, products, rows, gathers
// (windows: samples_window.c). Sums and products get values of ordinary size, whose result every
// order of adding agrees on within the tolerances; what only compares or moves gets the special
// values.
#include "samples_internal.h"

typedef struct int_list {
    uint32_t count;
    int64_t values[KILN_MAX_RANK * 2];
} int_list;

static kiln_attr ints(const int_list *list)
{
    return kilni_attr_ints(list->values, list->count);
}

// ---- views ----

typedef struct view_case {
    kilni_sample_tensor x;
    int_list list;
} view_case;

static void emit_views(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink, const view_case *cases,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_attr attr = ints(&cases[i].list);
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, &attr);
    }
}

#define EMIT_VIEWS(cases) emit_views(op, dtype, sink, cases, sizeof(cases) / sizeof((cases)[0]))

void kiln_samples_reshape(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const view_case cases[] = {
        {{.rank = 0}, {3, {1, 1, 1}}},
        {{.rank = 1, .dims = {1}}, {0, {0}}},
        {{.rank = 2, .dims = {6, 10}}, {3, {5, -1, 4}}},
        {{.rank = 3, .dims = {2, 3, 4}}, {1, {-1}}},
        {{.rank = 2, .dims = {0, 3}}, {3, {2, 0, 7}}},
        {{.rank = 1, .dims = {48}}, {8, {1, 2, 1, 2, 3, 2, 1, 2}}},
    };
    EMIT_VIEWS(cases);
}

void kiln_samples_expand(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const view_case cases[] = {
        {{.rank = 0}, {2, {3, 4}}},
        {{.rank = 1, .dims = {1}}, {1, {0}}},
        {{.rank = 2, .dims = {3, 1}}, {3, {2, -1, 5}}},
        {{.rank = 3, .dims = {1, 4, 1}}, {3, {6, 4, 3}}},
        {{.rank = 2, .dims = {0, 3}}, {3, {2, 0, 3}}},
        {{.rank = 2, .dims = {1, 3}}, {8, {1, 2, 1, 2, 1, 2, 2, 3}}},
    };
    EMIT_VIEWS(cases);
}

void kiln_samples_permute(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const view_case cases[] = {
        {{.rank = 0}, {0, {0}}},
        {{.rank = 1, .dims = {7}}, {1, {0}}},
        {{.rank = 2, .dims = {33, 17}}, {2, {1, 0}}},
        {{.rank = 3, .dims = {2, 3, 40}}, {0, {0}}},
        {{.rank = 4, .dims = {2, 5, 3, 4}}, {4, {0, 2, 3, 1}}},
        {{.rank = 4, .dims = {2, 5, 0, 4}}, {4, {-1, 2, 0, 1}}},
        {{.rank = 8, .dims = {1, 2, 3, 1, 2, 2, 1, 2}}, {8, {7, 1, 0, 2, 5, 4, 6, 3}}},
    };
    EMIT_VIEWS(cases);
}

void kiln_samples_flip(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const view_case cases[] = {
        {{.rank = 0}, {0, {0}}},
        {{.rank = 1, .dims = {41}}, {1, {0}}},
        {{.rank = 3, .dims = {4, 5, 3}}, {2, {0, -1}}},
        {{.rank = 3, .dims = {4, 5, 3}}, {0, {0}}},
        {{.rank = 2, .dims = {0, 3}}, {1, {1}}},
    };
    EMIT_VIEWS(cases);
}

void kiln_samples_slice(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int_list lists[3];
    } cases[] = {
        {{.rank = 0}, {{0, {0}}, {0, {0}}, {0, {0}}}},
        {{.rank = 1, .dims = {50}}, {{1, {3}}, {1, {47}}, {0, {0}}}},
        {{.rank = 1, .dims = {50}}, {{1, {-1}}, {1, {INT64_MIN}}, {1, {-3}}}},
        {{.rank = 2, .dims = {7, 9}}, {{2, {1, -4}}, {2, {INT64_MAX, -1}}, {2, {2, 1}}}},
        {{.rank = 3, .dims = {3, 4, 5}}, {{3, {0, 4, 1}}, {3, {3, 4, 2}}, {0, {0}}}},
        {{.rank = 2, .dims = {6, 6}}, {{2, {5, 0}}, {2, {0, 6}}, {2, {-2, INT64_MAX}}}},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kiln_attr attrs[3] = {ints(&cases[i].lists[0]), ints(&cases[i].lists[1]),
                                    cases[i].lists[2].count > 0 ? ints(&cases[i].lists[2])
                                                                : kilni_attr_none()};
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, attrs);
    }
}

// ---- reductions ----

static kilni_fill fill_of(kiln_op op)
{
    switch (op) {
    case KILN_OP_SUM:
    case KILN_OP_MEAN:
        return KILNI_FILL_SMALL;
    case KILN_OP_PROD:
        return KILNI_FILL_POSITIVE;
    default:
        return KILNI_FILL_SPECIAL;
    }
}

void kiln_samples_reduce(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const view_case cases[] = {
        {{.rank = 0}, {0, {0}}},
        {{.rank = 1, .dims = {1}}, {1, {0}}},
        {{.rank = 1, .dims = {0}}, {1, {0}}},
        {{.rank = 1, .dims = {301}}, {0, {0}}},
        {{.rank = 2, .dims = {3, 0}}, {1, {1}}},
        {{.rank = 2, .dims = {3, 0}}, {1, {0}}},
        {{.rank = 2, .dims = {37, 70}}, {1, {-1}}},
        {{.rank = 2, .dims = {70, 37}}, {1, {0}}},
        {{.rank = 3, .dims = {4, 5, 6}}, {1, {1}}},
        {{.rank = 3, .dims = {4, 5, 6}}, {2, {2, 0}}},
        {{.rank = 4, .dims = {2, 3, 1, 5}}, {0, {0}}},
        {{.rank = 8, .dims = {2, 1, 2, 3, 1, 2, 2, 3}}, {4, {1, 3, 5, 7}}},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_sample_tensor x = cases[i].x;
        x.fill = fill_of(op);
        for (int keepdims = 0; keepdims < 2; keepdims++) {
            const kiln_attr attrs[2] = {cases[i].list.count > 0 ? ints(&cases[i].list)
                                                                : kilni_attr_none(),
                                        kilni_attr_bool(keepdims != 0)};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}

void kiln_samples_argreduce(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis;
    } cases[] = {
        {{.rank = 1, .dims = {1}}, 0},
        {{.rank = 1, .dims = {70}}, -1},
        {{.rank = 2, .dims = {9, 41}, .fill = KILNI_FILL_TIES}, 1},
        {{.rank = 2, .dims = {41, 9}, .fill = KILNI_FILL_TIES}, 0},
        {{.rank = 3, .dims = {0, 5, 2}}, 1},
        {{.rank = 4, .dims = {2, 3, 4, 2}, .fill = KILNI_FILL_TIES}, 2},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int variant = 0; variant < 4; variant++) {
            const kiln_attr attrs[3] = {kilni_attr_i64(cases[i].axis),
                                        kilni_attr_bool((variant & 1) != 0),
                                        kilni_attr_bool((variant & 2) != 0)};
            kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, attrs);
        }
    }
}

// ---- products ----

typedef struct product_sample {
    kilni_sample_tensor inputs[2];
    bool transpose_a;
    bool transpose_b;
} product_sample;

static const product_sample product_samples[] = {
    {{{.rank = 2, .dims = {1, 1}}, {.rank = 2, .dims = {1, 1}}}, false, false},
    {{{.rank = 2, .dims = {5, 7}}, {.rank = 2, .dims = {7, 3}}}, false, false},
    {{{.rank = 2, .dims = {33, 17}}, {.rank = 2, .dims = {65, 17}}}, false, true},
    {{{.rank = 2, .dims = {17, 9}}, {.rank = 2, .dims = {17, 31}}}, true, false},
    {{{.rank = 2, .dims = {4, 6}}, {.rank = 2, .dims = {5, 4}}}, true, true},
    {{{.rank = 2, .dims = {3, 0}}, {.rank = 2, .dims = {0, 4}}}, false, false},
    {{{.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {3, 4}}}, false, false},
    {{{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {9}}}, false, false},
    {{{.rank = 1, .dims = {4}}, {.rank = 2, .dims = {4, 3}}}, false, false},
    {{{.rank = 2, .dims = {6, 4}}, {.rank = 1, .dims = {4}}}, false, false},
    {{{.rank = 3, .dims = {2, 3, 4}}, {.rank = 1, .dims = {4}}}, false, false},
    {{{.rank = 3, .dims = {3, 5, 4}}, {.rank = 3, .dims = {3, 4, 2}}}, false, false},
    {{{.rank = 4, .dims = {2, 1, 3, 4}}, {.rank = 3, .dims = {5, 2, 4}}}, false, true},
    {{{.rank = 2, .dims = {3, 4}}, {.rank = 4, .dims = {2, 2, 4, 5}}}, false, false},
    {{{.rank = 3, .dims = {2, 130, 66}}, {.rank = 2, .dims = {66, 67}}}, false, false},
};
enum { N_PRODUCT_SAMPLES = sizeof(product_samples) / sizeof(product_samples[0]) };

void kiln_samples_matmul(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_PRODUCT_SAMPLES; i++) {
        const product_sample *c = &product_samples[i];
        kilni_sample_tensor inputs[2] = {c->inputs[0], c->inputs[1]};
        inputs[0].fill = inputs[1].fill = KILNI_FILL_SMALL;
        const kiln_attr attrs[2] = {kilni_attr_bool(c->transpose_a),
                                    kilni_attr_bool(c->transpose_b)};
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

/// Rows of a, or columns of b.
static int64_t sample_lines(const kilni_sample_tensor *x, bool transpose, bool left)
{
    uint32_t axis = x->rank - (transpose == left ? 1u : 2u);
    return x->rank < 2 ? 1 : x->dims[axis];
}

/// i8 and u8 with each other; other integers are refused and get no sample of their own.
void kiln_samples_matmul_integer(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    kiln_dtype narrow = kiln_dtype_kind_of(dtype) == KILN_KIND_INT ? KILN_DTYPE_I8 : KILN_DTYPE_U8;
    for (unsigned i = 0; i < N_PRODUCT_SAMPLES; i++) {
        const product_sample *c = &product_samples[i];
        kiln_dtype other = i % 3 == 0 ? KILN_DTYPE_I8 : KILN_DTYPE_U8;
        kilni_sample_tensor inputs[4] = {c->inputs[0], c->inputs[1]};
        for (unsigned k = 0; k < 2; k++) {
            int64_t lines = sample_lines(&c->inputs[k], k == 0 ? c->transpose_a : c->transpose_b,
                                         /*left=*/k == 0);
            inputs[k].fill = KILNI_FILL_SPECIAL;
            inputs[k].dtype = k == 0 ? narrow : other;
            inputs[2 + k] = (kilni_sample_tensor){.rank = (i + k) % 2,
                                                  .dims = {(i + k) % 2 == 0 ? 0 : lines},
                                                  .fill = KILNI_FILL_SMALL,
                                                  .dtype = inputs[k].dtype};
        }
        const kiln_attr attrs[2] = {kilni_attr_bool(c->transpose_a),
                                    kilni_attr_bool(c->transpose_b)};
        kilni_sample_emit(sink, op, dtype, inputs, (uint16_t)(2 + i % 3), attrs);
    }
}

// ---- rows ----

void kiln_samples_axis(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis;
    } cases[] = {
        {{.rank = 1, .dims = {1}}, 0},
        {{.rank = 1, .dims = {10}, .fill = KILNI_FILL_SMALL}, -1},
        {{.rank = 2, .dims = {5, 300}, .fill = KILNI_FILL_SMALL}, 1},
        {{.rank = 2, .dims = {37, 5}, .fill = KILNI_FILL_SMALL}, 0},
        {{.rank = 3, .dims = {2, 0, 3}}, 1},
        {{.rank = 4, .dims = {2, 3, 4, 5}, .fill = KILNI_FILL_SMALL}, -3},
        {{.rank = 2, .dims = {12, 12}}, 1},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_attr axis = i == 1 ? kilni_attr_none() : kilni_attr_i64(cases[i].axis);
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, &axis);
    }
}

void kiln_samples_batch_norm(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const kilni_sample_tensor xs[] = {
        {.rank = 2, .dims = {4, 3}},
        {.rank = 4, .dims = {2, 3, 5, 7}},
        {.rank = 3, .dims = {2, 0, 5}},
        {.rank = 3, .dims = {3, 1, 4}},
    };
    for (unsigned i = 0; i < sizeof(xs) / sizeof(xs[0]); i++) {
        kilni_sample_tensor inputs[5] = {xs[i]};
        inputs[0].fill = KILNI_FILL_SMALL;
        for (unsigned k = 1; k < 5; k++) {
            inputs[k] =
                (kilni_sample_tensor){.rank = 1,
                                      .dims = {xs[i].dims[1]},
                                      .fill = k == 4 ? KILNI_FILL_POSITIVE : KILNI_FILL_SMALL};
        }
        kiln_attr epsilon = i % 2 == 0 ? kilni_attr_none() : kilni_attr_f64(0.01);
        kilni_sample_emit(sink, op, dtype, inputs, 5, &epsilon);
    }
}

// ---- gathers ----

typedef struct gather_case {
    kilni_sample_tensor x;
    kilni_sample_tensor indices;
    int64_t axis;
} gather_case;

static void emit_gathers(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink,
                         const gather_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kilni_sample_tensor inputs[2] = {cases[i].x, cases[i].indices};
        int64_t axis = cases[i].axis < 0 ? cases[i].axis + inputs[0].rank : cases[i].axis;
        inputs[1].fill = KILNI_FILL_INDEX;
        inputs[1].limit = inputs[0].dims[axis];
        inputs[1].dtype = i % 2 == 0 ? KILN_DTYPE_I64 : KILN_DTYPE_I32;
        kiln_attr attr = kilni_attr_i64(cases[i].axis);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &attr);
    }
}

void kiln_samples_gather(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const gather_case cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {20}}, 0},
        {{.rank = 2, .dims = {5, 7}}, {.rank = 2, .dims = {5, 3}}, 1},
        {{.rank = 2, .dims = {5, 7}}, {.rank = 2, .dims = {9, 6}}, 0},
        {{.rank = 3, .dims = {3, 4, 5}}, {.rank = 3, .dims = {2, 11, 4}}, -2},
        {{.rank = 2, .dims = {4, 3}}, {.rank = 2, .dims = {0, 3}}, 0},
        {{.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {0, 3}}, 0},
    };
    emit_gathers(op, dtype, sink, cases, sizeof(cases) / sizeof(cases[0]));
}

void kiln_samples_select(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const gather_case cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {20}}, 0},
        {{.rank = 2, .dims = {30, 7}}, {.rank = 1, .dims = {12}}, 0},
        {{.rank = 3, .dims = {3, 6, 5}}, {.rank = 1, .dims = {4}}, 1},
        {{.rank = 2, .dims = {4, 6}}, {.rank = 1, .dims = {1}}, -1},
        {{.rank = 2, .dims = {4, 3}}, {.rank = 1, .dims = {0}}, 0},
        {{.rank = 2, .dims = {0, 3}}, {.rank = 1, .dims = {2}}, 1},
    };
    emit_gathers(op, dtype, sink, cases, sizeof(cases) / sizeof(cases[0]));
}

void kiln_samples_concat(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        uint16_t n_inputs;
        kilni_sample_tensor inputs[4];
        int64_t axis;
    } cases[] = {
        {1, {{.rank = 1, .dims = {5}}}, 0},
        {2, {{.rank = 1, .dims = {5}}, {.rank = 1, .dims = {0}}}, 0},
        {3,
         {{.rank = 2, .dims = {2, 3}}, {.rank = 2, .dims = {2, 1}}, {.rank = 2, .dims = {2, 8}}},
         -1},
        {3,
         {{.rank = 3, .dims = {2, 3, 4}},
          {.rank = 3, .dims = {1, 3, 4}},
          {.rank = 3, .dims = {5, 3, 4}}},
         0},
        {4,
         {{.rank = 3, .dims = {2, 1, 4}},
          {.rank = 3, .dims = {2, 6, 4}},
          {.rank = 3, .dims = {2, 0, 4}},
          {.rank = 3, .dims = {2, 2, 4}}},
         1},
        {2, {{.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {0, 2}}}, 1},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_attr axis = kilni_attr_i64(cases[i].axis);
        kilni_sample_emit(sink, op, dtype, cases[i].inputs, cases[i].n_inputs, &axis);
    }
    kilni_sample_tensor many[KILN_MAX_INPUTS];
    for (unsigned i = 0; i < KILN_MAX_INPUTS; i++) {
        many[i] = (kilni_sample_tensor){.rank = 2, .dims = {3, i % 3}};
    }
    kiln_attr last = kilni_attr_i64(-1);
    kilni_sample_emit(sink, op, dtype, many, KILN_MAX_INPUTS, &last);
}

void kiln_samples_pad(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int_list padding;
        const char *mode; ///< NULL: absent
    } cases[] = {
        {{.rank = 0}, {0, {0}}, "constant"},
        {{.rank = 1, .dims = {5}}, {2, {2, 3}}, NULL},
        {{.rank = 2, .dims = {4, 6}}, {4, {1, 0, 0, 2}}, "constant"},
        {{.rank = 2, .dims = {4, 6}}, {4, {3, 5, 2, 4}}, "reflect"},
        {{.rank = 2, .dims = {4, 6}}, {4, {3, 7, 9, 4}}, "edge"},
        {{.rank = 2, .dims = {6, 7}}, {4, {-1, 2, 3, -2}}, "constant"},
        {{.rank = 2, .dims = {6, 7}}, {4, {-2, 2, 3, -3}}, "reflect"},
        {{.rank = 2, .dims = {0, 3}}, {4, {2, 1, 1, 1}}, "constant"},
        {{.rank = 4, .dims = {1, 2, 3, 4}}, {8, {0, 0, 1, 2, 0, 0, 1, 1}}, "constant"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kiln_attr attrs[3] = {ints(&cases[i].padding),
                                    cases[i].mode != NULL ? kilni_attr_text(cases[i].mode)
                                                          : kilni_attr_none(),
                                    i % 2 == 0 ? kilni_attr_none() : kilni_sample_number(dtype, 0)};
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, attrs);
    }
}
