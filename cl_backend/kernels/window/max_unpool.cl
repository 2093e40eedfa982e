// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements of x at the places that indices say, 0 elsewhere. Of several at one place the last wins,
// in whatever order work-items run: the first kernel finds the winners, the second lets each place
// read its own. A work-item has `each` elements. Defines: KILN_A (unsigned: elements are only
// moved), KILN_B (i32 or i64).

#include "window_args.h"

__kernel void kiln_unpool_search(kiln_unpool_shape s, volatile __global int *winners,
                                 __global const K_S(KILN_B) *indices)
{
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.planes * s.count);
    for (long i = first; i < last; i++) {
        const long plane = i / s.count;
        const long index = (long)indices[s.start[2] + i];
        if (index >= 0 && index < s.plane) {
            atomic_max(winners + plane * s.plane + index, (int)(i - plane * s.count));
        }
    }
}

__kernel void kiln_unpool_take(kiln_unpool_shape s, __global const int *winners,
                               __global K_S(KILN_A) *out, __global const K_S(KILN_A) *in)
{
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, s.planes * s.plane);
    for (long i = first; i < last; i++) {
        const int winner = winners[i];
        out[s.start[0] + i] =
            winner >= 0 ? in[s.start[1] + i / s.plane * s.count + winner] : (K_S(KILN_A))0;
    }
}
