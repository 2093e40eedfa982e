// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements and walks of the reference evaluator. Decides how an element of each dtype is read and
// rounded: floats are computed in double and rounded once (for + - * / and sqrt of f32, f16 and
// bf16 that equals computing in the type itself: Figueroa, "When is double rounding innocuous?",
// 1995); integers wrap.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

bool kilni_ref_is_float(kiln_dtype dtype)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT;
}

bool kilni_ref_is_signed(kiln_dtype dtype)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
}

kilni_ref_value kilni_ref_of_bool(bool truth)
{
    return (kilni_ref_value){.u = truth ? 1 : 0};
}

kilni_ref_value kilni_ref_of_float(double value)
{
    return (kilni_ref_value){.f = value};
}

static kilni_ref_value load_bits(const unsigned char *p, kiln_dtype dtype)
{
    uint64_t bits = 0;
    uint16_t half = 0;
    float narrow = 0;
    kilni_ref_value value = {0};
    switch (dtype) {
    case KILN_DTYPE_F64:
        memcpy(&value.f, p, 8);
        return value;
    case KILN_DTYPE_F32:
        memcpy(&narrow, p, 4);
        value.f = narrow;
        return value;
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, p, 2);
        value.f = dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
        return value;
    default:
        break;
    }
    size_t size = kiln_dtype_size(dtype);
    memcpy(&bits, p, size); // little-endian hosts only, as the rest of Kiln
    value.u = bits;
    if (kilni_ref_is_signed(dtype) && size < 8 && (bits >> (8 * size - 1) & 1u) != 0) {
        value.u |= UINT64_MAX << (8 * size);
    }
    return value;
}

static void store_bits(unsigned char *p, kiln_dtype dtype, kilni_ref_value value)
{
    if (kilni_ref_is_float(dtype)) {
        kilni_ir_store_float(value.f, dtype, p);
        return;
    }
    if (dtype == KILN_DTYPE_BOOL) {
        value.u = value.u != 0 ? 1 : 0;
    }
    memcpy(p, &value.u, kiln_dtype_size(dtype));
}

static unsigned char *element_in(const kiln_view *view, int64_t at)
{
    int64_t size = (int64_t)kiln_dtype_size(view->dtype);
    return view->buffer->data + view->offset_bytes + at * size;
}

kilni_ref_value kilni_ref_load(const kiln_view *view, int64_t at)
{
    return load_bits(element_in(view, at), view->dtype);
}

void kilni_ref_store(const kiln_view *view, int64_t at, kilni_ref_value value)
{
    store_bits(element_in(view, at), view->dtype, value);
}

kilni_ref_value kilni_ref_scalar(const kiln_op_record *call, kiln_attr_key key, kiln_dtype dtype)
{
    unsigned char element[8] = {0};
    kiln_attr number = *kiln_op_attr(call, key);
    if (number.type == KILN_ATTR_NONE) {
        number = (kiln_attr){KILN_ATTR_F64, 1, {.f = kiln_op_attr_f64(call, key)}};
    }
    (void)kiln_number_store(&number, dtype, element); // infer has checked that it fits
    return load_bits(element, dtype);
}

kilni_ref_value kilni_ref_lowest(kiln_dtype dtype)
{
    unsigned bits = (unsigned)kiln_dtype_size(dtype) * 8;
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float(-(double)INFINITY);
    }
    return (kilni_ref_value){.u = kilni_ref_is_signed(dtype) ? UINT64_MAX << (bits - 1) : 0};
}

kilni_ref_value kilni_ref_highest(kiln_dtype dtype)
{
    unsigned bits = (unsigned)kiln_dtype_size(dtype) * 8;
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float((double)INFINITY);
    }
    if (dtype == KILN_DTYPE_BOOL) {
        return kilni_ref_of_bool(true);
    }
    bits -= kilni_ref_is_signed(dtype) ? 1 : 0;
    return (kilni_ref_value){.u = UINT64_MAX >> (64 - bits)};
}

bool kilni_ref_less(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return a.f < b.f;
    }
    return kilni_ref_is_signed(dtype) ? a.i < b.i : a.u < b.u;
}

bool kilni_ref_equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? a.f == b.f : a.u == b.u;
}

bool kilni_ref_is_nan(kilni_ref_value a, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) && isnan(a.f);
}

kilni_ref_value kilni_ref_plus(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(a.f + b.f)
                                     : (kilni_ref_value){.u = a.u + b.u};
}

kilni_ref_value kilni_ref_times(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(a.f * b.f)
                                     : (kilni_ref_value){.u = a.u * b.u};
}

kilni_ref_value kilni_ref_zero(kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(0) : kilni_ref_of_bool(false);
}

kilni_ref_value kilni_ref_one(kiln_dtype dtype)
{
    return kilni_ref_is_float(dtype) ? kilni_ref_of_float(1) : kilni_ref_of_bool(true);
}

kilni_ref_value kilni_ref_max(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (kilni_ref_is_nan(a, dtype)) {
        return a;
    }
    return kilni_ref_is_nan(b, dtype) || kilni_ref_less(a, b, dtype) ? b : a;
}

kilni_ref_value kilni_ref_min(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype)
{
    if (kilni_ref_is_nan(a, dtype)) {
        return a;
    }
    return kilni_ref_is_nan(b, dtype) || kilni_ref_less(b, a, dtype) ? b : a;
}

kilni_ref_value kilni_ref_abs(kilni_ref_value a, kiln_dtype dtype)
{
    if (kilni_ref_is_float(dtype)) {
        return kilni_ref_of_float(fabs(a.f));
    }
    if (!kilni_ref_is_signed(dtype) || a.i >= 0) {
        return a;
    }
    // Through the element's own width, so that the smallest stays itself.
    a.u = 0 - a.u;
    unsigned shift = 64 - 8 * (unsigned)kiln_dtype_size(dtype);
    if (shift > 0 && (a.u << shift) >> 63 != 0) {
        a.u |= UINT64_MAX << (64 - shift);
    }
    return a;
}

void kilni_ref_walk_init(kilni_ref_walk *walk, const int64_t *dims, uint32_t rank)
{
    memset(walk, 0, sizeof(*walk));
    walk->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        walk->dims[i] = dims[i];
        walk->done = walk->done || dims[i] == 0;
    }
}

void kilni_ref_walk_add(kilni_ref_walk *walk, const kiln_view *view)
{
    int64_t *strides = walk->strides[walk->n_views++];
    for (uint32_t i = 0; i < view->rank; i++) {
        strides[walk->rank - view->rank + i] = view->dims[i] != 1 ? view->strides[i] : 0;
    }
}

void kilni_ref_walk_next(kilni_ref_walk *walk)
{
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->index[i]++;
        for (uint32_t v = 0; v < walk->n_views; v++) {
            walk->at[v] += walk->strides[v][i];
        }
        if (walk->index[i] < walk->dims[i]) {
            return;
        }
        for (uint32_t v = 0; v < walk->n_views; v++) {
            walk->at[v] -= walk->strides[v][i] * walk->dims[i];
        }
        walk->index[i] = 0;
    }
    walk->done = true;
}

void kilni_ref_copy(const kiln_view *source, const kiln_view *target)
{
    kilni_ref_walk walk;
    size_t size = kiln_dtype_size(source->dtype);
    kilni_ref_walk_init(&walk, target->dims, target->rank);
    kilni_ref_walk_add(&walk, source);
    kilni_ref_walk_add(&walk, target);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        memmove(element_in(target, walk.at[1]), element_in(source, walk.at[0]), size);
    }
}

int64_t kilni_ref_offset(const kiln_view *view, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        at += index[i] * view->strides[i];
    }
    return at;
}

int64_t kilni_ref_clamped(int64_t index, int64_t length)
{
    index = index < 0 ? index + length : index;
    if (index < 0) {
        return 0;
    }
    return index < length ? index : length - 1;
}
