// SPDX-License-Identifier: MIT OR Apache-2.0
// Quantised tensors: packed words of KILN_BITS bits a value, and scales by blocks (ir.h). Defines:
// KILN_O element type outside, KILN_A element type of the scales, KILN_BITS, KILN_LOW, KILN_HIGH.

#include "product_args.h"

#define PER_WORD (32 / KILN_BITS)
#define MASK (0xFFFFFFFFu >> (32 - KILN_BITS))

// The block of element i, and how many elements from i on lie in it one after the other.
static inline long block_of(const kiln_quant_shape *s, long i, long *run)
{
    long index = 0;
    long step = 1;
    *run = s->count - i;
    for (int d = (int)s->rank - 1; d >= 0; d--) {
        const long rest = i / s->dims[d];
        const long at = i - rest * s->dims[d];
        const long block = at >> s->shift[d];
        if (d == (int)s->rank - 1) {
            const long end = s->shift[d] >= 62 ? s->dims[d] : (block + 1) << s->shift[d];
            *run = min(end, s->dims[d]) - at;
        }
        index += block * step;
        step *= s->blocks[d];
        i = rest;
    }
    return index;
}

static inline float scale_of(const kiln_quant_shape *s, __global const K_S(KILN_A) *scales,
                             __global const float *whole, long block)
{
    const float scale = K_LD(KILN_A, scales + block);
    return s->has_global != 0 ? scale * whole[0] : scale;
}

#if K_WIDTH(KILN_O) == 64
#define WIDE double
#else
#define WIDE float
#endif

static inline int nearest(WIDE x, float scale)
{
    const WIDE q = rint(x / (WIDE)scale);
    if (q != q || scale == 0.0f) {
        return 0;
    }
    return (int)clamp(q, (WIDE)KILN_LOW, (WIDE)KILN_HIGH);
}

// `pad` is a 16-bit word behind the scales that has to be 0, or below 0 for none.
__kernel void kiln_quantize(kiln_quant_shape s, __global uint *out, __global const K_S(KILN_O) *x,
                            long x_start, __global const K_S(KILN_A) *scales, long scales_start,
                            __global const float *whole, long pad)
{
    const long begin = (long)get_global_id(0) * s.each;
    const long end = min(begin + s.each, s.words);
    long run = 0;
    float scale = 0.0f;
    if (get_global_id(0) == 0 && pad >= 0) {
        ((__global ushort *)out)[pad] = 0;
    }
    for (long w = begin; w < end; w++) {
        uint word = 0;
        for (int k = 0; k < PER_WORD; k++) {
            const long i = w * PER_WORD + k;
            if (i >= s.count) {
                break;
            }
            if (run == 0) {
                scale = scale_of(&s, scales + scales_start, whole, block_of(&s, i, &run));
            }
            run--;
            const WIDE value = (WIDE)K_LD(KILN_O, x + x_start + i);
            word |= ((uint)nearest(value, scale) & MASK) << (k * KILN_BITS);
        }
        out[w] = word;
    }
}

static inline int value_at(uint word, int k)
{
    return as_int(word << (32 - KILN_BITS * (k + 1))) >> (32 - KILN_BITS);
}

__kernel void kiln_dequantize(kiln_quant_shape s, __global K_S(KILN_O) *out, long out_start,
                              __global const uint *in, __global const K_S(KILN_A) *scales,
                              __global const float *whole)
{
    const long begin = (long)get_global_id(0) * s.each;
    const long end = min(begin + s.each, s.words);
    long run = 0;
    float scale = 0.0f;
    for (long w = begin; w < end; w++) {
        const uint word = in[w];
        for (int k = 0; k < PER_WORD; k++) {
            const long i = w * PER_WORD + k;
            if (i >= s.count) {
                break;
            }
            if (run == 0) {
                scale = scale_of(&s, scales, whole, block_of(&s, i, &run));
            }
            run--;
            K_ST(KILN_O, out + out_start + i, (WIDE)value_at(word, k) * (WIDE)scale);
        }
    }
}

#if KILN_BITS == 8

#define ROWS 4

// Few rows of f32 times a weight of 8 bits: a work-item computes 16 columns of ROWS rows, reading
// each value once. Sums are f32, in the order of k; a block's scale is applied to its sum.
__kernel void kiln_quant_matmul(kiln_quant_matmul_shape s, __global float *out, long out_start,
                                __global const float *a, long a_start,
                                __global const char *weight, __global const K_S(KILN_A) *scales,
                                __global const float *whole)
{
    const long groups = (s.n + 15) / 16;
    const long column = (long)get_global_id(0) % groups * 16;
    const long row = (long)get_global_id(0) / groups * ROWS;
    if (row >= s.m) {
        return;
    }
    const int rows = (int)min((long)ROWS, s.m - row);
    const int columns = (int)min(16L, s.n - column);
    float16 sum[ROWS];
    float16 part[ROWS];
    for (int r = 0; r < ROWS; r++) {
        sum[r] = (float16)0.0f;
    }
    for (long first = 0; first < s.k;) {
        const long block = first >> s.k_shift;
        const long last = s.k_shift >= 62 ? s.k : min(s.k, (block + 1) << s.k_shift);
        for (int r = 0; r < ROWS; r++) {
            part[r] = (float16)0.0f;
        }
        for (long k = first; k < last; k++) {
            __global const char *line = weight + k * s.n + column;
            union {
                char16 v;
                char s[16];
            } bytes;
            if (columns == 16) {
                bytes.v = vload16(0, line);
            } else {
                bytes.v = (char16)0;
                for (int c = 0; c < columns; c++) {
                    bytes.s[c] = line[c];
                }
            }
            const float16 values = convert_float16(bytes.v);
            for (int r = 0; r < rows; r++) {
                part[r] += a[a_start + (row + r) * s.k + k] * values;
            }
        }
        float scale = K_LD(KILN_A, scales + block * s.n_blocks + (column >> s.n_shift));
        scale = s.has_global != 0 ? scale * whole[0] : scale;
        for (int r = 0; r < ROWS; r++) {
            sum[r] += part[r] * scale;
        }
        first = last;
    }
    for (int r = 0; r < rows; r++) {
        union {
            float16 v;
            float s[16];
        } result;
        result.v = sum[r];
        for (int c = 0; c < columns; c++) {
            out[out_start + (row + r) * s.n + column + c] = result.s[c];
        }
    }
}

#endif
