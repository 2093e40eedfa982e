// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_row_second.h: the second shape of a space, and how the two change places. Part of
// kf_row_space.h.
#ifndef KILN_PLUGIN_SDK_KF_ROW_SECOND_H
#define KILN_PLUGIN_SDK_KF_ROW_SECOND_H

#include "kf_row_place.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
