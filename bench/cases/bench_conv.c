// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolutions alone, f32, one image: those of ResNet-50 and the depthwise ones of MobileNetV2,
// from dense tensors to dense tensors with constant weights, beside oneDNN through PyTorch in a
// process of its own (bench_conv_peers.py) with as many threads. The sides take turns, and before
// each the other must have gone to sleep. A line at the end has the geometric mean.

#include "bench.h"
#include "bench_speaker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONV_ROUNDS = 9, MAX_CONV_ROUNDS = 51, MOST_ELEMENTS = 1 << 22, CONV_LINE = 256 };

static const double turn_seconds = 0.05, settle_seconds = 1;
static const double bar_each = 0.6, bar_mean = 0.85;
static const double allowed_apart = 1e-4; // of the sum of squares

typedef struct conv_case {
    const char *name;
    int64_t inputs, outputs; ///< channels
    int64_t length; ///< of the image's sides
    int64_t window;
    int64_t stride;
    int64_t groups;
} conv_case;

static const conv_case conv_cases[] = {
    {"resnet_3x64_224_k7_s2", 3, 64, 224, 7, 2, 1},
    {"resnet_64x64_56_k1", 64, 64, 56, 1, 1, 1},
    {"resnet_64x64_56_k3", 64, 64, 56, 3, 1, 1},
    {"resnet_64x256_56_k1", 64, 256, 56, 1, 1, 1},
    {"resnet_256x64_56_k1", 256, 64, 56, 1, 1, 1},
    {"resnet_256x128_56_k1_s2", 256, 128, 56, 1, 2, 1},
    {"resnet_128x128_28_k3", 128, 128, 28, 3, 1, 1},
    {"resnet_128x512_28_k1", 128, 512, 28, 1, 1, 1},
    {"resnet_256x512_56_k1_s2", 256, 512, 56, 1, 2, 1},
    {"resnet_512x128_28_k1", 512, 128, 28, 1, 1, 1},
    {"resnet_512x256_28_k1_s2", 512, 256, 28, 1, 2, 1},
    {"resnet_256x256_14_k3", 256, 256, 14, 3, 1, 1},
    {"resnet_256x1024_14_k1", 256, 1024, 14, 1, 1, 1},
    {"resnet_512x1024_28_k1_s2", 512, 1024, 28, 1, 2, 1},
    {"resnet_1024x256_14_k1", 1024, 256, 14, 1, 1, 1},
    {"resnet_1024x512_14_k1_s2", 1024, 512, 14, 1, 2, 1},
    {"resnet_512x512_7_k3", 512, 512, 7, 3, 1, 1},
    {"resnet_512x2048_7_k1", 512, 2048, 7, 1, 1, 1},
    {"resnet_1024x2048_14_k1_s2", 1024, 2048, 14, 1, 2, 1},
    {"resnet_2048x512_7_k1", 2048, 512, 7, 1, 1, 1},
    {"depthwise_32_112", 32, 32, 112, 3, 1, 32},
    {"depthwise_96_112_s2", 96, 96, 112, 3, 2, 96},
    {"depthwise_144_56", 144, 144, 56, 3, 1, 144},
    {"depthwise_144_56_s2", 144, 144, 56, 3, 2, 144},
    {"depthwise_192_28", 192, 192, 28, 3, 1, 192},
    {"depthwise_192_28_s2", 192, 192, 28, 3, 2, 192},
    {"depthwise_384_14", 384, 384, 14, 3, 1, 384},
    {"depthwise_576_14_s2", 576, 576, 14, 3, 2, 576},
    {"depthwise_960_7", 960, 960, 7, 3, 1, 960},
};
enum { CONV_CASES = sizeof(conv_cases) / sizeof(conv_cases[0]) };

const char *bench_conv_case(size_t index)
{
    return index < CONV_CASES ? conv_cases[index].name : NULL;
}

static int64_t elements_of_result(const conv_case *c)
{
    int64_t side = (c->length + c->window / 2 * 2 - c->window) / c->stride + 1;
    return c->outputs * side * side;
}

typedef struct conv_run { ///< one case
    const bench_options *options;
    const conv_case *c;
    kiln_device *device;
    kiln_tensor *image;
    kiln_tensor *weights;
    bench_speaker *peer; ///< NULL: not there
    const char *version; ///< of the peer
    uint32_t rounds;
} conv_run;

typedef struct conv_times { ///< milliseconds
    double ours[MAX_CONV_ROUNDS], ours_least[MAX_CONV_ROUNDS];
    double theirs_least[MAX_CONV_ROUNDS];
    double ratios[MAX_CONV_ROUNDS];
} conv_times;

// ---- Kiln ----

static kiln_status record_conv(const conv_run *run, kiln_tensor **out, kiln_error *err)
{
    const int64_t strides[] = {run->c->stride, run->c->stride}, pad = run->c->window / 2;
    const int64_t padding[] = {pad, pad, pad, pad};
    kiln_conv_options options = KILN_CONV_OPTIONS_INIT;
    options.strides = strides;
    options.n_strides = 2;
    options.padding = padding;
    options.n_padding = 4;
    options.groups = run->c->groups;
    return kiln_conv(run->image, run->weights, NULL, &options, out, err);
}

static kiln_status compute_conv(const conv_run *run, kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, record_conv(run, &result, err));
    KILN_TRY(out, status, kiln_flush(run->device, err));
    KILN_TRY(out, status, kiln_sync(run->device, err));
out:
    kiln_release(result);
    return status;
}

/// Runs for `seconds`: the median and the least of a run in milliseconds.
static kiln_status take_own_turn(const conv_run *run, double seconds, double *out_median,
                                 double *out_least, kiln_error *err)
{
    enum { MOST_RUNS = 4096 };
    static double times[MOST_RUNS];
    kiln_status status = KILN_STATUS_OK;
    uint32_t count = 0;
    KILN_TRY(out, status, compute_conv(run, err));
    for (uint64_t start = kiln_time_ns();
         count == 0 || (count < MOST_RUNS && (double)(kiln_time_ns() - start) < seconds * 1e9);) {
        uint64_t begin = kiln_time_ns();
        KILN_TRY(out, status, compute_conv(run, err));
        times[count++] = (double)(kiln_time_ns() - begin) / 1e6;
    }
    *out_median = kiln_quantile(times, count, 0.5);
    *out_least = times[0]; // sorted by now
out:
    return status;
}

/// Waits until no thread of this process computes.
static void rest_own(void)
{
    enum { PAUSE_NS = 10000000, MOST_PAUSES = 100 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t before = kiln_processor_ns(), used = PAUSE_NS;
    for (int i = 0; i < MOST_PAUSES && used > PAUSE_NS / 10; i++) {
        (void)nanosleep(&pause, NULL);
        used = kiln_processor_ns() - before;
        before += used;
    }
}

// ---- the peer ----

static bool open_torch(const bench_options *options, uint32_t threads, bench_speaker *out_peer,
                       char *version, size_t capacity)
{
    char count[16];
    snprintf(count, sizeof(count), "%u", threads);
    for (size_t i = 0; bench_python_at(options, i) != NULL; i++) {
        const char *const arguments[] = {bench_python_at(options, i),
                                         KILN_BENCH_DIR "/bench_conv_peers.py", count, NULL};
        kiln_error err = KILN_ERROR_INIT;
        if (bench_speaker_open(arguments, /*quiet=*/true, out_peer, version, capacity, &err) ==
            KILN_STATUS_OK) {
            return true;
        }
    }
    fprintf(stderr, "PyTorch is not there: left out\n");
    return false;
}

/// The median and the least of a run in milliseconds; the sum of the result's squares.
static kiln_status ask_torch(const conv_run *run, double seconds, double out_numbers[3],
                             kiln_error *err)
{
    char line[CONV_LINE], answer[CONV_LINE];
    const conv_case *c = run->c;
    snprintf(line, sizeof(line), "%lld %lld %lld %lld %lld %lld %g", (long long)c->inputs,
             (long long)c->outputs, (long long)c->length, (long long)c->window,
             (long long)c->stride, (long long)c->groups, seconds);
    kiln_status status = bench_speaker_ask(run->peer, line, answer, sizeof(answer), err);
    if (status == KILN_STATUS_OK &&
        sscanf(answer, "%lf %lf %lf", &out_numbers[0], &out_numbers[1], &out_numbers[2]) != 3) {
        status = kiln_fail(err, INTERNAL, "PyTorch said of %s: %.100s", c->name, answer);
    }
    return status;
}

// ---- one case ----

static kiln_status take_rounds_of_conv(const conv_run *run, conv_times *t, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < run->rounds; i++) {
        if (run->peer != NULL) {
            bench_speaker_rest(run->peer);
        }
        KILN_TRY(out, status,
                 take_own_turn(run, turn_seconds, &t->ours[i], &t->ours_least[i], err));
        if (run->peer != NULL) {
            double numbers[3] = {0};
            rest_own();
            KILN_TRY(out, status, ask_torch(run, turn_seconds, numbers, err));
            t->theirs_least[i] = numbers[1];
            t->ratios[i] = numbers[0] / t->ours[i];
        }
    }
out:
    return status;
}

/// The ratio of medians in the middle of the rounds, and that of the fastest runs, which other
/// programs disturb least.
static void report_conv(const conv_run *run, conv_times *t, double out_ratios[2])
{
    const conv_case *c = run->c;
    double flops = 2 * (double)(elements_of_result(c) * c->inputs / c->groups) *
                   (double)(c->window * c->window);
    double least = kiln_quantile(t->ours_least, run->rounds, 0);
    bench_result row = {.name = c->name,
                        .value = flops / 1e6 / kiln_quantile(t->ours, run->rounds, 0.5),
                        .unit = "GFLOP/s",
                        .against = "PyTorch",
                        .ratio = kiln_quantile(t->ratios, run->rounds, 0.5),
                        .bar = run->peer != NULL ? bar_each : 0,
                        .peer_version = run->version,
                        .device = kiln_device_info_of(run->device)->name,
                        .samples = run->rounds};
    bench_report(run->options, &row);
    row.against = "PyTorch, least of each";
    row.value = flops / 1e6 / least;
    row.bar = 0;
    out_ratios[0] = row.ratio;
    out_ratios[1] = row.ratio = kiln_quantile(t->theirs_least, run->rounds, 0) / least;
    if (run->peer != NULL) {
        bench_report(run->options, &row);
    }
}

/// bench_conv_peers.py makes the same.
static void fill_with_numbers(float *host, size_t count, uint32_t state)
{
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
}

/// Fails when the peer's result is another; `host` has room for it.
static kiln_status check_conv(const conv_run *run, float *host, kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = KILN_STATUS_OK;
    double numbers[3] = {0}, sum = 0;
    size_t count = (size_t)elements_of_result(run->c);
    KILN_TRY(out, status, record_conv(run, &result, err));
    KILN_TRY(out, status, kiln_read(result, host, count * sizeof(*host), err));
    KILN_TRY(out, status, ask_torch(run, 0, numbers, err));
    for (size_t i = 0; i < count; i++) {
        sum += (double)host[i] * (double)host[i];
    }
    if (!(fabs(sum - numbers[2]) <= allowed_apart * numbers[2])) {
        status = kiln_fail(err, INTERNAL, "%s: squares add up to %g, PyTorch's to %g", run->c->name,
                           sum, numbers[2]);
    }
out:
    kiln_release(result);
    return status;
}

static kiln_status make_conv(conv_run *run, float *host, kiln_error *err)
{
    const conv_case *c = run->c;
    const int64_t image[] = {1, c->inputs, c->length, c->length};
    const int64_t weights[] = {c->outputs, c->inputs / c->groups, c->window, c->window};
    kiln_status status = KILN_STATUS_OK;
    fill_with_numbers(host, (size_t)(c->inputs * c->length * c->length), 1);
    KILN_TRY(out, status,
             kiln_tensor_create(run->device, KILN_DTYPE_F32, 4, image, host, &run->image, err));
    fill_with_numbers(host, (size_t)(weights[0] * weights[1] * c->window * c->window), 2);
    KILN_TRY(out, status,
             kiln_tensor_create(run->device, KILN_DTYPE_F32, 4, weights, host, &run->weights, err));
    kiln_tensor_mark_constant(run->weights);
out:
    return status;
}

static kiln_status measure_conv(conv_run *run, float *host, double out_ratios[2], kiln_error *err)
{
    conv_times t = {.ratios = {0}};
    double ignored = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, make_conv(run, host, err));
    KILN_TRY(out, status, take_own_turn(run, settle_seconds, &ignored, &ignored, err));
    if (run->peer != NULL) {
        KILN_TRY(out, status, check_conv(run, host, err));
    }
    KILN_TRY(out, status, take_rounds_of_conv(run, &t, err));
    report_conv(run, &t, out_ratios);
out:
    kiln_release(run->image);
    kiln_release(run->weights);
    run->image = run->weights = NULL;
    return status;
}

// ---- all ----

typedef struct conv_mean { ///< logarithms of ratios, of medians and of the fastest runs
    double sums[2];
    uint32_t count;
} conv_mean;

static void report_mean(const conv_run *run, const conv_mean *mean)
{
    static const char *const against[] = {"PyTorch", "PyTorch, least of each"};
    for (int i = 0; i < 2 && mean->count > 1; i++) {
        const bench_result row = {.name = "geometric mean",
                                  .value = mean->count,
                                  .unit = "cases",
                                  .against = against[i],
                                  .ratio = exp(mean->sums[i] / mean->count),
                                  .bar = i == 0 ? bar_mean : 0,
                                  .peer_version = run->version,
                                  .device = kiln_device_info_of(run->device)->name,
                                  .samples = run->rounds};
        bench_report(run->options, &row);
    }
}

static kiln_status measure_convs(conv_run *run, float *host, kiln_error *err)
{
    conv_mean mean = {.count = 0};
    kiln_status status = KILN_STATUS_OK;
    bench_header(run->options);
    for (size_t i = 0; i < CONV_CASES && status == KILN_STATUS_OK; i++) {
        double ratios[2] = {0, 0};
        run->c = &conv_cases[i];
        if (bench_wanted(run->options, run->c->name)) {
            status = measure_conv(run, host, ratios, err);
        }
        if (ratios[0] > 0) {
            mean.count++;
            mean.sums[0] += log(ratios[0]);
            mean.sums[1] += log(ratios[1]);
        }
    }
    if (status == KILN_STATUS_OK) {
        report_mean(run, &mean);
    }
    return status;
}

kiln_status bench_conv(const bench_options *options, kiln_error *err)
{
    uint32_t samples = options->samples > 0 ? options->samples : CONV_ROUNDS;
    conv_run run = {.options = options,
                    .rounds = samples > MAX_CONV_ROUNDS ? MAX_CONV_ROUNDS : samples,
                    .version = "-"};
    char version[CONV_LINE];
    bench_speaker peer = {0};
    kiln_context *context = NULL;
    kiln_status status = KILN_STATUS_OK;
    float *host = malloc(MOST_ELEMENTS * sizeof(*host));
    if (host == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, options->device, &run.device, err));
    const kiln_device_info *info = kiln_device_info_of(run.device);
    if (info->type == KILN_DEVICE_CPU &&
        open_torch(options, info->compute_units, &peer, version, sizeof(version))) {
        run.peer = &peer;
        run.version = version;
    }
    KILN_TRY(out, status, measure_convs(&run, host, err));
out:
    bench_speaker_close(&peer);
    kiln_device_release(run.device);
    kiln_context_destroy(context);
    free(host);
    return status;
}
