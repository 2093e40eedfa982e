// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of matmul, conv2d and the pools. Decides the window formulas: those of ONNX (Conv,
// MaxPool) and PyTorch, which agree; a last window that would start in the padding after the input
// is left out. The arithmetic of elements is in reference_contraction.c.
#include <inttypes.h>
#include <string.h>

#include "ir_internal.h"

static kiln_status matmul_operand(const kiln_op_record *call, unsigned index, uint32_t *out_first,
                                  uint32_t *out_second, uint32_t *out_batch, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[index];
    kiln_attr_key key = index == 0 ? KILN_KEY_TRANSPOSE_A : KILN_KEY_TRANSPOSE_B;
    bool transpose = kiln_op_attr_i64(call, key) != 0;
    if (x->rank == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "matmul: input %s has rank 0",
                         kiln_signature_matmul.inputs[index]);
    }
    if (x->rank == 1) {
        *out_batch = 0;
        *out_first = index == 0 ? KILN_MAX_RANK : 0;
        *out_second = index == 0 ? 0 : KILN_MAX_RANK;
        return transpose ? kiln_fail(err, INVALID_ARGUMENT,
                                     "matmul: input %s has rank 1 and cannot be transposed",
                                     kiln_signature_matmul.inputs[index])
                         : KILN_STATUS_OK;
    }
    *out_batch = x->rank - 2u;
    *out_first = x->rank - (transpose ? 1u : 2u);
    *out_second = x->rank - (transpose ? 2u : 1u);
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_matmul_of(const kiln_op_record *call, kilni_ir_matmul *out_shape,
                               kiln_error *err)
{
    const kiln_tensor_desc *a = &call->inputs[0];
    const kiln_tensor_desc *b = &call->inputs[1];
    kilni_ir_matmul s = {0};
    kiln_status st = matmul_operand(call, 0, &s.a_row_axis, &s.a_k_axis, &s.a_batch, err);
    if (st == KILN_STATUS_OK) {
        st = matmul_operand(call, 1, &s.b_k_axis, &s.b_column_axis, &s.b_batch, err);
    }
    if (st != KILN_STATUS_OK) {
        return st;
    }
    s.m = s.a_row_axis < KILN_MAX_RANK ? a->dims[s.a_row_axis] : 1;
    s.n = s.b_column_axis < KILN_MAX_RANK ? b->dims[s.b_column_axis] : 1;
    s.k = a->dims[s.a_k_axis];
    if (s.k != b->dims[s.b_k_axis]) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT,
                         "matmul: %s and %s: the inner lengths %" PRId64 " and %" PRId64 " differ",
                         kilni_ir_desc_text(a, text[0]), kilni_ir_desc_text(b, text[1]), s.k,
                         b->dims[s.b_k_axis]);
    }
    *out_shape = s;
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_matmul(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    kilni_ir_matmul s = {0};
    kiln_status st = kilni_ir_matmul_of(call, &s, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    const kiln_tensor_desc *a = &call->inputs[0];
    const kiln_tensor_desc *b = &call->inputs[1];
    kiln_tensor_desc *out = &outputs[0];
    uint32_t rank = s.a_batch;
    memcpy(out->dims, a->dims, rank * sizeof(a->dims[0]));
    if (!kilni_ir_broadcast(b->dims, s.b_batch, out->dims, &rank)) {
        char text[2][KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "matmul: the batches of %s and %s do not broadcast",
                         kilni_ir_desc_text(a, text[0]), kilni_ir_desc_text(b, text[1]));
    }
    if (s.a_row_axis < KILN_MAX_RANK) {
        out->dims[rank++] = s.m;
    }
    if (s.b_column_axis < KILN_MAX_RANK) {
        out->dims[rank++] = s.n;
    }
    out->rank = (uint8_t)rank;
    return KILN_STATUS_OK;
}

/* Two values of a list attribute, or `fallback` for both when it is absent; each at least `least`.
 */
static kiln_status pair_of(const kiln_op_record *call, kiln_attr_key key, int64_t fallback,
                           int64_t least, int64_t out_pair[2], kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *values = kilni_ir_ints(call, key, &count);
    if (count != 0 && count != 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s has %u values, it needs 2",
                         kilni_ir_op_name(call), kiln_attr_name(key), count);
    }
    for (unsigned i = 0; i < 2; i++) {
        out_pair[i] = count != 0 ? values[i] : fallback;
        if (out_pair[i] < least) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: %s %" PRId64 " is below %" PRId64,
                             kilni_ir_op_name(call), kiln_attr_name(key), out_pair[i], least);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status padding_of(const kiln_op_record *call, kilni_ir_window *window, kiln_error *err)
{
    uint32_t count = 0;
    const int64_t *padding = kilni_ir_ints(call, KILN_KEY_PADDING, &count);
    if (count != 0 && count != 4) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: padding has %u values, it needs 4",
                         kilni_ir_op_name(call), count);
    }
    for (unsigned i = 0; i < count; i++) {
        if (padding[i] < 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: padding %" PRId64 " is negative",
                             kilni_ir_op_name(call), padding[i]);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        window->begin[i] = count != 0 ? padding[i] : 0;
        window->end[i] = count != 0 ? padding[2 + i] : 0;
    }
    return KILN_STATUS_OK;
}

static kiln_status window_count(const kiln_op_record *call, unsigned axis, int64_t in,
                                kilni_ir_window *window, kiln_error *err)
{
    bool ceil_mode = kiln_op_attr_i64(call, KILN_KEY_CEIL_MODE) != 0;
    int64_t reach = 0;
    int64_t padded = 0;
    int64_t stride = window->strides[axis];
    bool ok = kilni_ir_mul(window->kernel[axis] - 1, window->dilations[axis], &reach) &&
              kilni_ir_add(reach, 1, &reach) && kilni_ir_add(in, window->begin[axis], &padded) &&
              kilni_ir_add(padded, window->end[axis], &padded);
    if (!ok) {
        return kiln_fail(err, OUT_OF_RANGE, "%s: the window exceeds 64-bit sizes",
                         kilni_ir_op_name(call));
    }
    if (reach > padded || stride < 1) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "%s: a window of %" PRId64 " exceeds the padded length %" PRId64,
                         kilni_ir_op_name(call), reach, padded);
    }
    int64_t room = padded - reach;
    int64_t count = room / stride + 1;
    if (ceil_mode && room % stride != 0 && count <= (in + window->begin[axis] - 1) / stride) {
        count++;
    }
    window->out[axis] = count;
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_window_of(const kiln_op_record *call, const int64_t *in, const int64_t *kernel,
                               kilni_ir_window *out_window, kiln_error *err)
{
    kilni_ir_window window = {0};
    kiln_status st = KILN_STATUS_OK;
    if (kernel != NULL) {
        memcpy(window.kernel, kernel, sizeof(window.kernel));
        if (kernel[0] < 1 || kernel[1] < 1) {
            st = kiln_fail(err, INVALID_ARGUMENT, "%s: the kernel has no elements",
                           kilni_ir_op_name(call));
        }
    } else {
        st = pair_of(call, KILN_KEY_KERNEL, 0, 1, window.kernel, err);
    }
    if (st == KILN_STATUS_OK) {
        st = pair_of(call, KILN_KEY_STRIDES, 1, 1, window.strides, err);
    }
    if (st == KILN_STATUS_OK) {
        st = pair_of(call, KILN_KEY_DILATIONS, 1, 1, window.dilations, err);
    }
    if (st == KILN_STATUS_OK) {
        st = padding_of(call, &window, err);
    }
    for (unsigned axis = 0; st == KILN_STATUS_OK && axis < 2; axis++) {
        st = window_count(call, axis, in[axis], &window, err);
    }
    if (st == KILN_STATUS_OK) {
        *out_window = window;
    }
    return st;
}

static kiln_status conv2d_error(const kiln_op_record *call, const char *what, kiln_error *err)
{
    char text[3][KILNI_IR_SHAPE_TEXT] = {"", "", "none"};
    for (unsigned i = 0; i < call->n_inputs; i++) {
        kilni_ir_desc_text(&call->inputs[i], text[i]);
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "conv2d: x %s, weight %s, bias %s, %" PRId64 " groups: %s", text[0], text[1],
                     text[2], kiln_op_attr_i64(call, KILN_KEY_GROUPS), what);
}

static kiln_status check_conv2d(const kiln_op_record *call, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *weight = &call->inputs[1];
    int64_t groups = kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    int64_t channels = 0;
    if (x->rank != 4 || weight->rank != 4) {
        return conv2d_error(call, "x and weight must have rank 4", err);
    }
    if (groups < 1 || weight->dims[0] % groups != 0 ||
        !kilni_ir_mul(weight->dims[1], groups, &channels) || channels != x->dims[1]) {
        return conv2d_error(call, "the channels do not fit", err);
    }
    if (call->n_inputs == 3 &&
        (call->inputs[2].rank != 1 || call->inputs[2].dims[0] != weight->dims[0])) {
        return conv2d_error(call, "the bias must be as long as the weight", err);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_shape_conv2d(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    kilni_ir_window window = {0};
    kiln_status st = check_conv2d(call, err);
    if (st == KILN_STATUS_OK) {
        st = kilni_ir_window_of(call, &call->inputs[0].dims[2], &call->inputs[1].dims[2], &window,
                                err);
    }
    if (st == KILN_STATUS_OK) {
        outputs[0].rank = 4;
        outputs[0].dims[0] = call->inputs[0].dims[0];
        outputs[0].dims[1] = call->inputs[1].dims[0];
        memcpy(&outputs[0].dims[2], window.out, sizeof(window.out));
    }
    return st;
}

kiln_status kiln_shape_pool2d(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    kilni_ir_window window = {0};
    if (x->rank != 4) {
        char text[KILNI_IR_SHAPE_TEXT];
        return kiln_fail(err, INVALID_ARGUMENT, "%s: x %s must have rank 4", kilni_ir_op_name(call),
                         kilni_ir_desc_text(x, text));
    }
    kiln_status st = kilni_ir_window_of(call, &x->dims[2], NULL, &window, err);
    if (st == KILN_STATUS_OK) {
        outputs[0].rank = 4;
        outputs[0].dims[0] = x->dims[0];
        outputs[0].dims[1] = x->dims[1];
        memcpy(&outputs[0].dims[2], window.out, sizeof(window.out));
    }
    return st;
}
