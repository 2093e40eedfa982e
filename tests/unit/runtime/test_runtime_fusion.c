// SPDX-License-Identifier: MIT OR Apache-2.0
// Fused and unfused runs through the public calls: the same bits, fewer kernels, less memory; and
// what a release means.

#include "rt_device.h"
#include "rt_tensor.h"
#include "runtime_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1003 };

/// relu(a * b + 1) * 0.5 - b, each intermediate released when it has been used.
static kiln_tensor *chain(fixture *f, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *t[5] = {NULL};
    FIXTURE_OK(f, kiln_mul(a, b, &t[0], &f->err));
    FIXTURE_OK(f, kiln_add_scalar(t[0], kiln_f64(1.0), &t[1], &f->err));
    kiln_release(t[0]);
    FIXTURE_OK(f, kiln_relu(t[1], &t[2], &f->err));
    kiln_release(t[1]);
    FIXTURE_OK(f, kiln_mul_scalar(t[2], kiln_f64(0.5), &t[3], &f->err));
    kiln_release(t[2]);
    FIXTURE_OK(f, kiln_sub(t[3], b, &t[4], &f->err));
    kiln_release(t[3]);
    return t[4];
}

static void fill(float *a, float *b)
{
    for (int i = 0; i < N; i++) {
        a[i] = sinf((float)i * 0.7f) * 3.0f;
        b[i] = cosf((float)i * 1.3f) * 2.0f;
    }
    a[1] = NAN;
    b[2] = INFINITY;
    a[3] = -INFINITY;
    a[4] = -0.0f;
    b[5] = 1e-40f;
}

static uint64_t kernels(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.backend.kernels_launched;
}

static void run_chain(fixture *f, const float *a, const float *b, float *out, uint64_t *launched)
{
    const int64_t dims[] = {N};
    kiln_tensor *x = fixture_f32(f, 1, dims, a);
    kiln_tensor *y = fixture_f32(f, 1, dims, b);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    kiln_tensor *result = chain(f, x, y);
    FIXTURE_OK(f, kiln_read(result, out, sizeof(float) * N, &f->err));
    *launched = kernels(f) - before;
    kiln_release(x);
    kiln_release(y);
    kiln_release(result);
}

static void test_same_bits_one_kernel(void)
{
    fixture f;
    static float a[N];
    static float b[N];
    static float fused[N];
    static float alone[N];
    uint64_t launched = 0;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    fill(a, b);
    run_chain(&f, a, b, fused, &launched);
    KILN_CHECK_INT(launched, 1);
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    run_chain(&f, a, b, alone, &launched);
    KILN_CHECK_INT(launched, 5);
    for (int i = 0; i < N; i++) {
        bool both_nan = isnan(fused[i]) && isnan(alone[i]);
        if (!both_nan && memcmp(&fused[i], &alone[i], sizeof(float)) != 0) {
            KILN_FAIL("element %d: fused %a, alone %a", i, (double)fused[i], (double)alone[i]);
            break;
        }
    }
    KILN_CHECK(isnan(fused[1]));
    fixture_close(&f);
}

static void test_plan_found_again(void)
{
    fixture f;
    static float a[N];
    static float b[N];
    static float out[N];
    uint64_t launched = 0;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    fill(a, b);
    run_chain(&f, a, b, out, &launched);
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &before);
    run_chain(&f, a, b, out, &launched);
    run_chain(&f, a, b, out, &launched);
    kiln_device_stats_get(f.device, &after);
    KILN_CHECK_INT(after.plans_searched, before.plans_searched);
    KILN_CHECK(after.plans_found >= before.plans_found + 2);
    KILN_CHECK_INT(after.backend.programs_built, before.backend.programs_built);
    fixture_close(&f);
}

/// x + 1 and so on, `length` times: a plan and a program for each length.
static void run_adds(fixture *f, int length)
{
    const int64_t dims[] = {8};
    const float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    float out[8] = {0};
    kiln_tensor *t = fixture_f32(f, 1, dims, data);
    for (int i = 0; i < length; i++) {
        kiln_tensor *next = NULL;
        FIXTURE_OK(f, kiln_add_scalar(t, kiln_f64(1.0), &next, &f->err));
        kiln_release(t);
        t = next;
    }
    FIXTURE_OK(f, kiln_read(t, out, sizeof(out), &f->err));
    KILN_CHECK_NEAR(out[7], 7 + length, 0);
    kiln_release(t);
}

/// Over the limit of bytes, a block that did not run for long gives its program up, and runs again
/// from the cache; who ran lately keeps it, and so do all where there is no cache.
static void test_programs_are_given_up(void)
{
    for (int cached = 0; cached < 2; cached++) {
        fixture f;
        setenv("KILN_CACHE_DIR", cached ? kiln_test_tmpdir() : "off", 1);
        bool open = fixture_open_with(&f, "opencl:0", "program-limit", "0");
        setenv("KILN_CACHE_DIR", "off", 1);
        if (!open) {
            return;
        }
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kilni_block_programs *programs = &kilni_core(f.device)->execution.programs;
        run_adds(&f, 3);
        run_adds(&f, 5);
        KILN_CHECK_INT(programs->given_up, 0);
        kiln_device_stats_get(f.device, &before);
        KILN_CHECK(before.plans_kept >= 2 && before.backend.programs_live >= 2);
        for (int i = 0; i < 1100; i++) {
            run_adds(&f, 5);
        }
        run_adds(&f, 7);
        KILN_CHECK_INT(programs->given_up, cached);
        kiln_device_stats_get(f.device, &after);
        KILN_CHECK_INT(after.backend.programs_live - before.backend.programs_live, !cached);
        run_adds(&f, 3);
        kiln_device_stats_get(f.device, &before);
        KILN_CHECK_INT(before.backend.programs_built, after.backend.programs_built);
        KILN_CHECK_INT(before.backend.programs_loaded - after.backend.programs_loaded, cached);
        fixture_close(&f);
    }
}

/// x * w + s with the fuser that packs w, and with `more` -x beside it: another plan with the same
/// block. Gives how many kernels ran.
static uint64_t packed_run_with(fixture *f, kiln_tensor *w, float first, double s, bool more)
{
    const int64_t dims[] = {64};
    float x[64], out[64];
    kiln_tensor *product = NULL, *sum = NULL, *beside = NULL;
    for (int i = 0; i < 64; i++) {
        x[i] = first + (float)i;
    }
    kiln_tensor *t = fixture_f32(f, 1, dims, x);
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    uint64_t before = kernels(f);
    FIXTURE_OK(f, kiln_mul(t, w, &product, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(product, kiln_f64(s), &sum, &f->err));
    kiln_release(product);
    if (more) {
        FIXTURE_OK(f, kiln_neg(t, &beside, &f->err));
    }
    FIXTURE_OK(f, kiln_read(sum, out, sizeof(out), &f->err));
    uint64_t launched = kernels(f) - before;
    float weights[64];
    FIXTURE_OK(f, kiln_read(w, weights, sizeof(weights), &f->err));
    for (int i = 0; i < 64; i++) {
        KILN_CHECK_NEAR(out[i], x[i] * weights[i] + (float)s, 1e-4);
    }
    kiln_release(t);
    kiln_release(sum);
    kiln_release(beside);
    return launched;
}

static uint64_t packed_run(fixture *f, kiln_tensor *w, float first, double s)
{
    return packed_run_with(f, w, first, s, /*more=*/false);
}

static kiln_tensor *constant(fixture *f, float value)
{
    const int64_t dims[] = {64};
    float data[64];
    for (int i = 0; i < 64; i++) {
        data[i] = value * (float)(i % 5);
    }
    kiln_tensor *w = fixture_f32(f, 1, dims, data);
    kiln_tensor_mark_constant(w);
    return w;
}

/// A context with one plugin of the tests, and a device; the test is skipped without one.
static bool open_with(fixture *f, const char *name)
{
    char path[4096], id[64];
    *f = (fixture){.err = KILN_ERROR_INIT};
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/%s.so", KILN_TEST_BUILD_DIR, name);
    snprintf(id, sizeof(id), "test.%s", name);
    for (char *c = id; *c != 0; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    setenv("KILN_PLUGINS", id, 1);
    FIXTURE_OK(f, kiln_context_create(NULL, &f->context, &f->err));
    unsetenv("KILN_PLUGINS");
    FIXTURE_OK(f, kiln_plugin_load(f->context, path, &f->err));
    if (kiln_device_open(f->context, kiln_test_address("opencl:0"), &f->device, &f->err) !=
        KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device");
        kiln_context_destroy(f->context);
        return false;
    }
    return true;
}

/// A temporary that lives with the plan is filled once for the same constants, by whichever plan
/// has the program, and again for others.
static void test_constants_are_packed_once(void)
{
    fixture f;
    if (!open_with(&f, "prepack")) {
        return;
    }
    kiln_tensor *w = constant(&f, 2), *v = constant(&f, 3);
    KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), 2);
    KILN_CHECK_INT(packed_run(&f, w, 5, 1.5), 1);
    KILN_CHECK_INT(packed_run(&f, w, 9, 2.5), 1);
    KILN_CHECK_INT(packed_run_with(&f, w, 2, 0.5, true), 2); // the product and -x
    KILN_CHECK_INT(packed_run(&f, v, 1, 0.5), 2);
    KILN_CHECK_INT(packed_run(&f, v, 3, 0.5), 1);
    KILN_CHECK_INT(packed_run_with(&f, v, 2, 0.5, true), 2);
    KILN_CHECK_INT(packed_run_with(&f, w, 2, 0.5, true), 3); // kept for the constant before it
    kiln_release(w);
    w = constant(&f, 7); // perhaps where the first one was
    KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), 2);
    kiln_release(w);
    kiln_release(v);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// What is packed follows every number that the launch gets.
static void test_numbers_are_packed_anew(void)
{
    fixture f;
    if (!open_with(&f, "prepack_numbers")) {
        return;
    }
    kiln_tensor *w = constant(&f, 2);
    KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), 2);
    KILN_CHECK_INT(packed_run(&f, w, 5, 0.5), 1);
    KILN_CHECK_INT(packed_run(&f, w, 5, 1.5), 2);
    kiln_release(w);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// Rows of ones times a corner of `whole`, plus 1, by a fuser that packs constants; the worst
/// error.
static double corner_error(fixture *f, kiln_tensor *whole, const float *values, int64_t side,
                           int64_t k, int64_t n)
{
    const int64_t starts[] = {0, 0}, ends[] = {k, n}, dims[] = {side, k};
    kiln_tensor *corner = NULL, *product = NULL, *sum = NULL;
    float *x = calloc((size_t)(side * side), sizeof(float));
    for (int64_t i = 0; i < side * k; i++) {
        x[i] = 1;
    }
    kiln_tensor *ones = fixture_f32(f, 2, dims, x);
    FIXTURE_OK(f, kiln_slice(whole, starts, 2, ends, 2, NULL, 0, &corner, &f->err));
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    kiln_tensor_mark_constant(corner);
    FIXTURE_OK(f, kiln_matmul(ones, corner, false, false, &product, &f->err));
    FIXTURE_OK(f, kiln_add_scalar(product, kiln_f64(1), &sum, &f->err));
    kiln_release(product);
    FIXTURE_OK(f, kiln_read(sum, x, sizeof(float) * (size_t)(side * n), &f->err));
    double worst = 0;
    for (int64_t j = 0; j < n; j++) {
        double expected = 1;
        for (int64_t i = 0; i < k; i++) {
            expected += (double)values[i * side + j];
        }
        worst = fmax(worst, fabs(expected - (double)x[j]));
    }
    free(x);
    kiln_release(ones);
    kiln_release(corner);
    kiln_release(sum);
    return worst;
}

/// Two corners of one tensor begin at the same place, have the same strides and the same size, and
/// are packed differently.
static void test_corners_are_packed_apart(void)
{
    enum { SIDE = 256 };
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    const int64_t dims[] = {SIDE, SIDE};
    float *values = calloc((size_t)SIDE * SIDE, sizeof(float));
    for (int i = 0; i < SIDE * SIDE; i++) {
        values[i] = (float)(i * 7919 % 13 - 6);
    }
    kiln_tensor *whole = fixture_f32(&f, 2, dims, values);
    KILN_CHECK_NEAR(corner_error(&f, whole, values, SIDE, SIDE / 4, SIDE / 2), 0, 1e-3);
    KILN_CHECK_NEAR(corner_error(&f, whole, values, SIDE, SIDE / 2, SIDE / 4), 0, 1e-3);
    kiln_release(whole);
    free(values);
    fixture_close(&f);
}

/// A run for which memory is short says nothing about later ones.
static void test_memory_was_short(void)
{
    enum { MANY = 1000000 };
    fixture f;
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    const int64_t dims[] = {MANY};
    for (int run = 0; run < 5; run++) {
        kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
        kiln_tensor *a = NULL, *b = NULL, *x = NULL;
        kiln_device_stats_get(f.device, &before);
        FIXTURE_OK(&f, kiln_full(f.device, dims, 1, KILN_DTYPE_F32, kiln_f64(1), &x, &f.err));
        FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
        kiln_device_trim(f.device);
        FIXTURE_OK(&f, kiln_device_set_memory_budget(f.device, run == 1 ? 5 << 20 : 0, &f.err));
        FIXTURE_OK(&f, kiln_add_scalar(x, kiln_f64(1), &a, &f.err));
        FIXTURE_OK(&f, kiln_exp(a, &b, &f.err));
        kiln_release(a);
        kiln_status status = kiln_sync(f.device, &f.err);
        KILN_CHECK_INT(status, run == 1 ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
        kiln_device_stats_get(f.device, &after);
        KILN_CHECK_INT(after.ops_fused - before.ops_fused, run == 1 ? 0 : 2);
        FIXTURE_OK(&f, kiln_device_set_memory_budget(f.device, 0, &f.err));
        kiln_release(x);
        kiln_release(b);
    }
    fixture_close(&f);
}

static uint64_t bytes_live(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f->device, &stats);
    return stats.bytes_live;
}

/// Packed constants go with the constant, and when the device is trimmed.
static void test_packed_constants_go(void)
{
    fixture f;
    if (!open_with(&f, "prepack")) {
        return;
    }
    uint64_t before = bytes_live(&f);
    kiln_tensor *w = constant(&f, 2);
    KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), 2);
    KILN_CHECK_INT(packed_run_with(&f, w, 1, 0.5, true), 2);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    KILN_CHECK_INT(bytes_live(&f), before + 2 * 64 * sizeof(float));
    kiln_device_trim(f.device);
    KILN_CHECK_INT(bytes_live(&f), before + 64 * sizeof(float));
    KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), 2);
    KILN_CHECK_INT(packed_run_with(&f, w, 1, 0.5, true), 2);
    kiln_release(w);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    KILN_CHECK_INT(bytes_live(&f), before);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

static uint64_t bytes_used(fixture *f)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    FIXTURE_OK(f, kiln_sync(f->device, &f->err));
    kiln_device_trim(f->device);
    kiln_device_stats_get(f->device, &stats);
    return stats.backend.bytes_used;
}

/// A constant in the caller's memory is on the device until it has been packed, and again when
/// something else reads it; moved to another queue it stays.
static void test_packed_constants_leave(void)
{
    enum { MANY = 1 << 16, BYTES = MANY * sizeof(float) };
    static float values[MANY + 1], x[MANY], out[MANY];
    const int64_t dims[] = {MANY};
    kiln_constant_memory lent = KILN_CONSTANT_MEMORY_INIT;
    kiln_tensor *w = NULL, *product = NULL, *sum = NULL, *other = NULL;
    fixture f;
    if (!open_with(&f, "prepack")) {
        return;
    }
    for (int i = 0; i < MANY; i++) {
        values[i + 1] = (float)(i % 7);
        x[i] = (float)(i % 3);
    }
    lent.bytes = values + 1; // aligned for no device
    kiln_tensor *t = fixture_f32(&f, 1, dims, x);
    uint64_t before = bytes_used(&f);
    FIXTURE_OK(&f, kiln_tensor_wrap_constant(f.device, KILN_DTYPE_F32, 1, dims, &lent, &w, &f.err));
    KILN_CHECK_INT(bytes_used(&f), before);
    for (int run = 0; run < 3; run++) {
        FIXTURE_OK(&f, kiln_mul(t, w, &product, &f.err));
        FIXTURE_OK(&f, kiln_add_scalar(product, kiln_f64(1), &sum, &f.err));
        kiln_release(product);
        FIXTURE_OK(&f, kiln_read(sum, out, sizeof(out), &f.err));
        kiln_release(sum);
        for (int i = 0; i < MANY; i += 97) {
            KILN_CHECK_NEAR(out[i], x[i] * values[i + 1] + 1, 1e-6);
        }
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &stats);
        KILN_CHECK_INT(stats.backend.bytes_used, before + BYTES); // what was packed
    }
    FIXTURE_OK(&f, kiln_read(w, out, sizeof(out), &f.err));
    KILN_CHECK_MEM(out, values + 1, BYTES);
    FIXTURE_OK(&f, kiln_neg(w, &other, &f.err)); // reads the constant itself
    FIXTURE_OK(&f, kiln_read(other, out, sizeof(out), &f.err));
    KILN_CHECK(out[1] == -values[2]);
    kiln_release(other);
    KILN_CHECK_INT(bytes_used(&f), before + BYTES); // the packed one has been trimmed
    FIXTURE_OK(&f, kiln_to_device(w, f.device, &other, &f.err));
    kiln_release(other);
    kiln_release(w);
    KILN_CHECK_INT(bytes_used(&f), before);
    kiln_release(t);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// The samples of a tournament read the constant itself; afterwards it is gone again.
static void test_samples_leave_constants(void)
{
    enum { MANY = 1 << 16, BYTES = MANY * sizeof(float) };
    static float values[MANY + 1], out[MANY];
    const int64_t dims[] = {MANY};
    kiln_constant_memory lent = KILN_CONSTANT_MEMORY_INIT;
    kiln_tensor *w = NULL, *product = NULL, *sum = NULL;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    fixture f;
    const char *cache = getenv("KILN_CACHE_DIR");
    setenv("KILN_TUNE", "full", 1);
    setenv("KILN_CACHE_DIR", "off", 1); // it would know the winner
    bool opened = open_with(&f, "prepack");
    unsetenv("KILN_TUNE");
    if (cache != NULL) {
        setenv("KILN_CACHE_DIR", cache, 1);
    } else {
        unsetenv("KILN_CACHE_DIR");
    }
    if (!opened) {
        return;
    }
    lent.bytes = values + 1;
    kiln_tensor *t = fixture_f32(&f, 1, dims, out);
    FIXTURE_OK(&f, kiln_tensor_wrap_constant(f.device, KILN_DTYPE_F32, 1, dims, &lent, &w, &f.err));
    FIXTURE_OK(&f, kiln_mul(t, w, &product, &f.err));
    FIXTURE_OK(&f, kiln_add_scalar(product, kiln_f64(1), &sum, &f.err));
    kiln_release(product);
    FIXTURE_OK(&f, kiln_read(sum, out, sizeof(out), &f.err));
    kiln_release(sum);
    kiln_device_stats_get(f.device, &stats);
    KILN_CHECK(stats.kernels_measuring > 0);
    KILN_CHECK(!f.device->backend->memory->resides(f.device->backend, w->binding.storage->buffer));
    kiln_release(w);
    kiln_release(t);
    kiln_device_release(f.device);
    kiln_context_destroy(f.context);
}

/// A block whose second launch cannot run has the results of its operations.
static void test_second_launch_fails(void)
{
    static const char *const plugins[] = {"prepack_args", "prepack_group"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        if (!open_with(&f, plugins[i])) {
            return;
        }
        kiln_tensor *w = constant(&f, 2);
        for (int run = 0; run < 3; run++) { // the first one of `group` has packed before it fails
            KILN_CHECK_INT(packed_run(&f, w, 1, 0.5), run == 0 && i == 1 ? 3 : 2);
        }
        FIXTURE_OK(&f, kiln_device_status(f.device, &f.err));
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(f.device, &stats);
        KILN_CHECK_INT(stats.blocks_fused, i);
        kiln_release(w);
        kiln_device_release(f.device);
        kiln_context_destroy(f.context);
    }
}

static void test_in_place_when_unfused(void)
{
    fixture f;
    const int64_t dims[] = {1 << 20};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_set_fusion(f.device, false, &f.err));
    kiln_tensor *x = fixture_f32(&f, 1, dims, NULL);
    kiln_tensor *y = fixture_f32(&f, 1, dims, NULL);
    kiln_tensor *result = chain(&f, x, y);
    FIXTURE_OK(&f, kiln_sync(f.device, &f.err));
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(f.device, &stats);
    // Two inputs and one buffer that all five operations pass on.
    KILN_CHECK_INT(stats.backend.bytes_peak, 3 * 4 * dims[0]);
    kiln_release(x);
    kiln_release(y);
    kiln_release(result);
    fixture_close(&f);
}

static void test_kept_intermediate_is_written(void)
{
    fixture f;
    const int64_t dims[] = {4};
    const float data[] = {1, 2, 3, 4};
    float sum[4];
    float product[4];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    kiln_tensor *t = NULL;
    kiln_tensor *u = NULL;
    FIXTURE_OK(&f, kiln_add(x, x, &t, &f.err));
    FIXTURE_OK(&f, kiln_mul(t, x, &u, &f.err));
    FIXTURE_OK(&f, kiln_read(u, product, sizeof(product), &f.err));
    FIXTURE_OK(&f, kiln_read(t, sum, sizeof(sum), &f.err));
    for (int i = 0; i < 4; i++) {
        KILN_CHECK(sum[i] == 2 * data[i]);
        KILN_CHECK(product[i] == 2 * data[i] * data[i]);
    }
    kiln_release(x);
    kiln_release(t);
    kiln_release(u);
    fixture_close(&f);
}

static void test_inputs_survive(void)
{
    fixture f;
    const int64_t dims[] = {4};
    const float data[] = {1, -2, 3, -4};
    float back[4];
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, data);
    kiln_tensor *view = NULL;
    kiln_tensor *t = NULL;
    const int64_t shape[] = {2, 2};
    FIXTURE_OK(&f, kiln_reshape(x, shape, 2, &view, &f.err));
    FIXTURE_OK(&f, kiln_relu(view, &t, &f.err));
    kiln_release(view); // shares memory with x: must not be reused in place
    FIXTURE_OK(&f, kiln_read(t, back, sizeof(back), &f.err));
    FIXTURE_OK(&f, kiln_read(x, back, sizeof(back), &f.err));
    KILN_CHECK_MEM(back, data, sizeof(data));
    kiln_release(x);
    kiln_release(t);
    fixture_close(&f);
}

static void test_released_unread(void)
{
    fixture f;
    const int64_t dims[] = {4};
    if (!fixture_open(&f, "opencl:0")) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, NULL);
    for (int i = 0; i < 100; i++) {
        kiln_tensor *t = NULL;
        FIXTURE_OK(&f, kiln_add_scalar(x, kiln_i64(i), &t, &f.err));
        kiln_release(t);
    }
    kiln_release(x);
    fixture_close(&f);
}

static void test_close_with_queued_work(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *x = NULL;
    kiln_tensor *t = NULL;
    const int64_t dims[] = {4};
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_device_open(context, "reference", &device, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, NULL, &x, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_exp(x, &t, &err), KILN_STATUS_OK);
    kiln_context_destroy(context);
    kiln_device_release(device);
    kiln_release(x);
    kiln_release(t); // the last hold of all: device and context end here
}

KILN_TEST_MAIN("unit/runtime/fusion", KILN_TEST(test_same_bits_one_kernel),
               KILN_TEST(test_plan_found_again), KILN_TEST(test_programs_are_given_up),
               KILN_TEST(test_constants_are_packed_once), KILN_TEST(test_numbers_are_packed_anew),
               KILN_TEST(test_packed_constants_go), KILN_TEST(test_packed_constants_leave),
               KILN_TEST(test_samples_leave_constants), KILN_TEST(test_corners_are_packed_apart),
               KILN_TEST(test_memory_was_short), KILN_TEST(test_second_launch_fails),
               KILN_TEST(test_in_place_when_unfused), KILN_TEST(test_kept_intermediate_is_written),
               KILN_TEST(test_inputs_survive), KILN_TEST(test_released_unread),
               KILN_TEST(test_close_with_queued_work))
