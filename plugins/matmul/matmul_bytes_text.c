// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of a product of 8-bit integers: tiles of 12 rows and two vectors (4 rows and one without
// AVX-512), their sums in registers from the first term to the last. A tile reads its rows as they
// lie, four terms as one word for all lanes. The last rows of a matrix are a smaller tile.
#include "matmul_bytes.h"

enum { HEIGHTS = 5 };
static const uint32_t heights[HEIGHTS] = {1, 2, 4, 8, 12};

static uint32_t is_signed(const mm_plan *plan, const mm_operand *operand)
{
    return plan->block->chain.values[operand->source].dtype == KF_DTYPE_I8;
}

/// Is the first bit of the right operand's bytes flipped as it is packed?
static uint32_t flips(const mm_plan *plan)
{
    return is_signed(plan, &plan->block->left) == is_signed(plan, &plan->block->right);
}

static uint32_t has_zero(const mm_operand *operand)
{
    return operand->zero != MM_NO_VALUE;
}

/// Are the sums of the left operand's rows needed?
static uint32_t needs_row_sums(const mm_plan *plan)
{
    return has_zero(&plan->block->right) || flips(plan);
}

// ---- functions ----

/// WORD: four bytes from anywhere. WORDS: a vector of ints from anywhere.
static void emit_loads(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(
        text,
        "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
        "typedef uint near_word __attribute__((aligned(1)));\n"
        "typedef uint%u near_words __attribute__((aligned(4)));\n"
        "#define WORD(p) (*(__global const near_word *)(p))\n"
        "#define WORDS(p) (*(__global const near_words *)(p))\n"
        "#else\n"
        "#define WORD(p) as_uint(vload4(0, p))\n"
        "#define WORDS(p) as_uint%u(vload%u(0, p))\n"
        "#endif\n"
        "static inline uint last_word(__global const uchar *p, int count) {\n"
        "    uint word = 0;\n"
        "    for (int i = 0; i < count; i++) {\n"
        "        word |= (uint)p[i] << (8 * i);\n"
        "    }\n"
        "    return word;\n"
        "}\n"
        "static inline uint16 some_bytes(__global const uchar *p, long stride, int count) {\n"
        "    uchar16 e = (uchar16)(0);\n"
        "    if (stride == 1 && count == 16) {\n"
        "        return convert_uint16(vload16(0, p));\n"
        "    }\n"
        "    for (int i = 0; i < count; i++) {\n"
        "        ((uchar *)&e)[i] = p[i * stride];\n"
        "    }\n"
        "    return convert_uint16(e);\n"
        "}\n",
        plan->width, plan->width, plan->width);
    // The left operand comes first: DOT(sum, left, right).
    kf_text_add(text, is_signed(plan, &plan->block->left)
                          ? "#define DOT(c, l, r) kf_dot4(c, as_uint16(r), as_int16(l))\n"
                          : "#define DOT(c, l, r) kf_dot4(c, as_uint16(l), as_int16(r))\n");
}

/// The sum of a row's bytes; ones are on the right.
static void emit_row_sum(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text, "static inline uint row_sum(__global const uchar *p, int k) {\n"
                       "    int16 sums = (int16)(0);\n"
                       "    int t = 0;\n"
                       "    for (; t + 64 <= k; t += 64) {\n"
                       "        sums = DOT(sums, as_int16(((uint16)(0)");
    kf_text_add(text, " | (uint16)(");
    for (uint32_t i = 0; i < 16; i++) {
        kf_text_addf(text, "%sWORD(p + t + %u)", i == 0 ? "" : ", ", 4 * i);
    }
    kf_text_addf(text,
                 "))), (int16)(0x01010101));\n"
                 "    }\n"
                 "    int e[16], sum = 0;\n"
                 "    vstore16(sums, 0, e);\n"
                 "    for (int i = 0; i < 16; i++) {\n"
                 "        sum += e[i];\n"
                 "    }\n"
                 "    for (; t < k; t++) {\n"
                 "        sum += (%s)p[t];\n"
                 "    }\n"
                 "    return (uint)sum;\n"
                 "}\n",
                 is_signed(plan, &plan->block->left) ? "char" : "uchar");
}

/// tile_<rows>: the sums of so many rows, the last of which may be row `last` again, with a panel.
static void emit_tile(kf_text *text, const mm_plan *plan, uint32_t rows)
{
    uint32_t vectors = plan->columns / MM_BYTES_LANES;
    kf_text_addf(text,
                 "static inline void tile_%u(__global const uchar *a, long far, int last, "
                 "__global const int16 *b, int k, int16 *sums) {\n",
                 rows);
    for (uint32_t i = 0; i < rows; i++) {
        kf_text_addf(text, "    __global const uchar *a%u = a + min(%u, last) * far;\n", i, i);
        for (uint32_t j = 0; j < vectors; j++) {
            kf_text_addf(text, "    int16 c%u = (int16)(0);\n", i * vectors + j);
        }
    }
    for (uint32_t part = 0; part < 2; part++) {
        kf_text_add(text, part == 0 ? "    int t = 0;\n    for (; t + 4 <= k; t += 4) {\n"
                                    : "    if (t < k) {\n");
        for (uint32_t j = 0; j < vectors; j++) {
            kf_text_addf(text, "        const int16 b%u = b[%u];\n", j, j);
        }
        for (uint32_t i = 0; i < rows; i++) {
            kf_text_addf(text,
                         part == 0 ? "        const uint16 w%u = (uint16)(WORD(a%u + t));\n"
                                   : "        const uint16 w%u = (uint16)(last_word(a%u + t, k - "
                                     "t));\n",
                         i, i);
            for (uint32_t j = 0; j < vectors; j++) {
                uint32_t c = i * vectors + j;
                kf_text_addf(text, "        c%u = DOT(c%u, w%u, b%u);\n", c, c, i, j);
            }
        }
        kf_text_addf(text, part == 0 ? "        b += %u;\n    }\n" : "    }\n", vectors);
    }
    for (uint32_t i = 0; i < rows * vectors; i++) {
        kf_text_addf(text, "    sums[%u] = c%u;\n", i, i);
    }
    kf_text_add(text, "}\n");
}

void mm_bytes_emit_functions(kf_text *text, const mm_plan *plan)
{
    kf_dot_functions(text, plan->device->features);
    emit_loads(text, plan);
    if (needs_row_sums(plan)) {
        emit_row_sum(text, plan);
    }
    for (uint32_t i = 0; i < HEIGHTS && heights[i] <= plan->rows; i++) {
        emit_tile(text, plan, heights[i]);
    }
}

// ---- packing ----

void mm_bytes_emit_pack(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    char column[32], step[32];
    mm_stride_name(plan, right->source, right->outer, column);
    mm_stride_name(plan, right->source, right->inner, step);
    kf_text_addf(text,
                 "    const long item = get_global_id(0), panels = (n + %u) / %u;\n"
                 "    const long panel = item %% panels, batch = item / panels;\n"
                 "    const int words = (k + 3) / 4;\n"
                 "    __global int16 *to = (__global int16 *)(right + item * (words + 1) * %u);\n",
                 plan->columns - 1, plan->columns, plan->columns);
    mm_emit_indices(text, plan, right);
    mm_emit_base(text, plan, right, "b");
    kf_text_addf(text,
                 "    for (int j = 0; j < %u; j++) {\n"
                 "        const long col = panel * %u + j * 16;\n"
                 "        const int count = (int)clamp(n - col, (long)0, (long)16);\n"
                 "        int16 sum = (int16)(0);\n"
                 "        for (int t = 0; t < words; t++) {\n"
                 "            uint16 word = (uint16)(0);\n"
                 "            for (int i = 0; i < 4 && 4 * t + i < k; i++) {\n"
                 "                __global const uchar *p = (__global const uchar *)b + "
                 "(4 * t + i) * (long)%s + col * %s;\n"
                 "                word |= (some_bytes(p, %s, count)%s) << (8 * i);\n"
                 "            }\n"
                 "            sum = DOT(sum, (int16)(0x01010101), word);\n"
                 "            to[(t + 1) * %u + j] = as_int16(word);\n"
                 "        }\n"
                 "        to[j] = sum;\n"
                 "    }\n"
                 "}\n",
                 plan->columns / 16, plan->columns, step, column, column,
                 flips(plan) ? " ^ 128u" : "", plan->columns / 16);
}

// ---- the product ----

/// The zero point of a row as a uint, or that of all columns.
static void emit_zero(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                      const char *index)
{
    const mm_block *block = plan->block;
    uint32_t zero = operand->zero;
    char stride[32];
    if (!has_zero(operand)) {
        kf_text_add(text, "0u");
    } else {
        mm_stride_name(plan, zero, mm_bytes_zero_axis(block, operand), stride);
        kf_text_addf(text, "(uint)in%u[", zero);
        if (!block->chain.values[zero].zero_offset) {
            kf_text_addf(text, "o%u + ", zero);
        }
        kf_text_addf(text, "%s * %s]", index, stride);
    }
}

/// Declares `zero`, the zero points of a vector of columns.
static void emit_column_zeros(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    uint32_t w = plan->width;
    kf_text_addf(text, "                    uint%u zero = ", w);
    if (mm_bytes_zero_axis(plan->block, right) < 0) {
        kf_text_addf(text, "(uint%u)(", w);
        emit_zero(text, plan, right, "0");
        kf_text_add(text, ");\n");
    } else {
        uint32_t value = right->zero;
        const char *name = kf_dtype_of(plan->block->chain.values[value].dtype).name;
        char stride[32];
        mm_stride_name(plan, value, mm_bytes_zero_axis(plan->block, right), stride);
        kf_text_addf(text, "as_uint%u(convert_int%u(part_%s(in%u + ", w, w, name, value);
        if (!plan->block->chain.values[value].zero_offset) {
            kf_text_addf(text, "o%u + ", value);
        }
        kf_text_addf(text, "col * %s, %s, count)));\n", stride, stride);
    }
    if (flips(plan)) {
        kf_text_addf(text, "                    zero %s (uint%u)(128);\n",
                     is_signed(plan, right) ? "+=" : "-=", w);
    }
}

/// What is done with the sums of tile i of panel p.
static void emit_bytes_end(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    uint32_t w = plan->width;
    kf_text_add(text, "            for (int e = 0; e < there; e++) {\n"
                      "                const long row = first_row + e;\n");
    if (has_zero(left)) {
        kf_text_add(text, "                const uint row_zero = ");
        emit_zero(text, plan, left, "row");
        kf_text_add(text, ";\n");
    }
    if (needs_row_sums(plan)) {
        kf_text_addf(text, "                const uint row_total = row_sums[i * %u + e]%s;\n",
                     plan->rows, has_zero(left) ? " - (uint)k * row_zero" : "");
    }
    kf_text_addf(text,
                 "                for (int j = 0; j < %u; j += %u) {\n"
                 "                    const long col = (first_panel + p) * %u + j;\n"
                 "                    const int count = (int)min(n - col, (long)%u);\n"
                 "                    if (count <= 0) {\n"
                 "                        break;\n"
                 "                    }\n"
                 "                    uint%u total = ",
                 plan->columns, w, plan->columns, w, w);
    if (w == MM_BYTES_LANES) {
        kf_text_addf(text, "as_uint16(sums[(e * %u + j) / 16]);\n", plan->columns);
    } else {
        kf_text_addf(text, "as_uint%u(vload%u(0, (const int *)sums + e * %u + j));\n", w, w,
                     plan->columns);
    }
    if (has_zero(left)) {
        kf_text_addf(text, "                    total -= (uint%u)(row_zero) * WORDS(panel + j);\n",
                     w);
    }
    if (needs_row_sums(plan)) {
        emit_column_zeros(text, plan);
        kf_text_addf(text, "                    total -= (uint%u)(row_total) * zero;\n", w);
    }
    kf_text_addf(text, "                    const int%u sum = as_int%u(total);\n", w, w);
    mm_emit_finish(text, plan, MM_PRODUCT, "                    ");
    kf_text_add(text, "                }\n            }\n");
}

void mm_bytes_emit_product(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    char far[32];
    mm_stride_name(plan, left->source, left->outer, far);
    mm_emit_own_batch(text, plan, &plan->block->right, "right_batch");
    mm_emit_base(text, plan, left, "start");
    kf_text_addf(text,
                 "    __global const uchar *a = (__global const uchar *)start;\n"
                 "    const long far = %s, size = ((k + 3) / 4 + 1) * (long)%u;\n"
                 "    const long tiles = (m + %u) / %u, panels = (n + %u) / %u;\n"
                 "    const long p_id = get_global_id(0), p_ids = get_global_size(0);\n"
                 "    const long t_id = get_global_id(1), t_ids = get_global_size(1);\n"
                 "    const long first_panel = p_id * panels / p_ids;\n"
                 "    const long first_tile = t_id * tiles / t_ids;\n"
                 "    const int wide = (int)((p_id + 1) * panels / p_ids - first_panel);\n"
                 "    const int down = (int)((t_id + 1) * tiles / t_ids - first_tile);\n",
                 plan->fold ? "k" : far, plan->columns, plan->rows - 1, plan->rows,
                 plan->columns - 1, plan->columns);
    if (needs_row_sums(plan)) {
        kf_text_addf(text,
                     "    uint row_sums[%u];\n"
                     "    for (int i = 0; i < down * %u; i++) {\n"
                     "        const long row = min(first_tile * %u + i, (long)m - 1);\n"
                     "        row_sums[i] = row_sum(a + row * far, k);\n"
                     "    }\n",
                     plan->chunk * plan->rows, plan->rows, plan->rows);
    }
    kf_text_addf(text,
                 "    for (int p = 0; p < wide; p++) {\n"
                 "        __global const int *panel = right + (right_batch * panels + first_panel "
                 "+ p) * size;\n"
                 "        __global const int16 *b = (__global const int16 *)(panel + %u);\n"
                 "        for (int i = 0; i < down; i++) {\n"
                 "            const long first_row = (first_tile + i) * %u;\n"
                 "            const int there = (int)min(m - first_row, (long)%u);\n"
                 "            __global const uchar *rows = a + first_row * far;\n"
                 "            int16 sums[%u];\n",
                 plan->columns, plan->rows, plan->rows,
                 plan->rows * plan->columns / MM_BYTES_LANES);
    for (uint32_t i = 0; i < HEIGHTS && heights[i] <= plan->rows; i++) {
        kf_text_addf(text, "            %s", i == 0 ? "" : "else ");
        if (heights[i] < plan->rows) {
            kf_text_addf(text, "if (there <= %u) ", heights[i]);
        }
        kf_text_addf(text, "{ tile_%u(rows, far, there - 1, b, k, sums); }\n", heights[i]);
    }
    emit_bytes_end(text, plan);
    kf_text_add(text, "        }\n    }\n}\n");
}
