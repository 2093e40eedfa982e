// SPDX-License-Identifier: MIT OR Apache-2.0
// Asking and waiting for answers. A read takes its place in the session's order when it is asked
// for, and is waited for when somebody needs it. Takes the client's lock where the runtime holds
// none. Where an answer's bytes go is rpc_answers.c's.

#include "rpc_client.h"

enum { MOST_PENDING = 1024 };

static void wait_for(kilni_rpc_client *self, kiln_pending *pending)
{
    kiln_error ignored = KILN_ERROR_INIT; // a lost session is told to all that are pending
    while (!pending->done) {
        (void)!kilni_rpc_client_take(self, /*timeout_ms=*/-1, &ignored);
    }
}

kiln_status kilni_rpc_pending_begin(kilni_rpc_client *self, kilni_rpc_frame *frame, void *out_data,
                                    size_t length, kiln_pending **out_pending, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && self->n_pending >= MOST_PENDING) {
        status = kilni_rpc_client_take(self, /*timeout_ms=*/-1, err);
    }
    kiln_pending *pending =
        status == KILN_STATUS_OK ? kiln_alloc(self->env, sizeof(*pending)) : NULL;
    if (pending == NULL) {
        return status != KILN_STATUS_OK
                   ? status
                   : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a read");
    }
    uint64_t epoch = self->epoch;
    frame->body.request = ++self->next_request;
    status = kilni_rpc_client_send(self, frame, err);
    if (status != KILN_STATUS_OK) {
        kiln_free(self->env, pending);
        return status;
    }
    *pending = (kiln_pending){.client = self,
                              .request = frame->body.request,
                              .target = out_data,
                              .length = length,
                              .next = self->pending};
    self->pending = pending; // nothing waited for these bytes until they were asked for
    self->n_pending++;
    self->awaited_bytes += length;
    if (!self->link.resumable && epoch == self->epoch) {
        wait_for(self, pending); // without acks nobody knows how far the server is
    }
    *out_pending = pending;
    return KILN_STATUS_OK;
}

/// Gives the result, and frees what is not on its way any more.
static kiln_status end(kilni_rpc_client *self, kiln_pending *pending, kiln_error *err)
{
    kiln_status status = (kiln_status)pending->result.code;
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = pending->result;
    }
    pending->forgotten = true;
    if (pending->done) {
        kiln_free(self->env, pending);
    }
    return status;
}

kiln_status kilni_rpc_pending_settle(kilni_rpc_client *self, kiln_pending *pending, kiln_error *err)
{
    wait_for(self, pending);
    return end(self, pending, err);
}

// ---- parts of the backend, which take the lock ----

bool kilni_rpc_pending_poll(kiln_pending *pending)
{
    kilni_rpc_client *self = pending->client;
    kiln_error ignored = KILN_ERROR_INIT;
    if (pthread_mutex_trylock(&self->lock) != 0) {
        return false; // somebody waits, and takes what comes
    }
    while (!pending->done &&
           kilni_rpc_client_take(self, /*timeout_ms=*/0, &ignored) == KILN_STATUS_OK) {
    }
    bool done = pending->done;
    pthread_mutex_unlock(&self->lock);
    return done;
}

/// While nothing comes the lock is nobody's, so other threads send and ask meanwhile. Of all that
/// wait, one waits in gRPC; who has the lock takes what came, for whomever it is.
void kilni_rpc_pending_wait(kiln_pending *pending, bool cancel)
{
    kilni_rpc_client *self = pending->client;
    kiln_error ignored = KILN_ERROR_INIT; // a lost session is told to all that are pending
    pthread_mutex_lock(&self->lock);
    cancel = cancel && !pending->shared;
    if (cancel) {
        pending->target = NULL;
    }
    while (!cancel && !pending->done) {
        kilni_rpc_stream *stream = self->link.stream;
        if (stream != NULL) {
            uint64_t seen = kilni_rpc_stand_by(stream);
            pthread_mutex_unlock(&self->lock);
            kilni_rpc_await(stream, seen);
            pthread_mutex_lock(&self->lock);
        }
        if (!pending->done) {
            (void)!kilni_rpc_client_take(self, /*timeout_ms=*/0, &ignored);
        }
    }
    pthread_mutex_unlock(&self->lock);
}

kiln_status kilni_rpc_pending_end(kiln_backend *backend, kiln_pending *pending, kiln_error *err)
{
    kilni_rpc_client *self = kilni_rpc_client_of(backend);
    pthread_mutex_lock(&self->lock);
    kiln_status status = end(self, pending, err);
    pthread_mutex_unlock(&self->lock);
    return status;
}
