// SPDX-License-Identifier: MIT OR Apache-2.0
// Outputs that are the next run's inputs. Decides what is kept of them: a store with room where the
// run lengthened the input, the tensor otherwise. A session's bindings are one array, so that
// another state is another array.
#include "onnx_run.h"

#include <string.h>

kilni_onnx_binding *kilni_onnx_binding_of(const kiln_onnx_session *session, uint32_t input)
{
    for (uint32_t i = 0; i < session->n_bindings; i++) {
        if (session->bindings[i].input == input) {
            return &session->bindings[i];
        }
    }
    return NULL;
}

kilni_onnx_binding *kilni_onnx_binding_to(const kiln_onnx_session *session, uint32_t output)
{
    for (uint32_t i = 0; i < session->n_bindings; i++) {
        if (session->bindings[i].output == output) {
            return &session->bindings[i];
        }
    }
    return NULL;
}

void kilni_onnx_binding_drop(kilni_onnx_binding *binding)
{
    kiln_release(binding->held);
    kiln_release(binding->growth.store);
    binding->held = NULL;
    binding->growth.store = NULL;
}

static void describe(kilni_onnx_ref value, const kiln_tensor *tensor)
{
    value->desc.dtype = kiln_tensor_dtype(tensor);
    value->desc.rank = (uint8_t)kiln_tensor_rank(tensor);
    memcpy(value->desc.dims, kiln_tensor_dims(tensor),
           value->desc.rank * sizeof(value->desc.dims[0]));
}

kiln_status kilni_onnx_binding_begin(kiln_onnx_session *session, kilni_onnx_binding *binding,
                                     kilni_onnx_ref value, kilni_onnx_ref *out_value,
                                     kiln_error *err)
{
    kilni_onnx_growth *growth = &binding->growth;
    growth->grown = false;
    if (value != NULL) {
        kilni_onnx_binding_drop(binding);
        value->growth = growth;
        *out_value = value;
        return KILN_STATUS_OK;
    }
    if (binding->held == NULL && growth->store == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input '%s' is bound and has no value yet: the first run, and one after a "
                         "failed run, has to be given one",
                         session->model->inputs[binding->input].name);
    }
    value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input");
    }
    value->given = true;
    value->growth = growth;
    value->narrow = kilni_onnx_narrow_of(session->model->inputs[binding->input].onnx_type);
    describe(value, growth->store != NULL ? growth->store : binding->held);
    if (growth->store != NULL) {
        value->desc.dims[growth->axis] = growth->length;
    } else {
        value->tensor = kiln_retain(binding->held);
    }
    *out_value = value;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_binding_end(kiln_onnx_session *session, kilni_onnx_binding *binding,
                                   kilni_onnx_ref value, kiln_error *err)
{
    kilni_onnx_growth *growth = &binding->growth;
    bool stored = value->growth == growth && growth->store != NULL &&
                  value->desc.dims[growth->axis] == growth->length;
    if (stored) {
        kiln_release(binding->held);
        binding->held = NULL;
        return KILN_STATUS_OK;
    }
    kiln_tensor *tensor = NULL;
    kiln_status status = kilni_onnx_to_device(session->device, value, &tensor, err);
    if (status == KILN_STATUS_OK) {
        tensor = kiln_retain(tensor);
        kilni_onnx_binding_drop(binding);
        binding->held = tensor;
    }
    return status;
}

// ---- public ----

static bool find_name(const kiln_onnx_value_info *infos, size_t count, const char *name,
                      uint32_t *out_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(infos[i].name, name) == 0) {
            *out_index = (uint32_t)i;
            return true;
        }
    }
    return false;
}

/// Whether what an output gives can be what an input takes.
static kiln_status check_pair(const kiln_onnx_value_info *output, const kiln_onnx_value_info *input,
                              kiln_error *err)
{
    if (output->kind != KILN_ONNX_KIND_TENSOR || input->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED, "output '%s' or input '%s' is no tensor", output->name,
                         input->name);
    }
    if (output->dtype != input->dtype || output->onnx_type != input->onnx_type) {
        return kiln_fail(err, INVALID_ARGUMENT, "output '%s' is %s, input '%s' takes %s",
                         output->name, output->type_name, input->name, input->type_name);
    }
    if (output->has_shape && input->has_shape && output->rank != input->rank) {
        return kiln_fail(err, INVALID_ARGUMENT, "output '%s' has rank %u, input '%s' takes %u",
                         output->name, output->rank, input->name, input->rank);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_session_bind(kiln_onnx_session *session, const char *output,
                                   const char *input, int64_t reserve, kiln_error *err)
{
    if (session == NULL || output == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "session and output must not be NULL");
    }
    size_t n_outputs = 0;
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(session->model, &n_outputs);
    const kiln_onnx_value_info *inputs = session->model->inputs;
    uint32_t n_inputs = session->model->n_inputs;
    uint32_t from = 0;
    uint32_t to = 0;
    if (!find_name(outputs, n_outputs, output, &from)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the model has no output '%.64s'", output);
    }
    if (!find_name(inputs, n_inputs, input, &to)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the model has no input '%.64s'", input);
    }
    if (reserve < 0 || kilni_onnx_binding_of(session, to) != NULL ||
        kilni_onnx_binding_to(session, from) != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "output '%s' to input '%s': %s", output, input,
                         reserve < 0 ? "a reserve below 0" : "one of them is bound already");
    }
    kiln_status status = check_pair(&outputs[from], &inputs[to], err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (session->bindings == NULL) {
        session->bindings = kiln_alloc_array(&session->env, n_inputs, sizeof(kilni_onnx_binding));
    }
    if (session->bindings == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the bindings of a session");
    }
    session->bindings[session->n_bindings++] =
        (kilni_onnx_binding){.input = to, .output = from, .growth = {.reserve = reserve}};
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_session_bound(const kiln_onnx_session *session, const char *input,
                                    kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (session == NULL || input == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "session and input must not be NULL");
    }
    uint32_t at = 0;
    bool known = find_name(session->model->inputs, session->model->n_inputs, input, &at);
    const kilni_onnx_binding *binding = known ? kilni_onnx_binding_of(session, at) : NULL;
    if (binding == NULL || (binding->held == NULL && binding->growth.store == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%.64s' %s", input,
                         binding == NULL ? "is not bound" : "has no value yet");
    }
    if (binding->growth.store != NULL) {
        return kilni_onnx_growth_view(&binding->growth, binding->growth.length, out_tensor, err);
    }
    *out_tensor = kiln_retain(binding->held);
    return KILN_STATUS_OK;
}

// ---- states ----

struct kiln_onnx_state {
    kiln_env env;
    kilni_onnx_binding *bindings;
    uint32_t n_bindings;
};

/// A state without values.
static kiln_status make_state(const kiln_onnx_session *session, kiln_onnx_state **out_state,
                              kiln_error *err)
{
    kiln_onnx_state *made = kiln_alloc(&session->env, sizeof(*made));
    kilni_onnx_binding *bindings =
        kiln_alloc_array(&session->env, session->model->n_inputs, sizeof(*bindings));
    if (made == NULL || bindings == NULL) {
        kiln_free(&session->env, bindings);
        kiln_free(&session->env, made);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the state of a session");
    }
    *made = (kiln_onnx_state){session->env, bindings, session->n_bindings};
    for (uint32_t i = 0; i < session->n_bindings; i++) {
        const kilni_onnx_binding *binding = &session->bindings[i];
        bindings[i] = (kilni_onnx_binding){.input = binding->input,
                                           .output = binding->output,
                                           .growth = {.reserve = binding->growth.reserve}};
    }
    *out_state = made;
    return KILN_STATUS_OK;
}

kiln_status kiln_onnx_session_exchange(kiln_onnx_session *session, kiln_onnx_state **io_state,
                                       kiln_error *err)
{
    if (session == NULL || io_state == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "session and io_state must not be NULL");
    }
    if (session->n_bindings == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "the session has no bound inputs");
    }
    if (*io_state == NULL) {
        kiln_status status = make_state(session, io_state, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    } else if ((*io_state)->n_bindings != session->n_bindings) {
        return kiln_fail(err, INVALID_ARGUMENT, "the state has %u bound inputs, the session %u",
                         (*io_state)->n_bindings, session->n_bindings);
    }
    kilni_onnx_binding *had = session->bindings;
    session->bindings = (*io_state)->bindings;
    (*io_state)->bindings = had;
    return KILN_STATUS_OK;
}

void kiln_onnx_state_destroy(kiln_onnx_state *state)
{
    if (state == NULL) {
        return;
    }
    const kiln_env env = state->env;
    for (uint32_t i = 0; i < state->n_bindings; i++) {
        kilni_onnx_binding_drop(&state->bindings[i]);
    }
    kiln_free(&env, state->bindings);
    kiln_free(&env, state);
}
