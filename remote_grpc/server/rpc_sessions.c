// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of sessions. A session outlives its connection for a while; whoever shows its number
// and token, and has the same identity, goes on with it, and a connection that still stands is
// ended first. A session whose client goes while it works pauses in the same way. What a session
// does is rpc_session.c's.

#include "rpc_server.h"

#include "base_wait.h"

#include <string.h>

enum { TAKEOVER_MS = 1000, TAKEOVER_STEP_MS = 200 };

// ---- waiting ----

void kilni_rpc_wait_change(kiln_rpc_server *server, uint64_t ms)
{
    (void)kiln_cond_wait_until(&server->changed, &server->lock, kiln_time_ns() + ms * 1000000u);
}

// ---- the table of sessions ----

kilni_rpc_session **kilni_rpc_session_find(kiln_rpc_server *server, uint64_t id)
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

// ---- one session ----

/// `stream` NULL: where it comes from is not known any more.
static void tell_session(const kiln_rpc_server *server, const kilni_rpc_session *session,
                         const char *kind, const kilni_rpc_stream *stream)
{
    char peer[128] = "";
    char trace[64] = "";
    if (stream != NULL) {
        kilni_rpc_peer(stream, peer, sizeof(peer));
        kilni_rpc_header(stream, "traceparent", trace, sizeof(trace));
    }
    const kiln_rpc_event event = {.struct_size = (uint32_t)sizeof(event),
                                  .kind = kind,
                                  .identity = session->party->name,
                                  .peer = peer,
                                  .method = KILNI_RPC_SESSION,
                                  .model = "",
                                  .client = session->client,
                                  .trace = trace,
                                  .message = "",
                                  .session = session->id,
                                  .duration_ns = kiln_time_ns() - session->begun_ns,
                                  .operations = session->operations};
    kilni_rpc_tell(server, &event);
}

/// A session that is in no table any more.
static void end_session(kiln_rpc_server *server, kilni_rpc_session *session,
                        const kiln_error *status)
{
    kilni_rpc_party *party = kilni_rpc_party_ref(&server->parties, session->party);
    tell_session(server, session, "session-end", NULL);
    kilni_rpc_session_destroy(session, status);
    kilni_rpc_party_end(&server->parties, party, KILNI_RPC_USE_SESSIONS);
    kilni_rpc_party_put(&server->parties, party);
    pthread_mutex_lock(&server->lock);
    server->to_trim = server->n_sessions == 0;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/// The session that Hello names, when the token is right; NULL when there is none. Errors:
/// ABORTED while another thread still works for it.
static kiln_status resume_session(kiln_rpc_server *server, const kilni_rpc_party *party,
                                  const kiln_v1_Hello *hello, kilni_rpc_stream *stream,
                                  kilni_rpc_session **out_session, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * TAKEOVER_MS;
    pthread_mutex_lock(&server->lock);
    kilni_rpc_session *found = NULL;
    for (;;) {
        found = *kilni_rpc_session_find(server, hello->session);
        if (found == NULL || found->party != party || found->dropped ||
            hello->token.size != KILNI_RPC_TOKEN ||
            !kilni_rpc_same_secret(found->token, hello->token.bytes, KILNI_RPC_TOKEN)) {
            found = NULL;
            break;
        }
        if (!found->attached) {
            found->attached = true;
            found->wanted = false;
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
        found->wanted = true; // what is paused is finished first
        pthread_cond_broadcast(&server->changed);
        kilni_rpc_wait_change(server, TAKEOVER_STEP_MS);
    }
    pthread_mutex_unlock(&server->lock);
    *out_session = status == KILN_STATUS_OK ? found : NULL;
    return status;
}

/// Makes room for one more, when there is none: a session without its client goes. Under the lock,
/// which is left meanwhile.
static bool make_room(kiln_rpc_server *server)
{
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * TAKEOVER_MS;
    while (server->n_sessions >= server->max_sessions && kiln_time_ns() < deadline) {
        kilni_rpc_session *evicted = take_waiting(server, UINT64_MAX);
        kilni_rpc_session *paused = server->sessions;
        while (evicted == NULL && paused != NULL && !paused->paused) {
            paused = paused->next;
        }
        if (evicted != NULL) {
            pthread_mutex_unlock(&server->lock);
            end_session(server, evicted, NULL);
            pthread_mutex_lock(&server->lock);
        } else if (paused != NULL) {
            paused->dropped = true;
            pthread_cond_broadcast(&server->changed);
            kilni_rpc_wait_change(server, TAKEOVER_STEP_MS);
        } else {
            break;
        }
    }
    return server->n_sessions < server->max_sessions;
}

static kiln_status new_session(kiln_rpc_server *server, kilni_rpc_party *party,
                               const kiln_v1_Hello *hello, kilni_rpc_stream *stream,
                               kilni_rpc_session **out_session, kiln_error *err)
{
    if (atomic_load(&server->draining)) {
        return kiln_fail(err, UNAVAILABLE, "the server is shutting down");
    }
    kiln_status status =
        kilni_rpc_party_begin(&server->parties, party, KILNI_RPC_USE_SESSIONS,
                              kilni_rpc_places(server, KILNI_RPC_KIND_SESSION, true), err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status =
        kilni_rpc_session_create(server->env, &server->session, party, hello, out_session, err);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_party_end(&server->parties, party, KILNI_RPC_USE_SESSIONS);
        return status;
    }
    (*out_session)->attached = true;
    (*out_session)->active = stream;
    pthread_mutex_lock(&server->lock);
    if (!make_room(server)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "the server has %u sessions, the most allowed",
                           server->max_sessions);
    } else {
        (*out_session)->next = server->sessions;
        server->sessions = *out_session;
        server->n_sessions++;
        server->opened++;
        pthread_cond_broadcast(&server->changed); // the housekeeper looks after it
    }
    pthread_mutex_unlock(&server->lock);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_party_end(&server->parties, party, KILNI_RPC_USE_SESSIONS);
        kilni_rpc_session_destroy(*out_session, NULL);
    }
    return status;
}

bool kilni_rpc_pause(void *user, kilni_rpc_session *session)
{
    kiln_rpc_server *server = user;
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000000) * server->session.resume_seconds;
    tell_session(server, session, "pause", NULL);
    pthread_mutex_lock(&server->lock);
    session->expires_ns = deadline;
    session->paused = true;
    pthread_cond_broadcast(&server->changed); // a server that drains does not wait for it
    while (!session->wanted && !session->dropped && !atomic_load(&server->stopping)) {
        uint64_t now = kiln_time_ns();
        if (now >= deadline) {
            break;
        }
        kilni_rpc_wait_change(server, (deadline - now) / 1000000 + 1);
    }
    session->paused = false;
    session->dropped = session->dropped || !session->wanted;
    bool wanted = !session->dropped;
    pthread_mutex_unlock(&server->lock);
    return wanted;
}

/// Nobody serves the session any more: it waits, or it is over.
static void leave_session(kiln_rpc_server *server, kilni_rpc_session *session, bool resumable,
                          const kiln_error *end)
{
    pthread_mutex_lock(&server->lock);
    session->active = NULL;
    if (!resumable) {
        kilni_rpc_session **link = kilni_rpc_session_find(server, session->id);
        *link = session->next;
        server->n_sessions--;
    }
    pthread_mutex_unlock(&server->lock);
    if (!resumable) {
        end_session(server, session, end->code != 0 ? end : NULL);
        return;
    }
    kilni_rpc_link_detach(&session->link, NULL);
    pthread_mutex_lock(&server->lock);
    session->expires_ns = kiln_time_ns() + UINT64_C(1000000000) * server->session.resume_seconds;
    session->attached = false;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void kilni_rpc_expire_sessions(kiln_rpc_server *server, uint64_t now)
{
    kilni_rpc_session *gone = NULL;
    do {
        pthread_mutex_lock(&server->lock);
        gone = take_waiting(server, now);
        pthread_mutex_unlock(&server->lock);
        if (gone != NULL) {
            end_session(server, gone, NULL);
        }
    } while (gone != NULL);
}

/// The first frame of a session's stream.
static kiln_status receive_hello(kiln_rpc_server *server, kilni_rpc_stream *stream,
                                 kilni_rpc_inbox *inbox, kiln_error *err)
{
    kiln_status status = kilni_rpc_greeted(server->env, stream, inbox, err);
    if (status == KILN_STATUS_OK && inbox->frame.body.which_body != kiln_v1_Frame_hello_tag) {
        return kiln_fail(err, FAILED_PRECONDITION, "a session begins with Hello");
    }
    const kiln_v1_Hello *hello = &inbox->frame.body.body.hello;
    if (status == KILN_STATUS_OK && hello->version != KILNI_RPC_VERSION) {
        return kiln_fail(err, FAILED_PRECONDITION, "the client speaks version %u, the server %d",
                         hello->version, KILNI_RPC_VERSION);
    }
    return status;
}

static void serve_greeted(kiln_rpc_server *server, kilni_rpc_party *party, kilni_rpc_stream *stream,
                          kilni_rpc_inbox *inbox, kiln_error *err)
{
    kilni_rpc_session *session = NULL;
    kiln_status status = receive_hello(server, stream, inbox, err);
    const kiln_v1_Hello *hello = &inbox->frame.body.body.hello;
    bool again = status == KILN_STATUS_OK && hello->session != 0;
    if (again) {
        status = resume_session(server, party, hello, stream, &session, err);
        again = session != NULL;
    }
    if (status == KILN_STATUS_OK && session == NULL) {
        status = new_session(server, party, hello, stream, &session, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_stream_close(stream, err);
        return;
    }
    tell_session(server, session, again ? "resume" : "session", stream);
    bool resumable = kilni_rpc_session_serve(session, stream, &inbox->frame, err);
    leave_session(server, session, resumable, err);
}

void kilni_rpc_serve_session(kiln_rpc_server *server, kilni_rpc_party *party,
                             kilni_rpc_stream *stream, kiln_error *out_end)
{
    kilni_rpc_inbox *inbox = kiln_alloc(server->env, sizeof(*inbox));
    if (inbox == NULL) {
        (void)kiln_fail(out_end, RESOURCE_EXHAUSTED, "no memory for a session");
        kilni_rpc_stream_close(stream, out_end);
        return;
    }
    serve_greeted(server, party, stream, inbox, out_end);
    kilni_rpc_inbox_clear(server->env, inbox);
    kiln_free(server->env, inbox);
}
