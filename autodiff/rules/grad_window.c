// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of pooling and resampling. Most operators have a backward operator in the table, whose
// own gradient is the operator again.
#include "gradients.h"

#include <string.h>

/// Records `op` on the gradient with the shape of input 0 before the call's attributes.
static kiln_tensor *back(kilni_rule *rule, kiln_op op, kiln_tensor *grad, kiln_tensor *indices,
                         unsigned n_attrs)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_attr attrs[KILN_MAX_ATTRS] = {kilni_attr_ints(x->dims, x->rank)};
    memcpy(&attrs[1], rule->call->attrs, n_attrs * sizeof(attrs[0]));
    kiln_tensor *const inputs[] = {grad, indices};
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    kilni_g_op(rule, op, inputs, 2, attrs, n_attrs + 1, results);
    return results[0];
}

/// Records `op` on the gradient with the call's attributes behind its first, a shape.
static void give_forth(kilni_rule *rule, kiln_op op)
{
    kilni_g_give(rule, 0,
                 kilni_g_with(rule, op, kilni_g_grad(rule, 0), rule->call->attrs + 1,
                              rule->call->n_attrs - 1u));
}

// ---- pooling ----

void kilni_gradient_max_pool(kilni_rule *rule)
{
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    kiln_tensor *x = kilni_g_in(rule, 0);
    kilni_g_op(rule, KILN_OP_MAX_POOL_WITH_INDICES, &x, 1, rule->call->attrs, 5, results);
    kilni_g_give(rule, 0,
                 back(rule, KILN_OP_MAX_POOL_BACKWARD, kilni_g_grad(rule, 0), results[1], 5));
}

void kilni_gradient_max_pool_with_indices(kilni_rule *rule)
{
    kilni_g_give(
        rule, 0,
        back(rule, KILN_OP_MAX_POOL_BACKWARD, kilni_g_grad(rule, 0), kilni_g_out(rule, 1), 5));
}

/// [n, c, ..] as [n, c, places].
static kiln_tensor *as_planes(kilni_rule *rule, kiln_tensor *x)
{
    if (x == NULL) {
        return NULL;
    }
    const int64_t *dims = kiln_tensor_dims(x);
    int64_t places = 1;
    for (size_t i = 2; i < kiln_tensor_rank(x); i++) {
        places *= dims[i];
    }
    const int64_t flat[] = {dims[0], dims[1], places};
    return kilni_g_reshape(rule, x, flat, 3);
}

/// What lies in the planes of `x` at places; 0 where a place is outside.
static kiln_tensor *taken(kilni_rule *rule, kiln_tensor *x, kiln_tensor *places,
                          const kiln_tensor_desc *like)
{
    x = as_planes(rule, x);
    places = as_planes(rule, places);
    if (rule->status != KILN_STATUS_OK || kiln_desc_count(like) == 0) {
        return kilni_g_full(rule, like, 0);
    }
    int64_t count = kiln_tensor_dims(x)[2];
    const kiln_attr axis = kilni_attr_i64(2);
    kiln_tensor *outside =
        kilni_g_2(rule, KILN_OP_LOGICAL_OR, kilni_g_count(rule, KILN_OP_LESS_SCALAR, places, 0),
                  kilni_g_count(rule, KILN_OP_GREATER_EQUAL_SCALAR, places, count));
    if (count == 0) {
        return kilni_g_full(rule, like, 0);
    }
    kiln_tensor *found = kilni_g_with_2(rule, KILN_OP_GATHER, x, places, &axis, 1);
    found = kilni_g_fill(rule, found, outside, 0);
    return kilni_g_reshape(rule, found, like->dims, like->rank);
}

static int64_t listed(const kilni_rule *rule, kiln_attr_key key, unsigned index, int64_t otherwise)
{
    const kiln_attr *list = kiln_op_attr(rule->call, key);
    return index < list->count ? list->v.ints[index] : otherwise;
}

/// Which indices along a spatial axis are no element of their window.
static kiln_tensor *beside_window(kilni_rule *rule, kiln_tensor *at, unsigned axis)
{
    const kiln_tensor_desc *grad = kilni_g_desc(rule, 0);
    int64_t gap = listed(rule, KILN_KEY_DILATIONS, axis, 1);
    int64_t most = gap * (listed(rule, KILN_KEY_KERNEL, axis, 1) - 1);
    int64_t dims[KILN_MAX_RANK] = {0};
    kiln_tensor *starts = NULL;
    for (unsigned i = 0; i < grad->rank; i++) {
        dims[i] = i == axis + 2 ? grad->dims[i] : 1;
    }
    const kiln_attr attrs[] = {kilni_attr_i64(grad->dims[axis + 2]),
                               kilni_attr_dtype(KILN_DTYPE_I64),
                               kilni_attr_i64(-listed(rule, KILN_KEY_PADDING, axis, 0)),
                               kilni_attr_i64(listed(rule, KILN_KEY_STRIDES, axis, 1))};
    kilni_g_op(rule, KILN_OP_ARANGE, NULL, 0, attrs, 4, &starts);
    at = kilni_g_sub(rule, at, kilni_g_reshape(rule, starts, dims, grad->rank));
    kiln_tensor *between = kilni_g_count(rule, KILN_OP_REM_SCALAR, at, gap);
    between = kilni_g_count(rule, KILN_OP_NOT_EQUAL_SCALAR, between, 0);
    kiln_tensor *before = kilni_g_count(rule, KILN_OP_LESS_SCALAR, at, 0);
    kiln_tensor *behind = kilni_g_count(rule, KILN_OP_GREATER_SCALAR, at, most);
    return kilni_g_2(rule, KILN_OP_LOGICAL_OR, between,
                     kilni_g_2(rule, KILN_OP_LOGICAL_OR, before, behind));
}

/// max_pool_backward(grad, indices): each element of grad goes to its place, if that is in its
/// window.
void kilni_gradient_max_pool_backward(kilni_rule *rule)
{
    const kiln_tensor_desc *grad = kilni_g_desc(rule, 0);
    const kiln_tensor_desc *x = &rule->call->outputs[0];
    kiln_tensor *rest = kilni_g_cast(rule, kilni_g_in(rule, 1), KILN_DTYPE_I64);
    kiln_tensor *given = taken(rule, kilni_g_grad(rule, 0), kilni_g_in(rule, 1), grad);
    if (kiln_desc_count(x) == 0) {
        kilni_g_give(rule, 0, given);
        return;
    }
    for (unsigned i = x->rank; i > 2; i--) {
        kiln_tensor *at = kilni_g_count(rule, KILN_OP_REM_SCALAR, rest, x->dims[i - 1]);
        rest = kilni_g_count(rule, KILN_OP_DIV_SCALAR, rest, x->dims[i - 1]);
        given = kilni_g_fill(rule, given, beside_window(rule, at, i - 3), 0);
    }
    kilni_g_give(rule, 0, given);
}

/// Of several values for one place the last stays, as the numbers of the places show.
void kilni_gradient_max_unpool(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_tensor *numbers = kilni_g_count(rule, KILN_OP_ADD_SCALAR, kilni_g_numbers(rule, x), 1);
    kiln_tensor_desc integers = *x;
    integers.dtype = KILN_DTYPE_I64;
    kiln_tensor *won = taken(rule, kilni_g_again(rule, numbers), kilni_g_in(rule, 1), &integers);
    kiln_tensor *lost = kilni_g_2(rule, KILN_OP_NOT_EQUAL, won, numbers);
    kiln_tensor *given = taken(rule, kilni_g_grad(rule, 0), kilni_g_in(rule, 1), x);
    kilni_g_give(rule, 0, kilni_g_fill(rule, given, lost, 0));
}

void kilni_gradient_avg_pool(kilni_rule *rule)
{
    kilni_g_give(rule, 0, back(rule, KILN_OP_AVG_POOL_BACKWARD, kilni_g_grad(rule, 0), NULL, 6));
}

void kilni_gradient_avg_pool_backward(kilni_rule *rule)
{
    give_forth(rule, KILN_OP_AVG_POOL);
}

/// With s = grad * y^(1 - p): |x|^(p - 1) * sign(x) times the sum of s over the windows with x. The
/// sum is the gradient of a mean, times the elements in each window, which lp_pool of ones counts.
void kilni_gradient_lp_pool(kilni_rule *rule)
{
    kiln_attr attrs[KILN_MAX_ATTRS];
    double p = kilni_g_f64(rule, KILN_KEY_P);
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *y = kilni_g_out(rule, 0);
    memcpy(attrs, rule->call->attrs, 6 * sizeof(attrs[0]));
    attrs[5] = kilni_attr_f64(1);
    kiln_tensor *count =
        kilni_g_with(rule, KILN_OP_LP_POOL, kilni_g_full(rule, kilni_g_desc(rule, 0), 1), attrs, 6);
    kiln_tensor *part = kilni_g_scalar(rule, KILN_OP_POW_SCALAR, y, 1 - p);
    part = kilni_g_fill(rule, part, kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, y, 0), 0);
    part = kilni_g_mul(rule, kilni_g_mul(rule, kilni_g_grad(rule, 0), part), count);
    const kiln_tensor_desc *desc = kilni_g_desc(rule, 0);
    attrs[0] = kilni_attr_ints(desc->dims, desc->rank);
    memcpy(&attrs[1], rule->call->attrs, 5 * sizeof(attrs[0]));
    attrs[6] = kilni_attr_none();
    kiln_tensor *sums = kilni_g_with(rule, KILN_OP_AVG_POOL_BACKWARD, part, attrs, 7);
    kiln_tensor *slope = kilni_g_1(rule, KILN_OP_SIGN, x);
    kiln_tensor *size = kilni_g_1(rule, KILN_OP_ABS, x);
    slope = kilni_g_mul(rule, slope, kilni_g_scalar(rule, KILN_OP_POW_SCALAR, size, p - 1));
    kilni_g_give(rule, 0, kilni_g_mul(rule, sums, slope));
}

void kilni_gradient_adaptive_avg_pool(kilni_rule *rule)
{
    kilni_g_give(rule, 0,
                 back(rule, KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD, kilni_g_grad(rule, 0), NULL, 0));
}

void kilni_gradient_adaptive_avg_pool_backward(kilni_rule *rule)
{
    const kiln_tensor_desc *grad = kilni_g_desc(rule, 0);
    const kiln_attr size = kilni_attr_ints(grad->dims + 2, grad->rank - 2u);
    kilni_g_give(rule, 0,
                 kilni_g_with(rule, KILN_OP_ADAPTIVE_AVG_POOL, kilni_g_grad(rule, 0), &size, 1));
}

void kilni_gradient_adaptive_max_pool(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_tensor_desc planes = {.dtype = x->dtype, .rank = 3, .dims = {x->dims[0], x->dims[1], 1}};
    for (unsigned i = 2; i < x->rank; i++) {
        planes.dims[2] *= x->dims[i];
    }
    kiln_tensor *sums = kilni_g_scatter(rule, &planes, as_planes(rule, kilni_g_grad(rule, 0)),
                                        as_planes(rule, kilni_g_out(rule, 1)), 2);
    kilni_g_give(rule, 0, kilni_g_reshape(rule, sums, x->dims, x->rank));
}

// ---- resampling ----

void kilni_gradient_interpolate(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_attr attrs[KILN_MAX_ATTRS] = {kilni_attr_ints(x->dims, x->rank)};
    memcpy(&attrs[1], rule->call->attrs + 1, (rule->call->n_attrs - 1u) * sizeof(attrs[0]));
    kilni_g_give(rule, 0,
                 kilni_g_with(rule, KILN_OP_INTERPOLATE_BACKWARD, kilni_g_grad(rule, 0), attrs,
                              rule->call->n_attrs));
}

/// The lengths from the first axis that is resampled on.
void kilni_gradient_interpolate_backward(kilni_rule *rule)
{
    const kiln_tensor_desc *grad = kilni_g_desc(rule, 0);
    const kiln_tensor_desc *x = &rule->call->outputs[0];
    const kiln_attr *scales = kiln_op_attr(rule->call, KILN_KEY_SCALES);
    const kiln_attr *region = kiln_op_attr(rule->call, KILN_KEY_REGION);
    unsigned first = 0;
    while (first < grad->rank && grad->dims[first] == x->dims[first]) {
        first++;
    }
    unsigned named = scales->count > region->count / 2 ? scales->count : region->count / 2;
    first = first > grad->rank - named ? grad->rank - named : first;
    kiln_attr attrs[KILN_MAX_ATTRS] = {kilni_attr_ints(grad->dims + first, grad->rank - first)};
    memcpy(&attrs[1], rule->call->attrs + 1, (rule->call->n_attrs - 1u) * sizeof(attrs[0]));
    kilni_g_give(
        rule, 0,
        kilni_g_with(rule, KILN_OP_INTERPOLATE, kilni_g_grad(rule, 0), attrs, rule->call->n_attrs));
}
