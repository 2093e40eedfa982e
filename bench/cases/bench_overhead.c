// SPDX-License-Identifier: MIT OR Apache-2.0
// What the host pays for an operation of a repeated program: recording it, finding its plan and
// walking it with buffers taken and launches handed over, both together, and running it again as a
// graph, on the null backend, which runs nothing. One thread.

#include "bench.h"

enum { OPS = 16, STEPS_PER_SAMPLE = 64, OVERHEAD_SAMPLES = 401, MAX_OVERHEAD_SAMPLES = 2001 };

enum { RECORDING, PLAN_HIT, TOGETHER, REPLAY, MEASURES };

/// Sixteen elementwise operations on small tensors, intermediates released at once.
static kiln_status record_step(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_result,
                               kiln_error *err)
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
    *out_result = x;
    return status;
}

/// One sample of recording, of the flush that finds and walks the plan, and of both.
static kiln_status sample(kiln_device *device, kiln_tensor *a, kiln_tensor *b, uint32_t number,
                          double samples[MEASURES][MAX_OVERHEAD_SAMPLES], kiln_error *err)
{
    uint64_t recording = 0, hit = 0;
    for (int i = 0; i < STEPS_PER_SAMPLE; i++) {
        kiln_tensor *result = NULL;
        uint64_t start = kiln_time_ns();
        kiln_status status = record_step(a, b, &result, err);
        uint64_t recorded = kiln_time_ns();
        if (status == KILN_STATUS_OK) {
            status = kiln_flush(device, err);
        }
        uint64_t end = kiln_time_ns();
        kiln_release(result);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        recording += recorded - start;
        hit += end - recorded;
    }
    samples[RECORDING][number] = (double)recording / STEPS_PER_SAMPLE / OPS;
    samples[PLAN_HIT][number] = (double)hit / STEPS_PER_SAMPLE / OPS;
    samples[TOGETHER][number] = (double)(recording + hit) / STEPS_PER_SAMPLE / OPS;
    return KILN_STATUS_OK;
}

static kiln_status sample_replay(kiln_graph *graph, kiln_tensor *const *inputs, double *out_ns,
                                 kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    for (int i = 0; i < STEPS_PER_SAMPLE; i++) {
        kiln_tensor *result = NULL;
        kiln_status status = kiln_graph_run(graph, inputs, 2, &result, 1, err);
        kiln_release(result);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    *out_ns = (double)(kiln_time_ns() - start) / STEPS_PER_SAMPLE / OPS;
    return KILN_STATUS_OK;
}

static kiln_status capture_step(kiln_device *device, kiln_tensor *const *inputs,
                                kiln_graph **out_graph, kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = kiln_graph_begin(device, inputs, 2, err);
    if (status == KILN_STATUS_OK) {
        status = record_step(inputs[0], inputs[1], &result, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_graph_end(device, &result, 1, out_graph, err);
        } else {
            kiln_graph_cancel(device);
        }
    }
    kiln_release(result);
    return status;
}

static void report_overhead(const bench_options *options, double *samples, uint32_t count,
                            int measure, bool fusion)
{
    static const struct {
        const char *name;
        double bar_ns;
    } rows[MEASURES] = {{"recording", 500}, {"plan hit", 500}, {"both", 1000}, {"replay", 100}};
    double median = kiln_quantile(samples, count, 0.5);
    char name[64], against[32];
    snprintf(name, sizeof(name), "%s%s, median", fusion ? "" : "no fusion: ", rows[measure].name);
    snprintf(against, sizeof(against), "%.1f us", rows[measure].bar_ns / 1000);
    bench_result result = {.name = name,
                           .value = median,
                           .unit = "ns",
                           .against = against,
                           .ratio = rows[measure].bar_ns / median,
                           .bar = fusion ? 1.0 : 0,
                           .peer_version = "per operation, one thread",
                           .device = "null",
                           .samples = count};
    bench_report(options, &result);
    snprintf(name, sizeof(name), "%s%s, 90th pct", fusion ? "" : "no fusion: ", rows[measure].name);
    result.value = kiln_quantile(samples, count, 0.9);
    result.ratio = rows[measure].bar_ns / result.value;
    result.bar = 0;
    bench_report(options, &result);
}

static kiln_status measure_overhead(const bench_options *options, kiln_device *device, bool fusion,
                                    uint32_t count, kiln_tensor *a, kiln_tensor *b, kiln_error *err)
{
    static double samples[MEASURES][MAX_OVERHEAD_SAMPLES];
    kiln_tensor *const inputs[] = {a, b};
    kiln_graph *graph = NULL;
    kiln_status status = kiln_device_set_fusion(device, fusion, err);
    if (status == KILN_STATUS_OK) {
        status = sample(device, a, b, 0, samples, err); // searches the plan
    }
    if (status == KILN_STATUS_OK) {
        status = capture_step(device, inputs, &graph, err);
    }
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = sample(device, a, b, i, samples, err);
        if (status == KILN_STATUS_OK) {
            status = sample_replay(graph, inputs, &samples[REPLAY][i], err);
        }
    }
    for (int i = 0; i < MEASURES && status == KILN_STATUS_OK; i++) {
        report_overhead(options, samples[i], count, i, fusion);
    }
    kiln_graph_destroy(graph);
    return status;
}

kiln_status bench_overhead(const bench_options *options, kiln_error *err)
{
    const int64_t dims[] = {64, 64};
    uint32_t count = options->samples > 0 ? options->samples : OVERHEAD_SAMPLES;
    count = count > MAX_OVERHEAD_SAMPLES ? MAX_OVERHEAD_SAMPLES : count;
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
    KILN_TRY(out, status, measure_overhead(options, device, true, count, a, b, err));
    KILN_TRY(out, status, measure_overhead(options, device, false, count, a, b, err));
out:
    kiln_release(a);
    kiln_release(b);
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}
