// SPDX-License-Identifier: MIT OR Apache-2.0
// Rates as functions of the step. Nothing is kept from step to step, so that a training that is
// resumed goes on with the same rates.
#include "kiln_schedule.h"

#include <math.h>
#include <stddef.h>

static const double half_turn = 3.1415926535897932384626433832795;

/// From `start` to `end` by half a cosine; `part` is 0 to 1.
static double swing(double start, double end, double part)
{
    return end + (start - end) / 2 * (1 + cos(half_turn * part));
}

static double part_of(double done, double all)
{
    return all <= 0 || done >= all ? 1 : done / all;
}

static double one_cycle(const kiln_schedule *schedule, double full, uint64_t step)
{
    double rise = schedule->rise == 0 ? 0.3 : schedule->rise;
    double least = schedule->least == 0 ? 4e-6 : schedule->least;
    double top = rise * (double)schedule->steps - 1;
    double end = (double)schedule->steps - 1;
    if ((double)step <= top) {
        return swing(full / 25, full, part_of((double)step, top));
    }
    return swing(full, full * least, part_of((double)step - top, end - top));
}

double kiln_schedule_rate(const kiln_schedule *schedule, double full, uint64_t step)
{
    if (schedule == NULL) {
        return full;
    }
    if (schedule->kind == KILN_SCHEDULE_ONE_CYCLE) {
        return one_cycle(schedule, full, step);
    }
    if (step < schedule->warmup) {
        return full * (double)(step + 1) / (double)schedule->warmup;
    }
    uint64_t done = step - schedule->warmup;
    double all = (double)schedule->steps - (double)schedule->warmup;
    double factor = schedule->factor == 0 ? 0.1 : schedule->factor;
    switch (schedule->kind) {
    case KILN_SCHEDULE_LINEAR:
        return full * (1 - (1 - schedule->least) * part_of((double)done, all));
    case KILN_SCHEDULE_COSINE:
        return swing(full, full * schedule->least, part_of((double)done, all));
    case KILN_SCHEDULE_STEP:
        return full * pow(factor, schedule->period > 0 ? (double)(done / schedule->period) : 0);
    default:
        return full;
    }
}
