// SPDX-License-Identifier: MIT OR Apache-2.0
// Inputs and outputs of a run. Decides what fits an input of the model, and that every output is a
// tensor of its own: one that is an input or a constant is copied, so that a capture has an
// operation for it and the caller may do with it as it likes.
#include "onnx_run.h"

#include <string.h>

// ---- inputs ----

static kiln_status check_dtype(const kiln_onnx_value_info *info, const kiln_tensor *tensor,
                               kiln_error *err)
{
    kiln_dtype dtype = kiln_tensor_dtype(tensor);
    const char *name = kilni_onnx_type_name(kilni_onnx_type_of(dtype));
    if (info->dtype != dtype) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is %s, the model takes %s: convert it",
                         info->name, name != NULL ? name : kiln_dtype_name(dtype), info->type_name);
    }
    return KILN_STATUS_OK;
}

static bool fits_shape(const kiln_onnx_value_info *info, const kiln_tensor *tensor)
{
    bool fits = info->rank == kiln_tensor_rank(tensor);
    for (uint32_t i = 0; fits && i < info->rank; i++) {
        fits = info->dims[i].length < 0 || info->dims[i].length == kiln_tensor_dims(tensor)[i];
    }
    return fits;
}

static kiln_status check_tensor(const kiln_onnx_value_info *info, const kiln_tensor *tensor,
                                kiln_error *err)
{
    kiln_status status = check_dtype(info, tensor, err);
    if (status != KILN_STATUS_OK || !info->has_shape || fits_shape(info, tensor)) {
        return status;
    }
    char wanted[96];
    char given[96];
    kiln_onnx_value_info own = {.type_name = info->type_name, .has_shape = true};
    own.rank = (uint32_t)kiln_tensor_rank(tensor);
    for (uint32_t i = 0; i < own.rank; i++) {
        own.dims[i].length = kiln_tensor_dims(tensor)[i];
    }
    kiln_onnx_value_info_text(info, wanted, sizeof(wanted));
    kiln_onnx_value_info_text(&own, given, sizeof(given));
    return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is %s, the model takes %s", info->name,
                     given, wanted);
}

/* Whether the form is one of the input's type; a tensor or sequence may stand for an optional. */
static kiln_status check_form(const kiln_onnx_value_info *info, const kiln_onnx_value *value,
                              kiln_error *err)
{
    if (info->kind == KILN_ONNX_KIND_NONE || info->kind == KILN_ONNX_KIND_MAP ||
        info->kind == KILN_ONNX_KIND_SPARSE) {
        return kiln_fail(err, UNIMPLEMENTED, "input '%s' is neither tensor, sequence nor optional",
                         info->name);
    }
    bool known = value->kind == KILN_ONNX_KIND_TENSOR || value->kind == KILN_ONNX_KIND_SEQUENCE ||
                 value->kind == KILN_ONNX_KIND_OPTIONAL;
    bool fits = known && (value->kind == info->kind || info->kind == KILN_ONNX_KIND_OPTIONAL);
    if (!fits || (value->kind == KILN_ONNX_KIND_TENSOR && value->tensor == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is no value of the model's type",
                         info->name);
    }
    for (size_t i = 0; value->kind == KILN_ONNX_KIND_SEQUENCE && i < value->n_items; i++) {
        if (value->items[i].kind != KILN_ONNX_KIND_TENSOR || value->items[i].tensor == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "item %zu of input '%s' is no tensor", i,
                             info->name);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status new_input(const kiln_onnx_session *session, kilni_onnx_ref *out_value,
                             kiln_error *err)
{
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input");
    }
    value->given = true;
    *out_value = value;
    return KILN_STATUS_OK;
}

/* A value around the caller's tensor. */
static kiln_status bind_tensor(const kiln_onnx_session *session, const kiln_onnx_value_info *info,
                               kiln_tensor *tensor, const void *host, kilni_onnx_ref *out_value,
                               kiln_error *err)
{
    kiln_status status = new_input(session, out_value, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_onnx_ref value = *out_value;
    value->narrow = kilni_onnx_narrow_of(info->onnx_type);
    if (kilni_onnx_is_bits(value->narrow)) {
        status = kiln_bits_as(tensor, KILN_DTYPE_U8, &value->tensor, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    } else {
        value->tensor = kiln_retain(tensor);
    }
    value->host = host;
    value->desc.dtype = kiln_tensor_dtype(value->tensor);
    value->desc.rank = (uint8_t)kiln_tensor_rank(tensor);
    memcpy(value->desc.dims, kiln_tensor_dims(tensor),
           value->desc.rank * sizeof(value->desc.dims[0]));
    return KILN_STATUS_OK;
}

static kiln_status bind_sequence(const kiln_onnx_session *session, const kiln_onnx_value_info *info,
                                 const kiln_onnx_value *given, kilni_onnx_ref *out_value,
                                 kiln_error *err)
{
    kiln_status status = new_input(session, out_value, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_onnx_ref value = *out_value;
    value->form = KILNI_ONNX_SEQUENCE;
    if (given->n_items > KILNI_ONNX_MAX_ITEMS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "input '%s' has %zu items, the limit is %d",
                         info->name, given->n_items, KILNI_ONNX_MAX_ITEMS);
    }
    value->items = kiln_alloc_array(&session->env, given->n_items + 1, sizeof(*value->items));
    if (value->items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sequence");
    }
    value->n_items = (uint32_t)given->n_items;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < value->n_items; i++) {
        const kiln_onnx_value *item = &given->items[i];
        status = check_dtype(info, item->tensor, err);
        if (status == KILN_STATUS_OK) {
            status = bind_tensor(session, info, item->tensor, item->host, &value->items[i], err);
        }
    }
    return status;
}

static kiln_status bind_value(const kiln_onnx_session *session, const kiln_onnx_value_info *info,
                              const kiln_onnx_value *given, kilni_onnx_ref *out_value,
                              kiln_error *err)
{
    kiln_status status = check_form(info, given, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (given->kind == KILN_ONNX_KIND_SEQUENCE) {
        return bind_sequence(session, info, given, out_value, err);
    }
    if (given->kind == KILN_ONNX_KIND_OPTIONAL) {
        status = new_input(session, out_value, err);
        if (status == KILN_STATUS_OK) {
            (*out_value)->form = KILNI_ONNX_NOTHING;
        }
        return status;
    }
    status = check_tensor(info, given->tensor, err);
    return status == KILN_STATUS_OK
               ? bind_tensor(session, info, given->tensor, given->host, out_value, err)
               : status;
}

static kiln_status bind_input(kiln_onnx_session *session, uint32_t index,
                              const kiln_onnx_input *inputs, size_t n_inputs,
                              kilni_onnx_ref *out_value, kiln_error *err)
{
    const kiln_onnx_value_info *info = &session->model->inputs[index];
    kilni_onnx_binding *binding = kilni_onnx_binding_of(session, index);
    const kiln_onnx_input *found = NULL;
    for (size_t i = 0; i < n_inputs && found == NULL; i++) {
        found = strcmp(inputs[i].name, info->name) == 0 ? &inputs[i] : NULL;
    }
    if (found == NULL && binding != NULL) {
        return kilni_onnx_binding_begin(session, binding, NULL, out_value, err);
    }
    if (found == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is not given", info->name);
    }
    const kiln_onnx_value tensor = {
        .kind = KILN_ONNX_KIND_TENSOR, .tensor = found->tensor, .host = found->host};
    kiln_status status =
        bind_value(session, info, found->value != NULL ? found->value : &tensor, out_value, err);
    return status == KILN_STATUS_OK && binding != NULL
               ? kilni_onnx_binding_begin(session, binding, *out_value, out_value, err)
               : status;
}

static kiln_status check_names(const kiln_onnx_model *model, const kiln_onnx_input *inputs,
                               size_t n_inputs, kiln_error *err)
{
    for (size_t i = 0; i < n_inputs; i++) {
        bool known = false;
        for (uint32_t k = 0; k < model->n_inputs && !known; k++) {
            known = strcmp(inputs[i].name, model->inputs[k].name) == 0;
        }
        if (!known) {
            return kiln_fail(err, INVALID_ARGUMENT, "the model has no input '%s'%s%s",
                             inputs[i].name, model->n_inputs > 0 ? "; its first is " : "",
                             model->n_inputs > 0 ? model->inputs[0].name : "");
        }
    }
    return KILN_STATUS_OK;
}

// ---- outputs ----

static kiln_status give_tensor(const kiln_onnx_session *session, kilni_onnx_ref value,
                               kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *tensor = NULL;
    kiln_status status = kilni_onnx_to_device(session->device, value, &tensor, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (kilni_onnx_is_bits(value->narrow)) {
        return kiln_bits_as(tensor, kilni_onnx_type_dtype(value->narrow), out_tensor, err);
    }
    if (value->constant || value->given) {
        return kiln_contiguous(tensor, out_tensor, err);
    }
    *out_tensor = kiln_retain(tensor);
    return KILN_STATUS_OK;
}

static kiln_status give_sequence(const kiln_onnx_session *session, kilni_onnx_ref value,
                                 kiln_onnx_value *out, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    out->kind = KILN_ONNX_KIND_SEQUENCE;
    out->items = kiln_alloc_array(&session->env, value->n_items + 1u, sizeof(*out->items));
    if (out->items == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a sequence");
    }
    out->n_items = value->n_items;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < value->n_items; i++) {
        out->items[i].kind = KILN_ONNX_KIND_TENSOR;
        status = give_tensor(session, value->items[i], &out->items[i].tensor, err);
    }
    return status;
}

static kiln_status give_outputs(kiln_onnx_session *session, const kilni_onnx_ref *values,
                                uint32_t count, kiln_onnx_value *out_values, kiln_error *err)
{
    size_t n_outputs = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_outputs(session->model, &n_outputs);
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        if (values[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "output '%s' of the model has no value: a branch or loop gave none",
                             i < n_outputs ? infos[i].name : "");
        }
        kilni_onnx_binding *binding = kilni_onnx_binding_to(session, i);
        if (binding != NULL) {
            status = kilni_onnx_binding_end(session, binding, values[i], err);
        } else if (values[i]->form == KILNI_ONNX_SEQUENCE) {
            status = give_sequence(session, values[i], &out_values[i], err);
        } else if (values[i]->form == KILNI_ONNX_NOTHING) {
            out_values[i].kind = KILN_ONNX_KIND_OPTIONAL;
        } else {
            out_values[i].kind = KILN_ONNX_KIND_TENSOR;
            status = give_tensor(session, values[i], &out_values[i].tensor, err);
        }
    }
    return status;
}

void kiln_onnx_values_free(const kiln_env *env, kiln_onnx_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < values[i].n_items; k++) {
            kiln_release(values[i].items[k].tensor);
        }
        kiln_free(env, values[i].items);
        kiln_release(values[i].tensor);
        values[i] = (kiln_onnx_value){.kind = KILN_ONNX_KIND_NONE};
    }
}

// ---- runs ----

static kiln_status run_bound(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                             size_t n_inputs, kilni_onnx_ref *bound, kilni_onnx_ref *values,
                             kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    session->steps_run = 0;
    kiln_graph_fix_shapes(session->device);
    kiln_status status = check_names(model, inputs, n_inputs, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < model->n_inputs; i++) {
        status = bind_input(session, i, inputs, n_inputs, &bound[i], err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kilni_onnx_run_plan(session, session->main, NULL, NULL, bound, model->n_inputs, values,
                               err);
}

/* With bindings lengths differ from run to run. */
static kiln_status begin_varying(kiln_onnx_session *session, kiln_error *err)
{
    return session->n_bindings > 0
               ? kiln_stream_vary_lengths(session->device, true, &session->varied, err)
               : KILN_STATUS_OK;
}

/* What was recorded is enqueued while lengths vary, after the values of the run have gone. */
static kiln_status end_varying(kiln_onnx_session *session, kiln_status status, kiln_error *err)
{
    kiln_error later = KILN_ERROR_INIT;
    if (session->n_bindings == 0) {
        return status;
    }
    kiln_status flushed = kiln_flush(session->device, &later);
    if (flushed == KILN_STATUS_OK) {
        flushed = kiln_stream_vary_lengths(session->device, session->varied, NULL, &later);
    }
    if (status == KILN_STATUS_OK && flushed != KILN_STATUS_OK) {
        status = flushed;
        if (err != NULL) {
            *err = later;
        }
    }
    for (uint32_t i = 0; status != KILN_STATUS_OK && i < session->n_bindings; i++) {
        kilni_onnx_binding_drop(&session->bindings[i]);
    }
    return status;
}

kiln_status kiln_onnx_session_run_values(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                                         size_t n_inputs, kiln_onnx_value *out_values,
                                         size_t n_outputs, kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    uint32_t wanted = model->graph.n_outputs;
    for (size_t i = 0; i < n_outputs; i++) {
        out_values[i] = (kiln_onnx_value){.kind = KILN_ONNX_KIND_NONE};
    }
    if (n_outputs != wanted) {
        return kiln_fail(err, INVALID_ARGUMENT, "room for %zu outputs, the model has %u", n_outputs,
                         wanted);
    }
    kilni_onnx_ref *bound =
        kiln_alloc_array(&session->env, model->n_inputs + wanted + 1u, sizeof(kilni_onnx_ref));
    if (bound == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a run");
    }
    kilni_onnx_ref *values = bound + model->n_inputs;
    kiln_status status = begin_varying(session, err);
    if (status == KILN_STATUS_OK) {
        status = run_bound(session, inputs, n_inputs, bound, values, err);
    }
    if (status == KILN_STATUS_OK) {
        status = give_outputs(session, values, wanted, out_values, err);
    }
    for (uint32_t i = 0; i < model->n_inputs + wanted; i++) {
        kilni_onnx_release(&session->env, bound[i]);
    }
    status = end_varying(session, status, err);
    if (status != KILN_STATUS_OK) {
        kiln_onnx_values_free(&session->env, out_values, n_outputs);
    }
    kiln_free(&session->env, bound);
    return status;
}

kiln_status kiln_onnx_session_run(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                                  size_t n_inputs, kiln_tensor **out_tensors, size_t n_outputs,
                                  kiln_error *err)
{
    kiln_onnx_value *values =
        kiln_alloc_array(&session->env, n_outputs + 1, sizeof(kiln_onnx_value));
    for (size_t i = 0; i < n_outputs; i++) {
        out_tensors[i] = NULL;
    }
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a run");
    }
    kiln_status status =
        kiln_onnx_session_run_values(session, inputs, n_inputs, values, n_outputs, err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_outputs; i++) {
        if (values[i].kind != KILN_ONNX_KIND_TENSOR &&
            kilni_onnx_binding_to(session, (uint32_t)i) == NULL) {
            status = kiln_fail(err, UNIMPLEMENTED,
                               "output '%s' is no tensor: kiln_onnx_session_run_values gives it",
                               session->model->graph.outputs[i].name);
        }
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_outputs; i++) {
        out_tensors[i] = values[i].tensor;
        values[i].tensor = NULL;
    }
    kiln_onnx_values_free(&session->env, values, n_outputs);
    kiln_free(&session->env, values);
    return status;
}
