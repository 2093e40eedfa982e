// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_GRAD_RULE_H
#define KILN_GRAD_RULE_H

/// What the rules of gradients are written with. A rule gets one recorded operation, those of its
/// tensors that its row keeps, and the gradients of its results; it records operations of the table
/// and gives each input a gradient. The first failure stays: what follows does nothing and gives
/// NULL, so that a rule reads like its formula and needs no error handling.

#include "attr_make.h"
#include "ir.h"
#include "kiln.h"

typedef struct kilni_rule {
    const kiln_op_record *call; ///< operator, attributes, descriptions
    kiln_tensor *const *inputs; ///< NULL: not kept
    kiln_tensor *const *outputs; ///< NULL: not kept
    kiln_tensor *const *grads; ///< of the results; NULL: 0
    uint64_t wanted; ///< bit i: input i needs a gradient
    kiln_tensor **given; ///< gradients of the inputs, held; NULL: 0
    kiln_tensor *arrived; ///< what later operations gave input 0; NULL: nothing
    bool added; ///< given[0] has it in it
    // From here: of grad_rule.c.
    kiln_device *device;
    const kiln_env *env;
    kiln_tensor **made; ///< what the rule recorded, let go at its end
    size_t n_made;
    size_t capacity;
    kiln_status status;
    kiln_error *err;
} kilni_rule;

/// Ends a rule: lets go of what it recorded.
void kilni_rule_fini(kilni_rule *rule);

// ---- the operation ----

/// An input or a result that the row keeps; NULL for an input that was left out.
kiln_tensor *kilni_g_in(kilni_rule *rule, unsigned index);
kiln_tensor *kilni_g_out(kilni_rule *rule, unsigned index);
/// The gradient of a result, zeros when it has none.
kiln_tensor *kilni_g_grad(kilni_rule *rule, unsigned index);
static inline const kiln_tensor_desc *kilni_g_desc(const kilni_rule *rule, unsigned index)
{
    return &rule->call->inputs[index];
}
bool kilni_g_wants(const kilni_rule *rule, unsigned index);
/// Gives input `index` its gradient: summed over what was broadcast, in the input's dtype.
void kilni_g_give(kilni_rule *rule, unsigned index, kiln_tensor *grad);
/// There is no rule for this variant.
void kilni_g_refuse(kilni_rule *rule, const char *what);

static inline double kilni_g_f64(const kilni_rule *rule, kiln_attr_key key)
{
    return kiln_op_attr_f64(rule->call, key);
}

static inline int64_t kilni_g_i64(const kilni_rule *rule, kiln_attr_key key)
{
    return kiln_op_attr_i64(rule->call, key);
}

/// The number of an axis that may count from the last.
static inline unsigned kilni_g_axis(int64_t axis, unsigned rank)
{
    return (unsigned)(axis < 0 ? axis + (int64_t)rank : axis);
}

/// The call's axis, of input 0.
static inline unsigned kilni_g_call_axis(const kilni_rule *rule)
{
    return kilni_g_axis(kilni_g_i64(rule, KILN_KEY_AXIS), kilni_g_desc(rule, 0)->rank);
}

// ---- operations ----

/// Records one operation; `out_tensors` gets its results. Inputs after the first NULL are left out.
void kilni_g_op(kilni_rule *rule, kiln_op op, kiln_tensor *const *inputs, size_t n_inputs,
                const kiln_attr *attrs, size_t n_attrs, kiln_tensor **out_tensors);
kiln_tensor *kilni_g_with(kilni_rule *rule, kiln_op op, kiln_tensor *x, const kiln_attr *attrs,
                          size_t n_attrs);
kiln_tensor *kilni_g_with_2(kilni_rule *rule, kiln_op op, kiln_tensor *a, kiln_tensor *b,
                            const kiln_attr *attrs, size_t n_attrs);
kiln_tensor *kilni_g_1(kilni_rule *rule, kiln_op op, kiln_tensor *x);
kiln_tensor *kilni_g_2(kilni_rule *rule, kiln_op op, kiln_tensor *a, kiln_tensor *b);
kiln_tensor *kilni_g_scalar(kilni_rule *rule, kiln_op op, kiln_tensor *x, double value);
kiln_tensor *kilni_g_count(kilni_rule *rule, kiln_op op, kiln_tensor *x, int64_t value);
/// a where mask, else b.
kiln_tensor *kilni_g_where(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b, kiln_tensor *mask);
/// x, but `value` where mask.
kiln_tensor *kilni_g_fill(kilni_rule *rule, kiln_tensor *x, kiln_tensor *mask, double value);
kiln_tensor *kilni_g_cast(kilni_rule *rule, kiln_tensor *x, kiln_dtype dtype);
kiln_tensor *kilni_g_full(kilni_rule *rule, const kiln_tensor_desc *like, double value);
kiln_tensor *kilni_g_reduce(kilni_rule *rule, kiln_op op, kiln_tensor *x, const int64_t *axes,
                            size_t n_axes, bool keepdims);
kiln_tensor *kilni_g_reshape(kilni_rule *rule, kiln_tensor *x, const int64_t *dims, size_t rank);
kiln_tensor *kilni_g_expand(kilni_rule *rule, kiln_tensor *x, const int64_t *dims, size_t rank);
kiln_tensor *kilni_g_permute(kilni_rule *rule, kiln_tensor *x, const int64_t *axes, size_t rank);
kiln_tensor *kilni_g_flip(kilni_rule *rule, kiln_tensor *x, unsigned axis);
/// Elements [start, end) along an axis.
kiln_tensor *kilni_g_slice(kilni_rule *rule, kiln_tensor *x, unsigned axis, int64_t start,
                           int64_t end);
kiln_tensor *kilni_g_matmul(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b, bool transpose_a,
                            bool transpose_b);
/// 0, 1, .. in the shape of `like`, i64.
kiln_tensor *kilni_g_numbers(kilni_rule *rule, const kiln_tensor_desc *like);
/// Zeros like `like`, to which values are added at indices along an axis.
kiln_tensor *kilni_g_scatter(kilni_rule *rule, const kiln_tensor_desc *like, kiln_tensor *values,
                             kiln_tensor *indices, unsigned axis);
/// The same for an operation that only moves elements of input 0: `moved` has, in the shape of
/// `values`, the place in row-major order where each comes from.
kiln_tensor *kilni_g_put_back(kilni_rule *rule, const kiln_tensor_desc *like, kiln_tensor *values,
                              kiln_tensor *moved);
/// The call once more, on another input 0.
kiln_tensor *kilni_g_again(kilni_rule *rule, kiln_tensor *x);

static inline kiln_tensor *kilni_g_add(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b)
{
    return kilni_g_2(rule, KILN_OP_ADD, a, b);
}

static inline kiln_tensor *kilni_g_sub(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b)
{
    return kilni_g_2(rule, KILN_OP_SUB, a, b);
}

static inline kiln_tensor *kilni_g_mul(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b)
{
    return kilni_g_2(rule, KILN_OP_MUL, a, b);
}

static inline kiln_tensor *kilni_g_div(kilni_rule *rule, kiln_tensor *a, kiln_tensor *b)
{
    return kilni_g_2(rule, KILN_OP_DIV, a, b);
}

static inline kiln_tensor *kilni_g_neg(kilni_rule *rule, kiln_tensor *x)
{
    return kilni_g_1(rule, KILN_OP_NEG, x);
}

static inline kiln_tensor *kilni_g_scale(kilni_rule *rule, kiln_tensor *x, double factor)
{
    return kilni_g_scalar(rule, KILN_OP_MUL_SCALAR, x, factor);
}

static inline kiln_tensor *kilni_g_shift(kilni_rule *rule, kiln_tensor *x, double term)
{
    return kilni_g_scalar(rule, KILN_OP_ADD_SCALAR, x, term);
}

static inline kiln_tensor *kilni_g_square(kilni_rule *rule, kiln_tensor *x)
{
    return kilni_g_mul(rule, x, x);
}

#endif
