// SPDX-License-Identifier: MIT OR Apache-2.0
// What lazy tuning may take: a share of the time that was run, with pauses and tournaments left
// out, and no compiling that is expected to take more.

#include "harness.h"
#include "rt_execute.h"
#include "rt_tune.h"

static const uint64_t second = 1000000000;

static void test_nothing_is_allowed_before_anything_ran(void)
{
    kilni_tune_budget budget = {.percent = 5};
    kilni_tune_budget_see(&budget, 77 * second);
    KILN_CHECK(!kilni_tune_budget_allows(&budget, 1));
    KILN_CHECK_INT(budget.ran_ns, 0);
}

static void test_a_share_of_what_ran_is_allowed(void)
{
    kilni_tune_budget budget = {.percent = 5};
    kilni_tune_budget_see(&budget, 1 * second);
    kilni_tune_budget_see(&budget, 5 * second);
    KILN_CHECK(kilni_tune_budget_allows(&budget, second / 5));
    KILN_CHECK(!kilni_tune_budget_allows(&budget, second / 5 + second / 100));
    kilni_tune_budget_spend(&budget, 5 * second + second / 10); // a tournament is not running
    KILN_CHECK_INT(budget.ran_ns, 4 * second);
    KILN_CHECK(kilni_tune_budget_allows(&budget, second / 10));
    KILN_CHECK(!kilni_tune_budget_allows(&budget, second / 5));
    budget.percent = 0;
    KILN_CHECK(!kilni_tune_budget_allows(&budget, 1));
}

static void test_a_pause_is_not_all_running(void)
{
    kilni_tune_budget budget = {.percent = 5};
    kilni_tune_budget_see(&budget, 1 * second);
    kilni_tune_budget_see(&budget, 86400 * second);
    KILN_CHECK(budget.ran_ns <= 10 * second);
}

static void test_kernels_cost_what_they_cost_before(void)
{
    kilni_tune_budget budget = {.percent = 5};
    const kiln_backend_stats nothing = {0};
    const kiln_backend_stats slow = {.programs_built = 4, .build_ns = 4 * second};
    const kiln_backend_stats stored = {.programs_loaded = 4};
    uint64_t unknown = kilni_tune_budget_guess(&budget, 1, &nothing);
    KILN_CHECK(unknown >= second / 10);
    KILN_CHECK_INT(kilni_tune_budget_guess(&budget, 4, &nothing), 4 * unknown);
    KILN_CHECK(kilni_tune_budget_guess(&budget, 3, &slow) >= 3 * second);
    KILN_CHECK(kilni_tune_budget_guess(&budget, 1, &stored) < unknown);
    kilni_tune_budget_learn(&budget, 2, second / 50);
    KILN_CHECK_INT(kilni_tune_budget_guess(&budget, 3, &slow), 3 * second / 100);
}

KILN_TEST_MAIN("unit/runtime/tune_budget", KILN_TEST(test_nothing_is_allowed_before_anything_ran),
               KILN_TEST(test_a_share_of_what_ran_is_allowed),
               KILN_TEST(test_a_pause_is_not_all_running),
               KILN_TEST(test_kernels_cost_what_they_cost_before))
