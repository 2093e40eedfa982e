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

#include "kf_chain.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_ROWS_NO_AXIS 255u
#define KF_ROWS_MAX_PHASE 12u

#define KF_ROWS_ON_AXES 0u // kf_rows_place.form
#define KF_ROWS_FLAT 1u // all elements, in the second shape; `axes` are those of the space in order
#define KF_ROWS_TURNED 2u // read along axes[0] to axes[1] of the second shape

typedef struct kf_rows_place { ///< where a value lies in the space
    uint8_t axes[KF_MAX_RANK]; // axis of the space for each own axis, KF_ROWS_NO_AXIS for extent 1
    uint8_t mask; // the same as bits; of a value in the second shape all of them
    uint8_t phase;
    uint8_t form; // KF_ROWS_*
} kf_rows_place;

typedef struct kf_rows {
    uint32_t closed;
    uint32_t len; // operations covered, drops included
    uint32_t rank; // of the space; valid with `started`
    uint32_t started;
    uint32_t symbols[KF_MAX_RANK];
    uint32_t reduced; // axes as bits; 0 before the first reduction
    uint32_t phases; // highest phase of a value
    uint32_t second_rank; // of the second shape, axes of extent 1 left out; 0: there is none
    uint32_t second[KF_MAX_RANK];
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

/// The axis of `value` that axis `axis` of the space is; -1 when it has none there.
static inline int kf_rows_value_axis(const kf_rows *rows, uint32_t value, uint32_t axis)
{
    uint32_t i;
    for (i = 0; i < KF_MAX_RANK; i++) {
        if (rows->places[value].axes[i] == axis) {
            return (int)i;
        }
    }
    return -1;
}

static inline uint32_t kf_rows_is_reduction(const kf_chain_op *op)
{
    return op->row == NULL && op->kind != KF_CHAIN_ALIAS;
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

// ---- the space ----

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
    if (rows->reduced != 0 || rows->second_rank != 0 || shape->rank < rows->rank) {
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

/// The place of a single element.
static inline void kf_rows_nowhere(kf_rows_place *place)
{
    memset(place, 0, sizeof(*place));
    memset(place->axes, KF_ROWS_NO_AXIS, sizeof(place->axes));
}

/// The place that follows from aligning the tensor's axes with the right end of the space, axis
/// `last` of it being the tensor's last. 0: they do not fit.
static inline uint32_t kf_rows_align(const kf_rows *rows, const kf_tensor *tensor,
                                     kf_rows_place *out)
{
    uint32_t i, shift = rows->rank - tensor->rank;
    kf_rows_nowhere(out);
    for (i = 0; i < tensor->rank; i++) {
        uint32_t axis = shift + i;
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
    kf_rows_nowhere(out);
    for (i = 0; i < op->n_inputs; i++) {
        const kf_rows_place *place = kf_rows_place_of(rows, op->inputs[i]);
        if (op->inputs[i]->rank > result->rank ||
            (place != NULL && (place->form != KF_ROWS_ON_AXES ||
                               !kf_rows_agree(op->inputs[i], place, result, out->axes)))) {
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
        kf_rows_nowhere(&inputs[i]);
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
            if (has) {
                inputs[i].axes[k] = out->axes[shift + k];
            }
        }
        if (!kf_rows_ordered(&inputs[i], in->rank)) {
            return 0;
        }
    }
    return 1;
}

// ---- the second shape ----

/// `symbols` without extents of 1; how many are left.
static inline uint32_t kf_rows_squeeze(const uint32_t *symbols, uint32_t rank, uint32_t *out)
{
    uint32_t count = 0, i;
    for (i = 0; i < rank; i++) {
        if (symbols[i] != 0) {
            out[count++] = symbols[i];
        }
    }
    return count;
}

/// Are two shapes the same, extents of 1 left out?
static inline uint32_t kf_rows_same_shape(const uint32_t *a, uint32_t a_rank, const uint32_t *b,
                                          uint32_t b_rank)
{
    uint32_t x[KF_MAX_RANK], y[KF_MAX_RANK];
    uint32_t n = kf_rows_squeeze(a, a_rank, x);
    return n == kf_rows_squeeze(b, b_rank, y) && memcmp(x, y, n * sizeof(x[0])) == 0;
}

static inline uint32_t kf_rows_symbols_of(const kf_tensor *tensor, uint32_t *out)
{
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        out[i] = tensor->dims[i].symbol;
    }
    return tensor->rank;
}

static inline uint32_t kf_rows_is_second(const kf_rows *rows, const kf_tensor *tensor)
{
    uint32_t symbols[KF_MAX_RANK], rank = kf_rows_symbols_of(tensor, symbols);
    return rows->second_rank > 0 &&
           kf_rows_same_shape(symbols, rank, rows->second, rows->second_rank);
}

/// Pushes the product of axes `from` to `to` of the second shape, extents of 1 left out.
static inline void kf_rows_second_extent(kf_formula *f, const kf_rows *rows, uint32_t from,
                                         uint32_t to)
{
    uint32_t symbols[KF_MAX_RANK];
    uint32_t n = kf_rows_squeeze(rows->second, rows->second_rank, symbols);
    to = to < n ? to + 1 : n;
    kf_formula_product(f, symbols + from, from < to ? to - from : 0);
}

/// The place of all elements of a space, FLAT.
static inline void kf_rows_flat_place(const uint32_t *space, uint32_t rank, kf_rows_place *out)
{
    uint32_t i;
    kf_rows_nowhere(out);
    out->form = KF_ROWS_FLAT;
    for (i = 0; i < rank && i < KF_MAX_RANK; i++) {
        if (space[i] != 0) {
            out->axes[i] = (uint8_t)i;
            out->mask |= (uint8_t)(1u << i);
        }
    }
}

/// The place of all elements of a space for a tensor of its shape, ON_AXES.
static inline void kf_rows_whole_place(const uint32_t *space, uint32_t rank,
                                       const uint32_t *symbols, uint32_t own_rank,
                                       kf_rows_place *out)
{
    uint32_t axis = 0, i;
    kf_rows_nowhere(out);
    for (i = 0; i < own_rank; i++) {
        for (; symbols[i] != 0 && axis < rank && space[axis] == 0; axis++) {
        }
        if (symbols[i] != 0 && axis < rank) {
            out->axes[i] = (uint8_t)axis;
            out->mask |= (uint8_t)(1u << axis++);
        }
    }
}

/// The place of a dense tensor that broadcasts to `shape`, the second one with its extents of 1: of
/// one element, of all of them as in `flat`, or along neighbouring axes. 0: of another kind.
static inline uint32_t kf_rows_turned_place(const kf_rows_place *flat, const uint32_t *symbols,
                                            uint32_t own_rank, const uint32_t *shape, uint32_t rank,
                                            kf_rows_place *out)
{
    uint32_t i, axis = 0, first = KF_NONE, last = 0, has = 0;
    for (i = 0; i < rank; i++) {
        uint32_t own = i + own_rank >= rank ? symbols[i + own_rank - rank] : 0;
        if (own != 0 && own != shape[i]) {
            return 0;
        }
        if (own != 0) {
            first = first == KF_NONE ? axis : first;
            last = axis;
            has++;
        }
        axis += shape[i] != 0;
    }
    kf_rows_nowhere(out);
    if (own_rank > rank || (has > 0 && has != last - first + 1)) {
        return 0;
    }
    if (has > 0) {
        *out = *flat;
    }
    if (has > 0 && has < axis) {
        out->form = KF_ROWS_TURNED;
        memset(out->axes, KF_ROWS_NO_AXIS, sizeof(out->axes));
        out->axes[0] = (uint8_t)first;
        out->axes[1] = (uint8_t)last;
    }
    return 1;
}

static inline uint32_t kf_rows_same_place(const kf_rows_place *a, const kf_rows_place *b)
{
    return a->form == b->form && a->mask == b->mask && memcmp(a->axes, b->axes, KF_MAX_RANK) == 0;
}

/// The place of an operand, known or dense, of an operation whose result broadcasts to `shape`.
static inline uint32_t kf_rows_second_operand(const kf_rows *rows, const kf_tensor *in,
                                              const kf_rows_place *flat, const uint32_t *shape,
                                              uint32_t rank, kf_rows_place *out)
{
    const kf_rows_place *known = kf_rows_place_of(rows, in);
    uint32_t symbols[KF_MAX_RANK], own_rank = kf_rows_symbols_of(in, symbols);
    if (!kf_rows_turned_place(flat, symbols, own_rank, shape, rank, out)) {
        return 0;
    }
    if (known == NULL) {
        return (in->facts & KF_FACT_CONTIGUOUS) != 0 || out->mask == 0;
    }
    if (!kf_rows_same_place(known, out)) {
        return 0;
    }
    *out = *known;
    return 1;
}

/// What kf_rows_fit does, for an operation in the second shape, or on parameters of it.
static inline uint32_t kf_rows_fit_second(const kf_rows *rows, const kf_op *op, kf_rows_place *out,
                                          kf_rows_place *inputs)
{
    uint32_t own[KF_MAX_RANK], own_rank = kf_rows_symbols_of(op->outputs[0], own);
    uint32_t whole = kf_rows_is_second(rows, op->outputs[0]), i;
    const uint32_t *shape = whole ? own : rows->second;
    uint32_t rank = whole ? own_rank : rows->second_rank;
    kf_rows_place flat;
    kf_rows_flat_place(rows->symbols, rows->rank, &flat);
    if (rows->second_rank == 0 || !kf_rows_turned_place(&flat, own, own_rank, shape, rank, out)) {
        return 0;
    }
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_rows_second_operand(rows, op->inputs[i], &flat, shape, rank, &inputs[i])) {
            return 0;
        }
        out->phase = inputs[i].phase > out->phase ? inputs[i].phase : out->phase;
    }
    return 1;
}

/// Do the axes of a value follow from aligning it to the right?
static inline uint32_t kf_rows_is_aligned(const kf_rows *rows, const kf_chain_value *value,
                                          const kf_rows_place *place)
{
    uint32_t i;
    for (i = 0; i < value->rank; i++) {
        if (value->symbols[i] != 0 && place->axes[i] != rows->rank - value->rank + i) {
            return 0;
        }
    }
    return value->rank <= rows->rank;
}

/// Where a value lies when the space and the second shape have changed places; 0: nowhere.
static inline uint32_t kf_rows_turned_over(const kf_rows *rows, uint32_t value, kf_rows_place *out)
{
    const kf_chain_value *v = &rows->chain.values[value];
    const kf_rows_place *place = &rows->places[value];
    kf_rows_place flat;
    if (place->form == KF_ROWS_FLAT) {
        kf_rows_whole_place(rows->second, rows->second_rank, v->symbols, v->rank, out);
        return 1;
    }
    if (place->form == KF_ROWS_TURNED || (place->mask != 0 && !v->contiguous) ||
        !kf_rows_is_aligned(rows, v, place)) {
        return 0;
    }
    kf_rows_flat_place(rows->second, rows->second_rank, &flat);
    return kf_rows_turned_place(&flat, v->symbols, v->rank, rows->symbols, rows->rank, out);
}

/// Lets the space and its second shape change places, before the first reduction. 0: a value is in
/// the way, and nothing has changed.
static inline uint32_t kf_rows_turn_over(kf_rows *rows)
{
    kf_rows_place places[KF_CHAIN_VALUES];
    uint32_t old[KF_MAX_RANK], old_rank = rows->rank, i;
    if (rows->reduced != 0 || rows->second_rank == 0) {
        return 0;
    }
    for (i = 0; i < rows->chain.n_values; i++) {
        if (!kf_rows_turned_over(rows, i, &places[i])) {
            return 0;
        }
    }
    memcpy(rows->places, places, rows->chain.n_values * sizeof(places[0]));
    memcpy(old, rows->symbols, sizeof(old));
    memcpy(rows->symbols, rows->second, sizeof(old));
    memcpy(rows->second, old, sizeof(old));
    rows->rank = rows->second_rank;
    rows->second_rank = old_rank;
    return 1;
}

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

#ifdef __cplusplus
}
#endif
#endif
