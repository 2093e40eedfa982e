// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames: the values of one run of a plan. A value is let go right after the node that reads it
// last.
#include "onnx_run.h"

#include <string.h>

kiln_status kilni_onnx_frame_init(kilni_onnx_frame *frame, kiln_onnx_session *session,
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

void kilni_onnx_frame_fini(kilni_onnx_frame *frame)
{
    const kiln_env *env = &frame->session->env;
    for (uint32_t i = 0; frame->values != NULL && i < frame->plan->n_slots; i++) {
        if (frame->values[i] != NULL) {
            kilni_onnx_release(env, frame->values[i]);
        }
    }
    kiln_free(env, frame->values);
    kiln_free(env, frame->left);
}

void kilni_onnx_used(kilni_onnx_frame *frame, uint32_t slot)
{
    if (slot != KILNI_ONNX_NO_SLOT && --frame->left[slot] == 0) {
        kilni_onnx_release(&frame->session->env, frame->values[slot]);
        frame->values[slot] = NULL;
    }
}

void kilni_onnx_put(kilni_onnx_frame *frame, uint32_t slot, kilni_onnx_ref value)
{
    if (slot != KILNI_ONNX_NO_SLOT && frame->left[slot] > 0) {
        frame->values[slot] = kilni_onnx_retain(value);
    }
}
