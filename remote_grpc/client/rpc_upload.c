// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes for the server: written, or, when they are a constant's, first offered by their digest,
// since the server may have them from an earlier session. Offers are answered while operations are
// gathered; what the server has not is uploaded before the Run that uses it. A graph whose Run
// waits for such answers anyway is offered too.

#include "rpc_client.h"

#include <string.h>

// ---- writing ----

static kiln_status write_pieces(kilni_rpc_client *self, const kiln_buffer *buffer, size_t offset,
                                const char *source, size_t bytes, kilni_rpc_hold *hold,
                                kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t last_held = 0;
    for (size_t at = 0; at < bytes && status == KILN_STATUS_OK; at += self->chunk) {
        size_t length = bytes - at < self->chunk ? bytes - at : self->chunk;
        kilni_rpc_frame frame = {.data = source + at, .data_length = length};
        frame.hold = length >= KILNI_RPC_TELL_BYTES ? hold : NULL;
        frame.body.which_body = kiln_v1_Frame_write_tag;
        frame.body.body.write =
            (kiln_v1_Write){.buffer = buffer->id, .offset = offset + at, .total = buffer->bytes};
        status = kilni_rpc_client_send(self, &frame, err);
        last_held = frame.hold != NULL ? self->link.sent : last_held;
    }
    if (last_held > 0 && self->is_open) { // the caller's bytes are in use until then
        kiln_status settled =
            kilni_rpc_client_settle(self, last_held, status == KILN_STATUS_OK ? err : NULL);
        status = status == KILN_STATUS_OK ? settled : status;
    }
    return status;
}

kiln_status kilni_rpc_upload(kilni_rpc_client *self, const kiln_buffer *buffer, size_t offset,
                             const void *source, size_t bytes, kiln_error *err)
{
    kilni_rpc_hold hold;
    if (kilni_rpc_shares(self, bytes)) {
        return kilni_rpc_shared_write(self, buffer, offset, source, bytes, err);
    }
    atomic_init(&hold.refs, 1);
    kiln_status status = write_pieces(self, buffer, offset, source, bytes, &hold, err);
    if (status != KILN_STATUS_OK && status != KILN_STATUS_RESOURCE_EXHAUSTED) {
        kilni_rpc_client_drop_kept(self);
    }
    kilni_rpc_hold_drain(&hold);
    return status;
}

// ---- offers ----

/// An offer of bytes to a buffer, or of a graph under a number.
static kiln_status begin_offer(kilni_rpc_client *self, const kiln_v1_Offer *offer,
                               const kilni_rpc_digest *digest, kiln_pending **out_pending,
                               kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    frame.body.which_body = kiln_v1_Frame_offer_tag;
    frame.body.body.offer = *offer;
    frame.body.body.offer.digest.size = KILNI_RPC_DIGEST;
    memcpy(frame.body.body.offer.digest.bytes, digest->bytes, KILNI_RPC_DIGEST);
    return kilni_rpc_pending_begin(self, &frame, NULL, 0, out_pending, err);
}

bool kilni_rpc_is_owed(const kilni_rpc_client *self, const kiln_buffer *buffer)
{
    return buffer != NULL && buffer->origin.memory != NULL && !buffer->written && !buffer->listed &&
           buffer->epoch != self->epoch;
}

static kiln_status upload_constant(kilni_rpc_client *self, kiln_buffer *buffer, kiln_error *err)
{
    buffer->epoch = self->epoch;
    kiln_status status =
        kilni_rpc_upload(self, buffer, 0, buffer->origin.memory, buffer->bytes, err);
    if (status != KILN_STATUS_OK) {
        buffer->epoch = 0; // it is still owed
    }
    return status;
}

static void list(kilni_rpc_client *self, kiln_buffer *buffer)
{
    buffer->listed = true;
    self->offered[self->n_offered++] = buffer;
}

static void note_copied(const kiln_buffer *buffer)
{
    if (buffer->origin.copied != NULL) {
        buffer->origin.copied(buffer->origin.user, 0, buffer->bytes);
    }
}

/// Where digests of earlier processes are, opened when the first is looked for.
static kiln_store *digests_of(kilni_rpc_client *self)
{
    char folder[4096];
    kiln_error ignored = KILN_ERROR_INIT;
    if (!self->sought && self->env->config != NULL &&
        kiln_cache_dir(self->env, folder, sizeof(folder), &ignored) == KILN_STATUS_OK) {
        (void)!kiln_store_open(self->env, folder, &self->digests, &ignored);
    }
    self->sought = true;
    return self->digests;
}

static bool find_digest(kiln_store *store, kiln_hash128 stamp, kilni_rpc_digest *out_digest,
                        const kiln_env *env)
{
    kiln_blob found = {NULL, 0};
    kiln_error ignored = KILN_ERROR_INIT;
    bool good =
        kiln_store_get(store, KILN_STORE_DIGESTS, stamp, &found, &ignored) == KILN_STATUS_OK &&
        found.length == sizeof(*out_digest);
    if (good) {
        memcpy(out_digest, found.data, sizeof(*out_digest));
    }
    kiln_free(env, found.data);
    return good;
}

/// Reading all of a large model takes longer than a server that has it needs to be told so: a
/// constant whose stamp was seen before is not read.
static kiln_status know_digest(kilni_rpc_client *self, kiln_buffer *buffer, kiln_error *err)
{
    kiln_hash128 stamp = buffer->origin.stamp;
    bool stamped = stamp.low != 0 || stamp.high != 0;
    kiln_store *store = stamped && !buffer->has_digest ? digests_of(self) : NULL;
    if (buffer->has_digest ||
        (store != NULL && find_digest(store, stamp, &buffer->digest, self->env))) {
        buffer->has_digest = true;
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kilni_rpc_digest_of(buffer->origin.memory, buffer->bytes, &buffer->digest, err);
    buffer->has_digest = status == KILN_STATUS_OK;
    if (status == KILN_STATUS_OK && store != NULL) {
        kiln_error ignored = KILN_ERROR_INIT;
        (void)!kiln_store_put(store, KILN_STORE_DIGESTS, stamp, &buffer->digest,
                              sizeof(buffer->digest), &ignored);
    }
    return status;
}

kiln_status kilni_rpc_offer_constant(kilni_rpc_client *self, kiln_buffer *buffer, kiln_error *err)
{
    kiln_error ignored = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!self->keeps || buffer->bytes < KILNI_RPC_OFFER_BYTES ||
        know_digest(self, buffer, &ignored) != KILN_STATUS_OK) {
        status = upload_constant(self, buffer, err);
        note_copied(buffer);
        return status;
    }
    if (self->n_offered == KILNI_RPC_OFFERS) {
        status = kilni_rpc_settle_constants(self, err);
    }
    if (status == KILN_STATUS_OK) {
        const kiln_v1_Offer offer = {.buffer = buffer->id, .total = buffer->bytes};
        buffer->epoch = self->epoch;
        status = begin_offer(self, &offer, &buffer->digest, &buffer->offer, err);
    }
    if (status == KILN_STATUS_OK) {
        list(self, buffer);
    } else {
        buffer->epoch = 0;
    }
    return status;
}

/// Takes the answer; one that could not be uploaded then has none. Errors: the session is lost, or
/// there is no memory, and it is listed again.
static kiln_status settle_one(kilni_rpc_client *self, kiln_buffer *buffer, uint64_t epoch,
                              kiln_error *err)
{
    kiln_error answer = KILN_ERROR_INIT;
    kiln_pending *offer = buffer->offer;
    buffer->offer = NULL;
    buffer->listed = false;
    kiln_status status = offer != NULL ? kilni_rpc_pending_settle(self, offer, &answer)
                                       : kiln_fail(&answer, NOT_FOUND, "nothing was offered");
    if (!self->is_open || self->epoch != epoch) {
        if (err != NULL) {
            *err = answer;
        }
        return status;
    }
    // Whatever it is that keeps the server from having it: it says so again of the bytes.
    status = status != KILN_STATUS_OK ? upload_constant(self, buffer, err) : status;
    if (status != KILN_STATUS_OK && self->is_open && self->epoch == epoch) {
        list(self, buffer);
    }
    note_copied(buffer);
    return status;
}

kiln_status kilni_rpc_settle_constants(kilni_rpc_client *self, kiln_error *err)
{
    kiln_status first = KILN_STATUS_OK;
    size_t count = self->n_offered;
    uint64_t epoch = self->epoch;
    self->n_offered = 0;
    for (size_t i = 0; i < count; i++) { // after a loss too: all answers are taken
        kiln_status status =
            settle_one(self, self->offered[i], epoch, first == KILN_STATUS_OK ? err : NULL);
        first = first == KILN_STATUS_OK ? status : first;
    }
    return first;
}

kiln_status kilni_rpc_settle_run(kilni_rpc_client *self, kilni_rpc_frame *run, kiln_error *err)
{
    const kiln_v1_Offer offer = {.graph = run->body.body.run.graph, .total = run->graph_length};
    kilni_rpc_digest digest;
    kiln_error answer = KILN_ERROR_INIT;
    kiln_pending *pending = NULL;
    uint64_t epoch = self->epoch;
    kiln_status status = KILN_STATUS_OK;
    if (self->keeps && offer.graph != 0 && offer.total >= KILNI_RPC_OFFER_BYTES &&
        kilni_rpc_digest_of(run->graph, run->graph_length, &digest, &answer) == KILN_STATUS_OK) {
        status = begin_offer(self, &offer, &digest, &pending, err);
    }
    kiln_status constants = kilni_rpc_settle_constants(self, status == KILN_STATUS_OK ? err : NULL);
    status = status == KILN_STATUS_OK ? constants : status;
    bool has_graph =
        pending != NULL && kilni_rpc_pending_settle(self, pending, &answer) == KILN_STATUS_OK;
    if (status == KILN_STATUS_OK && (!self->is_open || self->epoch != epoch)) {
        if (err != NULL) {
            *err = answer;
        }
        return KILN_STATUS_UNAVAILABLE;
    }
    if (status == KILN_STATUS_OK && has_graph) {
        run->graph_length = 0; // the number says which
    }
    return status;
}
