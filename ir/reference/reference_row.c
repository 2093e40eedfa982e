// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of softmax and its relatives, and of batch_norm. Softmax subtracts the row's
// largest element first (Blanchard, Higham, Higham, "Accurately computing the log-sum-exp and
// softmax functions", 2021).
#include <math.h>

#include "reference_internal.h"

typedef struct row_view {
    const kiln_view *x;
    double sign;
    int64_t at;
    int64_t stride;
    int64_t length;
} row_view;

static double row_element(const row_view *r, int64_t i)
{
    return r->sign * kilni_ref_load(r->x, r->at + i * r->stride).f;
}

static void row_sums(const row_view *r, double *out_largest, double *out_sum)
{
    kilni_ref_value largest = kilni_ref_lowest(r->x->dtype);
    for (int64_t i = 0; i < r->length; i++) {
        largest = kilni_ref_max(largest, kilni_ref_of_float(row_element(r, i)), r->x->dtype);
    }
    *out_largest = largest.f;
    *out_sum = 0;
    for (int64_t i = 0; i < r->length; i++) {
        *out_sum += exp(row_element(r, i) - largest.f);
    }
}

static kiln_status softmax_rows(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, bool logarithm, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    const kiln_view *out = &outputs[0];
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    uint32_t axis = 0;
    kiln_status status = kilni_ir_axis(call, wanted, x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_view starts[2] = {*x, *out};
    starts[0].dims[axis] = starts[1].dims[axis] = 1;
    kilni_ref_walk walk;
    kilni_ref_walk_init(&walk, starts[0].dims, x->rank);
    kilni_ref_walk_add(&walk, &starts[0]);
    kilni_ref_walk_add(&walk, &starts[1]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        row_view r = {x, call->op == KILN_OP_SOFTMIN ? -1 : 1, walk.at[0], x->strides[axis],
                      x->dims[axis]};
        double largest = 0;
        double sum = 0;
        row_sums(&r, &largest, &sum);
        for (int64_t i = 0; i < r.length; i++) {
            double shifted = row_element(&r, i) - largest;
            double result = logarithm ? shifted - log(sum) : exp(shifted) / sum;
            kilni_ref_store(out, walk.at[1] + i * out->strides[axis], kilni_ref_of_float(result));
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_softmax(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    return softmax_rows(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_log_softmax(const kiln_op_record *call, const kiln_view *inputs,
                                 const kiln_view *outputs, kiln_error *err)
{
    return softmax_rows(call, inputs, outputs, true, err);
}

kiln_status kiln_ref_softmin(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    return softmax_rows(call, inputs, outputs, false, err);
}

/// Of softmax: output * (grad - sum(grad * output)); of its logarithm: grad - exp(output) *
/// sum(grad).
static kiln_status softmax_backward(const kiln_op_record *call, const kiln_view *inputs,
                                    const kiln_view *outputs, bool logarithm, kiln_error *err)
{
    uint32_t axis = 0;
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kiln_status status = kilni_ir_axis(call, wanted, outputs[0].rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_view *all[3] = {&inputs[0], &inputs[1], &outputs[0]};
    kilni_ref_walk walk;
    kiln_view starts[3] = {inputs[0], inputs[1], outputs[0]};
    for (unsigned i = 0; i < 3; i++) {
        starts[i].dims[axis] = 1;
    }
    kilni_ref_walk_init(&walk, starts[0].dims, starts[0].rank);
    for (unsigned i = 0; i < 3; i++) {
        kilni_ref_walk_add(&walk, &starts[i]);
    }
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double sum = 0;
        for (int64_t i = 0; i < 2 * inputs[0].dims[axis]; i++) { // the sum first, then the result
            bool second = i >= inputs[0].dims[axis];
            int64_t k = second ? i - inputs[0].dims[axis] : i;
            double output = kilni_ref_load(all[0], walk.at[0] + k * all[0]->strides[axis]).f;
            double grad = kilni_ref_load(all[1], walk.at[1] + k * all[1]->strides[axis]).f;
            double result = logarithm ? grad - exp(output) * sum : output * (grad - sum);
            sum += second ? 0 : logarithm ? grad : grad * output;
            if (second) {
                kilni_ref_store(all[2], walk.at[2] + k * all[2]->strides[axis],
                                kilni_ref_of_float(result));
            }
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_softmax_backward(const kiln_op_record *call, const kiln_view *inputs,
                                      const kiln_view *outputs, kiln_error *err)
{
    return softmax_backward(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_log_softmax_backward(const kiln_op_record *call, const kiln_view *inputs,
                                          const kiln_view *outputs, kiln_error *err)
{
    return softmax_backward(call, inputs, outputs, true, err);
}

kiln_status kiln_ref_batch_norm(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    double epsilon = kiln_op_attr_f64(call, KILN_KEY_EPSILON);
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &inputs[0]);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double of_channel[5];
        for (unsigned i = 1; i < 5; i++) {
            int64_t at = walk.index[1] * inputs[i].strides[0];
            of_channel[i] = kilni_ref_load(&inputs[i], at).f;
        }
        double x = kilni_ref_load(&inputs[0], walk.at[0]).f;
        double scaled = (x - of_channel[3]) / sqrt(of_channel[4] + epsilon) * of_channel[1];
        kilni_ref_store(&outputs[0], walk.at[1], kilni_ref_of_float(scaled + of_channel[2]));
    }
    return KILN_STATUS_OK;
}
