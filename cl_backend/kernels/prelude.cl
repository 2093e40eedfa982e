// SPDX-License-Identifier: MIT OR Apache-2.0
// What every kernel file stands on: for each element type how it is stored, in what it is computed,
// and how vectors of KILN_V elements are loaded and stored. Element types are named by tokens (f32,
// i8, ...), so a kernel takes them as defines.
//
//   K_S(d)  type in memory          K_C(d)  type of computation: i8, i16 in int; f16, bf16 in float
//   K_M(d)  integer as wide as K_C  K_V(t)  vector of KILN_V elements of the scalar type t
//
// Integers narrower than 32 bits wrap when they are stored, and so after every operation. Stored
// bool is 0 or 1; any other byte reads as 1.

#include "kernel_args.h"

#define K_CAT_(a, b) a##b
#define K_CAT(a, b) K_CAT_(a, b)
#define K_CAT3(a, b, c) K_CAT(K_CAT(a, b), c)

#ifndef KILN_V
#define KILN_V 4
#endif

// Before loops over accumulators, which must dissolve into registers.
#define K_UNROLLED _Pragma("unroll")

#define K_S(d) K_CAT(K_S_, d)
#define K_C(d) K_CAT(K_C_, d)
#define K_M(d) K_CAT(K_M_, d)
#define K_U(d) K_CAT(K_U_, d)
#define K_KIND(d) K_CAT(K_KIND_, d)
#define K_WIDTH(d) K_CAT(K_WIDTH_, d)
#define K_V(t) K_CAT(t, KILN_V)
#define K_CONVERT(t, x) K_CAT(convert_, K_V(t))(x)
#define K_AS(t, x) K_CAT(as_, K_V(t))(x)

#define K_KIND_bool 1
#define K_KIND_u8 2
#define K_KIND_u16 2
#define K_KIND_u32 2
#define K_KIND_u64 2
#define K_KIND_i8 4
#define K_KIND_i16 4
#define K_KIND_i32 4
#define K_KIND_i64 4
#define K_KIND_f16 8
#define K_KIND_bf16 8
#define K_KIND_f32 8
#define K_KIND_f64 8

// Whether x is not a number: false for integers, without the compiler's warning.
#define K_IS_NAN(d, x) K_CAT(K_IS_NAN_, K_KIND(d))(x)
#define K_IS_NAN_1(x) false
#define K_IS_NAN_2(x) false
#define K_IS_NAN_4(x) false
#define K_IS_NAN_8(x) ((x) != (x))

#define K_WIDTH_bool 8
#define K_WIDTH_u8 8
#define K_WIDTH_u16 16
#define K_WIDTH_u32 32
#define K_WIDTH_u64 64
#define K_WIDTH_i8 8
#define K_WIDTH_i16 16
#define K_WIDTH_i32 32
#define K_WIDTH_i64 64
#define K_WIDTH_f16 16
#define K_WIDTH_bf16 16
#define K_WIDTH_f32 32
#define K_WIDTH_f64 64

#define K_S_bool uchar
#define K_S_u8 uchar
#define K_S_u16 ushort
#define K_S_u32 uint
#define K_S_u64 ulong
#define K_S_i8 char
#define K_S_i16 short
#define K_S_i32 int
#define K_S_i64 long
#define K_S_f16 half
#define K_S_bf16 ushort
#define K_S_f32 float
#define K_S_f64 double

#define K_C_bool int
#define K_C_u8 uint
#define K_C_u16 uint
#define K_C_u32 uint
#define K_C_u64 ulong
#define K_C_i8 int
#define K_C_i16 int
#define K_C_i32 int
#define K_C_i64 long
#define K_C_f16 float
#define K_C_bf16 float
#define K_C_f32 float
#define K_C_f64 double

#define K_M_bool int
#define K_M_u8 int
#define K_M_u16 int
#define K_M_u32 int
#define K_M_u64 long
#define K_M_i8 int
#define K_M_i16 int
#define K_M_i32 int
#define K_M_i64 long
#define K_M_f16 int
#define K_M_bf16 int
#define K_M_f32 int
#define K_M_f64 long

#define K_U_bool uint
#define K_U_u8 uint
#define K_U_u16 uint
#define K_U_u32 uint
#define K_U_u64 ulong
#define K_U_i8 uint
#define K_U_i16 uint
#define K_U_i32 uint
#define K_U_i64 ulong
#define K_U_f16 uint
#define K_U_bf16 uint
#define K_U_f32 uint
#define K_U_f64 ulong

// ---- bf16 ----

static inline float k_bf16_load(ushort bits)
{
    return as_float((uint)bits << 16);
}

// PoCL keeps a NaN's payload where it stores several elements, and loses it where it stores one.
static inline ushort k_f16_store(float x)
{
    uint u = as_uint(x);
    ushort rounded;
    vstore_half_rte(x, 0, (__private half *)&rounded);
    return x != x ? (ushort)(((u >> 16) & 0x8000u) | 0x7e00u | ((u >> 13) & 0x3ffu)) : rounded;
}

static inline ushort k_bf16_store(float x)
{
    uint u = as_uint(x);
    uint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (ushort)(x != x ? (u >> 16) | 0x40u : rounded);
}

static inline K_V(ushort) k_bf16_store_v(K_V(float) x)
{
    K_V(uint) u = K_AS(uint, x);
    K_V(uint) rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return K_CONVERT(ushort, select(rounded, (u >> 16) | 0x40u, x != x));
}

// ---- one element ----

#define K_LD(d, p) K_CAT(K_LD_, d)(p)
#define K_LD_bool(p) ((int)(*(p) != 0))
#define K_LD_u8(p) ((uint)*(p))
#define K_LD_u16(p) ((uint)*(p))
#define K_LD_u32(p) (*(p))
#define K_LD_u64(p) (*(p))
#define K_LD_i8(p) ((int)*(p))
#define K_LD_i16(p) ((int)*(p))
#define K_LD_i32(p) (*(p))
#define K_LD_i64(p) (*(p))
#define K_LD_f16(p) vload_half(0, (p))
#define K_LD_bf16(p) k_bf16_load(*(p))
#define K_LD_f32(p) (*(p))
#define K_LD_f64(p) (*(p))

#define K_ST(d, p, x) K_CAT(K_ST_, d)(p, x)
#define K_ST_bool(p, x) (*(p) = (uchar)((x) != 0))
#define K_ST_u8(p, x) (*(p) = (uchar)(x))
#define K_ST_u16(p, x) (*(p) = (ushort)(x))
#define K_ST_u32(p, x) (*(p) = (x))
#define K_ST_u64(p, x) (*(p) = (x))
#define K_ST_i8(p, x) (*(p) = (char)(x))
#define K_ST_i16(p, x) (*(p) = (short)(x))
#define K_ST_i32(p, x) (*(p) = (x))
#define K_ST_i64(p, x) (*(p) = (x))
#define K_ST_f16(p, x) (*(__global ushort *)(p) = k_f16_store(x))
#define K_ST_bf16(p, x) (*(p) = k_bf16_store(x))
#define K_ST_f32(p, x) (*(p) = (x))
#define K_ST_f64(p, x) (*(p) = (x))

// ---- KILN_V elements; KILN_ALIGNED: addresses are multiples of a whole vector ----

#ifdef KILN_ALIGNED
#define K_VLD(t, p) (*(__global const K_V(t) *)(p))
#define K_VST(t, p, x) (*(__global K_V(t) *)(p) = (x))
#else
#define K_VLD(t, p) K_CAT(vload, KILN_V)(0, (p))
#define K_VST(t, p, x) K_CAT(vstore, KILN_V)((x), 0, (p))
#endif

#define K_LDV(d, p) K_CAT(K_LDV_, d)(p)
#define K_LDV_bool(p) ((K_CONVERT(int, K_VLD(uchar, p)) != 0) & 1)
#define K_LDV_u8(p) K_CONVERT(uint, K_VLD(uchar, p))
#define K_LDV_u16(p) K_CONVERT(uint, K_VLD(ushort, p))
#define K_LDV_u32(p) K_VLD(uint, p)
#define K_LDV_u64(p) K_VLD(ulong, p)
#define K_LDV_i8(p) K_CONVERT(int, K_VLD(char, p))
#define K_LDV_i16(p) K_CONVERT(int, K_VLD(short, p))
#define K_LDV_i32(p) K_VLD(int, p)
#define K_LDV_i64(p) K_VLD(long, p)
#define K_LDV_f16(p) K_CAT(vload_half, KILN_V)(0, (p))
#define K_LDV_bf16(p) K_AS(float, K_CONVERT(uint, K_VLD(ushort, p)) << 16)
#define K_LDV_f32(p) K_VLD(float, p)
#define K_LDV_f64(p) K_VLD(double, p)

#define K_STV(d, p, x) K_CAT(K_STV_, d)(p, x)
#define K_STV_bool(p, x) K_VST(uchar, p, K_CONVERT(uchar, (x) & 1))
#define K_STV_u8(p, x) K_VST(uchar, p, K_CONVERT(uchar, (x) & 255u))
#define K_STV_u16(p, x) K_VST(ushort, p, K_CONVERT(ushort, (x) & 65535u))
#define K_STV_u32(p, x) K_VST(uint, p, x)
#define K_STV_u64(p, x) K_VST(ulong, p, x)
#define K_STV_i8(p, x) K_VST(char, p, K_AS(char, K_CONVERT(uchar, (x) & 255)))
#define K_STV_i16(p, x) K_VST(short, p, K_AS(short, K_CONVERT(ushort, (x) & 65535)))
#define K_STV_i32(p, x) K_VST(int, p, x)
#define K_STV_i64(p, x) K_VST(long, p, x)
#define K_STV_f16(p, x) K_CAT3(vstore_half, KILN_V, _rte)((x), 0, (p))
#define K_STV_bf16(p, x) K_VST(ushort, p, k_bf16_store_v(x))
#define K_STV_f32(p, x) K_VST(float, p, x)
#define K_STV_f64(p, x) K_VST(double, p, x)

// ---- the first `count` of KILN_V elements at a distance of `stride`; the others read as 1 ----

#define K_DEFINE_GATHER(name, d)                                                                   \
    static inline K_V(K_C(d)) name(__global const K_S(d) *p, long stride, int count)               \
    {                                                                                              \
        union {                                                                                    \
            K_V(K_C(d)) v;                                                                         \
            K_C(d) s[KILN_V];                                                                      \
        } u;                                                                                       \
        for (int k = 0; k < KILN_V; k++) {                                                         \
            u.s[k] = (K_C(d))1;                                                                    \
        }                                                                                          \
        for (int k = 0; k < count; k++) {                                                          \
            u.s[k] = K_LD(d, p + k * stride);                                                      \
        }                                                                                          \
        return u.v;                                                                                \
    }

#define K_DEFINE_SCATTER(name, d)                                                                  \
    static inline void name(__global K_S(d) *p, long stride, int count, K_V(K_C(d)) x)             \
    {                                                                                              \
        union {                                                                                    \
            K_V(K_C(d)) v;                                                                         \
            K_C(d) s[KILN_V];                                                                      \
        } u;                                                                                       \
        u.v = x;                                                                                   \
        for (int k = 0; k < count; k++) {                                                          \
            K_ST(d, p + k * stride, u.s[k]);                                                       \
        }                                                                                          \
    }

// ---- all elements of a vector T, joined in pairs by `join` to one of the scalar type C ----

#define K_DEFINE_FOLD(name, T, C, join)                                                            \
    static inline C name(T x)                                                                      \
    {                                                                                              \
        union {                                                                                    \
            T v;                                                                                   \
            C s[KILN_V];                                                                           \
        } u;                                                                                       \
        u.v = x;                                                                                   \
        for (int width = KILN_V / 2; width > 0; width /= 2) {                                      \
            for (int k = 0; k < width; k++) {                                                      \
                u.s[k] = join(u.s[k], u.s[k + width]);                                             \
            }                                                                                      \
        }                                                                                          \
        return u.s[0];                                                                             \
    }

// ---- tiles of KILN_V vectors of KILN_V elements ----

// Elements of a and b in turn, of their first and of their second half. As many rounds as KILN_V has
// bits turn a tile: row i of a round meets row i + KILN_V / 2 (a perfect shuffle, Stone 1971).
#if KILN_V == 16
#define K_ROUNDS 4
#define K_LOW(T, a, b)                                                                             \
    ((T)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, \
         b.s7))
#define K_HIGH(T, a, b)                                                                            \
    ((T)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, \
         b.sf))
#elif KILN_V == 8
#define K_ROUNDS 3
#define K_LOW(T, a, b) ((T)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3))
#define K_HIGH(T, a, b) ((T)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7))
#endif

#define K_DEFINE_TURN(name, T)                                                                     \
    static inline void name(T *rows)                                                               \
    {                                                                                              \
        T next[KILN_V];                                                                            \
        K_UNROLLED                                                                                 \
        for (int round = 0; round < K_ROUNDS; round++) {                                           \
            K_UNROLLED                                                                             \
            for (int i = 0; i < KILN_V / 2; i++) {                                                 \
                next[2 * i] = K_LOW(T, rows[i], rows[i + KILN_V / 2]);                             \
                next[2 * i + 1] = K_HIGH(T, rows[i], rows[i + KILN_V / 2]);                        \
            }                                                                                      \
            K_UNROLLED                                                                             \
            for (int i = 0; i < KILN_V; i++) {                                                     \
                rows[i] = next[i];                                                                 \
            }                                                                                      \
        }                                                                                          \
    }

// An operand's elements from j by its mode: a whole vector, and the first `count` elements of one.
// Mode 1: they are neighbours; mode 2: any stride, looked at as the kernel runs. `gather` is what
// K_DEFINE_GATHER made.
#define K_FULL_1(d, gather, p, s, j, count) K_LDV(d, (p) + (j))
#define K_FULL_2(d, gather, p, s, j, count)                                                        \
    ((s) == 1   ? K_LDV(d, (p) + (j))                                                              \
     : (s) == 0 ? (K_V(K_C(d)))(K_LD(d, p))                                                        \
                : gather((p) + (j) * (s), s, KILN_V))
#define K_PART_1(d, gather, p, s, j, count) gather((p) + (j), 1, count)
#define K_PART_2(d, gather, p, s, j, count) gather((p) + (j) * (s), s, count)

// Stores of the same modes; `scatter` is what K_DEFINE_SCATTER made.
#define K_STORE_FULL_1(d, scatter, p, s, x, j, count) K_STV(d, (p) + (j), x)
#define K_STORE_FULL_2(d, scatter, p, s, x, j, count)                                              \
    if ((s) == 1) {                                                                                \
        K_STV(d, (p) + (j), x);                                                                    \
    } else {                                                                                       \
        scatter((p) + (j) * (s), s, KILN_V, x);                                                    \
    }
#define K_STORE_PART_1(d, scatter, p, s, x, j, count) scatter((p) + (j), 1, count, x)
#define K_STORE_PART_2(d, scatter, p, s, x, j, count) scatter((p) + (j) * (s), s, count, x)

// ---- limits ----

#define K_MAX(d) K_CAT(K_MAX_, d)
#define K_MIN(d) K_CAT(K_MIN_, d)
#define K_MAX_bool 1
#define K_MIN_bool 0
#define K_MAX_u8 255u
#define K_MIN_u8 0u
#define K_MAX_u16 65535u
#define K_MIN_u16 0u
#define K_MAX_u32 UINT_MAX
#define K_MIN_u32 0u
#define K_MAX_u64 ULONG_MAX
#define K_MIN_u64 0ul
#define K_MAX_i8 127
#define K_MIN_i8 (-128)
#define K_MAX_i16 32767
#define K_MIN_i16 (-32768)
#define K_MAX_i32 INT_MAX
#define K_MIN_i32 INT_MIN
#define K_MAX_i64 LONG_MAX
#define K_MIN_i64 LONG_MIN
#define K_MAX_f16 INFINITY
#define K_MIN_f16 (-INFINITY)
#define K_MAX_bf16 INFINITY
#define K_MIN_bf16 (-INFINITY)
#define K_MAX_f32 INFINITY
#define K_MIN_f32 (-INFINITY)
#define K_MAX_f64 INFINITY
#define K_MIN_f64 (-INFINITY)

// ---- pieces of work ----

typedef struct kiln_piece {
    long begin;
    long end;
    long first_row;
    long last_row;
} kiln_piece;

typedef struct kiln_offsets {
    long o;
    long a;
    long b;
    long c;
} kiln_offsets;

#ifndef KILN_IDX
#define KILN_IDX uint
#endif

// GPUs get the rank of the rows as a define, so that the loop over axes and the shape dissolve into
// registers.
#ifdef KILN_RANK
#define K_UNROLL _Pragma("unroll")
#else
#define K_UNROLL
#define KILN_RANK ((int)s->rank)
#endif

// The piece of this work-item; no rows when the work is used up.
static inline kiln_piece k_piece(const kiln_shape *s)
{
    const KILN_IDX item = (KILN_IDX)get_global_id(0);
    const KILN_IDX group = item / (KILN_IDX)s->chunks;
    kiln_piece piece;
    piece.begin = (long)(item - group * (KILN_IDX)s->chunks) * s->chunk;
    piece.end = min(piece.begin + s->chunk, s->inner);
    piece.first_row = (long)group * s->rows_each;
    piece.last_row = min(piece.first_row + s->rows_each, s->rows);
    return piece;
}

// First elements of a row.
static inline kiln_offsets k_row(const kiln_shape *s, long row)
{
    kiln_offsets at = {s->start[0], s->start[1], s->start[2], s->start[3]};
    KILN_IDX rest = (KILN_IDX)row;
    K_UNROLL
    for (int d = KILN_RANK - 1; d >= 0; d--) {
        const KILN_IDX above = rest / (KILN_IDX)s->dims[d];
        const long i = (long)(rest - above * (KILN_IDX)s->dims[d]);
        rest = above;
        at.o += i * s->stride[0][d];
        at.a += i * s->stride[1][d];
        at.b += i * s->stride[2][d];
        at.c += i * s->stride[3][d];
    }
    return at;
}
