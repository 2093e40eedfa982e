// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of argwhere, nms and tree_ensemble: counts below, at and above the truth, scores
// with ties, boxes with their corners either way round, and every special value once.
#include "samples_internal.h"

void kiln_samples_argwhere(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor mask;
        int64_t count;
    } cases[] = {
        {{.rank = 0}, 1},
        {{.rank = 1, .dims = {0}}, 0},
        {{.rank = 1, .dims = {1}}, 1},
        {{.rank = 1, .dims = {1000}}, 1000},
        {{.rank = 1, .dims = {777}}, 300},
        {{.rank = 2, .dims = {33, 70}}, 5},
        {{.rank = 2, .dims = {3, 0}}, 0},
        {{.rank = 3, .dims = {4, 5, 60}}, 1200},
        {{.rank = 1, .dims = {70001}}, 40000},
        {{.rank = 8, .dims = {1, 2, 1, 3, 2, 1, 2, 3}}, 40},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_sample_tensor mask = cases[i].mask;
        kiln_attr count = kilni_attr_i64(cases[i].count);
        mask.fill = KILNI_FILL_MASK;
        kilni_sample_emit(sink, op, dtype, &mask, 1, &count);
    }
}

void kiln_samples_nms(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor inputs[2];
        int64_t count;
        double overlap;
        double least;
    } cases[] = {
        {{{.rank = 3, .dims = {1, 40, 4}, .fill = KILNI_FILL_SMALL},
          {.rank = 3, .dims = {1, 1, 40}, .fill = KILNI_FILL_SMALL}},
         40,
         0.25,
         -10},
        {{{.rank = 3, .dims = {2, 300, 4}, .fill = KILNI_FILL_POSITIVE},
          {.rank = 3, .dims = {2, 3, 300}, .fill = KILNI_FILL_TIES}},
         20,
         0.5,
         0},
        {{{.rank = 3, .dims = {3, 24, 4}}, {.rank = 3, .dims = {3, 2, 24}}}, 30, 0.125, 0},
        {{{.rank = 3, .dims = {2, 7, 4}, .fill = KILNI_FILL_TIES},
          {.rank = 3, .dims = {2, 2, 7}, .fill = KILNI_FILL_TIES}},
         3,
         0,
         -1},
        {{{.rank = 3, .dims = {1, 5, 4}}, {.rank = 3, .dims = {1, 2, 5}}}, 0, 0.5, 0},
        {{{.rank = 3, .dims = {1, 0, 4}}, {.rank = 3, .dims = {1, 2, 0}}}, 4, 0.5, 0},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int center = 0; center < 2; center++) {
            const kiln_attr attrs[] = {
                kilni_attr_i64(cases[i].count), kilni_attr_f64(cases[i].overlap),
                cases[i].least < -5 ? kilni_attr_none() : kilni_attr_f64(cases[i].least),
                kilni_attr_bool(center)};
            kilni_sample_emit(sink, op, dtype, cases[i].inputs, 2, attrs);
        }
    }
}

/// Nodes in no order, so that ways end anywhere.
void kiln_samples_tree_ensemble(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        int64_t rows, columns, nodes, trees, weights, count, most;
        const char *mode;
        kiln_dtype index;
    } cases[] = {
        {1, 1, 1, 1, 1, 1, 1, "sum", KILN_DTYPE_I32},
        {9, 4, 40, 7, 20, 1, 3, "sum", KILN_DTYPE_I32},
        {100, 5, 300, 30, 200, 3, 4, "sum", KILN_DTYPE_I64},
        {33, 3, 200, 12, 50, 2, 3, "min", KILN_DTYPE_I32},
        {20, 3, 200, 12, 50, 1, 5, "max", KILN_DTYPE_I32},
        {5, 0, 9, 3, 9, 2, 2, "sum", KILN_DTYPE_I32},
        {4, 3, 0, 2, 0, 2, 2, "max", KILN_DTYPE_I64},
        {0, 3, 9, 3, 9, 1, 2, "sum", KILN_DTYPE_I32},
        {3, 2, 9, 0, 9, 0, 2, "sum", KILN_DTYPE_I32},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_dtype index = cases[i].index;
        const kilni_sample_tensor inputs[] = {
            {.rank = 2, .dims = {cases[i].rows, cases[i].columns}},
            {.rank = 1, .dims = {cases[i].nodes}, .fill = KILNI_FILL_SMALL},
            {.rank = 1, .dims = {cases[i].weights}, .fill = KILNI_FILL_POSITIVE},
            {.rank = 1,
             .dims = {cases[i].nodes},
             .fill = KILNI_FILL_INDEX,
             .limit = cases[i].most,
             .dtype = index},
            {.rank = 1,
             .dims = {cases[i].nodes},
             .fill = KILNI_FILL_INDEX,
             .limit = cases[i].nodes,
             .dtype = index},
            {.rank = 1,
             .dims = {cases[i].trees},
             .fill = KILNI_FILL_INDEX,
             .limit = cases[i].nodes,
             .dtype = index},
            {.rank = 1,
             .dims = {cases[i].weights},
             .fill = KILNI_FILL_INDEX,
             .limit = cases[i].count,
             .dtype = index}};
        const kiln_attr attrs[] = {kilni_attr_i64(cases[i].count), kilni_attr_text(cases[i].mode)};
        kilni_sample_emit(sink, op, dtype, inputs, 7, attrs);
    }
}
