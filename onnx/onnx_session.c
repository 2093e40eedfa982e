// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions: the plans of a model, its constants on a device, and runs. Decides the order of a run
// (that of the file) and when a value is let go: right after the node that reads it last. What a
// node becomes is the business of onnx_op_*.c.
#include "onnx_session.h"
#include "kiln_ops.h"

#include <string.h>

/* Inputs and outputs of a node that need no memory of their own. */
enum { FEW = 16 };

// ---- constants that stay ----------------------------------------------------

static uint32_t kept_place(const kiln_onnx_session *session, const kilni_onnx_tensor *tensor)
{
    const uintptr_t address = (uintptr_t)tensor;
    uint32_t mask = session->kept_size - 1;
    uint32_t at = (uint32_t)kiln_hash64(&address, sizeof(address), 0) & mask;
    while (session->kept[at].tensor != NULL && session->kept[at].tensor != tensor) {
        at = (at + 1) & mask;
    }
    return at;
}

static kiln_status grow_kept(kiln_onnx_session *session, kiln_error *err)
{
    kilni_onnx_kept *old = session->kept;
    uint32_t old_size = session->kept_size;
    uint32_t size = old_size == 0 ? 64 : old_size * 2;
    kilni_onnx_kept *fresh = kiln_alloc_array(&session->env, size, sizeof(*fresh));
    if (fresh == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the constants of a session");
    }
    session->kept = fresh;
    session->kept_size = size;
    for (uint32_t i = 0; i < old_size; i++) {
        if (old[i].tensor != NULL) {
            fresh[kept_place(session, old[i].tensor)] = old[i];
        }
    }
    kiln_free(&session->env, old);
    return KILN_STATUS_OK;
}

static kiln_status new_constant(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                                kilni_onnx_ref *out_value, kiln_error *err)
{
    if (tensor->dtype == KILN_DTYPE_NONE) {
        const char *name = kilni_onnx_type_name(tensor->onnx_type);
        return kiln_fail(err, UNIMPLEMENTED, "constant '%s': element type %s is not supported",
                         tensor->name, name == NULL ? "of an unknown number" : name);
    }
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a constant");
    }
    value->constant = true;
    value->host = tensor->data;
    value->desc.dtype = tensor->dtype;
    value->desc.rank = (uint8_t)tensor->rank;
    memcpy(value->desc.dims, tensor->dims, sizeof(tensor->dims));
    *out_value = value;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_keep(kiln_onnx_session *session, const kilni_onnx_tensor *tensor,
                            kilni_onnx_ref *out_value, kiln_error *err)
{
    if (session->kept_count * 2 >= session->kept_size) {
        kiln_status st = grow_kept(session, err);
        if (st != KILN_STATUS_OK) {
            return st;
        }
    }
    kilni_onnx_kept *kept = &session->kept[kept_place(session, tensor)];
    if (kept->tensor == NULL) {
        kiln_status st = new_constant(session, tensor, &kept->value, err);
        if (st != KILN_STATUS_OK) {
            return st;
        }
        kept->tensor = tensor;
        session->kept_count++;
    }
    *out_value = kept->value;
    return KILN_STATUS_OK;
}

// ---- life -------------------------------------------------------------------

kiln_status kiln_onnx_session_create(const kiln_onnx_model *model, kiln_device *device,
                                     kiln_onnx_session **out_session, kiln_error *err)
{
    *out_session = NULL;
    kiln_onnx_session *session = kiln_alloc(&model->env, sizeof(*session));
    if (session == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
    }
    session->env = model->env;
    session->model = model;
    session->device = kiln_device_retain(device);
    kiln_arena_init(&session->arena, &session->env);
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    kiln_status st =
        provider->open(&session->env, "reference:0", &session->host, err, provider->user);
    if (st == KILN_STATUS_OK) {
        st = kilni_onnx_plan_model(session, err);
    }
    if (st != KILN_STATUS_OK) {
        kiln_onnx_session_destroy(session);
        return st;
    }
    *out_session = session;
    return KILN_STATUS_OK;
}

void kiln_onnx_session_destroy(kiln_onnx_session *session)
{
    if (session == NULL) {
        return;
    }
    for (uint32_t i = 0; i < session->kept_size; i++) {
        kilni_onnx_release(&session->env, session->kept[i].value);
    }
    kiln_env env = session->env;
    kiln_free(&env, session->kept);
    kiln_arena_fini(&session->arena);
    if (session->host != NULL) {
        session->host->ops->close(session->host);
    }
    kiln_device_release(session->device);
    kiln_free(&env, session);
}

// ---- frames -----------------------------------------------------------------

static kiln_status frame_init(kilni_onnx_frame *frame, kiln_onnx_session *session,
                              const kilni_onnx_plan *plan, kiln_error *err)
{
    *frame = (kilni_onnx_frame){.session = session, .plan = plan};
    frame->values = kiln_alloc_array(&session->env, plan->n_slots + 1u, sizeof(kilni_onnx_ref));
    frame->left = kiln_alloc_array(&session->env, plan->n_slots + 1u, sizeof(*frame->left));
    if (frame->values == NULL || frame->left == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %u values", plan->n_slots);
    }
    memcpy(frame->left, plan->uses, plan->n_slots * sizeof(*frame->left));
    return KILN_STATUS_OK;
}

static void frame_fini(kilni_onnx_frame *frame)
{
    const kiln_env *env = &frame->session->env;
    for (uint32_t i = 0; frame->values != NULL && i < frame->plan->n_slots; i++) {
        kilni_onnx_release(env, frame->values[i]);
    }
    kiln_free(env, frame->values);
    kiln_free(env, frame->left);
}

/* One use is over; after the last the value goes. */
static void used(kilni_onnx_frame *frame, uint32_t slot)
{
    if (slot != KILNI_ONNX_NO_SLOT && --frame->left[slot] == 0) {
        kilni_onnx_release(&frame->session->env, frame->values[slot]);
        frame->values[slot] = NULL;
    }
}

static void put(kilni_onnx_frame *frame, uint32_t slot, kilni_onnx_ref value)
{
    if (slot != KILNI_ONNX_NO_SLOT && frame->left[slot] > 0) {
        frame->values[slot] = kilni_onnx_retain(value);
    }
}

static kiln_status put_initializers(kilni_onnx_frame *frame, kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    uint32_t count = plan->graph == NULL ? 0 : plan->graph->n_initializers;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = plan->initializers[i];
        kilni_onnx_ref value = NULL;
        if (slot == KILNI_ONNX_NO_SLOT || frame->left[slot] == 0) {
            continue;
        }
        kiln_status st =
            kilni_onnx_keep(frame->session, &plan->graph->initializers[i], &value, err);
        if (st != KILN_STATUS_OK) {
            return st;
        }
        put(frame, slot, value);
    }
    return KILN_STATUS_OK;
}

// ---- nodes ------------------------------------------------------------------

static void release_temps(kilni_onnx_call *call)
{
    while (call->temps != NULL) {
        kilni_onnx_ref value = call->temps;
        call->temps = value->next;
        kilni_onnx_release(&call->session->env, value);
    }
}

static kiln_status call_function(const kilni_onnx_call *call, const kilni_onnx_plan *function)
{
    const kilni_onnx_node *node = call->node;
    if (node->n_inputs > function->n_inputs || node->n_outputs > function->n_outputs) {
        return kiln_fail(call->err, INVALID_ARGUMENT,
                         "function takes %u inputs and gives %u outputs, not %u and %u",
                         function->n_inputs, function->n_outputs, node->n_inputs, node->n_outputs);
    }
    kilni_onnx_ref *values =
        kiln_alloc_array(&call->session->env, function->n_outputs + 1u, sizeof(kilni_onnx_ref));
    if (values == NULL) {
        return kiln_fail(call->err, RESOURCE_EXHAUSTED, "no memory for the outputs of a function");
    }
    kiln_status st = kilni_onnx_run_plan(call->session, function, call, NULL, call->inputs,
                                         call->n_inputs, values, call->err);
    for (uint32_t i = 0; i < function->n_outputs; i++) {
        if (st == KILN_STATUS_OK && i < call->n_outputs) {
            call->outputs[i] = kilni_onnx_retain(values[i]);
        }
        kilni_onnx_release(&call->session->env, values[i]);
    }
    kiln_free(&call->session->env, values);
    return st;
}

static kiln_status check_outputs(const kilni_onnx_call *call)
{
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        if (call->outputs[i] == NULL && kilni_onnx_wants(call, i)) {
            return kiln_fail(call->err, UNIMPLEMENTED, "output %u of %s is not supported", i,
                             call->node->op_type);
        }
    }
    return KILN_STATUS_OK;
}

/* The values that a node reads, and room for those that it makes, in one array. */
static kiln_status gather_inputs(const kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                 kilni_onnx_ref *inputs, kiln_error *err)
{
    for (uint32_t i = 0; i < step->node->n_inputs; i++) {
        uint32_t slot = step->inputs[i];
        inputs[i] = slot == KILNI_ONNX_NO_SLOT ? NULL : frame->values[slot];
        if (slot != KILNI_ONNX_NO_SLOT && inputs[i] == NULL && frame->plan->function == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "value '%s' has no contents",
                             frame->plan->names[slot]);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status run_call(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                            kilni_onnx_ref *values, kiln_error *err)
{
    const kilni_onnx_node *node = step->node;
    kiln_status st = gather_inputs(frame, step, values, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_onnx_call call = {.session = frame->session,
                            .frame = frame,
                            .node = node,
                            .row = step->row,
                            .version = step->version,
                            .inputs = values,
                            .outputs = values + node->n_inputs,
                            .n_inputs = node->n_inputs,
                            .n_outputs = node->n_outputs,
                            .err = err};
    if (step->function != NULL) {
        call.status = call_function(&call, step->function);
    } else {
        step->row->handler(&call);
    }
    if (kilni_onnx_ok(&call)) {
        call.status = check_outputs(&call);
    }
    release_temps(&call);
    return call.status;
}

static kiln_status run_step(kilni_onnx_frame *frame, const kilni_onnx_step *step, kiln_error *err)
{
    const kilni_onnx_node *node = step->node;
    const kiln_env *env = &frame->session->env;
    if (++frame->session->steps_run > KILNI_ONNX_MAX_STEPS) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "a run of more than %d nodes",
                         KILNI_ONNX_MAX_STEPS);
    }
    kilni_onnx_ref few[FEW] = {0};
    size_t count = (size_t)node->n_inputs + node->n_outputs;
    bool fits = count <= FEW;
    kilni_onnx_ref *values = fits ? few : kiln_alloc_array(env, count, sizeof(kilni_onnx_ref));
    if (values == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the values of a node");
    }
    kiln_status st = run_call(frame, step, values, err);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (st == KILN_STATUS_OK) {
            put(frame, step->outputs[i], values[node->n_inputs + i]);
        }
        kilni_onnx_release(env, values[node->n_inputs + i]);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        used(frame, step->inputs[i]);
    }
    for (uint32_t i = 0; i < step->n_captured; i++) {
        used(frame, step->captured[i]);
    }
    if (!fits) {
        kiln_free(env, values);
    }
    return st == KILN_STATUS_OK
               ? st
               : kiln_error_context(err, "node '%s' (%s)", node->name, node->op_type);
}

static kiln_status run_frame(kilni_onnx_frame *frame, kilni_onnx_ref *inputs, uint32_t n_inputs,
                             kilni_onnx_ref *out_values, kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    kiln_status st = put_initializers(frame, err);
    for (uint32_t i = 0; st == KILN_STATUS_OK && i < plan->n_inputs && i < n_inputs; i++) {
        put(frame, plan->inputs[i], inputs[i]);
    }
    for (uint32_t i = 0; st == KILN_STATUS_OK && i < plan->n_outer && frame->around != NULL; i++) {
        put(frame, plan->outer[i], frame->around->values[plan->outer_from[i]]);
    }
    for (uint32_t i = 0; st == KILN_STATUS_OK && i < plan->n_steps; i++) {
        st = run_step(frame, &plan->steps[i], err);
    }
    for (uint32_t i = 0; st == KILN_STATUS_OK && i < plan->n_outputs; i++) {
        uint32_t slot = plan->outputs[i];
        out_values[i] = slot == KILNI_ONNX_NO_SLOT ? NULL : kilni_onnx_retain(frame->values[slot]);
    }
    return st;
}

kiln_status kilni_onnx_run_plan(kiln_onnx_session *session, const kilni_onnx_plan *plan,
                                const kilni_onnx_call *caller, kilni_onnx_frame *around,
                                kilni_onnx_ref *inputs, uint32_t n_inputs,
                                kilni_onnx_ref *out_values, kiln_error *err)
{
    uint32_t depth = caller != NULL ? caller->frame->depth + 1 : 0;
    if (depth > KILNI_ONNX_MAX_CALLS) {
        return kiln_fail(err, INVALID_ARGUMENT, "calls nested deeper than %d",
                         KILNI_ONNX_MAX_CALLS);
    }
    kilni_onnx_frame frame;
    kiln_status st = frame_init(&frame, session, plan, err);
    frame.caller = around == NULL ? caller : NULL;
    frame.around = around;
    frame.depth = depth;
    if (st == KILN_STATUS_OK) {
        st = run_frame(&frame, inputs, n_inputs, out_values, err);
    }
    frame_fini(&frame);
    return st;
}

// ---- a run of the model -----------------------------------------------------

static kiln_status check_input(const kiln_onnx_value_info *info, const kiln_tensor *tensor,
                               kiln_error *err)
{
    if (info->kind != KILN_ONNX_KIND_TENSOR) {
        return kiln_fail(err, UNIMPLEMENTED, "input '%s' is no tensor", info->name);
    }
    if (info->dtype != kiln_tensor_dtype(tensor)) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is %s, the model takes %s", info->name,
                         kiln_dtype_name(kiln_tensor_dtype(tensor)), info->type_name);
    }
    if (!info->has_shape) {
        return KILN_STATUS_OK;
    }
    if (info->rank != kiln_tensor_rank(tensor)) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' has rank %zu, the model takes rank %u",
                         info->name, kiln_tensor_rank(tensor), info->rank);
    }
    for (uint32_t i = 0; i < info->rank; i++) {
        int64_t length = kiln_tensor_dims(tensor)[i];
        if (info->dims[i].length >= 0 && info->dims[i].length != length) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "axis %u of input '%s' has length %lld, the model takes %lld", i,
                             info->name, (long long)length, (long long)info->dims[i].length);
        }
    }
    return KILN_STATUS_OK;
}

/* A value around the caller's tensor. */
static kiln_status bind_input(const kiln_onnx_session *session, const kiln_onnx_value_info *info,
                              const kiln_onnx_input *inputs, size_t n_inputs,
                              kilni_onnx_ref *out_value, kiln_error *err)
{
    const kiln_onnx_input *found = NULL;
    for (size_t i = 0; i < n_inputs && found == NULL; i++) {
        found = strcmp(inputs[i].name, info->name) == 0 ? &inputs[i] : NULL;
    }
    if (found == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "input '%s' is not given", info->name);
    }
    kiln_status st = check_input(info, found->tensor, err);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_onnx_ref value = kilni_onnx_value_new(&session->env);
    if (value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input");
    }
    value->tensor = kiln_retain(found->tensor);
    value->host = found->host;
    value->desc.dtype = kiln_tensor_dtype(found->tensor);
    value->desc.rank = (uint8_t)kiln_tensor_rank(found->tensor);
    memcpy(value->desc.dims, kiln_tensor_dims(found->tensor),
           value->desc.rank * sizeof(value->desc.dims[0]));
    *out_value = value;
    return KILN_STATUS_OK;
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

/* Whether nothing was recorded for a value: it is an input of the run, or a constant. */
static bool was_there_before(const kilni_onnx_value *value, const kilni_onnx_ref *bound,
                             uint32_t n_bound)
{
    bool found = value->constant;
    for (uint32_t i = 0; i < n_bound && !found; i++) {
        found = bound[i] == value;
    }
    return found;
}

/* Outputs as tensors, each of its own: an output that is an input or a constant is copied, so that
   a capture has an operation for it and the caller may do with it as it likes. `bound` are the
   inputs, the values follow them. */
static kiln_status give_outputs(kiln_onnx_session *session, const kilni_onnx_ref *bound,
                                uint32_t count, kiln_tensor **out_tensors, kiln_error *err)
{
    uint32_t n_bound = session->model->n_inputs;
    const kilni_onnx_ref *values = bound + n_bound;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "output %u of the model has no value", i);
        }
        kiln_tensor *tensor = NULL;
        kiln_status st = kilni_onnx_to_device(session->device, values[i], &tensor, err);
        if (st == KILN_STATUS_OK && was_there_before(values[i], bound, n_bound)) {
            st = kiln_contiguous(tensor, &out_tensors[i], err);
        } else if (st == KILN_STATUS_OK) {
            out_tensors[i] = kiln_retain(tensor);
        }
        if (st != KILN_STATUS_OK) {
            return st;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status run_bound(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                             size_t n_inputs, kilni_onnx_ref *bound, kilni_onnx_ref *values,
                             kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    session->steps_run = 0;
    kiln_status st = check_names(model, inputs, n_inputs, err);
    for (uint32_t i = 0; st == KILN_STATUS_OK && i < model->n_inputs; i++) {
        st = bind_input(session, &model->inputs[i], inputs, n_inputs, &bound[i], err);
    }
    if (st != KILN_STATUS_OK) {
        return st;
    }
    return kilni_onnx_run_plan(session, session->main, NULL, NULL, bound, model->n_inputs, values,
                               err);
}

kiln_status kiln_onnx_session_run(kiln_onnx_session *session, const kiln_onnx_input *inputs,
                                  size_t n_inputs, kiln_tensor **out_tensors, size_t n_outputs,
                                  kiln_error *err)
{
    const kiln_onnx_model *model = session->model;
    uint32_t wanted = model->graph.n_outputs;
    for (size_t i = 0; i < n_outputs; i++) {
        out_tensors[i] = NULL;
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
    kiln_status st = run_bound(session, inputs, n_inputs, bound, values, err);
    if (st == KILN_STATUS_OK) {
        st = give_outputs(session, bound, wanted, out_tensors, err);
    }
    for (uint32_t i = 0; i < model->n_inputs + wanted; i++) {
        kilni_onnx_release(&session->env, bound[i]);
    }
    for (size_t i = 0; st != KILN_STATUS_OK && i < n_outputs; i++) {
        kiln_release(out_tensors[i]);
        out_tensors[i] = NULL;
    }
    kiln_free(&session->env, bound);
    return st;
}
