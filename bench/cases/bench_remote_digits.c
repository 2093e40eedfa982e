// SPDX-License-Identifier: MIT OR Apache-2.0
// The digits model behind `kiln serve --models` over a Unix socket: the time of an answer beside
// that of a bare ping-pong on gRPC's C core and the model's own time together, each the median of
// its samples. The model's own is that of `kiln benchmark` on the same device: its input lies
// there, its output is read. Rounds are interleaved.

#include "bench.h"
#include "bench_server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWERS = 1000, MOST_DIGITS_ROUNDS = 101, PRINTED_BYTES = 16384, FOLDER_BYTES = 32 };

/// A folder of models with this one; "" when there is none to be removed.
static kiln_status make_digits(char folder[FOLDER_BYTES], kiln_error *err)
{
    char path[128];
    snprintf(folder, FOLDER_BYTES, "/tmp/kiln-bench-XXXXXX"); // filled in by mkdtemp
    if (mkdtemp(folder) == NULL) {
        folder[0] = '\0';
        return kiln_fail(err, UNAVAILABLE, "no folder for a model");
    }
    snprintf(path, sizeof(path), "%s/digits", folder);
    bool made = mkdir(path, 0700) == 0;
    snprintf(path, sizeof(path), "%s/digits/1", folder);
    made = made && mkdir(path, 0700) == 0;
    snprintf(path, sizeof(path), "%s/digits/1/model.onnx", folder);
    made = made && symlink(KILN_BENCH_DIR "/../../examples/digits/digits.onnx", path) == 0;
    return made ? KILN_STATUS_OK : kiln_fail(err, UNAVAILABLE, "no folder for a model");
}

/// The median of `kiln benchmark`.
static kiln_status time_digits(const bench_options *options, const char *device, const char *folder,
                               double *out_us, kiln_error *err)
{
    char path[128];
    char *printed = malloc(PRINTED_BYTES);
    double ms = 0;
    snprintf(path, sizeof(path), "%s/digits/1/model.onnx", folder);
    const char *const arguments[] = {"benchmark", path,  "--device", device, "--random",
                                     "--seconds", "0.5", "--json",   NULL};
    kiln_status status =
        printed != NULL ? bench_process_run(options, arguments, printed, PRINTED_BYTES, &ms, err)
                        : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for what a process prints");
    const char *median = status == KILN_STATUS_OK ? strstr(printed, "\"median\":") : NULL;
    if (median != NULL) {
        *out_us = strtod(median + strlen("\"median\":"), NULL) / 1000;
    } else if (status == KILN_STATUS_OK) {
        status = kiln_fail(err, NOT_FOUND, "kiln benchmark printed no median");
    }
    free(printed);
    return status;
}

static void report_answer(const bench_options *options, const char *device,
                          double samples[3][MOST_DIGITS_ROUNDS], uint32_t rounds)
{
    double answer = kiln_quantile(samples[0], rounds, 0.5);
    double bare = kiln_quantile(samples[1], rounds, 0.5);
    double model = kiln_quantile(samples[2], rounds, 0.5);
    char version[64];
    snprintf(version, sizeof(version), "%.0f us and %.0f us", bare, model);
    const bench_result result = {.name = "an answer of digits",
                                 .value = answer,
                                 .unit = "us",
                                 .against = "ping-pong and model",
                                 .ratio = (bare + model) / answer,
                                 .bar = 1 / 1.2,
                                 .peer_version = version,
                                 .device = device,
                                 .samples = rounds};
    bench_report(options, &result);
}

kiln_status bench_remote_digits(const bench_options *options, const kiln_env *env, uint32_t rounds,
                                kiln_error *err)
{
    const char *device = options->device != NULL ? options->device : "opencl:0";
    char folder[FOLDER_BYTES] = "";
    double samples[3][MOST_DIGITS_ROUNDS];
    bench_server server = {0};
    bench_pingpong_fn pingpong = NULL;
    bench_answers_fn answers = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, bench_peer_pingpong(&pingpong, err));
    KILN_TRY(out, status, bench_peer_answers(&answers, err));
    KILN_TRY(out, status, make_digits(folder, err));
    KILN_TRY(out, status, bench_server_start(options, device, folder, &server, err));
    for (uint32_t i = 0; i <= rounds; i++) { // the first one warms up
        uint32_t at = i > 0 ? i - 1 : 0;
        KILN_TRY(out, status, answers(env, server.path, ANSWERS, &samples[0][at], err));
        KILN_TRY(out, status, pingpong(env, ANSWERS, &samples[1][at], err));
        KILN_TRY(out, status, time_digits(options, device, folder, &samples[2][at], err));
    }
    report_answer(options, device, samples, rounds);
out:
    bench_server_stop(&server);
    if (folder[0] != '\0') {
        bench_remove_tree(folder);
    }
    return status;
}
