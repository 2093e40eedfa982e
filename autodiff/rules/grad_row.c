// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients along rows: softmax, normalisation with given statistics, transforms, losses,
// determinants.
#include "gradients.h"

#include <string.h>

/// softmax and log_softmax, each by its backward operator.
void kilni_gradient_softmax(kilni_rule *rule)
{
    kiln_op op =
        rule->call->op == KILN_OP_SOFTMAX ? KILN_OP_SOFTMAX_BACKWARD : KILN_OP_LOG_SOFTMAX_BACKWARD;
    kilni_g_give(rule, 0,
                 kilni_g_with_2(rule, op, kilni_g_out(rule, 0), kilni_g_grad(rule, 0),
                                rule->call->attrs, 1));
}

// ---- batch_norm ----

/// A parameter for each channel, so that it meets axis 1 of x.
static kiln_tensor *by_channel(kilni_rule *rule, kiln_tensor *parameter)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    int64_t dims[KILN_MAX_RANK];
    for (unsigned i = 0; i < x->rank; i++) {
        dims[i] = i == 1 ? x->dims[1] : 1;
    }
    return kilni_g_reshape(rule, parameter, dims, x->rank);
}

static void give_channels(kilni_rule *rule, unsigned index, kiln_tensor *grad)
{
    int64_t axes[KILN_MAX_RANK];
    size_t n = 0;
    for (unsigned i = 0; i < kilni_g_desc(rule, 0)->rank; i++) {
        if (i != 1) {
            axes[n++] = i;
        }
    }
    if (kilni_g_wants(rule, index)) {
        kilni_g_give(rule, index,
                     n > 0 ? kilni_g_reduce(rule, KILN_OP_SUM, grad, axes, n, false) : grad);
    }
}

void kilni_gradient_batch_norm(kilni_rule *rule)
{
    double epsilon = kilni_g_f64(rule, KILN_KEY_EPSILON);
    kiln_tensor *grad = kilni_g_grad(rule, 0);
    kiln_tensor *factor = kilni_g_shift(rule, kilni_g_in(rule, 4), epsilon);
    factor = by_channel(rule, kilni_g_1(rule, KILN_OP_RSQRT, factor));
    kiln_tensor *centred =
        kilni_g_sub(rule, kilni_g_in(rule, 0), by_channel(rule, kilni_g_in(rule, 3)));
    kiln_tensor *normal = kilni_g_mul(rule, centred, factor);
    kiln_tensor *part = kilni_g_mul(rule, by_channel(rule, kilni_g_in(rule, 1)), factor);
    part = kilni_g_mul(rule, grad, part);
    kilni_g_give(rule, 0, part);
    give_channels(rule, 1, kilni_g_mul(rule, grad, normal));
    give_channels(rule, 2, grad);
    give_channels(rule, 3, kilni_g_neg(rule, part));
    part = kilni_g_mul(rule, kilni_g_mul(rule, part, normal), factor);
    give_channels(rule, 4, kilni_g_scale(rule, part, -0.5));
}

// ---- norms of each row, group or channel ----

/// By the backward operator, which takes no bias.
void kilni_gradient_norm(kilni_rule *rule)
{
    static const kiln_op backward[][2] = {{KILN_OP_LAYER_NORM, KILN_OP_LAYER_NORM_BACKWARD},
                                          {KILN_OP_RMS_NORM, KILN_OP_RMS_NORM_BACKWARD},
                                          {KILN_OP_GROUP_NORM, KILN_OP_GROUP_NORM_BACKWARD},
                                          {KILN_OP_INSTANCE_NORM, KILN_OP_INSTANCE_NORM_BACKWARD}};
    const kiln_op_record *call = rule->call;
    kiln_tensor *const inputs[] = {kilni_g_grad(rule, 0), kilni_g_in(rule, 0), kilni_g_in(rule, 1)};
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    unsigned kind = 0;
    while (backward[kind][0] != call->op) {
        kind++;
    }
    kilni_g_op(rule, backward[kind][1], inputs, 3, call->attrs, call->n_attrs, results);
    for (unsigned i = 0; i < call->n_inputs; i++) {
        kilni_g_give(rule, i, results[i]);
    }
}

// ---- transforms ----

/// The transform is a symmetric matrix, so its gradient is that of its conjugate: the transform the
/// other way, without or with the division by the length.
void kilni_gradient_fft(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    bool inverse = kilni_g_i64(rule, KILN_KEY_INVERSE) != 0;
    int64_t axis = kilni_g_i64(rule, KILN_KEY_AXIS);
    double length = (double)x->dims[kilni_g_axis(axis, x->rank)];
    kiln_tensor *const inputs[] = {kilni_g_grad(rule, 0), kilni_g_grad(rule, 1)};
    kiln_tensor *results[KILN_MAX_OUTPUTS];
    const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_bool(!inverse)};
    kilni_g_op(rule, KILN_OP_FFT, inputs, 2, attrs, 2, results);
    for (unsigned i = 0; i < 2; i++) {
        if (kilni_g_wants(rule, i)) {
            kilni_g_give(rule, i, kilni_g_scale(rule, results[i], inverse ? 1 / length : length));
        }
    }
}

// ---- losses, determinants ----

void kilni_gradient_ctc_loss(kilni_rule *rule)
{
    kiln_tensor *const inputs[] = {kilni_g_in(rule, 0), kilni_g_grad(rule, 0), kilni_g_in(rule, 1),
                                   kilni_g_in(rule, 2), kilni_g_in(rule, 3)};
    kiln_tensor *result = NULL;
    kilni_g_op(rule, KILN_OP_CTC_LOSS_BACKWARD, inputs, 5, rule->call->attrs, 1, &result);
    kilni_g_give(rule, 0, result);
}

/// By cofactors: that of element [i, j] is the determinant with row i replaced by ones at column j
/// alone. They are right where the matrix has no inverse, and take n^2 determinants.
void kilni_gradient_det(kilni_rule *rule)
{
    const kiln_tensor_desc *x = kilni_g_desc(rule, 0);
    unsigned batch = x->rank - 2u;
    int64_t n = x->dims[batch];
    int64_t dims[KILN_MAX_RANK + 2] = {0};
    int64_t ones[KILN_MAX_RANK + 2] = {0};
    if (batch + 4 > KILN_MAX_RANK) {
        kilni_g_refuse(rule, "of so many axes it is not written");
        return;
    }
    for (unsigned i = 0; i < batch; i++) {
        dims[i] = ones[i] = x->dims[i];
    }
    for (unsigned i = 0; i < 4; i++) { // i, j, row, column
        dims[batch + i] = n;
        ones[batch + i] = i < 2 ? 1 : n;
    }
    const int64_t square[] = {n, n};
    const int64_t rows[] = {n, 1, n, 1};
    const int64_t columns[] = {1, n, 1, n};
    const kiln_attr attrs[] = {kilni_attr_ints(square, 2), kilni_attr_dtype(KILN_DTYPE_BOOL),
                               kilni_attr_none()};
    kiln_tensor *eye = NULL;
    kilni_g_op(rule, KILN_OP_EYE, NULL, 0, attrs, 3, &eye);
    kiln_tensor *row = kilni_g_reshape(rule, eye, rows, 4);
    kiln_tensor *column = kilni_g_reshape(rule, eye, columns, 4);
    kiln_tensor *units = kilni_g_cast(rule, column, x->dtype);
    kiln_tensor *many = kilni_g_reshape(rule, kilni_g_in(rule, 0), ones, batch + 4);
    many = kilni_g_expand(rule, many, dims, batch + 4);
    kiln_tensor *cofactors = kilni_g_1(rule, KILN_OP_DET, kilni_g_where(rule, units, many, row));
    ones[batch] = ones[batch + 1] = 1;
    kiln_tensor *grad = kilni_g_reshape(rule, kilni_g_grad(rule, 0), ones, batch + 2);
    kilni_g_give(rule, 0, kilni_g_mul(rule, grad, cofactors));
}
