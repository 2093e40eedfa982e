// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs of a model on several devices: where a part begins, and what its steps read comes to its
// device. Constants of the file are each device's own; other values move.
#include "onnx_run.h"

void kilni_onnx_each_use(const kilni_onnx_plan *plan, uint32_t begin, uint32_t end,
                         kilni_onnx_slot_fn fn, void *user)
{
    for (uint32_t i = begin; i < end; i++) {
        const kilni_onnx_step *step = &plan->steps[i];
        for (uint32_t k = 0; k < step->node->n_inputs; k++) {
            fn(step->inputs[k], user);
        }
        for (uint32_t k = 0; k < step->n_captured; k++) {
            fn(step->captured[k], user);
        }
    }
}

const kilni_onnx_part *kilni_onnx_part_at(const kilni_onnx_frame *frame, uint32_t step)
{
    const kiln_onnx_session *session = frame->session;
    bool spans = session->spans && frame->plan == session->main;
    for (uint32_t i = 0; spans && i < session->n_parts; i++) {
        if (session->parts[i].begin == step) {
            return &session->parts[i];
        }
    }
    return NULL;
}

kiln_status kilni_onnx_enter(kilni_onnx_frame *frame, const kilni_onnx_part *part, kiln_error *err)
{
    kiln_onnx_session *session = frame->session;
    session->device = part->device;
    for (uint32_t i = 0; i < part->n_comes; i++) {
        const kilni_onnx_coming *coming = &part->comes[i];
        kilni_onnx_ref value = frame->values[coming->slot];
        kiln_status status = KILN_STATUS_OK;
        if (coming->tensor != NULL) {
            status = kilni_onnx_keep(session, coming->tensor, &value, err);
        } else if (value != NULL) {
            status = kilni_onnx_value_on(&session->env, part->device, value, &value, err);
        }
        if (status != KILN_STATUS_OK) {
            return kiln_error_context(err, "value '%s'", frame->plan->names[coming->slot]);
        }
        value = kilni_onnx_retain(value);
        kilni_onnx_release(&session->env, frame->values[coming->slot]);
        frame->values[coming->slot] = value;
    }
    return KILN_STATUS_OK;
}
