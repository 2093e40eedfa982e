// SPDX-License-Identifier: MIT OR Apache-2.0
// Padding with elements of the input itself: its edge, or with KILN_REFLECT its mirror image
// without the edge. Defines: KILN_O (an unsigned type: elements are only moved).

#include "move_args.h"

static inline long source_of(long i, long length)
{
    const long edge = clamp(i, 0l, length - 1);
#if KILN_REFLECT
    return clamp(2 * edge - i, 0l, length - 1);
#else
    return edge;
#endif
}

__kernel void kiln_pad(kiln_pad_shape s, __global K_S(KILN_O) *out, __global const K_S(KILN_O) *in)
{
    const long begin = (long)get_global_id(0) * s.each;
    const long end = min(begin + s.each, s.count);
    for (long at = begin; at < end; at++) {
        long rest = at;
        long from = s.in_start;
        for (int d = (int)s.rank - 1; d >= 0; d--) {
            const long above = rest / s.dims[d];
            const long i = rest - above * s.dims[d];
            rest = above;
            from += source_of(i - s.begin[d], s.kept[d]) * s.strides[d];
        }
        out[s.out_start + at] = in[from];
    }
}
