// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that keep processors awake: idle priority, one on each processor, only between open and
// close, at work only while somebody waits, and not counted as this process's work.
#define _GNU_SOURCE // sched_getaffinity, SCHED_IDLE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base.h"
#include "harness.h"

enum { ROUNDS = 30, THREADS = 4 };

static const uint64_t ms = 1000000;

static void nap(uint64_t ns)
{
    const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

static uint64_t all_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static int idle_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        count += task->d_name[0] != '.' &&
                 sched_getscheduler((pid_t)strtol(task->d_name, NULL, 10)) == SCHED_IDLE;
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

/// A thread that was joined is in the list until the kernel has taken it away.
static int wait_for(int count)
{
    for (int i = 0; i < 5000 && idle_threads() != count; i++) {
        nap(ms);
    }
    return idle_threads();
}

static bool has_keepers(int *out_processors)
{
    cpu_set_t set;
    *out_processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    kiln_awake_open();
    nap(50 * ms);
    bool any = idle_threads() > 0;
    kiln_awake_close();
    return any;
}

static void test_life(void)
{
    int processors;
    if (!has_keepers(&processors)) {
        kiln_test_skip("one processor, a quota of processor time, or Valgrind");
        return;
    }
    kiln_awake_open();
    KILN_CHECK_INT(wait_for(processors), processors);
    kiln_awake_open();
    kiln_awake_close();
    KILN_CHECK_INT(idle_threads(), processors);
    kiln_awake_begin();
    kiln_awake_close(); // while somebody waits for another device
    KILN_CHECK_INT(wait_for(0), 0);
    kiln_awake_end();
    kiln_awake_open();
    KILN_CHECK_INT(wait_for(processors), processors);
    kiln_awake_close();
    KILN_CHECK_INT(wait_for(0), 0);
}

static void test_work(void)
{
    kiln_awake_open();
    uint64_t all = all_ns(), own = kiln_processor_ns();
    kiln_awake_begin();
    nap(100 * ms);
    kiln_awake_end();
    own = kiln_processor_ns() - own;
    all = all_ns() - all; // nothing on a machine whose processors others use
    KILN_CHECK(own < 20 * ms);
    KILN_CHECK(all < 40 * ms || own < all / 2);
    nap(20 * ms);
    all = all_ns();
    nap(100 * ms);
    KILN_CHECK(all_ns() - all < 20 * ms); // nobody waits: they sleep
    own = kiln_processor_ns();
    kiln_awake_close();
    KILN_CHECK(kiln_processor_ns() - own < 20 * ms);
}

static void test_never_back(void)
{
    uint64_t last = kiln_processor_ns();
    kiln_awake_open();
    kiln_awake_begin();
    for (int i = 0; i < 2000; i++) {
        uint64_t now = kiln_processor_ns();
        KILN_CHECK(now >= last);
        last = now;
    }
    kiln_awake_end();
    kiln_awake_close();
    KILN_CHECK(kiln_processor_ns() >= last);
}

static void *use(void *user)
{
    for (int i = 0; i < ROUNDS; i++) {
        kiln_awake_open();
        kiln_awake_begin();
        kiln_awake_while();
        kiln_awake_end();
        kiln_awake_close();
    }
    return user;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, use, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    KILN_CHECK_INT(wait_for(0), 0);
}

KILN_TEST_MAIN("unit/base/awake", KILN_TEST(test_life), KILN_TEST(test_work),
               KILN_TEST(test_never_back), KILN_TEST(test_threads))
