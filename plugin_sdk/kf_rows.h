// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_rows.h: chains (kf_chain.h) with reductions: every value lies on some axes of one iteration
// space, one set of which is reduced. For fusers of reductions, softmax, norms and the like.
//   kf_rows_push      takes an operation: elementwise, reduction, softmax, a view that only adds,
//                     removes or repeats axes, a drop; else the reason is reported
//   kf_rows_push_fitting  the same, given back when the fuser's own rule says no
//   kf_rows_is_full   does a value vary along the reduced axes?
//   kf_rows_combine   text that joins two partial results; _identity what it starts from
// A value's phase is the number of reductions that must be finished one after the other before it
// can be computed. A softmax is taken apart into its five operations. f16 and bf16 are accumulated
// in f32, also inside a softmax.
#ifndef KILN_PLUGIN_SDK_KF_ROWS_H
#define KILN_PLUGIN_SDK_KF_ROWS_H

#include "kf_chain.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_ROWS_NO_AXIS 255u
#define KF_ROWS_MAX_PHASE 12u

typedef struct kf_rows_place { ///< where a value lies in the space
    uint8_t axes[KF_MAX_RANK]; // axis of the space for each own axis, KF_ROWS_NO_AXIS for extent 1
    uint8_t mask; // the same as bits
    uint8_t phase;
} kf_rows_place;

typedef struct kf_rows {
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t rank; // of the space; valid with `started`
    uint32_t started;
    uint32_t symbols[KF_MAX_RANK];
    uint32_t reduced; // axes as bits; 0 before the first reduction
    uint32_t phases; // highest phase of a value
    uint32_t n_shown; // operations by name
    const char *shown[KF_CHAIN_OPS];
    kf_rows_place places[KF_CHAIN_VALUES];
    kf_chain chain;
} kf_rows;

static inline void kf_rows_init(kf_rows *rows)
{
    memset(rows, 0, offsetof(kf_rows, shown));
    kf_chain_init(&rows->chain);
}

static inline void kf_rows_copy(kf_rows *to, const kf_rows *from)
{
    memcpy(to, from, offsetof(kf_rows, shown));
    memcpy((void *)to->shown, (const void *)from->shown, from->n_shown * sizeof(from->shown[0]));
    memcpy(to->places, from->places, from->chain.n_values * sizeof(from->places[0]));
    kf_chain_copy(&to->chain, &from->chain);
}

/// The axes of the space that have an extent, as bits.
static inline uint32_t kf_rows_all(const kf_rows *rows)
{
    uint32_t mask = 0, i;
    for (i = 0; i < rows->rank; i++) {
        mask |= rows->symbols[i] != 0 ? 1u << i : 0;
    }
    return mask;
}

static inline uint32_t kf_rows_is_full(const kf_rows *rows, uint32_t value)
{
    return (rows->places[value].mask & rows->reduced) != 0;
}

/// Pushes the product of the extents of the axes in `mask`.
static inline void kf_rows_extent(kf_formula *f, const kf_rows *rows, uint32_t mask)
{
    uint32_t symbols[KF_MAX_RANK], count = 0, i;
    for (i = 0; i < rows->rank; i++) {
        if ((mask >> i & 1u) != 0) {
            symbols[count++] = rows->symbols[i];
        }
    }
    kf_formula_product(f, symbols, count);
}

// ---- the space ---------------------------------------------------------------------------------

static inline void kf_rows_start(kf_rows *rows, const kf_tensor *shape)
{
    uint32_t i;
    rows->started = 1;
    rows->rank = shape->rank;
    for (i = 0; i < shape->rank; i++) {
        rows->symbols[i] = shape->dims[i].symbol;
    }
}

/// Before the first reduction the space may still grow by broadcasting: are its axes, aligned to
/// the right, those of `shape` or of extent 1?
static inline uint32_t kf_rows_can_grow(const kf_rows *rows, const kf_tensor *shape)
{
    uint32_t i, shift = shape->rank - rows->rank;
    if (rows->reduced != 0 || shape->rank < rows->rank) {
        return 0;
    }
    for (i = 0; i < rows->rank; i++) {
        if (rows->symbols[i] != 0 && rows->symbols[i] != shape->dims[shift + i].symbol) {
            return 0;
        }
    }
    return 1;
}

static inline void kf_rows_grow(kf_rows *rows, const kf_tensor *shape)
{
    uint32_t i, k, shift = shape->rank - rows->rank;
    for (i = 0; i < rows->chain.n_values; i++) {
        for (k = 0; k < rows->chain.values[i].rank; k++) {
            uint8_t *axis = &rows->places[i].axes[k];
            *axis = *axis == KF_ROWS_NO_AXIS ? *axis : (uint8_t)(*axis + shift);
        }
        rows->places[i].mask = (uint8_t)(rows->places[i].mask << shift);
    }
    kf_rows_start(rows, shape);
}

/// The place that follows from aligning the tensor's axes with the right end of the space, axis
/// `last` of it being the tensor's last. 0: they do not fit.
static inline uint32_t kf_rows_align(const kf_rows *rows, const kf_tensor *tensor,
                                     kf_rows_place *out)
{
    uint32_t i, shift = rows->rank - tensor->rank;
    memset(out, 0, sizeof(*out));
    for (i = 0; i < tensor->rank; i++) {
        uint32_t axis = shift + i;
        out->axes[i] = KF_ROWS_NO_AXIS;
        if (tensor->dims[i].symbol == 0) {
            continue;
        }
        if (tensor->rank > rows->rank || rows->symbols[axis] != tensor->dims[i].symbol) {
            return 0;
        }
        out->axes[i] = (uint8_t)axis;
        out->mask |= (uint8_t)(1u << axis);
    }
    return 1;
}

static inline const kf_rows_place *kf_rows_place_of(const kf_rows *rows, const kf_tensor *tensor)
{
    const kf_chain_value *value = kf_chain_known(&rows->chain, tensor->id);
    return value == NULL ? NULL : &rows->places[value - rows->chain.values];
}

/// Brings the place of an operand into the result's; 0 when they contradict each other.
static inline uint32_t kf_rows_agree(const kf_tensor *in, const kf_rows_place *place,
                                     const kf_tensor *out, uint8_t *axes)
{
    uint32_t i;
    for (i = 0; i < in->rank; i++) {
        uint8_t *axis = &axes[out->rank - in->rank + i];
        if (in->dims[i].symbol == 0) {
            continue;
        }
        if (*axis != KF_ROWS_NO_AXIS && *axis != place->axes[i]) {
            return 0;
        }
        *axis = place->axes[i];
    }
    return 1;
}

/// Axes of the result that no known operand has: by alignment to the right, when that agrees with
/// those that are known.
static inline uint32_t kf_rows_fill(const kf_rows *rows, const kf_tensor *out, uint8_t *axes)
{
    uint32_t i, missing = 0;
    for (i = 0; i < out->rank; i++) {
        missing += out->dims[i].symbol != 0 && axes[i] == KF_ROWS_NO_AXIS;
    }
    if (missing == 0) {
        return 1;
    }
    if (out->rank > rows->rank) {
        return 0;
    }
    for (i = 0; i < out->rank; i++) {
        uint32_t axis = rows->rank - out->rank + i;
        if (out->dims[i].symbol == 0) {
            continue;
        }
        if ((axes[i] != KF_ROWS_NO_AXIS && axes[i] != axis) ||
            rows->symbols[axis] != out->dims[i].symbol) {
            return 0;
        }
        axes[i] = (uint8_t)axis;
    }
    return 1;
}

static inline uint32_t kf_rows_ordered(kf_rows_place *place, uint32_t rank)
{
    uint32_t i, next = 0;
    place->mask = 0;
    for (i = 0; i < rank; i++) {
        if (place->axes[i] == KF_ROWS_NO_AXIS) {
            continue;
        }
        if (place->axes[i] < next) {
            return 0;
        }
        next = place->axes[i] + 1u;
        place->mask |= (uint8_t)(1u << place->axes[i]);
    }
    return 1;
}

/// The place of the result of an operation that broadcasts its operands; also that of operands seen
/// for the first time. 0: the shapes do not fit into the space.
static inline uint32_t kf_rows_fit(const kf_rows *rows, const kf_op *op, kf_rows_place *out,
                                   kf_rows_place *inputs)
{
    const kf_tensor *result = op->outputs[0];
    uint32_t i, k;
    memset(out, 0, sizeof(*out));
    memset(out->axes, KF_ROWS_NO_AXIS, sizeof(out->axes));
    for (i = 0; i < op->n_inputs; i++) {
        const kf_rows_place *place = kf_rows_place_of(rows, op->inputs[i]);
        if (op->inputs[i]->rank > result->rank ||
            (place != NULL && !kf_rows_agree(op->inputs[i], place, result, out->axes))) {
            return 0;
        }
    }
    if (!kf_rows_fill(rows, result, out->axes) || !kf_rows_ordered(out, result->rank)) {
        return 0;
    }
    for (i = 0; i < op->n_inputs; i++) {
        const kf_tensor *in = op->inputs[i];
        const kf_rows_place *place = kf_rows_place_of(rows, in);
        uint32_t shift = result->rank - in->rank;
        memset(&inputs[i], 0, sizeof(inputs[i]));
        if (place != NULL) {
            inputs[i] = *place;
            out->phase = place->phase > out->phase ? place->phase : out->phase;
            continue;
        }
        for (k = 0; k < in->rank; k++) {
            uint32_t has = in->dims[k].symbol != 0;
            if (has && in->dims[k].symbol != result->dims[shift + k].symbol) {
                return 0;
            }
            inputs[i].axes[k] = has ? out->axes[shift + k] : (uint8_t)KF_ROWS_NO_AXIS;
        }
        if (!kf_rows_ordered(&inputs[i], in->rank)) {
            return 0;
        }
    }
    return 1;
}

// ---- taking operations -------------------------------------------------------------------------

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
    if (!kf_rows_fit(rows, op, &out, inputs)) {
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

/// The place of a tensor that a reduction reads, and the axes of the space that it reduces; starts
/// the space or the set of reduced axes when there is none. 0 with the reason reported.
static inline uint32_t kf_rows_reduces(kf_rows *rows, const kf_host *host, const kf_op *op,
                                       uint32_t own_axes, kf_rows_place *in)
{
    const kf_tensor *tensor = op->inputs[0];
    const kf_rows_place *known = kf_rows_place_of(rows, tensor);
    uint32_t mask = 0, i;
    if (!rows->started) {
        kf_rows_start(rows, tensor);
    }
    if (known != NULL) {
        *in = *known;
    } else if (!kf_rows_align(rows, tensor, in)) {
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
    if (in->phase + 1u > KF_ROWS_MAX_PHASE) {
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

static inline uint32_t kf_rows_operand_fits(const kf_rows *rows, const kf_chain_device *device,
                                            const kf_host *host, const kf_op *op,
                                            const uint32_t *keys, uint32_t n_keys)
{
    if (!kf_op_understood(op, 1, keys, n_keys) || op->n_inputs != 1 || op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "it carries something newer than this fuser");
    }
    if (!kf_chain_dtype_usable(device, op->inputs[0]->dtype) ||
        op->outputs[0]->dtype != op->inputs[0]->dtype) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "the device does not take %s",
                          kf_dtype_of(op->inputs[0]->dtype).name);
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
    if (!kf_rows_operand_fits(rows, device, host, op, keys, 2)) {
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

// ---- softmax as its parts ----------------------------------------------------------------------

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

static inline void kf_rows_finish_softmax(kf_rows *rows, uint32_t value, const kf_op *op)
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

static inline uint32_t kf_rows_softmax(kf_rows *rows, const kf_chain_device *device,
                                       const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    const kf_tensor *in = op->inputs[0];
    const kf_attr *attr = kf_op_attr(op, KF_ATTR_AXIS);
    uint32_t is_log = op->kind == KF_OP_LOG_SOFTMAX, x, most, moved, e, sum, dtype;
    int64_t axis = attr == NULL ? -1 : attr->v.i;
    kf_rows_place place;
    if (!kf_rows_operand_fits(rows, device, host, op, keys, 1)) {
        return 0;
    }
    axis = axis < 0 ? axis + in->rank : axis;
    if (axis < 0 || axis >= (int64_t)in->rank ||
        !kf_rows_reduces(rows, host, op, 1u << axis, &place)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "softmax along another axis");
    }
    x = kf_chain_add_value(&rows->chain, in, 0);
    rows->places[x] = place;
    dtype = kf_rows_partial_dtype(in->dtype);
    if (dtype != in->dtype) {
        x = kf_rows_step(rows, KF_OP_CAST, x, KF_NONE, dtype);
    }
    most = kf_rows_step(rows, KF_OP_MAX, x, KF_NONE, dtype);
    moved = kf_rows_step(rows, KF_OP_SUB, x, most, dtype);
    e = kf_rows_step(rows, KF_OP_EXP, moved, KF_NONE, dtype);
    sum = kf_rows_step(rows, KF_OP_SUM, e, KF_NONE, dtype);
    if (is_log) {
        sum = kf_rows_step(rows, KF_OP_LOG, sum, KF_NONE, dtype);
    }
    e = kf_rows_step(rows, is_log ? KF_OP_SUB : KF_OP_DIV, is_log ? moved : e, sum, dtype);
    kf_rows_finish_softmax(rows, e, op);
    kf_rows_show(rows, is_log ? "log_softmax" : "softmax");
    return 1;
}

// ---- views -------------------------------------------------------------------------------------

/// A reshape that only adds and removes axes of extent 1.
static inline uint32_t kf_rows_reshape(const kf_tensor *in, const kf_rows_place *from,
                                       const kf_tensor *out, kf_rows_place *place)
{
    uint32_t i, next = 0;
    *place = *from;
    memset(place->axes, KF_ROWS_NO_AXIS, sizeof(place->axes));
    for (i = 0; i < out->rank; i++) {
        if (out->dims[i].symbol == 0) {
            continue;
        }
        while (next < in->rank && in->dims[next].symbol == 0) {
            next++;
        }
        if (next == in->rank || in->dims[next].symbol != out->dims[i].symbol) {
            return 0;
        }
        place->axes[i] = from->axes[next++];
    }
    while (next < in->rank && in->dims[next].symbol == 0) {
        next++;
    }
    return next == in->rank;
}

static inline uint32_t kf_rows_view(kf_rows *rows, const kf_chain_device *device,
                                    const kf_host *host, const kf_op *op)
{
    const kf_rows_place *from = op->n_inputs == 1 ? kf_rows_place_of(rows, op->inputs[0]) : NULL;
    const kf_chain_value *value =
        from == NULL ? NULL : kf_chain_known(&rows->chain, op->inputs[0]->id);
    kf_rows_place place, inputs[3];
    kf_chain_op *own;
    uint32_t ok;
    if (value == NULL || !value->computed) {
        return kf_decline(host, KF_CODE_LAYOUT, op->position, "a view of what others computed");
    }
    if (!kf_rows_operand_fits(rows, device, host, op, NULL, 0)) {
        return 0;
    }
    ok = op->kind == KF_OP_RESHAPE ? kf_rows_reshape(op->inputs[0], from, op->outputs[0], &place)
                                   : kf_rows_fit(rows, op, &place, inputs);
    if (!ok) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "a view of another shape");
    }
    own = kf_chain_push(&rows->chain, NULL, KF_CHAIN_ALIAS, op->inputs[0]->dtype);
    kf_chain_take_input(own, (uint32_t)(value - rows->chain.values));
    own->result = (uint16_t)kf_chain_add_value(&rows->chain, op->outputs[0], 1);
    kf_rows_note(rows, own->result, &place);
    return 1;
}

/// Takes one operation, or closes the block, with the reason reported to the host.
static inline void kf_rows_push(kf_rows *rows, const kf_chain_device *device, const kf_host *host,
                                const kf_op *op)
{
    uint32_t taken;
    if (rows->closed) {
        return;
    }
    switch (op->kind) {
    case KF_OP_DROP:
        taken = kf_chain_drop(&rows->chain, host, op);
        break;
    case KF_OP_SUM:
    case KF_OP_MEAN:
    case KF_OP_PROD:
    case KF_OP_MAX:
    case KF_OP_MIN:
    case KF_OP_MAX_ABS:
    case KF_OP_ANY:
    case KF_OP_ALL:
        taken = kf_rows_reduction(rows, device, host, op);
        break;
    case KF_OP_SOFTMAX:
    case KF_OP_LOG_SOFTMAX:
        taken = kf_rows_softmax(rows, device, host, op);
        break;
    case KF_OP_RESHAPE:
    case KF_OP_EXPAND:
        taken = kf_rows_view(rows, device, host, op);
        break;
    default:
        taken = kf_rows_elementwise(rows, device, host, kf_ew_row_of(op->kind), op);
    }
    rows->closed = !taken;
    rows->len += taken;
}

/// As kf_rows_push; an operation with which the block does not pass `fits` is given back, and the
/// block closed. `before` is scratch.
static inline void
kf_rows_push_fitting(kf_rows *rows, kf_rows *before, const kf_chain_device *device,
                     const kf_host *host, const kf_op *op,
                     uint32_t (*fits)(const kf_rows *rows, const kf_host *host, uint32_t position))
{
    if (rows->closed) {
        return;
    }
    kf_rows_copy(before, rows);
    kf_rows_push(rows, device, host, op);
    if (!rows->closed && !fits(rows, host, op->position)) {
        kf_rows_copy(rows, before);
        rows->closed = 1;
    }
}

// ---- text of reductions ------------------------------------------------------------------------

/// What `kind` of nothing is, in the partial type.
static inline void kf_rows_identity(kf_text *text, uint32_t kind, uint32_t partial)
{
    kf_dtype dtype = kf_dtype_of(partial);
    uint32_t lowest = kind == KF_OP_MAX, highest = kind == KF_OP_MIN;
    uint64_t ones = ~0ull >> (64 - 8 * dtype.bytes);
    if (!lowest && !highest) {
        kf_text_add(text, kind == KF_OP_PROD || kind == KF_OP_ALL ? "1" : "0");
    } else if (dtype.kind == KF_KIND_FLOAT) {
        kf_text_add(text, lowest ? "-INFINITY" : "INFINITY");
    } else if (dtype.kind == KF_KIND_INT) {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute,
                     (unsigned long long)(lowest ? (ones >> 1) + 1 : ones >> 1));
    } else {
        kf_text_addf(text, "(%s)0x%llxul", dtype.compute, (unsigned long long)(lowest ? 0 : ones));
    }
}

/// Joins the vectors named `a` and `b` of partial results; both orders give the same bits.
static inline void kf_rows_combine(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width,
                                   const char *a, const char *b)
{
    const char *operands[5];
    uint32_t op = kind == KF_OP_SUM || kind == KF_OP_MEAN      ? KF_OP_ADD
                  : kind == KF_OP_PROD                         ? KF_OP_MUL
                  : kind == KF_OP_MAX || kind == KF_OP_MAX_ABS ? KF_OP_MAXIMUM
                  : kind == KF_OP_MIN                          ? KF_OP_MINIMUM
                  : kind == KF_OP_ANY                          ? KF_OP_LOGICAL_OR
                                                               : KF_OP_LOGICAL_AND;
    operands[0] = a;
    operands[1] = b;
    operands[2] = operands[3] = operands[4] = "";
    kf_ew_template(text, kf_ew_text(kf_ew_row_of(op), partial), partial, width, operands);
}

/// What one element brings in: its absolute value for max_abs.
static inline void kf_rows_term(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width,
                                const char *a)
{
    const char *operands[5];
    operands[0] = a;
    operands[1] = operands[2] = operands[3] = operands[4] = "";
    if (kind == KF_OP_MAX_ABS) {
        kf_ew_template(text, kf_ew_text(kf_ew_row_of(KF_OP_ABS), partial), partial, width,
                       operands);
    } else {
        kf_text_add(text, a);
    }
}

/// Functions over vectors of V: join_K_X, half_K_X (all lanes joined, in every lane) and only_X
/// (the first `count` lanes, others `rest`), for one kind and partial type. K is the kind's number.
static inline void kf_rows_functions(kf_text *text, uint32_t kind, uint32_t partial, uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(partial);
    uint32_t step, lane;
    static const char digits[] = "0123456789abcdef";
    kf_text_addf(text, "static inline %s%u join_%u_%s(%s%u a, %s%u b) {\n    return ",
                 dtype.compute, width, kind, dtype.name, dtype.compute, width, dtype.compute,
                 width);
    kf_rows_combine(text, kind, partial, width, "a", "b");
    kf_text_addf(text, ";\n}\nstatic inline %s%u half_%u_%s(%s%u a) {\n", dtype.compute, width,
                 kind, dtype.name, dtype.compute, width);
    for (step = width / 2; step > 0; step /= 2) {
        kf_text_addf(text, "    a = join_%u_%s(a, a.s", kind, dtype.name);
        for (lane = 0; lane < width; lane++) {
            kf_text_bytes(text, &digits[lane ^ step], 1);
        }
        kf_text_add(text, ");\n");
    }
    kf_text_addf(text, "    return (%s%u)(a.s0);\n}\n", dtype.compute, width);
}

static inline void kf_rows_only_function(kf_text *text, uint32_t partial, uint32_t width)
{
    kf_ew_template(text,
                   "static inline $T only_$X($T x, $C rest, int count) {\n"
                   "    $C e[$V];\n"
                   "    vstore$V(x, 0, e);\n"
                   "    for (int k = count; k < $V; k++) {\n"
                   "        e[k] = rest;\n"
                   "    }\n"
                   "    return vload$V(0, e);\n"
                   "}\n",
                   partial, width, NULL);
}

/// Joins the partial results of the work-items of a row as a tree; `kind` has its functions.
static inline void kf_rows_team_function(kf_text *text, uint32_t kind, uint32_t partial,
                                         uint32_t width)
{
    kf_dtype dtype = kf_dtype_of(partial);
    kf_text_addf(text,
                 "static inline %s%u team_%u_%s(%s%u a, __local %s *seats, idx lane, idx lanes) {\n"
                 "    a = half_%u_%s(a);\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    seats[lane] = a.s0;\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    for (idx s = lanes / 2; s > 0; s /= 2) {\n"
                 "        if (lane < s) {\n",
                 dtype.compute, width, kind, dtype.name, dtype.compute, width, dtype.compute, kind,
                 dtype.name);
    kf_text_addf(text,
                 "            seats[lane] = join_%u_%s((%s%u)(seats[lane]), "
                 "(%s%u)(seats[lane + s])).s0;\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    }\n"
                 "    return (%s%u)(seats[0]);\n}\n",
                 kind, dtype.name, dtype.compute, width, dtype.compute, width, dtype.compute,
                 width);
}

// ---- estimates ---------------------------------------------------------------------------------

/// Pushes the bytes of all inputs, or of all results. Beyond `longest` instructions the rest counts
/// as if it had the whole space's shape.
static inline void kf_rows_traffic(kf_formula *f, const kf_rows *rows, uint32_t outputs,
                                   uint32_t longest)
{
    uint32_t i, all = kf_rows_all(rows);
    int64_t whole = 0;
    kf_formula_imm(f, 0);
    for (i = 0; i < rows->chain.n_values; i++) {
        const kf_chain_value *value = &rows->chain.values[i];
        uint32_t bytes = kf_dtype_of(value->dtype).bytes;
        if (outputs ? !kf_chain_is_output(value) : value->computed) {
            continue;
        }
        if (rows->places[i].mask == all || f->n > longest) {
            whole += bytes;
            continue;
        }
        kf_rows_extent(f, rows, rows->places[i].mask);
        kf_formula_imm(f, bytes);
        kf_formula_op(f, KF_INS_MUL);
        kf_formula_op(f, KF_INS_ADD);
    }
    kf_rows_extent(f, rows, all);
    kf_formula_imm(f, whole);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

#ifdef __cplusplus
}
#endif
#endif
