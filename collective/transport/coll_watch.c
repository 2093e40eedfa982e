// SPDX-License-Identifier: MIT OR Apache-2.0
// Since when each thread of a rank has been in a call into its memory. Who acts on it is the hub,
// which names who is late, and coll_guard.c.
#include "coll_watch.h"

#include "base.h"

void kilni_coll_watch_touch(kilni_coll_watch *watch, kilni_coll_thread thread)
{
    atomic_store_explicit(&watch->since[thread], kiln_time_ns(), memory_order_relaxed);
}

void kilni_coll_watch_end(kilni_coll_watch *watch, kilni_coll_thread thread)
{
    atomic_store_explicit(&watch->since[thread], 0, memory_order_relaxed);
}

uint64_t kilni_coll_watch_ns(const kilni_coll_watch *watch)
{
    uint64_t now = kiln_time_ns();
    uint64_t longest = 0;
    for (int i = 0; i < COLL_THREADS; i++) {
        uint64_t since = atomic_load_explicit(&watch->since[i], memory_order_relaxed);
        longest = since != 0 && now > since && now - since > longest ? now - since : longest;
    }
    return longest;
}
