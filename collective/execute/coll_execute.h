// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_EXECUTE_H
#define KILN_COLLECTIVE_COLL_EXECUTE_H

/// One rank's schedule, carried out over its memory and its transport: coll_slots.c says where the
/// slots lie, coll_settle.c waits for the memory, coll_stream.c sends in pieces both ways at once,
/// coll_execute.c does the rest.

#include "coll_schedule.h"
#include "coll_watch.h"
#include "collective.h"

/// The dtype in which values of `dtype` are combined.
kiln_dtype kilni_coll_wide(kiln_dtype dtype);

typedef struct kilni_coll_run {
    kiln_coll_memory *memory;
    kiln_coll_transport *transport;
    const kiln_coll_call *call;
    uint64_t sequence;
    uint64_t deadline_ns; ///< of one wait
    uint64_t chunk_bytes; ///< messages are cut in these
    uint32_t rank;
    uint32_t divisor; ///< of a mean
    kiln_arena *arena;
    kilni_coll_watch *watch;
} kilni_coll_run;

/// The time for kilni_coll_spend, where somebody asks for the call's times.
static inline uint64_t kilni_coll_now(const kilni_coll_run *run)
{
    return run->call->times != NULL ? kiln_time_ns() : 0;
}

static inline void kilni_coll_spend(const kilni_coll_run *run, kiln_coll_pastime pastime,
                                    uint64_t since_ns)
{
    if (run->call->times != NULL) {
        run->call->times->spent_ns[pastime] += kiln_time_ns() - since_ns;
    }
}

/// Carries a schedule out. On return nothing is mapped, posted or allocated; a failure has been
/// told to the others. `err` must not be NULL. On the worker's thread. Errors: the memory's and the
/// transport's.
kiln_status kilni_coll_execute(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                               kiln_error *err);

/// Waits until the memory's own work has ended: the caller's buffers are ready then, and nothing
/// that the work read or wrote is in use. On the worker's thread. Errors: the memory's,
/// DEADLINE_EXCEEDED.
kiln_status kilni_coll_settle(const kilni_coll_run *run, kiln_error *err);

/// Where a slot lies.
typedef struct kilni_coll_lot {
    kiln_coll_buffer *buffer;
    uint64_t offset;
    kiln_dtype dtype;
    bool is_ours;
} kilni_coll_lot;

/// Finds room for the slots that a schedule needs. `close` also after a failure. On the worker's
/// thread. Errors: the memory's.
kiln_status kilni_coll_slots_open(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                                  kilni_coll_lot *lots, kiln_error *err);
void kilni_coll_slots_close(const kilni_coll_run *run, const kilni_coll_lot *lots);

/// The part of `place` from element `range.start` on, in a rank's memory.
kiln_coll_area kilni_coll_area_of(const kilni_coll_lot *lots, kilni_coll_operand place,
                                  kilni_coll_range range);

/// Piece `index` of a message of `count` elements; none past the last. Both ends cut alike.
kilni_coll_range kilni_coll_piece(const kilni_coll_run *run, kiln_dtype dtype, uint64_t count,
                                  uint64_t index);

/// REDUCE and COPY, of elements `range` of the step.
kiln_status kilni_coll_step_reduce(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                   const kilni_coll_step *step, kilni_coll_range range,
                                   kiln_error *err);
kiln_status kilni_coll_step_copy(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                 const kilni_coll_step *step, kilni_coll_range range,
                                 kiln_error *err);

/// All steps of a schedule on a memory that streams: sends on a second thread, each piece as soon
/// as it is there, receives combined piece by piece. As kilni_coll_execute, but the slots are
/// there.
kiln_status kilni_coll_stream(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                              const kilni_coll_lot *lots, kiln_error *err);

#endif
