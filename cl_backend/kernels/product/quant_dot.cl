// SPDX-License-Identifier: MIT OR Apache-2.0
// Few rows of f32 times the transposed of a weight of 4 or 8 bits, whose columns lie dense along the
// sum. A step is 16 words of a column. Value j of all words is one vector of integers, got by a mask
// and not shifted down: it is too large by a power of 2, by which the terms of the rows have been
// divided. All values but a word's last have their sign bit flipped, so that they are not below 0;
// what is too much in a sum is taken off as it begins. Scales come to the sums of whole steps.
//
// Defines: KILN_A element type of the scales, KILN_BITS, KILN_ROWS of a work-item, KILN_BLOCKS of a
// step that have a scale of their own.

#include "product_args.h"

#define PER_WORD (32 / KILN_BITS)
#define MASK (0xFFFFFFFFu >> (32 - KILN_BITS))
#define SIGNS (KILN_BITS == 4 ? 0x08888888u : 0x00808080u)
#define SIGN (1 << (KILN_BITS - 1))
#define STEP (16 * PER_WORD)
#define COLUMNS (KILN_ROWS > 1 ? 2 : 4)

#ifdef POCL_DEVICE_ADDRESS_BITS // whose vload is put together from small ones
typedef uint16 near_words __attribute__((aligned(4)));
#define WORDS(p) (*(__global const near_words *)(p))
#define AHEAD(p) __builtin_prefetch((const __private void *)(size_t)(p))
#else
#define WORDS(p) vload16(0, p)
#define AHEAD(p) prefetch(p, 16)
#endif

// Of each row and step: PER_WORD vectors of terms, and what the sums begin with.
__kernel void kiln_quant_dot_terms(kiln_quant_dot_shape s, __global float *terms,
                                   __global const float *a)
{
    const long step = (long)get_global_id(0);
    __global const float *from = a + s.a_start + step * STEP;
    __global float *to = terms + step * (PER_WORD + 1) * 16;
    if (step >= s.m * (s.k / STEP)) {
        return;
    }
    for (int lane = 0; lane < 16; lane++) {
        float sum = 0.0f;
        float factor = 1.0f;
        for (int j = 0; j < PER_WORD; j++) {
            const float x = from[lane * PER_WORD + j];
            to[j * 16 + lane] = x * factor;
            factor *= 1.0f / (1 << KILN_BITS);
            sum += j < PER_WORD - 1 ? x : 0.0f;
        }
        to[PER_WORD * 16 + lane] = sum * -SIGN;
    }
}

static inline float16 scales_of(__global const K_S(KILN_A) *p)
{
#define SCALE(i) K_LD(KILN_A, p + (i))
#if KILN_BLOCKS == 1
    return (float16)(SCALE(0));
#elif KILN_BLOCKS == 2
    return (float16)((float8)(SCALE(0)), (float8)(SCALE(1)));
#elif KILN_BLOCKS == 4
    const float4 x = (float4)(SCALE(0), SCALE(1), SCALE(2), SCALE(3));
    return (float16)(x.xxxx, x.yyyy, x.zzzz, x.wwww);
#else
    const float8 x = (float8)(SCALE(0), SCALE(1), SCALE(2), SCALE(3), SCALE(4), SCALE(5), SCALE(6),
                              SCALE(7));
    return (float16)(x.s00112233, x.s44556677);
#endif
}

static inline float total_of(float16 x)
{
    const float8 a = x.lo + x.hi;
    const float4 b = a.lo + a.hi;
    const float2 c = b.lo + b.hi;
    return c.x + c.y;
}

__kernel void kiln_quant_dot(kiln_quant_dot_shape s, __global float *out,
                             __global const float16 *terms, __global const uint *weight,
                             __global const K_S(KILN_A) *scales, __global const float *whole)
{
    const long groups = (s.n + s.each - 1) / s.each, steps = s.k / STEP;
    const long first_column = (long)get_global_id(0) % groups * s.each;
    const long last_column = min(first_column + s.each, s.n);
    const long row = (long)get_global_id(0) / groups * KILN_ROWS;
    const float all = s.has_global != 0 ? whole[s.global_start] : 1.0f;
    if (row >= s.m) {
        return;
    }
    for (long column = first_column; column < last_column; column += COLUMNS) {
        __global const float16 *rows[KILN_ROWS];
        __global const uint *from[COLUMNS];
        __global const K_S(KILN_A) *scale[COLUMNS];
        float16 sum[KILN_ROWS][COLUMNS];
        K_UNROLLED
        for (int r = 0; r < KILN_ROWS; r++) { // rows and columns beyond the last repeat it
            rows[r] = terms + min(row + r, s.m - 1) * steps * (PER_WORD + 1);
        }
        K_UNROLLED
        for (int c = 0; c < COLUMNS; c++) {
            const long own = min(column + c, s.n - 1);
            from[c] = weight + s.weight_start + own * steps * 16;
            scale[c] = scales + s.scales_start + (own >> s.n_shift) * s.k_blocks;
            K_UNROLLED
            for (int r = 0; r < KILN_ROWS; r++) {
                sum[r][c] = (float16)(0.0f);
            }
        }
        for (long step = 0; step < steps; step++) {
            uint16 words[COLUMNS];
            float16 part[KILN_ROWS][COLUMNS];
            K_UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                words[c] = WORDS(from[c] + step * 16) ^ SIGNS;
                AHEAD(from[c] + (2 * steps * COLUMNS + step) * 16); // columns lie in other pages
                AHEAD(scale[c] + 2 * COLUMNS * s.k_blocks + (step * STEP >> s.k_shift));
                K_UNROLLED
                for (int r = 0; r < KILN_ROWS; r++) {
                    part[r][c] = rows[r][step * (PER_WORD + 1) + PER_WORD];
                }
            }
            K_UNROLLED
            for (int j = 0; j < PER_WORD; j++) {
                K_UNROLLED
                for (int c = 0; c < COLUMNS; c++) {
                    const float16 values =
                        convert_float16(as_int16(words[c] & MASK << (j * KILN_BITS)));
                    K_UNROLLED
                    for (int r = 0; r < KILN_ROWS; r++) {
                        part[r][c] = fma(rows[r][step * (PER_WORD + 1) + j], values, part[r][c]);
                    }
                }
            }
            K_UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                const float16 by = scales_of(scale[c] + (step * STEP >> s.k_shift));
                K_UNROLLED
                for (int r = 0; r < KILN_ROWS; r++) {
                    sum[r][c] = fma(part[r][c], by, sum[r][c]);
                }
            }
        }
        K_UNROLLED
        for (int r = 0; r < KILN_ROWS; r++) {
            K_UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                if (row + r < s.m && column + c < last_column) {
                    out[s.out_start + (row + r) * s.n + column + c] = total_of(sum[r][c]) * all;
                }
            }
        }
    }
}
