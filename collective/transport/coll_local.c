// SPDX-License-Identifier: MIT OR Apache-2.0
// The transport between ranks of one process. A send lays its message into the receiver's inbox;
// the receiver copies straight from the sender's mapping, without the lock, while the message is
// marked as taken.
#include "coll_hub_state.h"

#include "base_wait.h"

#include <stdio.h>
#include <string.h>

static kilni_hub_end *end_of(kiln_coll_transport *transport)
{
    return (kilni_hub_end *)transport;
}

// ---- agreement ----

/// The first rank that has not come to `sequence`; `only_left` asks for one that never will.
static uint32_t missing_rank(const kiln_coll_hub *hub, uint64_t sequence, bool only_left)
{
    uint32_t rank = 0;
    while (rank < hub->ranks &&
           (hub->ends[rank].sequence >= sequence || (only_left && !hub->ends[rank].left))) {
        rank++;
    }
    return rank;
}

static kiln_status await_all(kilni_hub_end *end, uint64_t sequence, uint64_t deadline_ns)
{
    kiln_coll_hub *hub = end->hub;
    char own[96];
    char text[192];
    bool in_time = true;
    while (hub->failure.code == KILN_STATUS_OK && hub->agreed < sequence) {
        uint32_t gone = missing_rank(hub, sequence, /*only_left=*/true);
        uint32_t late = missing_rank(hub, sequence, /*only_left=*/false);
        kilni_coll_signature_text(&hub->signature, own);
        if (gone < hub->ranks) {
            snprintf(text, sizeof(text), "left before call %llu, %s", (unsigned long long)sequence,
                     own);
            return kilni_coll_hub_poison(end, gone, KILN_STATUS_UNAVAILABLE, text);
        }
        if (!in_time) {
            snprintf(text, sizeof(text), "did not come to call %llu, %s, before the deadline",
                     (unsigned long long)sequence, own);
            return kilni_coll_hub_poison(end, late, KILN_STATUS_DEADLINE_EXCEEDED, text);
        }
        in_time = kilni_coll_hub_sleep(end, deadline_ns);
    }
    return (kiln_status)hub->failure.code;
}

static kiln_status local_agree(kiln_coll_transport *transport, uint64_t sequence,
                               const kiln_coll_signature *signature, uint64_t deadline_ns,
                               kiln_error *err)
{
    kilni_hub_end *end = end_of(transport);
    kiln_coll_hub *hub = end->hub;
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = (kiln_status)hub->failure.code;
    if (status == KILN_STATUS_OK) {
        status = kilni_coll_hub_arrive_locked(end, sequence, signature);
        status = status == KILN_STATUS_OK ? status : kilni_coll_hub_await_failure(end);
    }
    if (status == KILN_STATUS_OK) {
        status = await_all(end, sequence, deadline_ns);
    }
    kilni_coll_hub_report(hub, err);
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

// ---- messages ----

/// The oldest message from `peer`, taken out of the inbox; NULL when there is none.
static kiln_coll_message *inbox_take(kilni_hub_end *own, uint32_t peer)
{
    for (kiln_coll_message **link = &own->inbox; *link != NULL; link = &(*link)->next) {
        kiln_coll_message *message = *link;
        if (message->sender == peer) {
            *link = message->next;
            message->state = MESSAGE_TAKEN;
            return message;
        }
    }
    return NULL;
}

static kiln_status local_post(kiln_coll_transport *transport, kiln_coll_message *message,
                              kiln_error *err)
{
    kilni_hub_end *end = end_of(transport);
    kiln_coll_hub *hub = end->hub;
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = kilni_coll_hub_report(hub, err);
    message->sender = end->rank;
    if (status == KILN_STATUS_OK) {
        message->state = MESSAGE_POSTED;
    }
    if (status == KILN_STATUS_OK && message->is_send) {
        kilni_coll_hub_inbox_append(&hub->ends[message->peer], message);
        kilni_coll_hub_wake(&hub->ends[message->peer]);
    }
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

/// Copies a taken message over, without the lock, and tells the sender; one that is only accepted
/// stays the receiver's until release.
static kiln_status take_over(kilni_hub_end *end, kiln_coll_message *message,
                             kiln_coll_message *sent)
{
    kiln_coll_hub *hub = end->hub;
    message->state = MESSAGE_DONE;
    if ((sent->sequence == KILN_COLL_PAIR) != (message->sequence == KILN_COLL_PAIR)) {
        kilni_coll_hub_give_back(hub, sent);
        return kilni_coll_hub_poison(end, end->rank, KILN_STATUS_INVALID_ARGUMENT,
                                     "its sends and receives come between other calls than those "
                                     "of the other rank");
    }
    if (sent->bytes != message->bytes || sent->sequence != message->sequence) {
        kilni_coll_hub_give_back(hub, sent);
        return kilni_coll_hub_poison(end, end->rank, KILN_STATUS_INTERNAL,
                                     "a message has another length or call than the schedule says");
    }
    if (message->data == NULL && message->take == NULL) {
        message->data = sent->data;
        message->handle = sent;
        return KILN_STATUS_OK;
    }
    pthread_mutex_unlock(&hub->mutex);
    if (message->take != NULL) {
        message->take(sent->data, sent->bytes, message->user);
    } else {
        memcpy(message->data, sent->data, sent->bytes);
    }
    pthread_mutex_lock(&hub->mutex);
    kilni_coll_hub_give_back(hub, sent);
    return KILN_STATUS_OK;
}

static kiln_status timed_out(kilni_hub_end *end, const kiln_coll_message *message)
{
    char text[96];
    if (message->sequence == KILN_COLL_PAIR) {
        snprintf(text, sizeof(text), "did not come to a %s before the deadline",
                 message->is_send ? "receive" : "send");
    } else {
        snprintf(text, sizeof(text), "did not go on with call %llu before the deadline",
                 (unsigned long long)message->sequence);
    }
    return kilni_coll_hub_poison(end, kilni_coll_hub_find_late(end->hub, message->peer),
                                 KILN_STATUS_DEADLINE_EXCEEDED, text);
}

static kiln_status wait_receive(kilni_hub_end *end, kiln_coll_message *message,
                                uint64_t deadline_ns)
{
    kiln_coll_hub *hub = end->hub;
    bool in_time = true;
    while (hub->failure.code == KILN_STATUS_OK) {
        kiln_coll_message *sent = inbox_take(end, message->peer);
        if (sent != NULL) {
            return take_over(end, message, sent);
        }
        if (hub->ends[message->peer].left) {
            return kilni_coll_hub_poison(end, message->peer, KILN_STATUS_UNAVAILABLE,
                                         "left during a call");
        }
        if (!in_time) {
            return timed_out(end, message);
        }
        in_time = kilni_coll_hub_sleep(end, deadline_ns);
    }
    return (kiln_status)hub->failure.code;
}

/// Takes a send back: out of the inbox, or, when the receiver is copying, after that.
static void withdraw(kilni_hub_end *end, kiln_coll_message *message)
{
    kiln_coll_hub *hub = end->hub;
    if (message->state == MESSAGE_POSTED) {
        kilni_coll_hub_inbox_remove(&hub->ends[message->peer], message);
    }
    while (message->state == MESSAGE_TAKEN) {
        pthread_cond_wait(&end->changed, &hub->mutex); // ends with a copy
    }
    message->state = MESSAGE_DONE;
}

static kiln_status wait_send(kilni_hub_end *end, kiln_coll_message *message, uint64_t deadline_ns)
{
    kiln_coll_hub *hub = end->hub;
    bool in_time = true;
    while (message->state != MESSAGE_DONE) {
        if (hub->failure.code == KILN_STATUS_OK && !in_time) {
            timed_out(end, message);
        }
        if (hub->failure.code != KILN_STATUS_OK) {
            withdraw(end, message);
            return (kiln_status)hub->failure.code;
        }
        in_time = kilni_coll_hub_sleep(end, deadline_ns);
    }
    return KILN_STATUS_OK;
}

static kiln_status local_wait(kiln_coll_transport *transport, kiln_coll_message *message,
                              uint64_t deadline_ns, kiln_error *err)
{
    kilni_hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    end->waits_for[message->is_send] = message->peer;
    kiln_status status = message->is_send ? wait_send(end, message, deadline_ns)
                                          : wait_receive(end, message, deadline_ns);
    end->waits_for[message->is_send] = UINT32_MAX;
    if (status != KILN_STATUS_OK) {
        kilni_coll_hub_report(end->hub, err);
    }
    pthread_mutex_unlock(&end->hub->mutex);
    return status;
}

static void local_cancel(kiln_coll_transport *transport, kiln_coll_message *message)
{
    kilni_hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    if (message->is_send) {
        withdraw(end, message);
    }
    pthread_mutex_unlock(&end->hub->mutex);
}

static void local_release(kiln_coll_transport *transport, kiln_coll_message *message)
{
    kiln_coll_hub *hub = end_of(transport)->hub;
    pthread_mutex_lock(&hub->mutex);
    kilni_coll_hub_give_back(hub, message->handle);
    message->handle = NULL;
    pthread_mutex_unlock(&hub->mutex);
}

// ---- failure and leaving ----

static void local_abort(kiln_coll_transport *transport, const kiln_error *cause)
{
    kilni_hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    (void)kilni_coll_hub_poison(end, end->rank, (kiln_status)cause->code, cause->message);
    pthread_mutex_unlock(&end->hub->mutex);
}

static kiln_status local_failure(kiln_coll_transport *transport, int32_t *out_rank, kiln_error *err)
{
    return kilni_coll_hub_failure(end_of(transport)->hub, out_rank, err);
}

static void local_leave(kiln_coll_transport *transport)
{
    kilni_coll_hub_leave(end_of(transport));
}

static const kiln_coll_transport_ops local_ops = {
    .struct_size = (uint32_t)sizeof(kiln_coll_transport_ops),
    .name = "local",
    .agree = local_agree,
    .post = local_post,
    .wait = local_wait,
    .cancel = local_cancel,
    .abort = local_abort,
    .failure = local_failure,
    .leave = local_leave,
    .accept = local_wait,
    .release = local_release,
};

// ---- the hub ----

static void end_init(kiln_coll_hub *hub, uint32_t rank)
{
    kilni_hub_end *end = &hub->ends[rank];
    end->base.ops = &local_ops;
    end->hub = hub;
    end->rank = rank;
    end->waits_for[0] = UINT32_MAX;
    end->waits_for[1] = UINT32_MAX;
    kiln_cond_init(&end->changed);
}

kiln_status kilni_coll_hub_create(const kiln_env *env, uint32_t ranks, kiln_coll_hub **out_hub,
                                  kiln_error *err)
{
    *out_hub = NULL;
    kiln_coll_hub *hub = kiln_alloc(env, sizeof(*hub));
    kilni_hub_end *ends = kiln_alloc_array(env, ranks, sizeof(*ends));
    if (hub == NULL || ends == NULL) {
        kiln_free(env, hub);
        kiln_free(env, ends);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of %u ranks", ranks);
    }
    hub->env = env;
    hub->ranks = ranks;
    hub->ends = ends;
    hub->failed_rank = -1;
    pthread_mutex_init(&hub->mutex, NULL);
    for (uint32_t i = 0; i < ranks; i++) {
        end_init(hub, i);
    }
    *out_hub = hub;
    return KILN_STATUS_OK;
}

void kilni_coll_hub_destroy(kiln_coll_hub *hub)
{
    if (hub == NULL) {
        return;
    }
    for (uint32_t i = 0; i < hub->ranks; i++) {
        pthread_cond_destroy(&hub->ends[i].changed);
    }
    pthread_mutex_destroy(&hub->mutex);
    kiln_free(hub->env, hub->ends);
    kiln_free(hub->env, hub);
}

void kilni_coll_hub_set_watch(kiln_coll_hub *hub, uint32_t rank, const kilni_coll_watch *watch)
{
    pthread_mutex_lock(&hub->mutex);
    hub->ends[rank].watch = watch;
    pthread_mutex_unlock(&hub->mutex);
}

kiln_coll_transport *kilni_coll_hub_end(kiln_coll_hub *hub, uint32_t rank)
{
    return &hub->ends[rank].base;
}

void kilni_coll_hub_set_network(kiln_coll_hub *hub)
{
    hub->has_network = true;
}
