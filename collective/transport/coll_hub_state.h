// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_HUB_STATE_H
#define KILN_COLLECTIVE_COLL_HUB_STATE_H

/// The hub's state, for the files of this room: coll_hub.c (failures, arrivals, inboxes),
/// coll_late.c (who holds up the others), coll_local.c (the transport of this process's ranks) and
/// coll_network.c (what a network does for the others). Under the hub's lock unless said otherwise.

#include "coll_hub.h"

#include <pthread.h>

enum message_state { MESSAGE_NEW, MESSAGE_POSTED, MESSAGE_TAKEN, MESSAGE_DONE };

typedef struct kilni_hub_end {
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
} kilni_hub_end;

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
    kilni_hub_end *ends;
};

/// Wakes all threads of a rank: one may wait for a send, another for a receive.
void kilni_coll_hub_wake(kilni_hub_end *end);
void kilni_coll_hub_wake_all(kiln_coll_hub *hub);
/// Sleeps until woken. False when the deadline has passed.
bool kilni_coll_hub_sleep(kilni_hub_end *end, uint64_t deadline_ns);

/// Keeps the first failure of the group, and wakes everybody.
void kilni_coll_hub_decide(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);
/// Keeps the first proposal; where there is no network it is the failure.
void kilni_coll_hub_propose_locked(kiln_coll_hub *hub, uint32_t rank, const kiln_error *cause);
/// Says what went wrong; the group's failure is decided later where there is a network.
kiln_status kilni_coll_hub_accuse(kiln_coll_hub *hub, uint32_t rank, kiln_status code,
                                  const char *text);
/// The group's failure, once it is decided; to be called by a member's thread after an accusation.
kiln_status kilni_coll_hub_await_failure(kilni_hub_end *end);
/// Accuses and waits.
kiln_status kilni_coll_hub_poison(kilni_hub_end *end, uint32_t rank, kiln_status code,
                                  const char *text);
/// Copies the failure out; its code.
kiln_status kilni_coll_hub_report(const kiln_coll_hub *hub, kiln_error *err);
/// The same with the rank that caused it. Takes the lock.
kiln_status kilni_coll_hub_failure(kiln_coll_hub *hub, int32_t *out_rank, kiln_error *err);

/// Registers the arrival of `end` and compares its wish with the first one's.
kiln_status kilni_coll_hub_arrive_locked(kilni_hub_end *end, uint64_t sequence,
                                         const kiln_coll_signature *signature);
/// The rank takes no further part. Takes the lock.
void kilni_coll_hub_leave(kilni_hub_end *end);

void kilni_coll_hub_inbox_append(kilni_hub_end *to, kiln_coll_message *message);
void kilni_coll_hub_inbox_remove(kilni_hub_end *to, const kiln_coll_message *message);
/// What was taken out of the inbox goes back to its sender.
void kilni_coll_hub_give_back(kiln_coll_hub *hub, kiln_coll_message *sent);

/// Who holds up the others: the rank, among those that `peer` waits for directly or not, that waits
/// for nobody, or for its memory.
uint32_t kilni_coll_hub_find_late(const kiln_coll_hub *hub, uint32_t peer);

#endif
