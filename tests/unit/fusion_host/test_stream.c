// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams without fusers: what is handed out and when, what dies where, and how plans are found
// again.
#include "fuse_fixture.h"

static void test_nothing_recorded(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        KILN_CHECK(fixture_next(&f, false) == NULL);
        KILN_CHECK(fixture_next(&f, true) == NULL);
        KILN_CHECK_INT(kiln_fuse_stream_pending(f.stream), 0);
    }
    fixture_close(&f);
}

static void test_waits_for_drops(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        KILN_CHECK_STR(fixture_run(&f, false), "");
        fixture_drop(&f, &a);
        KILN_CHECK_STR(fixture_run(&f, false), "");
        (void)fixture_op(&f, KILN_OP_EXP, &b, NULL);
        KILN_CHECK_STR(fixture_run(&f, false), "neg-1;");
        KILN_CHECK_INT(kiln_fuse_stream_pending(f.stream), 1);
        fixture_drop(&f, &b);
        KILN_CHECK_STR(fixture_run(&f, true), "exp-2;");
    }
    fixture_close(&f);
}

static void test_drop_without_use(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        kiln_tensor_desc b = fixture_vector(&f, 8);
        fixture_drop(&f, &a);
        KILN_CHECK_STR(fixture_run(&f, true), "drop-1;");
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_NEG, &b, NULL);
        kiln_tensor_desc d = fixture_vector(&f, 5);
        fixture_drop(&f, &d);
        fixture_drop(&f, &c);
        KILN_CHECK_STR(fixture_run(&f, true), "drop-3-4;"); // nobody has read c
        kiln_tensor_desc e = fixture_op(&f, KILN_OP_NEG, &b, NULL);
        kiln_tensor_desc g = fixture_op(&f, KILN_OP_ABS, &e, NULL);
        kiln_tensor_desc h = fixture_op(&f, KILN_OP_ABS, &g, NULL);
        fixture_drop(&f, &e);
        fixture_drop(&f, &h);
        KILN_CHECK_STR(fixture_run(&f, true), "neg abs-5-7;");
        fixture_drop(&f, &g);
    }
    fixture_close(&f);
}

static void test_dies_after_last_use(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        (void)fixture_op(&f, KILN_OP_ADD, &c, &c);
        fixture_drop(&f, &a);
        fixture_drop(&f, &b);
        KILN_CHECK_STR(fixture_run(&f, true), "neg-1 exp-2 add;");
    }
    fixture_close(&f);
}

static void program(fuse_fixture *f, int64_t length, double scalar)
{
    kiln_tensor_desc a = fixture_vector(f, length);
    kiln_tensor_desc b = fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, scalar);
    kiln_tensor_desc c = fixture_op(f, KILN_OP_MUL, &b, &a);
    fixture_drop(f, &b);
    fixture_drop(f, &c);
}

static void test_plan_is_found_again(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        program(&f, 8, 1.5);
        (void)fixture_run(&f, true);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 1);
        program(&f, 24, 2.5); // another size of the same class, another scalar
        const kiln_fuse_segment *s = fixture_next(&f, true);
        KILN_CHECK(s != NULL);
        if (s != NULL) {
            KILN_CHECK_INT(s->symbols[0], 1);
            KILN_CHECK_INT(s->symbols[1], 24);
            KILN_CHECK_NEAR(s->scalars[0].v.f, 2.5, 0);
            KILN_CHECK_INT((uintptr_t)s->tokens[0], 4);
            KILN_CHECK_INT(s->plan->n_tensors, 3);
            KILN_CHECK_INT((uintptr_t)s->operands[1][2], 6);
        }
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 1);
        KILN_CHECK_INT(fixture_stats(&f).plans_found, 1);
        program(&f, 32, 2.5); // divisible by 16: other facts, another plan
        (void)fixture_run(&f, true);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 2);
    }
    fixture_close(&f);
}

static void test_no_allocation_when_repeated(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        for (int i = 0; i < 3; i++) {
            program(&f, 8, 1.5);
            (void)fixture_run(&f, true);
        }
        uint64_t before = f.allocations;
        for (int i = 0; i < 100; i++) {
            program(&f, 8, i);
            (void)fixture_run(&f, true);
        }
        KILN_CHECK_INT(f.allocations - before, 0);
    }
    fixture_close(&f);
}

static void test_long_segment_is_cut(void)
{
    fuse_fixture f;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.max_segment = 4;
    if (fixture_open_with(&f, NULL, &options, /*whole=*/false)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        for (int i = 0; i < 10; i++) {
            a = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        }
        KILN_CHECK_STR(fixture_run(&f, true), "neg neg neg neg; neg neg neg neg; neg neg;");
    }
    fixture_close(&f);
}

static void test_whole_waits_for_drain(void)
{
    fuse_fixture f;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.max_segment = 4;
    if (fixture_open_with(&f, NULL, &options, /*whole=*/true)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        for (int i = 0; i < 10; i++) {
            a = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        }
        KILN_CHECK_STR(fixture_run(&f, false), "");
        const kiln_fuse_segment *s = fixture_next(&f, true);
        KILN_CHECK(s != NULL && s->plan->n_ops == 10);
        KILN_CHECK(s != NULL && s->plan->n_steps == 10);
        // Not done: the segment is kept as a graph does; destroying the stream lets it go.
    }
    fixture_close(&f);
}

/// Chains of twenty lengths, three times.
static void run_chains(fuse_fixture *f)
{
    for (int round = 0; round < 3; round++) {
        for (int length = 1; length <= 20; length++) {
            kiln_tensor_desc a = fixture_vector(f, 8);
            for (int i = 0; i < length; i++) {
                a = fixture_op(f, KILN_OP_NEG, &a, NULL);
            }
            (void)fixture_run(f, true);
        }
    }
}

static void test_plans_are_bounded(void)
{
    fuse_fixture f;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.max_plans = 8;
    if (fixture_open_with(&f, NULL, &options, /*whole=*/false)) {
        run_chains(&f);
        KILN_CHECK_INT(fixture_stats(&f).plans_kept, 8);
        KILN_CHECK(f.engine->plans.n_nodes <= 8 * 20);
    }
    fixture_close(&f);
}

static uint64_t plans_kept_under(const char *limit)
{
    fuse_fixture f;
    uint64_t kept = 0;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    if (fixture_open(&f, NULL)) {
        kiln_fuse_engine *engine = f.engine;
        kiln_fuse_stream *stream = f.stream;
        KILN_CHECK_INT(kiln_config_create(&f.env.allocator, NULL, false, &f.env.config, NULL), 0);
        KILN_CHECK_INT(kiln_config_set(f.env.config, "plan-limit", limit, KILN_ORIGIN_FLAG, NULL),
                       0);
        KILN_CHECK_INT(kiln_fuse_engine_create(f.registry, &f.device, &options, &f.engine, NULL),
                       0);
        KILN_CHECK_INT(kiln_fuse_stream_create(f.engine, false, &f.stream, NULL), 0);
        run_chains(&f);
        kept = fixture_stats(&f).plans_kept;
        kiln_fuse_stream_destroy(f.stream);
        kiln_fuse_engine_destroy(f.engine);
        kiln_config_destroy(f.env.config);
        f.env.config = NULL;
        f.engine = engine;
        f.stream = stream;
    }
    fixture_close(&f);
    return kept;
}

static void test_plans_are_bounded_by_an_option(void)
{
    KILN_CHECK_INT(plans_kept_under("5"), 5);
    KILN_CHECK_INT(plans_kept_under("0"), 1); // the one at hand
    KILN_CHECK_INT(plans_kept_under("1000000M"), 20);
}

static void test_equal_hashes_do_not_mix(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        f.engine->plans.hash_mask = 0; // every edge collides
        const kiln_op ops[] = {KILN_OP_NEG, KILN_OP_EXP, KILN_OP_ABS, KILN_OP_SQRT};
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < 4; i++) {
                for (size_t k = 0; k < 4; k++) {
                    kiln_tensor_desc a = fixture_vector(&f, 8);
                    a = fixture_op(&f, ops[i], &a, NULL);
                    (void)fixture_op(&f, ops[k], &a, NULL);
                    const kiln_fuse_segment *s = fixture_next(&f, true);
                    KILN_CHECK(s != NULL && s->plan->n_ops == 2);
                    fixture_done(&f, s);
                }
            }
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 16);
        KILN_CHECK_INT(fixture_stats(&f).plans_found, 16);
    }
    fixture_close(&f);
}

static void test_second_segment_before_done(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        (void)fixture_op(&f, KILN_OP_NEG, &a, NULL);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        const kiln_fuse_segment *second = NULL;
        KILN_CHECK_INT(kiln_fuse_stream_next(f.stream, true, &second, NULL),
                       KILN_STATUS_FAILED_PRECONDITION);
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

static void test_push_while_a_segment_runs(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 8);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        fixture_drop(&f, &a);
        (void)fixture_op(&f, KILN_OP_EXP, &b, NULL);
        KILN_CHECK_INT(kiln_fuse_stream_pending(f.stream), 2);
        KILN_CHECK(s != NULL && s->plan->n_ops == 1);
        fixture_done(&f, s);
        KILN_CHECK_INT(kiln_fuse_stream_pending(f.stream), 2);
        KILN_CHECK_STR(fixture_run(&f, true), "drop-1 exp;");
    }
    fixture_close(&f);
}

/* [rows, columns] times a number, and a row of the same columns added; what was looked for, or
 * found */
static bool finds(fuse_fixture *f, int64_t rows, int64_t columns)
{
    const int64_t whole[] = {rows, columns};
    const int64_t row[] = {1, columns};
    uint64_t searched = fixture_stats(f).plans_searched;
    kiln_tensor_desc a = fixture_input(f, 2, whole);
    kiln_tensor_desc b = fixture_input(f, 2, row);
    kiln_tensor_desc c = fixture_scalar_op(f, KILN_OP_MUL_SCALAR, &a, 2);
    (void)fixture_op(f, KILN_OP_ADD, &c, &b);
    KILN_CHECK(fixture_next(f, false) == NULL);
    const kiln_fuse_segment *s = fixture_next(f, true);
    if (KILN_CHECK(s != NULL)) {
        KILN_CHECK_INT(s->plan->n_symbols, 3);
        KILN_CHECK_INT(s->symbols[0], 1);
        KILN_CHECK_INT(s->symbols[1], rows);
        KILN_CHECK_INT(s->symbols[2], columns);
    }
    fixture_done(f, s);
    return fixture_stats(f).plans_searched == searched;
}

static void test_lengths_that_vary(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        KILN_CHECK(!kiln_fuse_stream_vary(f.stream, true));
        KILN_CHECK(!finds(&f, 5, 7));
        KILN_CHECK(finds(&f, 6, 7));
        KILN_CHECK(finds(&f, 16, 7)); // divides by 16, and is in another class of sizes
        KILN_CHECK(finds(&f, 7, 7)); // equal by chance
        KILN_CHECK(finds(&f, 79, 111));
        KILN_CHECK(!finds(&f, 5 * 16 + 16, 7)); // too long for that plan, and divides by 16
        KILN_CHECK(finds(&f, 5 * 16 + 32, 7));
        KILN_CHECK(finds(&f, 5 * 16 + 33, 7)); // which is no longer so: as the first, to the word
        KILN_CHECK(kiln_fuse_stream_vary(f.stream, false));
    }
    fixture_close(&f);
}

static bool finds_row(fuse_fixture *f, int64_t columns)
{
    uint64_t searched = fixture_stats(f).plans_searched;
    kiln_tensor_desc a = fixture_vector(f, columns);
    (void)fixture_op(f, KILN_OP_NEG, &a, NULL);
    fixture_done(f, fixture_next(f, true));
    return fixture_stats(f).plans_searched == searched;
}

/* Nothing is broadcast that was not, and the other way round; so with what is empty. */
static void test_lengths_of_one_and_none(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        (void)kiln_fuse_stream_vary(f.stream, true);
        KILN_CHECK(!finds_row(&f, 3));
        KILN_CHECK(!finds_row(&f, 1));
        KILN_CHECK(!finds_row(&f, 0));
        KILN_CHECK(finds_row(&f, 2));
        KILN_CHECK(finds_row(&f, 1));
        KILN_CHECK(finds_row(&f, 0));
    }
    fixture_close(&f);
}

/* Plans that go are not found by their form either. */
static void test_varying_plans_are_bounded(void)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.max_plans = 2;
    fuse_fixture f;
    if (fixture_open_with(&f, NULL, &options, false)) {
        (void)kiln_fuse_stream_vary(f.stream, true);
        KILN_CHECK(!finds_row(&f, 3));
        KILN_CHECK(!finds_row(&f, 1));
        KILN_CHECK(!finds_row(&f, 0));
        KILN_CHECK(finds_row(&f, 1));
        KILN_CHECK(!finds_row(&f, 3));
        KILN_CHECK(finds_row(&f, 9));
    }
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/fusion_host/stream", KILN_TEST(test_nothing_recorded),
               KILN_TEST(test_waits_for_drops), KILN_TEST(test_drop_without_use),
               KILN_TEST(test_dies_after_last_use), KILN_TEST(test_plan_is_found_again),
               KILN_TEST(test_no_allocation_when_repeated), KILN_TEST(test_long_segment_is_cut),
               KILN_TEST(test_whole_waits_for_drain), KILN_TEST(test_plans_are_bounded),
               KILN_TEST(test_plans_are_bounded_by_an_option),
               KILN_TEST(test_equal_hashes_do_not_mix), KILN_TEST(test_second_segment_before_done),
               KILN_TEST(test_push_while_a_segment_runs), KILN_TEST(test_lengths_that_vary),
               KILN_TEST(test_lengths_of_one_and_none), KILN_TEST(test_varying_plans_are_bounded))
