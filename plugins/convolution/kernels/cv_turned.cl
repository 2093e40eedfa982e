// SPDX-License-Identifier: MIT OR Apache-2.0
// Transposed convolution of an image in blocks of 16 channels. A work-item computes `rows` rows of
// ON neighbouring blocks; of a row, those places at a time that are SX apart: the same elements of
// the window meet them, and what these read lies side by side. Weights lie as in cv_conv.cl, and
// sums of about 256 terms are made apart.
//
// Defines: IB, ON, TW (places at a time, at most width / SX), KH, KW, SY, SX, DY, DX, PAD_TOP,
// PAD_LEFT, VECTORS of the pack, PART and ONE_PART as there.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int groups = blocks / ON;
    const int chunk = item % chunks;
    const int first = item / chunks % groups * ON;
    const long n = item / chunks / groups;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    const int block_weights = KH * KW * IB * 16;
    const long far = (long)in_blocks * block_weights;
    __global const float *weights = pack + (long)VECTORS * blocks * 16 + first * far;
    __global const float *image = in + n * in_batch + in_base;
    for (int line = begin * SX; line < end * SX; line++) {
        const int y = line / SX, phase = line % SX;
        const int places = (width - phase + SX - 1) / SX;
        for (int next = 0; next < places; next += TW) {
            const int place = min(next, places - TW);
            float16 total[TW][ON];
#pragma unroll
            for (int o = 0; o < ON; o++) {
                const float16 bias = LOAD(pack, first + o);
#pragma unroll
                for (int t = 0; t < TW; t++) {
                    total[t][o] = bias;
                }
            }
            for (int part = 0; part < (ONE_PART ? 1 : in_blocks); part += PART) {
                const int part_end = ONE_PART ? in_blocks : min(part + PART, in_blocks);
                float16 sums[TW][ON];
#pragma unroll
                for (int i = 0; i < TW * ON; i++) {
                    sums[i / ON][i % ON] = (float16)(0);
                }
                for (int c = part; c < part_end; c++) {
                    for (int ky = 0; ky < KH; ky++) {
                        const int down = y + PAD_TOP - ky * DY;
                        if (down < 0 || down % SY != 0 || down / SY >= in_height) {
                            continue;
                        }
                        __global const float *row =
                            image + (long)c * in_plane + (long)(down / SY) * in_row;
                        for (int kx = 0; kx < KW; kx++) {
                            const int across = phase + PAD_LEFT - kx * DX;
                            if (across % SX != 0) {
                                continue;
                            }
                            __global const float *p = row + (across / SX + place) * IB;
                            __global const float *w =
                                weights + (long)c * block_weights + (ky * KW + kx) * IB * 16;
#pragma unroll 2
                            for (int i = 0; i < IB; i++) {
                                float16 weight[ON];
#pragma unroll
                                for (int o = 0; o < ON; o++) {
                                    weight[o] = LOAD(w + o * far, i);
                                }
#pragma unroll
                                for (int t = 0; t < TW; t++) {
                                    const float16 v = p[t * IB + i];
#pragma unroll
                                    for (int o = 0; o < ON; o++) {
                                        sums[t][o] = fma(v, weight[o], sums[t][o]);
                                    }
                                }
                            }
                        }
                    }
                }
#pragma unroll
                for (int i = 0; i < TW * ON; i++) {
                    total[i / ON][i % ON] += sums[i / ON][i % ON];
                }
            }
#pragma unroll
            for (int o = 0; o < ON; o++) {
                __global OUT *to = out + n * out_batch + out_base + (long)(first + o) * out_plane +
                                   (long)y * out_row;
#pragma unroll
                for (int t = 0; t < TW; t++) {
                    const int x = phase + (place + t) * SX;
                    STORE(to, x, FINISH(total[t][o], n, first + o, y, x));
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
