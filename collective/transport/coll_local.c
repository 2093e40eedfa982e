// SPDX-License-Identifier: MIT OR Apache-2.0
// The transport between ranks of one process: a hub with an inbox per rank, under one lock. A send
// lays its message into the receiver's inbox; the receiver copies straight from the sender's
// mapping, without the lock, while the message is marked as taken. The first failure is kept and
// ends every wait. What is sent and in which order is the schedule's affair. For ranks of other
// processes a network stands in: it takes from their inboxes, and delivers, arrives and fails in
// their name.
#include "coll_hub.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/// For the network's word on what the group's failure is; process 0 takes at most 0.3 s.
static const uint64_t answer_ns = 800000000u;

/// What a call into a memory may take before it is what others wait for.
static const uint64_t moment_ns = 20000000u;

enum message_state { MESSAGE_NEW, MESSAGE_POSTED, MESSAGE_TAKEN, MESSAGE_DONE };

typedef struct hub_end {
    kiln_coll_transport base;
    kiln_coll_hub *hub;
    uint32_t rank;
    pthread_cond_t changed;
    kiln_coll_message *inbox; ///< sends to this rank, oldest first
    uint64_t sequence; ///< the call that this rank has come to
    kiln_coll_signature signatures[2]; ///< of it and the one before, call n at n % 2
    uint32_t waits_for[2]; ///< without which a thread of it does not go on: one that receives, one
                           ///< that sends; UINT32_MAX: none
    bool is_reached; ///< of a search
    const kilni_coll_watch *watch; ///< NULL: not known
    bool left;
} hub_end;

struct kiln_coll_hub {
    const kiln_env *env;
    uint32_t ranks;
    pthread_mutex_t mutex; ///< guards all below and every end
    uint64_t agreed; ///< the last call that all ranks have come to
    uint64_t sequence; ///< the call that is being agreed on
    uint32_t arrived;
    uint32_t first; ///< who came first
    kiln_coll_signature signature;
    int32_t failed_rank;
    kiln_error failure; ///< code 0: none
    bool has_network; ///< which makes a failure of a proposal
    int32_t proposed_rank;
    kiln_error proposal; ///< code 0: none
    hub_end *ends;
};

static hub_end *end_of(kiln_coll_transport *transport)
{
    return (hub_end *)transport;
}

/// All threads of a rank: one may wait for a send, another for a receive.
static void wake(hub_end *end)
{
    pthread_cond_broadcast(&end->changed);
}

static void wake_all(kiln_coll_hub *hub)
{
    for (uint32_t i = 0; i < hub->ranks; i++) {
        wake(&hub->ends[i]);
    }
}

/// Keeps the first failure of the group, and wakes everybody.
static void fail(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    if (hub->failure.code == KILN_STATUS_OK) {
        hub->failure = *cause;
        hub->failed_rank = (int32_t)rank;
        wake_all(hub);
    }
}

static void propose(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    if (hub->proposal.code == KILN_STATUS_OK) {
        hub->proposal = *cause;
        hub->proposed_rank = (int32_t)rank;
    }
    if (!hub->has_network) {
        fail(hub, rank, cause);
    }
}

/// Says what went wrong; the group's failure is decided later where there is a network.
static kiln_status accuse(kiln_coll_hub *hub, uint32_t rank, kiln_status code, const char *text)
{
    kiln_error cause = KILN_ERROR_INIT;
    (void)kiln_error_set(&cause, code, KILN_FILE_NAME, __LINE__, "rank %u: %s", rank, text);
    propose(hub, rank, &cause);
    return code;
}

/// Sleeps until woken. False when the deadline has passed.
static bool sleep_until(hub_end *end, uint64_t deadline_ns)
{
    struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                            .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(&end->changed, &end->hub->mutex, &when) == 0 ||
           kiln_time_ns() < deadline_ns;
}

/// The group's failure, once it is decided; to be called by a member's thread after an accusation.
static kiln_status await_failure(hub_end *end)
{
    kiln_coll_hub *hub = end->hub;
    uint64_t deadline_ns = kiln_time_ns() + answer_ns;
    bool in_time = true;
    while (hub->proposal.code != KILN_STATUS_OK && hub->failure.code == KILN_STATUS_OK) {
        if (!in_time) { // its thread is held up in the network's library
            fail(hub, (uint32_t)hub->proposed_rank, &hub->proposal);
        } else {
            in_time = sleep_until(end, deadline_ns);
        }
    }
    return (kiln_status)hub->failure.code;
}

static kiln_status poison(hub_end *end, uint32_t rank, kiln_status code, const char *text)
{
    (void)accuse(end->hub, rank, code, text);
    return await_failure(end);
}

/// Copies the failure out; its code.
static kiln_status report(const kiln_coll_hub *hub, kiln_error *err)
{
    if (err != NULL && hub->failure.code != KILN_STATUS_OK) {
        *err = hub->failure;
    }
    return (kiln_status)hub->failure.code;
}

// ---- agreement ----

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

/// Registers the arrival of `end` and compares its wish with the first one's.
static kiln_status arrive(hub_end *end, uint64_t sequence, const kiln_coll_signature *signature)
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
        return accuse(hub, end->rank, KILN_STATUS_INVALID_ARGUMENT, text);
    }
    if (++hub->arrived == hub->ranks) {
        hub->agreed = sequence;
        wake_all(hub);
    }
    return KILN_STATUS_OK;
}

static kiln_status await_all(hub_end *end, uint64_t sequence, uint64_t deadline_ns)
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
            return poison(end, gone, KILN_STATUS_UNAVAILABLE, text);
        }
        if (!in_time) {
            snprintf(text, sizeof(text), "did not come to call %llu, %s, before the deadline",
                     (unsigned long long)sequence, own);
            return poison(end, late, KILN_STATUS_DEADLINE_EXCEEDED, text);
        }
        in_time = sleep_until(end, deadline_ns);
    }
    return (kiln_status)hub->failure.code;
}

static kiln_status local_agree(kiln_coll_transport *transport, uint64_t sequence,
                               const kiln_coll_signature *signature, uint64_t deadline_ns,
                               kiln_error *err)
{
    hub_end *end = end_of(transport);
    kiln_coll_hub *hub = end->hub;
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = (kiln_status)hub->failure.code;
    if (status == KILN_STATUS_OK) {
        status = arrive(end, sequence, signature);
        status = status == KILN_STATUS_OK ? status : await_failure(end);
    }
    if (status == KILN_STATUS_OK) {
        status = await_all(end, sequence, deadline_ns);
    }
    report(hub, err);
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

// ---- messages ----

static void inbox_append(hub_end *to, kiln_coll_message *message)
{
    kiln_coll_message **link = &to->inbox;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    message->next = NULL;
    *link = message;
}

static void inbox_remove(hub_end *to, const kiln_coll_message *message)
{
    for (kiln_coll_message **link = &to->inbox; *link != NULL; link = &(*link)->next) {
        if (*link == message) {
            *link = message->next;
            return;
        }
    }
}

/// The oldest message from `peer`, taken out of the inbox; NULL when there is none.
static kiln_coll_message *inbox_take(hub_end *own, uint32_t peer)
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
    hub_end *end = end_of(transport);
    kiln_coll_hub *hub = end->hub;
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = report(hub, err);
    message->sender = end->rank;
    if (status == KILN_STATUS_OK) {
        message->state = MESSAGE_POSTED;
    }
    if (status == KILN_STATUS_OK && message->is_send) {
        inbox_append(&hub->ends[message->peer], message);
        wake(&hub->ends[message->peer]);
    }
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

/// What was taken out of the inbox goes back to its sender.
static void give_back(kiln_coll_hub *hub, kiln_coll_message *sent)
{
    sent->state = MESSAGE_DONE;
    wake(&hub->ends[sent->sender]);
}

/// Copies a taken message over, without the lock, and tells the sender; one that is only accepted
/// stays the receiver's until release.
static kiln_status take_over(hub_end *end, kiln_coll_message *message, kiln_coll_message *sent)
{
    kiln_coll_hub *hub = end->hub;
    message->state = MESSAGE_DONE;
    if (sent->bytes != message->bytes || sent->sequence != message->sequence) {
        give_back(hub, sent);
        return poison(end, end->rank, KILN_STATUS_INTERNAL,
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
    give_back(hub, sent);
    return KILN_STATUS_OK;
}

/// Marks whom the rank waits for. True when one is new.
static bool reach_on(const kiln_coll_hub *hub, const hub_end *end)
{
    bool grew = false;
    for (int i = 0; i < 2; i++) {
        uint32_t next = end->waits_for[i];
        if (next != UINT32_MAX && !hub->ends[next].is_reached) {
            hub->ends[next].is_reached = true;
            grew = true;
        }
    }
    return grew;
}

/// The rank among the reached ones that has been longest in a call into its memory; UINT32_MAX:
/// none for more than a moment.
static uint32_t find_held_up(const kiln_coll_hub *hub)
{
    uint64_t longest = moment_ns;
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < hub->ranks; i++) {
        const hub_end *end = &hub->ends[i];
        uint64_t held_ns =
            end->is_reached && end->watch != NULL ? kilni_coll_watch_ns(end->watch) : 0;
        found = held_ns > longest ? i : found;
        longest = held_ns > longest ? held_ns : longest;
    }
    return found;
}

/// Who holds up the others: the rank, among those that `peer` waits for directly or not, that waits
/// for nobody, or for its memory.
static uint32_t find_late(const kiln_coll_hub *hub, uint32_t peer)
{
    for (uint32_t i = 0; i < hub->ranks; i++) {
        hub->ends[i].is_reached = i == peer;
    }
    for (bool grew = true; grew;) {
        grew = false;
        for (uint32_t i = 0; i < hub->ranks; i++) {
            const hub_end *end = &hub->ends[i];
            grew = (end->is_reached && reach_on(hub, end)) || grew;
        }
    }
    uint32_t held_up = find_held_up(hub);
    for (uint32_t i = 0; i < hub->ranks && held_up == UINT32_MAX; i++) {
        const hub_end *end = &hub->ends[i];
        if (end->is_reached && end->waits_for[0] == UINT32_MAX && end->waits_for[1] == UINT32_MAX) {
            return i;
        }
    }
    return held_up != UINT32_MAX ? held_up : peer;
}

static kiln_status timed_out(hub_end *end, const kiln_coll_message *message)
{
    char text[96];
    snprintf(text, sizeof(text), "did not go on with call %llu before the deadline",
             (unsigned long long)message->sequence);
    return poison(end, find_late(end->hub, message->peer), KILN_STATUS_DEADLINE_EXCEEDED, text);
}

static kiln_status wait_receive(hub_end *end, kiln_coll_message *message, uint64_t deadline_ns)
{
    kiln_coll_hub *hub = end->hub;
    bool in_time = true;
    while (hub->failure.code == KILN_STATUS_OK) {
        kiln_coll_message *sent = inbox_take(end, message->peer);
        if (sent != NULL) {
            return take_over(end, message, sent);
        }
        if (hub->ends[message->peer].left) {
            return poison(end, message->peer, KILN_STATUS_UNAVAILABLE, "left during a call");
        }
        if (!in_time) {
            return timed_out(end, message);
        }
        in_time = sleep_until(end, deadline_ns);
    }
    return (kiln_status)hub->failure.code;
}

/// Takes a send back: out of the inbox, or, when the receiver is copying, after that.
static void withdraw(hub_end *end, kiln_coll_message *message)
{
    kiln_coll_hub *hub = end->hub;
    if (message->state == MESSAGE_POSTED) {
        inbox_remove(&hub->ends[message->peer], message);
    }
    while (message->state == MESSAGE_TAKEN) {
        pthread_cond_wait(&end->changed, &hub->mutex); // ends with a copy
    }
    message->state = MESSAGE_DONE;
}

static kiln_status wait_send(hub_end *end, kiln_coll_message *message, uint64_t deadline_ns)
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
        in_time = sleep_until(end, deadline_ns);
    }
    return KILN_STATUS_OK;
}

static kiln_status local_wait(kiln_coll_transport *transport, kiln_coll_message *message,
                              uint64_t deadline_ns, kiln_error *err)
{
    hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    end->waits_for[message->is_send] = message->peer;
    kiln_status status = message->is_send ? wait_send(end, message, deadline_ns)
                                          : wait_receive(end, message, deadline_ns);
    end->waits_for[message->is_send] = UINT32_MAX;
    if (status != KILN_STATUS_OK) {
        report(end->hub, err);
    }
    pthread_mutex_unlock(&end->hub->mutex);
    return status;
}

static void local_cancel(kiln_coll_transport *transport, kiln_coll_message *message)
{
    hub_end *end = end_of(transport);
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
    give_back(hub, message->handle);
    message->handle = NULL;
    pthread_mutex_unlock(&hub->mutex);
}

// ---- failure and leaving ----

static void local_abort(kiln_coll_transport *transport, const kiln_error *cause)
{
    hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    (void)poison(end, end->rank, (kiln_status)cause->code, cause->message);
    pthread_mutex_unlock(&end->hub->mutex);
}

static kiln_status local_failure(kiln_coll_transport *transport, int32_t *out_rank, kiln_error *err)
{
    kiln_coll_hub *hub = end_of(transport)->hub;
    pthread_mutex_lock(&hub->mutex);
    kiln_status status = report(hub, err);
    if (out_rank != NULL) {
        *out_rank = hub->failed_rank;
    }
    pthread_mutex_unlock(&hub->mutex);
    return status;
}

static void local_leave(kiln_coll_transport *transport)
{
    hub_end *end = end_of(transport);
    pthread_mutex_lock(&end->hub->mutex);
    end->left = true;
    wake_all(end->hub);
    pthread_mutex_unlock(&end->hub->mutex);
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

// ---- for a network ----

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
    give_back(hub, message);
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_deliver(kiln_coll_hub *hub, kiln_coll_message *message)
{
    pthread_mutex_lock(&hub->mutex);
    message->is_send = true;
    message->state = MESSAGE_POSTED;
    inbox_append(&hub->ends[message->peer], message);
    wake(&hub->ends[message->peer]);
    pthread_mutex_unlock(&hub->mutex);
}

bool kiln_coll_hub_delivered(kiln_coll_hub *hub, kiln_coll_message *message)
{
    pthread_mutex_lock(&hub->mutex);
    if (message->state == MESSAGE_POSTED && hub->failure.code != KILN_STATUS_OK) {
        inbox_remove(&hub->ends[message->peer], message); // nobody will come for it
        message->state = MESSAGE_DONE;
    }
    bool done = message->state == MESSAGE_DONE;
    pthread_mutex_unlock(&hub->mutex);
    return done;
}

void kiln_coll_hub_arrival(kiln_coll_hub *hub, uint32_t rank, kiln_coll_arrival *out_arrival)
{
    pthread_mutex_lock(&hub->mutex);
    const hub_end *end = &hub->ends[rank];
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
        (void)arrive(&hub->ends[rank], sequence, signature);
    }
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_leave(kiln_coll_hub *hub, uint32_t rank)
{
    local_leave(&hub->ends[rank].base);
}

void kiln_coll_hub_fail(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    pthread_mutex_lock(&hub->mutex);
    fail(hub, rank, cause);
    pthread_mutex_unlock(&hub->mutex);
}

void kiln_coll_hub_propose(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause)
{
    pthread_mutex_lock(&hub->mutex);
    propose(hub, rank, cause);
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

void kilni_coll_hub_set_network(kiln_coll_hub *hub)
{
    hub->has_network = true;
}

kiln_status kiln_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err)
{
    return local_failure(&hub->ends[0].base, out_rank, err);
}

// ---- the hub ----

static void end_init(kiln_coll_hub *hub, uint32_t rank, const pthread_condattr_t *attributes)
{
    hub_end *end = &hub->ends[rank];
    end->base.ops = &local_ops;
    end->hub = hub;
    end->rank = rank;
    end->waits_for[0] = UINT32_MAX;
    end->waits_for[1] = UINT32_MAX;
    pthread_cond_init(&end->changed, attributes);
}

kiln_status kilni_coll_hub_create(const kiln_env *env, uint32_t ranks, kiln_coll_hub **out_hub,
                                  kiln_error *err)
{
    *out_hub = NULL;
    kiln_coll_hub *hub = kiln_alloc(env, sizeof(*hub));
    hub_end *ends = kiln_alloc_array(env, ranks, sizeof(*ends));
    if (hub == NULL || ends == NULL) {
        kiln_free(env, hub);
        kiln_free(env, ends);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of %u ranks", ranks);
    }
    hub->env = env;
    hub->ranks = ranks;
    hub->ends = ends;
    hub->failed_rank = -1;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&hub->mutex, NULL);
    for (uint32_t i = 0; i < ranks; i++) {
        end_init(hub, i, &attributes);
    }
    pthread_condattr_destroy(&attributes);
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
