// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_QUEUE_H
#define KILN_SERVING_QUEUE_H

/// Requests that wait for an instance of their model, and how they become batches. Any thread may
/// call all of these, but for init and fini.

#include "serving_job.h"

typedef struct kilni_serving_queue {
    const kiln_model_info *info; ///< the policy; it outlives the queue
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    kilni_serving_job *first; ///< by priority, then in turns of callers
    uint64_t turn; ///< of the job that was begun last
    uint32_t length;
    bool closing;
} kilni_serving_queue;

void kilni_serving_queue_init(kilni_serving_queue *queue, const kiln_model_info *info);
void kilni_serving_queue_fini(kilni_serving_queue *queue);

/// Puts a job into the queue and waits until it is done; a job that nobody has begun when its time
/// is over is taken out again. The job's own status is given. Errors: also UNAVAILABLE when the
/// queue is full or closing, DEADLINE_EXCEEDED.
kiln_status kilni_serving_queue_run(kilni_serving_queue *queue, kilni_serving_job *job,
                                    kiln_error *err);

/// Waits for a batch: jobs whose rows are joined, as the policy says. False when the queue is
/// closing and empty.
bool kilni_serving_queue_take(kilni_serving_queue *queue, kilni_serving_job **out_jobs,
                              uint32_t *out_count, uint64_t *out_rows);

/// Tells those who wait for the jobs of a batch.
void kilni_serving_queue_done(kilni_serving_queue *queue, kilni_serving_job *jobs);

/// No more jobs are taken; `take` gives those that are there and then ends.
void kilni_serving_queue_close(kilni_serving_queue *queue);

/// How many wait now.
uint32_t kilni_serving_queue_length(kilni_serving_queue *queue);

#endif
