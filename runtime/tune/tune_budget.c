// SPDX-License-Identifier: MIT OR Apache-2.0
// How long lazy tuning may take: a percentage of the time that the device has run. A program that
// runs for a moment is not paid for with tournaments, and one that runs for long can hardly notice
// them. What making a program ready costs is guessed before it is done, by what it cost before.

#include "rt_tune.h"

/// A longer pause between two runs is not all running: a server may sleep for a day.
static const uint64_t pause_ns = 10000000000;
static const uint64_t compiled_ns = 300000000; ///< a kernel, with no better knowledge
static const uint64_t loaded_ns = 20000000; ///< a kernel that is stored

void kilni_tune_budget_see(kilni_tune_budget *budget, uint64_t now_ns)
{
    uint64_t since = budget->seen_ns != 0 ? now_ns - budget->seen_ns : 0;
    budget->ran_ns += since < pause_ns ? since : pause_ns;
    budget->seen_ns = now_ns;
}

bool kilni_tune_budget_allows(const kilni_tune_budget *budget, uint64_t cost_ns)
{
    double allowed = (double)budget->ran_ns * (double)budget->percent / 100;
    return (double)budget->spent_ns + (double)cost_ns <= allowed;
}

void kilni_tune_budget_spend(kilni_tune_budget *budget, uint64_t now_ns)
{
    budget->spent_ns += now_ns - budget->seen_ns;
    budget->seen_ns = now_ns;
}

/// A driver compiles twice: the program, and its kernel at the first launch. Where nothing had to
/// be compiled so far, the rest will be stored, too.
static uint64_t guess_kernel(const kiln_backend_stats *stats)
{
    uint64_t each = stats->programs_built > 0 ? 2 * stats->build_ns / stats->programs_built : 0;
    uint64_t least = each == 0 && stats->programs_loaded > 0 ? loaded_ns : compiled_ns;
    return each > least ? each : least;
}

uint64_t kilni_tune_budget_guess(const kilni_tune_budget *budget, uint32_t kernels,
                                 const kiln_backend_stats *stats)
{
    return kernels * (budget->kernel_ns != 0 ? budget->kernel_ns : guess_kernel(stats));
}

void kilni_tune_budget_learn(kilni_tune_budget *budget, uint32_t kernels, uint64_t taken_ns)
{
    uint64_t each = kernels > 0 ? taken_ns / kernels : 0;
    budget->kernel_ns = each > 0 ? each : 1;
}
