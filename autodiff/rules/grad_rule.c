// SPDX-License-Identifier: MIT OR Apache-2.0
// What rules are written with: operations recorded through the public calls, the first failure, and
// who holds what a rule makes. Decides how a gradient fits the input that it is for.
#include "grad_rule.h"

#include <string.h>

void kilni_rule_fini(kilni_rule *rule)
{
    for (size_t i = rule->n_made; i > 0; i--) {
        kiln_release(rule->made[i - 1]);
    }
    kiln_free(rule->env, rule->made);
    rule->made = NULL;
    rule->n_made = 0;
}

// ---- the operation ----

static const char *name_of(const kilni_rule *rule)
{
    return kiln_op_info_of(rule->call->op)->name;
}

static void fail(kilni_rule *rule, kiln_status status, const char *text)
{
    if (rule->status == KILN_STATUS_OK) {
        rule->status = kiln_error_set(rule->err, status, __FILE__, __LINE__,
                                      "the gradient of %s: %s", name_of(rule), text);
    }
}

void kilni_g_refuse(kilni_rule *rule, const char *what)
{
    fail(rule, KILN_STATUS_UNIMPLEMENTED, what);
}

kiln_tensor *kilni_g_in(kilni_rule *rule, unsigned index)
{
    if (index >= rule->call->n_inputs) {
        return NULL;
    }
    if (rule->inputs[index] == NULL) {
        fail(rule, KILN_STATUS_INTERNAL, "an input that its rule uses was not kept");
    }
    return rule->inputs[index];
}

kiln_tensor *kilni_g_out(kilni_rule *rule, unsigned index)
{
    if (rule->outputs[index] == NULL) {
        fail(rule, KILN_STATUS_INTERNAL, "a result that its rule uses was not kept");
    }
    return rule->outputs[index];
}

kiln_tensor *kilni_g_grad(kilni_rule *rule, unsigned index)
{
    return rule->grads[index] != NULL ? rule->grads[index]
                                      : kilni_g_full(rule, &rule->call->outputs[index], 0);
}

bool kilni_g_wants(const kilni_rule *rule, unsigned index)
{
    return index < rule->call->n_inputs && (rule->wanted >> index & 1) != 0;
}

/// Sums over the axes that the input has not, or with length 1.
static kiln_tensor *sum_to(kilni_rule *rule, kiln_tensor *grad, const kiln_tensor_desc *desc)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n_axes = 0;
    size_t rank = grad != NULL ? kiln_tensor_rank(grad) : 0;
    if (grad == NULL || rank < desc->rank) {
        fail(rule, KILN_STATUS_INTERNAL, "its rule gives fewer axes than the input has");
        return NULL;
    }
    const int64_t *dims = kiln_tensor_dims(grad);
    size_t more = rank - desc->rank;
    for (size_t i = 0; i < rank; i++) {
        if (i < more || (desc->dims[i - more] == 1 && dims[i] != 1)) {
            axes[n_axes++] = (int64_t)i;
        }
    }
    if (n_axes > 0) {
        grad = kilni_g_reduce(rule, KILN_OP_SUM, grad, axes, n_axes, /*keepdims=*/true);
    }
    return more > 0 ? kilni_g_reshape(rule, grad, desc->dims, desc->rank) : grad;
}

void kilni_g_give(kilni_rule *rule, unsigned index, kiln_tensor *grad)
{
    if (!kilni_g_wants(rule, index) || rule->status != KILN_STATUS_OK) {
        return;
    }
    const kiln_tensor_desc *desc = kilni_g_desc(rule, index);
    grad = sum_to(rule, grad, desc);
    if (grad != NULL && kiln_tensor_dtype(grad) != desc->dtype) {
        grad = kilni_g_cast(rule, grad, desc->dtype);
    }
    if (rule->status == KILN_STATUS_OK &&
        (kiln_tensor_rank(grad) != desc->rank ||
         memcmp(kiln_tensor_dims(grad), desc->dims, desc->rank * sizeof(*desc->dims)) != 0)) {
        fail(rule, KILN_STATUS_INTERNAL, "its rule gives another shape than the input has");
    }
    if (rule->status == KILN_STATUS_OK) {
        rule->given[index] = kiln_retain(grad);
    }
}

// ---- operations ----

static bool reserve(kilni_rule *rule, size_t more)
{
    if (rule->n_made + more <= rule->capacity) {
        return true;
    }
    size_t capacity = rule->capacity * 2 + 32;
    kiln_tensor **grown = kiln_realloc(rule->env, rule->made, rule->capacity * sizeof(*grown),
                                       capacity * sizeof(*grown));
    if (grown == NULL) {
        fail(rule, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory");
        return false;
    }
    rule->made = grown;
    rule->capacity = capacity;
    return true;
}

void kilni_g_op(kilni_rule *rule, kiln_op op, kiln_tensor *const *inputs, size_t n_inputs,
                const kiln_attr *attrs, size_t n_attrs, kiln_tensor **out_tensors)
{
    size_t n_outputs = kiln_op_info_of(op)->n_outputs;
    memset(out_tensors, 0, n_outputs * sizeof(kiln_tensor *));
    if (rule->status != KILN_STATUS_OK || !reserve(rule, n_outputs)) {
        return;
    }
    while (n_inputs > 0 && inputs[n_inputs - 1] == NULL) {
        n_inputs--;
    }
    rule->status =
        kiln_record(rule->device, op, inputs, n_inputs, attrs, n_attrs, out_tensors, rule->err);
    if (rule->status != KILN_STATUS_OK) {
        (void)kiln_error_context(rule->err, "the gradient of %s", name_of(rule));
        return;
    }
    for (size_t i = 0; i < n_outputs; i++) {
        rule->made[rule->n_made++] = out_tensors[i];
    }
}

kiln_tensor *kilni_g_with(kilni_rule *rule, kiln_op op, kiln_tensor *x, const kiln_attr *attrs,
                          size_t n_attrs)
{
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    kilni_g_op(rule, op, &x, 1, attrs, n_attrs, results);
    return results[0];
}

kiln_tensor *kilni_g_with_2(kilni_rule *rule, kiln_op op, kiln_tensor *a, kiln_tensor *b,
                            const kiln_attr *attrs, size_t n_attrs)
{
    kiln_tensor *const inputs[] = {a, b};
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    kilni_g_op(rule, op, inputs, 2, attrs, n_attrs, results);
    return results[0];
}

kiln_tensor *kilni_g_1(kilni_rule *rule, kiln_op op, kiln_tensor *x)
{
    return kilni_g_with(rule, op, x, NULL, 0);
}

kiln_tensor *kilni_g_2(kilni_rule *rule, kiln_op op, kiln_tensor *a, kiln_tensor *b)
{
    return kilni_g_with_2(rule, op, a, b, NULL, 0);
}

kiln_tensor *kilni_g_scalar(kilni_rule *rule, kiln_op op, kiln_tensor *x, double value)
{
    const kiln_attr attr = kilni_attr_f64(value);
    return kilni_g_with(rule, op, x, &attr, 1);
}

kiln_tensor *kilni_g_count(kilni_rule *rule, kiln_op op, kiln_tensor *x, int64_t value)
{
    const kiln_attr attr = kilni_attr_i64(value);
    return kilni_g_with(rule, op, x, &attr, 1);
}

kiln_tensor *kilni_g_where(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b, kiln_tensor *mask)
{
    kiln_tensor *const inputs[] = {a, b, mask};
    kiln_tensor *result = NULL;
    kilni_g_op(rule, KILN_OP_WHERE, inputs, 3, NULL, 0, &result);
    return result;
}

kiln_tensor *kilni_g_fill(kilni_rule *rule, kiln_tensor *x, kiln_tensor *mask, double value)
{
    const kiln_attr attr = kilni_attr_f64(value);
    return kilni_g_with_2(rule, KILN_OP_MASK_FILL, x, mask, &attr, 1);
}

kiln_tensor *kilni_g_cast(kilni_rule *rule, kiln_tensor *x, kiln_dtype dtype)
{
    const kiln_attr attr = kilni_attr_dtype(dtype);
    return kilni_g_with(rule, KILN_OP_CAST, x, &attr, 1);
}

kiln_tensor *kilni_g_full(kilni_rule *rule, const kiln_tensor_desc *like, double value)
{
    const kiln_attr attrs[] = {kilni_attr_ints(like->dims, like->rank),
                               kilni_attr_dtype(like->dtype), kilni_attr_f64(value)};
    kiln_tensor *result = NULL;
    kilni_g_op(rule, KILN_OP_FULL, NULL, 0, attrs, 3, &result);
    return result;
}

kiln_tensor *kilni_g_reduce(kilni_rule *rule, kiln_op op, kiln_tensor *x, const int64_t *axes,
                            size_t n_axes, bool keepdims)
{
    const kiln_attr attrs[] = {kilni_attr_ints(axes, n_axes), kilni_attr_bool(keepdims)};
    return kilni_g_with(rule, op, x, attrs, 2);
}

kiln_tensor *kilni_g_reshape(kilni_rule *rule, kiln_tensor *x, const int64_t *dims, size_t rank)
{
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    return kilni_g_with(rule, KILN_OP_RESHAPE, x, &attr, 1);
}

kiln_tensor *kilni_g_expand(kilni_rule *rule, kiln_tensor *x, const int64_t *dims, size_t rank)
{
    const kiln_attr attr = kilni_attr_ints(dims, rank);
    return kilni_g_with(rule, KILN_OP_EXPAND, x, &attr, 1);
}

kiln_tensor *kilni_g_permute(kilni_rule *rule, kiln_tensor *x, const int64_t *axes, size_t rank)
{
    const kiln_attr attr = kilni_attr_ints(axes, rank);
    return rank > 0 ? kilni_g_with(rule, KILN_OP_PERMUTE, x, &attr, 1) : x;
}

kiln_tensor *kilni_g_flip(kilni_rule *rule, kiln_tensor *x, unsigned axis)
{
    const int64_t axes[] = {(int64_t)axis};
    const kiln_attr attr = kilni_attr_ints(axes, 1);
    return kilni_g_with(rule, KILN_OP_FLIP, x, &attr, 1);
}

kiln_tensor *kilni_g_slice(kilni_rule *rule, kiln_tensor *x, unsigned axis, int64_t start,
                           int64_t end)
{
    int64_t starts[KILN_MAX_RANK] = {0};
    int64_t ends[KILN_MAX_RANK] = {0};
    size_t rank = x != NULL ? kiln_tensor_rank(x) : 0;
    for (size_t i = 0; i < rank; i++) {
        ends[i] = kiln_tensor_dims(x)[i];
    }
    starts[axis] = start;
    ends[axis] = end;
    const kiln_attr attrs[] = {kilni_attr_ints(starts, rank), kilni_attr_ints(ends, rank),
                               kilni_attr_none()};
    return kilni_g_with(rule, KILN_OP_SLICE, x, attrs, 3);
}

kiln_tensor *kilni_g_matmul(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b, bool transpose_a,
                            bool transpose_b)
{
    const kiln_attr attrs[] = {kilni_attr_bool(transpose_a), kilni_attr_bool(transpose_b)};
    return kilni_g_with_2(rule, KILN_OP_MATMUL, a, b, attrs, 2);
}

kiln_tensor *kilni_g_numbers(kilni_rule *rule, const kiln_tensor_desc *like)
{
    const kiln_attr attrs[] = {kilni_attr_i64(kiln_desc_count(like)),
                               kilni_attr_dtype(KILN_DTYPE_I64), kilni_attr_i64(0),
                               kilni_attr_i64(1)};
    kiln_tensor *result = NULL;
    kilni_g_op(rule, KILN_OP_ARANGE, NULL, 0, attrs, 4, &result);
    return kilni_g_reshape(rule, result, like->dims, like->rank);
}

kiln_tensor *kilni_g_scatter(kilni_rule *rule, const kiln_tensor_desc *like, kiln_tensor *values,
                             kiln_tensor *indices, unsigned axis)
{
    kiln_tensor *const inputs[] = {kilni_g_full(rule, like, 0), values, indices};
    const kiln_attr attrs[] = {kilni_attr_i64((int64_t)axis), kilni_attr_text("add")};
    kiln_tensor *result = NULL;
    kilni_g_op(rule, KILN_OP_SCATTER, inputs, 3, attrs, 2, &result);
    return result;
}

kiln_tensor *kilni_g_put_back(kilni_rule *rule, const kiln_tensor_desc *like, kiln_tensor *values,
                              kiln_tensor *moved)
{
    const int64_t all[] = {-1};
    if (values != NULL && kiln_tensor_count(values) == 0) {
        return kilni_g_full(rule, like, 0);
    }
    kiln_tensor_desc flat = {.dtype = like->dtype, .rank = 1, .dims = {kiln_desc_count(like)}};
    values = kilni_g_reshape(rule, values, all, 1);
    moved = kilni_g_reshape(rule, moved, all, 1);
    kiln_tensor *sums = kilni_g_scatter(rule, &flat, values, moved, 0);
    return kilni_g_reshape(rule, sums, like->dims, like->rank);
}

kiln_tensor *kilni_g_again(kilni_rule *rule, kiln_tensor *x)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    const kiln_op_record *call = rule->call;
    inputs[0] = x;
    for (unsigned i = 1; i < call->n_inputs; i++) {
        inputs[i] = kilni_g_in(rule, i);
    }
    kilni_g_op(rule, call->op, inputs, call->n_inputs, call->attrs, call->n_attrs, results);
    return results[0];
}
