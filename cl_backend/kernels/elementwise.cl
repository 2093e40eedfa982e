// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators: one table of formulas, one kernel. Defines choose the instance:
//
//   KILN_OP      name in the table below, as OP_add: PoCL defines bare names such as exp
//   KILN_A/B/C   element types of the operands, KILN_NIN how many; KILN_O of the result
//   KILN_MODE    1: operands and result are dense along the inner axis, 2: any strides
//   KILN_NVALUE  scalars that follow the operands, of KILN_A's type of computation (or KILN_O's)
//   KILN_SCALAR  1: a scalar may stand for operand b, as `by_value` says; add serves add_scalar
//
// Formulas work on whole vectors, the ends of rows included, because built-in functions may give
// other bits at other widths. sin, cos, tan, fmod and pow of doubles go element by element: on
// PoCL, at vector width, a lane's result of the first three depends on its neighbours, and the
// other two are wrong at the ends of the range.

#if KILN_NIN >= 1
#define D KILN_A
#else
#define D KILN_O
#endif
#define C K_C(D)
#define T K_V(K_C(D))
#define M K_V(K_M(D))
#define SEL(no, yes, mask) select((no), (yes), (mask))
#define TRUTH(mask) K_CONVERT(int, -(mask))
#define VALUE(x) ((T)(x))

// ---- formulas: x or a, b, c are operands, p and q scalars ----

#define OP_contiguous(x) (x)
#define OP_full(p) VALUE(p)
#define OP_where(a, b, c) SEL(b, a, K_CONVERT(K_M(D), c) != 0)
#define OP_mask_fill(x, c, p) SEL(x, VALUE(p), K_CONVERT(K_M(D), c) != 0)

#define OP_equal(a, b) TRUTH((a) == (b))
#define OP_not_equal(a, b) TRUTH((a) != (b))
#define OP_less(a, b) TRUTH((a) < (b))
#define OP_less_equal(a, b) TRUTH((a) <= (b))
#define OP_greater(a, b) TRUTH((a) > (b))
#define OP_greater_equal(a, b) TRUTH((a) >= (b))

#define OP_clamp(x, p, q) op_clamp(x, VALUE(p), VALUE(q))

#define OP_logical_not(x) (1 - (x))
#define OP_logical_and(a, b) ((a) & (b))
#define OP_logical_or(a, b) ((a) | (b))
#define OP_logical_xor(a, b) ((a) ^ (b))

// b when beyond a or NaN; else a, which may be NaN
#define OP_minimum(a, b) SEL(a, b, ((b) < (a)) | ((b) != (b)))
#define OP_maximum(a, b) SEL(a, b, ((a) < (b)) | ((b) != (b)))

static inline T op_clamp(T x, T low, T high)
{
    T y = OP_maximum(x, low);
    return OP_minimum(y, high);
}

// Applies a scalar function element by element.
#define DEFINE_EACH(name, call)                                                                    \
    static inline T name(T x)                                                                      \
    {                                                                                              \
        union {                                                                                    \
            T v;                                                                                   \
            C s[KILN_V];                                                                           \
        } u;                                                                                       \
        u.v = x;                                                                                   \
        for (int k = 0; k < KILN_V; k++) {                                                         \
            u.s[k] = call(u.s[k]);                                                                 \
        }                                                                                          \
        return u.v;                                                                                \
    }

#if K_KIND(D) == 8

#define DEFINE_EACH_2(name, call)                                                                  \
    static inline T name(T a, T b)                                                                 \
    {                                                                                              \
        union {                                                                                    \
            T v;                                                                                   \
            C s[KILN_V];                                                                           \
        } x, y;                                                                                    \
        x.v = a;                                                                                   \
        y.v = b;                                                                                   \
        for (int k = 0; k < KILN_V; k++) {                                                         \
            x.s[k] = call(x.s[k], y.s[k]);                                                         \
        }                                                                                          \
        return x.v;                                                                                \
    }

DEFINE_EACH_2(each_fmod, fmod)

#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FMA fma
#define FAST_FMA 1
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#define FAST_FMA 0
#endif
#if K_KIND(D) == 8 && K_WIDTH(D) == 64
DEFINE_EACH(op_sin, sin)
DEFINE_EACH(op_cos, cos)
DEFINE_EACH(op_tan, tan)
DEFINE_EACH_2(each_pow, pow)
#define op_fmod each_fmod
#define OP_pow(a, b) each_pow(a, b)
// exact where it is 1 to the last bit: PoCL gives less at infinity
static inline T op_erf(T x)
{
    return SEL(erf(x), copysign(VALUE(1), x), fabs(x) > VALUE(6));
}
#else
#define OP_pow(a, b) pow(a, b)

// x P(x^2) / Q(x^2), a minimax fit of our own to erf(x) / x on [0, 3.92]: 7 ulp; above it erf is 1
// to the last bit. The same steps as in plugin_sdk/kf_elementwise.h.
static inline T op_erf(T x)
{
    T z = x * x;
    T p = FMA(VALUE(2.0500854e-6f), z, VALUE(2.848806e-4f));
    p = FMA(p, z, VALUE(3.7655602e-3f));
    p = FMA(p, z, VALUE(5.2748542e-2f));
    p = FMA(p, z, VALUE(1.9040526e-1f));
    p = FMA(p, z, VALUE(1.1283791f));
    T q = FMA(VALUE(3.8091584e-5f), z, VALUE(1.1625203e-3f));
    q = FMA(q, z, VALUE(1.4969103e-2f));
    q = FMA(q, z, VALUE(1.1410860e-1f));
    q = FMA(q, z, VALUE(5.0207502e-1f));
    q = FMA(q, z, VALUE(1));
    T y = x * (p / q);
    return SEL(y, copysign(VALUE(1), x), (fabs(x) > VALUE(3.92f)) | (fabs(y) > VALUE(1)));
}

// sin, cos and tan by vectors: what is left of x after the nearest multiple of pi/2, taken off in
// three parts (Cody and Waite 1980; the first step is exact), minimax polynomials of our own for it
// and the quarter of the turn: 1.6 ulp, tan 2.5. Beyond FARTHEST, and where FMA is not fast, each
// element by itself. The same steps as in plugin_sdk/kf_elementwise.h.
#define FARTHEST (FAST_FMA ? 32768.0f : -1.0f)

static inline T turn_rest(T y, M *quarter)
{
    T k = rint(y * VALUE(0.636619772f));
    T r = FMA(k, VALUE(-1.57079637f), y);
    r = FMA(k, VALUE(4.37113883e-8f), r);
    r = FMA(k, VALUE(1.71512451e-15f), r);
    *quarter = K_CONVERT(int, k);
    return r;
}

static inline T near_turn(T r, M quarter)
{
    T z = r * r;
    T s = FMA(VALUE(-1.95172339e-4f), z, VALUE(8.332178e-3f));
    s = FMA(FMA(s, z, VALUE(-0.166666552f)) * z, r, r);
    T c = FMA(VALUE(2.44383791e-5f), z, VALUE(-1.38873665e-3f));
    c = FMA(FMA(c, z, VALUE(4.16666456e-2f)) * z, z, FMA(z, VALUE(-0.5f), VALUE(1)));
    r = SEL(s, c, (quarter & 1) != 0);
    return SEL(r, -r, (quarter & 2) != 0);
}

static inline T near_tan(T r, M quarter)
{
    T z = r * r;
    T p = FMA(VALUE(0.00437844638f), z, VALUE(8.52409357e-5f));
    p = FMA(p, z, VALUE(0.010839114f));
    p = FMA(p, z, VALUE(0.0212809481f));
    p = FMA(p, z, VALUE(0.0540601499f));
    p = FMA(p, z, VALUE(0.13332662f));
    p = FMA(p, z, VALUE(0.333333492f));
    T t = FMA(p * z, r, r);
    return SEL(t, VALUE(-1) / t, (quarter & 1) != 0);
}

#define DEFINE_TURN(name, call, near, ahead, at_zero)                                              \
    static inline T name(T x)                                                                      \
    {                                                                                              \
        M far = (fabs(x) > VALUE(FARTHEST)) | (x != x);                                            \
        M quarter;                                                                                 \
        T r = turn_rest(SEL(x, VALUE(0), far), &quarter);                                          \
        r = SEL(near(r, quarter + (ahead)), at_zero, x == 0);                                      \
        if (any(far)) {                                                                            \
            union {                                                                                \
                T v;                                                                               \
                C s[KILN_V];                                                                       \
            } from, to;                                                                            \
            from.v = x;                                                                            \
            to.v = r;                                                                              \
            for (int i = 0; i < KILN_V; i++) {                                                     \
                to.s[i] = fabs(from.s[i]) <= FARTHEST ? to.s[i] : call(from.s[i]);                 \
            }                                                                                      \
            r = to.v;                                                                              \
        }                                                                                          \
        return r;                                                                                  \
    }

DEFINE_TURN(op_sin, sin, near_turn, 0, x)
DEFINE_TURN(op_cos, cos, near_turn, 1, VALUE(1))
DEFINE_TURN(op_tan, tan, near_tan, 0, x)

// Quotients below 2^22 are off by one at the most, and what FMA leaves of a is exact then; where it
// is not from 0 to below b, or no number, each element by itself.
static inline T op_fmod(T a, T b)
{
    T d = fabs(b);
    T q = trunc(fabs(a) / d);
    T r = FMA(-q, d, fabs(a));
    r = SEL(r, r + d, r < 0);
    M done = (q < VALUE(FAST_FMA ? 4194304.0f : -1.0f)) & (r >= 0) & (r < d);
    return all(done) ? copysign(r, a) : each_fmod(a, b);
}
#endif

// no arithmetic (IEEE 754-2019, 5.5.1): a GPU's fabs and negation may give another NaN
#define SIGN_BIT K_AS(K_M(D), VALUE(-0.0f))
#define OP_abs(x) K_AS(C, K_AS(K_M(D), x) & ~SIGN_BIT)
#define OP_neg(x) K_AS(C, K_AS(K_M(D), x) ^ SIGN_BIT)
#define OP_sign(x) SEL(copysign(VALUE(1), x), x, ((x) == 0) | ((x) != (x)))
#define OP_exp(x) exp(x)
#define OP_expm1(x) expm1(x)
#define OP_log(x) log(x)
#define OP_log1p(x) log1p(x)
#define OP_erf(x) op_erf(x)
#define OP_sqrt(x) sqrt(x)
#define OP_rsqrt(x) (VALUE(1) / sqrt(x))
#define OP_recip(x) (VALUE(1) / (x))
#define OP_sin(x) op_sin(x)
#define OP_cos(x) op_cos(x)
#define OP_tan(x) op_tan(x)
#define OP_sinh(x) sinh(x)
#define OP_cosh(x) cosh(x)
#define OP_tanh(x) SEL(tanh(x), copysign(VALUE(1), x), fabs(x) > VALUE(20))
#define OP_asin(x) asin(x)
#define OP_acos(x) acos(x)
#define OP_atan(x) atan(x)
#define OP_asinh(x) asinh(x)
#define OP_acosh(x) acosh(x)
#define OP_atanh(x) atanh(x)
#define OP_round(x) rint(x)
#define OP_floor(x) floor(x)
#define OP_ceil(x) ceil(x)
#define OP_trunc(x) trunc(x)
#define OP_relu(x) SEL(VALUE(0), x, ((x) > 0) | ((x) != (x)))
#define OP_sigmoid(x) (VALUE(1) / (VALUE(1) + exp(-(x))))
#define OP_is_nan(x) TRUTH((x) != (x))
#define OP_is_inf(x) TRUTH(fabs(x) == VALUE(INFINITY))
#define OP_leaky_relu(x, p) SEL((x) * VALUE(p), x, (x) >= 0)

#define OP_add(a, b) ((a) + (b))
#define OP_sub(a, b) ((a) - (b))
#define OP_mul(a, b) ((a) * (b))
#define OP_div(a, b) ((a) / (b))
#define OP_rem(a, b) op_rem(a, b)
#define OP_fmod(a, b) op_fmod(a, b)
#define OP_atan2(a, b) atan2(a, b)
#define OP_hypot(a, b) hypot(a, b)

// As Python's %: exact, plus b when the signs differ; a zero takes the sign of b.
static inline T op_rem(T a, T b)
{
    T r = op_fmod(a, b);
    T moved = SEL(r, r + b, ((r < 0) ^ (b < 0)) & (r == r));
    return SEL(moved, copysign(VALUE(0), b), r == 0);
}

#elif K_KIND(D) == 4 || K_KIND(D) == 2

#define U K_V(K_U(D))
#define TO_U(x) K_AS(K_U(D), x)
#define TO_T(x) K_AS(K_C(D), x)
#define ALL_ONES VALUE(-1)

// Arithmetic modulo 2^width, in unsigned types, where it is defined.
#define OP_add(a, b) TO_T(TO_U(a) + TO_U(b))
#define OP_sub(a, b) TO_T(TO_U(a) - TO_U(b))
#define OP_mul(a, b) TO_T(TO_U(a) * TO_U(b))
#define OP_neg(x) TO_T((U)(0) - TO_U(x))
#define OP_bitwise_not(x) (~(x))
#define OP_bitwise_and(a, b) ((a) & (b))
#define OP_bitwise_or(a, b) ((a) | (b))
#define OP_bitwise_xor(a, b) ((a) ^ (b))
#define OP_shift_left(a, b) op_shift_left(a, b)
#define OP_shift_right(a, b) op_shift_right(a, b)
#define OP_div(a, b) op_div(a, b)
#define OP_rem(a, b) op_rem(a, b)
#define OP_fmod(a, b) op_fmod(a, b)
#define OP_pow(a, b) op_pow(a, b)

static inline M shift_is_valid(T b)
{
    return TO_U(b) < (U)(K_WIDTH(D)); // a negative one is a large unsigned one
}

static inline T op_shift_left(T a, T b)
{
    M valid = shift_is_valid(b);
    return SEL(VALUE(0), TO_T(TO_U(a) << TO_U(SEL(VALUE(0), b, valid))), valid);
}

static inline T op_shift_right(T a, T b)
{
    M valid = shift_is_valid(b);
    return SEL(VALUE(0), a >> SEL(VALUE(0), b, valid), valid);
}

#if K_KIND(D) == 4

#define OP_abs(x) SEL(x, OP_neg(x), (x) < 0)
#define OP_sign(x) (((x) < 0) - ((x) > 0))
#define OP_relu(x) SEL(x, VALUE(0), (x) < 0)

// The processor traps on x / 0 and smallest / -1, so both are divided by 1 and replaced.
static inline T op_div(T a, T b)
{
    M zero = b == 0;
    M minus_one = b == ALL_ONES;
    T q = a / SEL(b, VALUE(1), zero | minus_one);
    return SEL(SEL(q, OP_neg(a), minus_one), VALUE(0), zero);
}

static inline T op_fmod(T a, T b)
{
    return a % SEL(b, VALUE(1), (b == 0) | (b == ALL_ONES)); // x % 1 is 0, as wanted
}

static inline T op_rem(T a, T b)
{
    T r = op_fmod(a, b);
    return SEL(r, r + b, (r != 0) & ((r ^ b) < 0));
}

static inline C pow_negative(C base, C exponent)
{
    return base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
}
#define POW_NEGATIVE(base, exponent) ((exponent) < 0)

#else

#define OP_abs(x) (x)
#define OP_sign(x) SEL(VALUE(1), x, (x) == 0)
#define OP_relu(x) (x)

static inline T op_div(T a, T b)
{
    M zero = b == 0;
    return SEL(a / SEL(b, VALUE(1), zero), VALUE(0), zero);
}

static inline T op_fmod(T a, T b)
{
    return a % SEL(b, VALUE(1), b == 0);
}

static inline T op_rem(T a, T b)
{
    return op_fmod(a, b);
}

static inline C pow_negative(C base, C exponent)
{
    return 0;
}
#define POW_NEGATIVE(base, exponent) false

#endif

static inline C pow_one(C base, C exponent)
{
    if (POW_NEGATIVE(base, exponent)) {
        return pow_negative(base, exponent);
    }
    K_U(D) result = 1;
    K_U(D) square = (K_U(D))base;
    for (K_U(D) e = (K_U(D))exponent; e != 0; e >>= 1) {
        result *= (e & 1) != 0 ? square : 1;
        square *= square;
    }
    return (C)result;
}

static inline T op_pow(T a, T b)
{
    union {
        T v;
        C s[KILN_V];
    } x, y;
    x.v = a;
    y.v = b;
    for (int k = 0; k < KILN_V; k++) {
        x.s[k] = pow_one(x.s[k], y.s[k]);
    }
    return x.v;
}

#endif

// ---- cast ----

#if KILN_CAST

#define FROM K_C(KILN_A)
#define TO K_C(KILN_O)

static inline TO cast_one(FROM x)
{
#if K_KIND(KILN_O) == 1
    return x != 0;
#elif K_KIND(KILN_A) == 8 && K_KIND(KILN_O) != 8
    // MAX + 1 and MIN are powers of two or 0, exact as floats, where MAX may not be.
    const FROM half_range = (FROM)(1ul << (K_WIDTH(KILN_O) - 1));
    const FROM above = K_KIND(KILN_O) == 4 ? half_range : half_range * 2;
    const FROM below = K_KIND(KILN_O) == 4 ? -half_range : (FROM)0;
    if (x != x) {
        return 0;
    }
    return x >= above ? K_MAX(KILN_O) : x <= below ? K_MIN(KILN_O) : (TO)x;
#else
    return (TO)x;
#endif
}

static inline K_V(TO) OP_cast(K_V(FROM) x)
{
    union {
        K_V(FROM) v;
        FROM s[KILN_V];
    } from;
    union {
        K_V(TO) v;
        TO s[KILN_V];
    } to;
    from.v = x;
    for (int k = 0; k < KILN_V; k++) {
        to.s[k] = cast_one(from.s[k]);
    }
    return to.v;
}

#endif

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
