// SPDX-License-Identifier: MIT OR Apache-2.0
// Whose claim wins a block: the largest saving, ties, floors, variants and their estimates, claims
// that are no times; and how long a search may take.
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"
#include "plugin_scene.h"

static const char *const one[] = {"chain", NULL};

// ---- tournaments ----

static const char *winner_of(const char *const *plugins)
{
    static char winner[64];
    fuse_fixture f;
    snprintf(winner, sizeof(winner), "nobody");
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc a = fixture_vector(&f, 1 << 16);
        kiln_tensor_desc b = fixture_vector(&f, 1 << 16);
        (void)fixture_chain(&f, &a, &b);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (s != NULL && s->plan->n_blocks == 1) {
            snprintf(winner, sizeof(winner), "%s", s->plan->blocks[0].fuser);
        }
        fixture_done(&f, s);
    }
    fixture_close(&f);
    return winner;
}

static void every_order(const char *const *names, const char *winner)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        const char *plugins[] = {names[orders[i][0]], names[orders[i][1]], names[orders[i][2]],
                                 NULL};
        KILN_CHECK_STR(winner_of(plugins), winner);
    }
}

static void test_load_order_never_changes_the_winner(void)
{
    static const char *const names[] = {"chain_slow", "chain_fast", "chain_middle"};
    every_order(names, "test.fast/chain");
}

static void test_ties_break_by_name(void)
{
    static const char *const names[] = {"chain_equal_b", "chain_equal_c", "chain_equal_a"};
    every_order(names, "test.equal-a/chain");
}

static void test_larger_savings_win_over_a_shorter_block(void)
{
    static const char *const names[] = {"chain", "chain_short", "chain_middle"};
    every_order(names, "test.chain/chain");
}

/* A claim below what the bytes take is lifted, so boasting wins nothing but a tie. */
static void test_claims_are_floored(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 1 << 20);
        kiln_tensor_desc b = fixture_vector(&f, 1 << 20);
        (void)fixture_chain(&f, &a, &b);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL && s->plan->n_blocks == 1)) {
            double bytes = 3.0 * 4 * (1 << 20); // a, b and the result
            KILN_CHECK_NEAR((double)s->plan->blocks[0].predicted_ns, bytes / 10 + 5000, 1);
            double alone = 5 * 5000 + (3 + 2 + 2 + 2 + 3) * 4.0 * (1 << 20) / 10;
            KILN_CHECK_NEAR((double)s->plan->blocks[0].baseline_ns, alone, 1);
        }
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

/* What the first plan of a chain predicts for its only block, 0: there is none. */
static uint64_t predicted_with(const char *const *plugins, uint64_t bytes_per_s, int64_t length,
                               const char *option)
{
    fuse_fixture f;
    uint64_t predicted = 0;
    kiln_fuse_engine *engine = NULL;
    kiln_fuse_stream *stream = NULL;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    if (fixture_open(&f, plugins)) {
        KILN_CHECK_INT(kiln_config_create(&f.env.allocator, NULL, false, &f.env.config, NULL), 0);
        if (option != NULL) {
            KILN_CHECK_INT(kiln_config_set(f.env.config, option, "1", KILN_ORIGIN_FLAG, NULL), 0);
        }
        f.device.bytes_per_s = bytes_per_s;
        KILN_CHECK_INT(kiln_fuse_engine_create(f.registry, &f.device, &options, &engine, NULL), 0);
        KILN_CHECK_INT(kiln_fuse_stream_create(engine, false, &stream, NULL), 0);
        kiln_fuse_stream *own = f.stream;
        f.stream = stream;
        kiln_tensor_desc a = fixture_vector(&f, length);
        (void)fixture_chain(&f, &a, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        predicted = s != NULL && s->plan->n_blocks == 1 ? s->plan->blocks[0].predicted_ns : 0;
        fixture_done(&f, s);
        f.stream = own;
        kiln_fuse_stream_destroy(stream);
        kiln_fuse_engine_destroy(engine);
        kiln_config_destroy(f.env.config);
        f.env.config = NULL;
    }
    fixture_close(&f);
    return predicted;
}

/* A fuser may offer what it likes; only a few are asked for. */
static void test_many_variants(void)
{
    static const char *const plugins[] = {"evil_many_variants", NULL};
    fuse_fixture f;
    uint64_t start = kiln_time_ns();
    if (fixture_open(&f, plugins)) {
        const kiln_fuse_segment *segment = record_segment(&f);
        KILN_CHECK_INT(segment->plan->n_blocks, 1);
        KILN_CHECK(kiln_time_ns() - start < UINT64_C(5000000000));
        fixture_done(&f, segment);
    }
    fixture_close(&f);
}

enum { CHAINS = 20, SLOW_OPS = 24 };

/* A slow fuser, and searches that may take so many milliseconds. */
static bool slow_open(fuse_fixture *f, uint32_t search_ms, bool deterministic,
                      kiln_config **out_config)
{
    static const char *const plugins[] = {"evil_slow", NULL};
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    kiln_allocator allocator = kiln_allocator_default();
    options.search_ms = search_ms;
    KILN_CHECK_INT(kiln_config_create(&allocator, NULL, false, out_config, NULL), 0);
    if (!fixture_open(f, plugins)) {
        return false;
    }
    kiln_fuse_stream_destroy(f->stream);
    kiln_fuse_engine_destroy(f->engine);
    KILN_CHECK_INT(kiln_config_set(*out_config, "deterministic", deterministic ? "1" : "0",
                                   KILN_ORIGIN_FLAG, NULL),
                   0);
    f->env.config = *out_config;
    KILN_CHECK_INT(kiln_fuse_engine_create(f->registry, &f->device, &options, &f->engine, NULL), 0);
    KILN_CHECK_INT(kiln_fuse_stream_create(f->engine, false, &f->stream, NULL), 0);
    return true;
}

/* How many of CHAINS blocks a slow fuser gets in a search of so many milliseconds. */
static uint32_t blocks_within(uint32_t search_ms, bool deterministic)
{
    kiln_config *config = NULL;
    fuse_fixture f;
    uint32_t n_blocks = 0;
    if (slow_open(&f, search_ms, deterministic, &config)) {
        for (int i = 0; i < CHAINS; i++) {
            kiln_tensor_desc x = fixture_vector(&f, 100000);
            kiln_tensor_desc a = fixture_op(&f, KILN_OP_NEG, &x, NULL);
            (void)fixture_op(&f, KILN_OP_RELU, &a, NULL);
            fixture_drop(&f, &a);
        }
        const kiln_fuse_segment *segment = fixture_next(&f, true);
        KILN_CHECK_INT(segment->plan->n_ops, 3 * CHAINS); // all of them run, fused or not
        n_blocks = segment->plan->n_blocks;
        fixture_done(&f, segment);
    }
    fixture_close(&f);
    kiln_config_destroy(config);
    return n_blocks;
}

/* A slow fuser does not hold up the program; where plans must be the same always, only counts
 * limit it. */
static void test_a_search_ends_in_time(void)
{
    KILN_CHECK(blocks_within(1, false) < CHAINS);
    KILN_CHECK_INT(blocks_within(1, true), CHAINS);
    KILN_CHECK_INT(blocks_within(0, false), CHAINS);
}

/* Of SLOW_OPS operations in a row, asked for after each: how many have run before the end. */
static uint32_t ran_while_recording(uint32_t search_ms)
{
    kiln_config *config = NULL;
    fuse_fixture f;
    uint32_t ran = 0;
    if (slow_open(&f, search_ms, /*deterministic=*/false, &config)) {
        kiln_tensor_desc x = fixture_vector(&f, 100000);
        for (int i = 0; i < SLOW_OPS; i++) {
            x = fixture_op(&f, KILN_OP_RELU, &x, NULL);
            const kiln_fuse_segment *segment = fixture_next(&f, false);
            ran += segment != NULL ? segment->plan->n_ops : 0;
            fixture_done(&f, segment);
        }
        fixture_done(&f, fixture_next(&f, true));
    }
    fixture_close(&f);
    kiln_config_destroy(config);
    return ran;
}

/* The search of a program that is being recorded is one search: its time adds up. */
static void test_a_search_while_recording_ends_in_time(void)
{
    KILN_CHECK(ran_while_recording(3) > 0);
    KILN_CHECK_INT(ran_while_recording(0), 0);
}

static void test_deterministic_scores_need_no_measurement(void)
{
    static const uint64_t slow = 5000000000u, quick = 50000000000u;
    static const int64_t length = 1 << 20;
    KILN_CHECK(predicted_with(one, slow, length, NULL) > predicted_with(one, quick, length, NULL));
    KILN_CHECK_INT(predicted_with(one, slow, length, "deterministic"),
                   predicted_with(one, quick, length, "deterministic"));
}

static void test_fuse_slower(void)
{
    static const char *const slow[] = {"chain_early", NULL}; // 2 us for 1024 elements
    static const uint64_t quick = 1000000000000u;
    static const int64_t length = 1 << 22;
    KILN_CHECK_INT(predicted_with(slow, quick, length, NULL), 0);
    KILN_CHECK(predicted_with(slow, quick, length, "fuse-slower") > 0);
}

static void test_no_claim_is_the_roofline(void)
{
    static const char *const names[] = {"hostile_no_claim", NULL};
    KILN_CHECK_STR(winner_of(names), "test.hostile/chain");
}

/* What the first fuser of `plugins` gives as its reason over `length` elements; no strike. */
static void check_declines(const char *plugin, int64_t length, const char *reason)
{
    const char *const plugins[] = {plugin, NULL};
    fuse_fixture f;
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc a = fixture_vector(&f, length);
        (void)fixture_chain(&f, &a, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL)) {
            const kilni_fuse_plan *plan = (const kilni_fuse_plan *)s->plan;
            KILN_CHECK_INT(s->plan->n_blocks, *reason == 0);
            KILN_CHECK_CONTAINS(plan->verdicts[0].reason, reason);
        }
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

static void test_estimates_that_are_no_times(void)
{
    check_declines("hostile_claim_divides", 1 << 16, "its estimate of the time cannot be used");
    check_declines("hostile_claim_negative", 1 << 16, "ns are less than none");
}

/* A size that is past a limit at these extents only: declined as often as it is met, and fused at
 * others. */
static void test_sizes_are_no_strike(void)
{
    static const char *const plugins[] = {"hostile_narrow", NULL};
    fuse_fixture f;
    check_declines("hostile_narrow", 1 << 21, "does not fit 32 bits");
    if (fixture_open(&f, plugins)) {
        for (int64_t length = 1 << 21; length <= 1 << 26; length *= 2) {
            kiln_tensor_desc a = fixture_vector(&f, length);
            (void)fixture_chain(&f, &a, &a);
            (void)fixture_run(&f, true);
        }
        KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 0);
        kiln_tensor_desc a = fixture_vector(&f, 1 << 16);
        (void)fixture_chain(&f, &a, &a);
        (void)fixture_run(&f, true);
        KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 1);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

static void test_one_operation_is_not_worth_a_block(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 64);
        (void)fixture_op(&f, KILN_OP_NEG, &a, NULL);
        KILN_CHECK_STR(fixture_run(&f, true), "neg;");
    }
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/fusion_host/claims", KILN_TEST(test_load_order_never_changes_the_winner),
               KILN_TEST(test_ties_break_by_name),
               KILN_TEST(test_larger_savings_win_over_a_shorter_block),
               KILN_TEST(test_claims_are_floored), KILN_TEST(test_many_variants),
               KILN_TEST(test_a_search_ends_in_time),
               KILN_TEST(test_a_search_while_recording_ends_in_time),
               KILN_TEST(test_deterministic_scores_need_no_measurement),
               KILN_TEST(test_fuse_slower), KILN_TEST(test_no_claim_is_the_roofline),
               KILN_TEST(test_estimates_that_are_no_times), KILN_TEST(test_sizes_are_no_strike),
               KILN_TEST(test_one_operation_is_not_worth_a_block))
