// SPDX-License-Identifier: MIT OR Apache-2.0
// The search with fusers: which operations become blocks, what dies, when to wait, and what happens
// to fusers and programs that fail. Who wins, test_claims.c asks.
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"
#include "plugin_scene.h"

static const char *const one[] = {"chain", NULL};

static void test_one_block(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        kiln_tensor_desc b = fixture_vector(&f, 1024);
        kiln_tensor_desc y = fixture_chain(&f, &a, &b);
        KILN_CHECK_STR(fixture_run(&f, false), "");
        fixture_drop(&f, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL && s->plan->n_blocks == 1)) {
            const kiln_plan_block *block = &s->plan->blocks[0];
            KILN_CHECK_INT(s->plan->n_ops, 10);
            KILN_CHECK_INT(block->n_ops, 10);
            KILN_CHECK_INT(block->n_tensors, 7);
            KILN_CHECK_INT(block->n_scalars, 2);
            KILN_CHECK_INT(block->n_symbols, 2);
            KILN_CHECK_INT(s->symbols[block->symbols[1]], 1024);
            KILN_CHECK_NEAR(s->scalars[block->scalars[1]].v.f, 0.5, 0);
            KILN_CHECK_STR(block->fuser, "test.chain/chain");
            KILN_CHECK_INT(block->program->n_launches, 1);
            KILN_CHECK_INT(block->program->launches[0].n_args, 5); // a, b, the result, two scalars
            KILN_CHECK_INT(block->program->flags,
                           KILN_PROGRAM_DETERMINISTIC | KILN_PROGRAM_IN_PLACE_SAFE);
            uint32_t result = block->tensors[block->program->launches[0].args[2].ref];
            KILN_CHECK_INT((uintptr_t)s->tokens[result], y.id);
            KILN_CHECK_INT(s->plan->n_steps, 1);
            KILN_CHECK_INT(s->plan->steps[0].n_dies, 5); // a and the four intermediates
            KILN_CHECK(block->baseline_ns > block->predicted_ns);
        }
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).ops_fused, 5);
        KILN_CHECK_INT(fixture_stats(&f).ops_recorded, 5);
    }
    fixture_close(&f);
}

static void test_blocks_and_holes(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_input(&f, 2, square);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        kiln_tensor_desc d = fixture_op(&f, KILN_OP_MATMUL, &c, &a);
        kiln_tensor_desc e = fixture_op(&f, KILN_OP_RELU, &d, NULL);
        kiln_tensor_desc g = fixture_op(&f, KILN_OP_ADD, &e, &d);
        fixture_drop(&f, &c);
        fixture_drop(&f, &d);
        fixture_drop(&f, &e);
        (void)g;
        KILN_CHECK_STR(fixture_run(&f, true),
                       "test.chain/chain[0+2] matmul-3 test.chain/chain[3/4]-4-5;");
    }
    fixture_close(&f);
}

/* As operations come, a block leaves as soon as it is settled: nothing of the last few operations
 * joined it, and something follows it. */
static void test_hands_out_early(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_input(&f, 2, square);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        KILN_CHECK_STR(fixture_run(&f, false), "");
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        fixture_drop(&f, &b);
        kiln_tensor_desc d = c;
        for (int i = 0; i < KILNI_FUSE_PATIENCE - 1; i++) {
            d = fixture_op(&f, KILN_OP_MATMUL, &d, &a);
            KILN_CHECK_STR(fixture_run(&f, false), "");
        }
        d = fixture_op(&f, KILN_OP_MATMUL, &d, &a);
        KILN_CHECK_STR(fixture_run(&f, false),
                       "test.chain/chain[0+3]-2 matmul matmul matmul matmul matmul;");
        KILN_CHECK_INT(kiln_fuse_stream_pending(f.stream), 1);
        fixture_drop(&f, &c);
        KILN_CHECK_STR(fixture_run(&f, false), "");
        (void)fixture_op(&f, KILN_OP_RELU, &d, NULL);
        KILN_CHECK_STR(fixture_run(&f, false), "matmul-3;");
        KILN_CHECK_STR(fixture_run(&f, true), "relu;");
    }
    fixture_close(&f);
}

// ---- blocks between others ----

static void test_interleaved_blocks_both_fuse(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        kiln_tensor_desc b = fixture_vector(&f, 500);
        for (int i = 0; i < 3; i++) {
            a = fixture_op(&f, KILN_OP_NEG, &a, NULL);
            b = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        }
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0/3] test.chain/chain[1/3];");
    }
    fixture_close(&f);
}

/* Views, creations, casts to another dtype and other operators in between do not end a block. */
static void test_others_do_not_break_a_block(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc m = fixture_input(&f, 2, square);
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        const kiln_attr axes = {.type = KILN_ATTR_I64_LIST};
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc t = fixture_record(&f, KILN_OP_PERMUTE, &m, 1, &axes, 1);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        fixture_drop(&f, &b);
        (void)fixture_op(&f, KILN_OP_MATMUL, &t, &m);
        fixture_drop(&f, &t);
        (void)fixture_op(&f, KILN_OP_RELU, &c, NULL);
        fixture_drop(&f, &c);
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0/5]-3-5 permute matmul-4;");
    }
    fixture_close(&f);
}

/* Two chains that meet are one block; the reader in the middle runs behind it. */
static void test_blocks_merge(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc x = fixture_input(&f, 2, square);
        kiln_tensor_desc y = fixture_input(&f, 2, square);
        kiln_tensor_desc a = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_EXP, &y, NULL);
        (void)fixture_op(&f, KILN_OP_MATMUL, &a, &b);
        (void)fixture_op(&f, KILN_OP_ADD, &a, &b);
        fixture_drop(&f, &a); // read by the product too: the block must write it
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0/3] matmul-3;");
    }
    fixture_close(&f);
}

/* What depends on an operation that depends on the block cannot be in it. */
static void test_no_block_depends_on_itself(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc x = fixture_input(&f, 2, square);
        kiln_tensor_desc a = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_EXP, &a, NULL);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_MATMUL, &b, &x);
        kiln_tensor_desc d = fixture_op(&f, KILN_OP_ADD, &c, &a);
        (void)fixture_op(&f, KILN_OP_RELU, &d, NULL);
        (void)fixture_op(&f, KILN_OP_RELU, &b, NULL);
        KILN_CHECK_STR(fixture_run(&f, true),
                       "test.chain/chain[0/3] matmul test.chain/chain[3+2];");
    }
    fixture_close(&f);
}

static kiln_tensor_desc reshaped(fuse_fixture *f, const kiln_tensor_desc *x, uint32_t rank)
{
    static const int64_t shapes[3][2] = {{0}, {1024}, {32, 32}};
    const kiln_attr shape = {.type = KILN_ATTR_I64_LIST, .count = rank, .v.ints = shapes[rank]};
    return fixture_record(f, KILN_OP_RESHAPE, x, 1, &shape, 1);
}

/* Blocks between which dependences ran both ways would wait for each other: the second takes only
 * what does not close the circle, and the first waits for what it needs. */
static void test_two_blocks_never_wait_for_each_other(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc x = fixture_vector(&f, 1024);
        kiln_tensor_desc y = fixture_input(&f, 2, square);
        kiln_tensor_desc a1 = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        kiln_tensor_desc b1 = fixture_op(&f, KILN_OP_EXP, &y, NULL);
        kiln_tensor_desc to_a = reshaped(&f, &b1, 1);
        kiln_tensor_desc to_b = reshaped(&f, &a1, 2);
        kiln_tensor_desc a2 = fixture_op(&f, KILN_OP_ADD, &a1, &to_a);
        kiln_tensor_desc b2 = fixture_op(&f, KILN_OP_ADD, &b1, &to_b);
        (void)fixture_op(&f, KILN_OP_RELU, &a2, NULL);
        (void)fixture_op(&f, KILN_OP_RELU, &b2, NULL);
        KILN_CHECK_STR(fixture_run(&f, true), "exp reshape test.chain/chain[0/3] reshape "
                                              "test.chain/chain[5/2];");
    }
    fixture_close(&f);
}

/* Blocks are the same whether the runtime looks after each operation, sometimes, or only at the
 * end. */
static void test_grouping_does_not_depend_on_when_one_looks(void)
{
    const int64_t square[] = {32, 32};
    uint64_t blocks[3];
    uint64_t ops[3];
    for (int way = 0; way < 3; way++) {
        fuse_fixture f;
        blocks[way] = 0;
        ops[way] = 0;
        if (fixture_open(&f, one)) {
            kiln_tensor_desc a = fixture_input(&f, 2, square);
            for (int i = 0; i < 30; i++) {
                bool hole = i % 7 == 6;
                kiln_tensor_desc b = fixture_op(&f, hole ? KILN_OP_MATMUL : KILN_OP_ADD, &a, &a);
                fixture_drop(&f, &a);
                a = b;
                if (way == 0 || (way == 1 && i % 5 == 0)) {
                    (void)fixture_run(&f, false);
                }
            }
            (void)fixture_run(&f, true);
            blocks[way] = fixture_stats(&f).blocks_fused;
            ops[way] = fixture_stats(&f).ops_fused;
        }
        fixture_close(&f);
    }
    KILN_CHECK_INT(blocks[0], 5);
    KILN_CHECK_INT(ops[0], 26);
    KILN_CHECK_INT(blocks[1], blocks[0]);
    KILN_CHECK_INT(blocks[2], blocks[0]);
    KILN_CHECK_INT(ops[1], ops[0]);
    KILN_CHECK_INT(ops[2], ops[0]);
}

static void test_repeated_needs_no_fuser_and_no_memory(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        uint64_t allocations = 0;
        kiln_fuse_stats before = {0};
        for (int step = 0; step < 50; step++) {
            if (step == 4) {
                before = fixture_stats(&f);
                allocations = f.allocations;
            }
            kiln_tensor_desc a = fixture_vector(&f, 1024);
            kiln_tensor_desc b = fixture_vector(&f, 1024);
            kiln_tensor_desc y = fixture_chain(&f, &a, &b);
            (void)fixture_run(&f, false);
            fixture_drop(&f, &a);
            fixture_drop(&f, &b);
            fixture_drop(&f, &y);
            (void)fixture_run(&f, true);
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, before.plans_searched);
        KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 50);
        KILN_CHECK_INT(f.allocations, allocations);
    }
    fixture_close(&f);
}

/* A tensor without elements is the host's own business. */
static void test_no_fuser_sees_an_empty_tensor(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 0);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        (void)fixture_op(&f, KILN_OP_EXP, &b, NULL);
        KILN_CHECK_STR(fixture_run(&f, true), "neg exp;");
    }
    fixture_close(&f);
}

// ---- guards ----

static void run_pair(fuse_fixture *f, int64_t length, double scalar)
{
    kiln_tensor_desc a = fixture_vector(f, length);
    kiln_tensor_desc b = fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, scalar);
    kiln_tensor_desc c = fixture_op(f, KILN_OP_EXP, &b, NULL);
    fixture_drop(f, &b);
    fixture_drop(f, &c);
    fixture_drop(f, &a);
    (void)fixture_run(f, true);
}

static void check_searches(const char *plugin, const int64_t *lengths, const double *scalars,
                           uint64_t n, uint64_t searches)
{
    fuse_fixture f;
    const char *const plugins[] = {plugin, NULL};
    if (fixture_open(&f, plugins)) {
        for (uint64_t i = 0; i < n; i++) {
            run_pair(&f, lengths[i], scalars[i]);
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, searches);
        KILN_CHECK_INT(fixture_stats(&f).plans_found, n - searches);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

static void test_asked_extents_become_guards(void)
{
    static const int64_t lengths[] = {64, 80, 64, 96, 80, 96};
    static const double scalars[] = {1, 2, 3, 4, 5, 6};
    check_searches("chain", lengths, scalars, 6, 1);
    check_searches("hostile_asks", lengths, scalars, 6, 3);
}

static void test_asked_scalars_become_guards(void)
{
    static const int64_t lengths[] = {64, 80, 64, 96, 80, 96};
    static const double scalars[] = {1, 1, 2, 2, 1, 3};
    check_searches("hostile_asks_scalar", lengths, scalars, 6, 3);
}

/* A program that serves only small shapes is not used for others, and its fuser is not blamed when
 * it says so. */
static void test_program_guard(void)
{
    fuse_fixture f;
    static const char *const plugins[] = {"hostile_guard", NULL};
    if (fixture_open(&f, plugins)) {
        run_pair(&f, 1008, 1);
        run_pair(&f, 512, 1);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 1);
        run_pair(&f, 1024, 1);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 2);
        run_pair(&f, 2032, 1); // of the last one's class, but beyond its guard
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 3);
        run_pair(&f, 512, 1);
        run_pair(&f, 1024, 1);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 3);
    }
    fixture_close(&f);
}

/* The reasons that are given for the next segment. */
static void check_explained(fuse_fixture *f, const char *reason)
{
    const kiln_fuse_segment *s = fixture_next(f, true);
    kiln_string text;
    kiln_string_init(&text, &f->env);
    KILN_CHECK_INT(kiln_fuse_explain(f->engine, s, 0, &text, NULL), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(text.text, reason);
    kiln_string_fini(&text);
    fixture_done(f, s);
}

/* A block may run more than once, to be measured or compared: no collective is in one. */
static void test_no_fuser_sees_a_collective(void)
{
    fuse_fixture f;
    static const char *const plugins[] = {"hostile_pries", NULL};
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc a = fixture_vector(&f, 64);
        const kiln_attr attrs[] = {{KILN_ATTR_STRING, 3, {.text = "sum"}},
                                   {KILN_ATTR_I64, 1, {.i = 1}},
                                   {KILN_ATTR_I64, 1, {.i = 0}}};
        (void)fixture_record(&f, KILN_OP_ALL_REDUCE, &a, 1, attrs, 3);
        check_explained(&f, "runs unfused");
    }
    fixture_close(&f);
}

/* What a graph draws at each run is no value to plan for; what was drawn is. */
static void test_no_fuser_knows_later_draws(void)
{
    fuse_fixture f;
    static const char *const plugins[] = {"hostile_pries", NULL};
    if (fixture_open(&f, plugins)) {
        int64_t dims[] = {64};
        kiln_attr attrs[7] = {{KILN_ATTR_I64_LIST, 1, {.ints = dims}},
                              {KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F32}},
                              {KILN_ATTR_F64, 1, {.f = 0}},
                              {KILN_ATTR_F64, 1, {.f = 1}}};
        (void)fixture_record(&f, KILN_OP_RANDOM_UNIFORM, NULL, 0, attrs, 7);
        check_explained(&f, "was not told the seed");
        for (int i = 4; i < 7; i++) {
            attrs[i] = (kiln_attr){KILN_ATTR_I64, 1, {.i = i}};
        }
        dims[0] = 4096; // another class of sizes: a search of its own
        (void)fixture_record(&f, KILN_OP_RANDOM_UNIFORM, NULL, 0, attrs, 7);
        check_explained(&f, "was told the seed");
    }
    fixture_close(&f);
}

/* The operations that a search may show grow with the segment. */
static void test_long_segments_are_fused_to_their_end(void)
{
    enum { OPS = 12000 };
    fuse_fixture f;
    static const char *const plugins[] = {
        "chain",      "chain_slow",    "chain_fast",    "chain_middle",  "chain_early",
        "chain_late", "chain_equal_a", "chain_equal_b", "chain_equal_c", NULL};
    const kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    if (fixture_open_with(&f, plugins, &options, true)) {
        kiln_tensor_desc a = fixture_vector(&f, 4096);
        for (int i = 0; i < OPS; i++) {
            kiln_tensor_desc b = fixture_op(&f, i % 2 != 0 ? KILN_OP_EXP : KILN_OP_NEG, &a, NULL);
            fixture_drop(&f, &a);
            a = b;
        }
        const kiln_fuse_segment *s = fixture_next(&f, true);
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).ops_fused, OPS);
    }
    fixture_close(&f);
}

/* More extents in a block than most have: its guard is evaluated all the same. */
static void test_guard_of_many_symbols(void)
{
    enum { MANY = 70 };
    fuse_fixture f;
    kilni_fuse_plan_store store;
    kiln_arena arena;
    int64_t facts[KILN_FACT_COUNT] = {0}, values[MANY] = {0};
    uint32_t symbols[MANY];
    const kiln_formula_step last = {.code = KILN_F_SYM, .sym = MANY - 1};
    const kiln_program program = {.guard = {&last, 1}};
    const kilni_fuse_recorded recorded = {.symbols = values};
    fixture_prepare(&f);
    kiln_arena_init(&arena, &f.env);
    KILN_CHECK_INT(kilni_fuse_plan_store_init(&store, &f.env, facts, 4, NULL), KILN_STATUS_OK);
    kilni_fuse_plan *plan = kiln_arena_alloc(&arena, sizeof(*plan));
    kiln_plan_block *block = kiln_arena_alloc(&arena, sizeof(*block));
    for (uint32_t i = 0; i < MANY; i++) {
        symbols[i] = i;
    }
    *block = (kiln_plan_block){.program = &program, .symbols = symbols, .n_symbols = MANY};
    *plan = (kilni_fuse_plan){.plan = {.blocks = block, .n_blocks = 1}, .guarded = true};
    plan->arena = arena;
    kilni_fuse_plan_store_insert(&store, store.root, plan);
    KILN_CHECK(kilni_fuse_plan_store_find(&store, store.root, false, &recorded, 0) == NULL);
    values[MANY - 1] = 1;
    KILN_CHECK(kilni_fuse_plan_store_find(&store, store.root, false, &recorded, 0) == plan);
    kilni_fuse_plan_store_fini(&store);
    fixture_close(&f);
}

// ---- failures ----

static void test_three_strikes(void)
{
    fuse_fixture f;
    static const char *const plugins[] = {"hostile_late_len", "chain_slow", NULL};
    if (fixture_open(&f, plugins)) {
        for (int64_t length = 1 << 10; length <= 1 << 14; length *= 2) {
            // Each length starts with other operations, so that each is a search of its own.
            kiln_tensor_desc a = fixture_vector(&f, length);
            for (int64_t i = 1 << 10; i < length; i *= 2) {
                a = fixture_op(&f, KILN_OP_ABS, &a, NULL);
            }
            (void)fixture_chain(&f, &a, &a);
            (void)fixture_run(&f, true);
        }
        KILN_CHECK_INT(fixture_stats(&f).strikes, 3);
        KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 5); // by the other one
        kiln_tensor_desc a = fixture_vector(&f, 3);
        (void)fixture_chain(&f, &a, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        kiln_string text;
        kiln_string_init(&text, &f.env);
        KILN_CHECK_INT(kiln_fuse_explain(f.engine, s, 0, &text, NULL), KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(text.text, "test.hostile/chain: disabled after three failures");
        KILN_CHECK_INT(atomic_load(&f.registry->epoch), 1); // other engines look again, too
        kiln_string_fini(&text);
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

static void test_failed_block_is_not_chosen_again(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, BUILD_FAILED, "line 1: no");
        for (int i = 0; i < 3; i++) {
            kiln_tensor_desc a = fixture_vector(&f, 1024);
            kiln_tensor_desc b = fixture_vector(&f, 1024);
            (void)fixture_chain(&f, &a, &b);
            const kiln_fuse_segment *s = fixture_next(&f, true);
            KILN_CHECK_INT(s->plan->n_blocks, 1);
            KILN_CHECK_INT(s->plan->blocks[0].ops[0], i == 0 ? 0 : 1); // another program
            if (i == 0) {
                KILN_CHECK(kiln_fuse_block_failed(f.engine, &s->plan->blocks[0], &cause));
                KILN_CHECK_INT(s->plan->n_steps, 1); // still there while it runs
                kiln_string text;
                kiln_string_init(&text, &f.env);
                KILN_CHECK_INT(kiln_fuse_explain(f.engine, s, 0, &text, NULL), KILN_STATUS_OK);
                KILN_CHECK_CONTAINS(text.text, "failed: its operations run one by one: line 1: no");
                kiln_string_fini(&text);
            }
            fixture_done(&f, s);
        }
        KILN_CHECK_INT(fixture_stats(&f).strikes, 1);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 2);
        KILN_CHECK_INT(fixture_stats(&f).plans_kept, 1);
    }
    fixture_close(&f);
}

static void test_out_of_memory_is_no_strike(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_error cause = KILN_ERROR_INIT;
        (void)kiln_fail(&cause, RESOURCE_EXHAUSTED, "no memory");
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        (void)fixture_chain(&f, &a, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        KILN_CHECK(!kiln_fuse_block_failed(f.engine, &s->plan->blocks[0], &cause));
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
        a = fixture_vector(&f, 1024); // the same plan again, with its block
        (void)fixture_chain(&f, &a, &a);
        s = fixture_next(&f, true);
        KILN_CHECK_INT(s->plan->n_blocks, 1);
        KILN_CHECK_INT(s->plan->blocks[0].ops[0], 0);
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 1);
    }
    fixture_close(&f);
}

static void free_state(void *state)
{
    *(int *)state += 1;
}

static void test_executors_state_is_freed(void)
{
    fuse_fixture f;
    int freed = 0;
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        (void)fixture_chain(&f, &a, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        s->plan->blocks[0].state = &freed;
        s->plan->blocks[0].state_free = free_state;
        fixture_done(&f, s);
        KILN_CHECK_INT(freed, 0);
    }
    fixture_close(&f);
    KILN_CHECK_INT(freed, 1);
}

static void test_fusion_off(void)
{
    fuse_fixture f;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    options.fusion_off = 1;
    if (fixture_open_with(&f, one, &options, /*whole=*/false)) {
        kiln_tensor_desc a = fixture_vector(&f, 1024);
        (void)fixture_chain(&f, &a, &a);
        KILN_CHECK_STR(fixture_run(&f, true), "mul add_scalar-2 relu-3 mul_scalar-4 sub-5;");
    }
    fixture_close(&f);
}

static void test_declined_device(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        kiln_fuse_engine *engine = NULL;
        kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
        kiln_device_info gpu = f.device;
        gpu.type = KILN_DEVICE_GPU;
        KILN_CHECK_INT(kiln_fuse_engine_create(f.registry, &gpu, &options, &engine, NULL),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(engine->n_fusers, 0);
        kiln_fuse_engine_destroy(engine);
    }
    fixture_close(&f);
}

// ---- explanation ----

static void test_explain(void)
{
    fuse_fixture f;
    const int64_t square[] = {64, 64};
    static const char *const plugins[] = {"chain_slow", "chain_fast", "chain_short", NULL};
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc a = fixture_input(&f, 2, square);
        kiln_tensor_desc y = fixture_chain(&f, &a, &a);
        (void)fixture_op(&f, KILN_OP_MATMUL, &y, &a);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        kiln_string text;
        kiln_string_init(&text, &f.env);
        KILN_CHECK_INT(kiln_fuse_explain(f.engine, s, KILN_FUSE_EXPLAIN_SOURCE, &text, NULL),
                       KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(text.text, "block 0: 5 operations (0 to 8) by test.fast/chain");
        KILN_CHECK_CONTAINS(text.text, "winner    test.fast/chain: 5 operations, 1 launch");
        KILN_CHECK_CONTAINS(text.text, "candidate test.slow/chain: 5 operations, 1 launch");
        KILN_CHECK_CONTAINS(text.text, "candidate test.chain-short/chain: 3 operations");
        KILN_CHECK_CONTAINS(text.text, "ns less than the winner");
        KILN_CHECK_CONTAINS(text.text, "__kernel void chain(void)");
        KILN_CHECK_CONTAINS(text.text, "unfused: operation 9");
        KILN_CHECK_CONTAINS(text.text,
                            "declined  test.fast/chain: operation 9 (matmul): operator 160 is not");
        for (const char *line = text.text; line != NULL && *line != 0;) {
            const char *end = strchr(line, '\n');
            KILN_CHECK(end != NULL && end - line <= 100);
            line = end == NULL ? NULL : end + 1;
        }
        kiln_string_fini(&text);
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

KILN_TEST_MAIN(
    "unit/fusion_host/search", KILN_TEST(test_one_block), KILN_TEST(test_blocks_and_holes),
    KILN_TEST(test_hands_out_early), KILN_TEST(test_interleaved_blocks_both_fuse),
    KILN_TEST(test_others_do_not_break_a_block), KILN_TEST(test_blocks_merge),
    KILN_TEST(test_no_block_depends_on_itself),
    KILN_TEST(test_two_blocks_never_wait_for_each_other),
    KILN_TEST(test_grouping_does_not_depend_on_when_one_looks),
    KILN_TEST(test_repeated_needs_no_fuser_and_no_memory),
    KILN_TEST(test_no_fuser_sees_an_empty_tensor), KILN_TEST(test_asked_extents_become_guards),
    KILN_TEST(test_asked_scalars_become_guards), KILN_TEST(test_program_guard),
    KILN_TEST(test_no_fuser_sees_a_collective), KILN_TEST(test_no_fuser_knows_later_draws),
    KILN_TEST(test_long_segments_are_fused_to_their_end), KILN_TEST(test_guard_of_many_symbols),
    KILN_TEST(test_three_strikes), KILN_TEST(test_failed_block_is_not_chosen_again),
    KILN_TEST(test_out_of_memory_is_no_strike), KILN_TEST(test_executors_state_is_freed),
    KILN_TEST(test_fusion_off), KILN_TEST(test_declined_device), KILN_TEST(test_explain))
