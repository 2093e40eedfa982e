// SPDX-License-Identifier: MIT OR Apache-2.0
// How long lazy tuning may take: a percentage of the time that the device has run. A program that
// runs for a moment is not paid for with tournaments, and one that runs for long can hardly notice
// them. What making a program ready costs is guessed before it is done, by what it cost before.

#include "rt_tune.h"

/// A longer pause between two runs is not all running: a server may sleep for a day.
static const uint64_t pause_ns = 10000000000;
static const uint64_t unknown_program_ns = 300000000; ///< to compile a kernel, on a busy machine
/// The first product compiles all kernels of the library for products.
static const uint64_t library_ns = 5000000000;

void kilni_tune_budget_see(kilni_tune_budget *budget, uint64_t now_ns)
{
    uint64_t since = budget->seen_ns != 0 ? now_ns - budget->seen_ns : 0;
    budget->ran_ns += since < pause_ns ? since : pause_ns;
    budget->seen_ns = now_ns;
}

bool kilni_tune_budget_allows(const kilni_tune_budget *budget, uint64_t cost_ns)
{
    double allowed = (double)budget->ran_ns * budget->percent / 100;
    return (double)budget->spent_ns + (double)cost_ns <= allowed;
}

void kilni_tune_budget_spend(kilni_tune_budget *budget, uint64_t now_ns)
{
    budget->spent_ns += now_ns - budget->seen_ns;
    budget->seen_ns = now_ns;
}

uint64_t kilni_tune_budget_guess(const kilni_tune_budget *budget, uint32_t programs, bool library)
{
    uint64_t each = budget->program_ns != 0 ? budget->program_ns : unknown_program_ns;
    return programs * each + (library ? library_ns : 0);
}

void kilni_tune_budget_learn(kilni_tune_budget *budget, uint32_t programs, uint64_t taken_ns)
{
    uint64_t each = programs > 0 ? taken_ns / programs : 0;
    budget->program_ns = each > 0 ? each : 1;
}
