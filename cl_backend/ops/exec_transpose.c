// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches transpose.cl. Decides which copies it takes: both sides run densely, along different
// axes that are long enough for tiles.
#include <string.h>

#include "exec_internal.h"
#include "move_args.h"

enum { GROUP_SIDE = 32, TRANSPOSE_GROUP = 256, BLOCK_SIDE = 128, LEAST = 8 };

/// The axis along which an operand runs densely; the rank when there is none.
static uint32_t dense_axis(const kilni_exec_loops *loops, uint32_t operand)
{
    uint32_t axis = 0;
    while (axis < loops->rank && loops->strides[operand][axis] != 1) {
        axis++;
    }
    return axis;
}

static int64_t cut_blocks(const kilni_exec *exec, kiln_transpose_shape *s)
{
    int64_t side = kilni_exec_is_block(exec) ? BLOCK_SIDE : GROUP_SIDE;
    s->x_blocks = kilni_exec_ceil_div(s->x, side);
    s->y_blocks = kilni_exec_ceil_div(s->y, side);
    return s->planes * s->x_blocks * s->y_blocks;
}

bool kilni_exec_transposes(const kilni_exec_loops *loops)
{
    uint32_t x = dense_axis(loops, 0);
    uint32_t y = dense_axis(loops, 1);
    return x < loops->rank && y < loops->rank && x != y && loops->dims[x] >= LEAST &&
           loops->dims[y] >= LEAST;
}

kiln_status kilni_exec_transpose(kilni_exec *exec, const kilni_exec_loops *loops, kiln_dtype dtype,
                                 kiln_buffer *source, kiln_buffer *target)
{
    uint32_t x = dense_axis(loops, 0);
    uint32_t y = dense_axis(loops, 1);
    kiln_transpose_shape s = {.x = loops->dims[x],
                              .y = loops->dims[y],
                              .in_stride = loops->strides[1][x],
                              .out_stride = loops->strides[0][y],
                              .in_start = loops->start[1],
                              .out_start = loops->start[0],
                              .planes = 1};
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    for (uint32_t i = 0; i < loops->rank; i++) {
        if (i != x && i != y) {
            s.dims[s.rank] = loops->dims[i];
            s.out_strides[s.rank] = loops->strides[0][i];
            s.in_strides[s.rank++] = loops->strides[1][i];
            s.planes *= loops->dims[i];
        }
    }
    bool block = kilni_exec_is_block(exec);
    int64_t items = cut_blocks(exec, &s);
    kilni_exec_define_dtype(&options, "O", dtype);
    kilni_exec_define(&options, "V", kiln_dtype_size(dtype) == 8 ? 8 : 16);
    kilni_exec_define(&options, "GROUP", block ? 0 : 1);
    kilni_exec_define(&options, "SIDE", BLOCK_SIDE);
    kiln_status status = kilni_exec_kernel(exec, "transpose.cl", "kiln_transpose", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, target);
    kilni_cl_push_buffer(&args, source);
    return kilni_exec_launch(exec, &args, block ? items : items * TRANSPOSE_GROUP, TRANSPOSE_GROUP);
}
