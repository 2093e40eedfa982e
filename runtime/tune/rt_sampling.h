// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_SAMPLING_H
#define KILN_RUNTIME_SAMPLING_H

/// What a device measures (tune.c).

#include "fusion_host.h"
#include "kiln.h"

/// What is measured. All under the device's lock.
typedef struct kilni_sampling {
    unsigned tune; ///< kilni_tune
    bool measuring; ///< what runs now is a sample
    bool starved; ///< a sample had too little memory
    bool measured; ///< a block of the segment that runs: one is enough for a run
} kilni_sampling;

#endif
