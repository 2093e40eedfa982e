// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolutions turned round, and gradients of weights, as products of matrices and columns
// (Chellapilla, Puri, Simard: High performance convolutional neural networks for document
// processing, 2006). f16 and bf16 are computed in f32 and rounded at the end.
#include <string.h>

#include "decompose_internal.h"
#include "expand_internal.h"
#include "shape_internal.h"

static int64_t span(const int64_t *dims, uint32_t count)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        product *= dims[i];
    }
    return product;
}

/// One value with a list of attributes.
static kilni_value write_op(kiln_expander *x, kiln_op op, const kilni_value *inputs,
                            size_t n_inputs, const kiln_attr *attrs, size_t n_attrs)
{
    kilni_value result = 0;
    kilni_expand_op(x, op, inputs, n_inputs, attrs, n_attrs, &result);
    return result;
}

/// weight [c, o/groups, kernel] transposed times x [n, c, ..], for each group: what each element of
/// x adds to its window, as columns [n, o*kernel, windows].
static kilni_value turned_columns(kiln_expander *expander, kilni_value x, kilni_value weight)
{
    const kiln_tensor_desc a = kilni_expand_desc(expander, weight);
    const kiln_tensor_desc b = kilni_expand_desc(expander, x);
    int64_t groups = kiln_op_attr_i64(kilni_expand_call(expander), KILN_KEY_GROUPS);
    int64_t rows = a.dims[0] / groups;
    int64_t column = span(&a.dims[1], a.rank - 1u);
    int64_t windows = span(&b.dims[2], b.rank - 2u);
    const int64_t a_dims[] = {groups, rows, column};
    const int64_t b_dims[] = {b.dims[0], groups, rows, windows};
    const int64_t dims[] = {b.dims[0], groups * column, windows};
    kilni_value left = kilni_expand_reshape(expander, weight, a_dims, 3);
    kilni_value right = kilni_expand_reshape(expander, x, b_dims, 4);
    kilni_value product = kilni_expand_matmul(expander, left, right, true, false);
    return kilni_expand_reshape(expander, product, dims, 3);
}

/// [o] as [1, o, 1, ..]
static kilni_value with_bias(kiln_expander *expander, kilni_value y, kilni_value bias,
                             uint32_t rank)
{
    int64_t dims[KILN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (bias == 0) {
        return y;
    }
    dims[1] = kilni_expand_desc(expander, bias).dims[0];
    bias = kilni_expand_reshape(expander, kilni_expand_wide(expander, bias), dims, rank);
    return kilni_expand_2(expander, KILN_OP_ADD, y, bias);
}

/// The windows of a convolution that reads `in` and writes `out`, in attributes: with padding at
/// the end that makes exactly `out` windows of the first `core` elements.
typedef struct fitted_window {
    uint32_t axes;
    int64_t kernel[KILNI_IR_SPATIAL];
    int64_t strides[KILNI_IR_SPATIAL];
    int64_t dilations[KILNI_IR_SPATIAL];
    int64_t padding[2 * KILNI_IR_SPATIAL];
    int64_t core[KILNI_IR_SPATIAL]; ///< 0 or less: no window reaches the input
} fitted_window;

static int64_t list_at(const kiln_op_record *call, kiln_attr_key key, uint32_t i, int64_t fallback)
{
    uint32_t count = 0;
    const int64_t *values = kilni_ir_ints(call, key, &count);
    return i < count ? values[i] : fallback;
}

/// `in`, `out` and `weight` have the rank of the call's tensors. The call has passed inference, so
/// that nothing here exceeds 64 bits.
static fitted_window fit(const kiln_op_record *call, const kiln_tensor_desc *in,
                         const kiln_tensor_desc *out, const kiln_tensor_desc *weight)
{
    fitted_window f = {.axes = in->rank - 2u};
    for (uint32_t i = 0; i < f.axes; i++) {
        f.kernel[i] = weight->dims[2 + i];
        f.strides[i] = list_at(call, KILN_KEY_STRIDES, i, 1);
        f.dilations[i] = list_at(call, KILN_KEY_DILATIONS, i, 1);
        f.padding[i] = list_at(call, KILN_KEY_PADDING, i, 0);
        int64_t reach = (out->dims[2 + i] - 1) * f.strides[i] + (f.kernel[i] - 1) * f.dilations[i] +
                        1 - f.padding[i];
        int64_t most = reach + f.strides[i] - 1;
        int64_t length = in->dims[2 + i];
        f.padding[f.axes + i] = reach > length ? reach - length : 0;
        f.core[i] = length < most ? length : most;
    }
    return f;
}

static bool reaches(const fitted_window *f)
{
    bool all = true;
    for (uint32_t i = 0; i < f->axes; i++) {
        all = all && f->core[i] > 0;
    }
    return all;
}

static bool is_empty(const kiln_tensor_desc *desc)
{
    return kiln_desc_count(desc) == 0;
}

static kilni_value zeros(kiln_expander *expander, kiln_dtype dtype)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    bool narrow = dtype == KILN_DTYPE_F16 || dtype == KILN_DTYPE_BF16;
    return kilni_expand_full(expander, out->dims, out->rank, narrow ? KILN_DTYPE_F32 : dtype, 0);
}

/// Appends zeros up to the lengths of the result.
static kilni_value pad_to_output(kiln_expander *expander, kilni_value y, const fitted_window *f)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    bool any = false;
    for (uint32_t i = 0; i < f->axes; i++) {
        padding[out->rank + 2 + i] = out->dims[2 + i] - f->core[i];
        any = any || padding[out->rank + 2 + i] > 0;
    }
    const kiln_attr attrs[] = {kilni_attr_ints(padding, 2u * out->rank),
                               {.type = KILN_ATTR_NONE},
                               {.type = KILN_ATTR_NONE}};
    return any ? write_op(expander, KILN_OP_PAD, &y, 1, attrs, 3) : y;
}

/// What a convolution gives back to its input: x and weight to columns, columns to their places.
static void write_turned(kiln_expander *expander, kilni_value x, kilni_value weight,
                         kilni_value bias)
{
    const kiln_tensor_desc *out = &kilni_expand_call(expander)->outputs[0];
    const kiln_tensor_desc from = kilni_expand_desc(expander, x);
    const kiln_tensor_desc w = kilni_expand_desc(expander, weight);
    const fitted_window f = fit(kilni_expand_call(expander), out, &from, &w);
    kilni_value y = 0;
    if (is_empty(&from) || is_empty(&w) || !reaches(&f)) {
        y = zeros(expander, from.dtype);
    } else {
        const kiln_attr attrs[] = {
            kilni_attr_ints(f.core, f.axes), kilni_attr_ints(f.kernel, f.axes),
            kilni_attr_ints(f.strides, f.axes), kilni_attr_ints(f.padding, 2 * f.axes),
            kilni_attr_ints(f.dilations, f.axes)};
        kilni_value columns = turned_columns(expander, kilni_expand_wide(expander, x),
                                             kilni_expand_wide(expander, weight));
        y = write_op(expander, KILN_OP_COL2IM, &columns, 1, attrs, 5);
        y = pad_to_output(expander, y, &f);
    }
    kilni_expand_output(expander, 0, with_bias(expander, y, bias, out->rank));
}

void kiln_decompose_conv_transpose(kiln_expander *expander)
{
    write_turned(expander, kilni_expand_input(expander, 0), kilni_expand_input(expander, 1),
                 kilni_expand_input(expander, 2));
}

void kiln_decompose_conv_x_backward(kiln_expander *expander)
{
    write_turned(expander, kilni_expand_input(expander, 0), kilni_expand_input(expander, 1), 0);
}

/// Columns [n, c*kernel, windows] times `grad`, for each group; summed over the batch: the gradient
/// of a weight like `shape`.
static kilni_value weight_sums(kiln_expander *expander, kilni_value columns, kilni_value grad,
                               const kiln_tensor_desc *shape)
{
    const kiln_tensor_desc c = kilni_expand_desc(expander, columns);
    const kiln_tensor_desc g = kilni_expand_desc(expander, grad);
    int64_t groups = kiln_op_attr_i64(kilni_expand_call(expander), KILN_KEY_GROUPS);
    const int64_t column_dims[] = {c.dims[0], groups, c.dims[1] / groups, c.dims[2]};
    const int64_t grad_dims[] = {g.dims[0], groups, g.dims[1] / groups, c.dims[2]};
    const int64_t first = 0;
    columns = kilni_expand_reshape(expander, columns, column_dims, 4);
    grad = kilni_expand_reshape(expander, kilni_expand_wide(expander, grad), grad_dims, 4);
    kilni_value sums = kilni_expand_matmul(expander, grad, columns, false, true);
    sums = kilni_expand_reduce(expander, KILN_OP_SUM, sums, &first, 1, false);
    return kilni_expand_reshape(expander, sums, shape->dims, shape->rank);
}

static void write_weight_sums(kiln_expander *expander, kilni_value x, kilni_value grad)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    const kiln_tensor_desc from = kilni_expand_desc(expander, x);
    const kiln_tensor_desc g = kilni_expand_desc(expander, grad);
    const fitted_window f = fit(call, &from, &g, out);
    if (is_empty(&from) || is_empty(&g) || is_empty(out) || !reaches(&f)) {
        kilni_expand_output(expander, 0, zeros(expander, from.dtype));
        return;
    }
    const kiln_attr attrs[] = {
        kilni_attr_ints(f.kernel, f.axes), kilni_attr_ints(f.strides, f.axes),
        kilni_attr_ints(f.padding, 2 * f.axes), kilni_attr_ints(f.dilations, f.axes)};
    for (uint32_t i = 0; i < f.axes; i++) {
        if (f.core[i] < from.dims[2 + i]) {
            x = kilni_expand_slice(expander, x, 2 + i, 0, f.core[i]);
        }
    }
    x = kilni_expand_wide(expander, x);
    x = write_op(expander, KILN_OP_IM2COL, &x, 1, attrs, 4);
    kilni_expand_output(expander, 0, weight_sums(expander, x, grad, out));
}

void kiln_decompose_conv_weight_backward(kiln_expander *expander)
{
    write_weight_sums(expander, kilni_expand_input(expander, 0), kilni_expand_input(expander, 1));
}

void kiln_decompose_conv_transpose_weight_backward(kiln_expander *expander)
{
    write_weight_sums(expander, kilni_expand_input(expander, 1), kilni_expand_input(expander, 0));
}

void kiln_decompose_conv_transpose_x_backward(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    const kilni_value inputs[] = {kilni_expand_input(expander, 0), kilni_expand_input(expander, 1)};
    kilni_value y = write_op(expander, KILN_OP_CONV, inputs, 2, call->attrs + 1, 4);
    const kiln_tensor_desc whole = kilni_expand_desc(expander, y);
    for (uint32_t i = 2; y != 0 && i < out->rank; i++) {
        if (out->dims[i] < whole.dims[i]) {
            y = kilni_expand_slice(expander, y, i, 0, out->dims[i]);
        }
    }
    kilni_expand_output(expander, 0, y);
}

void kiln_decompose_conv_bias_backward(kiln_expander *expander)
{
    int64_t axes[KILN_MAX_RANK] = {0};
    kilni_value grad = kilni_expand_input(expander, 0);
    uint32_t rank = kilni_expand_call(expander)->inputs[0].rank;
    for (uint32_t i = 2; i < rank; i++) {
        axes[i - 1] = i;
    }
    kilni_expand_output(expander, 0,
                        kilni_expand_reduce(expander, KILN_OP_SUM, grad, axes, rank - 1, false));
}

// ---- deformable convolution ----

/// kernel, strides, padding, dilations, offset_groups of a call that has the weight as input 2 and
/// all of these but the kernel as attributes 0 to 4, groups among them.
static void deform_attrs(const kiln_op_record *call, kiln_attr out_attrs[5])
{
    out_attrs[0] = kilni_attr_ints(&call->inputs[2].dims[2], 2);
    memcpy(out_attrs + 1, call->attrs, 3 * sizeof(*out_attrs));
    out_attrs[4] = call->attrs[4];
}

static kilni_value wide_input(kiln_expander *expander, unsigned index)
{
    return kilni_expand_wide(expander, kilni_expand_input(expander, index));
}

void kiln_decompose_deform_conv(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const kiln_tensor_desc *out = &call->outputs[0];
    const kiln_tensor_desc *weight = &call->inputs[2];
    kiln_attr attrs[5];
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    int64_t windows = out->dims[2] * out->dims[3];
    int64_t depth = span(&weight->dims[1], 3);
    const int64_t weight_dims[] = {groups, weight->dims[0] / groups, depth};
    const int64_t column_dims[] = {out->dims[0], groups, depth, windows};
    kilni_value inputs[3] = {wide_input(expander, 0), wide_input(expander, 1), 0};
    deform_attrs(call, attrs);
    if (call->n_inputs > 3) {
        inputs[2] = wide_input(expander, 3);
    }
    kilni_value columns =
        write_op(expander, KILN_OP_DEFORM_IM2COL, inputs, call->n_inputs > 3 ? 3 : 2, attrs, 5);
    columns = kilni_expand_reshape(expander, columns, column_dims, 4);
    kilni_value left = kilni_expand_reshape(expander, wide_input(expander, 2), weight_dims, 3);
    kilni_value y = kilni_expand_matmul(expander, left, columns, false, false);
    y = kilni_expand_reshape(expander, y, out->dims, out->rank);
    kilni_value bias = call->n_inputs > 4 ? kilni_expand_input(expander, 4) : 0;
    kilni_expand_output(expander, 0, with_bias(expander, y, bias, out->rank));
}

void kiln_decompose_deform_conv_backward(kiln_expander *expander)
{
    const kiln_op_record *call = kilni_expand_call(expander);
    const int64_t axes[] = {0, 2, 3};
    kiln_attr attrs[5];
    kilni_value results[3] = {0};
    deform_attrs(call, attrs);
    kilni_value grad = wide_input(expander, 4);
    kilni_value inputs[4] = {wide_input(expander, 0), wide_input(expander, 1),
                             wide_input(expander, 3), 0};
    if (kilni_expand_wants(expander, 2)) {
        kilni_value columns = write_op(expander, KILN_OP_DEFORM_IM2COL, inputs, 3, attrs, 5);
        kilni_expand_output(expander, 2, weight_sums(expander, columns, grad, &call->inputs[2]));
    }
    if (kilni_expand_wants(expander, 0) || kilni_expand_wants(expander, 1) ||
        kilni_expand_wants(expander, 3)) {
        inputs[3] = turned_columns(expander, grad, wide_input(expander, 2));
        kilni_expand_op(expander, KILN_OP_DEFORM_IM2COL_BACKWARD, inputs, 4, attrs, 5, results);
        kilni_expand_output(expander, 0, results[0]);
        kilni_expand_output(expander, 1, results[1]);
        kilni_expand_output(expander, 3, results[2]);
    }
    if (kilni_expand_wants(expander, 4)) {
        grad = kilni_expand_reduce(expander, KILN_OP_SUM, grad, axes, 3, false);
        kilni_expand_output(expander, 4, grad);
    }
}
