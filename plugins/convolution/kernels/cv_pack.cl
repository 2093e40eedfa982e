// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants of a step as its kernel reads them, made once: vectors of one number for each channel,
// then weights. A work-item makes one block of 16 channels. The program defines VECTOR_<i>(o), what
// channel `o` of vector i is, and SCALE(o), by which a batch norm behind the product multiplies
// its weights.
//
// Defines: VECTORS, WEIGHTS (0: none, 1: [block][input block][KH][KW][IB][16], 2: of one channel each,
// [block][KH][KW][16]), IB, KH, KW.

__kernel void KERNEL(PARAMS)
{
    const int block = (int)get_global_id(0);
    for (int lane = 0; lane < 16; lane++) {
        const int o = block * 16 + lane;
        const bool is_channel = o < channels;
        PACK_VECTORS
#if WEIGHTS
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
                        ? w[w_offset + ((long)o * in_channels + c) * KH * KW + tap] * scale
                        : 0.0f;
            }
        }
#elif WEIGHTS == 2
        for (int tap = 0; tap < KH * KW; tap++) {
            pack[((long)VECTORS * blocks + block * KH * KW + tap) * 16 + lane] =
                is_channel ? w[w_offset + (long)o * KH * KW + tap] * scale : 0.0f;
        }
#endif
    }
}
