// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of reductions. Decides who gets the gradient of an extreme: of several that are equal
// each the same share.
#include "gradients.h"

/// Bit i: axis i is reduced. No axes: all.
static uint32_t reduced_axes(const kilni_rule *rule)
{
    unsigned rank = kilni_g_desc(rule, 0)->rank;
    const kiln_attr *axes = kiln_op_attr(rule->call, KILN_KEY_AXES);
    uint32_t found = axes->count == 0 ? (1u << rank) - 1 : 0;
    for (unsigned i = 0; i < axes->count; i++) {
        found |= 1u << kilni_g_axis(axes->v.ints[i], rank);
    }
    return found;
}

/// A result or its gradient with the reduced axes, of length 1.
static kiln_tensor *kept(kilni_rule *rule, kiln_tensor *x)
{
    const kiln_tensor_desc *input = kilni_g_desc(rule, 0);
    uint32_t reduced = reduced_axes(rule);
    int64_t dims[KILN_MAX_RANK];
    for (unsigned i = 0; i < input->rank; i++) {
        dims[i] = (reduced >> i & 1) != 0 ? 1 : input->dims[i];
    }
    return kilni_g_reshape(rule, x, dims, input->rank);
}

static kiln_tensor *spread(kilni_rule *rule, kiln_tensor *x)
{
    const kiln_tensor_desc *input = kilni_g_desc(rule, 0);
    return kilni_g_expand(rule, kept(rule, x), input->dims, input->rank);
}

void kilni_gradient_sum(kilni_rule *rule)
{
    kilni_g_give(rule, 0, spread(rule, kilni_g_grad(rule, 0)));
}

void kilni_gradient_mean(kilni_rule *rule)
{
    const kiln_tensor_desc *input = kilni_g_desc(rule, 0);
    uint32_t reduced = reduced_axes(rule);
    double count = 1;
    for (unsigned i = 0; i < input->rank; i++) {
        count *= (reduced >> i & 1) != 0 ? (double)input->dims[i] : 1;
    }
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kilni_g_give(rule, 0, spread(rule, kilni_g_scalar(rule, KILN_OP_DIV_SCALAR, grad, count)));
}

/// Products of all elements before and behind each, along the last axis: right with zeros, too.
static kiln_tensor *product_of_others(kilni_rule *rule, kiln_tensor *x)
{
    const kiln_attr before[] = {kilni_attr_i64(-1), kilni_attr_bool(true), kilni_attr_bool(false)};
    const kiln_attr behind[] = {kilni_attr_i64(-1), kilni_attr_bool(true), kilni_attr_bool(true)};
    return kilni_g_mul(rule, kilni_g_with(rule, KILN_OP_CUM_PROD, x, before, 3),
                       kilni_g_with(rule, KILN_OP_CUM_PROD, x, behind, 3));
}

/// The reduced axes go to the end and become one.
void kilni_gradient_prod(kilni_rule *rule)
{
    const kiln_tensor_desc *input = kilni_g_desc(rule, 0);
    uint32_t reduced = reduced_axes(rule);
    int64_t axes[KILN_MAX_RANK];
    int64_t back[KILN_MAX_RANK];
    int64_t turned[KILN_MAX_RANK];
    int64_t rows = 1;
    int64_t length = 1;
    unsigned n = 0;
    for (unsigned last = 0; last < 2; last++) {
        for (unsigned i = 0; i < input->rank; i++) {
            if ((reduced >> i & 1) == last) {
                rows *= last == 0 ? input->dims[i] : 1;
                length *= last == 1 ? input->dims[i] : 1;
                back[i] = n;
                turned[n] = input->dims[i];
                axes[n++] = i;
            }
        }
    }
    const int64_t flat[] = {rows, length};
    const int64_t column[] = {rows, 1};
    kiln_tensor *x = kilni_g_permute(rule, kilni_g_in(rule, 0), axes, input->rank);
    x = product_of_others(rule, kilni_g_reshape(rule, x, flat, 2));
    x = kilni_g_mul(rule, x, kilni_g_reshape(rule, kilni_g_grad(rule, 0), column, 2));
    x = kilni_g_reshape(rule, x, turned, input->rank);
    kilni_g_give(rule, 0, kilni_g_permute(rule, x, back, input->rank));
}

/// Where `x` is the result, in equal shares.
static kiln_tensor *shares(kilni_rule *rule, kiln_tensor *x)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = 0;
    uint32_t reduced = reduced_axes(rule);
    for (unsigned i = 0; i < kilni_g_desc(rule, 0)->rank; i++) {
        if ((reduced >> i & 1) != 0) {
            axes[n++] = i;
        }
    }
    kiln_tensor *hit = kilni_g_2(rule, KILN_OP_EQUAL, x, kept(rule, kilni_g_out(rule, 0)));
    hit = kilni_g_cast(rule, hit, kilni_g_desc(rule, 0)->dtype);
    kiln_tensor *count = n > 0 ? kilni_g_reduce(rule, KILN_OP_SUM, hit, axes, n, true) : hit;
    return kilni_g_mul(rule, hit, kilni_g_div(rule, kept(rule, kilni_g_grad(rule, 0)), count));
}

void kilni_gradient_extreme(kilni_rule *rule)
{
    kilni_g_give(rule, 0, shares(rule, kilni_g_in(rule, 0)));
}

void kilni_gradient_max_abs(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *part = shares(rule, kilni_g_1(rule, KILN_OP_ABS, x));
    kilni_g_give(rule, 0, kilni_g_mul(rule, part, kilni_g_1(rule, KILN_OP_SIGN, x)));
}

void kilni_gradient_with_indices(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    unsigned axis = kilni_g_axis(kilni_g_i64(rule, KILN_KEY_AXIS), x->rank);
    int64_t dims[KILN_MAX_RANK];
    for (unsigned i = 0; i < x->rank; i++) {
        dims[i] = i == axis ? 1 : x->dims[i];
    }
    kiln_tensor *grad = kilni_g_reshape(rule, kilni_g_grad(rule, 0), dims, x->rank);
    kiln_tensor *indices = kilni_g_reshape(rule, kilni_g_out(rule, 1), dims, x->rank);
    kilni_g_give(rule, 0, kilni_g_scatter(rule, x, grad, indices, axis));
}
