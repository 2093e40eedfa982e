// SPDX-License-Identifier: MIT OR Apache-2.0
// Trees of decisions. A work-item has some rows and goes down each tree with KILN_ROWS of them side
// by side: a tree stays in the cache for all its rows, and what one row waits for, another has.
//
//   KILN_A     element type of x, thresholds and weights
//   KILN_I     element type of the indices
//   KILN_ROWS  rows side by side
//   KILN_COLUMNS  0: x has none, so that only roots are leaves
//   KILN_MODE  0: sums, 1: the smallest, 2: the largest
//
// Every index is checked: columns are clamped, and a way that leads back or out has no leaf.

#include "search_args.h"

#define C K_C(KILN_A)
#define S K_S(KILN_A)
#define I K_S(KILN_I)
#define NOTHING (KILN_MODE == 0 ? (C)0 : (C)INFINITY)

static inline C combined(C so_far, C x)
{
#if KILN_MODE == 0
    return so_far + x;
#elif KILN_MODE == 1
    return isinf(so_far) || x < so_far ? x : so_far;
#else
    return isinf(so_far) || x > so_far ? x : so_far;
#endif
}

// The nodes of a work-item's trees and the last column that they may ask for.
typedef struct nodes {
    __global const S *thresholds;
    __global const I *features;
    __global const I *others;
    I count;
    I last;
} nodes;

// Takes the rows from `at` as far as they go. Of a leaf the feature is below 0 and asks for the last
// column, which changes nothing.
static inline void descend(const nodes *n, __global const S *x, const int *starts, I *at)
{
    bool moving = true;
    while (moving) {
        moving = false;
        K_UNROLLED
        for (int r = 0; r < KILN_ROWS; r++) {
            const I node = at[r];
            const I feature = n->features[node];
            const I column = (I)min((K_U(KILN_I))feature >> 1, (K_U(KILN_I))n->last);
            const C value = KILN_COLUMNS ? K_LD(KILN_A, x + starts[r] + column) : (C)0;
            const C threshold = K_LD(KILN_A, n->thresholds + node);
            const I other = n->others[node]; // asked for or not: a branch would cost more
            const bool on = (value <= threshold) | ((value != value) & ((feature & 1) != 0));
            const I next = on ? (I)(node + 1) : other;
            const bool leads = KILN_COLUMNS & (feature >= 0) & (next > node) & (next < n->count);
            at[r] = leads ? next : node;
            moving |= leads;
        }
    }
}

__kernel void kiln_trees(kiln_trees_shape s, __global S *out, __global C *sums,
                         __global const S *x, __global const S *thresholds,
                         __global const S *weights, __global const I *features,
                         __global const I *others, __global const I *roots,
                         __global const I *targets)
{
    const long first = (long)get_global_id(0) * s.each;
    const long end = min(first + s.each, s.rows);
    const nodes n = {thresholds + s.thresholds_start, features + s.features_start,
                     others + s.others_start, (I)s.nodes, (I)(s.columns - 1)};
    x += s.x_start;
    weights += s.weights_start;
    targets += s.targets_start;
    for (long i = first * s.count; i < end * s.count; i++) {
        sums[i] = NOTHING;
    }
    for (long t = 0; t < s.trees; t++) {
        const I root = roots[s.roots_start + t];
        for (long row = first; row < end && root >= 0 && root < n.count; row += KILN_ROWS) {
            int starts[KILN_ROWS];
            I at[KILN_ROWS];
            __global const S *from = x + row * s.columns;
            K_UNROLLED
            for (int r = 0; r < KILN_ROWS; r++) {
                starts[r] = (int)(min((long)r, end - 1 - row) * s.columns);
                at[r] = root;
            }
            descend(&n, from, starts, at);
            K_UNROLLED
            for (int r = 0; r < KILN_ROWS; r++) {
                const I feature = n.features[at[r]];
                const I begin = n.others[at[r]];
                const long stop = feature < 0 && row + r < end ? (long)begin - 1 - feature : 0;
                __global C *to = sums + (row + r) * s.count;
                for (long k = max(begin, (I)0); k < min(stop, s.weights); k++) {
                    const long target = targets[k];
                    if (target >= 0 && target < s.count) {
                        to[target] = combined(to[target], K_LD(KILN_A, weights + k));
                    }
                }
            }
        }
    }
    for (long i = first * s.count; i < end * s.count; i++) {
        const C value = sums[i];
        K_ST(KILN_A, out + s.out_start + i, KILN_MODE != 0 && isinf(value) ? (C)0 : value);
    }
}
