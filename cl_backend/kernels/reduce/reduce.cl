// SPDX-License-Identifier: MIT OR Apache-2.0
// Reductions. One operator, three loops:
//
//   kiln_reduce_rows      one work-item for some results, vectors along the innermost reduced axis
//   kiln_reduce_columns   one work-item for neighbouring results, vectors across them
//   kiln_reduce_group     one work-group for a result, a tree in local memory at the end
//
// The order of additions depends on shapes and the device only. Sums are accumulated in many lanes,
// which are emptied into totals every few thousand elements, so that rounding errors grow with
// neither length nor lanes. Long reductions with few results come in parts: a first launch leaves
// partial results, a second reduces them.
//
//   KILN_OP     IS_sum, IS_prod, IS_max, IS_min, IS_max_abs, IS_any, IS_all
//   KILN_A      element type of the input; KILN_O of the result, or of partial results
//   KILN_MA     1: the innermost reduced axis is dense, 2: any stride
//   KILN_MEAN   1: divide by the count

#include "reduce_args.h"

#define D KILN_A
#define C K_C(D)
#define T K_V(K_C(D))
#define FLUSH 4096

#define IS_sum 1
#define IS_prod 2
#define IS_max 3
#define IS_min 4
#define IS_max_abs 5
#define IS_any 6
#define IS_all 7
#define IS KILN_OP

#if K_KIND(D) == 8
#define ADD_V(a, b) ((a) + (b))
#define ADD_S(a, b) ((a) + (b))
#define MUL_V(a, b) ((a) * (b))
#define MUL_S(a, b) ((a) * (b))
#define ABS_V(x) fabs(x)
#define ABS_S(x) fabs(x)
#else
#define U K_U(D)
#define ADD_V(a, b) K_AS(C, K_AS(U, a) + K_AS(U, b))
#define ADD_S(a, b) ((C)((U)(a) + (U)(b)))
#define MUL_V(a, b) K_AS(C, K_AS(U, a) * K_AS(U, b))
#define MUL_S(a, b) ((C)((U)(a) * (U)(b)))
#if K_KIND(D) == 4
// Through the element's own width: the smallest integer stays itself.
#define SPARE (8 * (int)sizeof(C) - K_WIDTH(D))
#define ABS_V(x) ((K_AS(C, K_AS(U, select((x), -(x), (x) < 0)) << SPARE)) >> SPARE)
#define ABS_S(x) ((C)((U)((x) < 0 ? (C)((U)0 - (U)(x)) : (x)) << SPARE) >> SPARE)
#else
#define ABS_V(x) (x)
#define ABS_S(x) (x)
#endif
#endif

#if IS == IS_sum
#define START ((C)0)
#define COMBINE_V(a, b) ADD_V(a, b)
#define COMBINE_S(a, b) ADD_S(a, b)
#elif IS == IS_prod
#define START ((C)1)
#define COMBINE_V(a, b) MUL_V(a, b)
#define COMBINE_S(a, b) MUL_S(a, b)
#elif IS == IS_max || IS == IS_max_abs
#define START (IS == IS_max ? (C)K_MIN(D) : (C)0)
#define COMBINE_V(a, b) select((a), (b), ((a) < (b)) | ((b) != (b)))
#define COMBINE_S(a, b) ((a) < (b) || K_IS_NAN(D, b) ? (b) : (a))
#elif IS == IS_min
#define START ((C)K_MAX(D))
#define COMBINE_V(a, b) select((a), (b), ((b) < (a)) | ((b) != (b)))
#define COMBINE_S(a, b) ((b) < (a) || K_IS_NAN(D, b) ? (b) : (a))
#elif IS == IS_any
#define START ((C)0)
#define COMBINE_V(a, b) ((a) | (b))
#define COMBINE_S(a, b) ((a) | (b))
#else
#define START ((C)1)
#define COMBINE_V(a, b) ((a) & (b))
#define COMBINE_S(a, b) ((a) & (b))
#endif

#if IS == IS_max_abs
#define TAKE_V(x) ABS_V(x)
#define TAKE_S(x) ABS_S(x)
#else
#define TAKE_V(x) (x)
#define TAKE_S(x) (x)
#endif

static inline T combine_v(T a, T b)
{
    return COMBINE_V(a, b);
}

static inline C combine_s(C a, C b)
{
    return COMBINE_S(a, b);
}

static inline T take_v(T x)
{
    return TAKE_V(x);
}

static inline C take_s(C x)
{
    return TAKE_S(x);
}

K_DEFINE_GATHER(gather_a, KILN_A)
#if KILN_COLUMNS
K_DEFINE_SCATTER(scatter_o, KILN_O)
#endif

K_DEFINE_FOLD(combine_lanes, T, C, combine_s)

static inline C finish(C x, long count)
{
#if KILN_MEAN
    return x / (C)count;
#else
    return x;
#endif
}

static inline long offset_of(long index, long rank, const long *dims, const long *strides)
{
    long at = 0;
    for (int d = (int)rank - 1; d >= 0; d--) {
        const long above = index / dims[d];
        at += (index - above * dims[d]) * strides[d];
        index = above;
    }
    return at;
}

#if KILN_MA == 1
#define LOAD_V(p, j, stride) take_v(K_LDV(KILN_A, (p) + (j)))
#define LOAD_S(p, j, stride) take_s(K_LD(KILN_A, (p) + (j)))
#else
#define LOAD_V(p, j, stride) take_v(gather_a((p) + (j) * (stride), stride, KILN_V))
#define LOAD_S(p, j, stride) take_s(K_LD(KILN_A, (p) + (j) * (stride)))
#endif

#if KILN_ROWS

typedef struct totals {
    T lanes;
    C rest;
} totals;

// Elements [begin, end) of one dense or strided run.
static inline totals reduce_run(__global const K_S(KILN_A) *p, long begin, long end, long stride,
                                totals so_far)
{
    for (long block = begin; block < end; block += FLUSH) {
        const long last = min(block + FLUSH, end);
        long j = block;
        if (j + 4 * KILN_V <= last) {
            T x0 = LOAD_V(p, j, stride);
            T x1 = LOAD_V(p, j + KILN_V, stride);
            T x2 = LOAD_V(p, j + 2 * KILN_V, stride);
            T x3 = LOAD_V(p, j + 3 * KILN_V, stride);
            for (j += 4 * KILN_V; j + 4 * KILN_V <= last; j += 4 * KILN_V) {
                x0 = combine_v(x0, LOAD_V(p, j, stride));
                x1 = combine_v(x1, LOAD_V(p, j + KILN_V, stride));
                x2 = combine_v(x2, LOAD_V(p, j + 2 * KILN_V, stride));
                x3 = combine_v(x3, LOAD_V(p, j + 3 * KILN_V, stride));
            }
            so_far.lanes =
                combine_v(so_far.lanes, combine_v(combine_v(x0, x1), combine_v(x2, x3)));
        }
        for (; j + KILN_V <= last; j += KILN_V) {
            so_far.lanes = combine_v(so_far.lanes, LOAD_V(p, j, stride));
        }
        for (; j < last; j++) {
            so_far.rest = combine_s(so_far.rest, LOAD_S(p, j, stride));
        }
    }
    return so_far;
}

static inline totals totals_of_nothing(void)
{
    totals none = {(T)(START), START};
    return none;
}

static inline totals add_totals(totals a, totals b)
{
    a.lanes = combine_v(a.lanes, b.lanes);
    a.rest = combine_s(a.rest, b.rest);
    return a;
}

__kernel void kiln_reduce_rows(kiln_reduce_shape s, __global K_S(KILN_O) *out,
                               __global const K_S(KILN_A) *in)
{
    const long group = (long)get_global_id(0) / s.parts;
    const long part = (long)get_global_id(0) - group * s.parts;
    const long inner_begin = part % s.inner_parts * s.inner_chunk;
    const long inner_end = min(inner_begin + s.inner_chunk, s.inner);
    const long outer_begin = part / s.inner_parts * s.outer_chunk;
    const long outer_end = min(outer_begin + s.outer_chunk, s.outer);
    const long last = min((group + 1) * s.each, s.outputs);
    for (long o = group * s.each; o < last; o++) {
        const long base = s.in_start + offset_of(o, s.kept_rank, s.kept_dims, s.kept_strides);
        totals all = totals_of_nothing();
        totals recent = totals_of_nothing();
        for (long r = outer_begin; r < outer_end; r++) {
            const long at = base + offset_of(r, s.outer_rank, s.outer_dims, s.outer_strides);
            recent = reduce_run(in + at, inner_begin, inner_end, s.inner_stride, recent);
            if ((r & 255) == 255) {
                all = add_totals(all, recent);
                recent = totals_of_nothing();
            }
        }
        all = add_totals(all, recent);
        const C result = combine_s(combine_lanes(all.lanes), all.rest);
        K_ST(KILN_O, out + s.out_start + o * s.parts + part, finish(result, s.count));
    }
}

#endif

#if KILN_COLUMNS

// Reduces KILN_V * n neighbouring columns; `count` of them for a part of one vector.
#define COLUMNS(n, load, store)                                                                    \
    {                                                                                              \
        T all[n];                                                                                  \
        T recent[n];                                                                               \
        for (int k = 0; k < n; k++) {                                                              \
            all[k] = recent[k] = (T)(START);                                                       \
        }                                                                                          \
        long since = 0;                                                                            \
        for (long r = outer_begin; r < outer_end; r++) {                                           \
            __global const K_S(KILN_A) *p =                                                        \
                in + base + c + offset_of(r, s.outer_rank, s.outer_dims, s.outer_strides);         \
            for (long j = inner_begin; j < inner_end; j++) {                                       \
                K_UNROLLED                                                                         \
                for (int k = 0; k < n; k++) {                                                      \
                    recent[k] = combine_v(recent[k], take_v(load));                                \
                }                                                                                  \
                if (++since == 256) {                                                              \
                    since = 0;                                                                     \
                    for (int k = 0; k < n; k++) {                                                  \
                        all[k] = combine_v(all[k], recent[k]);                                     \
                        recent[k] = (T)(START);                                                    \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; k < n; k++) {                                                              \
            union {                                                                                \
                T v;                                                                               \
                C s[KILN_V];                                                                       \
            } u;                                                                                   \
            u.v = combine_v(all[k], recent[k]);                                                    \
            for (int i = 0; i < KILN_V; i++) {                                                     \
                u.s[i] = finish(u.s[i], s.count);                                                  \
            }                                                                                      \
            store                                                                                  \
        }                                                                                          \
    }

__kernel void kiln_reduce_columns(kiln_reduce_shape s, __global K_S(KILN_O) *out,
                                  __global const K_S(KILN_A) *in)
{
    const long item = (long)get_global_id(0);
    const long part = item % s.parts;
    const long chunk = item / s.parts % s.column_chunks;
    const long row = item / s.parts / s.column_chunks;
    const long inner_begin = part % s.inner_parts * s.inner_chunk;
    const long inner_end = min(inner_begin + s.inner_chunk, s.inner);
    const long outer_begin = part / s.inner_parts * s.outer_chunk;
    const long outer_end = min(outer_begin + s.outer_chunk, s.outer);
    const long last = min((chunk + 1) * s.column_chunk, s.columns);
    if (row * s.columns >= s.outputs) {
        return;
    }
    const long base = s.in_start + offset_of(row, s.kept_rank, s.kept_dims, s.kept_strides);
    __global K_S(KILN_O) *to = out + s.out_start + row * s.columns * s.parts + part;
    const long step = s.parts;
    long c = chunk * s.column_chunk;
#if KILN_NC > 1
    for (; c + KILN_NC * KILN_V <= last; c += KILN_NC * KILN_V) {
        COLUMNS(KILN_NC, K_LDV(KILN_A, p + j * s.inner_stride + k * KILN_V),
                scatter_o(to + (c + k * KILN_V) * step, step, KILN_V, u.v);)
    }
#endif
    for (; c + KILN_V <= last; c += KILN_V) {
        COLUMNS(1, K_LDV(KILN_A, p + j * s.inner_stride),
                scatter_o(to + c * step, step, KILN_V, u.v);)
    }
    if (c < last) {
        const int count = (int)(last - c);
        COLUMNS(1, gather_a(p + j * s.inner_stride, 1, count),
                scatter_o(to + c * step, step, count, u.v);)
    }
}

#endif

#if KILN_GROUP

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_reduce_group(kiln_reduce_shape s, __global K_S(KILN_O) *out, __global const K_S(KILN_A) *in)
{
    __local C tree[KILN_GROUP];
    const int lane = (int)get_local_id(0);
    const long o = (long)get_group_id(0) / s.parts;
    const long part = (long)get_group_id(0) - o * s.parts;
    const long inner_begin = part % s.inner_parts * s.inner_chunk;
    const long inner_end = min(inner_begin + s.inner_chunk, s.inner);
    const long outer_begin = part / s.inner_parts * s.outer_chunk;
    const long outer_end = min(outer_begin + s.outer_chunk, s.outer);
    const long base = s.in_start + offset_of(o, s.kept_rank, s.kept_dims, s.kept_strides);
    T lanes = (T)(START);
    C rest = START;
    const long length = inner_end - inner_begin;
    const long whole = length / KILN_V;
    for (long r = outer_begin; r < outer_end; r++) {
        __global const K_S(KILN_A) *p =
            in + base + offset_of(r, s.outer_rank, s.outer_dims, s.outer_strides);
        for (long j = lane; j < whole; j += KILN_GROUP) {
            lanes = combine_v(lanes, LOAD_V(p, inner_begin + j * KILN_V, s.inner_stride));
        }
        for (long j = inner_begin + whole * KILN_V + lane; j < inner_end; j += KILN_GROUP) {
            rest = combine_s(rest, LOAD_S(p, j, s.inner_stride));
        }
    }
    tree[lane] = combine_s(combine_lanes(lanes), rest);
    for (int width = KILN_GROUP / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < width) {
            tree[lane] = combine_s(tree[lane], tree[lane + width]);
        }
    }
    if (lane == 0) {
        K_ST(KILN_O, out + s.out_start + o * s.parts + part, finish(tree[0], s.count));
    }
}

#endif
