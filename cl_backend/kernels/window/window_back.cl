// SPDX-License-Identifier: MIT OR Apache-2.0
// What windows give back to the elements that they saw: the sum over all pairs of a window and one
// of its elements that is this one. A work-item has `each` pieces of KILN_CHUNK neighbours of one
// row of the result, summed in private memory, so that windows along the row are added as rows.
//
//   KILN_A            element type
//   KILN_MODE         0 a column for each pair (col2im); 1 the gradient where the index says so;
//                     2 the gradient by the length of the window; 3 the same of adaptive windows
//   KILN_B            element type of the indices
//   KILN_INCLUDE_PAD  the length counts padding

#include "window_args.h"

#define C K_C(KILN_A)

// The first and the last window whose element `tap` is in [from, until).
static inline long first_window(const kiln_window *w, int axis, long tap, long from)
{
    const long place = from + w->begin[axis] - tap * w->dilations[axis];
    return place <= 0 ? 0 : (place + w->strides[axis] - 1) / w->strides[axis];
}

static inline long last_window(const kiln_window *w, int axis, long tap, long until)
{
    const long place = until - 1 + w->begin[axis] - tap * w->dilations[axis];
    return place < 0 ? -1 : min(place / w->strides[axis], w->out[axis] - 1);
}

// Elements of window i that the mean divides by, along one axis.
static inline long length_of(const kiln_window *w, int axis, long i)
{
    const long first = i * w->strides[axis] - w->begin[axis];
    const long step = w->dilations[axis];
    const long high = w->in[axis] + (KILN_INCLUDE_PAD ? w->end[axis] : 0);
    long until = w->taps[axis];
    if (first + (until - 1) * step >= high) {
        until = first >= high ? 0 : (high - first + step - 1) / step;
    }
    const long skipped =
        KILN_INCLUDE_PAD || first >= 0 ? 0 : min((step - 1 - first) / step, until);
    return until - skipped;
}

#if KILN_MODE == 1
#define INDEX_ARGUMENT , __global const K_S(KILN_B) *indices
#else
#define INDEX_ARGUMENT
#endif

#if KILN_MODE != 3

__kernel void kiln_window_back(kiln_back_shape s, __global K_S(KILN_A) *out,
                               __global const K_S(KILN_A) *grad INDEX_ARGUMENT)
{
    const long pieces = s.planes * s.w.in[0] * s.w.in[1] * s.chunks;
    const long taps = s.w.taps[0] * s.w.taps[1] * s.w.taps[2];
    const long windows = s.w.out[0] * s.w.out[1] * s.w.out[2];
    const long begin = (long)get_global_id(0) * s.each;
    for (long piece = begin; piece < min(begin + s.each, pieces); piece++) {
        C sums[KILN_CHUNK];
        const long row = piece / s.chunks;
        const long from = piece % s.chunks * KILN_CHUNK;
        const long until = min(from + KILN_CHUNK, s.w.in[2]);
        const long h = row % s.w.in[1];
        const long d = row / s.w.in[1] % s.w.in[0];
        const long plane = row / s.w.in[1] / s.w.in[0];
        for (int i = 0; i < KILN_CHUNK; i++) {
            sums[i] = 0;
        }
        for (long kd = 0; kd < s.w.taps[0]; kd++) {
            const long od = first_window(&s.w, 0, kd, d);
            if (od > last_window(&s.w, 0, kd, d + 1)) {
                continue;
            }
            for (long kh = 0; kh < s.w.taps[1]; kh++) {
                const long oh = first_window(&s.w, 1, kh, h);
                if (oh > last_window(&s.w, 1, kh, h + 1)) {
                    continue;
                }
                const long line = (od * s.w.out[1] + oh) * s.w.out[2];
#if KILN_MODE == 2
                const long length = length_of(&s.w, 0, od) * length_of(&s.w, 1, oh);
#endif
                for (long kw = 0; kw < s.w.taps[2]; kw++) {
                    const long first = first_window(&s.w, 2, kw, from);
                    const long last = last_window(&s.w, 2, kw, until);
                    long at = first * s.w.strides[2] - s.w.begin[2] + kw * s.w.dilations[2] - from;
#if KILN_MODE == 0
                    const long tap = (kd * s.w.taps[1] + kh) * s.w.taps[2] + kw;
                    __global const K_S(KILN_A) *g =
                        grad + s.start[1] + (plane * taps + tap) * windows + line;
                    if (s.w.strides[2] == 1) {
                        for (long o = first; o <= last; o++) {
                            sums[at + o - first] += K_LD(KILN_A, g + o);
                        }
                        continue;
                    }
#else
                    __global const K_S(KILN_A) *g = grad + s.start[1] + plane * windows + line;
#endif
                    for (long o = first; o <= last; o++, at += s.w.strides[2]) {
#if KILN_MODE == 0
                        sums[at] += K_LD(KILN_A, g + o);
#elif KILN_MODE == 1
                        const long place = (d * s.w.in[1] + h) * s.w.in[2] + from + at;
                        const long index = (long)indices[s.start[2] + plane * windows + line + o];
                        sums[at] += index == place ? K_LD(KILN_A, g + o) : (C)0;
#else
                        sums[at] +=
                            K_LD(KILN_A, g + o) / (C)(length * length_of(&s.w, 2, o));
#endif
                    }
                }
            }
        }
        for (int i = 0; i < (int)(until - from); i++) {
            K_ST(KILN_A, out + s.start[0] + row * s.w.in[2] + from + i, sums[i]);
        }
    }
}

#else

// The first and one past the last adaptive window that has the place; first and one past the last
// place of a window.
#define LOW(axis, i) ((i) * s.w.in[axis] / s.w.out[axis])
#define HIGH(axis, i) ((((i) + 1) * s.w.in[axis] + s.w.out[axis] - 1) / s.w.out[axis])
#define FIRST(axis, place) ((place) * s.w.out[axis] / s.w.in[axis])
#define LAST(axis, place)                                                                          \
    ((((place) + 1) * s.w.out[axis] + s.w.in[axis] - 1) / s.w.in[axis])

__kernel void kiln_window_back(kiln_back_shape s, __global K_S(KILN_A) *out,
                               __global const K_S(KILN_A) *grad)
{
    const long pieces = s.planes * s.w.in[0] * s.w.in[1] * s.chunks;
    const long begin = (long)get_global_id(0) * s.each;
    for (long piece = begin; piece < min(begin + s.each, pieces); piece++) {
        const long row = piece / s.chunks;
        const long from = piece % s.chunks * KILN_CHUNK;
        const long h = row % s.w.in[1];
        const long d = row / s.w.in[1] % s.w.in[0];
        __global const K_S(KILN_A) *g =
            grad + s.start[1] +
            row / s.w.in[1] / s.w.in[0] * s.w.out[0] * s.w.out[1] * s.w.out[2];
        for (long w = from; w < min(from + KILN_CHUNK, s.w.in[2]); w++) {
            C sum = 0;
            for (long i = FIRST(0, d); i < LAST(0, d); i++) {
                for (long j = FIRST(1, h); j < LAST(1, h); j++) {
                    const long area = (HIGH(0, i) - LOW(0, i)) * (HIGH(1, j) - LOW(1, j));
                    for (long k = FIRST(2, w); k < LAST(2, w); k++) {
                        sum += K_LD(KILN_A, g + (i * s.w.out[1] + j) * s.w.out[2] + k) /
                               (C)(area * (HIGH(2, k) - LOW(2, k)));
                    }
                }
            }
            K_ST(KILN_A, out + s.start[0] + row * s.w.in[2] + w, sum);
        }
    }
}

#endif
