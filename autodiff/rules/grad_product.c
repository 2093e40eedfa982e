// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of products: matrices, linear layers, convolutions and what they are made of. Decides
// by which operators the products of gradients are recorded, and that those of weights come first:
// then x, which was kept for them alone, can go before its own gradient is there.
#include "gradients.h"

#include <string.h>

// ---- matrices ----

typedef struct product { ///< operands and gradient as matrices: rank 1 got an axis of length 1
    kiln_tensor *a;
    kiln_tensor *b;
    kiln_tensor *grad;
    bool ta;
    bool tb;
} product;

static kiln_tensor *with_axis(kilni_rule *rule, kiln_tensor *x, unsigned before_last, bool wanted)
{
    int64_t dims[KILN_MAX_RANK];
    if (!wanted || x == NULL) {
        return x;
    }
    unsigned rank = (unsigned)kiln_tensor_rank(x);
    unsigned at = rank - before_last;
    for (unsigned i = 0, k = 0; i <= rank; i++) {
        dims[i] = i == at ? 1 : kiln_tensor_dims(x)[k++];
    }
    return kilni_g_reshape(rule, x, dims, rank + 1);
}

static kiln_tensor *without_axis(kilni_rule *rule, kiln_tensor *x, bool wanted)
{
    return wanted && x != NULL
               ? kilni_g_reshape(rule, x, kiln_tensor_dims(x), kiln_tensor_rank(x) - 1)
               : x;
}

static bool is_vector(const kilni_rule *rule, unsigned index)
{
    return kilni_g_desc(rule, index)->rank == 1;
}

static product product_of(kilni_rule *rule)
{
    bool a_vector = is_vector(rule, 0);
    bool b_vector = is_vector(rule, 1);
    product p = {.ta = !a_vector && kilni_g_i64(rule, KILN_KEY_TRANSPOSE_A) != 0,
                 .tb = !b_vector && kilni_g_i64(rule, KILN_KEY_TRANSPOSE_B) != 0};
    p.a = with_axis(rule, kilni_g_in(rule, 0), 1, a_vector);
    p.b = with_axis(rule, kilni_g_in(rule, 1), 0, b_vector);
    p.grad = with_axis(rule, kilni_g_grad(rule, 0), 0, b_vector);
    p.grad = with_axis(rule, p.grad, 1, a_vector);
    return p;
}

/// All rows below one another, where they are not already.
static kiln_tensor *rows_of(kilni_rule *rule, kiln_tensor *x)
{
    size_t rank = x != NULL ? kiln_tensor_rank(x) : 2;
    if (rank == 2) {
        return x;
    }
    const int64_t dims[] = {-1, kiln_tensor_dims(x)[rank - 1]};
    return kilni_g_reshape(rule, x, dims, 2);
}

/// The gradient for b, where b is one matrix and a many, or all of their rows as one.
static kiln_tensor *gradient_of_shared(kilni_rule *rule, const product *p)
{
    kiln_tensor *a = rows_of(rule, p->a);
    kiln_tensor *grad = rows_of(rule, p->grad);
    return p->tb ? kilni_g_matmul(rule, grad, a, true, false)
                 : kilni_g_matmul(rule, a, grad, true, false);
}

void kilni_gradient_matmul(kilni_rule *rule)
{
    product p = product_of(rule);
    if (rule->status != KILN_STATUS_OK) {
        return;
    }
    if (kilni_g_wants(rule, 1)) {
        bool shared = kiln_tensor_rank(p.b) == 2 && kiln_tensor_rank(p.grad) > 2 && !p.ta &&
                      kiln_tensor_count(p.a) > 0 && kiln_tensor_count(p.grad) > 0;
        kiln_tensor *given = shared ? gradient_of_shared(rule, &p)
                             : p.tb ? kilni_g_matmul(rule, p.grad, p.a, true, p.ta)
                                    : kilni_g_matmul(rule, p.a, p.grad, !p.ta, false);
        kilni_g_give(rule, 1, without_axis(rule, given, is_vector(rule, 1)));
    }
    if (kilni_g_wants(rule, 0)) {
        kiln_tensor *given = p.ta ? kilni_g_matmul(rule, p.b, p.grad, p.tb, true)
                                  : kilni_g_matmul(rule, p.grad, p.b, false, !p.tb);
        kilni_g_give(rule, 0, given);
    }
}

void kilni_gradient_linear(kilni_rule *rule)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 1)) {
        kiln_tensor *x = kilni_g_in(rule, 0);
        bool rows = x != NULL && kiln_tensor_rank(x) < kilni_g_desc(rule, 0)->rank;
        kilni_g_give(
            rule, 1,
            kilni_g_2(rule, KILN_OP_LINEAR_WEIGHT_BACKWARD, x, rows ? rows_of(rule, grad) : grad));
    }
    if (kilni_g_wants(rule, 2)) {
        kilni_g_give(rule, 2, kilni_g_1(rule, KILN_OP_LINEAR_BIAS_BACKWARD, grad));
    }
    if (kilni_g_wants(rule, 0)) {
        kilni_g_give(rule, 0,
                     kilni_g_2(rule, KILN_OP_LINEAR_X_BACKWARD, grad, kilni_g_in(rule, 1)));
    }
}

// ---- convolutions ----

/// Strides, padding, dilations and groups of the call, behind the shape of input `index`.
static kiln_tensor *convolve_back(kilni_rule *rule, kiln_op op, kiln_tensor *a, kiln_tensor *b,
                                  unsigned index)
{
    const kiln_tensor_desc *like = kilni_g_desc(rule, index);
    kiln_attr attrs[5] = {kilni_attr_ints(like->dims, like->rank)};
    static const kiln_attr_key keys[] = {KILN_KEY_STRIDES, KILN_KEY_PADDING, KILN_KEY_DILATIONS,
                                         KILN_KEY_GROUPS};
    for (unsigned i = 0; i < 4; i++) {
        attrs[i + 1] = *kiln_op_attr(rule->call, keys[i]);
    }
    return kilni_g_with_2(rule, op, a, b, attrs, 5);
}

static void give_convolution(kilni_rule *rule, kiln_op for_x, kiln_op for_weight)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, convolve_back(rule, for_weight, kilni_g_in(rule, 0), grad, 1));
    }
    if (kilni_g_wants(rule, 2)) {
        kilni_g_give(rule, 2, kilni_g_1(rule, KILN_OP_CONV_BIAS_BACKWARD, grad));
    }
    if (kilni_g_wants(rule, 0)) {
        kilni_g_give(rule, 0, convolve_back(rule, for_x, grad, kilni_g_in(rule, 1), 0));
    }
}

void kilni_gradient_conv(kilni_rule *rule)
{
    give_convolution(rule, KILN_OP_CONV_X_BACKWARD, KILN_OP_CONV_WEIGHT_BACKWARD);
}

void kilni_gradient_conv_transpose(kilni_rule *rule)
{
    give_convolution(rule, KILN_OP_CONV_TRANSPOSE_X_BACKWARD,
                     KILN_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD);
}

/// conv with the attributes of its backward operator, whose first is a shape.
static kiln_tensor *convolve(kilni_rule *rule, kiln_tensor *x, kiln_tensor *weight)
{
    return kilni_g_with_2(rule, KILN_OP_CONV, x, weight, rule->call->attrs + 1, 4);
}

/// The result is linear in grad (input 0) and in weight (input 1).
void kilni_gradient_conv_x_backward(kilni_rule *rule)
{
    kiln_tensor *x = kilni_g_grad(rule, 0); // in the place of conv's x
    if (kilni_g_wants(rule, 0)) {
        kilni_g_give(rule, 0, convolve(rule, x, kilni_g_in(rule, 1)));
    }
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1,
                     convolve_back(rule, KILN_OP_CONV_WEIGHT_BACKWARD, x, kilni_g_in(rule, 0), 1));
    }
}

/// The result is linear in x (input 0) and in grad (input 1).
void kilni_gradient_conv_weight_backward(kilni_rule *rule)
{
    kiln_tensor *weight = kilni_g_grad(rule, 0); // in the place of conv's weight
    if (kilni_g_wants(rule, 0)) {
        kilni_g_give(rule, 0,
                     convolve_back(rule, KILN_OP_CONV_X_BACKWARD, kilni_g_in(rule, 1), weight, 0));
    }
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, convolve(rule, kilni_g_in(rule, 0), weight));
    }
}

void kilni_gradient_im2col(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_attr attrs[5] = {kilni_attr_ints(x->dims + 2, x->rank - 2u)};
    memcpy(&attrs[1], rule->call->attrs, 4 * sizeof(attrs[0]));
    kilni_g_give(rule, 0, kilni_g_with(rule, KILN_OP_COL2IM, kilni_g_grad(rule, 0), attrs, 5));
}

void kilni_gradient_col2im(kilni_rule *rule)
{
    kilni_g_give(
        rule, 0,
        kilni_g_with(rule, KILN_OP_IM2COL, kilni_g_grad(rule, 0), rule->call->attrs + 1, 4));
}

void kilni_gradient_deform_im2col(kilni_rule *rule)
{
    const kiln_op_record *call = rule->call;
    kiln_tensor_desc all = call->inputs[1]; // a mask has one number for each two of an offset
    all.dims[1] /= 2;
    kiln_tensor *mask = kilni_g_in(rule, 2);
    if (mask == NULL) {
        mask = kilni_g_full(rule, &all, 1);
    } else if (kiln_tensor_count(mask) == 1) {
        const int64_t none[] = {0};
        mask = kilni_g_expand(rule, kilni_g_reshape(rule, mask, none, 0), all.dims, all.rank);
    }
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    kiln_tensor *const inputs[] = {kilni_g_in(rule, 0), kilni_g_in(rule, 1), mask,
                                   kilni_g_grad(rule, 0)};
    kilni_g_op(rule, KILN_OP_DEFORM_IM2COL_BACKWARD, inputs, 4, call->attrs, call->n_attrs,
               results);
    for (unsigned i = 0; i < 3; i++) {
        kilni_g_give(rule, i, results[i]);
    }
}
