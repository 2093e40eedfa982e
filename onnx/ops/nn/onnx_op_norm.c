// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's normalisations. Those along rows and batch normalisation at inference are one operator;
// the others are written with reductions and elementwise operators, which fusers join.
#include "onnx_import.h"

#include <string.h>

/// x - mean over axes, and 1 / sqrt(variance + epsilon); keeps the axes.
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

// ---- batch and instance ----

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

/// In the narrow type that a model is kept in: one factor and one summand a channel, which are made
/// of the statistics in f32, of constants on the host.
static kilni_onnx_ref scale_and_shift(kilni_onnx_call *call, const kilni_onnx_ref inputs[5],
                                      double epsilon)
{
    int64_t dims[KILN_MAX_RANK] = {0};
    kilni_onnx_ref x = inputs[0];
    if (!kilni_onnx_ok(call) || x->desc.rank < 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "batch normalisation of rank %u", x->desc.rank);
        return NULL;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        dims[i] = i == 1 ? x->desc.dims[1] : 1;
    }
    kilni_onnx_ref scale = kilni_onnx_binary(call, KILN_OP_MUL, inputs[1],
                                             inverse_deviation(call, inputs[4], epsilon));
    kilni_onnx_ref taken = kilni_onnx_binary(call, KILN_OP_MUL, inputs[3], scale);
    kilni_onnx_ref shift = kilni_onnx_binary(call, KILN_OP_SUB, inputs[2], taken);
    scale = kilni_onnx_reshape(call, scale, dims, x->desc.rank);
    shift = kilni_onnx_reshape(call, shift, dims, x->desc.rank);
    return kilni_onnx_binary(call, KILN_OP_ADD, kilni_onnx_binary(call, KILN_OP_MUL, x, scale),
                             shift);
}

static kilni_onnx_ref batch_norm(kilni_onnx_call *call, const kilni_onnx_ref inputs[5],
                                 double epsilon)
{
    const kiln_attr attr = kilni_attr_f64(epsilon);
    return kilni_onnx_is_kept(call)
               ? scale_and_shift(call, inputs, epsilon)
               : kilni_onnx_emit(call, KILN_OP_BATCH_NORM, inputs, 5, &attr, 1);
}

/// running * momentum + current * (1 - momentum)
static kilni_onnx_ref blend(kilni_onnx_call *call, kilni_onnx_ref running, kilni_onnx_ref current,
                            double momentum)
{
    running = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, running, momentum);
    current = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, current, 1 - momentum);
    return kilni_onnx_binary(call, KILN_OP_ADD, running, current);
}

/// Statistics of this batch; the second and third outputs are the running ones, blended. Before
/// version 14 two more give what was blended in.
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
    kilni_onnx_ref x = kilni_onnx_in(call, 0); // of rank 1 it is one channel
    kilni_onnx_ref y = batch_norm(call, now, epsilon);
    kilni_onnx_out(call, 0, kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank));
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, blend(call, inputs[3], mean, momentum));
    }
    if (kilni_onnx_wants(call, 2)) {
        kilni_onnx_out(call, 2, blend(call, inputs[4], variance, momentum));
    }
    kilni_onnx_out(call, 3, mean);
    kilni_onnx_out(call, 4, variance);
}

/// Before version 14 a node trains when it has more than one output.
static bool trains(kilni_onnx_call *call)
{
    bool more = false;
    for (uint32_t i = 1; i < 5; i++) {
        more = more || kilni_onnx_wants(call, i);
    }
    return call->version < 14 ? more : kilni_onnx_attr_int(call, "training_mode", 0) != 0;
}

/// Before version 9, spatial = 0: statistics for each element of a sample.
static void batch_norm_by_element(kilni_onnx_call *call, const kilni_onnx_ref inputs[5],
                                  double epsilon)
{
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_SUB, inputs[0], inputs[3]);
    y = kilni_onnx_binary(call, KILN_OP_MUL, y, inverse_deviation(call, inputs[4], epsilon));
    y = kilni_onnx_binary(call, KILN_OP_MUL, y, inputs[1]);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_ADD, y, inputs[2]));
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
    kilni_onnx_ref x = inputs[0];
    if (x->desc.rank == 1) { // one channel
        const int64_t dims[] = {x->desc.dims[0], 1};
        inputs[0] = kilni_onnx_reshape(call, x, dims, 2);
    }
    if (call->version < 9 && kilni_onnx_attr_int(call, "spatial", 1) == 0) {
        batch_norm_by_element(call, inputs, epsilon);
    } else if (trains(call)) {
        batch_norm_training(call, inputs, epsilon);
    } else {
        kilni_onnx_ref y = batch_norm(call, inputs, epsilon);
        kilni_onnx_out(call, 0, kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank));
    }
}

/// One of layer_norm, group_norm and instance_norm.
static kilni_onnx_ref row_norm(kilni_onnx_call *call, kiln_op op, kilni_onnx_ref x,
                               kilni_onnx_ref scale, kilni_onnx_ref bias, const kiln_attr *attrs,
                               uint32_t n_attrs)
{
    const kilni_onnx_ref inputs[] = {x, scale, bias};
    return kilni_onnx_emit(call, op, inputs, bias == NULL ? 2 : 3, attrs, n_attrs);
}

void kilni_onnx_op_instance_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref scale = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_in(call, 2);
    const kiln_attr epsilon = kilni_attr_f64(kilni_onnx_attr_float(call, "epsilon", (double)1e-5f));
    if (kilni_onnx_ok(call) && x->desc.rank < 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "rank %u has no spatial axis", x->desc.rank);
    }
    kilni_onnx_out(call, 0, row_norm(call, KILN_OP_INSTANCE_NORM, x, scale, bias, &epsilon, 1));
}

/// Before version 21 scale and bias are given for each group: repeated for its channels.
static kilni_onnx_ref for_channels(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref value,
                                   int64_t groups)
{
    if (!kilni_onnx_ok(call) || call->version >= 21 || groups < 1 || x->desc.rank < 2 ||
        value->desc.rank != 1 || value->desc.dims[0] != groups) {
        return value;
    }
    const int64_t column[] = {groups, 1};
    const int64_t spread[] = {groups, x->desc.dims[1] / groups};
    const int64_t channels[] = {spread[0] * spread[1]};
    value = kilni_onnx_expand(call, kilni_onnx_reshape(call, value, column, 2), spread, 2);
    return kilni_onnx_reshape(call, value, channels, 1);
}

void kilni_onnx_op_group_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t groups = kilni_onnx_attr_int(call, "num_groups", 0);
    kilni_onnx_ref scale = for_channels(call, x, kilni_onnx_in(call, 1), groups);
    kilni_onnx_ref bias = for_channels(call, x, kilni_onnx_in(call, 2), groups);
    const kiln_attr attrs[] = {kilni_attr_i64(groups), kilni_attr_f64(kilni_onnx_attr_float(
                                                           call, "epsilon", (double)1e-5f))};
    kilni_onnx_out(call, 0, row_norm(call, KILN_OP_GROUP_NORM, x, scale, bias, attrs, 2));
}

// ---- along rows ----

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
    bool whole = scale->desc.rank + axis <= x->desc.rank &&
                 (bias == NULL || bias->desc.rank + axis <= x->desc.rank);
    if (whole && !kilni_onnx_wants(call, 1) && !kilni_onnx_wants(call, 2)) {
        const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_f64(epsilon)};
        kilni_onnx_out(call, 0, row_norm(call, KILN_OP_LAYER_NORM, x, scale, bias, attrs, 2));
        return;
    }
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

/// Computed in the stash type, f32 by default; the scale comes after the cast back.
void kilni_onnx_op_rms_normalization(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref scale = kilni_onnx_in(call, 1);
    double epsilon = kilni_onnx_attr_float(call, "epsilon", (double)1e-5f);
    int64_t given = kilni_onnx_attr_int(call, "axis", -1);
    kiln_dtype stash = kilni_onnx_attr_dtype(call, "stash_type", KILN_DTYPE_F32);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, given, x->desc.rank);
    const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_f64(epsilon)};
    kiln_dtype own = x->desc.dtype;
    stash = own == KILN_DTYPE_F64 ? own : stash;
    bool whole =
        stash == own && scale->desc.dtype == own && scale->desc.rank + axis <= x->desc.rank;
    const kilni_onnx_ref inputs[] = {kilni_onnx_cast(call, x, stash), scale};
    kilni_onnx_ref y = kilni_onnx_emit(call, KILN_OP_RMS_NORM, inputs, whole ? 2 : 1, attrs, 2);
    if (!whole && kilni_onnx_ok(call)) {
        y = kilni_onnx_cast(call, kilni_onnx_cast(call, y, own), scale->desc.dtype);
        y = kilni_onnx_binary(call, KILN_OP_MUL, y, scale);
    }
    kilni_onnx_out(call, 0, y);
}

void kilni_onnx_op_mean_variance_normalization(kilni_onnx_call *call)
{
    call->in_f32 = true; // squares
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

/// From version 22 on zeros stay zeros; before, 0 / 0 is what it is.
void kilni_onnx_op_lp_normalization(kilni_onnx_call *call)
{
    call->in_f32 = true; // squares
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    int64_t axis = kilni_onnx_attr_int(call, "axis", -1);
    bool squared = kilni_onnx_attr_int(call, "p", 2) != 1;
    kilni_onnx_ref size = squared ? kilni_onnx_binary(call, KILN_OP_MUL, x, x)
                                  : kilni_onnx_unary(call, KILN_OP_ABS, x);
    size = kilni_onnx_reduce(call, KILN_OP_SUM, size, &axis, 1, true);
    size = squared ? kilni_onnx_unary(call, KILN_OP_SQRT, size) : size;
    if (call->version >= 22) {
        kilni_onnx_ref zero = kilni_onnx_scalar(call, KILN_OP_EQUAL_SCALAR, size, 0);
        size = kilni_onnx_mask_fill(call, size, zero, 1);
    }
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, size));
}

/// x / (bias + alpha / size * sum of squares over neighbouring channels)^beta; the mean of a window
/// along the channels, padding counted, is that sum divided by size.
void kilni_onnx_op_lrn(kilni_onnx_call *call)
{
    call->in_f32 = true; // squares
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
    const kiln_attr attrs[] = {kilni_attr_ints(kernel, 2),  kilni_attr_none(),
                               kilni_attr_ints(padding, 4), kilni_attr_none(),
                               kilni_attr_none(),           kilni_attr_bool(true)};
    kilni_onnx_ref y = kilni_onnx_binary(call, KILN_OP_MUL, x, x);
    y = kilni_onnx_reshape(call, y, planes, 4);
    y = kilni_onnx_emit(call, KILN_OP_AVG_POOL, &y, 1, attrs, 6);
    y = kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank);
    y = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, alpha);
    y = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, y, bias);
    y = kilni_onnx_scalar(call, KILN_OP_POW_SCALAR, y, beta);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, y));
}
