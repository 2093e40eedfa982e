// SPDX-License-Identifier: MIT OR Apache-2.0
// Health/Watch: calls that stay open and cost no thread. Whoever reads slowly is not waited for:
// the state that it has not taken yet is told again when it has.

#include "rpc_server.h"
#include "rpc_services.h"

struct kilni_rpc_watch {
    kilni_rpc_watch *next;
    kilni_rpc_stream *stream;
    int told;
};

void kilni_rpc_watch_add(kiln_rpc_server *server, kilni_rpc_stream *take_stream)
{
    kiln_error err = KILN_ERROR_INIT;
    bool known = false;
    kilni_rpc_watch *made = kiln_alloc(server->env, sizeof(*made));
    kiln_status status = kilni_rpc_receive_service(take_stream, &known, &err);
    if (status == KILN_STATUS_OK && made == NULL) {
        status = kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(server->env, made);
        kilni_rpc_stream_close(take_stream, &err);
        pthread_mutex_lock(&server->lock);
        server->calls[KILNI_RPC_KIND_WATCH]--;
        pthread_mutex_unlock(&server->lock);
        return;
    }
    *made = (kilni_rpc_watch){.stream = take_stream, .told = known ? -1 : 0};
    pthread_mutex_lock(&server->lock);
    made->next = server->watches;
    server->watches = made;
    server->to_look = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/// Whether the watch goes on.
static bool look_at(kilni_rpc_watch *watch, int state, bool stopping)
{
    enum { UNKNOWN_SERVICE = 3 };
    int now = watch->told == 0 || watch->told == UNKNOWN_SERVICE ? UNKNOWN_SERVICE : state;
    if (kilni_rpc_is_ended(watch->stream, 0)) {
        return false;
    }
    if (now != watch->told && kilni_rpc_is_sent(watch->stream)) {
        const char reply[] = {'\x08', (char)now};
        if (!kilni_rpc_send_later(watch->stream, reply, sizeof(reply))) {
            return false;
        }
        watch->told = now;
    }
    return !stopping;
}

void kilni_rpc_watch_look(kiln_rpc_server *server)
{
    int state = atomic_load(&server->health);
    bool stopping = atomic_load(&server->stopping);
    pthread_mutex_lock(&server->lock);
    kilni_rpc_watch *all = server->watches;
    server->watches = NULL;
    server->to_look = false;
    pthread_mutex_unlock(&server->lock);
    kilni_rpc_watch *stay = NULL;
    uint32_t gone = 0;
    while (all != NULL) {
        kilni_rpc_watch *each = all;
        all = each->next;
        if (look_at(each, state, stopping)) {
            each->next = stay;
            stay = each;
            continue;
        }
        if (!kilni_rpc_is_sent(each->stream)) {
            kilni_rpc_cancel(each->stream);
        }
        kilni_rpc_stream_close(each->stream, NULL);
        kiln_free(server->env, each);
        gone++;
    }
    pthread_mutex_lock(&server->lock);
    kilni_rpc_watch **link = &stay;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = server->watches; // that came meanwhile
    server->watches = stay;
    server->calls[KILNI_RPC_KIND_WATCH] -= gone;
    pthread_mutex_unlock(&server->lock);
}
