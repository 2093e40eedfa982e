// SPDX-License-Identifier: MIT OR Apache-2.0
// What a client offers by its digest: bytes of a buffer or a graph that the vault may have from an
// earlier session of the same caller. What it has not is uploaded, measured by the digest, and
// kept. Nothing is believed of the client: who has not sent the bytes gets none.

#include "rpc_session.h"

#include <string.h>

static kilni_rpc_vault_key key_of(const kilni_rpc_session *session, const kilni_rpc_digest *digest)
{
    return (kilni_rpc_vault_key){.caller = session->caller, .content = *digest};
}

static kiln_status check_offer(const kilni_rpc_session *session, const kiln_v1_Offer *offer,
                               kiln_error *err)
{
    if (offer->digest.size != KILNI_RPC_DIGEST || offer->total == 0 ||
        (offer->buffer == 0) == (offer->graph == 0)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "an offer has a buffer or a graph, a total above 0 and a digest of %d "
                         "bytes",
                         KILNI_RPC_DIGEST);
    }
    return session->options->vault != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, NOT_FOUND, "the server keeps nothing for later sessions");
}

// ---- buffers ----

/// A miss leaves an empty buffer, whose bytes are kept when they have come.
static kiln_status offer_buffer(kilni_rpc_session *session, const kiln_v1_Offer *offer,
                                const kilni_rpc_digest *digest, kiln_error *err)
{
    const kilni_rpc_vault_key key = key_of(session, digest);
    kilni_rpc_entry *target = NULL;
    kilni_rpc_mapped mapped = {NULL, 0};
    kiln_status status = kilni_rpc_entry_renew(session, offer->buffer, offer->total, &target, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kilni_rpc_vault_get(session->options->vault, &key, offer->total, &mapped, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_staging_adopt(session, &mapped, &target->raw, err);
        if (status == KILN_STATUS_OK) {
            target->staged = offer->total;
            return status;
        }
        kilni_rpc_vault_unmap(&mapped);
    }
    target->offered = true;
    target->digest = *digest;
    return status;
}

kiln_status kilni_rpc_offer_written(kilni_rpc_session *session, uint64_t buffer, kiln_error *err)
{
    kilni_rpc_entry *entry = *kilni_rpc_entry_find(session, buffer);
    kilni_rpc_digest digest;
    if (entry == NULL || !entry->offered || entry->raw == NULL || entry->staged < entry->bytes) {
        return KILN_STATUS_OK;
    }
    entry->offered = false;
    kiln_status status = kilni_rpc_digest_of(entry->raw->bytes, (size_t)entry->bytes, &digest, err);
    if (status == KILN_STATUS_OK && memcmp(&digest, &entry->digest, sizeof(digest)) != 0) {
        status = kiln_fail(err, INVALID_ARGUMENT,
                           "the bytes of buffer %llu have another digest than was offered",
                           (unsigned long long)buffer);
        kilni_rpc_entry_fail(session, buffer, err);
    }
    if (status == KILN_STATUS_OK) {
        const kilni_rpc_vault_key key = key_of(session, &digest);
        kilni_rpc_vault_put(session->options->vault, &key, entry->raw->bytes, (size_t)entry->bytes);
    }
    return status;
}

// ---- graphs ----

static kiln_status offer_graph(kilni_rpc_session *session, const kiln_v1_Offer *offer,
                               const kilni_rpc_digest *digest, kiln_error *err)
{
    const kilni_rpc_vault_key key = key_of(session, digest);
    kilni_rpc_mapped mapped = {NULL, 0};
    session->offered_graph = offer->graph;
    session->graph_digest = *digest;
    kiln_status status =
        offer->total <= KILNI_RPC_MAX_MESSAGE
            ? kilni_rpc_vault_get(session->options->vault, &key, offer->total, &mapped, err)
            : kiln_fail(err, INVALID_ARGUMENT, "a graph of %llu bytes, the most is %d",
                        (unsigned long long)offer->total, KILNI_RPC_MAX_MESSAGE);
    if (status == KILN_STATUS_OK) {
        session->offered_graph = 0;
        status = kilni_rpc_graph_learn(session, offer->graph, mapped.bytes, mapped.length, err);
        kilni_rpc_vault_unmap(&mapped);
    }
    return status;
}

kiln_status kilni_rpc_offer_ran(kilni_rpc_session *session, const kilni_rpc_frame *frame,
                                kiln_error *err)
{
    kilni_rpc_digest digest;
    uint64_t graph = frame->body.body.run.graph;
    if (graph == 0 || graph != session->offered_graph || frame->graph_length == 0) {
        return KILN_STATUS_OK;
    }
    session->offered_graph = 0;
    kiln_status status = kilni_rpc_digest_of(frame->graph, frame->graph_length, &digest, err);
    if (status == KILN_STATUS_OK && memcmp(&digest, &session->graph_digest, sizeof(digest)) != 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "graph %llu has another digest than was offered",
                           (unsigned long long)graph);
    }
    if (status == KILN_STATUS_OK) {
        const kilni_rpc_vault_key key = key_of(session, &digest);
        kilni_rpc_vault_put(session->options->vault, &key, frame->graph, frame->graph_length);
    }
    return status;
}

// ---- both ----

kiln_status kilni_rpc_offer(kilni_rpc_session *session, const kiln_v1_Offer *offer, kiln_error *err)
{
    kilni_rpc_digest digest;
    kiln_status status = check_offer(session, offer, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    memcpy(digest.bytes, offer->digest.bytes, sizeof(digest.bytes));
    return offer->buffer != 0 ? offer_buffer(session, offer, &digest, err)
                              : offer_graph(session, offer, &digest, err);
}
