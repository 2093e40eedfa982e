// SPDX-License-Identifier: MIT OR Apache-2.0
// The direct form: a work-item sums its tiles from operands that no launch has packed. Where an
// operand lies so that whole vectors of it can be read, it is read there; otherwise the work-item
// copies what it needs into memory that stays in its cache. Both ways add the same numbers in the
// same order.
#include "matmul_internal.h"

enum { SAME_SET = 4096 }; ///< lines as many bytes apart, a page, are in one set of the first cache

/// Defines LIES, whether the tile whose first row it gets is read where it lies.
static void emit_left_lies(kf_text *text, const mm_plan *plan)
{
    char row[32];
    mm_left_row_name(plan, row);
    kf_text_addf(text,
                 "    const int in_place = %s * (long)sizeof(%s) %% %u != 0;\n"
                 "#define LIES(row) (in_place && (m - (row) >= %u || (m - (row)) %% %u == 0))\n",
                 row, plan->type, (unsigned)SAME_SET, plan->rows, mm_fewest_rows(plan));
}

/// Declares `right_lies`, whether the panels of the work-item are read where they lie: vectors of
/// lines that begin elsewhere would be in two.
static void emit_right_lies(kf_text *text, const mm_plan *plan)
{
    char line[32];
    mm_stride_name(plan, plan->block->right.source, plan->block->right.inner, line);
    kf_text_addf(text,
                 "    const long line_bytes = %s * (long)sizeof(%s);\n"
                 "    const int right_lies = (first_panel + wide) * %u <= n && line_bytes < %u && "
                 "line_bytes %% %u == 0;\n",
                 line, plan->type, plan->columns, (unsigned)SAME_SET, (unsigned)MM_CACHE_LINE);
}

/// Which operand is read where it lies, and IN_PLACE, a pointer to global memory as one to private
/// memory: on a processor both are one.
static void emit_in_place(kf_text *text, const mm_plan *plan)
{
    kf_text_add(text, "#ifdef POCL_DEVICE_ADDRESS_BITS\n");
    if (mm_left_in_place(plan)) {
        emit_left_lies(text, plan);
    }
    if (mm_right_in_place(plan)) {
        emit_right_lies(text, plan);
    }
    kf_text_addf(text,
                 "#define IN_PLACE(p) ((const %s *)(size_t)(p))\n"
                 "#else\n"
                 "    const int right_lies = 0;\n"
                 "#define LIES(row) 0\n"
                 "#define IN_PLACE(p) left\n"
                 "#endif\n",
                 plan->type);
}

/// Copies the rows of the work-item's tiles, but those that are read where they lie.
static void emit_left_tiles(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "        for (int number = 0; number < down; number++) {\n"
                 "    const long tile = first_tile + number;\n"
                 "    %s *to = left + number * %u;\n",
                 plan->type, plan->rows * plan->depth);
    if (mm_left_in_place(plan)) {
        kf_text_addf(text, "    if (LIES(tile * %u)) {\n        continue;\n    }\n", plan->rows);
    }
    mm_emit_left_rows(text, plan);
    kf_text_add(text, "        }\n");
}

/// Declares `tile`, where tile i of the work-item is, and `step`, from one of its rows to the next.
static void emit_left_tile(kf_text *text, const mm_plan *plan)
{
    char row[32];
    kf_text_addf(text,
                 "            const %s *tile = left + i * %u;\n"
                 "            long step = %u;\n",
                 plan->type, plan->rows * plan->depth, plan->depth);
    if (mm_left_in_place(plan)) {
        mm_left_row_name(plan, row);
        kf_text_addf(text,
                     "            const long row0 = (first_tile + i) * %u;\n"
                     "            if (LIES(row0)) {\n"
                     "                tile = IN_PLACE(a + row0 * %s + first);\n"
                     "                step = %s;\n"
                     "            }\n",
                     plan->rows, row, row);
    }
}

/// Copies the terms of the work-item's panels, unless they are read where they lie.
static void emit_right(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "        %s{\n"
                 "    const long panel = first_panel, far = %u;\n"
                 "    %s *to = right;\n",
                 mm_right_in_place(plan) ? "if (!right_lies) " : "", plan->columns * plan->depth,
                 plan->type);
    mm_emit_right_panels(text, plan);
    kf_text_add(text, "        }\n");
}

/// Declares `panel`, where panel p of the work-item is, and `line`, from one of its terms to the
/// next.
static void emit_right_panel(kf_text *text, const mm_plan *plan)
{
    char line[32];
    kf_text_addf(text,
                 "            const %s *panel = right + p * %u;\n"
                 "            long line = %u;\n",
                 plan->type, plan->columns * plan->depth, plan->columns);
    if (mm_right_in_place(plan)) {
        mm_stride_name(plan, plan->block->right.source, plan->block->right.inner, line);
        kf_text_addf(text,
                     "            if (right_lies) {\n"
                     "                panel = IN_PLACE(b + first * (long)%s + "
                     "(first_panel + p) * %u);\n"
                     "                line = %s;\n"
                     "            }\n",
                     line, plan->columns, line);
    }
}

// ---- the next batch ----

static uint32_t bytes_of(const mm_plan *plan, uint32_t value)
{
    return kf_dtype_of(plan->block->chain.values[value].dtype).bytes;
}

static uint32_t first_output(const mm_plan *plan)
{
    const kf_chain *chain = &plan->block->chain;
    uint32_t value = 0;
    while (value < chain->n_values && !kf_chain_is_output(&chain->values[value])) {
        value++;
    }
    return value;
}

/// The bytes of the next batch are asked for in the order of the tiles, an equal `share` with each
/// term: the left operand's, which end at `of_a`, the right one's and the result's. Behind the last
/// batch there are none.
static void emit_ahead(kf_text *text, const mm_plan *plan)
{
    const mm_block *block = plan->block;
    kf_text_addf(
        text,
        "    const long of_a = (long)m * k * %u, of_b = of_a + (long)k * n * %u;\n"
        "    const long of_all = of_b + (long)m * n * %u;\n"
        "    const int share = batch + 1 < (long)get_global_size(2)\n"
        "                        ? (int)min(of_all / max(tiles * panels * k, (long)1) + 1, "
        "(long)%u)\n"
        "                        : 0;\n",
        bytes_of(plan, block->left.source), bytes_of(plan, block->right.source),
        bytes_of(plan, first_output(plan)), (unsigned)MM_CACHE_LINE);
}

/// Declares `soon`, what tile i of panel p asks for first.
static void emit_soon(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(
        text,
        "            const long at_soon =\n"
        "                (((first_panel + p) * tiles + first_tile + i) * k + first) * share;\n"
        "            __global const char *soon =\n"
        "                share == 0       ? (__global const char *)a\n"
        "                : at_soon < of_a ? (__global const char *)a + of_a + at_soon\n"
        "                : at_soon < of_b ? (__global const char *)b + of_b - of_a - of_a + "
        "at_soon\n"
        "                                 : (__global const char *)(out%u + (batch + 1) * m "
        "* n) - of_b + at_soon;\n",
        first_output(plan));
}

void mm_emit_direct_sums(kf_text *text, const mm_plan *plan)
{
    uint32_t panel = plan->columns * plan->depth, tile = plan->rows * plan->depth;
    mm_emit_tiles(text, plan);
    emit_in_place(text, plan);
    kf_text_addf(text,
                 "    %s right[%u] __attribute__((aligned(64)));\n"
                 "    %s left[%u] __attribute__((aligned(64)));\n",
                 plan->type, plan->across * panel, plan->type, plan->chunk * tile);
    if (mm_asks_ahead(plan)) {
        emit_ahead(text, plan);
    }
    mm_emit_parts(text, plan);
    emit_right(text, plan);
    emit_left_tiles(text, plan);
    kf_text_add(text, "        for (int p = 0; p < wide; p++) {\n");
    emit_right_panel(text, plan);
    kf_text_addf(text,
                 "            for (int i = 0; i < down; i++) {\n"
                 "            vec *mine = sums + (once ? 0 : (p * down + i) * %u);\n",
                 plan->rows * plan->columns / plan->lanes);
    emit_left_tile(text, plan);
    if (mm_asks_ahead(plan)) {
        emit_soon(text, plan);
    }
    mm_emit_tile_call(
        text, plan,
        mm_asks_ahead(plan)
            ? "tile, panel, last - first, first == from, mine, step, line, soon, share"
            : "tile, panel, last - first, first == from, mine, step, line");
    mm_emit_tile_end(text, plan);
    kf_text_add(text, "            }\n        }\n    }\n}\n");
}
