// SPDX-License-Identifier: MIT OR Apache-2.0
// A run in a sequence: the first one is given zeros for the states, later ones find what the one
// before has left. Where sequences are joined, states are ordinary inputs and outputs: a sequence
// has rows of what its last run gave, and a batch of the same sequences in the same order finds its
// states as they lie. Elsewhere a session's bindings are exchanged, and its own state is that of
// nobody.

#include "serving_carry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

kiln_status kilni_serving_carry_bind(kiln_onnx_session *session, const kiln_model_info *info,
                                     kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; !info->joins && i < info->n_states && status == KILN_STATUS_OK; i++) {
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
                       uint64_t rows, int64_t out_dims[KILN_MAX_RANK])
{
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out_dims[i] = tensor->dims[i] < 0 ? 1 : tensor->dims[i];
    }
    if (carry->info->max_batch > 0) {
        out_dims[0] = (int64_t)rows;
    }
}

// ---- states ----

static kiln_status make_zeros(const kilni_serving_carry *carry, const kiln_model_state *state,
                              uint64_t rows, kiln_tensor **out_tensor, kiln_error *err)
{
    int64_t dims[KILN_MAX_RANK];
    carry_dims(carry, &state->input, rows, dims);
    return kiln_full(carry->device, dims, state->input.rank, state->input.dtype, kiln_f64(0),
                     out_tensor, err);
}

/// `rows` rows of a tensor, or all of it.
static kiln_status take_rows(kiln_tensor *from, uint64_t first_row, uint64_t rows,
                             kiln_tensor **out_tensor, kiln_error *err)
{
    int64_t starts[KILN_MAX_RANK] = {0};
    int64_t ends[KILN_MAX_RANK];
    size_t rank = kiln_tensor_rank(from);
    memcpy(ends, kiln_tensor_dims(from), rank * sizeof(ends[0]));
    if (first_row == 0 && rows == (uint64_t)ends[0]) {
        *out_tensor = kiln_retain(from);
        return KILN_STATUS_OK;
    }
    starts[0] = (int64_t)first_row;
    ends[0] = (int64_t)(first_row + rows);
    return kiln_slice(from, starts, rank, ends, rank, NULL, 0, out_tensor, err);
}

/// One state of the seats from `*io_seat` on that lie behind each other, or of one that has none.
static kiln_status take_piece(const kilni_serving_carry *carry, uint32_t index, uint32_t *io_seat,
                              kiln_tensor **out_piece, kiln_error *err)
{
    const kilni_serving_seat *seat = &carry->seats[*io_seat];
    kiln_tensor *from = seat->sequence->values[index];
    uint64_t rows = seat->rows;
    uint32_t next = *io_seat + 1;
    while (from != NULL && next < carry->n_seats &&
           carry->seats[next].sequence->values[index] == from &&
           carry->seats[next].sequence->first_row == seat->sequence->first_row + rows) {
        rows += carry->seats[next++].rows;
    }
    *io_seat = next;
    return from == NULL ? make_zeros(carry, &carry->info->states[index], rows, out_piece, err)
                        : take_rows(from, seat->sequence->first_row, rows, out_piece, err);
}

/// One state of all seats. Pieces that are too many for one operation are joined as they come.
static kiln_status join_state(const kilni_serving_carry *carry, uint32_t index,
                              kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *pieces[KILN_MAX_INPUTS];
    size_t count = 0;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t seat = 0; seat < carry->n_seats && status == KILN_STATUS_OK;) {
        status = take_piece(carry, index, &seat, &pieces[count], err);
        count += status == KILN_STATUS_OK;
        if (status == KILN_STATUS_OK && count > 1 &&
            (count == KILN_MAX_INPUTS || seat == carry->n_seats)) {
            kiln_tensor *joined = NULL;
            status = kiln_concat(pieces, count, 0, &joined, err);
            for (; status == KILN_STATUS_OK && count > 0; count--) {
                kiln_release(pieces[count - 1]);
            }
            if (status == KILN_STATUS_OK) {
                pieces[count++] = joined;
            }
        }
    }
    if (status == KILN_STATUS_OK) {
        *out_tensor = pieces[--count];
    }
    while (count > 0) {
        kiln_release(pieces[--count]);
    }
    return status;
}

/// What a run is given for a state, where no binding has it.
static kiln_status add_state(carry_extra *extra, const kilni_serving_carry *carry, uint32_t index,
                             kiln_onnx_input *out, kiln_error *err)
{
    const kiln_model_state *state = &carry->info->states[index];
    kiln_tensor **made = &extra->tensors[extra->count];
    kiln_status status = carry->info->joins ? join_state(carry, index, made, err)
                                            : make_zeros(carry, state, carry->rows, made, err);
    if (status == KILN_STATUS_OK) {
        *out = (kiln_onnx_input){.name = state->input.name, .tensor = *made};
        extra->count++;
    }
    return status;
}

// ---- controls ----

static double flag_value(const kiln_model_control *control, const kilni_serving_seat *seat)
{
    bool yes = control->kind == KILN_MODEL_CONTROL_READY ||
               (control->kind == KILN_MODEL_CONTROL_START && seat->sequence->rows == 0) ||
               (control->kind == KILN_MODEL_CONTROL_END && seat->ends);
    return yes ? control->yes : control->no;
}

/// One element in little-endian bytes. Errors: INVALID_ARGUMENT for an id that is no number of the
/// input's type.
static kiln_status control_element(const kiln_model_control *control,
                                   const kilni_serving_seat *seat, char out_bytes[8],
                                   kiln_error *err)
{
    kiln_dtype dtype = control->input.dtype;
    if (control->kind == KILN_MODEL_CONTROL_ID) {
        char *end = NULL;
        uint64_t id = strtoull(seat->sequence->id, &end, 10);
        bool wide = kiln_dtype_size(dtype) == 8;
        uint64_t most = dtype == KILN_DTYPE_I32 ? INT32_MAX : wide ? UINT64_MAX : UINT32_MAX;
        if (*end != '\0' || id > most) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "the model takes sequence ids as %s, which "
                             "\"%.60s\" is none",
                             kiln_model_dtype_name(dtype), seat->sequence->id);
        }
        memcpy(out_bytes, &id, sizeof(id));
        return KILN_STATUS_OK;
    }
    double value = flag_value(control, seat);
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

/// The numbers of all seats, a row's behind the other.
static kiln_status fill_control_rows(const kiln_model_control *control,
                                     const kilni_serving_carry *carry, char *bytes, kiln_error *err)
{
    size_t size = kiln_dtype_size(control->input.dtype);
    for (uint32_t i = 0; i < carry->n_seats; i++) {
        char element[8] = {0};
        kiln_status status = control_element(control, &carry->seats[i], element, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        for (uint64_t row = 0; row < carry->seats[i].rows; row++) {
            memcpy(bytes, element, size);
            bytes += size;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status add_control(carry_extra *extra, const kilni_serving_carry *carry,
                               const kiln_model_control *control, kiln_onnx_input *out,
                               kiln_error *err)
{
    int64_t dims[KILN_MAX_RANK];
    size_t size = kiln_dtype_size(control->input.dtype);
    carry_dims(carry, &control->input, carry->rows, dims);
    char *bytes = kiln_alloc_array(carry_env(carry), carry->rows, size);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a control input");
    }
    extra->controls[extra->n_controls++] = bytes;
    kiln_status status = fill_control_rows(control, carry, bytes, err);
    kiln_tensor **made = &extra->tensors[extra->count];
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(carry->device, control->input.dtype, control->input.rank, dims,
                                    bytes, made, err);
    }
    if (status == KILN_STATUS_OK) {
        *out = (kiln_onnx_input){.name = control->input.name, .tensor = *made, .host = bytes};
        extra->count++;
    }
    return status;
}

// ---- running ----

static kiln_status check_seat(const kilni_serving_seat *seat, kiln_error *err)
{
    const kilni_serving_sequence *sequence = seat->sequence;
    if (sequence->lost) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "sequence \"%.60s\" has ended: a request of it failed", sequence->id);
    }
    if (sequence->rows != 0 && sequence->rows != seat->rows) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a request of %" PRIu64 " rows in sequence \"%.60s\", which has %" PRIu64,
                         seat->rows, sequence->id, sequence->rows);
    }
    return KILN_STATUS_OK;
}

/// The session has the sequence's state for this run alone.
static kiln_status run_in_state(const kilni_serving_carry *carry, const kiln_onnx_input *inputs,
                                size_t n_inputs, kiln_tensor **out_tensors, size_t n_outputs,
                                kiln_error *err)
{
    bool keeps = carry->info->n_states > 0;
    kilni_serving_sequence *sequence = carry->seats[0].sequence;
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

/// Takes what the states become out of the results.
static kiln_status run_joined(kilni_serving_carry *carry, const kiln_onnx_input *inputs,
                              size_t n_inputs, kiln_tensor **out_tensors, size_t n_outputs,
                              kiln_error *err)
{
    const kiln_model_info *info = carry->info;
    kiln_status status =
        kiln_onnx_session_run(carry->session, inputs, n_inputs, out_tensors, n_outputs, err);
    for (uint32_t i = 0; i < info->n_states && status == KILN_STATUS_OK; i++) {
        kiln_tensor *made = out_tensors[carry->places[i]];
        out_tensors[carry->places[i]] = NULL;
        carry->next[i] = made;
        if (kiln_tensor_rank(made) != info->states[i].input.rank ||
            (uint64_t)kiln_tensor_dims(made)[0] != carry->rows) {
            status = kiln_fail(err, INTERNAL,
                               "state %.60s is not of %" PRIu64
                               " rows: the model keeps no batch dimension; set max_batch_size to 0",
                               info->states[i].output, carry->rows);
        }
    }
    if (carry->n_seats == 1) {
        carry->seats[0].sequence->lost = status != KILN_STATUS_OK;
    }
    return status;
}

kiln_status kilni_serving_carry_run(kilni_serving_carry *carry, kiln_onnx_input *given,
                                    size_t n_given, kiln_tensor **out_tensors, size_t n_outputs,
                                    kiln_error *err)
{
    const kiln_model_info *info = carry->info;
    carry_extra extra = {.count = 0};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < carry->n_seats && status == KILN_STATUS_OK; i++) {
        status = check_seat(&carry->seats[i], err);
    }
    bool bound = !info->joins && carry->seats[0].sequence->rows > 0;
    for (uint32_t i = 0; !bound && i < info->n_states && status == KILN_STATUS_OK; i++) {
        status = add_state(&extra, carry, i, &given[n_given++], err);
    }
    for (uint32_t i = 0; i < info->n_controls && status == KILN_STATUS_OK; i++) {
        status = add_control(&extra, carry, &info->controls[i], &given[n_given++], err);
    }
    if (status == KILN_STATUS_OK) {
        status = info->joins ? run_joined(carry, given, n_given, out_tensors, n_outputs, err)
                             : run_in_state(carry, given, n_given, out_tensors, n_outputs, err);
    }
    for (uint32_t i = 0; i < extra.count; i++) {
        kiln_release(extra.tensors[i]);
    }
    for (uint32_t i = 0; i < extra.n_controls; i++) {
        kiln_free(carry_env(carry), extra.controls[i]);
    }
    return status;
}

void kilni_serving_carry_commit(kilni_serving_carry *carry)
{
    uint64_t row = 0;
    for (uint32_t i = 0; i < carry->n_seats; i++) {
        const kilni_serving_seat *seat = &carry->seats[i];
        kilni_serving_sequence *sequence = seat->sequence;
        for (uint32_t k = 0; carry->info->joins && k < carry->info->n_states; k++) {
            kiln_release(sequence->values[k]);
            sequence->values[k] = kiln_retain(carry->next[k]);
        }
        sequence->first_row = row;
        sequence->rows = seat->rows;
        row += seat->rows;
    }
}

void kilni_serving_carry_fini(kilni_serving_carry *carry)
{
    for (size_t i = 0; i < KILN_MODEL_TENSORS; i++) {
        kiln_release(carry->next[i]);
        carry->next[i] = NULL;
    }
}
