// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_EXPLAIN_H
#define KILN_IR_EXPLAIN_H

/// Explanations: what was decided for a segment and why, for people and their tools.

#include "ir_attr.h"
#include "ir_program.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What one fuser said at one place. Times are nanoseconds for the extents at hand; 0: not known.
typedef struct kiln_explained_candidate {
    const char *fuser;
    const char *name; ///< of what it made
    const char *reason; ///< why it is no candidate, or did not win; "" of the winner
    bool ready; ///< it is a candidate
    bool won;
    uint32_t n_ops; ///< without drops
    uint32_t n_launches;
    double claimed_ns; ///< by the fuser
    double trust; ///< by what its claims are multiplied; 0: 1
    double floor_ns; ///< roofline
    double predicted_ns; ///< as believed
    double saved_ns; ///< against the unfused operations, predicted
    double measured_ns;
} kiln_explained_candidate;

typedef struct kiln_explained_op {
    const char *name;
    const char *kind; ///< class
    const char *text; ///< as the printer writes it; %n is tensor n of the explanation
    uint32_t block; ///< UINT32_MAX: alone
    uint32_t step; ///< the first that runs it; UINT32_MAX: none, as of a drop
    const uint32_t *inputs; ///< tensors
    const uint32_t *outputs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    const kiln_explained_candidate *candidates; ///< of an unfused operation: each fuser's reason
    uint32_t n_candidates;
} kiln_explained_op;

typedef struct kiln_explained_block {
    const char *fuser;
    const uint32_t *ops;
    uint32_t n_ops;
    double predicted_ns;
    double baseline_ns; ///< predicted of its unfused operations
    double unfused_ns; ///< measured
    const char *failure; ///< why its program does not run; NULL when it does
    const kiln_program *program;
    const uint32_t *tensors; ///< the program's tensors among the explanation's; UINT32_MAX: none
    uint32_t n_tensors;
    const int64_t *symbols; ///< values of the program's symbols, for its formulas
    uint32_t n_symbols;
    const kiln_attr *scalars; ///< values of the program's scalars, I64 or F64
    uint32_t n_scalars;
    const kiln_explained_candidate *candidates;
    uint32_t n_candidates;
} kiln_explained_block;

typedef struct kiln_explained_tensor {
    const char *text; ///< dtype and dimensions
    uint64_t bytes;
    uint32_t made_by; ///< operation; UINT32_MAX: it is there before
    uint32_t memory; ///< the tensor whose memory it is in, itself for most; UINT32_MAX: in none
    uint32_t first_step; ///< of that memory, when there is some
    uint32_t last_step; ///< UINT32_MAX: it outlives the run
    uint32_t input; ///< place among the graph's inputs, or UINT32_MAX
    uint32_t output;
} kiln_explained_tensor;

typedef struct kiln_explained_step {
    uint32_t block; ///< or UINT32_MAX
    uint32_t op; ///< of an unfused operation, or UINT32_MAX
    const char *kernel; ///< of a block's launch, or NULL
    uint64_t live_bytes; ///< while it runs, without buffers that are written in place
    double measured_ns; ///< median of `runs`; 0: not measured
    double start_ns; ///< in the last run, from its first step
    double last_ns; ///< what it took in the last run
    uint32_t runs;
} kiln_explained_step;

typedef struct kiln_explanation {
    kiln_arena arena; ///< of everything here but programs
    const kiln_explained_op *ops;
    kiln_explained_tensor *tensors;
    kiln_explained_step *steps;
    const kiln_explained_block *blocks;
    const char *const *fusers;
    uint32_t n_ops;
    uint32_t n_tensors;
    uint32_t n_steps;
    uint32_t n_blocks;
    uint32_t n_fusers;
    int64_t facts[KILN_FACT_COUNT]; ///< of the device, for the programs' formulas
    uint64_t resident_bytes; ///< of what is there before and stays
    uint64_t peak_bytes; ///< largest live_bytes
    uint64_t total_bytes; ///< of all tensors that get memory
} kiln_explanation;

#ifdef __cplusplus
}
#endif

#endif
