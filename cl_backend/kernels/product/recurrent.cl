// SPDX-License-Identifier: MIT OR Apache-2.0
// lstm and gru of f32 in block form, in two launches, for constant weights behind a first one:
//
//   kiln_recurrent_pack    packs the weights once
//   kiln_recurrent_inputs  the product of all steps' inputs, with the biases
//   kiln_recurrent_steps   a team of work-items for some rows of the batch, in one direction, walks
//                          all steps; each member has a share of the units
//
// Units come in blocks of 16; those beyond the last compute nothing that is stored. Weight and
// recurrence are packed by columns, so that one number of a row meets all gates of a block in
// contiguous vectors; of weights that may change kiln_recurrent_inputs does it, in every call. Defines: KILN_GATES (4: lstm, 3: gru), KILN_RESET_AFTER (of a gru:
// the reset gate acts on the product), KILN_TEAM (a team has several members).

#include "product_args.h"

#define UNITS 16
#define GATES KILN_GATES
#define ROWS 4
#define SIGN 16 // a sign has a cache line of its own
#define INLINE static inline __attribute__((always_inline))

typedef __global const float *numbers;

/* As the operators of these names, by plugin_sdk/kf_elementwise.def. */
INLINE float16 sigmoid_(float16 x)
{
    return 1 / (1 + exp(-x));
}

INLINE float16 tanh_(float16 x)
{
    return select(tanh(x), copysign((float16)(1), x), fabs(x) > 20);
}

/* The first `count` of 16 numbers, 0 behind them. */
INLINE float16 load_some(numbers p, long count)
{
    union {
        float16 v;
        float s[UNITS];
    } u;
    if (count >= UNITS) {
        return vload16(0, p);
    }
    u.v = (float16)(0);
    for (int i = 0; i < (int)count; i++) {
        u.s[i] = p[i];
    }
    return u.v;
}

INLINE void store_some(float16 x, __global float *p, long count)
{
    union {
        float16 v;
        float s[UNITS];
    } u;
    if (count >= UNITS) {
        vstore16(x, 0, p);
        return;
    }
    u.v = x;
    for (int i = 0; i < (int)count; i++) {
        p[i] = u.s[i];
    }
}

// ---- packing ----

// Of each pair of rows `size` apart, squares of that size beside the diagonal change places.
#define SWAP_SQUARES(size, upper, lower)                                                           \
    K_UNROLLED                                                                                     \
    for (int i = 0; i < UNITS / 2; i++) {                                                          \
        const int at = i / (size) * 2 * (size) + i % (size);                                       \
        const float16 a = tile[at];                                                                \
        const float16 b = tile[at + (size)];                                                       \
        tile[at] = (float16)upper;                                                                 \
        tile[at + (size)] = (float16)lower;                                                        \
    }

/* Rows become columns. */
INLINE void turn(float16 *tile)
{
    SWAP_SQUARES(8, (a.lo, b.lo), (a.hi, b.hi))
    SWAP_SQUARES(4, (a.s0123, b.s0123, a.s89ab, b.s89ab), (a.s4567, b.s4567, a.scdef, b.scdef))
    SWAP_SQUARES(2, (a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd),
                 (a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef))
    SWAP_SQUARES(1,
                 (a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc,
                  b.sc, a.se, b.se),
                 (a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd,
                  b.sd, a.sf, b.sf))
}

/* A tile of rows `depth` apart, 16 columns of 16 units. */
INLINE void pack_tile(__global float *packed, numbers rows, long depth)
{
    float16 tile[UNITS];
    K_UNROLLED
    for (int i = 0; i < UNITS; i++) {
        tile[i] = vload16(0, rows + i * depth);
    }
    turn(tile);
    K_UNROLLED
    for (int i = 0; i < UNITS; i++) {
        vstore16(tile[i], 0, packed + i * GATES * UNITS);
    }
}

/* One gate's rows of a block, [units, depth], into vectors of units GATES apart. */
static void pack_gate(__global float *packed, numbers rows, long units, long depth)
{
    long k = 0;
    for (; units >= UNITS && k + UNITS <= depth; k += UNITS) {
        pack_tile(packed + k * GATES * UNITS, rows + k, depth);
    }
    for (; k < depth; k++) {
        for (long i = 0; i < UNITS; i++) {
            packed[k * GATES * UNITS + i] = i < units ? rows[i * depth + k] : 0;
        }
    }
}

/* Rows [gates, hidden, depth] of a direction: those of one block, into [depth, gates, units]. */
static void pack_block(const kiln_recurrent_shape *s, __global float *packed, numbers rows,
                       long block, long depth)
{
    for (long g = 0; g < GATES; g++) {
        pack_gate(packed + g * UNITS, rows + (g * s->hidden + block * UNITS) * depth,
                  s->hidden - block * UNITS, depth);
    }
}

static void pack_weight(const kiln_recurrent_shape *s, __global float *columns, numbers weight,
                        long direction, long block)
{
    pack_block(s, columns, weight + s->start[1] + direction * GATES * s->hidden * s->inputs, block,
               s->inputs);
}

static void pack_recurrence(const kiln_recurrent_shape *s, __global float *packed,
                            numbers recurrence, long direction, long block)
{
    pack_block(s, packed + (direction * s->blocks + block) * s->hidden * GATES * UNITS,
               recurrence + s->start[2] + direction * GATES * s->hidden * s->hidden, block,
               s->hidden);
}

__kernel void kiln_recurrent_pack(kiln_recurrent_shape s, __global float *packed_weight,
                                  __global float *packed_recurrence,
                                  __global const float *weight, __global const float *recurrence)
{
    const long item = (long)get_global_id(0);
    const long block = item % s.blocks;
    const long direction = item / s.blocks;
    pack_weight(&s, packed_weight + item * s.inputs * GATES * UNITS, weight, direction, block);
    pack_recurrence(&s, packed_recurrence, recurrence, direction, block);
}

// ---- products ----

/* sums[i, g] += the i-th row times packed columns, for `n` gates of which the first is at
 * `packed`. */
INLINE void add_rows(float16 *sums, int m, int n, const numbers *rows, numbers packed, long depth)
{
    for (long k = 0; k < depth; k++, packed += GATES * UNITS) {
        K_UNROLLED
        for (int g = 0; g < n; g++) {
            const float16 column = vload16(g, packed);
            K_UNROLLED
            for (int i = 0; i < m; i++) {
                sums[i * n + g] = fma((float16)(rows[i][k]), column, sums[i * n + g]);
            }
        }
    }
}

/* The same for one row: every other number has sums of its own, which do not wait for each
 * other. */
INLINE void add_row(float16 *sums, int n, numbers row, numbers packed, long depth)
{
    float16 odd[GATES];
    K_UNROLLED
    for (int g = 0; g < n; g++) {
        odd[g] = (float16)(0);
    }
    long k = 0;
    for (; k + 2 <= depth; k += 2, packed += 2 * GATES * UNITS) {
        K_UNROLLED
        for (int g = 0; g < n; g++) {
            sums[g] = fma((float16)(row[k]), vload16(g, packed), sums[g]);
            odd[g] = fma((float16)(row[k + 1]), vload16(GATES + g, packed), odd[g]);
        }
    }
    K_UNROLLED
    for (int g = 0; g < n; g++) {
        sums[g] += odd[g];
        if (k < depth) {
            sums[g] = fma((float16)(row[k]), vload16(g, packed), sums[g]);
        }
    }
}

INLINE void add_product(float16 *sums, int m, int n, const numbers *rows, numbers packed,
                        long depth)
{
    if (m == 1) {
        add_row(sums, n, rows[0], packed, depth);
    } else {
        add_rows(sums, m, n, rows, packed, depth);
    }
}

/* Both biases of a gate; but that of the state waits where the reset gate acts on the product. */
INLINE float16 bias_of(const kiln_recurrent_shape *s, numbers bias, long direction, long block,
                       int gate, bool of_state)
{
    const long count = s->hidden - block * UNITS;
    const numbers p = bias + s->start[3] +
                      (2 * GATES * direction + gate) * s->hidden + block * UNITS;
    const bool waits = KILN_RESET_AFTER && gate == 2;
    const numbers state = p + GATES * s->hidden;
    if (!s->has[0]) {
        return (float16)(0);
    }
    if (of_state) {
        return load_some(state, count);
    }
    return waits ? load_some(p, count) : load_some(p, count) + load_some(state, count);
}

__kernel void kiln_recurrent_inputs(kiln_recurrent_shape s, __global float *projected,
                                    __global float *packed_weight,
                                    __global float *packed_recurrence, __global int *signs,
                                    __global const float *x, __global const float *weight,
                                    __global const float *recurrence, __global const float *bias)
{
    const long item = (long)get_global_id(0);
    const long block = item % s.blocks;
    const long direction = item / s.blocks % s.directions;
    const long first = item / s.blocks / s.directions * s.rows_each;
    const long rows = s.steps * s.batch;
    const long last = min(first + s.rows_each, rows);
    for (long i = 0; item == 0 && i < 2 * s.teams * s.members * SIGN; i++) {
        signs[i] = 0;
    }
    const long own = s.packed ? item % (s.blocks * s.directions) : item;
    __global float *columns = packed_weight + own * s.inputs * GATES * UNITS;
    if (!s.packed) {
        pack_weight(&s, columns, weight, direction, block);
    }
    if (!s.packed && first == 0) {
        pack_recurrence(&s, packed_recurrence, recurrence, direction, block);
    }
    float16 biases[GATES];
    K_UNROLLED
    for (int g = 0; g < GATES; g++) {
        biases[g] = bias_of(&s, bias, direction, block, g, false);
    }
    for (long row = first; row < last; row += ROWS) {
        float16 sums[ROWS * GATES];
        numbers from[ROWS];
        K_UNROLLED
        for (int i = 0; i < ROWS; i++) {
            from[i] = x + s.start[0] + min(row + i, last - 1) * s.inputs;
            K_UNROLLED
            for (int g = 0; g < GATES; g++) {
                sums[i * GATES + g] = biases[g];
            }
        }
        add_rows(sums, ROWS, GATES, from, columns, s.inputs);
        K_UNROLLED
        for (int i = 0; i < ROWS; i++) {
            K_UNROLLED
            for (int g = 0; g < GATES; g++) {
                if (row + i < last) {
                    const long at = (direction * rows + row + i) * s.blocks + block;
                    vstore16(sums[i * GATES + g], at * GATES + g, projected);
                }
            }
        }
    }
}

// ---- steps ----

// A row of the batch has its state in lines of whole blocks: h before and after the step, then c,
// or the update gate and the reset state.
enum { LINE_H, LINE_C = 2, LINE_UPDATE = 2, LINE_RESET = 3, LINES = 4 };

typedef struct walk { ///< of a work-item
    const kiln_recurrent_shape *s;
    long direction;
    long first; ///< rows of the batch
    long last;
    long step;
    int now; ///< which line has h before the step
    __global float *state;
    numbers projected; ///< of this direction
    numbers packed;
    numbers bias;
    numbers initial_h; ///< from its start on, as the next ones
    numbers initial_c;
    __global float *values;
    __global float *last_h;
    __global float *last_c;
} walk;

INLINE __global float *line_of(const walk *w, long row, int line)
{
    const long at = w->direction * w->s->batch + row;
    return w->state + (at * LINES + line) * w->s->blocks * UNITS;
}

/* Inputs of `n` gates of a block for m rows and the product of a line with the recurrence. */
INLINE void gates_of(const walk *w, float16 *sums, int m, int first_gate, int n, long row,
                     long block, int line)
{
    numbers from[ROWS];
    K_UNROLLED
    for (int i = 0; i < m; i++) {
        const long clamped = min(row + i, w->last - 1);
        const long at = (w->step * w->s->batch + clamped) * w->s->blocks + block;
        from[i] = line_of(w, clamped, line);
        K_UNROLLED
        for (int g = 0; g < n; g++) {
            const bool waits = KILN_RESET_AFTER && first_gate + g == 2;
            sums[i * n + g] =
                waits ? bias_of(w->s, w->bias, w->direction, block, 2, true)
                      : vload16(at * GATES + first_gate + g, w->projected);
        }
    }
    const numbers columns =
        w->packed + ((w->direction * w->s->blocks + block) * w->s->hidden * GATES + first_gate) *
                        UNITS;
    add_product(sums, m, n, from, columns, w->s->hidden);
}

INLINE void give(const walk *w, long row, long block, float16 h)
{
    const kiln_recurrent_shape *s = w->s;
    const long at = (w->step * s->directions + w->direction) * s->batch + row;
    vstore16(h, block, line_of(w, row, LINE_H + 1 - w->now));
    store_some(h, w->values + s->start[6] + at * s->hidden + block * UNITS,
               s->hidden - block * UNITS);
}

#if GATES == 4

INLINE void step_rows(const walk *w, int m, long row, long block)
{
    float16 sums[ROWS * GATES];
    gates_of(w, sums, m, 0, GATES, row, block, LINE_H + w->now);
    K_UNROLLED
    for (int i = 0; i < m; i++) {
        if (row + i < w->last) {
            __global float *cell = line_of(w, row + i, LINE_C);
            const float16 input = sigmoid_(sums[i * GATES]);
            const float16 output = sigmoid_(sums[i * GATES + 1]);
            const float16 forget = sigmoid_(sums[i * GATES + 2]);
            const float16 candidate = tanh_(sums[i * GATES + 3]);
            const float16 c = forget * vload16(block, cell) + input * candidate;
            vstore16(c, block, cell);
            give(w, row + i, block, output * tanh_(c));
        }
    }
}

#else

INLINE void give_mixed(const walk *w, long row, long block, float16 update, float16 candidate)
{
    const float16 h = vload16(block, line_of(w, row, LINE_H + w->now));
    give(w, row, block, (1 - update) * tanh_(candidate) + update * h);
}

#if KILN_RESET_AFTER

INLINE void step_rows(const walk *w, int m, long row, long block)
{
    float16 sums[ROWS * GATES];
    gates_of(w, sums, m, 0, GATES, row, block, LINE_H + w->now);
    K_UNROLLED
    for (int i = 0; i < m; i++) {
        if (row + i < w->last) {
            const long at = (w->step * w->s->batch + row + i) * w->s->blocks + block;
            const float16 update = sigmoid_(sums[i * GATES]);
            const float16 reset = sigmoid_(sums[i * GATES + 1]);
            const float16 of_input = vload16(at * GATES + 2, w->projected);
            give_mixed(w, row + i, block, update, of_input + reset * sums[i * GATES + 2]);
        }
    }
}

#else

/* The reset state of all units stands before any product with it. */
INLINE void reset_rows(const walk *w, int m, long row, long block)
{
    float16 sums[ROWS * 2];
    gates_of(w, sums, m, 0, 2, row, block, LINE_H + w->now);
    K_UNROLLED
    for (int i = 0; i < m; i++) {
        if (row + i < w->last) {
            const float16 h = vload16(block, line_of(w, row + i, LINE_H + w->now));
            vstore16(sigmoid_(sums[i * 2]), block, line_of(w, row + i, LINE_UPDATE));
            vstore16(sigmoid_(sums[i * 2 + 1]) * h, block, line_of(w, row + i, LINE_RESET));
        }
    }
}

INLINE void step_rows(const walk *w, int m, long row, long block)
{
    float16 sums[ROWS];
    gates_of(w, sums, m, 2, 1, row, block, LINE_RESET);
    K_UNROLLED
    for (int i = 0; i < m; i++) {
        if (row + i < w->last) {
            const float16 update = vload16(block, line_of(w, row + i, LINE_UPDATE));
            give_mixed(w, row + i, block, update, sums[i]);
        }
    }
}

#endif
#endif

// ---- phases ----

// What all members have done before any goes on: a beginning, the steps, of a gru whose reset gate
// acts on the state in two phases each, and an end.
#if GATES == 3 && !KILN_RESET_AFTER
#define PHASES 2
#else
#define PHASES 1
#endif

// Of some blocks all rows, then the next block: what a block packs is read once for ROWS rows.
#define OVER_ROWS(take)                                                                            \
    for (long block = from; block < to; block++) {                                                 \
        long row = w->first;                                                                       \
        for (; row + 1 < w->last; row += ROWS) {                                                   \
            take(w, ROWS, row, block);                                                             \
        }                                                                                          \
        if (row < w->last) {                                                                       \
            take(w, 1, row, block);                                                                \
        }                                                                                          \
    }

/* Blocks [from, to) of a line become the given state, or 0. */
INLINE void begin(const walk *w, long from, long to, numbers given, bool is_given, int line)
{
    const kiln_recurrent_shape *s = w->s;
    for (long row = w->first; row < w->last; row++) {
        const long at = (w->direction * s->batch + row) * s->hidden;
        for (long block = from; block < to; block++) {
            const float16 value =
                is_given ? load_some(given + at + block * UNITS, s->hidden - block * UNITS)
                         : (float16)(0);
            vstore16(value, block, line_of(w, row, line));
        }
    }
}

INLINE void end(const walk *w, long from, long to, __global float *result, int line)
{
    const kiln_recurrent_shape *s = w->s;
    for (long row = w->first; row < w->last; row++) {
        const long at = (w->direction * s->batch + row) * s->hidden;
        for (long block = from; block < to; block++) {
            store_some(vload16(block, line_of(w, row, line)), result + at + block * UNITS,
                       s->hidden - block * UNITS);
        }
    }
}

INLINE long phases_of(const kiln_recurrent_shape *s)
{
    return s->steps * PHASES + 2;
}

INLINE void take_steps(walk *w, long phase, long from, long to)
{
    const kiln_recurrent_shape *s = w->s;
    const bool reverse = w->direction == 1 || s->reverse != 0;
    const long i = (phase - 1) / PHASES;
    w->step = reverse ? s->steps - 1 - i : i;
    w->now = (int)(i % 2);
#if PHASES == 2
    if ((phase - 1) % PHASES == 0) {
        OVER_ROWS(reset_rows)
        return;
    }
#endif
    OVER_ROWS(step_rows)
}

/* One phase of blocks [from, to). */
static void take_phase(walk *w, long phase, long from, long to)
{
    const kiln_recurrent_shape *s = w->s;
    if (phase == 0) {
        begin(w, from, to, w->initial_h, s->has[1] != 0, LINE_H);
        if (GATES == 4) {
            begin(w, from, to, w->initial_c, s->has[2] != 0, LINE_C);
        }
    } else if (phase + 1 == phases_of(s)) {
        end(w, from, to, w->last_h, LINE_H + (int)(s->steps % 2));
        if (GATES == 4) {
            end(w, from, to, w->last_c, LINE_C);
        }
    } else {
        take_steps(w, phase, from, to);
    }
}

// ---- teams ----

#if KILN_TEAM

// The driver starts work-items when it has threads for them, and nothing says that members ever run
// at the same time. So a share belongs to a member, but in each phase to whoever claims it first: a
// member that has waited for a while takes what nobody has begun. Whoever waits then waits for a
// member that is at work. Signs of each share: of how many phases it was claimed, and of how many it
// is done.
typedef struct team {
    volatile __global int *signs;
    long members;
    int patience; ///< looks before others' shares are claimed
} team;

enum { PATIENCE = 100 };

INLINE bool take_share(walk *w, const team *t, long phase, long share)
{
    volatile __global int *claimed = t->signs + 2 * share * SIGN;
    const long blocks = w->s->blocks;
    if (*claimed != (int)phase || atomic_cmpxchg(claimed, (int)phase, (int)phase + 1) != phase) {
        return false;
    }
    take_phase(w, phase, share * blocks / t->members, (share + 1) * blocks / t->members);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    claimed[SIGN] = (int)phase + 1;
    return true;
}

INLINE bool is_done(const team *t, long phase)
{
    bool done = true;
    for (long i = 0; i < t->members && done; i++) {
        done = t->signs[(2 * i + 1) * SIGN] > (int)phase;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return done;
}

/* Returns when all shares of a phase are done. */
INLINE void finish_phase(walk *w, team *t, long phase)
{
    bool helped = false;
    for (int looks = 0; !is_done(t, phase); looks++) {
        for (long i = 0; i < t->members && looks >= t->patience; i++) {
            helped = take_share(w, t, phase, i) || helped;
        }
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
    }
    t->patience = helped ? 0 : PATIENCE; // who was not there may not be there for long
}

INLINE void take_phases(walk *w, volatile __global int *signs, long number, long own)
{
    team t = {.members = w->s->members, .patience = PATIENCE};
    t.signs = signs + number * 2 * t.members * SIGN;
    for (long phase = 0; phase < phases_of(w->s); phase++) {
        take_share(w, &t, phase, own);
        finish_phase(w, &t, phase);
    }
}

#else

INLINE void take_phases(walk *w, volatile __global int *signs, long number, long own)
{
    for (long phase = 0; phase < phases_of(w->s); phase++) {
        take_phase(w, phase, 0, w->s->blocks);
    }
}

#endif

__kernel void kiln_recurrent_steps(kiln_recurrent_shape s, __global float *values,
                                   __global float *last_h, __global float *last_c,
                                   __global float *state, __global int *signs,
                                   __global const float *projected, __global const float *packed,
                                   __global const float *bias, __global const float *initial_h,
                                   __global const float *initial_c)
{
    const long number = (long)get_global_id(0) % s.teams;
    walk w = {.s = &s, .state = state, .packed = packed, .bias = bias, .values = values};
    w.direction = number % s.directions;
    w.first = number / s.directions * s.batch_each;
    w.last = min(w.first + s.batch_each, s.batch);
    w.projected = projected + w.direction * s.steps * s.batch * s.blocks * GATES * UNITS;
    w.initial_h = initial_h + s.start[4];
    w.initial_c = initial_c + s.start[5];
    w.last_h = last_h + s.start[7];
    w.last_c = last_c + s.start[8];
    take_phases(&w, signs, number, (long)get_global_id(0) / s.teams);
}
