// SPDX-License-Identifier: MIT OR Apache-2.0
// Index of the largest or smallest element along one axis; NaN beats everything. Defines:
//
//   KILN_A         element type of the input
//   KILN_SMALLEST  1 for argmin;  KILN_LAST  1: of equal elements the last
//   KILN_GROUP     work-items that share one result; 0: a work-item has `each` results of its own
//   KILN_ALONG     1: vectors along the axis, which is dense
//   KILN_ACROSS    1: vectors across KILN_NC * KILN_V results, which are neighbours

#include "reduce_args.h"

#define C K_C(KILN_A)

// Whether x is beyond y; 2 when they are equal (as are two NaN).
static inline int compare(C x, C y)
{
    const bool x_nan = K_IS_NAN(KILN_A, x);
    const bool y_nan = K_IS_NAN(KILN_A, y);
    if (x_nan || y_nan) {
        return x_nan && y_nan ? 2 : x_nan;
    }
#if KILN_SMALLEST
    return x == y ? 2 : x < y;
#else
    return x == y ? 2 : x > y;
#endif
}

static inline bool replaces(C x, long x_place, C y, long y_place)
{
    const int order = compare(x, y);
#if KILN_LAST
    return order == 1 || (order == 2 && x_place > y_place);
#else
    return order == 1 || (order == 2 && x_place < y_place);
#endif
}

static inline long row_start(const kiln_argreduce_shape *s, long output)
{
    long at = s->in_start;
    for (int d = (int)s->rank - 1; d >= 0; d--) {
        const long above = output / s->dims[d];
        at += (output - above * s->dims[d]) * s->strides[d];
        output = above;
    }
    return at;
}

#if KILN_GROUP

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_argreduce(kiln_argreduce_shape s, __global long *out, __global const K_S(KILN_A) *in)
{
    __local C values[KILN_GROUP];
    __local long places[KILN_GROUP];
    const int lane = (int)get_local_id(0);
    const long o = (long)get_group_id(0);
    __global const K_S(KILN_A) *p = in + row_start(&s, o);
    long place = lane < s.length ? lane : 0;
    C best = K_LD(KILN_A, p + place * s.stride);
    for (long i = lane; i < s.length; i += KILN_GROUP) {
        const C x = K_LD(KILN_A, p + i * s.stride);
        if (replaces(x, i, best, place)) {
            best = x;
            place = i;
        }
    }
    values[lane] = best;
    places[lane] = place;
    for (int width = KILN_GROUP / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < width &&
            replaces(values[lane + width], places[lane + width], values[lane], places[lane])) {
            values[lane] = values[lane + width];
            places[lane] = places[lane + width];
        }
    }
    if (lane == 0) {
        out[s.out_start + o] = places[0];
    }
}

#elif KILN_ALONG || KILN_ACROSS

#define T K_V(K_C(KILN_A))
#define PLACES K_V(K_M(KILN_A))
#if KILN_SMALLEST
#define BEYOND(x, y) ((x) < (y))
#else
#define BEYOND(x, y) ((x) > (y))
#endif
#if K_KIND(KILN_A) != 8
#define WINS(x, best) BEYOND(x, best)
#define EQUALS(x, best) ((x) == (best))
#else
#define WINS(x, best) (BEYOND(x, best) | (((x) != (x)) & ((best) == (best))))
#define EQUALS(x, best) (((x) == (best)) | (((x) != (x)) & ((best) != (best))))
#endif
#if KILN_LAST
#define TAKES(x, best) (WINS(x, best) | EQUALS(x, best))
#else
#define TAKES(x, best) WINS(x, best)
#endif

typedef union lanes {
    T v;
    C s[KILN_V];
} lanes;
typedef union lane_places {
    PLACES v;
    K_M(KILN_A) s[KILN_V];
} lane_places;

#if KILN_ALONG

// Each lane keeps its first or last best; the lanes meet at the end, with what is left over.
__kernel void kiln_argreduce(kiln_argreduce_shape s, __global long *out,
                             __global const K_S(KILN_A) *in)
{
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.outputs);
    for (long o = first; o < last; o++) {
        __global const K_S(KILN_A) *p = in + row_start(&s, o);
        lanes best = {.v = K_LDV(KILN_A, p)};
        lane_places places = {.v = (PLACES)(0)};
        const long whole = s.length / KILN_V;
        for (long i = 1; i < whole; i++) {
            const T x = K_LDV(KILN_A, p + i * KILN_V);
            const PLACES takes = TAKES(x, best.v);
            best.v = select(best.v, x, takes);
            places.v = select(places.v, (PLACES)((K_M(KILN_A))i), takes);
        }
        C found = best.s[0];
        long place = (long)places.s[0] * KILN_V;
        for (int k = 1; k < KILN_V; k++) {
            const long other = (long)places.s[k] * KILN_V + k;
            if (replaces(best.s[k], other, found, place)) {
                found = best.s[k];
                place = other;
            }
        }
        for (long i = whole * KILN_V; i < s.length; i++) {
            const C x = K_LD(KILN_A, p + i);
            if (replaces(x, i, found, place)) {
                found = x;
                place = i;
            }
        }
        out[s.out_start + o] = place;
    }
}

#else

__kernel void kiln_argreduce(kiln_argreduce_shape s, __global long *out,
                             __global const K_S(KILN_A) *in)
{
    const long chunks = (s.columns + KILN_V * KILN_NC - 1) / (KILN_V * KILN_NC);
    const long row = (long)get_global_id(0) / chunks;
    long column = ((long)get_global_id(0) - row * chunks) * (KILN_V * KILN_NC);
    const long end = min(column + KILN_V * KILN_NC, s.columns);
    if (row * s.columns >= s.outputs) {
        return;
    }
    __global const K_S(KILN_A) *p = in + row_start(&s, row) + column;
    __global long *q = out + s.out_start + row * s.columns + column;
    if (column + KILN_V * KILN_NC <= end) {
        lanes best[KILN_NC];
        lane_places places[KILN_NC];
        K_UNROLLED
        for (int n = 0; n < KILN_NC; n++) {
            best[n].v = K_LDV(KILN_A, p + n * KILN_V);
            places[n].v = (PLACES)(0);
        }
        for (long i = 1; i < s.length; i++) {
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                const T x = K_LDV(KILN_A, p + i * s.stride + n * KILN_V);
                const PLACES takes = TAKES(x, best[n].v);
                best[n].v = select(best[n].v, x, takes);
                places[n].v = select(places[n].v, (PLACES)((K_M(KILN_A))i), takes);
            }
        }
        for (int k = 0; k < KILN_V * KILN_NC; k++) {
            q[k] = (long)places[k / KILN_V].s[k % KILN_V];
        }
        return;
    }
    for (; column < end; column++, p++, q++) {
        C found = K_LD(KILN_A, p);
        long place = 0;
        for (long i = 1; i < s.length; i++) {
            const C x = K_LD(KILN_A, p + i * s.stride);
            if (replaces(x, i, found, place)) {
                found = x;
                place = i;
            }
        }
        *q = place;
    }
}

#endif

#else

__kernel void kiln_argreduce(kiln_argreduce_shape s, __global long *out,
                             __global const K_S(KILN_A) *in)
{
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.outputs);
    for (long o = first; o < last; o++) {
        __global const K_S(KILN_A) *p = in + row_start(&s, o);
        C best = K_LD(KILN_A, p);
        long place = 0;
        for (long i = 1; i < s.length; i++) {
            const C x = K_LD(KILN_A, p + i * s.stride);
            if (replaces(x, i, best, place)) {
                best = x;
                place = i;
            }
        }
        out[s.out_start + o] = place;
    }
}

#endif
