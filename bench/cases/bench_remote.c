// SPDX-License-Identifier: MIT OR Apache-2.0
// A device behind gRPC: `kiln serve` in another process. Bytes up and down beside a raw socket that
// copies as many, and through shared memory beside a Unix socket; operations in a row on one
// session, and on eight at once; one small operation with its result beside a bare ping-pong on
// gRPC's C core; and the first result of a session whose 100 MiB of constants an earlier one has
// sent. Rounds are interleaved. A model's answers: bench_remote_digits.c.

#include "bench.h"
#include "bench_server.h"
#include "bench_socket.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 7, MAX_ROUNDS = 101, OPERATIONS = 200000, TRIPS = 3000, SESSIONS = 8 };
enum { WEIGHTS = 25, COLUMNS = 1024, ROWS = 1024 }; // of f32: 100 MiB
static const size_t bulk_bytes = 256u << 20;
static const double session_bar_ms = 50;

// ---- bytes ----

static double gigabytes(uint64_t ns)
{
    return (double)bulk_bytes / (double)ns;
}

static kiln_status upload(kiln_device *device, const void *data, kiln_tensor **out_tensor,
                          uint64_t *out_ns, kiln_error *err)
{
    const int64_t dims[] = {(int64_t)(bulk_bytes / sizeof(float))};
    uint64_t start = kiln_time_ns();
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, data, out_tensor, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_ns = kiln_time_ns() - start;
    return status;
}

/// What an operation has used, so that the device has it, and every page of it was written.
static kiln_status download(kiln_device *device, kiln_tensor *source, void *data, uint64_t *out_ns,
                            kiln_error *err)
{
    kiln_tensor *result = NULL;
    kiln_status status = kiln_neg(source, &result, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    uint64_t start = kiln_time_ns();
    if (status == KILN_STATUS_OK) {
        status = kiln_read(source, data, bulk_bytes, err);
    }
    *out_ns = kiln_time_ns() - start;
    kiln_release(result);
    return status;
}

/// A device at the socket file, and memory of its own for what goes there and back.
typedef struct end {
    kiln_device *device;
    void *data;
} end;

/// The same socket file with and without shared memory.
static kiln_status shared_round(const end ends[2], double out_rates[4], kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < 2 && status == KILN_STATUS_OK; i++) {
        kiln_tensor *tensor = NULL;
        uint64_t up = 1;
        uint64_t down = 1;
        status = upload(ends[i].device, ends[i].data, &tensor, &up, err);
        if (status == KILN_STATUS_OK) {
            status = download(ends[i].device, tensor, ends[i].data, &down, err);
        }
        kiln_release(tensor);
        out_rates[2 * i] = gigabytes(up);
        out_rates[2 * i + 1] = gigabytes(down);
    }
    return status;
}

typedef struct bulk_samples {
    double up[MAX_ROUNDS];
    double down[MAX_ROUNDS];
    double raw_up[MAX_ROUNDS];
    double raw_down[MAX_ROUNDS];
} bulk_samples;

static kiln_status bulk_round(kiln_device *device, bench_socket *raw, float *data,
                              bulk_samples *samples, uint32_t round, kiln_error *err)
{
    kiln_tensor *tensor = NULL;
    uint64_t ns[4] = {1, 1, 1, 1};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, bench_socket_copy(raw, data, bulk_bytes, /*up=*/true, &ns[0], err));
    KILN_TRY(out, status, upload(device, data, &tensor, &ns[1], err));
    KILN_TRY(out, status, bench_socket_copy(raw, data, bulk_bytes, /*up=*/false, &ns[2], err));
    KILN_TRY(out, status, download(device, tensor, data, &ns[3], err));
    samples->raw_up[round] = gigabytes(ns[0]);
    samples->up[round] = gigabytes(ns[1]);
    samples->raw_down[round] = gigabytes(ns[2]);
    samples->down[round] = gigabytes(ns[3]);
out:
    kiln_release(tensor);
    return status;
}

static void report(const bench_options *options, const char *name, double value, const char *unit,
                   const char *against, double ratio, double bar, const char *device,
                   uint32_t samples)
{
    const bench_result result = {.name = name,
                                 .value = value,
                                 .unit = unit,
                                 .against = against,
                                 .ratio = ratio,
                                 .bar = bar,
                                 .peer_version = "loopback, two processes",
                                 .device = device,
                                 .samples = samples};
    bench_report(options, &result);
}

static kiln_status bulk(const bench_options *options, kiln_device *device, const char *served,
                        uint32_t rounds, kiln_error *err)
{
    bulk_samples *samples = malloc(sizeof(*samples));
    float *data = malloc(bulk_bytes);
    bench_socket *raw = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (samples == NULL || data == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bulk_bytes);
        goto out;
    }
    memset(data, 1, bulk_bytes);
    KILN_TRY(out, status, bench_socket_open(bulk_bytes, &raw, err));
    for (uint32_t i = 0; i <= rounds; i++) { // the first one warms up
        KILN_TRY(out, status, bulk_round(device, raw, data, samples, i > 0 ? i - 1 : 0, err));
    }
    double up = kiln_quantile(samples->up, rounds, 0.5);
    double down = kiln_quantile(samples->down, rounds, 0.5);
    double raw_up = kiln_quantile(samples->raw_up, rounds, 0.5);
    double raw_down = kiln_quantile(samples->raw_down, rounds, 0.5);
    report(options, "upload 256 MiB", up, "GB/s", "raw socket", up / raw_up, 0.5, served, rounds);
    report(options, "download 256 MiB", down, "GB/s", "raw socket", down / raw_down, 0.5, served,
           rounds);
out:
    bench_socket_close(raw);
    free(samples);
    free(data);
    return status;
}

static kiln_status shared_memory(const bench_options *options, kiln_device *shared,
                                 kiln_device *socket, const char *served, uint32_t rounds,
                                 kiln_error *err)
{
    double rates[4][MAX_ROUNDS];
    end ends[] = {{shared, NULL}, {socket, NULL}};
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < 2; i++) {
        KILN_TRY(out, status, kiln_host_alloc(ends[i].device, bulk_bytes, &ends[i].data, err));
        memset(ends[i].data, 1, bulk_bytes);
    }
    for (uint32_t i = 0; i <= rounds; i++) { // the first one warms up
        double round[4];
        KILN_TRY(out, status, shared_round(ends, round, err));
        for (int k = 0; k < 4; k++) {
            rates[k][i > 0 ? i - 1 : 0] = round[k];
        }
    }
    double up = kiln_quantile(rates[0], rounds, 0.5);
    double down = kiln_quantile(rates[1], rounds, 0.5);
    report(options, "shared upload 256 MiB", up, "GB/s", "its Unix socket",
           up / kiln_quantile(rates[2], rounds, 0.5), 2.0, served, rounds);
    report(options, "shared download 256 MiB", down, "GB/s", "its Unix socket",
           down / kiln_quantile(rates[3], rounds, 0.5), 2.0, served, rounds);
out:
    kiln_host_free(shared, ends[0].data);
    kiln_host_free(socket, ends[1].data);
    return status;
}

// ---- operations ----

/// One long chain; nothing is waited for until its end.
static kiln_status pipeline_round(kiln_device *device, kiln_tensor *x, double *out_per_s,
                                  kiln_error *err)
{
    kiln_tensor *last = kiln_retain(x);
    kiln_status status = KILN_STATUS_OK;
    uint64_t start = kiln_time_ns();
    for (int i = 0; i < OPERATIONS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *next = NULL;
        status = kiln_add(last, x, &next, err);
        kiln_release(last);
        last = next;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_per_s = OPERATIONS * 1e9 / (double)(kiln_time_ns() - start);
    kiln_release(last);
    return status;
}

static kiln_status trip_round(kiln_tensor *x, double *out_us, kiln_error *err)
{
    float back[4];
    double samples[TRIPS];
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < TRIPS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *y = NULL;
        uint64_t start = kiln_time_ns();
        status = kiln_add(x, x, &y, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_read(y, back, sizeof(back), err);
        }
        kiln_release(y);
        samples[i] = (double)(kiln_time_ns() - start) / 1000;
    }
    *out_us = status == KILN_STATUS_OK ? kiln_quantile(samples, TRIPS, 0.5) : 0;
    return status;
}

static kiln_status operations(const bench_options *options, kiln_context *context,
                              kiln_device *device, const char *served, uint32_t rounds,
                              kiln_error *err)
{
    const int64_t dims[] = {4};
    double per_s[MAX_ROUNDS];
    double trip_us[MAX_ROUNDS];
    double bare_us[MAX_ROUNDS];
    bench_pingpong_fn pingpong = NULL;
    kiln_tensor *x = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, bench_peer_pingpong(&pingpong, err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, NULL, &x, err));
    for (uint32_t i = 0; i <= rounds; i++) { // the first one warms up
        uint32_t at = i > 0 ? i - 1 : 0;
        KILN_TRY(out, status, pipeline_round(device, x, &per_s[at], err));
        KILN_TRY(out, status, pingpong(kiln_context_env(context), TRIPS, &bare_us[at], err));
        KILN_TRY(out, status, trip_round(x, &trip_us[at], err));
    }
    double rate = kiln_quantile(per_s, rounds, 0.5);
    double trip = kiln_quantile(trip_us, rounds, 0.5);
    double bare = kiln_quantile(bare_us, rounds, 0.5);
    report(options, "pipelined operations", rate, "/s", "1,000,000 a second", rate / 1e6, 1.0,
           served, rounds);
    report(options, "one operation and its result", trip, "us", "C-core ping-pong", bare / trip,
           0.2, served, rounds);
out:
    kiln_release(x);
    return status;
}

// ---- sessions at once ----

/// A session of its own, and in each round a thread of its own.
typedef struct runner {
    kiln_context *context;
    kiln_device *device;
    kiln_tensor *x;
    pthread_t thread;
    kiln_status status;
    kiln_error err;
} runner;

static kiln_status open_runner(runner *self, const char *address, kiln_error *err)
{
    const int64_t dims[] = {4};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &self->context, err));
    KILN_TRY(out, status, kiln_device_open(self->context, address, &self->device, err));
    KILN_TRY(out, status,
             kiln_tensor_create(self->device, KILN_DTYPE_F32, 1, dims, NULL, &self->x, err));
out:
    return status;
}

static void close_runner(runner *self)
{
    kiln_release(self->x);
    kiln_device_release(self->device);
    kiln_context_destroy(self->context);
}

static void *run_session(void *pointer)
{
    runner *self = pointer;
    double own_per_s = 0;
    self->status = pipeline_round(self->device, self->x, &own_per_s, &self->err);
    return NULL;
}

static kiln_status runners_round(runner *runners, double *out_per_s, kiln_error *err)
{
    uint64_t start = kiln_time_ns();
    kiln_status status = KILN_STATUS_OK;
    int begun = 0;
    while (begun < SESSIONS &&
           pthread_create(&runners[begun].thread, NULL, run_session, &runners[begun]) == 0) {
        begun++;
    }
    for (int i = 0; i < begun; i++) {
        pthread_join(runners[i].thread, NULL);
        if (status == KILN_STATUS_OK && runners[i].status != KILN_STATUS_OK) {
            status = runners[i].status;
            *err = runners[i].err;
        }
    }
    *out_per_s = (double)SESSIONS * OPERATIONS * 1e9 / (double)(kiln_time_ns() - start);
    return begun == SESSIONS ? status
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a session");
}

static kiln_status sessions_at_once(const bench_options *options, const char *address,
                                    const char *served, uint32_t rounds, kiln_error *err)
{
    runner runners[SESSIONS] = {{0}};
    double per_s[MAX_ROUNDS];
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < SESSIONS; i++) {
        KILN_TRY(out, status, open_runner(&runners[i], address, err));
    }
    for (uint32_t i = 0; i <= rounds; i++) { // the first one warms up
        KILN_TRY(out, status, runners_round(runners, &per_s[i > 0 ? i - 1 : 0], err));
    }
    double rate = kiln_quantile(per_s, rounds, 0.5);
    report(options, "operations of 8 sessions", rate, "/s", "1,500,000 a second", rate / 1.5e6, 1.0,
           served, rounds);
out:
    for (int i = 0; i < SESSIONS; i++) {
        close_runner(&runners[i]);
    }
    return status;
}

// ---- sessions ----

/// The sum of the first rows of all constants.
static kiln_status add_rows(kiln_tensor *const *weights, kiln_error *err)
{
    const int64_t starts[] = {0, 0};
    const int64_t ends[] = {1, COLUMNS};
    float back[COLUMNS];
    kiln_tensor *sum = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < WEIGHTS && status == KILN_STATUS_OK; i++) {
        kiln_tensor *row = NULL;
        kiln_tensor *next = NULL;
        status = kiln_slice(weights[i], starts, 2, ends, 2, NULL, 0, &row, err);
        if (status == KILN_STATUS_OK && sum != NULL) {
            status = kiln_add(sum, row, &next, err);
            kiln_release(row);
            row = next;
        }
        kiln_release(sum);
        sum = row;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(sum, back, sizeof(back), err);
    }
    kiln_release(sum);
    return status;
}

/// All that a session needs, as a process has it that has just begun: digests come from the cache.
static kiln_status session_round(const char *address, const float *data, double *out_ms,
                                 kiln_error *err)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *weights[WEIGHTS] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    uint64_t start = kiln_time_ns();
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, address, &device, err));
    for (uint64_t i = 0; i < WEIGHTS; i++) {
        kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
        memory.bytes = data + i * ROWS * COLUMNS;
        memory.stamp = (kiln_hash128){.low = i + 1, .high = (uint64_t)getpid()};
        KILN_TRY(
            out, status,
            kiln_tensor_wrap_constant(device, KILN_DTYPE_F32, 2, dims, &memory, &weights[i], err));
    }
    KILN_TRY(out, status, add_rows(weights, err));
    *out_ms = (double)(kiln_time_ns() - start) / 1e6;
out:
    for (int i = 0; i < WEIGHTS; i++) {
        kiln_release(weights[i]);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
    return status;
}

static kiln_status sessions(const bench_options *options, const char *address, const char *served,
                            uint32_t rounds, kiln_error *err)
{
    const size_t mine = (size_t)getpid() % 8191;
    double ms[MAX_ROUNDS];
    float *data = malloc(sizeof(float) * WEIGHTS * ROWS * COLUMNS);
    kiln_status status = KILN_STATUS_OK;
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for constants");
    }
    for (size_t i = 0; i < (size_t)WEIGHTS * ROWS * COLUMNS; i++) {
        data[i] = (float)(i % 8191 + mine); // nobody has sent these
    }
    for (uint32_t i = 0; i <= rounds && status == KILN_STATUS_OK; i++) { // the first one sends them
        status = session_round(address, data, &ms[i > 0 ? i - 1 : 0], err);
    }
    if (status == KILN_STATUS_OK) {
        double first = kiln_quantile(ms, rounds, 0.5);
        report(options, "second session of 100 MiB", first, "ms", "50 ms", session_bar_ms / first,
               1.0, served, rounds);
    }
    free(data);
    return status;
}

// ---- all of it ----

const char *bench_remote_case(size_t index)
{
    static const char *const names[] = {"bulk",     "shared",  "operations",
                                        "sessions", "session", "digits"};
    return index < sizeof(names) / sizeof(names[0]) ? names[index] : NULL;
}

kiln_status bench_remote(const bench_options *options, kiln_error *err)
{
    const char *served = options->device != NULL ? options->device : "null";
    uint32_t rounds = options->samples > 0 ? options->samples : ROUNDS;
    bench_server server = {0};
    kiln_context *context = NULL;
    kiln_device *tcp = NULL;
    kiln_device *local = NULL;
    kiln_context *plain = NULL; // its devices share no memory
    kiln_device *socket = NULL;
    kiln_status status = KILN_STATUS_OK;
    rounds = rounds < MAX_ROUNDS ? rounds : MAX_ROUNDS;
    KILN_TRY(out, status, bench_server_start(options, served, NULL, &server, err));
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, server.tcp, &tcp, err));
    KILN_TRY(out, status, kiln_device_open(context, server.path, &local, err));
    KILN_TRY(out, status, kiln_context_create(NULL, &plain, err));
    KILN_TRY(out, status, kiln_context_set(plain, "remote-memory", "0", err));
    KILN_TRY(out, status, kiln_device_open(plain, server.path, &socket, err));
    bench_header(options);
    if (bench_wanted(options, "bulk")) {
        KILN_TRY(out, status, bulk(options, tcp, served, rounds, err));
    }
    if (bench_wanted(options, "shared")) {
        KILN_TRY(out, status, shared_memory(options, local, socket, served, rounds, err));
    }
    if (bench_wanted(options, "operations")) {
        KILN_TRY(out, status, operations(options, context, local, served, rounds, err));
    }
    if (bench_wanted(options, "sessions")) {
        KILN_TRY(out, status, sessions_at_once(options, server.path, served, rounds, err));
    }
    if (bench_wanted(options, "session")) {
        KILN_TRY(out, status, sessions(options, server.path, served, rounds, err));
    }
    if (bench_wanted(options, "digits")) {
        KILN_TRY(out, status, bench_remote_digits(options, kiln_context_env(context), rounds, err));
    }
out:
    kiln_device_release(socket);
    kiln_context_destroy(plain);
    kiln_device_release(local);
    kiln_device_release(tcp);
    kiln_context_destroy(context);
    bench_server_stop(&server);
    return status;
}
