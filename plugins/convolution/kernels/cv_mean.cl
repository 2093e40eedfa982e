// SPDX-License-Identifier: MIT OR Apache-2.0
// The mean of each channel over an image, by rows: a row's sum first, as long sums of few terms.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int block = item % blocks;
    const long n = item / blocks;
    __global const IN *plane = in + n * in_batch + in_base + (long)block * in_plane;
    float16 sum = (float16)(0);
    for (int y = 0; y < in_height; y++) {
        float16 line = (float16)(0);
        for (int x = 0; x < in_width; x++) {
            line += LOAD_IN(plane + (long)y * in_row, x);
        }
        sum += line;
    }
    __global OUT *result = out + n * out_batch + out_base + (long)block * out_plane;
    STORE(result, 0, FINISH(sum / (float)(in_height * in_width), n, block, 0, 0));
    clear_border(result, BORDER, 16, out_row, 0, 1, 1, 1, out_top, out_left, out_bottom, out_right);
}
