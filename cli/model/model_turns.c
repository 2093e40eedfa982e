// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln run --turns`: a model that runs when a line on standard input says so, for programs that
// measure it in turns with something else. Decides what the lines are; what a run is, is
// model_run.c's.

#define _XOPEN_SOURCE 700
#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 4096 };

/// Kernels and BLAS calls of the model itself, and of measurements.
typedef struct launches {
    uint64_t own;
    uint64_t measuring;
} launches;

static launches count_launches(const model_session *session)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(session->device, &stats);
    uint64_t measuring = stats.kernels_measuring + stats.blas_measuring;
    return (launches){stats.backend.kernels_launched + stats.backend.blas_calls - measuring,
                      measuring};
}

static uint64_t operations_of(const model_session *session)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    if (session->graph != NULL) {
        kiln_graph_info_get(session->graph, &info);
    }
    return info.ops;
}

/// One run that is not timed, as after a rest, then runs for `seconds`, at least one. Says the
/// median and the least time in milliseconds, the number of runs, launches of one run, operations,
/// and the launches of all that compared candidates.
static kiln_status run_turn(model_session *session, double seconds, model_run *run, kiln_error *err)
{
    double samples[MOST_SAMPLES];
    size_t count = 0;
    launches start = count_launches(session);
    kiln_status status = model_run_once(session, run, err);
    for (double used = 0;
         status == KILN_STATUS_OK && count < MOST_SAMPLES && (count == 0 || used < seconds * 1e9);
         used += samples[count++]) {
        uint64_t begin = kiln_time_ns();
        status = model_run_once(session, run, err);
        samples[count] = (double)(kiln_time_ns() - begin);
    }
    if (status == KILN_STATUS_OK) {
        launches end = count_launches(session);
        printf("%.6f %.6f %zu %llu %llu %llu\n", kiln_quantile(samples, count, 0.5) / 1e6,
               kiln_quantile(samples, count, 0) / 1e6, count,
               (unsigned long long)((end.own - start.own) / (count + 1)),
               (unsigned long long)operations_of(session),
               (unsigned long long)(end.measuring - start.measuring));
    }
    return status;
}

static kiln_status obey(model_session *session, const char *line, model_run *run, kiln_error *err)
{
    if (strncmp(line, "run ", 4) == 0) {
        return run_turn(session, strtod(line + 4, NULL), run, err);
    }
    if (strncmp(line, "write ", 6) == 0) {
        kiln_status status = kiln_npy_write(line + 6, &run->outputs[0], err);
        if (status == KILN_STATUS_OK) {
            printf("wrote %s\n", line + 6);
        }
        return status;
    }
    return kiln_fail(err, INVALID_ARGUMENT, "--turns takes \"run SECONDS\" and \"write FILE\"");
}

kiln_status model_turns(const model_options *options, kiln_error *err)
{
    model_session session;
    model_run run = {.n_wanted = 0};
    char *line = NULL;
    size_t room = 0;
    uint64_t start = kiln_time_ns();
    kiln_status status = model_session_open(&session, options, /*invent=*/false, err);
    run.n_outputs = session.n_outputs;
    if (status == KILN_STATUS_OK) {
        status = model_run_once(&session, &run, err);
    }
    if (status == KILN_STATUS_OK) {
        printf("ready %.6f %s\n", (double)(kiln_time_ns() - start) / 1e6,
               kiln_device_info_of(session.device)->name);
    }
    while (status == KILN_STATUS_OK && fflush(stdout) == 0 && getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        status = obey(&session, line, &run, err);
    }
    free(line);
    model_run_free(&run);
    model_session_close(&session);
    return status;
}
