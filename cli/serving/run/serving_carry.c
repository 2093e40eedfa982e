// SPDX-License-Identifier: MIT OR Apache-2.0
// A run in a sequence: the first one is given zeros for the states, later ones find what the one
// before has left. The session's own state is that of nobody.

#include "serving_carry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

kiln_status kilni_serving_carry_bind(kiln_onnx_session *session, const kiln_model_info *info,
                                     kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < info->n_states && status == KILN_STATUS_OK; i++) {
        status = kiln_onnx_session_bind(session, info->states[i].output, info->states[i].input.name,
                                        /*reserve=*/0, err);
    }
    return status;
}

/// Tensors that a run is given beside those of the request, and their contents.
typedef struct carry_extra {
    kiln_tensor *tensors[KILN_MODEL_TENSORS];
    uint32_t count;
    char *controls[KILN_MODEL_CONTROLS]; ///< a number for each row
    uint32_t n_controls;
} carry_extra;

static void carry_dims(const kilni_serving_carry *carry, const kiln_model_tensor *tensor,
                       int64_t out_dims[KILN_MAX_RANK])
{
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out_dims[i] = tensor->dims[i] < 0 ? 1 : tensor->dims[i];
    }
    if (carry->info->max_batch > 0) {
        out_dims[0] = (int64_t)carry->rows;
    }
}

static kiln_status add_first_value(carry_extra *extra, const kilni_serving_carry *carry,
                                   const kiln_model_state *state, kiln_onnx_input *out,
                                   kiln_error *err)
{
    int64_t dims[KILN_MAX_RANK];
    carry_dims(carry, &state->input, dims);
    kiln_tensor **made = &extra->tensors[extra->count];
    kiln_status status = kiln_full(carry->device, dims, state->input.rank, state->input.dtype,
                                   kiln_f64(0), made, err);
    if (status == KILN_STATUS_OK) {
        *out = (kiln_onnx_input){.name = state->input.name, .tensor = *made};
        extra->count++;
    }
    return status;
}

// ---- controls ----

static double flag_value(const kiln_model_control *control, const kilni_serving_carry *carry)
{
    bool yes = control->kind == KILN_MODEL_CONTROL_READY ||
               (control->kind == KILN_MODEL_CONTROL_START && carry->sequence->rows == 0) ||
               (control->kind == KILN_MODEL_CONTROL_END && carry->ends);
    return yes ? control->yes : control->no;
}

/// One element in little-endian bytes. Errors: INVALID_ARGUMENT for an id that is no number of the
/// input's type.
static kiln_status control_element(const kiln_model_control *control,
                                   const kilni_serving_carry *carry, char out_bytes[8],
                                   kiln_error *err)
{
    kiln_dtype dtype = control->input.dtype;
    if (control->kind == KILN_MODEL_CONTROL_ID) {
        char *end = NULL;
        uint64_t id = strtoull(carry->sequence->id, &end, 10);
        bool wide = kiln_dtype_size(dtype) == 8;
        uint64_t most = dtype == KILN_DTYPE_I32 ? INT32_MAX : wide ? UINT64_MAX : UINT32_MAX;
        if (*end != '\0' || id > most) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "the model takes sequence ids as %s, which "
                             "\"%.60s\" is none",
                             kiln_model_dtype_name(dtype), carry->sequence->id);
        }
        memcpy(out_bytes, &id, sizeof(id));
        return KILN_STATUS_OK;
    }
    double value = flag_value(control, carry);
    float single = (float)value;
    int32_t whole = (int32_t)value;
    if (dtype == KILN_DTYPE_F32) {
        memcpy(out_bytes, &single, sizeof(single));
    } else if (dtype == KILN_DTYPE_I32) {
        memcpy(out_bytes, &whole, sizeof(whole));
    } else {
        out_bytes[0] = value != 0;
    }
    return KILN_STATUS_OK;
}

static const kiln_env *carry_env(const kilni_serving_carry *carry)
{
    return kiln_context_env(kiln_device_context(carry->device));
}

static kiln_status add_control(carry_extra *extra, const kilni_serving_carry *carry,
                               const kiln_model_control *control, kiln_onnx_input *out,
                               kiln_error *err)
{
    int64_t dims[KILN_MAX_RANK];
    char element[8] = {0};
    size_t size = kiln_dtype_size(control->input.dtype);
    carry_dims(carry, &control->input, dims);
    kiln_status status = control_element(control, carry, element, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    char *bytes = kiln_alloc_array(carry_env(carry), carry->rows, size);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a control input");
    }
    extra->controls[extra->n_controls++] = bytes;
    for (uint64_t i = 0; i < carry->rows; i++) {
        memcpy(bytes + i * size, element, size);
    }
    kiln_tensor **made = &extra->tensors[extra->count];
    status = kiln_tensor_create(carry->device, control->input.dtype, control->input.rank, dims,
                                bytes, made, err);
    if (status == KILN_STATUS_OK) {
        *out = (kiln_onnx_input){.name = control->input.name, .tensor = *made, .host = bytes};
        extra->count++;
    }
    return status;
}

// ---- running ----

static kiln_status check_carry(const kilni_serving_carry *carry, kiln_error *err)
{
    const kilni_serving_sequence *sequence = carry->sequence;
    if (sequence->lost) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "sequence \"%.60s\" has ended: a request of it failed", sequence->id);
    }
    if (sequence->rows != 0 && sequence->rows != carry->rows) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a request of %" PRIu64 " rows in sequence \"%.60s\", which has %" PRIu64,
                         carry->rows, sequence->id, sequence->rows);
    }
    return KILN_STATUS_OK;
}

/// The session has the sequence's state for this run alone.
static kiln_status run_in_state(const kilni_serving_carry *carry, const kiln_onnx_input *inputs,
                                size_t n_inputs, kiln_tensor **out_tensors, size_t n_outputs,
                                kiln_error *err)
{
    bool keeps = carry->info->n_states > 0;
    kilni_serving_sequence *sequence = carry->sequence;
    kiln_status status = KILN_STATUS_OK;
    if (keeps) {
        KILN_TRY(out, status, kiln_onnx_session_exchange(carry->session, &sequence->state, err));
    }
    status = kiln_onnx_session_run(carry->session, inputs, n_inputs, out_tensors, n_outputs, err);
    sequence->lost = status != KILN_STATUS_OK;
    if (keeps) { // what went in comes out
        kiln_status back = kiln_onnx_session_exchange(carry->session, &sequence->state, NULL);
        status = status == KILN_STATUS_OK ? back : status;
    }
out:
    return status;
}

kiln_status kilni_serving_carry_run(const kilni_serving_carry *carry, kiln_onnx_input *given,
                                    size_t n_given, kiln_tensor **out_tensors, size_t n_outputs,
                                    kiln_error *err)
{
    const kiln_model_info *info = carry->info;
    carry_extra extra = {.count = 0};
    kiln_status status = check_carry(carry, err);
    bool first = carry->sequence->rows == 0;
    for (uint32_t i = 0; first && i < info->n_states && status == KILN_STATUS_OK; i++) {
        status = add_first_value(&extra, carry, &info->states[i], &given[n_given++], err);
    }
    for (uint32_t i = 0; i < info->n_controls && status == KILN_STATUS_OK; i++) {
        status = add_control(&extra, carry, &info->controls[i], &given[n_given++], err);
    }
    if (status == KILN_STATUS_OK) {
        status = run_in_state(carry, given, n_given, out_tensors, n_outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        carry->sequence->rows = carry->rows;
    }
    for (uint32_t i = 0; i < extra.count; i++) {
        kiln_release(extra.tensors[i]);
    }
    for (uint32_t i = 0; i < extra.n_controls; i++) {
        kiln_free(carry_env(carry), extra.controls[i]);
    }
    return status;
}
