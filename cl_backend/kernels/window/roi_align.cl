// SPDX-License-Identifier: MIT OR Apache-2.0
// Bins of boxes in dense x [n,c,h,w]: the mean of samples between elements, or the largest weighted
// element. A work-item has `each` elements of the result [r,c,rows,columns]. What reads which
// element is as in ir/reference/reference_sample.c, step by step. Defines: KILN_A, KILN_B (the batch indices),
// KILN_MAX_MODE, KILN_HALF_PIXEL.

#include "window_args.h"

#define C K_C(KILN_A)

typedef struct box_axis {
    C start;
    C bin;
    long samples;
} box_axis;

static inline box_axis box_axis_of(C from, C to, C scale, long ratio, long bins, long length)
{
    const C offset = KILN_HALF_PIXEL ? (C)0.5f : (C)0;
    box_axis axis;
    axis.start = from * scale - offset;
    C size = to * scale - offset - axis.start;
    if (!KILN_HALF_PIXEL && !(size >= (C)1)) {
        size = (C)1;
    }
    axis.bin = size / (C)bins;
    axis.samples = ratio;
    if (ratio == 0) {
        const C wanted = ceil(axis.bin);
        axis.samples = !(wanted > (C)0) ? 0 : wanted > (C)length ? length : (long)wanted;
    }
    return axis;
}

static inline bool around(const box_axis *axis, long bin, long sample, long length, long *places,
                          C *weight)
{
    const C part = ((C)sample + (C)0.5f) * axis->bin / (C)axis->samples;
    C at = axis->start + (C)bin * axis->bin + part;
    if (!(at >= (C)-1) || at > (C)length) {
        return false;
    }
    at = at > (C)0 ? at : (C)0;
    places[0] = (long)at;
    places[1] = places[0] + 1;
    *weight = at - (C)places[0];
    if (places[0] >= length - 1) {
        places[0] = places[1] = length - 1;
        *weight = (C)0;
    }
    return true;
}

__kernel void kiln_roi_align(kiln_roi_shape s, C scale, __global K_S(KILN_A) *out,
                             __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *boxes,
                             __global const K_S(KILN_B) *batch)
{
    const long total = s.boxes * s.channels * s.out[0] * s.out[1];
    const long first = (long)get_global_id(0) * s.each;
    for (long at = first; at < min(first + s.each, total); at++) {
        const long column = at % s.out[1];
        const long row = at / s.out[1] % s.out[0];
        const long c = at / s.out[1] / s.out[0] % s.channels;
        const long r = at / s.out[1] / s.out[0] / s.channels;
        const long n = clamp((long)batch[s.start[3] + r], 0l, s.batch - 1);
        __global const K_S(KILN_A) *box = boxes + s.start[2] + r * 4;
        __global const K_S(KILN_A) *x =
            in + s.start[1] + (n * s.channels + c) * s.in[0] * s.in[1];
        const box_axis down = box_axis_of(K_LD(KILN_A, box + 1), K_LD(KILN_A, box + 3), scale,
                                          s.ratio, s.out[0], s.in[0]);
        const box_axis along = box_axis_of(K_LD(KILN_A, box), K_LD(KILN_A, box + 2), scale, s.ratio,
                                           s.out[1], s.in[1]);
        C value = 0;
        bool any = false;
        for (long i = 0; i < down.samples; i++) {
            for (long j = 0; j < along.samples; j++) {
                long rows[2];
                long columns[2];
                C v = 0;
                C w = 0;
                const bool seen = around(&down, row, i, s.in[0], rows, &v) &&
                                  around(&along, column, j, s.in[1], columns, &w);
                for (int k = 0; k < 4 && seen; k++) {
                    const C weight = (k / 2 == 0 ? 1 - v : v) * (k % 2 == 0 ? 1 - w : w);
                    const C term =
                        weight * K_LD(KILN_A, x + rows[k / 2] * s.in[1] + columns[k % 2]);
#if KILN_MAX_MODE
                    value = !any || term > value || term != term ? term : value;
                    any = true;
#else
                    value += term;
#endif
                }
#if KILN_MAX_MODE
                if (!seen) {
                    value = !any || value < (C)0 ? (C)0 : value;
                    any = true;
                }
#endif
            }
        }
        const long count = down.samples * along.samples;
        if (!KILN_MAX_MODE && count > 0) {
            value /= (C)count;
        }
        K_ST(KILN_A, out + s.start[0] + at, value);
    }
}
