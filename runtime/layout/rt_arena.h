// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_ARENA_H
#define KILN_RUNTIME_ARENA_H

/// The memory of a device that values of one plan share.

#include "fusion_host.h"
#include "kiln.h"

/// Which values of a plan share memory (memory_internal.h).
typedef struct kilni_layout kilni_layout;

/// Memory in which the values lie that die in the plan that runs.
typedef struct kilni_arena {
    kiln_buffer *buffer;
    uint64_t bytes;
    bool busy; ///< a run has it
    bool off; ///< the backend cuts no arenas
    uint64_t unbound; ///< how often a layout lost its windows
    kilni_layout *bound; ///< layouts with windows in it, through `next_bound`
} kilni_arena;

#endif
