// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants of a step as its kernel reads them, made once: vectors of one number for each channel,
// then weights. A work-item makes one block of 16 channels. The program defines VECTOR_<i>(o), what
// channel `o` of vector i is, WEIGHT(o, i), number i of the weights, one of channel `o`, and SCALE(o),
// by which a batch norm behind the product multiplies its weights; PAIR(o, c) is where the windows of
// a channel that results and of one that is read lie. For dot products of bytes (3)
// WHOLE(i) is the signed byte.
//
// Defines: VECTORS, WEIGHTS (0: none, 1: [block][input block][KH][KW][IB][16], 2: of one channel each,
// [block][KH][KW][16], 3: bytes, [block][input block][KH][KW][IB / 4][16][4], 4: of a group's channels,
// [block][KH][KW][channel][16], 5: in Winograd's form, [block][16][channel][16]), IB, KH, KW. `in_channels` are a group's.

#if WEIGHTS == 3
// Of the signed bytes of one channel's weights.
#define SUM(sum)                                                                                   \
    int sum = 0;                                                                                   \
    for (int i = 0; is_channel && i < in_channels * KH * KW; i++) {                                \
        sum += WHOLE((long)o * in_channels * KH * KW + i);                                         \
    }
#else
#define SUM(sum)
#endif

#if WEIGHTS == 5
// Three numbers `step` apart become four.
static inline void transform_line(float *to, int to_step, const float *from, int step)
{
    const float sides = from[0] + from[2 * step];
    to[0] = from[0];
    to[to_step] = 0.5f * (sides + from[step]);
    to[2 * to_step] = 0.5f * (sides - from[step]);
    to[3 * to_step] = from[2 * step];
}

static inline void transform_weights(float u[16], const float g[9])
{
    float columns[12];
    for (int x = 0; x < 3; x++) {
        transform_line(columns + x, 3, g + x, 3);
    }
    for (int y = 0; y < 4; y++) {
        transform_line(u + y * 4, 1, columns + y * 3, 1);
    }
}
#endif

__kernel void KERNEL(PARAMS)
{
    const int block = (int)get_global_id(0);
    for (int lane = 0; lane < 16; lane++) {
        const int o = block * 16 + lane;
        const bool is_channel = o < channels;
        SUM(sum_of_weights)
        PACK_VECTORS
#if WEIGHTS == 1 || WEIGHTS == 2 || WEIGHTS == 4 || WEIGHTS == 5
        const float scale = is_channel ? SCALE(o) : 0.0f;
#endif
#if WEIGHTS == 1
        __global float *to = pack + ((long)VECTORS * blocks +
                                     (long)block * in_blocks * KH * KW * IB) * 16 + lane;
        for (int c = 0; c < in_blocks * IB; c++) {
            for (int tap = 0; tap < KH * KW; tap++) {
                const long place = ((long)(c / IB) * KH * KW + tap) * IB + c % IB;
                to[place * 16] =
                    is_channel && c < in_channels
                        ? WEIGHT(o, PAIR(o, c) * KH * KW + tap) * scale
                        : 0.0f;
            }
        }
#elif WEIGHTS == 2
        for (int tap = 0; tap < KH * KW; tap++) {
            pack[((long)VECTORS * blocks + block * KH * KW + tap) * 16 + lane] =
                is_channel ? WEIGHT(o, (long)o * KH * KW + tap) * scale : 0.0f;
        }
#elif WEIGHTS == 5
        __global float *to = pack + ((long)VECTORS * blocks +
                                     (long)block * in_blocks * 16 * 16) * 16 + lane;
        for (int c = 0; c < in_blocks * 16; c++) {
            float g[9], u[16];
            for (int tap = 0; tap < 9; tap++) {
                g[tap] = is_channel && c < in_channels
                             ? WEIGHT(o, ((long)o * in_channels + c) * 9 + tap) * scale
                             : 0.0f;
            }
            transform_weights(u, g);
            for (int place = 0; place < 16; place++) {
                to[((long)place * in_blocks * 16 + c) * 16] = u[place];
            }
        }
#elif WEIGHTS == 4
        __global float *to =
            pack + ((long)VECTORS * blocks + (long)block * KH * KW * in_channels) * 16 + lane;
        for (int c = 0; c < in_channels; c++) {
            for (int tap = 0; tap < KH * KW; tap++) {
                to[(tap * in_channels + c) * 16] =
                    is_channel ? WEIGHT(o, ((long)o * in_channels + c) * KH * KW + tap) * scale
                               : 0.0f;
            }
        }
#elif WEIGHTS == 3
        __global char *to = (__global char *)(pack + (long)VECTORS * blocks * 16) +
                            (long)block * in_blocks * KH * KW * IB * 16 + lane * 4;
        for (int c = 0; c < in_blocks * IB; c++) {
            for (int tap = 0; tap < KH * KW; tap++) {
                const long place = ((long)(c / IB) * KH * KW + tap) * (IB / 4) + c % IB / 4;
                to[place * 64 + c % 4] =
                    is_channel && c < in_channels
                        ? (char)WHOLE(((long)o * in_channels + c) * KH * KW + tap)
                        : (char)0;
            }
        }
#endif
    }
}
