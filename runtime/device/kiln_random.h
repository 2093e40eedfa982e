// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_RANDOM_H
#define KILN_KILN_RANDOM_H

/// Random numbers of a device.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with RESOURCE_EXHAUSTED, and with the errors of submitting what was recorded
/// before. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a status then
/// does nothing and gives 0.

#include "kiln_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts the device's random numbers anew: operations that are recorded from now on draw from
/// `seed`; those before are submitted and keep their numbers. Equal seeds give equal numbers on
/// every device, fused or not. Each thread draws from an RNG stream of its own; streams are
/// numbered in the order in which threads draw first. Each operation is one draw, and each run of a
/// graph draws anew. Before the first call the seed is 0. The seed is set even when submitting
/// fails.
KILN_NODISCARD KILN_API kiln_status kiln_seed(kiln_device *device, int64_t seed, kiln_error *err);

/// Lets the calling thread draw from RNG stream `number`, from its beginning, until the next
/// kiln_seed. It serves threads whose numbers must not depend on which of them draws first.
KILN_NODISCARD KILN_API kiln_status kiln_random_stream(kiln_device *device, uint32_t number,
                                                       kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
