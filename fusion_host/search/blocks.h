// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_BLOCKS_H
#define KILN_FUSION_HOST_BLOCKS_H

/// The search: a segment in, blocks out; and the scores that decide.

#include "position.h"
#include "translate.h"

enum { KILNI_FUSE_MAX_CONTENDERS = 8, KILNI_FUSE_MAX_EXTENTS = 64 };

typedef struct kilni_fuse_score { ///< nanoseconds, for the extents at hand
    double baseline_ns;
    double claimed_ns; ///< by the fuser, or the host's roofline when it does not say
    double trust; ///< by what claims of this fuser are multiplied, a guess by more; 0: 1
    double floor_ns; ///< roofline: launches, and bytes that must move
    double adjusted_ns; ///< the claim as it is believed, not below the floor
    double benefit_ns;
    uint32_t launches;
    uint32_t len; ///< with drops
    uint32_t n_ops; ///< without them
} kilni_fuse_score;

/// KF_CONFIDENCE_* of a claim: before 1.1 fusers meant nothing by it.
uint32_t kilni_fuse_confidence(const kilni_fuse_plugin *plugin, const kf_state *state);
/// What the claim is multiplied by beside what is known of its fuser.
double kilni_fuse_doubt(uint32_t confidence);
double kilni_fuse_score_baseline(const kiln_device_info *device,
                                 const kilni_fuse_recorded *recorded, uint32_t op);
double kilni_fuse_score_floor(const kilni_fuse_translation *input, uint32_t launches);
void kilni_fuse_score_close(kilni_fuse_score *score);

typedef struct kilni_fuse_candidate {
    uint32_t fuser;
    const char *plugin_id;
    const char *fuser_id;
    bool ships;
    uint32_t confidence; ///< KF_CONFIDENCE_*
    kilni_fuse_score score;
    kiln_program *program;
    uint32_t variant; ///< of what the fuser finished
    kf_blob key; ///< of it, in the arena; empty: the fuser is not told what was measured
    const char *name; ///< of the optimisation, for people
} kilni_fuse_candidate;

/// Is `a` the better candidate? A total order that does not depend on load order.
bool kilni_fuse_candidate_before(const kilni_fuse_candidate *a, const kilni_fuse_candidate *b);

/// What one fuser said at one position.
typedef struct kilni_fuse_verdict {
    uint32_t first_op;
    uint32_t fuser;
    bool ready;
    bool won;
    double measured_ns; ///< 0: not measured
    kilni_fuse_score score;
    const char *name;
    const char *reason; ///< why it is no candidate, or why the winner is better
} kilni_fuse_verdict;

/// A program that can take a block's place: its operations are the same.
typedef struct kilni_fuse_rival {
    uint32_t fuser;
    kiln_program *program;
    uint32_t variant;
    kf_blob key; ///< what its fuser knows it by, with `variant`
    double claimed_ns;
    double predicted_ns;
    double measured_ns; ///< 0: not measured, or it failed
} kilni_fuse_rival;

typedef struct kilni_fuse_block {
    const uint32_t *ops; ///< of the recorded segment, ascending
    uint32_t len;
    uint32_t fuser;
    kiln_program *program;
    const uint32_t *tensors;
    uint32_t n_tensors;
    const uint32_t *symbols;
    uint32_t n_symbols;
    const uint32_t *scalars;
    uint32_t n_scalars;
    kilni_fuse_rival *rivals; ///< the program among them, unless there are too many
    uint32_t n_rivals;
    bool settled; ///< by what was measured
    double unfused_ns;
    kilni_fuse_score score;
} kilni_fuse_block;

/// The blocks that cover the first `n_covered` operations; what is in none runs unfused.
typedef struct kilni_fuse_blocks {
    kilni_fuse_block *blocks;
    uint32_t n_blocks;
    uint32_t blocks_capacity;
    uint32_t n_covered;
    kilni_fuse_verdict *verdicts;
    uint32_t n_verdicts;
    uint32_t verdicts_capacity;
    kilni_fuse_scalar_guard *guards;
    uint32_t n_guards;
    uint32_t guards_capacity;
    bool lacking; ///< a candidate was not admitted or had failed: another day may be different
} kilni_fuse_blocks;

typedef enum kilni_fuse_cover {
    KILNI_FUSE_COVER_SETTLED = 0, ///< what cannot change any more
    KILNI_FUSE_COVER_ALL = 1,
    KILNI_FUSE_COVER_FIRST = 2 ///< as SETTLED, the block of the first operation decided in any case
} kilni_fuse_cover;

/// Chooses blocks for the first `n_ops` operations of the recorded segment. What is covered but for
/// ALL is followed by an operation other than a drop; n_covered == 0 says that it is better to
/// wait. `first` holds the trials from the first operation on. Programs and texts live in `arena`.
kiln_status kilni_fuse_search(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                              uint32_t n_ops, kilni_fuse_cover cover, kilni_fuse_position *first,
                              kiln_arena *arena, kilni_fuse_blocks *out_blocks, kiln_error *err);
void kilni_fuse_blocks_fini(kilni_fuse_blocks *blocks, const kiln_env *env);

#endif
