// SPDX-License-Identifier: MIT OR Apache-2.0
// A member's worker: takes its calls in the order of their starts, and carries each out: wait for
// the memory's earlier work, agree with the others, build the schedule, run it. A worker that a
// memory does not give back is coll_guard.c's affair; when it does come back, it frees the member.
#include "coll_algorithms.h"
#include "coll_execute.h"
#include "coll_member.h"

#include <string.h>

static kiln_coll_signature signature_of(const kiln_coll_call *call)
{
    bool combines = call->kind == KILN_COLL_ALL_REDUCE || call->kind == KILN_COLL_REDUCE ||
                    call->kind == KILN_COLL_REDUCE_SCATTER;
    bool has_root = call->kind == KILN_COLL_REDUCE || call->kind == KILN_COLL_BROADCAST ||
                    call->kind == KILN_COLL_GATHER || call->kind == KILN_COLL_SCATTER;
    return (kiln_coll_signature){
        .kind = (uint32_t)call->kind,
        .op = combines ? (uint32_t)call->op : 0,
        .dtype = (uint32_t)call->dtype,
        .root = has_root ? call->root : 0,
        .algorithm = (uint32_t)call->algorithm,
        .divisor = combines && call->op == KILN_COLL_MEAN ? call->divisor : 0,
        .count = call->count,
        .tag = call->tag,
    };
}

static kiln_status run_schedule(kiln_coll_member *member, const kiln_coll_call *call,
                                kiln_error *err)
{
    kiln_arena_reset(&member->arena);
    kilni_coll_schedule schedule = {.arena = &member->arena};
    kilni_coll_shape shape = {
        .rank = member->rank,
        .ranks = member->group->ranks,
        .root = call->root,
        .node = member->group->node,
        .count = call->count,
        .is_wide = kilni_coll_wide(call->dtype) != call->dtype,
        .is_mean = call->op == KILN_COLL_MEAN,
    };
    kilni_coll_run run = {
        .memory = member->memory,
        .transport = member->transport,
        .call = call,
        .sequence = kilni_coll_is_paired(call->kind) ? KILN_COLL_PAIR : member->sequence,
        .deadline_ns = member->group->deadline_ns,
        .chunk_bytes = member->group->chunk_bytes,
        .rank = member->rank,
        .watch = &member->watch,
        .divisor = call->divisor != 0 ? call->divisor : member->group->ranks,
        .arena = &member->arena,
    };
    kilni_coll_init_of(call->algorithm)(&schedule, &shape);
    return kilni_coll_execute(&run, &schedule, err);
}

// ---- agreement ----

/// What the two ranks of a pair must have in common.
static kiln_coll_signature pair_signature(const kiln_coll_call *call)
{
    kiln_coll_signature signature = signature_of(call);
    signature.kind = KILN_COLL_SEND;
    signature.algorithm = KILN_COLL_SEND_DIRECT;
    return signature;
}

/// The sender tells what it sends, before it does; the receiver compares.
static kiln_status agree_pair(kiln_coll_member *member, const kiln_coll_call *call, kiln_error *err)
{
    kiln_coll_transport *transport = member->transport;
    const kiln_coll_signature own = pair_signature(call);
    kiln_coll_signature told = own;
    kiln_coll_message message = {.is_send = call->kind == KILN_COLL_SEND,
                                 .peer = call->root,
                                 .sequence = KILN_COLL_PAIR,
                                 .data = &told,
                                 .bytes = sizeof(told)};
    kiln_status status = transport->ops->post(transport, &message, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status =
        transport->ops->wait(transport, &message, kiln_time_ns() + member->group->deadline_ns, err);
    if (status != KILN_STATUS_OK) {
        transport->ops->cancel(transport, &message);
    } else if (memcmp(&own, &told, sizeof(own)) != 0) {
        char wanted[96];
        char sent[96];
        kilni_coll_signature_text(&own, wanted);
        kilni_coll_signature_text(&told, sent);
        status = kiln_fail(err, INVALID_ARGUMENT, "it receives %s, but rank %u sends %s", wanted,
                           call->root, sent);
    }
    return status;
}

static kiln_status agree(kiln_coll_member *member, const kiln_coll_call *call, kiln_error *err)
{
    const kiln_coll_signature signature = signature_of(call);
    if (kilni_coll_is_paired(call->kind)) {
        return agree_pair(member, call, err);
    }
    member->sequence++;
    return member->transport->ops->agree(member->transport, member->sequence, &signature,
                                         kiln_time_ns() + member->group->deadline_ns, err);
}

/// One call from beginning to end. An error of this rank's own is told to the others, and then read
/// back, so that every rank reports the same words.
static kiln_status carry_out(kiln_coll_member *member, kiln_coll_request *request, kiln_error *err)
{
    kiln_coll_transport *transport = member->transport;
    const kiln_coll_call *call = &request->call;
    kiln_status status = KILN_STATUS_OK;
    kilni_coll_call_note(call, KILN_COLL_BEGUN);
    KILN_TRY(out, status, transport->ops->failure(transport, NULL, err));
    kilni_coll_marker *marker = request->marker;
    request->marker = NULL;
    KILN_TRY(out, status,
             kilni_coll_marker_wait(marker, kiln_time_ns() + member->group->deadline_ns, err));
    kilni_coll_call_note(call, KILN_COLL_READY);
    KILN_TRY(out, status, agree(member, call, err));
    kilni_coll_call_note(call, KILN_COLL_AGREED);
    kilni_coll_watch_touch(&member->watch, COLL_WORKER);
    KILN_TRY(out, status, run_schedule(member, call, err));
    kilni_coll_call_note(call, KILN_COLL_ENDED);
out:
    if (request->marker != NULL) {
        kilni_coll_marker_wait(request->marker, /*deadline_ns=*/0, NULL);
    }
    if (status != KILN_STATUS_OK) {
        transport->ops->abort(transport, err);
        status = transport->ops->failure(transport, NULL, err);
    }
    return status;
}

/// The next request, or NULL when the member closes and nothing is left.
static kiln_coll_request *next_request(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    while (member->first == NULL && !member->is_closing) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    kiln_coll_request *request = member->first;
    if (request != NULL) {
        member->first = request->next;
        member->current = request;
        member->is_busy = true;
    }
    pthread_mutex_unlock(&member->mutex);
    if (request != NULL) {
        kilni_coll_guard_wake(member->group);
    }
    return request;
}

static void finish(kiln_coll_member *member, kiln_coll_request *request, kiln_status status,
                   const kiln_error *error)
{
    kilni_coll_watch_end(&member->watch, COLL_WORKER);
    pthread_mutex_lock(&member->mutex);
    member->current = NULL; // from here on the guard does not touch the call
    member->is_stuck = false;
    pthread_mutex_unlock(&member->mutex);
    if (request->call.event != NULL) {
        member->memory->ops->signal(member->memory, request->call.event, error);
    }
    pthread_mutex_lock(&member->mutex);
    member->is_busy = false;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    kilni_coll_request_end(request, status, error);
    kilni_coll_request_release(request);
}

void kilni_coll_member_free(kiln_coll_member *member)
{
    kiln_coll_group *group = member->group;
    kiln_coll_memory *memory = member->memory;
    kilni_coll_guard_remove(member);
    kilni_coll_hub_set_watch(group->hub, member->rank, NULL);
    kiln_arena_fini(&member->arena);
    pthread_cond_destroy(&member->changed);
    pthread_mutex_destroy(&member->mutex);
    kiln_free(group->env, member);
    kilni_coll_group_release(group);
    memory->ops->close(memory);
}

void *kilni_coll_work(void *user)
{
    kiln_coll_member *member = user;
    for (kiln_coll_request *request; (request = next_request(member)) != NULL;) {
        kiln_error error = KILN_ERROR_INIT;
        kiln_status status = carry_out(member, request, &error);
        error.code = (int32_t)status;
        finish(member, request, status, &error);
    }
    pthread_mutex_lock(&member->mutex);
    member->is_over = true;
    bool is_abandoned = member->is_abandoned;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    if (is_abandoned) {
        kilni_coll_member_free(member);
    }
    return NULL;
}
