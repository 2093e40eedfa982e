// SPDX-License-Identifier: MIT OR Apache-2.0
// Values put to places of the result, or combined with what is there, in fixed order. An index
// below 0 counts from the end; a place outside is dropped. Operand 0 of the shape is the result,
// a the values, b the indices; their axes are lanes that never meet at one place.
//
//   kiln_scatter           a work-item goes through all values of its lanes in order. Where lanes
//                          are few, each takes the places of one part of the first axis only.
//   kiln_scatter_keys      places as keys for sorting, with the order of the values
//   kiln_scatter_segments  a work-item for the first of equal keys and a chunk of lanes
//
//   KILN_O, KILN_A  element types of the result and the values (unsigned when only moved)
//   KILN_B          i32 or i64: the indices
//   KILN_OP         IS_assign, IS_add, IS_mul, IS_min, IS_max
//   KILN_DEPTH      indices that make up one place, `distance` apart
//   KILN_SHARED     1: all lanes along the inner axis have the same index

#include "move_args.h"

#define D KILN_O
#define C K_C(D)

#define IS_assign 1
#define IS_add 2
#define IS_mul 3
#define IS_min 4
#define IS_max 5

#if K_KIND(D) == 8
#define NOT_A_NUMBER(b) ((b) != (b))
#define WRAPPED(op, a, b) ((a)op(b))
#else
#define NOT_A_NUMBER(b) 0
#define WRAPPED(op, a, b) ((C)((K_U(D))(a)op(K_U(D))(b)))
#endif

#if KILN_OP == IS_assign
#define JOIN(a, b) (b)
#elif KILN_OP == IS_add
#define JOIN(a, b) WRAPPED(+, a, b)
#elif KILN_OP == IS_mul
#define JOIN(a, b) WRAPPED(*, a, b)
#elif KILN_OP == IS_min
#define JOIN(a, b) ((a) > (b) || NOT_A_NUMBER(b) ? (b) : (a))
#else
#define JOIN(a, b) ((a) < (b) || NOT_A_NUMBER(b) ? (b) : (a))
#endif

// The place of a value in elements; -1 when it is dropped. `first` gets its index along the first
// axis.
static inline long place_of(const kiln_sequence *t, __global const K_S(KILN_B) *indices,
                            long *first)
{
    long place = 0;
    bool inside = true;
    for (int k = 0; k < KILN_DEPTH; k++) {
        const long given = (long)indices[k * t->distance];
        const long index = given < 0 ? given + t->lengths[k] : given;
        inside = inside && index >= 0 && index < t->lengths[k];
        place += index * t->strides[k];
        *first = k == 0 ? index : *first;
    }
    return inside ? place : -1;
}

static inline void put(__global K_S(D) *to, __global const K_S(KILN_A) *from)
{
#if KILN_OP == IS_assign
    K_ST(D, to, (C)K_LD(KILN_A, from));
#else
    const C old = K_LD(D, to);
    const C value = (C)K_LD(KILN_A, from);
    K_ST(D, to, JOIN(old, value));
#endif
}

#if KILN_SEGMENTS == 0

__kernel void kiln_scatter(kiln_shape s, kiln_sequence t, __global K_S(D) *out,
                           __global const K_S(KILN_A) *values,
                           __global const K_S(KILN_B) *indices)
{
    // the pieces of the shape, each as often as there are parts
    const long item = (long)get_global_id(0);
    const long part = item / s.items;
    const long rest = item - part * s.items;
    const long low = part * t.part_length;
    const long high = low + t.part_length;
    const long group = rest / s.chunks;
    const long begin = (rest - group * s.chunks) * s.chunk;
    const long end = min(begin + s.chunk, s.inner);
    const long last_row = min((group + 1) * s.rows_each, s.rows);
    if (part >= t.parts) {
        return;
    }
    for (long row = group * s.rows_each; row < last_row; row++) {
        const kiln_offsets at = k_row(&s, row);
        for (long i = 0; i < t.count; i++) {
            __global const K_S(KILN_A) *from = values + at.a + i * t.value_stride;
            __global const K_S(KILN_B) *index = indices + at.b + i * t.index_stride;
            long first = 0;
#if KILN_SHARED
            const long place = place_of(&t, index, &first);
            if (place < 0 || (t.parts > 1 && (first < low || first >= high))) {
                continue;
            }
            __global K_S(D) *to = out + at.o + place;
            if (s.stride[0][7] == 1 && s.stride[1][7] == 1) {
                for (long j = begin; j < end; j++) {
                    put(to + j, from + j);
                }
            } else {
                for (long j = begin; j < end; j++) {
                    put(to + j * s.stride[0][7], from + j * s.stride[1][7]);
                }
            }
#else
            for (long j = begin; j < end; j++) {
                const long place = place_of(&t, index + j * s.stride[2][7], &first);
                if (place >= 0 && (t.parts == 1 || (first >= low && first < high))) {
                    put(out + at.o + place + j * s.stride[0][7], from + j * s.stride[1][7]);
                }
            }
#endif
        }
    }
}

#else

// Keys of one line: (place, order) with the place in the high half, or in x of a pair where places
// need 64 bits. What is dropped sorts to the end.
#if KILN_SEGMENTS == 2
#define E ulong2
#define PLACE(e) ((e).x)
#define ORDER(e) ((long)(e).y)
#define KEY(place, order) ((ulong2)((place), (order)))
#define DROPPED ULONG_MAX
#else
#define E ulong
#define PLACE(e) ((e) >> 32)
#define ORDER(e) ((long)((e) & 0xfffffffful))
#define KEY(place, order) ((place) << 32 | (order))
#define DROPPED 0xfffffffful
#endif

__kernel void kiln_scatter_keys(kiln_sequence t, __global E *keys,
                                __global const K_S(KILN_B) *indices, long start)
{
    const long i = (long)get_global_id(0);
    if (i < t.count) {
        long first = 0;
        const long place = place_of(&t, indices + start + i * t.index_stride, &first);
        keys[i] = KEY(place < 0 ? DROPPED : (ulong)place, (ulong)i);
    }
}

__kernel void kiln_scatter_segments(kiln_shape s, kiln_sequence t, __global K_S(D) *out,
                                    __global const K_S(KILN_A) *values, __global const E *keys)
{
    const long item = (long)get_global_id(0);
    const long i = item / s.items;
    const long rest = item - i * s.items;
    const long group = rest / s.chunks;
    const long begin = (rest - group * s.chunks) * s.chunk;
    const long end = min(begin + s.chunk, s.inner);
    const long last_row = min((group + 1) * s.rows_each, s.rows);
    if (i >= t.count) {
        return;
    }
    const ulong place = PLACE(keys[i]);
    if (place == DROPPED || (i > 0 && PLACE(keys[i - 1]) == place)) {
        return;
    }
    long after = i + 1;
    while (after < t.count && PLACE(keys[after]) == place) {
        after++;
    }
    for (long row = group * s.rows_each; row < last_row; row++) {
        const kiln_offsets at = k_row(&s, row);
        for (long j = begin; j < end; j++) {
            __global K_S(D) *to = out + at.o + (long)place + j * s.stride[0][7];
            __global const K_S(KILN_A) *from = values + at.a + j * s.stride[1][7];
#if KILN_OP == IS_assign
            K_ST(D, to, (C)K_LD(KILN_A, from + ORDER(keys[after - 1]) * t.value_stride));
#else
            C so_far = K_LD(D, to);
            for (long k = i; k < after; k++) {
                const C value = (C)K_LD(KILN_A, from + ORDER(keys[k]) * t.value_stride);
                so_far = JOIN(so_far, value);
            }
            K_ST(D, to, so_far);
#endif
        }
    }
}

#endif
