// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RT_BLOCK_PROGRAMS_H
#define KILN_RUNTIME_RT_BLOCK_PROGRAMS_H

/// How long the blocks of plans hold their programs (block_programs.c).

#include "kiln_device.h"

struct kilni_block_state;

typedef struct kilni_block_programs { ///< blocks with a program, the one that ran last first
    struct kilni_block_state *newest;
    struct kilni_block_state *oldest;
    uint64_t runs; ///< of blocks, on this device
    bool built; ///< a program, since kilni_block_programs_relieve looked last
    uint64_t given_up; ///< programs
} kilni_block_programs;

/// A block runs, with its program. Under the device's lock, as the others.
void kilni_block_programs_use(struct kilni_block_state *state);
/// It has none any more; takes one that never had one.
void kilni_block_programs_free(struct kilni_block_state *state);
/// Where the device's programs take more of the host than the option `program-limit`, blocks that
/// did not run for long give theirs up; they are made again from the cache when they run. Not while
/// a plan runs.
void kilni_block_programs_relieve(kiln_device *device);

#endif
