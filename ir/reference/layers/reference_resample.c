// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of interpolate and its backward operator: the sum over all combinations of the
// taps of each axis (resample.c), in double.
#include "ir_resample.h"
#include "reference_internal.h"

typedef struct resampler {
    kiln_resample axes[KILN_MAX_RANK];
    const kiln_view *from;
} resampler;

static kiln_status resampler_init(const kiln_op_record *call, const kiln_view *x,
                                  const kiln_view *y, const kiln_view *from, resampler *out,
                                  kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    out->from = from;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < x->rank; i++) {
        status = kiln_ir_resample(call, x->rank, i, x->dims[i], y->dims[i], &out->axes[i], err);
    }
    return status;
}

static double forward_sum(const resampler *s, const int64_t *index, uint32_t axis, int64_t at)
{
    const kiln_resample *r = &s->axes[axis];
    kiln_resample_taps taps;
    double sum = 0;
    if (axis == s->from->rank) {
        return kilni_ref_load(s->from, at).f;
    }
    if (r->identity) {
        return forward_sum(s, index, axis + 1, at + index[axis] * s->from->strides[axis]);
    }
    kiln_resample_begin(r, index[axis], &taps);
    for (int64_t k = 0; k < r->taps; k++) {
        int64_t place = 0;
        double weight = kiln_resample_tap(r, &taps, k, &place);
        if (weight != 0) {
            sum += weight * forward_sum(s, index, axis + 1, at + place * s->from->strides[axis]);
        }
    }
    return sum;
}

/// Weight of element `place` of the input in element i of the result.
static double resample_weight(const kiln_resample *r, int64_t i, int64_t place)
{
    kiln_resample_taps taps;
    double weight = 0;
    if (r->identity) {
        return i == place ? 1 : 0;
    }
    kiln_resample_begin(r, i, &taps);
    for (int64_t k = 0; k < r->taps; k++) {
        int64_t at = 0;
        double part = kiln_resample_tap(r, &taps, k, &at);
        weight += at == place ? part : 0;
    }
    return weight;
}

static double backward_sum(const resampler *s, const int64_t *index, uint32_t axis, int64_t at)
{
    double sum = 0;
    if (axis == s->from->rank) {
        return kilni_ref_load(s->from, at).f;
    }
    for (int64_t i = 0; i < s->from->dims[axis]; i++) {
        double weight = resample_weight(&s->axes[axis], i, index[axis]);
        if (weight != 0) {
            sum += weight * backward_sum(s, index, axis + 1, at + i * s->from->strides[axis]);
        }
    }
    return sum;
}

static void fill_resampled(const resampler *s, const kiln_view *to, bool forward)
{
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, to->dims, to->rank);
    kilni_ref_walk_add(&walk, to);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double sum = forward ? forward_sum(s, walk.index, 0, 0) : backward_sum(s, walk.index, 0, 0);
        kilni_ref_store(to, walk.at[0], kilni_ref_of_float(sum));
    }
}

kiln_status kiln_ref_interpolate(const kiln_op_record *call, const kiln_view *inputs,
                                 const kiln_view *outputs, kiln_error *err)
{
    resampler s;
    kiln_status status = resampler_init(call, &inputs[0], &outputs[0], &inputs[0], &s, err);
    if (status == KILN_STATUS_OK) {
        fill_resampled(&s, &outputs[0], true);
    }
    return status;
}

kiln_status kiln_ref_interpolate_backward(const kiln_op_record *call, const kiln_view *inputs,
                                          const kiln_view *outputs, kiln_error *err)
{
    resampler s;
    kiln_status status = resampler_init(call, &outputs[0], &inputs[0], &inputs[0], &s, err);
    if (status == KILN_STATUS_OK) {
        fill_resampled(&s, &outputs[0], false);
    }
    return status;
}
