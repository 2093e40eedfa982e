// SPDX-License-Identifier: MIT OR Apache-2.0
// relu(a * b + 1) * 0.5 - b on 64 MiB arrays: the bytes per second of the fused chain against those
// of a copy kernel, and its time against the same operations one by one, which reuse their inputs'
// memory. Rounds are interleaved.

#include "bench.h"

#include <math.h>
#include <stdlib.h>

enum {
    ARRAY_ELEMS = 16 * 1024 * 1024,
    ELEMENTWISE_ROUNDS = 9,
    ELEMENTWISE_REPEATS = 4,
    MAX_ELEMENTWISE_ROUNDS = 101
};

static const double array_bytes = 4.0 * ARRAY_ELEMS;

typedef struct chain {
    kiln_device *device;
    kiln_tensor *a;
    kiln_tensor *b;
} chain;

/// Records the chain; every intermediate is released as soon as it has been used.
static kiln_status record_chain(const chain *self, kiln_tensor **out_result, kiln_error *err)
{
    kiln_tensor *t[4] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_mul(self->a, self->b, &t[0], err));
    KILN_TRY(out, status, kiln_add_scalar(t[0], kiln_f64(1.0), &t[1], err));
    kiln_release(t[0]);
    t[0] = NULL;
    KILN_TRY(out, status, kiln_relu(t[1], &t[2], err));
    kiln_release(t[1]);
    t[1] = NULL;
    KILN_TRY(out, status, kiln_mul_scalar(t[2], kiln_f64(0.5), &t[3], err));
    kiln_release(t[2]);
    t[2] = NULL;
    KILN_TRY(out, status, kiln_sub(t[3], self->b, out_result, err));
out:
    for (size_t i = 0; i < 4; i++) {
        kiln_release(t[i]);
    }
    return status;
}

/// Mean seconds of one chain over REPEATS that are enqueued together.
static kiln_status time_chain(const chain *self, double *out_seconds, kiln_error *err)
{
    kiln_status status = kiln_sync(self->device, err);
    uint64_t start = kiln_time_ns();
    for (int i = 0; i < ELEMENTWISE_REPEATS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *result = NULL;
        status = record_chain(self, &result, err);
        if (status == KILN_STATUS_OK) {
            status =
                kiln_flush(self->device, err); // while the result is held, so that it is written
        }
        kiln_release(result);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(self->device, err);
    }
    *out_seconds = (double)(kiln_time_ns() - start) / 1e9 / ELEMENTWISE_REPEATS;
    return status;
}

static kiln_status check_chain(const chain *self, const float *a, const float *b, float *scratch,
                               kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = record_chain(self, &result, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(result, scratch, sizeof(float) * ARRAY_ELEMS, err);
    }
    kiln_release(result);
    for (size_t i = 0; i < ARRAY_ELEMS && status == KILN_STATUS_OK; i++) {
        float product = a[i] * b[i];
        float sum = product + 1.0f;
        float expected = (sum > 0.0f ? sum : 0.0f) * 0.5f;
        expected -= b[i];
        if (!(fabsf(scratch[i] - expected) <= 1e-6f)) {
            status = kiln_fail(err, INTERNAL, "element %zu is %g, not %g", i, (double)scratch[i],
                               (double)expected);
        }
    }
    return status;
}

static uint64_t kernels_of_one(const chain *self, kiln_error *err)
{
    kiln_device_stats before = KILN_DEVICE_STATS_INIT;
    kiln_device_stats after = KILN_DEVICE_STATS_INIT;
    kiln_tensor *result = NULL;
    kiln_device_stats_get(self->device, &before);
    if (record_chain(self, &result, err) == KILN_STATUS_OK) {
        (void)!kiln_sync(self->device, err);
    }
    kiln_release(result);
    kiln_device_stats_get(self->device, &after);
    return after.backend.kernels_launched - before.backend.kernels_launched;
}

static void report_elementwise(const bench_options *options, const char *device, uint32_t rounds,
                               double *fused, double *unfused, double *copy, const char *shape,
                               uint64_t kernels[2])
{
    double fused_s = kiln_quantile(fused, rounds, 0.5);
    double unfused_s = kiln_quantile(unfused, rounds, 0.5);
    double copy_s = kiln_quantile(copy, rounds, 0.5);
    double fused_rate = 3 * array_bytes / fused_s / 1e9;
    double copy_rate = 2 * array_bytes / copy_s / 1e9;
    char counts[64];
    snprintf(counts, sizeof(counts), "kernels: %llu, unfused %llu", (unsigned long long)kernels[1],
             (unsigned long long)kernels[0]);
    bench_header(options);
    bench_report(options, &(bench_result){.name = "fused chain, 64 MiB f32",
                                          .value = fused_rate,
                                          .unit = "GB/s",
                                          .against = "copy kernel",
                                          .ratio = fused_rate / copy_rate,
                                          .bar = 0.90,
                                          .peer_version = shape,
                                          .device = device,
                                          .samples = rounds});
    bench_report(options, &(bench_result){.name = "fused chain, time",
                                          .value = fused_s * 1e3,
                                          .unit = "ms",
                                          .against = "unfused, in place",
                                          .ratio = unfused_s / fused_s,
                                          .bar = 2.2,
                                          .peer_version = counts,
                                          .device = device,
                                          .samples = rounds});
}

static kiln_status measure_elementwise(const bench_options *options, chain *self, uint32_t rounds,
                                       kiln_error *err)
{
    double fused[MAX_ELEMENTWISE_ROUNDS];
    double unfused[MAX_ELEMENTWISE_ROUNDS];
    double copy[MAX_ELEMENTWISE_ROUNDS];
    uint64_t kernels[2] = {0, 0};
    bench_copy *peer = NULL;
    const char *name = kiln_device_info_of(self->device)->name;
    kiln_status status = bench_copy_create(name, sizeof(float) * ARRAY_ELEMS, &peer, err);
    // The first rounds compile and fill the pool.
    for (int warm = 0; warm < 4 && status == KILN_STATUS_OK; warm++) {
        status = kiln_device_set_fusion(self->device, warm % 2 == 1, err);
        double ignored = 0;
        if (status == KILN_STATUS_OK) {
            status = time_chain(self, &ignored, err);
        }
        kernels[warm % 2] = kernels_of_one(self, err);
    }
    for (uint32_t i = 0; i < rounds && status == KILN_STATUS_OK; i++) {
        KILN_TRY(out, status, bench_copy_time(peer, ELEMENTWISE_REPEATS, &copy[i], err));
        KILN_TRY(out, status, kiln_device_set_fusion(self->device, true, err));
        KILN_TRY(out, status, time_chain(self, &fused[i], err));
        KILN_TRY(out, status, kiln_device_set_fusion(self->device, false, err));
        KILN_TRY(out, status, time_chain(self, &unfused[i], err));
    }
    if (status == KILN_STATUS_OK) {
        report_elementwise(options, name, rounds, fused, unfused, copy, bench_copy_shape(peer),
                           kernels);
    }
out:
    bench_copy_destroy(peer);
    return status;
}

static void fill(float *a, float *b)
{
    uint32_t state = 1;
    for (size_t i = 0; i < ARRAY_ELEMS; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
        state = state * 1664525u + 1013904223u;
        b[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

kiln_status bench_elementwise(const bench_options *options, kiln_error *err)
{
    const int64_t dims[] = {ARRAY_ELEMS};
    uint32_t rounds = options->samples > 0 ? options->samples : ELEMENTWISE_ROUNDS;
    rounds = rounds > MAX_ELEMENTWISE_ROUNDS ? MAX_ELEMENTWISE_ROUNDS : rounds;
    chain self = {0};
    kiln_context *context = NULL;
    float *host = malloc(3 * sizeof(float) * ARRAY_ELEMS);
    kiln_status status = KILN_STATUS_OK;
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    fill(host, host + ARRAY_ELEMS);
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &self.device, err));
    KILN_TRY(out, status,
             kiln_tensor_create(self.device, KILN_DTYPE_F32, 1, dims, host, &self.a, err));
    KILN_TRY(
        out, status,
        kiln_tensor_create(self.device, KILN_DTYPE_F32, 1, dims, host + ARRAY_ELEMS, &self.b, err));
    KILN_TRY(out, status,
             check_chain(&self, host, host + ARRAY_ELEMS, host + 2 * (size_t)ARRAY_ELEMS, err));
    status = measure_elementwise(options, &self, rounds, err);
out:
    kiln_release(self.a);
    kiln_release(self.b);
    kiln_device_release(self.device);
    kiln_context_destroy(context);
    free(host);
    return status;
}
