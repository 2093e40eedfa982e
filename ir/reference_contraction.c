// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of matmul, conv2d and the pools: the definitions as loops, floats accumulated
// in double and rounded once, integers wrapping. Shapes and windows come from shape_contraction.c.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

/* The operand with only its batch axes, to be walked against the output's. */
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
} dot_operands;

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
            sum.u += a.u * b.u;
        }
    }
    return sum;
}

kiln_status kiln_ref_matmul(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *a = &inputs[0];
    const kiln_view *b = &inputs[1];
    const kiln_view *out = &outputs[0];
    kilni_ir_matmul s = {0};
    kiln_status st = kilni_ir_matmul_of(call, &s, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    bool has_rows = s.a_row_axis < KILN_MAX_RANK;
    bool has_columns = s.b_column_axis < KILN_MAX_RANK;
    uint32_t batch = out->rank - (has_rows ? 1u : 0u) - (has_columns ? 1u : 0u);
    int64_t row_stride = has_rows ? out->strides[batch] : 0;
    int64_t column_stride = has_columns ? out->strides[out->rank - 1] : 0;
    dot_operands d = {a, b, stride_of(a, s.a_k_axis), stride_of(b, s.b_k_axis), s.k};
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
                kilni_ref_store(out, walk.at[2] + i * row_stride + j * column_stride,
                                dot(&d, a_at, b_at));
            }
        }
    }
    return KILN_STATUS_OK;
}

/* Place in the input of element `k` of window `o` along an axis. */
static int64_t tap(const kilni_ir_window *w, unsigned axis, int64_t o, int64_t k)
{
    return o * w->strides[axis] - w->begin[axis] + k * w->dilations[axis];
}

static double conv2d_channel(const kiln_view *x, const kiln_view *weight, const kilni_ir_window *w,
                             const int64_t *place, int64_t x_channel, int64_t weight_channel)
{
    double sum = 0;
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
        int64_t h = tap(w, 0, place[2], kh);
        for (int64_t kw = 0; h >= 0 && h < x->dims[2] && kw < w->kernel[1]; kw++) {
            int64_t v = tap(w, 1, place[3], kw);
            if (v < 0 || v >= x->dims[3]) {
                continue;
            }
            const int64_t x_index[4] = {place[0], x_channel, h, v};
            const int64_t weight_index[4] = {place[1], weight_channel, kh, kw};
            sum += kilni_ref_load(x, kilni_ref_offset(x, x_index)).f *
                   kilni_ref_load(weight, kilni_ref_offset(weight, weight_index)).f;
        }
    }
    return sum;
}

kiln_status kiln_ref_conv2d(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *weight = &inputs[1];
    int64_t group_outputs = weight->dims[0] / kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    kilni_ir_window w = {0};
    kilni_ref_walk walk;
    kiln_status st = kilni_ir_window_of(call, &x->dims[2], &weight->dims[2], &w, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_ref_walk_init(&walk, outputs[0].dims, 4);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t first = walk.index[1] / group_outputs * weight->dims[1];
        double sum = 0;
        for (int64_t c = 0; c < weight->dims[1]; c++) {
            sum += conv2d_channel(x, weight, &w, walk.index, first + c, c);
        }
        if (call->n_inputs == 3) {
            sum += kilni_ref_load(&inputs[2], walk.index[1] * inputs[2].strides[0]).f;
        }
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

typedef struct pooled {
    kilni_ref_value largest;
    double sum;
    int64_t taken; ///< elements of the input
    int64_t padded; ///< elements of the input and its padding
} pooled;

static pooled pool_window(const kiln_view *x, const kilni_ir_window *w, const int64_t *place)
{
    pooled p = {.largest = kilni_ref_lowest(x->dtype)};
    for (int64_t kh = 0; kh < w->kernel[0]; kh++) {
        int64_t h = tap(w, 0, place[2], kh);
        for (int64_t kw = 0; h < x->dims[2] + w->end[0] && kw < w->kernel[1]; kw++) {
            int64_t v = tap(w, 1, place[3], kw);
            if (v >= x->dims[3] + w->end[1]) {
                continue;
            }
            p.padded++;
            if (h < 0 || v < 0 || h >= x->dims[2] || v >= x->dims[3]) {
                continue;
            }
            const int64_t index[4] = {place[0], place[1], h, v};
            kilni_ref_value value = kilni_ref_load(x, kilni_ref_offset(x, index));
            p.taken++;
            p.largest = kilni_ref_max(p.largest, value, x->dtype);
            p.sum += kilni_ref_is_float(x->dtype) ? value.f : 0;
        }
    }
    return p;
}

static kiln_status pool(const kiln_op_record *call, const kiln_view *inputs,
                        const kiln_view *outputs, bool mean, kiln_error *err)
{
    bool include_pad = kiln_op_attr_i64(call, KILN_KEY_INCLUDE_PAD) != 0;
    kilni_ir_window w = {0};
    kilni_ref_walk walk;
    kiln_status st = kilni_ir_window_of(call, &inputs[0].dims[2], NULL, &w, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_ref_walk_init(&walk, outputs[0].dims, 4);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        pooled p = pool_window(&inputs[0], &w, walk.index);
        double divisor = (double)(include_pad ? p.padded : p.taken);
        kilni_ref_store(&outputs[0], walk.at[0],
                        mean ? kilni_ref_of_float(p.sum / divisor) : p.largest);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_max_pool2d(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    return pool(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_avg_pool2d(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    return pool(call, inputs, outputs, true, err);
}
