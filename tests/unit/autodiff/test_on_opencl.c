// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients on OpenCL in f32 against those of the reference: a few operators in each run, all with
// KILN_TEST_ALL=1. One tape's gradients are the same bits in every run.
#include "gradients.h"
#include "kiln_grad.h"
#include "sample_call.h"
#include "samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 3 }; // of an operator, when all are tried

typedef struct trial {
    fixture f;
    fixture judge;
    int calls;
    int64_t judged;
} trial;

/// Errors of a gradient follow from its largest parts.
static void compare(trial *t, const kiln_op_record *record, unsigned input, const double *found,
                    const double *expected)
{
    int64_t count = kiln_desc_count(&record->inputs[input]);
    double most = 1;
    for (int64_t i = 0; i < count; i++) {
        most = isfinite(expected[i]) ? fmax(most, fabs(expected[i])) : most;
    }
    for (int64_t i = 0; i < count; i++) {
        t->judged++;
        if (isfinite(expected[i]) && !(fabs(found[i] - expected[i]) <= 2e-4 * most)) {
            KILN_FAIL("%s, call %d, by input %u, element %lld: %.7g, the reference %.7g",
                      kiln_op_info_of(record->op)->name, t->calls, input, (long long)i, found[i],
                      expected[i]);
            return;
        }
    }
}

static void judge_call(const kiln_op_record *record, const void *const *data, void *user)
{
    trial *t = user;
    double *base[KILN_MAX_OUTPUTS] = {NULL};
    double *found[KILN_MAX_INPUTS] = {NULL};
    double *expected[KILN_MAX_INPUTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    if (record->outputs == NULL || !sample_is_float(&record->outputs[0]) ||
        kiln_desc_count(&record->outputs[0]) == 0 || t->calls == MOST_CALLS) {
        return;
    }
    t->calls++;
    sample_call call = sample_call_make(record, data, true);
    if (sample_call_evaluate(&call, base)) {
        kiln_status status =
            sample_call_gradients(&call, t->judge.device, 0, base[0], expected, &err);
        if (status == KILN_STATUS_OK) {
            status = sample_call_gradients(&call, t->f.device, 0, base[0], found, &err);
        }
        if (status != KILN_STATUS_OK) {
            KILN_FAIL("%s: %s", kiln_op_info_of(record->op)->name, err.message);
        }
        for (unsigned i = 0; i < record->n_inputs && status == KILN_STATUS_OK; i++) {
            if (found[i] != NULL) {
                compare(t, record, i, found[i], expected[i]);
            }
        }
    }
    sample_gradients_free(found);
    sample_gradients_free(expected);
    sample_results_free(base);
    sample_call_fini(&call);
}

static void judge(trial *t, kiln_op op)
{
    kiln_sample_sink sink = {
        .env = kiln_context_env(t->judge.context), .take = judge_call, .user = t};
    t->calls = 0;
    t->judged = 0;
    kiln_samples_make(op, KILN_DTYPE_F32, &sink);
    if (t->judged == 0) {
        KILN_FAIL("%s: nothing was judged", kiln_op_info_of(op)->name);
    }
}

static void test_operators(void)
{
    static const kiln_op few[] = {KILN_OP_TANH,   KILN_OP_DIV,     KILN_OP_MEAN,
                                  KILN_OP_MATMUL, KILN_OP_SOFTMAX, KILN_OP_GATHER};
    trial t = {.calls = 0};
    bool all = getenv("KILN_TEST_ALL") != NULL;
    if (!fixture_open(&t.f, "opencl:0")) {
        return;
    }
    if (fixture_open(&t.judge, "reference:0")) {
        for (unsigned op = 0; op < KILN_OP_COUNT && all; op++) {
            if (kilni_gradient_of((kiln_op)op)->reason == NULL) {
                judge(&t, (kiln_op)op);
            }
        }
        for (size_t i = 0; i < sizeof(few) / sizeof(few[0]) && !all; i++) {
            judge(&t, few[i]);
        }
        fixture_close(&t.judge);
    }
    fixture_close(&t.f);
}

/// A small network with values that are used several times.
static void test_same_bits(void)
{
    static const int64_t dims[] = {16, 16};
    float data[256];
    float found[2][256];
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    for (int i = 0; i < 256; i++) {
        data[i] = (float)sin(i);
    }
    for (int k = 0; k < 2; k++) {
        kiln_tensor *x = fixture_f32(&f, 2, dims, data);
        kiln_tensor *t[5] = {NULL};
        kiln_tape *tape = NULL;
        FIXTURE_OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        FIXTURE_OK(&f, kiln_tape_track(tape, x, &f.err));
        FIXTURE_OK(&f, kiln_matmul(x, x, false, true, &t[0], &f.err));
        FIXTURE_OK(&f, kiln_softmax(t[0], -1, &t[1], &f.err));
        FIXTURE_OK(&f, kiln_matmul(t[1], x, false, false, &t[2], &f.err));
        FIXTURE_OK(&f, kiln_mul(t[2], x, &t[3], &f.err));
        FIXTURE_OK(&f, kiln_mean(t[3], NULL, 0, false, &t[4], &f.err));
        FIXTURE_OK(&f, kiln_backward(tape, t[4], NULL, &f.err));
        kiln_tensor *gradient = NULL;
        FIXTURE_OK(&f, kiln_gradient(tape, x, &gradient, &f.err));
        FIXTURE_OK(&f, kiln_read(gradient, found[k], sizeof(found[k]), &f.err));
        kiln_release(gradient);
        kiln_release(x);
        for (int i = 0; i < 5; i++) {
            kiln_release(t[i]);
        }
        kiln_tape_destroy(tape);
    }
    KILN_CHECK_MEM(found[0], found[1], sizeof(found[0]));
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/autodiff/on_opencl", KILN_TEST(test_operators), KILN_TEST(test_same_bits))
