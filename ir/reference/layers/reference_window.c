// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of convolutions, their backward operators and columns: the definitions as
// loops, floats accumulated in double and rounded once. All of them are sums over the pairs of a
// window and one of its elements; which windows there are comes from shape_window.c.
#include "reference_internal.h"

kiln_view kilni_ref_planes(const kiln_view *view)
{
    kiln_view planes = *view;
    uint32_t skipped = 2 + KILNI_IR_SPATIAL - view->rank;
    planes.rank = 2 + KILNI_IR_SPATIAL;
    for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
        planes.dims[2 + i] = i < skipped ? 1 : view->dims[2 + i - skipped];
        planes.strides[2 + i] = i < skipped ? 0 : view->strides[2 + i - skipped];
    }
    return planes;
}

bool kilni_ref_place(const kilni_ir_window *w, const int64_t *window, int64_t tap,
                     int64_t out_place[KILNI_IR_SPATIAL])
{
    bool inside = true;
    for (uint32_t i = KILNI_IR_SPATIAL; i-- > 0;) {
        int64_t k = tap % w->kernel[i];
        tap /= w->kernel[i];
        out_place[i] = window[i] * w->strides[i] - w->begin[i] + k * w->dilations[i];
        inside = inside && out_place[i] >= 0 && out_place[i] < w->in[i];
    }
    return inside;
}

bool kilni_ref_window_at(const kilni_ir_window *w, const int64_t *place, int64_t tap,
                         int64_t out_window[KILNI_IR_SPATIAL])
{
    bool inside = true;
    for (uint32_t i = KILNI_IR_SPATIAL; i-- > 0;) {
        int64_t from = place[i] + w->begin[i] - tap % w->kernel[i] * w->dilations[i];
        tap /= w->kernel[i];
        out_window[i] = from / w->strides[i];
        inside = inside && from >= 0 && from % w->strides[i] == 0 && out_window[i] < w->out[i];
    }
    return inside;
}

double kilni_ref_at(const kiln_view *planes, int64_t n, int64_t channel, const int64_t *place)
{
    const int64_t index[] = {n, channel, place[0], place[1], place[2]};
    return kilni_ref_load(planes, kilni_ref_offset(planes, index)).f;
}

static double weight_at(const kiln_view *weight, int64_t o, int64_t c, int64_t tap)
{
    int64_t place[KILNI_IR_SPATIAL];
    for (uint32_t i = KILNI_IR_SPATIAL; i-- > 0;) {
        place[i] = tap % weight->dims[2 + i];
        tap /= weight->dims[2 + i];
    }
    return kilni_ref_at(weight, o, c, place);
}

// ---- the three sums of a convolution ----

typedef struct conv_views { ///< y = conv(x, weight)
    kiln_view x;
    kiln_view weight;
    kiln_view y;
    kilni_ir_window w;
    int64_t group_outputs;
} conv_views;

static kiln_status conv_views_init(const kiln_op_record *call, const kiln_view *x,
                                   const kiln_view *weight, const kiln_view *y, conv_views *v,
                                   kiln_error *err)
{
    v->x = kilni_ref_planes(x);
    v->weight = kilni_ref_planes(weight);
    v->y = kilni_ref_planes(y);
    v->group_outputs = weight->dims[0] / kiln_op_attr_i64(call, KILN_KEY_GROUPS);
    return kilni_ir_window_of(call, &x->dims[2], x->rank - 2, &weight->dims[2], &v->w, err);
}

/// y[at]
static double y_sum(const conv_views *v, const int64_t *at)
{
    double sum = 0;
    int64_t first = at[1] / v->group_outputs * v->weight.dims[1];
    for (int64_t c = 0; c < v->weight.dims[1]; c++) {
        for (int64_t tap = 0; tap < kilni_ir_window_taps(&v->w); tap++) {
            int64_t place[KILNI_IR_SPATIAL];
            if (kilni_ref_place(&v->w, at + 2, tap, place)) {
                sum += kilni_ref_at(&v->x, at[0], first + c, place) *
                       weight_at(&v->weight, at[1], c, tap);
            }
        }
    }
    return sum;
}

/// What y gives back to x[at].
static double x_sum(const conv_views *v, const int64_t *at)
{
    double sum = 0;
    int64_t channels = v->weight.dims[1];
    int64_t first = at[1] / channels * v->group_outputs;
    for (int64_t o = first; o < first + v->group_outputs; o++) {
        for (int64_t tap = 0; tap < kilni_ir_window_taps(&v->w); tap++) {
            int64_t window[KILNI_IR_SPATIAL];
            if (kilni_ref_window_at(&v->w, at + 2, tap, window)) {
                sum += kilni_ref_at(&v->y, at[0], o, window) *
                       weight_at(&v->weight, o, at[1] % channels, tap);
            }
        }
    }
    return sum;
}

/// What y gives back to weight[at], over the windows that y has.
static double weight_sum(const conv_views *v, const int64_t *at)
{
    double sum = 0;
    int64_t channel = at[0] / v->group_outputs * v->weight.dims[1] + at[1];
    int64_t tap = (at[2] * v->w.kernel[1] + at[3]) * v->w.kernel[2] + at[4];
    kilni_ref_walk walk;
    for (int64_t n = 0; n < v->y.dims[0]; n++) {
        kilni_ref_walk_init(&walk, &v->y.dims[2], KILNI_IR_SPATIAL);
        for (; !walk.done; kilni_ref_walk_next(&walk)) {
            int64_t place[KILNI_IR_SPATIAL];
            if (kilni_ref_place(&v->w, walk.index, tap, place)) {
                sum += kilni_ref_at(&v->x, n, channel, place) *
                       kilni_ref_at(&v->y, n, at[0], walk.index);
            }
        }
    }
    return sum;
}

typedef double (*sum_fn)(const conv_views *v, const int64_t *at);

static void fill_sums(const conv_views *v, const kiln_view *target, sum_fn sum,
                      const kiln_view *bias)
{
    kiln_view planes = kilni_ref_planes(target);
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, planes.dims, planes.rank);
    kilni_ref_walk_add(&walk, &planes);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double value = sum(v, walk.index);
        if (bias != NULL) {
            value += kilni_ref_load(bias, walk.index[1] * bias->strides[0]).f;
        }
        kilni_ref_store(&planes, walk.at[0], kilni_ref_of_float(value));
    }
}

kiln_status kiln_ref_conv(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = conv_views_init(call, &inputs[0], &inputs[1], &outputs[0], &v, err);
    if (status == KILN_STATUS_OK) {
        fill_sums(&v, &outputs[0], y_sum, call->n_inputs == 3 ? &inputs[2] : NULL);
    }
    return status;
}

/// The output stands where the convolution that is turned round reads.
kiln_status kiln_ref_conv_transpose(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = kilni_ir_window_transposed(call, &inputs[0].dims[2], inputs[0].rank - 2,
                                                    &inputs[1].dims[2], &v.w, err);
    if (status == KILN_STATUS_OK) {
        v.x = kilni_ref_planes(&outputs[0]);
        v.weight = kilni_ref_planes(&inputs[1]);
        v.y = kilni_ref_planes(&inputs[0]);
        v.group_outputs = inputs[1].dims[0] / kiln_op_attr_i64(call, KILN_KEY_GROUPS);
        fill_sums(&v, &outputs[0], x_sum, call->n_inputs == 3 ? &inputs[2] : NULL);
    }
    return status;
}

kiln_status kiln_ref_conv_x_backward(const kiln_op_record *call, const kiln_view *inputs,
                                     const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = conv_views_init(call, &outputs[0], &inputs[1], &inputs[0], &v, err);
    if (status == KILN_STATUS_OK) {
        fill_sums(&v, &outputs[0], x_sum, NULL);
    }
    return status;
}

kiln_status kiln_ref_conv_weight_backward(const kiln_op_record *call, const kiln_view *inputs,
                                          const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = conv_views_init(call, &inputs[0], &outputs[0], &inputs[1], &v, err);
    if (status == KILN_STATUS_OK) {
        fill_sums(&v, &outputs[0], weight_sum, NULL);
    }
    return status;
}

kiln_status kiln_ref_conv_transpose_x_backward(const kiln_op_record *call, const kiln_view *inputs,
                                               const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = conv_views_init(call, &inputs[0], &inputs[1], &outputs[0], &v, err);
    if (status == KILN_STATUS_OK) {
        fill_sums(&v, &outputs[0], y_sum, NULL);
    }
    return status;
}

kiln_status kiln_ref_conv_transpose_weight_backward(const kiln_op_record *call,
                                                    const kiln_view *inputs,
                                                    const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kiln_status status = conv_views_init(call, &inputs[1], &outputs[0], &inputs[0], &v, err);
    if (status == KILN_STATUS_OK) {
        fill_sums(&v, &outputs[0], weight_sum, NULL);
    }
    return status;
}

kiln_status kiln_ref_conv_bias_backward(const kiln_op_record *call, const kiln_view *inputs,
                                        const kiln_view *outputs, kiln_error *err)
{
    kiln_view plane = inputs[0];
    (void)call;
    (void)err;
    plane.dims[1] = 1;
    for (int64_t c = 0; c < outputs[0].dims[0]; c++) {
        double sum = 0;
        kilni_ref_walk walk;
        kilni_ref_walk_init(&walk, plane.dims, plane.rank);
        kilni_ref_walk_add(&walk, &plane);
        for (; !walk.done; kilni_ref_walk_next(&walk)) {
            sum += kilni_ref_load(&plane, walk.at[0] + c * plane.strides[1]).f;
        }
        kilni_ref_store(&outputs[0], c * outputs[0].strides[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

// ---- integers ----

/// Zero point `index` of input `input` of the call; 0 when there is none.
static int64_t zero_point(const kiln_op_record *call, const kiln_view *inputs, unsigned input,
                          int64_t index)
{
    if (call->n_inputs <= input) {
        return 0;
    }
    const kiln_view *point = &inputs[input];
    return kilni_ref_load(point, point->rank == 0 ? 0 : index * point->strides[0]).i;
}

static int64_t int_at(const kiln_view *planes, int64_t n, int64_t channel, const int64_t *place)
{
    const int64_t index[] = {n, channel, place[0], place[1], place[2]};
    return kilni_ref_load(planes, kilni_ref_offset(planes, index)).i;
}

kiln_status kiln_ref_conv_integer(const kiln_op_record *call, const kiln_view *inputs,
                                  const kiln_view *outputs, kiln_error *err)
{
    conv_views v;
    kilni_ref_walk walk;
    kiln_status status = conv_views_init(call, &inputs[0], &inputs[1], &outputs[0], &v, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t x_zero = zero_point(call, inputs, 2, 0);
    kilni_ref_walk_init(&walk, v.y.dims, v.y.rank);
    kilni_ref_walk_add(&walk, &v.y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value sum = {0};
        int64_t first = walk.index[1] / v.group_outputs * v.weight.dims[1];
        int64_t weight_zero = zero_point(call, inputs, 3, walk.index[1]);
        for (int64_t c = 0; c < v.weight.dims[1]; c++) {
            for (int64_t tap = 0; tap < kilni_ir_window_taps(&v.w); tap++) {
                int64_t place[KILNI_IR_SPATIAL];
                const int64_t k[] = {tap / v.w.kernel[2] / v.w.kernel[1],
                                     tap / v.w.kernel[2] % v.w.kernel[1], tap % v.w.kernel[2]};
                if (kilni_ref_place(&v.w, walk.index + 2, tap, place)) {
                    sum.i += (int_at(&v.x, walk.index[0], first + c, place) - x_zero) *
                             (int_at(&v.weight, walk.index[1], c, k) - weight_zero);
                }
            }
        }
        kilni_ref_store(&v.y, walk.at[0], sum);
    }
    return KILN_STATUS_OK;
}

// ---- columns ----

kiln_status kiln_ref_im2col(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    kiln_view x = kilni_ref_planes(&inputs[0]);
    kilni_ir_window w;
    kilni_ref_walk walk;
    kiln_status status =
        kilni_ir_window_of(call, &inputs[0].dims[2], inputs[0].rank - 2, NULL, &w, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t taps = kilni_ir_window_taps(&w);
    kilni_ref_walk_init(&walk, outputs[0].dims, 3);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t at = walk.index[2];
        const int64_t window[] = {at / w.out[2] / w.out[1], at / w.out[2] % w.out[1],
                                  at % w.out[2]};
        int64_t place[KILNI_IR_SPATIAL];
        kilni_ref_value value = {0};
        if (kilni_ref_place(&w, window, walk.index[1] % taps, place)) {
            const int64_t index[] = {walk.index[0], walk.index[1] / taps, place[0], place[1],
                                     place[2]};
            value = kilni_ref_load(&x, kilni_ref_offset(&x, index));
        }
        kilni_ref_store(&outputs[0], walk.at[0], value);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_col2im(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *columns = &inputs[0];
    kiln_view y = kilni_ref_planes(&outputs[0]);
    kilni_ir_window w;
    kilni_ref_walk walk;
    kiln_status status =
        kilni_ir_window_of(call, &outputs[0].dims[2], outputs[0].rank - 2, NULL, &w, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t taps = kilni_ir_window_taps(&w);
    kilni_ref_walk_init(&walk, y.dims, y.rank);
    kilni_ref_walk_add(&walk, &y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double sum = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t window[KILNI_IR_SPATIAL];
            if (kilni_ref_window_at(&w, walk.index + 2, tap, window)) {
                const int64_t index[] = {walk.index[0], walk.index[1] * taps + tap,
                                         (window[0] * w.out[1] + window[1]) * w.out[2] + window[2]};
                sum += kilni_ref_load(columns, kilni_ref_offset(columns, index)).f;
            }
        }
        kilni_ref_store(&y, walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}
