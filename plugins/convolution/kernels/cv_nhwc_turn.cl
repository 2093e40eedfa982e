// SPDX-License-Identifier: MIT OR Apache-2.0
// Between a dense tensor [n][channels][height][width] and an image with channels innermost.
//
// Defines: TURN (0: a tensor comes in; 1: an image goes out; 2: a tensor comes in as a matrix, a
// line of PIECES pieces for each place of a convolution's result: its terms, element of the KH by KW
// of the window by element, and 0 behind them; IN_CHANNELS).

__kernel void KERNEL(PARAMS)
{
    const int id = (int)get_global_id(0);
    if (id >= items) {
        return;
    }
    const int size = in_height * in_width;
#if TURN == 2
    const int row = id / PIECES, piece = id % PIECES;
    const int n = row / places, at = row % places;
    const int y0 = at / width * sy - top, x0 = at % width * sx - left;
    __global const ushort *from = in + in_offset + (long)n * in_channels * size;
    ushort v[8];
#ifndef POCL_DEVICE_ADDRESS_BITS
#pragma unroll
#endif
    for (int i = 0; i < 8; i++) {
        const int term = piece * 8 + i, tap = term / IN_CHANNELS, c = term - tap * IN_CHANNELS;
        const int y = y0 + tap / KW * dy, x = x0 + tap % KW * dx;
        const bool there = tap < KH * KW && y >= 0 && y < in_height && x >= 0 && x < in_width;
        v[i] = there ? from[(c * in_height + y) * in_width + x] : (ushort)0;
    }
    STORE_PIECE(out + (long)id * 8, vload8(0, v));
#else
    const int blocks = in_channels / 8, at = id % size;
    const int block = id / size % blocks, n = id / size / blocks;
    const long lines = ((long)n * in_channels + block * 8) * size + at;
    const long piece = ((long)n * size + at) * in_channels + block * 8;
    ushort v[8];
#if TURN == 0
    for (int i = 0; i < 8; i++) {
        v[i] = in[in_offset + lines + (long)i * size];
    }
    STORE_PIECE(out + piece, vload8(0, v));
#else
    vstore8(as_ushort8(*(__global const uint4 *)(in + piece)), 0, v);
    for (int i = 0; i < 8; i++) {
        out[out_offset + lines + (long)i * size] = v[i];
    }
#endif
#endif
}
