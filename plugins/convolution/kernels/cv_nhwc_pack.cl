// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants of a step of 16 bits in groups, made once: vectors of one number for each channel in
// f32, then weights. A work-item makes a number of each vector, and a piece of the weights.
//
// Defines: VECTORS, PACK_VECTORS, WEIGHTS (1: as a product reads them, in panels of COLUMNS filters,
// 64 terms after 64 terms: a line of 128 bytes of each filter, whose 16-byte pieces are exchanged
// by the filter's number), TAPS.

__kernel void KERNEL(PARAMS)
{
    const int id = (int)get_global_id(0);
    if (id < blocks * 16) {
        const int o = id, block = id / 16, lane = id % 16;
        const bool is_channel = o < channels;
        PACK_VECTORS
    }
#if WEIGHTS
    if (id >= items) {
        return;
    }
    const int line = id / (steps * 8), piece = id % (steps * 8);
    ushort v[8];
    for (int i = 0; i < 8; i++) {
        const int term = piece * 8 + i, tap = term / in_channels, c = term - tap * in_channels;
        v[i] = line < channels && tap < TAPS
                   ? WEIGHT(line, ((long)line * in_channels + c) * TAPS + tap)
                   : (ushort)0;
    }
    const long tile = (long)(line / COLUMNS) * steps + piece / 8;
    __global ushort *to = (__global ushort *)(pack + (long)VECTORS * blocks * 16) +
                          tile * COLUMNS * 64 + line % COLUMNS * 64;
    STORE_PIECE(to + ((piece ^ line) & 7) * 8, vload8(0, v));
#endif
}
