// SPDX-License-Identifier: MIT OR Apache-2.0
// (x - mean) / sqrt(variance + epsilon) * scale + bias. Operand a is x, operand b stands for the four dense
// vectors of parameters. Defines: KILN_A, and KILN_MA, KILN_MB, KILN_MO as in elementwise.cl.

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

K_DEFINE_GATHER(gather_a, KILN_A)
K_DEFINE_SCATTER(scatter_o, KILN_A)

#if KILN_MO == 1
#define STORE_FULL(x, j) K_STV(KILN_A, po + (j), x)
#define STORE_PART(x, j, count) scatter_o(po + (j), 1, count, x)
#else
#define STORE_FULL(x, j) scatter_o(po + (j) * so, so, KILN_V, x)
#define STORE_PART(x, j, count) scatter_o(po + (j) * so, so, count, x)
#endif

#define STEP(part, store, ...)                                                                     \
    {                                                                                              \
        const T x = K_CAT3(K_, part, KILN_MA)(KILN_A, gather_a, pa, sa, __VA_ARGS__);              \
        const T scale_v = K_CAT3(K_, part, KILN_MB)(KILN_A, gather_a, scale + at.b, sb, __VA_ARGS__); \
        const T bias_v = K_CAT3(K_, part, KILN_MB)(KILN_A, gather_a, bias + at.b, sb, __VA_ARGS__); \
        const T mean_v = K_CAT3(K_, part, KILN_MB)(KILN_A, gather_a, mean + at.b, sb, __VA_ARGS__); \
        const T var_v = K_CAT3(K_, part, KILN_MB)(KILN_A, gather_a, var + at.b, sb, __VA_ARGS__);  \
        const T y = (x - mean_v) / sqrt(var_v + (T)(epsilon)) * scale_v + bias_v;                  \
        store(y, __VA_ARGS__);                                                                     \
    }

__kernel void kiln_batch_norm(kiln_shape s, __global K_S(KILN_A) *out,
                              __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *scale,
                              __global const K_S(KILN_A) *bias, __global const K_S(KILN_A) *mean,
                              __global const K_S(KILN_A) *var, C epsilon)
{
    const kiln_piece piece = k_piece(&s);
    const long so = s.stride[0][7];
    const long sa = s.stride[1][7];
    const long sb = s.stride[2][7];
    for (long row = piece.first_row; row < piece.last_row; row++) {
        const kiln_offsets at = k_row(&s, row);
        __global K_S(KILN_A) *po = out + at.o;
        __global const K_S(KILN_A) *pa = in + at.a;
        long j = piece.begin;
        for (; j + KILN_V <= piece.end; j += KILN_V) {
            STEP(FULL_, STORE_FULL, j)
        }
        if (j < piece.end) {
            const int count = (int)(piece.end - j);
            STEP(PART_, STORE_PART, j, count)
        }
    }
}
