// SPDX-License-Identifier: MIT OR Apache-2.0
// A dense tensor [n][channels][height][width] into blocks of IB channels among zeros.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int block = item % blocks;
    const long n = item / blocks;
    const int full_width = out_left + width + out_right;
    __global float *result = out + n * out_batch + (long)block * out_plane;
    __global const float *x = in + in_offset + (n * channels + block * IB) * height * width;
    const int count = min(channels - block * IB, IB);
    for (int y = 0; y < out_top + height + out_bottom; y++) {
        __global float *line = result + (long)y * out_row;
        const bool inside = y >= out_top && y < out_top + height;
        if (!inside || count < IB || out_left + out_right > 0) {
            for (int i = 0; i < full_width * IB; i++) {
                line[i] = 0.0f;
            }
        }
        if (inside) {
            for (int c = 0; c < count; c++) {
                __global const float *from = x + ((long)c * height + y - out_top) * width;
                for (int i = 0; i < width; i++) {
                    line[(out_left + i) * IB + c] = from[i];
                }
            }
        }
    }
}
