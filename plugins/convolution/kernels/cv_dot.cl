// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct convolution of an image of 8 bits in blocks of IB channels, in integers: as cv_conv.cl, but
// four channels of a place at once (kf_dot4), times the weights of 16 results. Weights are signed
// bytes, [block][input block][KH][KW][IB / 4][16][4], behind the vectors of the pack: the bias, the
// unit of each channel's weights, their sum, and with ZEROS their zero point. What the image's zero
// point IN_ZERO adds to a sum is taken off at its end; beyond the image it stands itself, where it
// adds nothing.
//
// Defines: IB, ON, TH, TW, KH, KW, SY, SX, DY, DX, VECTORS, ZEROS, IN_ZERO, IN_SCALE.

// A zero point of weights takes the sum of the window's elements, of channels that are there.
static inline uint16 ones_of(int left)
{
    return (uint16)(left >= 4 ? 0x01010101u : left > 0 ? 0x01010101u >> (8 * (4 - left)) : 0u);
}

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int groups = blocks / ON;
    const int chunk = item % chunks;
    const int first = item / chunks % groups * ON;
    const long n = item / chunks / groups;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const long far = (long)in_blocks * KH * KW * (IB / 4); // vectors
    __global const int16 *weights = (__global const int16 *)pack + (long)VECTORS * blocks + first * far;
    __global const uchar *image = in + n * in_batch + in_base;
    for (int y = begin; y < end; y += TH) {
        for (int left = 0; left < width; left += TW) {
            const int x = min(left, width - TW);
            int16 sums[TH][TW][ON];
#if ZEROS
            int16 all[TH][TW];
#endif
#pragma unroll
            for (int r = 0; r < TH; r++) {
#pragma unroll
                for (int t = 0; t < TW; t++) {
#pragma unroll
                    for (int o = 0; o < ON; o++) {
                        sums[r][t][o] = (int16)(0);
                    }
#if ZEROS
                    all[r][t] = (int16)(0);
#endif
                }
            }
            __global const int16 *w = weights;
            __global const uchar *plane = image + (long)y * SY * in_row + x * SX * IB;
            for (int c = 0; c < in_blocks; c++, plane += in_plane) {
                for (int ky = 0; ky < KH; ky++) {
#pragma unroll 1
                    for (int kx = 0; kx < KW; kx++, w += IB / 4) {
                        __global const uchar *p = plane + ky * DY * in_row + kx * DX * IB;
#pragma unroll 2
                        for (int i = 0; i < IB / 4; i++) {
                            int16 weight[ON];
#pragma unroll
                            for (int o = 0; o < ON; o++) {
                                weight[o] = w[o * far + i];
                            }
#if ZEROS
                            const int16 ones = as_int16(ones_of(in_channels - c * IB - i * 4));
#endif
#pragma unroll
                            for (int r = 0; r < TH; r++) {
#pragma unroll
                                for (int t = 0; t < TW; t++) {
                                    const uint16 v = (uint16)(
                                        *(__global const uint *)(p + r * SY * in_row + t * SX * IB +
                                                                 i * 4));
#pragma unroll
                                    for (int o = 0; o < ON; o++) {
                                        sums[r][t][o] = kf_dot4(sums[r][t][o], v, weight[o]);
                                    }
#if ZEROS
                                    all[r][t] = kf_dot4(all[r][t], v, ones);
#endif
                                }
                            }
                        }
                    }
                }
            }
#pragma unroll
            for (int o = 0; o < ON; o++) {
                const int block = first + o;
                const float16 bias = LOAD(pack, block);
                const float16 unit = LOAD(pack, blocks + block) * IN_SCALE;
                int16 shift = as_int16(LOAD(pack, 2 * blocks + block)) * -(IN_ZERO);
#if ZEROS
                const int16 zero = as_int16(LOAD(pack, 3 * blocks + block));
                shift += zero * ((IN_ZERO) * in_channels * KH * KW);
#endif
                __global OUT *to = out + n * out_batch + out_base + (long)block * out_plane +
                                   (long)y * out_row + x * 16;
#pragma unroll
                for (int r = 0; r < TH; r++) {
#pragma unroll
                    for (int t = 0; t < TW; t++) {
                        int16 sum = sums[r][t][o] + shift;
#if ZEROS
                        sum -= zero * all[r][t];
#endif
                        const float16 v = fma(convert_float16(sum), unit, bias);
                        STORE(to + r * out_row, t, FINISH(v, n, block, y + r, x + t));
                    }
                }
            }
        }
    }
    for (int o = 0; o < ON; o++) {
        clear_border(out + n * out_batch + out_base + (long)(first + o) * out_plane,
                     BORDER, 16, out_row, begin, end, height, width, out_top, out_left,
                     out_bottom, out_right);
    }
}
