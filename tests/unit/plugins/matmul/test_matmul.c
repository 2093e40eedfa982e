// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product's fusers whose programs compute tiles, in both code shapes, through the C ABI
// and against the reference evaluator.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "product_cases.h"
#include "product_program.h"

/// A tile whose lines are all there and aligned, and whose steps are whole, and its rest.
static void test_whole_steps(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int turned = 0; turned < 2; turned++) {
        int64_t m = 132, n = 136, k = 64;
        mini_clear(mini);
        uint32_t x = turned ? product_matrix(mini, KF_DTYPE_F32, k, m)
                            : product_matrix(mini, KF_DTYPE_F32, m, k);
        uint32_t y = turned ? product_matrix(mini, KF_DTYPE_F32, n, k)
                            : product_matrix(mini, KF_DTYPE_F32, k, n);
        product_of(mini, x, y, turned, turned);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// A right operand that is read where it lies: with lines that are whole lines of the cache, a page
/// apart, or neither, for a sum of one piece, of several or of none; in a wider matrix whose other
/// columns are NaN; and with rows of the left one that share sets of the cache.
static void test_in_place(void)
{
    static const struct {
        uint32_t dtype;
        int64_t m, k, n, line, offset;
    } cases[] = {{KF_DTYPE_F32, 25, 300, 96, 96, 0},   {KF_DTYPE_F32, 13, 40, 1040, 1040, 0},
                 {KF_DTYPE_F32, 28, 520, 100, 100, 0}, {KF_DTYPE_F32, 30, 260, 64, 80, 3},
                 {KF_DTYPE_F32, 30, 260, 72, 80, 8},   {KF_DTYPE_F32, 27, 1024, 32, 48, 16},
                 {KF_DTYPE_F64, 19, 150, 40, 48, 8},   {KF_DTYPE_F32, 14, 0, 64, 64, 0}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t strides[] = {cases[i].line, 1};
        int64_t elements = cases[i].k * cases[i].line + cases[i].offset;
        mini_clear(mini);
        uint32_t x = product_matrix(mini, cases[i].dtype, cases[i].m, cases[i].k),
                 y = product_matrix(mini, cases[i].dtype, cases[i].k, cases[i].n);
        if (cases[i].line > cases[i].n) {
            mini_tensor_place(mini, y, strides, cases[i].offset, (size_t)elements);
            product_fill(mini, y);
            for (int64_t e = 0; e < elements; e++) {
                int64_t at = e - cases[i].offset;
                if (at < 0 || at % cases[i].line >= cases[i].n) {
                    product_store(&mini->tensors[y], (size_t)e, (double)NAN);
                }
            }
        }
        product_of(mini, x, y, false, false);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// The direct form asks for the next batch where both operands have one, which lies behind.
static void test_next_batch(void)
{
    static const int64_t lefts[][3] = {{3, 30, 40}, {1, 30, 40}, {3, 30, 40}};
    static const int64_t rights[][3] = {{3, 40, 64}, {3, 40, 64}, {1, 40, 64}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        mini_clear(mini);
        uint32_t x = product_tensor(mini, KF_DTYPE_F32, 3, lefts[i]),
                 y = product_tensor(mini, KF_DTYPE_F32, 3, rights[i]);
        product_of(mini, x, y, false, false);
        kf_opt *opt = mini_finish(mini);
        if (KILN_CHECK(opt != NULL) &&
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            const char *asks = strstr(program.sources[0]->code.ptr, "AHEAD_2(soon)");
            KILN_CHECK_INT(asks != NULL, i == 0);
        }
        mini->plugin->opt_destroy(opt);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// x * (1 + tanh(x + x * x)) / 2, all of which ends before the product.
static uint32_t gated(mini_host *mini, uint32_t x)
{
    uint32_t square = product_like(mini, KF_DTYPE_F32, x);
    mini_binary(mini, KF_OP_MUL, x, x, square);
    uint32_t inner = product_then(mini, KF_OP_ADD, square, x);
    uint32_t flat = product_then(mini, KF_OP_TANH, inner, KF_NONE);
    uint32_t gate = product_like(mini, KF_DTYPE_F32, x);
    mini_with_scalar(mini, KF_OP_ADD_SCALAR, flat, 1, gate);
    mini_drop(mini, flat);
    uint32_t half = product_like(mini, KF_DTYPE_F32, x);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, x, 0.5, half);
    uint32_t result = product_then(mini, KF_OP_MUL, half, gate);
    mini_drop(mini, gate);
    return result;
}

/// Operators that read one tensor several times, and what was made of it, join where the left
/// operand lies across and is packed; of two tensors, or for another operand, they do not.
static void test_gated_operands(void)
{
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i == 1 ? 1 : 29, n = i == 2 ? 1 : 35;
        bool across = i < 5, packs = v->fuser == 0 && v->shape == KF_SHAPE_BLOCK;
        mini_clear(mini);
        uint32_t a = across ? product_matrix(mini, KF_DTYPE_F32, 50, m)
                            : product_matrix(mini, KF_DTYPE_F32, m, 50);
        uint32_t b = product_matrix(mini, KF_DTYPE_F32, 50, n);
        uint32_t x = i == 3 ? product_like(mini, KF_DTYPE_F32, a) : gated(mini, a);
        if (i == 3) {
            mini_binary(mini, KF_OP_MUL, a, product_matrix(mini, KF_DTYPE_F32, 50, m), x);
        }
        uint32_t y = i == 4 ? gated(mini, b) : b;
        product_of(mini, x, y, across, false);
        mini_drop(mini, x);
        if (i == 4) {
            mini_drop(mini, y);
        }
        KILN_CHECK(product_check(mini) == (packs && i < 3));
    }
    product_end(mini);
}

/// Panels of constants of 16 bits hold these bits, infinities and NaN too, either way that they
/// lie.
static void test_narrow_constants(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F16, KF_DTYPE_BF16};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t dtype = dtypes[i % 2];
        bool turned = i >= 2;
        mini_clear(mini);
        uint32_t a = product_matrix(mini, dtype, 21, 45);
        uint32_t b =
            turned ? product_matrix(mini, dtype, 70, 45) : product_matrix(mini, dtype, 45, 70);
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        product_store(&mini->tensors[b], 3, (double)INFINITY);
        product_store(&mini->tensors[b], 700, (double)NAN);
        product_of(mini, a, b, false, turned);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// A matrix that one row meets is read as it lies, in parts of the sum, too.
static void test_constant_for_a_row(void)
{
    const product_variant *v = kiln_test_param();
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    uint32_t a = product_matrix(mini, KF_DTYPE_F32, 1, 600),
             b = product_matrix(mini, KF_DTYPE_F32, 600, 50);
    mini->tensors[b].view.flags |= KF_TENSOR_CONST;
    uint32_t y = product_of(mini, a, b, false, false), z = product_like(mini, KF_DTYPE_F32, y);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, y, 2, z); // no kernel but the product's takes it
    mini_drop(mini, y);
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) &&
        KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
        KILN_CHECK_INT(program.n_launches, v->fuser == 1 ? 2 : 1); // clears the counts
        KILN_CHECK_INT(program.n_steps, 1);
        KILN_CHECK_INT(program.n_temps, v->fuser == 1 ? 2 : 0); // the parts and counts
    }
    mini->plugin->opt_destroy(opt);
    KILN_CHECK(product_check(mini));
    product_end(mini);
}

/// Results that do not fit into the cache, whose rows are whole lines of it or not.
static void test_large_results(void)
{
    static const int64_t sizes[][3] = {{16, 9, 32}, {20, 150, 96}, {21, 9, 100}, {5, 9, 32}};
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    mini->device.cache_bytes = 1024;
    mini->plugin->fuser_destroy(mini->fuser);
    for (size_t i = 0; (i > 0 || mini_fuser_at(mini, v->fuser)) && i < 4; i++) {
        const int64_t *s = sizes[i];
        mini_clear(mini);
        uint32_t y = product_of(mini, product_matrix(mini, KF_DTYPE_F32, s[0], s[1]),
                                product_matrix(mini, KF_DTYPE_F32, s[1], s[2]), false, false);
        mini_binary(mini, KF_OP_ADD, y, product_matrix(mini, KF_DTYPE_F32, 1, s[2]),
                    product_like(mini, KF_DTYPE_F32, y));
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

static const product_variant block = {0, KF_SHAPE_BLOCK, 16, false, 0, 0};
static const product_variant wide = {0, KF_SHAPE_BLOCK, 64, false, 0, 0};
static const product_variant parts = {1, KF_SHAPE_BLOCK, 32, false, 0, 0};
static const product_variant items = {0, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant item_parts = {1, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant small = {2, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant direct = {2, KF_SHAPE_BLOCK, 64, false, 0, 0};

// Large tiles take long to compile and differ from small ones in numbers only.
#define SOME(test, name)                                                                           \
    KILN_TEST_PARAM(test, name "_block", &block), KILN_TEST_PARAM(test, name "_wide", &wide),      \
        KILN_TEST_PARAM(test, name "_parts", &parts),                                              \
        KILN_TEST_PARAM(test, name "_small", &small),                                              \
        KILN_TEST_PARAM(test, name "_direct", &direct)
#define ALL(test, name)                                                                            \
    SOME(test, name), KILN_TEST_PARAM(test, name "_items", &items),                                \
        KILN_TEST_PARAM(test, name "_item_parts", &item_parts)

KILN_TEST_MAIN("unit/plugins/matmul", ALL(product_test_sizes, "sizes"),
               SOME(product_test_dtypes, "dtypes"), SOME(product_test_turned, "turned"),
               KILN_TEST_PARAM(test_whole_steps, "whole_steps_items", &items),
               KILN_TEST_PARAM(test_whole_steps, "whole_steps_item_parts", &item_parts),
               KILN_TEST_PARAM(test_whole_steps, "whole_steps_small", &small),
               KILN_TEST_PARAM(test_in_place, "in_place", &direct),
               KILN_TEST_PARAM(test_next_batch, "next_batch", &direct),
               SOME(product_test_batches, "batches"), SOME(product_test_strides, "strides"),
               ALL(product_test_epilogue, "epilogue"), SOME(product_test_prologue, "prologue"),
               SOME(test_gated_operands, "gated"), SOME(product_test_constants, "constants"),
               KILN_TEST_PARAM(test_narrow_constants, "narrow_constants_wide", &wide),
               SOME(test_constant_for_a_row, "constant_for_a_row"),
               SOME(product_test_special_values, "special"),
               SOME(test_large_results, "large_results"), ALL(product_test_repeats, "repeats"),
               KILN_TEST_PARAM(product_test_several, "several_block", &block),
               KILN_TEST_PARAM(product_test_several_plan, "plan_several_block", &block),
               ALL(product_test_declines, "declines"), ALL(product_test_claims, "claims"))
