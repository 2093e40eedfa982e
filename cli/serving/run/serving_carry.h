// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_CARRY_H
#define KILN_SERVING_CARRY_H

/// Runs of a model that keeps states: each with the values of its sequence, or of several sequences
/// of a model that joins them. One thread at a time uses a session.

#include "serving_sequences.h"

/// Makes the states of a model that joins no sequences stay on the device. Errors: of
/// kiln_onnx_session_bind.
kiln_status kilni_serving_carry_bind(kiln_onnx_session *session, const kiln_model_info *info,
                                     kiln_error *err);

/// A sequence in a run.
typedef struct kilni_serving_seat {
    kilni_serving_sequence *sequence;
    uint64_t rows;
    bool ends;
} kilni_serving_seat;

/// A run: on what, and which sequences stand where in it.
typedef struct kilni_serving_carry {
    kiln_onnx_session *session;
    kiln_device *device;
    const kiln_model_info *info;
    const uint32_t *places; ///< of the states' outputs, among those of the session
    kilni_serving_seat *seats; ///< the caller's; several only where the model joins
    uint32_t n_seats; ///< 0: the model keeps nothing
    uint64_t rows; ///< of all seats together
    kiln_tensor *next[KILN_MODEL_TENSORS]; ///< of one that joins: what the states become
} kilni_serving_carry;

/// Runs the session with `given`, which has room for all inputs of the model, with the sequences'
/// states, and the controls. `out_tensors` are those of kiln_onnx_session_run. A sequence is lost
/// when it runs alone and the run fails. Errors: also FAILED_PRECONDITION for one that is lost,
/// INVALID_ARGUMENT for another number of rows than before.
kiln_status kilni_serving_carry_run(kilni_serving_carry *carry, kiln_onnx_input *given,
                                    size_t n_given, kiln_tensor **out_tensors, size_t n_outputs,
                                    kiln_error *err);

/// The run's states are the sequences' from now on. Until then a run in which several sequences are
/// joined has changed none of them.
void kilni_serving_carry_commit(kilni_serving_carry *carry);

/// Lets go of what was not committed.
void kilni_serving_carry_fini(kilni_serving_carry *carry);

#endif
