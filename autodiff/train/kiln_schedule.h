// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_SCHEDULE_H
#define KILN_KILN_SCHEDULE_H

/// How a rate changes from step to step. Any thread may call the function below; it cannot fail.
/// NULL where a pointer is needed is INVALID_ARGUMENT; a function without a status then does
/// nothing and gives 0.

#include <stdint.h>

#include "kiln_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_schedule_kind {
    KILN_SCHEDULE_CONSTANT = 0,
    KILN_SCHEDULE_LINEAR = 1, ///< straight down to `least` at step `steps`
    KILN_SCHEDULE_COSINE = 2, ///< half a cosine down to `least` at step `steps`
    KILN_SCHEDULE_STEP = 3, ///< times `factor` after each `period` steps
    KILN_SCHEDULE_ONE_CYCLE = 4 ///< up from a 25th in `rise` of the steps, then down to `least`, by
                                ///< half cosines (Smith and Topin, 2018)
} kiln_schedule_kind;

typedef struct kiln_schedule {
    uint32_t struct_size;
    kiln_schedule_kind kind;
    uint64_t warmup; ///< steps in which the rate first rises in a straight line; not of one-cycle
    uint64_t steps; ///< of the whole training, the warm-up included
    uint64_t period;
    double factor; ///< 0: 0.1
    double least; ///< part of the full rate; 0 of one-cycle: 4e-6
    double rise; ///< 0: 0.3
} kiln_schedule;

#define KILN_SCHEDULE_INIT                                                                         \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_schedule)                                             \
    }

/// The rate of a step, counted from 0, where `full` is the largest. Past the last step it stays.
/// `schedule` may be NULL: constant.
KILN_API double kiln_schedule_rate(const kiln_schedule *schedule, double full, uint64_t step);

#ifdef __cplusplus
}
#endif

#endif
