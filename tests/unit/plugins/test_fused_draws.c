// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers drawn inside a fused kernel are those of the operators alone, bit for bit: by
// vectors that start anywhere, of several dtypes, several in one kernel, and when they are kept.
#include <string.h>

#include "harness.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { MAX_BYTES = 1 << 20, MAX_RESULTS = 4 };

typedef struct shape {
    const char *name;
    size_t rank;
    int64_t dims[3];
    int64_t other[3]; ///< of what broadcasts to it
} shape;

typedef struct results {
    kiln_tensor *tensors[MAX_RESULTS];
    size_t count;
    uint64_t kernels;
} results;

static kiln_error err = KILN_ERROR_INIT;
#define OK(call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, err.message)

static uint64_t kernels(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.kernels_launched;
}

static kiln_tensor *ramp(kiln_device *device, const shape *s)
{
    static float data[MAX_BYTES / 4];
    kiln_tensor *x = NULL;
    for (size_t i = 0; i < MAX_BYTES / 4; i++) {
        data[i] = (float)(i % 1000) * 0.25f - 60;
    }
    OK(kiln_tensor_create(device, KILN_DTYPE_F32, s->rank, s->other, data, &x, &err));
    return x;
}

/// Dropout, and its mask kept.
static void dropout(kiln_device *device, const shape *s, results *out)
{
    kiln_tensor *x = ramp(device, s), *mask = NULL, *drawn = NULL, *kept = NULL;
    OK(kiln_random_bernoulli(device, s->dims, s->rank, KILN_DTYPE_BOOL, 0.9, &mask, &err));
    OK(kiln_cast(mask, KILN_DTYPE_F32, &drawn, &err));
    OK(kiln_mul(drawn, x, &kept, &err));
    OK(kiln_mul_scalar(kept, kiln_f64(1 / 0.9), &out->tensors[0], &err));
    kiln_release(drawn);
    kiln_release(kept);
    kiln_release(x);
    out->tensors[1] = mask;
    out->count = 2;
}

/// x + uniform - uniform, neither kept.
static void noise(kiln_device *device, const shape *s, results *out)
{
    kiln_tensor *x = ramp(device, s), *u = NULL, *v = NULL, *sum = NULL, *y = NULL;
    OK(kiln_random_uniform(device, s->dims, s->rank, KILN_DTYPE_F32, kiln_f64(-0.5), kiln_f64(1.5),
                           &u, &err));
    OK(kiln_add(x, u, &sum, &err));
    OK(kiln_random_uniform(device, s->dims, s->rank, KILN_DTYPE_F32, kiln_f64(0), kiln_f64(1), &v,
                           &err));
    OK(kiln_sub(sum, v, &y, &err));
    kiln_release(u);
    kiln_release(v);
    kiln_release(sum);
    kiln_release(x);
    out->tensors[0] = y;
    out->count = 1;
}

static void normals(kiln_device *device, const shape *s, results *out)
{
    kiln_tensor *x = ramp(device, s), *z = NULL, *y = NULL, *hit = NULL, *sum = NULL;
    OK(kiln_random_normal(device, s->dims, s->rank, KILN_DTYPE_F32, 2.0, 0.5, &z, &err));
    OK(kiln_random_bernoulli(device, s->dims, s->rank, KILN_DTYPE_F32, 0.25, &hit, &err));
    OK(kiln_mul(z, x, &y, &err));
    OK(kiln_add(y, hit, &sum, &err));
    kiln_release(x);
    kiln_release(y);
    kiln_release(hit);
    out->tensors[0] = sum;
    out->tensors[1] = z;
    out->count = 2;
}

/// Chances of 0 and 1, and integers.
static void edges(kiln_device *device, const shape *s, results *out)
{
    kiln_tensor *never = NULL, *always = NULL, *half = NULL, *sum = NULL;
    OK(kiln_random_bernoulli(device, s->dims, s->rank, KILN_DTYPE_I32, 0, &never, &err));
    OK(kiln_random_bernoulli(device, s->dims, s->rank, KILN_DTYPE_I32, 1, &always, &err));
    OK(kiln_random_bernoulli(device, s->dims, s->rank, KILN_DTYPE_I32, 0.5, &half, &err));
    OK(kiln_add(always, never, &sum, &err));
    OK(kiln_add(sum, half, &out->tensors[0], &err));
    kiln_release(never);
    kiln_release(always);
    kiln_release(half);
    kiln_release(sum);
    out->count = 1;
}

typedef struct program {
    const char *name;
    void (*record)(kiln_device *device, const shape *s, results *out);
} program;

static void run(kiln_device *device, const program *p, const shape *s, bool fused, results *out)
{
    OK(kiln_device_set_fusion(device, fused, &err));
    OK(kiln_seed(device, 12345678901234567, &err));
    OK(kiln_sync(device, &err));
    uint64_t before = kernels(device);
    p->record(device, s, out);
    OK(kiln_sync(device, &err));
    out->kernels = kernels(device) - before;
}

static void compare(const results *fused, const results *plain, const char *what)
{
    static unsigned char a[MAX_BYTES], b[MAX_BYTES];
    for (size_t i = 0; i < fused->count; i++) {
        size_t bytes = kiln_tensor_bytes(fused->tensors[i]), at = 0;
        OK(kiln_read(fused->tensors[i], a, bytes, &err));
        OK(kiln_read(plain->tensors[i], b, bytes, &err));
        while (at < bytes && a[at] == b[at]) {
            at++;
        }
        if (at < bytes) {
            KILN_FAIL("%s: result %zu differs from byte %zu of %zu on", what, i, at, bytes);
        }
        kiln_release(fused->tensors[i]);
        kiln_release(plain->tensors[i]);
    }
}

static void test_draws(void)
{
    static const program programs[] = {
        {"dropout", dropout}, {"noise", noise}, {"normals", normals}, {"edges", edges}};
    const shape *s = kiln_test_param();
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    OK(kiln_context_create(NULL, &context, &err));
    if (kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        kiln_context_destroy(context);
        return;
    }
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        results fused = {.count = 0}, plain = {.count = 0};
        run(device, &programs[i], s, true, &fused);
        run(device, &programs[i], s, false, &plain);
        KILN_CHECK_INT(fused.kernels, 1);
        KILN_CHECK(plain.kernels > 2);
        compare(&fused, &plain, programs[i].name);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
}

static const shape flat = {"flat", 1, {100000}, {100000}};
static const shape odd = {"odd", 1, {4099}, {4099}};
static const shape few = {"few", 1, {3}, {3}};
static const shape row = {"row", 2, {57, 93}, {1, 93}};
static const shape column = {"column", 2, {57, 93}, {57, 1}};
static const shape inner = {"inner", 3, {7, 5, 66}, {7, 1, 66}};

KILN_TEST_MAIN("unit/plugins/fused_draws", KILN_TEST_PARAM(test_draws, "flat", &flat),
               KILN_TEST_PARAM(test_draws, "odd", &odd), KILN_TEST_PARAM(test_draws, "few", &few),
               KILN_TEST_PARAM(test_draws, "row", &row),
               KILN_TEST_PARAM(test_draws, "column", &column),
               KILN_TEST_PARAM(test_draws, "inner", &inner))
