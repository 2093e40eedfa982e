// SPDX-License-Identifier: MIT OR Apache-2.0
// The comparison that judges backends, judged: by class of operator and dtype, what passes and what
// does not, and sums that cancel.
#include "ir.h"

#include <math.h>
#include <stdint.h>

#include "harness.h"

static bool passes(kiln_tolerance tolerance, float actual, float expected)
{
    char text[200] = "";
    bool ok = kiln_tolerance_compare(tolerance, KILN_DTYPE_F32, 1, &actual, &expected, text,
                                     sizeof(text));
    KILN_CHECK(ok == (text[0] == '\0'));
    return ok;
}

static void test_exact(void)
{
    kiln_tolerance t = kiln_tolerance_of(KILN_OP_ADD, KILN_DTYPE_F32);
    KILN_CHECK(passes(t, 1, 1) && !passes(t, 1 + 0x1p-23f, 1));
    KILN_CHECK(!passes(t, -0.0f, 0.0f) && passes(t, NAN, NAN) && !passes(t, NAN, 1));
    KILN_CHECK(passes(t, INFINITY, INFINITY) && !passes(t, -INFINITY, INFINITY));
    KILN_CHECK(passes(kiln_tolerance_of(KILN_OP_MAXIMUM, KILN_DTYPE_F32), -0.0f, 0.0f));
}

static void test_functions(void)
{
    kiln_tolerance t = kiln_tolerance_of(KILN_OP_EXP, KILN_DTYPE_F32);
    KILN_CHECK(passes(t, 1 + 3 * 0x1p-23f, 1) && !passes(t, 1 + 4 * 0x1p-23f, 1));
    KILN_CHECK(!passes(t, INFINITY, 3e38f));
    const uint16_t one = 0x3f80; // of bf16, and the two after it
    const uint16_t near = 0x3f81;
    const uint16_t far = 0x3f82;
    char text[200];
    kiln_tolerance half = kiln_tolerance_of(KILN_OP_EXP, KILN_DTYPE_BF16);
    KILN_CHECK(kiln_tolerance_compare(half, KILN_DTYPE_BF16, 1, &near, &one, text, sizeof(text)));
    KILN_CHECK(!kiln_tolerance_compare(half, KILN_DTYPE_BF16, 1, &far, &one, text, sizeof(text)));
}

/* Of the call sum(data), or matmul(data, data) of one row and one column. */
static kiln_tolerance of_call(kiln_op op, const float *data, int64_t count)
{
    const kiln_tensor_desc in = {.dtype = KILN_DTYPE_F32, .rank = 1, .dims = {count}};
    const kiln_tensor_desc inputs[2] = {in, in};
    kiln_tensor_desc output = {.dtype = KILN_DTYPE_F32};
    const void *const operands[2] = {data, data};
    const kiln_op_record record = {.op = op,
                                   .n_inputs = op == KILN_OP_MATMUL ? 2 : 1,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .outputs = &output};
    return kiln_tolerance_for(&record, 0, operands);
}

static void test_what_cancels(void)
{
    const float data[3] = {1000, -1000, 1};
    kiln_tolerance bare = kiln_tolerance_of(KILN_OP_SUM, KILN_DTYPE_F32);
    kiln_tolerance sum = of_call(KILN_OP_SUM, data, 3);
    kiln_tolerance product = of_call(KILN_OP_MATMUL, data, 3);
    const float noise = 1000 * 0x1p-23f; // one rounding of the largest term
    KILN_CHECK(!passes(bare, noise, 0) && passes(sum, noise, 0));
    KILN_CHECK(passes(sum, 64 * noise, 0) && !passes(sum, 65 * noise, 0));
    KILN_CHECK(passes(product, 1000 * 64 * noise, 0) && !passes(product, 1000 * 65 * noise, 0));
    // A larger result counts, and one that is no sum has no scale but its own.
    KILN_CHECK(passes(sum, 1e6f + 3, 1e6f) && !passes(sum, 1e6f + 9, 1e6f));
    KILN_CHECK(!passes(of_call(KILN_OP_SOFTMAX, data, 3), noise, 0));
    KILN_CHECK(!passes(of_call(KILN_OP_ADD_SCALAR, data, 3), noise, 0));
}

KILN_TEST_MAIN("support/tolerance", KILN_TEST(test_exact), KILN_TEST(test_functions),
               KILN_TEST(test_what_cancels))
