// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's operators on quantised tensors: floats of the inputs, the standard operator, and
// the result quantised again, which fusers join to one kernel. Each tensor has one scale and one
// zero point, in the inputs behind it.
#include "onnx_parts.h"
#include "onnx_run.h"

#include <string.h>

static kilni_onnx_ref one_number(kilni_onnx_call *call, kilni_onnx_ref x, const char *what)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (kiln_desc_count(&x->desc) != 1) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "%s of %lld numbers: only one for all is supported",
                        what, (long long)kiln_desc_count(&x->desc));
        return NULL;
    }
    return kilni_onnx_reshape(call, x, NULL, 0);
}

kilni_onnx_ref kilni_onnx_unquantised(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref scale,
                                      kilni_onnx_ref zero)
{
    kilni_onnx_ref y = kilni_onnx_cast(call, x, KILN_DTYPE_I32);
    if (zero != NULL) {
        zero = kilni_onnx_cast(call, one_number(call, zero, "a zero point"), KILN_DTYPE_I32);
        y = kilni_onnx_binary(call, KILN_OP_SUB, y, zero);
    }
    y = kilni_onnx_cast(call, y, KILN_DTYPE_F32);
    scale = kilni_onnx_cast(call, one_number(call, scale, "a scale"), KILN_DTYPE_F32);
    return kilni_onnx_binary(call, KILN_OP_MUL, y, scale);
}

/// Input `at` with its scale and zero point behind it, as floats.
static kilni_onnx_ref input_floats(kilni_onnx_call *call, uint32_t at)
{
    return kilni_onnx_unquantised(call, kilni_onnx_in(call, at), kilni_onnx_in(call, at + 1),
                                  kilni_onnx_opt(call, at + 2));
}

/// Quantised by the scale at input `at` and the zero point behind it.
static kilni_onnx_ref bytes_of(kilni_onnx_call *call, kilni_onnx_ref y, uint32_t at,
                               kiln_dtype dtype)
{
    kilni_onnx_ref scale = one_number(call, kilni_onnx_in(call, at), "a scale");
    kilni_onnx_ref zero = kilni_onnx_opt(call, at + 1);
    y = kilni_onnx_binary(call, KILN_OP_DIV, y, scale);
    y = kilni_onnx_unary(call, KILN_OP_ROUND, y);
    if (zero != NULL) {
        dtype = zero->desc.dtype;
        zero = kilni_onnx_cast(call, one_number(call, zero, "a zero point"), KILN_DTYPE_F32);
        y = kilni_onnx_binary(call, KILN_OP_ADD, y, zero);
    }
    return kilni_onnx_cast(call, y, dtype);
}

/// The output, of the type of input `like` where there is no zero point.
static void give_bytes(kilni_onnx_call *call, kilni_onnx_ref y, uint32_t at, uint32_t like)
{
    const kilni_onnx_value *x = kilni_onnx_in(call, like);
    kilni_onnx_out(call, 0, bytes_of(call, y, at, x == NULL ? KILN_DTYPE_U8 : x->desc.dtype));
}

// ---- elementwise ----

static void qlinear_binary(kilni_onnx_call *call, kiln_op op)
{
    kilni_onnx_ref a = input_floats(call, 0), b = input_floats(call, 3);
    give_bytes(call, kilni_onnx_binary(call, op, a, b), 6, 0);
}

void kilni_onnx_op_qlinear_add(kilni_onnx_call *call)
{
    qlinear_binary(call, KILN_OP_ADD);
}

void kilni_onnx_op_qlinear_mul(kilni_onnx_call *call)
{
    qlinear_binary(call, KILN_OP_MUL);
}

void kilni_onnx_op_qlinear_sigmoid(kilni_onnx_call *call)
{
    give_bytes(call, kilni_onnx_unary(call, KILN_OP_SIGMOID, input_floats(call, 0)), 3, 0);
}

void kilni_onnx_op_qlinear_leaky_relu(kilni_onnx_call *call)
{
    kilni_onnx_ref x = input_floats(call, 0);
    give_bytes(call, kilni_onnx_as(call, kilni_onnx_op_leaky_relu, &x, 1), 3, 0);
}

void kilni_onnx_op_qlinear_where(kilni_onnx_call *call)
{
    kilni_onnx_ref mask = kilni_onnx_in(call, 0);
    kilni_onnx_ref y = kilni_onnx_where(call, mask, input_floats(call, 1), input_floats(call, 4));
    give_bytes(call, y, 7, 1);
}

// ---- along rows, over windows ----

/// Before set 13 softmax is over all axes from `axis` on.
void kilni_onnx_op_qlinear_softmax(kilni_onnx_call *call)
{
    bool flat = kilni_onnx_attr_int(call, "opset", 13) < 13;
    int64_t axis = kilni_onnx_attr_int(call, "axis", flat ? 1 : -1);
    kilni_onnx_ref x = input_floats(call, 0);
    x = flat ? kilni_onnx_softmax_from(call, x, axis)
             : kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, x, axis);
    give_bytes(call, x, 3, 0);
}

static void qlinear_pool(kilni_onnx_call *call, void (*handler)(kilni_onnx_call *call))
{
    bool behind = kilni_onnx_attr_int(call, "channels_last", 0) != 0;
    kilni_onnx_ref x = input_floats(call, 0);
    x = behind ? kilni_onnx_channels_second(call, x) : x;
    x = kilni_onnx_as(call, handler, &x, 1);
    give_bytes(call, behind ? kilni_onnx_channels_behind(call, x) : x, 3, 0);
}

void kilni_onnx_op_qlinear_average_pool(kilni_onnx_call *call)
{
    qlinear_pool(call, kilni_onnx_op_average_pool);
}

void kilni_onnx_op_qlinear_global_average_pool(kilni_onnx_call *call)
{
    qlinear_pool(call, kilni_onnx_op_global_average_pool);
}

void kilni_onnx_op_qlinear_reduce_mean(kilni_onnx_call *call)
{
    kilni_onnx_ints axes;
    bool keep = kilni_onnx_attr_int(call, "keepdims", 1) != 0;
    (void)kilni_onnx_attr_ints(call, "axes", &axes);
    kilni_onnx_ref x = input_floats(call, 0);
    give_bytes(call, kilni_onnx_reduce(call, KILN_OP_MEAN, x, axes.v, axes.count, keep), 3, 0);
}

void kilni_onnx_op_channels_last_qlinear_conv(kilni_onnx_call *call)
{
    kilni_onnx_ref inputs[9] = {NULL};
    bool behind = kilni_onnx_attr_int(call, "channels_last", 0) != 0;
    for (uint32_t i = 0; i < 9; i++) {
        inputs[i] = i < 8 ? kilni_onnx_in(call, i) : kilni_onnx_opt(call, i);
    }
    inputs[0] = behind ? kilni_onnx_channels_second(call, inputs[0]) : inputs[0];
    kilni_onnx_ref y = kilni_onnx_as(call, kilni_onnx_op_qlinear_conv, inputs, 9);
    kilni_onnx_out(call, 0, behind ? kilni_onnx_channels_behind(call, y) : y);
}

// ---- concatenation ----

static bool same_constant(const kilni_onnx_value *a, const kilni_onnx_value *b)
{
    return a == b || (a != NULL && b != NULL && kilni_onnx_is_small(a) && kilni_onnx_is_small(b) &&
                      a->desc.dtype == b->desc.dtype && kiln_desc_count(&a->desc) == 1 &&
                      kiln_desc_count(&b->desc) == 1 &&
                      memcmp(a->host, b->host, kiln_dtype_size(a->desc.dtype)) == 0);
}

/// Bytes in the result's units; they stay as they are where these are the part's own.
static kilni_onnx_ref joined_part(kilni_onnx_call *call, uint32_t at)
{
    kilni_onnx_ref x = kilni_onnx_in(call, at);
    if (same_constant(kilni_onnx_in(call, at + 1), kilni_onnx_in(call, 0)) &&
        same_constant(kilni_onnx_in(call, at + 2), kilni_onnx_in(call, 1))) {
        return x;
    }
    return bytes_of(call, input_floats(call, at), 0, KILN_DTYPE_U8);
}

void kilni_onnx_op_qlinear_concat(kilni_onnx_call *call)
{
    uint32_t count = (call->n_inputs - 2) / 3;
    int64_t axis = kilni_onnx_attr_int(call, "axis", 0);
    if ((call->n_inputs - 2) % 3 != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%u inputs: after scale and zero point of the result each part has a scale "
                        "and a zero point",
                        call->n_inputs);
        return;
    }
    kilni_onnx_ref *parts = kiln_alloc_array(&call->session->env, count, sizeof(*parts));
    if (parts == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %u values", count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = joined_part(call, 2 + 3 * i);
    }
    kilni_onnx_out(call, 0, kilni_onnx_concat(call, parts, count, axis));
    kiln_free(&call->session->env, parts);
}
