// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of argwhere and nms. Decides what a wrong count does (places beyond the truth
// are 0), and the arithmetic of nms: in the dtype of computation, rounded after each step and
// without a division, so that every device decides alike.
#include "reference_internal.h"

kiln_status kiln_ref_argwhere(const kiln_op_record *call, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err)
{
    const kiln_view *mask = &inputs[0];
    const kiln_view *out = &outputs[0];
    int64_t count = out->dims[0];
    int64_t found = 0;
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, mask->dims, mask->rank);
    kilni_ref_walk_add(&walk, mask);
    for (; !walk.done && found < count; kilni_ref_walk_next(&walk)) {
        if (kilni_ref_load(mask, walk.at[0]).u != 0) {
            for (uint32_t i = 0; i < mask->rank; i++) {
                kilni_ref_store(out, found * out->strides[0] + i * out->strides[1],
                                (kilni_ref_value){.i = walk.index[i]});
            }
            found++;
        }
    }
    for (; found < count; found++) {
        for (uint32_t i = 0; i < mask->rank; i++) {
            kilni_ref_store(out, found * out->strides[0] + i * out->strides[1],
                            (kilni_ref_value){.i = 0});
        }
    }
    return KILN_STATUS_OK;
}

// ---- nms ----

typedef struct box {
    double low[2];
    double high[2];
    double area;
} box;

/// Rounded as the device computes: f64 in itself, everything else in f32.
static double step(kiln_dtype dtype, double value)
{
    return dtype == KILN_DTYPE_F64 ? value : (double)(float)value;
}

static box box_at(const kiln_view *boxes, int64_t batch, int64_t index, bool center)
{
    double v[4];
    box b;
    kiln_dtype dtype = boxes->dtype;
    for (int64_t i = 0; i < 4; i++) {
        const int64_t place[] = {batch, index, i};
        v[i] = kilni_ref_load(boxes, kilni_ref_offset(boxes, place)).f;
    }
    for (int i = 0; i < 2; i++) {
        double half = step(dtype, v[2 + i] * 0.5);
        double one = center ? step(dtype, v[i] - half) : v[i];
        double two = center ? step(dtype, v[i] + half) : v[2 + i];
        b.low[i] = one < two ? one : two;
        b.high[i] = one < two ? two : one;
    }
    b.area = step(dtype, step(dtype, b.high[0] - b.low[0]) * step(dtype, b.high[1] - b.low[1]));
    return b;
}

/// Whether the intersection is more than `threshold` of the union.
static bool covers(kiln_dtype dtype, const box *a, const box *b, double threshold)
{
    double sides[2];
    for (int i = 0; i < 2; i++) {
        double low = a->low[i] > b->low[i] ? a->low[i] : b->low[i];
        double high = a->high[i] < b->high[i] ? a->high[i] : b->high[i];
        sides[i] = step(dtype, high - low);
        if (!(sides[i] > 0)) {
            return false;
        }
    }
    double common = step(dtype, sides[0] * sides[1]);
    double whole = step(dtype, step(dtype, a->area + b->area) - common);
    return a->area > 0 && b->area > 0 && common > step(dtype, threshold * whole);
}

typedef struct nms {
    const kiln_view *boxes;
    const kiln_view *scores;
    const kiln_view *out;
    double overlap;
    double least;
    bool center;
} nms;

static double score_at(const nms *s, const int64_t row[2], int64_t index)
{
    const int64_t place[] = {row[0], row[1], index};
    return kilni_ref_load(s->scores, kilni_ref_offset(s->scores, place)).f;
}

/// A box is left when its score counts and no box taken before covers it.
static bool is_left(const nms *s, const int64_t row[2], int64_t index, int64_t taken)
{
    if (!(score_at(s, row, index) > s->least)) {
        return false;
    }
    box candidate = box_at(s->boxes, row[0], index, s->center);
    for (int64_t i = 0; i < taken; i++) {
        const int64_t place[] = {row[0], row[1], i};
        int64_t other = kilni_ref_load(s->out, kilni_ref_offset(s->out, place)).i;
        box before = box_at(s->boxes, row[0], other, s->center);
        if (other == index || covers(s->boxes->dtype, &before, &candidate, s->overlap)) {
            return false;
        }
    }
    return true;
}

/// The box of the highest score that is left, the first of equal ones; -1 when there is none.
static int64_t next_box(const nms *s, const int64_t row[2], int64_t taken)
{
    int64_t best = -1;
    for (int64_t i = 0; i < s->scores->dims[2]; i++) {
        bool higher = best < 0 || score_at(s, row, i) > score_at(s, row, best);
        if (higher && is_left(s, row, i, taken)) {
            best = i;
        }
    }
    return best;
}

static void nms_row(const nms *s, const int64_t row[2])
{
    int64_t found = 0;
    for (int64_t k = 0; k < s->out->dims[2]; k++) {
        const int64_t place[] = {row[0], row[1], k};
        found = found < 0 ? -1 : next_box(s, row, k);
        kilni_ref_store(s->out, kilni_ref_offset(s->out, place), (kilni_ref_value){.i = found});
    }
}

kiln_status kiln_ref_nms(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    kiln_dtype dtype = inputs[0].dtype;
    const nms s = {.boxes = &inputs[0],
                   .scores = &inputs[1],
                   .out = &outputs[0],
                   .overlap = kilni_ref_scalar(call, KILN_KEY_OVERLAP, dtype).f,
                   .least = kilni_ref_scalar(call, KILN_KEY_LEAST, dtype).f,
                   .center = kiln_op_attr_i64(call, KILN_KEY_CENTER) != 0};
    (void)err;
    for (int64_t b = 0; b < outputs[0].dims[0]; b++) {
        for (int64_t c = 0; c < outputs[0].dims[1]; c++) {
            const int64_t row[] = {b, c};
            nms_row(&s, row);
        }
    }
    return KILN_STATUS_OK;
}
