// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_GRAPH_MEMORY_H
#define KILN_KILN_GRAPH_MEMORY_H

/// How the values of a graph share memory.
///
/// Unless a function says otherwise: one thread at a time uses a graph; names are borrowed and live
/// as long as it. What is asked is known from the first run on: before it, and where the device's
/// memory is not planned (remote devices plan on the server), each function gives
/// FAILED_PRECONDITION. The caller sets `struct_size` before. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "kiln_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How the values of a graph share memory, for the shapes of its capture. What dies inside the
/// graph lies in the device's arena, one for all plans, or in a result that is not written yet; a
/// run asks the pool for its results alone. Inputs are not counted.
typedef struct kiln_graph_memory {
    uint32_t struct_size;
    uint32_t steps;
    uint32_t values; ///< what a run writes: results, intermediates, temporaries
    uint32_t values_planned; ///< of them without asking the pool
    uint32_t values_in_place; ///< of them in the memory of one that dies
    uint32_t reserved;
    uint64_t bound_bytes; ///< most that is alive at once: no assignment needs less
    uint64_t peak_bytes; ///< what a run holds: arena and results
    uint64_t arena_bytes;
    uint64_t result_bytes;
    uint64_t all_bytes; ///< the sum of all: what it would be without sharing
} kiln_graph_memory;

typedef enum kiln_memory_home {
    KILN_MEMORY_ARENA = 1, ///< at `offset_bytes`
    KILN_MEMORY_RESULT = 2, ///< a buffer of its own, for it outlives the run
    KILN_MEMORY_INSIDE = 3, ///< at the beginning of a result's buffer, before that is written
    KILN_MEMORY_POOL = 4, ///< a buffer of its own, given back when it dies
    KILN_MEMORY_KEPT = 5 ///< one that stays from run to run, and counts in no sum: packed constants
} kiln_memory_home;

typedef enum kiln_memory_kind {
    KILN_MEMORY_TENSOR = 1,
    KILN_MEMORY_TEMPORARY = 2, ///< of a fused program
    KILN_MEMORY_SCRATCH = 3 ///< of an unfused operation: known after the first run
} kiln_memory_kind;

typedef struct kiln_graph_memory_value {
    uint32_t struct_size;
    kiln_memory_kind kind;
    kiln_memory_home home;
    uint32_t first_step; ///< that writes it
    uint32_t last_step; ///< that needs it; of a result the number of steps
    uint32_t in_place; ///< 1: it takes over the memory of a value that dies in its first step
    uint64_t bytes;
    uint64_t offset_bytes; ///< ARENA
    uint32_t tensor; ///< its number in kiln_graph_explained; UINT32_MAX: of no tensor
    uint32_t reserved;
} kiln_graph_memory_value;

typedef struct kiln_graph_memory_step {
    uint32_t struct_size;
    uint32_t block; ///< the fused block that it belongs to; UINT32_MAX: none
    const char *name; ///< operator, or kernel of a fused program
    uint64_t written_bytes; ///< of tensors that it makes
    uint64_t temporary_bytes; ///< alive during it
    uint64_t live_bytes; ///< alive during it, all together
} kiln_graph_memory_step;

#define KILN_GRAPH_MEMORY_INIT                                                                     \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory)                                         \
    }
#define KILN_GRAPH_MEMORY_VALUE_INIT                                                               \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory_value)                                   \
    }
#define KILN_GRAPH_MEMORY_STEP_INIT                                                                \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_graph_memory_step)                                    \
    }

/// Fills totals of the graph's memory.
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_get(const kiln_graph *graph,
                                                          kiln_graph_memory *out_memory,
                                                          kiln_error *err);

/// Fills the value with this number. Values are numbered from 0 in the order in which they are
/// written. Errors: also NOT_FOUND past the last.
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_value_get(const kiln_graph *graph,
                                                                uint32_t index,
                                                                kiln_graph_memory_value *out_value,
                                                                kiln_error *err);

/// Fills the step with this number, counted from 0. Errors: also NOT_FOUND past the last.
KILN_NODISCARD KILN_API kiln_status kiln_graph_memory_step_get(const kiln_graph *graph,
                                                               uint32_t index,
                                                               kiln_graph_memory_step *out_step,
                                                               kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
