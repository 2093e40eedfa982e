// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of argwhere and nms: counts below, at and above the truth, scores with ties, boxes
// with their corners either way round, and every special value once.
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
