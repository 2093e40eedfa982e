// SPDX-License-Identifier: MIT OR Apache-2.0
// What operators of ai.onnx.ml share: tables of floats, labels, and what becomes of scores.
// Decides, as ONNX Runtime does, what the scores of two classes are of which the model has one.
#include "onnx_ml.h"

#include <string.h>

kilni_onnx_transform kilni_onnx_ml_transform(kilni_onnx_call *call)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    const char *name = kilni_onnx_attr_text(call, "post_transform", "NONE");
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            return (kilni_onnx_transform)i;
        }
    }
    KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                    "post_transform '%s' is not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT",
                    name);
    return KILNI_ONNX_NONE;
}

static kilni_onnx_ref negative(kilni_onnx_call *call, kilni_onnx_ref x)
{
    return kilni_onnx_unary(call, KILN_OP_NEG, x);
}

/// sqrt(2) * erfinv(2 x - 1), by the approximation of Winitzki that ONNX Runtime takes.
static kilni_onnx_ref probit(kilni_onnx_call *call, kilni_onnx_ref x)
{
    kilni_onnx_ref y = kilni_onnx_scalar(call, KILN_OP_SUB_SCALAR,
                                         kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 2), 1);
    kilni_onnx_ref square = kilni_onnx_binary(call, KILN_OP_MUL, y, y);
    kilni_onnx_ref rest = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, negative(call, square), 1);
    kilni_onnx_ref logarithm = kilni_onnx_unary(call, KILN_OP_LOG, rest);
    kilni_onnx_ref v = kilni_onnx_scalar(
        call, KILN_OP_ADD_SCALAR, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, logarithm, 0.5),
        4.3307467508 /* 2 / (pi * 0.147) */);
    kilni_onnx_ref w = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, logarithm, 1 / 0.147);
    kilni_onnx_ref root = kilni_onnx_unary(
        call, KILN_OP_SQRT,
        kilni_onnx_binary(call, KILN_OP_SUB, kilni_onnx_binary(call, KILN_OP_MUL, v, v), w));
    kilni_onnx_ref size =
        kilni_onnx_unary(call, KILN_OP_SQRT, kilni_onnx_binary(call, KILN_OP_SUB, root, v));
    kilni_onnx_ref sign = kilni_onnx_unary(call, KILN_OP_SIGN, y);
    return kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR,
                             kilni_onnx_binary(call, KILN_OP_MUL, sign, size), 1.41421356);
}

/// The softmax of what is not 0; what is stays next to it.
static kilni_onnx_ref softmax_zero(kilni_onnx_call *call, kilni_onnx_ref x)
{
    static const int64_t axis = -1;
    kilni_onnx_ref counts = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR,
                                              kilni_onnx_unary(call, KILN_OP_ABS, x), 1e-7);
    kilni_onnx_ref most = kilni_onnx_reduce(call, KILN_OP_MAX, x, &axis, 1, true);
    kilni_onnx_ref shares =
        kilni_onnx_unary(call, KILN_OP_EXP, kilni_onnx_binary(call, KILN_OP_SUB, x, most));
    kilni_onnx_ref none = kilni_onnx_unary(call, KILN_OP_LOGICAL_NOT, counts);
    kilni_onnx_ref counted = kilni_onnx_mask_fill(call, shares, none, 0);
    kilni_onnx_ref sum = kilni_onnx_reduce(call, KILN_OP_SUM, counted, &axis, 1, true);
    kilni_onnx_ref beside = kilni_onnx_binary(
        call, KILN_OP_MUL, x, kilni_onnx_unary(call, KILN_OP_EXP, negative(call, most)));
    return kilni_onnx_binary(call, KILN_OP_DIV, kilni_onnx_where(call, counts, shares, beside),
                             sum);
}

kilni_onnx_ref kilni_onnx_ml_transformed(kilni_onnx_call *call, kilni_onnx_ref scores,
                                         kilni_onnx_transform transform)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    switch (transform) {
    case KILNI_ONNX_SOFTMAX:
        return kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, scores, -1);
    case KILNI_ONNX_LOGISTIC:
        return kilni_onnx_unary(call, KILN_OP_SIGMOID, scores);
    case KILNI_ONNX_SOFTMAX_ZERO:
        return softmax_zero(call, scores);
    case KILNI_ONNX_PROBIT:
        return probit(call, scores);
    default:
        return scores;
    }
}

// ---- tables ----

kilni_onnx_ref kilni_onnx_ml_rows(kilni_onnx_call *call, uint32_t index)
{
    kilni_onnx_ref x = kilni_onnx_in(call, index);
    if (!kilni_onnx_ok(call) || kilni_onnx_is_text(x) || x->desc.rank < 1 || x->desc.rank > 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is no list or table of numbers", index);
        return NULL;
    }
    const int64_t dims[] = {x->desc.rank == 1 ? 1 : x->desc.dims[0],
                            x->desc.dims[x->desc.rank - 1]};
    return kilni_onnx_cast(call, kilni_onnx_reshape(call, x, dims, 2), KILN_DTYPE_F32);
}

kilni_onnx_ref kilni_onnx_ml_table(kilni_onnx_call *call, const char *name, int64_t rows,
                                   int64_t columns)
{
    const int64_t dims[] = {rows, columns};
    kilni_onnx_ref list = kilni_onnx_attr_list(call, name);
    if (kilni_onnx_ok(call) && list == NULL) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' is missing", name);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (kiln_desc_count(&list->desc) != rows * columns) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute '%s' has %lld numbers, not %lld * %lld",
                        name, (long long)kiln_desc_count(&list->desc), (long long)rows,
                        (long long)columns);
        return NULL;
    }
    return kilni_onnx_reshape(call, list, dims, 2);
}

// ---- classes ----

kilni_onnx_ref kilni_onnx_ml_labels(kilni_onnx_call *call, const char *ints)
{
    kilni_onnx_ref texts = kilni_onnx_attr_list(call, "classlabels_strings");
    kilni_onnx_ref labels = kilni_onnx_attr_list(call, ints);
    bool named = texts != NULL && kiln_desc_count(&texts->desc) > 0;
    return named ? texts : labels != NULL && kiln_desc_count(&labels->desc) > 0 ? labels : NULL;
}

void kilni_onnx_ml_choose(kilni_onnx_call *call, kilni_onnx_ref labels, kilni_onnx_ref places)
{
    kilni_onnx_out(call, 0, labels == NULL ? places : kilni_onnx_take(call, labels, places, 0));
}

kilni_onnx_ref kilni_onnx_ml_largest(kilni_onnx_call *call, kilni_onnx_ref scores)
{
    return kilni_onnx_argreduce(call, KILN_OP_ARGMAX, scores, -1, false, false);
}

void kilni_onnx_ml_binary(kilni_onnx_call *call, kilni_onnx_ref labels, kilni_onnx_ref score,
                          double least, bool shares, kilni_onnx_transform transform)
{
    static const int64_t axis = 1;
    kilni_onnx_ref above = kilni_onnx_scalar(call, KILN_OP_GREATER_SCALAR, score, least);
    kilni_onnx_ref places = kilni_onnx_cast(call, above, KILN_DTYPE_I64);
    places = kilni_onnx_reduce(call, KILN_OP_MAX, places, &axis, 1, false);
    kilni_onnx_ml_choose(call, labels, places);
    if (transform == KILNI_ONNX_PROBIT) {
        kilni_onnx_out(call, 1, probit(call, score));
        return;
    }
    kilni_onnx_ref other = negative(call, score);
    if (shares) {
        other = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, other, 1);
    }
    const kilni_onnx_ref both[] = {other, score};
    kilni_onnx_ref scores = kilni_onnx_concat(call, both, 2, 1);
    bool logistic = !shares && transform == KILNI_ONNX_LOGISTIC;
    kilni_onnx_out(call, 1, logistic ? kilni_onnx_unary(call, KILN_OP_SIGMOID, scores) : scores);
}
