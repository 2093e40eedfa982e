// SPDX-License-Identifier: MIT OR Apache-2.0
// The identity of a thread, the only thread-local value of Kiln: pthread_t and the kernel's number
// are used again after a thread ends, and a stream must never be taken for another's. And the
// clock, and what the processor can do.
#include "base.h"

#include <stdatomic.h>
#include <time.h>

uint64_t kiln_thread_id(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t own;
    if (own == 0) {
        own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return own;
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t kiln_time_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t kiln_time_rough_ns(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    return read_clock(CLOCK_MONOTONIC_COARSE);
#else
    return read_clock(CLOCK_MONOTONIC);
#endif
}

bool kiln_processor_has_vnni(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}
