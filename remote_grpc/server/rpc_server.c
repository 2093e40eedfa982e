// SPDX-License-Identifier: MIT OR Apache-2.0
// The server: gives each call a thread, keeps the table of sessions, and ends them all when it is
// destroyed. A session outlives its connection for a while; whoever shows its number and token goes
// on with it, and a connection that still stands is ended first. What a session does is
// rpc_session.c's; where a server may listen is rpc_options.c's.

#include "rpc_server.h"

#include "kserve.h"
#include "rpc_services.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { HOUSEKEEPING_MS = 200, TAKEOVER_MS = 1000 };

/// Kinds of calls; each has places of its own, so that none can keep the others out.
typedef enum call_kind {
    CALL_TRUSTED, ///< whoever calls has shown a token, where one is asked for
    CALL_MODEL, ///< the same, and a model answers
    CALL_OPEN, ///< anybody may call, and the answer comes at once
    CALL_WATCH ///< anybody may call, and the answer stays open
} call_kind;

/// How many calls of a kind run at a time, those of CALL_TRUSTED besides sessions.
enum { TRUSTED_CALLS = 64, MODEL_CALLS = 512, OPEN_CALLS = 32, WATCH_CALLS = 32 };

struct kilni_rpc_worker {
    kiln_rpc_server *server;
    kilni_rpc_stream *stream;
    call_kind kind;
    pthread_t thread;
    atomic_bool done;
    kilni_rpc_worker *next;
};

// ---- waiting ----

/// Waits for a change, at most `ms`. Under the lock.
static void wait_change(kiln_rpc_server *server, uint64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&server->changed, &server->lock, &at);
}

// ---- the table of sessions ----

static kilni_rpc_session **find_session(kiln_rpc_server *server, uint64_t id)
{
    kilni_rpc_session **link = &server->sessions;
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

/// The session that nobody serves and that has waited longest, out of the table; only those that
/// expire until `now`. Under the lock.
static kilni_rpc_session *take_waiting(kiln_rpc_server *server, uint64_t now)
{
    kilni_rpc_session **oldest = NULL;
    for (kilni_rpc_session **link = &server->sessions; *link != NULL; link = &(*link)->next) {
        if (!(*link)->attached && (*link)->expires_ns <= now &&
            (oldest == NULL || (*link)->expires_ns < (*oldest)->expires_ns)) {
            oldest = link;
        }
    }
    kilni_rpc_session *found = oldest != NULL ? *oldest : NULL;
    if (found != NULL) {
        *oldest = found->next;
        server->n_sessions--;
    }
    return found;
}

/// The session that Hello names, when the token is right; NULL when there is none. Errors:
/// ABORTED while another thread still works for it.
static kiln_status resume_session(kiln_rpc_server *server, const kiln_v1_Hello *hello,
                                  kilni_rpc_stream *stream, kilni_rpc_session **out_session,
                                  kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * TAKEOVER_MS;
    pthread_mutex_lock(&server->lock);
    kilni_rpc_session *found = NULL;
    for (;;) {
        found = *find_session(server, hello->session);
        if (found == NULL || hello->token.size != KILNI_RPC_TOKEN ||
            !kilni_rpc_same_secret(found->token, hello->token.bytes, KILNI_RPC_TOKEN)) {
            found = NULL;
            break;
        }
        if (!found->attached) {
            found->attached = true;
            found->active = stream;
            server->resumed++;
            break;
        }
        if (kiln_time_ns() >= deadline) {
            status = kiln_fail(err, ABORTED, "the session is still at work; come back");
            break;
        }
        if (found->active != NULL) {
            kilni_rpc_cancel(found->active);
        }
        wait_change(server, HOUSEKEEPING_MS);
    }
    pthread_mutex_unlock(&server->lock);
    *out_session = status == KILN_STATUS_OK ? found : NULL;
    return status;
}

static void caller_of(kiln_rpc_server *server, const kilni_rpc_stream *stream,
                      kilni_rpc_digest *out_caller)
{
    pthread_mutex_lock(&server->lock);
    kilni_rpc_caller(stream, server->tokens, out_caller);
    pthread_mutex_unlock(&server->lock);
}

static kiln_status new_session(kiln_rpc_server *server, const kiln_v1_Hello *hello,
                               kilni_rpc_stream *stream, kilni_rpc_session **out_session,
                               kiln_error *err)
{
    kilni_rpc_session *evicted = NULL;
    if (atomic_load(&server->draining)) {
        return kiln_fail(err, UNAVAILABLE, "the server is shutting down");
    }
    kiln_status status =
        kilni_rpc_session_create(server->env, &server->session, hello, out_session, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    (*out_session)->attached = true;
    (*out_session)->active = stream;
    caller_of(server, stream, &(*out_session)->caller);
    pthread_mutex_lock(&server->lock);
    if (server->n_sessions >= server->max_sessions) {
        evicted = take_waiting(server, UINT64_MAX);
    }
    if (server->n_sessions >= server->max_sessions) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "the server has %u sessions, the most allowed",
                           server->max_sessions);
    } else {
        (*out_session)->next = server->sessions;
        server->sessions = *out_session;
        server->n_sessions++;
        server->opened++;
    }
    pthread_mutex_unlock(&server->lock);
    if (evicted != NULL) {
        kilni_rpc_session_destroy(evicted, NULL);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_session_destroy(*out_session, NULL);
    }
    return status;
}

/// Nobody serves the session any more: it waits, or it is over.
static void leave_session(kiln_rpc_server *server, kilni_rpc_session *session, bool resumable,
                          const kiln_error *end)
{
    pthread_mutex_lock(&server->lock);
    session->active = NULL;
    if (!resumable) {
        kilni_rpc_session **link = find_session(server, session->id);
        *link = session->next;
        server->n_sessions--;
    }
    pthread_mutex_unlock(&server->lock);
    if (!resumable) {
        kilni_rpc_session_destroy(session, end->code != 0 ? end : NULL);
    } else {
        kilni_rpc_link_detach(&session->link, NULL);
    }
    pthread_mutex_lock(&server->lock);
    if (resumable) {
        session->expires_ns =
            kiln_time_ns() + UINT64_C(1000000000) * server->session.resume_seconds;
        session->attached = false;
    }
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void serve_session(kiln_rpc_server *server, kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_session *session = NULL;
    kilni_rpc_inbox *inbox = kiln_alloc(server->env, sizeof(*inbox));
    kiln_status status = inbox != NULL
                             ? kilni_rpc_greeted(server->env, stream, inbox, &err)
                             : kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for a session");
    const kiln_v1_Hello *hello = inbox != NULL ? &inbox->frame.body.body.hello : NULL;
    if (status == KILN_STATUS_OK && inbox->frame.body.which_body != kiln_v1_Frame_hello_tag) {
        status = kiln_fail(&err, FAILED_PRECONDITION, "a session begins with Hello");
    }
    if (status == KILN_STATUS_OK && hello->version != KILNI_RPC_VERSION) {
        status = kiln_fail(&err, FAILED_PRECONDITION, "the client speaks version %u, the server %d",
                           hello->version, KILNI_RPC_VERSION);
    }
    if (status == KILN_STATUS_OK && hello->session != 0) {
        status = resume_session(server, hello, stream, &session, &err);
    }
    if (status == KILN_STATUS_OK && session == NULL) {
        status = new_session(server, hello, stream, &session, &err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_stream_close(stream, &err);
    } else {
        bool resumable = kilni_rpc_session_serve(session, stream, &inbox->frame, &err);
        leave_session(server, session, resumable, &err);
    }
    if (inbox != NULL) {
        kilni_rpc_inbox_clear(server->env, inbox);
    }
    kiln_free(server->env, inbox);
}

// ---- calls ----

static void refuse(kilni_rpc_stream *stream, kiln_status code, const char *text)
{
    kiln_error err = KILN_ERROR_INIT;
    (void)kiln_error_set(&err, code, KILN_FILE_NAME, __LINE__, "%s", text);
    kilni_rpc_stream_close(stream, &err);
}

static bool is_health(const kilni_rpc_stream *stream)
{
    return strncmp(kilni_rpc_method(stream), "/grpc.health.", 13) == 0;
}

static bool is_model_call(const kilni_rpc_stream *stream)
{
    return strncmp(kilni_rpc_method(stream), KILNI_KSERVE_SERVICE,
                   sizeof(KILNI_KSERVE_SERVICE) - 1) == 0;
}

/// Counted, so that a server that is going waits for the answer.
static void serve_model_call(kiln_rpc_server *server, kilni_rpc_stream *stream)
{
    const char *method = kilni_rpc_method(stream) + sizeof(KILNI_KSERVE_SERVICE) - 1;
    atomic_fetch_add(&server->model_calls, 1);
    kilni_kserve_serve(server->env, server->models, method, stream);
    atomic_fetch_sub(&server->model_calls, 1);
    pthread_mutex_lock(&server->lock);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static const char watch_method[] = "/grpc.health.v1.Health/Watch";

static bool may_call(kiln_rpc_server *server, const kilni_rpc_stream *stream)
{
    pthread_mutex_lock(&server->lock);
    bool may = server->tokens == NULL || kilni_rpc_is_authorized(stream, server->tokens);
    pthread_mutex_unlock(&server->lock);
    return may;
}

static void dispatch(kiln_rpc_server *server, kilni_rpc_stream *stream)
{
    const char *method = kilni_rpc_method(stream);
    if (!is_health(stream) && !may_call(server, stream)) {
        refuse(stream, KILN_STATUS_UNAUTHENTICATED, "show a token that the server knows");
    } else if (strcmp(method, KILNI_RPC_SESSION) == 0) {
        serve_session(server, stream);
    } else if (is_model_call(stream)) {
        serve_model_call(server, stream);
    } else if (strcmp(method, KILNI_RPC_INFO) == 0) {
        kilni_rpc_serve_info(server->env, server->session.devices, server->session.n_devices,
                             server->session.instance, stream);
    } else if (strcmp(method, KILNI_RPC_FETCH) == 0) {
        kilni_rpc_serve_fetch(server->env, server->session.exposures, stream);
    } else if (strcmp(method, "/grpc.health.v1.Health/Check") == 0) {
        kilni_rpc_serve_check(server->env, &server->health, stream);
    } else if (strcmp(method, watch_method) == 0) {
        kilni_rpc_serve_watch(server->env, &server->health, &server->stopping, stream);
    } else if (strcmp(method, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") == 0 ||
               strcmp(method, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") ==
                   0) {
        kilni_rpc_serve_reflection(server->env, stream);
    } else {
        refuse(stream, KILN_STATUS_UNIMPLEMENTED, "there is no such method; reflection lists them");
    }
}

static void *work(void *pointer)
{
    kilni_rpc_worker *self = pointer;
    dispatch(self->server, self->stream);
    atomic_store(&self->done, true);
    return NULL;
}

static call_kind kind_of(kiln_rpc_server *server, const kilni_rpc_stream *stream)
{
    if (strcmp(kilni_rpc_method(stream), watch_method) == 0) {
        return CALL_WATCH;
    }
    if (is_health(stream) || !may_call(server, stream)) {
        return CALL_OPEN;
    }
    return is_model_call(stream) ? CALL_MODEL : CALL_TRUSTED;
}

static uint32_t most_of(const kiln_rpc_server *server, call_kind kind)
{
    switch (kind) {
    case CALL_WATCH:
        return WATCH_CALLS;
    case CALL_MODEL:
        return MODEL_CALLS;
    case CALL_OPEN:
        return OPEN_CALLS;
    default:
        return server->max_sessions + TRUSTED_CALLS;
    }
}

/// Joins the threads that have ended, or all of them. Gives how many of the kind are left.
static uint32_t reap(kiln_rpc_server *server, bool all, call_kind kind)
{
    uint32_t left = 0;
    kilni_rpc_worker **link = &server->workers;
    while (*link != NULL) {
        kilni_rpc_worker *self = *link;
        if (!all && !atomic_load(&self->done)) {
            left += self->kind == kind;
            link = &self->next;
            continue;
        }
        (void)pthread_join(self->thread, NULL);
        *link = self->next;
        kiln_free(server->env, self);
    }
    return left;
}

static void start_worker(kiln_rpc_server *server, kilni_rpc_stream *stream)
{
    kilni_rpc_worker *fresh = NULL;
    call_kind kind = kind_of(server, stream);
    if (reap(server, /*all=*/false, kind) >= most_of(server, kind)) {
        refuse(stream, KILN_STATUS_RESOURCE_EXHAUSTED, "the server has as many calls as it takes");
        return;
    }
    fresh = kiln_alloc(server->env, sizeof(*fresh));
    if (fresh != NULL) {
        fresh->server = server;
        fresh->stream = stream;
        fresh->kind = kind;
        atomic_init(&fresh->done, false);
        if (pthread_create(&fresh->thread, NULL, work, fresh) == 0) {
            fresh->next = server->workers;
            server->workers = fresh;
            return;
        }
        kiln_free(server->env, fresh);
    }
    refuse(stream, KILN_STATUS_RESOURCE_EXHAUSTED, "no memory for a call");
}

static void *accept_all(void *pointer)
{
    kiln_rpc_server *server = pointer;
    kilni_rpc_stream *stream = NULL;
    while ((stream = kilni_rpc_accept(server->listener)) != NULL) {
        start_worker(server, stream);
    }
    return NULL;
}

/// Ends what nobody came back for.
static void *keep_house(void *pointer)
{
    kiln_rpc_server *server = pointer;
    while (!atomic_load(&server->stopping)) {
        pthread_mutex_lock(&server->lock);
        wait_change(server, HOUSEKEEPING_MS);
        kilni_rpc_session *gone = take_waiting(server, kiln_time_ns());
        pthread_mutex_unlock(&server->lock);
        if (gone != NULL) {
            kilni_rpc_session_destroy(gone, NULL);
        }
        kilni_rpc_expire(server->session.exposures);
        kilni_rpc_server_renew(server);
    }
    return NULL;
}

// ---- life ----

/// The devices go last: they hold the context, and with it the environment.
static void free_server(kiln_rpc_server *server)
{
    kiln_device *devices[KILNI_RPC_DEVICES];
    uint32_t n_devices = server->session.n_devices;
    memcpy(devices, server->devices, sizeof(devices));
    kilni_rpc_exposures_destroy(server->session.exposures);
    kilni_rpc_server_settings_fini(server);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    kiln_free(server->env, server);
    for (uint32_t i = 0; i < n_devices; i++) {
        kiln_device_release(devices[i]);
    }
}

static kiln_status start_threads(kiln_rpc_server *server, kiln_error *err)
{
    if (pthread_create(&server->housekeeper, NULL, keep_house, server) != 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    }
    if (pthread_create(&server->acceptor, NULL, accept_all, server) != 0) {
        atomic_store(&server->stopping, true);
        (void)pthread_join(server->housekeeper, NULL);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    }
    return KILN_STATUS_OK;
}

static char give_memory(void *user, const kilni_rpc_memory_hello *hello,
                        const kilni_rpc_memory *memory)
{
    kiln_rpc_server *server = user;
    pthread_mutex_lock(&server->lock);
    kilni_rpc_session *found = *find_session(server, hello->session);
    char answer = found != NULL ? kilni_rpc_session_share(found, hello, memory)
                                : (char)KILNI_RPC_MEMORY_REFUSED;
    pthread_mutex_unlock(&server->lock);
    return answer;
}

/// Without a desk tensors go through the socket.
static void open_desks(kiln_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_listen; i++) {
        kiln_error why = KILN_ERROR_INIT;
        if (strncmp(server->listen[i], "unix:", 5) != 0) {
            continue;
        }
        if (kilni_rpc_desk_open(server->env, server->listen[i] + 5, give_memory, server,
                                &server->desks[i], &why) == KILN_STATUS_OK) {
            server->session.takes_memory = true;
        } else {
            kiln_log_write(server->env, KILN_LOG_WARN, "remote", "%s", why.message);
        }
    }
}

static void close_desks(kiln_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_listen; i++) {
        kilni_rpc_desk_close(server->desks[i]);
        server->desks[i] = NULL;
    }
}

static kiln_status listen_all(kiln_rpc_server *server, kiln_error *err)
{
    int ports[KILNI_RPC_ADDRESSES] = {0};
    const kilni_rpc_listen_options options = {
        .addresses = (const char *const *)server->listen,
        .n_addresses = server->n_listen,
        .identity = &server->identity,
        .max_message = server->models != NULL ? server->max_request_bytes : 0,
        .out_ports = ports};
    kiln_status status = kilni_rpc_listen(server->env, &options, &server->listener, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_server_name(server, ports, err);
        if (status == KILN_STATUS_OK) {
            open_desks(server);
            status = start_threads(server, err);
        }
        if (status != KILN_STATUS_OK) {
            close_desks(server);
            kilni_rpc_listener_shutdown(server->listener);
            kilni_rpc_listener_close(server->listener);
        }
    }
    return status;
}

kiln_status kiln_rpc_server_create(kiln_device *const *devices, uint32_t n_devices,
                                   const kiln_rpc_server_options *options,
                                   kiln_rpc_server **out_server, kiln_error *err)
{
    kiln_rpc_server_options known = KILN_RPC_SERVER_OPTIONS_INIT;
    pthread_condattr_t clock;
    *out_server = NULL;
    if (options != NULL) { // of an older caller: what it does not know is 0
        memcpy(&known, options,
               options->struct_size < sizeof(known) ? options->struct_size : sizeof(known));
    }
    if (devices == NULL || n_devices == 0 || n_devices > KILNI_RPC_DEVICES) {
        return kiln_fail(err, INVALID_ARGUMENT, "a server has 1 to %d devices", KILNI_RPC_DEVICES);
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(devices[0]));
    kiln_rpc_server *server = kiln_alloc(env, sizeof(*server));
    if (server == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    server->env = env;
    atomic_init(&server->health, 1);
    atomic_init(&server->raw_bytes, 0);
    atomic_init(&server->model_calls, 0);
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &clock);
    pthread_condattr_destroy(&clock);
    for (uint32_t i = 0; i < n_devices; i++) {
        server->devices[i] = kiln_device_retain(devices[i]);
    }
    server->session.devices = server->devices;
    server->session.n_devices = n_devices;
    kiln_status status = kilni_rpc_server_settings(server, &known, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_exposures_create(env, &server->session.exposures, err);
    }
    if (status == KILN_STATUS_OK) {
        status = listen_all(server, err);
    }
    if (status != KILN_STATUS_OK) {
        free_server(server);
        return status;
    }
    *out_server = server;
    return KILN_STATUS_OK;
}

bool kiln_rpc_server_knows(kiln_rpc_server *server, const char *authorization)
{
    pthread_mutex_lock(&server->lock);
    bool knows = server->tokens == NULL ||
                 (authorization != NULL &&
                  kilni_rpc_is_token(authorization, strlen(authorization), server->tokens));
    pthread_mutex_unlock(&server->lock);
    return knows;
}

bool kiln_rpc_server_drain(kiln_rpc_server *server, uint32_t timeout_ms)
{
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * timeout_ms;
    atomic_store(&server->draining, true);
    atomic_store(&server->health, 2);
    pthread_mutex_lock(&server->lock);
    bool busy = true;
    while (busy) {
        busy = atomic_load(&server->model_calls) > 0;
        for (kilni_rpc_session *each = server->sessions; each != NULL; each = each->next) {
            busy = busy || each->attached;
        }
        uint64_t now = kiln_time_ns();
        if (!busy || now >= deadline) {
            break;
        }
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        wait_change(server, left_ms < HOUSEKEEPING_MS ? left_ms : HOUSEKEEPING_MS);
    }
    pthread_mutex_unlock(&server->lock);
    return !busy;
}

void kiln_rpc_server_destroy(kiln_rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    atomic_store(&server->draining, true);
    atomic_store(&server->stopping, true);
    close_desks(server);
    kilni_rpc_exposures_stop(server->session.exposures);
    kilni_rpc_listener_shutdown(server->listener);
    (void)pthread_join(server->acceptor, NULL);
    (void)reap(server, /*all=*/true, CALL_TRUSTED);
    (void)pthread_join(server->housekeeper, NULL);
    for (kilni_rpc_session *each; (each = take_waiting(server, UINT64_MAX)) != NULL;) {
        kilni_rpc_session_destroy(each, NULL);
    }
    kilni_rpc_listener_close(server->listener);
    free_server(server);
}

const char *kiln_rpc_server_address(const kiln_rpc_server *server, uint32_t index)
{
    return index < server->n_listen ? server->names[index] : NULL;
}

void kiln_rpc_server_stats_get(kiln_rpc_server *server, kiln_rpc_server_stats *out_stats)
{
    kiln_rpc_server_stats stats = {.struct_size = out_stats->struct_size};
    pthread_mutex_lock(&server->lock);
    stats.sessions = server->n_sessions;
    stats.resumed = server->resumed;
    stats.opened = server->opened;
    for (const kilni_rpc_session *each = server->sessions; each != NULL; each = each->next) {
        stats.detached += !each->attached;
    }
    pthread_mutex_unlock(&server->lock);
    size_t size = stats.struct_size < sizeof(stats) ? stats.struct_size : sizeof(stats);
    memcpy(out_stats, &stats, size);
}
