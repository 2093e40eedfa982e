// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of ctc_loss and its derivative (Graves and others, "Connectionist temporal
// classification", 2006, section 4, in logarithms), and of det (elimination with partial pivoting).
#include <math.h>

#include "reference_internal.h"

typedef struct sequence { ///< one of the batch; states are blank, label, blank, label, .., blank
    const kiln_view *x;
    const kiln_view *targets;
    int64_t n; ///< which
    int64_t blank;
    int64_t steps;
    int64_t states;
    double *alpha; ///< [steps + 1, states]: of the paths up to a step, its own emission included
    double *beta; ///< [2, states]: of the paths after a step
} sequence;

static double log_sum(double a, double b)
{
    double larger = a > b ? a : b;
    double smaller = a > b ? b : a;
    return larger == -INFINITY ? -INFINITY : larger + log1p(exp(smaller - larger));
}

/// An element of a line, between 0 and `most`.
static int64_t bounded(const kiln_view *view, int64_t at, int64_t most)
{
    int64_t value = kilni_ref_load(view, at).i;
    return value < 0 ? 0 : value > most ? most : value;
}

static int64_t label_of(const sequence *s, int64_t state)
{
    const kiln_view *t = s->targets;
    return state % 2 == 0
               ? s->blank
               : bounded(t, s->n * t->strides[0] + state / 2 * t->strides[1], s->x->dims[2] - 1);
}

static double emission(const sequence *s, int64_t step, int64_t state)
{
    const int64_t index[] = {step, s->n, label_of(s, state)};
    return kilni_ref_load(s->x, kilni_ref_offset(s->x, index)).f;
}

/// Whether a path may go from state - 2 straight to this one.
static bool skips(const sequence *s, int64_t state)
{
    return state >= 2 && state % 2 == 1 && label_of(s, state) != label_of(s, state - 2);
}

static void find_alpha(const sequence *s)
{
    for (int64_t t = 0; t < s->steps; t++) {
        for (int64_t k = 0; k < s->states; k++) {
            const double *before = s->alpha + (t - 1) * s->states;
            double sum = -INFINITY;
            if (t == 0) {
                sum = k < 2 ? 0 : -INFINITY;
            } else {
                sum = before[k];
                sum = k > 0 ? log_sum(sum, before[k - 1]) : sum;
                sum = skips(s, k) ? log_sum(sum, before[k - 2]) : sum;
            }
            s->alpha[t * s->states + k] = sum + emission(s, t, k);
        }
    }
}

static double probability(const sequence *s)
{
    if (s->steps == 0) {
        return s->states == 1 ? 0 : -INFINITY;
    }
    const double *last = s->alpha + (s->steps - 1) * s->states;
    double sum = last[s->states - 1];
    return s->states > 1 ? log_sum(sum, last[s->states - 2]) : sum;
}

/// beta of a step from beta of the step after it.
static void step_back(const sequence *s, int64_t t, const double *after, double *out)
{
    for (int64_t k = 0; k < s->states; k++) {
        if (t == s->steps - 1) {
            out[k] = k + 2 >= s->states ? 0 : -INFINITY;
            continue;
        }
        double sum = after[k] + emission(s, t + 1, k);
        if (k + 1 < s->states) {
            sum = log_sum(sum, after[k + 1] + emission(s, t + 1, k + 1));
        }
        if (k + 2 < s->states && skips(s, k + 2)) {
            sum = log_sum(sum, after[k + 2] + emission(s, t + 1, k + 2));
        }
        out[k] = sum;
    }
}

static void store_gradient(const sequence *s, double grad, const kiln_view *out)
{
    double whole = probability(s);
    for (int64_t t = out->dims[0] - 1; t >= 0; t--) {
        double *now = s->beta + t % 2 * s->states;
        bool live = t < s->steps && whole != -INFINITY;
        if (t < s->steps) {
            step_back(s, t, s->beta + (t + 1) % 2 * s->states, now);
        }
        for (int64_t c = 0; c < out->dims[2]; c++) {
            const int64_t index[] = {t, s->n, c};
            double sum = 0;
            for (int64_t k = 0; live && k < s->states; k++) {
                double path = s->alpha[t * s->states + k] + now[k];
                sum += label_of(s, k) == c ? exp(path - whole) : 0;
            }
            kilni_ref_store(out, kilni_ref_offset(out, index), kilni_ref_of_float(-grad * sum));
        }
    }
}

static kiln_status ctc(const kiln_op_record *call, const kiln_view *inputs,
                       const kiln_view *outputs, bool backward, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_view *rest = inputs + (backward ? 2 : 1);
    int64_t most = 2 * rest[0].dims[1] + 1;
    sequence s = {
        .x = &inputs[0], .targets = &rest[0], .blank = kiln_op_attr_i64(call, KILN_KEY_BLANK)};
    double *memory =
        kiln_alloc_array(&env, (size_t)((inputs[0].dims[0] + 3) * most), sizeof(double));
    if (memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for the paths",
                         kilni_ir_op_name(call));
    }
    s.beta = memory;
    s.alpha = memory + 2 * most;
    for (s.n = 0; s.n < inputs[0].dims[1]; s.n++) {
        s.steps = bounded(&rest[1], s.n * rest[1].strides[0], inputs[0].dims[0]);
        s.states = 2 * bounded(&rest[2], s.n * rest[2].strides[0], rest[0].dims[1]) + 1;
        find_alpha(&s);
        if (backward) {
            double grad = kilni_ref_load(&inputs[1], s.n * inputs[1].strides[0]).f;
            store_gradient(&s, grad, &outputs[0]);
        } else {
            kilni_ref_store(&outputs[0], s.n * outputs[0].strides[0],
                            kilni_ref_of_float(-probability(&s)));
        }
    }
    kiln_free(&env, memory);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_ctc_loss(const kiln_op_record *call, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err)
{
    return ctc(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_ctc_loss_backward(const kiln_op_record *call, const kiln_view *inputs,
                                       const kiln_view *outputs, kiln_error *err)
{
    return ctc(call, inputs, outputs, true, err);
}

// ---- determinants ----

/// Of a matrix [n, n], which is used up.
static double determinant(double *a, int64_t n)
{
    double result = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++) {
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        }
        double pivot = a[best * n + k];
        if (pivot == 0) {
            return 0;
        }
        result *= best == k ? pivot : -pivot;
        for (int64_t j = k; j < n; j++) {
            double swapped = a[best * n + j];
            a[best * n + j] = a[k * n + j];
            a[k * n + j] = swapped;
        }
        for (int64_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / pivot;
            for (int64_t j = k + 1; j < n; j++) {
                a[i * n + j] -= factor * a[k * n + j];
            }
        }
    }
    return result;
}

kiln_status kiln_ref_det(const kiln_op_record *call, const kiln_view *inputs,
                         const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_view *x = &inputs[0];
    int64_t n = x->dims[x->rank - 1];
    int64_t down = x->strides[x->rank - 2];
    int64_t right = x->strides[x->rank - 1];
    kiln_view first = *x;
    kilni_ref_walk walk;
    double *matrix = kiln_alloc_array(&env, (size_t)(n * n) + 1, sizeof(double));
    if (matrix == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory for a matrix",
                         kilni_ir_op_name(call));
    }
    first.rank = outputs[0].rank;
    kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&walk, &first);
    kilni_ref_walk_add(&walk, &outputs[0]);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        for (int64_t i = 0; i < n * n; i++) {
            matrix[i] = kilni_ref_load(x, walk.at[0] + i / n * down + i % n * right).f;
        }
        kilni_ref_store(&outputs[0], walk.at[1], kilni_ref_of_float(determinant(matrix, n)));
    }
    kiln_free(&env, matrix);
    return KILN_STATUS_OK;
}
