// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_row_space.h: the space of a chain with reductions (kf_rows.h): where each value lies, which
// elementwise operations and reductions fit into it.
// The space may have a second shape, when a reshape of all its elements gives one (groups of
// channels): values of that shape are FLAT, dense and as long as the space; a parameter that runs
// along neighbouring axes of the second shape is TURNED. Before the first reduction the two shapes
// may change places.
#ifndef KILN_PLUGIN_SDK_KF_ROW_SPACE_H
#define KILN_PLUGIN_SDK_KF_ROW_SPACE_H

#include "kf_row_place.h"
#include "kf_row_second.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- taking operations ----

static inline void kf_rows_show(kf_rows *rows, const char *name)
{
    if (rows->n_shown < KF_CHAIN_OPS) {
        rows->shown[rows->n_shown++] = name;
    }
}

static inline void kf_rows_note(kf_rows *rows, uint32_t value, const kf_rows_place *place)
{
    rows->places[value] = *place;
    rows->phases = place->phase > rows->phases ? place->phase : rows->phases;
}

static inline uint32_t kf_rows_elementwise(kf_rows *rows, const kf_chain_device *device,
                                           const kf_host *host, const kf_ew_row *row,
                                           const kf_op *op)
{
    kf_rows_place out, inputs[3];
    kf_chain_op *own;
    uint32_t i;
    if (!kf_chain_admits(&rows->chain, device, host, row, op)) {
        return 0;
    }
    if (!rows->started) {
        kf_rows_start(rows, op->outputs[0]);
    }
    if (!kf_rows_fit(rows, op, &out, inputs) && !kf_rows_fit_second(rows, op, &out, inputs)) {
        if (!kf_rows_can_grow(rows, op->outputs[0])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "%s has another shape than the block", row->name);
        }
        kf_rows_grow(rows, op->outputs[0]);
        if (!kf_rows_fit(rows, op, &out, inputs)) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "%s broadcasts in a way that the block cannot", row->name);
        }
    }
    own = kf_chain_record(&rows->chain, row, op);
    for (i = 0; i < op->n_inputs; i++) {
        rows->places[own->inputs[i]] = inputs[i];
    }
    kf_rows_note(rows, own->result, &out);
    kf_rows_show(rows, row->name);
    return 1;
}

/// Own axes of `tensor` that an axes attribute names, as bits; all when it is empty or absent.
static inline uint32_t kf_rows_axes(const kf_tensor *tensor, const kf_attr *attr)
{
    uint32_t mask = 0, i;
    if (attr == NULL || attr->type != KF_TYPE_I64S || attr->count == 0) {
        return (1u << tensor->rank) - 1u;
    }
    for (i = 0; i < attr->count; i++) {
        int64_t axis = attr->v.iv[i] < 0 ? attr->v.iv[i] + tensor->rank : attr->v.iv[i];
        mask |= axis >= 0 && axis < (int64_t)tensor->rank ? 1u << axis : 0;
    }
    return mask;
}

/// The place of what a reduction reads: where it is known to be, or aligned to the space.
static inline uint32_t kf_rows_operand_place(const kf_rows *rows, const kf_tensor *tensor,
                                             kf_rows_place *out)
{
    const kf_rows_place *known = kf_rows_place_of(rows, tensor);
    if (known != NULL) {
        *out = *known;
        return known->form == KF_ROWS_ON_AXES;
    }
    return kf_rows_align(rows, tensor, out);
}

/// The place of a tensor that a reduction reads, and the axes of the space that it reduces; starts
/// the space or the set of reduced axes when there is none. 0 with the reason reported.
static inline uint32_t kf_rows_reduces(kf_rows *rows, const kf_host *host, const kf_op *op,
                                       uint32_t own_axes, kf_rows_place *in)
{
    const kf_tensor *tensor = op->inputs[0];
    uint32_t mask = 0, i;
    if (!rows->started) {
        kf_rows_start(rows, tensor);
    }
    if (!kf_rows_operand_place(rows, tensor, in) &&
        !(kf_rows_is_second(rows, tensor) && kf_rows_turn_over(rows) &&
          kf_rows_operand_place(rows, tensor, in))) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "it reduces another shape");
    }
    for (i = 0; i < tensor->rank; i++) {
        mask |= (own_axes >> i & 1u) != 0 && in->axes[i] != KF_ROWS_NO_AXIS ? 1u << in->axes[i] : 0;
    }
    if (mask == 0 || (rows->reduced != 0 && mask != rows->reduced)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          mask == 0 ? "it reduces nothing longer than 1"
                                    : "it reduces other axes than the block");
    }
    if (in->phase + 2u > KF_ROWS_MAX_PHASE) { // a softmax or a norm has two
        return kf_decline(host, KF_CODE_LIMIT, op->position, "too many reductions in a row");
    }
    rows->reduced = mask;
    return 1;
}

static inline const char *kf_rows_reduction_name(uint32_t kind)
{
    return kind == KF_OP_SUM       ? "sum"
           : kind == KF_OP_MEAN    ? "mean"
           : kind == KF_OP_PROD    ? "prod"
           : kind == KF_OP_MAX     ? "max"
           : kind == KF_OP_MIN     ? "min"
           : kind == KF_OP_MAX_ABS ? "max_abs"
           : kind == KF_OP_ANY     ? "any"
           : kind == KF_OP_ALL     ? "all"
                                   : NULL;
}

/// The element type in which partial results are kept.
static inline uint32_t kf_rows_partial_dtype(uint32_t dtype)
{
    return dtype == KF_DTYPE_F16 || dtype == KF_DTYPE_BF16 ? (uint32_t)KF_DTYPE_F32 : dtype;
}

/// The type in which a reduction adds up.
static inline kf_dtype kf_rows_partial(const kf_chain_op *op)
{
    return kf_dtype_of(kf_rows_partial_dtype(op->dtype));
}

/// Up to `n_inputs` operands of one type, understood, on this device and within limits?
static inline uint32_t kf_rows_operands_fit(const kf_rows *rows, const kf_chain_device *device,
                                            const kf_host *host, const kf_op *op,
                                            const uint32_t *keys, uint32_t n_keys,
                                            uint32_t n_inputs)
{
    uint32_t i;
    if (!kf_op_understood(op, 1, keys, n_keys) || op->n_inputs < 1 || op->n_inputs > n_inputs ||
        op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "it carries something newer than this fuser");
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_chain_dtype_usable(device, op->inputs[i]->dtype) ||
            op->outputs[0]->dtype != op->inputs[i]->dtype) {
            return kf_decline(host, KF_CODE_DTYPE, op->position, "the device does not take %s",
                              kf_dtype_of(op->inputs[i]->dtype).name);
        }
    }
    if (!kf_chain_has_room(&rows->chain, device, op)) {
        return kf_decline(host, KF_CODE_LIMIT, op->position,
                          "the block is as long as one kernel may be");
    }
    return 1;
}

/// The result of a reduction: the operand's place without the reduced axes.
static inline void kf_rows_reduced_place(const kf_rows *rows, const kf_rows_place *in,
                                         const kf_tensor *out, uint32_t own_axes, uint32_t in_rank,
                                         kf_rows_place *place)
{
    uint32_t i, next = 0;
    uint32_t keeps = out->rank == in_rank;
    *place = *in;
    memset(place->axes, KF_ROWS_NO_AXIS, sizeof(place->axes));
    for (i = 0; i < in_rank; i++) {
        uint32_t gone = own_axes >> i & 1u;
        if (!gone) {
            place->axes[keeps ? i : next] = in->axes[i];
        }
        next += !gone;
    }
    place->mask = (uint8_t)(in->mask & ~rows->reduced);
    place->phase = (uint8_t)(in->phase + 1);
}

static inline uint32_t kf_rows_reduction(kf_rows *rows, const kf_chain_device *device,
                                         const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXES, KF_ATTR_KEEPDIMS};
    const kf_tensor *in = op->inputs[0];
    kf_rows_place place, out;
    kf_chain_op *own;
    uint32_t own_axes;
    if (!kf_rows_operands_fit(rows, device, host, op, keys, 2, 1)) {
        return 0;
    }
    own_axes = kf_rows_axes(in, kf_op_attr(op, KF_ATTR_AXES));
    if (!kf_rows_reduces(rows, host, op, own_axes, &place)) {
        return 0;
    }
    kf_rows_reduced_place(rows, &place, op->outputs[0], own_axes, in->rank, &out);
    own = kf_chain_push(&rows->chain, NULL, op->kind, in->dtype);
    kf_chain_take_input(own, kf_chain_add_value(&rows->chain, in, 0));
    own->result = (uint16_t)kf_chain_add_value(&rows->chain, op->outputs[0], 1);
    rows->places[own->inputs[0]] = place;
    kf_rows_note(rows, own->result, &out);
    kf_rows_show(rows, kf_rows_reduction_name(op->kind));
    return 1;
}

// ---- lanes ----

/// Pushes the work-items of one row on a GPU: the smallest power of two, from 8 on to `group`, that
/// gives each `share` of the `length` where there are `rows` enough to fill the device several
/// times, else `alone`.
static inline void kf_rows_lanes(kf_formula *f, const kf_formula *length, const kf_formula *rows,
                                 uint32_t share, uint32_t alone, uint32_t group)
{
    enum { MANY = 16 }; // rows for each compute unit
    kf_formula shares;
    uint32_t lanes;
    memset(&shares, 0, sizeof(shares));
    kf_formula_append(&shares, kf_formula_expr(length));
    kf_formula_put(&shares, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(&shares, MANY, KF_INS_MUL);
    kf_formula_append(&shares, kf_formula_expr(rows));
    kf_formula_op(&shares, KF_INS_LE);
    kf_formula_imm(&shares, share);
    kf_formula_imm(&shares, alone);
    kf_formula_op(&shares, KF_INS_SELECT);
    kf_formula_op(&shares, KF_INS_CEIL_DIV);
    for (lanes = 8; lanes < group; lanes *= 2) {
        kf_formula_append(f, kf_formula_expr(&shares));
        kf_formula_imm_op(f, lanes, KF_INS_LE);
        kf_formula_imm(f, lanes);
    }
    kf_formula_imm(f, group);
    for (lanes = 8; lanes < group; lanes *= 2) {
        kf_formula_op(f, KF_INS_SELECT);
    }
}

#ifdef __cplusplus
}
#endif
#endif
