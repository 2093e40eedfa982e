// SPDX-License-Identifier: MIT OR Apache-2.0
// Cross-correlation of dense x [n,c,h,w] with dense weight [o,c/groups,kh,kw], plus bias [o]. One
// work-item has KILN_OB channels of KILN_V neighbouring columns of one row of the result: each
// loaded vector of x serves all of its channels. The host has put x into enough zeros that no load,
// of whole vectors either, leaves a row.
//
//   KILN_A      element type
//   KILN_BIAS   1 when there is a bias
//   KILN_STEP1  1 when the window moves by one column: a vector of the result needs a vector of x

typedef struct kiln_conv2d_shape {
    long batch;
    long channels; // of x in one group
    long height;
    long width;
    long groups;
    long outputs; // of one group
    long out_height;
    long out_width;
    long taps[2];
    long strides[2];
    long dilations[2];
    long start[4]; // result, x, weight, bias
} kiln_conv2d_shape;

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

K_DEFINE_SCATTER(scatter_o, KILN_A)

#if KILN_STEP1
#define LOAD_COLUMNS(p, step) K_LDV(KILN_A, p)
#else
K_DEFINE_GATHER(gather_a, KILN_A)
#define LOAD_COLUMNS(p, step) gather_a(p, step, KILN_V)
#endif

__kernel void kiln_conv2d(kiln_conv2d_shape s, __global K_S(KILN_A) *out,
                          __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *weight
#if KILN_BIAS
                          ,
                          __global const K_S(KILN_A) *bias
#endif
)
{
    const long column_blocks = (s.out_width + KILN_V - 1) / KILN_V;
    const long channel_blocks = (s.outputs + KILN_OB - 1) / KILN_OB;
    long rest = (long)get_global_id(0);
    const long column = rest % column_blocks * KILN_V;
    rest /= column_blocks;
    const long row = rest % s.out_height;
    rest /= s.out_height;
    const long first = rest % channel_blocks * KILN_OB;
    rest /= channel_blocks;
    const long group = rest % s.groups;
    const long n = rest / s.groups;
    if (n >= s.batch) {
        return;
    }
    const long window = s.taps[0] * s.taps[1];
    const int count = (int)min(s.out_width - column, (long)KILN_V);
    const long left = column * s.strides[1];
    __global const K_S(KILN_A) *x =
        in + s.start[1] + (n * s.groups + group) * s.channels * s.height * s.width;
    __global const K_S(KILN_A) *w[KILN_OB];
    T sums[KILN_OB];
    K_UNROLLED
    for (int o = 0; o < KILN_OB; o++) {
        const long channel = group * s.outputs + min(first + o, s.outputs - 1);
        w[o] = weight + s.start[2] + channel * s.channels * window;
        sums[o] = (T)(0);
    }
    for (long c = 0; c < s.channels; c++) {
        for (long kh = 0; kh < s.taps[0]; kh++) {
            const long h = row * s.strides[0] + kh * s.dilations[0];
            __global const K_S(KILN_A) *line = x + (c * s.height + h) * s.width;
            const long tap = c * window + kh * s.taps[1];
            for (long kw = 0; kw < s.taps[1]; kw++) {
                const T v = LOAD_COLUMNS(line + left + kw * s.dilations[1], s.strides[1]);
                K_UNROLLED
                for (int o = 0; o < KILN_OB; o++) {
                    sums[o] = fma(v, (T)(K_LD(KILN_A, w[o] + tap + kw)), sums[o]);
                }
            }
        }
    }
    K_UNROLLED
    for (int o = 0; o < KILN_OB; o++) {
        const long channel = group * s.outputs + first + o;
        if (first + o < s.outputs) {
            T y = sums[o];
#if KILN_BIAS
            y += (T)(K_LD(KILN_A, bias + s.start[3] + channel));
#endif
            __global K_S(KILN_A) *to =
                out + s.start[0] +
                ((n * s.groups * s.outputs + channel) * s.out_height + row) * s.out_width + column;
            if (count == KILN_V) {
                K_STV(KILN_A, to, y);
            } else {
                scatter_o(to, 1, count, y);
            }
        }
    }
}
