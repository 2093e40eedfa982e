// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_STATISTICS_H
#define KILN_BASE_STATISTICS_H

/// For Kiln's own modules: what repeated measurements say.
///
/// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
/// unless a function takes it.

#include <stddef.h>

#include "kiln_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The sample that a share of `quantile` lies below (0.5: the median); 0 without samples. Sorts
/// them.
KILN_API double kiln_quantile(double *samples, size_t count, double quantile);

/// How many times as long one took as another, in pairs measured side by side: the median, and the
/// interval that holds the true one with 95 % certainty; fewer than six pairs give 0 to infinity.
typedef struct kiln_ratio {
    size_t count;
    double median; ///< 0: no pairs
    double low;
    double high;
} kiln_ratio;

/// What `count` ratios of pairs say. Sorts them.
KILN_API kiln_ratio kiln_ratio_of(double *ratios, size_t count);

#ifdef __cplusplus
}
#endif
#endif
