// SPDX-License-Identifier: MIT OR Apache-2.0
// An image of 8 bits in blocks of 16 channels as a dense tensor [n][channels][height][width]. FLIP:
// what was added to signed bytes is taken off.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int block = item % blocks;
    const long n = item / blocks;
    __global const uchar *plane = in + n * in_batch + in_base + (long)block * in_plane;
    const int count = min(channels - block * 16, 16);
    __global uchar *to = out + out_offset + (n * channels + block * 16) * height * width;
    for (int c = 0; c < count; c++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                to[((long)c * height + y) * width + x] =
                    plane[(long)y * in_row + x * 16 + c] ^ (uchar)FLIP;
            }
        }
    }
}
