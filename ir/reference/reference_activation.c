// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of activations and of their derivatives: a function of one element of each
// input and the numbers among the attributes, computed in double and rounded once.
#include <math.h>

#include "reference_internal.h"

typedef double (*element_fn)(const double *x, const double *numbers);

static kiln_status map_numbers(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, element_fn of, const double *numbers)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (unsigned i = 0; i < call->n_inputs; i++) {
        kilni_ref_walk_add(&walk, &inputs[i]);
    }
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double x[KILNI_REF_WALK_VIEWS] = {0};
        for (unsigned i = 0; i < call->n_inputs; i++) {
            x[i] = kilni_ref_load(&inputs[i], walk.at[i + 1]).f;
        }
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(of(x, numbers)));
    }
    return KILN_STATUS_OK;
}

#define REFERENCE(name, of)                                                                        \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        const double numbers[2] = {kiln_op_attr_f64(call, KILN_KEY_ALPHA),                         \
                                   kiln_op_attr_f64(call, KILN_KEY_BETA)};                         \
        (void)err;                                                                                 \
        return map_numbers(call, inputs, outputs, of, numbers);                                    \
    }

static double clamped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double prelu_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[0] < 0 ? x[0] * x[1] : x[0];
}

static double hard_sigmoid_of(const double *x, const double *numbers)
{
    return clamped(numbers[0] * x[0] + numbers[1], 0, 1);
}

static double hard_swish_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[0] * clamped(x[0] / 6 + 0.5, 0, 1);
}

static double log_sigmoid_of(const double *x, const double *numbers)
{
    (void)numbers;
    return -softplus(-x[0]);
}

static double softplus_of(const double *x, const double *numbers)
{
    (void)numbers;
    return softplus(x[0]);
}

static double mish_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[0] * tanh(softplus(x[0]));
}

static double silu_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[0] * (1 / (1 + exp(-x[0])));
}

static double elu_of(const double *x, const double *numbers)
{
    return x[0] > 0 ? x[0] : numbers[0] * expm1(x[0]);
}

static double relu_backward_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[0] <= 0 ? 0 : x[1];
}

static double sigmoid_backward_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[1] * (x[0] * (1 - x[0]));
}

static double log_sigmoid_backward_of(const double *x, const double *numbers)
{
    (void)numbers;
    return x[1] * (1 / (1 + exp(x[0])));
}

REFERENCE(prelu, prelu_of)
REFERENCE(hard_sigmoid, hard_sigmoid_of)
REFERENCE(hard_swish, hard_swish_of)
REFERENCE(log_sigmoid, log_sigmoid_of)
REFERENCE(softplus, softplus_of)
REFERENCE(mish, mish_of)
REFERENCE(silu, silu_of)
REFERENCE(elu, elu_of)
REFERENCE(relu_backward, relu_backward_of)
REFERENCE(sigmoid_backward, sigmoid_backward_of)
REFERENCE(log_sigmoid_backward, log_sigmoid_backward_of)
#undef REFERENCE

/// Beyond 30 the slope is 0 or 1.
static double gelu_backward_of(const double *x, const double *numbers)
{
    double c = clamped(x[0], -30, 30);
    (void)numbers;
    return x[1] * (0.5 * (1 + erf(c * M_SQRT1_2)) + c * exp(-0.5 * c * c) * 0.3989422804014327);
}

static double gelu_tanh_backward_of(const double *x, const double *numbers)
{
    double c = clamped(x[0], -30, 30);
    double t = tanh(0.7978845608028654 * (c + 0.044715 * c * c * c));
    double rise = 0.7978845608028654 * (1 + 0.134145 * c * c);
    (void)numbers;
    return x[1] * (0.5 * (1 + t) + 0.5 * c * (1 - t * t) * rise);
}

kiln_status kiln_ref_gelu_backward(const kiln_op_record *call, const kiln_view *inputs,
                                   const kiln_view *outputs, kiln_error *err)
{
    bool by_tanh = kiln_op_attr_i64(call, KILN_KEY_APPROXIMATE) != 0;
    (void)err;
    return map_numbers(call, inputs, outputs, by_tanh ? gelu_tanh_backward_of : gelu_backward_of,
                       NULL);
}
