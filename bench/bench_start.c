// SPDX-License-Identifier: MIT OR Apache-2.0
// Time from the start of a process to the first result of a model: with every cache empty, with
// Kiln's program cache filled but PoCL's own cache empty, and with both filled. Each sample is a
// process of its own; caches are in a temporary folder. The time is that of the whole process, so
// it is an upper bound.

#define _XOPEN_SOURCE 700
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SAMPLES = 7, COLD_SAMPLES = 1, MAX_SAMPLES = 51 };

typedef struct folders {
    char root[64];
    char kiln[96];
    char pocl[96];
    char input[512];
    char device[160];
} folders;

static kiln_status run_once(const bench_options *options, const folders *where, double *out_ms,
                            kiln_error *err)
{
    char *const argv[] = {(char *)(uintptr_t)options->program,
                          "run",
                          (char *)(uintptr_t)options->model,
                          "--input",
                          (char *)(uintptr_t)where->input,
                          "--repeat",
                          "0",
                          NULL,
                          NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int code = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    uint64_t start = kiln_time_ns();
    int failed = posix_spawn(&child, options->program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        return kiln_fail(err, NOT_FOUND, "cannot start %s: %s", options->program, strerror(failed));
    }
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) {
    }
    *out_ms = (double)(kiln_time_ns() - start) / 1e6;
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        return kiln_fail(err, INTERNAL, "`kiln run %s` failed", options->model);
    }
    return KILN_STATUS_OK;
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

static void report(const bench_options *options, const char *device, const char *name,
                   double *samples, uint32_t count, double cold_ms, double bar_ms)
{
    double median = bench_quantile(samples, count, 0.5);
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

static kiln_status measure(const bench_options *options, const folders *where, uint32_t count,
                           kiln_error *err)
{
    double cold[COLD_SAMPLES];
    double samples[MAX_SAMPLES];
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < COLD_SAMPLES && status == KILN_STATUS_OK; i++) {
        bench_remove_tree(where->kiln);
        bench_remove_tree(where->pocl);
        status = run_once(options, where, &cold[i], err);
    }
    double cold_ms = bench_quantile(cold, COLD_SAMPLES, 0.5);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        bench_remove_tree(where->pocl);
        status = run_once(options, where, &samples[i], err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bench_header(options);
    report(options, where->device, "start, all cold", cold, COLD_SAMPLES, cold_ms, 0);
    report(options, where->device, "start, Kiln's cache warm", samples, count, cold_ms, 0);
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = run_once(options, where, &samples[i], err);
    }
    if (status == KILN_STATUS_OK) {
        report(options, where->device, "start, all caches warm", samples, count, cold_ms, 150.0);
    }
    return status;
}

kiln_status bench_start(const bench_options *options, kiln_error *err)
{
    uint32_t count = options->samples > 0 ? options->samples : SAMPLES;
    count = count > MAX_SAMPLES ? MAX_SAMPLES : count;
    folders where = {.root = "/tmp/kiln-bench-XXXXXX"};
    const char *slash = strrchr(options->model, '/');
    int folder = slash != NULL ? (int)(slash - options->model) + 1 : 0;
    snprintf(where.input, sizeof(where.input), "%.*sthree.npy", folder, options->model);
    if (access(options->model, R_OK) != 0 || access(where.input, R_OK) != 0) {
        return kiln_fail(err, NOT_FOUND, "no %s with three.npy beside it; name one with --model",
                         options->model);
    }
    if (mkdtemp(where.root) == NULL) {
        return kiln_fail(err, UNAVAILABLE, "no temporary folder: %s", strerror(errno));
    }
    snprintf(where.kiln, sizeof(where.kiln), "%s/kiln", where.root);
    snprintf(where.pocl, sizeof(where.pocl), "%s/pocl", where.root);
    setenv("KILN_CACHE_DIR", where.kiln, 1);
    setenv("POCL_CACHE_DIR", where.pocl, 1);
    if (options->device != NULL) {
        setenv("KILN_DEVICE", options->device, 1);
    }
    kiln_status status = find_device(options, where.device, err);
    if (status == KILN_STATUS_OK) {
        status = measure(options, &where, count, err);
    }
    bench_remove_tree(where.root);
    return status;
}
