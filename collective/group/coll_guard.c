// SPDX-License-Identifier: MIT OR Apache-2.0
// The deadline of what cannot be given one: a call into a rank's memory, that is into a driver or a
// network, may never come back. A group's guard is a thread that looks at its members at work. One
// whose memory has not come back by the deadline fails the group, in its name; and the calls of one
// that is still at work a moment after the group's failure end with that failure, while its worker
// stays where it is and cleans up when it comes back. Only who waits is freed: the memory is told
// that a call has its result (`give_up`) and, later, that nothing touches its buffers any more
// (`signal`).
#include "coll_member.h"

#include "base_wait.h"

static const uint64_t tick_ns = 50000000u;
static const uint64_t grace_ns = 300000000u; ///< to come back in after a failure
enum { IDLE_TICKS = 20 }; ///< before it sleeps until it is woken: calls one after another do not

static void give_up(kiln_coll_member *member, kiln_coll_request *request, kiln_status status,
                    const kiln_error *failure)
{
    kiln_coll_memory *memory = member->memory;
    if (request->is_given_up) {
        return;
    }
    request->is_given_up = true;
    if (request->call.event != NULL) {
        memory->ops->give_up(memory, request->call.event, failure);
    }
    kilni_coll_request_end(request, status, failure);
}

/// The worker's calls get their result without it. It does not end one meanwhile: for that it needs
/// the lock.
static void give_up_all(kiln_coll_member *member, kiln_status status, const kiln_error *failure)
{
    pthread_mutex_lock(&member->mutex);
    if (member->current != NULL) {
        give_up(member, member->current, status, failure);
        member->is_stuck = true;
        for (kiln_coll_request *i = member->first; i != NULL; i = i->next) {
            give_up(member, i, status, failure);
        }
        pthread_cond_broadcast(&member->changed);
    }
    pthread_mutex_unlock(&member->mutex);
}

static bool is_at_work(kiln_coll_member *member)
{
    pthread_mutex_lock(&member->mutex);
    bool at_work = member->current != NULL;
    pthread_mutex_unlock(&member->mutex);
    return at_work;
}

/// True when the member is at work.
static bool look_at(kiln_coll_member *member)
{
    kiln_coll_transport *transport = member->transport;
    kiln_error failure = KILN_ERROR_INIT;
    uint64_t now = kiln_time_ns();
    if (!is_at_work(member)) {
        member->failed_ns = 0;
        return false;
    }
    kiln_status status = transport->ops->failure(transport, NULL, &failure);
    bool stalled = kilni_coll_watch_ns(&member->watch) > member->group->deadline_ns;
    if (status == KILN_STATUS_OK && stalled) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, DEADLINE_EXCEEDED,
                        "its memory did not come back from a call before the deadline");
        transport->ops->abort(transport, &cause);
        status = transport->ops->failure(transport, NULL, &failure);
    }
    if (status != KILN_STATUS_OK) {
        member->failed_ns = member->failed_ns == 0 ? now : member->failed_ns;
        if (stalled || now - member->failed_ns > grace_ns) {
            give_up_all(member, status, &failure);
        }
    }
    return true;
}

static void sleep_a_tick(kilni_coll_guard *guard)
{
    (void)kiln_cond_wait_until(&guard->changed, &guard->mutex, kiln_time_ns() + tick_ns);
}

static void *watch(void *user)
{
    kiln_coll_group *group = user;
    kilni_coll_guard *guard = &group->guard;
    int idle_ticks = 0;
    pthread_mutex_lock(&guard->mutex);
    while (!guard->is_closing) {
        bool any = false;
        bool sleeps = idle_ticks >= IDLE_TICKS;
        atomic_store(&guard->is_asleep, sleeps); // a member that begins from here on wakes us
        for (kiln_coll_member *i = guard->members; i != NULL; i = i->next) {
            any = look_at(i) || any;
        }
        idle_ticks = any || sleeps ? 0 : idle_ticks + 1;
        if (any || !sleeps) {
            sleep_a_tick(guard);
        } else if (atomic_load(&guard->is_asleep)) {
            pthread_cond_wait(&guard->changed, &guard->mutex);
        }
    }
    pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

void kilni_coll_guard_wake(kiln_coll_group *group)
{
    kilni_coll_guard *guard = &group->guard;
    if (atomic_exchange(&guard->is_asleep, false)) {
        pthread_mutex_lock(&guard->mutex);
        pthread_cond_signal(&guard->changed);
        pthread_mutex_unlock(&guard->mutex);
    }
}

kiln_status kilni_coll_guard_start(kiln_coll_group *group, kiln_error *err)
{
    kilni_coll_guard *guard = &group->guard;
    pthread_mutex_init(&guard->mutex, NULL);
    kiln_cond_init(&guard->changed);
    atomic_init(&guard->is_asleep, false);
    guard->is_running = pthread_create(&guard->thread, NULL, watch, group) == 0;
    return guard->is_running ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a group");
}

void kilni_coll_guard_stop(kiln_coll_group *group)
{
    kilni_coll_guard *guard = &group->guard;
    if (guard->is_running) {
        pthread_mutex_lock(&guard->mutex);
        guard->is_closing = true;
        pthread_cond_signal(&guard->changed);
        pthread_mutex_unlock(&guard->mutex);
        pthread_join(guard->thread, NULL);
    }
    pthread_cond_destroy(&guard->changed);
    pthread_mutex_destroy(&guard->mutex);
}

void kilni_coll_guard_add(kiln_coll_member *member)
{
    kilni_coll_guard *guard = &member->group->guard;
    pthread_mutex_lock(&guard->mutex);
    member->next = guard->members;
    guard->members = member;
    pthread_mutex_unlock(&guard->mutex);
}

void kilni_coll_guard_remove(kiln_coll_member *member)
{
    kilni_coll_guard *guard = &member->group->guard;
    pthread_mutex_lock(&guard->mutex);
    kiln_coll_member **link = &guard->members;
    while (*link != NULL && *link != member) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = member->next;
    }
    pthread_mutex_unlock(&guard->mutex);
}
