// SPDX-License-Identifier: MIT OR Apache-2.0
// What repeated measurements say, whatever the noise is like: by their order alone. Which samples
// are comparable is the caller's business.
#include <math.h>
#include <stdlib.h>

#include "base.h"

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double kiln_quantile(double *samples, size_t count, double quantile)
{
    if (count == 0) {
        return 0;
    }
    qsort(samples, count, sizeof(*samples), by_size);
    return samples[(size_t)(quantile * (double)(count - 1) + 0.5)];
}

/// How many of the least, and of the greatest, lie outside: the median of what `count` samples are
/// drawn from is above k of them with the chances of coins, so that 2.5 % may be left at each end.
/// 0: there are too few for any interval.
static size_t interval_end(size_t count)
{
    double chance = exp2(-(double)count), sum = chance;
    size_t k = 0;
    while (sum <= 0.025 && k < count) {
        k++;
        chance *= (double)(count - k + 1) / (double)k;
        sum += chance;
    }
    return k;
}

kiln_ratio kiln_ratio_of(double *ratios, size_t count)
{
    kiln_ratio r = {count, 0, 0, HUGE_VAL};
    if (count == 0) {
        return r;
    }
    size_t upper = count / 2, lower = (count - 1) / 2, end = interval_end(count);
    qsort(ratios, count, sizeof(*ratios), by_size);
    r.median = upper == lower ? ratios[upper] : sqrt(ratios[lower] * ratios[upper]);
    if (end > 0) {
        r.low = ratios[end - 1];
        r.high = ratios[count - end];
    }
    return r;
}
