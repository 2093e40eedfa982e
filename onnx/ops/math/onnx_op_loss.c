// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's losses over classes, axis 1: the negative log likelihood of labels, alone or after log
// softmax. A label equal to ignore_index counts nothing; weights count both in the sum and in the
// mean's divisor.
#include "onnx_import.h"

#include <string.h>

/// values of x [n, c, rest] at labels [n, rest], as [n, rest]
static kilni_onnx_ref take_class(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref labels)
{
    const int64_t three[] = {x->desc.dims[0], 1, kilni_onnx_span_of(&x->desc, 2, x->desc.rank)};
    const int64_t wide[] = {three[0], x->desc.dims[1], three[2]};
    kilni_onnx_ref taken =
        kilni_onnx_indexed(call, KILN_OP_GATHER, kilni_onnx_reshape(call, x, wide, 3),
                           kilni_onnx_reshape(call, labels, three, 3), 1);
    return kilni_onnx_reshape(call, taken, labels->desc.dims, labels->desc.rank);
}

/// The weight of each label: 0 where ignored, else the class's or 1.
static kilni_onnx_ref label_weights(kilni_onnx_call *call, const kilni_onnx_value *x,
                                    kilni_onnx_ref labels, kilni_onnx_ref weights,
                                    kilni_onnx_ref ignored)
{
    kilni_onnx_ref each = NULL;
    if (weights == NULL) {
        each =
            kilni_onnx_full(call, x->desc.dtype, labels->desc.dims, labels->desc.rank, kiln_f64(1));
    } else {
        const int64_t flat[] = {kiln_desc_count(&labels->desc)};
        each = kilni_onnx_indexed(call, KILN_OP_SELECT, weights,
                                  kilni_onnx_reshape(call, labels, flat, 1), 0);
        each = kilni_onnx_reshape(call, each, labels->desc.dims, labels->desc.rank);
    }
    return ignored == NULL ? each : kilni_onnx_mask_fill(call, each, ignored, 0);
}

static void likelihood(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref labels,
                       kilni_onnx_ref weights)
{
    const char *reduction = kilni_onnx_attr_text(call, "reduction", "mean");
    bool ignores = kilni_onnx_attr_find(call, "ignore_index") != NULL;
    int64_t ignore_index = kilni_onnx_attr_int(call, "ignore_index", 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank < 2 || labels->desc.rank + 1 != x->desc.rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "labels of rank %u for scores of rank %u",
                        labels->desc.rank, x->desc.rank);
        return;
    }
    kilni_onnx_ref ignored = NULL;
    if (ignores) {
        ignored = kilni_onnx_scalar_int(call, KILN_OP_EQUAL_SCALAR, labels, ignore_index);
        labels = kilni_onnx_mask_fill(call, labels, ignored, 0);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_ref loss = kilni_onnx_unary(call, KILN_OP_NEG, take_class(call, x, labels));
    kilni_onnx_ref each = NULL;
    if (ignores || weights != NULL) {
        each = label_weights(call, x, labels, weights, ignored);
        loss = kilni_onnx_binary(call, KILN_OP_MUL, loss, each);
    }
    if (strcmp(reduction, "none") == 0) {
        kilni_onnx_out(call, 0, loss);
        return;
    }
    bool mean = strcmp(reduction, "mean") == 0;
    kilni_onnx_ref sum = kilni_onnx_reduce(call, mean && each == NULL ? KILN_OP_MEAN : KILN_OP_SUM,
                                           loss, NULL, 0, false);
    if (mean && each != NULL) {
        kilni_onnx_ref divisor = kilni_onnx_reduce(call, KILN_OP_SUM, each, NULL, 0, false);
        sum = kilni_onnx_binary(call, KILN_OP_DIV, sum, divisor);
    }
    kilni_onnx_out(call, 0, sum);
}

void kilni_onnx_op_nll_loss(kilni_onnx_call *call)
{
    call->in_f32 = true;
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref labels = kilni_onnx_in(call, 1);
    likelihood(call, x, labels, kilni_onnx_opt(call, 2));
}

void kilni_onnx_op_softmax_cross_entropy_loss(kilni_onnx_call *call)
{
    call->in_f32 = true;
    kilni_onnx_ref scores = kilni_onnx_in(call, 0);
    kilni_onnx_ref labels = kilni_onnx_in(call, 1);
    kilni_onnx_ref logs = kilni_onnx_with_axis(call, KILN_OP_LOG_SOFTMAX, scores, 1);
    likelihood(call, logs, labels, kilni_onnx_opt(call, 2));
    if (kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, logs);
    }
}
