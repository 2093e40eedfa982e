// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_EXECUTE_H
#define KILN_RUNTIME_EXECUTE_H

/// Running what streams have queued (segments.c, plan_exec.c), and what other rooms do around it.

#include "rt_run.h"
#include "rt_streams.h"

/// Takes back the pins that queueing the segment's operations gave.
void kilni_segment_unpin(const kiln_fuse_segment *segment);

/// kiln_fuse_stream_next, for what the device is known to be; in a trace, finding a plan and
/// searching one are told apart.
kiln_status kilni_stream_next(kilni_stream *stream, bool drain,
                              const kiln_fuse_segment **out_segment, kiln_error *err);

/// Runs what is ready on a stream; with `drain`, all of it. Under the lock. Failures of the
/// operations stay with their tensors; what is returned is a failure of the planning itself.
kiln_status kilni_stream_run(kilni_stream *stream, bool drain, kiln_error *err);

/// Runs what all threads have recorded. Under the lock; errors as kilni_stream_run.
kiln_status kilni_device_drain(kiln_device *device, kiln_error *err);

/// Evaluates a custom operation that the device has no kernel for: reads its inputs, and writes its
/// outputs, which have memory, dense. Waits. Under the lock.
kiln_status kilni_custom_on_host(kiln_device *device, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs,
                                 kiln_error *err);

static inline bool kilni_collective_is(const kiln_op_record *record)
{
    return record->op == KILN_OP_COLLECTIVE_SYNC ||
           (record->op == KILN_OP_ALL_REDUCE && record->attrs[1].v.i != 0);
}

typedef struct kilni_scores kilni_scores;
typedef struct kilni_check kilni_check;

/// What rooms above the executor do around its work. All under the lock.
typedef struct kilni_run_hooks {
    /// Only with option `record`: writes down what is about to run.
    void (*before_run)(const kilni_run *run);
    /// Only with option `tune`: measures who runs the block fastest. True: never to be asked again.
    bool (*before_block)(const kilni_run *run, uint32_t block, kilni_scores *scores);
    void (*scores_free)(kilni_scores *scores, const kiln_env *env);
    /// Only with option `check`: runs the block's program in the shadow of its operations, which
    /// run one by one between the two. NULL: not now. `end` is false when the program is wrong;
    /// `*out_compared`: never to be asked again.
    kilni_check *(*shadow_begin)(const kilni_run *run, uint32_t block);
    bool (*shadow_end)(kilni_check *check, bool *out_compared);
    /// Of blocks that nobody has seen end: a deadline for the launch, or 0. `after` is false when
    /// it did not end by then, and the device is lost.
    uint64_t (*before_launch)(const kilni_run *run, const kiln_plan_block *block);
    bool (*after_launch)(const kilni_run *run, const kiln_plan_block *block, const char *kernel,
                         uint64_t deadline_ns, kiln_error *err);
    /// Only with option `check`: looks at the indices of an operation that runs unfused.
    void (*before_op)(const kilni_run *run, uint32_t op);
    /// Operations that several devices take part in: whether the device's server runs it, for the
    /// group is not of this process; and this device's part of it.
    bool (*collective_is_served)(kiln_device *device, const kiln_op_record *record,
                                 const kilni_binding *input);
    kiln_status (*collective)(kiln_device *device, const kiln_op_record *record,
                              const kilni_binding *input, kilni_binding *output, kiln_error *err);
} kilni_run_hooks;

/// Runs a plan: evaluates formulas, assigns buffers, enqueues. Failures stay with the bindings.
/// Under the lock.
void kilni_plan_run(const kilni_run *run);

/// The block's program could not be built or launched.
bool kilni_plan_block_failed(const kiln_plan_block *block);

#endif
