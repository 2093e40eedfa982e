// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_TUNE_H
#define KILN_RUNTIME_TUNE_H

/// Tournaments between the candidates of a block (tune.c), their scores (tune_scores.c), and the
/// time that they may take (tune_budget.c).

#include "rt_run.h"
#include "rt_sampling.h"

typedef enum kilni_tune { ///< option `tune`
    KILNI_TUNE_OFF = 0,
    KILNI_TUNE_LAZY = 1,
    KILNI_TUNE_FULL = 2
} kilni_tune;

kilni_tune kilni_tune_mode(const kiln_context *context);

// ---- the time that lazy tuning may take ----

/// The device runs: what passed since it was seen last counts as running.
void kilni_tune_budget_see(kilni_tune_budget *budget, uint64_t now_ns);
bool kilni_tune_budget_allows(const kilni_tune_budget *budget, uint64_t cost_ns);
/// A tournament had the device since it was seen last.
void kilni_tune_budget_spend(kilni_tune_budget *budget, uint64_t now_ns);

/// What making kernels ready will take, after what the backend did so far; and what it took.
uint64_t kilni_tune_budget_guess(const kilni_tune_budget *budget, uint32_t kernels,
                                 const kiln_backend_stats *stats);
void kilni_tune_budget_learn(kilni_tune_budget *budget, uint32_t kernels, uint64_t taken_ns);

// ---- scores ----

enum { KILNI_TUNE_ROUNDS = 256 };

/// Of one that takes part: what it took in each round, in which the others took theirs right
/// before and after.
typedef struct kilni_score {
    float ns[KILNI_TUNE_ROUNDS]; ///< of one run; 0: it took no part
    bool failed;
    bool out; ///< so much slower that it takes no part any more
} kilni_score;

/// A tournament as far as it has come; kept with its block from run to run.
typedef struct kilni_scores {
    uint32_t runs; ///< of the block, before
    uint32_t rounds; ///< that count
    uint32_t repeats; ///< runs of one sample; 0: not known yet
    uint32_t n_ready; ///< of the entries, in their order: ran once in this process
    uint64_t round_ns; ///< what the last round took
    kiln_hash128 extents; ///< for which they were played; others begin anew
    uint64_t spent_ns;
    uint32_t n_entries;
    kilni_score *entries; ///< the last is the unfused operations; NULL: nothing was played
} kilni_scores;

bool kilni_scores_begin(kilni_scores *scores, const kiln_env *env, uint32_t n_entries);
void kilni_scores_fini(kilni_scores *scores, const kiln_env *env);

/// How many times as long `a` took as `b`, over the rounds that both played.
kiln_ratio kilni_score_ratio(const kilni_score *a, const kilni_score *b, uint32_t rounds);

/// Who is the fastest, by medians of pairs; `n_entries` when all failed.
uint32_t kilni_scores_fastest(const kilni_scores *scores);

/// Whether more rounds would change nothing: each of the others is slower than the fastest, or so
/// near that it does not matter.
bool kilni_scores_sure(const kilni_scores *scores);

/// Leaves out from now on who is much slower than the fastest.
void kilni_scores_leave_out(kilni_scores *scores);

/// The least time of the fastest, and of the others that times what they took longer; 0: failed.
void kilni_scores_times(const kilni_scores *scores, uint64_t *out_ns);

/// Measures the programs that may run a block against each other and against its unfused
/// operations, on the tensors at hand, when it is time for that. Results go to memory of their own;
/// inputs that the block would overwrite are copied. With `lazy` a run plays a few rounds, as far
/// as the budget allows, and later ones go on, so that nobody waits long for the device. True when
/// all is played or not wanted ever. Under the lock.
bool kilni_tune_block(const kilni_run *run, uint32_t block, kilni_scores *scores);

#endif
