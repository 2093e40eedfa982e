// SPDX-License-Identifier: MIT OR Apache-2.0
// A row of f32 times the transposed of a weight of 4 or 8 bits on tensor cores for bytes. The row
// becomes four digits of base 256 with a sign: 32 neighbours share the exponent of their largest,
// and the rest of each is a whole number below 2^30. Bytes of a weight lie as the tensor cores take
// them; nibbles become 16 times themselves in three instructions for eight. The eight columns of a
// product are the four digits of two blocks of 32, and a work-item's sums of two digits make one
// number, which is scaled and added to its sum of f32. Which neighbour has which place is free, as
// long as weights and digits agree, so each work-item reads 16 values that follow one another.
// A block with what is not finite has a factor that is NaN, and whatever group then has a sum that
// is not finite adds up again in f32.
//
// Defines: KILN_A element type of the scales, KILN_BITS, KILN_SHIFT log2 of a block of the scales
// along the row, at least 5, KILN_TILES of 16 columns of a work-group, at most 8, KILN_PRODUCTS
// (quant_places.cl), KILN_PLAIN (quant_mma.cl).

#include "product_args.h"
#include "quant_places.cl"

#define WARPS 8 // of 32 work-items each, which multiply together
#define DEPTH 4 // chunks that are asked for at once
#define GROUP (32 * WARPS)
#define PARTS (WARPS / KILN_TILES) // warps that share the columns of a tile
#define ALL (16 * KILN_TILES) // columns of a work-group
#define AHEAD (KILN_TILES < 8) // whether the next batch is asked for before this one is multiplied
#define CHUNK 64 // values of a column that a warp multiplies: two blocks
#define BATCH (CHUNK * DEPTH)
#define STRETCH 4096 // values whose digits are in local memory
#define EIGHTS (STRETCH / 8)
#define PLANE (STRETCH / 16 + 4) // vectors of one digit, and a gap against bank conflicts
#define LINE (4 * PARTS + 1) // sums of a column, and a gap, too

#include "quant_mma.cl"

#if KILN_BITS == 4
typedef uint2 quant_words; // 16 values
#define WORD(of, i) ((i) < 8 ? (of).x : (of).y)
#define FIRST(x) ((x).even) // of eight neighbours, those of one register
#define OTHERS(x) ((x).odd)
#define TIMES 0x1p-4f
static inline uint4 bytes_of(uint2 w)
{
    return (uint4)(w.x << 4, w.x, w.y << 4, w.y) & (uint4)(0xF0F0F0F0u);
}
#else
typedef uint4 quant_words;
#define WORD(of, i) ((i) < 8 ? ((i) < 4 ? (of).x : (of).y) : (i) < 12 ? (of).z : (of).w)
#define FIRST(x) ((x).lo)
#define OTHERS(x) ((x).hi)
#define TIMES 1.0f
static inline uint4 bytes_of(uint4 w)
{
    return w;
}
#endif

// ---- the row ----

static inline float8 eight_of(__global const float *from, int i, int there)
{
    if (8 * i >= there) {
        return (float8)(0.0f);
    }
    if (((ulong)from & 15) == 0) { // two accesses then, otherwise eight
        __global const float4 *fours = (__global const float4 *)from + 2 * i;
        return (float8)(fours[0], fours[1]);
    }
    return vload8(i, from);
}

// The bits of the largest size.
static inline uint largest_of(uint8 x)
{
    const uint4 four = max(x.lo, x.hi);
    const uint2 two = max(four.lo, four.hi);
    return max(two.x, two.y);
}

// Byte `digit` of four words.
static inline uint plane_of(int4 x, int digit)
{
    const uint4 y = as_uint4(x) >> (uint4)(8 * digit) & (uint4)(255u);
    return y.x | y.y << 8 | y.z << 16 | y.w << 24;
}

// Eight numbers, of a block whose largest has the exponent in `bits`, as digits.
static inline void keep_eight(__local uint2 *planes, float8 x, uint bits)
{
    const float8 wide = x * as_float((283u << 23) - bits); // 2^(29 - exponent)
    // Adding half of the base to a digit and taking it off again carries into the next one.
    const int8 whole = (convert_int8_rte(wide) + (int8)(0x808080)) ^ (int8)(0x808080);
    K_UNROLLED
    for (int d = 0; d < 4; d++) {
        planes[d * PLANE * 2] = (uint2)(plane_of(FIRST(whole), d), plane_of(OTHERS(whole), d));
    }
}

// The digits of a stretch, `there` numbers of it, and what a block's are to be multiplied with:
// 2^16 times too large, so that a small one's product with a small scale is a normal number.
static inline void keep_digits(__local uint4 *planes, __local float *factors, __local uint *largest,
                               __global const float *from, int there, int item)
{
    float8 eights[EIGHTS / GROUP];
    K_UNROLLED
    for (int j = 0; j < EIGHTS / GROUP; j++) {
        eights[j] = eight_of(from, item + j * GROUP, there);
    }
    K_UNROLLED
    for (int j = 0; j < EIGHTS / GROUP; j++) {
        largest[item + j * GROUP] = largest_of(as_uint8(eights[j]) & (uint8)(0x7FFFFFFFu));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    K_UNROLLED
    for (int j = 0; j < EIGHTS / GROUP; j++) {
        const int i = item + j * GROUP;
        const uint4 four = *(__local const uint4 *)(largest + i / 4 * 4);
        const uint2 two = max(four.lo, four.hi);
        // From 2^-96, so that both powers are normal numbers.
        const uint bits = max(max(two.x, two.y), 31u << 23) & 0x7F800000u;
        keep_eight((__local uint2 *)planes + i, eights[j], bits);
        if (i % 4 == 0) {
            factors[i / 4] = as_float(bits == 0x7F800000u ? 0x7FC00000u : bits - (13u << 23));
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// ---- the weight ----

// What a work-item reads: two columns.
typedef struct quant_columns {
    __global const quant_words *words[2];
    __global const K_S(KILN_A) * scales[2];
} quant_columns;

typedef struct quant_batch {
    quant_words words[DEPTH][2];
    float scales[DEPTH][2];
} quant_batch;

// Beyond the last value, it is read again; the digits there are 0.
static inline void load_batch(quant_batch *to, const quant_columns *of, int batch, int q, int k)
{
    const int vector = batch * DEPTH * 4 + q, block = batch * DEPTH * 2 + q / 2;
    if ((batch + 1) * BATCH <= k) {
        K_UNROLLED
        for (int i = 0; i < 2 * DEPTH; i++) {
            const int c = i / 2, r = i % 2;
            to->words[c][r] = of->words[r][vector + 4 * c];
            to->scales[c][r] = K_LD(KILN_A, of->scales[r] + ((block + 2 * c) >> (KILN_SHIFT - 5)));
        }
    } else {
        K_UNROLLED
        for (int i = 0; i < 2 * DEPTH; i++) {
            const int c = i / 2, r = i % 2, last = (k - 1) / 32;
            to->words[c][r] = of->words[r][min(vector + 4 * c, k / 16 - 1)];
            to->scales[c][r] =
                K_LD(KILN_A, of->scales[r] + (min(block + 2 * c, last) >> (KILN_SHIFT - 5)));
        }
    }
}

static inline float value_of(quant_words words, int i)
{
    const int above = 32 - KILN_BITS - i * KILN_BITS % 32;
    return (float)((int)(WORD(words, i) << above) >> (32 - KILN_BITS));
}

// A work-item's share of a column in f32.
static inline float plain_sum(const quant_columns *of, int r, __global const float *row, int first,
                              int k)
{
    float sum = 0.0f;
    for (int v = first; v < k / 16; v += 4 * PARTS) {
        const quant_words words = of->words[r][v];
        float dot = 0.0f;
        for (int i = 0; i < 16; i++) {
            dot = fma(row[v * 16 + i], value_of(words, i), dot);
        }
        sum = fma(dot, K_LD(KILN_A, of->scales[r] + (v / 2 >> (KILN_SHIFT - 5))), sum);
    }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
kiln_quant_tensor(kiln_quant_team_shape s, __global const float *a PLACES(PLACE))
{
    __local uint4 planes[4 * PLANE];
    __local float factors[STRETCH / 32];
    __local uint largest[EIGHTS] __attribute__((aligned(16)));
    __local float sums[ALL * LINE];
    __local int again;
    QUANT_MMA_LENT
    const int item = (int)get_local_id(0), g = item % 32 / 4, q = item % 4;
    const int tile = item / 32 % KILN_TILES, part = item / 32 / KILN_TILES;
    kiln_quant_team_part p = s.parts[0];
    __global float *out = out0;
    __global const uint4 *weight = weight0;
    long group = (long)get_group_id(0), own_group = 0;
    PLACES(CHOOSE)
    const int n = (int)p.n, k = (int)s.k, batches = (k + BATCH - 1) / BATCH;
    const int first_column = (int)own_group * ALL;
    __global const float *row = a + s.a_start;
    quant_columns of;
    quant_batch now;
    float sum[2] = {0.0f, 0.0f};
    K_UNROLLED
    for (int r = 0; r < 2; r++) { // beyond the last, it is multiplied again
        const int column = min(first_column + tile * 16 + r * 8 + g, n - 1);
        of.words[r] =
            (__global const quant_words *)(weight + p.weight_start / 4) + column * (k / 16);
        of.scales[r] = (__global const K_S(KILN_A) *)weight + p.scales_start +
                       (column >> min(p.n_shift, 31L)) * (int)s.k_blocks;
    }
    if (item == 0) {
        again = 0;
    }
    load_batch(&now, &of, part, q, k); // on its way while the digits are made
    for (int first = 0; first < batches; first += PARTS) {
        const int in_stretch = first % (STRETCH / BATCH) + part;
        if (in_stretch == part) {
            barrier(CLK_LOCAL_MEM_FENCE); // the digits before have been read
            keep_digits(planes, factors, largest, row + first * BATCH, k - first * BATCH, item);
        }
        if (!AHEAD && first > 0) {
            load_batch(&now, &of, first + part, q, k);
        }
        quant_batch next = now;
        if (AHEAD && first + PARTS < batches) {
            load_batch(&next, &of, first + PARTS + part, q, k);
        }
#ifndef KILN_PLAIN
        K_UNROLLED
#endif
        for (int c = 0; c < DEPTH; c++) {
            const int chunk = in_stretch * DEPTH + c;
            const uint4 digits =
                q / 2 == g / 4 ? planes[g % 4 * PLANE + chunk * 4 + q] : (uint4)(0u);
            const uint4 x = bytes_of(now.words[c][0]), y = bytes_of(now.words[c][1]);
            const float factor = factors[chunk * 2 + q / 2];
            int4 d = (int4)(0);
            QUANT_MMA(d, x.x, y.x, x.y, y.y, digits.x, digits.y)
            QUANT_MMA(d, x.z, y.z, x.w, y.w, digits.z, digits.w)
            sum[0] = fma((float)(d.x + 256 * d.y), now.scales[c][0] * factor, sum[0]);
            sum[1] = fma((float)(d.z + 256 * d.w), now.scales[c][1] * factor, sum[1]);
        }
        now = next;
    }
    K_UNROLLED
    for (int r = 0; r < 2; r++) {
        sum[r] *= q % 2 == 0 ? TIMES * 0x1p-16f : TIMES;
    }
    if (!isfinite(sum[0]) || !isfinite(sum[1])) {
        again = 1; // whoever writes it writes the same
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    K_UNROLLED
    for (int r = 0; r < 2; r++) {
        sums[(tile * 16 + r * 8 + g) * LINE + part * 4 + q] =
            again != 0 ? plain_sum(&of, r, row, part * 4 + q, k) : sum[r];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < ALL && first_column + item < n) {
        float total = 0.0f;
        K_UNROLLED
        for (int i = 0; i < 4 * PARTS; i++) {
            total += sums[item * LINE + i];
        }
        out[p.out_start + first_column + item] =
            total * (p.has_global != 0 ? ((__global const float *)weight)[p.global_start] : 1.0f);
    }
}
