// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_PLAN_H
#define KILN_IR_PLAN_H

/// Plans: what to do with a segment of operations.

#include "ir_program.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Operations that one program covers. The maps turn block-relative numbers into the segment's.
/// `state` is for the executor, which sets `state_free` with it.
typedef struct kiln_plan_block {
    const kiln_program *program;
    const char *fuser; ///< id of the fuser, for people
    const uint32_t *ops; ///< positions in the segment, ascending; drops among them
    uint32_t n_ops;
    const uint32_t *tensors; ///< block tensor -> segment tensor
    uint32_t n_tensors;
    const uint32_t *symbols; ///< block symbol -> segment symbol
    uint32_t n_symbols;
    const uint32_t *scalars; ///< block scalar -> segment scalar
    uint32_t n_scalars;
    uint64_t predicted_ns;
    uint64_t baseline_ns;
    void *state;
    void (*state_free)(void *state);
} kiln_plan_block;

typedef struct kiln_plan_step {
    kiln_step_kind kind;
    uint32_t block; ///< which block; of an operation that is in none UINT32_MAX
    uint32_t index; ///< LAUNCH: launch of its program; HOST_OP: operation of the segment
    const uint32_t *dies; ///< segment tensors that nobody uses after this step
    uint32_t n_dies;
} kiln_plan_step;

/// Covers the first `n_ops` operations of a segment, drops included. Tensors that no step writes or
/// reads are dead inside a block and get no memory.
typedef struct kiln_plan {
    uint32_t n_ops;
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
    kiln_plan_block *blocks;
    uint32_t n_blocks;
    const kiln_plan_step *steps;
    uint32_t n_steps;
    void *memory; ///< the executor's: which values share memory; it sets `memory_free` with it
    void (*memory_free)(void *memory);
    uint64_t number; ///< the executor's: of no other plan of the device, ever; 0: not given yet
} kiln_plan;

#ifdef __cplusplus
}
#endif

#endif
