// SPDX-License-Identifier: MIT OR Apache-2.0
// Failures: no device memory, no host memory, faults that pass on to what depended on them.

#include "faults.h"
#include "runtime_fixture.h"

static void test_out_of_memory(void)
{
    fixture f;
    const int64_t dims[] = {1 << 20}; // 4 MiB
    if (!fixture_open_with(&f, "opencl:0", "memory-budget", "10M")) {
        return;
    }
    float one = 1;
    float back = 0;
    kiln_tensor *small = fixture_f32(&f, 0, NULL, &one);
    kiln_tensor *x = fixture_f32(&f, 1, dims, NULL);
    kiln_tensor *y = NULL;
    kiln_tensor *z = NULL;
    kiln_tensor *sum = NULL;
    FIXTURE_OK(&f, kiln_exp(x, &y, &f.err));
    FIXTURE_OK(&f, kiln_exp(y, &z, &f.err)); // a third 4 MiB does not fit beside the first two
    FIXTURE_OK(&f, kiln_sum(z, NULL, 0, false, &sum, &f.err));
    KILN_CHECK_INT(kiln_read(sum, &back, sizeof(back), &f.err), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_RESOURCE_EXHAUSTED);
    // What was there stays readable, and the device goes on once memory is free.
    FIXTURE_OK(&f, kiln_read(small, &back, sizeof(back), &f.err));
    KILN_CHECK(back == 1.0f);
    kiln_release(z);
    kiln_release(sum);
    kiln_release(y);
    FIXTURE_OK(&f, kiln_cos(x, &y, &f.err));
    FIXTURE_OK(&f, kiln_sum(y, NULL, 0, false, &sum, &f.err));
    FIXTURE_OK(&f, kiln_read(sum, &back, sizeof(back), &f.err));
    KILN_CHECK(back == (float)dims[0]);
    kiln_release(small);
    kiln_release(x);
    kiln_release(y);
    kiln_release(sum);
    fixture_close(&f);
}

static kiln_tensor *square(fixture *f, kiln_tensor *x, kiln_tensor *w)
{
    kiln_tensor *y = NULL, *z = NULL;
    FIXTURE_OK(f, kiln_matmul(x, w, false, false, &y, &f->err));
    FIXTURE_OK(f, kiln_relu(y, &z, &f->err));
    kiln_release(y);
    return z;
}

/// A fault comes through a block whose launches hand on what they read in temporaries, and also
/// when the operand that failed is a constant.
static void test_fault_through_temporaries(void)
{
    fixture f;
    const int64_t dims[] = {1024, 1024}, narrow[] = {1024, 128};
    if (!fixture_open_with(&f, "opencl:0", "memory-budget", "11M")) {
        return;
    }
    for (int constant = 0; constant < 2; constant++) {
        float back = 0;
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kiln_tensor *w = fixture_f32(&f, 2, narrow, NULL), *x = fixture_f32(&f, 2, dims, NULL);
        kiln_tensor *good = NULL, *y = NULL, *z = NULL, *bad = NULL, *sum = NULL;
        kiln_device_stats_get(f.device, &before);
        good = square(&f, x, w);
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        kiln_device_stats_get(f.device, &after);
        if (after.blocks_fused == before.blocks_fused) {
            kiln_test_skip("no fuser wins the product here");
        }
        kiln_release(good);
        FIXTURE_OK(&f, kiln_exp(x, &y, &f.err));
        FIXTURE_OK(&f, kiln_exp(y, &z, &f.err)); // does not fit beside the first two
        KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_RESOURCE_EXHAUSTED);
        kiln_release(x);
        kiln_release(y);
        if (constant != 0) {
            kiln_tensor_mark_constant(z);
        }
        bad = square(&f, z, w);
        FIXTURE_OK(&f, kiln_sum(bad, NULL, 0, false, &sum, &f.err));
        KILN_CHECK_INT(kiln_read(sum, &back, sizeof(back), &f.err), KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK(kiln_sync(f.device, &f.err) != KILN_STATUS_INTERNAL);
        kiln_release(bad);
        kiln_release(sum);
        kiln_release(z);
        kiln_release(w);
    }
    fixture_close(&f);
}

/// Of a block only what depends on the operand that failed fails with it: one launch may make
/// values of several runs.
static void test_fault_beside_a_value(void)
{
    fixture f;
    const int64_t large[] = {1 << 20}, dims[] = {64}; // 4 MiB
    float back[64];
    if (!fixture_open_with(&f, "opencl:0", "memory-budget", "10M")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, large, NULL), *b = fixture_f32(&f, 1, dims, NULL);
    kiln_tensor *y = NULL, *z = NULL, *sums[2] = {NULL};
    FIXTURE_OK(&f, kiln_sum(x, NULL, 0, false, &sums[0], &f.err));
    FIXTURE_OK(&f, kiln_exp(x, &y, &f.err));
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    FIXTURE_OK(&f, kiln_exp(y, &z, &f.err)); // does not fit beside the first two
    FIXTURE_OK(&f, kiln_sum(z, NULL, 0, false, &sums[1], &f.err));
    KILN_CHECK_INT(kiln_sync(f.device, &f.err), KILN_STATUS_RESOURCE_EXHAUSTED);
    for (int failed = 0; failed < 2; failed++) {
        kiln_tensor *without = NULL, *with = NULL;
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &before);
        FIXTURE_OK(&f, kiln_exp(b, &without, &f.err));
        FIXTURE_OK(&f, kiln_add(without, sums[failed], &with, &f.err));
        FIXTURE_OK(&f, kiln_read(without, back, sizeof(back), &f.err));
        KILN_CHECK(back[0] == 1.0f && back[63] == 1.0f);
        KILN_CHECK_INT(kiln_read(with, back, sizeof(back), &f.err),
                       failed != 0 ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
        kiln_device_stats_get(f.device, &after);
        if (failed == 0 && after.ops_fused - before.ops_fused != 2) {
            kiln_test_skip("no fuser takes both operations here");
        }
        KILN_CHECK(failed != 0 || after.blocks_fused - before.blocks_fused == 1);
        kiln_release(without);
        kiln_release(with);
    }
    kiln_release(x);
    kiln_release(b);
    kiln_release(y);
    kiln_release(z);
    kiln_release(sums[0]);
    kiln_release(sums[1]);
    fixture_close(&f);
}

/// A whole small program on the reference backend; true when everything in it succeeded.
static bool small_program(kiln_context *context)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_device *device = NULL;
    kiln_tensor *t[4] = {NULL};
    kiln_graph *graph = NULL;
    kiln_tensor *out = NULL;
    const int64_t dims[] = {3};
    const float data[] = {1, 2, 3};
    float back[3];
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(done, status, kiln_device_open(context, "reference", &device, &err));
    KILN_TRY(done, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, data, &t[0], &err));
    KILN_TRY(done, status, kiln_add(t[0], t[0], &t[1], &err));
    KILN_TRY(done, status, kiln_exp(t[1], &t[2], &err));
    KILN_TRY(done, status, kiln_read(t[2], back, sizeof(back), &err));
    KILN_TRY(done, status, kiln_graph_begin(device, &t[0], 1, &err));
    status = kiln_neg(t[0], &t[3], &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_end(device, &t[3], 1, &graph, &err);
    } else {
        kiln_graph_cancel(device);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_run(graph, &t[0], 1, &out, 1, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(out, back, sizeof(back), &err);
    }
done:
    for (int i = 0; i < 4; i++) {
        kiln_release(t[i]);
    }
    kiln_release(out);
    kiln_graph_destroy(graph);
    kiln_device_release(device);
    return status == KILN_STATUS_OK;
}

static void test_failing_allocations(void)
{
    kiln_faults faults;
    bool finished = false;
    kiln_faults_init(&faults);
    for (size_t k = 1; kiln_faults_next(&faults, k) && k < 2000; k++) {
        kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
        kiln_context *context = NULL;
        kiln_error err = KILN_ERROR_INIT;
        options.allocator = &faults.allocator;
        if (kiln_context_create(&options, &context, &err) == KILN_STATUS_OK) {
            finished = small_program(context);
            kiln_context_destroy(context);
        } else {
            KILN_CHECK_INT(err.code, KILN_STATUS_RESOURCE_EXHAUSTED);
        }
    }
    KILN_CHECK(finished); // the last run had no failure
}

static void count_release(void *user)
{
    ++*(int *)user;
}

/// Memory of the caller's is given back once, and never when the call has failed.
static void test_wrap_without_memory(void)
{
    kiln_faults faults;
    int wrapped = 0, released = 0;
    kiln_faults_init(&faults);
    for (size_t k = 1; kiln_faults_next(&faults, k) && k < 2000; k++) {
        static float data[1024];
        const int64_t dims[] = {1024};
        kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
        kiln_context *context = NULL;
        kiln_device *device = NULL;
        kiln_tensor *x = NULL;
        options.allocator = &faults.allocator;
        if (kiln_context_create(&options, &context, NULL) != KILN_STATUS_OK) {
            continue;
        }
        if (kiln_device_open(context, "reference", &device, NULL) == KILN_STATUS_OK) {
            wrapped += kiln_tensor_wrap(device, KILN_DTYPE_F32, 1, dims, data, count_release,
                                        &released, &x, NULL) == KILN_STATUS_OK;
            kiln_release(x);
            kiln_device_release(device);
        }
        kiln_context_destroy(context);
        KILN_CHECK_INT(released, wrapped);
    }
    KILN_CHECK(wrapped > 0);
}

KILN_TEST_MAIN("unit/runtime/faults", KILN_TEST(test_out_of_memory),
               KILN_TEST(test_fault_through_temporaries), KILN_TEST(test_fault_beside_a_value),
               KILN_TEST(test_failing_allocations), KILN_TEST(test_wrap_without_memory))
