// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln benchmark MODEL`: how long a run of a model takes and how many runs a second a device
// makes, in one stream or in several that run at the same time, each on its part of the device
// where it can be divided. Decides what is timed: from the call until the results are on the host.

#include "cli_json.h"
#include "cli_progress.h"
#include "model_parts.h"
#include "model_run.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_WARMUP = 256, KEY_DEVICE_ONLY, MOST_STREAMS = 16 };

typedef struct benchmark_options {
    model_options model;
    cli_json_options json;
    double seconds;
    double warmup;
    unsigned long runs; ///< of all streams together; 0: as many as there is time for
    unsigned long streams;
    bool device_only;
} benchmark_options;

static const struct argp_option benchmark_options_table[] = {
    {"seconds", 't', "SECONDS", 0, "how long it measures (default 5)", 0},
    {"runs", 'r', "COUNT", 0, "how many runs it measures, instead of --seconds", 0},
    {"warmup", KEY_WARMUP, "SECONDS", 0, "runs before it measures, at least one (default 0.5)", 0},
    {"streams", 'n', "COUNT", 0, "runs at the same time, at most 16 (default 1)", 0},
    {"no-transfers", KEY_DEVICE_ONLY, NULL, 0, "results stay on the device", 0},
    {0},
};

static double parse_seconds(const char *name, const char *text, struct argp_state *state)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0 && value <= 86400)) {
        argp_error(state, "--%s %s: seconds, at most a day", name, text);
    }
    return value;
}

static unsigned long parse_count(const char *name, const char *text, unsigned long most,
                                 struct argp_state *state)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > most) {
        argp_error(state, "--%s %s: a count from 1 to %lu", name, text, most);
    }
    return value;
}

static error_t parse_benchmark_option(int key, char *text, struct argp_state *state)
{
    benchmark_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->model;
        state->child_inputs[1] = &options->json;
        return 0;
    case 't':
        options->seconds = parse_seconds("seconds", text, state);
        return 0;
    case KEY_WARMUP:
        options->warmup = parse_seconds("warmup", text, state);
        return 0;
    case 'r':
        options->runs = parse_count("runs", text, 100000000, state);
        return 0;
    case 'n':
        options->streams = parse_count("streams", text, MOST_STREAMS, state);
        return 0;
    case KEY_DEVICE_ONLY:
        options->device_only = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- streams ----

struct benchmark;

/// A model of its own, a thread of its own.
typedef struct stream {
    struct benchmark *of;
    model_session session;
    model_run run;
    char address[96];
    double first_ns; ///< compiling among it
    double *samples; ///< a ns for each run
    size_t n_samples;
    size_t room;
    pthread_t thread;
    kiln_status status;
    kiln_error err;
} stream;

typedef struct benchmark {
    const benchmark_options *options;
    char device[64]; ///< that is used when the command line names none
    stream streams[MOST_STREAMS];
    pthread_barrier_t ready; ///< all are warm
    _Atomic(unsigned long) begun; ///< runs
    atomic_bool stop; ///< one has failed
    uint64_t start_ns;
    double taken_ns;
} benchmark;

static kiln_status run_stream_once(stream *s, kiln_error *err)
{
    return s->of->options->device_only ? model_session_run_once(&s->session, err)
                                       : model_run_once(&s->session, &s->run, err);
}

static kiln_status add_sample(stream *s, double ns, kiln_error *err)
{
    if (s->n_samples == s->room) {
        size_t room = s->room * 2 + 1024;
        double *grown = realloc(s->samples, room * sizeof(*grown));
        if (grown == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for samples");
        }
        s->samples = grown;
        s->room = room;
    }
    s->samples[s->n_samples++] = ns;
    return KILN_STATUS_OK;
}

static kiln_status warm_up(stream *s, kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    double most_ns = s->of->options->warmup * 1e9;
    kiln_status status = KILN_STATUS_OK;
    do {
        status = run_stream_once(s, err);
    } while (status == KILN_STATUS_OK && (double)(kiln_time_ns() - start) < most_ns);
    return status;
}

static bool is_over(benchmark *b, uint64_t start)
{
    const benchmark_options *options = b->options;
    if (atomic_load(&b->stop)) {
        return true;
    }
    if (options->runs > 0) {
        return atomic_fetch_add(&b->begun, 1) >= options->runs;
    }
    return (double)(kiln_time_ns() - start) >= options->seconds * 1e9;
}

static kiln_status measure_stream(stream *s, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t start = kiln_time_ns();
    while (status == KILN_STATUS_OK && !is_over(s->of, start)) {
        uint64_t begin = kiln_time_ns();
        status = run_stream_once(s, err);
        if (status == KILN_STATUS_OK) {
            status = add_sample(s, (double)(kiln_time_ns() - begin), err);
        }
    }
    return status;
}

static void *work(void *user)
{
    stream *s = user;
    s->status = warm_up(s, &s->err);
    if (s->status != KILN_STATUS_OK) {
        atomic_store(&s->of->stop, true);
    }
    (void)pthread_barrier_wait(&s->of->ready);
    if (s->status == KILN_STATUS_OK) {
        s->status = measure_stream(s, &s->err);
    }
    if (s->status != KILN_STATUS_OK) {
        atomic_store(&s->of->stop, true);
    }
    return NULL;
}

/// On a part of the device, such as "opencl:0#1/2", when there are several streams and it can be
/// divided; else all streams share it.
static kiln_status open_stream(stream *s, unsigned long index, kiln_error *err)
{
    const benchmark_options *options = s->of->options;
    model_options own = options->model;
    kiln_status status = KILN_STATUS_UNAVAILABLE;
    const char *whole = own.device.device != NULL ? own.device.device : s->of->device;
    if (options->streams > 1 && own.device.n_more == 0 && whole[0] != '\0' &&
        strchr(whole, '#') == NULL) {
        kiln_error unheard = KILN_ERROR_INIT;
        snprintf(s->address, sizeof(s->address), "%.60s#%lu/%lu", whole, index, options->streams);
        own.device.device = s->address;
        status = model_session_open(&s->session, &own, /*invent=*/true, &unheard);
        if (status != KILN_STATUS_OK) {
            model_session_close(&s->session);
        }
    }
    if (status != KILN_STATUS_OK) {
        own.device.device = options->model.device.device;
        status = model_session_open(&s->session, &own, /*invent=*/true, err);
    }
    if (status == KILN_STATUS_OK) {
        snprintf(s->address, sizeof(s->address), "%s", kiln_device_address(s->session.device));
        s->run.n_outputs = s->session.n_outputs;
        uint64_t start = kiln_time_ns();
        status = run_stream_once(s, err);
        s->first_ns = (double)(kiln_time_ns() - start);
    }
    return status;
}

static kiln_status start_streams(benchmark *b, unsigned long *out_started, kiln_error *err)
{
    unsigned long count = b->options->streams;
    for (*out_started = 0; *out_started < count; (*out_started)++) {
        stream *s = &b->streams[*out_started];
        if (pthread_create(&s->thread, NULL, work, s) != 0) {
            // Those that wait at the barrier are let through by threads' work done here.
            atomic_store(&b->stop, true);
            for (unsigned long i = *out_started; i < count; i++) {
                (void)pthread_barrier_wait(&b->ready);
            }
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for stream %lu", *out_started);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status run_streams(benchmark *b, kiln_error *err)
{
    unsigned long count = b->options->streams, started = 0;
    if (pthread_barrier_init(&b->ready, NULL, (unsigned)count + 1) != 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no barrier");
    }
    kiln_status status = start_streams(b, &started, err);
    if (status == KILN_STATUS_OK) {
        (void)pthread_barrier_wait(&b->ready);
    }
    b->start_ns = kiln_time_ns();
    for (unsigned long i = 0; i < started; i++) {
        pthread_join(b->streams[i].thread, NULL);
    }
    b->taken_ns = (double)(kiln_time_ns() - b->start_ns);
    pthread_barrier_destroy(&b->ready);
    for (unsigned long i = 0; i < started && status == KILN_STATUS_OK; i++) {
        status = b->streams[i].status;
        if (status != KILN_STATUS_OK) {
            *err = b->streams[i].err;
        }
    }
    return status;
}

// ---- report ----

typedef struct summary {
    double *samples; ///< of all streams
    size_t count;
    double mean;
    double quantiles[6]; ///< as the table below
    double per_second; ///< runs
} summary;

static const struct {
    const char *name;
    double at;
} quantile_table[] = {{"least", 0}, {"median", .5}, {"p90", .9},
                      {"p95", .95}, {"p99", .99},   {"most", 1}};
enum { N_QUANTILES = sizeof(quantile_table) / sizeof(quantile_table[0]) };

static kiln_status sum_up(const benchmark *b, summary *out, kiln_error *err)
{
    *out = (summary){0};
    for (unsigned long i = 0; i < b->options->streams; i++) {
        out->count += b->streams[i].n_samples;
    }
    if (out->count == 0) {
        return kiln_fail(err, DEADLINE_EXCEEDED, "no run ended in the time; give more --seconds");
    }
    out->samples = malloc(out->count * sizeof(*out->samples));
    if (out->samples == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for samples");
    }
    size_t at = 0;
    for (unsigned long i = 0; i < b->options->streams; i++) {
        const stream *s = &b->streams[i];
        for (size_t k = 0; k < s->n_samples; k++) {
            out->samples[at++] = s->samples[k];
            out->mean += s->samples[k] / (double)out->count;
        }
    }
    for (size_t i = 0; i < N_QUANTILES; i++) {
        out->quantiles[i] = kiln_quantile(out->samples, out->count, quantile_table[i].at);
    }
    out->per_second = (double)out->count / b->taken_ns * 1e9;
    return KILN_STATUS_OK;
}

static long batch_of(const benchmark *b)
{
    return b->options->model.batch > 0 ? b->options->model.batch : 1;
}

static void print_benchmark(const benchmark *b, const summary *sum)
{
    char text[32];
    const stream *first = &b->streams[0];
    json_t *parts = model_parts(first->session.session);
    printf("device: %s (%s)\n", first->address, kiln_device_info_of(first->session.device)->name);
    printf("streams: %lu", b->options->streams);
    for (unsigned long i = 1; i < b->options->streams; i++) {
        printf("%s%s", i == 1 ? ", the others on " : ", ", b->streams[i].address);
    }
    printf("\n");
    if (json_array_size(parts) > 1) {
        model_print_parts(parts);
    }
    json_decref(parts);
    printf("first run: %s\n", cli_format_ns(text, first->first_ns));
    printf("measured: %zu runs in %s, %s\n", sum->count, cli_format_ns(text, b->taken_ns),
           b->options->device_only ? "results left on the device" : "results read by the host");
    printf("latency:");
    for (size_t i = 0; i < N_QUANTILES; i++) {
        printf("%s %s %s", i == 0 ? "" : ",", quantile_table[i].name,
               cli_format_ns(text, sum->quantiles[i]));
    }
    printf(", mean %s\n", cli_format_ns(text, sum->mean));
    printf("throughput: %.2f runs a second", sum->per_second);
    if (batch_of(b) > 1) {
        printf(", %.2f of a batch of %ld", sum->per_second * (double)batch_of(b), batch_of(b));
    }
    printf("\n");
}

static json_t *benchmark_json(const benchmark *b, const summary *sum)
{
    json_t *latency = json_object();
    json_t *devices = json_array();
    for (size_t i = 0; i < N_QUANTILES; i++) {
        (void)json_object_set_new(latency, quantile_table[i].name, json_real(sum->quantiles[i]));
    }
    (void)json_object_set_new(latency, "mean", json_real(sum->mean));
    for (unsigned long i = 0; i < b->options->streams; i++) {
        json_array_append_new(devices, json_string(b->streams[i].address));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:b, s:f, s:o, s:f, s:f}", "kiln",
                     kiln_version(), "model", cli_json_text(b->options->model.model), "device",
                     cli_json_text(kiln_device_info_of(b->streams[0].session.device)->name),
                     "streams", devices, "parts", model_parts(b->streams[0].session.session),
                     "batch", (json_int_t)batch_of(b), "runs", (json_int_t)sum->count, "seconds",
                     b->taken_ns / 1e9, "transfers", !b->options->device_only, "first_run_ns",
                     b->streams[0].first_ns, "latency_ns", latency, "runs_per_second",
                     sum->per_second, "samples_per_second", sum->per_second * (double)batch_of(b));
}

static kiln_status find_device(benchmark *b, kiln_error *err)
{
    kiln_context *context = NULL;
    kiln_status status = cli_open_context(&b->options->model.device, &context, err);
    if (status == KILN_STATUS_OK) {
        const kiln_config *config = kiln_context_env(context)->config;
        const char *said = kiln_config_string(config, KILN_OPTION_DEVICE);
        snprintf(b->device, sizeof(b->device), "%.60s", said[0] != '\0' ? said : "opencl:0");
        cli_close_context(context);
    }
    return status;
}

static kiln_status run_benchmark(benchmark *b, kiln_error *err)
{
    const benchmark_options *options = b->options;
    summary sum = {0};
    kiln_status status = KILN_STATUS_OK;
    cli_progress *progress = cli_progress_begin("opening and compiling");
    status = options->streams > 1 ? find_device(b, err) : status;
    for (unsigned long i = 0; i < options->streams && status == KILN_STATUS_OK; i++) {
        status = open_stream(&b->streams[i], i, err);
    }
    cli_progress_say(progress, "measuring");
    if (status == KILN_STATUS_OK) {
        status = run_streams(b, err);
    }
    cli_progress_end(progress);
    if (status == KILN_STATUS_OK) {
        status = sum_up(b, &sum, err);
    }
    if (status == KILN_STATUS_OK && !cli_json_is_shown(&options->json)) {
        print_benchmark(b, &sum);
    }
    if (status == KILN_STATUS_OK && options->json.wanted) {
        status = cli_json_write(&options->json, benchmark_json(b, &sum), err);
    }
    free(sum.samples);
    return status;
}

int cmd_benchmark(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_options_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        benchmark_options_table,
        parse_benchmark_option,
        "MODEL",
        "Measures latency and throughput of an ONNX model. Inputs that are not given are invented.",
        children,
        NULL,
        NULL};
    benchmark_options options = {
        .model.device.several = true, .seconds = 5, .warmup = 0.5, .streams = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    benchmark *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        status = kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory");
    } else {
        b->options = &options;
        for (size_t i = 0; i < MOST_STREAMS; i++) {
            b->streams[i].of = b;
        }
        status = run_benchmark(b, &err);
        for (size_t i = 0; i < MOST_STREAMS; i++) {
            model_run_free(&b->streams[i].run);
            model_session_close(&b->streams[i].session);
            free(b->streams[i].samples);
        }
    }
    free(b);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("benchmark", &err);
}
