// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps processors from sleeping while a program waits for work that they do. A sleeping processor
// takes tens of microseconds until it runs a thread that was woken, a virtual one more; a launch on
// two of them is often shorter. So threads of idle priority (sched(7), SCHED_IDLE) turn in a loop,
// one on each processor: every other thread of the machine goes first, at once, and none of the
// work is theirs. OpenMP and oneTBB look for work before they sleep to the same end; here the
// workers are an OpenCL driver's.
#define _GNU_SOURCE // sched_getaffinity, SCHED_IDLE
#include "base_system.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_KEEPERS = 256, TURNS = 32, STACK_BYTES = 128 << 10 };

static const uint64_t linger_ns = 100000; ///< another wait often follows

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    uint32_t users; ///< between open and close
    uint32_t count;
    pthread_t threads[MOST_KEEPERS];
    uint64_t ended_ns; ///< of processor time, by threads that are gone
    uint64_t told_ns; ///< of processor time that is not theirs: it never goes back
} keepers = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; ///< before the other; one opens or closes
static _Atomic bool stop;
static _Atomic uint32_t waiting; ///< threads between begin and end
static _Atomic uint32_t asleep; ///< keepers
static _Atomic uint64_t spent_ns; ///< of processor time, by threads of others
static _Atomic uint64_t until_ns; ///< nobody waits: when to sleep

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void kiln_processor_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void turn(void)
{
    for (int i = 0; i < TURNS; i++) {
        kiln_processor_pause();
    }
}

static bool is_wanted(void)
{
    return !atomic_load(&stop) &&
           (atomic_load(&waiting) > 0 || kiln_time_ns() < atomic_load(&until_ns));
}

static void *keep(void *processor)
{
    const struct sched_param none = {0};
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)(uintptr_t)processor, &own);
    bool good = pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) == 0 &&
                pthread_setaffinity_np(pthread_self(), sizeof(own), &own) == 0;
    pthread_mutex_lock(&keepers.lock);
    while (good && !atomic_load(&stop)) {
        if (is_wanted()) {
            pthread_mutex_unlock(&keepers.lock);
            while (is_wanted()) {
                turn();
                sched_yield(); // since Linux 6.6 idle priority has turns like any other
            }
            pthread_mutex_lock(&keepers.lock);
            continue;
        }
        atomic_fetch_add(&asleep, 1);
        if (!is_wanted() &&
            !atomic_load(&stop)) { // who begins after this look sees that this thread sleeps
            pthread_cond_wait(&keepers.wake, &keepers.lock);
        }
        atomic_fetch_sub(&asleep, 1);
    }
    keepers.ended_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
    pthread_mutex_unlock(&keepers.lock);
    return NULL;
}

/// Whether this process may only use a share of the processors' time: what turns would eat it up.
static bool has_quota(void)
{
    char line[512], path[640], limit[64] = "max";
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", line + 3);
            FILE *of = fopen(path, "re");
            if (of != NULL && fscanf(of, "%63s", limit) != 1) {
                snprintf(limit, sizeof(limit), "max");
            }
            if (of != NULL) {
                fclose(of);
            }
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return strcmp(limit, "max") != 0;
}

static void start(void)
{
    const char *preload = getenv("LD_PRELOAD");
    cpu_set_t set;
    bool alone = sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < 2;
    // Valgrind runs one thread at a time, whatever its priority.
    if (alone || has_quota() || (preload != NULL && strstr(preload, "vgpreload") != NULL)) {
        return;
    }
    pthread_attr_t small;
    sigset_t all, before; // no signal of the program is for these threads
    sigfillset(&all);
    if (pthread_attr_init(&small) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < CPU_SETSIZE && keepers.count < MOST_KEEPERS; i++) {
        if (CPU_ISSET(i, &set) && pthread_create(&keepers.threads[keepers.count], &small, keep,
                                                 (void *)(uintptr_t)i) == 0) {
            keepers.count++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
}

bool kiln_awake_open(void)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&keepers.lock);
    if (keepers.users++ == 0) {
        atomic_store(&stop, false);
        start();
    }
    bool any = keepers.count > 0;
    pthread_mutex_unlock(&keepers.lock);
    pthread_mutex_unlock(&life);
    return any;
}

void kiln_awake_close(void)
{
    pthread_mutex_lock(&life);
    pthread_mutex_lock(&keepers.lock);
    uint32_t count = --keepers.users == 0 ? keepers.count : 0;
    if (count > 0) {
        keepers.count = 0;
        atomic_store(&stop, true);
        pthread_cond_broadcast(&keepers.wake);
    }
    pthread_mutex_unlock(&keepers.lock);
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(keepers.threads[i], NULL);
    }
    pthread_mutex_unlock(&life);
}

static void rouse(void)
{
    if (atomic_load(&asleep) > 0) {
        pthread_mutex_lock(&keepers.lock);
        pthread_cond_broadcast(&keepers.wake);
        pthread_mutex_unlock(&keepers.lock);
    }
}

void kiln_awake_begin(void)
{
    atomic_fetch_add(&waiting, 1);
    rouse();
}

void kiln_awake_end(void)
{
    atomic_store(&until_ns, kiln_time_ns() + linger_ns);
    atomic_fetch_sub(&waiting, 1);
}

void kiln_awake_while(void)
{
    atomic_store(&until_ns, kiln_time_ns() + linger_ns);
    rouse();
}

void kiln_awake_spent(uint64_t ns)
{
    atomic_fetch_add(&spent_ns, ns);
}

uint64_t kiln_processor_ns(void)
{
    pthread_mutex_lock(&keepers.lock);
    uint64_t kept_ns = keepers.ended_ns + atomic_load(&spent_ns);
    for (uint32_t i = 0; i < keepers.count; i++) {
        clockid_t clock;
        if (pthread_getcpuclockid(keepers.threads[i], &clock) == 0) {
            kept_ns += clock_ns(clock);
        }
    }
    uint64_t all_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t own_ns = all_ns > kept_ns ? all_ns - kept_ns : 0;
    // What turns between these two looks is counted as ours, and next time it is not.
    keepers.told_ns = own_ns > keepers.told_ns ? own_ns : keepers.told_ns;
    own_ns = keepers.told_ns;
    pthread_mutex_unlock(&keepers.lock);
    return own_ns;
}
