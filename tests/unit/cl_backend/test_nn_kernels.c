// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels of normalisations, derivatives of softmax, Fourier transforms, ctc and det: in the form
// for GPUs whatever the device is, against the reference; transforms long enough to take every way
// through, there and back; and which rows are left to reductions over the whole device.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl_fixture.h"
#include "exec_internal.h"
#include "tolerance.h"

typedef struct trial {
    cl_fixture f;
    kiln_backend *judge;
    unsigned count;
} trial;

static bool open_trial(trial *t, kiln_device_type form)
{
    const kiln_backend_provider *reference = kiln_ir_reference_provider();
    memset(t, 0, sizeof(*t));
    if (!cl_fixture_open(&t->f, NULL)) {
        return false;
    }
    t->f.backend->info.type = form;
    return KILN_CHECK_INT(
        reference->open(&t->f.env, "reference:", &t->judge, NULL, reference->user), KILN_STATUS_OK);
}

static void close_trial(trial *t)
{
    t->judge->ops->close(t->judge);
    cl_fixture_close(&t->f);
}

/* Runs on dense inputs; each result is the caller's to free. */
static kiln_status run(kiln_backend *backend, const kiln_op_record *record, const void *const *data,
                       void **out_results, kiln_error *err)
{
    const kiln_backend_ops *ops = backend->ops;
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {0};
    unsigned total = (unsigned)record->n_inputs + record->n_outputs;
    kiln_status st = KILN_STATUS_OK;
    for (unsigned i = 0; i < total; i++) {
        bool is_input = i < record->n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[i] : &record->outputs[i - record->n_inputs];
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        kiln_buffer *buffer = NULL;
        st = st == KILN_STATUS_OK ? ops->alloc(backend, bytes + 1, &buffer, err) : st;
        if (st == KILN_STATUS_OK && is_input) {
            st = ops->upload(backend, buffer, 0, data[i], bytes, err);
        }
        views[i] = kiln_view_dense(desc, buffer);
    }
    if (st == KILN_STATUS_OK) {
        st = ops->execute(backend, record, views, views + record->n_inputs, err);
    }
    for (unsigned i = 0; i < total; i++) {
        if (i >= record->n_inputs) {
            size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i - record->n_inputs]);
            void *result = calloc(1, bytes + 1);
            st = st == KILN_STATUS_OK ? ops->read(backend, views[i].buffer, 0, result, bytes, err)
                                      : st;
            out_results[i - record->n_inputs] = result;
        }
        ops->free(backend, views[i].buffer);
    }
    return st;
}

static void take_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    trial *t = user;
    kiln_error err = KILN_ERROR_INIT;
    const char *name = kiln_op_info_of(record->op)->name;
    void *actual[KILN_MAX_OUTPUTS] = {NULL};
    void *expected[KILN_MAX_OUTPUTS] = {NULL};
    t->count++;
    if (run(t->f.base, record, data, actual, &err) != KILN_STATUS_OK ||
        run(t->judge, record, data, expected, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", name, err.message);
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        const kiln_tensor_desc *out = &record->outputs[i];
        char text[300];
        if (!kiln_tolerance_compare(kiln_tolerance_of(record->op), out->dtype, kiln_desc_count(out),
                                    actual[i], expected[i], text, sizeof(text))) {
            KILN_FAIL("%s, result %u: %s", name, i, text);
        }
        free(actual[i]);
        free(expected[i]);
    }
}

static void test_gpu_form(void)
{
    static const kiln_op ops[] = {
        KILN_OP_LAYER_NORM,           KILN_OP_RMS_NORM, KILN_OP_SOFTMAX_BACKWARD,
        KILN_OP_LOG_SOFTMAX_BACKWARD, KILN_OP_FFT,      KILN_OP_CTC_LOSS,
        KILN_OP_CTC_LOSS_BACKWARD,    KILN_OP_DET};
    trial t;
    if (!open_trial(&t, KILN_DEVICE_GPU)) {
        return;
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        kiln_sample_sink sink = {.env = &t.f.env, .take = take_sample, .user = &t};
        kiln_op_info_of(ops[i])->samples(ops[i], KILN_DTYPE_F32, &sink);
    }
    KILN_CHECK(t.count > 50);
    close_trial(&t);
}

// ---- long transforms ----

static kiln_status transform(trial *t, int64_t rows, int64_t length, bool inverse,
                             const void *const *data, void **out_results, kiln_error *err)
{
    const kiln_tensor_desc desc = {
        .id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {rows, length}};
    const kiln_tensor_desc both[2] = {desc, desc};
    const kiln_attr attrs[] = {{KILN_ATTR_I64, 1, {.i = 1}}, {KILN_ATTR_BOOL, 1, {.i = inverse}}};
    const kiln_op_record record = {.op = KILN_OP_FFT,
                                   .n_inputs = 2,
                                   .n_outputs = 2,
                                   .n_attrs = 2,
                                   .inputs = both,
                                   .outputs = both,
                                   .attrs = attrs};
    return run(t->f.base, &record, data, out_results, err);
}

/* A wave of k rounds has one element in its spectrum, and comes back. */
static void check_wave(trial *t, int64_t rows, int64_t length)
{
    const int64_t k = 5;
    size_t count = (size_t)(rows * length);
    float *wave[2] = {calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    void *spectrum[2] = {NULL};
    void *back[2] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    for (size_t i = 0; i < count; i++) {
        double angle = 6.283185307179586 * (double)((int64_t)i % length * k % length);
        wave[0][i] = (float)cos(angle / (double)length);
        wave[1][i] = (float)sin(angle / (double)length);
    }
    kiln_status st = transform(t, rows, length, false, (const void *const *)wave, spectrum, &err);
    if (st == KILN_STATUS_OK) {
        st = transform(t, rows, length, true, (const void *const *)spectrum, back, &err);
    }
    if (st != KILN_STATUS_OK) {
        KILN_FAIL("%lld rows of %lld: %s", (long long)rows, (long long)length, err.message);
    }
    double worst = 0;
    for (size_t i = 0; st == KILN_STATUS_OK && i < count; i++) {
        for (unsigned p = 0; p < 2; p++) {
            double peak = p == 0 && (int64_t)i % length == k ? 1 : 0;
            double share = (double)((const float *)spectrum[p])[i] / (double)length;
            worst = fmax(worst, fabs(share - peak));
            worst = fmax(worst, fabs((double)(((const float *)back[p])[i] - wave[p][i])));
        }
    }
    if (!(worst < 1e-5)) {
        KILN_FAIL("%lld rows of %lld are off by %g", (long long)rows, (long long)length, worst);
    }
    for (unsigned p = 0; p < 2; p++) {
        free(wave[p]);
        free(spectrum[p]);
        free(back[p]);
    }
}

static void test_long_transforms(void)
{
    static const kiln_device_type forms[] = {KILN_DEVICE_CPU, KILN_DEVICE_GPU};
    for (size_t i = 0; i < 2; i++) {
        trial t;
        if (!open_trial(&t, forms[i])) {
            return;
        }
        check_wave(&t, 1, 1 << 16); // pass by pass over the whole device
        check_wave(&t, 1, 20011); // with a chirp, as long
        check_wave(&t, 40, 1 << 10); // a row for each work-item
        check_wave(&t, 3, 1009);
        close_trial(&t);
    }
}

// ---- what is left to reductions ----

static bool pays(trial *t, int64_t rows, int64_t length)
{
    const kiln_tensor_desc x = {
        .id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {rows, length}};
    const kiln_attr attrs[] = {{KILN_ATTR_I64, 1, {.i = -1}}, {KILN_ATTR_NONE, 0, {.i = 0}}};
    const kiln_op_record record = {.op = KILN_OP_LAYER_NORM,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .n_attrs = 2,
                                   .inputs = &x,
                                   .outputs = &x,
                                   .attrs = attrs};
    return t->f.base->ops->runs(t->f.base, &record);
}

static void test_few_long_rows(void)
{
    trial t;
    if (!open_trial(&t, KILN_DEVICE_GPU)) {
        return;
    }
    t.f.backend->info.compute_units = 100;
    KILN_CHECK(pays(&t, 4096, 1 << 20));
    KILN_CHECK(pays(&t, 2, 1000));
    KILN_CHECK(pays(&t, 0, 1 << 20));
    KILN_CHECK(!pays(&t, 2, 1 << 20));
    close_trial(&t);
}

KILN_TEST_MAIN("unit/cl_backend/nn_kernels", KILN_TEST(test_gpu_form),
               KILN_TEST(test_long_transforms), KILN_TEST(test_few_long_rows))
