// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_row_place.h: where the values of a chain with reductions lie in its space. Part of
// kf_row_space.h.
#ifndef KILN_PLUGIN_SDK_KF_ROW_PLACE_H
#define KILN_PLUGIN_SDK_KF_ROW_PLACE_H

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

// ---- whole vectors ----

/// Is the innermost extent of the space a multiple of `width`? As far as the host knows.
static inline uint32_t kf_rows_is_even(const kf_rows *rows, uint32_t width)
{
    uint32_t i;
    for (i = 0; i < rows->chain.n_values; i++) {
        if (rows->places[i].form == KF_ROWS_ON_AXES && rows->places[i].mask == kf_rows_all(rows) &&
            rows->chain.values[i].id != KF_NONE && rows->chain.values[i].div_by % width == 0) {
            return 1;
        }
    }
    return 0;
}

/// In an even space, the dtypes, as bits, whose vectors in all tensors that are walked along a row
/// lie at multiples of their size: one access of memory each, by NEAR_x.
static inline uint64_t kf_rows_near(const kf_rows *rows, uint32_t width, uint32_t mem_align)
{
    uint64_t near_ones = ~0ull;
    uint32_t i;
    for (i = 0; i < rows->chain.n_values; i++) {
        const kf_chain_value *value = &rows->chain.values[i];
        uint32_t bytes = kf_dtype_of(value->dtype).bytes * width;
        uint32_t there = !value->computed || kf_chain_is_output(value);
        uint32_t start = value->zero_offset ? mem_align : 1u << value->align_log2;
        if (there && kf_rows_is_full(rows, i) &&
            (!value->contiguous || start == 0 || start % bytes != 0 ||
             rows->places[i].form == KF_ROWS_TURNED)) {
            near_ones &= ~(1ull << value->dtype);
        }
    }
    return near_ones;
}

#ifdef __cplusplus
}
#endif
#endif
