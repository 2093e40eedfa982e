// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of products: the definition as loops, floats accumulated in double and rounded
// once, integers wrapping.
#include <string.h>

#include "reference_internal.h"

/// The operand with only its batch axes, to be walked against the output's.
static kiln_view batch_view(const kiln_view *view, uint32_t batch)
{
    kiln_view only = *view;
    only.rank = batch;
    return only;
}

static int64_t stride_of(const kiln_view *view, uint32_t axis)
{
    return axis < view->rank ? view->strides[axis] : 0;
}

typedef struct dot_operands {
    const kiln_view *a;
    const kiln_view *b;
    int64_t a_stride;
    int64_t b_stride;
    int64_t length;
    uint64_t a_zero; ///< of integers
    uint64_t b_zero;
} dot_operands;

/// Zero point `index` of input `input` of the call: one number, or one for each row or column.
static uint64_t zero_point(const kiln_op_record *call, const kiln_view *inputs, unsigned input,
                           int64_t index)
{
    if (call->n_inputs <= input) {
        return 0;
    }
    const kiln_view *zero = &inputs[input];
    return kilni_ref_load(zero, zero->rank == 0 ? 0 : index * zero->strides[0]).u;
}

static kilni_ref_value dot(const dot_operands *d, int64_t a_at, int64_t b_at)
{
    kilni_ref_value sum = {0};
    bool is_float = kilni_ref_is_float(d->a->dtype);
    for (int64_t i = 0; i < d->length; i++) {
        kilni_ref_value a = kilni_ref_load(d->a, a_at + i * d->a_stride);
        kilni_ref_value b = kilni_ref_load(d->b, b_at + i * d->b_stride);
        if (is_float) {
            sum.f += a.f * b.f;
        } else {
            sum.u += (a.u - d->a_zero) * (b.u - d->b_zero);
        }
    }
    return sum;
}

static kiln_status products(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *a = &inputs[0];
    const kiln_view *b = &inputs[1];
    const kiln_view *out = &outputs[0];
    kilni_ir_matmul s = {0};
    kiln_status status = kilni_ir_matmul_of(call, &s, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool has_rows = s.a_row_axis < KILN_MAX_RANK;
    bool has_columns = s.b_column_axis < KILN_MAX_RANK;
    uint32_t batch = out->rank - (has_rows ? 1u : 0u) - (has_columns ? 1u : 0u);
    int64_t row_stride = has_rows ? out->strides[batch] : 0;
    int64_t column_stride = has_columns ? out->strides[out->rank - 1] : 0;
    dot_operands d = {a, b, stride_of(a, s.a_k_axis), stride_of(b, s.b_k_axis), s.k, 0, 0};
    kiln_view views[3] = {batch_view(a, s.a_batch), batch_view(b, s.b_batch),
                          batch_view(out, batch)};
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, out->dims, batch);
    for (unsigned i = 0; i < 3; i++) {
        kilni_ref_walk_add(&walk, &views[i]);
    }
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        for (int64_t i = 0; i < s.m; i++) {
            for (int64_t j = 0; j < s.n; j++) {
                int64_t a_at = walk.at[0] + i * stride_of(a, s.a_row_axis);
                int64_t b_at = walk.at[1] + j * stride_of(b, s.b_column_axis);
                d.a_zero = zero_point(call, inputs, 2, i);
                d.b_zero = zero_point(call, inputs, 3, j);
                kilni_ref_store(out, walk.at[2] + i * row_stride + j * column_stride,
                                dot(&d, a_at, b_at));
            }
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_matmul(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    return products(call, inputs, outputs, err);
}

kiln_status kiln_ref_matmul_integer(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, kiln_error *err)
{
    return products(call, inputs, outputs, err);
}
