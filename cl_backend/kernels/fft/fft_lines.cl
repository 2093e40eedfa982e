// SPDX-License-Identifier: MIT OR Apache-2.0
// Complex Fourier transforms of dense rows whose length is a power of two, KILN_V rows at once: each
// element of a vector is a row's own, so every pass is made of whole vectors. Stockham's passes of
// radix 4, and one of radix 2 where the length asks for it (Van Loan, "Computational frameworks for
// the fast Fourier transform", 1992). A work-item takes every `items`-th group of rows through all
// passes in scratch memory of its own, which its core's cache holds.
//
//   KILN_A     element type outside
//   KILN_REAL  1: rows are real, and go as complex ones of half the length: even elements are the
//              real parts, odd ones the imaginary parts
//
// Always forward: the inverse swaps real and imaginary parts on its way in and out.

#include "fft_args.h"

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

K_DEFINE_TURN(turn_tile, T)

// Columns [j, j + KILN_V) of the rows from `first` on: one vector for each column. Behind the last
// row it stands again.
static inline void load_tile(T *tile, __global const K_S(KILN_A) *p, long first, long rows,
                             long length, long j)
{
    K_UNROLLED
    for (int i = 0; i < KILN_V; i++) {
        tile[i] = K_LDV(KILN_A, p + min(first + i, rows - 1) * length + j);
    }
    turn_tile(tile);
}

static inline void store_tile(T *tile, __global K_S(KILN_A) *p, long first, long rows, long length,
                              long j)
{
    turn_tile(tile);
    K_UNROLLED
    for (int i = 0; i < KILN_V; i++) {
        if (first + i < rows) {
            K_STV(KILN_A, p + (first + i) * length + j, tile[i]);
        }
    }
}

#if KILN_REAL

static inline void load_rows(const kiln_fft_lines_shape *s, __global T *xr, __global T *xi,
                             __global const K_S(KILN_A) *real,
                             __global const K_S(KILN_A) *imaginary, long first)
{
    T tile[KILN_V];
    for (long j = 0; j < s->length; j += KILN_V) {
        load_tile(tile, real, first, s->rows, s->length, j);
        K_UNROLLED
        for (int i = 0; i < KILN_V; i += 2) {
            xr[(j + i) / 2] = tile[i];
            xi[(j + i) / 2] = tile[i + 1];
        }
    }
}

#else

static inline void load_part(const kiln_fft_lines_shape *s, __global T *x,
                             __global const K_S(KILN_A) *p, long first, bool there)
{
    T tile[KILN_V];
    for (long j = 0; j < s->length; j += KILN_V) {
        if (there) {
            load_tile(tile, p, first, s->rows, s->length, j);
        }
        K_UNROLLED
        for (int i = 0; i < KILN_V; i++) {
            x[j + i] = there ? tile[i] : (T)(0);
        }
    }
}

static inline void load_rows(const kiln_fft_lines_shape *s, __global T *xr, __global T *xi,
                             __global const K_S(KILN_A) *real,
                             __global const K_S(KILN_A) *imaginary, long first)
{
    load_part(s, xr, real, first, (s->parts & 1) != 0);
    load_part(s, xi, imaginary, first, (s->parts & 2) != 0);
}

#endif

// One pass of radix 4: `m` butterflies of `s` neighbours each, `turn` steps of the circle apart.
static inline void pass_of_4(__global const T *xr, __global const T *xi, __global T *yr,
                             __global T *yi, __global const C *circle, long length, long m, long s,
                             long turn)
{
    for (long p = 0; p < m; p++) {
        const long at = p * turn;
        const T w1r = (T)(circle[at]);
        const T w1i = (T)(circle[length + at]);
        const T w2r = (T)(circle[2 * at]);
        const T w2i = (T)(circle[length + 2 * at]);
        const T w3r = (T)(circle[3 * at]);
        const T w3i = (T)(circle[length + 3 * at]);
        for (long q = s * p; q < s * p + s; q++) {
            const long to = q + 3 * s * p;
            const T ar = xr[q];
            const T ai = xi[q];
            const T br = xr[q + s * m];
            const T bi = xi[q + s * m];
            const T cr = xr[q + 2 * s * m];
            const T ci = xi[q + 2 * s * m];
            const T dr = xr[q + 3 * s * m];
            const T di = xi[q + 3 * s * m];
            const T even_r = ar + cr;
            const T even_i = ai + ci;
            const T odd_r = br + dr;
            const T odd_i = bi + di;
            // a - c, and i times (b - d)
            const T less_r = ar - cr;
            const T less_i = ai - ci;
            const T side_r = di - bi;
            const T side_i = br - dr;
            yr[to] = even_r + odd_r;
            yi[to] = even_i + odd_i;
            const T second_r = less_r - side_r;
            const T second_i = less_i - side_i;
            yr[to + s] = second_r * w1r - second_i * w1i;
            yi[to + s] = second_r * w1i + second_i * w1r;
            const T third_r = even_r - odd_r;
            const T third_i = even_i - odd_i;
            yr[to + 2 * s] = third_r * w2r - third_i * w2i;
            yi[to + 2 * s] = third_r * w2i + third_i * w2r;
            const T fourth_r = less_r + side_r;
            const T fourth_i = less_i + side_i;
            yr[to + 3 * s] = fourth_r * w3r - fourth_i * w3i;
            yi[to + 3 * s] = fourth_r * w3i + fourth_i * w3r;
        }
    }
}

static inline void pass_of_2(__global const T *xr, __global const T *xi, __global T *yr,
                             __global T *yi, long s)
{
    for (long q = 0; q < s; q++) {
        const T ar = xr[q];
        const T ai = xi[q];
        const T br = xr[q + s];
        const T bi = xi[q + s];
        yr[q] = ar + br;
        yi[q] = ai + bi;
        yr[q + s] = ar - br;
        yi[q + s] = ai - bi;
    }
}

#if KILN_REAL

// Element k of the spectrum, from those of the even and the odd elements, which the transform of
// half the length has as its sum and difference with its mirror image.
static inline void spectrum_at(const kiln_fft_lines_shape *s, __global const T *xr,
                               __global const T *xi, __global const C *circle, long k, T *real,
                               T *imaginary)
{
    const long h = s->points;
    const long low = k <= h ? k : s->length - k;
    const long at = low == h ? 0 : low;
    const long mirror = low == 0 ? 0 : h - low;
    const C share = (C)0.5f;
    const T even_r = (xr[at] + xr[mirror]) * share;
    const T even_i = (xi[at] - xi[mirror]) * share;
    const T odd_r = (xi[at] + xi[mirror]) * share;
    const T odd_i = (xr[mirror] - xr[at]) * share;
    const T wr = (T)(circle[low]);
    const T wi = (T)(circle[s->length + low]);
    const T sum_i = even_i + odd_r * wi + odd_i * wr;
    *real = even_r + odd_r * wr - odd_i * wi;
    *imaginary = k <= h ? sum_i : -sum_i;
}

#else

static inline void spectrum_at(const kiln_fft_lines_shape *s, __global const T *xr,
                               __global const T *xi, __global const C *circle, long k, T *real,
                               T *imaginary)
{
    *real = xr[k];
    *imaginary = xi[k];
}

#endif

// `circle` has length cosines, then as many sines.
__kernel void kiln_fft_lines(kiln_fft_lines_shape s, __global C *work,
                             __global const K_S(KILN_A) *in_real,
                             __global const K_S(KILN_A) *in_imaginary,
                             __global K_S(KILN_A) *out_real, __global K_S(KILN_A) *out_imaginary,
                             C factor)
{
    const long item = (long)get_global_id(0);
    __global const C *circle = work;
    __global T *own = (__global T *)(work + s.work) + item * 4 * s.points;
    for (long first = item * KILN_V; first < s.rows && item < s.items;
         first += s.items * KILN_V) {
        __global T *x = own;
        __global T *y = own + 2 * s.points;
        load_rows(&s, x, x + s.points, in_real + s.start[0], in_imaginary + s.start[1], first);
        long n = s.points;
        for (long step = 1; n > 1; ) {
            if (n > 2) {
                pass_of_4(x, x + s.points, y, y + s.points, circle, s.length, n / 4, step,
                          step * (s.length / s.points));
                step *= 4;
                n /= 4;
            } else {
                pass_of_2(x, x + s.points, y, y + s.points, step);
                n = 1;
            }
            __global T *other = x;
            x = y;
            y = other;
        }
        for (long j = 0; j < s.length; j += KILN_V) {
            T real[KILN_V];
            T imaginary[KILN_V];
            K_UNROLLED
            for (int i = 0; i < KILN_V; i++) {
                spectrum_at(&s, x, x + s.points, circle, j + i, &real[i], &imaginary[i]);
                real[i] *= factor;
                imaginary[i] *= factor;
            }
            store_tile(real, out_real + s.start[2], first, s.rows, s.length, j);
            store_tile(imaginary, out_imaginary + s.start[3], first, s.rows, s.length, j);
        }
    }
}
