// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of sequences without a model: who finds which, when one goes, and many threads at once.

#include "harness.h"
#include "serving_sequences.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { LONG_US = 1800 * 1000000, THREADS = 4, TURNS = 300 };

static kiln_model_request requests[THREADS]; // each is large

static kiln_model_info bounds(uint32_t most, uint64_t idle_us)
{
    return (kiln_model_info){.name = "m",
                             .sequences = true,
                             .instances = 2,
                             .max_sequences = most,
                             .sequence_idle_us = idle_us};
}

static kiln_model_request *request_of(size_t place, const char *caller, const char *id, bool start)
{
    kiln_model_request *request = &requests[place];
    *request = (kiln_model_request){.caller = caller, .sequence_start = start};
    snprintf(request->sequence, sizeof(request->sequence), "%s", id);
    return request;
}

static kilni_serving_sequence *enter(kilni_serving_sequences *table, const char *caller,
                                     const char *id, bool start, kiln_status expected)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_serving_sequence *found = NULL;
    const kiln_model_request *request = request_of(0, caller, id, start);
    KILN_CHECK_INT(kilni_serving_sequences_enter(table, request, &found, &err), expected);
    if (found != NULL) {
        found->rows = 1; // as if it had run
    }
    return found;
}

static void test_callers_and_bounds(void)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_model_info info = bounds(2, LONG_US);
    kilni_serving_sequences table;
    kilni_serving_sequences_init(&table, &env, &info);
    kilni_serving_sequence *a = enter(&table, "alice", "1", true, KILN_STATUS_OK);
    (void)enter(&table, "bob", "1", false, KILN_STATUS_INVALID_ARGUMENT);
    (void)enter(&table, NULL, "1", false, KILN_STATUS_INVALID_ARGUMENT);
    kilni_serving_sequence *b = enter(&table, "bob", "1", true, KILN_STATUS_OK);
    KILN_CHECK(a != b && a->instance != b->instance); // one for each
    (void)enter(&table, "alice", "2", true, KILN_STATUS_UNAVAILABLE);
    KILN_CHECK(enter(&table, "alice", "1", false, KILN_STATUS_OK) == a);
    kilni_serving_sequences_leave(&table, a, /*ended=*/true);
    (void)enter(&table, "alice", "1", false, KILN_STATUS_INVALID_ARGUMENT);
    kilni_serving_sequence *again = enter(&table, "alice", "1", true, KILN_STATUS_OK);
    KILN_CHECK(again != a && a->waiting == 1); // its other request is still there
    kilni_serving_sequences_leave(&table, a, false);
    kilni_serving_sequences_leave(&table, again, false);
    kilni_serving_sequences_leave(&table, b, false);
    KILN_CHECK_INT(kilni_serving_sequences_count(&table), 2);
    kilni_serving_sequences_fini(&table);
}

/// One that is lost, or has never run, is of no use.
static void test_useless_ones_go(void)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_model_info info = bounds(8, LONG_US);
    kilni_serving_sequences table;
    kilni_serving_sequences_init(&table, &env, &info);
    kilni_serving_sequence *lost = enter(&table, "a", "1", true, KILN_STATUS_OK);
    kilni_serving_sequence *fresh = enter(&table, "a", "2", true, KILN_STATUS_OK);
    lost->lost = true;
    fresh->rows = 0;
    kilni_serving_sequences_leave(&table, lost, false);
    kilni_serving_sequences_leave(&table, fresh, false);
    KILN_CHECK_INT(kilni_serving_sequences_count(&table), 0);
    kilni_serving_sequences_fini(&table);
}

static void wait_empty(kilni_serving_sequences *table)
{
    while (kilni_serving_sequences_count(table) > 0) { // the test's own time limit ends it
        (void)sched_yield();
    }
}

static void test_those_that_rest_go(void)
{
    kiln_error err = KILN_ERROR_INIT;
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_model_info info = bounds(8, 1);
    kilni_serving_sequences table;
    kilni_serving_sequences_init(&table, &env, &info);
    KILN_CHECK_INT(kilni_serving_sequences_start(&table, &err), KILN_STATUS_OK);
    for (int i = 0; i < 3; i++) { // the thread sleeps in between
        kilni_serving_sequence *one = enter(&table, "a", "1", true, KILN_STATUS_OK);
        KILN_CHECK_INT(kilni_serving_sequences_count(&table), 1); // it does not rest
        kilni_serving_sequences_leave(&table, one, false);
        wait_empty(&table);
    }
    kilni_serving_sequences_fini(&table);
}

typedef struct talker {
    kilni_serving_sequences *table;
    size_t place;
    pthread_t thread;
} talker;

static void *talk(void *pointer)
{
    talker *self = pointer;
    kiln_error err = KILN_ERROR_INIT;
    for (int i = 0; i < TURNS; i++) {
        char id[8];
        snprintf(id, sizeof(id), "%d", i % 3);
        const kiln_model_request *request = request_of(self->place, "all", id, i % 7 < 3);
        kilni_serving_sequence *found = NULL;
        if (kilni_serving_sequences_enter(self->table, request, &found, &err) == KILN_STATUS_OK) {
            kilni_serving_sequences_leave(self->table, found, i % 5 == 0);
        }
    }
    return NULL;
}

static void test_many_threads(void)
{
    kiln_error err = KILN_ERROR_INIT;
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_model_info info = bounds(8, 1);
    kilni_serving_sequences table;
    talker talkers[THREADS];
    kilni_serving_sequences_init(&table, &env, &info);
    KILN_CHECK_INT(kilni_serving_sequences_start(&table, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < THREADS; i++) {
        talkers[i] = (talker){.table = &table, .place = i};
        KILN_CHECK_INT(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(talkers[i].thread, NULL);
    }
    wait_empty(&table);
    kilni_serving_sequences_fini(&table);
}

KILN_TEST_MAIN("unit/serving/test_serving_sequences", KILN_TEST(test_callers_and_bounds),
               KILN_TEST(test_useless_ones_go), KILN_TEST(test_those_that_rest_go),
               KILN_TEST(test_many_threads))
