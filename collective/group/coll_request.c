// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests: how a call ended, for who waits for it. The first result stays; the worker and who
// waits have a reference each.
#include "coll_member.h"

kiln_coll_request *kilni_coll_request_create(const kiln_env *env, const kiln_coll_call *call,
                                             bool is_waited)
{
    kiln_coll_request *request = kiln_alloc(env, sizeof(*request));
    if (request != NULL) {
        request->env = env;
        request->call = *call;
        atomic_init(&request->refs, is_waited ? 2 : 1);
        pthread_mutex_init(&request->mutex, NULL);
        pthread_cond_init(&request->changed, NULL);
    }
    return request;
}

void kilni_coll_request_release(kiln_coll_request *request)
{
    if (atomic_fetch_sub(&request->refs, 1) == 1) {
        pthread_cond_destroy(&request->changed);
        pthread_mutex_destroy(&request->mutex);
        kiln_free(request->env, request);
    }
}

void kilni_coll_request_end(kiln_coll_request *request, kiln_status status, const kiln_error *error)
{
    pthread_mutex_lock(&request->mutex);
    if (!request->ended) {
        request->status = status;
        request->error = *error;
        request->ended = true;
        pthread_cond_signal(&request->changed);
    }
    pthread_mutex_unlock(&request->mutex);
}

kiln_status kiln_coll_wait(kiln_coll_request *request, kiln_error *err)
{
    pthread_mutex_lock(&request->mutex);
    while (!request->ended) {
        pthread_cond_wait(&request->changed, &request->mutex);
    }
    kiln_status status = request->status;
    if (err != NULL && status != KILN_STATUS_OK) {
        *err = request->error;
    }
    pthread_mutex_unlock(&request->mutex);
    kilni_coll_request_release(request);
    return status;
}

bool kiln_coll_ended(const kiln_coll_request *request)
{
    kiln_coll_request *locked = (kiln_coll_request *)request; // only its lock is touched
    pthread_mutex_lock(&locked->mutex);
    bool ended = locked->ended;
    pthread_mutex_unlock(&locked->mutex);
    return ended;
}
