// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_CARRY_H
#define KILN_SERVING_CARRY_H

/// Runs of a model that keeps states: each with the values of its sequence. One thread at a time
/// uses a session.

#include "serving_sequences.h"

/// Makes the model's states stay on the device. Errors: of kiln_onnx_session_bind.
kiln_status kilni_serving_carry_bind(kiln_onnx_session *session, const kiln_model_info *info,
                                     kiln_error *err);

/// A run: on what, and where in which sequence it stands.
typedef struct kilni_serving_carry {
    kiln_onnx_session *session;
    kiln_device *device;
    const kiln_model_info *info;
    kilni_serving_sequence *sequence;
    uint64_t rows;
    bool ends;
} kilni_serving_carry;

/// Runs the session with `given`, which has room for all inputs of the model, with the sequence's
/// states, and the controls. `out_tensors` are those of kiln_onnx_session_run. The sequence is lost
/// when the run fails. Errors: also FAILED_PRECONDITION for one that is lost, INVALID_ARGUMENT for
/// another number of rows than before.
kiln_status kilni_serving_carry_run(const kilni_serving_carry *carry, kiln_onnx_input *given,
                                    size_t n_given, kiln_tensor **out_tensors, size_t n_outputs,
                                    kiln_error *err);

#endif
