// SPDX-License-Identifier: MIT OR Apache-2.0
// Formulas: every code, and that everything wrong fails closed.
#include "ir_support.h"

static const int64_t symbols[2] = {100, -7};
static const int64_t facts[2] = {8, 256};
static kiln_error err;

static kiln_status eval(const kiln_formula_step *steps, uint32_t count, int64_t *out_value)
{
    kiln_formula formula = {steps, count};
    *out_value = -1;
    return kiln_formula_eval(&formula, symbols, 2, facts, 2, out_value, &err);
}

static int64_t binary(uint16_t code, int64_t a, int64_t b)
{
    const kiln_formula_step steps[] = {
        {.code = KILN_F_IMM, .imm = a}, {.code = KILN_F_IMM, .imm = b}, {.code = code}};
    int64_t value = 0;
    kiln_status status = eval(steps, 3, &value);
    return status == KILN_STATUS_OK ? value : -1000 - (int64_t)status;
}

enum { RANGE = -1000 - KILN_STATUS_OUT_OF_RANGE, INVALID = -1000 - KILN_STATUS_INVALID_ARGUMENT };

static void test_codes(void)
{
    KILN_CHECK_INT(binary(KILN_F_ADD, 7, -9), -2);
    KILN_CHECK_INT(binary(KILN_F_SUB, 7, -9), 16);
    KILN_CHECK_INT(binary(KILN_F_MUL, 7, -9), -63);
    KILN_CHECK_INT(binary(KILN_F_FLOOR_DIV, -7, 2), -4);
    KILN_CHECK_INT(binary(KILN_F_FLOOR_DIV, 7, 2), 3);
    KILN_CHECK_INT(binary(KILN_F_CEIL_DIV, 7, 2), 4);
    KILN_CHECK_INT(binary(KILN_F_CEIL_DIV, 8, 2), 4);
    KILN_CHECK_INT(binary(KILN_F_CEIL_DIV, -7, 2), -3);
    KILN_CHECK_INT(binary(KILN_F_ROUND_UP, 100, 64), 128);
    KILN_CHECK_INT(binary(KILN_F_ROUND_UP, 128, 64), 128);
    KILN_CHECK_INT(binary(KILN_F_MIN, 3, -3), -3);
    KILN_CHECK_INT(binary(KILN_F_MAX, 3, -3), 3);
    KILN_CHECK_INT(binary(KILN_F_MOD, -7, 4), 1);
    KILN_CHECK_INT(binary(KILN_F_EQ, 4, 4), 1);
    KILN_CHECK_INT(binary(KILN_F_LT, 4, 4), 0);
    KILN_CHECK_INT(binary(KILN_F_LE, 4, 4), 1);
    KILN_CHECK_INT(binary(KILN_F_AND, 4, 0), 0);
    KILN_CHECK_INT(binary(KILN_F_OR, 4, 0), 1);
}

static void test_values(void)
{
    const kiln_formula_step steps[] = {
        {.code = KILN_F_SYM, .sym = 0}, {.code = KILN_F_FACT, .arg = 0},
        {.code = KILN_F_ROUND_UP},      {.code = KILN_F_SYM, .sym = 1},
        {.code = KILN_F_ADD},           {.code = KILN_F_IMM, .imm = 5},
        {.code = KILN_F_IMM, .imm = 6}, {.code = KILN_F_SELECT}};
    int64_t value = 0;
    KILN_CHECK_INT(eval(steps, 3, &value), KILN_STATUS_OK);
    KILN_CHECK_INT(value, 104);
    KILN_CHECK_INT(eval(steps, 5, &value), KILN_STATUS_OK);
    KILN_CHECK_INT(value, 97);
    KILN_CHECK_INT(eval(steps, 8, &value), KILN_STATUS_OK);
    KILN_CHECK_INT(value, 5);
}

static void test_fails_closed(void)
{
    int64_t value = 0;
    KILN_CHECK_INT(binary(KILN_F_ADD, INT64_MAX, 1), RANGE);
    KILN_CHECK_INT(binary(KILN_F_SUB, INT64_MIN, 1), RANGE);
    KILN_CHECK_INT(binary(KILN_F_MUL, INT64_C(1) << 62, 2), RANGE);
    KILN_CHECK_INT(binary(KILN_F_FLOOR_DIV, 1, 0), RANGE);
    KILN_CHECK_INT(binary(KILN_F_MOD, 1, 0), RANGE);
    KILN_CHECK_INT(binary(KILN_F_FLOOR_DIV, INT64_MIN, -1), RANGE);
    KILN_CHECK_INT(binary(KILN_F_ROUND_UP, INT64_MAX, 64), RANGE);
    KILN_CHECK_INT(binary(25, 1, 1), INVALID);
    KILN_CHECK_INT(binary(0, 1, 1), INVALID);
    const kiln_formula_step symbol = {.code = KILN_F_SYM, .sym = 2};
    KILN_CHECK_INT(eval(&symbol, 1, &value), KILN_STATUS_OUT_OF_RANGE);
    const kiln_formula_step fact = {.code = KILN_F_FACT, .arg = 2};
    KILN_CHECK_INT(eval(&fact, 1, &value), KILN_STATUS_OUT_OF_RANGE);
    const kiln_formula_step lone = {.code = KILN_F_ADD};
    KILN_CHECK_INT(eval(&lone, 1, &value), KILN_STATUS_INVALID_ARGUMENT);
    const kiln_formula_step select[] = {
        {.code = KILN_F_IMM}, {.code = KILN_F_IMM}, {.code = KILN_F_SELECT}};
    KILN_CHECK_INT(eval(select, 3, &value), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(eval(select, 2, &value), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(eval(NULL, 0, &value), KILN_STATUS_INVALID_ARGUMENT);
    kiln_formula_step deep[65];
    for (unsigned i = 0; i < 65; i++) {
        deep[i] = (kiln_formula_step){.code = KILN_F_IMM};
    }
    KILN_CHECK_INT(eval(deep, 65, &value), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(value, -1);
}

KILN_TEST_MAIN("unit/ir/formula", KILN_TEST(test_codes), KILN_TEST(test_values),
               KILN_TEST(test_fails_closed))
