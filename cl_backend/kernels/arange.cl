// SPDX-License-Identifier: MIT OR Apache-2.0
// start + i * step. Defines: KILN_O. Floats round the product and the sum; integers wrap.

#define C K_C(KILN_O)

__kernel void kiln_arange(__global K_S(KILN_O) *out, long first, long count, long each, C start,
                          C step)
{
    const long begin = (long)get_global_id(0) * each;
    const long end = min(begin + each, count);
    for (long i = begin; i < end; i++) {
#if K_KIND(KILN_O) == 8
        const C value = start + (C)i * step;
#else
        const C value = (C)((K_U(KILN_O))start + (K_U(KILN_O))i * (K_U(KILN_O))step);
#endif
        K_ST(KILN_O, out + first + i, value);
    }
}
