// SPDX-License-Identifier: MIT OR Apache-2.0
// Formulas of fusers into formulas of ir: element counts become products of symbols, strides and offsets of dense
// tensors are known, an integer scalar becomes its value and a guard. Length, stack and every index are checked before
// anything is evaluated.
#include <inttypes.h>

#include "fusion_host_internal.h"

enum { MAX_STEPS = 1024 };

typedef struct writer {
    const kilni_fuse_translation *input;
    kiln_formula_step steps[MAX_STEPS];
    uint32_t count;
    uint32_t depth;
    kiln_error *err;
} writer;

static kiln_status put(writer *w, kiln_formula_step step)
{
    if (w->count == MAX_STEPS) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula of more than %d steps", MAX_STEPS);
    }
    w->steps[w->count++] = step;
    return KILN_STATUS_OK;
}

static kiln_status put_imm(writer *w, int64_t value)
{
    return put(w, (kiln_formula_step){.code = KILN_F_IMM, .imm = value});
}

/* The product of a tensor's extents from `axis` on. */
static kiln_status put_extents(writer *w, uint32_t tensor, uint32_t axis)
{
    const kilni_fuse_block_view *view = w->input->view;
    uint32_t tape_tensor = view->tensors[tensor];
    uint32_t rank = view->tape->tensors[tape_tensor].rank;
    kiln_status status = KILN_STATUS_OK;
    if (axis >= rank) {
        return put_imm(w, 1);
    }
    for (uint32_t i = axis; i < rank && status == KILN_STATUS_OK; i++) {
        uint32_t symbol =
            kilni_fuse_block_symbol(view, view->tape->infos[tape_tensor].symbols[i]);
        status = put(w, (kiln_formula_step){.code = KILN_F_SYM, .sym = symbol});
        if (status == KILN_STATUS_OK && i > axis) {
            status = put(w, (kiln_formula_step){.code = KILN_F_MUL});
        }
    }
    return status;
}

static kiln_status check_tensor(writer *w, uint32_t tensor)
{
    const kilni_fuse_block_view *view = w->input->view;
    uint32_t n_tensors = view->marks[w->input->len - 1].n_tensors;
    if (tensor >= n_tensors) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula names tensor %u of %u", tensor,
                         n_tensors);
    }
    if (!view->tape->infos[view->tensors[tensor]].has_dims) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula names tensor %u, which is only dropped",
                         tensor);
    }
    return KILN_STATUS_OK;
}

static uint32_t facts_of(const kilni_fuse_block_view *view, uint32_t tensor)
{
    if (view->defined[tensor] != KILNI_FUSE_NONE) {
        return KILNI_FUSE_FACT_CONTIGUOUS | KILNI_FUSE_FACT_ZERO_OFFSET;
    }
    return view->tape->infos[view->tensors[tensor]].facts;
}

/* A stride or an offset is known here only when the facts say it. */
static kiln_status put_layout(writer *w, const kf_ins *ins)
{
    kiln_status status = check_tensor(w, ins->sym);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kilni_fuse_block_view *view = w->input->view;
    uint32_t facts = facts_of(view, ins->sym);
    uint32_t rank = view->tape->tensors[view->tensors[ins->sym]].rank;
    if (ins->op == KF_INS_OFFSET) {
        return (facts & KILNI_FUSE_FACT_ZERO_OFFSET) != 0
                   ? put_imm(w, 0)
                   : kiln_fail(w->err, INVALID_ARGUMENT,
                               "formula needs the offset of tensor %u, which is not known",
                               ins->sym);
    }
    if (ins->arg >= rank || (facts & KILNI_FUSE_FACT_CONTIGUOUS) == 0) {
        return kiln_fail(w->err, INVALID_ARGUMENT,
                         "formula needs stride %u of tensor %u, which is not known", ins->arg,
                         ins->sym);
    }
    return put_extents(w, ins->sym, ins->arg + 1u);
}

static kiln_status put_device(writer *w, uint32_t fact)
{
    const kiln_device_info *device = w->input->device;
    switch (fact) {
    case KF_DEVICE_FACT_COMPUTE_UNITS:
        return put(w, (kiln_formula_step){.code = KILN_F_FACT, .arg = KILN_FACT_COMPUTE_UNITS});
    case KF_DEVICE_FACT_MAX_GROUP_SIZE:
        return put(w, (kiln_formula_step){.code = KILN_F_FACT, .arg = KILN_FACT_MAX_WORK_GROUP});
    case KF_DEVICE_FACT_LOCAL_BYTES:
        return put(w, (kiln_formula_step){.code = KILN_F_FACT, .arg = KILN_FACT_LOCAL_MEMORY});
    case KF_DEVICE_FACT_VECTOR_BYTES:
        return put_imm(w, device->vector_bytes);
    case KF_DEVICE_FACT_SUBGROUP_SIZE:
        return put_imm(w, 0);
    default:
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula asks for device fact %u", fact);
    }
}

static kiln_status put_scalar(writer *w, uint32_t scalar)
{
    const kilni_fuse_block_view *view = w->input->view;
    uint32_t n_scalars = view->marks[w->input->len - 1].n_scalars;
    if (scalar >= n_scalars) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula names scalar %u of %u", scalar,
                         n_scalars);
    }
    const kiln_attr *attr = &view->tape->scalars[view->scalar_base + scalar];
    kilni_fuse_ask ask = {.is_scalar = true, .ref = scalar};
    if (attr->type == KILN_ATTR_F64 || !kilni_fuse_trial_ask(w->input->trial, ask)) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula needs scalar %u, which is no integer",
                         scalar);
    }
    return put_imm(w, attr->v.i);
}

static kiln_status put_leaf(writer *w, const kf_ins *ins)
{
    uint32_t n_symbols = w->input->view->marks[w->input->len - 1].n_symbols;
    kiln_status status;
    switch (ins->op) {
    case KF_INS_IMM:
        return put_imm(w, ins->imm);
    case KF_INS_SYM:
        if (ins->sym >= n_symbols) {
            return kiln_fail(w->err, INVALID_ARGUMENT, "formula names symbol %u of %u", ins->sym,
                             n_symbols);
        }
        return put(w, (kiln_formula_step){.code = KILN_F_SYM, .sym = ins->sym});
    case KF_INS_NUMEL:
        status = check_tensor(w, ins->sym);
        return status == KILN_STATUS_OK ? put_extents(w, ins->sym, 0) : status;
    case KF_INS_DEVICE:
        return put_device(w, ins->arg);
    case KF_INS_SCALAR:
        return put_scalar(w, ins->sym);
    default:
        return put_layout(w, ins);
    }
}

static const uint16_t binary_codes[] = {
    [KF_INS_ADD] = KILN_F_ADD, [KF_INS_SUB] = KILN_F_SUB, [KF_INS_MUL] = KILN_F_MUL,
    [KF_INS_DIV] = KILN_F_FLOOR_DIV, [KF_INS_MOD] = KILN_F_MOD, [KF_INS_CEIL_DIV] = KILN_F_CEIL_DIV,
    [KF_INS_ROUND_UP] = KILN_F_ROUND_UP, [KF_INS_MIN] = KILN_F_MIN, [KF_INS_MAX] = KILN_F_MAX,
    [KF_INS_EQ] = KILN_F_EQ, [KF_INS_NE] = KILN_F_EQ, [KF_INS_LT] = KILN_F_LT,
    [KF_INS_LE] = KILN_F_LE, [KF_INS_AND] = KILN_F_AND, [KF_INS_OR] = KILN_F_OR,
};

static kiln_status put_is_zero(writer *w)
{
    kiln_status status = put_imm(w, 0);
    return status == KILN_STATUS_OK ? put(w, (kiln_formula_step){.code = KILN_F_EQ}) : status;
}

static kiln_status put_ins(writer *w, const kf_ins *ins)
{
    bool leaf = ins->op >= KF_INS_IMM && ins->op <= KF_INS_SCALAR;
    bool binary = ins->op >= KF_INS_ADD && ins->op <= KF_INS_OR;
    uint32_t takes = leaf ? 0 : binary ? 2 : ins->op == KF_INS_NOT ? 1 : 3;
    if (!leaf && !binary && ins->op != KF_INS_NOT && ins->op != KF_INS_SELECT) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula has unknown code %u", ins->op);
    }
    if (w->depth < takes || w->depth - takes == KF_MAX_STACK) {
        return kiln_fail(w->err, INVALID_ARGUMENT, "formula code %u finds %u values on the stack",
                         ins->op, w->depth);
    }
    w->depth = w->depth - takes + 1;
    if (leaf) {
        return put_leaf(w, ins);
    }
    if (ins->op == KF_INS_NOT) {
        return put_is_zero(w);
    }
    if (ins->op == KF_INS_SELECT) {
        return put(w, (kiln_formula_step){.code = KILN_F_SELECT});
    }
    kiln_status status = put(w, (kiln_formula_step){.code = binary_codes[ins->op]});
    return status == KILN_STATUS_OK && ins->op == KF_INS_NE ? put_is_zero(w) : status;
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
    writer w;
    w.input = input;
    w.count = 0;
    w.depth = 0;
    w.err = err;
    for (uint64_t i = 0; i < expr.n; i++) {
        kiln_status status = put_ins(&w, &expr.ins[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    if (w.depth != 1) {
        return kiln_fail(err, INVALID_ARGUMENT, "formula leaves %u values", w.depth);
    }
    out_formula->steps = kiln_arena_copy(input->arena, w.steps, w.count * sizeof w.steps[0]);
    out_formula->count = w.count;
    return out_formula->steps != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a formula");
}

kiln_status kilni_fuse_formula_now(const kilni_fuse_translation *input, const kiln_formula *formula,
                                   int64_t *out_value, kiln_error *err)
{
    uint32_t n_symbols = input->view->marks[input->len - 1].n_symbols;
    return kiln_formula_eval(formula, input->values, n_symbols, input->facts, KILN_FACT_COUNT,
                             out_value, err);
}

bool kilni_fuse_formula_value(const kilni_fuse_translation *input, kf_expr expr, int64_t *out_value)
{
    kiln_formula formula;
    return expr.n > 0 &&
           kilni_fuse_formula_translate(input, expr, &formula, NULL) == KILN_STATUS_OK &&
           kilni_fuse_formula_now(input, &formula, out_value, NULL) == KILN_STATUS_OK;
}
