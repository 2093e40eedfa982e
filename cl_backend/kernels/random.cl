// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers by Philox4x32-10, as ir/reference/reference_random.c says: the words and everything made
// from them by integers and rounded steps are the same bits everywhere; normal numbers are within
// 4 units in the last place. Defines: KILN_O; KILN_DRAW: 1 uniform, 2 integers, 3 normal, 4
// Bernoulli. A work-item computes KILN_V blocks at a time.

#define C K_C(KILN_O)
#define F K_V(float)
#define U K_V(uint)
#define I K_V(int)

typedef union {
    U v;
    uint s[KILN_V];
} words;

typedef union {
    F v;
    float s[KILN_V];
} floats;

#define AS_F(x) K_AS(float, x)
#define AS_I(x) K_AS(int, x)
#define AS_U(x) K_AS(uint, x)
#define CONVERT_F(x) K_CONVERT(float, x)

// random_rounds, random_spread, random_radius and random_waves, which fusers have too.
#include "random_formulas.cl"

static inline ulong join(uint low, uint high)
{
    return (ulong)high << 32 | low;
}

// Elements that one block gives.
#if KILN_DRAW == 2
#define PER_BLOCK (K_WIDTH(KILN_O) == 64 ? 1 : 2)
#elif K_WIDTH(KILN_O) == 64 && KILN_DRAW != 4
#define PER_BLOCK 2
#else
#define PER_BLOCK 4
#endif

// ---- normal numbers ----

#if KILN_DRAW == 3 && K_WIDTH(KILN_O) == 64

static inline void normal_pair(ulong a, ulong b, double *first, double *second)
{
    const double u = ((double)(a >> 12) + 0.5) * 0x1p-52;
    const long turn = (long)(b >> 12);
    const long nearest = (turn + (1L << 49)) >> 50;
    const double rest = (double)(turn - (nearest << 50)) + 0.5;
    const double x = rest * 0x1p-51 * 3.14159265358979323846;
    const double r = sqrt(-2.0 * log(u));
    const double c = (nearest & 1) != 0 ? sin(x) : cos(x);
    const double s = (nearest & 1) != 0 ? cos(x) : sin(x);
    *first = r * (((nearest + 1) & 2) != 0 ? -c : c);
    *second = r * ((nearest & 2) != 0 ? -s : s);
}

#endif

// ---- from a block's words to its elements ----

#if KILN_DRAW == 1
// What the stored type rounds up to max becomes min.
static inline void store_uniform(__global K_S(KILN_O) *p, C value, C low, C high)
{
    K_ST(KILN_O, p, value);
    if (K_LD(KILN_O, p) >= high) {
        K_ST(KILN_O, p, low);
    }
}
#endif

#if KILN_DRAW == 2
static inline ulong draw_offset(const words *w, int block, int part, ulong count)
{
#if K_WIDTH(KILN_O) == 64
    const ulong bits = join(w[0].s[block], w[1].s[block]);
    const ulong low = bits * count;
    const ulong sum = low + mul_hi(join(w[2].s[block], w[3].s[block]), count);
    return count == 0 ? bits : mul_hi(bits, count) + (sum < low ? 1ul : 0ul);
#else
    return mul_hi(join(w[2 * part].s[block], w[2 * part + 1].s[block]), count);
#endif
}
#endif

// The elements of KILN_V blocks; a and b are the distribution's parameters: min and max - min, mean
// and deviation; `bits` min and number of values, or the threshold.
static inline void store_blocks(__global K_S(KILN_O) *out, long first_block, long step, long count,
                                const words *w, C a, C b, C high, ulong2 bits)
{
#if KILN_DRAW == 3 && K_WIDTH(KILN_O) != 64
    floats z[4];
    for (int pair = 0; pair < 2; pair++) {
        const F r = random_radius(w[2 * pair].v);
        F cosine;
        F sine;
        random_waves(w[2 * pair + 1].v, &cosine, &sine);
        z[2 * pair].v = a + (r * cosine) * b;
        z[2 * pair + 1].v = a + (r * sine) * b;
    }
#elif KILN_DRAW == 1 && K_WIDTH(KILN_O) != 64
    // As many bits as the type has digits.
    const uint digits = K_WIDTH(KILN_O) == 32 ? 24u : KILN_DIGITS;
    floats z[4];
    for (int k = 0; k < 4; k++) {
        z[k].v = random_spread(w[k].v, digits, KILN_UNIT, (F)(a), (F)(b));
    }
#endif
    for (int block = 0; block < KILN_V; block++) {
        const long i = (first_block + block * step) * PER_BLOCK;
        __global K_S(KILN_O) *p = out + i;
#if KILN_DRAW == 3 && K_WIDTH(KILN_O) == 64
        double z[2];
        normal_pair(join(w[0].s[block], w[1].s[block]), join(w[2].s[block], w[3].s[block]), &z[0],
                    &z[1]);
#endif
        for (int k = 0; k < PER_BLOCK; k++) {
            if (i + k >= count) {
                break;
            }
#if KILN_DRAW == 1 && K_WIDTH(KILN_O) == 64
            const ulong u = join(w[2 * k].s[block], w[2 * k + 1].s[block]) >> 11;
            store_uniform(p + k, a + (double)u * 0x1p-53 * b, a, high);
#elif KILN_DRAW == 1
            store_uniform(p + k, z[k].s[block], a, high);
#elif KILN_DRAW == 2
            K_ST(KILN_O, p + k, (C)(bits.x + draw_offset(w, block, k, bits.y)));
#elif KILN_DRAW == 3 && K_WIDTH(KILN_O) == 64
            K_ST(KILN_O, p + k, a + z[k] * b);
#elif KILN_DRAW == 3
            K_ST(KILN_O, p + k, z[k].s[block]);
#else
            K_ST(KILN_O, p + k, (C)((ulong)w[k].s[block] < bits.x ? 1 : 0));
#endif
        }
    }
}

// Work-item i takes blocks i * each to (i + 1) * each, KILN_V at a time and `step` apart.
__kernel void kiln_random(__global K_S(KILN_O) *out, long start, long count, long each, long step,
                          ulong seed, ulong position, uint stream, C a, C b, C high, ulong bits_x,
                          ulong bits_y)
{
    const long blocks = (count + PER_BLOCK - 1) / PER_BLOCK;
    const long begin = (long)get_global_id(0) * each;
    const long end = step == 1 ? min(begin + each, blocks) : begin + 1;
    for (long block = begin; block < end; block += KILN_V) {
        words w[4];
        for (int k = 0; k < KILN_V; k++) {
            const ulong number = (ulong)(block + k * step);
            w[0].s[k] = (uint)number;
            w[1].s[k] = ((uint)(number >> 32) & 0xFFFFu) | ((uint)(position >> 32) << 16);
        }
        w[2].v = (U)((uint)position);
        w[3].v = (U)(stream);
        U v[4] = {w[0].v, w[1].v, w[2].v, w[3].v};
        random_rounds(v, (uint)seed, (uint)(seed >> 32));
        for (int k = 0; k < 4; k++) {
            w[k].v = v[k];
        }
        store_blocks(out + start, block, step, count, w, a, b, high, (ulong2)(bits_x, bits_y));
    }
}
