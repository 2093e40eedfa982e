// SPDX-License-Identifier: MIT OR Apache-2.0
// The fusers that ship with Kiln, loaded and searched by this host: what they promise passes its
// checks.
#include <string.h>

#include "fuse_fixture.h"

static const char *const shipped[] = {"plugins/elementwise", "null", NULL};

static void record_chain(fuse_fixture *f, const kiln_tensor_desc *a, const kiln_tensor_desc *b)
{
    kiln_tensor_desc t1 = fixture_op(f, KILN_OP_MUL, a, b);
    kiln_tensor_desc t2 = fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &t1, 1.0);
    fixture_drop(f, &t1);
    kiln_tensor_desc t3 = fixture_op(f, KILN_OP_RELU, &t2, NULL);
    fixture_drop(f, &t2);
    kiln_tensor_desc t4 = fixture_scalar_op(f, KILN_OP_MUL_SCALAR, &t3, 0.5);
    fixture_drop(f, &t3);
    (void)fixture_op(f, KILN_OP_SUB, &t4, b);
    fixture_drop(f, &t4);
}

static void test_chain_is_one_kernel(void)
{
    fuse_fixture f;
    if (fixture_open(&f, shipped)) {
        kiln_tensor_desc a = fixture_vector(&f, 1 << 20);
        kiln_tensor_desc b = fixture_vector(&f, 1 << 20);
        record_chain(&f, &a, &b);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL && s->plan->n_blocks == 1)) {
            KILN_CHECK_INT(s->plan->blocks[0].n_ops, 9);
            KILN_CHECK_INT(s->plan->n_steps, 1);
            KILN_CHECK_INT(s->plan->steps[0].n_dies, 4);
            KILN_CHECK_CONTAINS(s->plan->blocks[0].fuser, "elementwise");
        }
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

static void test_broadcast_chain(void)
{
    fuse_fixture f;
    const int64_t row[] = {1, 96};
    const int64_t column[] = {40, 1};
    if (fixture_open(&f, shipped)) {
        kiln_tensor_desc a = fixture_input(&f, 2, row);
        kiln_tensor_desc b = fixture_input(&f, 2, column);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_ADD, &a, &b);
        kiln_tensor_desc d = fixture_op(&f, KILN_OP_EXP, &c, NULL);
        kiln_tensor_desc e = fixture_op(&f, KILN_OP_MUL, &d, &a);
        fixture_drop(&f, &c);
        fixture_drop(&f, &d);
        (void)e;
        const kiln_fuse_segment *s = fixture_next(&f, true);
        KILN_CHECK(s != NULL && s->plan->n_blocks == 1 && s->plan->blocks[0].n_ops == 5);
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

/* A layer of a network: products and views run unfused, what lies between is fused. */
static void test_layer(void)
{
    fuse_fixture f;
    const int64_t x_dims[] = {8, 64};
    const int64_t w_dims[] = {64, 64};
    const int64_t bias_dims[] = {64};
    if (fixture_open(&f, shipped)) {
        kiln_tensor_desc w = fixture_input(&f, 2, w_dims);
        kiln_tensor_desc bias = fixture_input(&f, 1, bias_dims);
        for (int step = 0; step < 4; step++) {
            kiln_tensor_desc x = fixture_input(&f, 2, x_dims);
            for (int layer = 0; layer < 3; layer++) {
                kiln_tensor_desc y = fixture_op(&f, KILN_OP_MATMUL, &x, &w);
                fixture_drop(&f, &x);
                kiln_tensor_desc z = fixture_op(&f, KILN_OP_ADD, &y, &bias);
                fixture_drop(&f, &y);
                x = fixture_op(&f, KILN_OP_RELU, &z, NULL);
                fixture_drop(&f, &z);
                (void)fixture_run(&f, false);
            }
            (void)fixture_run(&f, true);
            fixture_drop(&f, &x);
        }
        KILN_CHECK_INT(fixture_stats(&f).blocks_fused, 12);
        KILN_CHECK_INT(fixture_stats(&f).ops_fused, 24);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
        KILN_CHECK(fixture_stats(&f).plans_found > fixture_stats(&f).plans_searched);
    }
    fixture_close(&f);
}

/* Long operators, more than a name holds: the fuser shortens it, and gets no strike. */
static void test_long_names_are_shortened(void)
{
    fuse_fixture f;
    if (fixture_open(&f, shipped)) {
        kiln_tensor_desc x = fixture_vector(&f, 4096);
        x.dtype = KILN_DTYPE_I32;
        for (int i = 0; i < 10; i++) {
            const kiln_attr number = {KILN_ATTR_I64, 1, {.i = i}};
            kiln_tensor_desc y = fixture_record(&f, KILN_OP_SHIFT_RIGHT_SCALAR, &x, 1, &number, 1);
            fixture_drop(&f, &x);
            x = y;
        }
        const kiln_fuse_segment *s = fixture_next(&f, true);
        if (KILN_CHECK(s != NULL && s->plan->n_blocks == 1)) {
            const kilni_fuse_plan *plan = (const kilni_fuse_plan *)s->plan;
            KILN_CHECK_STR(plan->verdicts[0].name,
                           "elementwise(shift_right_scalar,shift_right_scalar,shift_right_scalar,"
                           "shift_right_scalar,... 10)");
        }
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

/* max over all of a column beside a row: small tensors, and more than 2^31 elements in between,
 * which are never in memory. */
static void test_more_than_32_bits_say(void)
{
    static const char *const reduce[] = {"plugins/reduce", NULL};
    const int64_t column[] = {50001, 1}, row[] = {1, 50001}, axes[] = {0, 1};
    const kiln_attr attrs[] = {{KILN_ATTR_I64_LIST, 2, {.ints = axes}},
                               {KILN_ATTR_BOOL, 1, {.i = 0}}};
    fuse_fixture f;
    if (fixture_open(&f, reduce)) {
        kiln_tensor_desc a = fixture_input(&f, 2, column), b = fixture_input(&f, 2, row);
        kiln_tensor_desc sum = fixture_op(&f, KILN_OP_ADD, &a, &b);
        (void)fixture_record(&f, KILN_OP_MAX, &sum, 1, attrs, 2);
        fixture_drop(&f, &sum);
        const kiln_fuse_segment *s = fixture_next(&f, true);
        KILN_CHECK(s != NULL && s->plan->n_blocks == 1 && s->plan->blocks[0].n_ops == 3);
        fixture_done(&f, s);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/fusion_host/shipped", KILN_TEST(test_chain_is_one_kernel),
               KILN_TEST(test_broadcast_chain), KILN_TEST(test_layer),
               KILN_TEST(test_long_names_are_shortened), KILN_TEST(test_more_than_32_bits_say))
