// SPDX-License-Identifier: MIT OR Apache-2.0
// i8 or u8 less their zero points as i32, for products of integers: padding with 0 is then padding
// with the zero point. A work-item has `chunk` elements. Defines: KILN_A, KILN_ZERO (1: there are
// zero points: `inner` elements share one of `zeros`, which are zero_stride apart and come again).

__kernel void kiln_shift(__global int *out, __global const K_S(KILN_A) *in,
                         __global const K_S(KILN_A) *zero, long start, long zero_start,
                         long zero_stride, long count, long inner, long zeros, long chunk)
{
    const long first = (long)get_global_id(0) * chunk;
    const long last = min(first + chunk, count);
    for (long i = first; i < last; i++) {
#if KILN_ZERO
        const int point = (int)zero[zero_start + i / inner % zeros * zero_stride];
#else
        const int point = 0;
#endif
        out[i] = (int)in[start + i] - point;
    }
}
