// SPDX-License-Identifier: MIT OR Apache-2.0
// Transfers between servers. The table of what is exposed: who knows number and secret may fetch it
// as often as its count says, while its time lasts; a fetch may come first and wait. And the way to
// another server, which leads only to peers that are named, as ourselves and not as our client.

#include "rpc_transfer.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { MOST_WAIT_MS = 300000, REPLY_BYTES = 64, BREAK_MS = 5 };

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
    pthread_condattr_t clock;
    kilni_rpc_exposures *exposures = kiln_alloc(env, sizeof(*exposures));
    if (exposures == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a table of transfers");
    }
    exposures->env = env;
    pthread_mutex_init(&exposures->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&exposures->changed, &clock);
    pthread_condattr_destroy(&clock);
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

static struct timespec deadline_after(uint32_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

kiln_status kilni_rpc_take(kilni_rpc_exposures *exposures, uint64_t transfer, const void *secret,
                           uint32_t wait_ms, kilni_rpc_exposure **out_exposure, kiln_error *err)
{
    const struct timespec deadline =
        deadline_after(wait_ms < MOST_WAIT_MS ? wait_ms : MOST_WAIT_MS);
    kilni_rpc_exposure *found = NULL;
    bool late = false;
    pthread_mutex_lock(&exposures->lock);
    for (;;) {
        found = *find(exposures, transfer);
        found = found != NULL && kiln_time_ns() < found->expires_ns ? found : NULL;
        if (exposures->stopped || late || (found != NULL && found->left > 0)) {
            break;
        }
        late = pthread_cond_timedwait(&exposures->changed, &exposures->lock, &deadline) != 0;
    }
    kiln_status status = KILN_STATUS_OK;
    if (exposures->stopped) {
        status = kiln_fail(err, UNAVAILABLE, "the server is shutting down");
    } else if (found == NULL || found->left == 0) {
        status = kiln_fail(err, DEADLINE_EXCEEDED, "transfer %llu is not exposed",
                           (unsigned long long)transfer);
    } else if (!kilni_rpc_same_secret(found->secret, secret, KILNI_RPC_TOKEN)) {
        status = kiln_fail(err, PERMISSION_DENIED, "transfer %llu has another secret",
                           (unsigned long long)transfer);
    } else {
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
                            kilni_rpc_exposure *exposure, kiln_error *err)
{
    kilni_rpc_message message = {0};
    kiln_status status = KILN_STATUS_OK;
    size_t at = 0;
    bool end = false;
    do {
        size_t left = exposure->length - at;
        size_t length = left < KILNI_RPC_CHUNK ? left : KILNI_RPC_CHUNK;
        status = send_reply(env, stream, exposure, at, length, err);
        at += length;
    } while (status == KILN_STATUS_OK && at < exposure->length);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_receive(stream, MOST_WAIT_MS, &message, &end, err);
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
        status = kilni_rpc_take(exposures, request.transfer, request.secret.bytes, request.wait_ms,
                                &exposure, &err);
    }
    if (status == KILN_STATUS_OK && exposure->length != request.total) {
        status = kiln_fail(&err, INVALID_ARGUMENT, "%zu bytes are exposed, %llu were expected",
                           exposure->length, (unsigned long long)request.total);
    }
    if (status == KILN_STATUS_OK) {
        status = send_all(env, stream, exposure, &err);
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
    if (exposure != NULL) {
        kilni_rpc_untake(exposures, exposure, status == KILN_STATUS_OK);
    }
}

// ---- obtaining ----

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

/// One reply: its bytes have to follow those before.
static kiln_status take_reply(const kiln_env *env, const kilni_rpc_message *message, uint64_t total,
                              uint64_t *at, char *out_bytes, kiln_hash128 *out_check,
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
    uint64_t expected = total - *at < KILNI_RPC_CHUNK ? total - *at : KILNI_RPC_CHUNK;
    if (!pb_decode(&in, kiln_v1_FetchResponse_fields, &reply)) {
        status = kiln_fail(err, DATA_LOSS, "a damaged reply: %s", PB_GET_ERROR(&in));
    } else if (reply.total != total || reply.offset != *at || message->length < expected) {
        status = kiln_fail(err, DATA_LOSS, "the other server sent other bytes than were asked for");
    } else {
        kilni_rpc_message_copy(message, message->length - (size_t)expected, (size_t)expected,
                               out_bytes + *at);
        *at += expected;
        *out_check = (kiln_hash128){.low = reply.check_low, .high = reply.check_high};
    }
    kiln_free(env, flat);
    return status;
}

static kiln_status download(const kiln_env *env, kilni_rpc_stream *stream, int64_t wait_ms,
                            uint64_t total, char *out_bytes, kiln_error *err)
{
    kiln_hash128 check = {0};
    uint64_t at = 0;
    kiln_status status = KILN_STATUS_OK;
    do {
        kilni_rpc_message message = {0};
        bool end = false;
        status = kilni_rpc_receive(stream, wait_ms, &message, &end, err);
        if (status == KILN_STATUS_OK && end) {
            status = kiln_fail(err, DATA_LOSS, "the other server sent less than was asked for");
        }
        if (status == KILN_STATUS_OK) {
            status = take_reply(env, &message, total, &at, out_bytes, &check, err);
        }
        kilni_rpc_message_free(&message);
    } while (status == KILN_STATUS_OK && at < total);
    kiln_hash128 own = kiln_hash_bytes(out_bytes, (size_t)total);
    if (status == KILN_STATUS_OK && (own.low != check.low || own.high != check.high)) {
        status = kiln_fail(err, DATA_LOSS, "the checksum of a transfer differs");
    }
    return status;
}

static kiln_status fetch(const kiln_env *env, const kilni_rpc_peers *peers,
                         const kilni_rpc_address *address, const kiln_v1_Obtain *obtain,
                         char *out_bytes, kiln_error *err)
{
    pb_byte_t body[REPLY_BYTES + KILNI_RPC_TOKEN];
    kilni_rpc_stream *stream = NULL;
    kiln_v1_FetchRequest request = {
        .transfer = obtain->transfer, .wait_ms = obtain->wait_ms, .total = obtain->total};
    request.secret.size = KILNI_RPC_TOKEN;
    memcpy(request.secret.bytes, obtain->secret.bytes, KILNI_RPC_TOKEN);
    pb_ostream_t out = pb_ostream_from_buffer(body, sizeof(body));
    if (!pb_encode(&out, kiln_v1_FetchRequest_fields, &request)) {
        return kiln_fail(err, INTERNAL, "encoding a request: %s", PB_GET_ERROR(&out));
    }
    kiln_status status = kilni_rpc_connect(env, address, peers->identity, KILNI_RPC_FETCH,
                                           KILNI_RPC_GREETING_MS, &stream, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(stream, body, out.bytes_written, err);
    }
    if (status == KILN_STATUS_OK) {
        int64_t wait_ms = (int64_t)obtain->wait_ms + KILNI_RPC_GREETING_MS;
        status = download(env, stream, wait_ms, obtain->total, out_bytes, err);
    }
    if (stream != NULL && status != KILN_STATUS_OK) {
        kilni_rpc_cancel(stream); // so that it does not count as served
    }
    kilni_rpc_stream_close(stream, NULL);
    return status;
}

/// From this server itself.
static kiln_status take_own(kilni_rpc_exposures *exposures, const kiln_v1_Obtain *obtain,
                            char *out_bytes, kiln_error *err)
{
    kilni_rpc_exposure *exposure = NULL;
    kiln_status status = kilni_rpc_take(exposures, obtain->transfer, obtain->secret.bytes,
                                        obtain->wait_ms, &exposure, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (exposure->length != obtain->total) {
        status = kiln_fail(err, INVALID_ARGUMENT, "%zu bytes are exposed, %llu were expected",
                           exposure->length, (unsigned long long)obtain->total);
    } else {
        memcpy(out_bytes, exposure->bytes, exposure->length);
    }
    kilni_rpc_untake(exposures, exposure, status == KILN_STATUS_OK);
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
        return take_own(exposures, obtain, out_bytes, err);
    }
    if (!is_listed(peers->allowed, peers->n_allowed, &address)) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "%.100s is not among the servers that this one fetches from",
                         obtain->address);
    }
    return fetch(env, peers, &address, obtain, out_bytes, err);
}
