// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_PLAN_INTERNAL_H
#define KILN_RUNTIME_PLAN_INTERNAL_H

/// What the three files that run plans share: unfused operations (plan_op.c), launches of a block
/// (plan_launch.c), and blocks and steps (plan_exec.c).

#include "rt_binding.h"
#include "rt_execute.h"
#include "rt_persistent_temps.h"
#include "rt_repeat.h"
#include "rt_run.h"
#include "rt_tensor.h"
#include "rt_tune.h"

// ---- one unfused operation (plan_op.c) ----

static inline uint32_t kilni_plan_operand_slot(const kilni_run *run, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)run->segment->operands[op][operand])->slot;
}

/// Is it the tensor's last use?
bool kilni_plan_is_dying(const kiln_plan_step *step, uint32_t slot);
/// Whether `source` may be overwritten by a result like `desc`: nobody else sees its memory.
bool kilni_plan_can_reuse(const kilni_binding *source, const kiln_tensor_desc *desc);
/// Gives `target` the memory of `source`, seen with the target's dtype.
void kilni_plan_reuse(kilni_binding *target, const kilni_binding *source,
                      const kiln_tensor_desc *desc);
/// Keeps the device's first failure.
void kilni_plan_note_failure(const kilni_run *run, const kiln_error *cause);
/// The fault of a value that came from elsewhere and failed on its way; NULL otherwise. The
/// binding's from then on.
kilni_fault *kilni_plan_fault_of(const kilni_run *run, kilni_binding *binding);
/// Runs it, or fails its results with what its inputs failed with. `step`: NULL in a block.
void kilni_plan_run_op(const kilni_run *run, const kiln_plan_step *step, uint32_t op);
/// Runs the unfused operation of step `first` together with those of the steps behind it that may
/// share its launch. The number of steps; 0: there is no other, and nothing was done.
uint32_t kilni_plan_run_joined(const kilni_run *run, uint32_t first);

// ---- one launch of a block (plan_launch.c) ----

/// Whose memory each result of a launch may take: tensor `ref` of the block that of the segment's
/// slots[first[ref]] to slots[first[ref + 1] - 1], which die at the step and give way to it.
typedef struct kilni_in_place_candidates {
    const kiln_plan_step *step; ///< NULL: not known yet
    uint32_t *first;
    uint32_t *slots;
} kilni_in_place_candidates;

/// What the executor keeps with a block of a plan.
typedef struct kilni_block_state {
    kiln_device *device;
    kiln_built *built;
    bool failed; ///< never tried again
    bool tuned; ///< measured, or never to be
    bool checked; ///< compared with its unfused operations
    bool told; ///< that it runs unfused
    bool proven; ///< all of its launches have been seen to end
    bool listed; ///< among those with a program, by the next three
    struct kilni_block_state *newer;
    struct kilni_block_state *older;
    uint64_t ran_at;
    uint32_t shortages; ///< tries in a row for which memory was short
    uint32_t runs_out; ///< runs that it is left out of before it is tried again
    kilni_scores scores;
    kilni_in_place_candidates *candidates; ///< per launch of the program; NULL: none was run yet
    uint32_t n_launches;
    kilni_persistent_temp *kept; ///< per temporary, of a program with PERSISTENT ones
    uint32_t n_kept;
} kilni_block_state;

/// Makes the block's state, its program built; where that fails there is none.
kiln_status kilni_plan_block_build(kiln_device *device, kiln_fuse_engine *engine,
                                   kiln_plan_block *block, kiln_error *err);

/// A block's numbers resolved to values: what formulas and arguments refer to.
typedef struct kilni_block_view {
    const kilni_run *run;
    const kiln_plan_block *block;
    int64_t *symbols;
} kilni_block_view;

typedef struct kilni_temp_list {
    kilni_binding *bindings;
    uint32_t count;
} kilni_temp_list;

static inline uint32_t kilni_plan_slot_of(const kilni_block_view *view, uint32_t ref)
{
    return view->block->tensors[ref];
}

kiln_status kilni_plan_evaluate(const kilni_block_view *view, const kiln_formula *formula,
                                int64_t *out_value, kiln_error *err);
kiln_status kilni_plan_enqueue(const kilni_block_view *view, const kiln_plan_step *step,
                               uint32_t index, const kilni_temp_list *temps, kiln_error *err);
/// What a launch sees beside memory, with the size of the temporary that it fills. It has at most
/// KILN_LAUNCH_ARGS_MAX arguments.
kiln_status kilni_plan_launch_numbers(const kilni_block_view *view,
                                      const kiln_program_launch *launch, int64_t bytes,
                                      kiln_hash128 *out_numbers, kiln_error *err);
void kilni_plan_candidates_fini(kilni_block_state *state);
/// A launch that would write only tensors without elements is left out.
bool kilni_plan_writes_something(const kilni_block_view *view, const kiln_program_launch *launch);
/// The first fault among what a launch reads, or NULL.
kilni_fault *kilni_plan_input_fault(const kilni_block_view *view,
                                    const kiln_program_launch *launch);
/// What a launch writes depends on all that its block has read so far: temporaries carry it on.
kiln_status kilni_plan_follow_launch(const kilni_block_view *view,
                                     const kiln_program_launch *launch,
                                     kilni_dependencies **dependencies, kiln_error *err);
/// A launch that was enqueued; what it depends on is at the next run the same (plan_repeat.c).
void kilni_repeat_note(kilni_repeat *repeat, const kilni_block_view *view,
                       const kilni_temp_list *temps, const kiln_launch *launch);
/// An operation that the backend has executed, one of the run's segment.
void kilni_repeat_note_op(kilni_repeat *repeat, const kilni_run *run, const kiln_op_record *record,
                          const kiln_view *inputs, const kiln_view *outputs);
/// Fails all that a launch would write; without a fault those without elements get their bindings.
void kilni_plan_each_written(const kilni_block_view *view, const kiln_program_launch *launch,
                             kilni_fault *fault);

#endif
