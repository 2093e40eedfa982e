// SPDX-License-Identifier: MIT OR Apache-2.0
// (x - mean) / sqrt(variance + epsilon) * scale + bias. Operand a is x, operand b stands for the
// four dense vectors of parameters. Defines: KILN_A, and KILN_MODE as in elementwise.cl.

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))

K_DEFINE_GATHER(gather_a, KILN_A)
K_DEFINE_SCATTER(scatter_o, KILN_A)

#define LOAD(part, p, s, j, count)                                                                 \
    K_CAT3(K_, part, KILN_MODE)(KILN_A, gather_a, p, s, j, count)

#define STEP(part, j, count)                                                                       \
    {                                                                                              \
        const T x = LOAD(part, pa, sa, j, count);                                                  \
        const T deviation = sqrt(LOAD(part, var + at.b, sb, j, count) + (T)(epsilon));             \
        const T normal = (x - LOAD(part, mean + at.b, sb, j, count)) / deviation;                  \
        const T scaled = normal * LOAD(part, scale + at.b, sb, j, count);                          \
        const T y = scaled + LOAD(part, bias + at.b, sb, j, count);                                \
        K_CAT3(K_STORE_, part, KILN_MODE)(KILN_A, scatter_o, po, so, y, j, count);                 \
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
            STEP(FULL_, j, KILN_V)
        }
        if (j < piece.end) {
            const int count = (int)(piece.end - j);
            STEP(PART_, j, count)
        }
    }
}
