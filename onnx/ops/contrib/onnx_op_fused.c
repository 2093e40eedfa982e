// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators that ONNX Runtime's optimiser joins of standard ones: an activation with a bias before
// it, a product or a convolution with an activation behind it. Here they are taken apart again, and
// Kiln's fusers see what they see in a plain export.
#include "onnx_parts.h"
#include "onnx_run.h"

#include <string.h>

// ---- activations with a bias ----

static kilni_onnx_ref biased(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref bias = kilni_onnx_opt(call, 1);
    return bias == NULL ? x : kilni_onnx_binary(call, KILN_OP_ADD, x, bias);
}

void kilni_onnx_op_bias_gelu(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, kilni_onnx_gelu(call, biased(call), false));
}

void kilni_onnx_op_fast_gelu(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0, kilni_onnx_gelu(call, biased(call), true));
}

/// x * sigmoid(alpha * x)
void kilni_onnx_op_quick_gelu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    double alpha = kilni_onnx_attr_float(call, "alpha", (double)1.702f);
    kilni_onnx_ref gate = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, alpha);
    gate = kilni_onnx_unary(call, KILN_OP_SIGMOID, gate);
    kilni_onnx_out(call, 0, kilni_onnx_binary(call, KILN_OP_MUL, x, gate));
}

/// The first half of the columns times Gelu of the second.
void kilni_onnx_op_bias_split_gelu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = biased(call);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t last = x->desc.rank - 1u;
    if (x->desc.rank < 1 || x->desc.dims[last] % 2 != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "an input of rank %u has no even number of columns",
                        x->desc.rank);
        return;
    }
    int64_t width = x->desc.dims[last];
    kilni_onnx_ref kept = kilni_onnx_slice_axis(call, x, last, 0, width / 2, 1);
    kilni_onnx_ref gate = kilni_onnx_slice_axis(call, x, last, width / 2, width, 1);
    kilni_onnx_out(call, 0,
                   kilni_onnx_binary(call, KILN_OP_MUL, kept, kilni_onnx_gelu(call, gate, false)));
}

void kilni_onnx_op_bias_add(kilni_onnx_call *call)
{
    kilni_onnx_out(call, 0,
                   kilni_onnx_binary(call, KILN_OP_ADD, biased(call), kilni_onnx_in(call, 2)));
}

kilni_onnx_ref kilni_onnx_softmax_from(kilni_onnx_call *call, kilni_onnx_ref x, int64_t axis)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t at = kilni_onnx_axis(call, axis, x->desc.rank);
    if (at + 1u == x->desc.rank) {
        return kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, x, at);
    }
    const int64_t rows[] = {kilni_onnx_span_of(&x->desc, 0, at),
                            kilni_onnx_span_of(&x->desc, at, x->desc.rank)};
    kilni_onnx_ref y = kilni_onnx_reshape(call, x, rows, 2);
    y = kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, y, 1);
    return kilni_onnx_reshape(call, y, x->desc.dims, x->desc.rank);
}

/// Whether the bias is repeated over inner or outer axes is said by its lengths as well.
void kilni_onnx_op_bias_softmax(kilni_onnx_call *call)
{
    int64_t axis = kilni_onnx_attr_int(call, "axis", 1);
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref bias = kilni_onnx_in(call, 1);
    bool inner = kilni_onnx_attr_int(call, "is_inner_broadcast", 0) != 0;
    if (kilni_onnx_ok(call) && inner && bias->desc.rank != x->desc.rank) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED,
                        "a bias of rank %u over inner axes of an input of rank %u: only one of the "
                        "same rank is supported",
                        bias->desc.rank, x->desc.rank);
    }
    x = kilni_onnx_binary(call, KILN_OP_ADD, x, bias);
    kilni_onnx_out(call, 0, kilni_onnx_softmax_from(call, x, axis));
}

// ---- products and convolutions with an activation ----

typedef struct op_activation {
    const char *name; ///< empty: none
    double numbers[2];
    uint32_t count; ///< of the numbers that are given
} op_activation;

static double number_of(const op_activation *a, uint32_t index, double fallback)
{
    return index < a->count ? a->numbers[index] : fallback;
}

static kilni_onnx_ref activated(kilni_onnx_call *call, kilni_onnx_ref x, const op_activation *a)
{
    static const struct {
        const char *name;
        kiln_op op;
    } plain[] = {{"Relu", KILN_OP_RELU}, {"Tanh", KILN_OP_TANH}, {"Sigmoid", KILN_OP_SIGMOID}};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (strcmp(a->name, plain[i].name) == 0) {
            return kilni_onnx_unary(call, plain[i].op, x);
        }
    }
    if (a->name[0] == '\0') {
        return x;
    }
    if (strcmp(a->name, "LeakyRelu") == 0) {
        const kiln_attr slope = kilni_attr_f64(number_of(a, 0, (double)0.01f));
        return kilni_onnx_emit(call, KILN_OP_LEAKY_RELU, &x, 1, &slope, 1);
    }
    if (strcmp(a->name, "HardSigmoid") == 0) {
        x = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, number_of(a, 0, (double)0.2f));
        x = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, x, number_of(a, 1, 0.5));
        return kilni_onnx_clamp(call, x, 0, 1);
    }
    if (strcmp(a->name, "Clip") == 0 && a->count == 2) {
        return kilni_onnx_clamp(call, x, a->numbers[0], a->numbers[1]);
    }
    KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "activation '%.32s' with %u numbers is not supported",
                    a->name, a->count);
    return NULL;
}

/// The first axis behind the others but the last.
static kilni_onnx_ref batch_behind(kilni_onnx_call *call, kilni_onnx_ref x, const char *name)
{
    int64_t axes[KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || kilni_onnx_attr_int(call, name, 0) == 0 || x->desc.rank < 3) {
        return x;
    }
    uint32_t rank = x->desc.rank;
    for (uint32_t i = 0; i + 2 < rank; i++) {
        axes[i] = i + 1;
    }
    axes[rank - 1] = rank - 1;
    return kilni_onnx_permute(call, x, axes, rank);
}

static bool is_turned(kilni_onnx_call *call, kilni_onnx_ref x, const char *name)
{
    return kilni_onnx_attr_int(call, name, 0) != 0 && kilni_onnx_ok(call) && x->desc.rank > 1;
}

void kilni_onnx_op_fused_matmul(kilni_onnx_call *call)
{
    kilni_onnx_ref a = batch_behind(call, kilni_onnx_in(call, 0), "transBatchA");
    kilni_onnx_ref b = batch_behind(call, kilni_onnx_in(call, 1), "transBatchB");
    double alpha = kilni_onnx_attr_float(call, "alpha", 1);
    bool turn_a = is_turned(call, a, "transA"), turn_b = is_turned(call, b, "transB");
    kilni_onnx_ref y = turn_a || turn_b ? NULL : kilni_onnx_matmul_few_rows(call, a, b);
    y = y != NULL ? y : kilni_onnx_matmul(call, a, b, turn_a, turn_b);
    kilni_onnx_out(call, 0,
                   alpha == 1.0 ? y : kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, alpha));
}

void kilni_onnx_op_fused_gemm(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_opt(call, 2)};
    op_activation a = {.name = kilni_onnx_attr_text(call, "activation", ""),
                       .numbers = {kilni_onnx_attr_float(call, "activation_alpha", 0),
                                   kilni_onnx_attr_float(call, "activation_beta", 0)}};
    bool alpha = kilni_onnx_attr_find(call, "activation_alpha") != NULL;
    bool beta = kilni_onnx_attr_find(call, "activation_beta") != NULL;
    a.count = alpha && beta ? 2 : alpha ? 1 : 0;
    kilni_onnx_out(call, 0,
                   activated(call, kilni_onnx_as(call, kilni_onnx_op_gemm, inputs, 3), &a));
}

static op_activation conv_activation(kilni_onnx_call *call)
{
    op_activation a = {.name = kilni_onnx_attr_text(call, "activation", "")};
    const kilni_onnx_attr *list = kilni_onnx_attr_find(call, "activation_params");
    if (list == NULL || !kilni_onnx_ok(call)) {
        return a;
    }
    if (list->type != KILNI_ONNX_ATTR_FLOATS || list->count > 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute 'activation_params' is %s of %u values",
                        kilni_onnx_attr_type_name(list->type), list->count);
        return a;
    }
    for (; a.count < list->count; a.count++) {
        a.numbers[a.count] = (double)list->floats[a.count];
    }
    return a;
}

void kilni_onnx_op_fused_conv(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_opt(call, 2)};
    kilni_onnx_ref sum = kilni_onnx_opt(call, 3);
    op_activation a = conv_activation(call);
    kilni_onnx_ref y = kilni_onnx_as(call, kilni_onnx_op_conv, inputs, 3);
    y = sum == NULL ? y : kilni_onnx_binary(call, KILN_OP_ADD, y, sum);
    kilni_onnx_out(call, 0, activated(call, y, &a));
}

// ---- channels last ----

kilni_onnx_ref kilni_onnx_channels_second(kilni_onnx_call *call, kilni_onnx_ref x)
{
    int64_t axes[KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || x->desc.rank < 3) {
        return x;
    }
    axes[1] = x->desc.rank - 1;
    for (uint32_t i = 2; i < x->desc.rank; i++) {
        axes[i] = i - 1;
    }
    return kilni_onnx_permute(call, x, axes, x->desc.rank);
}

kilni_onnx_ref kilni_onnx_channels_behind(kilni_onnx_call *call, kilni_onnx_ref x)
{
    int64_t axes[KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || x->desc.rank < 3) {
        return x;
    }
    for (uint32_t i = 1; i + 1 < x->desc.rank; i++) {
        axes[i] = i + 1;
    }
    axes[x->desc.rank - 1] = 1;
    return kilni_onnx_permute(call, x, axes, x->desc.rank);
}

/// Weights have their input channels last as well.
void kilni_onnx_op_nhwc_conv(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_channels_second(call, kilni_onnx_in(call, 0)),
                                     kilni_onnx_channels_second(call, kilni_onnx_in(call, 1)),
                                     kilni_onnx_opt(call, 2)};
    kilni_onnx_ref y = kilni_onnx_as(call, kilni_onnx_op_conv, inputs, 3);
    kilni_onnx_out(call, 0, kilni_onnx_channels_behind(call, y));
}
