// SPDX-License-Identifier: MIT OR Apache-2.0
// The gradient of every operator against differences of the reference, in f64, over all its sample
// calls; and the operators that have none, by name.
#include "gradients.h"
#include "kiln_grad.h"
#include "sample_call.h"
#include "samples.h"
#include <stdio.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 12, FEW_ELEMENTS = 4, MANY = 100 }; // of an input, evenly over it

typedef struct trial {
    fixture f;
    bool smooth;
    const char *name;
    int64_t judged; ///< elements of gradients
    int64_t unjudged; ///< where there is no slope: not finite, or another from closer by
    int64_t calls;
} trial;

/// The weighted sum of a result; NaN when the reference refuses, or what counted is not finite.
static double value_of(const sample_call *call, unsigned output, const double *base)
{
    double *results[KILN_MAX_OUTPUTS] = {NULL};
    double sum = NAN;
    if (sample_call_evaluate(call, results)) {
        sum = 0;
        for (int64_t i = 0; i < kiln_desc_count(&call->record->outputs[output]); i++) {
            double weight = sample_weight(i, base[i]);
            sum += weight == 0 ? 0 : weight * results[output][i];
        }
    }
    sample_results_free(results);
    return sum;
}

typedef struct slopes {
    double left;
    double right;
} slopes;

/// Whether `gradient` is the slope, or lies between those of the two sides of a kink.
static bool is_slope(double gradient, slopes s, double tolerance)
{
    double middle = (s.left + s.right) / 2;
    double slack = tolerance * (1 + fabs(middle));
    if (fabs(gradient - middle) <= slack) {
        return true;
    }
    bool kink = fabs(s.left - s.right) > 1e-3 * (1 + fabs(middle));
    return kink && gradient >= fmin(s.left, s.right) - slack &&
           gradient <= fmax(s.left, s.right) + slack;
}

/// The slopes on both sides of an element.
static slopes slopes_at(sample_call *call, unsigned output, const double *base, unsigned input,
                        int64_t at, double here, double step)
{
    kiln_dtype in = call->record->inputs[input].dtype;
    double before = sample_load(in, call->data[input], at);
    sample_store(in, call->data[input], at, before + step);
    double high = value_of(call, output, base);
    sample_store(in, call->data[input], at, before - step);
    double low = value_of(call, output, base);
    sample_store(in, call->data[input], at, before);
    return (slopes){(here - low) / step, (high - here) / step};
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 0.02 * (fabs(a) + fabs(b)) + 1e-4;
}

static void judge_element(trial *t, sample_call *call, unsigned output, const double *base,
                          unsigned input, int64_t at, double gradient)
{
    const kiln_op_record *record = call->record;
    kiln_dtype in = record->inputs[input].dtype;
    kiln_dtype out = record->outputs[output].dtype;
    bool narrow = out != KILN_DTYPE_F64 || in != KILN_DTYPE_F64;
    double step = !narrow ? 1e-5 : out == KILN_DTYPE_F32 ? 1e-2 : 0.25;
    double tolerance = !narrow ? 2e-5 : out == KILN_DTYPE_F32 ? 1e-3 : 0.1;
    double here = value_of(call, output, base);
    slopes s = slopes_at(call, output, base, input, at, here, step);
    slopes closer = t->smooth ? s : slopes_at(call, output, base, input, at, here, step / 8);
    if (!isfinite(s.left) || !isfinite(s.right) || !is_near(s.left, closer.left) ||
        !is_near(s.right, closer.right)) {
        t->unjudged++;
        return;
    }
    t->judged++;
    if (!is_slope(gradient, s, tolerance + 1e-10 * fabs(here))) {
        KILN_FAIL("%s, call %d%s, result %u by input %u, element %lld (%g): %.9g, by differences "
                  "%.9g to %.9g",
                  t->name, (int)t->calls, t->smooth ? " made smooth" : "", output, input,
                  (long long)at, sample_load(in, call->data[input], at), gradient, s.left, s.right);
    }
}

static bool all_finite(const sample_call *call, unsigned output, const double *base)
{
    for (int64_t i = 0; i < kiln_desc_count(&call->record->outputs[output]); i++) {
        if (!isfinite(base[i])) {
            return false;
        }
    }
    return true;
}

static void judge_output(trial *t, sample_call *call, unsigned output, const double *base)
{
    const kiln_op_record *record = call->record;
    double *gradients[KILN_MAX_INPUTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = sample_call_gradients(call, t->f.device, output, base, gradients, &err);
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s, call %d, result %u: %s", t->name, (int)t->calls, output, err.message);
    }
    for (unsigned i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
        int64_t count = kiln_desc_count(&record->inputs[i]);
        bool large = kiln_desc_count(&record->outputs[output]) > MANY; // takes its time
        int64_t stride = count / (large ? FEW_ELEMENTS : MOST_ELEMENTS) + 1;
        for (int64_t at = 0; gradients[i] != NULL && at < count; at += stride) {
            if (isnan(gradients[i][at]) && !all_finite(call, output, base)) {
                t->unjudged++; // a result that is not finite spoils its neighbours
                continue;
            }
            judge_element(t, call, output, base, i, at, gradients[i][at]);
        }
    }
    sample_gradients_free(gradients);
}

static bool has_float_input(const kiln_op_record *record)
{
    for (unsigned i = 0; i < record->n_inputs; i++) {
        if (sample_is_float(&record->inputs[i])) {
            return true;
        }
    }
    return false;
}

static void judge_call(const kiln_op_record *record, const void *const *data, void *user)
{
    trial *t = user;
    double *base[KILN_MAX_OUTPUTS] = {NULL};
    t->calls++;
    if (!has_float_input(record)) {
        return;
    }
    sample_call call = sample_call_make(record, data, t->smooth);
    if (sample_call_evaluate(&call, base)) {
        for (unsigned k = 0; k < record->n_outputs; k++) {
            bool empty = kiln_desc_count(&record->outputs[k]) == 0;
            if (sample_is_float(&record->outputs[k]) && record->outputs[k].small == 0 && !empty) {
                judge_output(t, &call, k, base[k]);
            }
        }
    }
    sample_results_free(base);
    sample_call_fini(&call);
}

/// Which of several equal elements sorting moves is left open, and a difference sees another one.
static bool has_open_ties(kiln_op op)
{
    return op == KILN_OP_SORT || op == KILN_OP_SORT_WITH_INDICES || op == KILN_OP_TOP_K;
}

static void judge_operator(kiln_op op, bool smooth)
{
    trial t = {.smooth = smooth, .name = kiln_op_info_of(op)->name};
    if (kilni_gradient_of(op)->reason != NULL || (!smooth && has_open_ties(op)) ||
        !fixture_open(&t.f, "reference:0")) {
        return;
    }
    kiln_sample_sink sink = {.env = kiln_context_env(t.f.context), .take = judge_call, .user = &t};
    kiln_samples_make(op, KILN_DTYPE_F64, &sink);
    fixture_close(&t.f);
    if (t.judged == 0) {
        KILN_FAIL("%s: no element of a gradient was judged in %d calls", t.name, (int)t.calls);
    }
    if (getenv("KILN_TEST_VERBOSE") != NULL) {
        printf("%s: %lld judged, %lld not, %lld calls\n", t.name, (long long)t.judged,
               (long long)t.unjudged, (long long)t.calls);
    }
}

// ---- operators without a gradient ----

static void check_untracked(const kiln_op_record *record, const void *const *data, void *user)
{
    trial *t = user;
    double *base[KILN_MAX_OUTPUTS] = {NULL};
    double *gradients[KILN_MAX_INPUTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    if (record->outputs == NULL || record->n_outputs == 0 || !has_float_input(record)) {
        return;
    }
    sample_call call = sample_call_make(record, data, false);
    bool refused = kilni_gradient_of(record->op)->refused;
    if (sample_call_evaluate(&call, base) && sample_is_float(&record->outputs[0])) {
        t->judged++;
        KILN_CHECK(sample_call_gradients(&call, t->f.device, 0, base[0], gradients, &err) ==
                   (refused ? KILN_STATUS_UNIMPLEMENTED : KILN_STATUS_INVALID_ARGUMENT));
        KILN_CHECK_CONTAINS(err.message, refused ? t->name : "the loss");
    }
    sample_gradients_free(gradients);
    sample_results_free(base);
    sample_call_fini(&call);
}

/// Results of floats are not tracked, or backward refuses them by name; the list is whole.
static void test_those_without(void)
{
    static const char refused[] = "deform_im2col_backward deform_conv_backward grid_sample "
                                  "roi_align tree_ensemble ctc_loss_backward custom ";
    static const char stops[] = "sign round floor ceil trunc encode_small decode_small "
                                "nms dequantize quantize quantize_dynamic quantized_scales ";
    char found[2][1000] = {"", ""};
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        trial t = {.name = kiln_op_info_of((kiln_op)op)->name};
        const kilni_gradient *gradient = kilni_gradient_of((kiln_op)op);
        bool named = gradient->reason != NULL &&
                     (gradient->refused || strcmp(gradient->reason, "STEP") == 0 ||
                      strcmp(gradient->reason, "STORED") == 0 || op == KILN_OP_NMS);
        if (named) {
            char *list = found[gradient->refused];
            size_t length = strlen(list);
            snprintf(list + length, sizeof(found[0]) - length, "%s ", t.name);
            KILN_CHECK(strstr(gradient->refused ? refused : stops, t.name) != NULL);
        }
        if (gradient->reason == NULL || op == KILN_OP_CUSTOM ||
            !fixture_open(&t.f, "reference:0")) {
            continue;
        }
        kiln_sample_sink sink = {
            .env = kiln_context_env(t.f.context), .take = check_untracked, .user = &t};
        kiln_samples_make((kiln_op)op, KILN_DTYPE_F64, &sink);
        fixture_close(&t.f);
    }
    KILN_CHECK_INT(strlen(found[0]), strlen(stops));
    KILN_CHECK_STR(found[1], refused);
}

// ---- families ----

/// KILN_TEST_OPERATOR names one operator to try alone.
static void judge_class(kiln_op_class first, kiln_op_class last, bool smooth)
{
    const char *only = getenv("KILN_TEST_OPERATOR");
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (info->cls >= first && info->cls <= last &&
            (only == NULL || strcmp(only, info->name) == 0)) {
            judge_operator((kiln_op)op, smooth);
        }
    }
}

static void test_elementwise(void)
{
    judge_class(KILN_CLASS_ELEMENTWISE, KILN_CLASS_ELEMENTWISE, true);
}

static void test_elementwise_samples(void)
{
    judge_class(KILN_CLASS_ELEMENTWISE, KILN_CLASS_ELEMENTWISE, false);
}

static void test_views_and_reductions(void)
{
    judge_class(KILN_CLASS_VIEW, KILN_CLASS_REDUCE, true);
}

static void test_views_and_reductions_samples(void)
{
    judge_class(KILN_CLASS_VIEW, KILN_CLASS_REDUCE, false);
}

static void test_contractions(void)
{
    judge_class(KILN_CLASS_CONTRACTION, KILN_CLASS_CONTRACTION, true);
}

static void test_gathers_and_windows(void)
{
    judge_class(KILN_CLASS_GATHER, KILN_CLASS_WINDOW, true);
}

static void test_gathers_and_windows_samples(void)
{
    judge_class(KILN_CLASS_GATHER, KILN_CLASS_WINDOW, false);
}

static void test_rows(void)
{
    judge_class(KILN_CLASS_ROW, KILN_CLASS_CUSTOM, true);
}

static void test_rows_samples(void)
{
    judge_class(KILN_CLASS_ROW, KILN_CLASS_CUSTOM, false);
}

KILN_TEST_MAIN("unit/autodiff/gradients", KILN_TEST(test_those_without),
               KILN_TEST(test_elementwise), KILN_TEST(test_elementwise_samples),
               KILN_TEST(test_views_and_reductions), KILN_TEST(test_views_and_reductions_samples),
               KILN_TEST(test_contractions), KILN_TEST(test_gathers_and_windows),
               KILN_TEST(test_gathers_and_windows_samples), KILN_TEST(test_rows),
               KILN_TEST(test_rows_samples))
