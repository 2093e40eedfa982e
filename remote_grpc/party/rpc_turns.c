// SPDX-License-Identifier: MIT OR Apache-2.0
// Deficit round robin (Shreedhar and Varghese 1995) over the time that parties hold a device. What
// a turn costs is known only when it ends, so a lane may owe time; a lane that pauses pays by it.

#include "rpc_turns.h"

#include <math.h>
#include <pthread.h>

enum { QUANTUM_NS = 1000000, ALONE_NS = 20000000, SHARED_NS = 1000000, RECENT_NS = 200000000 };
enum { MOST_SHIFT = 12, FAR = 4 };

/// A thread that waits, on its own stack.
typedef struct turn_waiter {
    struct turn_waiter *next;
    pthread_cond_t granted_now;
    bool granted;
} turn_waiter;

struct kilni_rpc_lane {
    kilni_rpc_turns *turns;
    kilni_rpc_lane *next;
    const void *party;
    uint32_t refs; ///< of those who joined
    uint32_t weight;
    int64_t deficit_ns; ///< time that it may use; below 0: that it has used too much
    uint64_t left_ns; ///< when its last turn ended
    turn_waiter *first;
};

struct kilni_rpc_turns {
    const kiln_env *env;
    pthread_mutex_t lock;
    kilni_rpc_lane *lanes;
    kilni_rpc_lane *at; ///< whose turn it is or was; NULL: the first's
    bool held;
    uint64_t begun_ns;
    uint64_t flops;
    int shift; ///< budgets are multiplied by 2 to this power
};

kiln_status kilni_rpc_turns_create(const kiln_env *env, uint64_t flops, kilni_rpc_turns **out_turns,
                                   kiln_error *err)
{
    kilni_rpc_turns *made = kiln_alloc(env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    made->env = env;
    made->flops = flops > 1000000 ? flops : 1000000;
    pthread_mutex_init(&made->lock, NULL);
    *out_turns = made;
    return KILN_STATUS_OK;
}

void kilni_rpc_turns_destroy(kilni_rpc_turns *turns)
{
    if (turns == NULL) {
        return;
    }
    pthread_mutex_destroy(&turns->lock);
    kiln_free(turns->env, turns);
}

// ---- lanes ----

static kilni_rpc_lane **find_lane(kilni_rpc_turns *turns, const void *party)
{
    kilni_rpc_lane **link = &turns->lanes;
    while (*link != NULL && (*link)->party != party) {
        link = &(*link)->next;
    }
    return link;
}

kiln_status kilni_rpc_lane_join(kilni_rpc_turns *turns, const void *party, uint32_t weight,
                                kilni_rpc_lane **out_lane, kiln_error *err)
{
    pthread_mutex_lock(&turns->lock);
    kilni_rpc_lane *lane = *find_lane(turns, party);
    if (lane == NULL && (lane = kiln_alloc(turns->env, sizeof(*lane))) != NULL) {
        *lane = (kilni_rpc_lane){.turns = turns, .next = turns->lanes, .party = party};
        turns->lanes = lane;
    }
    if (lane != NULL) {
        lane->weight = weight > 0 ? weight : 1;
        lane->refs++;
    }
    pthread_mutex_unlock(&turns->lock);
    *out_lane = lane;
    return lane != NULL ? KILN_STATUS_OK
                        : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a session");
}

void kilni_rpc_lane_leave(kilni_rpc_lane *lane)
{
    kilni_rpc_turns *turns = lane != NULL ? lane->turns : NULL;
    if (turns == NULL) {
        return;
    }
    pthread_mutex_lock(&turns->lock);
    if (--lane->refs == 0) {
        *find_lane(turns, lane->party) = lane->next;
        turns->at = turns->at == lane ? NULL : turns->at;
        kiln_free(turns->env, lane);
    }
    pthread_mutex_unlock(&turns->lock);
}

// ---- the next turn: all under the lock ----

static kilni_rpc_lane *lane_after(const kilni_rpc_turns *turns, const kilni_rpc_lane *lane)
{
    return lane != NULL && lane->next != NULL ? lane->next : turns->lanes;
}

/// The lane whose turn is next, NULL when nobody waits. Each round gives every lane that waits its
/// quantum, so the loop ends.
static kilni_rpc_lane *next_lane(kilni_rpc_turns *turns)
{
    bool waits = false;
    for (const kilni_rpc_lane *each = turns->lanes; each != NULL; each = each->next) {
        waits = waits || each->first != NULL;
    }
    kilni_rpc_lane *lane = turns->at != NULL ? turns->at : turns->lanes;
    while (waits) {
        if (lane->first != NULL && lane->deficit_ns > 0) {
            return lane;
        }
        lane = lane_after(turns, lane);
        if (lane->first != NULL && lane->deficit_ns <= 0) {
            lane->deficit_ns += (int64_t)lane->weight * QUANTUM_NS;
        }
    }
    return NULL;
}

static void begin_turn(kilni_rpc_turns *turns, kilni_rpc_lane *lane, uint64_t now)
{
    turns->held = true;
    turns->at = lane;
    turns->begun_ns = now;
}

static void join_lane(kilni_rpc_lane *lane, turn_waiter *waiter, uint64_t now)
{
    if (lane->first == NULL && lane->deficit_ns < 0 && now > lane->left_ns) {
        lane->deficit_ns += (int64_t)(now - lane->left_ns);
        lane->deficit_ns = lane->deficit_ns > 0 ? 0 : lane->deficit_ns;
    }
    turn_waiter **link = &lane->first;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = waiter;
}

/// Gives the device to the lane that is next, or to nobody.
static void pass_turn(kilni_rpc_turns *turns, uint64_t now)
{
    kilni_rpc_lane *lane = next_lane(turns);
    turns->held = false;
    if (lane != NULL) {
        turn_waiter *waiter = lane->first;
        lane->first = waiter->next;
        begin_turn(turns, lane, now);
        waiter->granted = true;
        pthread_cond_signal(&waiter->granted_now);
    }
}

// ---- turns ----

void kilni_rpc_turn_take(kilni_rpc_lane *lane)
{
    kilni_rpc_turns *turns = lane->turns;
    turn_waiter waiter = {.next = NULL, .granted = false};
    pthread_mutex_lock(&turns->lock);
    uint64_t now = kiln_time_ns();
    if (!turns->held) {
        begin_turn(turns, lane, now);
    } else {
        pthread_cond_init(&waiter.granted_now, NULL);
        join_lane(lane, &waiter, now);
        while (!waiter.granted) {
            pthread_cond_wait(&waiter.granted_now, &turns->lock);
        }
        pthread_cond_destroy(&waiter.granted_now);
    }
    pthread_mutex_unlock(&turns->lock);
}

void kilni_rpc_turn_give(kilni_rpc_lane *lane)
{
    kilni_rpc_turns *turns = lane->turns;
    pthread_mutex_lock(&turns->lock);
    uint64_t now = kiln_time_ns();
    lane->deficit_ns -= (int64_t)(now - turns->begun_ns);
    lane->left_ns = now;
    pass_turn(turns, now);
    pthread_mutex_unlock(&turns->lock);
}

/// Whether a party beside the holder's waits, or had a turn a moment ago. Under the lock.
static bool is_shared(const kilni_rpc_turns *turns, uint64_t now)
{
    for (const kilni_rpc_lane *each = turns->lanes; each != NULL; each = each->next) {
        if (each != turns->at && (each->first != NULL || now - each->left_ns < RECENT_NS)) {
            return true;
        }
    }
    return false;
}

static uint64_t turn_length_ns(const kilni_rpc_turns *turns)
{
    return is_shared(turns, kiln_time_ns()) ? SHARED_NS : ALONE_NS;
}

uint64_t kilni_rpc_turn_budget(kilni_rpc_lane *lane)
{
    kilni_rpc_turns *turns = lane->turns;
    pthread_mutex_lock(&turns->lock);
    double work = ldexp((double)turn_length_ns(turns) * 1e-9 * (double)turns->flops, turns->shift);
    pthread_mutex_unlock(&turns->lock);
    return work > 1 ? (uint64_t)work : 1;
}

/// Steps of two, and only for what is far off: a program that repeats itself is cut at the same
/// places.
void kilni_rpc_turn_passed(kilni_rpc_lane *lane, uint64_t work, uint64_t ns)
{
    kilni_rpc_turns *turns = lane->turns;
    pthread_mutex_lock(&turns->lock);
    double expected = (double)work / ldexp((double)turns->flops, turns->shift) * 1e9;
    if ((double)ns > expected * FAR && turns->shift > -MOST_SHIFT) {
        turns->shift--;
    } else if ((double)ns * FAR < expected && turns->shift < MOST_SHIFT) {
        turns->shift++;
    }
    pthread_mutex_unlock(&turns->lock);
}
