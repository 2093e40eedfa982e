// SPDX-License-Identifier: MIT OR Apache-2.0
// Which convolutions are computed in Winograd's form, and how their tiles of 2x2 results are cut
// into work-items. Its weights are 16/9 as large, so it wants enough tiles to use each of them for.
#include "convolution_internal.h"

enum {
    LEAST_GROUP = 6, ///< tiles, whose sums and operands stay in registers
    WIDE_GROUP = 8,
    WIDE_TOGETHER = 2, ///< blocks
    MOST_ITEMS = 8, ///< work-items of each unit
    TURN_CYCLES = 4 ///< to transform 16 channels of one of 16 places
};

static int32_t tiles_of(const cv_value *out)
{
    return cv_share(out->height, 2) * cv_share(out->width, 2);
}

/// Tiles of a group: the fewest multiplications and loads of weights.
static int32_t choose_group(int32_t tiles, int32_t most)
{
    int32_t best = LEAST_GROUP;
    for (int32_t n = LEAST_GROUP; n <= most; n++) {
        if (cv_share(tiles, n) * (n + 1) < cv_share(tiles, best) * (best + 1)) {
            best = n;
        }
    }
    return best;
}

/// Cycles of the processor that has most to do, about, when each item has `rows` groups and one of
/// `splits` shares of the blocks.
static int64_t time_of(const cv_plan *plan, const cv_step *step, int32_t rows, int32_t splits)
{
    int64_t depth = cv_plan_depth(plan, step), blocks = cv_plan_blocks(plan, step->output);
    int32_t groups = cv_share(tiles_of(&plan->region->values[step->output]), step->tile_columns);
    int32_t rounds =
        cv_share((int64_t)cv_share(groups, rows) * splits, (int64_t)plan->device->units);
    int64_t each = depth * (TURN_CYCLES + CV_LANES * blocks / splits);
    return rounds * rows * each;
}

void cv_winograd_cut(const cv_plan *plan, cv_step *step)
{
    int32_t blocks = cv_plan_blocks(plan, step->output);
    int32_t tiles = tiles_of(&plan->region->values[step->output]);
    int64_t best = INT64_MAX;
    step->tile_rows = 2;
    uint32_t wide = plan->device->is_wide;
    step->tile_columns = choose_group(tiles, wide ? WIDE_GROUP : (int32_t)plan->device->registers);
    step->tile_blocks = wide ? WIDE_TOGETHER : 1;
    int32_t groups = cv_share(tiles, step->tile_columns);
    for (int32_t splits = 1; splits <= 8 && blocks % (splits * step->tile_blocks) == 0;
         splits *= 2) {
        int32_t least = cv_share(groups, cv_share(MOST_ITEMS * plan->device->units, splits));
        for (int32_t rows = least; rows <= groups; rows++) { // pieces are larger where that pays
            int64_t cost = time_of(plan, step, rows, splits);
            if (best == INT64_MAX || cost < best - best / 20) {
                best = cost;
                step->rows = rows;
                step->chunks = cv_share(groups, rows);
                step->splits = splits;
            }
        }
    }
}

int64_t cv_winograd_floats(const cv_plan *plan, const cv_step *step)
{
    int64_t numbers = (int64_t)cv_plan_depth(plan, step) + step->tile_blocks;
    return numbers * 16 * step->tile_columns * CV_LANES;
}
