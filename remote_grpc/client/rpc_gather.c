// SPDX-License-Identifier: MIT OR Apache-2.0
// What is gathered for the server, operations and frees, on its way to it. For want of memory it
// stays gathered and goes another time, so that the session and all its tensors outlive that; a
// buffer whose free has no room waits. What is gathered is rpc_batch.c's.

#include "rpc_client.h"

/// Whether the server knows nothing of it, or is told with what is gathered.
static bool note_free(kilni_rpc_client *self, const kiln_buffer *buffer)
{
    bool fresh = buffer->born == kilni_rpc_batch_serial(self->batch);
    return buffer->epoch != self->epoch || !self->is_open ||
           kilni_rpc_batch_free(self->batch, buffer->id, fresh);
}

/// With what is gathered next the server is told of those that had no room in what was before.
static void free_more(kilni_rpc_client *self)
{
    while (self->unfreed != NULL && note_free(self, self->unfreed)) {
        kiln_buffer *next = self->unfreed->next;
        kiln_free(self->env, self->unfreed);
        self->unfreed = next;
    }
}

kiln_status kilni_rpc_gather_send(kilni_rpc_client *self, kiln_error *err)
{
    kilni_rpc_frame *run = NULL;
    uint64_t forgotten = 0;
    if (kilni_rpc_batch_is_empty(self->batch)) {
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kilni_rpc_batch_frame(self->batch, /*lasting=*/self->n_offered > 0, &run, &forgotten, err);
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED) {
        return status;
    }
    if (status != KILN_STATUS_OK) {
        kiln_error cause = err != NULL ? *err : (kiln_error)KILN_ERROR_INIT;
        return kilni_rpc_client_lose(self, status, cause.message, err);
    }
    if (forgotten != 0) {
        kilni_rpc_frame forget = {0};
        forget.body.which_body = kiln_v1_Frame_forget_tag;
        forget.body.body.forget.graphs[0] = forgotten;
        forget.body.body.forget.graphs_count = 1;
        status = kilni_rpc_client_send(self, &forget, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_rpc_batch_forgot(self->batch);
    }
    if (status == KILN_STATUS_OK && self->n_offered > 0) {
        status = kilni_rpc_settle_run(self, run, err);
    }
    uint64_t epoch = self->epoch;
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_client_send(self, run, err);
    }
    if (epoch == self->epoch && status == KILN_STATUS_OK) {
        kilni_rpc_batch_end(self->batch);
        free_more(self);
    }
    return status;
}

void kilni_rpc_gather_free(kilni_rpc_client *self, kiln_buffer *take_buffer)
{
    kiln_error ignored = KILN_ERROR_INIT;
    if (note_free(self, take_buffer)) {
        kiln_free(self->env, take_buffer);
        return;
    }
    (void)!kilni_rpc_gather_send(self, &ignored); // a broken connection shows at the next read
    take_buffer->next = self->unfreed;
    self->unfreed = take_buffer;
    free_more(self);
}
