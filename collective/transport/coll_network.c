// SPDX-License-Identifier: MIT OR Apache-2.0
// What a network does in the hub for the ranks of other processes: it takes from their inboxes, and
// delivers, arrives and fails in their name.
#include "coll_hub_state.h"

kiln_coll_message *kiln_coll_hub_take(kiln_coll_hub *hub, uint32_t rank)
{
    pthread_mutex_lock(&hub->mutex);
    kiln_coll_message *message = hub->ends[rank].inbox;
    if (message != NULL) {
        hub->ends[rank].inbox = message->next;
        message->state = MESSAGE_TAKEN;
    }
    pthread_mutex_unlock(&hub->mutex);
    return message;
}

void kiln_coll_hub_sent(kiln_coll_hub *hub, kiln_coll_message *message)
{
    pthread_mutex_lock(&hub->mutex);
    kilni_coll_hub_give_back(hub, message);
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_deliver(kiln_coll_hub *hub, kiln_coll_message *message)
{
    pthread_mutex_lock(&hub->mutex);
    message->is_send = true;
    message->state = MESSAGE_POSTED;
    kilni_coll_hub_inbox_append(&hub->ends[message->peer], message);
    kilni_coll_hub_wake(&hub->ends[message->peer]);
    pthread_mutex_unlock(&hub->mutex);
}

bool kiln_coll_hub_delivered(kiln_coll_hub *hub, kiln_coll_message *message)
{
    pthread_mutex_lock(&hub->mutex);
    if (message->state == MESSAGE_POSTED && hub->failure.code != KILN_STATUS_OK) {
        kilni_coll_hub_inbox_remove(&hub->ends[message->peer], message); // nobody will come for it
        message->state = MESSAGE_DONE;
    }
    bool done = message->state == MESSAGE_DONE;
    pthread_mutex_unlock(&hub->mutex);
    return done;
}

void kiln_coll_hub_arrival(kiln_coll_hub *hub, uint32_t rank, kiln_coll_arrival *out_arrival)
{
    pthread_mutex_lock(&hub->mutex);
    const kilni_hub_end *end = &hub->ends[rank];
    *out_arrival = (kiln_coll_arrival){.sequence = end->sequence,
                                       .signatures = {end->signatures[0], end->signatures[1]},
                                       .agreed = hub->agreed,
                                       .left = end->left};
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_arrive(kiln_coll_hub *hub, uint32_t rank, uint64_t sequence,
                          const kiln_coll_signature *signature)
{
    pthread_mutex_lock(&hub->mutex);
    if (hub->failure.code == KILN_STATUS_OK) {
        (void)kilni_coll_hub_arrive_locked(&hub->ends[rank], sequence, signature);
    }
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_leave(kiln_coll_hub *hub, uint32_t rank)
{
    kilni_coll_hub_leave(&hub->ends[rank]);
}

void kiln_coll_hub_fail(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    pthread_mutex_lock(&hub->mutex);
    kilni_coll_hub_decide(hub, rank, cause);
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_propose(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    pthread_mutex_lock(&hub->mutex);
    kilni_coll_hub_propose_locked(hub, rank, cause);
    pthread_mutex_unlock(&hub->mutex);
}

bool kiln_coll_hub_proposal(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err)
{
    pthread_mutex_lock(&hub->mutex);
    bool open = hub->proposal.code != KILN_STATUS_OK && hub->failure.code == KILN_STATUS_OK;
    if (open) {
        *out_rank = hub->proposed_rank;
        *err = hub->proposal;
    }
    pthread_mutex_unlock(&hub->mutex);
    return open;
}

kiln_status kiln_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err)
{
    return kilni_coll_hub_failure(hub, out_rank, err);
}
