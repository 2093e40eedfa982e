// SPDX-License-Identifier: MIT OR Apache-2.0
// Kiln's own kernels in both of their forms, block and GPU, whatever the device is: the samples of
// every operator that has two forms, against the reference evaluator. The suite in
// tests/conformance covers the device's own form with all layouts; what is checked here beside
// that: kernels.def against the operator table, outputs that overlap inputs, and long reductions,
// which come in parts.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl_trial.h"
#include "exec_internal.h"

static void test_every_operator_has_a_launcher(void)
{
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        bool of_plugins = op == KILN_OP_CUSTOM; // programs of theirs
        if (kilni_exec_launcher((kiln_op)op) == NULL && info->decompose == NULL && !of_plugins) {
            KILN_FAIL("%s has neither a row in kernels.def nor a decomposition", info->name);
        }
    }
    KILN_CHECK(kilni_exec_launcher(KILN_OP_COUNT) == NULL);
}

static void samples_in_form(kiln_device_type form)
{
    static const kiln_op ops[] = {KILN_OP_ADD,
                                  KILN_OP_WHERE,
                                  KILN_OP_SUM,
                                  KILN_OP_MIN,
                                  KILN_OP_ARGMAX,
                                  KILN_OP_SOFTMAX,
                                  KILN_OP_GATHER,
                                  KILN_OP_SELECT,
                                  KILN_OP_PAD,
                                  KILN_OP_ARANGE,
                                  KILN_OP_BATCH_NORM,
                                  KILN_OP_CONV,
                                  KILN_OP_PERMUTE,
                                  KILN_OP_MAX_POOL,
                                  KILN_OP_AVG_POOL,
                                  KILN_OP_CONV_INTEGER,
                                  KILN_OP_IM2COL,
                                  KILN_OP_COL2IM,
                                  KILN_OP_LP_POOL,
                                  KILN_OP_INTERPOLATE,
                                  KILN_OP_INTERPOLATE_BACKWARD,
                                  KILN_OP_GRID_SAMPLE,
                                  KILN_OP_DEFORM_IM2COL,
                                  KILN_OP_ROI_ALIGN,
                                  KILN_OP_MAX_POOL_BACKWARD,
                                  KILN_OP_AVG_POOL_BACKWARD,
                                  KILN_OP_ADAPTIVE_AVG_POOL,
                                  KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD,
                                  KILN_OP_MAX_UNPOOL};
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I64};
    cl_trial t;
    if (!cl_trial_open(&t, form)) {
        return;
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        for (size_t d = 0; d < 2; d++) {
            const kiln_op_info *info = kiln_op_info_of(ops[i]);
            if ((kiln_dtype_kind_of(dtypes[d]) & info->accept) != 0) {
                cl_trial_samples(&t, ops[i], dtypes[d]);
            }
        }
    }
    KILN_CHECK(t.count > 100);
    cl_trial_close(&t);
}

static void test_block_form(void)
{
    samples_in_form(KILN_DEVICE_CPU);
}

static void test_gpu_form(void)
{
    samples_in_form(KILN_DEVICE_GPU);
}

/* Kiln's own product, which f32 reaches only when BLAS declines: here asked for directly. */
static void own_matmul(kiln_device_type form, kiln_dtype dtype)
{
    enum { M = 70, N = 67, K = 33 };
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    int32_t a[M * K];
    int32_t b[K * N];
    int32_t c[M * N];
    for (int i = 0; i < M * K; i++) {
        a[i] = i % 11 - 5;
    }
    for (int i = 0; i < K * N; i++) {
        b[i] = i % 7 - 3;
    }
    kiln_tensor_desc descs[3] = {{.id = 1, .dtype = dtype, .rank = 2, .dims = {M, K}},
                                 {.id = 2, .dtype = dtype, .rank = 2, .dims = {K, N}},
                                 {.id = 3, .dtype = dtype, .rank = 2, .dims = {M, N}}};
    kiln_attr attrs[2] = {{.type = KILN_ATTR_NONE}, {.type = KILN_ATTR_NONE}};
    kiln_op_record record = {.op = KILN_OP_MATMUL,
                             .n_inputs = 2,
                             .n_outputs = 1,
                             .n_attrs = 2,
                             .inputs = descs,
                             .outputs = &descs[2],
                             .attrs = attrs};
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->info.type = form;
    kiln_view inputs[2] = {kiln_view_dense(&descs[0], cl_fixture_buffer(&f, sizeof(a), a)),
                           kiln_view_dense(&descs[1], cl_fixture_buffer(&f, sizeof(b), b))};
    kiln_view output = kiln_view_dense(&descs[2], cl_fixture_buffer(&f, sizeof(c), NULL));
    KILN_CHECK_INT(kilni_cl_execute_own(f.backend, &record, inputs, &output, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, output.buffer, 0, c, sizeof(c), &err),
                   KILN_STATUS_OK);
    for (int i = 0; i < M * N; i++) {
        int32_t sum = 0;
        for (int k = 0; k < K; k++) {
            sum += a[i / N * K + k] * b[k * N + i % N];
        }
        if (c[i] != sum) {
            KILN_FAIL("element %d is %d, expected %d", i, (int)c[i], (int)sum);
            break;
        }
    }
    f.base->memory->free(f.base, inputs[0].buffer);
    f.base->memory->free(f.base, inputs[1].buffer);
    f.base->memory->free(f.base, output.buffer);
    cl_fixture_close(&f);
}

static void test_matmul_block(void)
{
    own_matmul(KILN_DEVICE_CPU, KILN_DTYPE_I32);
}

static void test_matmul_tile(void)
{
    own_matmul(KILN_DEVICE_GPU, KILN_DTYPE_I32);
}

/* Sums of columns, rows and everything of [rows, columns] of ones, long enough to come in parts. */
static void long_sum(kiln_device_type form, int64_t rows, int64_t columns, int64_t axis)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    int64_t count = rows * columns;
    kiln_tensor_desc in = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 2, .dims = {rows, columns}};
    kiln_tensor_desc out = {.id = 2, .dtype = KILN_DTYPE_F32};
    kiln_attr attrs[2] = {{.type = KILN_ATTR_NONE}, {.type = KILN_ATTR_NONE}};
    if (axis >= 0) {
        attrs[0] = (kiln_attr){KILN_ATTR_I64_LIST, 1, {.ints = &axis}};
        out.rank = 1;
        out.dims[0] = axis == 0 ? columns : rows;
    }
    kiln_op_record record = {.op = KILN_OP_MEAN,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .n_attrs = 2,
                             .inputs = &in,
                             .outputs = &out,
                             .attrs = attrs};
    float *data = malloc((size_t)count * sizeof(float));
    if (!cl_fixture_open(&f, NULL) || data == NULL) {
        free(data);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        data[i] = (float)(i % 5) - 2;
    }
    f.backend->info.type = form;
    const void *inputs[1] = {data};
    void *outputs[1] = {NULL};
    kiln_status status = cl_trial_run(f.base, &record, inputs, outputs, &err);
    const float *result = outputs[0];
    int64_t results = kiln_desc_count(&out);
    for (int64_t i = 0; status == KILN_STATUS_OK && i < results; i++) {
        double sum = 0;
        int64_t length = count / results;
        for (int64_t k = 0; k < length; k++) {
            int64_t at = axis == 0 ? k * columns + i : i * length + k;
            sum += data[at];
        }
        if (!KILN_CHECK_NEAR(result[i], sum / (double)length, 1e-6)) {
            break;
        }
    }
    KILN_CHECK_INT(status, KILN_STATUS_OK);
    free(outputs[0]);
    free(data);
    cl_fixture_close(&f);
}

static void test_long_reductions(void)
{
    for (size_t i = 0; i < 2; i++) {
        long_sum(cl_trial_forms[i], 3, 100003, 1);
        long_sum(cl_trial_forms[i], 20011, 37, 0);
        long_sum(cl_trial_forms[i], 301, 1009, -1);
    }
}

/* Columns long enough that GPUs turn them into rows. */
static void test_softmax_of_long_columns(void)
{
    enum { ROWS = 700, COLUMNS = 5 };
    float data[2 * ROWS * COLUMNS];
    kiln_tensor_desc in = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 3, .dims = {2, ROWS, COLUMNS}};
    kiln_tensor_desc out = in;
    kiln_attr axis = {KILN_ATTR_I64, 1, {.i = 1}};
    out.id = 2;
    for (int i = 0; i < 2 * ROWS * COLUMNS; i++) {
        data[i] = (float)(i % 23) * 0.25F;
    }
    for (size_t i = 0; i < 2; i++) {
        kiln_op_record record = {.op = KILN_OP_SOFTMAX,
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .n_attrs = 1,
                                 .inputs = &in,
                                 .outputs = &out,
                                 .attrs = &axis};
        const void *inputs[1] = {data};
        cl_trial t;
        if (!cl_trial_open(&t, cl_trial_forms[i])) {
            return;
        }
        cl_trial_take(&record, inputs, &t);
        cl_trial_close(&t);
    }
}

/* out = x flipped, where out is x's own memory: the kernel must not read what it has written. */
static void test_overlap(void)
{
    enum { N = 1000 };
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    int32_t data[N];
    kiln_tensor_desc desc = {.id = 1, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {N}};
    kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &desc, .outputs = &desc};
    for (int i = 0; i < N; i++) {
        data[i] = i;
    }
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_view output = kiln_view_dense(&desc, cl_fixture_buffer(&f, sizeof(data), data));
    kiln_view flipped = output;
    flipped.offset_bytes = (N - 1) * 4;
    flipped.strides[0] = -1;
    KILN_CHECK_INT(f.base->device->execute(f.base, &record, &flipped, &output, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, output.buffer, 0, data, sizeof(data), &err),
                   KILN_STATUS_OK);
    for (int i = 0; i < N && KILN_CHECK_INT(data[i], -(N - 1 - i)); i++) {
    }
    f.base->memory->free(f.base, output.buffer);
    cl_fixture_close(&f);
}

/* Every index is hostile: below the range, above it, and at the ends of 64 bits. */
static void test_indices_cannot_leave_the_tensor(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    const int64_t indices[8] = {0, 3, 4, -1, -4, -5, INT64_MAX, INT64_MIN};
    const int32_t expected[8] = {10, 13, 13, 13, 10, 10, 13, 10};
    const int32_t x[4] = {10, 11, 12, 13};
    int32_t y[8] = {0};
    kiln_tensor_desc in[2] = {{.id = 1, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {4}},
                              {.id = 2, .dtype = KILN_DTYPE_I64, .rank = 1, .dims = {8}}};
    kiln_tensor_desc out = {.id = 3, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {8}};
    kiln_attr attr = {.type = KILN_ATTR_NONE};
    kiln_op_record record = {.op = KILN_OP_SELECT,
                             .n_inputs = 2,
                             .n_outputs = 1,
                             .n_attrs = 1,
                             .inputs = in,
                             .outputs = &out,
                             .attrs = &attr};
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    const void *data[2] = {x, indices};
    void *results[1] = {NULL};
    kiln_status status = cl_trial_run(f.base, &record, data, results, &err);
    if (KILN_CHECK_INT(status, KILN_STATUS_OK)) {
        memcpy(y, results[0], sizeof(y));
    }
    KILN_CHECK_MEM(y, expected, sizeof(y));
    free(results[0]);
    cl_fixture_close(&f);
}

/* Floats beside multiples of pi/2, where nearly all of x cancels, up to beyond where vectors end,
 * among numbers that go lane by lane. */
static void test_turns(void)
{
    enum { N = 40000 };
    static float x[N];
    static const kiln_op ops[] = {KILN_OP_SIN, KILN_OP_COS, KILN_OP_TAN};
    static const float others[] = {0.0f,  -0.0f,     1e-40f,   -1e-30f,    INFINITY, -INFINITY, NAN,
                                   1e30f, -32768.0f, 32768.0f, 32768.004f, 0.5f,     -3e9f};
    cl_trial t;
    for (int i = 0; i < N; i++) {
        float near = (float)(i * 1.5707963267948966);
        x[i] = i % 3 == 0 ? near : nextafterf(near, i % 3 == 1 ? 0 : INFINITY);
        x[i] = i % 2 == 0 ? x[i] : -x[i];
        x[i] = i % 77 == 0 ? others[i / 77 % 13] : x[i];
    }
    for (int form = 0; form < CL_TRIAL_FORMS && cl_trial_open(&t, cl_trial_forms[form]); form++) {
        for (int i = 0; i < 3; i++) {
            kiln_tensor_desc desc[2] = {{.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {N}},
                                        {.id = 2, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {N}}};
            kiln_op_record record = {
                .op = ops[i], .n_inputs = 1, .n_outputs = 1, .inputs = desc, .outputs = desc + 1};
            const void *data[1] = {x};
            cl_trial_take(&record, data, &t);
        }
        KILN_CHECK_INT(t.count, 3);
        cl_trial_close(&t);
    }
}

KILN_TEST_MAIN("unit/cl_backend/kernels", KILN_TEST(test_every_operator_has_a_launcher),
               KILN_TEST(test_block_form), KILN_TEST(test_gpu_form), KILN_TEST(test_matmul_block),
               KILN_TEST(test_matmul_tile), KILN_TEST(test_long_reductions),
               KILN_TEST(test_softmax_of_long_columns), KILN_TEST(test_overlap),
               KILN_TEST(test_indices_cannot_leave_the_tensor), KILN_TEST(test_turns))
