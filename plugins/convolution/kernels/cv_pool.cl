// SPDX-License-Identifier: MIT OR Apache-2.0
// The largest or the mean of windows. What lies outside the image takes no part; INCLUDE_PAD: a mean
// divides by the window's elements inside the image and its padding.
//
// Defines: MAX (1: the largest; NaN wins), INCLUDE_PAD, KH, KW, SY, SX, DY, DX, PAD_TOP, PAD_LEFT,
// PAD_BOTTOM, PAD_RIGHT.

// Elements of a window along one axis that begin to end: from `first` on by `step`, of `count`.
static inline int taps_below(int first, int step, int count, int limit)
{
    const int taps = first >= limit ? 0 : (limit - first + step - 1) / step;
    return min(taps, count);
}

__kernel void KERNEL(PARAMS)
{
    ROWS_OF_BLOCK
    for (int y = begin; y < end; y++) {
        const int top = y * SY - PAD_TOP;
        const int ky0 = top >= 0 ? 0 : (-top + DY - 1) / DY;
        const int ky1 = taps_below(top, DY, KH, in_height);
        for (int x = 0; x < width; x++) {
            const int left = x * SX - PAD_LEFT;
            const int kx0 = left >= 0 ? 0 : (-left + DX - 1) / DX;
            const int kx1 = taps_below(left, DX, KW, in_width);
            float16 v = (float16)(MAX ? -INFINITY : 0);
            for (int ky = ky0; ky < ky1; ky++) {
                for (int kx = kx0; kx < kx1; kx++) {
                    const float16 e = LOAD_IN(
                        plane + (long)(top + ky * DY) * in_row + (left + kx * DX) * 16, 0);
                    v = MAX ? select(v, e, (e > v) | (e != e)) : v + e;
                }
            }
            if (!MAX) {
                const int count =
                    INCLUDE_PAD ? taps_below(top, DY, KH, in_height + PAD_BOTTOM) *
                                      taps_below(left, DX, KW, in_width + PAD_RIGHT)
                                : (ky1 - ky0) * (kx1 - kx0);
                v /= (float)count;
            }
            STORE(result + (long)y * out_row + x * 16, 0, FINISH(v, n, block, y, x));
        }
    }
    clear_border(result, BORDER, 16, out_row, begin, end, height, width, out_top, out_left, out_bottom,
                 out_right);
}
