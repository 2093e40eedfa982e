// SPDX-License-Identifier: MIT OR Apache-2.0
// A sparse matrix along one axis: [outer, in, inner] to [outer, out, inner]. Row i of the result
// sums the entries from table[i] to table[i + 1], whose places follow the out + 2 starts. A
// work-item has `each` rows of `inner` elements, or one element. Defines: KILN_O, KILN_A (element
// types of result and input), KILN_ROWS.

#include "window_args.h"

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

__kernel void kiln_resample(kiln_resample_shape s, __global K_S(KILN_O) *out,
                            __global const K_S(KILN_A) *in, __global const int *table,
                            __global const C *weights)
{
    __global const int *places = table + s.out + 2;
#if KILN_ROWS
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.outer * s.out);
#else
    const long first = (long)get_global_id(0) / s.inner;
    const long last = min(first + 1, s.outer * s.out);
#endif
    for (long row = first; row < last; row++) {
        const long outer = row / s.out;
        const int begin = table[row - outer * s.out];
        const int end = table[row - outer * s.out + 1];
        __global const K_S(KILN_A) *x = in + s.start[1] + outer * s.in * s.inner;
        __global K_S(KILN_O) *y = out + s.start[0] + row * s.inner;
#if KILN_ROWS
        long j = 0;
        for (; j + KILN_V <= s.inner; j += KILN_V) {
            T sum = (T)(0);
            for (int k = begin; k < end; k++) {
                sum += (T)(weights[k]) * K_LDV(KILN_A, x + places[k] * s.inner + j);
            }
            K_STV(KILN_O, y + j, sum);
        }
        for (; j < s.inner; j++) {
#else
        {
            const long j = (long)get_global_id(0) - row * s.inner;
#endif
            C sum = 0;
            for (int k = begin; k < end; k++) {
                sum += weights[k] * K_LD(KILN_A, x + places[k] * s.inner + j);
            }
            K_ST(KILN_O, y + j, sum);
        }
    }
}
