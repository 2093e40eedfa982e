// SPDX-License-Identifier: MIT OR Apache-2.0
// Images one after the other along their channels. A work-item makes `rows` rows of one of `n_blocks`
// blocks from `first_block` on. The program defines SOURCE(c): sets `from` and `step` to where row 0,
// column 0 of the result's channel `c` lies and to the length of a row; `from` is NULL where there is
// none. What channels before FROM are has been written by a launch before.

__kernel void KERNEL(PARAMS)
{
    const int item = (int)get_global_id(0);
    const int chunk = item % chunks;
    const int block = first_block + item / chunks % n_blocks;
    const long n = item / chunks / n_blocks;
    const int begin = chunk * rows;
    const int end = min(begin + rows, height);
    __global OUT *result = out + n * out_batch + out_base + (long)block * out_plane;
    __global const float *lanes[16];
    int steps[16];
    bool whole = true;
#pragma unroll
    for (int lane = 0; lane < 16; lane++) {
        __global const float *from = 0;
        int step = 0;
        SOURCE(block * 16 + lane)
        lanes[lane] = from;
        steps[lane] = step;
        whole = whole && from == lanes[0] + lane && step == steps[0];
    }
    for (int y = begin; y < end; y++) {
        __global OUT *to = result + (long)y * out_row;
        if (whole) {
            for (int x = 0; x < width; x++) {
                const float16 v = LOAD_LOOSE(lanes[0] + (long)y * steps[0] + x * 16);
                STORE(to, x, FINISH(v, n, block, y, x));
            }
            continue;
        }
        for (int x = 0; x < width; x++) {
            float v[16] __attribute__((aligned(64)));
#pragma unroll
            for (int lane = 0; lane < 16; lane++) {
                v[lane] = lanes[lane] != 0 ? lanes[lane][(long)y * steps[lane] + x * 16] : 0.0f;
            }
            STORE(to, x, FINISH(*(float16 *)v, n, block, y, x));
        }
    }
    clear_border(result, BORDER, 16, out_row, begin, end, height, width, out_top, out_left,
                 out_bottom, out_right);
}
