// SPDX-License-Identifier: MIT OR Apache-2.0
// Which plan serves which operations, and which operations form a block: prefixes, overlaps, chains
// that meet, operations in between, and the order that is left when blocks wait for each other.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"

static const char *const one[] = {"chain", NULL};

static kiln_tensor_desc repeat(fuse_fixture *f, kiln_op op, kiln_tensor_desc x, int times)
{
    for (int i = 0; i < times; i++) {
        kiln_tensor_desc next = fixture_op(f, op, &x, NULL);
        if (i > 0) {
            fixture_drop(f, &x);
        }
        x = next;
    }
    return x;
}

// ---- which plan ----

/* neg, then what is named. */
static const char *program(fuse_fixture *f, int n, ...)
{
    va_list ops;
    kiln_tensor_desc x = fixture_vector(f, 8);
    x = fixture_op(f, KILN_OP_NEG, &x, NULL);
    va_start(ops, n);
    for (int i = 0; i < n; i++) {
        x = fixture_op(f, (kiln_op)va_arg(ops, int), &x, NULL);
    }
    va_end(ops);
    return fixture_run(f, true);
}

static void test_programs_with_one_beginning(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        for (int round = 0; round < 3; round++) {
            KILN_CHECK_STR(program(&f, 1, KILN_OP_EXP), "neg exp;");
            KILN_CHECK_STR(program(&f, 1, KILN_OP_RELU), "neg relu;");
            KILN_CHECK_STR(program(&f, 2, KILN_OP_EXP, KILN_OP_RELU), "neg exp relu;");
            KILN_CHECK_STR(program(&f, 2, KILN_OP_EXP, KILN_OP_ABS), "neg exp abs;");
            KILN_CHECK_INT(fixture_stats(&f).plans_searched, 4);
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_found, 8);
    }
    fixture_close(&f);
}

/* A plan never covers more than was recorded, and what it leaves over is not lost. */
static void test_no_plan_is_longer_than_the_segment(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        KILN_CHECK_STR(program(&f, 3, KILN_OP_EXP, KILN_OP_ABS, KILN_OP_RELU),
                       "test.chain/chain[0+4];");
        KILN_CHECK_STR(program(&f, 1, KILN_OP_EXP), "test.chain/chain[0+2];");
        KILN_CHECK_STR(program(&f, 0), "neg;");
        KILN_CHECK_STR(program(&f, 3, KILN_OP_EXP, KILN_OP_ABS, KILN_OP_RELU),
                       "test.chain/chain[0+4];");
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 3);
    }
    fixture_close(&f);
}

/* neg and exp, then products until the block is handed out; what the product's other side is tells
 * the programs apart. */
static const char *handed_out(fuse_fixture *f, bool turned, const char **out_rest)
{
    static char first[256];
    const int64_t square[] = {32, 32};
    kiln_tensor_desc a = fixture_input(f, 2, square);
    kiln_tensor_desc x = repeat(f, KILN_OP_NEG, a, 2);
    first[0] = 0;
    for (int i = 0; i < KILNI_FUSE_PATIENCE + 1 && first[0] == 0; i++) {
        x = turned ? fixture_op(f, KILN_OP_MATMUL, &a, &x) : fixture_op(f, KILN_OP_MATMUL, &x, &a);
        snprintf(first, sizeof(first), "%s", fixture_run(f, false));
    }
    *out_rest = fixture_run(f, true);
    return first;
}

/* The same beginning is handed out before what follows it, whatever that is, and each way is known
 * the second time. */
static void test_what_follows_decides_when(void)
{
    fuse_fixture f;
    if (fixture_open(&f, one)) {
        uint64_t searched = 0;
        for (int round = 0; round < 3; round++) {
            for (int turned = 0; turned < 2; turned++) {
                const char *rest = NULL;
                const char *first = handed_out(&f, turned != 0, &rest);
                KILN_CHECK_CONTAINS(first, "test.chain/chain[0+3]");
                KILN_CHECK_STR(rest, "matmul;");
            }
            searched = round == 0 ? fixture_stats(&f).plans_searched : searched;
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, searched);
    }
    fixture_close(&f);
}

/* A plan made when everything was wanted serves again when everything is wanted, though the same
 * operations were handed out in pieces in between. */
static void test_plans_of_both_kinds_coexist(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        const char *rest = NULL;
        for (int round = 0; round < 2; round++) {
            kiln_tensor_desc a = fixture_input(&f, 2, square);
            kiln_tensor_desc x = repeat(&f, KILN_OP_NEG, a, 2);
            (void)fixture_op(&f, KILN_OP_MATMUL, &x, &a);
            const char *whole = fixture_run(&f, true);
            KILN_CHECK_CONTAINS(whole, "test.chain/chain[0+3]");
            KILN_CHECK_CONTAINS(whole, " matmul;");
            (void)handed_out(&f, false, &rest);
        }
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, 3);
    }
    fixture_close(&f);
}

// ---- which operations ----

/* `n` chains of two that meet in additions, recorded one after the other; in `turned` order the
 * last is added first. */
static kiln_tensor_desc meeting(fuse_fixture *f, int n, bool turned)
{
    kiln_tensor_desc ends[8];
    const int64_t dims[] = {256};
    for (int i = 0; i < n; i++) {
        ends[i] = repeat(f, i % 2 == 0 ? KILN_OP_NEG : KILN_OP_EXP, fixture_input(f, 1, dims), 2);
    }
    kiln_tensor_desc sum = ends[turned ? n - 1 : 0];
    for (int i = 1; i < n; i++) {
        kiln_tensor_desc next = fixture_op(f, KILN_OP_ADD, &sum, &ends[turned ? n - 1 - i : i]);
        sum = next;
    }
    return sum;
}

static void test_chains_that_meet(void)
{
    for (int n = 0; n <= 5; n++) {
        for (int turned = 0; turned < 2 && n > 0; turned++) {
            fuse_fixture f;
            char expected[64];
            if (fixture_open(&f, one)) {
                (void)meeting(&f, n, turned != 0);
                // Two operations and a drop for each, and an addition for each but the first.
                snprintf(expected, sizeof(expected), "test.chain/chain[0+%d]", 3 * n + n - 1);
                const char *got = fixture_run(&f, true);
                KILN_CHECK_INT(strncmp(got, expected, strlen(expected)), 0);
                KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 1);
            }
            fixture_close(&f);
        }
    }
}

/* A fuser that stops early takes a part of what meets; the rest is a block or blocks of its own. */
static void test_a_part_of_what_meets(void)
{
    static const char *const shorter[] = {"chain_short", NULL};
    fuse_fixture f;
    if (fixture_open(&f, shorter)) {
        (void)meeting(&f, 4, false); // 8 in chains, 3 additions; 3 at most in a block
        const char *got = fixture_run(&f, true);
        KILN_CHECK_INT(fixture_stats(&f).ops_fused, 11 - 11 % 3 + (11 % 3 > 1 ? 11 % 3 : 0));
        KILN_CHECK(strstr(got, "[0") != NULL);
    }
    fixture_close(&f);
}

/* What meets through an operation that cannot be inside stays apart. */
static void test_what_cannot_meet(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc a = repeat(&f, KILN_OP_NEG, fixture_input(&f, 2, square), 2);
        kiln_tensor_desc m = fixture_op(&f, KILN_OP_MATMUL, &a, &a);
        kiln_tensor_desc b = repeat(&f, KILN_OP_EXP, m, 2);
        (void)fixture_op(&f, KILN_OP_ADD, &a, &b); // reads both sides of the product
        KILN_CHECK_STR(fixture_run(&f, true),
                       "test.chain/chain[0+3]-2 matmul test.chain/chain[4+4]-5;");
    }
    fixture_close(&f);
}

/* One value read twice and joined again, with one side outside: the joint waits for it. */
static void test_a_diamond(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc x = fixture_input(&f, 2, square);
        kiln_tensor_desc top = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        kiln_tensor_desc left = fixture_op(&f, KILN_OP_EXP, &top, NULL);
        kiln_tensor_desc right = fixture_op(&f, KILN_OP_RELU, &top, NULL);
        (void)fixture_op(&f, KILN_OP_MUL, &left, &right);
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0+4];");
        top = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        left = fixture_op(&f, KILN_OP_EXP, &top, NULL);
        right = fixture_op(&f, KILN_OP_MATMUL, &top, &x);
        (void)fixture_op(&f, KILN_OP_MUL, &left, &right);
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0+2] matmul mul;");
    }
    fixture_close(&f);
}

/* A drop that was recorded before another reader's turn in the block still comes after it. */
static void test_frees_come_after_readers(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, one)) {
        kiln_tensor_desc x = fixture_input(&f, 2, square);
        kiln_tensor_desc a = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        (void)fixture_op(&f, KILN_OP_MATMUL, &a, &x); // reads a outside, behind the block
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_EXP, &a, NULL);
        fixture_drop(&f, &a);
        fixture_drop(&f, &x);
        (void)fixture_op(&f, KILN_OP_RELU, &b, NULL);
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0/3] matmul-1-2;");
    }
    fixture_close(&f);
}

/* More operations than any machine word has bits, a block reaching over all of them in pieces that
 * the fuser's patience allows. */
static void test_many_operations_in_between(void)
{
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    enum { PIECES = 30, BETWEEN = KILNI_FUSE_PATIENCE - 1 };
    if (fixture_open(&f, one)) {
        kiln_tensor_desc m = fixture_input(&f, 2, square);
        kiln_tensor_desc a = fixture_vector(&f, 100);
        for (int i = 0; i < PIECES; i++) {
            a = fixture_op(&f, KILN_OP_NEG, &a, NULL);
            for (int k = 0; k < BETWEEN; k++) {
                m = fixture_op(&f, KILN_OP_MATMUL, &m, &m);
            }
        }
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL && s->plan->n_blocks == 1)) {
            const kiln_plan_block *block = &s->plan->blocks[0];
            KILN_CHECK_INT(s->plan->n_ops, PIECES * (1 + BETWEEN));
            KILN_CHECK_INT(block->n_ops, PIECES);
            for (uint32_t i = 0; i < block->n_ops; i++) { // in the order of recording
                KILN_CHECK_INT(block->ops[i], i * (1 + BETWEEN));
            }
        }
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

/* A longer pattern than was recorded so far is waited for; a fuser that is ready does not make the
 * others stop. */
static void test_ready_and_open_at_once(void)
{
    static const char *const plugins[] = {"chain_short", "chain", NULL};
    fuse_fixture f;
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc x = fixture_vector(&f, 4096);
        for (int i = 0; i < 5; i++) { // the short one is full at 3
            x = fixture_op(&f, KILN_OP_NEG, &x, NULL);
            KILN_CHECK_STR(fixture_run(&f, false), "");
        }
        KILN_CHECK_STR(fixture_run(&f, true), "test.chain/chain[0+5];");
    }
    fixture_close(&f);
}

static void test_nobody_is_ready(void)
{
    static const char *const plugins[] = {"chain", "chain_short", "null", NULL};
    fuse_fixture f;
    const int64_t square[] = {32, 32};
    if (fixture_open(&f, plugins)) {
        kiln_tensor_desc x = fixture_input(&f, 2, square);
        for (int i = 0; i < 4; i++) {
            x = fixture_op(&f, KILN_OP_MATMUL, &x, &x);
        }
        KILN_CHECK_STR(fixture_run(&f, false), "matmul matmul matmul;");
        KILN_CHECK_STR(fixture_run(&f, true), "matmul;");
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

/* The search has a limit: past it operations run unfused, all of them, in order. Here one fuser
 * looks far ahead at each block of the other and is never ready. */
static void test_the_search_ends(void)
{
    static const char *const plugins[] = {"chain_short", "chain_never", NULL};
    fuse_fixture f;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    enum { STEPS = 8000 };
    options.max_segment = STEPS;
    if (fixture_open_with(&f, plugins, &options, /*whole=*/true)) {
        kiln_tensor_desc x = fixture_vector(&f, 100);
        for (int i = 0; i < STEPS; i++) {
            x = fixture_op(&f, KILN_OP_NEG, &x, NULL);
        }
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL)) {
            uint32_t alone = 0, fused = 0;
            for (uint32_t i = 0; i < s->plan->n_steps; i++) {
                alone += s->plan->steps[i].kind == KILN_STEP_HOST_OP;
            }
            for (uint32_t i = 0; i < s->plan->n_blocks; i++) {
                fused += s->plan->blocks[i].n_ops;
            }
            KILN_CHECK_INT(alone + fused, STEPS);
            KILN_CHECK(fused > 0 && alone > 0);
        }
        fixture_done(&f, s);
    }
    fixture_close(&f);
}

// ---- in which order ----

/* neg0 -> exp1, neg2 -> exp3, where exp1 and neg2, exp3 and neg0 depend on each other's chain. */
typedef struct knot {
    kilni_fuse_recorded recorded;
    uint32_t ops[2][2];
    kilni_fuse_block blocks[2];
    kilni_fuse_blocks all;
} knot;

static void push(knot *k, kiln_op op, uint64_t a, uint64_t b, uint64_t out)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor_desc inputs[2], output;
    void *tokens[3] = {NULL};
    for (int i = 0; i < 2; i++) {
        inputs[i] = (kiln_tensor_desc){
            .id = i == 0 ? a : b, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {8}};
    }
    output = inputs[0];
    output.id = out;
    const kiln_op_record record = {
        .op = op, .n_inputs = b != 0 ? 2 : 1, .n_outputs = 1, .inputs = inputs, .outputs = &output};
    KILN_CHECK_INT(kilni_fuse_recorded_push(&k->recorded, &record, tokens, NULL, &err),
                   KILN_STATUS_OK);
}

static void knot_open(knot *k, const kiln_env *env, const uint32_t ops[2][2])
{
    memset(k, 0, sizeof(*k));
    kilni_fuse_recorded_init(&k->recorded, env, 128);
    memcpy(k->ops, ops, sizeof(k->ops));
    for (int i = 0; i < 2; i++) {
        k->blocks[i] = (kilni_fuse_block){.ops = k->ops[i], .len = 2};
    }
    k->all = (kilni_fuse_blocks){.blocks = k->blocks, .n_blocks = 2, .n_covered = 4};
}

/* 0: b = -a, 1: c = -b, 2: e = -d, 3: f = -e, apart; any order of blocks does. */
static void test_order_keeps_what_was_recorded(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[8], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{2, 3}, {0, 1}};
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 2, 0, 3);
    push(&k, KILN_OP_NEG, 4, 0, 5);
    push(&k, KILN_OP_NEG, 5, 0, 6);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 2)) {
        KILN_CHECK_INT(order[0], 1); // it has the first operation
        KILN_CHECK_INT(order[1], 0);
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

/* Products of the same rows by quantised weights are one behind the other, but for those that wait
 * for something and those of other rows. */
static void test_order_of_products_of_the_same_rows(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[8], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{1, 2}, {4, 5}};
    const uint32_t expected[] = {KILNI_FUSE_SINGLE | 0, KILNI_FUSE_SINGLE | 3, 0, 1,
                                 KILNI_FUSE_SINGLE | 6, KILNI_FUSE_SINGLE | 7};
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    k.all.n_covered = 8;
    push(&k, KILN_OP_MATMUL_QUANTIZED, 1, 2, 3);
    push(&k, KILN_OP_NEG, 3, 0, 4);
    push(&k, KILN_OP_NEG, 4, 0, 5);
    push(&k, KILN_OP_MATMUL_QUANTIZED, 1, 6, 7);
    push(&k, KILN_OP_NEG, 7, 0, 8);
    push(&k, KILN_OP_NEG, 8, 0, 9);
    push(&k, KILN_OP_MATMUL_QUANTIZED, 1, 9, 10);
    push(&k, KILN_OP_MATMUL_QUANTIZED, 11, 2, 12);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 6)) {
        KILN_CHECK_MEM(order, expected, sizeof(expected));
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

/* A block whose input a later one gives runs behind it, wherever it began. */
static void test_a_dependence_beats_the_place(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[8], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{0, 3}, {1, 2}}; // 3 needs what 2 gives
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 3, 0, 4);
    push(&k, KILN_OP_NEG, 4, 0, 5);
    push(&k, KILN_OP_ADD, 2, 5, 6);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 2)) {
        KILN_CHECK_INT(order[0], 1);
        KILN_CHECK_INT(order[1], 0);
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

/* A block that waits runs as soon as it can, and so does what waits for it: operation 4, which
 * needs neither, does not come before. */
static void test_nothing_overtakes_a_block_that_waits(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[8], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{0, 2}, {0, 0}}; // 2 needs what 0 and 1 give, 3 what 2 gives
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    k.all.n_blocks = 1;
    k.all.n_covered = 5;
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 3, 0, 4);
    push(&k, KILN_OP_ADD, 2, 4, 5);
    push(&k, KILN_OP_NEG, 5, 0, 6);
    push(&k, KILN_OP_NEG, 7, 0, 8);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 4)) {
        KILN_CHECK_INT(order[0], KILNI_FUSE_SINGLE | 1);
        KILN_CHECK_INT(order[1], 0);
        KILN_CHECK_INT(order[2], KILNI_FUSE_SINGLE | 3);
        KILN_CHECK_INT(order[3], KILNI_FUSE_SINGLE | 4);
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

/* Two blocks that wait for each other: the first is dissolved and its operations run unfused, as
 * recorded, around the other. */
static void test_a_knot_is_cut(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[8], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{0, 3}, {1, 2}}; // 1 needs what 0 gives, 3 what 2 gives
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 2, 0, 3);
    push(&k, KILN_OP_NEG, 3, 0, 4);
    push(&k, KILN_OP_NEG, 4, 0, 5);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 3)) {
        KILN_CHECK_INT(order[0], KILNI_FUSE_SINGLE | 0);
        KILN_CHECK_INT(order[1], 1);
        KILN_CHECK_INT(order[2], KILNI_FUSE_SINGLE | 3);
    }
    KILN_CHECK_INT(k.blocks[0].len, 0);
    kilni_fuse_recorded_fini(&k.recorded);
}

/* 0: b = -a, 1: d = -b, 2: e = -d, 3: b as a view, 4: joined with a, 5: its all-reduce, 6: that of
 * e, 7: the sync. The first call begins when b is there, the second when e is; the sync stays last.
 */
static void test_all_reduces_begin_early(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[16], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{0, 0}, {0, 0}};
    static const uint32_t wanted[] = {0, 3, 4, 5, 1, 2, 6, 7};
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    k.all.n_blocks = 0;
    k.all.n_covered = 8;
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 2, 0, 3);
    push(&k, KILN_OP_NEG, 3, 0, 4);
    push(&k, KILN_OP_RESHAPE, 2, 0, 5);
    push(&k, KILN_OP_CONCAT, 5, 1, 6);
    push(&k, KILN_OP_ALL_REDUCE, 6, 0, 7);
    push(&k, KILN_OP_ALL_REDUCE, 4, 0, 8);
    push(&k, KILN_OP_COLLECTIVE_SYNC, 7, 0, 9);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 8)) {
        for (uint32_t i = 0; i < count; i++) {
            KILN_CHECK_INT(order[i], KILNI_FUSE_SINGLE | wanted[i]);
        }
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

/* A call whose operand is there already waits for the sync that was recorded before it, and a block
 * that feeds one runs as a whole. */
static void test_all_reduces_keep_their_order(void)
{
    fuse_fixture f;
    knot k;
    uint32_t order[16], count = 0;
    kiln_error err = KILN_ERROR_INIT;
    const uint32_t ops[2][2] = {{0, 2}, {0, 0}}; // 2 needs what 0 gives
    fixture_prepare(&f);
    knot_open(&k, &f.env, ops);
    k.all.n_blocks = 1;
    k.all.n_covered = 6;
    push(&k, KILN_OP_NEG, 1, 0, 2);
    push(&k, KILN_OP_NEG, 1, 0, 3);
    push(&k, KILN_OP_NEG, 2, 0, 4);
    push(&k, KILN_OP_ALL_REDUCE, 4, 0, 5);
    push(&k, KILN_OP_COLLECTIVE_SYNC, 5, 0, 6);
    push(&k, KILN_OP_ALL_REDUCE, 1, 0, 7);
    KILN_CHECK_INT(kilni_fuse_order(&k.recorded, &k.all, order, &count, &err), KILN_STATUS_OK);
    if (KILN_CHECK_INT(count, 5)) {
        KILN_CHECK_INT(order[0], 0);
        KILN_CHECK_INT(order[1], KILNI_FUSE_SINGLE | 3);
        KILN_CHECK_INT(order[2], KILNI_FUSE_SINGLE | 1);
        KILN_CHECK_INT(order[3], KILNI_FUSE_SINGLE | 4);
        KILN_CHECK_INT(order[4], KILNI_FUSE_SINGLE | 5);
    }
    kilni_fuse_recorded_fini(&k.recorded);
}

KILN_TEST_MAIN("unit/fusion_host/grouping", KILN_TEST(test_programs_with_one_beginning),
               KILN_TEST(test_no_plan_is_longer_than_the_segment),
               KILN_TEST(test_what_follows_decides_when),
               KILN_TEST(test_plans_of_both_kinds_coexist), KILN_TEST(test_chains_that_meet),
               KILN_TEST(test_a_part_of_what_meets), KILN_TEST(test_what_cannot_meet),
               KILN_TEST(test_a_diamond), KILN_TEST(test_frees_come_after_readers),
               KILN_TEST(test_many_operations_in_between), KILN_TEST(test_ready_and_open_at_once),
               KILN_TEST(test_nobody_is_ready), KILN_TEST(test_the_search_ends),
               KILN_TEST(test_order_of_products_of_the_same_rows),
               KILN_TEST(test_order_keeps_what_was_recorded),
               KILN_TEST(test_a_dependence_beats_the_place),
               KILN_TEST(test_nothing_overtakes_a_block_that_waits), KILN_TEST(test_a_knot_is_cut),
               KILN_TEST(test_all_reduces_begin_early),
               KILN_TEST(test_all_reduces_keep_their_order))
