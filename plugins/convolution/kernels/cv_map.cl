// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators that no step before them could take along.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item % chunks;
    const int block = item / chunks % blocks;
    const long n = item / chunks / blocks;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    __global const float *plane = in + n * in_batch + in_base + (long)block * in_plane;
    __global float *result = out + n * out_batch + out_base + (long)block * out_plane;
    for (int y = begin; y < end; y++) {
        for (int x = 0; x < width; x++) {
            const float16 v = LOAD(plane + (long)y * in_row, x);
            STORE(result + (long)y * out_row, x, FINISH(v, n, block, y, x));
        }
    }
    clear_border(result, out_row, begin, end, height, width, out_top, out_left, out_bottom,
                 out_right);
}
