// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_MODEL_SIDE_H
#define KILN_BENCH_MODEL_SIDE_H

/// The sides of `kiln bench models`: Kiln and its peers, each a process of its own with one model
/// open (bench_speaker.h), and the scripts in Python that write models and compare results. One
/// thread at a time.

#include "bench_speaker.h"

enum { MODEL_PATH_ROOM = 2048, MODEL_PEERS = 4 };

typedef struct model_peer {
    const char *word; ///< for the script
    const char *name; ///< for people
} model_peer;

/// The first is ONNX Runtime; NULL past the last.
const model_peer *model_peer_at(size_t index);

typedef struct model_side {
    bench_speaker speaker;
    const model_peer *peer; ///< NULL: Kiln
    char version[160];
    double first_ms; ///< to the first result
} model_side;

/// The numbers that a turn gives.
enum {
    MODEL_MEDIAN_MS,
    MODEL_LEAST_MS,
    MODEL_RUNS,
    MODEL_LAUNCHES,
    MODEL_OPERATIONS,
    MODEL_MEASURING, ///< launches that compared candidates
    MODEL_NUMBERS
};

/// `kiln run --turns` on the model of a folder. `*out_side` is the caller's (model_side_close).
kiln_status model_side_open_kiln(const bench_options *options, const char *folder,
                                 model_side *out_side, kiln_error *err);

/// The peer from the first interpreter that has it; false: none has, or it fails on this model.
bool model_side_open_peer(const bench_options *options, const char *folder, const model_peer *peer,
                          uint32_t threads, model_side *out_side);

/// Takes one that was never opened.
void model_side_close(model_side *side);

/// Runs for the seconds of a turn.
kiln_status model_side_turn(model_side *side, double out_numbers[MODEL_NUMBERS], kiln_error *err);

/// Writes the first output to a .npy file.
kiln_status model_side_write(model_side *side, const char *path, kiln_error *err);

/// What bench_models_peers.py says to `word` with two files; NAN when no interpreter can.
double model_script_ask(const bench_options *options, const char *word, const char *first,
                        const char *second);

/// Lets models/write_models.py write a model below a folder, unless it is there.
kiln_status model_script_write(const bench_options *options, const char *folder, const char *name,
                               kiln_error *err);

#endif
