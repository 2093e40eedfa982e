// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of the operators that several devices take part in: every reduction, on a group of
// one, with lengths of 0 and 1 and most dimensions.
#include "samples_internal.h"

static const kilni_sample_tensor tensors[] = {
    {.rank = 0},
    {.rank = 1, .dims = {0}},
    {.rank = 1, .dims = {1}},
    {.rank = 1, .dims = {1021}},
    {.rank = 2, .dims = {33, 70}},
    {.rank = 3, .dims = {4, 0, 60}},
    {.rank = 8, .dims = {1, 2, 1, 3, 2, 1, 2, 3}},
};
enum { TENSORS = sizeof(tensors) / sizeof(tensors[0]) };

void kiln_samples_all_reduce(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const char *const names[] = {"sum", "mean", "min", "max", "prod"};
    for (unsigned i = 0; i < TENSORS; i++) {
        const char *name = names[i % 5];
        const kiln_attr attrs[] = {
            kilni_attr_text(name),
            kilni_attr_i64(0),
            kilni_attr_i64(i),
        };
        kilni_sample_emit(sink, op, dtype, &tensors[i], 1, attrs);
    }
}

void kiln_samples_collective_sync(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < TENSORS; i++) {
        kilni_sample_emit(sink, op, dtype, &tensors[i], 1, NULL);
    }
}
