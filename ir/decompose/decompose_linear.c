// SPDX-License-Identifier: MIT OR Apache-2.0
// Linear layers, their derivatives and attention as matrix products and what goes between them.
// Leading axes stay a batch, so that elementwise operators behind a layer can join its product;
// a sum over them needs one product of two matrices.
#include "decompose_internal.h"
#include "shape_internal.h"

/// x as [everything before, last]
static kilni_value as_matrix(kiln_expander *expander, kilni_value x)
{
    const kiln_tensor_desc desc = kilni_expand_desc(expander, x);
    int64_t dims[2] = {1, desc.dims[desc.rank == 0 ? 0 : desc.rank - 1]};
    for (uint32_t i = 0; i + 1 < desc.rank; i++) {
        dims[0] *= desc.dims[i];
    }
    return desc.rank == 2 ? x : kilni_expand_reshape(expander, x, dims, 2);
}

void kiln_decompose_linear(kiln_expander *expander)
{
    kilni_value y = kilni_expand_matmul(expander, kilni_expand_input(expander, 0),
                                        kilni_expand_input(expander, 1), false, false);
    kilni_value bias = kilni_expand_input(expander, 2);
    kilni_expand_output(expander, 0, bias == 0 ? y : kilni_x_add(expander, y, bias));
}

void kiln_decompose_linear_x_backward(kiln_expander *expander)
{
    kilni_expand_output(expander, 0,
                        kilni_expand_matmul(expander, kilni_expand_input(expander, 0),
                                            kilni_expand_input(expander, 1), false, true));
}

void kiln_decompose_linear_weight_backward(kiln_expander *expander)
{
    kilni_value x = as_matrix(expander, kilni_expand_input(expander, 0));
    kilni_value grad = as_matrix(expander, kilni_expand_input(expander, 1));
    kilni_expand_output(expander, 0, kilni_expand_matmul(expander, x, grad, true, false));
}

void kiln_decompose_linear_bias_backward(kiln_expander *expander)
{
    const int64_t first = 0;
    kilni_value grad = as_matrix(expander, kilni_expand_input(expander, 0));
    kilni_expand_output(expander, 0,
                        kilni_expand_reduce(expander, KILN_OP_SUM, grad, &first, 1, false));
}

// ---- attention ----

static kilni_value positions(kiln_expander *expander, int64_t count, bool down)
{
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64, .count = 1, .v.i = count},
        {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = KILN_DTYPE_I64},
        {.type = KILN_ATTR_NONE},
        {.type = KILN_ATTR_NONE},
    };
    kilni_value line = 0;
    const int64_t dims[] = {count, 1};
    kilni_expand_op(expander, KILN_OP_ARANGE, NULL, 0, attrs, 4, &line);
    return down ? kilni_expand_reshape(expander, line, dims, 2) : line;
}

static kilni_value without(kiln_expander *expander, kilni_value scores, kilni_value mask)
{
    const kiln_attr nothing = {.type = KILN_ATTR_F64, .count = 1, .v.f = -1e308 * 10};
    const kilni_value inputs[] = {scores, mask};
    kilni_value result = 0;
    kilni_expand_op(expander, KILN_OP_MASK_FILL, inputs, 2, &nothing, 1, &result);
    return result;
}

/// Rows of an input.
static int64_t length(kiln_expander *expander, uint32_t input)
{
    const kiln_tensor_desc desc = kilni_expand_desc(expander, kilni_expand_input(expander, input));
    return desc.dims[desc.rank - 2u];
}

/// Positions come before the first product, so that nothing but elementwise operators stands
/// between it and the softmax.
static kilni_value scores_of(kiln_expander *expander)
{
    double scale = kilni_ir_attention_scale(kilni_expand_call(expander));
    double cap = kilni_x_f64(expander, KILN_KEY_SOFTCAP);
    bool causal = kilni_x_i64(expander, KILN_KEY_CAUSAL) != 0;
    kilni_value rows = causal ? positions(expander, length(expander, 0), true) : 0;
    kilni_value keys = causal ? positions(expander, length(expander, 1), false) : 0;
    kilni_value query = kilni_x_scale(expander, kilni_x_input(expander, 0), scale);
    kilni_value scores =
        kilni_expand_matmul(expander, query, kilni_x_input(expander, 1), false, true);
    if (cap > 0) {
        scores = kilni_x_scale(expander, scores, 1 / cap);
        scores = kilni_x_scale(expander, kilni_expand_1(expander, KILN_OP_TANH, scores), cap);
    }
    if (kilni_expand_input(expander, 4) != 0) {
        scores = kilni_x_add(expander, scores, kilni_x_input(expander, 4));
    }
    if (kilni_expand_input(expander, 3) != 0) {
        scores = without(expander, scores, kilni_expand_input(expander, 3));
    }
    if (causal) {
        scores = without(expander, scores, kilni_expand_2(expander, KILN_OP_LESS, rows, keys));
    }
    return scores;
}

void kiln_decompose_attention(kiln_expander *expander)
{
    const kiln_attr last = {.type = KILN_ATTR_I64, .count = 1, .v.i = -1};
    kilni_value scores = scores_of(expander);
    kilni_value shares = 0;
    kilni_expand_op(expander, KILN_OP_SOFTMAX, &scores, 1, &last, 1, &shares);
    kilni_value value = kilni_x_input(expander, 2);
    kilni_expand_output(expander, 0, kilni_expand_matmul(expander, shares, value, false, false));
}
