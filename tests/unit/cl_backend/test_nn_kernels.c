// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels of normalisations, derivatives of softmax, Fourier transforms, ctc and det: in the form
// for GPUs whatever the device is, against the reference; transforms long enough to take every way
// through, there and back; which rows are left to reductions over the whole device; and
// convolutions whose groups have one channel.
#include <math.h>
#include <stdlib.h>

#include "attr_make.h"
#include "cl_trial.h"
#include "ir.h"

static void test_gpu_form(void)
{
    static const kiln_op ops[] = {
        KILN_OP_LAYER_NORM,           KILN_OP_RMS_NORM, KILN_OP_SOFTMAX_BACKWARD,
        KILN_OP_LOG_SOFTMAX_BACKWARD, KILN_OP_FFT,      KILN_OP_CTC_LOSS,
        KILN_OP_CTC_LOSS_BACKWARD,    KILN_OP_DET,      KILN_OP_MATMUL_QUANTIZED};
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        cl_trial_samples(&t, ops[i], KILN_DTYPE_F32);
    }
    KILN_CHECK(t.count > 50);
    cl_trial_close(&t);
}

// ---- long transforms ----

static kiln_status transform(cl_trial *t, int64_t rows, int64_t length, bool inverse,
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
    return cl_trial_run(t->f.base, &record, data, out_results, err);
}

/* A wave of k rounds has one element in its spectrum, and comes back. */
static void check_wave(cl_trial *t, int64_t rows, int64_t length)
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
    kiln_status status =
        transform(t, rows, length, false, (const void *const *)wave, spectrum, &err);
    if (status == KILN_STATUS_OK) {
        status = transform(t, rows, length, true, (const void *const *)spectrum, back, &err);
    }
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%lld rows of %lld: %s", (long long)rows, (long long)length, err.message);
    }
    double worst = 0;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
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

/* Rows of real numbers, as many and as long as is taken at once, against the reference. */
static void check_real(cl_trial *t, kiln_dtype dtype, int64_t rows, int64_t length)
{
    const kiln_tensor_desc desc = {.id = 1, .dtype = dtype, .rank = 2, .dims = {rows, length}};
    const kiln_tensor_desc both[2] = {desc, desc};
    const kiln_attr attrs[] = {{KILN_ATTR_I64, 1, {.i = 1}}, {KILN_ATTR_BOOL, 1, {.i = 0}}};
    const kiln_op_record record = {.op = KILN_OP_FFT,
                                   .n_inputs = 1,
                                   .n_outputs = 2,
                                   .n_attrs = 2,
                                   .inputs = &desc,
                                   .outputs = both,
                                   .attrs = attrs};
    size_t size = kiln_dtype_size(dtype);
    unsigned char *data = calloc((size_t)(rows * length), size);
    uint32_t state = 1;
    for (int64_t i = 0; i < rows * length; i++) {
        state = state * 1664525u + 1013904223u;
        const kiln_attr number = {KILN_ATTR_F64, 1, {.f = (double)(state >> 20) / 2048.0 - 1.0}};
        KILN_CHECK(kiln_number_store(&number, dtype, data + (size_t)i * size));
    }
    const void *inputs[1] = {data};
    cl_trial_take(&record, inputs, t);
    free(data);
}

static void test_long_transforms(void)
{
    for (size_t i = 0; i < CL_TRIAL_FORMS; i++) {
        cl_trial t;
        if (!cl_trial_open(&t, cl_trial_forms[i])) {
            return;
        }
        check_wave(&t, 1, 1 << 16); // pass by pass over the whole device
        check_wave(&t, 1, 20011); // with a chirp, as long
        check_wave(&t, 40, 1 << 10); // a row for each work-item
        check_wave(&t, 3, 1009);
        check_wave(&t, 21, 1 << 9);
        check_real(&t, KILN_DTYPE_F32, 37, 256);
        check_real(&t, KILN_DTYPE_F32, 40, 100); // as many, of no power of two
        check_real(&t, KILN_DTYPE_F32, 16, 32);
        check_real(&t, KILN_DTYPE_F32, 9, 64);
        check_real(&t, KILN_DTYPE_F16, 20, 128);
        check_real(&t, KILN_DTYPE_F64, 5, 512);
        cl_trial_close(&t);
    }
}

// ---- what is left to reductions ----

static bool pays(cl_trial *t, int64_t rows, int64_t length)
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
    return t->f.base->device->runs(t->f.base, &record);
}

static void test_few_long_rows(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_GPU)) {
        return;
    }
    t.f.backend->info.compute_units = 100;
    KILN_CHECK(pays(&t, 4096, 1 << 20));
    KILN_CHECK(pays(&t, 2, 1000));
    KILN_CHECK(pays(&t, 0, 1 << 20));
    KILN_CHECK(!pays(&t, 2, 1 << 20));
    cl_trial_close(&t);
}

// ---- groups of one channel ----

typedef struct plane {
    kiln_dtype dtype;
    int64_t batch, groups, outputs; ///< of a group
    int64_t in[2], taps[2], strides[2], dilations[2], padding[4];
    bool bias;
    bool odd; ///< with infinities and a NaN
} plane;

static const plane planes[] = {
    {KILN_DTYPE_F32, 2, 5, 1, {9, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, true, false},
    {KILN_DTYPE_F32, 1, 7, 3, {33, 70}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, false, false},
    {KILN_DTYPE_F32, 1, 16, 1, {3, 5}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, true, true},
    {KILN_DTYPE_F32, 2, 3, 2, {40, 31}, {2, 4}, {3, 3}, {2, 3}, {0, 5, 3, 1}, true, true},
    {KILN_DTYPE_F32, 1, 4, 1, {20, 64}, {3, 3}, {1, 2}, {1, 1}, {0, 0, 0, 0}, false, true},
    {KILN_DTYPE_F32, 1, 4, 1, {1, 200}, {1, 9}, {1, 4}, {1, 2}, {0, 8, 0, 9}, true, false},
    {KILN_DTYPE_F32, 3, 2, 1, {11, 13}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, true, false},
    {KILN_DTYPE_F32, 1, 2, 1, {200, 3}, {7, 7}, {5, 1}, {9, 1}, {30, 9, 30, 9}, false, false},
    {KILN_DTYPE_F64, 1, 6, 2, {14, 19}, {3, 3}, {2, 2}, {2, 1}, {2, 1, 2, 1}, true, true},
};

static void *plane_numbers(const kiln_tensor_desc *desc, bool odd)
{
    int64_t count = kiln_desc_count(desc);
    char *data = calloc((size_t)count, kiln_dtype_size(desc->dtype));
    for (int64_t i = 0; data != NULL && i < count; i++) {
        double number = (double)(i * 37 % 101 - 50) / 64;
        number = odd && i % 97 == 5 ? INFINITY : odd && i % 89 == 7 ? NAN : number;
        if (desc->dtype == KILN_DTYPE_F32) {
            ((float *)(void *)data)[i] = (float)number;
        } else {
            ((double *)(void *)data)[i] = number;
        }
    }
    return data;
}

static void check_plane(cl_trial *t, const plane *p)
{
    int64_t outputs = p->groups * p->outputs;
    const kiln_tensor_desc inputs[] = {
        {.id = 1, .dtype = p->dtype, .rank = 4, .dims = {p->batch, p->groups, p->in[0], p->in[1]}},
        {.id = 2, .dtype = p->dtype, .rank = 4, .dims = {outputs, 1, p->taps[0], p->taps[1]}},
        {.id = 3, .dtype = p->dtype, .rank = 1, .dims = {outputs}}};
    const kiln_attr attrs[] = {kilni_attr_ints(p->strides, 2), kilni_attr_ints(p->padding, 4),
                               kilni_attr_ints(p->dilations, 2), kilni_attr_i64(p->groups)};
    kiln_tensor_desc output = {.id = 4};
    kiln_error err = KILN_ERROR_INIT;
    kiln_op_record record = {.op = KILN_OP_CONV,
                             .n_inputs = p->bias ? 3 : 2,
                             .n_outputs = 1,
                             .n_attrs = 4,
                             .inputs = inputs,
                             .outputs = &output,
                             .attrs = attrs};
    if (!KILN_CHECK_INT(kiln_ir_infer(&record, &output, &err), KILN_STATUS_OK)) {
        return;
    }
    void *data[] = {plane_numbers(&inputs[0], p->odd), plane_numbers(&inputs[1], false),
                    plane_numbers(&inputs[2], false)};
    cl_trial_take(&record, (const void *const *)data, t);
    for (unsigned i = 0; i < 3; i++) {
        free(data[i]);
    }
}

static void test_planes(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (size_t i = 0; i < sizeof(planes) / sizeof(planes[0]); i++) {
        check_plane(&t, &planes[i]);
    }
    cl_trial_close(&t);
}

KILN_TEST_MAIN("unit/cl_backend/nn_kernels", KILN_TEST(test_gpu_form),
               KILN_TEST(test_long_transforms), KILN_TEST(test_few_long_rows),
               KILN_TEST(test_planes))
