// SPDX-License-Identifier: MIT OR Apache-2.0
// Dense x [n,c,..] at the points of a dense grid [n,..,axes], over three spatial axes. A work-item
// has `each` points and `channels_each` channels of them. What reads which element is as in
// ir/reference/reference_sample.c, step by step, so that it reads the same ones.
//
//   KILN_A        element type
//   KILN_AXES     1 to 3: coordinates of a point, the last axis of x first
//   KILN_MODE     1 nearest, 2 linear, 4 cubic: elements along each axis
//   KILN_PADDING  0 zeros, 1 border, 2 reflection
//   KILN_ALIGN    -1 and 1 are the middles of the outer elements

#include "window_args.h"

#define C K_C(KILN_A)
#define FAR ((C)16777216)

static inline C clipped(C x, long length)
{
    const C last = (C)(length - 1);
    return !(x >= (C)0) ? (C)0 : x > last ? last : x;
}

static inline C padded(C x, long length)
{
#if KILN_PADDING == 1
    return clipped(x, length);
#elif KILN_PADDING == 2
    const C low = KILN_ALIGN ? (C)0 : (C)-0.5f;
    const C span = KILN_ALIGN ? (C)(length - 1) : (C)length;
    if (span == (C)0) {
        return (C)0;
    }
    x = fabs(x - low);
    const C extra = fmod(x, span);
    const C flips = floor(x / span);
    const C y = fmod(flips, (C)2) == (C)0 ? extra : span - extra;
    return clipped(y + low, length);
#else
    return !(x >= -FAR) ? -FAR : x > FAR ? FAR : x;
#endif
}

static inline long inside(C x, long length)
{
    return x >= (C)0 && x < (C)length ? (long)x : -1;
}

static inline C cubic(C d, C a)
{
    d = fabs(d);
    return d <= (C)1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                     : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

static inline void taps_at(C g, long length, C a, long *places, C *weights)
{
#if KILN_ALIGN
    C x = (g + 1) / 2 * (C)(length - 1);
#else
    C x = ((g + 1) * (C)length - 1) / 2;
#endif
#if KILN_MODE == 4
    x = !(x >= -FAR) ? -FAR : x > FAR ? FAR : x;
    const C base = floor(x);
    for (int k = 0; k < 4; k++) {
        weights[k] = cubic(x - base + 1 - (C)k, a);
        places[k] = inside(padded(base + (C)(k - 1), length), length);
    }
#elif KILN_MODE == 2
    x = padded(x, length);
    places[0] = inside(floor(x), length);
    places[1] = inside(floor(x) + 1, length);
    weights[1] = x - floor(x);
    weights[0] = 1 - weights[1];
#else
    places[0] = inside(rint(padded(x, length)), length);
    weights[0] = 1;
#endif
}

__kernel void kiln_grid_sample(kiln_grid_shape s, C cubic_a, __global K_S(KILN_A) *out,
                               __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *grid)
{
    const long blocks = (s.channels + s.channels_each - 1) / s.channels_each;
    const long item = (long)get_global_id(0);
    const long first_channel = item % blocks * s.channels_each;
    const long last_channel = min(first_channel + s.channels_each, s.channels);
    const long first = item / blocks * s.each;
    const long plane = s.in[0] * s.in[1] * s.in[2];
    for (long at = first; at < min(first + s.each, s.batch * s.points); at++) {
        const long n = at / s.points;
        const long point = at - n * s.points;
        __global const K_S(KILN_A) *g = grid + s.start[2] + at * KILN_AXES;
        long places[3][KILN_MODE];
        C weights[3][KILN_MODE];
        for (int i = 3 - KILN_AXES; i < 3; i++) {
            taps_at(K_LD(KILN_A, g + 2 - i), s.in[i], cubic_a, places[i], weights[i]);
        }
        for (long c = first_channel; c < last_channel; c++) {
            __global const K_S(KILN_A) *x = in + s.start[1] + (n * s.channels + c) * plane;
            C sum = 0;
#if KILN_AXES == 3
            for (int i = 0; i < KILN_MODE; i++) {
#else
            {
                const int i = 0;
#endif
#if KILN_AXES >= 2
                for (int j = 0; j < KILN_MODE; j++) {
#else
                {
                    const int j = 0;
#endif
                    for (int k = 0; k < KILN_MODE; k++) {
                        const long d = KILN_AXES == 3 ? places[0][i] : 0;
                        const long h = KILN_AXES >= 2 ? places[1][j] : 0;
                        const long w = places[2][k];
                        C weight = weights[2][k];
                        weight *= KILN_AXES >= 2 ? weights[1][j] : (C)1;
                        weight *= KILN_AXES == 3 ? weights[0][i] : (C)1;
                        if (weight != (C)0 && min(min(d, h), w) >= 0) {
                            sum += weight * K_LD(KILN_A, x + (d * s.in[1] + h) * s.in[2] + w);
                        }
                    }
                }
            }
            K_ST(KILN_A, out + s.start[0] + (n * s.channels + c) * s.points + point, sum);
        }
    }
}
