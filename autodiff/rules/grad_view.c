// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of operators that only move elements: views, joining, padding. Decides how elements
// find their way back.
#include "gradients.h"

#include <string.h>

void kilni_gradient_reshape(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kilni_g_give(rule, 0, kilni_g_reshape(rule, kilni_g_grad(rule, 0), x->dims, x->rank));
}

void kilni_gradient_permute(kilni_rule *rule)
{
    const kiln_attr *axes = kiln_op_attr(rule->call, KILN_KEY_AXES);
    unsigned rank = kilni_g_desc(rule, 0)->rank;
    int64_t back[KILN_MAX_RANK] = {0};
    for (unsigned i = 0; i < rank; i++) {
        unsigned from = axes->count > 0 ? kilni_g_axis(axes->v.ints[i], rank) : rank - 1 - i;
        back[from] = i;
    }
    kilni_g_give(rule, 0, kilni_g_permute(rule, kilni_g_grad(rule, 0), back, rank));
}

/// Adds in place to what has arrived: many slices of one tensor cost what they hold, not as many
/// tensors of zeros.
void kilni_gradient_slice(kilni_rule *rule)
{
    const kiln_op_record *call = rule->call;
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kiln_tensor *whole = rule->arrived;
    if (whole != NULL) {
        grad =
            kilni_g_2(rule, KILN_OP_ADD,
                      kilni_g_with(rule, KILN_OP_SLICE, whole, call->attrs, call->n_attrs), grad);
        rule->added = true;
    } else {
        whole = kilni_g_full(rule, kilni_g_desc(rule, 0), 0);
    }
    kilni_g_give(
        rule, 0,
        kilni_g_with_2(rule, KILN_OP_SLICE_ASSIGN, whole, grad, call->attrs, call->n_attrs));
}

void kilni_gradient_slice_assign(kilni_rule *rule)
{
    const kiln_op_record *call = rule->call;
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 0)) {
        kiln_tensor *zeros = kilni_g_full(rule, &call->inputs[1], 0);
        kilni_g_give(
            rule, 0,
            kilni_g_with_2(rule, KILN_OP_SLICE_ASSIGN, grad, zeros, call->attrs, call->n_attrs));
    }
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, kilni_g_with(rule, KILN_OP_SLICE, grad, call->attrs, call->n_attrs));
    }
}

void kilni_gradient_flip(kilni_rule *rule)
{
    kilni_g_give(rule, 0,
                 kilni_g_with(rule, KILN_OP_FLIP, kilni_g_grad(rule, 0), rule->call->attrs, 1));
}

/// The operator shows where each element comes from by moving the numbers of the places.
void kilni_gradient_moved(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    kiln_tensor *places = kilni_g_again(rule, kilni_g_numbers(rule, x));
    kilni_g_give(rule, 0, kilni_g_put_back(rule, x, kilni_g_grad(rule, 0), places));
}

void kilni_gradient_pad(kilni_rule *rule)
{
    const kiln_attr *mode = kiln_op_attr(rule->call, KILN_KEY_MODE);
    const kiln_attr *padding = kiln_op_attr(rule->call, KILN_KEY_PADDING);
    int64_t back[2 * KILN_MAX_RANK];
    if (mode->type == KILN_ATTR_STRING && strcmp(mode->v.text, "constant") != 0) {
        const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
        const kiln_attr attrs[] = {*padding, *mode, kilni_attr_none()};
        kiln_tensor *places = kilni_g_numbers(rule, x);
        places = kilni_g_with(rule, KILN_OP_PAD, places, attrs, 3);
        kilni_g_give(rule, 0, kilni_g_put_back(rule, x, kilni_g_grad(rule, 0), places));
        return;
    }
    for (unsigned i = 0; i < padding->count; i++) {
        back[i] = -padding->v.ints[i];
    }
    const kiln_attr attrs[] = {kilni_attr_ints(back, padding->count), kilni_attr_none(),
                               kilni_attr_none()};
    kilni_g_give(rule, 0, kilni_g_with(rule, KILN_OP_PAD, kilni_g_grad(rule, 0), attrs, 3));
}

void kilni_gradient_concat(kilni_rule *rule)
{
    unsigned axis = kilni_g_axis(kilni_g_i64(rule, KILN_KEY_AXIS), kilni_g_desc(rule, 0)->rank);
    int64_t start = 0;
    for (unsigned i = 0; i < rule->call->n_inputs; i++) {
        int64_t end = start + kilni_g_desc(rule, i)->dims[axis];
        if (kilni_g_wants(rule, i)) {
            kilni_g_give(rule, i, kilni_g_slice(rule, kilni_g_grad(rule, 0), axis, start, end));
        }
        start = end;
    }
}
