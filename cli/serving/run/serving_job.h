// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_JOB_H
#define KILN_SERVING_JOB_H

/// A request on its way: checked against the model, its tensors found. It lies on the stack of the
/// thread that waits for it.

#include "serving_sequences.h"

#include <pthread.h>

typedef struct kilni_serving_job {
    struct kilni_serving_job *next; ///< in the queue, or in the batch
    const kiln_model_request *request;
    kiln_model_answer *answer;
    const kiln_model_tensor *inputs[KILN_MODEL_TENSORS]; ///< in the model's order
    const void *data[KILN_MODEL_TENSORS]; ///< of the inputs
    void *room[KILN_MODEL_TENSORS]; ///< of wanted outputs in shared memory
    uint32_t outputs[KILN_MODEL_TENSORS]; ///< of the model, in the answer's order
    uint32_t n_outputs;
    kilni_serving_sequence *sequence; ///< NULL: the model keeps nothing
    uint64_t rows; ///< 1 where there is no batch dimension
    uint64_t priority;
    uint64_t turn; ///< in the queue's own time: rows that each caller has had before it
    uint64_t queued_ns;
    uint64_t begun_ns;
    kiln_status status;
    kiln_error err;
    bool done;
    pthread_cond_t changed; ///< `done`; under the queue's lock
} kilni_serving_job;

/// Finds the request's inputs and outputs in the model and checks every extent and length. `data`
/// of inputs in shared memory are left out. Errors: INVALID_ARGUMENT naming the tensor.
kiln_status kilni_serving_job_fill(kilni_serving_job *job, const kiln_model_info *info,
                                   kiln_error *err);

/// Whether two jobs can be run in one batch.
bool kilni_serving_job_fits(const kilni_serving_job *a, const kilni_serving_job *b,
                            uint32_t n_inputs);

#endif
