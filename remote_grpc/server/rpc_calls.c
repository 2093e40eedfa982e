// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls that come in: who calls, and whether there is a place. A thread that waited for a call
// answers it, and another waits in its stead; handing it over would wake a thread for each call.
// What is answered is for others to decide.

#include "kserve.h"
#include "rpc_server.h"
#include "rpc_services.h"

#include <stdio.h>
#include <string.h>

enum { IDLE_WORKER_MS = 3000 };

struct kilni_rpc_worker {
    kiln_rpc_server *server;
    kilni_rpc_stream *stream; ///< NULL: none
    kilni_rpc_kind kind;
    kilni_rpc_party *party; ///< held; NULL: not known
    kiln_error refusal; ///< why there is none
    bool placed; ///< it has a place of its kind
    kilni_kserve_room *room; ///< for requests to models
    bool is_watched; ///< the stream and its place are rpc_watches.c's now
    pthread_t thread;
    bool done; ///< under the lock
    kilni_rpc_worker *next;
};

// ---- who, and whether there is a place ----

kiln_status kilni_rpc_who(kiln_rpc_server *server, const char *token_name, const char *certificate,
                          kilni_rpc_party **out_party, kiln_error *err)
{
    pthread_mutex_lock(&server->lock);
    bool asks = server->tokens != NULL;
    pthread_mutex_unlock(&server->lock);
    *out_party = NULL;
    if (asks && token_name == NULL) {
        return kiln_fail(err, UNAUTHENTICATED, "show a token that the server knows");
    }
    const char *name = certificate != NULL ? certificate : "anonymous";
    return kilni_rpc_party_get(&server->parties, asks ? token_name : name, out_party, err);
}

static kiln_status who_calls(kiln_rpc_server *server, const kilni_rpc_stream *stream,
                             kilni_rpc_party **out_party, kiln_error *err)
{
    char token_name[KILNI_RPC_CALLER];
    char certificate[KILNI_RPC_CALLER];
    pthread_mutex_lock(&server->lock);
    bool shown =
        server->tokens != NULL && kilni_rpc_is_authorized(stream, server->tokens, token_name);
    pthread_mutex_unlock(&server->lock);
    bool certified = kilni_rpc_certificate_name(stream, certificate);
    return kilni_rpc_who(server, shown ? token_name : NULL, certified ? certificate : NULL,
                         out_party, err);
}

static bool begins_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

/// Of a caller that is known, but for health.
static kilni_rpc_kind kind_of(const char *method)
{
    if (strcmp(method, "/grpc.health.v1.Health/Watch") == 0) {
        return KILNI_RPC_KIND_WATCH;
    }
    if (begins_with(method, "/grpc.health.")) {
        return KILNI_RPC_KIND_OPEN;
    }
    if (strcmp(method, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") == 0 ||
        strcmp(method, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") == 0) {
        return KILNI_RPC_KIND_REFLECTION;
    }
    if (begins_with(method, KILNI_KSERVE_SERVICE)) {
        return KILNI_RPC_KIND_MODEL;
    }
    return strcmp(method, KILNI_RPC_SESSION) == 0 ? KILNI_RPC_KIND_SESSION : KILNI_RPC_KIND_TRUSTED;
}

static kilni_rpc_use use_of(kilni_rpc_kind kind)
{
    return kind == KILNI_RPC_KIND_SESSION ? KILNI_RPC_USE_STREAMS
           : kind == KILNI_RPC_KIND_MODEL ? KILNI_RPC_USE_CALLS
                                          : KILNI_RPC_USE_OTHERS;
}

/// A session that is resumed comes beside its own old connection.
static uint32_t calls_of(const kiln_rpc_server *server, kilni_rpc_kind kind, bool of_one)
{
    return kilni_rpc_places(server, kind, of_one) +
           (kind == KILNI_RPC_KIND_SESSION
                ? kilni_rpc_places(server, KILNI_RPC_KIND_TRUSTED, of_one)
                : 0);
}

/// A place for the call, of its kind and of its party. Errors: RESOURCE_EXHAUSTED.
static kiln_status take_places(kilni_rpc_worker *call, kiln_error *err)
{
    kiln_rpc_server *server = call->server;
    kilni_rpc_kind kind = call->kind;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&server->lock);
    if (server->calls[kind] >= calls_of(server, kind, false)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "the server has as many calls as it takes");
        if (kind == KILNI_RPC_KIND_WATCH) { // perhaps some have gone
            server->to_look = server->to_look_all = true;
            pthread_cond_broadcast(&server->changed);
        }
    } else {
        server->calls[kind]++;
    }
    pthread_mutex_unlock(&server->lock);
    if (status == KILN_STATUS_OK && call->party != NULL) {
        status = kilni_rpc_party_begin(&server->parties, call->party, use_of(kind),
                                       calls_of(server, kind, true), err);
        if (status != KILN_STATUS_OK) {
            pthread_mutex_lock(&server->lock);
            server->calls[kind]--;
            pthread_mutex_unlock(&server->lock);
        }
    }
    call->placed = status == KILN_STATUS_OK;
    return status;
}

// ---- answers ----

static void tell_call(const kilni_rpc_worker *self, const char *kind, const char *peer,
                      const char *trace, const char *model, const kiln_error *end,
                      uint64_t duration_ns)
{
    const kiln_rpc_event event = {.struct_size = (uint32_t)sizeof(event),
                                  .code = (uint32_t)end->code,
                                  .kind = kind,
                                  .identity = self->party != NULL ? self->party->name : "",
                                  .peer = peer,
                                  .method = kilni_rpc_method(self->stream),
                                  .model = model,
                                  .client = "",
                                  .trace = trace,
                                  .message = end->code != 0 ? end->message : "",
                                  .duration_ns = duration_ns};
    kilni_rpc_tell(self->server, &event);
}

/// Answers with a failure, and tells of it.
static void refuse(const kilni_rpc_worker *self, const kiln_error *why)
{
    char peer[128];
    char trace[64];
    kilni_rpc_peer(self->stream, peer, sizeof(peer));
    kilni_rpc_header(self->stream, "traceparent", trace, sizeof(trace));
    pthread_mutex_lock(&self->server->lock);
    self->server->refused++;
    pthread_mutex_unlock(&self->server->lock);
    tell_call(self, "refused", peer, trace, "", why, 0);
    kilni_rpc_stream_close(self->stream, why);
}

/// Counted, so that a server that is going waits for the answer.
static void answer_model(kilni_rpc_worker *self)
{
    kiln_rpc_server *server = self->server;
    const char *method = kilni_rpc_method(self->stream) + sizeof(KILNI_KSERVE_SERVICE) - 1;
    kiln_error end = KILN_ERROR_INIT;
    kilni_rpc_guard guard;
    char peer[128];
    char trace[64];
    uint64_t begun = kiln_time_ns();
    kilni_rpc_guard_init(&guard, server->models, &server->parties, self->party);
    kilni_rpc_peer(self->stream, peer, sizeof(peer));
    kilni_rpc_header(self->stream, "traceparent", trace, sizeof(trace));
    atomic_fetch_add(&server->model_calls, 1);
    kilni_kserve_serve(server->env, server->models != NULL ? &guard.table : NULL, self->party->name,
                       method, self->stream, &self->room, &end);
    tell_call(self, "call", peer, trace, guard.model, &end, kiln_time_ns() - begun);
    kilni_rpc_stream_close(self->stream, end.code != 0 ? &end : NULL);
    if (atomic_fetch_sub(&server->model_calls, 1) == 1 && atomic_load(&server->draining)) {
        pthread_mutex_lock(&server->lock);
        pthread_cond_broadcast(&server->changed);
        pthread_mutex_unlock(&server->lock);
    }
}

static void answer_session(kilni_rpc_worker *self)
{
    kiln_error end = KILN_ERROR_INIT;
    kilni_rpc_serve_session(self->server, self->party, self->stream, &end);
}

static void answer_trusted(kilni_rpc_worker *self)
{
    kiln_rpc_server *server = self->server;
    kiln_error why = KILN_ERROR_INIT;
    if (strcmp(kilni_rpc_method(self->stream), KILNI_RPC_INFO) == 0) {
        kilni_rpc_serve_info(server, self->party, self->stream);
    } else if (strcmp(kilni_rpc_method(self->stream), KILNI_RPC_FETCH) == 0) {
        kilni_rpc_serve_fetch(server->env, server->session.exposures, self->stream);
    } else {
        (void)kiln_fail(&why, UNIMPLEMENTED, "there is no such method; reflection lists them");
        refuse(self, &why);
    }
}

static bool is_method(const kilni_rpc_worker *self, const char *method)
{
    return strcmp(kilni_rpc_method(self->stream), method) == 0;
}

static void answer_open(kilni_rpc_worker *self)
{
    kiln_error why = KILN_ERROR_INIT;
    if (self->refusal.code != 0) {
        refuse(self, &self->refusal);
    } else if (is_method(self, "/grpc.health.v1.Health/Check")) {
        kilni_rpc_serve_check(&self->server->health, self->stream);
    } else {
        (void)kiln_fail(&why, UNIMPLEMENTED, "there is no such method; reflection lists them");
        refuse(self, &why);
    }
}

/// Whether one message is all that the client of a model sends.
static bool is_single(const kilni_rpc_worker *self)
{
    return self->kind == KILNI_RPC_KIND_MODEL &&
           !is_method(self, KILNI_KSERVE_SERVICE "ModelStreamInfer");
}

/// Places are for those whose clients still wait.
static bool begin(kilni_rpc_worker *self)
{
    bool begun = kilni_rpc_begin_call(self->server->listener, self->stream, is_single(self));
    pthread_mutex_lock(&self->server->lock);
    self->server->calls[KILNI_RPC_KIND_NEW]--;
    pthread_mutex_unlock(&self->server->lock);
    return begun;
}

static void answer_any(kilni_rpc_worker *self)
{
    kiln_error why = KILN_ERROR_INIT;
    if (!begin(self)) {
        kilni_rpc_stream_close(self->stream, NULL);
        return;
    }
    if (take_places(self, &why) != KILN_STATUS_OK) {
        refuse(self, &why);
        return;
    }
    switch (self->kind) {
    case KILNI_RPC_KIND_SESSION:
        answer_session(self);
        break;
    case KILNI_RPC_KIND_MODEL:
        answer_model(self);
        break;
    case KILNI_RPC_KIND_REFLECTION:
        kilni_rpc_serve_reflection(self->server->env, self->stream);
        break;
    case KILNI_RPC_KIND_TRUSTED:
        answer_trusted(self);
        break;
    case KILNI_RPC_KIND_WATCH:
        self->is_watched = true;
        kilni_rpc_watch_add(self->server, self->stream);
        break;
    default:
        answer_open(self);
    }
}

// ---- threads ----

/// Frees the places that a call had.
static void end_call(kilni_rpc_worker *self)
{
    kiln_rpc_server *server = self->server;
    if (self->party != NULL && self->placed) {
        kilni_rpc_party_end(&server->parties, self->party, use_of(self->kind));
    }
    kilni_rpc_party_put(&server->parties, self->party);
    self->party = NULL;
    self->stream = NULL;
    self->refusal = (kiln_error)KILN_ERROR_INIT;
    pthread_mutex_lock(&server->lock);
    if (self->placed && !self->is_watched) { // that goes on without a thread
        server->calls[self->kind]--;
    }
    self->placed = self->is_watched = false;
    server->served++;
    pthread_mutex_unlock(&server->lock);
}

/// Joins threads that have ended, or all of them with those that these start.
static void join_workers(kiln_rpc_server *server, bool all)
{
    pthread_mutex_lock(&server->lock);
    for (kilni_rpc_worker **link = &server->workers; *link != NULL;) {
        kilni_rpc_worker *each = *link;
        if (!all && !each->done) {
            link = &each->next;
            continue;
        }
        *link = each->next;
        server->n_done -= each->done;
        pthread_mutex_unlock(&server->lock);
        (void)pthread_join(each->thread, NULL);
        kiln_free(server->env, each);
        pthread_mutex_lock(&server->lock);
        link = &server->workers; // others may have come or gone
    }
    pthread_mutex_unlock(&server->lock);
}

void kilni_rpc_reap(kiln_rpc_server *server)
{
    join_workers(server, /*all=*/true);
}

/// Who calls, and whether one more call may wait until it is begun; else the call is dropped.
static bool take_call(kilni_rpc_worker *self)
{
    kiln_rpc_server *server = self->server;
    self->kind = kind_of(kilni_rpc_method(self->stream));
    bool open = self->kind == KILNI_RPC_KIND_OPEN || self->kind == KILNI_RPC_KIND_WATCH;
    if (!open && who_calls(server, self->stream, &self->party, &self->refusal) != KILN_STATUS_OK) {
        self->kind = KILNI_RPC_KIND_OPEN;
    }
    pthread_mutex_lock(&server->lock);
    bool full = server->calls[KILNI_RPC_KIND_NEW] >=
                kilni_rpc_places(server, KILNI_RPC_KIND_NEW, /*of_one=*/false);
    server->calls[KILNI_RPC_KIND_NEW] += !full;
    pthread_mutex_unlock(&server->lock);
    if (full) {
        kilni_rpc_drop_call(server->listener, self->stream);
    }
    return !full;
}

static void *work(void *pointer);

/// One more thread waits for calls. Under the lock. Errors: RESOURCE_EXHAUSTED.
static kiln_status start_worker(kiln_rpc_server *server, kiln_error *err)
{
    kilni_rpc_worker *fresh = kiln_alloc(server->env, sizeof(*fresh));
    if (fresh == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    fresh->server = server;
    if (pthread_create(&fresh->thread, NULL, work, fresh) != 0) {
        kiln_free(server->env, fresh);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a call");
    }
    fresh->next = server->workers;
    server->workers = fresh;
    server->accepting++;
    return KILN_STATUS_OK;
}

/// Somebody must wait for the next call before this one is answered. Errors: RESOURCE_EXHAUSTED.
static kiln_status find_successor(kiln_rpc_server *server, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&server->lock);
    bool ended = server->n_done > 0;
    server->accepting--;
    if (server->accepting < KILNI_RPC_ACCEPTORS) {
        status = start_worker(server, err);
        status = server->accepting > 0 ? KILN_STATUS_OK : status;
    }
    pthread_mutex_unlock(&server->lock);
    if (ended) {
        join_workers(server, /*all=*/false);
    }
    return status;
}

/// Whether more threads wait for calls than are needed; with `leave` this one is then none of them.
static bool are_enough(kiln_rpc_server *server, bool leave)
{
    pthread_mutex_lock(&server->lock);
    bool enough = server->accepting > KILNI_RPC_ACCEPTORS;
    server->accepting -= enough && leave;
    pthread_mutex_unlock(&server->lock);
    return enough;
}

/// Waits for the next call, among those that wait already; false: the thread is to end, for the
/// server stops, or there was no call for a while and enough others wait.
static bool await_call(kilni_rpc_worker *self)
{
    kiln_rpc_server *server = self->server;
    if (are_enough(server, /*leave=*/false)) {
        self->stream = kilni_rpc_accept(server->listener, IDLE_WORKER_MS);
        if (self->stream == NULL && are_enough(server, /*leave=*/true)) {
            return false;
        }
    }
    if (self->stream == NULL) {
        self->stream = kilni_rpc_accept(server->listener, -1);
    }
    return self->stream != NULL;
}

static void answer_next(kilni_rpc_worker *self)
{
    kiln_error why = KILN_ERROR_INIT;
    bool taken = take_call(self);
    if (find_successor(self->server, &why) == KILN_STATUS_OK) {
        if (taken) {
            answer_any(self);
        }
    } else if (taken && begin(self)) {
        refuse(self, &why);
    } else if (taken) {
        kilni_rpc_stream_close(self->stream, NULL);
    }
    end_call(self);
}

/// `accepting` counts this thread already.
static void *work(void *pointer)
{
    kilni_rpc_worker *self = pointer;
    kiln_rpc_server *server = self->server;
    while (await_call(self)) {
        answer_next(self);
        pthread_mutex_lock(&server->lock);
        server->accepting++;
        pthread_mutex_unlock(&server->lock);
    }
    kilni_kserve_room_free(server->env, self->room);
    pthread_mutex_lock(&server->lock);
    server->n_done++;
    self->done = true;
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

kiln_status kilni_rpc_accept_all(kiln_rpc_server *server, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&server->lock);
    while (server->accepting < KILNI_RPC_ACCEPTORS && status == KILN_STATUS_OK) {
        status = start_worker(server, err);
    }
    status = server->accepting > 0 ? KILN_STATUS_OK : status;
    pthread_mutex_unlock(&server->lock);
    return status;
}
