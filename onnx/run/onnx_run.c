// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs of a plan: its nodes in the order of the file, functions and branches inside it, ranges that
// are replayed instead. What a node becomes is decided by onnx_op_*.c, which the plan's rows name.
#include "onnx_run.h"

#include <stdarg.h>
#include <stdio.h>

/// Inputs and outputs of a node that need no memory of their own.
enum { FEW = 16 };

static kiln_status put_initializers(kilni_onnx_frame *frame, kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    kiln_onnx_session *session = frame->session;
    uint32_t count = plan->graph == NULL ? 0 : plan->graph->n_initializers;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = plan->initializers[i];
        kilni_onnx_ref value = NULL;
        if (slot == KILNI_ONNX_NO_SLOT || frame->left[slot] == 0) {
            continue;
        }
        if (session->weights != NULL && plan == session->main) {
            value = session->weights[i];
        }
        kiln_status status =
            value == NULL ? kilni_onnx_keep(session, &plan->graph->initializers[i], &value, err)
                          : KILN_STATUS_OK;
        if (status != KILN_STATUS_OK) {
            return status;
        }
        kilni_onnx_put(frame, slot, value);
    }
    return KILN_STATUS_OK;
}

// ---- nodes ----

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
    kiln_status status = kilni_onnx_run_plan(call->session, function, call, NULL, call->inputs,
                                             call->n_inputs, values, call->err);
    for (uint32_t i = 0; i < function->n_outputs; i++) {
        if (status == KILN_STATUS_OK && i < call->n_outputs) {
            call->outputs[i] = kilni_onnx_retain(values[i]);
        }
        kilni_onnx_release(&call->session->env, values[i]);
    }
    kiln_free(&call->session->env, values);
    return status;
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

/// Outputs that are on the host only were computed there: from constants, or from a run's inputs.
/// Of a node with graphs in it their nodes tell.
static kiln_onnx_where computed_where(const kilni_onnx_call *call)
{
    bool constant = true;
    bool folded = false;
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        constant = constant && (call->inputs[i] == NULL || call->inputs[i]->constant);
    }
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        const kilni_onnx_value *value = call->outputs[i];
        folded =
            folded || (value != NULL && value->form == KILNI_ONNX_TENSOR && value->tensor == NULL &&
                       value->growth == NULL && !value->given && kiln_desc_count(&value->desc) > 0);
    }
    return call->on_host || (folded && !constant && !call->has_body) ? KILN_ONNX_ON_HOST
           : folded                                                  ? KILN_ONNX_FOLDED
                                                                     : KILN_ONNX_ON_DEVICE;
}

/// Writes on at *used, as far as there is room.
static void add_text(char *text, size_t room, size_t *used, const char *format, ...)
    KILN_PRINTF(4, 5);
static void add_text(char *text, size_t room, size_t *used, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text + *used, room - *used, format, args);
    va_end(args);
    if (wanted > 0) {
        *used += (size_t)wanted < room - *used ? (size_t)wanted : room - *used - 1;
    }
}

static void tell_attribute(const kilni_onnx_attr *attr, char *text, size_t room, size_t *used)
{
    bool list = attr->type == KILNI_ONNX_ATTR_INTS || attr->type == KILNI_ONNX_ATTR_FLOATS;
    add_text(text, room, used, "%s%s=%s", *used > 0 ? ", " : "", attr->name, list ? "[" : "");
    switch (attr->type) {
    case KILNI_ONNX_ATTR_FLOAT:
        add_text(text, room, used, "%g", (double)attr->f);
        break;
    case KILNI_ONNX_ATTR_INT:
        add_text(text, room, used, "%lld", (long long)attr->i);
        break;
    case KILNI_ONNX_ATTR_STRING:
        add_text(text, room, used, "%s", attr->text);
        break;
    case KILNI_ONNX_ATTR_INTS:
    case KILNI_ONNX_ATTR_FLOATS:
        for (uint32_t i = 0; i < attr->count; i++) {
            const char *comma = i > 0 ? "," : "";
            if (attr->type == KILNI_ONNX_ATTR_INTS) {
                add_text(text, room, used, "%s%lld", comma, (long long)attr->ints[i]);
            } else {
                add_text(text, room, used, "%s%g", comma, (double)attr->floats[i]);
            }
        }
        break;
    default:
        add_text(text, room, used, "..");
    }
    add_text(text, room, used, "%s", list ? "]" : "");
}

static void tell(const kilni_onnx_call *call)
{
    char attributes[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < call->node->n_attrs; i++) {
        tell_attribute(&call->node->attrs[i], attributes, sizeof(attributes), &used);
    }
    enum { MOST_TOLD = 16 };
    kiln_onnx_node_output outputs[MOST_TOLD];
    uint32_t count = call->n_outputs < MOST_TOLD ? call->n_outputs : MOST_TOLD;
    for (uint32_t i = 0; i < count; i++) {
        const kilni_onnx_value *value = call->outputs[i];
        bool held = value != NULL && value->form == KILNI_ONNX_TENSOR;
        outputs[i] = (kiln_onnx_node_output){.name = call->node->outputs[i],
                                             .tensor = held ? value->tensor : NULL};
    }
    const kiln_onnx_node_info info = {.struct_size = (uint32_t)sizeof(info),
                                      .where = computed_where(call),
                                      .op_type = call->node->op_type,
                                      .name = call->node->name,
                                      .n_outputs = count,
                                      .outputs = outputs,
                                      .attributes = attributes};
    call->session->trace(&info, call->session->trace_user);
}

/// The values that a node reads, and room for those that it makes, in one array.
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
    kiln_status status = gather_inputs(frame, step, values, err);
    if (status != KILN_STATUS_OK) {
        return status;
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
                            .in_f32 = frame->plan->in_f32 != NULL &&
                                      frame->plan->in_f32[step - frame->plan->steps],
                            .err = err};
    if (step->function != NULL) {
        call.status = call_function(&call, step->function);
    } else {
        step->row->handler(&call);
    }
    if (kilni_onnx_ok(&call)) {
        call.status = check_outputs(&call);
    }
    if (kilni_onnx_ok(&call) && frame->session->trace != NULL && step->function == NULL) {
        tell(&call);
    }
    release_temps(&call);
    return call.status;
}

kiln_status kilni_onnx_run_step(kilni_onnx_frame *frame, const kilni_onnx_step *step,
                                kiln_error *err)
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
    kilni_onnx_settled_before(frame, step);
    kiln_status status = run_call(frame, step, values, err);
    if (status == KILN_STATUS_OK) {
        kilni_onnx_settled_after(frame, step, values + node->n_inputs);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (status == KILN_STATUS_OK) {
            kilni_onnx_put(frame, step->outputs[i], values[node->n_inputs + i]);
        }
        kilni_onnx_release(env, values[node->n_inputs + i]);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        kilni_onnx_used(frame, step->inputs[i]);
    }
    for (uint32_t i = 0; i < step->n_captured; i++) {
        kilni_onnx_used(frame, step->captured[i]);
    }
    if (!fits) {
        kiln_free(env, values);
    }
    return status == KILN_STATUS_OK ? status : kilni_onnx_at_node(err, node);
}

/// Node by node, from one that reads the device to the next; ranges between them may be replayed.
static kiln_status run_steps(kilni_onnx_frame *frame, kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    kilni_onnx_replay *replay = plan->replay;
    const bool replays = kilni_onnx_replays(frame);
    kiln_status status = KILN_STATUS_OK;
    const uint8_t *settled = frame->session->settled.steps;
    const uint8_t left_out = kilni_onnx_settled_kind(frame);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < plan->n_steps;) {
        uint32_t end = i;
        if (left_out != 0 && (settled[i] & left_out) != 0) {
            i++;
            continue;
        }
        const kilni_onnx_part *part = kilni_onnx_part_at(frame, i);
        if (part != NULL) {
            status = kilni_onnx_enter(frame, part, err);
        }
        if (status == KILN_STATUS_OK && replays &&
            (i == 0 || part != NULL || replay->reading[i - 1])) {
            status = kilni_onnx_replay_from(frame, i, kilni_onnx_run_step, &end, err);
        }
        if (end > i || status != KILN_STATUS_OK) {
            i = end;
            continue;
        }
        uint64_t before = frame->session->n_reads;
        status = kilni_onnx_run_step(frame, &plan->steps[i], err);
        if (frame->session->n_reads != before && !replay->reading[i]) {
            replay->reading[i] = true;
            replay->n_reading++;
        }
        i++;
    }
    return status;
}

static kiln_status run_frame(kilni_onnx_frame *frame, kilni_onnx_ref *inputs, uint32_t n_inputs,
                             kilni_onnx_ref *out_values, kiln_error *err)
{
    const kilni_onnx_plan *plan = frame->plan;
    kilni_onnx_settled_begin(frame, inputs, n_inputs);
    kiln_status status = put_initializers(frame, err);
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < plan->n_inputs && i < n_inputs; i++) {
        kilni_onnx_put(frame, plan->inputs[i], inputs[i]);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < plan->n_outer && frame->around != NULL;
         i++) {
        kilni_onnx_put(frame, plan->outer[i], frame->around->values[plan->outer_from[i]]);
    }
    if (status == KILN_STATUS_OK) {
        status = run_steps(frame, err);
    }
    for (uint32_t i = 0; status == KILN_STATUS_OK && i < plan->n_outputs; i++) {
        uint32_t slot = plan->outputs[i];
        out_values[i] = slot == KILNI_ONNX_NO_SLOT ? NULL : kilni_onnx_retain(frame->values[slot]);
    }
    kilni_onnx_settled_end(frame, status);
    return status;
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
    kiln_status status = kilni_onnx_frame_init(&frame, session, plan, err);
    frame.caller = around == NULL ? caller : NULL;
    frame.around = around;
    frame.depth = depth;
    if (status == KILN_STATUS_OK) {
        status = run_frame(&frame, inputs, n_inputs, out_values, err);
    }
    kilni_onnx_frame_fini(&frame);
    return status;
}
