// SPDX-License-Identifier: MIT OR Apache-2.0
// Members: taking a rank, the worker's start, leaving. A member whose worker does not come back is
// left to it.
#include "coll_member.h"

static kiln_status take_rank(kiln_coll_group *group, uint32_t rank, kiln_error *err)
{
    if (rank >= group->ranks) {
        return kiln_fail(err, INVALID_ARGUMENT, "rank %u of a group of %u", rank, group->ranks);
    }
    pthread_mutex_lock(&group->mutex);
    bool taken = group->taken[rank];
    group->taken[rank] = true;
    pthread_mutex_unlock(&group->mutex);
    return taken ? kiln_fail(err, ALREADY_EXISTS, "rank %u is a member already", rank)
                 : KILN_STATUS_OK;
}

static void give_rank_back(kiln_coll_group *group, uint32_t rank)
{
    pthread_mutex_lock(&group->mutex);
    group->taken[rank] = false;
    pthread_mutex_unlock(&group->mutex);
}

/// Allocates, and starts the worker.
static kiln_status member_start(kiln_coll_group *group, uint32_t rank, kiln_coll_memory *memory,
                                kiln_coll_transport *transport, kiln_coll_member **out_member,
                                kiln_error *err)
{
    kiln_coll_member *member = kiln_alloc(group->env, sizeof(*member));
    if (member == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for rank %u", rank);
    }
    atomic_fetch_add(&group->refs, 1);
    member->group = group;
    member->rank = rank;
    member->memory = memory;
    member->transport = transport != NULL ? transport : kilni_coll_hub_end(group->hub, rank);
    kiln_arena_init(&member->arena, group->env);
    pthread_mutex_init(&member->mutex, NULL);
    pthread_cond_init(&member->changed, NULL);
    if (pthread_create(&member->worker, NULL, kilni_coll_work, member) != 0) {
        kiln_arena_fini(&member->arena);
        pthread_cond_destroy(&member->changed);
        pthread_mutex_destroy(&member->mutex);
        kiln_free(group->env, member);
        kilni_coll_group_release(group);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for rank %u", rank);
    }
    kilni_coll_hub_set_watch(group->hub, rank, &member->watch);
    kilni_coll_guard_add(member);
    *out_member = member;
    return KILN_STATUS_OK;
}

kiln_status kiln_coll_member_create(kiln_coll_group *group, uint32_t rank, kiln_coll_memory *memory,
                                    kiln_coll_transport *transport, kiln_coll_member **out_member,
                                    kiln_error *err)
{
    *out_member = NULL;
    kiln_status status = kiln_coll_memory_check(memory, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_coll_group_status(group, NULL, err);
    }
    if (status == KILN_STATUS_OK) {
        status = take_rank(group, rank, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    status = member_start(group, rank, memory, transport, out_member, err);
    if (status != KILN_STATUS_OK) {
        give_rank_back(group, rank);
        return status;
    }
    if (transport != NULL) {
        pthread_mutex_lock(&group->mutex);
        group->transport = transport;
        pthread_mutex_unlock(&group->mutex);
    }
    return KILN_STATUS_OK;
}

void kiln_coll_member_abort(kiln_coll_member *member, const kiln_error *cause)
{
    member->transport->ops->abort(member->transport, cause);
}

void kiln_coll_member_drain(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    while ((member->first != NULL || member->is_busy) && !member->is_stuck) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    pthread_mutex_unlock(&member->mutex);
}

/// Waits for the worker's end. False: it is stuck, and frees the member when it comes back.
static bool await_worker(kiln_coll_member *member)
{
    bool waits = !member->memory->ops->is_left;
    pthread_mutex_lock(&member->mutex);
    while (!member->is_over && (waits || !member->is_stuck)) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    bool is_over = member->is_over;
    pthread_t worker = member->worker;
    member->is_abandoned = !is_over;
    pthread_mutex_unlock(&member->mutex);
    if (is_over) {
        pthread_join(worker, NULL);
    } else {
        pthread_detach(worker);
    }
    return is_over;
}

void kiln_coll_member_destroy(kiln_coll_member *member)
{
    if (member == NULL) {
        return;
    }
    kiln_coll_group *group = member->group;
    kiln_coll_transport *transport = member->transport;
    pthread_mutex_lock(&member->mutex);
    bool pending = member->first != NULL || member->current != NULL; // not one that is signalled
    member->is_closing = true;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    if (pending) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, CANCELLED, "left with calls pending");
        transport->ops->abort(transport, &cause);
    }
    transport->ops->leave(transport);
    pthread_mutex_lock(&group->mutex);
    if (group->transport == transport) { // the group may outlive a transport from outside
        group->transport = kilni_coll_hub_end(group->hub, 0);
    }
    pthread_mutex_unlock(&group->mutex);
    if (await_worker(member)) {
        kilni_coll_member_free(member);
    }
}
