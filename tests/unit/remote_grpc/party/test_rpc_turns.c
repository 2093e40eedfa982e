// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns on a device, rules of identities, quotas, and when a certificate is good: without a
// network.

#include "harness.h"
#include "rpc_parties.h"
#include "rpc_server.h"
#include "rpc_turns.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const kiln_env *env_of_turns(void)
{
    static kiln_env env;
    env.allocator = kiln_allocator_default();
    return &env;
}

// ---- turns ----

typedef struct turn_user {
    kilni_rpc_turns *turns;
    const void *party;
    uint32_t weight;
    uint64_t work_us; ///< of one turn
    atomic_bool *stop;
    uint64_t held_ns;
} turn_user;

static atomic_int holders;

static void spend(uint64_t us)
{
    uint64_t until = kiln_time_ns() + us * 1000;
    const struct timespec nap = {.tv_nsec = 20000};
    while (kiln_time_ns() < until) {
        (void)nanosleep(&nap, NULL); // the device works, not this processor
    }
}

static void *use_turns(void *pointer)
{
    turn_user *self = pointer;
    kilni_rpc_lane *lane = NULL;
    KILN_CHECK_INT(kilni_rpc_lane_join(self->turns, self->party, self->weight, &lane, NULL), 0);
    while (!atomic_load(self->stop)) {
        kilni_rpc_turn_take(lane);
        KILN_CHECK_INT(atomic_fetch_add(&holders, 1), 0);
        uint64_t begun = kiln_time_ns();
        spend(self->work_us);
        self->held_ns += kiln_time_ns() - begun;
        (void)atomic_fetch_sub(&holders, 1);
        kilni_rpc_turn_give(lane);
    }
    kilni_rpc_lane_leave(lane);
    return NULL;
}

typedef struct turn_case {
    int sessions; ///< of the first party, out of all
    uint32_t weight;
    uint64_t work_us;
    uint64_t others_work_us;
} turn_case;

/// What the first party had of all time, in a while.
static double share_of(const turn_case *is)
{
    enum { SESSIONS = 8, MS = 400 };
    const struct timespec whole = {.tv_nsec = MS * 1000000L};
    static const char parties[2] = {0};
    kilni_rpc_turns *turns = NULL;
    atomic_bool stop;
    pthread_t threads[SESSIONS];
    turn_user users[SESSIONS];
    uint64_t all = 0;
    uint64_t first = 0;
    atomic_init(&stop, false);
    KILN_CHECK_INT(kilni_rpc_turns_create(env_of_turns(), 0, &turns, NULL), 0);
    for (int i = 0; i < SESSIONS; i++) {
        bool own = i < is->sessions;
        users[i] = (turn_user){.turns = turns,
                               .party = &parties[own],
                               .weight = own ? is->weight : 1,
                               .work_us = own ? is->work_us : is->others_work_us,
                               .stop = &stop};
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, use_turns, &users[i]), 0);
    }
    (void)nanosleep(&whole, NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < SESSIONS; i++) {
        (void)pthread_join(threads[i], NULL);
        all += users[i].held_ns;
        first += i < is->sessions ? users[i].held_ns : 0;
    }
    kilni_rpc_turns_destroy(turns);
    return (double)first / (double)all;
}

/// Whether a share comes out between bounds in one of five tries: on a busy machine sessions ask
/// for their next turn too late.
static bool share_is(const turn_case *is, double least, double most)
{
    for (int i = 0; i < 5; i++) {
        double share = share_of(is);
        printf("    %d sessions of weight %u: %.2f\n", is->sessions, (unsigned)is->weight, share);
        if (share > least && share < most) {
            return true;
        }
    }
    return false;
}

/// Not sessions nor turns are shared out, but time. A party of one session has no turn while it
/// has not asked for the next one: half of all turns at most.
static void test_time_is_shared_by_party(void)
{
    KILN_CHECK(share_is(&(turn_case){1, 1, 2000, 2000}, 0.35, 0.65));
    KILN_CHECK(share_is(&(turn_case){2, 1, 1000, 4000}, 0.35, 0.65));
    KILN_CHECK(share_is(&(turn_case){4, 3, 1000, 1000}, 0.65, 0.85));
}

static void test_budget_follows_the_device(void)
{
    static const char party = 0;
    kilni_rpc_turns *turns = NULL;
    kilni_rpc_lane *lane = NULL;
    KILN_CHECK_INT(kilni_rpc_turns_create(env_of_turns(), 1000000000, &turns, NULL), 0);
    KILN_CHECK_INT(kilni_rpc_lane_join(turns, &party, 1, &lane, NULL), 0);
    kilni_rpc_turn_take(lane);
    uint64_t first = kilni_rpc_turn_budget(lane);
    KILN_CHECK_INT(first, 20000000); // 20 ms of 1e9 operations a second
    kilni_rpc_turn_passed(lane, first, 30000000);
    KILN_CHECK_INT(kilni_rpc_turn_budget(lane), first); // near enough
    for (int i = 0; i < 3; i++) {
        kilni_rpc_turn_passed(lane, first, 2000000000);
    }
    KILN_CHECK_INT(kilni_rpc_turn_budget(lane), first / 8);
    for (int i = 0; i < 4; i++) {
        kilni_rpc_turn_passed(lane, first, 1);
    }
    KILN_CHECK_INT(kilni_rpc_turn_budget(lane), first * 2);
    kilni_rpc_turn_give(lane);
    kilni_rpc_lane_leave(lane);
    kilni_rpc_turns_destroy(turns);
}

// ---- rules ----

static void check_refused(const char *text, const char *words)
{
    kilni_rpc_rule_table table;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kilni_rpc_rules_parse(env_of_turns(), text, &table, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, words);
    kilni_rpc_rules_fini(env_of_turns(), &table);
}

static void test_rules(void)
{
    static const char text[] =
        "# who\n\n"
        "alice devices=0,12 models=digits,res* sessions=3 memory=2G # all\r\n"
        "* models=- weight=2 requests=5 operations=4K";
    kilni_rpc_rule_table table;
    KILN_CHECK_INT(kilni_rpc_rules_parse(env_of_turns(), text, &table, NULL), 0);
    const kilni_rpc_rules *alice = kilni_rpc_rules_find(&table, "alice");
    const kilni_rpc_rules *others = kilni_rpc_rules_find(&table, "bob");
    if (KILN_CHECK(alice != NULL && others != NULL && alice != others)) {
        KILN_CHECK_INT(alice->sessions, 3);
        KILN_CHECK_INT(alice->memory, UINT64_C(2) << 30);
        KILN_CHECK(kilni_rpc_rules_allow(alice, KILNI_RPC_THING_DEVICE, "12"));
        KILN_CHECK(!kilni_rpc_rules_allow(alice, KILNI_RPC_THING_DEVICE, "1"));
        KILN_CHECK(kilni_rpc_rules_allow(alice, KILNI_RPC_THING_MODEL, "resnet"));
        KILN_CHECK(!kilni_rpc_rules_allow(alice, KILNI_RPC_THING_MODEL, "digits2"));
        KILN_CHECK(kilni_rpc_rules_allow(alice, KILNI_RPC_THING_PEER, "grpc://anywhere:1"));
        KILN_CHECK(!kilni_rpc_rules_allow(others, KILNI_RPC_THING_MODEL, "digits"));
        KILN_CHECK_INT(others->operations, 4096);
        KILN_CHECK(kilni_rpc_rules_find(&table, "*") == others);
    }
    kilni_rpc_rules_fini(env_of_turns(), &table);
    check_refused("alice\nbob sesions=1", "line 2: there is no \"sesions\"");
    check_refused("bob sessions=0", "no number from 1");
    check_refused("bob sessions=4x", "no number from 1");
    check_refused("bob sessions", "WORD=VALUE");
    check_refused("sessions=1", "begins with a name");
    check_refused("bob models=", "- is none");
}

static void test_quotas(void)
{
    static const char text[] = "alice sessions=2 memory=100 requests=2 operations=1000";
    kilni_rpc_parties parties;
    kilni_rpc_rule_table table;
    kilni_rpc_party *alice = NULL;
    kilni_rpc_party *bob = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_parties_init(&parties, env_of_turns());
    KILN_CHECK_INT(kilni_rpc_party_get(&parties, "bob", &bob, &err), 0); // there is no table yet
    KILN_CHECK_INT(kilni_rpc_rules_parse(env_of_turns(), text, &table, &err), 0);
    kilni_rpc_parties_rule(&parties, &table);
    kilni_rpc_party_put(&parties, bob);
    KILN_CHECK_INT(kilni_rpc_party_get(&parties, "bob", &bob, &err), KILN_STATUS_PERMISSION_DENIED);
    KILN_CHECK_INT(kilni_rpc_party_get(&parties, "alice", &alice, &err), 0);
    for (int i = 0; i < 3; i++) {
        KILN_CHECK_INT(kilni_rpc_party_begin(&parties, alice, KILNI_RPC_USE_SESSIONS, 100, &err),
                       i < 2 ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_INT(kilni_rpc_party_request(&parties, alice, &err),
                       i < 2 ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    kilni_rpc_party_end(&parties, alice, KILNI_RPC_USE_SESSIONS);
    KILN_CHECK_INT(kilni_rpc_party_begin(&parties, alice, KILNI_RPC_USE_SESSIONS, 100, &err), 0);
    KILN_CHECK_INT(kilni_rpc_party_charge(&parties, alice, 100, &err), 0);
    atomic_fetch_add(&alice->bytes, 60);
    KILN_CHECK_INT(kilni_rpc_party_charge(&parties, alice, 41, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(kilni_rpc_party_operate(&parties, alice, 1000), 0);
    uint64_t wait_ns = kilni_rpc_party_operate(&parties, alice, 500); // half a second's
    KILN_CHECK(wait_ns > 400000000 && wait_ns <= 500000000);
    kilni_rpc_party_put(&parties, alice);
    kilni_rpc_parties_fini(&parties);
}

KILN_TEST_MAIN("unit/remote_grpc/turns", KILN_TEST(test_time_is_shared_by_party),
               KILN_TEST(test_budget_follows_the_device), KILN_TEST(test_rules),
               KILN_TEST(test_quotas))
