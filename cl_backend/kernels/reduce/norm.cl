// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums along dense rows, and a result from them: layer_norm, rms_norm, and the derivatives of
// softmax and log_softmax. Defines: KILN_A; KILN_KIND, one of the numbers below; KILN_SCALE and
// KILN_BIAS, whether these parameters are there, a row long; and one of
//
//   KILN_ROWS   a work-item for `each` rows, vectors along the row
//   KILN_GROUP  a work-group of that size for a row
//
// Sums are made in pieces, so that a long row loses no more digits than a short one.

#define LAYER 0
#define RMS 1
#define SOFTMAX 2
#define LOG_SOFTMAX 3

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))
#define PIECE 256 // vectors, or elements of a work-item

// x is the input or the output of the softmax, y the gradient.
#if KILN_KIND == LAYER
#define FIRST(x, y) (x)
#elif KILN_KIND == RMS
#define FIRST(x, y) ((x) * (x))
#elif KILN_KIND == SOFTMAX
#define FIRST(x, y) ((x) * (y))
#else
#define FIRST(x, y) (y)
#endif

#if KILN_KIND == LAYER || KILN_KIND == RMS
#define GRADIENT 0
#define NORMAL(x, y) (((x) - shift) * factor)
#elif KILN_KIND == SOFTMAX
#define GRADIENT 1
#define NORMAL(x, y) ((x) * ((y) - shift))
#else
#define GRADIENT 1
#define NORMAL(x, y) ((y) - exp(x) * shift)
#endif

#if KILN_SCALE
#define SCALED(x, load, j) ((x) * load(KILN_A, scale + (j)))
#else
#define SCALED(x, load, j) (x)
#endif
#if KILN_BIAS
#define BIASED(x, load, j) ((x) + load(KILN_A, bias + (j)))
#else
#define BIASED(x, load, j) (x)
#endif
#if GRADIENT
#define OTHER(load, j) load(KILN_A, g + (j))
#else
#define OTHER(load, j) 0
#endif

#define RESULT(load, j) BIASED(SCALED(NORMAL(load(KILN_A, p + (j)), OTHER(load, j)), load, j), load, j)
#define CENTRED_SQUARE(x) (((x) - shift) * ((x) - shift))

#define ARGUMENTS                                                                                  \
    __global K_S(KILN_A) *out, __global const K_S(KILN_A) *in, __global const K_S(KILN_A) *grad,   \
        __global const K_S(KILN_A) *scale, __global const K_S(KILN_A) *bias, long out_start,       \
        long in_start, long grad_start, long scale_start, long bias_start, long rows, long length, \
        long each, C epsilon

#if KILN_ROWS

#define PLUS(a, b) ((a) + (b))
K_DEFINE_FOLD(sum_lanes, T, C, PLUS)

// The sum of `term`, in which `load` and j stand for how and where elements are read.
#define SUM(result, term)                                                                          \
    {                                                                                              \
        T all = (T)(0);                                                                            \
        for (long from = 0; from < whole; from += PIECE * KILN_V) {                                \
            const long to = min(from + PIECE * KILN_V, whole);                                     \
            T part = (T)(0);                                                                       \
            for (long j = from; j < to; j += KILN_V) {                                             \
                part += term(K_LDV, j);                                                            \
            }                                                                                      \
            all += part;                                                                           \
        }                                                                                          \
        result = sum_lanes(all);                                                                   \
        for (long j = whole; j < length; j++) {                                                    \
            result += term(K_LD, j);                                                               \
        }                                                                                          \
    }

#define FIRST_TERM(load, j) FIRST(load(KILN_A, p + (j)), OTHER(load, j))
#define SECOND_TERM(load, j) CENTRED_SQUARE(load(KILN_A, p + (j)))

__kernel void kiln_norm(ARGUMENTS)
{
    const long first = (long)get_global_id(0) * each;
    const long last = min(first + each, rows);
    const long whole = length / KILN_V * KILN_V;
    scale += scale_start;
    bias += bias_start;
    for (long row = first; row < last; row++) {
        __global const K_S(KILN_A) *p = in + in_start + row * length;
        __global const K_S(KILN_A) *g = grad + grad_start + row * length;
        __global K_S(KILN_A) *q = out + out_start + row * length;
        C shift = 0;
        C factor = 1;
        SUM(shift, FIRST_TERM)
#if KILN_KIND == LAYER
        shift /= (C)length;
        SUM(factor, SECOND_TERM)
        factor = 1 / sqrt(factor / (C)length + epsilon);
#elif KILN_KIND == RMS
        factor = 1 / sqrt(shift / (C)length + epsilon);
        shift = 0;
#endif
        for (long j = 0; j < whole; j += KILN_V) {
            const T result = RESULT(K_LDV, j);
            K_STV(KILN_A, q + j, result);
        }
        for (long j = whole; j < length; j++) {
            const C result = RESULT(K_LD, j);
            K_ST(KILN_A, q + j, result);
        }
    }
}

#else

static inline C over_group(C x, __local C *tree)
{
    const int lane = (int)get_local_id(0);
    tree[lane] = x;
    for (int width = KILN_GROUP / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < width) {
            tree[lane] += tree[lane + width];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const C result = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

#define SUM(result, term)                                                                          \
    {                                                                                              \
        C all = 0;                                                                                 \
        for (long from = lane; from < length; from += PIECE * KILN_GROUP) {                        \
            const long to = min(from + PIECE * KILN_GROUP, length);                                \
            C part = 0;                                                                            \
            for (long j = from; j < to; j += KILN_GROUP) {                                         \
                part += term(K_LD, j);                                                             \
            }                                                                                      \
            all += part;                                                                           \
        }                                                                                          \
        result = over_group(all, tree);                                                            \
    }

#define FIRST_TERM(load, j) FIRST(load(KILN_A, p + (j)), OTHER(load, j))
#define SECOND_TERM(load, j) CENTRED_SQUARE(load(KILN_A, p + (j)))

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void kiln_norm(ARGUMENTS)
{
    __local C tree[KILN_GROUP];
    const long row = (long)get_group_id(0);
    const long lane = (long)get_local_id(0);
    __global const K_S(KILN_A) *p = in + in_start + row * length;
    __global const K_S(KILN_A) *g = grad + grad_start + row * length;
    __global K_S(KILN_A) *q = out + out_start + row * length;
    C shift = 0;
    C factor = 1;
    scale += scale_start;
    bias += bias_start;
    SUM(shift, FIRST_TERM)
#if KILN_KIND == LAYER
    shift /= (C)length;
    SUM(factor, SECOND_TERM)
    factor = 1 / sqrt(factor / (C)length + epsilon);
#elif KILN_KIND == RMS
    factor = 1 / sqrt(shift / (C)length + epsilon);
    shift = 0;
#endif
    for (long j = lane; j < length; j += KILN_GROUP) {
        const C result = RESULT(K_LD, j);
        K_ST(KILN_A, q + j, result);
    }
}

#endif
