// SPDX-License-Identifier: MIT OR Apache-2.0
// The text that reads an operand: where it begins, its strides, one vector with what the prologue
// makes of it, and panels of it for the innermost loop.
//
// Packed operands, in the type of the sums: the right one as panels of `columns` columns, the left
// one as panels of `rows` rows, both term by term. What lies past the end of rows and columns is
// anything; past the end of the sum nothing is read.
#include "matmul_internal.h"

enum { TURNED = 8 }; ///< lines of an operand that are turned together

void mm_stride_name(const mm_plan *plan, uint32_t value, int axis, char name[32])
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    if (axis < 0 || v->symbols[axis] == 0) {
        snprintf(name, 32, "0");
    } else if (mm_is_unit(plan->block, value, axis)) {
        snprintf(name, 32, "1");
    } else {
        snprintf(name, 32, "t%u_%u", (unsigned)value, (unsigned)axis);
    }
}

void mm_emit_prologue(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                      const char *indent)
{
    const kf_chain *chain = &plan->block->chain;
    for (uint32_t i = 0; i < plan->block->product; i++) {
        if (mm_makes(plan->block, operand, i)) {
            kf_chain_op_text(text, chain, &chain->ops[i], plan->width, indent);
        }
    }
}

void mm_emit_load(kf_text *text, const mm_plan *plan, const mm_operand *operand, const char *stride,
                  const char *count, const char *indent)
{
    const kf_chain *chain = &plan->block->chain;
    kf_dtype dtype = kf_dtype_of(chain->values[operand->source].dtype);
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, dtype.compute, plan->width, operand->source);
    if (stride != NULL) {
        kf_text_addf(text, "part_%s(p, %s, ", dtype.name, stride);
        if (count != NULL) {
            kf_text_addf(text, "%s);\n", count);
        } else {
            kf_text_addf(text, "%u);\n", plan->width);
        }
    } else if (count != NULL) {
        kf_text_addf(text, "%s >= %u ? load_%s(p) : part_%s(p, 1, %s);\n", count, plan->width,
                     dtype.name, dtype.name, count);
    } else {
        kf_text_addf(text, "load_%s(p);\n", dtype.name);
    }
    mm_emit_prologue(text, plan, operand, indent);
}

// ---- where it begins ----

void mm_emit_indices(kf_text *text, const mm_plan *plan, const mm_operand *own)
{
    const kf_chain_value *result = &plan->block->chain.values[plan->block->result];
    kf_text_add(text, "    long rest = batch;\n");
    for (uint32_t i = plan->batch; i > 0; i--) {
        if (result->symbols[i - 1] == 0 ||
            (own != NULL && mm_batch_axis(plan->block, own, i - 1) < 0)) {
            continue;
        }
        kf_text_addf(text, "    const long i%u = rest %% d%u;\n    rest /= d%u;\n", i - 1, i - 1,
                     i - 1);
    }
}

void mm_emit_base(kf_text *text, const mm_plan *plan, const mm_operand *operand, const char *name)
{
    const kf_chain_value *v = &plan->block->chain.values[operand->source];
    kf_text_addf(text, "    __global const %s *%s = in%u", kf_dtype_of(v->dtype).storage, name,
                 operand->source);
    if (!v->zero_offset) {
        kf_text_addf(text, " + o%u", operand->source);
    }
    for (uint32_t i = 0; i < plan->batch; i++) {
        int axis = mm_batch_axis(plan->block, operand, i);
        if (axis >= 0) {
            char stride[32];
            mm_stride_name(plan, operand->source, axis, stride);
            kf_text_addf(text, " + i%u * %s", i, stride);
        }
    }
    kf_text_add(text, ";\n");
}

void mm_emit_own_batch(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                       const char *name)
{
    kf_text_addf(text, "    long %s = 0;\n", name);
    for (uint32_t i = 0; i < plan->batch; i++) {
        if (mm_batch_axis(plan->block, operand, i) >= 0) {
            kf_text_addf(text, "    %s = %s * d%u + i%u;\n", name, name, i, i);
        }
    }
}

// ---- panels ----

/// Turns the vectors in `square`, one for each row, to `count` terms of all rows.
static void emit_turn(kf_text *text, const mm_plan *plan, const char *count)
{
    kf_text_addf(text,
                 "            for (int e = 0; e < %s; e++) {\n"
                 "                for (int i = 0; i < %u; i++) {\n"
                 "                    to[e * %u + i] = square[i * %u + e];\n"
                 "                }\n"
                 "            }\n",
                 count, plan->rows, plan->rows, plan->width);
}

/// The largest square of whole vectors by which so many lines are turned.
static uint32_t square_side(const mm_plan *plan, uint32_t lines)
{
    return lines % 8 == 0 && plan->width % 8 == 0 ? 8 : lines % 4 == 0 ? 4 : 2;
}

/// Turns the square of the vectors r0, r1 and so on: blocks beside the diagonal are exchanged, the
/// largest first. Answers the letter of the vectors that hold the columns.
static char emit_square(kf_text *text, const mm_plan *plan, uint32_t side)
{
    char from = 'r';
    for (uint32_t block = side / 2; block > 0; block /= 2, from++) {
        for (uint32_t i = 0; i < side; i++) {
            uint32_t upper = i & ~block, first = i & block;
            kf_text_addf(text, "                const %s%u %c%u = (%s%u)(", plan->type, side,
                         from + 1, i, plan->type, side);
            for (uint32_t e = 0; e < side; e++) {
                kf_text_addf(text, "%s%c%u.s%u", e == 0 ? "" : ", ", from,
                             upper + ((e & block) != 0 ? block : 0), (e & ~block) + first);
            }
            kf_text_add(text, ");\n");
        }
    }
    return from;
}

/// Turns the whole vectors in `square`, one for each of `lines` lines, term by term to `to`, where
/// a term is `step` elements behind the one before.
static void emit_turn_whole(kf_text *text, const mm_plan *plan, uint32_t lines, uint32_t step,
                            const char *to)
{
    uint32_t side = square_side(plan, lines);
    for (uint32_t i = 0; i < lines; i += side) {
        kf_text_addf(text, "            for (int e = 0; e < %u; e += %u) {\n", plan->width, side);
        for (uint32_t r = 0; r < side; r++) {
            kf_text_addf(text, "                const %s%u r%u = vload%u(0, square + %u + e);\n",
                         plan->type, side, r, side, (i + r) * plan->width);
        }
        char turned = emit_square(text, plan, side);
        for (uint32_t e = 0; e < side; e++) {
            kf_text_addf(text, "                vstore%u(%c%u, 0, %s + (e + %u) * %u + %u);\n",
                         side, turned, e, to, e, step, i);
        }
        kf_text_add(text, "            }\n");
    }
}

/// Stores the first `count` elements of the vector `name` at to + `at`.
static void emit_store_part(kf_text *text, const char *name, uint32_t count, uint32_t at)
{
    for (uint32_t i = 0; i < count;) {
        uint32_t part = count - i >= 4 ? 4 : count - i >= 2 ? 2 : 1;
        if (part == 1) {
            kf_text_addf(text, "                to[%u] = %s.s%x;\n", at + i, name, i);
        } else {
            kf_text_addf(text, "                vstore%u(%s.s", part, name);
            for (uint32_t e = 0; e < part; e++) {
                kf_text_addf(text, "%x", i + e);
            }
            kf_text_addf(text, ", 0, to + %u);\n", at + i);
        }
        i += part;
    }
}

/// A tile whose rows lie beside each other, as those of a transposed matrix do: each term of it is
/// a run of elements already. The last vector may reach into the rows behind the tile.
static void emit_left_across(kf_text *text, const mm_plan *plan, const char *storage,
                             const char *step)
{
    uint32_t w = plan->width, vectors = mm_share(plan->rows, w);
    char name[16];
    snprintf(name, sizeof(name), "v%u", plan->block->left.value);
    kf_text_addf(text,
                 "    if (tile * %u + %u <= m) {\n"
                 "        __global const %s *line = a + tile * %u + first * (long)%s;\n"
                 "        for (int t = first; t < last; t++, line += %s, to += %u) {\n",
                 plan->rows, vectors * w, storage, plan->rows, step, step, plan->rows);
    for (uint32_t i = 0; i < vectors; i++) {
        kf_text_addf(text, "            {\n                __global const %s *p = line + %u;\n",
                     storage, i * w);
        mm_emit_load(text, plan, &plan->block->left, NULL, NULL, "                ");
        uint32_t rest = plan->rows - i * w;
        emit_store_part(text, name, rest < w ? rest : w, i * w);
        kf_text_add(text, "            }\n");
    }
    kf_text_add(text, "        }\n        return;\n    }\n");
}

void mm_emit_left_panel(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    char row[32], step[32], width[16];
    mm_stride_name(plan, left->source, left->outer, row);
    mm_stride_name(plan, left->source, left->inner, step);
    const char *stride = strcmp(step, "1") == 0 ? NULL : step;
    uint32_t w = plan->width;
    snprintf(width, sizeof(width), "%u", w);
    if (plan->fold) { // the rows of all batches lie one behind the other
        snprintf(row, sizeof(row), "(long)k");
    }
    const char *storage = kf_dtype_of(plan->block->chain.values[left->source].dtype).storage;
    if (strcmp(row, "1") == 0 && stride != NULL) {
        emit_left_across(text, plan, storage, step);
    }
    kf_text_addf(text,
                 "    %s square[%u] __attribute__((aligned(64)));\n"
                 "    for (int t = first; t < last; t += %u, to += %u) {\n"
                 "        const int count = min(%u, last - t);\n"
                 "        if (count == %u && (tile + 1) * %u <= m) {\n"
                 "            __global const %s *line = a + tile * %u * %s + t * (long)%s;\n",
                 plan->type, plan->rows * w, w, plan->rows * w, w, w, plan->rows, storage,
                 plan->rows, row, step);
    for (uint32_t i = 0; i < plan->rows; i++, kf_text_add(text, "            }\n")) {
        kf_text_addf(text, "            {\n                __global const %s *p = line;\n",
                     storage);
        mm_emit_load(text, plan, left, stride, NULL, "                ");
        kf_text_addf(text,
                     "                PUT_OWN(v%u, square + %u);\n                line += %s;\n",
                     left->value, i * w, row);
    }
    if (plan->rows % 2 == 0) {
        emit_turn_whole(text, plan, plan->rows, plan->rows, "to");
    } else {
        emit_turn(text, plan, width);
    }
    kf_text_addf(text,
                 "            continue;\n"
                 "        }\n"
                 "        for (int i = 0; i < %u; i++) {\n"
                 "            const long row = min(tile * %u + i, (long)m - 1);\n"
                 "            __global const %s *p = a + row * %s + t * (long)%s;\n",
                 plan->rows, plan->rows, storage, row, step);
    mm_emit_load(text, plan, left, stride, "count", "            ");
    kf_text_addf(text,
                 "            PUT_OWN(v%u, square + i * %u);\n"
                 "        }\n"
                 "        {\n",
                 left->value, w);
    emit_turn(text, plan, "count");
    kf_text_add(text, "        }\n    }\n");
}

void mm_left_row_name(const mm_plan *plan, char name[32])
{
    if (plan->fold) { // the rows of all batches lie one behind the other
        snprintf(name, 32, "(long)k");
    } else {
        mm_stride_name(plan, plan->block->left.source, plan->block->left.outer, name);
    }
}

/// Are the operand's elements what is summed, without a prologue or another type?
static uint32_t is_plain(const mm_plan *plan, const mm_operand *operand)
{
    const char *storage = kf_dtype_of(plan->block->chain.values[operand->source].dtype).storage;
    return operand->value == operand->source && strcmp(storage, plan->type) == 0;
}

uint32_t mm_left_in_place(const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    char step[32];
    mm_stride_name(plan, left->source, left->inner, step);
    return strcmp(step, "1") == 0 && is_plain(plan, left);
}

uint32_t mm_right_in_place(const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    return mm_is_unit(plan->block, right->source, right->outer) && is_plain(plan, right);
}

/// Turns a tile whose rows lie beside each other, squares of `side` rows and terms at a time, if it
/// has whole ones.
static void emit_rows_turned(kf_text *text, const mm_plan *plan, const char *step)
{
    uint32_t side = square_side(plan, plan->rows);
    kf_text_addf(text,
                 "    const int there = (int)min((long)%u, m - tile * %u);\n"
                 "    if (there %% %u == 0) {\n"
                 "        int t = first;\n"
                 "        __global const %s *p = a + tile * %u + first * (long)%s;\n"
                 "        for (; t + %u <= last; t += %u, p += %u * (long)%s) {\n"
                 "            for (int i = 0; i < there; i += %u) {\n",
                 plan->rows, plan->rows, plan->rows % 3 == 0 ? side : plan->rows, plan->type,
                 plan->rows, step, side, side, side, step, side);
    for (uint32_t e = 0; e < side; e++) {
        kf_text_addf(text, "                const %s%u r%u = vload%u(0, p + %u * (long)%s + i);\n",
                     plan->type, side, e, side, e, step);
    }
    char turned = emit_square(text, plan, side);
    for (uint32_t r = 0; r < side; r++) {
        kf_text_addf(text, "                vstore%u(%c%u, 0, to + (i + %u) * %u + t - first);\n",
                     side, turned, r, r, plan->depth);
    }
    kf_text_addf(text,
                 "            }\n"
                 "        }\n"
                 "        for (; t < last; t++, p += %s) {\n"
                 "            for (int i = 0; i < there; i++) {\n"
                 "                to[i * %u + t - first] = p[i];\n"
                 "            }\n"
                 "        }\n"
                 "        continue;\n"
                 "    }\n",
                 step, plan->depth);
}

void mm_emit_left_rows(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    const char *storage = kf_dtype_of(plan->block->chain.values[left->source].dtype).storage;
    char row[32], step[32];
    mm_left_row_name(plan, row);
    mm_stride_name(plan, left->source, left->inner, step);
    const char *stride = strcmp(step, "1") == 0 ? NULL : step;
    uint32_t w = plan->width;
    if (stride != NULL && strcmp(row, "1") == 0 && plan->rows % 2 == 0 && is_plain(plan, left)) {
        emit_rows_turned(text, plan, step);
    }
    kf_text_addf(text,
                 "    for (int i = 0; i < %u; i++, to += %u) {\n"
                 "        const long row = min(tile * %u + i, (long)m - 1);\n"
                 "        __global const %s *p = a + row * %s + first * (long)%s;\n"
                 "        int t = first;\n"
                 "        for (; t + %u <= last; t += %u, p += %u * (long)%s) {\n",
                 plan->rows, plan->depth, plan->rows, storage, row, step, w, w, w, step);
    mm_emit_load(text, plan, left, stride, NULL, "            ");
    kf_text_addf(text,
                 "            PUT_OWN(v%u, to + (t - first));\n"
                 "        }\n"
                 "        if (t < last) {\n"
                 "            const int count = last - t;\n",
                 left->value);
    mm_emit_load(text, plan, left, stride, "count", "            ");
    kf_text_addf(text, "            PUT_OWN(v%u, to + (t - first));\n        }\n    }\n",
                 left->value);
}

/// By vectors along the columns; `whole`: all of the panels' are there.
static void emit_pack_columns(kf_text *text, const mm_plan *plan, const char *column,
                              const char *step, uint32_t whole)
{
    const mm_operand *right = &plan->block->right;
    const char *storage = kf_dtype_of(plan->block->chain.values[right->source].dtype).storage;
    uint32_t w = plan->width;
    kf_text_addf(text,
                 "    for (int t = first; t < last; t++, to += %u) {\n"
                 "        __global const %s *line = b + t * (long)%s + panel * %u * %s;\n"
                 "        for (int j = 0; j < wide; j++, line += %u * (long)%s) {\n",
                 plan->columns, storage, step, plan->columns, column, plan->columns, column);
    for (uint32_t i = 0; i < plan->columns; i += w) {
        kf_text_addf(text,
                     "            {\n"
                     "                __global const %s *p = line + %u * (long)%s;\n",
                     storage, i, column);
        if (!whole) {
            kf_text_addf(text,
                         "                const int count = (int)clamp(n - (panel + j) * %u - %u, "
                         "(long)0, (long)%u);\n",
                         plan->columns, i, w);
        }
        mm_emit_load(text, plan, right, strcmp(column, "1") == 0 ? NULL : column,
                     whole ? NULL : "count", "                ");
        kf_text_addf(text, "                %s(v%u, to + j * far + %u);\n            }\n",
                     plan->narrow.storage != NULL ? "PUT_NARROW" : "PUT", right->value, i);
    }
    kf_text_add(text, "        }\n    }\n");
}

/// By vectors along the sum, which lies dense in memory: squares are turned in private memory. Few
/// columns at a time are read to their end, since lines a power of two apart share few sets of the
/// first cache.
static void emit_pack_turned(kf_text *text, const mm_plan *plan, const char *column)
{
    const mm_operand *right = &plan->block->right;
    uint32_t w = plan->width, lines = w < TURNED ? w : TURNED;
    uint32_t narrow = plan->narrow.storage != NULL;
    kf_text_addf(text,
                 "    %s square[%u] __attribute__((aligned(64)));\n"
                 "    for (int j = 0; j < wide * %u; j += %u) {\n"
                 "        for (int t = first; t < last; t += %u) {\n"
                 "            const int count = min(%u, last - t);\n"
                 "            for (int e = 0; e < %u; e++) {\n"
                 "                const long col = min(panel * %u + j + e, (long)n - 1);\n"
                 "                __global const %s *p = b + col * %s + t;\n",
                 plan->type, w * lines, plan->columns, lines, w, w, lines, plan->columns,
                 kf_dtype_of(plan->block->chain.values[right->source].dtype).storage, column);
    mm_emit_load(text, plan, right, NULL, "count", "                ");
    kf_text_addf(text,
                 "                PUT_OWN(v%u, square + e * %u);\n"
                 "            }\n",
                 right->value, w);
    if (!narrow) {
        kf_text_addf(text,
                     "            if (count == %u) {\n"
                     "            %s%s *at = to + j / %u * far + (t - first) * %u + j %% %u;\n",
                     w, plan->form == MM_FORM_PACKED ? "__global " : "", plan->type, plan->columns,
                     plan->columns, plan->columns);
        emit_turn_whole(text, plan, lines, plan->columns, "at");
        kf_text_add(text, "            continue;\n            }\n");
    }
    kf_text_addf(text,
                 "            for (int i = 0; i < count; i++) {\n"
                 "                for (int e = 0; e < %u; e++) {\n"
                 "                    %sto[j / %u * far + (t - first + i) * %u + j %% %u + e]%s"
                 "square[e * %u + i]%s;\n"
                 "                }\n"
                 "            }\n"
                 "        }\n"
                 "    }\n",
                 lines, narrow ? "PUT_ONE_AT(" : "", plan->columns, plan->columns, plan->columns,
                 narrow ? ", " : " = ", w, narrow ? ")" : "");
}

void mm_emit_right_panels(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    char column[32], step[32];
    mm_stride_name(plan, right->source, right->outer, column);
    mm_stride_name(plan, right->source, right->inner, step);
    if (mm_right_is_turned(plan)) {
        emit_pack_turned(text, plan, column);
    } else {
        kf_text_addf(text, "    if ((panel + wide) * %u <= n) {\n", plan->columns);
        emit_pack_columns(text, plan, column, step, 1);
        kf_text_add(text, "    } else {\n");
        emit_pack_columns(text, plan, column, step, 0);
        kf_text_add(text, "    }\n");
    }
}
