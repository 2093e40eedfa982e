// SPDX-License-Identifier: MIT OR Apache-2.0
// Sizes of descriptions, checked arithmetic, shapes as text.
#include "ir_support.h"
#include "tensor_internal.h"

static void test_counts(void)
{
    kiln_tensor_desc scalar = test_desc(KILN_DTYPE_F64, 0);
    kiln_tensor_desc plain = test_desc(KILN_DTYPE_F32, 3, 2, 3, 4);
    kiln_tensor_desc empty = test_desc(KILN_DTYPE_F32, 2, 0, 5);
    KILN_CHECK_INT(kiln_desc_count(&scalar), 1);
    KILN_CHECK_INT(kiln_desc_bytes(&scalar), 8);
    KILN_CHECK_INT(kiln_desc_count(&plain), 24);
    KILN_CHECK_INT(kiln_desc_bytes(&plain), 96);
    KILN_CHECK_INT(kiln_desc_count(&empty), 0);
}

static void test_sizes_beyond_64_bits(void)
{
    kiln_tensor_desc huge = test_desc(KILN_DTYPE_F32, 3, 1, 1, 1);
    huge.dims[0] = INT64_C(1) << 40;
    huge.dims[1] = INT64_C(1) << 22;
    KILN_CHECK_INT(kiln_desc_count(&huge), INT64_C(1) << 62);
    KILN_CHECK_INT(kiln_desc_bytes(&huge), -1);
    huge.dims[2] = 2;
    KILN_CHECK_INT(kiln_desc_count(&huge), -1);
    huge.dims[2] = 0;
    KILN_CHECK_INT(kiln_desc_count(&huge), 0);
    huge.dims[2] = -1;
    KILN_CHECK_INT(kiln_desc_count(&huge), -1);
}

static void test_same_shape(void)
{
    kiln_tensor_desc a = test_desc(KILN_DTYPE_F32, 2, 2, 3);
    kiln_tensor_desc b = test_desc(KILN_DTYPE_I8, 2, 2, 3);
    kiln_tensor_desc c = test_desc(KILN_DTYPE_F32, 3, 2, 3, 1);
    KILN_CHECK(kiln_desc_same_shape(&a, &b));
    KILN_CHECK(!kiln_desc_same_shape(&a, &c));
    b.dims[1] = 4;
    KILN_CHECK(!kiln_desc_same_shape(&a, &b));
}

static void test_checked_arithmetic(void)
{
    static const int64_t edge[] = {INT64_MIN, INT64_MIN + 1, -3037000500,   -2,       -1, 0, 1,
                                   2,         3037000500,    INT64_MAX - 1, INT64_MAX};
    for (unsigned i = 0; i < sizeof(edge) / sizeof(edge[0]); i++) {
        for (unsigned k = 0; k < sizeof(edge) / sizeof(edge[0]); k++) {
            int64_t mine = 0;
            int64_t theirs = 0;
            bool ok = !__builtin_mul_overflow(edge[i], edge[k], &theirs);
            KILN_CHECK(kilni_ir_mul(edge[i], edge[k], &mine) == ok && (!ok || mine == theirs));
            ok = !__builtin_add_overflow(edge[i], edge[k], &theirs);
            KILN_CHECK(kilni_ir_add(edge[i], edge[k], &mine) == ok && (!ok || mine == theirs));
            ok = !__builtin_sub_overflow(edge[i], edge[k], &theirs);
            KILN_CHECK(kilni_ir_sub(edge[i], edge[k], &mine) == ok && (!ok || mine == theirs));
        }
    }
}

static void test_texts(void)
{
    char text[KILNI_IR_SHAPE_TEXT];
    kiln_tensor_desc desc = test_desc(KILN_DTYPE_F32, 2, 2, 30);
    KILN_CHECK_STR(kilni_ir_desc_text(&desc, text), "[2,30]");
    desc.rank = 0;
    KILN_CHECK_STR(kilni_ir_desc_text(&desc, text), "[]");
    const int64_t wide[8] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    KILN_CHECK_CONTAINS(kilni_ir_dims_text(wide, 8, text), "..]");
}

KILN_TEST_MAIN("unit/ir/desc", KILN_TEST(test_counts), KILN_TEST(test_sizes_beyond_64_bits),
               KILN_TEST(test_same_shape), KILN_TEST(test_checked_arithmetic),
               KILN_TEST(test_texts))
