// SPDX-License-Identifier: MIT OR Apache-2.0
// Time from the start of a process to the first result of a model: with every cache empty, with
// Kiln's program cache filled but PoCL's own cache empty, and with both filled. Each sample is a
// process of its own; caches are in a temporary folder. The time is that of the whole process, so
// it is an upper bound.

#include "bench.h"

#include <string.h>
#include <unistd.h>

enum { START_SAMPLES = 7, COLD_SAMPLES = 1, MAX_START_SAMPLES = 51 };

typedef struct setting {
    bench_caches caches;
    char input[512];
    char device[160];
} setting;

static kiln_status run_process(const bench_options *options, const setting *where, double *out_ms,
                               kiln_error *err)
{
    char text[64];
    const char *const arguments[] = {"run", options->model, "--input", where->input, "--runs", "0",
                                     NULL};
    return bench_process_run(options, arguments, text, sizeof(text), out_ms, err);
}

/// The name of the device that the processes run on.
static kiln_status find_device(const bench_options *options, char out_name[160], kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_status status = kiln_context_create(NULL, &context, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_device_open(context, options->device, &device, err);
    }
    if (status == KILN_STATUS_OK) {
        snprintf(out_name, 160, "%s", kiln_device_info_of(device)->name);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}

static void report_start(const bench_options *options, const char *device, const char *name,
                         double *samples, uint32_t count, double cold_ms, double bar_ms)
{
    double median = kiln_quantile(samples, count, 0.5);
    bench_report(options, &(bench_result){.name = name,
                                          .value = median,
                                          .unit = "ms",
                                          .against = "all caches empty",
                                          .ratio = cold_ms / median,
                                          .bar = bar_ms > 0 ? cold_ms / bar_ms : 0,
                                          .peer_version = bar_ms > 0 ? "bar: 150 ms" : "-",
                                          .device = device,
                                          .samples = count});
}

static kiln_status measure_start(const bench_options *options, const setting *where, uint32_t count,
                                 kiln_error *err)
{
    double cold[COLD_SAMPLES];
    double samples[MAX_START_SAMPLES];
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < COLD_SAMPLES && status == KILN_STATUS_OK; i++) {
        bench_remove_tree(where->caches.kiln);
        bench_remove_tree(where->caches.pocl);
        status = run_process(options, where, &cold[i], err);
    }
    double cold_ms = kiln_quantile(cold, COLD_SAMPLES, 0.5);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        bench_remove_tree(where->caches.pocl);
        status = run_process(options, where, &samples[i], err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bench_header(options);
    report_start(options, where->device, "start, all cold", cold, COLD_SAMPLES, cold_ms, 0);
    report_start(options, where->device, "start, Kiln's cache warm", samples, count, cold_ms, 0);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = run_process(options, where, &samples[i], err);
    }
    if (status == KILN_STATUS_OK) {
        report_start(options, where->device, "start, all caches warm", samples, count, cold_ms,
                     150.0);
    }
    return status;
}

kiln_status bench_start(const bench_options *options, kiln_error *err)
{
    uint32_t count = options->samples > 0 ? options->samples : START_SAMPLES;
    count = count > MAX_START_SAMPLES ? MAX_START_SAMPLES : count;
    setting where = {0};
    const char *slash = strrchr(options->model, '/');
    int folder = slash != NULL ? (int)(slash - options->model) + 1 : 0;
    snprintf(where.input, sizeof(where.input), "%.*sthree.npy", folder, options->model);
    if (access(options->model, R_OK) != 0 || access(where.input, R_OK) != 0) {
        return kiln_fail(err, NOT_FOUND, "no %s with three.npy beside it; name one with --model",
                         options->model);
    }
    kiln_status status = bench_caches_make(options, /*pocl=*/true, &where.caches, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = find_device(options, where.device, err);
    if (status == KILN_STATUS_OK) {
        status = measure_start(options, &where, count, err);
    }
    bench_caches_remove(&where.caches);
    return status;
}
