// SPDX-License-Identifier: MIT OR Apache-2.0
// A dense tensor [n][channels][height][width] into blocks of IB channels, a multiple of 4, by
// elementwise operators that are the same for all channels: FINISH works on 16 neighbours of a row.
// A work-item makes `rows` rows of one block.
//
// Defines: IB, WORDS (1: the result is of 8 bits, and four channels are stored at once), LOADED(x):
// what is read as the operators take it.

// The i-th channel's 16 neighbours at p, of which the first `many` are there.
#define ENTERED(v, p, many)                                                                        \
    OUT16 v;                                                                                       \
    if (many == 16) {                                                                              \
        v = FINISH(LOADED(vload16(0, p)), n, block, y, x);                                         \
    } else {                                                                                       \
        IN part[16];                                                                               \
        for (int k = 0; k < 16; k++) {                                                             \
            part[k] = (p)[min(k, many - 1)];                                                       \
        }                                                                                          \
        v = FINISH(LOADED(vload16(0, part)), n, block, y, x);                                      \
    }

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item % chunks;
    const int block = item / chunks % blocks;
    const long n = item / chunks / blocks;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const int count = min(channels - block * IB, IB);
    const long plane = (long)height * width;
    __global const IN *from = in + in_offset + (n * channels + block * IB) * plane;
    __global OUT *result = out + n * out_batch + out_base + (long)block * out_plane;
    for (int y = begin; y < end; y++) {
        __global OUT *line = result + (long)y * out_row;
        for (int x = 0; x < width; x += 16) {
            const int many = min(width - x, 16);
            __global const IN *p = from + (long)y * width + x;
            for (int c = 0; c < IB; c += WORDS ? 4 : 1) {
#if WORDS
                uint words[16];
                uint16 word = (uint16)(0);
                for (int i = 0; i < 4 && c + i < count; i++) {
                    ENTERED(v, p + (c + i) * plane, many)
                    word |= convert_uint16(v) << (uint)(8 * i);
                }
                if (IB == 4 && many == 16) {
                    vstore16(word, 0, (__global uint *)(line + x * IB));
                    continue;
                }
                vstore16(word, 0, words);
                for (int k = 0; k < many; k++) {
                    *(__global uint *)(line + (x + k) * IB + c) = words[k];
                }
#else
                OUT lanes[16] = {0};
                if (c < count) {
                    ENTERED(v, p + c * plane, many)
                    vstore16(v, 0, lanes);
                }
                for (int k = 0; k < many; k++) {
                    line[(x + k) * IB + c] = lanes[k];
                }
#endif
            }
        }
    }
    clear_border(result, BORDER, IB, out_row, begin, end, height, width, out_top, out_left,
                 out_bottom, out_right);
}
