// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_RANDOM_H
#define KILN_KILN_RANDOM_H

/// Random numbers of a device.

#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts the device's random numbers anew: operations recorded from now on draw from `seed`; what
/// was recorded before is submitted first and keeps its numbers. Equal seeds give equal numbers on
/// every device, fused or not. Each thread draws from a stream of its own, numbered in the order in
/// which threads draw first; each operation is one draw, and each run of a graph draws anew. Before
/// the first call the seed is 0.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: whatever submitting gives; the seed is set.
KILN_NODISCARD KILN_API kiln_status kiln_seed(kiln_device *device, int64_t seed, kiln_error *err);

/// Lets the calling thread draw from stream `number`, from its beginning: for threads whose numbers
/// must not depend on which of them draws first. Holds until the next kiln_seed.
/// Ownership: n/a. Lifetime: n/a. Thread: any. Errors: RESOURCE_EXHAUSTED.
KILN_NODISCARD KILN_API kiln_status kiln_random_stream(kiln_device *device, uint32_t number,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
