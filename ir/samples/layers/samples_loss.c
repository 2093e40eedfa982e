// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of ctc_loss, its derivative and det: labels that repeat, sequences too short for
// their labels, lengths and labels out of range; matrices of no, one and many rows.
#include "samples_internal.h"

enum { FEASIBLE = 6 };

void kiln_samples_ctc(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        int64_t steps, batch, classes, longest;
        int64_t blank;
    } cases[] = {
        {6, 3, 4, 2, 0}, {12, 4, 3, 5, 2}, {5, 2, 3, 0, -1}, {40, 5, 30, 12, -1},
        {3, 0, 2, 2, 1}, {1, 4, 2, 1, -1}, {4, 3, 5, 1, 0},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const kilni_sample_tensor x = {.rank = 3,
                                       .dims = {cases[i].steps, cases[i].batch, cases[i].classes},
                                       .fill = KILNI_FILL_SMALL};
        const kilni_sample_tensor grad = {
            .rank = 1, .dims = {cases[i].batch}, .fill = KILNI_FILL_SMALL};
        const kilni_sample_tensor targets = {.rank = 2,
                                             .dims = {cases[i].batch, cases[i].longest},
                                             .limit = cases[i].classes,
                                             .fill = KILNI_FILL_INDEX,
                                             .dtype = i % 2 == 0 ? KILN_DTYPE_I32 : KILN_DTYPE_I64};
        kilni_sample_tensor steps = {.rank = 1,
                                     .dims = {cases[i].batch},
                                     .limit = cases[i].steps,
                                     .fill = KILNI_FILL_INDEX,
                                     .dtype = KILN_DTYPE_I64};
        kilni_sample_tensor labels = steps;
        labels.limit = cases[i].longest;
        labels.dtype = KILN_DTYPE_I32;
        if (i == FEASIBLE) { // there is a path for every sequence
            steps.fill = labels.fill = KILNI_FILL_POSITIVE;
        }
        const kiln_attr blank =
            cases[i].blank < 0 ? kilni_attr_none() : kilni_attr_i64(cases[i].blank);
        const kilni_sample_tensor forward[] = {x, targets, steps, labels};
        const kilni_sample_tensor backward[] = {x, grad, targets, steps, labels};
        bool is_forward = op == KILN_OP_CTC_LOSS;
        kilni_sample_emit(sink, op, dtype, is_forward ? forward : backward, is_forward ? 4 : 5,
                          &blank);
    }
}

void kiln_samples_det(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const kilni_sample_tensor xs[] = {
        {.rank = 2, .dims = {1, 1}, .fill = KILNI_FILL_SMALL},
        {.rank = 2, .dims = {3, 3}, .fill = KILNI_FILL_SMALL},
        {.rank = 3, .dims = {5, 2, 2}, .fill = KILNI_FILL_TIES},
        {.rank = 4, .dims = {2, 3, 4, 4}, .fill = KILNI_FILL_SMALL},
        {.rank = 3, .dims = {2, 0, 0}, .fill = KILNI_FILL_SMALL},
        {.rank = 3, .dims = {0, 2, 2}, .fill = KILNI_FILL_SMALL},
        {.rank = 3, .dims = {2, 9, 9}, .fill = KILNI_FILL_SMALL},
    };
    for (unsigned i = 0; i < sizeof(xs) / sizeof(xs[0]); i++) {
        kilni_sample_emit(sink, op, dtype, &xs[i], 1, NULL);
    }
}
