// SPDX-License-Identifier: MIT OR Apache-2.0
// What the host pays for an operation of a repeated program: recording it, finding its plan, and
// walking the plan with buffers taken and launches handed over, on the null backend, which runs
// nothing. One thread.

#include "bench.h"

enum { OPS = 16, STEPS_PER_SAMPLE = 64, SAMPLES = 401, MAX_SAMPLES = 2001 };

/// Sixteen elementwise operations on small tensors, intermediates released at once, then a flush.
static kiln_status one_step(kiln_device *device, kiln_tensor *a, kiln_tensor *b, kiln_error *err)
{
    kiln_tensor *x = kiln_retain(a);
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < OPS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *y = NULL;
        switch (i % 4) {
        case 0:
            status = kiln_mul(x, b, &y, err);
            break;
        case 1:
            status = kiln_add_scalar(x, kiln_f64(1.0 + i), &y, err);
            break;
        case 2:
            status = kiln_relu(x, &y, err);
            break;
        default:
            status = kiln_sub(x, b, &y, err);
            break;
        }
        kiln_release(x);
        x = y;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_flush(device, err);
    }
    kiln_release(x);
    return status;
}

static kiln_status sample(kiln_device *device, kiln_tensor *a, kiln_tensor *b, double *out_ns,
                          kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    for (int i = 0; i < STEPS_PER_SAMPLE; i++) {
        kiln_status status = one_step(device, a, b, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    *out_ns = (double)(kiln_time_ns() - start) / STEPS_PER_SAMPLE / OPS;
    return KILN_STATUS_OK;
}

static kiln_status measure(const bench_options *options, kiln_device *device, bool fusion,
                           uint32_t count, kiln_tensor *a, kiln_tensor *b, kiln_error *err)
{
    static double samples[MAX_SAMPLES];
    double ignored = 0;
    kiln_status status = kiln_device_set_fusion(device, fusion, err);
    if (status == KILN_STATUS_OK) {
        status = sample(device, a, b, &ignored, err); // searches the plan
    }
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = sample(device, a, b, &samples[i], err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    double median = bench_quantile(samples, count, 0.5);
    double late = bench_quantile(samples, count, 0.9);
    bench_result result = {.name = fusion ? "per operation, median" : "without fusion, median",
                           .value = median,
                           .unit = "ns",
                           .against = "1 us",
                           .ratio = 1000.0 / median,
                           .bar = fusion ? 1.0 : 0,
                           .peer_version = "one thread, record + plan + walk",
                           .device = "null",
                           .samples = count};
    bench_report(options, &result);
    result.name = fusion ? "per operation, 90th pct" : "without fusion, 90th pct";
    result.value = late;
    result.ratio = 1000.0 / late;
    result.bar = 0;
    bench_report(options, &result);
    return KILN_STATUS_OK;
}

kiln_status bench_overhead(const bench_options *options, kiln_error *err)
{
    const int64_t dims[] = {64, 64};
    uint32_t count = options->samples > 0 ? options->samples : SAMPLES;
    count = count > MAX_SAMPLES ? MAX_SAMPLES : count;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *a = NULL;
    kiln_tensor *b = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, "null", &device, err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, NULL, &a, err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, NULL, &b, err));
    bench_header(options);
    KILN_TRY(out, status, measure(options, device, true, count, a, b, err));
    KILN_TRY(out, status, measure(options, device, false, count, a, b, err));
out:
    kiln_release(a);
    kiln_release(b);
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}
