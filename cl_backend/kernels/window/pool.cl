// SPDX-License-Identifier: MIT OR Apache-2.0
// Each window of dense x [n,c,..] as one number. A work-item has `each` rows of the result, or one
// element of it. Defines:
//
//   KILN_A            element type
//   KILN_MODE         0 the largest, 1 the mean, 2 (sum of |x|^p)^(1/p)
//   KILN_P            1 or 2: that exponent; 0: argument p
//   KILN_INDICES      1: the places of the largest too
//   KILN_INCLUDE_PAD  the mean divides by the elements of the window with its padding
//   KILN_ADAPTIVE     windows from floor(i * in / out) to ceil((i + 1) * in / out)

#include "window_args.h"

#define C K_C(KILN_A)

typedef struct range { // of one window along one axis
    long from;
    long step;
    long count;
    long divisor;
} range;

static inline range range_of(const kiln_window *w, int axis, long i)
{
    range r;
#if KILN_ADAPTIVE
    r.from = i * w->in[axis] / w->out[axis];
    r.step = 1;
    r.count = ((i + 1) * w->in[axis] + w->out[axis] - 1) / w->out[axis] - r.from;
    r.divisor = r.count;
#else
    const long first = i * w->strides[axis] - w->begin[axis];
    const long step = w->dilations[axis];
    const long reach = first + (w->taps[axis] - 1) * step;
    const long skipped = first >= 0 ? 0 : (step - 1 - first) / step;
    long until = w->taps[axis];
    long padded = w->taps[axis];
    if (reach >= w->in[axis]) {
        until = first >= w->in[axis] ? 0 : (w->in[axis] - first + step - 1) / step;
        padded = min(padded, max((w->in[axis] + w->end[axis] - first + step - 1) / step, 0l));
    }
    r.from = first + skipped * step;
    r.step = step;
    r.count = max(until - skipped, 0l);
    r.divisor = KILN_INCLUDE_PAD ? padded : r.count;
#endif
    return r;
}

#if KILN_P == 1
#define POWER(x) fabs(x)
#define ROOT(x) (x)
#elif KILN_P == 2
#define POWER(x) ((x) * (x))
#define ROOT(x) sqrt(x)
#else
#define POWER(x) pow(fabs(x), (C)p)
#define ROOT(x) pow(x, (C)1 / (C)p)
#endif

#if KILN_INDICES
#define LAST_ARGUMENT , __global long *indices
#elif KILN_MODE == 2
#define LAST_ARGUMENT , C p
#else
#define LAST_ARGUMENT
#endif

__kernel void kiln_pool(kiln_pool_shape s, __global K_S(KILN_A) *out,
                        __global const K_S(KILN_A) *in LAST_ARGUMENT)
{
    const long rows = s.planes * s.w.out[0] * s.w.out[1];
#if KILN_ROWS
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, rows);
#else
    const long first = (long)get_global_id(0) / s.w.out[2];
    const long last = min(first + 1, rows);
#endif
    for (long row = first; row < last; row++) {
        const long plane = row / s.w.out[1] / s.w.out[0];
        const range deep = range_of(&s.w, 0, row / s.w.out[1] % s.w.out[0]);
        const range down = range_of(&s.w, 1, row % s.w.out[1]);
        __global const K_S(KILN_A) *x =
            in + s.start[1] + plane * s.w.in[0] * s.w.in[1] * s.w.in[2];
#if KILN_ROWS
        for (long column = 0; column < s.w.out[2]; column++) {
#else
        {
            const long column = (long)get_global_id(0) - row * s.w.out[2];
#endif
            const range along = range_of(&s.w, 2, column);
#if KILN_MODE == 0
            C result = K_MIN(KILN_A);
#else
            C result = 0;
#endif
            long place = -1;
            for (long i = 0; i < deep.count; i++) {
                for (long j = 0; j < down.count; j++) {
                    const long line = ((deep.from + i * deep.step) * s.w.in[1] + down.from +
                                       j * down.step) *
                                          s.w.in[2] +
                                      along.from;
                    for (long k = 0; k < along.count; k++) {
                        const long at = line + k * along.step;
                        const C v = K_LD(KILN_A, x + at);
#if KILN_MODE == 0 && KILN_INDICES
                        const bool first_nan =
                            K_IS_NAN(KILN_A, v) && !K_IS_NAN(KILN_A, result);
                        const bool takes = place < 0 || result < v || first_nan;
                        result = takes ? v : result;
                        place = takes ? at : place;
#elif KILN_MODE == 0
                        result = result < v || K_IS_NAN(KILN_A, v) ? v : result;
#elif KILN_MODE == 1
                        result += v;
#else
                        result += POWER(v);
#endif
                    }
                }
            }
#if KILN_MODE == 1
            result /= (C)(deep.divisor * down.divisor * along.divisor);
#elif KILN_MODE == 2
            result = ROOT(result);
#endif
            K_ST(KILN_A, out + s.start[0] + row * s.w.out[2] + column, result);
#if KILN_INDICES
            indices[s.start[2] + row * s.w.out[2] + column] = place;
#endif
        }
    }
}
