// SPDX-License-Identifier: MIT OR Apache-2.0
// Where PoCL's worker threads run. It has as many as processors and wakes all of them for every
// launch; unbound, Linux often wakes two on one processor while the launching thread still holds
// the other, and leaves them there for milliseconds (docs/decisions/0013).

#define _GNU_SOURCE // sched_getaffinity, CPU_COUNT

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "cl_workers.h"

/// May this process run on every processor that the machine has? Only then do the numbers to which
/// PoCL binds its workers, from 0 on, belong to processors of this process.
static bool has_whole_machine(void)
{
    cpu_set_t mine;
    CPU_ZERO(&mine);
    return sched_getaffinity(0, sizeof(mine), &mine) == 0 &&
           CPU_COUNT(&mine) == sysconf(_SC_NPROCESSORS_CONF);
}

static void bind_once(void)
{
    // Fewer workers than processors would all be on the first ones, those of other processes too.
    if (getenv("POCL_MAX_PTHREAD_COUNT") == NULL && has_whole_machine()) {
        (void)setenv("POCL_AFFINITY", "1", /*overwrite=*/0);
    }
}

void kilni_cl_bind_workers(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, bind_once);
}
