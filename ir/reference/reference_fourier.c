// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of the Fourier transforms: the sum of the definition, for each element, in
// double. The angle is reduced in integers first, so that long signals lose no digits.
#include <math.h>

#include "reference_internal.h"

typedef struct line { ///< along the transformed axis
    const kiln_view *parts[2]; ///< real, imaginary; NULL: zero
    int64_t at[2];
    uint32_t axis;
    int64_t count; ///< elements that are there; beyond it zeros
    int64_t length; ///< of the transform
    bool half; ///< only the first length / 2 + 1 of a symmetric spectrum are there
    double sign; ///< of the angle
} line;

/// Product of i and k modulo n, which are both below n.
static int64_t turn(int64_t i, int64_t k, int64_t n)
{
    if (i == 0 || k <= INT64_MAX / i) {
        return i * k % n;
    }
    int64_t result = 0;
    for (; k > 0; k /= 2) {
        result = (k & 1) != 0 ? (result + i) % n : result;
        i = i * 2 % n;
    }
    return result;
}

static double part(const line *l, unsigned which, int64_t i)
{
    bool mirrored = l->half && i > l->length / 2;
    int64_t from = mirrored ? l->length - i : i;
    bool alone = l->half && (2 * i == l->length || i == 0) && which == 1;
    if (l->parts[which] == NULL || from >= l->count || alone) {
        return 0;
    }
    double value =
        kilni_ref_load(l->parts[which], l->at[which] + from * l->parts[which]->strides[l->axis]).f;
    return mirrored && which == 1 ? -value : value;
}

static void sum_of(const line *l, int64_t k, double *out_real, double *out_imaginary)
{
    const double circle = 6.283185307179586;
    *out_real = *out_imaginary = 0;
    for (int64_t i = 0; i < l->length; i++) {
        double angle = l->sign * circle * (double)turn(i, k, l->length) / (double)l->length;
        double a = part(l, 0, i);
        double b = part(l, 1, i);
        *out_real += a * cos(angle) - b * sin(angle);
        *out_imaginary += a * sin(angle) + b * cos(angle);
    }
}

static kiln_status transform(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    uint32_t axis = 0;
    kiln_view starts[4] = {inputs[0], inputs[call->n_inputs - 1], outputs[0],
                           outputs[call->n_outputs - 1]};
    kiln_status status =
        kilni_ir_axis(call, kiln_op_attr_i64(call, KILN_KEY_AXIS), inputs[0].rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool inverse = call->op == KILN_OP_IRFFT || kiln_op_attr_i64(call, KILN_KEY_INVERSE) != 0;
    line l = {.parts = {&inputs[0], call->n_inputs > 1 ? &inputs[1] : NULL},
              .axis = axis,
              .count = inputs[0].dims[axis],
              .length = kilni_ir_signal_length(call, inputs[0].dims[axis]),
              .half = call->op == KILN_OP_IRFFT,
              .sign = inverse ? 1 : -1};
    kilni_ref_walk walk;
    for (unsigned i = 0; i < 4; i++) {
        starts[i].dims[axis] = 1;
    }
    kilni_ref_walk_init(&walk, starts[0].dims, starts[0].rank);
    for (unsigned i = 0; i < 4; i++) {
        kilni_ref_walk_add(&walk, &starts[i]);
    }
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        l.at[0] = walk.at[0];
        l.at[1] = walk.at[1];
        for (int64_t k = 0; k < outputs[0].dims[axis]; k++) {
            double parts[2];
            sum_of(&l, k, &parts[0], &parts[1]);
            for (unsigned i = 0; i < call->n_outputs; i++) {
                double value = inverse ? parts[i] / (double)l.length : parts[i];
                kilni_ref_store(&outputs[i], walk.at[2 + i] + k * outputs[i].strides[axis],
                                kilni_ref_of_float(value));
            }
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_fft(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    return transform(call, inputs, outputs, err);
}

kiln_status kiln_ref_rfft(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kiln_error *err)
{
    return transform(call, inputs, outputs, err);
}

kiln_status kiln_ref_irfft(const kiln_op_record *call, const kiln_view *inputs,
                           const kiln_view *outputs, kiln_error *err)
{
    return transform(call, inputs, outputs, err);
}
