// SPDX-License-Identifier: MIT OR Apache-2.0
// A memory that streams, as a device with memory of its own does: what is put, copied and reduced
// happens later and in order on a thread of its own, what is fetched on another, at any time.
#ifndef KILN_TESTS_COLLECTIVE_COLL_STREAMING_H
#define KILN_TESTS_COLLECTIVE_COLL_STREAMING_H

#include "coll_snag.h"
#include "collective.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct streaming_job streaming_job;

typedef struct streaming_lane { ///< a queue and the thread that works it off
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    streaming_job *first;
    streaming_job *last;
    streaming_job *current; ///< that its thread carries out
    uint64_t queued;
    uint64_t done;
    bool closing;
    kiln_coll_memory *host;
    uint64_t state; ///< of random pauses
    unsigned pause_us; ///< before each job; 0: random
} streaming_lane;

typedef struct streaming_memory {
    kiln_coll_memory base;
    kiln_coll_memory *host;
    streaming_lane up;
    streaming_lane down;
    void *stages[KILN_COLL_STAGES];
    atomic_uint fetches;
    atomic_uint calls; ///< that may fail
    unsigned fail_at; ///< this one does; 0: none
    bool is_lost_then; ///< and so do all after it
    coll_snag snag; ///< one that does not come back
} streaming_memory;

void streaming_init(streaming_memory *memory, const kiln_env *env);
void streaming_fini(streaming_memory *memory);
/// Whether a `put` from `host` has not been carried out yet.
bool streaming_reads(streaming_memory *memory, const void *host);

#endif
