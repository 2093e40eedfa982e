// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_REPLAY_H
#define KILN_IR_REPLAY_H

/// Replayable files: a stream of operations with its inputs (docs/replay.md).

#include "ir_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_replay_input { ///< how an input lies in memory, and its elements
    bool strided; ///< else dense, from the start of its buffer
    int64_t offset; ///< of the first element from the buffer's start, in elements
    int64_t strides[KILN_MAX_RANK]; ///< in elements
    const void *data; ///< dense, row-major; NULL: not recorded
    size_t bytes; ///< of `data`
} kiln_replay_input;

typedef struct kiln_replay {
    const kiln_env *env;
    kiln_ir_graph *graph;
    kiln_replay_input *inputs; ///< one for each input of the graph
    size_t n_inputs;
    char *note; ///< for people: the file's comment, lines without #; or NULL
    kiln_arena arena; ///< of everything here but the graph
} kiln_replay;

/// A replay of a graph that was verified; `inputs` may be NULL: dense and without data. Strides and
/// data are checked as hostile. Ownership: `graph` is taken, also on failure; the rest is copied;
/// `*out_replay` is the caller's (kiln_replay_destroy). Lifetime: `env` must outlive it. Thread:
/// any. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_create(const kiln_env *env, kiln_ir_graph *graph,
                                                       const kiln_replay_input *inputs,
                                                       const char *note, kiln_replay **out_replay,
                                                       kiln_error *err);
KILN_API void kiln_replay_destroy(kiln_replay *replay);

/// Gives elements to the inputs that have none: numbers that follow from `seed`, small ones, so
/// that most operators have something to do. Ownership: the replay's. Lifetime: its. Thread: one at
/// a time. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_fill(kiln_replay *replay, uint64_t seed,
                                                     kiln_error *err);

/// The file's form and back; bytes are hostile. `write` replaces a file as a whole. Ownership: the
/// string is initialised and owned by the caller; `*out_replay` is the caller's. Lifetime: `env`
/// must outlive it. Thread: any. Errors: INVALID_ARGUMENT with the line, DATA_LOSS for missing or
/// damaged data, NOT_FOUND, UNAVAILABLE with the system's reason, RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_replay_encode(const kiln_replay *replay, kiln_string *out,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_decode(const kiln_env *env, const void *bytes,
                                                       size_t length, kiln_replay **out_replay,
                                                       kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_write(const kiln_replay *replay, const char *path,
                                                      kiln_error *err);
KILN_NODISCARD KILN_API kiln_status kiln_replay_read(const kiln_env *env, const char *path,
                                                     kiln_replay **out_replay, kiln_error *err);

/// The smallest part of a stream for which `fails` still gives true: operations are left out, by
/// halves and one by one, and what they made becomes an input with the reference's value. At most
/// `max_tries` parts are tried. Every input must have data. Ownership: `*out_replay` is the
/// caller's; what `fails` sees is borrowed. Lifetime: `env` must outlive it. Thread: one at a time.
/// Errors: FAILED_PRECONDITION when the whole does not fail; as kiln_judge_create.
typedef bool (*kiln_replay_fails_fn)(const kiln_replay *replay, void *user);
KILN_NODISCARD KILN_API kiln_status kiln_replay_reduce(const kiln_replay *replay,
                                                       kiln_replay_fails_fn fails, void *user,
                                                       uint32_t max_tries, kiln_replay **out_replay,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
