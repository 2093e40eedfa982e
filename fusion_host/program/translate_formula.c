// SPDX-License-Identifier: MIT OR Apache-2.0
// Formulas of fusers into formulas of ir. Codes and device facts have the same numbers on both
// sides; what remains is to trust nothing: length, codes, stack, symbols and facts are checked
// before anything is evaluated.
#include <inttypes.h>

#include "translate.h"

_Static_assert(KF_INS_IMM == (int)KILN_F_IMM && KF_INS_SYM == (int)KILN_F_SYM &&
                   KF_INS_DEVICE == (int)KILN_F_FACT && KF_INS_ADD == (int)KILN_F_ADD &&
                   KF_INS_SUB == (int)KILN_F_SUB && KF_INS_MUL == (int)KILN_F_MUL &&
                   KF_INS_FLOOR_DIV == (int)KILN_F_FLOOR_DIV &&
                   KF_INS_CEIL_DIV == (int)KILN_F_CEIL_DIV &&
                   KF_INS_ROUND_UP == (int)KILN_F_ROUND_UP && KF_INS_MIN == (int)KILN_F_MIN &&
                   KF_INS_MAX == (int)KILN_F_MAX && KF_INS_MOD == (int)KILN_F_MOD &&
                   KF_INS_EQ == (int)KILN_F_EQ && KF_INS_LT == (int)KILN_F_LT &&
                   KF_INS_LE == (int)KILN_F_LE && KF_INS_AND == (int)KILN_F_AND &&
                   KF_INS_OR == (int)KILN_F_OR && KF_INS_SELECT == (int)KILN_F_SELECT,
               "formula codes are the same in the ABI and in ir");
_Static_assert(KF_DEVICE_FACT_COMPUTE_UNITS == (int)KILN_FACT_COMPUTE_UNITS &&
                   KF_DEVICE_FACT_MAX_GROUP_SIZE == (int)KILN_FACT_MAX_WORK_GROUP &&
                   KF_DEVICE_FACT_LOCAL_BYTES == (int)KILN_FACT_LOCAL_MEMORY,
               "device facts are the same in the ABI and in ir");

/// Values that an instruction takes from the stack; KILNI_FUSE_NONE for an unknown one.
static uint32_t takes(uint16_t op)
{
    if (op >= KF_INS_IMM && op <= KF_INS_DEVICE) {
        return 0;
    }
    if ((op >= KF_INS_ADD && op <= KF_INS_MOD) || (op >= KF_INS_EQ && op <= KF_INS_OR)) {
        return 2;
    }
    return op == KF_INS_SELECT ? 3 : KILNI_FUSE_NONE;
}

static kiln_status check_ins(const kf_ins *ins, uint32_t n_symbols, uint32_t *depth,
                             kiln_error *err)
{
    uint32_t n = takes(ins->op);
    if (n == KILNI_FUSE_NONE) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula has unknown code %u", ins->op);
    }
    if (*depth < n || *depth - n == KF_MAX_STACK) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula code %u finds %u values on the stack",
                         ins->op, *depth);
    }
    if (ins->op == KF_INS_SYM && ins->sym >= n_symbols) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula names symbol %u of %u", ins->sym,
                         n_symbols);
    }
    if (ins->op == KF_INS_DEVICE && ins->arg >= KILN_FACT_COUNT) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula asks for device fact %u", ins->arg);
    }
    *depth = *depth - n + 1;
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_formula_translate(const kilni_fuse_translation *input, kf_expr expr,
                                         kiln_formula *out_formula, kiln_error *err)
{
    *out_formula = (kiln_formula){0};
    if (expr.n == 0) {
        return KILN_STATUS_OK;
    }
    if (expr.n > KF_MAX_EXPR || expr.ins == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula of %" PRIu64 " instructions, at most %u",
                         expr.n, KF_MAX_EXPR);
    }
    kiln_formula_step *steps = kiln_arena_alloc(input->arena, expr.n * sizeof(*steps));
    if (steps == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a formula");
    }
    uint32_t n_symbols = input->view->marks[input->len - 1].n_symbols;
    uint32_t depth = 0;
    for (uint64_t i = 0; i < expr.n; i++) {
        const kf_ins *ins = &expr.ins[i];
        kiln_status status = check_ins(ins, n_symbols, &depth, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        steps[i] = (kiln_formula_step){.code = ins->op};
        steps[i].arg = ins->op == KF_INS_DEVICE ? ins->arg : 0;
        steps[i].sym = ins->op == KF_INS_SYM ? ins->sym : 0;
        steps[i].imm = ins->op == KF_INS_IMM ? ins->imm : 0;
    }
    if (depth != 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula leaves %u values", depth);
    }
    *out_formula = (kiln_formula){steps, (uint32_t)expr.n};
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_formula_now(const kilni_fuse_translation *input, const kiln_formula *formula,
                                   int64_t *out_value, kiln_error *err)
{
    uint32_t n_symbols = input->view->marks[input->len - 1].n_symbols;
    return kiln_formula_eval(formula, input->values, n_symbols, input->facts, KILN_FACT_COUNT,
                             out_value, err);
}
