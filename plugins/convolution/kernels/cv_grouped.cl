// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolution of groups that do not fill blocks. A work-item computes `rows` rows of one block of 16
// channels, TW places at a time. Weights are [block][KH][KW][GI][16]: each channel's own, for the
// inputs of its group in their order.
//
// Defines: GI, GO (channels of a group that are read and that result), TW, KH, KW, SY, SX, DY, DX,
// VECTORS of the pack. SPREAD: as many channels are read as result, and a group lies within a
// block; spread(v, i) is for each channel the i-th of its group in v. Otherwise all channels of a
// group are computed for the whole block, and those of other groups are dropped.

#define PART (256 / (KH * KW) > 1 ? 256 / (KH * KW) : 1) // channels whose sums are added up apart

#if SPREAD

static inline void add_groups(float16 total[TW], __global const float *plane, int in_row,
                              __global const float *weights)
{
    for (int ky = 0; ky < KH; ky++) {
#pragma unroll 1
        for (int kx = 0; kx < KW; kx++, weights += GI * 16) {
            __global const float *p = plane + ky * DY * in_row + kx * DX * 16;
#pragma unroll
            for (int t = 0; t < TW; t++) {
                const float16 v = LOAD(p, t * SX);
#pragma unroll
                for (int i = 0; i < GI; i++) {
                    total[t] = fma(spread(v, i), LOAD(weights, i), total[t]);
                }
            }
        }
    }
}

#else

// `image` is where the window of the first place begins in the first block.
static inline void add_group(float16 total[TW], __global const float *image, int in_row,
                             int in_plane, __global const float *weights, int group, int16 mine)
{
    for (int part = 0; part < GI; part += PART) {
        float16 sums[TW];
#pragma unroll
        for (int t = 0; t < TW; t++) {
            sums[t] = (float16)(0);
        }
        for (int i = part; i < min(part + PART, GI); i++) {
            const int c = group * GI + i;
            __global const float *plane = image + (long)(c / 16) * in_plane + c % 16;
            for (int ky = 0; ky < KH; ky++) {
#pragma unroll 1
                for (int kx = 0; kx < KW; kx++) {
                    __global const float *p = plane + ky * DY * in_row + kx * DX * 16;
                    const float16 w = LOAD(weights, (ky * KW + kx) * GI + i);
#pragma unroll
                    for (int t = 0; t < TW; t++) {
                        sums[t] = fma((float16)(p[t * SX * 16]), w, sums[t]);
                    }
                }
            }
        }
#pragma unroll
        for (int t = 0; t < TW; t++) {
            total[t] = select(total[t], total[t] + sums[t], mine);
        }
    }
}

#endif

__kernel void KERNEL(PARAMS)
{
    ROWS_OF_BLOCK
    const float16 bias = LOAD(pack, block);
    __global const float *weights = pack + ((long)VECTORS * blocks + block * KH * KW * GI) * 16;
    for (int y = begin; y < end; y++) {
        for (int left = 0; left < width; left += TW) {
            const int x = min(left, width - TW);
            const long at = (long)y * SY * in_row + x * SX * 16;
            float16 total[TW];
#pragma unroll
            for (int t = 0; t < TW; t++) {
                total[t] = bias;
            }
#if SPREAD
            add_groups(total, plane + at, in_row, weights);
#else
            const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            const int last = (min(block * 16 + 16, channels) - 1) / GO;
            for (int group = block * 16 / GO; group <= last; group++) {
                const int first = group * GO - block * 16;
                add_group(total, in + n * in_batch + in_base + at, in_row, in_plane, weights, group,
                          (lanes >= first) & (lanes < first + GO));
            }
#endif
#pragma unroll
            for (int t = 0; t < TW; t++) {
                STORE(result + (long)y * out_row + x * 16, t, FINISH(total[t], n, block, y, x + t));
            }
        }
    }
    clear_border(result, BORDER, 16, out_row, begin, end, height, width, out_top, out_left,
                 out_bottom, out_right);
}
