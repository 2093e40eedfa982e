// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of the deformable convolution: each element of a window is read at its place
// plus an offset, linear between elements, 0 outside, times its mask. Places are computed in the
// arithmetic of the dtype, f16 and bf16 in f32, as kernels do; a place that is not a number is
// outside.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

typedef struct deform {
    const kiln_view *x;
    const kiln_view *offset;
    const kiln_view *mask; ///< NULL or of one element: the same for all
    kilni_ir_window w;
    int64_t group_channels; ///< that share offsets
} deform;

typedef struct point { ///< of x, between elements
    int64_t row; ///< of the element above and left; -2: far outside
    int64_t column;
    double down;
    double along;
} point;

static kiln_status deform_init(const kiln_op_record *call, const kiln_view *inputs,
                               const int64_t *kernel, const kiln_view *mask, deform *d,
                               kiln_error *err)
{
    d->x = &inputs[0];
    d->offset = &inputs[1];
    d->mask = mask;
    d->group_channels = inputs[0].dims[1] / kiln_op_attr_i64(call, KILN_KEY_OFFSET_GROUPS);
    return kilni_ir_window_of(call, &inputs[0].dims[2], 2, kernel, &d->w, err);
}

static double element(const kiln_view *view, int64_t a, int64_t b, int64_t c, int64_t e)
{
    const int64_t index[] = {a, b, c, e};
    return kilni_ref_load(view, kilni_ref_offset(view, index)).f;
}

static void split(double at, int64_t length, bool narrow, int64_t *out_first, double *out_part)
{
    at = narrow ? (double)(float)at : at;
    bool inside = at > -1 && at < (double)length;
    *out_first = inside ? (int64_t)floor(at) : -2;
    *out_part = inside ? at - floor(at) : 0;
}

/// Where element `tap` of window (row, column) of channel c is read.
static point point_of(const deform *d, int64_t n, int64_t c, int64_t tap, int64_t row,
                      int64_t column)
{
    const kilni_ir_window *w = &d->w;
    bool narrow = d->x->dtype != KILN_DTYPE_F64;
    int64_t place = (c / d->group_channels * kilni_ir_window_taps(w) + tap) * 2;
    int64_t top = row * w->strides[1] - w->begin[1] + tap / w->kernel[2] * w->dilations[1];
    int64_t left = column * w->strides[2] - w->begin[2] + tap % w->kernel[2] * w->dilations[2];
    point p;
    split((double)top + element(d->offset, n, place, row, column), d->x->dims[2], narrow, &p.row,
          &p.down);
    split((double)left + element(d->offset, n, place + 1, row, column), d->x->dims[3], narrow,
          &p.column, &p.along);
    return p;
}

static double mask_at(const deform *d, int64_t n, int64_t c, int64_t tap, int64_t row,
                      int64_t column)
{
    if (d->mask == NULL || d->mask->rank == 0) {
        return d->mask == NULL ? 1 : kilni_ref_load(d->mask, 0).f;
    }
    int64_t place = c / d->group_channels * kilni_ir_window_taps(&d->w) + tap;
    return element(d->mask, n, place, row, column);
}

/// x at corner k of a point: above left, above right, below left, below right; 0 outside.
static double corner(const deform *d, int64_t n, int64_t c, const point *p, int k)
{
    int64_t row = p->row + k / 2;
    int64_t column = p->column + k % 2;
    bool inside = p->row > -2 && p->column > -2 && row >= 0 && row < d->x->dims[2] && column >= 0 &&
                  column < d->x->dims[3];
    return inside ? element(d->x, n, c, row, column) : 0;
}

static double corner_weight(const point *p, int k)
{
    return (k / 2 == 0 ? 1 - p->down : p->down) * (k % 2 == 0 ? 1 - p->along : p->along);
}

static double value_at(const deform *d, int64_t n, int64_t c, const point *p)
{
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        double weight = corner_weight(p, k);
        sum += weight != 0 ? weight * corner(d, n, c, p, k) : 0;
    }
    return sum;
}

static double column_at(const deform *d, int64_t n, int64_t c, int64_t tap, int64_t row,
                        int64_t column)
{
    point p = point_of(d, n, c, tap, row, column);
    return value_at(d, n, c, &p) * mask_at(d, n, c, tap, row, column);
}

kiln_status kiln_ref_deform_im2col(const kiln_op_record *call, const kiln_view *inputs,
                                   const kiln_view *outputs, kiln_error *err)
{
    deform d;
    kilni_ref_walk walk;
    kiln_status status =
        deform_init(call, inputs, NULL, call->n_inputs > 2 ? &inputs[2] : NULL, &d, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t taps = kilni_ir_window_taps(&d.w);
    kilni_ref_walk_init(&walk, outputs[0].dims, 3);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double value = column_at(&d, walk.index[0], walk.index[1] / taps, walk.index[1] % taps,
                                 walk.index[2] / d.w.out[2], walk.index[2] % d.w.out[2]);
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(value));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_deform_conv(const kiln_op_record *call, const kiln_view *inputs,
                                 const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *weight = &inputs[2];
    int64_t group_outputs = weight->dims[0] / kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    deform d;
    kilni_ref_walk walk;
    kiln_status status = deform_init(call, inputs, &weight->dims[2],
                                     call->n_inputs > 3 ? &inputs[3] : NULL, &d, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_ref_walk_init(&walk, outputs[0].dims, 4);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t o = walk.index[1];
        double sum =
            call->n_inputs > 4 ? kilni_ref_load(&inputs[4], o * inputs[4].strides[0]).f : 0;
        for (int64_t k = 0; k < weight->dims[1] * kilni_ir_window_taps(&d.w); k++) {
            int64_t tap = k % kilni_ir_window_taps(&d.w);
            int64_t c = k / kilni_ir_window_taps(&d.w);
            sum += element(weight, o, c, tap / d.w.kernel[2], tap % d.w.kernel[2]) *
                   column_at(&d, walk.index[0], o / group_outputs * weight->dims[1] + c, tap,
                             walk.index[2], walk.index[3]);
        }
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

// ---- backward ----

/// The gradient of a column: as given, or what the convolution gives back to it.
typedef struct column_grads {
    const kiln_view *columns; ///< NULL: from the gradient of the result
    const kiln_view *grad;
    const kiln_view *weight;
    int64_t group_outputs;
} column_grads;

static double column_grad(const deform *d, const column_grads *g, int64_t n, int64_t c, int64_t tap,
                          int64_t row, int64_t column)
{
    if (g->columns != NULL) {
        const int64_t index[] = {n, c * kilni_ir_window_taps(&d->w) + tap,
                                 row * d->w.out[2] + column};
        return kilni_ref_load(g->columns, kilni_ref_offset(g->columns, index)).f;
    }
    double sum = 0;
    int64_t channels = g->weight->dims[1];
    int64_t first = c / channels * g->group_outputs;
    for (int64_t o = first; o < first + g->group_outputs; o++) {
        sum += element(g->grad, n, o, row, column) *
               element(g->weight, o, c % channels, tap / d->w.kernel[2], tap % d->w.kernel[2]);
    }
    return sum;
}

/// What a place that is read gives back to the elements of x around it; `sums` is their plane.
static void give_back(const deform *d, const point *p, double value, double *sums)
{
    for (int k = 0; k < 4; k++) {
        int64_t row = p->row + k / 2;
        int64_t column = p->column + k % 2;
        bool inside = p->row > -2 && p->column > -2 && row >= 0 && row < d->x->dims[2] &&
                      column >= 0 && column < d->x->dims[3];
        if (inside) {
            sums[row * d->x->dims[3] + column] += corner_weight(p, k) * value;
        }
    }
}

/// The gradient of plane c of image n of x: place by place, so that sums have an order.
static void fill_plane(const deform *d, const column_grads *g, int64_t n, int64_t c, double *sums,
                       const kiln_view *out)
{
    for (int64_t i = 0; i < out->dims[2] * out->dims[3]; i++) {
        sums[i] = 0;
    }
    for (int64_t tap = 0; tap < kilni_ir_window_taps(&d->w); tap++) {
        for (int64_t i = 0; i < d->w.out[1] * d->w.out[2]; i++) {
            int64_t row = i / d->w.out[2];
            int64_t column = i % d->w.out[2];
            point p = point_of(d, n, c, tap, row, column);
            give_back(d, &p,
                      mask_at(d, n, c, tap, row, column) *
                          column_grad(d, g, n, c, tap, row, column),
                      sums);
        }
    }
    for (int64_t i = 0; i < out->dims[2] * out->dims[3]; i++) {
        const int64_t index[] = {n, c, i / out->dims[3], i % out->dims[3]};
        kilni_ref_store(out, kilni_ref_offset(out, index), kilni_ref_of_float(sums[i]));
    }
}

static kiln_status fill_x(const kiln_op_record *call, const deform *d, const column_grads *g,
                          const kiln_view *out, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    double *sums = kiln_alloc_array(&env, (size_t)(out->dims[2] * out->dims[3]) + 1, sizeof(*sums));
    if (sums == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a plane",
                         kilni_ir_op_name(call));
    }
    for (int64_t plane = 0; plane < out->dims[0] * out->dims[1]; plane++) {
        fill_plane(d, g, plane / out->dims[1], plane % out->dims[1], sums, out);
    }
    kiln_free(&env, sums);
    return KILN_STATUS_OK;
}

/// at: [n][(group * taps + tap) * 2 + (0: y, 1: x)][row][column], or without the 2 for the mask.
static double offset_grad(const deform *d, const column_grads *g, const int64_t *at, bool of_mask)
{
    double sum = 0;
    int64_t place = of_mask ? at[1] : at[1] / 2;
    int64_t tap = place % kilni_ir_window_taps(&d->w);
    int64_t first = place / kilni_ir_window_taps(&d->w) * d->group_channels;
    for (int64_t c = first; c < first + d->group_channels; c++) {
        point p = point_of(d, at[0], c, tap, at[2], at[3]);
        double value = 0;
        if (of_mask) {
            value = value_at(d, at[0], c, &p);
        } else {
            bool y = at[1] % 2 == 0;
            double part = y ? p.along : p.down;
            double v[4];
            for (int k = 0; k < 4; k++) {
                v[k] = corner(d, at[0], c, &p, k);
            }
            value = y ? (1 - part) * (v[2] - v[0]) + part * (v[3] - v[1])
                      : (1 - part) * (v[1] - v[0]) + part * (v[3] - v[2]);
            value *= mask_at(d, at[0], c, tap, at[2], at[3]);
        }
        sum += value * column_grad(d, g, at[0], c, tap, at[2], at[3]);
    }
    return sum;
}

static void fill_points(const deform *d, const column_grads *g, const kiln_view *out, bool of_mask)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, out->dims, 4);
    kilni_ref_walk_add(&walk, out);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(out, walk.at[0],
                        kilni_ref_of_float(offset_grad(d, g, walk.index, of_mask)));
    }
}

kiln_status kiln_ref_deform_im2col_backward(const kiln_op_record *call, const kiln_view *inputs,
                                            const kiln_view *outputs, kiln_error *err)
{
    deform d;
    const column_grads g = {.columns = &inputs[3]};
    kiln_status status = deform_init(call, inputs, NULL, &inputs[2], &d, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    fill_points(&d, &g, &outputs[1], false);
    fill_points(&d, &g, &outputs[2], true);
    return fill_x(call, &d, &g, &outputs[0], err);
}

static double weight_grad(const deform *d, const column_grads *g, const int64_t *at)
{
    double sum = 0;
    int64_t c = at[0] / g->group_outputs * g->weight->dims[1] + at[1];
    int64_t windows = d->w.out[1] * d->w.out[2];
    for (int64_t i = 0; i < d->x->dims[0] * windows; i++) {
        int64_t row = i % windows / d->w.out[2];
        int64_t column = i % d->w.out[2];
        sum += element(g->grad, i / windows, at[0], row, column) *
               column_at(d, i / windows, c, at[2] * d->w.kernel[2] + at[3], row, column);
    }
    return sum;
}

kiln_status kiln_ref_deform_conv_backward(const kiln_op_record *call, const kiln_view *inputs,
                                          const kiln_view *outputs, kiln_error *err)
{
    deform d;
    const column_grads g = {.grad = &inputs[4],
                            .weight = &inputs[2],
                            .group_outputs =
                                inputs[2].dims[0] / kiln_op_attr_i64(call, KILN_KEY_GROUPS)};
    kilni_ref_walk walk;
    kiln_status status = deform_init(call, inputs, &inputs[2].dims[2], &inputs[3], &d, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    fill_points(&d, &g, &outputs[1], false);
    fill_points(&d, &g, &outputs[3], true);
    kilni_ref_walk_init(&walk, outputs[2].dims, 4);
    kilni_ref_walk_add(&walk, &outputs[2]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&outputs[2], walk.at[0],
                        kilni_ref_of_float(weight_grad(&d, &g, walk.index)));
    }
    status = fill_x(call, &d, &g, &outputs[0], err);
    return status == KILN_STATUS_OK
               ? kiln_ref_conv_bias_backward(call, &inputs[4], &outputs[4], err)
               : status;
}
