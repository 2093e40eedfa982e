// SPDX-License-Identifier: MIT OR Apache-2.0
// ctc_loss, its derivative, and det: a work-group for a sequence or a matrix, which keeps what it
// has found in scratch memory. Defines: KILN_A; KILN_I and KILN_J and KILN_K, dtypes of targets and
// of the two lengths; KILN_GROUP, items of a work-group, 1 on CPUs, which need no barriers then and
// take the states by vectors.

#define C K_C(KILN_A)

#if KILN_GROUP > 1
#define TOGETHER barrier(CLK_GLOBAL_MEM_FENCE)
#define LANE ((long)get_local_id(0))
#else
#define TOGETHER
#define LANE 0
#endif

#ifdef KILN_I

#if KILN_GROUP > 1
#define WIDE 1
#define T C
#define GET(p) (*(p))
#define PUT(p, x) (*(p) = (x))
#define PICK(no, yes, mask) ((mask) ? (yes) : (no))
#else
#define WIDE KILN_V
#define T K_V(C)
#define GET(p) K_VLD(C, p)
#define PUT(p, x) K_VST(C, p, x)
#define PICK(no, yes, mask) select((no), (yes), (mask))
#endif
#define NONE ((T)(-INFINITY))

// The ways into a state, of which there are up to three; -INFINITY stands for none.
static inline T log_sum(T a, T b, T c)
{
    const T largest = max(max(a, b), c);
    const T sum = largest + log(exp(a - largest) + exp(b - largest) + exp(c - largest));
    return PICK(sum, largest, largest == NONE);
}

static inline long bounded(long value, long most)
{
    return clamp(value, (long)0, most);
}

// A sequence. Rows of C have two places in front, so that state k - 2 can be read, and as many
// behind as vectors reach.
typedef struct sequence {
    __global const K_S(KILN_A) *x; // emissions of the first step
    long next; // from one step's to the next one's
    long live; // steps
    long states;
    long padded; // to whole vectors
    long width; // of a row
    __global int *labels;
    __global C *gate; // 1 where a path may come from two states before, else 0
    __global C *emission; // of one step
    __global C *alpha; // a row for each step
} sequence;

static inline void find_states(const sequence *s, __global const K_S(KILN_I) *targets, long classes,
                               long blank)
{
    for (long k = LANE; k < s->states; k += KILN_GROUP) {
        s->labels[k] = (int)(k % 2 == 0 ? blank : bounded((long)targets[k / 2], classes - 1));
    }
    for (long k = LANE - 2; k < s->padded + 2; k += KILN_GROUP) {
        s->gate[k] = 0;
        s->emission[k] = 0;
    }
    TOGETHER;
    for (long k = 3 + 2 * LANE; k < s->states; k += 2 * KILN_GROUP) {
        s->gate[k] = s->labels[k] != s->labels[k - 2];
    }
    TOGETHER;
}

// For each state the next one of the same label (-1: none), and whether it is the first.
static inline void find_chains(const sequence *s, __global int *chain, __global int *first)
{
    for (long k = LANE; k < s->states; k += KILN_GROUP) {
        long next = k + 1;
        long before = k - 1;
        while (next < s->states && s->labels[next] != s->labels[k]) {
            next++;
        }
        while (before >= 0 && s->labels[before] != s->labels[k]) {
            before--;
        }
        chain[k] = next < s->states ? (int)next : -1;
        first[k] = before < 0;
    }
}

// An item reads what it has written itself.
static inline void find_emissions(const sequence *s, long t)
{
    __global const K_S(KILN_A) *x = s->x + t * s->next;
    for (long k = LANE; k < s->states; k += KILN_GROUP) {
        s->emission[k] = K_LD(KILN_A, x + s->labels[k]);
    }
}

static inline void find_alpha(const sequence *s)
{
    for (long t = 0; t < s->live; t++) {
        __global C *now = s->alpha + t * s->width;
        __global const C *before = now - s->width;
        find_emissions(s, t);
        for (long k = LANE - 2; k < 0; k += KILN_GROUP) {
            now[k] = -INFINITY;
        }
        for (long k = LANE; t == 0 && k < s->padded; k += KILN_GROUP) {
            now[k] = (k < 2 ? (C)0 : (C)-INFINITY) + s->emission[k];
        }
        for (long k = LANE * WIDE; t > 0 && k < s->states; k += KILN_GROUP * WIDE) {
            const T skipped = PICK(NONE, GET(before + k - 2), GET(s->gate + k) != (T)(0));
            const T sum = log_sum(GET(before + k), GET(before + k - 1), skipped);
            PUT(now + k, sum + GET(s->emission + k));
        }
        TOGETHER;
    }
}

// The logarithm of the sum over all paths.
static inline C find_whole(const sequence *s)
{
    if (s->live == 0) {
        return s->states == 1 ? (C)0 : (C)-INFINITY;
    }
    __global const C *last = s->alpha + (s->live - 1) * s->width;
    const C a = last[s->states - 1];
    const C b = s->states > 1 ? last[s->states - 2] : (C)-INFINITY;
    const C largest = max(a, b);
    return largest == -INFINITY ? largest
                                : largest + log(exp(a - largest) + exp(b - largest));
}

// One step of what may follow each state: `now` from itself, of the step after, and the share of
// all paths that goes through each state. `ways` is scratch.
static inline void step_back(const sequence *s, long t, C whole, __global C *now,
                             __global C *ways, __global C *share)
{
    __global const C *alpha = s->alpha + t * s->width;
    if (t < s->live - 1) {
        find_emissions(s, t + 1);
        for (long k = LANE * WIDE; k < s->states; k += KILN_GROUP * WIDE) {
            PUT(ways + k, GET(now + k) + GET(s->emission + k));
        }
        TOGETHER;
    }
    for (long k = LANE * WIDE; k < s->states; k += KILN_GROUP * WIDE) {
        if (t < s->live - 1) {
            const T skipped = PICK(NONE, GET(ways + k + 2), GET(s->gate + k + 2) != (T)(0));
            PUT(now + k, log_sum(GET(ways + k), GET(ways + k + 1), skipped));
        }
        PUT(share + k, exp(GET(alpha + k) + GET(now + k) - (T)(whole)));
    }
    TOGETHER;
}

// For each sequence: rows of alpha, then gate, emission, and three of the way back; whole numbers:
// three rows.
__kernel void kiln_ctc(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in,
                       __global const K_S(KILN_A) *grad, __global const K_S(KILN_I) *targets,
                       __global const K_S(KILN_J) *lengths, __global const K_S(KILN_K) *counts,
                       __global C *paths, __global int *numbers, long out_start, long in_start,
                       long grad_start, long targets_start, long lengths_start, long counts_start,
                       long steps, long batch, long classes, long longest, long blank, long width,
                       int backward)
{
    const long n = (long)get_group_id(0);
    const long most = 2 * longest + 1;
    __global int *chain = numbers + n * 3 * most + most;
    __global int *first = chain + most;
    sequence s;
    s.x = in + in_start + n * classes;
    s.next = batch * classes;
    s.live = bounded((long)lengths[lengths_start + n], steps);
    s.states = 2 * bounded((long)counts[counts_start + n], longest) + 1;
    s.padded = (s.states + WIDE - 1) / WIDE * WIDE;
    s.width = width;
    s.labels = numbers + n * 3 * most;
    s.alpha = paths + n * (steps + 5) * width + 2;
    s.gate = s.alpha + steps * width;
    s.emission = s.gate + width;
    find_states(&s, targets + targets_start + n * longest, classes, blank);
    find_alpha(&s);
    const C whole = find_whole(&s);
    if (!backward) {
        if (LANE == 0) {
            K_ST(KILN_A, out + out_start + n, -whole);
        }
        return;
    }
    __global C *now = s.emission + width;
    __global C *ways = now + width;
    __global C *share = ways + width;
    const C factor = -K_LD(KILN_A, grad + grad_start + n);
    const C nothing = factor * 0;
    find_chains(&s, chain, first);
    for (long k = LANE; k < s.padded + 2; k += KILN_GROUP) {
        now[k] = k + 2 >= s.states && k < s.states ? (C)0 : (C)-INFINITY;
        ways[k] = -INFINITY;
    }
    TOGETHER;
    for (long t = steps - 1; t >= 0; t--) {
        __global K_S(KILN_A) *row = out + out_start + (t * batch + n) * classes;
        const bool any = t < s.live && whole != -INFINITY;
        for (long c = LANE; c < classes; c += KILN_GROUP) {
            K_ST(KILN_A, row + c, nothing);
        }
        if (t < s.live) {
            step_back(&s, t, whole, now, ways, share);
        }
        for (long k = LANE; any && k < s.states; k += KILN_GROUP) {
            C sum = 0;
            for (long i = first[k] ? k : -1; i >= 0; i = chain[i]) {
                sum += share[i];
            }
            if (first[k]) {
                K_ST(KILN_A, row + s.labels[k], factor * sum);
            }
        }
    }
}

#else

// Elimination with partial pivoting of dense matrices [n, n], copied to `work`.
__kernel void kiln_det(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in, __global C *work,
                       long out_start, long in_start, long n)
{
    const long which = (long)get_group_id(0);
    __global const K_S(KILN_A) *from = in + in_start + which * n * n;
    __global C *a = work + which * n * n;
    C result = 1;
    for (long i = LANE; i < n * n; i += KILN_GROUP) {
        a[i] = K_LD(KILN_A, from + i);
    }
    TOGETHER;
    for (long k = 0; k < n && result != 0; k++) {
        long best = k;
        for (long i = k + 1; i < n; i++) {
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        }
        const C pivot = a[best * n + k];
        result = pivot == 0 ? 0 : result * (best == k ? pivot : -pivot);
        TOGETHER;
        for (long j = k + LANE; best != k && j < n; j += KILN_GROUP) {
            const C swapped = a[best * n + j];
            a[best * n + j] = a[k * n + j];
            a[k * n + j] = swapped;
        }
        TOGETHER;
        for (long i = k + 1 + LANE; i < n; i += KILN_GROUP) {
            const C factor = a[i * n + k] / pivot;
            for (long j = k + 1; j < n; j++) {
                a[i * n + j] -= factor * a[k * n + j];
            }
        }
        TOGETHER;
    }
    if (LANE == 0) {
        K_ST(KILN_A, out + out_start + which, result);
    }
}

#endif
