// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_POSITION_H
#define KILN_FUSION_HOST_POSITION_H

/// Builders at one operation of a segment, and which operations may be one block.

#include "fusers.h"

/// One builder and the operations that it has taken, from a seed on. An operation that it does not
/// take is left out, and the builder goes on with those that do not depend on it.
typedef struct kilni_fuse_trial {
    kf_builder *builder;
    kilni_fuse_block_view view;
    uint32_t scanned; ///< operations of the recorded segment that were looked at
    uint32_t idle; ///< since one was taken, drops not counted
    uint32_t len;
    uint32_t launches;
    bool finished; ///< takes no more, whatever comes
    bool ready;
    bool broken; ///< broke the contract: no candidate
    uint8_t *marks; ///< per operation of the recorded segment, as below
    uint32_t marks_capacity;
    kilni_fuse_diag diag; ///< why it left the first operation out after the last that it took
    uint32_t diag_op; ///< that operation, or KILNI_FUSE_NONE
    kilni_fuse_asks asks;
} kilni_fuse_trial;

enum { ///< kilni_fuse_trial.marks
    KILNI_FUSE_INSIDE = 1, ///< taken
    KILNI_FUSE_BEHIND = 2, ///< depends on what was taken, and must run after it
    KILNI_FUSE_VIEW = 4 ///< was taken, and is to stay a view
};

enum {
    KILNI_FUSE_PATIENCE = 6, ///< operations that a builder may leave out in a row
    KILNI_FUSE_MAX_FEEDS = 100000, ///< of one search; what is left then runs unfused
    KILNI_FUSE_MORE_FEEDS = 16 ///< beside these for each fuser and operation
};

typedef struct kilni_fuse_unit { ///< a block that was chosen before
    uint32_t first; ///< operation of the recorded segment
    uint32_t last;
    bool reached; ///< scratch
} kilni_fuse_unit;

/// Blocks that were chosen before, and who defines what: the hazards of a search.
typedef struct kilni_fuse_hazards {
    const kilni_fuse_recorded *recorded;
    uint32_t n_ops; ///< of the recorded segment, known here
    uint32_t *definer; ///< per recorded tensor: operation, or KILNI_FUSE_NONE
    uint32_t definer_capacity;
    uint32_t n_tensors;
    uint32_t *unit; ///< per operation: block that took it, or KILNI_FUSE_NONE
    uint32_t unit_capacity;
    kilni_fuse_unit *units;
    uint32_t units_capacity;
    uint32_t n_units;
    uint8_t *reached; ///< scratch: per operation as kilni_fuse_trial.marks
    uint32_t reached_capacity;
    uint64_t feeds; ///< operations shown so far
    bool spent; ///< no more may be shown
    uint64_t counted_ns; ///< when the time that the search takes was last counted
    uint64_t taken_ns; ///< by the search, over all operations as they were recorded
    bool overdue; ///< it took longer than it may
} kilni_fuse_hazards;

/// Learns the operations up to `end`, none of them in a block yet.
bool kilni_fuse_hazards_learn(kilni_fuse_hazards *hazards, const kilni_fuse_recorded *recorded,
                              uint32_t end);
void kilni_fuse_hazards_forget(kilni_fuse_hazards *hazards);
void kilni_fuse_hazards_fini(kilni_fuse_hazards *hazards, const kiln_env *env);
/// Adds the block of these operations, ascending, of the recorded segment.
void kilni_fuse_hazards_add(kilni_fuse_hazards *hazards, const uint32_t *ops, uint32_t n_ops);
/// False when taking `op` in would make the block depend on itself.
bool kilni_fuse_hazards_allow(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                              uint32_t op);
/// Notes that `op` is not taken: it may lie behind the block now.
void kilni_fuse_hazards_leave_out(const kilni_fuse_hazards *hazards, kilni_fuse_trial *trial,
                                  uint32_t op);
/// Once an operation was taken: do blocks chosen before still not depend on what they give? False:
/// it must be given back.
bool kilni_fuse_hazards_hold(kilni_fuse_hazards *hazards, kilni_fuse_trial *trial);
/// Is everything that reads the dropped tensor inside the block?
bool kilni_fuse_hazards_drop(const kilni_fuse_hazards *hazards, const kilni_fuse_trial *trial,
                             uint32_t op);

/// The trials of all fusers from one seed on.
typedef struct kilni_fuse_position {
    kilni_fuse_trial *trials; ///< one per fuser of the engine
    kilni_fuse_hazards hazards; ///< of the search that starts here
    uint32_t seed;
    bool started;
    bool finished; ///< every trial is
} kilni_fuse_position;

void kilni_fuse_position_init(kilni_fuse_position *position);
void kilni_fuse_position_fini(kilni_fuse_position *position, const kiln_fuse_engine *engine);
/// Stops the trials: the recorded segment under them changes.
void kilni_fuse_position_reset(kilni_fuse_position *position, const kiln_fuse_engine *engine);
/// From `late_ns` on (kiln_time_ns; 0: never) a fuser is late in the call to come: it hears so by
/// kf_host.cancelled, and is to blame if the user ends the process. It holds until it is set to 0,
/// by whoever began what has a limit.
void kilni_fuse_set_late(kiln_fuse_engine *engine, uint64_t late_ns);
/// Counts the time since the last call and says whether the search took longer than it may;
/// engine->search_ns. What a fuser is then asked is to end at engine->late_ns, which the caller
/// sets to 0 in the end (kilni_fuse_set_late).
bool kilni_fuse_overdue(kiln_fuse_engine *engine, kilni_fuse_hazards *hazards);
/// Lets the fusers take from operations [seed, end) until all are finished; likewise.
kiln_status kilni_fuse_position_feed(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     kilni_fuse_hazards *hazards, uint32_t seed, uint32_t end,
                                     kiln_error *err);
/// Once the trials have what they can: those that would write a tensor and a reshape of it, which
/// nothing in the block reads, take from [seed, end) again without that reshape.
void kilni_fuse_position_leave_views(kilni_fuse_position *position, kiln_fuse_engine *engine,
                                     kilni_fuse_hazards *hazards, uint32_t end);

/// What is wrong with a builder's answer, or NULL; and the end of such a trial, with a strike.
const char *kilni_fuse_state_fault(const kf_state *state, const kilni_fuse_trial *trial);
void kilni_fuse_trial_break(kiln_fuse_engine *engine, uint32_t fuser, kilni_fuse_trial *trial,
                            const char *reason);

#endif
