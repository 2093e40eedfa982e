// SPDX-License-Identifier: MIT OR Apache-2.0
// i8 or u8 less their zero points as i32, for conv.cl: padding with 0 is then padding with the zero
// point. A work-item has `chunk` elements. Defines: KILN_A, KILN_ZERO (1: there are zero points,
// one for each `inner` elements, `zero_stride` apart).

__kernel void kiln_conv_integer_shift(__global int *out, __global const K_S(KILN_A) *in,
                                      __global const K_S(KILN_A) *zero, long start,
                                      long zero_start, long zero_stride, long count, long inner,
                                      long chunk)
{
    const long first = (long)get_global_id(0) * chunk;
    const long last = min(first + chunk, count);
    for (long i = first; i < last; i++) {
#if KILN_ZERO
        const int point = (int)zero[zero_start + i / inner * zero_stride];
#else
        const int point = 0;
#endif
        out[i] = (int)in[start + i] - point;
    }
}
