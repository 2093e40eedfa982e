// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts what a version of a model does. Times of requests are their own; times of a run count for
// each request that was in it, as the protocol's statistics have it.

#include "serving_stats.h"

#include <string.h>
#include <time.h>

void kilni_serving_stats_init(kilni_serving_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    pthread_mutex_init(&stats->lock, NULL);
}

void kilni_serving_stats_fini(kilni_serving_stats *stats)
{
    pthread_mutex_destroy(&stats->lock);
}

double kilni_serving_bound(uint32_t bucket, bool batch)
{
    double bound = batch ? 1 : 0.0001;
    for (uint32_t i = 0; i < bucket; i++) {
        bound *= batch || i % 3 == 1 ? (batch ? 2 : 2.5) : 2; // 0.1, 0.2, 0.5, 1, 2, 5 ms ...
    }
    return bound;
}

static void observe(kilni_serving_histogram *histogram, double value, bool batch)
{
    uint32_t bucket = 0;
    while (bucket < KILNI_SERVING_BUCKETS - 1 && value > kilni_serving_bound(bucket, batch)) {
        bucket++;
    }
    histogram->counts[bucket]++;
    histogram->count++;
    histogram->sum += value;
}

static void add_time(kiln_model_duration *duration, uint64_t ns, uint64_t times)
{
    duration->count += times;
    duration->ns += ns * times;
}

/// The row of a batch size; NULL when there are too many.
static kiln_model_batch *find_batch(kiln_model_stats *sums, uint64_t rows)
{
    for (uint32_t i = 0; i < sums->n_batches; i++) {
        if (sums->batches[i].size == rows) {
            return &sums->batches[i];
        }
    }
    if (sums->n_batches == KILN_MODEL_BATCHES) {
        return NULL;
    }
    kiln_model_batch *fresh = &sums->batches[sums->n_batches++];
    fresh->size = rows;
    return fresh;
}

void kilni_serving_stats_ran(kilni_serving_stats *stats, uint64_t rows, uint32_t requests,
                             const kilni_serving_times *times)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&stats->lock);
    kiln_model_stats *sums = &stats->sums;
    kiln_model_batch *batch = find_batch(sums, rows);
    sums->last_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    sums->inferences += rows;
    sums->executions++;
    add_time(&sums->input, times->input_ns, requests);
    add_time(&sums->infer, times->infer_ns, requests);
    add_time(&sums->output, times->output_ns, requests);
    if (batch != NULL) {
        add_time(&batch->input, times->input_ns, 1);
        add_time(&batch->infer, times->infer_ns, 1);
        add_time(&batch->output, times->output_ns, 1);
    }
    observe(&stats->batch, (double)rows, /*batch=*/true);
    observe(&stats->compute, (double)(times->input_ns + times->infer_ns + times->output_ns) / 1e9,
            false);
    pthread_mutex_unlock(&stats->lock);
}

void kilni_serving_stats_answered(kilni_serving_stats *stats, kiln_status status, uint64_t queue_ns,
                                  uint64_t total_ns)
{
    pthread_mutex_lock(&stats->lock);
    if (status == KILN_STATUS_OK) {
        add_time(&stats->sums.success, total_ns, 1);
        add_time(&stats->sums.queue, queue_ns, 1);
        observe(&stats->queue, (double)queue_ns / 1e9, false);
    } else {
        uint32_t code = (uint32_t)status;
        add_time(&stats->sums.fail, total_ns, 1);
        stats->failures[code < KILNI_SERVING_CODES ? code : KILNI_SERVING_CODES - 1]++;
    }
    pthread_mutex_unlock(&stats->lock);
}

void kilni_serving_stats_copy(kilni_serving_stats *stats, kilni_serving_stats *out_stats)
{
    pthread_mutex_lock(&stats->lock);
    memcpy(out_stats, stats, sizeof(*stats));
    pthread_mutex_unlock(&stats->lock);
}
