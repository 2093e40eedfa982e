// SPDX-License-Identifier: MIT OR Apache-2.0
// ctc_loss, its derivative, and det: a work-group for a sequence or a matrix, which keeps what it
// has found in scratch memory. Defines: KILN_A; KILN_I and KILN_J and KILN_K, dtypes of targets and
// of the two lengths; KILN_GROUP, items of a work-group, 1 on CPUs, which need no barriers then.

#define C K_C(KILN_A)

#if KILN_GROUP > 1
#define TOGETHER barrier(CLK_GLOBAL_MEM_FENCE)
#define LANE ((long)get_local_id(0))
#else
#define TOGETHER
#define LANE 0
#endif

// The ways into a state, of which there are up to three; -INFINITY stands for none.
static inline C log_sum(C a, C b, C c)
{
    const C largest = max(max(a, b), c);
    return largest == -INFINITY
               ? largest
               : largest + log(exp(a - largest) + exp(b - largest) + exp(c - largest));
}

#ifdef KILN_I

static inline long bounded(long value, long most)
{
    return clamp(value, (long)0, most);
}

// Labels, and for each state the next one of the same label (-1: none) and whether it is the first.
static inline void find_states(__global const K_S(KILN_I) *targets, __global int *labels,
                               __global int *chain, __global int *first, long states, long classes,
                               long blank)
{
    for (long k = LANE; k < states; k += KILN_GROUP) {
        labels[k] = (int)(k % 2 == 0 ? blank : bounded((long)targets[k / 2], classes - 1));
    }
    TOGETHER;
    for (long k = LANE; k < states; k += KILN_GROUP) {
        long next = k + 1;
        long before = k - 1;
        while (next < states && labels[next] != labels[k]) {
            next++;
        }
        while (before >= 0 && labels[before] != labels[k]) {
            before--;
        }
        chain[k] = next < states ? (int)next : -1;
        first[k] = before < 0;
    }
    TOGETHER;
}

#define SKIPS(k) ((k) >= 2 && (k) % 2 == 1 && labels[k] != labels[(k) - 2])
#define EMISSION(t, k) K_LD(KILN_A, x + ((t)*batch + n) * classes + labels[k])

// alpha: [steps, states] for each sequence, then two rows of beta; whole numbers: three rows.
__kernel void kiln_ctc(__global K_S(KILN_A) *out, __global const K_S(KILN_A) *in,
                       __global const K_S(KILN_A) *grad, __global const K_S(KILN_I) *targets,
                       __global const K_S(KILN_J) *lengths, __global const K_S(KILN_K) *counts,
                       __global C *paths, __global int *numbers, long out_start, long in_start,
                       long grad_start, long targets_start, long lengths_start, long counts_start,
                       long steps, long batch, long classes, long longest, long blank, int backward)
{
    const long n = (long)get_group_id(0);
    const long most = 2 * longest + 1;
    const long live = bounded((long)lengths[lengths_start + n], steps);
    const long states = 2 * bounded((long)counts[counts_start + n], longest) + 1;
    __global const K_S(KILN_A) *x = in + in_start;
    __global C *alpha = paths + n * (steps + 2) * most;
    __global C *beta = alpha + steps * most;
    __global int *labels = numbers + n * 3 * most;
    __global int *chain = labels + most;
    __global int *first = chain + most;
    find_states(targets + targets_start + n * longest, labels, chain, first, states, classes, blank);
    for (long t = 0; t < live; t++) {
        __global const C *before = alpha + (t - 1) * most;
        for (long k = LANE; k < states; k += KILN_GROUP) {
            C sum = k < 2 ? 0 : -INFINITY;
            if (t > 0) {
                sum = log_sum(before[k], k > 0 ? before[k - 1] : -INFINITY,
                              SKIPS(k) ? before[k - 2] : -INFINITY);
            }
            alpha[t * most + k] = sum + EMISSION(t, k);
        }
        TOGETHER;
    }
    C whole = states == 1 ? 0 : -INFINITY;
    if (live > 0) {
        whole = alpha[(live - 1) * most + states - 1];
        whole =
            states > 1 ? log_sum(whole, alpha[(live - 1) * most + states - 2], -INFINITY) : whole;
    }
    if (!backward) {
        if (LANE == 0) {
            K_ST(KILN_A, out + out_start + n, -whole);
        }
        return;
    }
    const C factor = -K_LD(KILN_A, grad + grad_start + n);
    for (long t = steps - 1; t >= 0; t--) {
        __global K_S(KILN_A) *row = out + out_start + (t * batch + n) * classes;
        __global C *now = beta + t % 2 * most;
        __global const C *after = beta + (t + 1) % 2 * most;
        const C nothing = factor * 0;
        for (long c = LANE; c < classes; c += KILN_GROUP) {
            K_ST(KILN_A, row + c, nothing);
        }
        for (long k = LANE; t < live && k < states; k += KILN_GROUP) {
            C sum = k + 2 >= states ? 0 : -INFINITY;
            if (t < live - 1) {
                const bool skips = k + 2 < states && SKIPS(k + 2);
                sum = log_sum(after[k] + EMISSION(t + 1, k),
                              k + 1 < states ? after[k + 1] + EMISSION(t + 1, k + 1) : -INFINITY,
                              skips ? after[k + 2] + EMISSION(t + 1, k + 2) : -INFINITY);
            }
            now[k] = sum;
        }
        TOGETHER;
        for (long k = LANE; t < live && whole != -INFINITY && k < states; k += KILN_GROUP) {
            C sum = 0;
            for (long i = first[k] ? k : -1; i >= 0; i = chain[i]) {
                sum += exp(alpha[t * most + i] + now[i] - whole);
            }
            if (first[k]) {
                K_ST(KILN_A, row + labels[k], factor * sum);
            }
        }
        TOGETHER;
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
