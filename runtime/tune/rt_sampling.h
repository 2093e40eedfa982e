// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_SAMPLING_H
#define KILN_RUNTIME_SAMPLING_H

/// What a device measures (tune.c), and how long it may take (tune_budget.c).

#include "fusion_host.h"
#include "kiln.h"

/// The time that lazy tuning may take: a share of the time that the device has run.
typedef struct kilni_tune_budget {
    uint64_t percent;
    uint64_t seen_ns; ///< when the device was seen last; 0: never
    uint64_t ran_ns; ///< between these sights, tournaments and pauses left out
    uint64_t spent_ns; ///< in tournaments, compiling included
    uint64_t kernel_ns; ///< what a kernel took to be made ready, as last seen; 0: not known
} kilni_tune_budget;

/// What is measured. All under the device's lock.
typedef struct kilni_sampling {
    unsigned tune; ///< kilni_tune
    kilni_tune_budget budget;
    bool measuring; ///< what runs now is a sample
    bool starved; ///< a sample had too little memory
    bool measured; ///< a block of the segment that runs: one is enough for a run
} kilni_sampling;

#endif
