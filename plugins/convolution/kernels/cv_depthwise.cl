// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolution of each channel with a filter of its own. A work-item computes `rows` rows of one
// block of 16 channels, TW places at a time; what a row of the window needs is loaded once.
//
// Defines: TW, KH, KW, SY, SX, DY, DX, VECTORS of the pack; weights are [block][KH][KW][16]. SCALED:
// sums are of whole numbers, exact, and IN_SCALE times the second vector is their unit.

__kernel void KERNEL(PARAMS)
{
    ROWS_OF_BLOCK
    const float16 bias = LOAD(pack, block);
    __global const float *weights = pack + ((long)VECTORS * blocks + block * KH * KW) * 16;
    for (int y = begin; y < end; y++) {
        for (int left = 0; left < width; left += TW) {
            const int x = min(left, width - TW);
            float16 sums[TW];
#pragma unroll
            for (int t = 0; t < TW; t++) {
                sums[t] = SCALED ? (float16)(0) : bias;
            }
#pragma unroll
            for (int ky = 0; ky < KH; ky++) {
                __global const IN *p = plane + (long)(y * SY + ky * DY) * in_row + x * SX * 16;
                float16 line[(TW - 1) * SX + (KW - 1) * DX + 1];
#pragma unroll
                for (int i = 0; i < (TW - 1) * SX + (KW - 1) * DX + 1; i++) {
                    line[i] = LOAD_IN(p, i);
                }
#pragma unroll
                for (int kx = 0; kx < KW; kx++) {
                    const float16 w = LOAD(weights, ky * KW + kx);
#pragma unroll
                    for (int t = 0; t < TW; t++) {
                        sums[t] = fma(line[t * SX + kx * DX], w, sums[t]);
                    }
                }
            }
#pragma unroll
            for (int t = 0; t < TW; t++) {
#if SCALED
                sums[t] = fma(sums[t], LOAD(pack, blocks + block) * IN_SCALE, bias);
#endif
                STORE(result + (long)y * out_row + x * 16, t,
                      FINISH(sums[t], n, block, y, x + t));
            }
        }
    }
    clear_border(result, BORDER, 16, out_row, begin, end, height, width, out_top, out_left, out_bottom,
                 out_right);
}
