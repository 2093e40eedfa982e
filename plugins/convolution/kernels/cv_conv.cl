// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct convolution of an image in blocks of IB channels. A work-item computes `rows` rows of ON
// neighbouring blocks of 16 channels, in tiles of TH x TW places whose sums stay in registers: of
// each input channel one number per place, times the weights of 16 results. Weights lie as
// [block][input block][KH][KW][IB][16] behind the vectors of the pack, of which the first is the
// bias. (The layout: Georganas et al., "Anatomy of high-performance deep learning convolutions on
// SIMD architectures", SC 2018.)
//
// Sums of about 256 terms are made apart and then added up, so that rounding grows with their
// length and their number, not with all terms. ONE_PART: there are no more, and the compiler keeps
// one tile of sums instead of two.
//
// GATED: the weights of each input channel are multiplied by its number in the image `gate` of one
// place, which is as if the image that is read were.
//
// A group of channels is `group_blocks` blocks that result, of `in_blocks` blocks that are read.
//
// Defines: IB, ON, TH, TW, KH, KW, SY, SX (strides), DY, DX (dilations), VECTORS of the pack, PART
// (input blocks whose sums are made apart), ONE_PART, HELD (tiles whose sums are kept, so that each
// part of the weights is read once for all of them).

#if GATED
#define WEIGHT(p, i) (LOAD(p, i) * gates[i])
#else
#define WEIGHT(p, i) LOAD(p, i)
#endif

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int groups = blocks / ON;
    const int chunk = item % chunks;
    const int first = item / chunks % groups * ON;
    const long n = item / chunks / groups;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const long far = (long)in_blocks * KH * KW * IB * 16;
    __global const float *weights = pack + (long)VECTORS * blocks * 16 + first * far;
    __global const float *image =
        in + n * in_batch + in_base + (long)(first / group_blocks * in_blocks) * in_plane;
    const int across = (width + TW - 1) / TW;
    const int tiles = (end - begin) / TH * across;
    for (int tile = 0; tile < tiles; tile += HELD) {
        const int held = HELD == 1 ? 1 : min(HELD, tiles - tile);
        float16 total[HELD][TH][TW][ON];
        for (int h = 0; h < held; h++) {
#pragma unroll
            for (int i = 0; i < TH * TW * ON; i++) {
                total[h][i / (TW * ON)][i / ON % TW][i % ON] = LOAD(pack, first + i % ON);
            }
        }
        for (int part = 0; part < (ONE_PART ? 1 : in_blocks); part += PART) {
            const int part_end = ONE_PART ? in_blocks : min(part + PART, in_blocks);
            for (int h = 0; h < held; h++) {
                const int y = begin + (tile + h) / across * TH;
                const int x = min((tile + h) % across * TW, width - TW);
                __global const float *w = weights + (long)part * KH * KW * IB * 16;
                __global const float *plane =
                    image + (long)part * in_plane + (long)y * SY * in_row + x * SX * IB;
                float16 sums[TH][TW][ON];
#pragma unroll
                for (int i = 0; i < TH * TW * ON; i++) {
                    sums[i / (TW * ON)][i / ON % TW][i % ON] = (float16)(0);
                }
                for (int c = part; c < part_end; c++, plane += in_plane) {
#if GATED
                    __global const float *gates =
                        gate + n * gate_batch + gate_base + (long)c * gate_plane;
#endif
                    for (int ky = 0; ky < KH; ky++) {
#pragma unroll 1
                        for (int kx = 0; kx < KW; kx++, w += IB * 16) {
                            __global const float *p = plane + ky * DY * in_row + kx * DX * IB;
#pragma unroll 2 // more is no faster, and takes as much longer to compile
                            for (int i = 0; i < IB; i++) {
                                float16 weight[ON];
#pragma unroll
                                for (int o = 0; o < ON; o++) {
                                    weight[o] = WEIGHT(w + o * far, i);
                                }
#pragma unroll
                                for (int r = 0; r < TH; r++) {
#pragma unroll
                                    for (int t = 0; t < TW; t++) {
                                        const float16 v = p[(long)r * SY * in_row + t * SX * IB + i];
#pragma unroll
                                        for (int o = 0; o < ON; o++) {
                                            sums[r][t][o] = fma(v, weight[o], sums[r][t][o]);
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
#pragma unroll
                for (int i = 0; i < TH * TW * ON; i++) {
                    total[h][i / (TW * ON)][i / ON % TW][i % ON] +=
                        sums[i / (TW * ON)][i / ON % TW][i % ON];
                }
            }
        }
        for (int h = 0; h < held; h++) {
            const int y = begin + (tile + h) / across * TH;
            const int x = min((tile + h) % across * TW, width - TW);
#pragma unroll
            for (int o = 0; o < ON; o++) {
                __global OUT *to = out + n * out_batch + out_base + (long)(first + o) * out_plane +
                                   (long)y * out_row + x * 16;
#pragma unroll
                for (int r = 0; r < TH; r++) {
#pragma unroll
                    for (int t = 0; t < TW; t++) {
                        STORE(to + r * out_row, t,
                              FINISH(total[h][r][t][o], n, first + o, y + r, x + t));
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
