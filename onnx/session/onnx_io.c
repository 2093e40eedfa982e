// SPDX-License-Identifier: MIT OR Apache-2.0
// Inputs and outputs of a run. Decides what fits an input of the model, and that every output is a
// tensor of its own: one that is an input or a constant is copied, so that a capture has an
// operation for it and the caller may do with it as it likes. Strings and maps are
// onnx_host_io.c's.
#include "onnx_host_io.h"

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

static kiln_status check_tensor(const kiln_onnx_value_info *info, const kiln_tensor *tensor,
                                kiln_error *err)
{
    kiln_status status = check_dtype(info, tensor, err);
    return status == KILN_STATUS_OK
               ? kilni_onnx_check_shape(info, (uint32_t)kiln_tensor_rank(tensor),
                                        kiln_tensor_dims(tensor), err)
               : status;
}

static kiln_status check_items(const kiln_onnx_value_info *info, const kiln_onnx_value *value,
                               kiln_error *err)
{
    for (size_t i = 0; i < value->n_items; i++) {
        if (value->items[i].kind != KILN_ONNX_KIND_TENSOR || value->items[i].tensor == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "item %zu of input '%s' is no tensor", i,
                             info->name);
        }
    }
    return KILN_STATUS_OK;
}

/// Whether the form is one of the input's type; a tensor or sequence may stand for an optional.
static kiln_status check_form(const kiln_onnx_value_info *info, const kiln_onnx_value *value,
                              kiln_error *err)
{
    if (info->kind == KILN_ONNX_KIND_NONE || info->kind == KILN_ONNX_KIND_SPARSE) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "input '%s' is neither tensor, sequence, map nor optional", info->name);
    }
    bool texts = info->onnx_type == KILNI_ONNX_TYPE_STRING;
    bool known = value->kind == KILN_ONNX_KIND_TENSOR || value->kind == KILN_ONNX_KIND_SEQUENCE ||
                 value->kind == KILN_ONNX_KIND_OPTIONAL;
    bool fits = known && (value->kind == info->kind || info->kind == KILN_ONNX_KIND_OPTIONAL) &&
                !(texts && value->kind != KILN_ONNX_KIND_OPTIONAL);
    if (!fits || (value->kind == KILN_ONNX_KIND_TENSOR && value->tensor == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is no value of the model's type%s",
                         info->name, texts ? ": strings are given as KILN_ONNX_KIND_TEXTS" : "");
    }
    return value->kind == KILN_ONNX_KIND_SEQUENCE ? check_items(info, value, err) : KILN_STATUS_OK;
}

/// A value around the caller's tensor.
static kiln_status bind_tensor(const kiln_onnx_session *session, const kiln_onnx_value_info *info,
                               kiln_tensor *tensor, const void *host, kilni_onnx_ref *out_value,
                               kiln_error *err)
{
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
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
    kiln_status status = kilni_onnx_input_new(session, out_value, err);
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

static kiln_status bind_value(kiln_onnx_session *session, const kiln_onnx_value_info *info,
                              const kiln_onnx_value *given, kilni_onnx_ref *out_value,
                              kiln_error *err)
{
    if (given->kind == KILN_ONNX_KIND_TEXTS) {
        return kilni_onnx_bind_texts(session, info, given, out_value, err);
    }
    if (given->kind == KILN_ONNX_KIND_MAP) {
        return kilni_onnx_bind_maps(session, info, given, out_value, err);
    }
    kiln_status status = check_form(info, given, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (given->kind == KILN_ONNX_KIND_SEQUENCE) {
        return bind_sequence(session, info, given, out_value, err);
    }
    if (given->kind == KILN_ONNX_KIND_OPTIONAL) {
        status = kilni_onnx_input_new(session, out_value, err);
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

static bool is_input(const kiln_onnx_model *model, const char *name)
{
    bool is = false;
    for (uint32_t k = 0; k < model->n_inputs && !is; k++) {
        is = strcmp(name, model->inputs[k].name) == 0;
    }
    return is;
}

/// The initialiser of a name; the number of all where there is none.
static uint32_t find_weight(const kiln_onnx_model *model, const char *name)
{
    uint32_t i = 0;
    while (i < model->graph.n_initializers &&
           strcmp(model->graph.initializers[i].name, name) != 0) {
        i++;
    }
    return i;
}

static kiln_status check_names(const kiln_onnx_model *model, const kiln_onnx_input *inputs,
                               size_t n_inputs, kiln_error *err)
{
    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i].name == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "input %zu has no name", i);
        }
        if (!is_input(model, inputs[i].name) &&
            find_weight(model, inputs[i].name) == model->graph.n_initializers) {
            return kiln_fail(err, INVALID_ARGUMENT, "the model has no input '%s'%s%s",
                             inputs[i].name, model->n_inputs > 0 ? "; its first is " : "",
                             model->n_inputs > 0 ? model->inputs[0].name : "");
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status bind_weight(kiln_onnx_session *session, const kiln_onnx_input *given,
                               kiln_error *err)
{
    const kilni_onnx_graph *graph = &session->model->graph;
    uint32_t index = find_weight(session->model, given->name);
    const kilni_onnx_tensor *weight = &graph->initializers[index];
    if (given->tensor == NULL || session->spans) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "weight '%s' is given by a tensor, to a session on one device",
                         given->name);
    }
    kiln_status status = kilni_onnx_check_weight(weight, given->name, given->tensor, err);
    if (status == KILN_STATUS_OK && session->weights == NULL) {
        session->weights =
            kiln_alloc_array(&session->env, graph->n_initializers, sizeof(kilni_onnx_ref));
        status = session->weights != NULL
                     ? status
                     : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the weights of a run");
    }
    if (status != KILN_STATUS_OK || session->weights[index] != NULL) {
        return status;
    }
    const kiln_onnx_value_info info = {.name = weight->name, .onnx_type = weight->onnx_type};
    return bind_tensor(session, &info, given->tensor, NULL, &session->weights[index], err);
}

/// Weights that the run is given.
static kiln_status bind_weights(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                                size_t n_inputs, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_inputs && status == KILN_STATUS_OK; i++) {
        if (!is_input(session->model, inputs[i].name)) {
            status = bind_weight(session, &inputs[i], err);
        }
    }
    return status;
}

static void drop_weights(kiln_onnx_session *session)
{
    uint32_t count = session->model->graph.n_initializers;
    for (uint32_t i = 0; session->weights != NULL && i < count; i++) {
        kilni_onnx_release(&session->env, session->weights[i]);
    }
    kiln_free(&session->env, session->weights);
    session->weights = NULL;
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

static kiln_status give_sequence(kiln_onnx_session *session, kilni_onnx_ref value,
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
        status = kilni_onnx_is_text(value->items[i])
                     ? kilni_onnx_give_texts(session, value->items[i], &out->items[i], err)
                     : give_tensor(session, value->items[i], &out->items[i].tensor, err);
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
        } else if (kilni_onnx_is_text(values[i])) {
            status = kilni_onnx_give_texts(session, values[i], &out_values[i], err);
        } else if (values[i]->form == KILNI_ONNX_MAPS) {
            status = kilni_onnx_give_maps(session, values[i], &out_values[i], err);
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
    if (values == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < values[i].n_items; k++) {
            kiln_release(values[i].items[k].tensor);
            kilni_onnx_free_host(env, &values[i].items[k]);
        }
        kilni_onnx_free_host(env, &values[i]);
        kiln_free(env, values[i].items);
        kiln_release(values[i].tensor);
        values[i] = (kiln_onnx_value){.kind = KILN_ONNX_KIND_NONE};
    }
}

// ---- runs ----

typedef struct named_length {
    const char *symbol;
    const char *input; ///< that had it first
    int64_t length;
} named_length;

/// Adds a length to those that are known. Gives the one of its name that is another; NULL: none is,
/// or there are too many.
static const named_length *other_length(named_length *known, size_t room, const char *symbol,
                                        const char *input, int64_t length)
{
    size_t at = 0;
    while (at < room && known[at].symbol != NULL && strcmp(known[at].symbol, symbol) != 0) {
        at++;
    }
    if (at == room) {
        return NULL;
    }
    if (known[at].symbol == NULL) {
        known[at] = (named_length){symbol, input, length};
    }
    return known[at].length == length ? NULL : &known[at];
}

/// Two inputs with different lengths of one name may be why a run failed: says so.
static void name_lengths(const kiln_onnx_session *session, kilni_onnx_ref *bound, kiln_error *err)
{
    named_length known[32] = {{0}};
    for (uint32_t i = 0; i < session->model->n_inputs; i++) {
        const kiln_onnx_value_info *info = &session->model->inputs[i];
        bool fits = bound[i] != NULL && info->has_shape && bound[i]->desc.rank == info->rank;
        for (uint32_t k = 0; fits && k < info->rank; k++) {
            int64_t length = bound[i]->desc.dims[k];
            const char *symbol = info->dims[k].symbol;
            const named_length *other =
                symbol == NULL ? NULL : other_length(known, 32, symbol, info->name, length);
            if (other != NULL) {
                (void)kiln_error_context(
                    err, "length '%.40s' is %lld of input '%.40s', %lld of '%.40s'", symbol,
                    (long long)other->length, other->input, (long long)length, info->name);
                return;
            }
        }
    }
}

/// What runs taught may hold numbers that come to mean other texts.
static void forget_texts(kiln_onnx_session *session)
{
    if (kilni_onnx_texts_are_many(session)) {
        kilni_onnx_segments_free(session);
        kilni_onnx_settled_forget(session);
        kilni_onnx_texts_forget(session);
    }
}

static kiln_status run_bound(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                             size_t n_inputs, kilni_onnx_ref *bound, kilni_onnx_ref *values,
                             kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    session->steps_run = 0;
    session->device = session->parts[0].device;
    kiln_graph_fix_shapes(session->device);
    forget_texts(session);
    kiln_status status = check_names(model, inputs, n_inputs, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < model->n_inputs; i++) {
        status = bind_input(session, i, inputs, n_inputs, &bound[i], err);
    }
    if (status == KILN_STATUS_OK) {
        status = bind_weights(session, inputs, n_inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_onnx_run_plan(session, session->main, NULL, NULL, bound, model->n_inputs,
                                     values, err);
        if (status != KILN_STATUS_OK) {
            name_lengths(session, bound, err);
        }
    }
    drop_weights(session);
    return status;
}

/// With bindings lengths differ from run to run.
static kiln_status begin_varying(kiln_onnx_session *session, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0;
         session->n_bindings > 0 && status == KILN_STATUS_OK && i < session->n_parts; i++) {
        kilni_onnx_part *part = &session->parts[i];
        status = kiln_stream_vary_lengths(part->device, true, &part->varied, err);
    }
    return status;
}

/// The parts in the order in which they ran.
static kiln_status flush_parts(const kiln_onnx_session *session, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < session->n_parts; i++) {
        const kilni_onnx_part *part = &session->parts[i];
        status = kiln_flush(part->device, err);
        if (status == KILN_STATUS_OK) {
            status = kiln_stream_vary_lengths(part->device, part->varied, NULL, err);
        }
    }
    return status;
}

/// What was recorded is enqueued while lengths vary, after the values of the run have gone.
static kiln_status end_varying(kiln_onnx_session *session, kiln_status status, kiln_error *err)
{
    kiln_error later = KILN_ERROR_INIT;
    if (session->n_bindings == 0) {
        return status;
    }
    kiln_status flushed = flush_parts(session, &later);
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
    if (out_values == NULL && n_outputs > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_values must not be NULL");
    }
    if (session == NULL || (inputs == NULL && n_inputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "session and inputs must not be NULL");
    }
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
    if (out_tensors == NULL && n_outputs > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensors must not be NULL");
    }
    if (session == NULL || (inputs == NULL && n_inputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "session and inputs must not be NULL");
    }
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
