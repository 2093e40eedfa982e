// SPDX-License-Identifier: MIT OR Apache-2.0
// An image in blocks of 16 channels as a dense tensor [n][channels][height][width] of TO. A
// work-item takes `rows` rows of a block. KEEP16(p, v), KEEP(p, v): 16 numbers and one as elements.

// `length` neighbouring places, at least 16, into `count` channels that lie `far` apart.
static inline void export_places(__global TO *to, __global const float *from, long far,
                                 int count, int length)
{
    for (int at = 0; at < length; at += 16) {
        const int x = min(at, length - 16); // the last places overlap those before them
        float16 v[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            v[i] = LOAD(from, x + i);
        }
        transpose(v);
#pragma unroll
        for (int c = 0; c < 16; c++) {
            if (c < count) {
                KEEP16(to + c * far + x, v[c]);
            }
        }
    }
}

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item % chunks;
    const int block = item / chunks % blocks;
    const long n = item / chunks / blocks;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const long far = (long)height * width;
    const int count = min(channels - block * 16, 16);
    __global const float *plane = in + n * in_batch + in_base + (long)block * in_plane;
    __global TO *result = out + out_offset + (n * channels + block * 16) * far;
    const bool joined = in_row == width * 16; // rows follow one another without zeros between them
    const int length = joined ? (end - begin) * width : width;
    for (int y = begin; y < end; y += joined ? rows : 1) {
        __global const float *from = plane + (long)y * in_row;
        __global TO *to = result + (long)y * width;
        if (length >= 16) {
            export_places(to, from, far, count, length);
            continue;
        }
        for (int c = 0; c < count; c++) {
            for (int i = 0; i < length; i++) {
                KEEP(to + c * far + i, from[i * 16 + c]);
            }
        }
    }
}
