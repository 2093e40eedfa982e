// SPDX-License-Identifier: MIT OR Apache-2.0
// The windows of dense x [n,c,..] as columns [n, c * taps, windows]; zeros in the padding. A
// work-item has `each` rows of windows of one element of the window, or one column's element.
// Defines: KILN_A (unsigned: elements are only moved), KILN_ROWS.

#include "product_args.h"

__kernel void kiln_im2col(kiln_columns_shape s, __global K_S(KILN_A) *out,
                          __global const K_S(KILN_A) *in)
{
#if KILN_ROWS
    const long begin = (long)get_global_id(0) * s.each;
    const long end = min(begin + s.each, s.rows);
#else
    const long begin = (long)get_global_id(0) / s.w.out[2];
    const long end = min(begin + 1, s.rows);
#endif
    for (long row = begin; row < end; row++) {
        long rest = row / s.w.out[1];
        const long oh = row - rest * s.w.out[1];
        const long od = rest % s.w.out[0];
        rest /= s.w.out[0];
        const long kw = rest % s.w.taps[2];
        rest /= s.w.taps[2];
        const long kh = rest % s.w.taps[1];
        rest /= s.w.taps[1];
        const long kd = rest % s.w.taps[0];
        const long plane = rest / s.w.taps[0];
        const long d = od * s.w.strides[0] - s.w.begin[0] + kd * s.w.dilations[0];
        const long h = oh * s.w.strides[1] - s.w.begin[1] + kh * s.w.dilations[1];
        const long left = kw * s.w.dilations[2] - s.w.begin[2];
        const long step = s.w.strides[2];
        const bool inside = d >= 0 && d < s.w.in[0] && h >= 0 && h < s.w.in[1];
        __global const K_S(KILN_A) *line =
            in + s.start[1] +
            (inside ? ((plane * s.w.in[0] + d) * s.w.in[1] + h) * s.w.in[2] : 0);
        __global K_S(KILN_A) *to = out + s.start[0] + row * s.w.out[2];
#if KILN_ROWS
        const long length = s.w.out[2];
        long first = length;
        long last = length;
        if (inside) {
            first = left >= 0 ? 0 : min((step - 1 - left) / step, length);
            last = left >= s.w.in[2] ? 0 : min((s.w.in[2] - left + step - 1) / step, length);
        }
        long i = 0;
        for (; i < first; i++) {
            to[i] = 0;
        }
        if (step == 1) {
            for (; i + KILN_V <= last; i += KILN_V) {
                K_STV(KILN_A, to + i, K_LDV(KILN_A, line + left + i));
            }
        }
        for (; i < last; i++) {
            to[i] = line[left + i * step];
        }
        for (; i < length; i++) {
            to[i] = 0;
        }
#else
        const long i = (long)get_global_id(0) - row * s.w.out[2];
        const long w = left + i * step;
        to[i] = inside && w >= 0 && w < s.w.in[2] ? line[w] : 0;
#endif
    }
}
