// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of operators that go along one axis in order: cumulative ones, sorts, the k
// largest, the largest with its index; and of the cross product. Decides the order of elements (NaN
// above everything, -0 equal to 0, equals by their place) and that cumulative sums of floats are
// carried in double with what rounding loses.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

/// Walks the lines of up to two views of equal shape but for the axis.
typedef struct lines {
    kilni_ref_walk walk;
    uint32_t axis;
    int64_t length; ///< of the first view
} lines;

static kiln_status lines_init(lines *l, const kiln_op_record *call, const kiln_view *views,
                              unsigned count, kiln_error *err)
{
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), views[0].rank, &l->axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    l->length = views[0].dims[l->axis];
    for (unsigned i = 0; i < count; i++) {
        kiln_view one = views[i];
        one.dims[l->axis] = 1;
        if (i == 0) {
            kilni_ref_walk_init(&l->walk, one.dims, one.rank);
        }
        kilni_ref_walk_add(&l->walk, &one);
    }
    return KILN_STATUS_OK;
}

// ---- cumulative ----

/// What `sum` = a + b has lost by rounding; 0 where it is not finite (Neumaier, 1974).
static double lost_by(double a, double b, double sum)
{
    if (!isfinite(sum)) {
        return 0;
    }
    return fabs(a) >= fabs(b) ? (a - sum) + b : (b - sum) + a;
}

static kiln_status cumulate(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kilni_ref_value start, kilni_ref_fold fold,
                            kiln_error *err)
{
    const kiln_view views[] = {inputs[0], outputs[0]};
    bool exclusive = kiln_op_attr_i64(call, KILN_KEY_EXCLUSIVE) != 0;
    bool reverse = kiln_op_attr_i64(call, KILN_KEY_REVERSE) != 0;
    bool sums = fold == kilni_ref_plus && kilni_ref_is_float(views[0].dtype);
    lines l;
    kiln_status status = lines_init(&l, call, views, 2, err);
    for (; status == KILN_STATUS_OK && !l.walk.done; kilni_ref_walk_next(&l.walk)) {
        kilni_ref_value so_far = start;
        kilni_ref_value result = start;
        double lost = 0;
        for (int64_t i = 0; i < l.length; i++) {
            int64_t place = reverse ? l.length - 1 - i : i;
            int64_t to = l.walk.at[1] + place * views[1].strides[l.axis];
            kilni_ref_value x =
                kilni_ref_load(&views[0], l.walk.at[0] + place * views[0].strides[l.axis]);
            kilni_ref_value with = fold(so_far, x, views[0].dtype);
            lost += sums ? lost_by(so_far.f, x.f, with.f) : 0;
            kilni_ref_value now = sums ? kilni_ref_of_float(with.f + lost) : with;
            kilni_ref_store(&views[1], to, exclusive ? result : now);
            so_far = with;
            result = now;
        }
    }
    return status;
}

#define REFERENCE(name, start, fold)                                                               \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return cumulate(call, inputs, outputs, start(inputs[0].dtype), fold, err);                 \
    }

REFERENCE(cum_sum, kilni_ref_zero, kilni_ref_plus)
REFERENCE(cum_prod, kilni_ref_one, kilni_ref_times)
REFERENCE(cum_max, kilni_ref_lowest, kilni_ref_max)
REFERENCE(cum_min, kilni_ref_highest, kilni_ref_min)

#undef REFERENCE

// ---- sorts: a heap in the memory of the result, whose root is the last in order ----

typedef struct heap {
    const kiln_view *x; ///< NULL: the slots hold the elements themselves
    int64_t x_at;
    int64_t x_stride;
    const kiln_view *slots; ///< indices of elements
    int64_t at;
    int64_t stride;
    kiln_dtype dtype;
    bool descending;
} heap;

static kilni_ref_value slot(const heap *h, int64_t i)
{
    return kilni_ref_load(h->slots, h->at + i * h->stride);
}

static void set_slot(const heap *h, int64_t i, kilni_ref_value value)
{
    kilni_ref_store(h->slots, h->at + i * h->stride, value);
}

static kilni_ref_value heap_element(const heap *h, kilni_ref_value of_slot)
{
    return h->x == NULL ? of_slot : kilni_ref_load(h->x, h->x_at + of_slot.i * h->x_stride);
}

/// Whether slot value a comes before b.
static bool before(const heap *h, kilni_ref_value a, kilni_ref_value b)
{
    kilni_ref_value p = heap_element(h, a);
    kilni_ref_value q = heap_element(h, b);
    bool p_nan = kilni_ref_is_nan(p, h->dtype);
    bool q_nan = kilni_ref_is_nan(q, h->dtype);
    bool less = q_nan ? !p_nan : !p_nan && kilni_ref_less(p, q, h->dtype);
    bool more = p_nan ? !q_nan : !q_nan && kilni_ref_less(q, p, h->dtype);
    if (less || more) {
        return h->descending ? more : less;
    }
    return h->x != NULL && a.i < b.i;
}

/// Moves slot `i` down among the first `count` until no child comes after it.
static void sift(const heap *h, int64_t i, int64_t count)
{
    for (;;) {
        int64_t last = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            last = before(h, slot(h, last), slot(h, child)) ? child : last;
        }
        if (last == i) {
            return;
        }
        kilni_ref_value moved = slot(h, i);
        set_slot(h, i, slot(h, last));
        set_slot(h, last, moved);
        i = last;
    }
}

static void sort_slots(const heap *h, int64_t count)
{
    for (int64_t end = count - 1; end > 0; end--) {
        kilni_ref_value last = slot(h, 0);
        set_slot(h, 0, slot(h, end));
        set_slot(h, end, last);
        sift(h, 0, end);
    }
}

/// The first `count` of `length` elements in order, as indices.
static void select_first(const heap *h, int64_t length, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        set_slot(h, i, (kilni_ref_value){.i = i});
    }
    for (int64_t i = count / 2; i-- > 0;) {
        sift(h, i, count);
    }
    for (int64_t i = count; count > 0 && i < length; i++) {
        if (before(h, (kilni_ref_value){.i = i}, slot(h, 0))) {
            set_slot(h, 0, (kilni_ref_value){.i = i});
            sift(h, 0, count);
        }
    }
    sort_slots(h, count);
}

/// `values` may be NULL.
static kiln_status order_lines(const kiln_op_record *call, const kiln_view *x,
                               const kiln_view *values, const kiln_view *indices, bool descending,
                               kiln_error *err)
{
    const kiln_view views[] = {*x, *indices, values != NULL ? *values : *indices};
    lines l;
    kiln_status status = lines_init(&l, call, views, 3, err);
    for (; status == KILN_STATUS_OK && !l.walk.done; kilni_ref_walk_next(&l.walk)) {
        int64_t count = indices->dims[l.axis];
        const heap h = {.x = x,
                        .x_at = l.walk.at[0],
                        .x_stride = x->strides[l.axis],
                        .slots = indices,
                        .at = l.walk.at[1],
                        .stride = indices->strides[l.axis],
                        .dtype = x->dtype,
                        .descending = descending};
        select_first(&h, l.length, count);
        for (int64_t i = 0; values != NULL && i < count; i++) {
            kilni_ref_store(values, l.walk.at[2] + i * values->strides[l.axis],
                            heap_element(&h, slot(&h, i)));
        }
    }
    return status;
}

kiln_status kiln_ref_sort(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    lines l;
    kilni_ref_copy(&inputs[0], &outputs[0]);
    kiln_status status = lines_init(&l, call, outputs, 1, err);
    for (; status == KILN_STATUS_OK && !l.walk.done; kilni_ref_walk_next(&l.walk)) {
        const heap h = {.slots = &outputs[0],
                        .at = l.walk.at[0],
                        .stride = outputs[0].strides[l.axis],
                        .dtype = outputs[0].dtype,
                        .descending = kiln_op_attr_i64(call, KILN_KEY_DESCENDING) != 0};
        for (int64_t i = l.length / 2; i-- > 0;) {
            sift(&h, i, l.length);
        }
        sort_slots(&h, l.length);
    }
    return status;
}

kiln_status kiln_ref_argsort(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    bool descending = kiln_op_attr_i64(call, KILN_KEY_DESCENDING) != 0;
    return order_lines(call, &inputs[0], NULL, &outputs[0], descending, err);
}

kiln_status kiln_ref_sort_with_indices(const kiln_op_record *call, const kiln_view *inputs,
                                       const kiln_view *outputs, kiln_error *err)
{
    bool descending = kiln_op_attr_i64(call, KILN_KEY_DESCENDING) != 0;
    return order_lines(call, &inputs[0], &outputs[0], &outputs[1], descending, err);
}

kiln_status kiln_ref_top_k(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, kiln_error *err)
{
    bool descending = kiln_op_attr_i64(call, KILN_KEY_DESCENDING) != 0;
    return order_lines(call, &inputs[0], &outputs[0], &outputs[1], descending, err);
}

// ---- the largest with its index ----

/// The result seen with the axis that it has lost, of length 1.
static kiln_view with_axis(const kiln_view *out, uint32_t rank, uint32_t axis)
{
    kiln_view wide = *out;
    if (out->rank < rank) {
        wide.rank = rank;
        for (uint32_t i = rank - 1; i > axis; i--) {
            wide.dims[i] = out->dims[i - 1];
            wide.strides[i] = out->strides[i - 1];
        }
        wide.dims[axis] = 1;
        wide.strides[axis] = 0;
    }
    return wide;
}

static kiln_status extreme(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, bool smallest, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    uint32_t axis = 0;
    lines l;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_view views[] = {*x, with_axis(&outputs[0], x->rank, axis),
                               with_axis(&outputs[1], x->rank, axis)};
    status = lines_init(&l, call, views, 3, err);
    for (; status == KILN_STATUS_OK && !l.walk.done; kilni_ref_walk_next(&l.walk)) {
        kilni_ref_value best = kilni_ref_load(x, l.walk.at[0]);
        int64_t place = 0;
        for (int64_t i = 1; i < l.length && !kilni_ref_is_nan(best, x->dtype); i++) {
            kilni_ref_value v = kilni_ref_load(x, l.walk.at[0] + i * x->strides[axis]);
            bool beyond =
                smallest ? kilni_ref_less(v, best, x->dtype) : kilni_ref_less(best, v, x->dtype);
            if (beyond || kilni_ref_is_nan(v, x->dtype)) {
                best = v;
                place = i;
            }
        }
        kilni_ref_store(&views[1], l.walk.at[1], best);
        kilni_ref_store(&views[2], l.walk.at[2], (kilni_ref_value){.i = place});
    }
    return status;
}

kiln_status kiln_ref_max_with_indices(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    return extreme(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_min_with_indices(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    return extreme(call, inputs, outputs, true, err);
}

// ---- cross product ----

kiln_status kiln_ref_cross(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *out = &outputs[0];
    uint32_t axis = 0;
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), out->rank, &axis, err);
    kilni_ref_walk walk;
    kiln_view one = *out;
    one.dims[axis] = 1;
    kilni_ref_walk_init(&walk, one.dims, one.rank);
    kilni_ref_walk_add(&walk, &one);
    int64_t step[2] = {0};
    for (unsigned i = 0; i < 2 && status == KILN_STATUS_OK; i++) {
        kiln_view x = inputs[i];
        uint32_t own_axis = axis - (out->rank - x.rank);
        step[i] = x.strides[own_axis];
        x.dims[own_axis] = 1;
        kilni_ref_walk_add(&walk, &x);
    }
    for (; status == KILN_STATUS_OK && !walk.done; kilni_ref_walk_next(&walk)) {
        for (int64_t i = 0; i < 3; i++) {
            int64_t p = (i + 1) % 3;
            int64_t q = (i + 2) % 3;
            kilni_ref_value left =
                kilni_ref_times(kilni_ref_load(&inputs[0], walk.at[1] + p * step[0]),
                                kilni_ref_load(&inputs[1], walk.at[2] + q * step[1]), out->dtype);
            kilni_ref_value right =
                kilni_ref_times(kilni_ref_load(&inputs[0], walk.at[1] + q * step[0]),
                                kilni_ref_load(&inputs[1], walk.at[2] + p * step[1]), out->dtype);
            kilni_ref_value result = kilni_ref_is_float(out->dtype)
                                         ? kilni_ref_of_float(left.f - right.f)
                                         : (kilni_ref_value){.u = left.u - right.u};
            kilni_ref_store(out, walk.at[0] + i * out->strides[axis], result);
        }
    }
    return status;
}
