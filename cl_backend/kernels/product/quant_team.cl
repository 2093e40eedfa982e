// SPDX-License-Identifier: MIT OR Apache-2.0
// Few rows of f32 times the transposed of a weight of 4 or 8 bits, whose columns lie dense along the
// sum, on GPUs. A team of 32 work-items has two columns, of which each reads 16 bytes at a time; the
// rows are in local memory. A value stays at its bits of a half word: put behind the exponent of
// 2^23, it becomes itself times a power of 2 by one subtraction, and the terms of the rows have been
// divided by that power. The team's sums meet in local memory, always in the same order.
//
// Defines: KILN_A element type of the scales, KILN_BITS, KILN_ROWS of a work-group.

#include "product_args.h"

#define PER_HALF (16 / KILN_BITS)
#define VALUES (128 / KILN_BITS) // of a vector of 16 bytes, which has one scale
#define LINE (VALUES + 4) // their terms, and a gap against bank conflicts
#define MASK (0xFFFFFFFFu >> (32 - KILN_BITS))
#define SIGNS (KILN_BITS == 4 ? 0x88888888u : 0x80808080u)
#define SIGN (1 << (KILN_BITS - 1))
#define TEAM 32
#define GROUP 128
#define COLUMNS 2 // of a team
#define AHEAD (KILN_ROWS > 1 ? 1 : 4) // vectors of each on their way
#define CHUNK (AHEAD * TEAM) // vectors whose terms are in local memory

// Value j of a half word, times 2^(j * KILN_BITS).
static inline float value_at(uint word, int j)
{
    return as_float((word & MASK << (j * KILN_BITS)) | 0x4B000000u) -
           (8388608.0f + (float)(SIGN << (j * KILN_BITS)));
}

// The values of a vector times the terms of a row.
static inline float dot_of(uint4 words, __local const float *terms)
{
    const uint each[4] = {words.x, words.y, words.z, words.w};
    float sum = 0.0f;
    K_UNROLLED
    for (int i = 0; i < VALUES; i += PER_HALF) {
        const uint half_word = each[i * KILN_BITS / 32] >> (i * KILN_BITS % 32);
        K_UNROLLED
        for (int j = 0; j < PER_HALF; j++) {
            sum = fma(terms[i + j], value_at(half_word, j), sum);
        }
    }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
kiln_quant_team(kiln_quant_dot_shape s, __global float *out, __global const float *a,
                __global const uint4 *weight, __global const K_S(KILN_A) *scales,
                __global const float *whole)
{
    __local float terms[KILN_ROWS * CHUNK * LINE] __attribute__((aligned(16)));
    __local float sums[KILN_ROWS * COLUMNS * GROUP];
    const int item = (int)get_local_id(0), lane = item % TEAM, team = item / TEAM;
    const long groups = (s.n + s.each - 1) / s.each, vectors = s.k / VALUES;
    const long first_column = (long)get_group_id(0) % groups * s.each;
    const long column = first_column + team * COLUMNS;
    const long row = (long)get_group_id(0) / groups * KILN_ROWS;
    float sum[KILN_ROWS][COLUMNS];
    K_UNROLLED
    for (int i = 0; i < KILN_ROWS * COLUMNS; i++) {
        sum[i / COLUMNS][i % COLUMNS] = 0.0f;
    }
    for (long begin = 0; begin < vectors; begin += CHUNK) {
        uint4 words[COLUMNS][AHEAD];
        float by[COLUMNS][AHEAD];
        K_UNROLLED
        for (int i = 0; i < COLUMNS * AHEAD; i++) { // beyond the last, it is repeated and scaled by 0
            const int c = i / AHEAD, u = i % AHEAD;
            const long own = min(column + c, s.n - 1), vector = begin + u * TEAM + lane;
            const long at = min(vector, vectors - 1);
            words[c][u] = weight[s.weight_start / 4 + own * vectors + at] ^ (uint4)(SIGNS);
            by[c][u] = K_LD(KILN_A, scales + s.scales_start + (own >> s.n_shift) * s.k_blocks +
                                        (at * VALUES >> s.k_shift));
            by[c][u] = vector < vectors ? by[c][u] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE); // those of the chunk before have been read
        for (int r = 0; r < KILN_ROWS; r++) {
            __global const float *from = a + s.a_start + min(row + r, s.m - 1) * s.k;
            for (int i = item; i < CHUNK * VALUES; i += GROUP) {
                const long k = begin * VALUES + i;
                const float factor = 1.0f / (float)(1 << i % PER_HALF * KILN_BITS);
                terms[(r * CHUNK + i / VALUES) * LINE + i % VALUES] =
                    k < s.k ? from[k] * factor : 0.0f;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        K_UNROLLED
        for (int i = 0; i < KILN_ROWS * AHEAD; i++) {
            const int r = i / AHEAD, u = i % AHEAD;
            __local const float *own = terms + (r * CHUNK + u * TEAM + lane) * LINE;
            K_UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                sum[r][c] = fma(dot_of(words[c][u], own), by[c][u], sum[r][c]);
            }
        }
    }
    K_UNROLLED
    for (int i = 0; i < KILN_ROWS * COLUMNS; i++) {
        sums[i * GROUP + item] = sum[i / COLUMNS][i % COLUMNS];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < KILN_ROWS * COLUMNS * (GROUP / TEAM)) {
        const int which = item / (GROUP / TEAM), of = item % (GROUP / TEAM);
        const long r = row + which / COLUMNS, c = first_column + of * COLUMNS + which % COLUMNS;
        float total = 0.0f;
        for (int i = 0; i < TEAM; i++) { // each begins at another bank
            total += sums[which * GROUP + of * TEAM + (i + item) % TEAM];
        }
        if (r < s.m && c < s.n) {
            out[s.out_start + r * s.n + c] = total * (s.has_global != 0 ? whole[s.global_start] : 1.0f);
        }
    }
}
