// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_COLL_PLAN_H
#define KILN_RUNTIME_COLL_PLAN_H

/// A collective call on tensors, from the public calls (coll_calls.c) to the ranks' workers: what
/// it is, how each rank's part is made ready and started (coll_run.c), and how it is recorded
/// instead (coll_recorded.c).

#include "coll_memory.h"

// ---- one rank's part ----

typedef struct kilni_rank_start {
    kiln_collective *collective;
    kiln_coll_kind kind;
    kiln_coll_op op;
    uint32_t root;
    uint32_t rank; ///< in this process
} kilni_rank_start;

/// Keeps the elements of a place dense as the part's input. Under the device's lock.
kiln_status kilni_rank_call_lend(kiln_device *device, kilni_rank_call *call,
                                 const kiln_tensor_desc *desc, const kilni_binding *binding,
                                 kiln_error *err);
/// The part will bring the value of what lies in `binding`. Under the device's lock.
kiln_status kilni_rank_call_expect(kiln_device *device, kilni_rank_call *call,
                                   const kilni_binding *binding, kiln_error *err);
/// Hands a prepared part to the rank's worker. Nothing waits. Under the device's lock.
kiln_status kilni_rank_call_start(const kilni_rank_start *how, const kiln_tensor_desc *input,
                                  kilni_rank_call *prepared, kiln_error *err);

// ---- a call ----

/// One call on ranks of this process: all of them, or one that sends or receives.
typedef struct kilni_call_plan {
    kiln_collective *collective;
    kiln_coll_kind kind;
    kiln_coll_op op;
    uint32_t root; ///< of a send or receive the other rank
    uint32_t begin; ///< the ranks of this process that take part
    uint32_t end;
    kiln_tensor *const *inputs; ///< one for each of these, all of one shape and dtype
    kiln_tensor **out_tensors; ///< likewise; those without a result stay NULL. NULL: the inputs
                               ///< become the results
} kilni_call_plan;

/// Whether the inputs are of the ranks' devices, and of one shape and dtype.
kiln_status kilni_call_plan_check(const kilni_call_plan *plan, kiln_error *err);
/// What is moved here has to come by the deadline, else the rank fails. Under the device's lock.
kiln_status kilni_call_plan_await(const kilni_call_plan *plan, uint32_t rank, kiln_error *err);
/// Starts the call on all its ranks. On failure there are no results.
kiln_status kilni_call_plan_run(kilni_call_plan *plan, kiln_error *err);
/// Records an all-reduce on all members, and submits it where nothing is captured. Under the
/// group's lock.
kiln_status kilni_call_plan_record(const kilni_call_plan *plan, const char *op, kiln_error *err);

#endif
