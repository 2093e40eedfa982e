// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_TOURNAMENT_H
#define KILN_FUSION_HOST_TOURNAMENT_H

/// What was measured, in this process or another, in place of what was predicted.

#include "blocks.h"

typedef struct kilni_fuse_tournament { ///< of a plan's block
    kilni_fuse_rival *rivals; ///< the chosen one among them
    uint32_t n_rivals;
    bool settled; ///< measured, now or in another process
    double unfused_ns; ///< of its operations; 0: not measured
} kilni_fuse_tournament;

/// What a tournament said, as it lies on disk.
typedef struct kilni_fuse_winner {
    kiln_hash128 key;
    kiln_hash128 programs[KILNI_FUSE_MAX_CONTENDERS];
    double measured_ns[KILNI_FUSE_MAX_CONTENDERS];
    double unfused_ns; ///< of the operations one by one; 0: not measured
    uint32_t count;
    uint32_t chosen; ///< `count`: none, the operations run unfused
    uint32_t tries; ///< processes that measured it, for those who may doubt it
    uint32_t reserved;
} kilni_fuse_winner;

/// Puts what was measured, in this process or another, in place of what was predicted: blocks get
/// the program that won, and those that were slower than their unfused operations go.
void kilni_fuse_recall(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                       kiln_arena *arena, kilni_fuse_blocks *blocks);
/// What claims of the fuser are multiplied by; at least 1.
double kilni_fuse_trust_factor(const kiln_fuse_engine *engine, uint32_t fuser);
void kilni_fuse_trust_load(kiln_fuse_engine *engine);

#endif
