// SPDX-License-Identifier: MIT OR Apache-2.0
// The deformable im2col of dense tensors, and what its columns give back. What reads which element
// is as in ir/reference/reference_deform.c, so that it reads the same ones; offsets may be anything.
//
//   kiln_deform_columns  each element of the columns; a work-item has `each` of them
//   kiln_deform_offsets  gradients of an offset (y and x) and of its mask; `each` of them
//   kiln_deform_x        gradient of one plane of x in the type of computation, by one work-item,
//                        so that sums have an order
//   kiln_deform_narrow   that gradient in its own type
//
// Defines: KILN_A (element type), KILN_MASK (0 none, 1 one number, 2 for each point).

#include "window_args.h"

#define C K_C(KILN_A)

typedef struct point {
    long row; // above and left; -2: far outside
    long column;
    C down;
    C along;
} point;

static inline void split(C at, long length, long *first, C *part)
{
    const bool inside = at > (C)-1 && at < (C)length;
    *first = inside ? (long)floor(at) : -2;
    *part = inside ? at - floor(at) : (C)0;
}

// `place` is (group * taps + tap); of window p of image n.
static inline point point_at(const kiln_deform_shape *s, __global const K_S(KILN_A) *offset,
                             long n, long place, long p)
{
    const long taps = s->w.taps[1] * s->w.taps[2];
    const long windows = s->w.out[1] * s->w.out[2];
    const long tap = place % taps;
    const long top = p / s->w.out[2] * s->w.strides[1] - s->w.begin[1] +
                     tap / s->w.taps[2] * s->w.dilations[1];
    const long left = p % s->w.out[2] * s->w.strides[2] - s->w.begin[2] +
                      tap % s->w.taps[2] * s->w.dilations[2];
    __global const K_S(KILN_A) *o =
        offset + s->start[1] + (n * s->groups * taps + place) * 2 * windows + p;
    point at;
    split((C)top + K_LD(KILN_A, o), s->w.in[1], &at.row, &at.down);
    split((C)left + K_LD(KILN_A, o + windows), s->w.in[2], &at.column, &at.along);
    return at;
}

static inline C mask_at(const kiln_deform_shape *s, __global const K_S(KILN_A) *mask, long n,
                        long place, long p)
{
#if KILN_MASK == 0
    return (C)1;
#elif KILN_MASK == 1
    return K_LD(KILN_A, mask + s->start[2]);
#else
    const long taps = s->w.taps[1] * s->w.taps[2];
    const long windows = s->w.out[1] * s->w.out[2];
    return K_LD(KILN_A, mask + s->start[2] + (n * s->groups * taps + place) * windows + p);
#endif
}

// Corner k: above left, above right, below left, below right; 0 outside.
static inline C corner(const kiln_deform_shape *s, __global const K_S(KILN_A) *plane,
                       const point *at, int k)
{
    const long row = at->row + k / 2;
    const long column = at->column + k % 2;
    const bool inside = at->row > -2 && at->column > -2 && row >= 0 && row < s->w.in[1] &&
                        column >= 0 && column < s->w.in[2];
    return inside ? K_LD(KILN_A, plane + row * s->w.in[2] + column) : (C)0;
}

static inline C corner_weight(const point *at, int k)
{
    return (k / 2 == 0 ? 1 - at->down : at->down) * (k % 2 == 0 ? 1 - at->along : at->along);
}

static inline C value_at(const kiln_deform_shape *s, __global const K_S(KILN_A) *plane,
                         const point *at)
{
    C sum = 0;
    for (int k = 0; k < 4; k++) {
        const C weight = corner_weight(at, k);
        sum += weight != (C)0 ? weight * corner(s, plane, at, k) : (C)0;
    }
    return sum;
}

__kernel void kiln_deform_columns(kiln_deform_shape s, __global K_S(KILN_A) *out,
                                  __global const K_S(KILN_A) *in,
                                  __global const K_S(KILN_A) *offset,
                                  __global const K_S(KILN_A) *mask)
{
    const long taps = s.w.taps[1] * s.w.taps[2];
    const long windows = s.w.out[1] * s.w.out[2];
    const long total = s.batch * s.channels * taps * windows;
    const long first = (long)get_global_id(0) * s.each;
    for (long i = first; i < min(first + s.each, total); i++) {
        const long p = i % windows;
        const long tap = i / windows % taps;
        const long plane = i / windows / taps;
        const long n = plane / s.channels;
        const long group = (plane - n * s.channels) / (s.channels / s.groups);
        const long place = group * taps + tap;
        const point at = point_at(&s, offset, n, place, p);
        const C value =
            value_at(&s, in + s.start[0] + plane * s.w.in[1] * s.w.in[2], &at);
        K_ST(KILN_A, out + s.result[0] + i, value * mask_at(&s, mask, n, place, p));
    }
}

__kernel void kiln_deform_offsets(kiln_deform_shape s, __global K_S(KILN_A) *offset_out,
                                  __global K_S(KILN_A) *mask_out,
                                  __global const K_S(KILN_A) *in,
                                  __global const K_S(KILN_A) *offset,
                                  __global const K_S(KILN_A) *mask,
                                  __global const K_S(KILN_A) *grad)
{
    const long taps = s.w.taps[1] * s.w.taps[2];
    const long windows = s.w.out[1] * s.w.out[2];
    const long each = s.channels / s.groups;
    const long total = s.batch * s.groups * taps * windows;
    const long first = (long)get_global_id(0) * s.each;
    for (long i = first; i < min(first + s.each, total); i++) {
        const long p = i % windows;
        const long place = i / windows % (s.groups * taps);
        const long n = i / windows / (s.groups * taps);
        const point at = point_at(&s, offset, n, place, p);
        const C factor = mask_at(&s, mask, n, place, p);
        C sums[3] = {0, 0, 0};
        for (long c = place / taps * each; c < (place / taps + 1) * each; c++) {
            const long plane = n * s.channels + c;
            __global const K_S(KILN_A) *x = in + s.start[0] + plane * s.w.in[1] * s.w.in[2];
            const C g =
                K_LD(KILN_A, grad + s.start[3] + (plane * taps + place % taps) * windows + p);
            C v[4];
            for (int k = 0; k < 4; k++) {
                v[k] = corner(&s, x, &at, k);
            }
            sums[0] += g * factor * ((1 - at.along) * (v[2] - v[0]) + at.along * (v[3] - v[1]));
            sums[1] += g * factor * ((1 - at.down) * (v[1] - v[0]) + at.down * (v[3] - v[2]));
            sums[2] += g * value_at(&s, x, &at);
        }
        __global K_S(KILN_A) *to =
            offset_out + s.result[1] + (n * s.groups * taps + place) * 2 * windows + p;
        K_ST(KILN_A, to, sums[0]);
        K_ST(KILN_A, to + windows, sums[1]);
        K_ST(KILN_A, mask_out + s.result[2] + i, sums[2]);
    }
}

__kernel void kiln_deform_x(kiln_deform_shape s, __global C *sums,
                            __global const K_S(KILN_A) *offset,
                            __global const K_S(KILN_A) *mask, __global const K_S(KILN_A) *grad)
{
    const long taps = s.w.taps[1] * s.w.taps[2];
    const long windows = s.w.out[1] * s.w.out[2];
    const long plane = (long)get_global_id(0);
    if (plane >= s.batch * s.channels) {
        return;
    }
    const long n = plane / s.channels;
    const long group = (plane - n * s.channels) / (s.channels / s.groups);
    __global C *to = sums + plane * s.w.in[1] * s.w.in[2];
    for (long i = 0; i < s.w.in[1] * s.w.in[2]; i++) {
        to[i] = 0;
    }
    for (long i = 0; i < taps * windows; i++) {
        const long place = group * taps + i / windows;
        const long p = i % windows;
        const point at = point_at(&s, offset, n, place, p);
        const C g = K_LD(KILN_A, grad + s.start[3] + plane * taps * windows + i) *
                    mask_at(&s, mask, n, place, p);
        for (int k = 0; k < 4; k++) {
            const long row = at.row + k / 2;
            const long column = at.column + k % 2;
            if (at.row > -2 && at.column > -2 && row >= 0 && row < s.w.in[1] && column >= 0 &&
                column < s.w.in[2]) {
                to[row * s.w.in[2] + column] += g * corner_weight(&at, k);
            }
        }
    }
}

__kernel void kiln_deform_narrow(kiln_deform_shape s, __global K_S(KILN_A) *out,
                                 __global const C *sums)
{
    const long total = s.batch * s.channels * s.w.in[1] * s.w.in[2];
    const long first = (long)get_global_id(0) * s.each;
    for (long i = first; i < min(first + s.each, total); i++) {
        K_ST(KILN_A, out + s.result[0] + i, sums[i]);
    }
}
