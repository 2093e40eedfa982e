// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of tree_ensemble. Decides that columns are clamped, that what lies outside of a
// list is left out, and that a way which does not lead on has no leaf.
#include "reference_internal.h"

#include <math.h>

typedef struct trees {
    const kiln_view *inputs; ///< x, thresholds, weights, features, others, roots, targets
    const kiln_view *out;
    int64_t nodes;
    char mode; ///< 's', 'i' or 'a': the second letter tells min from max
} trees;

static int64_t int_at(const kiln_view *view, int64_t i)
{
    return kilni_ref_load(view, kilni_ref_offset(view, &i)).i;
}

static double float_at(const kiln_view *view, int64_t i)
{
    return kilni_ref_load(view, kilni_ref_offset(view, &i)).f;
}

static bool goes_on(const trees *t, int64_t row, int64_t node, int64_t feature)
{
    int64_t columns = t->inputs[0].dims[1];
    const int64_t place[] = {row, feature / 2 < columns ? feature / 2 : columns - 1};
    double x = kilni_ref_load(&t->inputs[0], kilni_ref_offset(&t->inputs[0], place)).f;
    return isnan(x) ? feature % 2 != 0 : x <= float_at(&t->inputs[1], node);
}

/// The leaf that a row reaches; -1: none.
static int64_t leaf_of(const trees *t, int64_t row, int64_t node)
{
    while (node >= 0 && node < t->nodes) {
        int64_t feature = int_at(&t->inputs[3], node);
        if (feature < 0) {
            return node;
        }
        if (t->inputs[0].dims[1] == 0) {
            return -1;
        }
        int64_t next = goes_on(t, row, node, feature) ? node + 1 : int_at(&t->inputs[4], node);
        node = next > node ? next : -1;
    }
    return -1;
}

static double combined(const trees *t, double so_far, double x)
{
    switch (t->mode) {
    case 'i':
        return isinf(so_far) || x < so_far ? x : so_far;
    case 'a':
        return isinf(so_far) || x > so_far ? x : so_far;
    default:
        return so_far + x;
    }
}

static void row_of(const trees *t, int64_t row, double *sums)
{
    int64_t count = t->out->dims[1];
    for (int64_t c = 0; c < count; c++) {
        sums[c] = t->mode == 's' ? 0 : (double)INFINITY;
    }
    for (int64_t i = 0; i < t->inputs[5].dims[0]; i++) {
        int64_t leaf = leaf_of(t, row, int_at(&t->inputs[5], i));
        int64_t many = leaf < 0 ? 0 : -1 - int_at(&t->inputs[3], leaf);
        for (int64_t k = 0; k < many; k++) {
            int64_t weight = int_at(&t->inputs[4], leaf) + k;
            bool inside = weight >= 0 && weight < t->inputs[2].dims[0];
            int64_t target = inside ? int_at(&t->inputs[6], weight) : -1;
            if (target >= 0 && target < count) {
                sums[target] = combined(t, sums[target], float_at(&t->inputs[2], weight));
            }
        }
    }
    for (int64_t c = 0; c < count; c++) {
        const int64_t place[] = {row, c};
        double sum = t->mode != 's' && isinf(sums[c]) ? 0 : sums[c];
        kilni_ref_store(t->out, kilni_ref_offset(t->out, place), kilni_ref_of_float(sum));
    }
}

kiln_status kiln_ref_tree_ensemble(const kiln_op_record *call, const kiln_view *inputs,
                                   const kiln_view *outputs, kiln_error *err)
{
    const char *mode = kilni_ir_text(call, KILN_KEY_MODE);
    const trees t = {.inputs = inputs,
                     .out = &outputs[0],
                     .nodes = inputs[1].dims[0],
                     .mode = mode[0] == 's' ? 's' : mode[1]};
    const kiln_env env = {.allocator = kiln_allocator_default()};
    double *sums = kiln_alloc_array(&env, (size_t)outputs[0].dims[1] + 1, sizeof(*sums));
    if (sums == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "tree_ensemble: no memory for a row");
    }
    for (int64_t row = 0; row < outputs[0].dims[0]; row++) {
        row_of(&t, row, sums);
    }
    kiln_free(&env, sums);
    return KILN_STATUS_OK;
}
