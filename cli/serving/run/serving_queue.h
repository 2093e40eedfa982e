// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_QUEUE_H
#define KILN_SERVING_QUEUE_H

/// Requests that wait for an instance of their model, and how they become batches. The thread of
/// the request that stands first runs the batch: no thread waits for requests. Any thread may call
/// all of these, but for init and fini.

#include "serving_job.h"
#include "serving_shares.h"

/// What runs batches, one at a time.
typedef struct kilni_serving_runner {
    struct kilni_serving_runner *next;
    /// Runs `count` jobs of `rows` rows in all; calls kilni_serving_queue_ready once, as soon as
    /// another batch may be run. On the thread of one of them. Gives how long it took, in ns.
    uint64_t (*run)(struct kilni_serving_runner *self, kilni_serving_job *jobs, uint32_t count,
                    uint64_t rows);
} kilni_serving_runner;

typedef struct kilni_serving_queue {
    const kiln_model_info *info; ///< the policy; it outlives the queue
    pthread_mutex_t lock;
    kilni_serving_job *first; ///< by priority, then in turns of callers
    kilni_serving_runner *ready; ///< those that run nothing
    kilni_serving_shares shares; ///< of callers
    uint32_t length;
    bool closing;
} kilni_serving_queue;

void kilni_serving_queue_init(kilni_serving_queue *queue, const kiln_model_info *info);
void kilni_serving_queue_fini(kilni_serving_queue *queue);

/// A runner may be given a batch from now on. It outlives the queue.
void kilni_serving_queue_ready(kilni_serving_queue *queue, kilni_serving_runner *runner);

/// Puts a job into the queue and returns when it is done; a job that nobody has begun when its time
/// is over is taken out again. The job's own status is given. Errors: also UNAVAILABLE when the
/// queue is full or closing, DEADLINE_EXCEEDED.
kiln_status kilni_serving_queue_run(kilni_serving_queue *queue, kilni_serving_job *job,
                                    kiln_error *err);

/// No more jobs are taken; those that are there wait for no others.
void kilni_serving_queue_close(kilni_serving_queue *queue);

/// How many wait now.
uint32_t kilni_serving_queue_length(kilni_serving_queue *queue);

#endif
