// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of products: how operands of rank 1, transposition and batches become NumPy's rules. The
// arithmetic of elements is in reference_contraction.c. Windows have a file of their own:
// shape_window.c.
#include <inttypes.h>
#include <string.h>

#include "shape_internal.h"

static kiln_status matmul_operand(const kiln_op_record *call, unsigned index, uint32_t *out_first,
                                  uint32_t *out_second, uint32_t *out_batch, kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[index];
    kiln_attr_key key = index == 0 ? KILN_KEY_TRANSPOSE_A : KILN_KEY_TRANSPOSE_B;
    bool transpose = kiln_op_attr_i64(call, key) != 0;
    if (x->rank == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "matmul: input %s has rank 0",
                         kiln_op_info_of(KILN_OP_MATMUL)->signature->inputs[index]);
    }
    if (x->rank == 1) {
        *out_batch = 0;
        *out_first = index == 0 ? KILN_MAX_RANK : 0;
        *out_second = index == 0 ? 0 : KILN_MAX_RANK;
        return transpose ? kiln_fail(err, INVALID_ARGUMENT,
                                     "matmul: input %s has rank 1 and cannot be transposed",
                                     kiln_op_info_of(KILN_OP_MATMUL)->signature->inputs[index])
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
    kiln_status status = matmul_operand(call, 0, &s.a_row_axis, &s.a_k_axis, &s.a_batch, err);
    if (status == KILN_STATUS_OK) {
        status = matmul_operand(call, 1, &s.b_k_axis, &s.b_column_axis, &s.b_batch, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
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
    kiln_status status = kilni_ir_matmul_of(call, &s, err);
    if (status != KILN_STATUS_OK) {
        return status;
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

static bool is_narrow(const kiln_tensor_desc *x)
{
    return x->dtype == KILN_DTYPE_I8 || x->dtype == KILN_DTYPE_U8;
}

/// One number, or one for each of `count` rows or columns.
static kiln_status check_zero(const kiln_op_record *call, unsigned index, int64_t count,
                              kiln_error *err)
{
    const kiln_tensor_desc *zero = &call->inputs[index + 2];
    char text[KILNI_IR_SHAPE_TEXT];
    bool fits = zero->rank == 0 || (zero->rank == 1 && zero->dims[0] == count);
    if (zero->dtype == call->inputs[index].dtype && fits) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "matmul_integer: the zero point of %s is %s, where one number or %" PRId64
                     " of its dtype are needed",
                     index == 0 ? "a" : "b", kilni_ir_desc_text(zero, text), count);
}

kiln_status kiln_shape_matmul_integer(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                      kiln_error *err)
{
    kilni_ir_matmul s = {0};
    char text[2][KILNI_IR_SHAPE_TEXT];
    if (!is_narrow(&call->inputs[0]) || !is_narrow(&call->inputs[1])) {
        return kiln_fail(err, INVALID_ARGUMENT, "matmul_integer: %s and %s: both must be i8 or u8",
                         kilni_ir_desc_text(&call->inputs[0], text[0]),
                         kilni_ir_desc_text(&call->inputs[1], text[1]));
    }
    kiln_status status = kilni_ir_matmul_of(call, &s, err);
    if (status == KILN_STATUS_OK && call->n_inputs > 2) {
        status = check_zero(call, 0, s.m, err);
    }
    if (status == KILN_STATUS_OK && call->n_inputs > 3) {
        status = check_zero(call, 1, s.n, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_shape_matmul(call, outputs, err);
    }
    outputs[0].dtype = KILN_DTYPE_I32;
    return status;
}
