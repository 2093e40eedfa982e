// SPDX-License-Identifier: MIT OR Apache-2.0
// Tiles in local memory, on item shapes. 256 work-items have 8x8 sums each (4x4 of a small tile)
// and take turns at three things for each step of the sum: they read their vectors of the next step
// from memory, add the terms of this one from local memory, and put the next ones into its other
// half, so that a step has one barrier. Where both halves are too large there is one, and two
// barriers.
//
// A tile whose lines and steps are all there, and aligned, has a loop of its own, without a
// question. In the other loop a step that is there is read by whole vectors; another one by vectors
// that know how many of their elements are there.
#include "matmul_internal.h"

enum {
    GROUP = 256,
    GROUP_SIDE = 16,
    LINE = 32, ///< work-items that a GPU does at once: 4 below each other, 8 side by side
    UNROLL_WHOLE = 8, ///< terms of a step: all of a big tile's take 126 registers of an H200
    UNROLL_SOME = 2 ///< with what is asked of edges, all take 129, and 128 let two groups on a unit
};

typedef struct tile_side { ///< one operand as a tile is filled from it
    const mm_operand *operand;
    const char *base;
    const char *local;
    const char *next; ///< prefix of the vectors on their way
    const char *origin; ///< first row or column of the tile
    const char *limit; ///< m or n
    uint32_t extent;
} tile_side;

/// Elements of a line of a tile: some behind it against bank conflicts, vectors stay aligned.
static uint32_t line_of(const mm_plan *plan, uint32_t extent)
{
    return extent + plan->width;
}

static uint32_t halves(const mm_plan *plan)
{
    return plan->compute_bytes > 4 ? 1 : 2;
}

static uint32_t vectors_of(const mm_plan *plan, const tile_side *s)
{
    return s->extent * plan->depth / plan->width / GROUP;
}

/// Is the operand read along the sum, where it lies dense? Then a tile is turned as it is stored.
static uint32_t is_turned(const mm_plan *plan, const tile_side *s)
{
    return mm_is_unit(plan->block, s->operand->source, s->operand->inner);
}

static kf_dtype type_of(const mm_plan *plan, const tile_side *s)
{
    return kf_dtype_of(plan->block->chain.values[s->operand->source].dtype);
}

/// Names of the strides from line to line and from term to term.
static void strides_of(const mm_plan *plan, const tile_side *s, char outer[32], char inner[32])
{
    mm_stride_name(plan, s->operand->source, s->operand->outer, outer);
    mm_stride_name(plan, s->operand->source, s->operand->inner, inner);
    if (plan->fold && s->operand == &plan->block->left) {
        snprintf(outer, 32, "(long)k");
    }
}

/// Do the elements of a vector lie one behind the other?
static uint32_t is_dense(const mm_plan *plan, const tile_side *s)
{
    char outer[32], inner[32];
    strides_of(plan, s, outer, inner);
    return is_turned(plan, s) || strcmp(outer, "1") == 0;
}

// ---- from memory ----

/// Lines i and terms q of the u-th vector of a work-item, and where step 0 has it.
static void emit_where(kf_text *text, const mm_plan *plan, const tile_side *s, uint32_t u)
{
    uint32_t w = plan->width, e = is_turned(plan, s) ? plan->depth / w : s->extent / w;
    char outer[32], inner[32];
    strides_of(plan, s, outer, inner);
    if (is_turned(plan, s)) {
        kf_text_addf(text,
                     "    const int %s_i%u = (item + %u) / %u, %s_q%u = (item + %u) %% %u * %u;\n",
                     s->local, u, u * GROUP, e, s->local, u, u * GROUP, e, w);
    } else {
        kf_text_addf(text,
                     "    const int %s_i%u = (item + %u) %% %u * %u, %s_q%u = (item + %u) / %u;\n",
                     s->local, u, u * GROUP, e, w, s->local, u, u * GROUP, e);
    }
    kf_text_addf(text,
                 "    __global const %s *%s_p%u = %s + (%s + %s_i%u) * %s + %s_q%u * (long)%s;\n",
                 type_of(plan, s).storage, s->local, u, s->base, s->origin, s->local, u, outer,
                 s->local, u, inner);
}

/// Declares whether the tile's lines of this operand are all there, and vectors aligned.
static void emit_whole(kf_text *text, const mm_plan *plan, const tile_side *s)
{
    char outer[32], inner[32];
    uint32_t bytes = type_of(plan, s).bytes;
    strides_of(plan, s, outer, inner);
    kf_text_addf(text,
                 "    const int %s_whole = %s + %u <= %s && ((ulong)%s | (ulong)(%s * %u)) %% "
                 "%u == 0;\n",
                 s->local, s->origin, s->extent, s->limit, s->base,
                 is_turned(plan, s) ? outer : inner, bytes, bytes * plan->width);
}

/// Reads one vector of the step that begins at term s, all of whose elements are there.
static void emit_fetch_whole(kf_text *text, const mm_plan *plan, const tile_side *s, uint32_t u)
{
    char outer[32], inner[32];
    kf_dtype type = type_of(plan, s);
    strides_of(plan, s, outer, inner);
    kf_text_addf(text,
                 "            {\n"
                 "            __global const %s *p = %s_p%u + s * (long)%s;\n",
                 type.storage, s->local, u, inner);
    if (type.bytes >= 4 && strcmp(type.storage, type.compute) == 0) {
        kf_text_addf(text, "            const %s%u v%u = *(__global const %s%u *)p;\n",
                     type.compute, plan->width, s->operand->source, type.storage, plan->width);
        mm_emit_prologue(text, plan, s->operand, "            ");
    } else {
        mm_emit_load(text, plan, s->operand, NULL, NULL, "            ");
    }
    kf_text_addf(text, "            %s%u = v%u;\n            }\n", s->next, u, s->operand->value);
}

/// Reads one vector of the step that begins at term s; what lies past the end of the sum is 0.
static void emit_fetch_some(kf_text *text, const mm_plan *plan, const tile_side *s, uint32_t u)
{
    uint32_t w = plan->width, turned = is_turned(plan, s);
    char outer[32], inner[32];
    strides_of(plan, s, outer, inner);
    kf_text_addf(text,
                 "            {\n"
                 "            const int i = %s_i%u, q = %s_q%u;\n"
                 "            __global const %s *p = %s_p%u + s * (long)%s;\n",
                 s->local, u, s->local, u, type_of(plan, s).storage, s->local, u, inner);
    if (turned) {
        kf_text_addf(
            text,
            "            const int count = %s + i < %s ? max(min(to_term - s - q, %u), 0) : "
            "0;\n",
            s->origin, s->limit, w);
    } else {
        kf_text_addf(text,
                     "            const int count = s + q < to_term ? (int)max(min(%s - %s - i, "
                     "(long)%u), (long)0) : 0;\n",
                     s->limit, s->origin, w);
    }
    mm_emit_load(text, plan, s->operand, is_dense(plan, s) ? NULL : outer, "count", "            ");
    kf_text_addf(text, "            %s%u = (%s%u)(", s->next, u, plan->type, w);
    for (uint32_t i = 0; i < w; i++) { // along the lines all lanes are of one term
        kf_text_addf(text, "%s%u < count ? v%u.s%u : 0", i == 0 ? "" : ", ", turned ? i : 0,
                     s->operand->value, i);
    }
    kf_text_add(text, ");\n            }\n");
}

/// Reads what the work-item has of the step that begins at term s; `all`: it is known to be there.
static void emit_fetches(kf_text *text, const mm_plan *plan, const tile_side *sides, uint32_t all)
{
    for (uint32_t k = 0; k < 2; k++) {
        const tile_side *s = &sides[k];
        if (!all && is_dense(plan, s)) {
            kf_text_addf(text, "        if (%s_whole && s + %u <= to_term) {\n", s->local,
                         plan->depth);
        }
        for (uint32_t u = 0; u < vectors_of(plan, s) && is_dense(plan, s); u++) {
            emit_fetch_whole(text, plan, s, u);
        }
        if (all) {
            continue;
        }
        kf_text_add(text, is_dense(plan, s) ? "        } else {\n" : "        {\n");
        for (uint32_t u = 0; u < vectors_of(plan, s); u++) {
            emit_fetch_some(text, plan, s, u);
        }
        kf_text_add(text, "        }\n");
    }
}

// ---- into local memory, and from it ----

/// Puts what was read into the half `to` of a tile.
static void emit_keep(kf_text *text, const mm_plan *plan, const tile_side *s, const char *to)
{
    uint32_t w = plan->width, line = line_of(plan, s->extent), half = line * plan->depth;
    for (uint32_t u = 0; u < vectors_of(plan, s); u++) {
        if (!is_turned(plan, s)) {
            kf_text_addf(
                text, "        *(__local %s%u *)(%s + %s * %u + %s_q%u * %u + %s_i%u) = %s%u;\n",
                plan->type, w, s->local, to, half, s->local, u, line, s->local, u, s->next, u);
            continue;
        }
        for (uint32_t i = 0; i < w; i++) {
            kf_text_addf(text, "        %s[%s * %u + (%s_q%u + %u) * %u + %s_i%u] = %s%u.s%u;\n",
                         s->local, to, half, s->local, u, i, line, s->local, u, s->next, u, i);
        }
    }
}

static void emit_keeps(kf_text *text, const mm_plan *plan, const tile_side *sides, const char *to)
{
    emit_keep(text, plan, &sides[0], to);
    emit_keep(text, plan, &sides[1], to);
}

/// Adds the terms of the half `at`, `unroll` of them at a time.
static void emit_item_steps(kf_text *text, const mm_plan *plan, uint32_t unroll)
{
    uint32_t w = plan->width, per_item = plan->rows / GROUP_SIDE, vectors = per_item / w;
    uint32_t line = line_of(plan, plan->rows);
    kf_text_addf(text,
                 "        __local const %s *from_a = tile_a + at * %u + ty * %u;\n"
                 "        __local const %s *from_b = tile_b + at * %u + tx * %u;\n"
                 "#pragma unroll %u\n"
                 "        for (int q = 0; q < %u; q++) {\n",
                 plan->type, line * plan->depth, w, plan->type, line * plan->depth, w, unroll,
                 plan->depth);
    for (uint32_t r = 0; r < vectors; r++) {
        kf_text_addf(
            text,
            "            const %s%u x%u = *(__local const %s%u *)(from_a + q * %u + %u);\n"
            "            const %s%u y%u = *(__local const %s%u *)(from_b + q * %u + %u);\n",
            plan->type, w, r, plan->type, w, line, r * GROUP_SIDE * w, plan->type, w, r, plan->type,
            w, line, r * GROUP_SIDE * w);
    }
    for (uint32_t i = 0; i < per_item; i++) {
        for (uint32_t j = 0; j < vectors; j++) {
            kf_text_addf(text, "            c%u_%u = MULADD((%s%u)(x%u.s%u), y%u, c%u_%u);\n", i, j,
                         plan->type, w, i / w, i % w, j, i, j);
        }
    }
    kf_text_add(text, "        }\n");
}

// ---- the kernel ----

static void emit_item_end(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width, per_item = plan->rows / GROUP_SIDE;
    for (uint32_t i = 0; i < per_item; i++) {
        for (uint32_t j = 0; j < per_item / w; j++) {
            kf_text_addf(
                text,
                "    {\n"
                "        const long row = row0 + %u + ty * %u + %u, col = col0 + %u + tx * "
                "%u;\n"
                "        const int count = (int)min(n - col, (long)%u);\n"
                "        if (row < m && count > 0) {\n"
                "            const %s%u sum = c%u_%u;\n",
                i / w * GROUP_SIDE * w, w, i % w, j * GROUP_SIDE * w, w, w, plan->type, w, i, j);
            mm_emit_finish(text, plan, MM_PRODUCT, "            ");
            kf_text_add(text, "        }\n    }\n");
        }
    }
    kf_text_add(text, "}\n");
}

static void emit_item_start(kf_text *text, const mm_plan *plan, const tile_side *sides)
{
    uint32_t w = plan->width, per_item = plan->rows / GROUP_SIDE;
    uint32_t elements = line_of(plan, plan->rows) * plan->depth * halves(plan);
    kf_text_addf(text,
                 "    __local %s tile_a[%u] __attribute__((aligned(%u)));\n"
                 "    __local %s tile_b[%u] __attribute__((aligned(%u)));\n"
                 "    const int item = get_local_id(1) * %u + get_local_id(0);\n"
                 "    const int tx = item / %u %% 2 * 8 + item %% 8;\n"
                 "    const int ty = item / %u * 4 + item %% %u / 8;\n"
                 "    const long row0 = get_group_id(1) * (long)%u;\n"
                 "    const long col0 = get_group_id(0) * (long)%u;\n",
                 plan->type, elements, w * plan->compute_bytes, plan->type, elements,
                 w * plan->compute_bytes, GROUP_SIDE, LINE, 2 * LINE, LINE, plan->rows,
                 plan->columns);
    for (uint32_t i = 0; i < per_item; i++) {
        for (uint32_t j = 0; j < per_item / w; j++) {
            kf_text_addf(text, "    %s%u c%u_%u = (%s%u)(0);\n", plan->type, w, i, j, plan->type,
                         w);
        }
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t u = 0; u < vectors_of(plan, &sides[k]); u++) {
            emit_where(text, plan, &sides[k], u);
            kf_text_addf(text, "    %s%u %s%u;\n", plan->type, w, sides[k].next, u);
        }
        if (is_dense(plan, &sides[k])) {
            emit_whole(text, plan, &sides[k]);
        }
    }
}

/// All steps: the vectors of the next one are on their way while this one is computed.
static void emit_loop(kf_text *text, const mm_plan *plan, const tile_side *sides, uint32_t all)
{
    uint32_t two = halves(plan) == 2;
    kf_text_add(text, "    {\n        const int s = from;\n");
    emit_fetches(text, plan, sides, all);
    emit_keeps(text, plan, sides, "0");
    kf_text_addf(text,
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n    }\n"
                 "    int at = 0;\n"
                 "    for (int t = from; t < to_term; t += %u) {\n"
                 "        const int s = t + %u;\n"
                 "        if (s < to_term) {\n",
                 plan->depth, plan->depth);
    emit_fetches(text, plan, sides, all);
    kf_text_add(text, "        }\n");
    emit_item_steps(text, plan, all ? UNROLL_WHOLE : UNROLL_SOME);
    kf_text_add(text, two ? "        at = 1 - at;\n" : "        barrier(CLK_LOCAL_MEM_FENCE);\n");
    kf_text_add(text, "        if (s < to_term) {\n");
    emit_keeps(text, plan, sides, "at");
    kf_text_add(text, "        }\n        barrier(CLK_LOCAL_MEM_FENCE);\n    }\n");
}

/// A tile of whole lines and steps has a loop of its own, which asks for nothing but what is there.
void mm_emit_item_sums(kf_text *text, const mm_plan *plan)
{
    const tile_side sides[2] = {
        {&plan->block->left, "a", "tile_a", "next_a", "row0", "m", plan->rows},
        {&plan->block->right, "b", "tile_b", "next_b", "col0", "n", plan->columns}};
    uint32_t dense = is_dense(plan, &sides[0]) && is_dense(plan, &sides[1]);
    emit_item_start(text, plan, sides);
    if (dense) {
        kf_text_addf(
            text,
            "    if (tile_a_whole && tile_b_whole && to_term > from && (to_term - from) %% "
            "%u == 0) {\n",
            plan->depth);
        emit_loop(text, plan, sides, 1);
        kf_text_add(text, "    } else {\n");
    }
    emit_loop(text, plan, sides, 0);
    kf_text_add(text, dense ? "    }\n" : "");
    emit_item_end(text, plan);
}
