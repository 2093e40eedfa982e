// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_WATCH_H
#define KILN_COLLECTIVE_COLL_WATCH_H

/// For how long a rank has been in a call into its memory: the worker notes it, the hub and the
/// group's guard look at it. Lock-free, from any thread.

#include <stdatomic.h>
#include <stdint.h>

/// Since when each thread of a rank has been in a call into its memory; 0: in none. `touch` before
/// such calls, `end` before waits that have a deadline of their own.
typedef enum kilni_coll_thread { COLL_WORKER, COLL_FEEDER, COLL_THREADS } kilni_coll_thread;
typedef struct kilni_coll_watch {
    atomic_uint_fast64_t since[COLL_THREADS];
} kilni_coll_watch;
void kilni_coll_watch_touch(kilni_coll_watch *watch, kilni_coll_thread thread);
void kilni_coll_watch_end(kilni_coll_watch *watch, kilni_coll_thread thread);
/// For how long the thread that is longest in such a call has been in it; 0: none is.
uint64_t kilni_coll_watch_ns(const kilni_coll_watch *watch);

#endif
