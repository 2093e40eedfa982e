// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of answers on their way to the client. Their bytes come between other frames, and are
// put where they belong whoever takes them. A lost session ends them all.

#include "rpc_client.h"

static kiln_pending *find(const kilni_rpc_client *self, uint64_t request)
{
    kiln_pending *each = self->pending;
    while (each != NULL && each->request != request) {
        each = each->next;
    }
    return each;
}

static void unlink_pending(kilni_rpc_client *self, const kiln_pending *pending)
{
    kiln_pending **link = &self->pending;
    while (*link != NULL && *link != pending) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = pending->next;
        self->n_pending--;
    }
}

/// The answer is there, or there will be none. Nobody asks after a forgotten one.
static void finish(kilni_rpc_client *self, kiln_pending *pending)
{
    unlink_pending(self, pending);
    self->awaited_bytes -= pending->length - pending->at;
    pending->done = true;
    if (pending->forgotten) {
        kiln_free(self->env, pending);
    }
}

void kilni_rpc_pending_fail_all(kilni_rpc_client *self, const kiln_error *cause)
{
    while (self->pending != NULL) {
        self->pending->result = *cause;
        finish(self, self->pending);
    }
}

bool kilni_rpc_pending_take(kilni_rpc_client *self, const kilni_rpc_frame *frame)
{
    kiln_pending *pending = find(self, frame->body.request);
    size_t length = frame->data_length;
    if (pending == NULL || length > pending->length - pending->at) {
        return false;
    }
    if (pending->target != NULL && length > 0) {
        kilni_rpc_frame_data(frame, pending->target + pending->at);
    }
    pending->at += length;
    self->awaited_bytes -= length;
    if (frame->body.which_body != kiln_v1_Frame_answer_tag) {
        return frame->body.which_body == 0;
    }
    const kiln_v1_Answer *answer = &frame->body.body.answer;
    if (answer->code != 0) {
        (void)kiln_error_set(&pending->result, (kiln_status)answer->code, KILN_FILE_NAME, __LINE__,
                             "remote: %s", answer->message);
    } else if (pending->at != pending->length) {
        (void)kiln_fail(&pending->result, DATA_LOSS, "the server sent %zu bytes of %zu",
                        pending->at, pending->length);
    }
    finish(self, pending);
    return true;
}
