// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of operators with indices. Where elements are taken, an index outside is clamped, so
// its gradient goes to the outer element; where they are put, it is dropped.
#include "gradients.h"

#include <string.h>

/// Indices from 0 to count - 1, as operators that take elements read them.
static kiln_tensor *clamped(kilni_rule *rule, kiln_tensor *indices, int64_t count)
{
    kiln_tensor *below = kilni_g_count(rule, KILN_OP_LESS_SCALAR, indices, 0);
    kiln_tensor *turned = kilni_g_count(rule, KILN_OP_ADD_SCALAR, indices, count);
    const kiln_attr bounds[] = {kilni_attr_i64(0), kilni_attr_i64(count > 0 ? count - 1 : 0)};
    indices = kilni_g_where(rule, turned, indices, below);
    return kilni_g_with(rule, KILN_OP_CLAMP, indices, bounds, 2);
}

void kilni_gradient_gather(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    unsigned axis = kilni_g_call_axis(rule);
    kiln_tensor *indices = clamped(rule, kilni_g_in(rule, 1), x->dims[axis]);
    kilni_g_give(rule, 0, kilni_g_scatter(rule, x, kilni_g_grad(rule, 0), indices, axis));
}

void kilni_gradient_select(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    unsigned axis = kilni_g_call_axis(rule);
    kiln_tensor *const inputs[] = {kilni_g_full(rule, x, 0), kilni_g_grad(rule, 0),
                                   clamped(rule, kilni_g_in(rule, 1), x->dims[axis])};
    const kiln_attr attrs[] = {kilni_attr_i64((int64_t)axis), kilni_attr_text("add")};
    kiln_tensor *sums = NULL;
    kilni_g_op(rule, KILN_OP_SELECT_ASSIGN, inputs, 3, attrs, 2, &sums);
    kilni_g_give(rule, 0, sums);
}

void kilni_gradient_embedding(kilni_rule *rule)
{
    int64_t count = kilni_g_desc(rule, 0)->dims[0];
    const kiln_attr attr = kilni_attr_i64(count);
    kilni_g_give(rule, 0,
                 kilni_g_with_2(rule, KILN_OP_EMBEDDING_BACKWARD, kilni_g_grad(rule, 0),
                                clamped(rule, kilni_g_in(rule, 1), count), &attr, 1));
}

// ---- elements put ----

/// One of scatter, scatter_nd and select_assign, and what takes elements from where it puts them.
typedef struct putter {
    kiln_op put;
    kiln_op take;
    const kiln_attr *axis; ///< NULL: it has none
} putter;

/// "" is the mode assign.
static kiln_tensor *put(kilni_rule *rule, const putter *p, kiln_tensor *x, kiln_tensor *values,
                        const char *mode)
{
    kiln_tensor *const inputs[] = {x, values, kilni_g_in(rule, 2)};
    kiln_attr attrs[2] = {kilni_attr_none()};
    size_t n_attrs = 0;
    if (p->axis != NULL) {
        attrs[n_attrs++] = *p->axis;
    }
    attrs[n_attrs++] = kilni_attr_text(mode[0] != '\0' ? mode : NULL);
    kiln_tensor *result = NULL;
    kilni_g_op(rule, p->put, inputs, 3, attrs, n_attrs, &result);
    return result;
}

static kiln_tensor *take(kilni_rule *rule, const putter *p, kiln_tensor *x)
{
    const kiln_attr shared = kilni_attr_i64(0);
    const kiln_attr *attr = p->axis != NULL ? p->axis : &shared; // gather_nd has batch_dims
    return kilni_g_with_2(rule, p->take, x, kilni_g_in(rule, 2), attr, 1);
}

/// Whose value stays where each was put: the last that is not dropped, as the numbers of the values
/// show.
static kiln_tensor *lost_values(kilni_rule *rule, const putter *p)
{
    kiln_tensor_desc nobody = *kilni_g_desc(rule, 0);
    nobody.dtype = KILN_DTYPE_I64;
    kiln_tensor *numbers = kilni_g_numbers(rule, kilni_g_desc(rule, 1));
    kiln_tensor *winners = put(rule, p, kilni_g_full(rule, &nobody, -1), numbers, "");
    return kilni_g_2(rule, KILN_OP_NOT_EQUAL, take(rule, p, winners), numbers);
}

/// With indices outside the range, which put nothing.
static kiln_tensor *dropped_values(kilni_rule *rule, const putter *p)
{
    const kiln_tensor_desc *indices = kilni_g_desc(rule, 2);
    const kiln_tensor_desc *values = kilni_g_desc(rule, 1);
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    int64_t dims[KILN_MAX_RANK];
    int64_t counts[KILN_MAX_RANK];
    unsigned axis = p->axis != NULL ? kilni_g_call_axis(rule) : 0;
    unsigned tuple = p->axis != NULL ? 1 : (unsigned)indices->dims[indices->rank - 1];
    memcpy(counts, p->axis != NULL ? &x->dims[axis] : x->dims, tuple * sizeof(counts[0]));
    kiln_tensor *index = kilni_g_in(rule, 2);
    kiln_tensor *outside = NULL;
    for (unsigned i = 0; i < tuple; i++) {
        kiln_tensor *part =
            p->axis != NULL ? index : kilni_g_slice(rule, index, indices->rank - 1u, i, i + 1);
        kiln_tensor *low = kilni_g_count(rule, KILN_OP_LESS_SCALAR, part, -counts[i]);
        kiln_tensor *high = kilni_g_count(rule, KILN_OP_GREATER_EQUAL_SCALAR, part, counts[i]);
        kiln_tensor *both = kilni_g_2(rule, KILN_OP_LOGICAL_OR, low, high);
        outside = outside == NULL ? both : kilni_g_2(rule, KILN_OP_LOGICAL_OR, outside, both);
    }
    if (p->put == KILN_OP_SCATTER || outside == NULL) {
        return outside;
    }
    for (unsigned i = 0; i < values->rank; i++) {
        bool named = p->axis != NULL ? i == axis : i + 1 < indices->rank;
        dims[i] = named ? values->dims[i] : 1;
    }
    return kilni_g_reshape(rule, outside, dims, values->rank);
}

static kiln_tensor *without(kilni_rule *rule, kiln_tensor *x, kiln_tensor *mask)
{
    return mask != NULL ? kilni_g_fill(rule, x, mask, 0) : x;
}

static void give_assigned(kilni_rule *rule, const putter *p)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    if (kilni_g_wants(rule, 0)) {
        kilni_g_give(rule, 0, put(rule, p, grad, kilni_g_full(rule, kilni_g_desc(rule, 1), 0), ""));
    }
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, without(rule, take(rule, p, grad), lost_values(rule, p)));
    }
}

static void give_added(kilni_rule *rule, const putter *p)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kilni_g_give(rule, 0, grad);
    if (kilni_g_wants(rule, 1)) {
        kilni_g_give(rule, 1, without(rule, take(rule, p, grad), dropped_values(rule, p)));
    }
}

/// Each factor gets the product of the others. `full` is the product of all that are not 0; a zero
/// gets it where it is the only one.
static void give_multiplied(kilni_rule *rule, const putter *p)
{
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kiln_tensor *x = kilni_g_in(rule, 0);
    kiln_tensor *values = kilni_g_in(rule, 1);
    kiln_dtype dtype = kilni_g_desc(rule, 0)->dtype;
    kiln_tensor *none = kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, values, 0);
    kiln_tensor *ones = kilni_g_full(rule, kilni_g_desc(rule, 0), 1);
    kiln_tensor *factors = kilni_g_fill(rule, values, none, 1);
    kilni_g_give(rule, 0, kilni_g_mul(rule, grad, put(rule, p, ones, values, "mul")));
    if (!kilni_g_wants(rule, 1)) {
        return;
    }
    kiln_tensor *zeros = put(rule, p, kilni_g_full(rule, kilni_g_desc(rule, 0), 0),
                             kilni_g_cast(rule, none, dtype), "add");
    kiln_tensor *full = kilni_g_mul(rule, grad, put(rule, p, x, factors, "mul"));
    kiln_tensor *more = take(rule, p, zeros);
    more = kilni_g_sub(rule, more, kilni_g_cast(rule, none, dtype));
    more = kilni_g_scalar(rule, KILN_OP_GREATER_SCALAR, more, 0);
    kiln_tensor *given = kilni_g_div(rule, take(rule, p, full), factors);
    given = kilni_g_fill(rule, given, more, 0);
    kilni_g_give(rule, 1, without(rule, given, dropped_values(rule, p)));
}

/// What is equal to the result shares the gradient.
static void give_extremes(kilni_rule *rule, const putter *p)
{
    kiln_tensor *y = kilni_g_out(rule, 0);
    kiln_dtype dtype = kilni_g_desc(rule, 0)->dtype;
    kiln_tensor *kept = kilni_g_2(rule, KILN_OP_EQUAL, kilni_g_in(rule, 0), y);
    kiln_tensor *won = kilni_g_2(rule, KILN_OP_EQUAL, kilni_g_in(rule, 1), take(rule, p, y));
    kept = kilni_g_cast(rule, kept, dtype);
    won = without(rule, kilni_g_cast(rule, won, dtype), dropped_values(rule, p));
    kiln_tensor *part = kilni_g_div(rule, kilni_g_grad(rule, 0), put(rule, p, kept, won, "add"));
    if (kilni_g_wants(rule, 0)) {
        kiln_tensor *nobody = kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, kept, 0);
        kilni_g_give(rule, 0, kilni_g_fill(rule, part, nobody, 0));
    }
    if (kilni_g_wants(rule, 1)) {
        kiln_tensor *lost = kilni_g_scalar(rule, KILN_OP_EQUAL_SCALAR, won, 0);
        kilni_g_give(rule, 1, kilni_g_fill(rule, take(rule, p, part), lost, 0));
    }
}

static void give_put(kilni_rule *rule, const putter *p)
{
    const kiln_attr *mode = kiln_op_attr(rule->call, KILN_KEY_MODE);
    const char *name = mode->type == KILN_ATTR_STRING ? mode->v.text : "assign";
    if (strcmp(name, "assign") == 0) {
        give_assigned(rule, p);
    } else if (strcmp(name, "add") == 0) {
        give_added(rule, p);
    } else if (strcmp(name, "mul") == 0) {
        give_multiplied(rule, p);
    } else {
        give_extremes(rule, p);
    }
}

void kilni_gradient_scatter(kilni_rule *rule)
{
    const putter p = {KILN_OP_SCATTER, KILN_OP_GATHER, &rule->call->attrs[0]};
    give_put(rule, &p);
}

void kilni_gradient_scatter_nd(kilni_rule *rule)
{
    const putter p = {KILN_OP_SCATTER_ND, KILN_OP_GATHER_ND, NULL};
    give_put(rule, &p);
}

void kilni_gradient_select_assign(kilni_rule *rule)
{
    const putter p = {KILN_OP_SELECT_ASSIGN, KILN_OP_SELECT, &rule->call->attrs[0]};
    give_put(rule, &p);
}
