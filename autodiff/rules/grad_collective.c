// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of collective operations: collective again. All members go backwards, each records its
// part, in the order of all other parts.
#include "gradients.h"

/// Every member's result has every input in it, so each input gets the gradients of all results:
/// their sum, or for a mean their mean.
void kilni_gradient_all_reduce(kilni_rule *rule)
{
    const kiln_attr *attrs = rule->call->attrs; // reduction, group, member
    bool is_alone = attrs[1].v.i == 0;
    bool is_linear = attrs[0].count > 0 && // sum, mean; others: min, max, prod
                     (attrs[0].v.text[0] == 's' || attrs[0].v.text[1] == 'e');
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (!is_alone && !is_linear) {
        kilni_g_refuse(rule, "only of a sum or a mean it is written");
        return;
    }
    if (!is_alone) {
        grad = kilni_g_with(rule, KILN_OP_ALL_REDUCE, grad, attrs, 3);
        grad = kilni_g_1(rule, KILN_OP_COLLECTIVE_SYNC, grad);
    }
    kilni_g_give(rule, 0, grad);
}

void kilni_gradient_collective_sync(kilni_rule *rule)
{
    kilni_g_give(rule, 0, kilni_g_grad(rule, 0));
}
