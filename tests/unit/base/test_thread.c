// SPDX-License-Identifier: MIT OR Apache-2.0
// Thread numbers: stable within a thread, never given twice, also after threads have ended.
#include <pthread.h>

#include "base.h"
#include "harness.h"

enum { ROUNDS = 20, THREADS = 8 };

static void *ask(void *user)
{
    uint64_t *out_id = user;
    *out_id = kiln_thread_id();
    return kiln_thread_id() == *out_id ? NULL : user;
}

static void test_unique(void)
{
    uint64_t ids[ROUNDS * THREADS + 1];
    ids[ROUNDS * THREADS] = kiln_thread_id();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, ask, &ids[round * THREADS + i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *moved = NULL;
            pthread_join(threads[i], &moved);
            KILN_CHECK(moved == NULL);
        }
    }
    for (int i = 0; i <= ROUNDS * THREADS; i++) {
        KILN_CHECK(ids[i] > 0);
        for (int j = 0; j < i; j++) {
            KILN_CHECK(ids[i] != ids[j]);
        }
    }
    KILN_CHECK_INT(kiln_thread_id(), ids[ROUNDS * THREADS]);
}

static void test_clock(void)
{
    uint64_t last = kiln_time_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = kiln_time_ns();
        KILN_CHECK(now >= last);
        last = now;
    }
}

KILN_TEST_MAIN("unit/base/thread", KILN_TEST(test_unique), KILN_TEST(test_clock))
