// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolution by windows of 3x3 that move by one, in the form of Winograd for tiles of 2x2 results: 16
// products for 4 results instead of 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", CVPR 2016). Tiles are taken in groups of TN. A work-item has `rows` groups and its share
// of the blocks: it transforms the image's 4x4 windows into scratch memory as [input block][16][TN]
// [16], multiplies place by place, and transforms back. Weights are [block][16][channel][16], already
// transformed.
//
// Sums of 64 terms are made apart and then added up: what is transformed back is a difference of
// sums, so they must be better than those of a direct convolution.
//
// Defines: TN, ON (blocks that are multiplied at once), VECTORS of the pack.

#define PART 4 // input blocks

static inline void transform_group(__global float *to, __global const float *image, int in_row,
                                   int in_plane, int in_blocks, int first, int tiles, int tiles_x)
{
    for (int c = 0; c < in_blocks; c++, to += 16 * TN * 16) {
        for (int t = 0; t < TN; t++) {
            const int tile = min(first + t, tiles - 1);
            __global const float *p = image + (long)c * in_plane +
                                      (long)(tile / tiles_x) * 2 * in_row + tile % tiles_x * 32;
            float16 e[4][4];
#pragma unroll
            for (int x = 0; x < 4; x++) {
                const float16 d0 = LOAD(p, x), d1 = LOAD(p + in_row, x);
                const float16 d2 = LOAD(p + 2 * in_row, x), d3 = LOAD(p + 3 * in_row, x);
                e[0][x] = d0 - d2;
                e[1][x] = d1 + d2;
                e[2][x] = d2 - d1;
                e[3][x] = d1 - d3;
            }
#pragma unroll
            for (int y = 0; y < 4; y++) {
                __global float16 *line = (__global float16 *)to + y * 4 * TN + t;
                line[0] = e[y][0] - e[y][2];
                line[TN] = e[y][1] + e[y][2];
                line[2 * TN] = e[y][2] - e[y][1];
                line[3 * TN] = e[y][1] - e[y][3];
            }
        }
    }
}

// One of the 16 places of a group, of ON blocks; `far` from the weights of one to those of the next.
static inline void multiply_place(__global float16 *products, __global const float *v,
                                  __global const float *w, int in_blocks, long far)
{
    for (int part = 0; part < in_blocks; part += PART) {
        float16 sums[TN][ON];
#pragma unroll
        for (int i = 0; i < TN * ON; i++) {
            sums[i / ON][i % ON] = (float16)(0);
        }
        for (int c = part; c < min(part + PART, in_blocks); c++) {
            __global const float *p = v + (long)c * 16 * TN * 16;
#pragma unroll 2
            for (int i = 0; i < 16; i++) {
                float16 weight[ON];
#pragma unroll
                for (int o = 0; o < ON; o++) {
                    weight[o] = LOAD(w + o * far, c * 16 + i);
                }
#pragma unroll
                for (int t = 0; t < TN; t++) {
                    const float16 x = p[t * 16 + i];
#pragma unroll
                    for (int o = 0; o < ON; o++) {
                        sums[t][o] = fma(x, weight[o], sums[t][o]);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TN * ON; i++) {
            products[i] = part == 0 ? sums[i / ON][i % ON] : products[i] + sums[i / ON][i % ON];
        }
    }
}

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item / splits % chunks;
    const long n = item / splits / chunks;
    const int share = blocks / splits;
    const int first = item % splits * share;
    const int groups = (tiles + TN - 1) / TN;
    const long far = (long)in_blocks * 16 * 16 * 16;
    __global const float *weights = pack + (long)VECTORS * blocks * 16;
    __global float *v = scratch + (long)item * scratch_each;
    __global float16 *products = (__global float16 *)(v + (long)in_blocks * 16 * TN * 16);
    for (int g = chunk * rows; g < min(chunk * rows + rows, groups); g++) {
        transform_group(v, in + n * in_batch + in_base, in_row, in_plane, in_blocks, g * TN, tiles,
                        tiles_x);
        for (int block = first; block < first + share; block += ON) {
            for (int place = 0; place < 16; place++) {
                multiply_place(products + place * TN * ON, v + place * TN * 16,
                               weights + block * far + (long)place * in_blocks * 16 * 16, in_blocks,
                               far);
            }
            for (int i = 0; i < ON * min(TN, tiles - g * TN); i++) {
                const int o = block + i % ON, tile = g * TN + i / ON;
                const float16 bias = LOAD(pack, o);
                float16 e[2][4];
#pragma unroll
                for (int x = 0; x < 4; x++) {
                    const float16 p1 = products[(4 + x) * TN * ON + i];
                    const float16 p2 = products[(8 + x) * TN * ON + i];
                    e[0][x] = products[x * TN * ON + i] + p1 + p2;
                    e[1][x] = p1 - p2 - products[(12 + x) * TN * ON + i];
                }
                const int y = tile / tiles_x * 2, x = tile % tiles_x * 2;
                __global OUT *to = out + n * out_batch + out_base + (long)o * out_plane +
                                   (long)y * out_row + x * 16;
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    if (y + k < height) {
                        STORE(to + k * out_row, 0,
                              FINISH(e[k][0] + e[k][1] + e[k][2] + bias, n, o, y + k, x));
                        if (x + 1 < width) {
                            STORE(to + k * out_row, 1,
                                  FINISH(e[k][1] - e[k][2] - e[k][3] + bias, n, o, y + k, x + 1));
                        }
                    }
                }
            }
        }
    }
    for (int o = first; chunk == 0 && o < first + share; o++) {
        clear_border(out + n * out_batch + out_base + (long)o * out_plane, BORDER, 16, out_row, 0,
                     height, height, width, out_top, out_left, out_bottom, out_right);
    }
}
