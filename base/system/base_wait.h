// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_WAIT_H
#define KILN_BASE_WAIT_H

/// Waiting for another thread until a time of kiln_time_ns. Not installed.

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/// Makes a condition for kiln_cond_wait_until. The caller destroys it with pthread_cond_destroy.
static inline void kiln_cond_init(pthread_cond_t *out_condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(out_condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/// Waits for a signal, which may come for nothing, with the lock held and left meanwhile.
/// `deadline_ns`: a time of kiln_time_ns. False: the time is over.
static inline bool kiln_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock,
                                        uint64_t deadline_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(condition, lock, &at) == 0;
}

#endif
