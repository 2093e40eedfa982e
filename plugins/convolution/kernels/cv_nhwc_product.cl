// SPDX-License-Identifier: MIT OR Apache-2.0
// A convolution of 16 bits in groups. A work-group has 128 places of the result by COLUMNS filters,
// of all images' places one after the other. It takes 64 terms of the sums at a time through local
// memory: of each place and of each filter a line of 128 bytes, whose pieces of 16 bytes are
// exchanged by the line's number. Terms go along channels, then along the window.
//
// Defines: ITEMS, COLUMNS, TENSOR (1: on tensor cores, with SUMS, MULTIPLY, AWAIT and SETTLE, from a
// ring of STAGES tiles that a team of 128 work-items fills), FINISH.

#define A_BYTES (128 * 128)
#define STAGE_BYTES (A_BYTES + COLUMNS * 128)

// Of row `i` of those that a work-item copies: where its window begins, in numbers, and which of the
// window's elements are inside the image.
#define PLACE_OF(row, offset, mask)                                                                \
    do {                                                                                           \
        const int n = (row) / places, in_image = (row) - n * places;                               \
        const int y0 = in_image / width * sy - top, x0 = in_image % width * sx - left;             \
        offset = ((n * in_height + y0) * in_width + x0) * in_channels;                             \
        mask = 0;                                                                                  \
        for (int ky = 0, tap = 0; ky < kh && (row) < m; ky++) {                                    \
            for (int kx = 0; kx < kw; kx++, tap++) {                                               \
                const int y = y0 + ky * dy, x = x0 + kx * dx;                                      \
                mask |= y >= 0 && y < in_height && x >= 0 && x < in_width ? 1u << tap : 0u;        \
            }                                                                                      \
        }                                                                                          \
    } while (0)

// From a work-item's piece of a step to that of the next: channel `c` of element `tap`, in row `ky`
// and column `kx` of the window.
#define NEXT_TERMS(by)                                                                             \
    do {                                                                                           \
        c += (by);                                                                                 \
        while (c >= in_channels) {                                                                 \
            c -= in_channels;                                                                      \
            tap++;                                                                                 \
            if (++kx == kw) {                                                                      \
                kx = 0;                                                                            \
                ky++;                                                                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define TAP_THERE(mask) (tap < kh * kw && ((mask) >> tap & 1u) != 0)

#if TENSOR
// Until the phase of that parity is over.
#define WAIT(bar, parity)                                                                          \
    do {                                                                                           \
        uint over;                                                                                 \
        do {                                                                                       \
            asm volatile("{ .reg .pred P; mbarrier.try_wait.parity.shared.b64 P, [%1], %2; "       \
                         "selp.u32 %0, 1, 0, P; }"                                                 \
                         : "=r"(over)                                                              \
                         : "r"(bar), "r"(parity)                                                   \
                         : "memory");                                                              \
        } while (!over);                                                                           \
    } while (0)
#define ARRIVE(bar) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory")
// Start address, no leading offset, 1024 bytes from eight lines to the next, swizzle.
#define TILE_AT(at) ((ulong)(((at)&0x3ffffu) >> 4) | 1ul << 16 | 64ul << 32 | 1ul << 62)
#define TEAMS (ITEMS / 128 - 1)
#define LINE (COLUMNS + 8)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void KERNEL(PARAMS)
{
    __local uchar ring[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
    __local ulong bars[2 * STAGES];
    const int item = get_local_id(0), team = item / 128;
    const uint base = (uint)(ulong)ring, full = (uint)(ulong)bars, empty = full + 8 * STAGES;
    const int panels = (channels + COLUMNS - 1) / COLUMNS;
    const int tile = get_group_id(0) / panels, panel = get_group_id(0) % panels;
    const int steps = (kh * kw * in_channels + 63) / 64;
    if (item == 0) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full + 8 * i), "r"(129)
                         : "memory");
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(empty + 8 * i), "r"(TEAMS)
                         : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (team == TEAMS) {
        __global const uchar *b =
            (__global const uchar *)(pack + weights) + (long)panel * steps * (COLUMNS * 128);
        const int own = item % 128, piece = own % 8;
        const uint to = base + own / 8 * 128 + ((piece ^ own / 8) & 7) * 16;
        int offset[8];
        uint mask[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int row = tile * 128 + own / 8 + 16 * i;
            PLACE_OF(row, offset[i], mask[i]);
        }
        int c = 0, tap = 0, ky = 0, kx = 0;
        NEXT_TERMS(piece * 8);
        uint stage = 0, parity = 1;
        for (int s = 0; s < steps; s++, b += COLUMNS * 128) {
            const uint bar = full + 8 * stage, at = STAGE_BYTES * stage;
            const int term = (ky * dy * in_width + kx * dx) * in_channels + c;
            WAIT(empty + 8 * stage, parity);
            if (own == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar),
                             "r"(COLUMNS * 128)
                             : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1], %2, [%3];" ::"r"(base + at + A_BYTES),
                             "l"(b), "r"(COLUMNS * 128), "r"(bar)
                             : "memory");
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int there = TAP_THERE(mask[i]) ? 16 : 0;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + at +
                                                                                   2048 * i),
                             "l"(in + (there > 0 ? offset[i] + term : 0)), "r"(there)
                             : "memory");
            }
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            parity ^= stage == 0;
            NEXT_TERMS(64);
        }
    }
    if (team < TEAMS) {
        float SUMS;
        uint stage = 0, parity = 0;
        for (int s = 0; s < steps; s++) {
            WAIT(full + 8 * stage, parity);
            // what work-items wrote is for the tensor cores to read
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            const uint at = base + STAGE_BYTES * stage;
            const ulong a_tile = TILE_AT(at + team * 8192), b_tile = TILE_AT(at + A_BYTES);
            asm volatile("//@ wgmma.fence.sync.aligned;" ::: "memory");
            MULTIPLY(a_tile, b_tile, (int)(s > 0));
            asm volatile("//@ wgmma.commit_group.sync.aligned;" ::: "memory");
            AWAIT("1");
            if (s > 0 && item % 128 == 0) {
                ARRIVE(empty + 8 * (stage == 0 ? STAGES - 1 : stage - 1));
            }
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            parity ^= stage == 0;
        }
        AWAIT("0");
        asm volatile("bar.sync 1, %0;" ::"r"(TEAMS * 128) : "memory");
        __local float *own = (__local float *)ring +
                             (team * 64 + item % 128 / 32 * 16 + item % 32 / 4) * LINE +
                             item % 4 * 2;
        SETTLE(own, LINE);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < 128 * COLUMNS / 8; i += ITEMS) {
        const int row = tile * 128 + i / (COLUMNS / 8), column = i % (COLUMNS / 8) * 8;
        const int block = panel * (COLUMNS / 8) + i % (COLUMNS / 8);
        if (row >= m || block * 8 >= channels) {
            continue;
        }
        const float8 sum =
            *(__local const float8 *)((__local float *)ring + i / (COLUMNS / 8) * LINE + column);
        STORE_PIECE(out + (long)row * channels + block * 8,
                    BITS(FINISH(sum + LOAD(pack, block), row, block, places, 0)));
    }
}
#else
static inline float sum_of(float8 v)
{
    const float4 half_of = v.lo + v.hi;
    return (half_of.x + half_of.z) + (half_of.y + half_of.w);
}
#define ROWS_EACH (128 * COLUMNS / 8 / ITEMS)

// A work-item has ROWS_EACH places, and 8 filters of them.
__kernel void KERNEL(PARAMS)
{
    __local uint4 lines[STAGE_BYTES / 16];
    const int item = get_local_id(0), panels = (channels + COLUMNS - 1) / COLUMNS;
    const int tile = get_group_id(0) / panels, panel = get_group_id(0) % panels;
    const int steps = (kh * kw * in_channels + 63) / 64, piece = item % 8;
    const int across = item % (COLUMNS / 8), down = item / (COLUMNS / 8);
    __global const uint4 *b =
        (__global const uint4 *)(pack + weights) + (long)panel * steps * COLUMNS * 8;
    int offset[128 * 8 / ITEMS];
    uint mask[128 * 8 / ITEMS];
    float8 sums[ROWS_EACH];
    for (int i = 0; i < 128 * 8 / ITEMS; i++) {
        const int row = tile * 128 + item / 8 + ITEMS / 8 * i;
        PLACE_OF(row, offset[i], mask[i]);
    }
    for (int i = 0; i < ROWS_EACH; i++) {
        sums[i] = (float8)(0);
    }
    int c = 0, tap = 0, ky = 0, kx = 0;
    NEXT_TERMS(piece * 8);
    for (int s = 0; s < steps; s++, b += COLUMNS * 8) {
        const int term = (ky * dy * in_width + kx * dx) * in_channels + c;
        for (int i = 0; i < 128 * 8 / ITEMS; i++) {
            const int line = item / 8 + ITEMS / 8 * i;
            lines[line * 8 + ((piece ^ line) & 7)] =
                TAP_THERE(mask[i]) ? *(__global const uint4 *)(in + offset[i] + term) : (uint4)(0);
        }
        for (int i = item; i < COLUMNS * 8; i += ITEMS) {
            lines[128 * 8 + i] = b[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int q = 0; q < 8; q++) {
            float8 w[8]; // of filter i the terms of the piece
            for (int i = 0; i < 8; i++) {
                const int line = across * 8 + i;
                w[i] = PIECE_VALUES(lines[(128 + line) * 8 + ((q ^ line) & 7)]);
            }
            for (int i = 0; i < ROWS_EACH; i++) {
                const int line = down * ROWS_EACH + i;
                const float8 x = PIECE_VALUES(lines[line * 8 + ((q ^ line) & 7)]);
                sums[i] += (float8)(sum_of(x * w[0]), sum_of(x * w[1]), sum_of(x * w[2]),
                                    sum_of(x * w[3]), sum_of(x * w[4]), sum_of(x * w[5]),
                                    sum_of(x * w[6]), sum_of(x * w[7]));
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        NEXT_TERMS(64);
    }
    for (int i = 0; i < ROWS_EACH; i++) {
        const int row = tile * 128 + down * ROWS_EACH + i;
        const int block = panel * (COLUMNS / 8) + across;
        if (row < m && block * 8 < channels) {
            STORE_PIECE(out + (long)row * channels + block * 8,
                        BITS(FINISH(sums[i] + LOAD(pack, block), row, block, places, 0)));
        }
    }
}
#endif
