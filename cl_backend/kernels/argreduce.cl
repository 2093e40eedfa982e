// SPDX-License-Identifier: MIT OR Apache-2.0
// Index of the largest or smallest element along one axis; NaN beats everything. Defines:
//
//   KILN_A         element type of the input
//   KILN_SMALLEST  1 for argmin;  KILN_LAST  1: of equal elements the last
//   KILN_GROUP     work-items that share one result; 0: a work-item has `each` results of its own

typedef struct kiln_argreduce_shape {
    long outputs;
    long each;
    long length;
    long stride;
    long in_start;
    long out_start;
    long rank;
    long dims[8];
    long strides[8];
} kiln_argreduce_shape;

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
