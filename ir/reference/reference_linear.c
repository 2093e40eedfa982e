// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of linear layers, their derivatives and attention: one sum in double for each
// element of the result.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

/// Element at `index` of a shape of `rank` axes, to which the view broadcasts.
static double broadcast_at(const kiln_view *view, const int64_t *index, uint32_t rank)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        offset += view->dims[i] == 1 ? 0 : index[rank - view->rank + i] * view->strides[i];
    }
    return kilni_ref_load(view, offset).f;
}

static double in_matrix(const kiln_view *view, int64_t row, int64_t column)
{
    const int64_t index[] = {row, column};
    return broadcast_at(view, index, 2);
}

kiln_status kiln_ref_linear(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    uint32_t last = outputs[0].rank - 1;
    bool turned = call->op == KILN_OP_LINEAR_X_BACKWARD;
    kilni_ref_walk walk;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        int64_t o = walk.index[last];
        int64_t index[KILN_MAX_RANK];
        double sum = call->n_inputs > 2 ? broadcast_at(&inputs[2], &o, 1) : 0;
        memcpy(index, walk.index, sizeof(index));
        for (int64_t i = 0; i < inputs[0].dims[last]; i++) {
            index[last] = i;
            sum += broadcast_at(&inputs[0], index, last + 1) *
                   in_matrix(&inputs[1], turned ? o : i, turned ? i : o);
        }
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_linear_x_backward(const kiln_op_record *call, const kiln_view *inputs,
                                       const kiln_view *outputs, kiln_error *err)
{
    return kiln_ref_linear(call, inputs, outputs, err);
}

/// The sum over all axes but the last of x[.., i] * grad[.., o], or of grad[.., o] alone.
static double sum_of_leading(const kiln_view *x, int64_t i, const kiln_view *grad, int64_t o)
{
    uint32_t last = grad->rank - 1;
    kiln_view lines[2] = {*grad, *x};
    kilni_ref_walk walk;
    double sum = 0;
    lines[0].dims[last] = lines[1].dims[last] = 1;
    kilni_ref_walk_init(&walk, lines[0].dims, grad->rank);
    kilni_ref_walk_add(&walk, &lines[0]);
    kilni_ref_walk_add(&walk, &lines[1]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double g = kilni_ref_load(grad, walk.at[0] + o * grad->strides[last]).f;
        sum += i < 0 ? g : g * kilni_ref_load(x, walk.at[1] + i * x->strides[last]).f;
    }
    return sum;
}

kiln_status kiln_ref_linear_weight_backward(const kiln_op_record *call, const kiln_view *inputs,
                                            const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_walk walk;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&walk, outputs[0].dims, 2);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        double sum = sum_of_leading(&inputs[0], walk.index[0], &inputs[1], walk.index[1]);
        kilni_ref_store(&outputs[0], walk.at[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_linear_bias_backward(const kiln_op_record *call, const kiln_view *inputs,
                                          const kiln_view *outputs, kiln_error *err)
{
    (void)call;
    (void)err;
    for (int64_t o = 0; o < outputs[0].dims[0]; o++) {
        double sum = sum_of_leading(&inputs[0], -1, &inputs[0], o);
        kilni_ref_store(&outputs[0], o * outputs[0].strides[0], kilni_ref_of_float(sum));
    }
    return KILN_STATUS_OK;
}

// ---- attention ----

/// The score of key `k` for the query at `index`; -inf when the query does not see it.
static double score(const kiln_op_record *call, const kiln_view *inputs, const int64_t *index,
                    int64_t k)
{
    uint32_t rank = inputs[0].rank;
    double cap = kiln_op_attr_f64(call, KILN_KEY_SOFTCAP);
    double sum = 0;
    int64_t of_query[KILN_MAX_RANK];
    int64_t of_key[KILN_MAX_RANK];
    memcpy(of_query, index, sizeof(of_query));
    memcpy(of_key, index, sizeof(of_key));
    of_key[rank - 2] = k;
    for (int64_t i = 0; i < inputs[0].dims[rank - 1]; i++) {
        of_query[rank - 1] = of_key[rank - 1] = i;
        sum += broadcast_at(&inputs[0], of_query, rank) * broadcast_at(&inputs[1], of_key, rank);
    }
    sum *= kilni_ir_attention_scale(call);
    sum = cap > 0 ? cap * tanh(sum / cap) : sum;
    of_query[rank - 1] = k; // now a place among the scores
    sum += call->n_inputs > 4 ? broadcast_at(&inputs[4], of_query, rank) : 0;
    bool hidden = kiln_op_attr_i64(call, KILN_KEY_CAUSAL) != 0 && k > index[rank - 2];
    if (call->n_inputs > 3) {
        int64_t offset = 0;
        for (uint32_t i = 0; i < inputs[3].rank; i++) {
            int64_t place = of_query[rank - inputs[3].rank + i];
            offset += inputs[3].dims[i] == 1 ? 0 : place * inputs[3].strides[i];
        }
        hidden = hidden || kilni_ref_load(&inputs[3], offset).u != 0;
    }
    return hidden ? -INFINITY : sum;
}

/// Scores to shares of 1.
static void to_shares(double *scores, int64_t count)
{
    double largest = -INFINITY;
    double sum = 0;
    for (int64_t k = 0; k < count; k++) {
        largest = scores[k] > largest || isnan(scores[k]) ? scores[k] : largest;
    }
    for (int64_t k = 0; k < count; k++) {
        scores[k] = exp(scores[k] - largest);
        sum += scores[k];
    }
    for (int64_t k = 0; k < count; k++) {
        scores[k] /= sum;
    }
}

static void attend(const kiln_op_record *call, const kiln_view *inputs, const kiln_view *out,
                   const int64_t *query, double *scores)
{
    uint32_t rank = out->rank;
    int64_t count = inputs[1].dims[rank - 2];
    int64_t index[KILN_MAX_RANK];
    int64_t place[KILN_MAX_RANK];
    memcpy(index, query, sizeof(index));
    memcpy(place, query, sizeof(place));
    for (int64_t k = 0; k < count; k++) {
        scores[k] = score(call, inputs, query, k);
    }
    to_shares(scores, count);
    for (int64_t v = 0; v < out->dims[rank - 1]; v++) {
        double sum = 0;
        for (int64_t k = 0; k < count; k++) {
            index[rank - 2] = k;
            index[rank - 1] = v;
            sum += scores[k] * broadcast_at(&inputs[2], index, rank);
        }
        place[rank - 1] = v;
        kilni_ref_store(out, kilni_ref_offset(out, place), kilni_ref_of_float(sum));
    }
}

kiln_status kiln_ref_attention(const kiln_op_record *call, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    uint32_t rank = outputs[0].rank;
    kiln_view queries = outputs[0];
    kilni_ref_walk walk;
    double *scores = kiln_alloc_array(&env, (size_t)inputs[1].dims[rank - 2] + 1, sizeof(*scores));
    if (scores == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "attention: no memory for the scores");
    }
    queries.dims[rank - 1] = 1;
    kilni_ref_walk_init(&walk, queries.dims, rank);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        attend(call, inputs, &outputs[0], walk.index, scores);
    }
    kiln_free(&env, scores);
    return KILN_STATUS_OK;
}
