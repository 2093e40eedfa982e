// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors and operations one by one: data in and out, errors at the call, addresses of devices.

#include "runtime_fixture.h"

#include <string.h>

static void test_round_trip(void)
{
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    const int64_t dims[] = {2, 3};
    const float data[] = {1, -2, 3, 4, 5, 6};
    float back[6] = {0};
    kiln_tensor *tensor = fixture_f32(&f, 2, dims, data);
    FIXTURE_OK(&f, kiln_read(tensor, back, sizeof(back), &f.err));
    KILN_CHECK_MEM(back, data, sizeof(data));
    KILN_CHECK_INT(kiln_read(tensor, back, 8, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "24 bytes, not 8");
    kiln_release(tensor);
    fixture_close(&f);
}

static void test_rank_zero_and_empty(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    const float one = 2.5f;
    const int64_t none[] = {0, 4};
    float value = 0;
    kiln_tensor *scalar = fixture_f32(&f, 0, NULL, &one);
    kiln_tensor *empty = fixture_f32(&f, 2, none, NULL);
    kiln_tensor *sum = NULL;
    kiln_tensor *twice = NULL;
    FIXTURE_OK(&f, kiln_add(empty, empty, &twice, &f.err));
    FIXTURE_OK(&f, kiln_sum(twice, NULL, 0, false, &sum, &f.err));
    FIXTURE_OK(&f, kiln_read(sum, &value, sizeof(value), &f.err));
    KILN_CHECK_INT(kiln_tensor_rank(sum), 0);
    KILN_CHECK(value == 0.0f);
    FIXTURE_OK(&f, kiln_read(twice, NULL, 0, &f.err));
    FIXTURE_OK(&f, kiln_read(scalar, &value, sizeof(value), &f.err));
    KILN_CHECK(value == 2.5f);
    kiln_release(scalar);
    kiln_release(empty);
    kiln_release(twice);
    kiln_release(sum);
    fixture_close(&f);
}

static void test_errors_at_the_call(void)
{
    fixture f;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    const int64_t a[] = {2, 3};
    const int64_t b[] = {4, 3};
    const int64_t bad[] = {-1};
    kiln_tensor *x = fixture_f32(&f, 2, a, NULL);
    kiln_tensor *y = fixture_f32(&f, 2, b, NULL);
    kiln_tensor *i = NULL;
    kiln_tensor *out = x;
    FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_I32, 2, a, NULL, &i, &f.err));
    KILN_CHECK_INT(kiln_add(x, y, &out, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(out == NULL);
    KILN_CHECK_CONTAINS(f.err.message, "[2,3]");
    KILN_CHECK_CONTAINS(f.err.message, "[4,3]");
    KILN_CHECK_INT(kiln_add(x, i, &out, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "i32");
    KILN_CHECK_INT(kiln_exp(i, &out, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_add(x, NULL, &out, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, bad, NULL, &out, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_tensor_create(f.device, (kiln_dtype)99, 0, NULL, NULL, &out, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_record(f.device, KILN_OP_COUNT, &x, 1, NULL, 0, &out, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_record(f.device, KILN_OP_DROP, &x, 1, NULL, 0, &out, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_release(x);
    kiln_release(y);
    kiln_release(i);
    fixture_close(&f);
}

static void test_addresses(void)
{
    fixture f;
    kiln_device *again = NULL;
    if (!fixture_open(&f, "reference")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_open(f.context, "reference", &again, &f.err));
    KILN_CHECK(again == f.device);
    kiln_device_release(again);
    KILN_CHECK_INT(kiln_device_open(f.context, "opencl:99", &again, &f.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(f.err.message, "99");
    KILN_CHECK(again == NULL);
    KILN_CHECK_INT(kiln_device_open(f.context, "abacus:0", &again, &f.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_CONTAINS(f.err.message, "abacus");
    KILN_CHECK_INT(kiln_device_open(f.context, "", &again, &f.err), KILN_STATUS_NOT_FOUND);
    char long_address[400];
    memset(long_address, 'a', sizeof(long_address));
    long_address[sizeof(long_address) - 1] = '\0';
    KILN_CHECK_INT(kiln_device_open(f.context, long_address, &again, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    fixture_close(&f);
}

static void test_devices_do_not_mix(void)
{
    fixture f;
    kiln_device *other = NULL;
    kiln_tensor *y = NULL;
    kiln_tensor *out = NULL;
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 3};
    float back[3] = {0};
    if (!fixture_open(&f, "reference")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_open(f.context, "null", &other, &f.err));
    FIXTURE_OK(&f, kiln_tensor_create(other, KILN_DTYPE_F32, 1, dims, data, &y, &f.err));
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    KILN_CHECK_INT(kiln_add(x, y, &out, &f.err), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(f.err.message, "kiln_to_device");
    kiln_release(y);
    FIXTURE_OK(&f, kiln_to_device(x, f.device, &y, &f.err));
    KILN_CHECK(x == y);
    FIXTURE_OK(&f, kiln_read(y, back, sizeof(back), &f.err));
    KILN_CHECK_MEM(back, data, sizeof(data));
    kiln_release(y);
    kiln_release(x);
    kiln_device_release(other);
    fixture_close(&f);
}

static void test_strided_reads(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    const int64_t dims[] = {2, 3};
    const int64_t axes[] = {1};
    const int64_t order[] = {1, 0};
    const float data[] = {1, 2, 3, 4, 5, 6};
    const float flipped[] = {3, 6, 2, 5, 1, 4};
    float back[6] = {0};
    kiln_tensor *x = fixture_f32(&f, 2, dims, data);
    kiln_tensor *y = NULL;
    kiln_tensor *z = NULL;
    FIXTURE_OK(&f, kiln_flip(x, axes, 1, &y, &f.err));
    FIXTURE_OK(&f, kiln_permute(y, order, 2, &z, &f.err));
    kiln_release(x);
    kiln_release(y);
    FIXTURE_OK(&f, kiln_read(z, back, sizeof(back), &f.err));
    KILN_CHECK_MEM(back, flipped, sizeof(flipped));
    kiln_release(z);
    fixture_close(&f);
}

static void test_matmul_is_clblast(void)
{
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    // Odd sizes, each transposition, batches with broadcasting. The last one, small products with a
    // right operand each, is Kiln's own on processors.
    const int64_t a[4][3] = {{1, 7, 5}, {1, 5, 7}, {3, 7, 5}, {3, 5, 7}};
    const int64_t b[4][3] = {{1, 5, 9}, {1, 9, 5}, {1, 5, 9}, {3, 9, 5}};
    const bool transposed[4][2] = {{false, false}, {true, true}, {false, false}, {true, true}};
    static float values[3 * 9 * 9];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        values[i] = (float)(i % 11) - 5.0f;
    }
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &before);
    for (size_t i = 0; i < 4; i++) {
        kiln_tensor *x = fixture_f32(&f, 3, a[i], values);
        kiln_tensor *y = fixture_f32(&f, 3, b[i], values);
        kiln_tensor *z = NULL;
        static float back[3 * 7 * 9];
        FIXTURE_OK(&f, kiln_matmul(x, y, transposed[i][0], transposed[i][1], &z, &f.err));
        FIXTURE_OK(&f, kiln_read(z, back, kiln_tensor_bytes(z), &f.err));
        float expected = 0;
        for (size_t k = 0; k < 5; k++) {
            float left = transposed[i][0] ? values[k * 7] : values[k];
            float right = transposed[i][1] ? values[k] : values[k * 9];
            expected += left * right;
        }
        KILN_CHECK_NEAR(back[0], expected, 1e-4);
        kiln_release(x);
        kiln_release(y);
        kiln_release(z);
    }
    kiln_device_stats_get(f.device, &after);
    uint64_t calls = after.backend.blas_calls - before.backend.blas_calls;
    bool processor = kiln_device_info_of(f.device)->type == KILN_DEVICE_CPU;
    KILN_CHECK(processor ? calls == 3 : calls >= 4);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/tensor", KILN_TEST(test_round_trip),
               KILN_TEST(test_rank_zero_and_empty), KILN_TEST(test_errors_at_the_call),
               KILN_TEST(test_addresses), KILN_TEST(test_devices_do_not_mix),
               KILN_TEST(test_strided_reads), KILN_TEST(test_matmul_is_clblast))
