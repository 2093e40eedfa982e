// SPDX-License-Identifier: MIT OR Apache-2.0
// Health/Watch: calls that stay open and cost no thread. Whoever reads slowly is not waited for:
// the state that it has not taken yet is told again when it has.

#include "rpc_server.h"
#include "rpc_services.h"

enum { LOOKS = 16 }; ///< at those who may have gone, in a second

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

/// Whether the watch goes on. Looking whether its client is still there costs a wait.
static bool look_at(kilni_rpc_watch *watch, int state, bool for_end)
{
    enum { UNKNOWN_SERVICE = 3 };
    int now = watch->told == 0 || watch->told == UNKNOWN_SERVICE ? UNKNOWN_SERVICE : state;
    if (for_end && kilni_rpc_is_ended(watch->stream, 0)) {
        return false;
    }
    if (now != watch->told && kilni_rpc_is_sent(watch->stream)) {
        const char reply[] = {'\x08', (char)now};
        if (!kilni_rpc_send_later(watch->stream, reply, sizeof(reply))) {
            return false;
        }
        watch->told = now;
    }
    return true;
}

static void end_watch(const kiln_rpc_server *server, kilni_rpc_watch *watch)
{
    if (!kilni_rpc_is_sent(watch->stream)) {
        kilni_rpc_cancel(watch->stream);
    }
    kilni_rpc_stream_close(watch->stream, NULL);
    kiln_free(server->env, watch);
}

static void append_watches(kilni_rpc_watch **list, kilni_rpc_watch *more)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = more;
}

void kilni_rpc_watch_look(kiln_rpc_server *server)
{
    int state = atomic_load(&server->health);
    bool stopping = atomic_load(&server->stopping);
    uint32_t gone = 0;
    pthread_mutex_lock(&server->lock);
    kilni_rpc_watch *left = server->watches;
    uint32_t looks = stopping || server->to_look_all ? UINT32_MAX : LOOKS;
    server->watches = NULL;
    server->to_look = server->to_look_all = false;
    pthread_mutex_unlock(&server->lock);
    kilni_rpc_watch *later = NULL; // those that were looked at, behind the others
    kilni_rpc_watch *first = NULL;
    while (left != NULL) {
        kilni_rpc_watch *each = left;
        bool for_end = looks > 0;
        left = each->next;
        looks -= for_end;
        if (!look_at(each, state, for_end) || stopping) {
            end_watch(server, each);
            gone++;
            continue;
        }
        each->next = for_end ? later : first;
        *(for_end ? &later : &first) = each;
    }
    pthread_mutex_lock(&server->lock);
    append_watches(&first, later);
    append_watches(&first, server->watches); // that came meanwhile
    server->watches = first;
    server->calls[KILNI_RPC_KIND_WATCH] -= gone;
    pthread_mutex_unlock(&server->lock);
}
