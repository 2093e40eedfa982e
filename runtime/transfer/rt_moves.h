// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_MOVES_H
#define KILN_RUNTIME_MOVES_H

/// Moves between devices as each end counts them (kiln_move.c); future.c waits for them.

#include "fusion_host.h"
#include "kiln.h"

/// One end of a move that is under way.
typedef struct kilni_moving {
    uint64_t number; ///< in the order in which moves from and to the device began
    struct kilni_moving *before;
    struct kilni_moving *next;
} kilni_moving;

/// Moves begun and not ended, from and to a device. All under the device's lock.
typedef struct kilni_moves {
    kilni_moving *first;
    kilni_moving *last;
    uint64_t next_number;
} kilni_moves;

#endif
