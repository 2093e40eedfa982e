// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_MEMBER_H
#define KILN_COLLECTIVE_COLL_MEMBER_H

/// A group, its members and their requests, as the files of this room see them, from the bottom up:
/// coll_request.c (how a call ended), coll_guard.c (calls whose worker does not come back),
/// coll_group.c, coll_split.c, coll_worker.c (carries calls out), coll_member.c, coll_call.c
/// (starts them).

#include "coll_hub.h"
#include "coll_marker.h"
#include "coll_watch.h"
#include "collective.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct kilni_coll_guard {
    pthread_t thread;
    bool is_running;
    atomic_bool is_asleep; ///< no member is at work
    pthread_mutex_t mutex; ///< guards what follows; members' mutexes are taken under it
    pthread_cond_t changed;
    kiln_coll_member *members;
    bool is_closing;
} kilni_coll_guard;

struct kiln_coll_group {
    const kiln_env *env;
    atomic_size_t refs;
    uint32_t ranks;
    uint64_t deadline_ns;
    uint64_t chunk_bytes;
    char *select;
    uint32_t node; ///< ranks that share a host; 0: not known
    kiln_coll_network *network; ///< NULL: all ranks are in this process
    kiln_coll_hub *hub;
    kilni_coll_guard guard;
    pthread_mutex_t mutex; ///< guards the two below, and `select`
    bool *taken; ///< by rank
    kiln_coll_transport *transport; ///< one that failures can be asked of
};

/// Held by the worker, and by who waits for it.
struct kiln_coll_request {
    const kiln_env *env;
    atomic_uint refs;
    kiln_coll_call call;
    kilni_coll_marker *marker;
    struct kiln_coll_request *next;
    bool is_given_up; ///< by the guard; the member's mutex
    pthread_mutex_t mutex; ///< guards what follows
    pthread_cond_t changed;
    bool ended;
    kiln_status status;
    kiln_error error;
};

struct kiln_coll_member {
    kiln_coll_group *group;
    uint32_t rank;
    kiln_coll_memory *memory;
    kiln_coll_transport *transport;
    uint64_t sequence; ///< the worker's
    kiln_arena arena; ///< the worker's
    kilni_coll_watch watch;
    pthread_t worker;
    kiln_coll_member *next; ///< the guard's
    uint64_t failed_ns; ///< when the guard first saw it at work in a failed group; 0: not yet
    pthread_mutex_t mutex; ///< guards what follows
    pthread_cond_t changed;
    kiln_coll_request *current; ///< that the worker carries out
    bool is_busy; ///< it does, or tells the memory that it has
    kiln_coll_request *first;
    kiln_coll_request *last;
    bool is_stuck; ///< its calls have ended and its worker has not come back
    bool is_closing;
    bool is_over; ///< the worker has nothing to do any more
    bool is_abandoned; ///< the worker frees the member
};

// ---- requests and workers ----

/// Whether a call is between two ranks.
static inline bool kilni_coll_is_paired(kiln_coll_kind kind)
{
    return kind == KILN_COLL_SEND || kind == KILN_COLL_RECEIVE;
}

/// Notes a moment of a call where somebody asks for its times.
static inline void kilni_coll_call_note(const kiln_coll_call *call, kiln_coll_moment moment)
{
    if (call->times != NULL) {
        call->times->at_ns[moment] = kiln_time_ns();
    }
}

/// With two references, or with one when nobody waits for it. NULL: no memory.
kiln_coll_request *kilni_coll_request_create(const kiln_env *env, const kiln_coll_call *call,
                                             bool is_waited);
void kilni_coll_request_release(kiln_coll_request *request);
/// The first result stays.
void kilni_coll_request_end(kiln_coll_request *request, kiln_status status,
                            const kiln_error *error);

/// A member's thread: carries its calls out until it is closed.
void *kilni_coll_work(void *member);

/// Frees a member whose worker is over; its memory learns it last.
void kilni_coll_member_free(kiln_coll_member *member);

/// Ends one reference to the group: its own, or a member's.
void kilni_coll_group_release(kiln_coll_group *group);

// ---- the guard of a group ----

kiln_status kilni_coll_guard_start(kiln_coll_group *group, kiln_error *err);
void kilni_coll_guard_stop(kiln_coll_group *group);
void kilni_coll_guard_add(kiln_coll_member *member);
void kilni_coll_guard_remove(kiln_coll_member *member);
/// A member begins to work.
void kilni_coll_guard_wake(kiln_coll_group *group);

#endif
