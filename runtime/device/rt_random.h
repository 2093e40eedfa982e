// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RANDOM_H
#define KILN_RUNTIME_RANDOM_H

/// Where random numbers come from (random.c).

#include "fusion_host.h"
#include "kiln.h"

typedef struct kilni_random {
    int64_t seed;
    uint32_t next_number; ///< of a thread's stream, in the order in which threads draw first
} kilni_random;

/// Whether records of this operator have a seed, a stream and a position, and the place of the
/// first among its attributes; they follow one another.
bool kilni_random_draws(const kiln_op_info *info, uint32_t *out_attr);

/// The calling thread's next draw, as attributes in the order seed, stream, position.
kiln_status kilni_random_next(kiln_device *device, kiln_attr out_attrs[3], kiln_error *err);

#endif
