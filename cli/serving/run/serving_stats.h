// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_STATS_H
#define KILN_SERVING_STATS_H

/// What a version of a model has done: counts, times, histograms.

#include "remote_models.h"

#include <pthread.h>

/// Upper bounds of a histogram's buckets; the last bucket has none.
enum { KILNI_SERVING_BUCKETS = 16, KILNI_SERVING_CODES = 18 };

typedef struct kilni_serving_histogram {
    uint64_t counts[KILNI_SERVING_BUCKETS];
    uint64_t count;
    double sum;
} kilni_serving_histogram;

typedef struct kilni_serving_stats {
    pthread_mutex_t lock;
    kiln_model_stats sums;
    uint64_t failures[KILNI_SERVING_CODES]; ///< by status; the last is for those above
    kilni_serving_histogram queue; ///< seconds, of requests
    kilni_serving_histogram compute; ///< seconds, of runs
    kilni_serving_histogram batch; ///< rows, of runs
} kilni_serving_stats;

/// Where the time of one run went.
typedef struct kilni_serving_times {
    uint64_t input_ns;
    uint64_t infer_ns;
    uint64_t output_ns;
} kilni_serving_times;

void kilni_serving_stats_init(kilni_serving_stats *stats);
void kilni_serving_stats_fini(kilni_serving_stats *stats);

/// A run of `rows` rows for `requests` requests.
void kilni_serving_stats_ran(kilni_serving_stats *stats, uint64_t rows, uint32_t requests,
                             const kilni_serving_times *times);

/// A request that was answered, or failed.
void kilni_serving_stats_answered(kilni_serving_stats *stats, kiln_status status, uint64_t queue_ns,
                                  uint64_t total_ns);

/// All of them at one moment; `out_stats` has no lock of its own.
void kilni_serving_stats_copy(kilni_serving_stats *stats, kilni_serving_stats *out_stats);

/// The upper bound of a bucket: seconds, or rows for `batch`.
double kilni_serving_bound(uint32_t bucket, bool batch);

#endif
