// SPDX-License-Identifier: MIT OR Apache-2.0
// What a data-parallel step can hide by its dependencies, against sums done by hand.
#include "bench_overlap.h"
#include "harness.h"

static void check_limit(bench_overlap_form form, size_t layers, double sends, double wanted)
{
    double got = bench_overlap_limit(form, layers, sends);
    if (got < wanted - 1e-9 || got > wanted + 1e-9) {
        KILN_FAIL("%zu layers that send for %g: %.9f, not %.9f", layers, sends, got, wanted);
    }
}

/// One layer hides nothing. Of two, the first gradient comes after two thirds of the step: what is
/// longer than a third of it holds the second one up.
static void test_means(void)
{
    check_limit(BENCH_AVERAGED, 1, 1, 1.0 / 2);
    check_limit(BENCH_AVERAGED, 1, 3, 3.0 / 4);
    check_limit(BENCH_AVERAGED, 2, 0.5, 1 / 1.25);
    check_limit(BENCH_AVERAGED, 2, 2, 2 / (2.0 / 3 + 2));
    check_limit(BENCH_AVERAGED, 12, 1, 1 / (7.0 / 18 + 1));
    check_limit(BENCH_AVERAGED, 12, 0, 1);
}

/// Of two, with calls of a quarter: gradients have come at 1/4 behind backward, and the second
/// value another half later, before the second layer's sixth.
static void test_shared(void)
{
    check_limit(BENCH_SHARDED, 1, 1, 1.0 / 2);
    check_limit(BENCH_SHARDED, 2, 1, 1 / (2.0 / 3 + 1.0 / 4 + 1.0 / 2 + 1.0 / 6));
    check_limit(BENCH_SHARDED, 12, 2, 2 / (1.0 / 18 + 2 + 1.0 / 36));
    check_limit(BENCH_SHARDED, 12, 0, 1);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_means),
        KILN_TEST(test_shared),
    };
    return kiln_test_run("unit/bench/overlap", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
