// SPDX-License-Identifier: MIT OR Apache-2.0
// Complex Fourier transforms of dense rows, in scratch memory of the type of computation: real parts
// of all rows, then imaginary parts. Lengths that are powers of two by Stockham's passes (Swarztrauber,
// "FFT algorithms for vector computers", 1984), short ones by the definition, others as a convolution with a chirp (Bluestein, 1970).
// Always forward: the inverse swaps real and imaginary parts on its way in and out. Defines: KILN_A.

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

// exp(-2 pi i k / length) all round the circle.
__kernel void kiln_fft_circle(__global C *work, long at, long length)
{
    const long k = (long)get_global_id(0);
    if (k < length) {
        const C x = (C)(2 * k) / (C)length;
        work[at + k] = cospi(x);
        work[at + length + k] = -sinpi(x);
    }
}

// The sum of the definition, for short rows: what cancels exactly there does so here.
__kernel void kiln_fft_direct(__global C *work, long from, long to, long circle, long length,
                              long rows)
{
    const long id = (long)get_global_id(0);
    const long row = id / length;
    const long k = id - row * length;
    const long all = rows * length;
    __global const C *x = work + from + row * length;
    __global const C *w = work + circle;
    C real = 0;
    C imaginary = 0;
    if (row >= rows) {
        return;
    }
    for (long i = 0, turn = 0; i < length; i++) {
        real += x[i] * w[turn] - x[all + i] * w[length + turn];
        imaginary += x[i] * w[length + turn] + x[all + i] * w[turn];
        turn += k;
        turn -= turn >= length ? length : 0;
    }
    work[to + id] = real;
    work[to + all + id] = imaginary;
}

// exp(-2 pi i k / length) for the first half of the circle.
__kernel void kiln_fft_twiddles(__global C *work, long at, long length)
{
    const long k = (long)get_global_id(0);
    if (2 * k < length) {
        const C x = (C)(2 * k) / (C)length;
        work[at + k] = cospi(x);
        work[at + length / 2 + k] = -sinpi(x);
    }
}

// c[k] = exp(-pi i k * k / length); and its conjugate around 0, on a circle of `filled` elements.
__kernel void kiln_fft_chirp(__global C *work, long chirp, long circle, long length, long filled)
{
    const long k = (long)get_global_id(0);
    if (k >= filled) {
        return;
    }
    const long distance = min(k, filled - k);
    C real = 0;
    C imaginary = 0;
    if (distance < length) {
        const ulong square = (ulong)distance * (ulong)distance % (ulong)(2 * length);
        const C x = (C)square / (C)length;
        real = cospi(x);
        imaginary = sinpi(x);
    }
    work[circle + k] = real;
    work[circle + filled + k] = imaginary;
    if (k < length) {
        const ulong square = (ulong)k * (ulong)k % (ulong)(2 * length);
        const C x = (C)square / (C)length;
        work[chirp + k] = cospi(x);
        work[chirp + length + k] = -sinpi(x);
    }
}

// Rows of `length` become rows of `filled`, times the chirp when there is one (chirp >= 0).
__kernel void kiln_fft_load(__global C *work, __global const K_S(KILN_A) *real,
                            __global const K_S(KILN_A) *imaginary, long real_start,
                            long imaginary_start, int parts, long at, long chirp, long length,
                            long filled, long rows)
{
    const long id = (long)get_global_id(0);
    const long row = id / filled;
    const long k = id - row * filled;
    if (row >= rows) {
        return;
    }
    C a = 0;
    C b = 0;
    if (k < length) {
        a = (parts & 1) != 0 ? K_LD(KILN_A, real + real_start + row * length + k) : 0;
        b = (parts & 2) != 0 ? K_LD(KILN_A, imaginary + imaginary_start + row * length + k) : 0;
    }
    if (k < length && chirp >= 0) {
        const C p = work[chirp + k];
        const C q = work[chirp + length + k];
        const C product = a * p - b * q;
        b = a * q + b * p;
        a = product;
    }
    work[at + id] = a;
    work[at + rows * filled + id] = b;
}

// Butterflies [first, last) of one pass over one row; s is the distance between neighbours of a
// group: 1, 2, 4, ..
static inline void pass_part(__global const C *xr, __global const C *xi, __global C *yr,
                             __global C *yi, __global const C *wr, __global const C *wi, long middle,
                             long s, long first, long last)
{
    for (long i = first; i < last; i++) {
        const long group = i & ~(s - 1);
        const C sum_r = xr[i] + xr[i + middle];
        const C sum_i = xi[i] + xi[i + middle];
        const C less_r = xr[i] - xr[i + middle];
        const C less_i = xi[i] - xi[i + middle];
        yr[i + group] = sum_r;
        yi[i + group] = sum_i;
        yr[i + group + s] = less_r * wr[group] - less_i * wi[group];
        yi[i + group + s] = less_r * wi[group] + less_i * wr[group];
    }
}

// One pass over all rows; a work-item for `each` butterflies.
__kernel void kiln_fft_pass(__global C *work, long from, long to, long twiddles, long length, long s,
                            long rows, long each)
{
    const long middle = length / 2;
    const long all = rows * length;
    long i = (long)get_global_id(0) * each;
    const long last = min(i + each, rows * middle);
    while (i < last) {
        const long row = i / middle;
        const long within = i - row * middle;
        const long end = min(middle, within + last - i);
        __global const C *x = work + from + row * length;
        __global C *y = work + to + row * length;
        pass_part(x, x + all, y, y + all, work + twiddles, work + twiddles + middle, middle, s, within,
                  end);
        i += end - within;
    }
}

// All passes over one row; a work-item for a row. The result is in `from` after an even number of
// passes, in `to` after an odd one.
__kernel void kiln_fft_rows(__global C *work, long from, long to, long twiddles, long length,
                            long rows)
{
    const long row = (long)get_global_id(0);
    const long middle = length / 2;
    const long all = rows * length;
    __global C *x = work + from + row * length;
    __global C *y = work + to + row * length;
    __global const C *wr = work + twiddles;
    __global const C *wi = wr + middle;
    if (row >= rows) {
        return;
    }
    for (long s = 1; s < length; s *= 2) {
        if (s < KILN_V) {
            pass_part(x, x + all, y, y + all, wr, wi, middle, s, 0, middle);
        } else {
            for (long i = 0; i < middle; i += KILN_V) {
                const long group = i & ~(s - 1);
                const T ar = K_LDV(KILN_C, x + i);
                const T br = K_LDV(KILN_C, x + middle + i);
                const T ai = K_LDV(KILN_C, x + all + i);
                const T bi = K_LDV(KILN_C, x + all + middle + i);
                const T lr = ar - br;
                const T li = ai - bi;
                const T pr = (T)(wr[group]);
                const T pi = (T)(wi[group]);
                K_STV(KILN_C, y + i + group, ar + br);
                K_STV(KILN_C, y + all + i + group, ai + bi);
                K_STV(KILN_C, y + i + group + s, lr * pr - li * pi);
                K_STV(KILN_C, y + all + i + group + s, lr * pi + li * pr);
            }
        }
        __global C *other = x;
        x = y;
        y = other;
    }
}

// Rows times one row, and real and imaginary parts swapped.
__kernel void kiln_fft_multiply(__global C *work, long at, long circle, long length, long rows)
{
    const long id = (long)get_global_id(0);
    const long k = id % length;
    if (id >= rows * length) {
        return;
    }
    const C a = work[at + id];
    const C b = work[at + rows * length + id];
    const C p = work[circle + k];
    const C q = work[circle + length + k];
    work[at + id] = a * q + b * p;
    work[at + rows * length + id] = a * p - b * q;
}

// The first `length` of each row of `filled`, times the chirp after swapping back when there is one,
// times `factor`.
__kernel void kiln_fft_store(__global const C *work, __global K_S(KILN_A) *real,
                             __global K_S(KILN_A) *imaginary, long real_start, long imaginary_start,
                             long at, long chirp, long length, long filled, long rows, C factor)
{
    const long id = (long)get_global_id(0);
    const long row = id / length;
    const long k = id - row * length;
    if (row >= rows) {
        return;
    }
    C a = work[at + row * filled + k];
    C b = work[at + rows * filled + row * filled + k];
    if (chirp >= 0) {
        const C p = work[chirp + k];
        const C q = work[chirp + length + k];
        const C swapped = b;
        b = swapped * q + a * p;
        a = swapped * p - a * q;
    }
    a *= factor;
    b *= factor;
    K_ST(KILN_A, real + real_start + id, a);
    K_ST(KILN_A, imaginary + imaginary_start + id, b);
}
