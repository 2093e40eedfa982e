// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading attributes with fallbacks, and numbers as elements of every dtype.
#include <math.h>
#include <string.h>

#include "ir_support.h"
#include "op_internal.h"

static void test_fallbacks(void)
{
    const kiln_attr absent[3] = {test_none(), test_none(), test_none()};
    kiln_op_record leaky = {.op = KILN_OP_LEAKY_RELU, .n_attrs = 1, .attrs = absent};
    kiln_op_record softmax = {.op = KILN_OP_SOFTMAX, .n_attrs = 1, .attrs = absent};
    kiln_op_record pad = {.op = KILN_OP_PAD, .n_attrs = 3, .attrs = absent};
    uint32_t count = 9;
    KILN_CHECK_NEAR(kiln_op_attr_f64(&leaky, KILN_KEY_SLOPE), 0.01, 0);
    KILN_CHECK_INT(kiln_op_attr_i64(&softmax, KILN_KEY_AXIS), -1);
    KILN_CHECK_STR(kilni_ir_text(&pad, KILN_KEY_MODE), "constant");
    KILN_CHECK(kilni_ir_ints(&pad, KILN_KEY_PADDING, &count) == NULL);
    KILN_CHECK_INT(count, 0);
    KILN_CHECK_INT(kiln_op_attr(&softmax, KILN_KEY_SHAPE)->type, KILN_ATTR_NONE);
}

static void test_numbers_saturate(void)
{
    const struct {
        double value;
        int64_t expected;
    } cases[] = {{1e30, INT64_MAX}, {-1e30, INT64_MIN}, {(double)NAN, 0}, {-2.75, -2}};
    for (unsigned i = 0; i < 4; i++) {
        kiln_attr attr = test_f64(cases[i].value);
        kiln_op_record record = {.op = KILN_OP_ADD_SCALAR, .n_attrs = 1, .attrs = &attr};
        KILN_CHECK_INT(kiln_op_attr_i64(&record, KILN_KEY_VALUE), cases[i].expected);
    }
}

static bool stores(kiln_attr number, kiln_dtype dtype, uint64_t expected)
{
    uint64_t element = 0;
    return kiln_number_store(&number, dtype, &element) && element == expected;
}

static bool refused(kiln_attr number, kiln_dtype dtype)
{
    uint64_t element = 0;
    return !kiln_number_store(&number, dtype, &element) && element == 0;
}

static void test_integers_take_their_values(void)
{
    KILN_CHECK(stores(test_i64(255), KILN_DTYPE_U8, 255));
    KILN_CHECK(refused(test_i64(256), KILN_DTYPE_U8));
    KILN_CHECK(refused(test_i64(-1), KILN_DTYPE_U64));
    KILN_CHECK(stores(test_i64(-128), KILN_DTYPE_I8, 0x80));
    KILN_CHECK(refused(test_i64(-129), KILN_DTYPE_I8));
    KILN_CHECK(refused(test_i64(INT64_C(1) << 31), KILN_DTYPE_I32));
    KILN_CHECK(stores(test_i64(INT64_MIN), KILN_DTYPE_I64, UINT64_C(1) << 63));
    KILN_CHECK(stores(test_f64(-3.0), KILN_DTYPE_I16, 0xfffd));
    KILN_CHECK(refused(test_f64(0.5), KILN_DTYPE_I32));
    KILN_CHECK(refused(test_f64((double)NAN), KILN_DTYPE_I32));
    KILN_CHECK(stores(test_f64(0x1p63), KILN_DTYPE_U64, UINT64_C(1) << 63));
    KILN_CHECK(refused(test_f64(0x1p64), KILN_DTYPE_U64));
    KILN_CHECK(refused(test_f64(0x1p63), KILN_DTYPE_I64));
    KILN_CHECK(stores(test_f64((double)INFINITY), KILN_DTYPE_I32, 0x7fffffff));
    KILN_CHECK(stores(test_f64(-(double)INFINITY), KILN_DTYPE_I32, 0x80000000));
    KILN_CHECK(stores(test_f64(-(double)INFINITY), KILN_DTYPE_U8, 0));
    KILN_CHECK(stores(test_i64(1), KILN_DTYPE_BOOL, 1));
    KILN_CHECK(refused(test_i64(2), KILN_DTYPE_BOOL));
    KILN_CHECK(refused(test_bool(true), KILN_DTYPE_I32));
}

/* Bits as NumPy's float16 and PyTorch's bfloat16 give them from doubles. */
static void test_floats_round_once(void)
{
    KILN_CHECK(stores(test_f64(0.1), KILN_DTYPE_F16, 11878));
    KILN_CHECK(stores(test_f64(65519), KILN_DTYPE_F16, 31743));
    KILN_CHECK(stores(test_f64(65520), KILN_DTYPE_F16, 31744));
    KILN_CHECK(stores(test_f64(1e-8), KILN_DTYPE_F16, 0));
    KILN_CHECK(stores(test_f64(6e-8), KILN_DTYPE_F16, 1));
    KILN_CHECK(stores(test_i64(2049), KILN_DTYPE_F16, 26624));
    KILN_CHECK(stores(test_i64(2051), KILN_DTYPE_F16, 26626));
    /* Half way between two f16 but for the last bits of the double: f32 in between would lose them.
     */
    KILN_CHECK(stores(test_f64(1.00048828125 + 1e-12), KILN_DTYPE_F16, 15361));
    KILN_CHECK(stores(test_f64(-1.00048828125 - 1e-12), KILN_DTYPE_F16, 15361 | 0x8000));
    KILN_CHECK(stores(test_f64(1.00048828125), KILN_DTYPE_F16, 15360));
    KILN_CHECK(stores(test_f64(1.00390625), KILN_DTYPE_BF16, 16256));
    KILN_CHECK(stores(test_f64(1.01171875), KILN_DTYPE_BF16, 16258));
    KILN_CHECK(stores(test_f64(0.1), KILN_DTYPE_BF16, 15821));
    KILN_CHECK(stores(test_f64(1.5), KILN_DTYPE_F32, 0x3fc00000));
    KILN_CHECK(stores(test_i64(1), KILN_DTYPE_F64, UINT64_C(0x3ff0000000000000)));
}

KILN_TEST_MAIN("unit/ir/attr", KILN_TEST(test_fallbacks), KILN_TEST(test_numbers_saturate),
               KILN_TEST(test_integers_take_their_values), KILN_TEST(test_floats_round_once))
