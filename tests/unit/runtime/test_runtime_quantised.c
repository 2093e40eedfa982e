// SPDX-License-Identifier: MIT OR Apache-2.0
// Quantised tensors through the public calls: bytes in and out, what may be done with them, and
// what says no.

#include "rt_device.h"
#include "runtime_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kiln_tensor *quantised(fixture *f, const int64_t *blocks, size_t n_blocks)
{
    const int64_t dims[] = {2, 4};
    const float data[] = {1, -2, 3, -4, 0.5F, 0.25F, -0.125F, 1};
    kiln_tensor *q = NULL;
    kiln_tensor *x = fixture_f32(f, 2, dims, data);
    FIXTURE_OK(f, kiln_quantize_dynamic(x, KILN_DTYPE_Q8S, blocks, n_blocks, KILN_DTYPE_F32, NULL,
                                        &q, &f->err));
    kiln_release(x);
    return q;
}

static void read_floats(fixture *f, kiln_tensor *q, float *out, size_t count)
{
    kiln_tensor *x = NULL;
    FIXTURE_OK(f, kiln_dequantize(q, KILN_DTYPE_F32, &x, &f->err));
    FIXTURE_OK(f, kiln_read(x, out, count * sizeof(float), &f->err));
    kiln_release(x);
}

static void check_bytes(const char *address)
{
    fixture f;
    uint32_t bytes[3] = {0};
    kiln_tensor *again = NULL;
    if (!fixture_open(&f, address)) {
        return;
    }
    kiln_tensor *q = quantised(&f, NULL, 0);
    KILN_CHECK_INT((int64_t)kiln_tensor_bytes(q), 12); // eight values and a scale
    FIXTURE_OK(&f, kiln_read(q, bytes, sizeof(bytes), &f.err));
    KILN_CHECK_INT((int8_t)(bytes[0] >> 24), -127);
    KILN_CHECK_INT((int8_t)(bytes[0] & 0xFF), 32); // 1 / (4 / 127), to the nearest
    FIXTURE_OK(&f, kiln_tensor_create_quantised(f.device, KILN_DTYPE_Q8S, kiln_tensor_scheme(q), 2,
                                                kiln_tensor_dims(q), bytes, &again, &f.err));
    float one[8];
    float two[8];
    read_floats(&f, q, one, 8);
    read_floats(&f, again, two, 8);
    KILN_CHECK_MEM(one, two, sizeof(one));
    KILN_CHECK(one[3] == -4 && fabsf(one[1] + 2) < 0.02F);
    kiln_release(q);
    kiln_release(again);
    fixture_close(&f);
}

static void test_bytes_reference(void)
{
    check_bytes("reference");
}

static void test_bytes_opencl(void)
{
    check_bytes("opencl:0");
}

static void test_moves(void)
{
    fixture f;
    const int64_t dims[] = {2, 4};
    const int64_t line[] = {8};
    const int64_t rows[] = {1, 4};
    const int64_t axes[] = {1, 0};
    float before[8];
    float after[8];
    kiln_tensor *moved = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *q = quantised(&f, NULL, 0);
    read_floats(&f, q, before, 8);
    FIXTURE_OK(&f, kiln_reshape(q, line, 1, &moved, &f.err));
    KILN_CHECK_INT((int64_t)kiln_tensor_dtype(moved), KILN_DTYPE_Q8S);
    read_floats(&f, moved, after, 8);
    KILN_CHECK_MEM(before, after, sizeof(before)); // the scale stays, so does every value
    kiln_release(moved);
    FIXTURE_OK(&f, kiln_permute(q, axes, 2, &moved, &f.err));
    read_floats(&f, moved, after, 8);
    KILN_CHECK(after[1] == before[4] && after[2] == before[1]);
    kiln_release(moved);
    kiln_release(q);
    q = quantised(&f, rows, 2);
    FIXTURE_OK(&f, kiln_permute(q, axes, 2, &moved, &f.err));
    KILN_CHECK_INT(kiln_scheme_block(kiln_tensor_scheme(moved), 0), 4);
    KILN_CHECK_INT(kiln_scheme_block(kiln_tensor_scheme(moved), 1), 1);
    kiln_release(moved);
    KILN_CHECK(kiln_reshape(q, line, 1, &moved, &f.err) == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "dequantize") != NULL);
    kiln_release(q);
    KILN_CHECK_INT(dims[1], 4);
    fixture_close(&f);
}

static void test_refusals(void)
{
    fixture f;
    const int64_t dims[] = {2, 4};
    const int64_t odd[] = {3, 0};
    const uint8_t bytes[12] = {0};
    kiln_tensor *out = NULL;
    kiln_handle *handle = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    kiln_tensor *q = quantised(&f, NULL, 0);
    KILN_CHECK(kiln_bitwise_not(q, &out, &f.err) == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "dequantize") != NULL);
    KILN_CHECK(kiln_full(f.device, dims, 2, KILN_DTYPE_Q8S, kiln_f64(0), &out, &f.err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_Q8S, 2, dims, bytes, &out, &f.err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(kiln_tensor_create_quantised(f.device, KILN_DTYPE_Q8S, 0, 2, dims, bytes, &out,
                                            &f.err) == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(kiln_tensor_create_quantised(
                   f.device, KILN_DTYPE_F32, kiln_scheme_make(KILN_DTYPE_F32, false, NULL, 0), 2,
                   dims, bytes, &out, &f.err) == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(kiln_scheme_make(KILN_DTYPE_F32, false, odd, 2) == 0);
    KILN_CHECK(kiln_scheme_make(KILN_DTYPE_I32, false, NULL, 0) == 0);
    KILN_CHECK(kiln_tensor_to_handle(q, KILN_HANDLE_FLOAT, &handle, &f.err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    FIXTURE_OK(&f, kiln_tensor_to_handle(q, KILN_HANDLE_QUANTISED, &handle, &f.err));
    FIXTURE_OK(&f, kiln_tensor_from_handle(handle, KILN_HANDLE_QUANTISED, &out, &f.err));
    KILN_CHECK(kiln_tensor_scheme(out) == kiln_tensor_scheme(q));
    kiln_handle_release(handle);
    kiln_release(out);
    kiln_release(q);
    fixture_close(&f);
}

static void keep_log(const kiln_log_record *record, void *user)
{
    char *told = user;
    size_t used = strlen(told);
    snprintf(told + used, 1024 - used, "%s\n", record->message);
}

/* q + q, q * x, x @ q and q as halves: what the same gives for the floats of q, and the log says
   what became floats. */
static void test_arithmetic(void)
{
    fixture f = {.err = KILN_ERROR_INIT};
    char told[1024] = "";
    const float numbers[] = {2, 0.5F, 1, -1, 3, 1, 0.25F, 1};
    const int64_t dims[] = {2, 4}, square[] = {2, 2};
    float values[8], got[8];
    uint16_t halves[8];
    kiln_tensor *out = NULL;
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = keep_log;
    options.log_user = told;
    if (!FIXTURE_OK(&f, kiln_context_create(&options, &f.context, &f.err)) ||
        !FIXTURE_OK(&f, kiln_context_set(f.context, "log", "runtime=info", &f.err)) ||
        !FIXTURE_OK(&f, kiln_device_open(f.context, "reference", &f.device, &f.err))) {
        return;
    }
    kiln_tensor *q = quantised(&f, NULL, 0);
    kiln_tensor *x = fixture_f32(&f, 2, dims, numbers);
    kiln_tensor *m = fixture_f32(&f, 2, square, numbers);
    read_floats(&f, q, values, 8);
    KILN_CHECK_INT((int64_t)strlen(told), 0); // asked for, and so not told
    FIXTURE_OK(&f, kiln_add(q, q, &out, &f.err));
    KILN_CHECK(kiln_tensor_dtype(out) == KILN_DTYPE_F32);
    FIXTURE_OK(&f, kiln_read(out, got, sizeof(got), &f.err));
    kiln_release(out);
    for (int i = 0; i < 8; i++) {
        KILN_CHECK(got[i] == values[i] + values[i]);
    }
    FIXTURE_OK(&f, kiln_mul(q, x, &out, &f.err));
    FIXTURE_OK(&f, kiln_read(out, got, sizeof(got), &f.err));
    kiln_release(out);
    for (int i = 0; i < 8; i++) {
        KILN_CHECK(got[i] == values[i] * numbers[i]);
    }
    FIXTURE_OK(&f, kiln_matmul(m, q, false, false, &out, &f.err));
    FIXTURE_OK(&f, kiln_read(out, got, sizeof(got), &f.err));
    kiln_release(out);
    for (int i = 0; i < 8; i++) {
        float wanted =
            numbers[i / 4 * 2] * values[i % 4] + numbers[i / 4 * 2 + 1] * values[4 + i % 4];
        KILN_CHECK(fabsf(got[i] - wanted) < 1e-5F);
    }
    FIXTURE_OK(&f, kiln_cast(q, KILN_DTYPE_F16, &out, &f.err));
    FIXTURE_OK(&f, kiln_read(out, halves, sizeof(halves), &f.err));
    kiln_release(out);
    KILN_CHECK_INT(halves[3], 0xC400); // -4
    KILN_CHECK_CONTAINS(told, "add computes in f32: input 1 is q8s and is dequantized for it\n");
    KILN_CHECK_CONTAINS(told, "mul computes in f32: input 0 is q8s");
    KILN_CHECK_CONTAINS(told, "matmul computes in f32: input 1 is q8s");
    kiln_release(m);
    kiln_release(x);
    kiln_release(q);
    fixture_close(&f);
}

static void test_products(void)
{
    fixture f;
    const int64_t dims[] = {1, 2};
    const float two[] = {1, 2};
    float product[4];
    float weight[8];
    kiln_tensor *out = NULL;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *q = quantised(&f, NULL, 0);
    kiln_tensor *x = fixture_f32(&f, 2, dims, two);
    read_floats(&f, q, weight, 8);
    FIXTURE_OK(&f, kiln_linear_quantized(x, q, NULL, &out, &f.err));
    FIXTURE_OK(&f, kiln_read(out, product, sizeof(product), &f.err));
    for (int i = 0; i < 4; i++) {
        KILN_CHECK(fabsf(product[i] - (weight[i] + 2 * weight[4 + i])) < 1e-5F);
    }
    kiln_release(out);
    kiln_release(x);
    kiln_release(q);
    fixture_close(&f);
}

// ---- products that share a launch ----

static kiln_backend real;
static kiln_backend_device_ops joining_device;
static bool is_joining;
static uint32_t n_asked;
static uint32_t asked[4];

/// Says that they are one launch, and runs one after the other; or refuses.
static bool record_joined(kiln_backend *backend, const kiln_joined_op *ops, uint32_t n_ops)
{
    asked[n_asked++ % 4] = n_ops;
    for (uint32_t i = 0; is_joining && i < n_ops; i++) {
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK_INT(
            real.device->execute(backend, ops[i].record, ops[i].inputs, ops[i].outputs, &err),
            KILN_STATUS_OK);
    }
    return is_joining;
}

static kiln_status open_joining(const kiln_env *env, const char *address,
                                kiln_backend **out_backend, kiln_error *err, void *user)
{
    const kiln_backend_provider *reference = kiln_ir_reference_provider();
    (void)user;
    (void)address;
    kiln_status status = reference->open(env, "reference", out_backend, err, reference->user);
    if (status == KILN_STATUS_OK) {
        real = **out_backend;
        joining_device = *real.device;
        joining_device.execute_joined = record_joined;
        (*out_backend)->device = &joining_device;
    }
    return status;
}

static const kiln_backend_provider joining_provider = {
    .struct_size = sizeof(kiln_backend_provider),
    .scheme = "joining",
    .open = open_joining,
    .interface = KILN_BACKEND_INTERFACE,
};

static bool open_with_joining(fixture *f)
{
    memset(f, 0, sizeof(*f));
    return FIXTURE_OK(f, kiln_context_create(NULL, &f->context, &f->err)) &&
           FIXTURE_OK(f, kiln_context_add_provider(f->context, &joining_provider, &f->err)) &&
           FIXTURE_OK(f, kiln_device_open(f->context, "joining:0", &f->device, &f->err));
}

enum { N_PRODUCTS = 4 };

/// x times two weights, another row times one, and x times the first product: only the first two
/// share their first operand and need nothing of each other.
static void run_products(fixture *f, float out[N_PRODUCTS][16])
{
    const int64_t dims[] = {4, 4};
    float data[3][16];
    kiln_tensor *given[3] = {NULL};
    kiln_tensor *weights[2] = {NULL};
    kiln_tensor *products[N_PRODUCTS] = {NULL};
    kiln_graph *graph = NULL;
    for (int i = 0; i < 48; i++) {
        data[i / 16][i % 16] = (float)((i * 7 + i / 16) % 11 - 5) / 4;
    }
    for (int i = 0; i < 3; i++) {
        given[i] = fixture_f32(f, 2, dims, data[i]);
    }
    for (int i = 0; i < 2; i++) {
        FIXTURE_OK(f, kiln_quantize_dynamic(given[i], KILN_DTYPE_Q8S, NULL, 0, KILN_DTYPE_F32, NULL,
                                            &weights[i], &f->err));
    }
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    kiln_tensor *lefts[N_PRODUCTS] = {given[2], given[2], given[1], given[2]};
    FIXTURE_OK(f, kiln_graph_begin(f->device, &given[1], 2, &f->err));
    for (int i = 0; i < N_PRODUCTS; i++) {
        kiln_tensor *right = i < 3 ? weights[i % 2] : products[0];
        FIXTURE_OK(f, kiln_matmul_quantized(lefts[i], right, KILN_DTYPE_F32, false, true,
                                            &products[i], &f->err));
    }
    FIXTURE_OK(f, kiln_graph_end(f->device, products, N_PRODUCTS, &graph, &f->err));
    for (int i = 0; i < N_PRODUCTS; i++) {
        kiln_release(products[i]);
    }
    FIXTURE_OK(f, kiln_graph_run(graph, &given[1], 2, products, N_PRODUCTS, &f->err));
    for (int i = 0; i < N_PRODUCTS; i++) {
        FIXTURE_OK(f, kiln_read(products[i], out[i], 16 * sizeof(float), &f->err));
        kiln_release(products[i]);
    }
    kiln_graph_destroy(graph);
    for (int i = 0; i < 3; i++) {
        kiln_release(given[i]);
    }
    kiln_release(weights[0]);
    kiln_release(weights[1]);
}

static void test_joined(void)
{
    fixture f;
    float expected[N_PRODUCTS][16];
    float actual[N_PRODUCTS][16];
    if (!fixture_open(&f, "reference")) {
        return;
    }
    run_products(&f, expected);
    fixture_close(&f);
    for (int i = 0; i < 2; i++) {
        is_joining = i == 1;
        n_asked = 0;
        if (!open_with_joining(&f)) {
            return;
        }
        run_products(&f, actual);
        KILN_CHECK_MEM(actual, expected, sizeof(expected));
        KILN_CHECK_INT(n_asked, 1);
        KILN_CHECK_INT(asked[0], 2);
        fixture_close(&f);
    }
}

KILN_TEST_MAIN("unit/runtime/quantised", KILN_TEST(test_bytes_reference),
               KILN_TEST(test_bytes_opencl), KILN_TEST(test_moves), KILN_TEST(test_refusals),
               KILN_TEST(test_arithmetic), KILN_TEST(test_products), KILN_TEST(test_joined))
