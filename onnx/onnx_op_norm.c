// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's normalisations. Batch normalisation at inference is one operator; the others are written
// with reductions and elementwise operators, which fusers join.
#include "onnx_import.h"

#include <string.h>

/* x - mean over axes, and 1 / sqrt(variance + epsilon); keeps the axes. */
typedef struct moments {
    kilni_onnx_ref mean;
    kilni_onnx_ref centred;
    kilni_onnx_ref variance;
} moments;

static moments moments_of(kilni_onnx_call *call, kilni_onnx_ref x, const int64_t *axes,
                          uint32_t count)
{
    moments m = {0};
    m.mean = kilni_onnx_reduce(call, KILN_OP_MEAN, x, axes, count, true);
    m.centred = kilni_onnx_binary(call, KILN_OP_SUB, x, m.mean);
    kilni_onnx_ref squares = kilni_onnx_binary(call, KILN_OP_MUL, m.centred, m.centred);
    m.variance = kilni_onnx_reduce(call, KILN_OP_MEAN, squares, axes, count, true);
    return m;
}

static kilni_onnx_ref inverse_deviation(kilni_onnx_call *call, kilni_onnx_ref variance,
                                        double epsilon)
{
    kilni_onnx_ref sum = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, variance, epsilon);
    return kilni_onnx_unary(call, KILN_OP_RSQRT, sum);
}

/* [c] as [c, 1, ...], to stand beside axis 1 of `like`. */
static kilni_onnx_ref per_channel(kilni_onnx_call *call, kilni_onnx_ref x,
                                  const kilni_onnx_value *like)
{
    if (!kilni_onnx_ok(call) || x->desc.rank != 1 || like->desc.rank < 2) {
        return x;
    }
    int64_t dims[KILN_MAX_RANK] = {x->desc.dims[0]};
    for (uint32_t i = 1; i + 1 < like->desc.rank; i++) {
        dims[i] = 1;
    }
    return kilni_onnx_reshape(call, x, dims, like->desc.rank - 1u);
}

// ---- batch and instance -----------------------------------------------------

static uint32_t all_but_channel(const kilni_onnx_value *x, uint32_t first, int64_t *axes)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < x->desc.rank; i++) {
        if (i != 1) {
            axes[count++] = i;
        }
    }
    return count;
}

static kilni_onnx_ref batch_norm(kilni_onnx_call *call, const kilni_onnx_ref inputs[5],
                                 double epsilon)
{
    const kiln_attr attr = kilni_onnx_a_f64(epsilon);
    return kilni_onnx_emit(call, KILN_OP_BATCH_NORM, inputs, 5, &attr, 1);
}

/* running * momentum + current * (1 - momentum) */
static kilni_onnx_ref blend(kilni_onnx_call *call, kilni_onnx_ref running, kilni_onnx_ref current,
                            double momentum)
{
    running = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, running, momentum);
    current = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, current, 1 - momentum);
    return kilni_onnx_binary(call, KILN_OP_ADD, running, current);
}

/* Statistics of this batch; the second and third outputs are the running ones, blended. */
static void batch_norm_training(kilni_onnx_call *call, const kilni_onnx_ref inputs[5],
                                double epsilon)
{
    int64_t axes[KILN_MAX_RANK];
    double momentum = kilni_onnx_attr_float(call, "momentum", (double)0.9f);
    uint32_t count = all_but_channel(inputs[0], 0, axes);
    moments m = moments_of(call, inputs[0], axes, count);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t channels[] = {inputs[0]->desc.dims[1]};
    kilni_onnx_ref mean = kilni_onnx_reshape(call, m.mean, channels, 1);
    kilni_onnx_ref variance = kilni_onnx_reshape(call, m.variance, channels, 1);
    const kilni_onnx_ref now[] = {inputs[0], inputs[1], inputs[2], mean, variance};
    kilni_onnx_out(call, 0, batch_norm(call, now, epsilon));
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, blend(call, inputs[3], mean, momentum));
    }
    if (kilni_onnx_wants(call, 2)) {
        kilni_onnx_out(call, 2, blend(call, inputs[4], variance, momentum));
    }
}

void kilni_onnx_op_batch_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref inputs[5];
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-5f);
    for (uint32_t i = 0; i < 5; i++) {
        inputs[i] = kilni_onnx_in(call, i);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (inputs[0]->desc.rank < 2 || kilni_onnx_attr_int(call, "spatial", 1) == 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "statistics for each element are not supported");
        return;
    }
    if (kilni_onnx_attr_int(call, "training_mode", 0) != 0) {
        batch_norm_training(call, inputs, epsilon);
        return;
    }
    kilni_onnx_out(call, 0, batch_norm(call, inputs, epsilon));
}

void kilni_onnx_op_instance_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref scale = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_in(call, 2);
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-5f);
    int64_t axes[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank < 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u has no spatial axis", x->desc.rank);
        return;
    }
    moments m = moments_of(call, x, axes, all_but_channel(x, 2, axes));
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_MUL, m.centred,
                                         inverse_deviation(call, m.variance, epsilon));
    y = kilni_onnx_binary(call, KILN_OP_MUL, y, per_channel(call, scale, x));
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_ADD, y, per_channel(call, bias, x)));
}

// ---- along rows -------------------------------------------------------------

void kilni_onnx_op_layer_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref scale = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_opt(call, 2);
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-5f);
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = 0;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", -1), x->desc.rank);
    for (uint32_t i = axis; i < x->desc.rank; i++) {
        axes[count++] = i;
    }
    moments m = moments_of(call, x, axes, count);
    kilni_onnx_ref factor = inverse_deviation(call, m.variance, epsilon);
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_MUL, m.centred, factor);
    y = kilni_onnx_binary(call, KILN_OP_MUL, y, scale);
    y = bias == NULL ? y : kilni_onnx_binary(call, KILN_OP_ADD, y, bias);
    kilni_onnx_out(call, 0, y);
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, m.mean);
    }
    if (kilni_onnx_wants(call, 2)) {
        kilni_onnx_out(call, 2, factor);
    }
}

void kilni_onnx_op_mean_variance_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ints axes;
    if (!kilni_onnx_attr_ints(call, "axes", &axes)) {
        axes = (kilni_onnx_ints){.v = {0, 2, 3}, .count = 3};
    }
    moments m = moments_of(call, x, axes.v, axes.count);
    kilni_onnx_ref deviation = kilni_onnx_unary(call, KILN_OP_SQRT, m.variance);
    deviation = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, deviation, 1e-9);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, m.centred, deviation));
}

void kilni_onnx_op_lp_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", -1);
    bool squared = kilni_onnx_attr_int(call, "p", 2) != 1;
    kilni_onnx_ref size = squared ? kilni_onnx_binary(call, KILN_OP_MUL, x, x)
                                  : kilni_onnx_unary(call, KILN_OP_ABS, x);
    size = kilni_onnx_reduce(call, KILN_OP_SUM, size, &axis, 1, true);
    size = squared ? kilni_onnx_unary(call, KILN_OP_SQRT, size) : size;
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, size));
}

/* x / (bias + alpha / size * sum of squares over neighbouring channels)^beta; the mean of a window
   along the channels, padding counted, is that sum divided by size. */
void kilni_onnx_op_lrn(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t size = kilni_onnx_attr_int(call, "size", 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", (double)1e-4f);
    double beta = kilni_onnx_attr_float(call, "beta", 0.75);
    double bias = kilni_onnx_attr_float(call, "bias", 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (size < 1 || size > 1 << 20 || x->desc.rank < 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "size %lld for rank %u", (long long)size,
                        x->desc.rank);
        return;
    }
    const int64_t planes[] = {x->desc.dims[0], 1, x->desc.dims[1],
                              kilni_onnx_span_of(&x->desc, 2, x->desc.rank)};
    const int64_t kernel[] = {size, 1};
    const int64_t padding[] = {(size - 1) / 2, 0, size / 2, 0};
    const kiln_attr attrs[] = {kilni_onnx_a_ints(kernel, 2),  kilni_onnx_a_none(),
                               kilni_onnx_a_ints(padding, 4), kilni_onnx_a_none(),
                               kilni_onnx_a_none(),           kilni_onnx_a_bool(true)};
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_MUL, x, x);
    y = kilni_onnx_reshape(call, y, planes, 4);
    y = kilni_onnx_emit(call, KILN_OP_AVG_POOL, &y, 1, attrs, 6);
    y = kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank);
    y = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, alpha);
    y = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, y, bias);
    y = kilni_onnx_scalar(call, KILN_OP_POW_SCALAR, y, beta);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, y));
}
