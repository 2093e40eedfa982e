// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of the pools, their backward operators and max_unpool. A window of the input
// with its padding, or an adaptive one: from floor(i * in / out) to ceil((i + 1) * in / out), as
// PyTorch has it. An index is the place in the plane of spatial axes, row-major; of equal elements
// the first wins, NaN wins over numbers; a window of padding alone has index -1.
#include <math.h>

#include "reference_internal.h"

typedef struct pooled {
    kilni_ref_value largest;
    int64_t index;
    double sum;
    int64_t taken; ///< elements of the input
    int64_t padded; ///< elements of the input and its padding
} pooled;

static bool is_larger(const pooled *p, kilni_ref_value value, kiln_dtype dtype)
{
    bool is_nan = kilni_ref_is_nan(value, dtype) && !kilni_ref_is_nan(p->largest, dtype);
    return p->index < 0 || is_nan || kilni_ref_less(p->largest, value, dtype);
}

/// `power` 0: the sum of elements; else of their absolute values raised to it.
static void take(pooled *p, const kiln_view *x, const int64_t *at, double power)
{
    kilni_ref_value value = kilni_ref_load(x, kilni_ref_offset(x, at));
    int64_t index = (at[2] * x->dims[3] + at[3]) * x->dims[4] + at[4];
    p->taken++;
    p->padded++;
    if (is_larger(p, value, x->dtype)) {
        p->largest = value;
        p->index = index;
    }
    if (kilni_ref_is_float(x->dtype)) {
        p->sum += power > 0 ? pow(fabs(value.f), power) : value.f;
    }
}

static pooled pool_window(const kiln_view *x, const kilni_ir_window *w, const int64_t *at,
                          double power)
{
    pooled p = {.largest = kilni_ref_lowest(x->dtype), .index = -1};
    for (int64_t tap = 0; tap < kilni_ir_window_taps(w); tap++) {
        int64_t index[2 + KILNI_IR_SPATIAL] = {at[0], at[1]};
        if (kilni_ref_place(w, at + 2, tap, index + 2)) {
            take(&p, x, index, power);
            continue;
        }
        bool padded = true;
        for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
            padded = padded && index[2 + i] < w->in[i] + w->end[i];
        }
        p.padded += padded ? 1 : 0;
    }
    return p;
}

static void adaptive_range(const kilni_ir_window *w, uint32_t axis, int64_t i, int64_t *out_begin,
                           int64_t *out_end)
{
    *out_begin = i * w->in[axis] / w->out[axis];
    *out_end = ((i + 1) * w->in[axis] + w->out[axis] - 1) / w->out[axis];
}

static pooled pool_adaptive(const kiln_view *x, const kilni_ir_window *w, const int64_t *at)
{
    pooled p = {.largest = kilni_ref_lowest(x->dtype), .index = -1};
    int64_t begin[KILNI_IR_SPATIAL];
    int64_t lengths[KILNI_IR_SPATIAL];
    kilni_ref_walk walk;
    for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
        adaptive_range(w, i, at[2 + i], &begin[i], &lengths[i]);
        lengths[i] -= begin[i];
    }
    kilni_ref_walk_init(&walk, lengths, KILNI_IR_SPATIAL);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        const int64_t index[] = {at[0], at[1], begin[0] + walk.index[0], begin[1] + walk.index[1],
                                 begin[2] + walk.index[2]};
        take(&p, x, index, 0);
    }
    return p;
}

static bool is_adaptive(kiln_op op)
{
    return op == KILN_OP_ADAPTIVE_AVG_POOL || op == KILN_OP_ADAPTIVE_MAX_POOL ||
           op == KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD;
}

static kilni_ref_value result_of(const kiln_op_record *call, const pooled *p)
{
    bool include_pad = kiln_op_attr_i64(call, KILN_KEY_INCLUDE_PAD) != 0;
    switch (call->op) {
    case KILN_OP_AVG_POOL:
    case KILN_OP_ADAPTIVE_AVG_POOL:
        return kilni_ref_of_float(p->sum / (double)(include_pad ? p->padded : p->taken));
    case KILN_OP_LP_POOL:
        return kilni_ref_of_float(pow(p->sum, 1 / kiln_op_attr_f64(call, KILN_KEY_P)));
    default:
        return p->largest;
    }
}

static kiln_status pool(const kiln_op_record *call, const kiln_view *inputs,
                        const kiln_view *outputs, kiln_error *err)
{
    kiln_view x = kilni_ref_planes(&inputs[0]);
    kiln_view y = kilni_ref_planes(&outputs[0]);
    bool adaptive = is_adaptive(call->op);
    double power = call->op == KILN_OP_LP_POOL ? kiln_op_attr_f64(call, KILN_KEY_P) : 0;
    kilni_ir_window w;
    kilni_ref_walk walk;
    kiln_status status =
        adaptive ? kilni_ir_window_adaptive(call, &inputs[0].dims[2], &outputs[0].dims[2],
                                            inputs[0].rank - 2, &w, err)
                 : kilni_ir_window_of(call, &inputs[0].dims[2], inputs[0].rank - 2, NULL, &w, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_ref_walk_init(&walk, y.dims, y.rank);
    kilni_ref_walk_add(&walk, &y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        pooled p =
            adaptive ? pool_adaptive(&x, &w, walk.index) : pool_window(&x, &w, walk.index, power);
        kilni_ref_store(&y, walk.at[0], result_of(call, &p));
        if (call->n_outputs == 2) {
            kiln_view indices = kilni_ref_planes(&outputs[1]);
            kilni_ref_store(&indices, kilni_ref_offset(&indices, walk.index),
                            (kilni_ref_value){.i = p.index});
        }
    }
    return KILN_STATUS_OK;
}

#define POOL(name)                                                                                 \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return pool(call, inputs, outputs, err);                                                   \
    }
POOL(max_pool)
POOL(max_pool_with_indices)
POOL(avg_pool)
POOL(lp_pool)
POOL(adaptive_avg_pool)
POOL(adaptive_max_pool)

// ---- backward ----

/// Number of elements that the mean of a window divides by.
static double divisor_of(const kilni_ir_window *w, const int64_t *window, bool include_pad)
{
    int64_t count = 0;
    for (int64_t tap = 0; tap < kilni_ir_window_taps(w); tap++) {
        int64_t place[KILNI_IR_SPATIAL];
        bool counted = kilni_ref_place(w, window, tap, place);
        bool padded = include_pad;
        for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
            padded = padded && place[i] < w->in[i] + w->end[i];
        }
        count += counted || padded ? 1 : 0;
    }
    return (double)count;
}

typedef struct pool_views {
    kiln_view grad;
    kiln_view indices; ///< of max_pool_backward
    kilni_ir_window w;
    bool include_pad;
} pool_views;

/// What the windows around x[at] give back to it.
static double window_grads(const pool_views *v, const kiln_op_record *call, const int64_t *at)
{
    double sum = 0;
    int64_t own = (at[2] * v->w.in[1] + at[3]) * v->w.in[2] + at[4];
    for (int64_t tap = 0; tap < kilni_ir_window_taps(&v->w); tap++) {
        int64_t index[2 + KILNI_IR_SPATIAL] = {at[0], at[1]};
        if (!kilni_ref_window_at(&v->w, at + 2, tap, index + 2)) {
            continue;
        }
        double grad = kilni_ref_load(&v->grad, kilni_ref_offset(&v->grad, index)).f;
        if (call->op == KILN_OP_MAX_POOL_BACKWARD) {
            int64_t from = kilni_ref_load(&v->indices, kilni_ref_offset(&v->indices, index)).i;
            sum += from == own ? grad : 0;
        } else {
            sum += grad / divisor_of(&v->w, index + 2, v->include_pad);
        }
    }
    return sum;
}

static double adaptive_grads(const pool_views *v, const int64_t *at)
{
    double sum = 0;
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, v->w.out, KILNI_IR_SPATIAL);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double count = 1;
        bool inside = true;
        for (uint32_t i = 0; i < KILNI_IR_SPATIAL; i++) {
            int64_t begin = 0;
            int64_t end = 0;
            adaptive_range(&v->w, i, walk.index[i], &begin, &end);
            inside = inside && at[2 + i] >= begin && at[2 + i] < end;
            count *= (double)(end - begin);
        }
        if (inside) {
            sum += kilni_ref_at(&v->grad, at[0], at[1], walk.index) / count;
        }
    }
    return sum;
}

static kiln_status pool_backward(const kiln_op_record *call, const kiln_view *inputs,
                                 const kiln_view *outputs, kiln_error *err)
{
    kiln_view x = kilni_ref_planes(&outputs[0]);
    pool_views v = {.grad = kilni_ref_planes(&inputs[0]),
                    .include_pad = kiln_op_attr_i64(call, KILN_KEY_INCLUDE_PAD) != 0};
    bool adaptive = is_adaptive(call->op);
    kilni_ref_walk walk;
    kiln_status status =
        adaptive
            ? kilni_ir_window_adaptive(call, &outputs[0].dims[2], &inputs[0].dims[2],
                                       inputs[0].rank - 2, &v.w, err)
            : kilni_ir_window_of(call, &outputs[0].dims[2], inputs[0].rank - 2, NULL, &v.w, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (call->n_inputs == 2) {
        v.indices = kilni_ref_planes(&inputs[1]);
    }
    kilni_ref_walk_init(&walk, x.dims, x.rank);
    kilni_ref_walk_add(&walk, &x);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double sum = adaptive ? adaptive_grads(&v, walk.index) : window_grads(&v, call, walk.index);
        kilni_ref_store(&x, walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

#define POOL_BACKWARD(name)                                                                        \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return pool_backward(call, inputs, outputs, err);                                          \
    }
POOL_BACKWARD(max_pool_backward)
POOL_BACKWARD(avg_pool_backward)
POOL_BACKWARD(adaptive_avg_pool_backward)

// ---- max_unpool ----

kiln_status kiln_ref_max_unpool(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    kiln_view y = kilni_ref_planes(&outputs[0]);
    int64_t plane = y.dims[2] * y.dims[3] * y.dims[4];
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, y.dims, y.rank);
    kilni_ref_walk_add(&walk, &y);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_store(&y, walk.at[0], (kilni_ref_value){0});
    }
    kilni_ref_walk_init(&walk, inputs[0].dims, inputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &inputs[1]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t index = kilni_ref_load(&inputs[1], walk.at[1]).i;
        if (index >= 0 && index < plane) {
            const int64_t place[] = {walk.index[0], walk.index[1], index / y.dims[4] / y.dims[3],
                                     index / y.dims[4] % y.dims[3], index % y.dims[4]};
            kilni_ref_store(&y, kilni_ref_offset(&y, place),
                            kilni_ref_load(&inputs[0], walk.at[0]));
        }
    }
    return KILN_STATUS_OK;
}
