// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of gather_nd, the scatters and assignments, embedding, one_hot and reverse_sequence.
// Indices are in no order, repeat, and lie outside now and then. What is added or multiplied has
// ordinary size; what is only moved or compared gets the special values.
#include "samples_internal.h"

#define COUNT_OF(cases) (sizeof(cases) / sizeof((cases)[0]))

static kilni_sample_tensor index_tensor(const kilni_sample_tensor *shape, int64_t limit, size_t i)
{
    kilni_sample_tensor indices = *shape;
    indices.fill = KILNI_FILL_INDEX;
    indices.limit = limit;
    indices.dtype = i % 2 == 0 ? KILN_DTYPE_I64 : KILN_DTYPE_I32;
    return indices;
}

static int64_t longest(const kilni_sample_tensor *x)
{
    int64_t length = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        length = x->dims[i] > length ? x->dims[i] : length;
    }
    return length;
}

void kiln_samples_gather_nd(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x, indices;
        int64_t batch;
    } cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {1}}, 0},
        {{.rank = 2, .dims = {5, 7}}, {.rank = 2, .dims = {11, 2}}, 0},
        {{.rank = 2, .dims = {5, 40}}, {.rank = 2, .dims = {6, 1}}, 0},
        {{.rank = 3, .dims = {3, 4, 5}}, {.rank = 3, .dims = {2, 7, 2}}, 0},
        {{.rank = 3, .dims = {3, 4, 5}}, {.rank = 2, .dims = {3, 1}}, 1},
        {{.rank = 4, .dims = {2, 3, 4, 2}}, {.rank = 4, .dims = {2, 3, 5, 1}}, 2},
        {{.rank = 2, .dims = {3, 4}}, {.rank = 2, .dims = {5, 0}}, 0},
        {{.rank = 2, .dims = {3, 4}}, {.rank = 2, .dims = {0, 2}}, 0},
        {{.rank = 2, .dims = {0, 4}}, {.rank = 2, .dims = {0, 1}}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kilni_sample_tensor inputs[] = {
            cases[i].x, index_tensor(&cases[i].indices, longest(&cases[i].x), i)};
        kiln_attr batch = cases[i].batch == 0 ? kilni_attr_none() : kilni_attr_i64(cases[i].batch);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &batch);
    }
}

// ---- scatters ----

typedef struct scatter_case {
    kilni_sample_tensor x, values, indices;
    int64_t axis;
} scatter_case;

static void emit_scatters(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink,
                          const scatter_case *cases, size_t count)
{
    static const char *const modes[] = {NULL, "assign", "add", "mul", "min", "max"};
    for (size_t i = 0; i < count; i++) {
        for (size_t m = 0; m < (dtype == KILN_DTYPE_BOOL ? 2 : COUNT_OF(modes)); m++) {
            bool computes = m == 2 || m == 3;
            kilni_sample_tensor inputs[] = {
                cases[i].x, cases[i].values,
                index_tensor(&cases[i].indices, longest(&cases[i].x), i + m)};
            inputs[0].fill = inputs[1].fill = computes ? KILNI_FILL_SMALL : KILNI_FILL_SPECIAL;
            kiln_attr mode = modes[m] != NULL ? kilni_attr_text(modes[m]) : kilni_attr_none();
            const kiln_attr attrs[] = {kilni_attr_i64(cases[i].axis), mode};
            kilni_sample_emit(sink, op, dtype, inputs, 3,
                              op == KILN_OP_SCATTER_ND ? &attrs[1] : attrs);
        }
    }
}

void kiln_samples_scatter(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const scatter_case cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {70}}, {.rank = 1, .dims = {70}}, 0},
        {{.rank = 2, .dims = {5, 7}}, {.rank = 2, .dims = {5, 3}}, {.rank = 2, .dims = {5, 3}}, 1},
        {{.rank = 2, .dims = {5, 40}},
         {.rank = 2, .dims = {9, 38}},
         {.rank = 2, .dims = {9, 38}},
         0},
        {{.rank = 3, .dims = {3, 4, 5}},
         {.rank = 3, .dims = {2, 11, 4}},
         {.rank = 3, .dims = {2, 11, 4}},
         -2},
        {{.rank = 2, .dims = {4, 3}}, {.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {0, 3}}, 0},
        {{.rank = 2, .dims = {0, 3}}, {.rank = 2, .dims = {2, 3}}, {.rank = 2, .dims = {2, 3}}, 0},
    };
    emit_scatters(op, dtype, sink, cases, COUNT_OF(cases));
}

void kiln_samples_scatter_nd(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const scatter_case cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {30}}, {.rank = 2, .dims = {30, 1}}, 0},
        {{.rank = 2, .dims = {5, 7}},
         {.rank = 2, .dims = {2, 9}},
         {.rank = 3, .dims = {2, 9, 2}},
         0},
        {{.rank = 2, .dims = {5, 37}},
         {.rank = 2, .dims = {11, 37}},
         {.rank = 2, .dims = {11, 1}},
         0},
        {{.rank = 3, .dims = {3, 4, 5}},
         {.rank = 2, .dims = {8, 5}},
         {.rank = 2, .dims = {8, 2}},
         0},
        {{.rank = 2, .dims = {3, 4}},
         {.rank = 3, .dims = {2, 3, 4}},
         {.rank = 2, .dims = {2, 0}},
         0},
        {{.rank = 2, .dims = {3, 4}}, {.rank = 1, .dims = {0}}, {.rank = 2, .dims = {0, 2}}, 0},
        {{.rank = 2, .dims = {3, 4}}, {.rank = 0}, {.rank = 1, .dims = {2}}, 0},
    };
    emit_scatters(op, dtype, sink, cases, COUNT_OF(cases));
}

void kiln_samples_select_assign(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const scatter_case cases[] = {
        {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {30}}, {.rank = 1, .dims = {30}}, 0},
        {{.rank = 2, .dims = {7, 40}}, {.rank = 2, .dims = {12, 40}}, {.rank = 1, .dims = {12}}, 0},
        {{.rank = 3, .dims = {3, 6, 5}},
         {.rank = 3, .dims = {3, 4, 5}},
         {.rank = 1, .dims = {4}},
         1},
        {{.rank = 2, .dims = {4, 6}}, {.rank = 2, .dims = {4, 9}}, {.rank = 1, .dims = {9}}, -1},
        {{.rank = 2, .dims = {4, 3}}, {.rank = 2, .dims = {0, 3}}, {.rank = 1, .dims = {0}}, 0},
    };
    emit_scatters(op, dtype, sink, cases, COUNT_OF(cases));
}

void kiln_samples_slice_assign(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x, value;
        int64_t starts[3], ends[3], steps[3];
        bool stepped;
    } cases[] = {
        {{.rank = 0}, {.rank = 0}, {0}, {0}, {0}, false},
        {{.rank = 1, .dims = {50}}, {.rank = 1, .dims = {44}}, {3}, {47}, {1}, false},
        {{.rank = 1, .dims = {50}}, {.rank = 1, .dims = {17}}, {-1}, {INT64_MIN}, {-3}, true},
        {{.rank = 2, .dims = {7, 9}},
         {.rank = 2, .dims = {3, 3}},
         {1, -4},
         {INT64_MAX, -1},
         {2, 1},
         true},
        {{.rank = 3, .dims = {3, 4, 5}},
         {.rank = 3, .dims = {3, 0, 1}},
         {0, 4, 1},
         {3, 4, 2},
         {0},
         false},
        {{.rank = 2, .dims = {6, 6}},
         {.rank = 2, .dims = {3, 1}},
         {5, 0},
         {0, 6},
         {-2, INT64_MAX},
         true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kilni_sample_tensor inputs[] = {cases[i].x, cases[i].value};
        uint32_t rank = cases[i].x.rank;
        const kiln_attr attrs[] = {
            kilni_attr_ints(cases[i].starts, rank), kilni_attr_ints(cases[i].ends, rank),
            cases[i].stepped ? kilni_attr_ints(cases[i].steps, rank) : kilni_attr_none()};
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

// ---- built on the others ----

void kiln_samples_embedding(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const kilni_sample_tensor cases[][2] = {
        {{.rank = 2, .dims = {11, 40}}, {.rank = 2, .dims = {3, 5}}},
        {{.rank = 2, .dims = {6, 3}}, {.rank = 0}},
        {{.rank = 2, .dims = {6, 1}}, {.rank = 1, .dims = {17}}},
        {{.rank = 2, .dims = {0, 3}}, {.rank = 1, .dims = {0}}},
        {{.rank = 2, .dims = {4, 0}}, {.rank = 3, .dims = {2, 1, 3}}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kilni_sample_tensor inputs[] = {cases[i][0],
                                              index_tensor(&cases[i][1], cases[i][0].dims[0], i)};
        kilni_sample_emit(sink, op, dtype, inputs, 2, NULL);
    }
}

void kiln_samples_embedding_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor grad, indices;
        int64_t count;
    } cases[] = {
        {{.rank = 3, .dims = {3, 9, 40}}, {.rank = 2, .dims = {3, 9}}, 5},
        {{.rank = 1, .dims = {3}}, {.rank = 0}, 4},
        {{.rank = 2, .dims = {20, 1}}, {.rank = 1, .dims = {20}}, 6},
        {{.rank = 2, .dims = {0, 3}}, {.rank = 1, .dims = {0}}, 2},
        {{.rank = 2, .dims = {3, 2}}, {.rank = 1, .dims = {3}}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kilni_sample_tensor inputs[] = {cases[i].grad,
                                        index_tensor(&cases[i].indices, cases[i].count, i)};
        inputs[0].fill = KILNI_FILL_SMALL;
        kiln_attr count = kilni_attr_i64(cases[i].count);
        kilni_sample_emit(sink, op, dtype, inputs, 2, &count);
    }
}

void kiln_samples_one_hot(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor indices;
        int64_t count, axis;
    } cases[] = {
        {{.rank = 0}, 5, 0},
        {{.rank = 1, .dims = {13}}, 6, -1},
        {{.rank = 2, .dims = {3, 4}}, 5, 1},
        {{.rank = 2, .dims = {3, 4}}, 5, -3},
        {{.rank = 2, .dims = {3, 4}}, 0, 2},
        {{.rank = 2, .dims = {0, 4}}, 3, -1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kilni_sample_tensor inputs[] = {{.rank = 1, .dims = {2}},
                                              index_tensor(&cases[i].indices, cases[i].count, i)};
        const kiln_attr attrs[] = {kilni_attr_i64(cases[i].count),
                                   cases[i].axis == -1 ? kilni_attr_none()
                                                       : kilni_attr_i64(cases[i].axis)};
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

void kiln_samples_reverse_sequence(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis, batch;
    } cases[] = {
        {{.rank = 2, .dims = {9, 7}}, 0, 1},        {{.rank = 2, .dims = {7, 40}}, 1, 0},
        {{.rank = 4, .dims = {2, 5, 3, 4}}, -3, 2}, {{.rank = 2, .dims = {0, 3}}, 0, 1},
        {{.rank = 3, .dims = {4, 3, 0}}, 0, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t axis = cases[i].axis < 0 ? cases[i].axis + cases[i].x.rank : cases[i].axis;
        const kilni_sample_tensor lengths = {.rank = 1, .dims = {cases[i].x.dims[cases[i].batch]}};
        const kilni_sample_tensor inputs[] = {cases[i].x,
                                              index_tensor(&lengths, cases[i].x.dims[axis], i)};
        const kiln_attr attrs[] = {i == 0 ? kilni_attr_none() : kilni_attr_i64(cases[i].axis),
                                   i == 0 ? kilni_attr_none() : kilni_attr_i64(cases[i].batch)};
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}
