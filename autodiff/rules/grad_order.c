// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients along one axis in order: sums, products and extremes up to each element, sorting.
// Decides which element an extreme was, and takes products without divisions.
#include "gradients.h"

#include <string.h>

/// A sum the other way.
void kilni_gradient_cum_sum(kilni_rule *rule)
{
    const kiln_attr *attrs = rule->call->attrs;
    const kiln_attr other[] = {attrs[0], attrs[1],
                               kilni_attr_bool(kilni_g_i64(rule, KILN_KEY_REVERSE) == 0)};
    kilni_g_give(rule, 0, kilni_g_with(rule, KILN_OP_CUM_SUM, kilni_g_grad(rule, 0), other, 3));
}

/// x [.., n] n times below itself, with 1 on the diagonal: row j lacks element j.
static kiln_tensor *without_each(kilni_rule *rule, kiln_tensor *x)
{
    int64_t dims[KILN_MAX_RANK + 1];
    size_t rank = kiln_tensor_rank(x);
    int64_t n = kiln_tensor_dims(x)[rank - 1];
    memcpy(dims, kiln_tensor_dims(x), rank * sizeof(dims[0]));
    dims[rank - 1] = 1;
    dims[rank] = n;
    const int64_t square[] = {n, n};
    const kiln_attr attrs[] = {kilni_attr_ints(square, 2), kilni_attr_dtype(KILN_DTYPE_BOOL),
                               kilni_attr_none()};
    kiln_tensor *eye = NULL;
    kilni_g_op(rule, KILN_OP_EYE, NULL, 0, attrs, 3, &eye);
    x = kilni_g_reshape(rule, x, dims, rank + 1);
    dims[rank - 1] = n;
    return kilni_g_fill(rule, kilni_g_expand(rule, x, dims, rank + 1), eye, 1);
}

/// The product at i has element j where j <= i (or the other way, or not i itself). Without j it is
/// taken anew, n rows of n, so that zeros are no trouble.
void kilni_gradient_cum_prod(kilni_rule *rule)
{
    unsigned rank = kilni_g_desc(rule, 0)->rank;
    bool exclusive = kilni_g_i64(rule, KILN_KEY_EXCLUSIVE) != 0;
    bool reverse = kilni_g_i64(rule, KILN_KEY_REVERSE) != 0;
    int64_t axes[KILN_MAX_RANK];
    int64_t dims[KILN_MAX_RANK + 1];
    if (rank == KILN_MAX_RANK) {
        kilni_g_refuse(rule, "of so many axes it is not written");
        return;
    }
    for (unsigned i = 0; i < rank; i++) { // the axis and the last change places: its own inverse
        axes[i] = i;
    }
    axes[kilni_g_call_axis(rule)] = rank - 1;
    axes[rank - 1] = kilni_g_call_axis(rule);
    kiln_tensor *x = kilni_g_permute(rule, kilni_g_in(rule, 0), axes, rank);
    kiln_tensor *grad = kilni_g_permute(rule, kilni_g_grad(rule, 0), axes, rank);
    if (rule->status != KILN_STATUS_OK) {
        return;
    }
    memcpy(dims, kiln_tensor_dims(x), rank * sizeof(dims[0]));
    dims[rank] = dims[rank - 1];
    dims[rank - 1] = 1;
    const kiln_attr along[] = {kilni_attr_i64(-1), kilni_attr_bool(exclusive),
                               kilni_attr_bool(reverse)};
    kiln_tensor *rest = kilni_g_with(rule, KILN_OP_CUM_PROD, without_each(rule, x), along, 3);
    const kiln_attr diagonal = kilni_attr_i64(!exclusive ? 0 : reverse ? -1 : 1);
    rest = kilni_g_with(rule, reverse ? KILN_OP_TRIL : KILN_OP_TRIU, rest, &diagonal, 1);
    rest = kilni_g_mul(rule, rest, kilni_g_reshape(rule, grad, dims, rank + 1));
    const int64_t last[] = {rank};
    rest = kilni_g_reduce(rule, KILN_OP_SUM, rest, last, 1, false);
    kilni_g_give(rule, 0, kilni_g_permute(rule, rest, axes, rank));
}

/// The place of the extreme up to each element is the last where a new one stood.
void kilni_gradient_cum_extreme(kilni_rule *rule)
{
    const kiln_tensor_desc *desc = kilni_g_desc(rule, 0);
    unsigned axis = kilni_g_call_axis(rule);
    bool exclusive = kilni_g_i64(rule, KILN_KEY_EXCLUSIVE) != 0;
    bool reverse = kilni_g_i64(rule, KILN_KEY_REVERSE) != 0;
    const kiln_attr forth[] = {kilni_attr_i64((int64_t)axis), kilni_attr_none(), kilni_attr_none()};
    int64_t dims[KILN_MAX_RANK];
    int64_t n = desc->dims[axis];
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kiln_desc_count(desc) == 0) {
        kilni_g_give(rule, 0, grad);
        return;
    }
    if (reverse) {
        x = kilni_g_flip(rule, x, axis);
        grad = kilni_g_flip(rule, grad, axis);
    }
    if (exclusive) { // result i + 1 is that of i with itself; the first follows from nothing
        int64_t padding[2 * KILN_MAX_RANK] = {0};
        padding[desc->rank + axis] = 1;
        padding[axis] = -1;
        const kiln_attr attrs[] = {kilni_attr_ints(padding, 2u * desc->rank), kilni_attr_none(),
                                   kilni_attr_none()};
        grad = kilni_g_with(rule, KILN_OP_PAD, grad, attrs, 3);
    }
    kiln_tensor *best = kilni_g_with(rule, rule->call->op, x, forth, 3);
    kiln_tensor_desc places = {.dtype = KILN_DTYPE_I64, .rank = 1, .dims = {n}};
    for (unsigned i = 0; i < desc->rank; i++) {
        dims[i] = i == axis ? n : 1;
    }
    kiln_tensor *place = kilni_g_numbers(rule, &places);
    place = kilni_g_expand(rule, kilni_g_reshape(rule, place, dims, desc->rank), desc->dims,
                           desc->rank);
    place = kilni_g_fill(rule, place, kilni_g_2(rule, KILN_OP_NOT_EQUAL, x, best), 0);
    place = kilni_g_with(rule, KILN_OP_CUM_MAX, place, forth, 3);
    kiln_tensor *sums = kilni_g_scatter(rule, desc, grad, place, axis);
    kilni_g_give(rule, 0, reverse ? kilni_g_flip(rule, sums, axis) : sums);
}

void kilni_gradient_sort(kilni_rule *rule)
{
    kiln_tensor *order = kilni_g_with(rule, KILN_OP_ARGSORT, kilni_g_in(rule, 0), rule->call->attrs,
                                      rule->call->n_attrs);
    kilni_g_give(rule, 0,
                 kilni_g_scatter(rule, kilni_g_desc(rule, 0), kilni_g_grad(rule, 0), order,
                                 kilni_g_call_axis(rule)));
}

/// Values and where they were.
void kilni_gradient_chosen(kilni_rule *rule)
{
    kilni_g_give(rule, 0,
                 kilni_g_scatter(rule, kilni_g_desc(rule, 0), kilni_g_grad(rule, 0),
                                 kilni_g_out(rule, 1), kilni_g_call_axis(rule)));
}
