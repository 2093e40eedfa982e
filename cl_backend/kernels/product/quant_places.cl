// SPDX-License-Identifier: MIT OR Apache-2.0
// Products that share a launch: their arguments, and which of them a group belongs to.
// KILN_PRODUCTS: 1, 2, 4 or 8.

#define PLACE(i) , __global float *out##i, __global const uint4 *weight##i
#if KILN_PRODUCTS == 1
#define PLACES(f) f(0)
#elif KILN_PRODUCTS == 2
#define PLACES(f) f(0) f(1)
#elif KILN_PRODUCTS == 4
#define PLACES(f) f(0) f(1) f(2) f(3)
#else
#define PLACES(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#endif
// The product that a group belongs to.
#define CHOOSE(i)                                                                                  \
    if (group >= 0 && group < s.parts[i].groups) {                                                 \
        p = s.parts[i];                                                                            \
        out = out##i;                                                                              \
        weight = weight##i;                                                                        \
        own_group = group;                                                                         \
    }                                                                                              \
    group -= s.parts[i].groups;
