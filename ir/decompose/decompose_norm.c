// SPDX-License-Identifier: MIT OR Apache-2.0
// Normalisations and their derivatives as reductions and elementwise operations. With
// n = (x - mean) * r, r = 1 / sqrt(variance + epsilon), and h = grad * scale, the derivative is
// r * (h - mean(h) - n * mean(h * n)); without the mean's term where the mean is not subtracted
// (Ba, Kiros, Hinton, "Layer normalization", 2016, supplementary material).
#include "decompose_internal.h"
#include "norm_internal.h"

/// x as the reductions see it: with groups as [batch, groups, rest], else as it is.
typedef struct plan {
    kilni_norm norm;
    kiln_tensor_desc x; ///< of the call
    uint32_t n_axes;
    int64_t axes[KILN_MAX_RANK]; ///< reduced
} plan;

static plan plan_of(kiln_expander *expander)
{
    plan p = {.n_axes = 0};
    if (kilni_ir_norm_of(kilni_expand_call(expander), &p.norm, NULL) != KILN_STATUS_OK) {
        kilni_expand_fail(expander, KILN_STATUS_INTERNAL, "its shapes were not checked");
    }
    p.x = kilni_expand_desc(expander, kilni_expand_input(expander, p.norm.x));
    if (p.norm.groups > 0) {
        p.axes[p.n_axes++] = 2;
        return p;
    }
    for (uint32_t i = 0; i < p.x.rank; i++) {
        if (p.norm.by_channel ? i != 1 : i >= p.norm.first) {
            p.axes[p.n_axes++] = i;
        }
    }
    return p;
}

static kilni_value grouped(kiln_expander *expander, const plan *p, kilni_value x)
{
    int64_t rest = 1;
    if (p->norm.groups <= 0) {
        return x;
    }
    for (uint32_t i = 1; i < p->x.rank; i++) {
        rest *= p->x.dims[i];
    }
    const int64_t dims[] = {p->x.dims[0], p->norm.groups, rest / p->norm.groups};
    return kilni_expand_reshape(expander, x, dims, 3);
}

static kilni_value ungrouped(kiln_expander *expander, const plan *p, kilni_value x)
{
    return p->norm.groups <= 0 ? x : kilni_expand_reshape(expander, x, p->x.dims, p->x.rank);
}

/// The parameter beside x: [c] becomes [c, 1, ..]. 0 when the call has it not.
static kilni_value parameter(kiln_expander *expander, const plan *p, unsigned index)
{
    kilni_value value = kilni_expand_input(expander, p->norm.x + index);
    if (value == 0 || !p->norm.by_channel || kilni_expand_desc(expander, value).rank == 0) {
        return value == 0 ? 0 : kilni_expand_wide(expander, value);
    }
    int64_t dims[KILN_MAX_RANK] = {p->x.dims[1]};
    for (uint32_t i = 1; i + 1 < p->x.rank; i++) {
        dims[i] = 1;
    }
    value = kilni_expand_reshape(expander, value, dims, p->x.rank - 1u);
    return kilni_expand_wide(expander, value);
}

static kilni_value mean_of(kiln_expander *expander, const plan *p, kilni_value x)
{
    return p->n_axes == 0
               ? x
               : kilni_expand_reduce(expander, KILN_OP_MEAN, x, p->axes, p->n_axes, true);
}

typedef struct moments {
    kilni_value mean; ///< 0 without centring
    kilni_value variance;
    kilni_value factor; ///< 1 / sqrt(variance + epsilon)
    kilni_value normal;
} moments;

static moments moments_of(kiln_expander *expander, const plan *p)
{
    moments m = {0};
    kilni_value x = kilni_x_input(expander, p->norm.x);
    x = grouped(expander, p, x);
    if (p->norm.centred) {
        m.mean = mean_of(expander, p, x);
        x = kilni_x_sub(expander, x, m.mean);
    }
    m.variance = mean_of(expander, p, kilni_x_mul(expander, x, x));
    m.factor = kilni_x_shift(expander, m.variance, kilni_x_f64(expander, KILN_KEY_EPSILON));
    m.factor = kilni_expand_1(expander, KILN_OP_RSQRT, m.factor);
    m.normal = kilni_x_mul(expander, x, m.factor);
    return m;
}

static void scaled_output(kiln_expander *expander, const plan *p, kilni_value normal)
{
    kilni_value y = ungrouped(expander, p, normal);
    kilni_value scale = parameter(expander, p, 1);
    y = scale == 0 ? y : kilni_x_mul(expander, y, scale);
    kilni_value bias = p->norm.n_params < 2 ? 0 : parameter(expander, p, 2);
    y = bias == 0 ? y : kilni_x_add(expander, y, bias);
    kilni_expand_output(expander, 0, y);
}

static void forward(kiln_expander *expander)
{
    plan p = plan_of(expander);
    scaled_output(expander, &p, moments_of(expander, &p).normal);
}

void kiln_decompose_layer_norm(kiln_expander *expander)
{
    forward(expander);
}

void kiln_decompose_rms_norm(kiln_expander *expander)
{
    forward(expander);
}

/// Rows of groups have a kernel of their own.
static void by_layer_norm(kiln_expander *expander)
{
    plan p = plan_of(expander);
    kilni_value x = grouped(expander, &p, kilni_x_input(expander, 0));
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64, .count = 1, .v.i = -1},
        {.type = KILN_ATTR_F64, .count = 1, .v.f = kilni_x_f64(expander, KILN_KEY_EPSILON)},
    };
    kilni_value normal = 0;
    kilni_expand_op(expander, KILN_OP_LAYER_NORM, &x, 1, attrs, 2, &normal);
    scaled_output(expander, &p, normal);
}

void kiln_decompose_group_norm(kiln_expander *expander)
{
    by_layer_norm(expander);
}

void kiln_decompose_instance_norm(kiln_expander *expander)
{
    if (kilni_expand_call(expander)->inputs[0].dims[1] == 0) {
        kilni_expand_output(expander, 0, kilni_expand_input(expander, 0));
        return;
    }
    by_layer_norm(expander);
}

/// running * momentum + current * (1 - momentum), the current one as [channels]
static void blended_output(kiln_expander *expander, unsigned index, kilni_value current)
{
    double momentum = kilni_x_f64(expander, KILN_KEY_MOMENTUM);
    kilni_value running = kilni_x_input(expander, 2 + index);
    const int64_t channels = kilni_expand_call(expander)->inputs[0].dims[1];
    current = kilni_expand_reshape(expander, current, &channels, 1);
    running = kilni_x_scale(expander, running, momentum);
    current = kilni_x_scale(expander, current, 1 - momentum);
    kilni_expand_output(expander, index, kilni_x_add(expander, running, current));
}

void kiln_decompose_batch_norm_train(kiln_expander *expander)
{
    plan p = plan_of(expander);
    moments m = moments_of(expander, &p);
    scaled_output(expander, &p, m.normal);
    if (kilni_expand_wants(expander, 1)) {
        blended_output(expander, 1, m.mean);
    }
    if (kilni_expand_wants(expander, 2)) {
        blended_output(expander, 2, m.variance);
    }
}

/// Sums over the axes along which the parameters do not run.
static void parameter_output(kiln_expander *expander, const plan *p, unsigned index, kilni_value x)
{
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->x.rank; i++) {
        if (p->norm.by_channel ? i != 1 : i < p->norm.first) {
            axes[count++] = i;
        }
    }
    x = count == 0 ? x : kilni_expand_reduce(expander, KILN_OP_SUM, x, axes, count, false);
    kilni_expand_output(expander, index, x);
}

/// grad * scale, as the reductions see it.
static kilni_value scaled_grad(kiln_expander *expander, const plan *p, kilni_value grad)
{
    kilni_value scale = parameter(expander, p, 1);
    return grouped(expander, p, scale == 0 ? grad : kilni_x_mul(expander, grad, scale));
}

static void input_output(kiln_expander *expander, const plan *p, kilni_value h, const moments *m)
{
    kilni_value along = mean_of(expander, p, kilni_x_mul(expander, h, m->normal));
    kilni_value x_grad = kilni_x_sub(expander, h, kilni_x_mul(expander, m->normal, along));
    if (p->norm.centred) {
        x_grad = kilni_x_sub(expander, x_grad, mean_of(expander, p, h));
    }
    x_grad = kilni_x_mul(expander, x_grad, m->factor);
    kilni_expand_output(expander, 0, ungrouped(expander, p, x_grad));
}

static void backward(kiln_expander *expander)
{
    plan p = plan_of(expander);
    if (kiln_desc_count(&p.x) == 0) { // groups may not be there
        for (unsigned i = 0; i < kilni_expand_call(expander)->n_outputs; i++) {
            const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[i];
            if (kilni_expand_wants(expander, i)) {
                kilni_expand_output(
                    expander, i, kilni_expand_full(expander, out->dims, out->rank, out->dtype, 0));
            }
        }
        return;
    }
    kilni_value grad = kilni_x_input(expander, 0);
    bool wants_x = kilni_expand_wants(expander, 0);
    bool wants_scale = kilni_expand_wants(expander, 1);
    // First: a fuser then knows both shapes before it reduces.
    kilni_value h = wants_x ? scaled_grad(expander, &p, grad) : 0;
    moments m = wants_x || wants_scale ? moments_of(expander, &p) : (moments){0};
    if (wants_x) {
        input_output(expander, &p, h, &m);
    }
    if (wants_scale) {
        kilni_value normal = ungrouped(expander, &p, m.normal);
        parameter_output(expander, &p, 1, kilni_x_mul(expander, grad, normal));
    }
    if (kilni_expand_call(expander)->n_outputs > 2 && kilni_expand_wants(expander, 2)) {
        parameter_output(expander, &p, 2, grad);
    }
}

void kiln_decompose_layer_norm_backward(kiln_expander *expander)
{
    backward(expander);
}

void kiln_decompose_rms_norm_backward(kiln_expander *expander)
{
    backward(expander);
}

void kiln_decompose_group_norm_backward(kiln_expander *expander)
{
    backward(expander);
}

void kiln_decompose_instance_norm_backward(kiln_expander *expander)
{
    backward(expander);
}

void kiln_decompose_batch_norm_backward(kiln_expander *expander)
{
    backward(expander);
}

// ---- softmax ----

void kiln_decompose_softmin(kiln_expander *expander)
{
    const kiln_attr axis = {
        .type = KILN_ATTR_I64, .count = 1, .v.i = kilni_x_i64(expander, KILN_KEY_AXIS)};
    kilni_value x = kilni_expand_1(expander, KILN_OP_NEG, kilni_expand_input(expander, 0));
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_SOFTMAX, &x, 1, &axis, 1, &result);
    kilni_expand_output(expander, 0, result);
}

static kilni_value sum_along(kiln_expander *expander, kilni_value x)
{
    int64_t axis = kilni_x_i64(expander, KILN_KEY_AXIS);
    return kilni_expand_reduce(expander, KILN_OP_SUM, x, &axis, 1, true);
}

/// output * (grad - sum(grad * output))
void kiln_decompose_softmax_backward(kiln_expander *expander)
{
    kilni_value output = kilni_x_input(expander, 0);
    kilni_value grad = kilni_x_input(expander, 1);
    kilni_value along = sum_along(expander, kilni_x_mul(expander, grad, output));
    kilni_value rest = kilni_x_sub(expander, grad, along);
    kilni_expand_output(expander, 0, kilni_x_mul(expander, output, rest));
}

/// grad - exp(output) * sum(grad)
void kiln_decompose_log_softmax_backward(kiln_expander *expander)
{
    kilni_value grad = kilni_x_input(expander, 1);
    kilni_value share = kilni_expand_1(expander, KILN_OP_EXP, kilni_x_input(expander, 0));
    share = kilni_x_mul(expander, share, sum_along(expander, grad));
    kilni_expand_output(expander, 0, kilni_x_sub(expander, grad, share));
}
