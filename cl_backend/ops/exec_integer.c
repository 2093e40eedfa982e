// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of bytes less their zero points: each operand becomes i32 by shift.cl, the product is
// that of i32. What is fast is the fusers'.
#include <string.h>

#include "exec_internal.h"

kiln_status kilni_exec_shift(kilni_exec *exec, unsigned index, uint32_t axis, kiln_view *out_view)
{
    bool has_zero = exec->record->n_inputs > index + 2;
    const kiln_view *zero = has_zero ? &exec->inputs[index + 2] : &exec->inputs[index];
    kiln_tensor_desc desc = {.dtype = KILN_DTYPE_I32};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_view input;
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[index], &input);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t count = kilni_exec_count(&input);
    bool each = has_zero && zero->rank == 1;
    desc.rank = (uint8_t)input.rank;
    memcpy(desc.dims, input.dims, sizeof(desc.dims));
    *out_view = kiln_view_dense(&desc, NULL);
    status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &out_view->buffer);
    kilni_exec_define_dtype(&options, "A", input.dtype);
    kilni_exec_define(&options, "ZERO", has_zero ? 1 : 0);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_kernel(exec, "shift.cl", "kiln_shift", &options, &args);
    }
    if (status != KILN_STATUS_OK || count == 0) {
        return status;
    }
    int64_t chunk = kilni_exec_is_block(exec) ? 4096 : 4;
    kilni_cl_push_buffer(&args, out_view->buffer);
    kilni_cl_push_buffer(&args, input.buffer);
    kilni_cl_push_buffer(&args, zero->buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&input));
    kilni_cl_push_i64(&args, kilni_exec_start(zero));
    kilni_cl_push_i64(&args, each ? zero->strides[0] : 0);
    kilni_cl_push_i64(&args, count);
    kilni_cl_push_i64(&args, each ? input.strides[axis] : count);
    kilni_cl_push_i64(&args, each ? zero->dims[0] : 1);
    kilni_cl_push_i64(&args, chunk);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(count, chunk), 256);
}

/// Rows of a, or columns of b; 0 for the one of a vector.
static uint32_t line_axis(const kilni_exec *exec, unsigned index)
{
    kiln_attr_key key = index == 0 ? KILN_KEY_TRANSPOSE_A : KILN_KEY_TRANSPOSE_B;
    uint32_t rank = exec->inputs[index].rank;
    bool before_last = (kiln_op_attr_i64(exec->record, key) != 0) == (index == 1);
    return rank < 2 ? 0 : rank - (before_last ? 2u : 1u);
}

kiln_status kilni_exec_matmul_integer(kilni_exec *exec)
{
    kiln_tensor_desc descs[2];
    kiln_view views[2];
    for (unsigned i = 0; i < 2; i++) {
        kiln_status status = kilni_exec_shift(exec, i, line_axis(exec, i), &views[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        descs[i] = exec->record->inputs[i];
        descs[i].dtype = KILN_DTYPE_I32;
    }
    return kilni_exec_matmul_of(exec, descs, views);
}
