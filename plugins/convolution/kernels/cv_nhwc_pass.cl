// SPDX-License-Identifier: MIT OR Apache-2.0
// What multiplies nothing, in a region of 16 bits in groups: a work-item has a piece of a place.
//
// Defines: PASS (0: the largest or the mean of windows; 1: the mean over an image; 2: operators
// alone), MAX (NaN wins), INCLUDE_PAD (a mean divides by the window's elements inside the image and
// its padding).

// Elements of a window along one axis from `first` on by `step`, of `count`, that begin before.
static inline int taps_below(int first, int step, int count, int limit)
{
    const int taps = first >= limit ? 0 : (limit - first + step - 1) / step;
    return min(taps, count);
}

__kernel void KERNEL(PARAMS)
{
    const int id = (int)get_global_id(0);
    if (id >= items) {
        return;
    }
    const int pieces = channels / 8, block = id % pieces, at = id / pieces;
    const int n = at / places, place = at % places;
    __global const ushort *image = in + (long)n * in_height * in_width * in_channels + block * 8;
#if PASS == 0
    const int y0 = place / width * sy - top, x0 = place % width * sx - left;
    const int ky0 = y0 >= 0 ? 0 : (-y0 + dy - 1) / dy, ky1 = taps_below(y0, dy, kh, in_height);
    const int kx0 = x0 >= 0 ? 0 : (-x0 + dx - 1) / dx, kx1 = taps_below(x0, dx, kw, in_width);
    float8 v = (float8)(MAX ? -INFINITY : 0);
    for (int ky = ky0; ky < ky1; ky++) {
        for (int kx = kx0; kx < kx1; kx++) {
            const float8 e =
                VALUES(image + ((long)(y0 + ky * dy) * in_width + x0 + kx * dx) * in_channels);
            v = MAX ? select(v, e, (e > v) | (e != e)) : v + e;
        }
    }
#if !MAX
    const int count = INCLUDE_PAD ? taps_below(y0, dy, kh, in_height + bottom) *
                                        taps_below(x0, dx, kw, in_width + right)
                                  : (ky1 - ky0) * (kx1 - kx0);
    v /= (float)count;
#endif
#elif PASS == 1
    float8 v = (float8)(0);
    for (int y = 0; y < in_height; y++) {
        float8 line = (float8)(0);
        for (int x = 0; x < in_width; x++) {
            line += VALUES(image + ((long)y * in_width + x) * in_channels);
        }
        v += line;
    }
    v /= (float)(in_height * in_width);
#else
    const float8 v = VALUES(image + (long)place * channels);
#endif
    STORE_PIECE(out + (long)id * 8, BITS(FINISH(v, at, block, places, 0)));
}
