// SPDX-License-Identifier: MIT OR Apache-2.0
// Elementwise operators that no step before them could take along.

__kernel void KERNEL(PARAMS)
{
    ROWS_OF_BLOCK
    for (int y = begin; y < end; y++) {
        for (int x = 0; x < width; x++) {
            const IN16 v = LOAD_IN(plane + (long)y * in_row, x);
            STORE(result + (long)y * out_row, x, FINISH(v, n, block, y, x));
        }
    }
    clear_border(result, BORDER, 16, out_row, begin, end, height, width, out_top, out_left, out_bottom,
                 out_right);
}
