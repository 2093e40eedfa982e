// SPDX-License-Identifier: MIT OR Apache-2.0
// Indices of the true elements of a dense mask, in three steps: how many each chunk has, where each
// chunk's begin, and writing them. A place beyond the result's end is dropped, so that a count
// which the mask does not keep to harms nothing.
//
//   KILN_GROUP   work-items of the middle step: 1 on CPUs

#include "search_args.h"

__kernel void kiln_argwhere_count(kiln_argwhere_shape s, __global long *totals,
                                  __global const uchar *mask)
{
    const long c = (long)get_global_id(0);
    if (c >= s.chunks) {
        return;
    }
    const long last = min((c + 1) * s.chunk, s.elems);
    long total = 0;
    for (long i = c * s.chunk; i < last; i++) {
        total += mask[s.mask_start + i] != 0;
    }
    totals[c] = total;
}

// Totals become places: what the chunks before have. totals[chunks] is the whole.
__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_argwhere_places(kiln_argwhere_shape s, __global long *totals)
{
    __local long sums[KILN_GROUP];
    const int lane = (int)get_local_id(0);
    const long each = (s.chunks + KILN_GROUP - 1) / KILN_GROUP;
    const long first = min(lane * each, s.chunks);
    const long last = min(first + each, s.chunks);
    long sum = 0;
    for (long i = first; i < last; i++) {
        sum += totals[i];
    }
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    long at = 0;
    for (int i = 0; i < lane; i++) {
        at += sums[i];
    }
    for (long i = first; i < last; i++) {
        const long total = totals[i];
        totals[i] = at;
        at += total;
    }
    if (lane == KILN_GROUP - 1) {
        totals[s.chunks] = at;
    }
}

__kernel void kiln_argwhere_write(kiln_argwhere_shape s, __global long *out,
                                  __global const long *places, __global const uchar *mask)
{
    const long c = (long)get_global_id(0);
    if (c >= s.chunks) {
        return;
    }
    const long last = min((c + 1) * s.chunk, s.elems);
    long row = places[c];
    for (long i = c * s.chunk; i < last && row < s.count; i++) {
        if (mask[s.mask_start + i] == 0) {
            continue;
        }
        long rest = i;
        for (int d = (int)s.rank - 1; d >= 0; d--) {
            const long above = rest / s.dims[d];
            out[s.out_start + row * s.rank + d] = rest - above * s.dims[d];
            rest = above;
        }
        row++;
    }
    // Rows that nothing was found for: each chunk clears its share.
    const long found = min(places[s.chunks], s.count);
    for (long r = found + c; r < s.count; r += s.chunks) {
        for (long d = 0; d < s.rank; d++) {
            out[s.out_start + r * s.rank + d] = 0;
        }
    }
}
