// SPDX-License-Identifier: MIT OR Apache-2.0
// D += A * B of 16x32 bytes by 32x8 bytes with a sign, by 32 work-items, as PTX has it
// (mma.m16n8k32). Work-item 4 g + q has in A rows g and g + 8, in B column g, and there the bytes
// 4 q to 4 q + 3 and 16 more; in D rows g (x, y) and g + 8 (z, w) of the columns 2 q and 2 q + 1.
// KILN_PLAIN: the same without PTX, for tests. QUANT_MMA_LENT is local memory of GROUP work-items
// that it needs.

#ifdef KILN_PLAIN
#define QUANT_MMA_LENT __local uint lent[GROUP * 6];
#define QUANT_MMA(d, a0, a1, a2, a3, b0, b1)                                                       \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    vstore4((uint4)(a0, a1, a2, a3), 0, lent + item * 6);                                          \
    vstore2((uint2)(b0, b1), 0, lent + item * 6 + 4);                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    d += plain_mma(lent + item / 32 * 32 * 6, item % 32);

static inline int plain_dot(uint a, uint b)
{
    const char4 x = as_char4(a), y = as_char4(b);
    return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

static inline int plain_element(__local const uint *lent, int row, int column)
{
    int sum = 0;
    for (int q = 0; q < 4; q++) {
        __local const uint *a = lent + (row % 8 * 4 + q) * 6 + row / 8;
        __local const uint *b = lent + (column * 4 + q) * 6 + 4;
        sum += plain_dot(a[0], b[0]) + plain_dot(a[2], b[1]);
    }
    return sum;
}

static inline int4 plain_mma(__local const uint *lent, int lane)
{
    const int row = lane / 4, column = lane % 4 * 2;
    return (int4)(plain_element(lent, row, column), plain_element(lent, row, column + 1),
                  plain_element(lent, row + 8, column), plain_element(lent, row + 8, column + 1));
}
#else
#define QUANT_MMA_LENT
#define QUANT_MMA(d, a0, a1, a2, a3, b0, b1)                                                       \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "  \
                 "{%8,%9}, {%0,%1,%2,%3};"                                                         \
                 : "+r"(d.x), "+r"(d.y), "+r"(d.z), "+r"(d.w)                                      \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
