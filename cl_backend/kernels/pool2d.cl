// SPDX-License-Identifier: MIT OR Apache-2.0
// Largest element or mean of each window of dense x [n,c,h,w]. A work-item has `each` rows of the
// result. Defines: KILN_A; KILN_MEAN; KILN_INCLUDE_PAD: the mean divides by the elements of the
// window with its padding.

typedef struct kiln_pool2d_shape {
    long planes; // n * c
    long height;
    long width;
    long out_height;
    long out_width;
    long each;
    long taps[2];
    long strides[2];
    long dilations[2];
    long begin[2];
    long end[2];
    long start[2]; // result, x
} kiln_pool2d_shape;

#define C K_C(KILN_A)

// Elements of a window that starts at `from`, between `low` and `high`.
static inline long taken(long from, long taps, long dilation, long low, long high)
{
    const long before = from >= low ? 0 : (low - from + dilation - 1) / dilation;
    const long until = from >= high ? 0 : (high - from + dilation - 1) / dilation;
    return max(min(until, taps) - before, 0l);
}

static inline C pool(const kiln_pool2d_shape *s, __global const K_S(KILN_A) *plane, long top,
                     long left)
{
#if KILN_MEAN
    C result = 0;
#else
    C result = K_MIN(KILN_A);
#endif
    for (long kh = 0; kh < s->taps[0]; kh++) {
        const long h = top + kh * s->dilations[0];
        if (h < 0 || h >= s->height) {
            continue;
        }
        for (long kw = 0; kw < s->taps[1]; kw++) {
            const long w = left + kw * s->dilations[1];
            if (w < 0 || w >= s->width) {
                continue;
            }
            const C x = K_LD(KILN_A, plane + h * s->width + w);
#if KILN_MEAN
            result += x;
#else
            result = result < x || K_IS_NAN(KILN_A, x) ? x : result;
#endif
        }
    }
#if KILN_MEAN
#if KILN_INCLUDE_PAD
    const long rows =
        taken(top, s->taps[0], s->dilations[0], -s->begin[0], s->height + s->end[0]);
    const long columns =
        taken(left, s->taps[1], s->dilations[1], -s->begin[1], s->width + s->end[1]);
#else
    const long rows = taken(top, s->taps[0], s->dilations[0], 0, s->height);
    const long columns = taken(left, s->taps[1], s->dilations[1], 0, s->width);
#endif
    result /= (C)(rows * columns);
#endif
    return result;
}

__kernel void kiln_pool2d(kiln_pool2d_shape s, __global K_S(KILN_A) *out,
                          __global const K_S(KILN_A) *in)
{
    const long rows = s.planes * s.out_height;
#if KILN_ROWS
    const long first = (long)get_global_id(0) * s.each;
    const long last = min(first + s.each, rows);
    for (long row = first; row < last; row++) {
        for (long column = 0; column < s.out_width; column++) {
#else
    const long row = (long)get_global_id(0) / s.out_width;
    const long column = (long)get_global_id(0) - row * s.out_width;
    if (row < rows) {
        {
#endif
            const long plane = row / s.out_height;
            const long top = (row - plane * s.out_height) * s.strides[0] - s.begin[0];
            const long left = column * s.strides[1] - s.begin[1];
            const C y =
                pool(&s, in + s.start[1] + plane * s.height * s.width, top, left);
            K_ST(KILN_A, out + s.start[0] + row * s.out_width + column, y);
        }
    }
}
