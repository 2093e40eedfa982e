// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RUN_H
#define KILN_RUNTIME_RUN_H

/// A plan with the tensors that it runs on.

#include "rt_arena.h"
#include "rt_binding.h"

/// What a run enqueued, to be enqueued again (rt_repeat.h).
typedef struct kilni_repeat kilni_repeat;

/// A segment with the bindings of its tensors, in the order of the plan's numbers.
typedef struct kilni_run {
    kiln_device *device;
    kiln_fuse_engine *engine;
    const kiln_fuse_segment *segment;
    kilni_binding **bindings;
    kilni_layout *layout; ///< NULL: the pool gives all memory
    kilni_repeat *repeat; ///< is told what the run does; or NULL
} kilni_run;

#endif
