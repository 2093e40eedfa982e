// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_row_parts.h: operators over rows as their parts: softmax, log-softmax and their derivatives,
// layer and RMS norm. f16 and bf16 are computed in f32 throughout and rounded at the end.
#ifndef KILN_PLUGIN_SDK_KF_ROW_PARTS_H
#define KILN_PLUGIN_SDK_KF_ROW_PARTS_H

#include "kf_row_space.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- parts ----

static inline uint32_t kf_rows_step(kf_rows *rows, uint32_t kind, uint32_t a, uint32_t b,
                                    uint32_t dtype)
{
    const kf_ew_row *row = kf_ew_row_of(kind);
    kf_chain_op *op = kf_chain_push(&rows->chain, row, kind, rows->chain.values[a].dtype);
    kf_rows_place place = rows->places[a];
    uint32_t result = kf_chain_add_inner(&rows->chain, a, dtype);
    kf_chain_take_input(op, a);
    if (b != KF_NONE) {
        kf_chain_take_input(op, b);
        place.phase = rows->places[b].phase > place.phase ? rows->places[b].phase : place.phase;
    }
    if (row == NULL) {
        place.mask = (uint8_t)(place.mask & ~rows->reduced);
        place.phase++;
    }
    op->result = (uint16_t)result;
    kf_rows_note(rows, result, &place);
    return result;
}

static inline void kf_rows_finish_parts(kf_rows *rows, uint32_t value, const kf_op *op)
{
    const kf_tensor *out = op->outputs[0];
    kf_rows_place place = rows->places[value];
    kf_chain_op *last = &rows->chain.ops[rows->chain.n_ops - 1];
    if (out->dtype != rows->chain.values[value].dtype) {
        last = kf_chain_push(&rows->chain, kf_ew_row_of(KF_OP_CAST), 0,
                             rows->chain.values[value].dtype);
        kf_chain_take_input(last, value);
    }
    last->result = (uint16_t)kf_chain_add_value(&rows->chain, out, 1);
    kf_rows_note(rows, last->result, &place);
}

/// Takes a read operand in, in the type that is computed in.
static inline uint32_t kf_rows_part(kf_rows *rows, const kf_tensor *tensor,
                                    const kf_rows_place *place)
{
    uint32_t value = kf_chain_add_value(&rows->chain, tensor, 0);
    uint32_t dtype = kf_rows_partial_dtype(tensor->dtype);
    rows->places[value] = *place;
    return dtype == tensor->dtype ? value : kf_rows_step(rows, KF_OP_CAST, value, KF_NONE, dtype);
}

static inline uint32_t kf_rows_axis(const kf_op *op, int64_t *out_axis)
{
    const kf_attr *attr = kf_op_attr(op, KF_ATTR_AXIS);
    int64_t axis = attr == NULL ? -1 : attr->v.i, rank = op->inputs[0]->rank;
    *out_axis = axis < 0 ? axis + rank : axis;
    return *out_axis >= 0 && *out_axis < rank;
}

// ---- softmax ----

static inline uint32_t kf_rows_softmax(kf_rows *rows, const kf_chain_device *device,
                                       const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    const kf_tensor *in = op->inputs[0];
    uint32_t is_log = op->kind == KF_OP_LOG_SOFTMAX, x, most, moved, e, sum;
    uint32_t dtype = kf_rows_partial_dtype(in->dtype);
    int64_t axis;
    kf_rows_place place;
    if (!kf_rows_operands_fit(rows, device, host, op, keys, 1, 1)) {
        return 0;
    }
    if (!kf_rows_axis(op, &axis) || !kf_rows_reduces(rows, host, op, 1u << axis, &place)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "softmax along another axis");
    }
    x = kf_rows_part(rows, in, &place);
    most = kf_rows_step(rows, KF_OP_MAX, x, KF_NONE, dtype);
    moved = kf_rows_step(rows, KF_OP_SUB, x, most, dtype);
    e = kf_rows_step(rows, KF_OP_EXP, moved, KF_NONE, dtype);
    sum = kf_rows_step(rows, KF_OP_SUM, e, KF_NONE, dtype);
    if (is_log) {
        sum = kf_rows_step(rows, KF_OP_LOG, sum, KF_NONE, dtype);
    }
    e = kf_rows_step(rows, is_log ? KF_OP_SUB : KF_OP_DIV, is_log ? moved : e, sum, dtype);
    kf_rows_finish_parts(rows, e, op);
    kf_rows_show(rows, is_log ? "log_softmax" : "softmax");
    return 1;
}

/// output * (grad - sum(grad * output)); of log-softmax grad - exp(output) * sum(grad).
static inline uint32_t kf_rows_softmax_backward(kf_rows *rows, const kf_chain_device *device,
                                                const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    uint32_t is_log = op->kind == KF_OP_LOG_SOFTMAX_BACKWARD, y, grad, along;
    uint32_t dtype = kf_rows_partial_dtype(op->inputs[0]->dtype);
    kf_rows_place place, other;
    int64_t axis;
    if (!kf_rows_operands_fit(rows, device, host, op, keys, 1, 2)) {
        return 0;
    }
    if (op->n_inputs != 2 || !kf_rows_axis(op, &axis) ||
        !kf_rows_reduces(rows, host, op, 1u << axis, &place) ||
        !kf_rows_operand_place(rows, op->inputs[1], &other) ||
        !kf_rows_same_place(&place, &other)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "softmax of another shape");
    }
    y = kf_rows_part(rows, op->inputs[0], &place);
    grad = kf_rows_part(rows, op->inputs[1], &other);
    if (is_log) {
        along = kf_rows_step(rows, KF_OP_SUM, grad, KF_NONE, dtype);
        y = kf_rows_step(rows, KF_OP_EXP, y, KF_NONE, dtype);
        along = kf_rows_step(rows, KF_OP_MUL, y, along, dtype);
        y = kf_rows_step(rows, KF_OP_SUB, grad, along, dtype);
    } else {
        along = kf_rows_step(rows, KF_OP_MUL, grad, y, dtype);
        along = kf_rows_step(rows, KF_OP_SUM, along, KF_NONE, dtype);
        along = kf_rows_step(rows, KF_OP_SUB, grad, along, dtype);
        y = kf_rows_step(rows, KF_OP_MUL, y, along, dtype);
    }
    kf_rows_finish_parts(rows, y, op);
    kf_rows_show(rows, is_log ? "log_softmax_backward" : "softmax_backward");
    return 1;
}

// ---- norms ----

/// The place of scale or bias, which broadcasts to the last axes of x.
static inline uint32_t kf_rows_norm_parameter(const kf_rows *rows, const kf_op *op, uint32_t index,
                                              uint32_t first, const kf_rows_place *x,
                                              kf_rows_place *out)
{
    const kf_tensor *in = op->inputs[index], *like = op->inputs[0];
    const kf_rows_place *known = kf_rows_place_of(rows, in);
    uint32_t i, shift = like->rank - in->rank;
    kf_rows_nowhere(out);
    for (i = 0; i < in->rank; i++) {
        if (in->rank > like->rank - first ||
            (in->dims[i].symbol != 0 && in->dims[i].symbol != like->dims[shift + i].symbol)) {
            return 0;
        }
        if (in->dims[i].symbol != 0) {
            out->axes[i] = x->axes[shift + i];
            out->mask |= (uint8_t)(1u << out->axes[i]);
        }
    }
    if (known != NULL && !kf_rows_same_place(known, out)) {
        return 0;
    }
    out->phase = known != NULL ? known->phase : 0;
    return 1;
}

/// 1 / sqrt(mean(x * x) + epsilon)
static inline uint32_t kf_rows_norm_factor(kf_rows *rows, const kf_op *op, uint32_t x,
                                           uint32_t dtype)
{
    static const kf_attr usual = {KF_ATTR_EPSILON, KF_TYPE_F64, 0, 1, {0}};
    const kf_attr *epsilon = kf_op_attr(op, KF_ATTR_EPSILON);
    kf_attr other = usual;
    uint32_t square = kf_rows_step(rows, KF_OP_MUL, x, x, dtype), sum;
    other.v.f = 1e-5;
    square = kf_rows_step(rows, KF_OP_MEAN, square, KF_NONE, dtype);
    sum = kf_rows_step(rows, KF_OP_ADD_SCALAR, square, KF_NONE, dtype);
    rows->chain.ops[rows->chain.n_ops - 1].numbers[0] =
        (uint16_t)kf_chain_add_number(&rows->chain, epsilon != NULL ? epsilon : &other, dtype);
    rows->chain.ops[rows->chain.n_ops - 1].n_numbers = 1;
    return kf_rows_step(rows, KF_OP_RSQRT, sum, KF_NONE, dtype);
}

static inline uint32_t kf_rows_norm(kf_rows *rows, const kf_chain_device *device,
                                    const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS, KF_ATTR_EPSILON};
    const kf_tensor *in = op->inputs[0];
    uint32_t is_rms = op->kind == KF_OP_RMS_NORM, x, i, mean, factor;
    uint32_t dtype = kf_rows_partial_dtype(in->dtype);
    kf_rows_place places[3];
    int64_t axis;
    if (!kf_rows_operands_fit(rows, device, host, op, keys, 2, is_rms ? 2 : 3)) {
        return 0;
    }
    if (!kf_rows_axis(op, &axis) ||
        !kf_rows_reduces(rows, host, op, (1u << in->rank) - (1u << axis), &places[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "a norm over other axes");
    }
    for (i = 1; i < op->n_inputs; i++) {
        if (!kf_rows_norm_parameter(rows, op, i, (uint32_t)axis, &places[0], &places[i])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "a parameter of another shape");
        }
    }
    x = kf_rows_part(rows, in, &places[0]);
    if (!is_rms) {
        mean = kf_rows_step(rows, KF_OP_MEAN, x, KF_NONE, dtype);
        x = kf_rows_step(rows, KF_OP_SUB, x, mean, dtype);
    }
    factor = kf_rows_norm_factor(rows, op, x, dtype);
    x = kf_rows_step(rows, KF_OP_MUL, x, factor, dtype);
    for (i = 1; i < op->n_inputs; i++) {
        uint32_t parameter = kf_rows_part(rows, op->inputs[i], &places[i]);
        x = kf_rows_step(rows, i == 1 ? KF_OP_MUL : KF_OP_ADD, x, parameter, dtype);
    }
    kf_rows_finish_parts(rows, x, op);
    kf_rows_show(rows, is_rms ? "rms_norm" : "layer_norm");
    return 1;
}

#ifdef __cplusplus
}
#endif
#endif
