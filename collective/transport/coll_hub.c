// SPDX-License-Identifier: MIT OR Apache-2.0
// The hub: the first failure of a group, which ends every wait; who has come to which call and asks
// for what; the inboxes. Under one lock. What is sent in which order is the schedule's affair.
#include "coll_hub_state.h"

#include "base_wait.h"

#include <stdio.h>
#include <string.h>

/// For the network's word on what the group's failure is; its judge takes at most 0.3 s.
static const uint64_t answer_ns = 800000000u;

void kilni_coll_hub_wake(kilni_hub_end *end)
{
    pthread_cond_broadcast(&end->changed);
}

void kilni_coll_hub_wake_all(kiln_coll_hub *hub)
{
    for (uint32_t i = 0; i < hub->ranks; i++) {
        kilni_coll_hub_wake(&hub->ends[i]);
    }
}

void kilni_coll_hub_decide(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    if (hub->failure.code == KILN_STATUS_OK) {
        hub->failure = *cause;
        hub->failed_rank = (int32_t)rank;
        kilni_coll_hub_wake_all(hub);
    }
}

void kilni_coll_hub_propose_locked(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    if (hub->proposal.code == KILN_STATUS_OK) {
        hub->proposal = *cause;
        hub->proposed_rank = (int32_t)rank;
    }
    if (!hub->has_network) {
        kilni_coll_hub_decide(hub, rank, cause);
    }
}

kiln_status kilni_coll_hub_accuse(kiln_coll_hub *hub, uint32_t rank, kiln_status code,
                                  const char *text)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_error_set(&cause, code, KILN_FILE_NAME, __LINE__, "rank %u: %s", rank, text);
    kilni_coll_hub_propose_locked(hub, rank, &cause);
    return code;
}

bool kilni_coll_hub_sleep(kilni_hub_end *end, uint64_t deadline_ns)
{
    return kiln_cond_wait_until(&end->changed, &end->hub->mutex, deadline_ns) ||
           kiln_time_ns() < deadline_ns;
}

kiln_status kilni_coll_hub_await_failure(kilni_hub_end *end)
{
    kiln_coll_hub *hub = end->hub;
    uint64_t deadline_ns = kiln_time_ns() + answer_ns;
    bool in_time = true;
    while (hub->proposal.code != KILN_STATUS_OK && hub->failure.code == KILN_STATUS_OK) {
        if (!in_time) { // its thread is held up in the network's library
            kilni_coll_hub_decide(hub, (uint32_t)hub->proposed_rank, &hub->proposal);
        } else {
            in_time = kilni_coll_hub_sleep(end, deadline_ns);
        }
    }
    return (kiln_status)hub->failure.code;
}

kiln_status kilni_coll_hub_poison(kilni_hub_end *end, uint32_t rank, kiln_status code,
                                  const char *text)
{
    (void)kilni_coll_hub_accuse(end->hub, rank, code, text);
    return kilni_coll_hub_await_failure(end);
}

kiln_status kilni_coll_hub_report(const kiln_coll_hub *hub, kiln_error *err)
{
    if (err != NULL && hub->failure.code != KILN_STATUS_OK) {
        *err = hub->failure;
    }
    return (kiln_status)hub->failure.code;
}

void kilni_coll_signature_text(const kiln_coll_signature *signature, char out_text[96])
{
    const kiln_coll_algorithm_info *row =
        kiln_coll_algorithm_row((kiln_coll_algorithm)signature->algorithm);
    const char *kind = kiln_coll_kind_name((kiln_coll_kind)signature->kind);
    const char *op = kiln_coll_op_name((kiln_coll_op)signature->op);
    const char *dtype = kiln_dtype_name((kiln_dtype)signature->dtype);
    int length = snprintf(out_text, 96, "%s %s %s of %llu, root %u, %s", kind == NULL ? "?" : kind,
                          op == NULL ? "?" : op, dtype == NULL ? "?" : dtype,
                          (unsigned long long)signature->count, signature->root,
                          row == NULL ? "?" : row->name);
    if (signature->tag != 0 && length < 80) {
        snprintf(out_text + length, 96 - (size_t)length, ", shape %04llx",
                 (unsigned long long)(signature->tag & 0xffff));
    }
}

kiln_status kilni_coll_hub_arrive_locked(kilni_hub_end *end, uint64_t sequence,
                                         const kiln_coll_signature *signature)
{
    kiln_coll_hub *hub = end->hub;
    end->sequence = sequence;
    end->signatures[sequence % 2] = *signature;
    if (hub->sequence != sequence) {
        hub->sequence = sequence;
        hub->signature = *signature;
        hub->first = end->rank;
        hub->arrived = 0;
    }
    if (memcmp(&hub->signature, signature, sizeof(*signature)) != 0) {
        char own[96];
        char others[96];
        char text[256];
        kilni_coll_signature_text(signature, own);
        kilni_coll_signature_text(&hub->signature, others);
        snprintf(text, sizeof(text), "call %llu is %s, but for rank %u %s",
                 (unsigned long long)sequence, own, hub->first, others);
        return kilni_coll_hub_accuse(hub, end->rank, KILN_STATUS_INVALID_ARGUMENT, text);
    }
    if (++hub->arrived == hub->ranks) {
        hub->agreed = sequence;
        kilni_coll_hub_wake_all(hub);
    }
    return KILN_STATUS_OK;
}

void kilni_coll_hub_inbox_append(kilni_hub_end *to, kiln_coll_message *message)
{
    kiln_coll_message **link = &to->inbox;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    message->next = NULL;
    *link = message;
}

void kilni_coll_hub_inbox_remove(kilni_hub_end *to, const kiln_coll_message *message)
{
    for (kiln_coll_message **link = &to->inbox; *link != NULL; link = &(*link)->next) {
        if (*link == message) {
            *link = message->next;
            return;
        }
    }
}

void kilni_coll_hub_give_back(kiln_coll_hub *hub, kiln_coll_message *sent)
{
    sent->state = MESSAGE_DONE;
    kilni_coll_hub_wake(&hub->ends[sent->sender]);
}

kiln_status kilni_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err)
{
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = kilni_coll_hub_report(hub, err);
    if (out_rank != NULL) {
        *out_rank = hub->failed_rank;
    }
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

void kilni_coll_hub_leave(kilni_hub_end *end)
{
    pthread_mutex_lock(&end->hub->mutex);
    end->left = true;
    kilni_coll_hub_wake_all(end->hub);
    pthread_mutex_unlock(&end->hub->mutex);
}
