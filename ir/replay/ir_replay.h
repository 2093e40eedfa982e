// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_REPLAY_H
#define KILN_IR_REPLAY_H

/// Replayable files: a stream of operations with its inputs (docs/replay.md). Bytes are hostile
/// until checked.
///
/// Unless a function says otherwise: one thread at a time uses a replay; the caller owns each
/// replay that it gets (kiln_replay_destroy), and `env` must outlive it. Errors: INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

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

/// Makes a replay of a graph that was verified. `inputs` may be NULL: dense and without data.
/// Strides and data are checked and copied. The replay takes the graph, also on failure.
KILN_NODISCARD KILN_API kiln_status kiln_replay_create(const kiln_env *env, kiln_ir_graph *graph,
                                                       const kiln_replay_input *inputs,
                                                       const char *note, kiln_replay **out_replay,
                                                       kiln_error *err);

/// Frees the replay with its graph. Takes NULL.
KILN_API void kiln_replay_destroy(kiln_replay *replay);

/// Gives elements to the inputs that have none: small numbers that follow from `seed`, so that most
/// operators have something to do.
KILN_NODISCARD KILN_API kiln_status kiln_replay_fill(kiln_replay *replay, uint64_t seed,
                                                     kiln_error *err);

/// Appends the file's form to `out`, which the caller initialised and owns.
KILN_NODISCARD KILN_API kiln_status kiln_replay_encode(const kiln_replay *replay, kiln_string *out,
                                                       kiln_error *err);

/// Reads the file's form. Errors: INVALID_ARGUMENT with the line, DATA_LOSS for missing or damaged
/// data.
KILN_NODISCARD KILN_API kiln_status kiln_replay_decode(const kiln_env *env, const void *bytes,
                                                       size_t length, kiln_replay **out_replay,
                                                       kiln_error *err);

/// Writes the file, replacing it as a whole. Errors: also UNAVAILABLE with the system's reason.
KILN_NODISCARD KILN_API kiln_status kiln_replay_write(const kiln_replay *replay, const char *path,
                                                      kiln_error *err);

/// Reads the file. Errors: those of kiln_replay_decode; NOT_FOUND; UNAVAILABLE with the system's
/// reason.
KILN_NODISCARD KILN_API kiln_status kiln_replay_read(const kiln_env *env, const char *path,
                                                     kiln_replay **out_replay, kiln_error *err);

/// Whether a part of a stream still fails. The replay is borrowed for the call.
typedef bool (*kiln_replay_fails_fn)(const kiln_replay *replay, void *user);

/// Finds the smallest part of a stream for which `fails` still gives true. Operations are left out,
/// by halves and one by one, and what they made becomes an input with the reference's value. At
/// most `max_tries` parts are tried. Every input must have data. Errors: FAILED_PRECONDITION when
/// the whole does not fail; as kiln_judge_create.
KILN_NODISCARD KILN_API kiln_status kiln_replay_reduce(const kiln_replay *replay,
                                                       kiln_replay_fails_fn fails, void *user,
                                                       uint32_t max_tries, kiln_replay **out_replay,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
