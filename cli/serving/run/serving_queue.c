// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides which requests run together, when, and on which thread: a batch is run when it is as
// large as the policy prefers, when nothing more fits, or when its first request has waited long
// enough, by the thread of the request that stands first. A runner that was busy meanwhile finds
// what has gathered. Whose turn it is, and who may ride with others, says serving_shares.c.

#include "serving_queue.h"

#include "base_wait.h"

#include <string.h>

void kilni_serving_queue_init(kilni_serving_queue *queue, const kiln_model_info *info)
{
    *queue = (kilni_serving_queue){.info = info};
    kilni_serving_shares_init(&queue->shares);
    pthread_mutex_init(&queue->lock, NULL);
}

void kilni_serving_queue_fini(kilni_serving_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
}

// ---- those who wait ----

static bool same_caller(const kilni_serving_job *a, const kilni_serving_job *b)
{
    const char *first = a->request->caller != NULL ? a->request->caller : "";
    const char *second = b->request->caller != NULL ? b->request->caller : "";
    return strcmp(first, second) == 0;
}

/// Whether `job` stands behind `other`. Of two with the same turn, who has just had one is second.
static bool stands_behind(const kilni_serving_queue *queue, const kilni_serving_job *job,
                          const kilni_serving_job *other)
{
    if (job->priority != other->priority) {
        return other->priority < job->priority;
    }
    return other->turn < job->turn ||
           (other->turn == job->turn &&
            (same_caller(other, job) ||
             !kilni_serving_shares_is_last(&queue->shares, other->request->caller)));
}

/// A job's turn is behind those of its caller that wait.
static void insert(kilni_serving_queue *queue, kilni_serving_job *job)
{
    job->turn = kilni_serving_shares_enter(&queue->shares, job->request->caller, job->queued_ns);
    for (const kilni_serving_job *each = queue->first; each != NULL; each = each->next) {
        if (each->turn + each->rows > job->turn && same_caller(each, job)) {
            job->turn = each->turn + each->rows;
        }
    }
    kilni_serving_job **link = &queue->first;
    while (*link != NULL && stands_behind(queue, job, *link)) {
        link = &(*link)->next;
    }
    job->next = *link;
    *link = job;
    queue->length++;
}

static bool remove_job(kilni_serving_queue *queue, const kilni_serving_job *job)
{
    kilni_serving_job **link = &queue->first;
    while (*link != NULL && *link != job) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        return false;
    }
    *link = job->next;
    queue->length--;
    return true;
}

// ---- those who run ----

static bool is_preferred(const kiln_model_info *info, uint64_t rows)
{
    for (uint32_t i = 0; i < info->n_preferred; i++) {
        if (info->preferred[i] == rows) {
            return true;
        }
    }
    return false;
}

/// Whether an earlier job of `from` is of the same sequence: then `job` waits for another batch.
static bool follows_its_own(const kilni_serving_job *from, const kilni_serving_job *job)
{
    const kilni_serving_job *each = job->sequence != NULL ? from : NULL;
    while (each != NULL && each != job && each->sequence != job->sequence) {
        each = each->next;
    }
    return each != NULL && each != job;
}

static bool may_grow(const kilni_serving_queue *queue, const kilni_serving_job *head, uint64_t rows)
{
    return kilni_serving_shares_may_join(&queue->shares, head->request->caller, head->rows, rows);
}

/// Takes what fits behind the first job; without `out_jobs` it only counts.
static uint64_t gather(kilni_serving_queue *queue, kilni_serving_job **out_jobs,
                       uint32_t *out_count, bool *out_more)
{
    const kiln_model_info *info = queue->info;
    kilni_serving_job *head = queue->first;
    kilni_serving_job **taken = out_jobs;
    uint64_t rows = 0;
    *out_count = 0;
    *out_more = info->batching;
    for (kilni_serving_job **link = &queue->first; *link != NULL;) {
        kilni_serving_job *job = *link;
        bool first = *out_count == 0;
        if (!first && (!info->batching || rows + job->rows > info->max_batch)) {
            *out_more = false; // nothing passes those who came before
            break;
        }
        if (!first && !may_grow(queue, head, rows + job->rows)) {
            *out_more = false; // nor those who wait already
            break;
        }
        if (!first && (!kilni_serving_job_fits(head, job, info->n_inputs) ||
                       follows_its_own(queue->first, job) ||
                       (taken != NULL && follows_its_own(*taken, job)))) {
            link = &job->next;
            continue;
        }
        rows += job->rows;
        (*out_count)++;
        if (out_jobs != NULL) {
            kilni_serving_shares_begin(&queue->shares, job->request->caller, job->turn, job->rows);
            *link = job->next;
            job->next = NULL;
            *out_jobs = job;
            out_jobs = &job->next;
            queue->length--;
        } else {
            link = &job->next;
        }
        if (info->batching && is_preferred(info, rows)) {
            *out_more = false;
            break;
        }
    }
    *out_more = *out_more && rows < info->max_batch && may_grow(queue, head, rows + 1);
    return rows;
}

/// Who stands first is not always who has waited longest.
static uint64_t oldest_ns(const kilni_serving_queue *queue)
{
    uint64_t oldest = UINT64_MAX;
    for (const kilni_serving_job *each = queue->first; each != NULL; each = each->next) {
        oldest = each->queued_ns < oldest ? each->queued_ns : oldest;
    }
    return oldest;
}

/// When the batch that stands first is run; 0: now.
static uint64_t batch_due_ns(kilni_serving_queue *queue)
{
    const char *caller = queue->first->request->caller;
    uint32_t count = 0;
    bool more = false;
    uint64_t now = kiln_time_ns();
    if (queue->closing) {
        return 0;
    }
    (void)gather(queue, NULL, &count, &more);
    uint64_t due_ns = more ? oldest_ns(queue) + queue->info->queue_delay_us * 1000 : 0;
    uint64_t other_ns = kilni_serving_shares_wait_ns(&queue->shares, caller, now);
    due_ns = other_ns > due_ns ? other_ns : due_ns;
    return due_ns > now ? due_ns : 0;
}

/// Lets the thread of the first job look whether it is to run a batch.
static void call_first(kilni_serving_queue *queue)
{
    if (queue->first != NULL && queue->ready != NULL) {
        pthread_cond_signal(&queue->first->changed);
    }
}

/// Runs what stands first; the lock is left meanwhile.
static void run_batch(kilni_serving_queue *queue)
{
    kilni_serving_runner *runner = queue->ready;
    kilni_serving_job *jobs = NULL;
    uint32_t count = 0;
    bool more = false;
    uint64_t now = kiln_time_ns();
    queue->ready = runner->next;
    kilni_serving_shares_batch(&queue->shares);
    uint64_t rows = gather(queue, &jobs, &count, &more);
    for (kilni_serving_job *each = jobs; each != NULL; each = each->next) {
        each->begun_ns = now;
    }
    call_first(queue); // for another runner
    pthread_mutex_unlock(&queue->lock);
    uint64_t took_ns = runner->run(runner, jobs, count, rows);
    pthread_mutex_lock(&queue->lock);
    if (jobs->status == KILN_STATUS_OK) { // a run that fails may be quick
        kilni_serving_shares_ran(&queue->shares, rows, took_ns);
    }
    now = kiln_time_ns();
    while (jobs != NULL) {
        kilni_serving_job *next = jobs->next; // it is gone once its thread knows
        kilni_serving_shares_leave(&queue->shares, jobs->request->caller, now);
        jobs->done = true;
        pthread_cond_signal(&jobs->changed);
        jobs = next;
    }
}

/// Waits for a change of the job, until a time of kiln_time_ns; 0: without one.
static void wait_change(kilni_serving_queue *queue, kilni_serving_job *job, uint64_t until_ns)
{
    if (until_ns == 0) {
        pthread_cond_wait(&job->changed, &queue->lock);
    } else {
        (void)kiln_cond_wait_until(&job->changed, &queue->lock, until_ns);
    }
}

/// Until the job is done, or its time is over before anybody has begun it. Under the lock.
static kiln_status await_done(kilni_serving_queue *queue, kilni_serving_job *job,
                              uint64_t deadline_ns, kiln_error *err)
{
    while (!job->done) {
        uint64_t due_ns = 0;
        if (deadline_ns > 0 && kiln_time_ns() >= deadline_ns) {
            if (remove_job(queue, job)) {
                kilni_serving_shares_leave(&queue->shares, job->request->caller, kiln_time_ns());
                call_first(queue);
                return kiln_fail(
                    err, DEADLINE_EXCEEDED,
                    "the request waited in the queue of model %.60s for its whole time",
                    queue->info->name);
            }
            deadline_ns = 0; // it runs
        } else if (queue->first == job && queue->ready != NULL) {
            due_ns = batch_due_ns(queue);
            if (due_ns == 0) {
                run_batch(queue);
                continue;
            }
        }
        bool sooner = due_ns > 0 && (deadline_ns == 0 || due_ns < deadline_ns);
        wait_change(queue, job, sooner ? due_ns : deadline_ns);
    }
    if (err != NULL && job->status != KILN_STATUS_OK) {
        *err = job->err;
    }
    return job->status;
}

kiln_status kilni_serving_queue_run(kilni_serving_queue *queue, kilni_serving_job *job,
                                    kiln_error *err)
{
    const kiln_model_info *info = queue->info;
    uint64_t timeout_us =
        job->request->timeout_us > 0 ? job->request->timeout_us : info->queue_timeout_us;
    kiln_status status = KILN_STATUS_OK;
    kiln_cond_init(&job->changed);
    job->queued_ns = kiln_time_ns();
    timeout_us = timeout_us < UINT32_MAX ? timeout_us : UINT32_MAX;
    uint64_t deadline_ns = timeout_us > 0 ? job->queued_ns + timeout_us * 1000 : 0;
    pthread_mutex_lock(&queue->lock);
    if (queue->closing) {
        status = kiln_fail(err, UNAVAILABLE, "model %.60s takes no more requests", info->name);
    } else if (info->max_queue > 0 && queue->length >= info->max_queue) {
        status = kiln_fail(err, UNAVAILABLE, "%u requests wait for model %.60s, the most allowed",
                           queue->length, info->name);
    } else {
        insert(queue, job);
        if (queue->first != job) { // perhaps the batch is complete now
            call_first(queue);
        }
        status = await_done(queue, job, deadline_ns, err);
    }
    pthread_mutex_unlock(&queue->lock);
    pthread_cond_destroy(&job->changed);
    return status;
}

void kilni_serving_queue_ready(kilni_serving_queue *queue, kilni_serving_runner *runner)
{
    pthread_mutex_lock(&queue->lock);
    runner->next = queue->ready;
    queue->ready = runner;
    call_first(queue);
    pthread_mutex_unlock(&queue->lock);
}

void kilni_serving_queue_close(kilni_serving_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    call_first(queue);
    pthread_mutex_unlock(&queue->lock);
}

uint32_t kilni_serving_queue_length(kilni_serving_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint32_t length = queue->length;
    pthread_mutex_unlock(&queue->lock);
    return length;
}
