// SPDX-License-Identifier: MIT OR Apache-2.0
// How much a work-item of each step does: the tile of a convolution, whose sums stay in registers,
// and the rows of an image.
#include "convolution_form.h"

enum {
    ITEMS_PER_UNIT = 4, ///< work-items, as PoCL gives half of them to the first thread
    MOST_TILE_ROWS = 8,
    MOST_TILE_BLOCKS = 4,
    LATENCY = 8, ///< vectors of sums that must be under way
    FIRST_CACHE = 32768, ///< bytes
    HELD_SUMS = 64, ///< places times blocks of tiles that are held
    DEPTHWISE_COLUMNS = 7
};

/// Sixteenths of a cycle of one input channel and one element of the window over the whole image,
/// about: a multiplication each, two loads of inputs at once, two cycles for weights, which come
/// from the second cache. Among equals the fewest loads, as some processors multiply twice in a
/// cycle.
static int64_t tile_cost(const cv_value *out, int32_t blocks, int32_t rows, int32_t columns,
                         int32_t together, uint32_t of_bytes, const cv_device *device)
{
    int32_t latency = device->is_wide ? LATENCY : LATENCY / 2;
    int64_t tiles =
        (int64_t)(out->height / rows) * cv_share(out->width, columns) * (blocks / together);
    int32_t sums = rows * columns * together;
    int32_t loads = 2 * together + rows * columns / (of_bytes ? 1 : 2);
    return tiles * (16 * (cv_most(cv_most(sums, loads), latency) + 1) + loads);
}

/// Sums of a tile of so many places and blocks that fit the registers, by places.
static int32_t most_places(const cv_plan *plan, const cv_step *step, const cv_device *device,
                           int32_t together)
{
    int32_t registers = (int32_t)device->registers;
    if (!plan->of_bytes[step->op]) { // where a sum takes two registers, so do weights
        return cv_most((device->is_wide ? registers : registers + 1 - together) / together, 1);
    }
    int32_t sums = together + (cv_plan_vectors(plan, step->op) > 3); // and one of the window
    int32_t room = device->is_wide ? 31 - together : registers;
    return cv_most(room, sums) / sums;
}

/// Would these many blocks of a line, which is cut by blocks alone, leave a unit without work?
static uint32_t is_narrow(const cv_value *out, int32_t shares, const cv_device *device)
{
    return out->rank == 3 && (uint32_t)shares < device->units;
}

static void choose_tile(const cv_plan *plan, cv_step *step, const cv_device *device)
{
    const cv_value *out = &plan->region->values[step->output];
    int32_t blocks = cv_plan_blocks(plan, step->output);
    int32_t of_group = blocks / plan->region->ops[step->op].groups;
    int64_t best = INT64_MAX;
    for (int32_t together = 1; together <= MOST_TILE_BLOCKS; together *= 2) {
        for (int32_t rows = 1; rows <= cv_least(out->height, MOST_TILE_ROWS); rows++) {
            int32_t columns =
                cv_least(most_places(plan, step, device, together) / rows, out->width);
            if (of_group % together != 0 || out->height % rows != 0 || columns < 1 ||
                (together > 1 && is_narrow(out, blocks / together, device))) {
                continue;
            }
            columns = cv_share(out->width, cv_share(out->width, columns)); // as equal as can be
            int64_t cost =
                tile_cost(out, blocks, rows, columns, together, plan->of_bytes[step->op], device);
            if (cost < best) {
                best = cost;
                step->tile_rows = rows;
                step->tile_columns = columns;
                step->tile_blocks = together;
            }
        }
    }
}

/// Tiles whose sums a work-item keeps, so that a part of the weights is read for all of them once
/// where they are larger than the first cache. (Not seen where registers are wide.)
static int32_t choose_held(const cv_plan *plan, const cv_step *step, const cv_device *device)
{
    const cv_window *w = &plan->region->ops[step->op].window;
    const cv_value *out = &plan->region->values[step->output];
    int64_t bytes = (int64_t)cv_plan_depth(plan, step) * plan->places[step->input].lanes *
                    w->lengths[0] * w->lengths[1] * step->tile_blocks * CV_LANES * 4;
    int32_t each = step->tile_rows * step->tile_columns * step->tile_blocks;
    int32_t tiles = step->rows / step->tile_rows * cv_share(out->width, step->tile_columns);
    uint32_t pays = !device->is_wide && !plan->of_bytes[step->op] && bytes > FIRST_CACHE;
    return pays ? cv_most(cv_least(HELD_SUMS / each, tiles), 1) : 1;
}

/// Of a transposed convolution: sums in registers are of every stride-th column, of a block or two.
static void choose_turned(const cv_plan *plan, cv_step *step, const cv_device *device)
{
    int32_t width = plan->region->values[step->output].width;
    step->tile_blocks = cv_plan_blocks(plan, step->output) % 2 == 0 ? 2 : 1;
    int32_t most = (int32_t)device->registers / step->tile_blocks;
    most = cv_least(most, width / plan->region->ops[step->op].window.strides[1]);
    step->tile_columns = cv_most(most, 1);
}

static void cut_work(const cv_plan *plan, cv_step *step, const cv_device *device)
{
    const cv_value *out = &plan->region->values[step->output];
    int32_t groups = cv_plan_blocks(plan, step->output) / step->tile_blocks;
    int32_t tiles = cv_share(out->height, step->tile_rows);
    int32_t chunks = cv_share((int64_t)ITEMS_PER_UNIT * device->units, groups);
    chunks = cv_most(cv_least(chunks, tiles), 1);
    step->rows = cv_share(tiles, chunks) * step->tile_rows;
    step->chunks = cv_share(out->height, step->rows);
}

/// Launches follow one another, so what their work-items keep has one place.
static void add_scratch(cv_plan *plan)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const cv_step *step = &plan->steps[i];
        if (step->is_winograd) {
            int64_t bytes = cv_winograd_floats(plan, step) * step->chunks * step->splits *
                            (int64_t)sizeof(float);
            most = bytes > most ? bytes : most;
        }
    }
    if (most > 0) {
        plan->scratch = plan->n_slots++;
        plan->slot_bytes[plan->scratch] = most;
    }
}

void cv_blocks_cut(cv_plan *plan, const cv_device *device)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        cv_step *step = &plan->steps[i];
        const cv_value *out = &plan->region->values[step->output];
        step->tile_rows = step->tile_columns = step->tile_blocks = 1;
        if (step->is_winograd) {
            cv_winograd_cut(plan, step);
        } else if (step->kind == CV_TURNED) {
            choose_turned(plan, step, device);
        } else if (step->kind == CV_CONV) {
            choose_tile(plan, step, device);
        } else if (step->kind == CV_DEPTHWISE || step->kind == CV_GROUPED) {
            step->tile_columns = cv_share(out->width, cv_share(out->width, DEPTHWISE_COLUMNS));
        }
        if (!step->is_winograd) {
            cut_work(plan, step, device);
        }
        if (step->kind == CV_CONV && !step->is_winograd) {
            step->held = choose_held(plan, step, device);
        }
        if (step->n_vectors > 0) {
            step->pack = (uint16_t)plan->n_packs++;
        }
    }
    add_scratch(plan);
}
