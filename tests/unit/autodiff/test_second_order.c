// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of gradients against differences of gradients, in f64 on the reference: elementwise
// operators, reductions, products, convolutions, rows.
#include "gradients.h"
#include "kiln_grad.h"
#include "sample_call.h"
#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 4, MOST_ELEMENTS = 3, MOST_COUNT = 200 };

typedef struct trial {
    fixture f;
    const char *name;
    int calls;
    int judged;
} trial;

static double sum_at(trial *t, sample_call *call, unsigned output, const double *base,
                     unsigned input, int64_t at, double value)
{
    double sum = NAN;
    kiln_error err = KILN_ERROR_INIT;
    sample_store(KILN_DTYPE_F64, call->data[input], at, value);
    (void)sample_call_seconds(call, t->f.device, output, base, &sum, NULL, &err);
    return sum;
}

static void judge_output(trial *t, sample_call *call, unsigned output, const double *base)
{
    const double step = 1e-5;
    double *seconds[KILN_MAX_INPUTS] = {NULL};
    double sum = 0;
    kiln_error err = KILN_ERROR_INIT;
    if (sample_call_seconds(call, t->f.device, output, base, &sum, seconds, &err) !=
        KILN_STATUS_OK) {
        KILN_FAIL("%s, call %d, result %u: %s", t->name, t->calls, output, err.message);
    }
    for (unsigned i = 0; i < call->record->n_inputs; i++) {
        int64_t count = kiln_desc_count(&call->record->inputs[i]);
        for (int64_t at = 0; seconds[i] != NULL && at < count; at += count / MOST_ELEMENTS + 1) {
            double before = sample_load(KILN_DTYPE_F64, call->data[i], at);
            double high = sum_at(t, call, output, base, i, at, before + step);
            double low = sum_at(t, call, output, base, i, at, before - step);
            double slope = (high - low) / (2 * step);
            sample_store(KILN_DTYPE_F64, call->data[i], at, before);
            t->judged++;
            if (!(fabs(seconds[i][at] - slope) <= 1e-4 * (1 + fabs(slope)))) {
                KILN_FAIL("%s, call %d, result %u by input %u, element %lld (%g): %.9g, by "
                          "differences %.9g",
                          t->name, t->calls, output, i, (long long)at, before, seconds[i][at],
                          slope);
            }
        }
    }
    sample_gradients_free(seconds);
}

static bool is_plain(const kiln_op_record *record)
{
    for (unsigned i = 0; i < record->n_inputs; i++) {
        int64_t count = kiln_desc_count(&record->inputs[i]);
        if (count == 0 || count > MOST_COUNT || record->inputs[i].dtype != KILN_DTYPE_F64) {
            return false;
        }
    }
    return record->n_inputs > 0 && record->outputs[0].dtype == KILN_DTYPE_F64 &&
           kiln_desc_count(&record->outputs[0]) > 0;
}

static void judge_call(const kiln_op_record *record, const void *const *data, void *user)
{
    trial *t = user;
    double *base[KILN_MAX_OUTPUTS] = {NULL};
    if (!is_plain(record) || t->calls == MOST_CALLS) {
        return;
    }
    t->calls++;
    sample_call call = sample_call_make(record, data, true);
    if (sample_call_evaluate(&call, base)) {
        judge_output(t, &call, 0, base[0]);
    }
    sample_results_free(base);
    sample_call_fini(&call);
}

static void judge(kiln_op op)
{
    trial t = {.name = kiln_op_info_of(op)->name};
    if (!fixture_open(&t.f, "reference:0")) {
        return;
    }
    kiln_sample_sink sink = {.env = kiln_context_env(t.f.context), .take = judge_call, .user = &t};
    kiln_samples_make(op, KILN_DTYPE_F64, &sink);
    fixture_close(&t.f);
    if (t.judged == 0) {
        KILN_FAIL("%s: nothing was judged", t.name);
    }
}

static void test_elementwise(void)
{
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        bool masked = op == KILN_OP_WHERE || op == KILN_OP_MASK_FILL; // linear
        if (kiln_op_info_of((kiln_op)op)->cls == KILN_CLASS_ELEMENTWISE && !masked &&
            kilni_gradient_of((kiln_op)op)->reason == NULL) {
            judge((kiln_op)op);
        }
    }
}

static void test_reductions_and_products(void)
{
    static const kiln_op ops[] = {KILN_OP_SUM,
                                  KILN_OP_MEAN,
                                  KILN_OP_PROD,
                                  KILN_OP_MAX,
                                  KILN_OP_MAX_ABS,
                                  KILN_OP_CUM_PROD,
                                  KILN_OP_CUM_SUM,
                                  KILN_OP_MATMUL,
                                  KILN_OP_LINEAR,
                                  KILN_OP_EINSUM,
                                  KILN_OP_ATTENTION,
                                  KILN_OP_CONV,
                                  KILN_OP_CONV_TRANSPOSE,
                                  KILN_OP_AVG_POOL,
                                  KILN_OP_MAX_POOL};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        judge(ops[i]);
    }
}

static void test_rows(void)
{
    static const kiln_op ops[] = {
        KILN_OP_SOFTMAX,    KILN_OP_LOG_SOFTMAX,      KILN_OP_SOFTMIN,    KILN_OP_BATCH_NORM,
        KILN_OP_LAYER_NORM, KILN_OP_RMS_NORM,         KILN_OP_GROUP_NORM, KILN_OP_INSTANCE_NORM,
        KILN_OP_SORT,       KILN_OP_BATCH_NORM_TRAIN, KILN_OP_DET};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        judge(ops[i]);
    }
}

KILN_TEST_MAIN("unit/autodiff/second_order", KILN_TEST(test_elementwise),
               KILN_TEST(test_reductions_and_products), KILN_TEST(test_rows))
