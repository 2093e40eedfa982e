// SPDX-License-Identifier: MIT OR Apache-2.0
// Matrix product of any strides, for what no BLAS library takes: integers, f16, bf16, K = 0. Two
// forms:
//
//   kiln_matmul_block   one work-item for KILN_MR rows of KILN_NR vectors, sums in registers
//   kiln_matmul_tile    a work-group of 16 x 16 for 64 x 64 results, tiles in local memory
//
// Defines: KILN_A (element type), KILN_MB (1: a row of b is dense, 2: any stride), KILN_BLOCK or
// KILN_TILE.

#include "product_args.h"

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

#if K_KIND(KILN_A) == 8
#define MUL_ADD_V(a, b, c) fma((T)(a), (b), (c))
#define MUL_ADD_S(a, b, c) fma((a), (b), (c))
#else
#define U K_U(KILN_A)
#define MUL_ADD_V(a, b, c) K_AS(C, K_AS(U, (T)(a)) * K_AS(U, (b)) + K_AS(U, (c)))
#define MUL_ADD_S(a, b, c) ((C)((U)(a) * (U)(b) + (U)(c)))
#endif

typedef struct places {
    long o;
    long a;
    long b;
} places;

static inline places batch_places(const kiln_matmul_shape *s, long index)
{
    places at = {s->start[0], s->start[1], s->start[2]};
    for (int d = (int)s->rank - 1; d >= 0; d--) {
        const long above = index / s->dims[d];
        const long i = index - above * s->dims[d];
        index = above;
        at.o += i * s->strides[0][d];
        at.a += i * s->strides[1][d];
        at.b += i * s->strides[2][d];
    }
    return at;
}

#if KILN_BLOCK

K_DEFINE_GATHER(gather_b, KILN_A)
K_DEFINE_SCATTER(scatter_o, KILN_A)

// KILN_MR x n vectors of results; rows beyond the matrix repeat the last one and are not stored.
#define BLOCK(n, load, count)                                                                      \
    {                                                                                              \
        T sums[KILN_MR][n];                                                                        \
        K_UNROLLED                                                                                 \
        for (int i = 0; i < KILN_MR; i++) {                                                        \
            K_UNROLLED                                                                             \
            for (int j = 0; j < n; j++) {                                                          \
                sums[i][j] = (T)(0);                                                               \
            }                                                                                      \
        }                                                                                          \
        for (long p = 0; p < s.k; p++) {                                                           \
            T b[n];                                                                                \
            K_UNROLLED                                                                             \
            for (int j = 0; j < n; j++) {                                                          \
                b[j] = load;                                                                       \
            }                                                                                      \
            K_UNROLLED                                                                             \
            for (int i = 0; i < KILN_MR; i++) {                                                    \
                const C a = K_LD(KILN_A, rows[i] + p * s.column_stride[1]);                        \
                K_UNROLLED                                                                         \
                for (int j = 0; j < n; j++) {                                                      \
                    sums[i][j] = MUL_ADD_V(a, b[j], sums[i][j]);                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        K_UNROLLED                                                                                 \
        for (int i = 0; i < KILN_MR; i++) {                                                        \
            K_UNROLLED                                                                             \
            for (int j = 0; j < n; j++) {                                                          \
                if (row + i < s.m) {                                                               \
                    scatter_o(out + at.o + (row + i) * s.row_stride[0] +                           \
                                  (column + j * KILN_V) * s.column_stride[0],                      \
                              s.column_stride[0], count, sums[i][j]);                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#if KILN_MB == 1
#define LOAD_B(j) K_LDV(KILN_A, pb + p * s.row_stride[2] + (j) * KILN_V)
#else
#define LOAD_B(j) gather_b(pb + p * s.row_stride[2] + (j) * KILN_V * sb, sb, KILN_V)
#endif

__kernel void kiln_matmul_block(kiln_matmul_shape s, __global K_S(KILN_A) *out,
                                __global const K_S(KILN_A) *in_a,
                                __global const K_S(KILN_A) *in_b)
{
    const long row_blocks = (s.m + KILN_MR - 1) / KILN_MR;
    const long column_blocks = (s.n + KILN_NR * KILN_V - 1) / (KILN_NR * KILN_V);
    const long item = (long)get_global_id(0);
    const long batch = item / row_blocks / column_blocks;
    const long row = item % row_blocks * KILN_MR;
    long column = item / row_blocks % column_blocks * (KILN_NR * KILN_V);
    if (batch >= s.batch) {
        return;
    }
    const places at = batch_places(&s, batch);
    const long sb = s.column_stride[2];
    __global const K_S(KILN_A) *rows[KILN_MR];
    for (int i = 0; i < KILN_MR; i++) {
        rows[i] = in_a + at.a + min(row + i, s.m - 1) * s.row_stride[1];
    }
    if (column + KILN_NR * KILN_V <= s.n) {
        __global const K_S(KILN_A) *pb = in_b + at.b + column * sb;
        BLOCK(KILN_NR, LOAD_B(j), KILN_V)
        return;
    }
    for (; column < s.n; column += KILN_V) {
        __global const K_S(KILN_A) *pb = in_b + at.b + column * sb;
        const int count = (int)min(s.n - column, (long)KILN_V);
        BLOCK(1, gather_b(pb + p * s.row_stride[2], sb, count), count)
    }
}

#endif

#if KILN_TILE

#define SIDE 64
#define DEPTH 16

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
kiln_matmul_tile(kiln_matmul_shape s, __global K_S(KILN_A) *out,
                 __global const K_S(KILN_A) *in_a, __global const K_S(KILN_A) *in_b)
{
    __local C tile_a[DEPTH][SIDE + 1];
    __local C tile_b[DEPTH][SIDE + 1];
    const long column_blocks = (s.n + SIDE - 1) / SIDE;
    const long row_blocks = (s.m + SIDE - 1) / SIDE;
    const long group = (long)get_group_id(0);
    const long column = group % column_blocks * SIDE;
    const long row = group / column_blocks % row_blocks * SIDE;
    const places at = batch_places(&s, group / column_blocks / row_blocks);
    __global const K_S(KILN_A) *a_from = in_a + at.a;
    __global const K_S(KILN_A) *b_from = in_b + at.b;
    const int lane = (int)get_local_id(0);
    const int x = lane % 16;
    const int y = lane / 16;
    C sums[4][4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            sums[i][j] = 0;
        }
    }
    for (long depth = 0; depth < s.k; depth += DEPTH) {
        for (int i = lane; i < SIDE * DEPTH; i += 256) {
            const long ar = row + i / DEPTH;
            const long ak = depth + i % DEPTH;
            const bool a_inside = ar < s.m && ak < s.k;
            tile_a[i % DEPTH][i / DEPTH] =
                a_inside ? K_LD(KILN_A, a_from + ar * s.row_stride[1] + ak * s.column_stride[1])
                         : (C)0;
            const long bk = depth + i / SIDE;
            const long bc = column + i % SIDE;
            const bool b_inside = bk < s.k && bc < s.n;
            tile_b[i / SIDE][i % SIDE] =
                b_inside ? K_LD(KILN_A, b_from + bk * s.row_stride[2] + bc * s.column_stride[2])
                         : (C)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < DEPTH; p++) {
            K_UNROLLED
            for (int i = 0; i < 4; i++) {
                const C a = tile_a[p][y + 16 * i];
                K_UNROLLED
                for (int j = 0; j < 4; j++) {
                    sums[i][j] = MUL_ADD_S(a, tile_b[p][x + 16 * j], sums[i][j]);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const long r = row + y + 16 * i;
            const long c = column + x + 16 * j;
            if (r < s.m && c < s.n) {
                K_ST(KILN_A, out + at.o + r * s.row_stride[0] + c * s.column_stride[0], sums[i][j]);
            }
        }
    }
}

#endif
