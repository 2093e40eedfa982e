// SPDX-License-Identifier: MIT OR Apache-2.0
// Evaluates the postfix formulas of programs: launch sizes, temporaries, guards. Everything fails
// closed: overflow, division by 0, an unknown symbol or a malformed formula is an error, never a
// wrong size. Formulas come from fusers and files, so nothing in them is trusted.
#include <inttypes.h>

#include "ir_op.h"
#include "ir_program.h"
#include "tensor_internal.h"

enum { STACK_LIMIT = 64 };

typedef struct machine {
    int64_t stack[STACK_LIMIT];
    uint32_t depth;
    const int64_t *symbols;
    uint32_t n_symbols;
    const int64_t *facts;
    uint32_t n_facts;
} machine;

static kiln_status push(machine *m, int64_t value, kiln_error *err)
{
    if (m->depth == STACK_LIMIT) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula: more than %d values", STACK_LIMIT);
    }
    m->stack[m->depth++] = value;
    return KILN_STATUS_OK;
}

static kiln_status push_symbol(machine *m, uint32_t symbol, kiln_error *err)
{
    if (symbol >= m->n_symbols) {
        return kiln_fail(err, OUT_OF_RANGE, "formula: symbol %u of %u", symbol, m->n_symbols);
    }
    return push(m, m->symbols[symbol], err);
}

static kiln_status push_fact(machine *m, uint32_t fact, kiln_error *err)
{
    if (fact >= m->n_facts) {
        return kiln_fail(err, OUT_OF_RANGE, "formula: device fact %u of %u", fact, m->n_facts);
    }
    return push(m, m->facts[fact], err);
}

/// Quotient towards minus infinity and remainder with the sign of b; false for b = 0 and MIN / -1.
static bool floor_div(int64_t a, int64_t b, int64_t *out_quotient, int64_t *out_rest)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    *out_quotient = a / b;
    *out_rest = a % b;
    if (*out_rest != 0 && (*out_rest < 0) != (b < 0)) {
        *out_quotient -= 1;
        *out_rest += b;
    }
    return true;
}

static bool divide(uint16_t code, int64_t a, int64_t b, int64_t *out_value)
{
    int64_t quotient = 0;
    int64_t rest = 0;
    if (!floor_div(a, b, &quotient, &rest)) {
        return false;
    }
    int64_t up = rest != 0 ? 1 : 0;
    switch (code) {
    case KILN_F_FLOOR_DIV:
        *out_value = quotient;
        return true;
    case KILN_F_MOD:
        *out_value = rest;
        return true;
    case KILN_F_CEIL_DIV:
        return kilni_ir_add(quotient, up, out_value);
    default:
        return kilni_ir_add(quotient, up, &quotient) && kilni_ir_mul(quotient, b, out_value);
    }
}

static bool binary(uint16_t code, int64_t a, int64_t b, int64_t *out_value)
{
    switch (code) {
    case KILN_F_ADD:
        return kilni_ir_add(a, b, out_value);
    case KILN_F_SUB:
        return kilni_ir_sub(a, b, out_value);
    case KILN_F_MUL:
        return kilni_ir_mul(a, b, out_value);
    case KILN_F_MIN:
        *out_value = a < b ? a : b;
        return true;
    case KILN_F_MAX:
        *out_value = a > b ? a : b;
        return true;
    case KILN_F_EQ:
        *out_value = a == b;
        return true;
    case KILN_F_LT:
        *out_value = a < b;
        return true;
    case KILN_F_LE:
        *out_value = a <= b;
        return true;
    case KILN_F_AND:
        *out_value = a != 0 && b != 0;
        return true;
    case KILN_F_OR:
        *out_value = a != 0 || b != 0;
        return true;
    default:
        return divide(code, a, b, out_value);
    }
}

static bool is_binary(uint16_t code)
{
    return (code >= KILN_F_ADD && code <= KILN_F_MOD) || (code >= KILN_F_EQ && code <= KILN_F_OR);
}

static kiln_status step(machine *m, const kiln_formula_step *s, kiln_error *err)
{
    switch (s->code) {
    case KILN_F_IMM:
        return push(m, s->imm, err);
    case KILN_F_SYM:
        return push_symbol(m, s->sym, err);
    case KILN_F_FACT:
        return push_fact(m, s->arg, err);
    default:
        break;
    }
    uint32_t takes = s->code == KILN_F_SELECT ? 3 : 2;
    if ((takes == 2 && !is_binary(s->code)) || m->depth < takes) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula: code %u with %u values", s->code,
                         m->depth);
    }
    m->depth -= takes;
    int64_t *values = &m->stack[m->depth];
    int64_t result = 0;
    if (takes == 3) {
        result = values[0] != 0 ? values[1] : values[2];
    } else if (!binary(s->code, values[0], values[1], &result)) {
        return kiln_fail(err, OUT_OF_RANGE,
                         "formula: code %u of %" PRId64 " and %" PRId64 " has no 64-bit result",
                         s->code, values[0], values[1]);
    }
    return push(m, result, err);
}

kiln_status kiln_formula_eval(const kiln_formula *formula, const int64_t *symbols,
                              uint32_t n_symbols, const int64_t *facts, uint32_t n_facts,
                              int64_t *out_value, kiln_error *err)
{
    machine m = {.symbols = symbols, .n_symbols = n_symbols, .facts = facts, .n_facts = n_facts};
    for (uint32_t i = 0; i < formula->count; i++) {
        kiln_status status = step(&m, &formula->steps[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (m.depth != 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula: %u values are left, not 1", m.depth);
    }
    *out_value = m.stack[0];
    return KILN_STATUS_OK;
}
