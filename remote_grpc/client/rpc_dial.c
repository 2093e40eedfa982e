// SPDX-License-Identifier: MIT OR Apache-2.0
// The client's session: opened by Hello, resumed with back-off when the connection breaks, lost
// when the server does not know it any more or nobody answers in time. After a loss the next call
// opens another one, at another server where the address names several; what was in the old one is
// gone, and says so.

#include "rpc_client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    FIRST_PAUSE_MS = 20,
    MOST_PAUSE_MS = 1000,
    OPEN_ATTEMPTS = 3,
    SAFE_BYTES = 32 << 10, ///< that gRPC takes although the other side does not receive
    MOST_AWAITED = KILNI_RPC_UNTAKEN_BYTES - (2 << 20) ///< the rest is for the heads of frames
};

static void pause_ms(uint64_t ms)
{
    const struct timespec pause = {.tv_sec = (time_t)(ms / 1000),
                                   .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

// ---- Hello and Welcome ----

static bool offers(const kiln_v1_Welcome *welcome, const char *feature)
{
    for (pb_size_t i = 0; i < welcome->features_count; i++) {
        if (strcmp(welcome->features[i], feature) == 0) {
            return true;
        }
    }
    return false;
}

static kiln_status check_welcome(const kilni_rpc_frame *frame, kiln_error *err)
{
    if (frame->body.which_body != kiln_v1_Frame_welcome_tag) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the server answers Hello with body %d, not with Welcome",
                         (int)frame->body.which_body);
    }
    if (frame->body.body.welcome.version != KILNI_RPC_VERSION) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "the server speaks version %u of the protocol, this client %d",
                         frame->body.body.welcome.version, KILNI_RPC_VERSION);
    }
    if (frame->body.body.welcome.max_data_bytes == 0) {
        return kiln_fail(err, FAILED_PRECONDITION, "the server's Welcome allows frames no data");
    }
    return KILN_STATUS_OK;
}

/// Connects and greets; Welcome is in the inbox. With a session open, asks for that one.
static kiln_status dial(kilni_rpc_client *self, kilni_rpc_stream **out_stream, kiln_error *err)
{
    kilni_rpc_frame frame = {0};
    kiln_v1_Hello *hello = &frame.body.body.hello;
    frame.body.request = 1;
    frame.body.which_body = kiln_v1_Frame_hello_tag;
    hello->version = KILNI_RPC_VERSION;
    hello->device = self->address.device;
    hello->resumable = true;
    snprintf(hello->client, sizeof(hello->client), "kiln %s", kiln_version());
    if (self->is_open) {
        hello->session = self->welcome.session;
        hello->received = self->link.received;
        hello->token.size = self->welcome.token.size;
        memcpy(hello->token.bytes, self->welcome.token.bytes, sizeof(hello->token.bytes));
    }
    kilni_rpc_stream *stream = NULL;
    kilni_rpc_inbox_clear(self->env, self->inbox);
    kiln_status status = kilni_rpc_connect(self->env, &self->address, &self->identity,
                                           KILNI_RPC_SESSION, KILNI_RPC_GREETING_MS, &stream, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_greet(self->env, stream, &frame, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_greeted(self->env, stream, self->inbox, err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_welcome(&self->inbox->frame, err);
    }
    if (status != KILN_STATUS_OK) {
        if (stream != NULL) {
            kilni_rpc_cancel(stream);
        }
        kilni_rpc_stream_close(stream, NULL);
        return status;
    }
    *out_stream = stream;
    return KILN_STATUS_OK;
}

/// Whether another server may take what this one does not: it is gone, silent or full.
static bool is_for_others(kiln_status status)
{
    return status == KILN_STATUS_UNAVAILABLE || status == KILN_STATUS_DEADLINE_EXCEEDED ||
           status == KILN_STATUS_RESOURCE_EXHAUSTED;
}

static void choose_next(kilni_rpc_client *self)
{
    self->server = (self->server + 1) % self->servers.count;
}

/// Asks each server once, from the chosen one on.
static kiln_status dial_any(kilni_rpc_client *self, kilni_rpc_stream **out_stream, kiln_error *err)
{
    kiln_status status = KILN_STATUS_UNAVAILABLE;
    for (uint32_t i = 0; i < self->servers.count && is_for_others(status); i++) {
        if (i > 0) {
            choose_next(self);
        }
        self->address = self->servers.each[self->server];
        status = dial(self, out_stream, err);
    }
    return status;
}

kiln_status kilni_rpc_client_open(kilni_rpc_client *self, kiln_error *err)
{
    kilni_rpc_stream *stream = NULL;
    if (self->is_open) {
        return KILN_STATUS_OK;
    }
    kiln_status status = KILN_STATUS_UNAVAILABLE;
    for (int i = 0; i < OPEN_ATTEMPTS && status == KILN_STATUS_UNAVAILABLE; i++) {
        pause_ms(i > 0 ? FIRST_PAUSE_MS : 0);
        status = dial_any(self, &stream, err);
    }
    if (status != KILN_STATUS_OK && self->servers.count > 1 && is_for_others(status)) {
        (void)kiln_error_context(err, "none of %.200s takes a session; the last one",
                                 self->servers.text);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    self->welcome = self->inbox->frame.body.body.welcome;
    uint64_t chunk = self->welcome.max_data_bytes;
    self->chunk = chunk < KILNI_RPC_CHUNK ? (size_t)chunk : KILNI_RPC_CHUNK;
    uint64_t told = self->welcome.max_shared_bytes;
    self->told = told < self->chunk      ? self->chunk
                 : told < KILNI_RPC_TOLD ? (size_t)told
                                         : KILNI_RPC_TOLD;
    self->transfers = offers(&self->welcome, "transfer");
    self->keeps = offers(&self->welcome, "weights");
    self->takes_memory = offers(&self->welcome, "memory") &&
                         strcmp(self->address.scheme, "unix") == 0 && self->env->config != NULL &&
                         kiln_config_bool(self->env->config, KILN_OPTION_REMOTE_MEMORY);
    kilni_rpc_link_init(&self->link, self->env);
    self->link.resumable = offers(&self->welcome, "resume");
    kilni_rpc_batch_begin(self->batch,
                          offers(&self->welcome, "graphs") ? self->welcome.max_graphs : 0,
                          self->welcome.max_bytes / 8);
    self->is_open = true;
    self->epoch++;
    return kilni_rpc_link_attach(&self->link, stream, 0, err);
}

// ---- losing and coming back ----

/// Offers that nobody waits for yet have failed with the session: their constants are owed again.
static void drop_offers(kilni_rpc_client *self)
{
    for (size_t i = 0; i < self->n_offered; i++) {
        kiln_free(self->env, self->offered[i]->offer);
        self->offered[i]->offer = NULL;
        self->offered[i]->listed = false;
    }
    self->n_offered = 0;
}

/// The old session may still be copying, to memory that a program uses for something else from now
/// on.
static void drop_memory(kilni_rpc_client *self)
{
    if (self->offered_memory) {
        kilni_rpc_memory_revoke(self->address.host, self->welcome.session,
                                self->welcome.token.bytes);
    }
    kilni_rpc_memory_unmap(&self->slots);
    self->offered_memory = false;
}

kiln_status kilni_rpc_client_lose(kilni_rpc_client *self, kiln_status code, const char *message,
                                  kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_error_set(&cause, code, KILN_FILE_NAME, __LINE__, "%s", message);
    if (self->is_open) {
        self->is_open = false;
        self->epoch++; // nothing belongs to this one
        self->lost = cause;
        if (self->link.stream != NULL && !self->link.cut) {
            kilni_rpc_cancel(self->link.stream);
        }
        kilni_rpc_link_fini(&self->link, NULL);
        kilni_rpc_batch_begin(self->batch, 0, UINT64_MAX);
        kilni_rpc_pending_fail_all(self, &cause);
        drop_offers(self);
        drop_memory(self);
    }
    if (err != NULL) {
        *err = cause;
    }
    return code;
}

/// Whether another attempt may help. What the server itself has decided stands.
static bool is_passing(kiln_status status)
{
    return status == KILN_STATUS_UNAVAILABLE || status == KILN_STATUS_CANCELLED ||
           status == KILN_STATUS_INTERNAL || status == KILN_STATUS_UNKNOWN ||
           status == KILN_STATUS_DEADLINE_EXCEEDED || status == KILN_STATUS_ABORTED ||
           status == KILN_STATUS_OK;
}

/// Goes on over a new connection, when the server still has the session.
static kiln_status go_on(kilni_rpc_client *self, kilni_rpc_stream *stream, kiln_error *err)
{
    const kiln_v1_Welcome *welcome = &self->inbox->frame.body.body.welcome;
    if (welcome->session != self->welcome.session) {
        bool restarted = welcome->instance != self->welcome.instance;
        kilni_rpc_stream_close(stream, NULL);
        return kilni_rpc_client_lose(self, KILN_STATUS_UNAVAILABLE,
                                     restarted ? "session lost: the server was restarted"
                                               : "session lost: the server did not keep it",
                                     err);
    }
    kiln_status status = kilni_rpc_link_attach(&self->link, stream, welcome->received, err);
    return status == KILN_STATUS_OK
               ? KILN_STATUS_OK
               : kilni_rpc_client_lose(self, KILN_STATUS_DATA_LOSS,
                                       "session lost: the server counts frames differently", err);
}

/// The connection broke. Tries until the time is over.
static kiln_status come_back(kilni_rpc_client *self, kiln_error *err)
{
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * (uint64_t)self->timeout_ms;
    kiln_error cause = self->link.why;
    kiln_status status = (kiln_status)cause.code;
    for (uint64_t pause = 0; self->link.resumable && is_passing(status);
         pause = pause == 0                  ? FIRST_PAUSE_MS
                 : pause * 2 < MOST_PAUSE_MS ? pause * 2
                                             : MOST_PAUSE_MS) {
        kilni_rpc_stream *stream = NULL;
        uint64_t now = kiln_time_ns();
        if (now >= deadline) {
            break;
        }
        uint64_t left_ms = (deadline - now) / 1000000;
        pause_ms(pause < left_ms ? pause : left_ms);
        kilni_rpc_link_detach(&self->link, NULL);
        status = dial(self, &stream, &cause);
        if (status == KILN_STATUS_ABORTED) { // it is there, and still works on what it was given
            deadline = kiln_time_ns() + UINT64_C(1000000) * (uint64_t)self->timeout_ms;
        }
        if (status == KILN_STATUS_OK) {
            status = go_on(self, stream, err);
            if (status != KILN_STATUS_OK || !self->link.cut) {
                return status;
            }
            cause = self->link.why;
        }
    }
    char message[200];
    if (is_passing(status)) {
        choose_next(self);
        snprintf(message, sizeof(message),
                 "session lost: no connection to %.60s for %lld ms (%.90s)", self->address.text,
                 (long long)self->timeout_ms, cause.message);
        return kilni_rpc_client_lose(self, KILN_STATUS_UNAVAILABLE, message, err);
    }
    return kilni_rpc_client_lose(self, status, cause.message, err);
}

// ---- frames ----

/// A frame of the server is there, or the reason why there is none.
static kiln_status took(kilni_rpc_client *self, kiln_status status, bool end, bool only_ack,
                        kiln_error *cause, kiln_error *err)
{
    if (status == KILN_STATUS_OK && end) {
        status = kiln_fail(cause, UNAVAILABLE, "the server ended the session");
    }
    if (status == KILN_STATUS_OK && !only_ack &&
        !kilni_rpc_pending_take(self, &self->inbox->frame)) {
        status = kiln_fail(cause, DATA_LOSS, "the server sent an answer to nothing that was asked");
    }
    return status == KILN_STATUS_OK ? KILN_STATUS_OK
                                    : kilni_rpc_client_lose(self, status, cause->message, err);
}

kiln_status kilni_rpc_client_take(kilni_rpc_client *self, int64_t timeout_ms, kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    bool end = false;
    bool only_ack = false;
    kiln_status status =
        kilni_rpc_link_take(&self->link, timeout_ms, self->inbox, &end, &only_ack, &cause);
    if (status != KILN_STATUS_OK && self->link.cut) {
        return come_back(self, err);
    }
    if (status == KILN_STATUS_DEADLINE_EXCEEDED && timeout_ms >= 0) {
        return status;
    }
    return took(self, status, end, only_ack, &cause, err);
}

/// Whether sending `length` bytes more would leave the server more than it takes without an ack, or
/// meet it with more answers on their way than it lets stand, or both sides sending and neither
/// receiving.
static bool is_full(const kilni_rpc_client *self, size_t length)
{
    const kilni_rpc_link *link = &self->link;
    return link->kept_bytes > self->welcome.window_bytes ||
           link->sent - link->acked > self->welcome.window_frames ||
           self->awaited_bytes > MOST_AWAITED ||
           (self->awaited_bytes > SAFE_BYTES && link->kept_bytes + length > SAFE_BYTES);
}

/// Takes what comes while there is little room, and waits for it when there is none.
static kiln_status make_room(kilni_rpc_client *self, size_t length, kiln_error *err)
{
    const kilni_rpc_link *link = &self->link;
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && link->resumable) {
        bool full = is_full(self, length);
        bool little = link->kept_bytes > self->welcome.window_bytes / 2 ||
                      link->sent - link->acked > self->welcome.window_frames / 2;
        if (!full && (!little || link->sent % 8 != 0)) {
            break;
        }
        status = kilni_rpc_client_take(self, full ? -1 : 0, err);
        if (status == KILN_STATUS_DEADLINE_EXCEEDED) {
            return KILN_STATUS_OK;
        }
    }
    return status;
}

kiln_status kilni_rpc_client_send(kilni_rpc_client *self, kilni_rpc_frame *frame, kiln_error *err)
{
    kiln_error own = KILN_ERROR_INIT;
    kiln_status status = make_room(self, frame->data_length + frame->graph_length, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = kilni_rpc_link_send(&self->link, frame, &own);
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED && !self->link.cut) { // nothing was sent
        if (err != NULL) {
            *err = own;
        }
        return status;
    }
    if (status != KILN_STATUS_OK) {
        return kilni_rpc_client_lose(self, status, own.message, err);
    }
    while (status == KILN_STATUS_OK && self->link.cut) {
        status = come_back(self, err);
    }
    return status;
}

kiln_status kilni_rpc_client_settle(kilni_rpc_client *self, uint64_t number, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    while (status == KILN_STATUS_OK && self->link.resumable && self->link.acked < number) {
        status = kilni_rpc_client_take(self, /*timeout_ms=*/-1, err);
    }
    return status;
}

void kilni_rpc_client_drop_kept(kilni_rpc_client *self)
{
    if (self->is_open) {
        (void)kilni_rpc_client_lose(self, KILN_STATUS_UNAVAILABLE,
                                    "session lost: an upload ended in the middle", NULL);
    }
}

// ---- the end ----

void kilni_rpc_client_end(kilni_rpc_client *self)
{
    kiln_error ignored = KILN_ERROR_INIT;
    if (self->is_open) {
        kilni_rpc_frame frame = {0};
        frame.body.which_body = kiln_v1_Frame_close_tag;
        (void)!kilni_rpc_link_send(&self->link, &frame, &ignored);
        kilni_rpc_link_fini(&self->link, NULL);
    }
    if (self->inbox != NULL) {
        kilni_rpc_inbox_clear(self->env, self->inbox);
    }
    kilni_rpc_pending_fail_all(self, &ignored); // forgotten ones
    while (self->unfreed != NULL) {
        kiln_buffer *next = self->unfreed->next;
        kiln_free(self->env, self->unfreed);
        self->unfreed = next;
    }
    pthread_mutex_destroy(&self->lock);
    kiln_store_close(self->digests);
    kilni_rpc_memory_unmap(&self->slots);
    kilni_rpc_batch_destroy(self->batch);
    kilni_rpc_identity_fini(self->env, &self->identity);
    kiln_free(self->env, self->inbox);
    kiln_free(self->env, self);
}
