// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of einsum: products, traces, diagonals, outer and dot products, sums, several
// inputs, axes that broadcast, results in another order, nothing to sum.
#include "samples_internal.h"

typedef struct einsum_case {
    const char *equation;
    uint16_t n_inputs;
    kilni_sample_tensor inputs[3];
} einsum_case;

static const einsum_case einsum_cases[] = {
    {"ij,jk->ik", 2, {{.rank = 2, .dims = {3, 4}}, {.rank = 2, .dims = {4, 5}}}},
    {"i j , j k", 2, {{.rank = 2, .dims = {3, 17}}, {.rank = 2, .dims = {17, 2}}}},
    {"bij,bkj->ikb", 2, {{.rank = 3, .dims = {2, 3, 4}}, {.rank = 3, .dims = {2, 5, 4}}}},
    {"ij->ji", 1, {{.rank = 2, .dims = {3, 4}}}},
    {"ij->", 1, {{.rank = 2, .dims = {3, 4}}}},
    {"Zj->j", 1, {{.rank = 2, .dims = {3, 4}}}},
    {"ii->i", 1, {{.rank = 2, .dims = {4, 4}}}},
    {"...ii", 1, {{.rank = 3, .dims = {2, 3, 3}}}},
    {"iji->j", 1, {{.rank = 3, .dims = {3, 2, 3}}}},
    {"iiji->ij", 1, {{.rank = 4, .dims = {2, 2, 3, 2}}}},
    {"i,i", 2, {{.rank = 1, .dims = {9}}, {.rank = 1, .dims = {9}}}},
    {"i,j->ji", 2, {{.rank = 1, .dims = {3}}, {.rank = 1, .dims = {4}}}},
    {"ij,ij->i", 2, {{.rank = 2, .dims = {3, 4}}, {.rank = 2, .dims = {3, 4}}}},
    {"ij,ij->ij", 2, {{.rank = 2, .dims = {3, 4}}, {.rank = 2, .dims = {3, 1}}}},
    {"...ij,...jk->...ik", 2, {{.rank = 4, .dims = {2, 1, 3, 4}}, {.rank = 3, .dims = {5, 4, 2}}}},
    {"bhqd,bhkd->bhqk", 2, {{.rank = 4, .dims = {2, 3, 4, 5}}, {.rank = 4, .dims = {2, 3, 6, 5}}}},
    {"abc,cd,de->abe",
     3,
     {{.rank = 3, .dims = {2, 3, 4}}, {.rank = 2, .dims = {4, 2}}, {.rank = 2, .dims = {2, 3}}}},
    {"ia,ja,ka->ij",
     3,
     {{.rank = 2, .dims = {2, 3}}, {.rank = 2, .dims = {4, 3}}, {.rank = 2, .dims = {5, 3}}}},
    {"ij,jk->ik", 2, {{.rank = 2, .dims = {2, 0}}, {.rank = 2, .dims = {0, 3}}}},
    {",ij->ij", 2, {{.rank = 0}, {.rank = 2, .dims = {2, 3}}}},
};

void kiln_samples_einsum(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < sizeof(einsum_cases) / sizeof(einsum_cases[0]); i++) {
        const kiln_attr equation = kilni_attr_text(einsum_cases[i].equation);
        kilni_sample_tensor inputs[3];
        for (unsigned k = 0; k < einsum_cases[i].n_inputs; k++) {
            inputs[k] = einsum_cases[i].inputs[k];
            inputs[k].fill = KILNI_FILL_SMALL;
        }
        kilni_sample_emit(sink, op, dtype, inputs, einsum_cases[i].n_inputs, &equation);
    }
}
