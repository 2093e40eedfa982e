// SPDX-License-Identifier: MIT OR Apache-2.0
// The way to another server, which leads only to peers that are named, as ourselves and not as our
// client. Decides how long one is waited for, and when a connection is made again.

#include "rpc_transfer.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>
#include <time.h>

enum { REQUEST_BYTES = 64, FETCH_PAUSE_MS = 50, LOOK_MS = 200 };

static bool is_listed(const char *const *list, size_t count, const kilni_rpc_address *address)
{
    kiln_error ignored = KILN_ERROR_INIT;
    for (size_t i = 0; i < count; i++) {
        kilni_rpc_address each;
        if (kilni_rpc_address_parse(list[i], &each, &ignored) == KILN_STATUS_OK &&
            strcmp(each.scheme, address->scheme) == 0 &&
            strcmp(each.target, address->target) == 0) {
            return true;
        }
    }
    return false;
}

/// A fetch on its way, over as many connections as it takes.
typedef struct arrival {
    const kiln_v1_Obtain *obtain;
    kilni_rpc_exposures *exposures; ///< when they stop, so does this
    uint64_t total;
    uint64_t at; ///< bytes that are there
    uint64_t restart; ///< where this connection began
    char *bytes;
    kiln_hash128 check;
} arrival;

/// One reply: its bytes have to follow those before. A server that does not know how to go on
/// begins at the beginning.
static kiln_status take_reply(const kiln_env *env, const kilni_rpc_message *message, arrival *self,
                              kiln_error *err)
{
    kiln_v1_FetchResponse reply = kiln_v1_FetchResponse_init_zero;
    kilni_rpc_parts parts = {0};
    char *flat = NULL;
    kiln_status status = kilni_rpc_split(env, message, &flat, &parts, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    // A message in one piece is not cut: its data are found by their length, at the end.
    pb_istream_t in = pb_istream_from_buffer(parts.head, parts.head_length);
    bool whole = pb_decode(&in, kiln_v1_FetchResponse_fields, &reply);
    if (whole && reply.offset == 0 && self->at == self->restart) {
        self->at = self->restart = 0;
    }
    uint64_t left = self->total - self->at;
    uint64_t expected = left < KILNI_RPC_CHUNK ? left : KILNI_RPC_CHUNK;
    if (!whole) {
        status = kiln_fail(err, DATA_LOSS, "a damaged reply: %s", PB_GET_ERROR(&in));
    } else if (reply.total != self->total || reply.offset != self->at ||
               message->length < expected) {
        status = kiln_fail(err, DATA_LOSS, "the other server sent other bytes than were asked for");
    } else {
        kilni_rpc_message_copy(message, message->length - (size_t)expected, (size_t)expected,
                               self->bytes + self->at);
        self->at += expected;
        self->check = (kiln_hash128){.low = reply.check_low, .high = reply.check_high};
    }
    kiln_free(env, flat);
    return status;
}

static uint32_t patience_ms(const kiln_v1_Obtain *obtain)
{
    return obtain->wait_ms < KILNI_RPC_TRANSFER_MOST_MS ? obtain->wait_ms
                                                        : KILNI_RPC_TRANSFER_MOST_MS;
}

/// A peer may answer gRPC's pings and send nothing else: it is not waited for longer than the
/// transfer waits, nor than this server runs.
static kiln_status await_reply(const arrival *self, kilni_rpc_stream *stream,
                               kilni_rpc_message *out_message, bool *out_end, kiln_error *err)
{
    const uint64_t wait_ms = (uint64_t)patience_ms(self->obtain) + KILNI_RPC_GREETING_MS;
    const uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * wait_ms;
    for (;;) {
        kiln_status status = kilni_rpc_receive(stream, LOOK_MS, out_message, out_end, err);
        if (status != KILN_STATUS_DEADLINE_EXCEEDED || kilni_rpc_is_broken(stream)) {
            return status;
        }
        if (kilni_rpc_exposures_stopped(self->exposures)) {
            return kiln_fail(err, UNAVAILABLE, "the server is shutting down");
        }
        if (kiln_time_ns() >= deadline) {
            return kiln_fail(err, DEADLINE_EXCEEDED,
                             "%.100s sent nothing for %llu ms, after %llu of %llu bytes",
                             self->obtain->address, (unsigned long long)wait_ms,
                             (unsigned long long)self->at, (unsigned long long)self->total);
        }
    }
}

static kiln_status download(const kiln_env *env, kilni_rpc_stream *stream, arrival *self,
                            kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    do {
        kilni_rpc_message message = {0};
        bool end = false;
        status = await_reply(self, stream, &message, &end, err);
        if (status == KILN_STATUS_OK && end) {
            status = kiln_fail(err, DATA_LOSS, "the other server sent less than was asked for");
        }
        if (status == KILN_STATUS_OK) {
            status = take_reply(env, &message, self, err);
        }
        kilni_rpc_message_free(&message);
    } while (status == KILN_STATUS_OK && self->at < self->total);
    if (status == KILN_STATUS_OK &&
        !kiln_hash_same(self->check, kiln_hash_bytes(self->bytes, (size_t)self->total))) {
        status = kiln_fail(err, DATA_LOSS, "the checksum of a transfer differs");
    }
    return status;
}

static kiln_status encode_request(const kilni_rpc_peers *peers, const kiln_v1_Obtain *obtain,
                                  uint64_t offset, pb_byte_t *out_body, size_t *inout_length,
                                  kiln_error *err)
{
    unsigned char text[KILNI_RPC_CLAIM_BYTES];
    kiln_v1_FetchRequest request = {.transfer = obtain->transfer,
                                    .wait_ms = obtain->wait_ms,
                                    .total = obtain->total,
                                    .offset = offset};
    request.secret.size = KILNI_RPC_TOKEN;
    memcpy(request.secret.bytes, obtain->secret.bytes, KILNI_RPC_TOKEN);
    kilni_rpc_write_claim(obtain->transfer, obtain->total, obtain->secret.bytes, text);
    request.signature.size = KILNI_RPC_SIGNATURE;
    kiln_status status =
        kilni_rpc_sign(peers->signer, text, sizeof(text), request.signature.bytes, err);
    pb_ostream_t out = pb_ostream_from_buffer(out_body, *inout_length);
    if (status == KILN_STATUS_OK && !pb_encode(&out, kiln_v1_FetchRequest_fields, &request)) {
        status = kiln_fail(err, INTERNAL, "encoding a request: %s", PB_GET_ERROR(&out));
    }
    *inout_length = out.bytes_written;
    return status;
}

/// Over one connection.
static kiln_status fetch_on(const kiln_env *env, const kilni_rpc_peers *peers,
                            const kilni_rpc_address *address, arrival *self, kiln_error *err)
{
    pb_byte_t body[REQUEST_BYTES + KILNI_RPC_TOKEN + KILNI_RPC_SIGNATURE];
    size_t length = sizeof(body);
    kilni_rpc_stream *stream = NULL;
    self->restart = self->at;
    kiln_status status = encode_request(peers, self->obtain, self->at, body, &length, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_connect(env, address, peers->identity, KILNI_RPC_FETCH,
                                   KILNI_RPC_GREETING_MS, &stream, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(stream, body, length, err);
    }
    if (status == KILN_STATUS_OK) {
        status = download(env, stream, self, err);
    }
    if (stream != NULL && status != KILN_STATUS_OK) {
        kilni_rpc_cancel(stream); // so that it does not count as served
    }
    kilni_rpc_stream_close(stream, NULL);
    return status;
}

static bool is_broken_off(kiln_status status)
{
    return status == KILN_STATUS_UNAVAILABLE || status == KILN_STATUS_CANCELLED ||
           status == KILN_STATUS_INTERNAL || status == KILN_STATUS_UNKNOWN;
}

/// A connection that breaks when some of it has come is made again, until nothing more comes for as
/// long as the transfer waits.
static kiln_status fetch(const kiln_env *env, const kilni_rpc_peers *peers,
                         const kilni_rpc_address *address, arrival *self, kiln_error *err)
{
    const struct timespec pause = {.tv_nsec = FETCH_PAUSE_MS * 1000000};
    kiln_error cause = KILN_ERROR_INIT;
    uint64_t deadline = 0;
    kiln_status status = fetch_on(env, peers, address, self, &cause);
    for (uint64_t before = 0;
         is_broken_off(status) && self->at > 0 && !kilni_rpc_exposures_stopped(self->exposures);) {
        uint64_t now = kiln_time_ns();
        if (self->at > before) {
            before = self->at;
            deadline = now + UINT64_C(1000000) * patience_ms(self->obtain);
        }
        if (now >= deadline) {
            break;
        }
        (void)nanosleep(&pause, NULL);
        status = fetch_on(env, peers, address, self, &cause);
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = cause;
    }
    return status;
}

/// From this server itself.
static kiln_status take_own(kilni_rpc_exposures *exposures, const kilni_rpc_peers *peers,
                            const kiln_v1_Obtain *obtain, char *out_bytes, kiln_error *err)
{
    kilni_rpc_exposure *exposure = NULL;
    const kilni_rpc_claim claim = {.transfer = obtain->transfer,
                                   .total = obtain->total,
                                   .secret = obtain->secret.bytes,
                                   .own_key = kilni_rpc_public_key(peers->signer),
                                   .wait_ms = obtain->wait_ms};
    kiln_status status = kilni_rpc_take(exposures, &claim, &exposure, err);
    if (status == KILN_STATUS_OK) {
        memcpy(out_bytes, exposure->bytes, exposure->length);
        kilni_rpc_untake(exposures, exposure, /*served=*/true);
    }
    return status;
}

kiln_status kilni_rpc_obtain(const kiln_env *env, const kilni_rpc_peers *peers,
                             kilni_rpc_exposures *exposures, const kiln_v1_Obtain *obtain,
                             char *out_bytes, kiln_error *err)
{
    kilni_rpc_address address;
    kiln_status status = kilni_rpc_address_parse(obtain->address, &address, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (is_listed(peers->own, peers->n_own, &address)) {
        return take_own(exposures, peers, obtain, out_bytes, err);
    }
    if (!is_listed(peers->allowed, peers->n_allowed, &address)) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "%.100s is not among the servers that this one fetches from",
                         obtain->address);
    }
    arrival self = {
        .obtain = obtain, .exposures = exposures, .total = obtain->total, .bytes = out_bytes};
    return fetch(env, peers, &address, &self, err);
}
