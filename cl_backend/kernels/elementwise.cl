// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators: one table of formulas, one kernel. Defines choose the instance:
//
//   KILN_OP      name of a formula, as OP_add: PoCL defines bare names such as exp
//   KILN_A/B/C   element types of the operands, KILN_NIN how many; KILN_O of the result
//   KILN_MODE    1: operands and result are dense along the inner axis, 2: any strides
//   KILN_NVALUE  scalars that follow the operands, of KILN_A's type of computation (or KILN_O's)
//   KILN_SCALAR  1: a scalar may stand for operand b, as `by_value` says; add serves add_scalar
//
// Formulas work on whole vectors, the ends of rows included, because built-in functions may give
// other bits at other widths.

#if KILN_NIN >= 1
#define D KILN_A
#else
#define D KILN_O
#endif
#define C K_C(D)
#define T K_V(K_C(D))
#define M K_V(K_M(D))
#define U K_V(K_U(D))
#define AS_T(x) K_AS(K_C(D), x)
#define AS_U(x) K_AS(K_U(D), x)
#define CONVERT_M(x) K_CONVERT(K_M(D), x)
#define CONVERT_T(x) K_CONVERT(K_C(D), x)
#define VLOAD K_CAT(vload, KILN_V)
#define VSTORE K_CAT(vstore, KILN_V)
#define TRUTH(mask) K_CONVERT(int, -(mask))
#define VALUE(x) ((T)(x))
// Of casts: the vector that results, and an integer's limits as floats: powers of two, or 0.
#define HALF_RANGE(d) ((C)(1ul << (K_WIDTH(d) - 1)))
#define K_ABOVE(d) (K_KIND(d) == 4 ? HALF_RANGE(d) : HALF_RANGE(d) * 2)
#define K_BELOW(d) (K_KIND(d) == 4 ? -HALF_RANGE(d) : 0)
#define R K_V(K_C(KILN_O))
#define AS_R(x) K_AS(K_C(KILN_O), x)
#define CONVERT_R(x) K_CONVERT(K_C(KILN_O), x)
#define CONVERT_R_RTZ(x) K_CAT3(convert_, R, _rtz)(x)
#define CONVERT_N(x) K_CONVERT(K_M(KILN_O), x)

// OP_<name>(operands, scalars) for every elementwise operator, from plugin_sdk/kf_elementwise.def.
#include "elementwise_formulas.cl"

#define OP_full(p) VALUE(p)

// ---- the kernel ----

#if KILN_NIN >= 1
K_DEFINE_GATHER(gather_a, KILN_A)
#endif
#if KILN_NIN >= 2
K_DEFINE_GATHER(gather_b, KILN_B)
#endif
#if KILN_NIN >= 3
K_DEFINE_GATHER(gather_c, KILN_C)
#endif
K_DEFINE_SCATTER(scatter_o, KILN_O)

#if KILN_NVALUE == 0
#define VALUES
#elif KILN_NIN == 0
#define VALUES value0
#elif KILN_NVALUE == 1
#define VALUES , value0
#else
#define VALUES , value0, value1
#endif

// Makes macros among the arguments, a list in parentheses, expand before the formula takes them.
// (OpenCL C 1.2 has no variadic macros.)
#define APPLY(formula, list) formula list

#define LOAD(part, d, gather, p, s, j, count)                                                      \
    K_CAT3(K_, part, KILN_MODE)(d, gather, p, s, j, count)
#define STORE(part, x, j, count)                                                                   \
    K_CAT3(K_STORE_, part, KILN_MODE)(KILN_O, scatter_o, po, so, x, j, count);
#if KILN_SCALAR
#define LOAD_B(part, j, count) (by_value ? splat : LOAD(part, KILN_B, gather_b, pb, sb, j, count))
#else
#define LOAD_B(part, j, count) LOAD(part, KILN_B, gather_b, pb, sb, j, count)
#endif

#if KILN_NIN == 0
#define STEP(part, j, count) STORE(part, APPLY(KILN_OP, (VALUES)), j, count)
#elif KILN_NIN == 1
#define STEP(part, j, count)                                                                       \
    {                                                                                              \
        K_V(K_C(KILN_A)) a = LOAD(part, KILN_A, gather_a, pa, sa, j, count);                       \
        STORE(part, APPLY(KILN_OP, (a VALUES)), j, count)                                          \
    }
#elif KILN_NIN == 2
#define STEP(part, j, count)                                                                       \
    {                                                                                              \
        K_V(K_C(KILN_A)) a = LOAD(part, KILN_A, gather_a, pa, sa, j, count);                       \
        K_V(K_C(KILN_B)) b = LOAD_B(part, j, count);                                               \
        STORE(part, APPLY(KILN_OP, (a, b VALUES)), j, count)                                       \
    }
#else
#define STEP(part, j, count)                                                                       \
    {                                                                                              \
        K_V(K_C(KILN_A)) a = LOAD(part, KILN_A, gather_a, pa, sa, j, count);                       \
        K_V(K_C(KILN_B)) b = LOAD(part, KILN_B, gather_b, pb, sb, j, count);                       \
        K_V(K_C(KILN_C)) c = LOAD(part, KILN_C, gather_c, pc, sc, j, count);                       \
        STORE(part, APPLY(KILN_OP, (a, b, c VALUES)), j, count)                                    \
    }
#endif

__kernel void kiln_elementwise(kiln_shape s, __global K_S(KILN_O) *out
#if KILN_NIN >= 1
                               ,
                               __global const K_S(KILN_A) *in_a
#endif
#if KILN_NIN >= 2
                               ,
                               __global const K_S(KILN_B) *in_b
#endif
#if KILN_NIN >= 3
                               ,
                               __global const K_S(KILN_C) *in_c
#endif
#if KILN_SCALAR
                               ,
                               long by_value, C value
#endif
#if KILN_NVALUE >= 1
                               ,
                               C value0
#endif
#if KILN_NVALUE >= 2
                               ,
                               C value1
#endif
)
{
    const kiln_piece piece = k_piece(&s);
    const long end = piece.end;
    const long so = s.stride[0][7];
    const long sa = s.stride[1][7];
    const long sb = s.stride[2][7];
    const long sc = s.stride[3][7];
#if KILN_SCALAR
    const T splat = (T)(value);
#endif
    for (long row = piece.first_row; row < piece.last_row; row++) {
        const kiln_offsets at = k_row(&s, row);
        __global K_S(KILN_O) *po = out + at.o;
#if KILN_NIN >= 1
        __global const K_S(KILN_A) *pa = in_a + at.a;
#endif
#if KILN_NIN >= 2
        __global const K_S(KILN_B) *pb = in_b + at.b;
#endif
#if KILN_NIN >= 3
        __global const K_S(KILN_C) *pc = in_c + at.c;
#endif
        long j = piece.begin;
        for (; j + KILN_V <= end; j += KILN_V) {
            STEP(FULL_, j, KILN_V)
        }
        if (j < end) {
            const int count = (int)(end - j);
            STEP(PART_, j, count)
        }
    }
}
