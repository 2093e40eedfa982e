// SPDX-License-Identifier: MIT OR Apache-2.0
// A memory that is the host's, and that fails, delays, never ends or never comes back on request,
// and counts what is open.
#ifndef KILN_TESTS_COLLECTIVE_COLL_FAULTY_H
#define KILN_TESTS_COLLECTIVE_COLL_FAULTY_H

#include <pthread.h>
#include <stdatomic.h>

#include "coll_snag.h"
#include "collective.h"

enum { FAULTY_HELD = 8 };

typedef struct faulty_memory {
    kiln_coll_memory base;
    kiln_coll_memory *host;
    atomic_uint calls; ///< of functions that can fail
    unsigned fail_at; ///< the call that fails, from 1; 0: none
    unsigned delay_us; ///< most of a random delay before each call
    bool holds_after; ///< `after` keeps its callbacks until faulty_release
    coll_snag snag; ///< a call that does not come back
    atomic_int given_up; ///< results received by `give_up`
    atomic_bool closed;
    atomic_int open_count; ///< mapped ranges and allocated buffers
    atomic_int signalled; ///< statuses received by `signal`
    pthread_mutex_t mutex; ///< guards what follows
    kiln_coll_done_fn held[FAULTY_HELD];
    void *held_user[FAULTY_HELD];
    int held_count;
} faulty_memory;

/// `fini` fails the test when something is still open.
void faulty_init(faulty_memory *memory, const kiln_env *env);
void faulty_fini(faulty_memory *memory);

/// Gives it a `close`, so that a member that is destroyed leaves it behind.
void faulty_leave_behind(faulty_memory *memory);

/// Ends what `after` has kept back.
void faulty_release(faulty_memory *memory);

#endif
