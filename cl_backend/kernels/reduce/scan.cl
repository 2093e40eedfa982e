// SPDX-License-Identifier: MIT OR Apache-2.0
// Cumulative operations along one axis, in fixed order. A line is cut into parts when there are few
// lines: a first launch leaves the total of each part, those are cumulated, and a second launch
// carries them on. One operator, three loops:
//
//   kiln_scan_rows      one work-item for `each` lines, or a part of one
//   kiln_scan_columns   one work-item for KILN_NC vectors of neighbouring lines
//   kiln_scan_group     one work-group for a part of a line, KILN_RUN elements each at a time
//
//   KILN_OP         IS_sum, IS_prod, IS_max, IS_min
//   KILN_A, KILN_O  element types of the input and the result
//   KILN_EXCLUSIVE  1: a place gets what came before it
//   KILN_TOTALS     1: only the total of the part is written, to totals
//   KILN_CARRY      1: parts but the first begin with what `carry` says

#include "reduce_args.h"

#define D KILN_A
#define C K_C(D)
#define T K_V(K_C(D))

#define IS_sum 1
#define IS_prod 2
#define IS_max 3
#define IS_min 4

// max and min: NaN wins, as in LARGER of other kernels; of integers the comparison is always false
#if K_KIND(D) == 8
#define NOT_A_NUMBER(b) ((b) != (b))
#define WRAPPED(op, a, b) ((a)op(b))
#define WRAPPED_V(op, a, b) ((a)op(b))
#else
#define NOT_A_NUMBER(b) 0
#define WRAPPED(op, a, b) ((C)((K_U(D))(a)op(K_U(D))(b)))
#define WRAPPED_V(op, a, b) K_AS(C, K_AS(K_U(D), a) op K_AS(K_U(D), b))
#endif

#if KILN_OP == IS_sum
#define FIRST 0
#define JOIN(a, b) WRAPPED(+, a, b)
#define JOIN_V(a, b) WRAPPED_V(+, a, b)
#elif KILN_OP == IS_prod
#define FIRST 1
#define JOIN(a, b) WRAPPED(*, a, b)
#define JOIN_V(a, b) WRAPPED_V(*, a, b)
#elif KILN_OP == IS_max
#define FIRST K_MIN(D)
#define JOIN(a, b) ((a) < (b) || NOT_A_NUMBER(b) ? (b) : (a))
#define JOIN_V(a, b) select((a), (b), ((a) < (b)) | ((b) != (b)))
#else
#define FIRST K_MAX(D)
#define JOIN(a, b) ((a) > (b) || NOT_A_NUMBER(b) ? (b) : (a))
#define JOIN_V(a, b) select((a), (b), ((a) > (b)) | ((b) != (b)))
#endif

// A line is joined by stretches: rounding then grows with their number and length, not with the
// product of both.
#define STRETCH 128

typedef struct kiln_scan_line {
    long in;
    long out;
} kiln_scan_line;

static inline kiln_scan_line line_start(const kiln_scan_shape *s, long line)
{
    kiln_scan_line at = {s->in_start, s->out_start};
    for (int d = (int)s->rank - 1; d >= 0; d--) {
        const long above = line / s->dims[d];
        const long i = line - above * s->dims[d];
        at.in += i * s->in_strides[d];
        at.out += i * s->out_strides[d];
        line = above;
    }
    return at;
}

// `count` elements from p on, after `sum`; returns what all of them come to.
static inline C scan_line(__global const K_S(D) *p, long in_stride, __global K_S(KILN_O) *q,
                          long out_stride, long count, C sum)
{
    for (long i = 0; i < count;) {
        const long stop = min(i + STRETCH, count);
        C run = FIRST;
        for (; i < stop; i++) {
            const C x = K_LD(D, p + i * in_stride);
#if KILN_EXCLUSIVE && !KILN_TOTALS
            K_ST(KILN_O, q + i * out_stride, JOIN(sum, run));
#endif
            run = JOIN(run, x);
#if !KILN_EXCLUSIVE && !KILN_TOTALS
            K_ST(KILN_O, q + i * out_stride, JOIN(sum, run));
#endif
        }
        sum = JOIN(sum, run);
    }
    return sum;
}

#if KILN_COLUMNS

__kernel void kiln_scan_columns(kiln_scan_shape s, __global K_S(KILN_O) *out,
                                __global const K_S(D) *in, __global C *totals,
                                __global const C *carry)
{
    const long item = (long)get_global_id(0);
    const long chunk = item % s.column_chunks;
    const long part = item / s.column_chunks % s.parts;
    const long row = item / s.column_chunks / s.parts;
    const long column = chunk * (KILN_V * KILN_NC);
    if (row * s.columns >= s.lines) {
        return;
    }
    const kiln_scan_line at = line_start(&s, row);
    const long begin = part * s.part_length;
    const long end = min(begin + s.part_length, s.length);
    const long first = row * s.columns + column;
    const long left = min((long)(KILN_V * KILN_NC), s.columns - column);
    __global const K_S(D) *p = in + at.in + begin * s.in_stride + column;
    __global K_S(KILN_O) *q = out + at.out + begin * s.out_stride + column;
    if (left == KILN_V * KILN_NC) {
        T sums[KILN_NC];
        K_UNROLLED
        for (int n = 0; n < KILN_NC; n++) {
#if KILN_CARRY
            union {
                T v;
                C s[KILN_V];
            } u;
            for (int k = 0; k < KILN_V; k++) {
                u.s[k] = part > 0 ? carry[(first + n * KILN_V + k) * s.parts + part] : (C)FIRST;
            }
            sums[n] = u.v;
#else
            sums[n] = (T)(FIRST);
#endif
        }
        for (long i = begin; i < end;) {
            const long stop = min(i + STRETCH, end);
            T runs[KILN_NC];
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                runs[n] = (T)(FIRST);
            }
            for (; i < stop; i++, p += s.in_stride, q += s.out_stride) {
                K_UNROLLED
                for (int n = 0; n < KILN_NC; n++) {
                    const T x = K_LDV(D, p + n * KILN_V);
#if KILN_EXCLUSIVE && !KILN_TOTALS
                    K_STV(KILN_O, q + n * KILN_V, JOIN_V(sums[n], runs[n]));
#endif
                    runs[n] = JOIN_V(runs[n], x);
#if !KILN_EXCLUSIVE && !KILN_TOTALS
                    K_STV(KILN_O, q + n * KILN_V, JOIN_V(sums[n], runs[n]));
#endif
                }
            }
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                sums[n] = JOIN_V(sums[n], runs[n]);
            }
        }
#if KILN_TOTALS
        K_UNROLLED
        for (int n = 0; n < KILN_NC; n++) {
            union {
                T v;
                C s[KILN_V];
            } u;
            u.v = sums[n];
            for (int k = 0; k < KILN_V; k++) {
                totals[(first + n * KILN_V + k) * s.parts + part] = u.s[k];
            }
        }
#endif
        return;
    }
    for (long k = 0; k < left; k++) {
#if KILN_CARRY
        C sum = part > 0 ? carry[(first + k) * s.parts + part] : (C)FIRST;
#else
        C sum = FIRST;
#endif
        sum = scan_line(p + k, s.in_stride, q + k, s.out_stride, end - begin, sum);
#if KILN_TOTALS
        totals[(first + k) * s.parts + part] = sum;
#endif
    }
}

#elif KILN_GROUP

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_scan_group(kiln_scan_shape s, __global K_S(KILN_O) *out, __global const K_S(D) *in,
                __global C *totals, __global const C *carry)
{
    __local C tile[KILN_GROUP * (KILN_RUN + 1)]; // a place free after each run: no bank conflicts
    __local C sums[KILN_GROUP];
    const int lane = (int)get_local_id(0);
    const long part = (long)get_group_id(0) % s.parts;
    const long line = (long)get_group_id(0) / s.parts;
    const kiln_scan_line at = line_start(&s, line);
    const long begin = part * s.part_length;
    const long end = min(begin + s.part_length, s.length);
#if KILN_CARRY
    C before = part > 0 ? carry[line * s.parts + part] : (C)FIRST;
#else
    C before = FIRST;
#endif
    for (long base = begin; base < end; base += KILN_GROUP * KILN_RUN) {
        for (int k = 0; k < KILN_RUN; k++) {
            const int at_tile = k * KILN_GROUP + lane;
            const long i = base + at_tile;
            tile[at_tile + at_tile / KILN_RUN] =
                i < end ? K_LD(D, in + at.in + i * s.in_stride) : (C)FIRST;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        __local C *run = tile + lane * (KILN_RUN + 1);
        C sum = run[0];
        for (int k = 1; k < KILN_RUN; k++) {
            sum = JOIN(sum, run[k]);
        }
        sums[lane] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int width = 1; width < KILN_GROUP; width *= 2) {
            const C other = lane >= width ? sums[lane - width] : (C)FIRST;
            const C own = sums[lane];
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[lane] = lane >= width ? JOIN(other, own) : own;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        C so_far = lane > 0 ? JOIN(before, sums[lane - 1]) : before;
        before = JOIN(before, sums[KILN_GROUP - 1]);
#if !KILN_TOTALS
        for (int k = 0; k < KILN_RUN; k++) {
            const C x = run[k];
            const C with = JOIN(so_far, x);
            run[k] = KILN_EXCLUSIVE ? so_far : with;
            so_far = with;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < KILN_RUN; k++) {
            const int at_tile = k * KILN_GROUP + lane;
            const long i = base + at_tile;
            if (i < end) {
                K_ST(KILN_O, out + at.out + i * s.out_stride, tile[at_tile + at_tile / KILN_RUN]);
            }
        }
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if KILN_TOTALS
    if (lane == 0) {
        totals[line * s.parts + part] = before;
    }
#endif
}

#else

__kernel void kiln_scan_rows(kiln_scan_shape s, __global K_S(KILN_O) *out,
                             __global const K_S(D) *in, __global C *totals,
                             __global const C *carry)
{
    const long item = (long)get_global_id(0);
    const long part = item % s.parts;
    const long first = item / s.parts * s.each;
    const long last = min(first + s.each, s.lines);
    const long begin = part * s.part_length;
    const long end = min(begin + s.part_length, s.length);
    for (long line = first; line < last; line++) {
        const kiln_scan_line at = line_start(&s, line);
        __global const K_S(D) *p = in + at.in + begin * s.in_stride;
        __global K_S(KILN_O) *q = out + at.out + begin * s.out_stride;
#if KILN_CARRY
        C sum = part > 0 ? carry[line * s.parts + part] : (C)FIRST;
#else
        C sum = FIRST;
#endif
        sum = scan_line(p, s.in_stride, q, s.out_stride, end - begin, sum);
#if KILN_TOTALS
        totals[line * s.parts + part] = sum;
#endif
    }
}

#endif
