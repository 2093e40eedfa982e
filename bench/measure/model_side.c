// SPDX-License-Identifier: MIT OR Apache-2.0
// The processes that `kiln bench models` measures, and the scripts in Python beside it: how they
// are started and what their lines mean. What is measured and told is bench_models.c's.

#include "model_side.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 128, LINE = 512 };

static const char *const turn = "run 0.3"; // seconds

static const model_peer peers[MODEL_PEERS] = {{"onnxruntime", "ONNX Runtime"},
                                              {"openvino", "OpenVINO"},
                                              {"torch", "PyTorch"},
                                              {"tinygrad", "tinygrad"}};

const model_peer *model_peer_at(size_t index)
{
    return index < MODEL_PEERS ? &peers[index] : NULL;
}

/// "ready MILLISECONDS VERSION".
static kiln_status take_greeting(model_side *s, const char *greeting, kiln_error *err)
{
    static const char word[] = "ready ";
    char *end = NULL;
    if (strncmp(greeting, word, strlen(word)) == 0) {
        s->first_ms = strtod(greeting + strlen(word), &end);
    }
    if (end == NULL || *end != ' ') {
        return kiln_fail(err, INTERNAL, "a measured process said: %.100s", greeting);
    }
    snprintf(s->version, sizeof(s->version), "%.150s", end + 1);
    return KILN_STATUS_OK;
}

/// The arguments of `kiln run --turns`: each .npy file of the folder is an input.
static void list_arguments(const bench_options *options, const char *path,
                           char text[MOST_ARGUMENTS][MODEL_PATH_ROOM],
                           const char *arguments[MOST_ARGUMENTS + 1])
{
    size_t count = 0;
    snprintf(text[count++], MODEL_PATH_ROOM, "%s", options->program);
    snprintf(text[count++], MODEL_PATH_ROOM, "run");
    snprintf(text[count++], MODEL_PATH_ROOM, "--turns");
    if (options->device != NULL) {
        snprintf(text[count++], MODEL_PATH_ROOM, "--device=%.200s", options->device);
    }
    snprintf(text[count++], MODEL_PATH_ROOM, "%.2000s/model.onnx", path);
    DIR *folder = opendir(path);
    for (struct dirent *file;
         folder != NULL && count < MOST_ARGUMENTS && (file = readdir(folder)) != NULL;) {
        size_t length = strlen(file->d_name);
        if (length > 4 && strcmp(file->d_name + length - 4, ".npy") == 0) {
            snprintf(text[count++], MODEL_PATH_ROOM, "--input=%.*s=%.1500s/%.255s", (int)length - 4,
                     file->d_name, path, file->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    for (size_t i = 0; i < count; i++) {
        arguments[i] = text[i];
    }
    arguments[count] = NULL;
}

kiln_status model_side_open_kiln(const bench_options *options, const char *folder,
                                 model_side *out_side, kiln_error *err)
{
    const char *arguments[MOST_ARGUMENTS + 1];
    char greeting[LINE];
    char(*text)[MODEL_PATH_ROOM] = malloc(sizeof(*text) * MOST_ARGUMENTS);
    if (text == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a benchmark");
    }
    *out_side = (model_side){.peer = NULL};
    list_arguments(options, folder, text, arguments);
    kiln_status status = bench_speaker_open(arguments, /*quiet=*/false, &out_side->speaker,
                                            greeting, sizeof(greeting), err);
    free(text);
    return status == KILN_STATUS_OK ? take_greeting(out_side, greeting, err) : status;
}

bool model_side_open_peer(const bench_options *options, const char *folder, const model_peer *peer,
                          uint32_t threads, model_side *out_side)
{
    char count[16], greeting[LINE];
    snprintf(count, sizeof(count), "%u", threads);
    *out_side = (model_side){.peer = peer};
    for (size_t i = 0; bench_python_at(options, i) != NULL; i++) {
        const char *const arguments[] = {bench_python_at(options, i),
                                         KILN_BENCH_DIR "/bench_models_peers.py",
                                         peer->word,
                                         count,
                                         folder,
                                         NULL};
        kiln_error err = KILN_ERROR_INIT;
        if (bench_speaker_open(arguments, /*quiet=*/true, &out_side->speaker, greeting,
                               sizeof(greeting), &err) != KILN_STATUS_OK) {
            continue;
        }
        if (take_greeting(out_side, greeting, &err) == KILN_STATUS_OK) {
            return true;
        }
        model_side_close(out_side);
    }
    return false;
}

void model_side_close(model_side *side)
{
    bench_speaker_close(&side->speaker);
}

kiln_status model_side_turn(model_side *side, double out_numbers[MODEL_NUMBERS], kiln_error *err)
{
    char answer[LINE];
    kiln_status status = bench_speaker_ask(&side->speaker, turn, answer, sizeof(answer), err);
    const char *at = answer;
    for (int i = 0; i < MODEL_NUMBERS && status == KILN_STATUS_OK; i++) {
        char *end = NULL;
        out_numbers[i] = strtod(at, &end);
        if (end == at) {
            status = kiln_fail(err, INTERNAL, "a measured process said: %.100s", answer);
        }
        at = end;
    }
    return status;
}

double model_script_ask(const bench_options *options, const char *word, const char *first,
                        const char *second)
{
    double value = NAN;
    for (size_t i = 0; isnan(value) && bench_python_at(options, i) != NULL; i++) {
        bench_speaker speaker = {0};
        char line[LINE];
        kiln_error err = KILN_ERROR_INIT;
        const char *const arguments[] = {bench_python_at(options, i),
                                         KILN_BENCH_DIR "/bench_models_peers.py",
                                         word,
                                         first,
                                         second,
                                         NULL};
        if (bench_speaker_open(arguments, /*quiet=*/true, &speaker, line, sizeof(line), &err) ==
            KILN_STATUS_OK) {
            const char *space = strchr(line, ' ');
            value = space != NULL ? strtod(space, NULL) : NAN;
        }
        bench_speaker_close(&speaker);
    }
    return value;
}

kiln_status model_side_write(model_side *side, const char *path, kiln_error *err)
{
    char line[MODEL_PATH_ROOM + 16], answer[MODEL_PATH_ROOM + 16];
    snprintf(line, sizeof(line), "write %s", path);
    return bench_speaker_ask(&side->speaker, line, answer, sizeof(answer), err);
}

kiln_status model_script_write(const bench_options *options, const char *folder, const char *name,
                               kiln_error *err)
{
    bench_speaker speaker = {0};
    char line[LINE] = "";
    const char *const arguments[] = {bench_python_at(options, 0),
                                     KILN_BENCH_DIR "/../models/write_models.py", folder, name,
                                     NULL};
    kiln_status status =
        bench_speaker_open(arguments, /*quiet=*/false, &speaker, line, sizeof(line), err);
    bench_speaker_close(&speaker);
    if (status != KILN_STATUS_OK || strncmp(line, "written", 7) != 0) {
        return kiln_fail(err, NOT_FOUND, "%s cannot write %.60s: it needs NumPy and onnx",
                         arguments[0], name);
    }
    return KILN_STATUS_OK;
}
