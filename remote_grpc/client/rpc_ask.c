// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls without a session: one empty message, one answer, read field by field, so that what is not
// known is skipped. And which of several servers to begin at.

#include "rpc_ask.h"

#include "rpc_protocol.h"
#include "rpc_stream.h"

enum { ASKED = 3 }; ///< servers that say their load: docs/devices/scaling.md

kiln_status kilni_rpc_ask(const kiln_env *env, const kilni_rpc_address *address,
                          const kilni_rpc_identity *identity, const char *method,
                          kilni_wire_piece *out_reply, kiln_error *err)
{
    kilni_rpc_stream *stream = NULL;
    kilni_rpc_message message = {0};
    bool end = false;
    char *flat = NULL;
    kiln_status status =
        kilni_rpc_connect(env, address, identity, method, KILNI_RPC_GREETING_MS, &stream, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(stream, "", 0, err);
    }
    if (status == KILN_STATUS_OK) {
        kilni_rpc_finish_sending(stream);
        status = kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &message, &end, err);
    }
    if (status == KILN_STATUS_OK && end) {
        status = kiln_fail(err, DATA_LOSS, "the server ended %s without an answer", method);
    }
    if (status == KILN_STATUS_OK) {
        flat = kiln_alloc(env, message.length + 1);
        status = flat != NULL ? KILN_STATUS_OK
                              : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    if (status == KILN_STATUS_OK) {
        kilni_rpc_message_copy(&message, 0, message.length, flat);
        *out_reply = (kilni_wire_piece){(unsigned char *)flat, message.length};
    }
    kilni_rpc_message_free(&message);
    if (status != KILN_STATUS_OK && stream != NULL) {
        kilni_rpc_cancel(stream); // a silent one is not waited for
    }
    kilni_rpc_stream_close(stream, NULL);
    return status;
}

/// Sessions and calls of models; UINT64_MAX: the server does not say, is not there or leaves.
static uint64_t load_of(const kiln_env *env, const kilni_rpc_address *address,
                        const kilni_rpc_identity *identity)
{
    enum { LOAD = 8, SESSIONS = 1, CALLS = 2, DRAINING = 5 }; // of InfoResponse
    kiln_error ignored = KILN_ERROR_INIT;
    kilni_wire_piece reply = {NULL, 0};
    kilni_wire_field field;
    uint64_t load = 0;
    bool leaves = false;
    if (kilni_rpc_ask(env, address, identity, KILNI_RPC_INFO, &reply, &ignored) != KILN_STATUS_OK) {
        return UINT64_MAX;
    }
    kilni_wire_piece row = kilni_wire_get(reply, LOAD);
    while (kilni_wire_take(&row, &field)) {
        bool counts = !field.is_bytes && (field.number == SESSIONS || field.number == CALLS);
        load += counts ? field.value : 0;
        leaves = leaves || (field.number == DRAINING && field.value != 0);
    }
    kiln_free(env, (void *)(uintptr_t)reply.bytes);
    return leaves ? UINT64_MAX : load;
}

uint32_t kilni_rpc_least_busy(const kiln_env *env, const kilni_rpc_addresses *servers,
                              const kilni_rpc_identity *identity, uint32_t from)
{
    uint32_t best = from;
    uint32_t said = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; servers->count > 1 && i < servers->count && said < ASKED && least > 0;
         i++) {
        uint32_t at = (from + i) % servers->count;
        uint64_t load = load_of(env, &servers->each[at], identity);
        said += load < UINT64_MAX;
        if (load < least) {
            least = load;
            best = at;
        }
    }
    return best;
}
