// SPDX-License-Identifier: MIT OR Apache-2.0
// A process that finds plans, programs and measured winners on disk: the time from opening the
// device to the first result of a transformer block, beside a repeated run. It must not compile,
// search or measure. Each sample is a process of its own, to which KILN_BENCH_WARM says how often
// to repeat; two before them fill the caches.

#include "bench.h"
#include "transformer.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILLING = 2,
    WARM_SAMPLES = 7,
    MAX_WARM_SAMPLES = 51,
    WARM_REPEATS = 100,
    FILLING_REPEATS = 400
};

/// What a process says of itself.
typedef struct life {
    double first_ms; ///< from before the context to the first result
    double repeated_ms;
    unsigned long long searched; ///< segments that fusers were asked about
    unsigned long long built; ///< programs compiled
    unsigned long long measured; ///< launches of the first run beyond those of a repeated one
} life;

static kiln_status run_model(kiln_tensor *const *parts, float *result, kiln_error *err)
{
    kiln_tensor *tensor = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, transformer_record(parts, &tensor, err));
    KILN_TRY(out, status, kiln_read(tensor, result, TRANSFORMER_ELEMENTS * sizeof(float), err));
out:
    kiln_release(tensor);
    return status;
}

static unsigned long long launches(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.kernels_launched + stats.backend.blas_calls;
}

static kiln_status live(const bench_options *options, int repeats, kiln_context **context,
                        kiln_device **device, kiln_tensor **parts, life *out, kiln_error *err)
{
    static float result[TRANSFORMER_ELEMENTS];
    static double samples[FILLING_REPEATS];
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_status status = KILN_STATUS_OK;
    uint64_t start = kiln_time_ns();
    KILN_TRY(out, status, kiln_context_create(NULL, context, err));
    KILN_TRY(out, status, kiln_device_open(*context, options->device, device, err));
    KILN_TRY(out, status, transformer_make(*device, parts, err));
    KILN_TRY(out, status, run_model(parts, result, err));
    out->first_ms = (double)(kiln_time_ns() - start) / 1e6;
    unsigned long long first = launches(*device);
    for (int i = 0; i < repeats; i++) {
        start = kiln_time_ns();
        KILN_TRY(out, status, run_model(parts, result, err));
        samples[i] = (double)(kiln_time_ns() - start) / 1e6;
    }
    unsigned long long run = (launches(*device) - first) / (unsigned long long)repeats;
    kiln_device_stats_get(*device, &stats);
    out->repeated_ms = kiln_quantile(samples, (size_t)repeats, 0.5);
    out->searched = stats.plans_searched;
    out->built = stats.backend.programs_built;
    out->measured = first > run ? first - run : 0;
out:
    return status;
}

static kiln_status child(const bench_options *options, int repeats, kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *parts[TRANSFORMER_PARTS] = {NULL};
    life l = {0};
    kiln_status status = live(options, repeats, &context, &device, parts, &l, err);
    if (status == KILN_STATUS_OK) {
        printf("%.3f %.4f %llu %llu %llu %s\n", l.first_ms, l.repeated_ms, l.searched, l.built,
               l.measured, kiln_device_info_of(device)->name);
    }
    for (int i = 0; i < TRANSFORMER_PARTS; i++) {
        kiln_release(parts[i]);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}

static kiln_status start(const bench_options *options, int repeats, life *out, char name[160],
                         kiln_error *err)
{
    static const char *const arguments[] = {"bench", "warm", NULL};
    char text[16], line[512];
    double whole_ms = 0;
    snprintf(text, sizeof(text), "%d", repeats);
    setenv("KILN_BENCH_WARM", text, 1);
    kiln_status status = bench_process_run(options, arguments, line, sizeof(line), &whole_ms, err);
    if (status == KILN_STATUS_OK &&
        sscanf(line, "%lf %lf %llu %llu %llu %159[^\n]", &out->first_ms, &out->repeated_ms,
               &out->searched, &out->built, &out->measured, name) != 6) {
        status = kiln_fail(err, INTERNAL, "a warm process said: %.100s", line);
    }
    return status;
}

static kiln_status measure_warm(const bench_options *options, uint32_t count, kiln_error *err)
{
    double first[MAX_WARM_SAMPLES], repeated[MAX_WARM_SAMPLES], ratio[MAX_WARM_SAMPLES];
    char name[160] = "";
    life l = {0};
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < FILLING && status == KILN_STATUS_OK; i++) {
        status = start(options, FILLING_REPEATS, &l, name, err);
    }
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        KILN_TRY(out, status, start(options, WARM_REPEATS, &l, name, err));
        first[i] = l.first_ms;
        repeated[i] = l.repeated_ms;
        ratio[i] = (3 * l.repeated_ms + 60) / l.first_ms;
        if (l.searched + l.built + l.measured > 0) {
            status = kiln_fail(err, INTERNAL,
                               "a warm process searched %llu plans, compiled %llu programs and "
                               "made %llu launches for measurements",
                               l.searched, l.built, l.measured);
        }
    }
    if (status == KILN_STATUS_OK) {
        bench_header(options);
        bench_report(options,
                     &(bench_result){.name = "warm_transformer",
                                     .value = kiln_quantile(first, count, 0.5),
                                     .unit = "ms",
                                     .against = "3 repeated runs + 60 ms",
                                     .ratio = kiln_quantile(ratio, count, 0.5),
                                     .bar = 1,
                                     .peer_version = "nothing compiled, searched, measured",
                                     .device = name,
                                     .samples = count});
        bench_report(options, &(bench_result){.name = "warm_transformer_repeated",
                                              .value = kiln_quantile(repeated, count, 0.5),
                                              .unit = "ms",
                                              .against = "the first result",
                                              .ratio = kiln_quantile(first, count, 0.5) /
                                                       kiln_quantile(repeated, count, 0.5),
                                              .peer_version = "-",
                                              .device = name,
                                              .samples = count});
    }
out:
    return status;
}

kiln_status bench_warm(const bench_options *options, kiln_error *err)
{
    const char *started = getenv("KILN_BENCH_WARM");
    if (started != NULL) {
        int repeats = (int)strtol(started, NULL, 10);
        return child(options, repeats < 1 || repeats > FILLING_REPEATS ? WARM_REPEATS : repeats,
                     err);
    }
    uint32_t count = options->samples > 0 ? options->samples : WARM_SAMPLES;
    bench_caches caches;
    kiln_status status = bench_caches_make(options, /*pocl=*/false, &caches, err);
    if (status == KILN_STATUS_OK) {
        status = measure_warm(options, count > MAX_WARM_SAMPLES ? MAX_WARM_SAMPLES : count, err);
        bench_caches_remove(&caches);
    }
    return status;
}
