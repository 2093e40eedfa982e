// SPDX-License-Identifier: MIT OR Apache-2.0
// softmax and log_softmax of dense [outer, length, inner] along the middle axis: largest element,
// sum of exponentials, result. Defines: KILN_A, KILN_LOG, and one of
//
//   KILN_ROWS     inner is 1: a work-item for `each` rows, vectors along the row
//   KILN_COLUMNS  a work-item for KILN_NC vectors of neighbouring columns: on CPUs several, for each
//                 element of a column lies on a page of its own
//   KILN_GROUP    inner is 1: a work-group of that size for a row

#define C K_C(KILN_A)
#define T K_V(K_C(KILN_A))
#define LARGER(a, b) ((a) < (b) || (b) != (b) ? (b) : (a))
#define LARGER_V(a, b) select((a), (b), ((a) < (b)) | ((b) != (b)))

#if KILN_LOG
#define RESULT(x, largest, sum) ((x) - (largest) - log(sum))
#else
#define RESULT(x, largest, sum) (exp((x) - (largest)) / (sum))
#endif

#if KILN_ROWS

static inline C largest_lane(T x)
{
    union {
        T v;
        C s[KILN_V];
    } u;
    u.v = x;
    C largest = u.s[0];
    for (int k = 1; k < KILN_V; k++) {
        largest = LARGER(largest, u.s[k]);
    }
    return largest;
}

#define PLUS(a, b) ((a) + (b))
K_DEFINE_FOLD(sum_lanes, T, C, PLUS)

__kernel void kiln_softmax(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in,
                           long out_start, long in_start, long outer, long length, long inner,
                           long each)
{
    const long first = (long)get_global_id(0) * each;
    const long last = min(first + each, outer);
    for (long row = first; row < last; row++) {
        __global const K_S(KILN_A) *p = in + in_start + row * length;
        __global K_S(KILN_A) *q = out + out_start + row * length;
        const long whole = length / KILN_V * KILN_V;
        T most = (T)(-INFINITY);
        for (long j = 0; j < whole; j += KILN_V) {
            const T x = K_LDV(KILN_A, p + j);
            most = LARGER_V(most, x);
        }
        C largest = largest_lane(most);
        for (long j = whole; j < length; j++) {
            const C x = K_LD(KILN_A, p + j);
            largest = LARGER(largest, x);
        }
        T sums = (T)(0);
        for (long j = 0; j < whole; j += KILN_V) {
            sums += exp(K_LDV(KILN_A, p + j) - (T)(largest));
        }
        C sum = sum_lanes(sums);
        for (long j = whole; j < length; j++) {
            sum += exp(K_LD(KILN_A, p + j) - largest);
        }
        for (long j = 0; j < whole; j += KILN_V) {
            const T x = K_LDV(KILN_A, p + j);
            K_STV(KILN_A, q + j, RESULT(x, (T)(largest), (T)(sum)));
        }
        for (long j = whole; j < length; j++) {
            const C x = K_LD(KILN_A, p + j);
            K_ST(KILN_A, q + j, RESULT(x, largest, sum));
        }
    }
}

#elif KILN_COLUMNS

K_DEFINE_GATHER(gather_a, KILN_A)
K_DEFINE_SCATTER(scatter_o, KILN_A)

#define COLUMN(load, store)                                                                        \
    {                                                                                              \
        T largest = (T)(-INFINITY);                                                                \
        for (long j = 0; j < length; j++) {                                                        \
            const T x = load;                                                                      \
            largest = LARGER_V(largest, x);                                                        \
        }                                                                                          \
        T sum = (T)(0);                                                                            \
        for (long j = 0; j < length; j++) {                                                        \
            sum += exp(load - largest);                                                            \
        }                                                                                          \
        for (long j = 0; j < length; j++) {                                                        \
            const T x = load;                                                                      \
            const T y = RESULT(x, largest, sum);                                                   \
            store;                                                                                 \
        }                                                                                          \
    }

__kernel void kiln_softmax(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in,
                           long out_start, long in_start, long outer, long length, long inner,
                           long each)
{
    const long chunks = (inner + KILN_V * KILN_NC - 1) / (KILN_V * KILN_NC);
    const long row = (long)get_global_id(0) / chunks;
    long column = ((long)get_global_id(0) - row * chunks) * (KILN_V * KILN_NC);
    const long end = min(column + KILN_V * KILN_NC, inner);
    if (row >= outer) {
        return;
    }
    __global const K_S(KILN_A) *p = in + in_start + row * length * inner + column;
    __global K_S(KILN_A) *q = out + out_start + row * length * inner + column;
    if (column + KILN_V * KILN_NC <= end) {
        T largest[KILN_NC];
        T sum[KILN_NC];
        K_UNROLLED
        for (int n = 0; n < KILN_NC; n++) {
            largest[n] = (T)(-INFINITY);
            sum[n] = (T)(0);
        }
        for (long j = 0; j < length; j++) {
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                const T x = K_LDV(KILN_A, p + j * inner + n * KILN_V);
                largest[n] = LARGER_V(largest[n], x);
            }
        }
        for (long j = 0; j < length; j++) {
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                sum[n] += exp(K_LDV(KILN_A, p + j * inner + n * KILN_V) - largest[n]);
            }
        }
        for (long j = 0; j < length; j++) {
            K_UNROLLED
            for (int n = 0; n < KILN_NC; n++) {
                const T x = K_LDV(KILN_A, p + j * inner + n * KILN_V);
                K_STV(KILN_A, q + j * inner + n * KILN_V, RESULT(x, largest[n], sum[n]));
            }
        }
        return;
    }
    for (; column + KILN_V <= end; column += KILN_V, p += KILN_V, q += KILN_V) {
        COLUMN(K_LDV(KILN_A, p + j * inner), K_STV(KILN_A, q + j * inner, y))
    }
    if (column < end) {
        const int count = (int)(end - column);
        COLUMN(gather_a(p + j * inner, 1, count), scatter_o(q + j * inner, 1, count, y))
    }
}

#else

static inline C over_group(C x, bool add, __local C *tree)
{
    const int lane = (int)get_local_id(0);
    tree[lane] = x;
    for (int width = KILN_GROUP / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < width) {
            const C a = tree[lane];
            const C b = tree[lane + width];
            tree[lane] = add ? a + b : LARGER(a, b);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const C result = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

__kernel __attribute__((reqd_work_group_size(KILN_GROUP, 1, 1))) void
kiln_softmax(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in, long out_start,
             long in_start, long outer, long length, long inner, long each)
{
    __local C tree[KILN_GROUP];
    const long row = (long)get_group_id(0);
    const long lane = (long)get_local_id(0);
    __global const K_S(KILN_A) *p = in + in_start + row * length;
    __global K_S(KILN_A) *q = out + out_start + row * length;
    C largest = -INFINITY;
    for (long j = lane; j < length; j += KILN_GROUP) {
        const C x = K_LD(KILN_A, p + j);
        largest = LARGER(largest, x);
    }
    largest = over_group(largest, false, tree);
    C sum = 0;
    for (long j = lane; j < length; j += KILN_GROUP) {
        sum += exp(K_LD(KILN_A, p + j) - largest);
    }
    sum = over_group(sum, true, tree);
    for (long j = lane; j < length; j += KILN_GROUP) {
        const C x = K_LD(KILN_A, p + j);
        K_ST(KILN_A, q + j, RESULT(x, largest, sum));
    }
}

#endif
