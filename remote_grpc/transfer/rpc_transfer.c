// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers between servers: the table of what is exposed. Who knows number and secret may fetch it
// as often as its count says, while its time lasts; a fetch may come first and wait. Fetching from
// another server is rpc_obtain.c's.

#include "rpc_transfer.h"

#include "base_wait.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <pthread.h>
#include <string.h>

enum { REPLY_BYTES = 64, BREAK_MS = 5 };

struct kilni_rpc_exposures {
    const kiln_env *env;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kilni_rpc_exposure *first;
    bool stopped;
};

// ---- the table ----

kiln_status kilni_rpc_exposures_create(const kiln_env *env, kilni_rpc_exposures **out_exposures,
                                       kiln_error *err)
{
    kilni_rpc_exposures *exposures = kiln_alloc(env, sizeof(*exposures));
    if (exposures == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a table of transfers");
    }
    exposures->env = env;
    pthread_mutex_init(&exposures->lock, NULL);
    kiln_cond_init(&exposures->changed);
    *out_exposures = exposures;
    return KILN_STATUS_OK;
}

static void free_exposure(kilni_rpc_exposures *exposures, kilni_rpc_exposure *exposure)
{
    const kiln_env *env = exposures->env;
    kilni_rpc_hold_drain(&exposure->hold);
    env->allocator.free(env->allocator.user, exposure->bytes);
    kiln_free(env, exposure);
}

/// Takes it out of the table and out of its owner's count. Under the lock. Gives it when nobody
/// serves it, to be freed without the lock.
static kilni_rpc_exposure *end_exposure(kilni_rpc_exposure **link)
{
    kilni_rpc_exposure *exposure = *link;
    *link = exposure->next;
    exposure->next = NULL;
    exposure->ended = true;
    if (exposure->charged != NULL) {
        atomic_fetch_sub(exposure->charged, exposure->length);
        exposure->charged = NULL;
    }
    return exposure->serving == 0 ? exposure : NULL;
}

/// Ends those that `match`, as `owner` and `transfer` say, or that are over.
static void end_all(kilni_rpc_exposures *exposures, const void *owner, uint64_t transfer)
{
    kilni_rpc_exposure *gone = NULL;
    uint64_t now = kiln_time_ns();
    pthread_mutex_lock(&exposures->lock);
    kilni_rpc_exposure **link = &exposures->first;
    while (*link != NULL) {
        const kilni_rpc_exposure *each = *link;
        bool match = owner == NULL
                         ? now >= each->expires_ns
                         : each->owner == owner && (transfer == 0 || each->transfer == transfer);
        if (!match) {
            link = &(*link)->next;
            continue;
        }
        kilni_rpc_exposure *unused = end_exposure(link);
        if (unused != NULL) {
            unused->next = gone;
            gone = unused;
        }
    }
    pthread_cond_broadcast(&exposures->changed);
    pthread_mutex_unlock(&exposures->lock);
    while (gone != NULL) {
        kilni_rpc_exposure *each = gone;
        gone = each->next;
        free_exposure(exposures, each);
    }
}

void kilni_rpc_withdraw(kilni_rpc_exposures *exposures, const void *owner, uint64_t transfer)
{
    end_all(exposures, owner, transfer);
}

void kilni_rpc_expire(kilni_rpc_exposures *exposures)
{
    end_all(exposures, NULL, 0);
}

void kilni_rpc_exposures_stop(kilni_rpc_exposures *exposures)
{
    pthread_mutex_lock(&exposures->lock);
    exposures->stopped = true;
    pthread_cond_broadcast(&exposures->changed);
    pthread_mutex_unlock(&exposures->lock);
}

bool kilni_rpc_exposures_stopped(kilni_rpc_exposures *exposures)
{
    pthread_mutex_lock(&exposures->lock);
    bool stopped = exposures->stopped;
    pthread_mutex_unlock(&exposures->lock);
    return stopped;
}

void kilni_rpc_exposures_destroy(kilni_rpc_exposures *exposures)
{
    if (exposures == NULL) {
        return;
    }
    while (exposures->first != NULL) {
        kilni_rpc_exposure *each = end_exposure(&exposures->first);
        free_exposure(exposures, each);
    }
    pthread_cond_destroy(&exposures->changed);
    pthread_mutex_destroy(&exposures->lock);
    kiln_free(exposures->env, exposures);
}

static kilni_rpc_exposure **find(kilni_rpc_exposures *exposures, uint64_t transfer)
{
    kilni_rpc_exposure **link = &exposures->first;
    while (*link != NULL && (*link)->transfer != transfer) {
        link = &(*link)->next;
    }
    return link;
}

kiln_status kilni_rpc_expose(kilni_rpc_exposures *exposures, const kilni_rpc_exposure *draft,
                             kiln_error *err)
{
    const kiln_env *env = exposures->env;
    kiln_status status = KILN_STATUS_OK;
    kilni_rpc_exposure *fresh = kiln_alloc(env, sizeof(*fresh));
    if (fresh == NULL) {
        env->allocator.free(env->allocator.user, draft->bytes);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a transfer's record");
    }
    *fresh = *draft;
    atomic_init(&fresh->hold.refs, 1);
    fresh->check = kiln_hash_bytes(fresh->bytes, fresh->length);
    pthread_mutex_lock(&exposures->lock);
    if (*find(exposures, fresh->transfer) != NULL) {
        status = kiln_fail(err, ALREADY_EXISTS, "transfer %llu is exposed already",
                           (unsigned long long)fresh->transfer);
    } else {
        atomic_fetch_add(fresh->charged, fresh->length);
        fresh->next = exposures->first;
        exposures->first = fresh;
        pthread_cond_broadcast(&exposures->changed);
    }
    pthread_mutex_unlock(&exposures->lock);
    if (status != KILN_STATUS_OK) {
        free_exposure(exposures, fresh);
    }
    return status;
}

void kilni_rpc_write_claim(uint64_t transfer, uint64_t total, const unsigned char *secret,
                           unsigned char out_text[KILNI_RPC_CLAIM_BYTES])
{
    for (int i = 0; i < 8; i++) {
        out_text[i] = (unsigned char)(transfer >> (8 * i));
        out_text[8 + i] = (unsigned char)(total >> (8 * i));
    }
    memcpy(out_text + 16, secret, KILNI_RPC_TOKEN);
}

static bool is_fetcher(const kilni_rpc_exposure *exposure, const kilni_rpc_claim *claim)
{
    unsigned char text[KILNI_RPC_CLAIM_BYTES];
    if (!exposure->bound) {
        return true;
    }
    if (claim->own_key != NULL) {
        return memcmp(claim->own_key, exposure->fetcher, sizeof(exposure->fetcher)) == 0;
    }
    kilni_rpc_write_claim(claim->transfer, claim->total, claim->secret, text);
    return claim->signature != NULL &&
           kilni_rpc_is_signed(exposure->fetcher, text, sizeof(text), claim->signature);
}

/// Under the lock.
static kiln_status check_claim(const kilni_rpc_exposure *exposure, const kilni_rpc_claim *claim,
                               kiln_error *err)
{
    if (!kilni_rpc_same_secret(exposure->secret, claim->secret, KILNI_RPC_TOKEN)) {
        return kiln_fail(err, PERMISSION_DENIED, "transfer %llu has another secret",
                         (unsigned long long)claim->transfer);
    }
    if (!is_fetcher(exposure, claim)) {
        return kiln_fail(err, PERMISSION_DENIED, "transfer %llu is for another server",
                         (unsigned long long)claim->transfer);
    }
    return exposure->length == claim->total
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%zu bytes are exposed, %llu were expected",
                           exposure->length, (unsigned long long)claim->total);
}

kiln_status kilni_rpc_take(kilni_rpc_exposures *exposures, const kilni_rpc_claim *claim,
                           kilni_rpc_exposure **out_exposure, kiln_error *err)
{
    uint64_t wait_ms =
        claim->wait_ms < KILNI_RPC_TRANSFER_MOST_MS ? claim->wait_ms : KILNI_RPC_TRANSFER_MOST_MS;
    uint64_t deadline_ns = kiln_time_ns() + wait_ms * 1000000u;
    kilni_rpc_exposure *found = NULL;
    bool late = false;
    pthread_mutex_lock(&exposures->lock);
    for (;;) {
        found = *find(exposures, claim->transfer);
        found = found != NULL && kiln_time_ns() < found->expires_ns ? found : NULL;
        if (exposures->stopped || late || (found != NULL && found->left > 0)) {
            break;
        }
        late = !kiln_cond_wait_until(&exposures->changed, &exposures->lock, deadline_ns);
    }
    kiln_status status = KILN_STATUS_OK;
    if (exposures->stopped) {
        status = kiln_fail(err, UNAVAILABLE, "the server is shutting down");
    } else if (found == NULL || found->left == 0) {
        status = kiln_fail(err, DEADLINE_EXCEEDED, "transfer %llu is not exposed",
                           (unsigned long long)claim->transfer);
    } else {
        status = check_claim(found, claim, err);
    }
    if (status == KILN_STATUS_OK) {
        found->left--;
        found->serving++;
        *out_exposure = found;
    }
    pthread_mutex_unlock(&exposures->lock);
    return status;
}

void kilni_rpc_untake(kilni_rpc_exposures *exposures, kilni_rpc_exposure *exposure, bool served)
{
    kilni_rpc_exposure *unused = NULL;
    pthread_mutex_lock(&exposures->lock);
    exposure->serving--;
    exposure->left += !served;
    if (exposure->ended) {
        unused = exposure->serving == 0 ? exposure : NULL;
    } else if (exposure->left == 0 && exposure->serving == 0) {
        unused = end_exposure(find(exposures, exposure->transfer));
    }
    pthread_cond_broadcast(&exposures->changed);
    pthread_mutex_unlock(&exposures->lock);
    if (unused != NULL) {
        free_exposure(exposures, unused);
    }
}

// ---- serving ----

static kiln_status receive_request(const kiln_env *env, kilni_rpc_stream *stream,
                                   kiln_v1_FetchRequest *out_request, kiln_error *err)
{
    kilni_rpc_message message = {0};
    kilni_rpc_parts parts = {0};
    char *flat = NULL;
    bool end = false;
    kiln_status status = kilni_rpc_receive(stream, KILNI_RPC_GREETING_MS, &message, &end, err);
    if (status == KILN_STATUS_OK && end) {
        return kiln_fail(err, INVALID_ARGUMENT, "a fetch begins with a request");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_split(env, &message, &flat, &parts, err);
    }
    if (status == KILN_STATUS_OK) {
        pb_istream_t in = pb_istream_from_buffer(parts.head, parts.head_length);
        if (!pb_decode(&in, kiln_v1_FetchRequest_fields, out_request)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "a damaged request: %s", PB_GET_ERROR(&in));
        }
    }
    if (status == KILN_STATUS_OK && out_request->secret.size != KILNI_RPC_TOKEN) {
        status = kiln_fail(err, INVALID_ARGUMENT, "a secret has %d bytes", KILNI_RPC_TOKEN);
    }
    if (status == KILN_STATUS_OK && out_request->offset > out_request->total) {
        status = kiln_fail(err, OUT_OF_RANGE, "a fetch of %llu bytes goes on at %llu",
                           (unsigned long long)out_request->total,
                           (unsigned long long)out_request->offset);
    }
    kiln_free(env, flat);
    kilni_rpc_message_free(&message);
    return status;
}

static kiln_status send_reply(const kiln_env *env, kilni_rpc_stream *stream,
                              kilni_rpc_exposure *exposure, size_t offset, size_t length,
                              kiln_error *err)
{
    pb_byte_t body[REPLY_BYTES];
    kiln_v1_FetchResponse reply = {.total = exposure->length,
                                   .offset = offset,
                                   .check_low = exposure->check.low,
                                   .check_high = exposure->check.high};
    pb_ostream_t out = pb_ostream_from_buffer(body, sizeof(body));
    if (!pb_encode(&out, kiln_v1_FetchResponse_fields, &reply)) {
        return kiln_fail(err, INTERNAL, "encoding a reply: %s", PB_GET_ERROR(&out));
    }
    kilni_rpc_parcel *parcel = kilni_rpc_parcel_new(
        env, body, out.bytes_written, exposure->bytes + offset, length, &exposure->hold);
    if (parcel == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a reply");
    }
    kiln_status status = kilni_rpc_send(stream, parcel, err);
    kilni_rpc_parcel_free(env, parcel);
    return status;
}

/// The other side closes its half when it has checked what it got.
static kiln_status send_all(const kiln_env *env, kilni_rpc_stream *stream,
                            kilni_rpc_exposure *exposure, uint64_t offset, kiln_error *err)
{
    kilni_rpc_message message = {0};
    kiln_status status = KILN_STATUS_OK;
    size_t at = (size_t)offset;
    bool end = false;
    do {
        size_t left = exposure->length - at;
        size_t length = left < KILNI_RPC_CHUNK ? left : KILNI_RPC_CHUNK;
        status = send_reply(env, stream, exposure, at, length, err);
        at += length;
    } while (status == KILN_STATUS_OK && at < exposure->length);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_receive(stream, KILNI_RPC_TRANSFER_MOST_MS, &message, &end, err);
    }
    kilni_rpc_message_free(&message);
    if (status == KILN_STATUS_OK && !end) {
        return kiln_fail(err, INVALID_ARGUMENT, "a fetch is one request");
    }
    // A connection that breaks looks like a client that has finished, but for the end of the call.
    if (status == KILN_STATUS_OK && kilni_rpc_is_ended(stream, BREAK_MS)) {
        return kiln_fail(err, UNAVAILABLE, "the other server went away");
    }
    return status;
}

void kilni_rpc_serve_fetch(const kiln_env *env, kilni_rpc_exposures *exposures,
                           kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_v1_FetchRequest request = kiln_v1_FetchRequest_init_zero;
    kilni_rpc_exposure *exposure = NULL;
    kiln_status status = receive_request(env, stream, &request, &err);
    if (status == KILN_STATUS_OK) {
        bool is_signed = request.signature.size == KILNI_RPC_SIGNATURE;
        const kilni_rpc_claim claim = {.transfer = request.transfer,
                                       .total = request.total,
                                       .secret = request.secret.bytes,
                                       .signature = is_signed ? request.signature.bytes : NULL,
                                       .wait_ms = request.wait_ms};
        status = kilni_rpc_take(exposures, &claim, &exposure, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = send_all(env, stream, exposure, request.offset, &err);
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
    if (exposure != NULL) {
        kilni_rpc_untake(exposures, exposure, status == KILN_STATUS_OK);
    }
}
