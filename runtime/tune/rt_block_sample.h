// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_BLOCK_SAMPLE_H
#define KILN_RUNTIME_BLOCK_SAMPLE_H

/// A block run beside the run that it belongs to, on copies (block_sample.c). Under the lock.

#include "rt_run.h"

typedef struct kilni_sample {
    const kilni_run *run;
    const kiln_plan_block *block;
    uint32_t index;
    const kiln_env *env;
    kilni_binding **bindings; ///< per tensor of the segment: its own, or one of `scratch`
    kilni_binding *scratch; ///< per tensor of the block
    bool *made; ///< per tensor of the block: a result
    bool *dying; ///< per tensor of the block: an input that the block may overwrite
    bool *absent; ///< per tensor of the block: a constant that is not on the device now
    kilni_binding *spare; ///< copies of dying inputs for further runs of a sample, set by set
    uint32_t n_spare; ///< sets
} kilni_sample;

typedef struct kilni_small_plan { ///< of one block, or of its operations one by one
    kiln_plan plan;
    kiln_plan_block block;
    kiln_plan_step *steps;
    uint32_t *dies; ///< of all steps
} kilni_small_plan;

kiln_status kilni_shadow_init(kilni_sample *sample, const kilni_run *run, uint32_t block,
                              kiln_error *err);
void kilni_shadow_fini(kilni_sample *sample);

/// The block's number of a tensor of the segment, or UINT32_MAX; and whether the block drops it.
uint32_t kilni_shadow_number(const kilni_sample *sample, uint32_t slot);
bool kilni_shadow_drops(const kilni_sample *sample, uint32_t slot);

/// A program's steps, inputs that the block may overwrite dying with the last of them; and the
/// unfused operations. Both are freed by fini, also after a failure.
kiln_status kilni_shadow_fused(const kilni_sample *sample, kilni_small_plan *small,
                               const kiln_program *program, kiln_error *err);
kiln_status kilni_shadow_alone(const kilni_sample *sample, kilni_small_plan *small,
                               kiln_error *err);
void kilni_shadow_plan_fini(const kilni_sample *sample, kilni_small_plan *small);

/// Copies what may be overwritten, and waits; runs, and waits; forgets the results.
kiln_status kilni_shadow_copy_inputs(kilni_sample *sample, uint32_t runs, kiln_error *err);

/// Of what each run of a sample needs a copy.
int64_t kilni_shadow_dying_bytes(const kilni_sample *sample);
kiln_status kilni_shadow_run(kilni_sample *sample, kilni_small_plan *small, kiln_error *err);
void kilni_shadow_clear(kilni_sample *sample);

/// The first failure of the results, or NULL.
const kilni_fault *kilni_shadow_fault(const kilni_sample *sample);

#endif
