// SPDX-License-Identifier: MIT OR Apache-2.0
// What tournaments conclude from noisy times: who is faster whatever the noise, when that is sure,
// and that what is equal is found equal rather than decided by chance.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rt_execute.h"
#include "rt_tune.h"

static kiln_env env;
static uint64_t state;

static double chance(void) // splitmix64, in [0, 1)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/// A round on a loaded machine: its load slows all alike, and now and then one sample alone, a lot.
static void play(kilni_scores *scores, const double *true_ns)
{
    double load = 1 + 2 * chance();
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        double own = chance() < 0.2 ? 1 + 3 * chance() : 1 + 0.03 * chance();
        bool part = !scores->entries[i].failed && !scores->entries[i].out;
        scores->entries[i].ns[scores->rounds] = part ? (float)(true_ns[i] * load * own) : 0;
    }
    scores->rounds++;
}

static void open_scores(kilni_scores *scores, uint32_t n)
{
    env.allocator = kiln_allocator_default();
    *scores = (kilni_scores){0};
    KILN_CHECK(kilni_scores_begin(scores, &env, n));
}

static void test_the_fastest_is_found_under_load(void)
{
    static const double ns[] = {10000, 10800, 20000};
    uint32_t right = 0, sure = 0, most = 0;
    for (int seed = 0; seed < 200; seed++) {
        kilni_scores scores;
        state = (uint64_t)seed;
        open_scores(&scores, 3);
        while (scores.rounds < KILNI_TUNE_ROUNDS &&
               !(scores.rounds >= 8 && kilni_scores_sure(&scores))) {
            play(&scores, ns);
            if (scores.rounds >= 8) {
                kilni_scores_leave_out(&scores);
            }
        }
        right += kilni_scores_fastest(&scores) == 0;
        sure += scores.rounds < KILNI_TUNE_ROUNDS;
        most = scores.rounds > most ? scores.rounds : most;
        kilni_scores_fini(&scores, &env);
    }
    KILN_CHECK(right >= 195);
    KILN_CHECK(sure == 200);
    KILN_CHECK(most > 8); // some need more rounds than the least
}

/// The interval holds the true ratio as often as it says.
static void test_the_interval_is_honest(void)
{
    static const double ns[] = {10000, 10400};
    uint32_t inside = 0;
    for (int seed = 0; seed < 1000; seed++) {
        kilni_scores scores;
        state = (uint64_t)seed + 5000;
        open_scores(&scores, 2);
        for (int i = 0; i < 24; i++) {
            play(&scores, ns);
        }
        kiln_ratio r = kilni_score_ratio(&scores.entries[1], &scores.entries[0], scores.rounds);
        KILN_CHECK(r.low <= r.median && r.median <= r.high);
        inside += r.low <= 1.04 && 1.04 <= r.high;
        kilni_scores_fini(&scores, &env);
    }
    KILN_CHECK(inside >= 940);
}

static void test_equals_are_equal(void)
{
    static const double ns[] = {10000, 10000};
    double worst = 0;
    for (int seed = 0; seed < 100; seed++) {
        kilni_scores scores;
        uint64_t times[2];
        state = (uint64_t)seed + 9000;
        open_scores(&scores, 2);
        while (scores.rounds < KILNI_TUNE_ROUNDS) {
            play(&scores, ns);
        }
        KILN_CHECK(kilni_scores_sure(&scores));
        kilni_scores_times(&scores, times);
        worst = fmax(worst, fabs((double)times[0] / (double)times[1] - 1));
        kilni_scores_fini(&scores, &env);
    }
    KILN_CHECK(worst < 0.03); // below what a rival must be ahead
}

static void test_few_rounds_are_never_sure(void)
{
    static const double ns[] = {10000, 10000};
    kilni_scores scores;
    state = 1;
    open_scores(&scores, 2);
    for (int i = 0; i < 5; i++) {
        KILN_CHECK(!kilni_scores_sure(&scores));
        play(&scores, ns);
    }
    KILN_CHECK(!kilni_scores_sure(&scores));
    kilni_scores_fini(&scores, &env);
}

static void test_who_fails_or_is_hopeless_takes_no_part(void)
{
    static const double ns[] = {1000, 10000, 50000};
    kilni_scores scores;
    uint64_t times[3];
    state = 7;
    open_scores(&scores, 3);
    for (int i = 0; i < 12; i++) {
        play(&scores, ns);
    }
    scores.entries[0].failed = true;
    KILN_CHECK_INT(kilni_scores_fastest(&scores), 1);
    kilni_scores_leave_out(&scores);
    KILN_CHECK(scores.entries[2].out && !scores.entries[1].out);
    KILN_CHECK(kilni_scores_sure(&scores));
    for (int i = 0; i < 12; i++) {
        play(&scores, ns);
    }
    kilni_scores_times(&scores, times);
    KILN_CHECK_INT(times[0], 0);
    KILN_CHECK(times[2] > 3 * times[1]); // its times of before are still told
    scores.entries[1].failed = scores.entries[2].failed = true;
    KILN_CHECK_INT(kilni_scores_fastest(&scores), 3);
    kilni_scores_times(&scores, times);
    KILN_CHECK_INT(times[0] + times[1] + times[2], 0);
    kilni_scores_fini(&scores, &env);
}

KILN_TEST_MAIN("unit/runtime/tune_scores", KILN_TEST(test_the_fastest_is_found_under_load),
               KILN_TEST(test_the_interval_is_honest), KILN_TEST(test_equals_are_equal),
               KILN_TEST(test_few_rounds_are_never_sure),
               KILN_TEST(test_who_fails_or_is_hopeless_takes_no_part))
