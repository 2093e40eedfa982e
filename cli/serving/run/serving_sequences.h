// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_SEQUENCES_H
#define KILN_SERVING_SEQUENCES_H

/// The sequences of a model that keeps states between requests: which there are, which instance has
/// the state of each, and when one is let go. Any thread may call these, but for init and fini.

#include "onnx.h"
#include "remote_models.h"

#include <pthread.h>

/// A sequence of a caller's requests. What has no lock belongs to the thread of its instance while
/// a request is there.
typedef struct kilni_serving_sequence {
    struct kilni_serving_sequence *next;
    char id[KILN_MODEL_NAME];
    char caller[KILN_MODEL_NAME];
    uint32_t instance; ///< by its index
    uint32_t waiting; ///< requests on their way; under the lock
    bool listed; ///< further requests find it; under the lock
    uint64_t used_ns; ///< under the lock
    kiln_onnx_state *state; ///< of a model that joins none; NULL before its first run
    kiln_tensor *values[KILN_MODEL_TENSORS]; ///< of one that joins: for each state, rows of these
    uint64_t first_row; ///< of the sequence's own rows there
    uint64_t rows; ///< that each of its requests has; 0 before its first run
    bool lost; ///< a run failed, and its state is gone
} kilni_serving_sequence;

typedef struct kilni_serving_sequences {
    const kiln_env *env;
    const kiln_model_info *info; ///< bounds; it outlives them
    pthread_mutex_t lock;
    pthread_cond_t changed; ///< for the thread
    pthread_t thread; ///< lets go of those that rest too long
    bool started;
    bool asleep; ///< it waits until one comes to rest
    bool stopping;
    kilni_serving_sequence *first;
    uint32_t count;
} kilni_serving_sequences;

/// Lets go of what the sequence keeps. Its instance's device is still open.
void kilni_serving_sequence_forget(kilni_serving_sequence *sequence);

/// `info` may be filled later, before the first call of another function.
void kilni_serving_sequences_init(kilni_serving_sequences *sequences, const kiln_env *env,
                                  const kiln_model_info *info);

/// Frees all of them; no request is there. The instances' devices are still open.
void kilni_serving_sequences_fini(kilni_serving_sequences *sequences);

/// Lets go of sequences that rest, on a thread of its own. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_serving_sequences_start(kilni_serving_sequences *sequences, kiln_error *err);

/// Finds the sequence of a request, or begins it; `*out_sequence` is held until `leave`, and NULL
/// where the model keeps nothing. Errors: INVALID_ARGUMENT for a request without a sequence or of
/// one that is not there, UNAVAILABLE when there are too many, RESOURCE_EXHAUSTED.
kiln_status kilni_serving_sequences_enter(kilni_serving_sequences *sequences,
                                          const kiln_model_request *request,
                                          kilni_serving_sequence **out_sequence, kiln_error *err);

/// `ended`: no further request finds it. Takes NULL.
void kilni_serving_sequences_leave(kilni_serving_sequences *sequences,
                                   kilni_serving_sequence *sequence, bool ended);

/// How many there are.
uint32_t kilni_serving_sequences_count(kilni_serving_sequences *sequences);

#endif
