// SPDX-License-Identifier: MIT OR Apache-2.0
// Cross-correlation of dense x [n,c,..] with dense weight [o,c/groups,..], plus bias [o], over three
// spatial axes. Four forms:
//
//   kiln_conv_direct  one work-item for KILN_OB channels of KILN_V neighbouring columns of one row:
//                     for few channels. The host has put x into enough zeros that no load, of
//                     whole vectors either, leaves a row
//   kiln_conv_plane   one work-item for some channels, each a group of its own, of two spatial axes:
//                     the channel among zeros in scratch memory that stays in the cache
//   kiln_conv_block   one work-item for tiles of KILN_NR vectors of neighbouring results: their
//                     columns (see im2col) in scratch memory that stays in the cache, times
//                     the weight with KILN_MR channels in registers
//   kiln_conv_tile    a work-group of 16 x 16 for 64 channels x 64 results, columns made in local
//                     memory
//
// Defines: KILN_A (element type, i32 for conv_integer), KILN_BIAS, KILN_DIRECT, KILN_PLANE, KILN_BLOCK or KILN_TILE; of
// the direct form KILN_STEP1: the window moves by one column, so a vector of the result needs a vector of x; of planes
// KILN_KH, KILN_KW, KILN_SY, KILN_SX, KILN_DY, KILN_DX, and KILN_ROWS of the result that are computed together.

#include "product_args.h"

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

#if K_KIND(KILN_A) == 8
#define MUL_ADD(a, b, c) fma(a, b, c)
#define MUL_ADD_1(a, b, c) fma(a, b, c)
#else
#define U K_U(KILN_A)
#define MUL_ADD(a, b, c) K_AS(C, K_AS(U, a) * K_AS(U, b) + K_AS(U, c))
#define MUL_ADD_1(a, b, c) ((C)((U)(a) * (U)(b) + (U)(c)))
#endif

#if KILN_BIAS
#define BIAS_ARGUMENT , __global const K_S(KILN_A) *bias
#define BIAS_OF(channel) K_LD(KILN_A, bias + s.start[3] + (channel))
#else
#define BIAS_ARGUMENT
#define BIAS_OF(channel) ((C)0)
#endif

K_DEFINE_SCATTER(scatter_o, KILN_A)

#if KILN_DIRECT

#if KILN_STEP1
#define LOAD_COLUMNS(p, step) K_LDV(KILN_A, p)
#else
K_DEFINE_GATHER(gather_a, KILN_A)
#define LOAD_COLUMNS(p, step) gather_a(p, step, KILN_V)
#endif

__kernel void kiln_conv_direct(kiln_conv_direct_shape s, __global K_S(KILN_A) *out,
                               __global const K_S(KILN_A) *in,
                               __global const K_S(KILN_A) *weight BIAS_ARGUMENT)
{
    const long column_blocks = (s.out[2] + KILN_V - 1) / KILN_V;
    const long channel_blocks = (s.outputs + KILN_OB - 1) / KILN_OB;
    const long rows = s.out[0] * s.out[1];
    long rest = (long)get_global_id(0);
    const long column = rest % column_blocks * KILN_V;
    rest /= column_blocks;
    const long row = rest % rows;
    rest /= rows;
    const long first = rest % channel_blocks * KILN_OB;
    rest /= channel_blocks;
    const long group = rest % s.groups;
    const long n = rest / s.groups;
    if (n >= s.batch) {
        return;
    }
    const long window = s.taps[0] * s.taps[1] * s.taps[2];
    const int count = (int)min(s.out[2] - column, (long)KILN_V);
    const long depth = row / s.out[1] * s.strides[0];
    const long top = row % s.out[1] * s.strides[1];
    const long left = column * s.strides[2];
    __global const K_S(KILN_A) *x =
        in + s.start[1] + (n * s.groups + group) * s.channels * s.in[0] * s.in[1] * s.in[2];
    __global const K_S(KILN_A) *w[KILN_OB];
    T sums[KILN_OB];
    K_UNROLLED
    for (int o = 0; o < KILN_OB; o++) {
        const long channel = group * s.outputs + min(first + o, s.outputs - 1);
        w[o] = weight + s.start[2] + channel * s.channels * window;
        sums[o] = (T)(0);
    }
    long tap = 0;
    for (long c = 0; c < s.channels; c++) {
        for (long kd = 0; kd < s.taps[0]; kd++) {
            const long d = c * s.in[0] + depth + kd * s.dilations[0];
            for (long kh = 0; kh < s.taps[1]; kh++) {
                const long h = d * s.in[1] + top + kh * s.dilations[1];
                __global const K_S(KILN_A) *line = x + h * s.in[2] + left;
                for (long kw = 0; kw < s.taps[2]; kw++, tap++) {
                    const T v = LOAD_COLUMNS(line + kw * s.dilations[2], s.strides[2]);
                    K_UNROLLED
                    for (int o = 0; o < KILN_OB; o++) {
                        sums[o] = MUL_ADD(v, (T)(K_LD(KILN_A, w[o] + tap)), sums[o]);
                    }
                }
            }
        }
    }
    K_UNROLLED
    for (int o = 0; o < KILN_OB; o++) {
        const long channel = group * s.outputs + first + o;
        if (first + o < s.outputs) {
            const T y = sums[o] + (T)(BIAS_OF(channel));
            __global K_S(KILN_A) *to =
                out + s.start[0] + ((n * s.groups * s.outputs + channel) * rows + row) * s.out[2] +
                column;
            if (count == KILN_V) {
                K_STV(KILN_A, to, y);
            } else {
                scatter_o(to, 1, count, y);
            }
        }
    }
}

#else

#endif

#if KILN_PLANE

// A row of x as KILN_SX parts, of which part p has the padded columns p, p + KILN_SX, ...
static inline void split_row(__global C *to, __global const K_S(KILN_A) *line, long begin,
                             long length, long part)
{
    for (int p = 0; p < KILN_SX; p++) {
        const long first = (p + KILN_SX - begin % KILN_SX) % KILN_SX;
        const long at = (begin + first) / KILN_SX;
        const long count = min((length - first + KILN_SX - 1) / KILN_SX, part - at);
        __global C *place = to + p * part + at;
        __global const K_S(KILN_A) *from = line + first;
        long i = 0;
#if KILN_SX == 1
        for (; i + KILN_V <= count; i += KILN_V) {
            K_CAT(vstore, KILN_V)(K_LDV(KILN_A, from + i), 0, place + i);
        }
#elif KILN_SX == 2
        for (; i + KILN_V < count; i += KILN_V) { // the last column is none behind the row
            const T a = K_LDV(KILN_A, from + 2 * i), b = K_LDV(KILN_A, from + 2 * i + KILN_V);
            K_CAT(vstore, KILN_V)((T)(a.even, b.even), 0, place + i);
        }
#endif
        for (; i < count; i++) {
            place[i] = K_LD(KILN_A, from + i * KILN_SX);
        }
    }
}

// KILN_ROWS rows of KILN_V results from `x` on, of which `count` are stored.
static inline void plane_tile(const kiln_conv_plane_shape *s, __global K_S(KILN_A) *out,
                              __global const C *x, __global const K_S(KILN_A) *w, C bias, int count)
{
    enum { REACH = (KILN_ROWS - 1) * KILN_SY + (KILN_KH - 1) * KILN_DY + 1 };
    T sums[KILN_ROWS];
    K_UNROLLED
    for (int y = 0; y < KILN_ROWS; y++) {
        sums[y] = (T)(0);
    }
    K_UNROLLED
    for (int row = 0; row < REACH; row++) {
        K_UNROLLED
        for (int kx = 0; kx < KILN_KW; kx++) {
            const int column = kx * KILN_DX;
            const T v = K_CAT(vload, KILN_V)(0, x + (row * KILN_SX + column % KILN_SX) * s->part +
                                                    column / KILN_SX);
            K_UNROLLED
            for (int y = 0; y < KILN_ROWS; y++) {
                const int reach = row - y * KILN_SY, ky = reach / KILN_DY;
                if (reach >= 0 && reach % KILN_DY == 0 && ky < KILN_KH) {
                    sums[y] = MUL_ADD(v, (T)(K_LD(KILN_A, w + ky * KILN_KW + kx)), sums[y]);
                }
            }
        }
    }
    K_UNROLLED
    for (int y = 0; y < KILN_ROWS; y++) {
        if (count == KILN_V) {
            K_STV(KILN_A, out + y * s->out[1], sums[y] + (T)(bias));
        } else {
            scatter_o(out + y * s->out[1], 1, count, sums[y] + (T)(bias));
        }
    }
}

__kernel void kiln_conv_plane(kiln_conv_plane_shape s, __global K_S(KILN_A) *out,
                              __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *weight,
                              __global C *scratch BIAS_ARGUMENT)
{
    const long row = s.part * KILN_SX;
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.images);
    const int count = (int)min(s.out[1], (long)KILN_V);
    __global C *plane = scratch + (long)get_global_id(0) * s.rows * row;
    for (long i = 0; i < s.rows * row; i++) { // what stays around every channel
        plane[i] = (C)0;
    }
    for (long image = first; image < last; image++) {
        __global const K_S(KILN_A) *x = in + s.start[1] + image * s.in[0] * s.in[1];
        for (long y = 0; y < min(s.in[0], s.rows - s.begin[0]); y++) {
            split_row(plane + (y + s.begin[0]) * row, x + y * s.in[1], s.begin[1], s.in[1],
                      s.part);
        }
        for (long o = 0; o < s.outputs; o++) {
            const long channel = image % s.groups * s.outputs + o;
            __global const K_S(KILN_A) *w = weight + s.start[2] + channel * KILN_KH * KILN_KW;
            __global K_S(KILN_A) *to =
                out + s.start[0] + (image * s.outputs + o) * s.out[0] * s.out[1];
            for (long at = 0; at < s.out[0]; at += KILN_ROWS) { // the last rows overlap others
                const long y = min(at, s.out[0] - KILN_ROWS);
                for (long left = 0; left < s.out[1]; left += KILN_V) {
                    const long column = min(left, s.out[1] - count);
                    plane_tile(&s, to + y * s.out[1] + column, plane + y * KILN_SY * row + column,
                               w, BIAS_OF(channel), count);
                }
            }
        }
    }
}

#endif

#if KILN_BLOCK

#define NB (KILN_NR * KILN_V)

// `run` neighbouring columns of one row of x for one element of the window, from place `left` on by
// `step`; zeros outside the row and where there is none.
static inline void pack_run(__global C *to, __global const K_S(KILN_A) *line, bool inside, long left,
                            long step, long length, long run)
{
    long first = inside ? 0 : run;
    long last = run;
    if (inside) {
        first = left >= 0 ? 0 : min((step - 1 - left) / step, run);
        last = left >= length ? 0 : min((length - left + step - 1) / step, run);
    }
    long i = 0;
    for (; i < min(first, run); i++) {
        to[i] = (C)0;
    }
    if (step == 1) {
        for (; i + KILN_V <= last; i += KILN_V) {
            K_CAT(vstore, KILN_V)(K_LDV(KILN_A, line + left + i), 0, to + i);
        }
    }
    for (; i < last; i++) {
        to[i] = K_LD(KILN_A, line + left + i * step);
    }
    for (; i < run; i++) {
        to[i] = (C)0;
    }
}

// Columns of `count` results from place `p` on: depth rows of NB.
static void pack(const kiln_conv_shape *s, __global const K_S(KILN_A) *x, __global C *columns,
                 long p, long count)
{
    long column = p % s->w.out[2];
    long row = p / s->w.out[2];
    for (long j = 0; j < NB; row++) {
        const bool used = j < count;
        const long run = used ? min(count - j, s->w.out[2] - column) : NB - j;
        const long depth = row / s->w.out[1] * s->w.strides[0] - s->w.begin[0];
        const long top = row % s->w.out[1] * s->w.strides[1] - s->w.begin[1];
        const long left = column * s->w.strides[2] - s->w.begin[2];
        __global C *to = columns + j;
        for (long c = 0; c < s->channels; c++) {
            for (long kd = 0; kd < s->w.taps[0]; kd++) {
                const long d = depth + kd * s->w.dilations[0];
                for (long kh = 0; kh < s->w.taps[1]; kh++) {
                    const long h = top + kh * s->w.dilations[1];
                    const bool inside =
                        used && d >= 0 && d < s->w.in[0] && h >= 0 && h < s->w.in[1];
                    __global const K_S(KILN_A) *line =
                        x + (inside ? ((c * s->w.in[0] + d) * s->w.in[1] + h) * s->w.in[2] : 0);
                    for (long kw = 0; kw < s->w.taps[2]; kw++, to += NB) {
                        pack_run(to, line, inside, left + kw * s->w.dilations[2], s->w.strides[2],
                                 s->w.in[2], run);
                    }
                }
            }
        }
        j += run;
        column = 0;
    }
}

__kernel void kiln_conv_block(kiln_conv_shape s, __global K_S(KILN_A) *out,
                              __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *weight,
                              __global C *scratch BIAS_ARGUMENT)
{
    const long item = (long)get_global_id(0);
    const long first_tile = item % s.chunks * s.tiles_each;
    const long last_tile = min(first_tile + s.tiles_each, s.tiles * s.images);
    const long first = item / s.chunks * s.outputs_each;
    const long last = min(first + s.outputs_each, s.outputs);
    __global C *columns = scratch + item * s.depth * NB;
    for (long tile = first_tile; tile < last_tile && first < last; tile++) {
        const long image = tile / s.tiles;
        const long p = (tile - image * s.tiles) * NB;
        const long count = min(s.positions - p, (long)NB);
        const long group = image % s.groups;
        pack(&s, in + s.start[1] + image * s.channels * s.w.in[0] * s.w.in[1] * s.w.in[2], columns,
             p, count);
        for (long o = first; o < last; o += KILN_MR) {
            __global const K_S(KILN_A) *rows[KILN_MR];
            T sums[KILN_MR][KILN_NR];
            K_UNROLLED
            for (int i = 0; i < KILN_MR; i++) {
                rows[i] = weight + s.start[2] +
                          (group * s.outputs + min(o + i, last - 1)) * s.depth;
                K_UNROLLED
                for (int j = 0; j < KILN_NR; j++) {
                    sums[i][j] = (T)(0);
                }
            }
            for (long k = 0; k < s.depth; k++) {
                T b[KILN_NR];
                K_UNROLLED
                for (int j = 0; j < KILN_NR; j++) {
                    b[j] = K_CAT(vload, KILN_V)(0, columns + k * NB + j * KILN_V);
                }
                K_UNROLLED
                for (int i = 0; i < KILN_MR; i++) {
                    const T a = (T)(K_LD(KILN_A, rows[i] + k));
                    K_UNROLLED
                    for (int j = 0; j < KILN_NR; j++) {
                        sums[i][j] = MUL_ADD(a, b[j], sums[i][j]);
                    }
                }
            }
            K_UNROLLED
            for (int i = 0; i < KILN_MR; i++) {
                const long channel = image * s.outputs + o + i;
                const T bias_value = (T)(BIAS_OF(group * s.outputs + min(o + i, last - 1)));
                K_UNROLLED
                for (int j = 0; j < KILN_NR; j++) {
                    __global K_S(KILN_A) *to =
                        out + s.start[0] + channel * s.positions + p + j * KILN_V;
                    const int stored = (int)min(count - j * KILN_V, (long)KILN_V);
                    if (o + i < last && stored == KILN_V) {
                        K_STV(KILN_A, to, sums[i][j] + bias_value);
                    } else if (o + i < last && stored > 0) {
                        scatter_o(to, 1, stored, sums[i][j] + bias_value);
                    }
                }
            }
        }
    }
}

#endif

#if KILN_TILE

#define SIDE 64
#define DEPTH 16

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
kiln_conv_tile(kiln_conv_shape s, __global K_S(KILN_A) *out, __global const K_S(KILN_A) *in,
               __global const K_S(KILN_A) *weight BIAS_ARGUMENT)
{
    __local C tile_a[DEPTH][SIDE + 1];
    __local C tile_b[DEPTH][SIDE + 1];
    const long column_blocks = (s.positions + SIDE - 1) / SIDE;
    const long row_blocks = (s.outputs + SIDE - 1) / SIDE;
    const long group_id = (long)get_group_id(0);
    const long position = group_id % column_blocks * SIDE;
    const long row = group_id / column_blocks % row_blocks * SIDE;
    const long image = group_id / column_blocks / row_blocks;
    const long group = image % s.groups;
    __global const K_S(KILN_A) *a_from = weight + s.start[2] + group * s.outputs * s.depth;
    __global const K_S(KILN_A) *b_from =
        in + s.start[1] + image * s.channels * s.w.in[0] * s.w.in[1] * s.w.in[2];
    const int lane = (int)get_local_id(0);
    const int x = lane % 16;
    const int y = lane / 16;
    // each work-item makes columns of one result: lane % SIDE
    const long mine = position + lane % SIDE;
    const long left = mine % s.w.out[2] * s.w.strides[2] - s.w.begin[2];
    const long top = mine / s.w.out[2] % s.w.out[1] * s.w.strides[1] - s.w.begin[1];
    const long deep = mine / s.w.out[2] / s.w.out[1] * s.w.strides[0] - s.w.begin[0];
    const int taps[3] = {(int)s.w.taps[0], (int)s.w.taps[1], (int)s.w.taps[2]};
    C sums[4][4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            sums[i][j] = 0;
        }
    }
    for (long depth = 0; depth < s.depth; depth += DEPTH) {
        for (int i = lane; i < SIDE * DEPTH; i += 256) {
            const long ar = row + i / DEPTH;
            const long ak = depth + i % DEPTH;
            const bool a_inside = ar < s.outputs && ak < s.depth;
            tile_a[i % DEPTH][i / DEPTH] =
                a_inside ? K_LD(KILN_A, a_from + ar * s.depth + ak) : (C)0;
            int k = (int)depth + i / SIDE;
            const long w = left + k % taps[2] * s.w.dilations[2];
            k /= taps[2];
            const long h = top + k % taps[1] * s.w.dilations[1];
            k /= taps[1];
            const long d = deep + k % taps[0] * s.w.dilations[0];
            const long c = k / taps[0];
            const bool b_inside = mine < s.positions && c < s.channels && d >= 0 &&
                                  d < s.w.in[0] && h >= 0 && h < s.w.in[1] && w >= 0 &&
                                  w < s.w.in[2];
            tile_b[i / SIDE][i % SIDE] =
                b_inside ? K_LD(KILN_A, b_from + ((c * s.w.in[0] + d) * s.w.in[1] + h) * s.w.in[2] +
                                            w)
                         : (C)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < DEPTH; p++) {
            K_UNROLLED
            for (int i = 0; i < 4; i++) {
                const C a = tile_a[p][y + 16 * i];
                K_UNROLLED
                for (int j = 0; j < 4; j++) {
                    sums[i][j] = MUL_ADD_1(a, tile_b[p][x + 16 * j], sums[i][j]);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const long r = row + y + 16 * i;
            const long at = position + x + 16 * j;
            if (r < s.outputs && at < s.positions) {
                K_ST(KILN_A, out + s.start[0] + (image * s.outputs + r) * s.positions + at,
                     sums[i][j] + BIAS_OF(group * s.outputs + r));
            }
        }
    }
}

#endif
