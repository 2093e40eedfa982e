// SPDX-License-Identifier: MIT OR Apache-2.0
// The innermost loops of every form on block shapes. Sums have names, one for each vector of a
// tile: arrays would stay in memory (PoCL keeps them there when an index is not a constant). The
// order of addition depends on sizes and device alone.
#include "matmul_internal.h"

enum {
    UNROLL = 4, ///< terms of a tile at a time: with AVX2 a fifth of the instructions less
    DOT_VECTORS = 4, ///< summed apart, so that additions need not wait
    DOT_AHEAD = 1024, ///< elements
    ROWS_AHEAD = 8, ///< of a matrix that is walked along its rows: read at once, then asked for
    PART_ROWS_AHEAD = 16 ///< the same where the sum is in parts
};

// ---- packed tiles ----

/// One of the terms that a loop adds at a time, the `term`th of them.
static void emit_term(kf_text *text, const mm_plan *plan, uint32_t rows, uint32_t term)
{
    uint32_t vectors = plan->columns / plan->lanes, packed = plan->form == MM_FORM_PACKED;
    const char *get = plan->narrow.storage != NULL ? "GET_NARROW" : "GET";
    if (!packed && mm_asks_ahead(plan)) {
        kf_text_add(text, "        AHEAD_2(soon);\n        soon += share;\n");
    }
    for (uint32_t j = 0; j < vectors; j++) {
        if (packed) {
            kf_text_addf(text, "        const vec b%u_%u = %s(%u, b);\n", term, j, get,
                         term * vectors + j);
        } else {
            kf_text_addf(text, "        const vec b%u_%u = GET(%u, b + %u * line);\n", term, j, j,
                         term);
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        if (packed) {
            kf_text_addf(text, "        const vec a%u_%u = (vec)(a[%u]);\n", term, i,
                         term * plan->rows + i);
        } else {
            kf_text_addf(text, "        const vec a%u_%u = (vec)(a[%u * step + %u]);\n", term, i, i,
                         term);
        }
        for (uint32_t j = 0; j < vectors; j++) {
            uint32_t c = i * vectors + j;
            kf_text_addf(text, "        c%u = MULADD(a%u_%u, b%u_%u, c%u);\n", c, term, i, term, j,
                         c);
        }
    }
}

/// The loop over the terms of a tile, `unroll` at a time as long as there are so many.
static void emit_terms(kf_text *text, const mm_plan *plan, uint32_t rows, uint32_t unroll)
{
    if (plan->form == MM_FORM_PACKED) {
        kf_text_addf(text, "    for (; terms >= %u; terms -= %u, a += %u, b += %u) {\n", unroll,
                     unroll, unroll * plan->rows, unroll * plan->columns);
    } else {
        kf_text_addf(text, "    for (; terms >= %u; terms -= %u, a += %u, b += %u * line) {\n",
                     unroll, unroll, unroll, unroll);
    }
    if (plan->form == MM_FORM_PACKED && unroll > 1) {
        kf_text_add(text, "        AHEAD_2(next_a);\n        AHEAD_2(next_b);\n"
                          "        next_a += step_a;\n        next_b += step_b;\n");
    }
    for (uint32_t i = 0; i < unroll; i++) {
        emit_term(text, plan, rows, i);
    }
    kf_text_add(text, "    }\n");
}

/// Adds `terms` terms to the sums of a tile, or begins them; they are summed apart before, so that
/// rounding grows with a part's length and with the number of parts, not with all terms. In the
/// packed form also asks for what comes next, with every few terms: this call's share begins at
/// `next_a` and `next_b` of what the work-item reads next, so that it is in the second cache by
/// then. In the direct form the left tile lies row by row, `step` elements apart, and the right
/// panel term by term, `line` apart; with each term it may ask for a line of the next batch, from
/// `soon` on. Of the tile's rows only the first `rows` are summed.
static void emit_tile_function(kf_text *text, const mm_plan *plan, uint32_t rows)
{
    uint32_t vectors = plan->columns / plan->lanes, packed = plan->form == MM_FORM_PACKED;
    const char *where = packed ? "__global " : "";
    kf_text_addf(
        text,
        "static inline void tile_sums_%u(%sconst %s *a, %sconst %s *b, int terms, int begins, "
        "vec *sums, %s) {\n",
        rows, where, plan->type, where, mm_panel_type(plan),
        packed ? "__global const char *next_a, int step_a, __global const char *next_b, int step_b"
        : mm_asks_ahead(plan) ? "long step, long line, __global const char *soon, int share"
                              : "long step, long line");
    for (uint32_t i = 0; i < rows * vectors; i++) {
        kf_text_addf(text, "    vec c%u = (vec)(0);\n", i);
    }
    emit_terms(text, plan, rows, UNROLL);
    emit_terms(text, plan, rows, 1);
    for (uint32_t begins = 2; begins-- > 0;) {
        kf_text_add(text, begins ? "    if (begins) {\n" : "    } else {\n");
        for (uint32_t i = 0; i < rows * vectors; i++) {
            kf_text_addf(text, "        sums[%u] %s c%u;\n", i, begins ? "=" : "+=", i);
        }
    }
    kf_text_add(text, "    }\n}\n");
}

uint32_t mm_fewest_rows(const mm_plan *plan)
{
    return plan->rows % 3 == 0 ? plan->rows / 3 : plan->rows;
}

void mm_emit_tile_functions(kf_text *text, const mm_plan *plan)
{
    const char *where = plan->form == MM_FORM_PACKED ? "__global " : "";
    kf_text_addf(text,
                 "typedef %s%u vec;\n"
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "typedef vec near_vec __attribute__((aligned(sizeof(%s))));\n"
                 "#define GET(i, p) (((%sconst near_vec *)(p))[i])\n"
                 "#else\n"
                 "#define GET(i, p) vload%u(i, p)\n"
                 "#endif\n",
                 plan->type, plan->lanes, plan->type, where, plan->lanes);
    for (uint32_t rows = plan->rows; rows > 0; rows -= mm_fewest_rows(plan)) {
        emit_tile_function(text, plan, rows);
    }
}

void mm_emit_tile_call(kf_text *text, const mm_plan *plan, const char *arguments)
{
    uint32_t few = mm_fewest_rows(plan);
    kf_text_addf(text, "            const long there = m - (first_tile + i) * %u;\n", plan->rows);
    for (uint32_t rows = plan->rows; rows > 0; rows -= few) {
        kf_text_addf(text, "            %sif (there > %u) {\n                tile_sums_%u(%s);\n",
                     rows < plan->rows ? "} else " : "", rows - few, rows, arguments);
    }
    kf_text_add(text, "            }\n");
}

/// A tile that is visited only `once` shares the place of its sums with the others: the way of all
/// sums to the second cache and back would be as long as that of the result.
void mm_emit_tiles(kf_text *text, const mm_plan *plan)
{
    uint32_t vectors = plan->rows * plan->columns / plan->lanes;
    kf_text_addf(text,
                 "    const long tiles = (m + %u) / %u, panels = (n + %u) / %u;\n"
                 "    const long p_id = get_global_id(0), p_ids = get_global_size(0);\n"
                 "    const long t_id = get_global_id(1), t_ids = get_global_size(1);\n"
                 "    const long first_panel = p_id * panels / p_ids;\n"
                 "    const long first_tile = t_id * tiles / t_ids;\n"
                 "    const int wide = (int)((p_id + 1) * panels / p_ids - first_panel);\n"
                 "    const int down = (int)((t_id + 1) * tiles / t_ids - first_tile);\n"
                 "    const int once = %u && to_term - from <= %u;\n"
                 "    vec sums[%u];\n",
                 plan->rows - 1, plan->rows, plan->columns - 1, plan->columns,
                 mm_products(plan->block) == 1, plan->depth,
                 plan->across * plan->chunk * vectors * mm_products(plan->block));
}

/// Declares `sum`, the vector at hand of the sums that are `mine`, and where those are the last of
/// several products', `sum0` ... of the others.
static void emit_sums_at(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width, products = mm_products(plan->block);
    for (uint32_t i = 0; i < products; i++) {
        char name[16] = "", from[40] = "mine";
        if (i + 1 < products) {
            snprintf(name, sizeof(name), "%u", i);
            snprintf(from, sizeof(from), "(mine - down * %u)",
                     (products - 1 - i) * plan->rows * plan->columns / plan->lanes);
        }
        kf_text_addf(text, "                    const %s%u sum%s = ", plan->type, w, name);
        if (w == plan->lanes) {
            kf_text_addf(text, "%s[(e * %u + j) / %u];\n", from, plan->columns, w);
        } else {
            kf_text_addf(text, "vload%u(0, (const %s *)%s + e * %u + j);\n", w, plan->type, from,
                         plan->columns);
        }
    }
}

void mm_emit_tile_end(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width;
    if (mm_products(plan->block) > 1) {
        kf_text_addf(text,
                     "            if (product < %u) {\n"
                     "                continue;\n"
                     "            }\n",
                     plan->block->n_more);
    }
    kf_text_addf(text,
                 "            if (last < to_term) {\n"
                 "                continue;\n"
                 "            }\n"
                 "            const int whole = there >= %u && (first_panel + p + 1) * %u <= n;\n"
                 "            const int down_here = whole ? %u : (int)min(there, (long)%u);\n"
                 "            const int wide_here =\n"
                 "                whole ? %u : (int)min(n - (first_panel + p) * %u, (long)%u);\n"
                 "            for (int e = 0; e < down_here; e++) {\n"
                 "                const long row = (first_tile + i) * %u + e;\n"
                 "                for (int j = 0; j < wide_here; j += %u) {\n"
                 "                    const long col = (first_panel + p) * %u + j;\n"
                 "                    const int count = whole ? %u : min(wide_here - j, %u);\n",
                 plan->rows, plan->columns, plan->rows, plan->rows, plan->columns, plan->columns,
                 plan->columns, plan->rows, w, plan->columns, w, w);
    emit_sums_at(text, plan);
    mm_emit_finish(text, plan, MM_PRODUCT, "                    ");
    kf_text_add(text, "                }\n            }\n");
}

void mm_emit_parts(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "    for (int first = from; first == from || first < to_term; first += %u) {\n"
                 "        const int last = min(first + %u, to_term);\n",
                 plan->depth, plan->depth);
}

/// Opens the loop over the products, whose tiles at one place lie one behind the other in `sums`.
static void emit_products(kf_text *text, const mm_plan *plan)
{
    uint32_t products = mm_products(plan->block);
    kf_text_addf(text,
                 "        for (int q = 0; q < wide * %u; q++) {\n"
                 "            const int p = q / %u, product = q %% %u;\n"
                 "            __global const %s *b = (",
                 products, products, products, mm_panel_type(plan));
    for (uint32_t i = 1; i < products; i++) {
        kf_text_addf(text, "product == %u ? right%u : ", i, i);
    }
    kf_text_addf(text, "right) + (right_batch * panels + first_panel) * k * %u;\n", plan->columns);
}

/// Declares how many bytes a work-item asks for at a time: what it reads next of the left operand
/// is shared out among its panels, of the right one among its tiles.
static void emit_steps(kf_text *text, const mm_plan *plan)
{
    uint32_t bytes = plan->narrow.storage != NULL ? plan->narrow.bytes : plan->compute_bytes;
    uint32_t visits = mm_products(plan->block), line = MM_CACHE_LINE;
    kf_text_addf(text,
                 "    const int step_a = min(%u / max(wide * %u, 1) + 1, %u);\n"
                 "    const int step_b = min(%u / max(down, 1) + 1, %u);\n",
                 UNROLL * plan->rows * plan->compute_bytes, visits, line,
                 UNROLL * plan->columns * bytes, line);
}

void mm_emit_packed_sums(kf_text *text, const mm_plan *plan)
{
    uint32_t vectors = plan->rows * plan->columns / plan->lanes;
    uint32_t products = mm_products(plan->block);
    const char *panel = mm_panel_type(plan), *at = products > 1 ? "q" : "p";
    mm_emit_tiles(text, plan);
    emit_steps(text, plan);
    kf_text_addf(text,
                 "    __global const %s *a = left + (left_batch * tiles + first_tile) * k * %u;\n",
                 plan->type, plan->rows);
    if (products == 1) {
        kf_text_addf(text,
                     "    __global const %s *b = right + (right_batch * panels + first_panel) * k "
                     "* %u;\n",
                     panel, plan->columns);
    }
    mm_emit_parts(text, plan);
    if (products == 1) {
        kf_text_add(text, "        for (int p = 0; p < wide; p++) {\n");
    } else {
        emit_products(text, plan);
    }
    kf_text_addf(text,
                 "            __global const %s *panel = b + ((long)p * k + first) * %u;\n"
                 "            __global const char *next = (__global const char *)"
                 "(p + 1 < wide ? panel + k * (long)%u : b + (long)last * %u);\n"
                 "            for (int i = 0; i < down; i++) {\n"
                 "            __global const %s *tile = a + ((long)i * k + first) * %u;\n"
                 "            vec *mine = sums + (once ? 0 : (%s * down + i) * %u);\n"
                 "            __global const char *next_a = "
                 "(__global const char *)(tile + %u) + %s * step_a * %u;\n"
                 "            __global const char *next_b = next + i * step_b * %u;\n",
                 panel, plan->columns, plan->columns, plan->columns, plan->type, plan->rows, at,
                 vectors, plan->depth * plan->rows, at, plan->depth / UNROLL, plan->depth / UNROLL);
    mm_emit_tile_call(text, plan,
                      "tile, panel, last - first, first == from, mine, next_a, step_a, next_b, "
                      "step_b");
    mm_emit_tile_end(text, plan);
    kf_text_add(text, "            }\n        }\n    }\n}\n");
}

// ---- one row ----

/// Opens the loop over the strip of columns that a work-item has, by vectors: `columns` from
/// `first` on at a time.
static void emit_strip(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width;
    kf_text_addf(text,
                 "    const long vectors = (n + %u) / %u, id = get_global_id(0);\n"
                 "    const long begin = id * vectors / get_global_size(0) * %u;\n"
                 "    const long next = (id + 1) * vectors / get_global_size(0) * %u;\n"
                 "    const long end = min(next, (long)n);\n"
                 "    %s%u sums[%u];\n"
                 "    for (long first = begin; first < end; first += %u) {\n"
                 "        const int columns = (int)min(end - first, (long)%u);\n",
                 w - 1, w, w, w, plan->type, w, plan->across, plan->across * w, plan->across * w);
}

/// Declares the vector x`number` of the only row, from term `at` on; `count`: how many elements
/// there are, NULL: a whole vector.
static void emit_x(kf_text *text, const mm_plan *plan, uint32_t number, const char *at,
                   const char *count, const char *indent)
{
    const mm_operand *left = &plan->block->left;
    const char *storage = kf_dtype_of(plan->block->chain.values[left->source].dtype).storage;
    char step[32], inner[48];
    mm_stride_name(plan, left->source, left->inner, step);
    snprintf(inner, sizeof(inner), "%s    ", indent);
    kf_text_addf(text, "%s%s%u x%u;\n%s{\n%s__global const %s *p = a + (long)(%s) * %s;\n", indent,
                 plan->type, plan->width, number, indent, inner, storage, at, step);
    mm_emit_load(text, plan, left, strcmp(step, "1") == 0 ? NULL : step, count, inner);
    kf_text_addf(text, "%sx%u = v%u;\n%s}\n", inner, number, left->value, indent);
}

/// Writes the `columns` sums from `first` on.
static void emit_row_end(kf_text *text, const mm_plan *plan, const char *indent)
{
    char inner[48];
    snprintf(inner, sizeof(inner), "%s    ", indent);
    kf_text_addf(text,
                 "%sfor (int j = 0; j * %u < columns; j++) {\n"
                 "%sconst long row = 0, col = first + j * %u;\n"
                 "%sconst int count = min(columns - j * %u, %u);\n"
                 "%sconst %s%u sum = sums[j];\n",
                 indent, plan->width, inner, plan->width, inner, plan->width, plan->width, inner,
                 plan->type, plan->width);
    mm_emit_finish(text, plan, MM_PRODUCT, inner);
    kf_text_addf(text, "%s}\n", indent);
}

/// Adds `rows` terms, from terms[e] on, to the sums of vector j; `there`: how many columns it has,
/// NULL: all. Sums of even and odd terms are apart, so that additions need not wait, and both from
/// the sums so far, so that these are rounded once for all rows.
static void emit_row_vector(kf_text *text, const mm_plan *plan, uint32_t rows, const char *there)
{
    const mm_operand *right = &plan->block->right;
    const char *storage = kf_dtype_of(plan->block->chain.values[right->source].dtype).storage;
    uint32_t w = plan->width;
    kf_text_addf(text, "                %s%u even = (%s%u)(0), odd = even;\n", plan->type, w,
                 plan->type, w);
    for (uint32_t i = 0; i < rows; i++) {
        kf_text_addf(text,
                     "                {\n"
                     "                    __global const %s *p = line%u + j * %u;\n"
                     "%s",
                     storage, i, w, plan->split ? "" : "                    AHEAD_2(p + ahead);\n");
        mm_emit_load(text, plan, right, NULL, there, "                    ");
        kf_text_addf(text,
                     "                    %s = MULADD((%s%u)(x%u), v%u, %s);\n"
                     "                }\n",
                     i % 2 == 0 ? "even" : "odd", plan->type, w, i, right->value,
                     i % 2 == 0 ? "even" : "odd");
    }
    kf_text_add(text, "                sums[j] += even + odd;\n");
}

/// Asks for `rows` vectors of the rows behind the group, in the order in which they lie.
static void emit_row_ahead(kf_text *text, const mm_plan *plan, uint32_t rows)
{
    uint32_t w = plan->width;
    kf_text_add(text, "                {\n");
    for (uint32_t i = 0; i < rows; i++) {
        kf_text_addf(text, "                    AHEAD_2(soon + soon_at + %u);\n", i * w);
    }
    kf_text_addf(text,
                 "                    soon_at += %u;\n"
                 "                    if (soon_at >= columns) {\n"
                 "                        soon_at = 0;\n"
                 "                        soon += step;\n"
                 "                    }\n"
                 "                }\n",
                 rows * w);
}

/// Adds terms in groups of `rows` as long as there are as many.
static void emit_row_group(kf_text *text, const mm_plan *plan, uint32_t rows)
{
    const mm_operand *right = &plan->block->right;
    const char *storage = kf_dtype_of(plan->block->chain.values[right->source].dtype).storage;
    char step[32];
    mm_stride_name(plan, right->source, right->inner, step);
    kf_text_addf(text, "            for (; e + %u <= count; e += %u) {\n", rows, rows);
    for (uint32_t i = 0; i < rows; i++) {
        kf_text_addf(text,
                     "                __global const %s *line%u = b + (t + e + %u) * (long)%s + "
                     "first;\n"
                     "                const %s x%u = terms[e + %u];\n",
                     storage, i, i, step, plan->type, i, i);
    }
    uint32_t asks = plan->split && rows > 1;
    if (asks) {
        kf_text_addf(text,
                     "                const long step = %s;\n"
                     "                __global const %s *soon = line0 + step * %u;\n"
                     "                int soon_at = 0;\n",
                     step, storage, rows);
    }
    kf_text_add(text, "                int j = 0;\n"
                      "                for (; j < whole; j++) {\n");
    if (asks) {
        emit_row_ahead(text, plan, rows);
    }
    emit_row_vector(text, plan, rows, NULL);
    kf_text_add(text, "                }\n"
                      "                if (rest > 0) {\n");
    emit_row_vector(text, plan, rows, "rest");
    kf_text_add(text, "                }\n            }\n");
}

/// A work-item reads some rows of its strip side by side, each along its columns, and asks for the
/// next ones, so that memory sees a few long streams. The sums stay in the first cache. A part of
/// the sum has whole rows: they are one stream, in whose order the next ones are asked for.
void mm_emit_row_sums(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width, part_rows = w < PART_ROWS_AHEAD ? w : PART_ROWS_AHEAD;
    uint32_t rows = plan->split ? part_rows : ROWS_AHEAD;
    char step[32];
    mm_stride_name(plan, plan->block->right.source, plan->block->right.inner, step);
    emit_strip(text, plan);
    kf_text_addf(text,
                 "        const int whole = columns / %u, rest = columns %% %u;\n"
                 "        const long ahead = %s * (long)%u;\n"
                 "        for (int j = 0; j * %u < columns; j++) {\n"
                 "            sums[j] = (%s%u)(0);\n"
                 "        }\n"
                 "        for (int t = from; t < to_term; t += %u) {\n"
                 "            const int count = min(%u, to_term - t);\n"
                 "            %s terms[%u];\n"
                 "            int e = 0;\n",
                 w, w, step, rows, w, plan->type, w, w, w, plan->type, w);
    emit_x(text, plan, 0, "t", "count", "            ");
    kf_text_addf(text, "            vstore%u(x0, 0, terms);\n", w);
    emit_row_group(text, plan, rows);
    emit_row_group(text, plan, 1);
    kf_text_add(text, "        }\n");
    emit_row_end(text, plan, "        ");
    kf_text_add(text, "    }\n");
}

/// Adds the terms from t on that are no whole vector, one by one.
static void emit_dot_rest(kf_text *text, const mm_plan *plan, const char *storage)
{
    uint32_t w = plan->width;
    kf_text_add(text, "            if (t < to_term) {\n"
                      "                const int count = to_term - t;\n");
    emit_x(text, plan, 0, "t", "count", "                ");
    kf_text_addf(text, "                __global const %s *p = line + t;\n", storage);
    mm_emit_load(text, plan, &plan->block->right, NULL, "count", "                ");
    kf_text_addf(text,
                 "                %s f[%u], g[%u];\n"
                 "                vstore%u(x0, 0, f);\n"
                 "                vstore%u(v%u, 0, g);\n"
                 "                for (int i = 0; i < count; i++) {\n"
                 "                    sum = MULADD(f[i], g[i], sum);\n"
                 "                }\n"
                 "            }\n",
                 plan->type, w, w, w, w, plan->block->right.value);
}

/// Opens and closes the loop that adds `vectors` whole vectors of terms at a time.
static void emit_dot_group(kf_text *text, const mm_plan *plan, const char *storage,
                           uint32_t vectors)
{
    uint32_t w = plan->width, step = vectors * w;
    kf_text_addf(text, "            for (; t + %u <= to_term; t += %u) {\n", step, step);
    for (uint32_t i = 0; i < vectors; i++) {
        char at[32];
        snprintf(at, sizeof(at), "t + %u", i * w);
        emit_x(text, plan, i, at, NULL, "                ");
        kf_text_addf(text,
                     "                {\n"
                     "                    __global const %s *p = line + t + %u;\n"
                     "                    AHEAD_2(p + %u);\n",
                     storage, i * w, DOT_AHEAD);
        mm_emit_load(text, plan, &plan->block->right, NULL, NULL, "                    ");
        kf_text_addf(text, "                    c%u = MULADD(x%u, v%u, c%u);\n                }\n",
                     i, i, plan->block->right.value, i);
    }
    kf_text_add(text, "            }\n");
}

/// A work-item reads its columns one behind the other, each along the sum.
void mm_emit_dot_sums(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    const char *storage = kf_dtype_of(plan->block->chain.values[right->source].dtype).storage;
    uint32_t w = plan->width;
    char column[32];
    mm_stride_name(plan, right->source, right->outer, column);
    emit_strip(text, plan);
    kf_text_addf(text,
                 "        %s of[%u];\n"
                 "        for (int j = 0; j < columns; j++) {\n"
                 "            __global const %s *line = b + (first + j) * %s;\n"
                 "            int t = from;\n",
                 plan->type, w, storage, column);
    for (uint32_t i = 0; i < DOT_VECTORS; i++) {
        kf_text_addf(text, "            %s%u c%u = (%s%u)(0);\n", plan->type, w, i, plan->type, w);
    }
    emit_dot_group(text, plan, storage, DOT_VECTORS);
    emit_dot_group(text, plan, storage, 1);
    kf_text_addf(text,
                 "            %s parts[%u], sum = 0;\n"
                 "            vstore%u((c0 + c1) + (c2 + c3), 0, parts);\n"
                 "            for (int i = 0; i < %u; i++) {\n"
                 "                sum += parts[i];\n"
                 "            }\n",
                 plan->type, w, w, w);
    emit_dot_rest(text, plan, storage);
    kf_text_addf(text,
                 "            of[j] = sum;\n"
                 "        }\n"
                 "        sums[0] = vload%u(0, of);\n",
                 w);
    emit_row_end(text, plan, "        ");
    kf_text_add(text, "    }\n}\n");
}
