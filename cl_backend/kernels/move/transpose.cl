// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies where the axis that runs densely in the result is not the one that does in the input: tiles
// are turned in registers on CPUs, in local memory on GPUs. Elements of type KILN_O (unsigned) are
// only moved. y runs densely in the input, x in the result.
//
//   KILN_GROUP  1: a work-group for a tile; 0: a work-item for a block of tiles of KILN_V x KILN_V

#include "move_args.h"

#define S K_S(KILN_O)
#define T K_V(S)

typedef struct kiln_place {
    long in;
    long out;
    long x; // first of the block
    long y;
} kiln_place;

static inline kiln_place place_of(const kiln_transpose_shape *s, long block, int side)
{
    kiln_place at = {s->in_start, s->out_start, block % s->x_blocks * side, 0};
    block /= s->x_blocks;
    at.y = block % s->y_blocks * side;
    long plane = block / s->y_blocks;
    for (int d = (int)s->rank - 1; d >= 0; d--) {
        const long above = plane / s->dims[d];
        const long i = plane - above * s->dims[d];
        at.in += i * s->in_strides[d];
        at.out += i * s->out_strides[d];
        plane = above;
    }
    return at;
}

#if KILN_GROUP

enum { SIDE = 32, ROWS = 8 };

__kernel __attribute__((reqd_work_group_size(SIDE *ROWS, 1, 1))) void
kiln_transpose(kiln_transpose_shape s, __global S *out, __global const S *in)
{
    __local S tile[SIDE][SIDE + 1]; // a place free in each row: no bank conflicts
    const kiln_place at = place_of(&s, (long)get_group_id(0), SIDE);
    const int column = (int)get_local_id(0) % SIDE;
    const int row = (int)get_local_id(0) / SIDE;
    for (int i = row; i < SIDE; i += ROWS) {
        if (at.x + i < s.x && at.y + column < s.y) {
            tile[i][column] = in[at.in + (at.x + i) * s.in_stride + at.y + column];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = row; i < SIDE; i += ROWS) {
        if (at.x + column < s.x && at.y + i < s.y) {
            out[at.out + (at.y + i) * s.out_stride + at.x + column] = tile[column][i];
        }
    }
}

#else

K_DEFINE_TURN(turn_tile, T)

static inline void turn(__global S *to, long to_stride, __global const S *from, long from_stride)
{
    T rows[KILN_V];
    K_UNROLLED
    for (int i = 0; i < KILN_V; i++) {
        rows[i] = K_CAT(vload, KILN_V)(0, from + i * from_stride);
    }
    turn_tile(rows);
    K_UNROLLED
    for (int i = 0; i < KILN_V; i++) {
        K_CAT(vstore, KILN_V)(rows[i], 0, to + i * to_stride);
    }
}

__kernel void kiln_transpose(kiln_transpose_shape s, __global S *out, __global const S *in)
{
    const kiln_place at = place_of(&s, (long)get_global_id(0), KILN_SIDE);
    const long x_end = min(at.x + KILN_SIDE, s.x);
    const long y_end = min(at.y + KILN_SIDE, s.y);
    for (long x = at.x; x < x_end; x += KILN_V) {
        for (long y = at.y; y < y_end; y += KILN_V) {
            __global const S *from = in + at.in + x * s.in_stride + y;
            __global S *to = out + at.out + y * s.out_stride + x;
            if (x + KILN_V <= x_end && y + KILN_V <= y_end) {
                turn(to, s.out_stride, from, s.in_stride);
                continue;
            }
            const long wide = min((long)KILN_V, x_end - x);
            const long high = min((long)KILN_V, y_end - y);
            for (long j = 0; j < high; j++) {
                for (long i = 0; i < wide; i++) {
                    to[j * s.out_stride + i] = from[i * s.in_stride + j];
                }
            }
        }
    }
}

#endif
