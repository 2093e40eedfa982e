// SPDX-License-Identifier: MIT OR Apache-2.0
// Few rows of f32 times the transposed of a weight of 4 or 8 bits, whose columns lie dense along
// the sum, on GPUs. The work-items of a team read 16 bytes each of a stretch of 2048 values, of all
// its columns before the first is used; the terms of a row that belong to its 16 bytes each has in
// registers, for all of these columns. A value stays at its bits of a half word: put behind the
// exponent of 2^23, it becomes itself times a power of 2 by one subtraction, and the terms of the
// rows have been divided by that power. The sums of a team meet in local memory, always in the same
// order. Products of the same rows are one launch, of which each has groups of its own.
//
// Defines: KILN_A element type of the scales, KILN_BITS, KILN_ROWS of a work-group, KILN_PRODUCTS
// (quant_places.cl).

#include "product_args.h"
#include "quant_places.cl"

#define PER_HALF (16 / KILN_BITS)
#define VALUES (128 / KILN_BITS) // of a vector of 16 bytes, which has one scale
#define LINE (VALUES + 4) // their terms, and a gap against bank conflicts
#define MASK (0xFFFFFFFFu >> (32 - KILN_BITS))
#define SIGNS (KILN_BITS == 4 ? 0x88888888u : 0x80808080u)
#define SIGN (1 << (KILN_BITS - 1))
#define GROUP 128
#define TEAM (16 * KILN_BITS)
#define COLUMNS KILN_BITS // of a team
#define ALL (COLUMNS * GROUP / TEAM) // of a work-group
#define SHARERS (GROUP / ALL) // work-items that add up a column
#if KILN_BITS == 4 // of four terms, by which places their values have
#define POWERS (float4)(1.0f, 0x1p-4f, 0x1p-8f, 0x1p-12f)
#else
#define POWERS (float4)(1.0f, 0x1p-8f, 1.0f, 0x1p-8f)
#endif

// Value j of a half word, times 2^(j * KILN_BITS).
static inline float value_at(uint word, int j)
{
    return as_float((word & MASK << (j * KILN_BITS)) | 0x4B000000u) -
           (8388608.0f + (float)(SIGN << (j * KILN_BITS)));
}

// The values of a vector times the terms of a row, which are in registers.
static inline float dot_of(uint4 words, const float *terms)
{
    const uint each[4] = {words.x, words.y, words.z, words.w};
    float even = 0.0f, odd = 0.0f;
    K_UNROLLED
    for (int i = 0; i < VALUES; i += PER_HALF) {
        const uint half_word = each[i * KILN_BITS / 32] >> (i * KILN_BITS % 32);
        K_UNROLLED
        for (int j = 0; j < PER_HALF; j += 2) {
            even = fma(terms[i + j], value_at(half_word, j), even);
            odd = fma(terms[i + j + 1], value_at(half_word, j + 1), odd);
        }
    }
    return even + odd;
}

// A stretch of a row, `there` terms of it, to local memory.
static inline void keep_terms(__local float *terms, __global const float *from, long there,
                              int item)
{
    const bool aligned = ((ulong)from & 15) == 0; // one access then, otherwise four
    K_UNROLLED
    for (int i = item; i < TEAM * VALUES / 4; i += GROUP) { // a vector has whole fours
        float4 four = (float4)(0.0f);
        if (4 * i < there) {
            four = (aligned ? ((__global const float4 *)from)[i] : vload4(i, from)) * POWERS;
        }
        *(__local float4 *)(terms + i / (VALUES / 4) * LINE + i % (VALUES / 4) * 4) = four;
    }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
kiln_quant_team(kiln_quant_team_shape s, __global const float *a PLACES(PLACE))
{
    __local float terms[TEAM * LINE] __attribute__((aligned(16)));
    __local float sums[COLUMNS * (GROUP + SHARERS)]; // a gap, too
    __local float shares[GROUP];
    const int item = (int)get_local_id(0), lane = item % TEAM, team = item / TEAM;
    kiln_quant_team_part p = s.parts[0];
    __global float *out = out0;
    __global const uint4 *weight = weight0;
    long group = (long)get_group_id(0), own_group = 0;
    PLACES(CHOOSE)
    __global const K_S(KILN_A) *scales = (__global const K_S(KILN_A) *)weight + p.scales_start;
    const long vectors = s.k / VALUES;
#if KILN_ROWS == 1 // there is one; a division takes as long as much of the product
    const long first_column = own_group * ALL, row = 0;
#else
    const long groups = (p.n + ALL - 1) / ALL;
    const long first_column = own_group % groups * ALL, row = own_group / groups * KILN_ROWS;
#endif
    const long column = first_column + team * COLUMNS;
    float sum[KILN_ROWS][COLUMNS];
    K_UNROLLED
    for (int i = 0; i < KILN_ROWS * COLUMNS; i++) {
        sum[i / COLUMNS][i % COLUMNS] = 0.0f;
    }
    for (long begin = 0; begin < vectors; begin += TEAM) {
        const long vector = begin + lane, at = min(vector, vectors - 1);
        uint4 words[COLUMNS];
        float by[COLUMNS];
        K_UNROLLED
        for (int c = 0; c < COLUMNS; c++) { // beyond the last, it is repeated and scaled by 0
            const long own = min(column + c, p.n - 1);
            words[c] = weight[p.weight_start / 4 + own * vectors + at];
            by[c] = K_LD(KILN_A, scales + (own >> p.n_shift) * s.k_blocks +
                                     (at * VALUES >> s.k_shift));
        }
        K_UNROLLED
        for (int r = 0; r < KILN_ROWS; r++) {
            float own[VALUES];
            barrier(CLK_LOCAL_MEM_FENCE); // the terms before have been read
            keep_terms(terms, a + s.a_start + min(row + r, s.m - 1) * s.k + begin * VALUES,
                       s.k - begin * VALUES, item);
            barrier(CLK_LOCAL_MEM_FENCE);
            K_UNROLLED
            for (int i = 0; i < VALUES / 4; i++) {
                vstore4(*(__local const float4 *)(terms + lane * LINE + 4 * i), i, own);
            }
            K_UNROLLED
            for (int c = 0; c < COLUMNS; c++) {
                sum[r][c] = fma(dot_of(words[c] ^ (uint4)(SIGNS), own),
                                vector < vectors ? by[c] : 0.0f, sum[r][c]);
            }
        }
    }
    K_UNROLLED
    for (int r = 0; r < KILN_ROWS; r++) {
        const int of = item / SHARERS, share = item % SHARERS;
        float total = 0.0f;
        K_UNROLLED
        for (int c = 0; c < COLUMNS; c++) {
            sums[c * (GROUP + SHARERS) + item] = sum[r][c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        K_UNROLLED
        for (int i = 0; i < TEAM / SHARERS; i++) {
            total += sums[of % COLUMNS * (GROUP + SHARERS) + of / COLUMNS * TEAM + share +
                          i * SHARERS];
        }
        shares[item] = total;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < ALL && row + r < s.m && first_column + item < p.n) {
            total = 0.0f;
            K_UNROLLED
            for (int i = 0; i < SHARERS; i++) { // each begins at another bank
                total += shares[item * SHARERS + (i + item) % SHARERS];
            }
            out[p.out_start + (row + r) * p.n + first_column + item] =
                total * (p.has_global != 0 ? ((__global const float *)weight)[p.global_start] : 1.0f);
        }
    }
}
