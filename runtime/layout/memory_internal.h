// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_MEMORY_INTERNAL_H
#define KILN_RUNTIME_MEMORY_INTERNAL_H

/// Memory of whole plans. A layout says, for one plan and one set of extents, which of its values
/// share memory: what dies inside the plan lies in the device's arena or at the beginning of a
/// result's buffer, results have buffers of their own. It is made once and kept with the plan, so a
/// repeated run asks the pool for its results only. The arena is one buffer, used by one run at a
/// time: runs follow each other in the queue. All of it under the device's lock.
///
/// For those who show plans: kiln_graph_memory_get and kiln_graph_memory_value (kiln.h).

#include "rt_arena.h"
#include "rt_binding.h"
#include "rt_run.h"

#define KILNI_NO_VALUE UINT32_MAX

typedef enum kilni_home {
    KILNI_HOME_ARENA = 1,
    KILNI_HOME_RESULT, ///< a buffer of its own from its first step on, for it lives on
    KILNI_HOME_INSIDE, ///< at the beginning of a result's buffer, before the result is written
    KILNI_HOME_POOL ///< a buffer of its own whenever it is made
} kilni_home;

/// One stretch of memory, for a value and those that take it over in place.
typedef struct kilni_object {
    kilni_home home;
    uint32_t first; ///< step that writes it
    uint32_t last; ///< step that needs it last
    uint32_t host; ///< INSIDE: the result's object
    uint64_t bytes;
    uint64_t offset; ///< ARENA
    kiln_buffer *window; ///< ARENA: while the layout is bound; another object's when `shared`
    bool shared;
    kilni_storage *held; ///< RESULT: from its first use to the end of a run
} kilni_object;

/// What is written by a step: a tensor with its views, a temporary of a program, or one of an
/// unfused operation.
typedef struct kilni_value {
    uint32_t object;
    uint32_t slot; ///< of the segment; of temporaries KILNI_NO_VALUE
    uint32_t first;
    uint32_t last;
    uint64_t bytes;
    bool lives; ///< after the plan
    bool pool; ///< others may hold it longer than the plan says
    bool kept; ///< from run to run, beside what a run needs: constants that were packed
    bool taken; ///< another value goes on in its memory
    bool took; ///< it goes on in another's
    bool begun; ///< of a temporary: the step that writes it first is known
    kilni_storage storage; ///< in the arena, or inside a result
} kilni_value;

/// A temporary that an unfused operation asked for in an earlier run.
typedef struct kilni_scratch {
    uint32_t step;
    uint64_t bytes;
} kilni_scratch;

struct kilni_layout {
    kiln_arena memory; ///< of everything here but `learned`
    kiln_device *device;
    kilni_layout *next; ///< of the same plan
    kilni_layout *next_bound; ///< on the device
    const int64_t *symbols;
    uint32_t *value_of; ///< per tensor of the segment
    uint32_t *temps_of; ///< per block: the value of its first temporary
    uint32_t *scratch_of; ///< per step and one more: the first value of its temporaries
    kiln_buffer **loans; ///< per temporary of unfused operations
    kilni_value *values;
    uint32_t n_values;
    kilni_object *objects;
    uint32_t n_objects;
    uint32_t n_steps;
    uint32_t n_planned; ///< values that ask the pool nothing
    uint32_t n_in_place;
    uint64_t arena_bytes;
    uint64_t result_bytes;
    uint64_t bound_bytes; ///< most that is alive at once
    uint64_t all_bytes; ///< of all values
    bool bound;
    bool idle; ///< there is nothing to decide
    bool settled; ///< what unfused operations ask for is known
    kilni_scratch *learned;
    uint32_t n_learned;
    uint32_t learned_capacity;
    uint32_t n_known; ///< how many of `learned` the layout was made with
};

/// memory_plan.c: makes one; NULL without host memory. `learned` of `before` (or NULL) is taken.
kilni_layout *kilni_layout_create(const kilni_run *run, kilni_layout *before);
/// Where the arena's objects lie: sets their offsets and `arena_bytes`, and who is inside a result.
bool kilni_layout_pack(kilni_layout *layout, uint64_t align);

/// memory_run.c: the layout that a plan has for these extents; NULL: none.
const kilni_layout *kilni_layout_of(const kiln_plan *plan, const int64_t *symbols);

/// graph_capture.c: what was captured, under the device's lock; NULL when nothing was recorded.
const kiln_fuse_segment *kilni_graph_segment(const kiln_graph *graph);
kiln_device *kilni_graph_device(const kiln_graph *graph);

#endif
