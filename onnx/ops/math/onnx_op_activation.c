// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's activations as chains of primitive operators, for fusers to join, and softmax with its
// older meaning. Each formula lets NaN through and avoids overflow where the plain definition would
// not.
#include "onnx_parts.h"

#include <string.h>

/// alpha * (exp(x) - 1), for x below 0
static kilni_onnx_ref scaled_expm1(kilni_onnx_call *call, kilni_onnx_ref x, double alpha)
{
    kilni_onnx_ref grown = kilni_onnx_unary(call, KILN_OP_EXPM1, x);
    return alpha == 1.0 ? grown : kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, grown, alpha);
}

/// x where x > 0, else other
static kilni_onnx_ref positive_or(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref other)
{
    kilni_onnx_ref positive = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, x, 0);
    return kilni_onnx_where(call, positive, x, other);
}

void kilni_onnx_op_leaky_relu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    const kiln_attr slope = kilni_attr_f64(kilni_onnx_attr_float(call, "alpha", (double)0.01f));
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_LEAKY_RELU, &x, 1, &slope, 1));
}

/// Before version 7 the slope is one number or one for each channel, axis 1.
void kilni_onnx_op_prelu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref slope = kilni_onnx_in(call, 1);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (call->version < 7 && slope->desc.rank == 1 && x->desc.rank > 2) {
        int64_t dims[KILN_MAX_RANK] = {slope->desc.dims[0]};
        for (uint32_t i = 1; i + 1 < x->desc.rank; i++) {
            dims[i] = 1;
        }
        slope = kilni_onnx_reshape(call, slope, dims, x->desc.rank - 1u);
    }
    kilni_onnx_ref scaled = kilni_onnx_binary(call, KILN_OP_MUL, x, slope);
    bool is_float = kilni_onnx_is_float(x);
    kilni_onnx_ref negative = is_float ? kilni_onnx_scalar(call, KILN_OP_LESS_SCALAR, x, 0)
                                       : kilni_onnx_scalar_int(call, KILN_OP_LESS_SCALAR, x, 0);
    kilni_onnx_out(call, 0, kilni_onnx_where(call, negative, scaled, x));
}

void kilni_onnx_op_elu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", 1.0);
    kilni_onnx_out(call, 0, positive_or(call, x, scaled_expm1(call, x, alpha)));
}

void kilni_onnx_op_selu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", (double)1.67326319217681884765625f);
    double gamma = kilni_onnx_attr_float(call, "gamma", (double)1.05070102214813232421875f);
    x = positive_or(call, x, scaled_expm1(call, x, alpha));
    kilni_onnx_out(call, 0, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, gamma));
}

void kilni_onnx_op_celu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", 1.0);
    kilni_onnx_ref y = kilni_onnx_scalar(call, KILN_OP_DIV_SCALAR, x, alpha);
    kilni_onnx_out(call, 0, positive_or(call, x, scaled_expm1(call, y, alpha)));
}

void kilni_onnx_op_thresholded_relu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", 1.0);
    kilni_onnx_ref low = kilni_onnx_scalar(call, KILN_OP_LESS_EQUAL_SCALAR, x, alpha);
    kilni_onnx_out(call, 0, kilni_onnx_mask_fill(call, x, low, 0));
}

static kilni_onnx_ref hard_sigmoid(kilni_onnx_call *call, kilni_onnx_ref x, double alpha,
                                   double beta)
{
    x = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, alpha);
    x = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, x, beta);
    return kilni_onnx_clamp(call, x, 0, 1);
}

void kilni_onnx_op_hard_sigmoid(kilni_onnx_call *call)
{
    double alpha = kilni_onnx_attr_float(call, "alpha", (double)0.2f);
    double beta = kilni_onnx_attr_float(call, "beta", 0.5);
    kilni_onnx_out(call, 0, hard_sigmoid(call, kilni_onnx_in(call, 0), alpha, beta));
}

void kilni_onnx_op_hard_swish(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref gate = hard_sigmoid(call, x, 1.0 / 6.0, 0.5);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_MUL, x, gate));
}

/// x * sigmoid(alpha * x)
static kilni_onnx_ref swish(kilni_onnx_call *call, kilni_onnx_ref x)
{
    double alpha = kilni_onnx_attr_float(call, "alpha", 1.0);
    kilni_onnx_ref gate = alpha == 1.0 ? x : kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, alpha);
    return kilni_onnx_binary(call, KILN_OP_MUL, x, kilni_onnx_unary(call, KILN_OP_SIGMOID, gate));
}

void kilni_onnx_op_swish(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, swish(call, kilni_onnx_in(call, 0)));
}

void kilni_onnx_op_swiglu(kilni_onnx_call *call)
{
    kilni_onnx_ref gate = swish(call, kilni_onnx_in(call, 0));
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_MUL, gate, kilni_onnx_in(call, 1)));
}

/// max(x, 0) + log(1 + exp(-|x|))
static kilni_onnx_ref softplus(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref tail =
        kilni_onnx_unary(call, KILN_OP_NEG, kilni_onnx_unary(call, KILN_OP_ABS, x));
    tail = kilni_onnx_unary(call, KILN_OP_LOG1P, kilni_onnx_unary(call, KILN_OP_EXP, tail));
    return kilni_onnx_binary(call, KILN_OP_ADD, kilni_onnx_unary(call, KILN_OP_RELU, x), tail);
}

void kilni_onnx_op_softplus(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, softplus(call, kilni_onnx_in(call, 0)));
}

void kilni_onnx_op_softsign(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref size = kilni_onnx_unary(call, KILN_OP_ABS, x);
    size = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, size, 1);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_DIV, x, size));
}

void kilni_onnx_op_mish(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref gate = kilni_onnx_unary(call, KILN_OP_TANH, softplus(call, x));
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_MUL, x, gate));
}

/// sqrt(2 / pi) * (x + 0.044715 * x^3)
static kilni_onnx_ref gelu_inner(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref square = kilni_onnx_binary(call, KILN_OP_MUL, x, x);
    square = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, square, 0.044715);
    square = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, square, 1);
    kilni_onnx_ref inner = kilni_onnx_binary(call, KILN_OP_MUL, x, square);
    return kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, inner, 0.7978845608028654);
}

kilni_onnx_ref kilni_onnx_gelu(kilni_onnx_call *call, kilni_onnx_ref x, bool by_tanh)
{
    kilni_onnx_ref gate = NULL;
    if (by_tanh) {
        gate = kilni_onnx_unary(call, KILN_OP_TANH, gelu_inner(call, x));
    } else {
        gate = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 0.70710678118654752);
        gate = kilni_onnx_unary(call, KILN_OP_ERF, gate);
    }
    gate = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, gate, 1);
    kilni_onnx_ref half = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 0.5);
    return kilni_onnx_binary(call, KILN_OP_MUL, half, gate);
}

void kilni_onnx_op_gelu(kilni_onnx_call *call)
{
    const char *form = kilni_onnx_attr_text(call, "approximate", "none");
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_gelu(call, x, strcmp(form, "tanh") == 0));
}

void kilni_onnx_op_shrink(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double lambd = kilni_onnx_attr_float(call, "lambd", 0.5);
    double bias = kilni_onnx_attr_float(call, "bias", 0);
    kilni_onnx_ref below = kilni_onnx_scalar(call, KILN_OP_LESS_SCALAR, x, -lambd);
    kilni_onnx_ref above = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, x, lambd);
    kilni_onnx_ref outside = kilni_onnx_binary(call, KILN_OP_LOGICAL_OR, below, above);
    kilni_onnx_ref moved =
        kilni_onnx_where(call, below, kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, x, bias),
                         kilni_onnx_scalar(call, KILN_OP_SUB_SCALAR, x, bias));
    kilni_onnx_ref inside = kilni_onnx_unary(call, KILN_OP_LOGICAL_NOT, outside);
    kilni_onnx_out(call, 0, kilni_onnx_mask_fill(call, moved, inside, 0));
}

// ---- softmax and hardmax ----

static kiln_op softmax_op(const kilni_onnx_call *call)
{
    return strcmp(call->node->op_type, "Softmax") == 0 ? KILN_OP_SOFTMAX : KILN_OP_LOG_SOFTMAX;
}

void kilni_onnx_op_softmax(kilni_onnx_call *call)
{
    int64_t axis = kilni_onnx_attr_int(call, "axis", -1);
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_with_axis(call, softmax_op(call), x, axis));
}

/// x as [product before axis, product from it on], as softmax meant before version 13.
static kilni_onnx_ref as_rows(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t axis = kilni_onnx_axis(call, kilni_onnx_attr_int(call, "axis", 1), x->desc.rank);
    const int64_t dims[] = {kilni_onnx_span_of(&x->desc, 0, axis),
                            kilni_onnx_span_of(&x->desc, axis, x->desc.rank)};
    return kilni_onnx_reshape(call, x, dims, 2);
}

static void out_in_shape(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref y)
{
    if (kilni_onnx_ok(call)) {
        kilni_onnx_out(call, 0, kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank));
    }
}

void kilni_onnx_op_softmax_flat(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref rows = as_rows(call, x);
    out_in_shape(call, x, kilni_onnx_with_axis(call, softmax_op(call), rows, 1));
}

/// 1 at the first largest element along the axis, 0 elsewhere.
static kilni_onnx_ref hardmax(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axis)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t at = kilni_onnx_axis(call, axis, x->desc.rank);
    int64_t dims[KILN_MAX_RANK];
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        dims[i] = i == at ? x->desc.dims[at] : 1;
    }
    kilni_onnx_ref best = kilni_onnx_argreduce(call, KILN_OP_ARGMAX, x, at, true, false);
    kilni_onnx_ref places =
        kilni_onnx_arange(call, KILN_DTYPE_I64, dims[at], kiln_i64(0), kiln_i64(1));
    places = kilni_onnx_reshape(call, places, dims, x->desc.rank);
    kilni_onnx_ref hit = kilni_onnx_binary(call, KILN_OP_EQUAL, places, best);
    return kilni_onnx_cast(call, hit, x->desc.dtype);
}

void kilni_onnx_op_hardmax(kilni_onnx_call *call)
{
    int64_t axis = kilni_onnx_attr_int(call, "axis", -1);
    kilni_onnx_out(call, 0, hardmax(call, kilni_onnx_in(call, 0), axis));
}

void kilni_onnx_op_hardmax_flat(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    out_in_shape(call, x, hardmax(call, as_rows(call, x), 1));
}
