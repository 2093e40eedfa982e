// SPDX-License-Identifier: MIT OR Apache-2.0
// Which keys some of a work-group's rows see, where the operators on the scores are one comparison
// of positions and what it hides, as of causal attention. Positions are tensors, one along the
// rows and one along the keys. Of the rows, the ends decide: what the row that sees most does not
// see, none sees, and what the row that sees least sees, all see.
#include "attention_internal.h"

/// Whole numbers that lie along one axis of the scores alone.
static uint32_t lies_along(const at_block *block, uint32_t value, uint32_t axis)
{
    const kf_chain_value *v = &block->chain.values[value];
    uint32_t others = 0;
    for (uint32_t i = 0; i <= at_batch(block) + 1; i++) {
        others += i != axis && at_axis(block, value, i) >= 0;
    }
    return !v->computed && (v->dtype == KF_DTYPE_I64 || v->dtype == KF_DTYPE_I32) && others == 0 &&
           at_axis(block, value, axis) >= 0;
}

uint32_t at_seen_make(const at_block *block, at_seen *seen)
{
    const kf_chain_op *compare = &block->chain.ops[block->product + 1], *hide = compare + 1;
    if (block->softmax != block->product + 3 || compare->row == NULL || hide->row == NULL ||
        hide->row->op != KF_OP_MASK_FILL || hide->inputs[0] != block->scores ||
        hide->inputs[1] != compare->result) {
        return 0;
    }
    uint32_t op = compare->row->op, rows = at_batch(block);
    uint32_t less = op == KF_OP_LESS || op == KF_OP_LESS_EQUAL;
    uint32_t greater = op == KF_OP_GREATER || op == KF_OP_GREATER_EQUAL;
    if (!less && !greater) {
        return 0;
    }
    seen->turned = !lies_along(block, compare->inputs[0], rows);
    seen->rows = compare->inputs[seen->turned ? 1 : 0];
    seen->keys = compare->inputs[seen->turned ? 0 : 1];
    seen->sign = op == KF_OP_LESS         ? "<"
                 : op == KF_OP_LESS_EQUAL ? "<="
                 : op == KF_OP_GREATER    ? ">"
                                          : ">=";
    seen->high = less != seen->turned;
    seen->fill = hide->numbers[0];
    return lies_along(block, seen->rows, rows) && lies_along(block, seen->keys, rows + 1);
}

void at_emit_seen(kf_text *text, const at_plan *plan)
{
    const at_seen *seen = &plan->seen;
    uint32_t rows = at_batch(plan->block);
    char row[32], key[32];
    at_stride_name(plan, seen->rows, at_axis(plan->block, seen->rows, rows), row);
    at_stride_name(plan, seen->keys, at_axis(plan->block, seen->keys, rows + 1), key);
    kf_text_addf(text,
                 "#define HIDDEN(row) (%s %s %s)\n"
                 "    __local long ends[2 * ROWS / 8];\n"
                 "    __local int bounds[2];\n"
                 "    if (item == 0) {\n"
                 "        bounds[0] = 0;\n"
                 "        bounds[1] = n;\n"
                 "    }\n"
                 "    if (item < ROWS / 8) {\n"
                 "        long least = LONG_MAX, most = LONG_MIN;\n"
                 "        for (int r = 8 * item; r < 8 * item + 8; r++) {\n"
                 "            const long x = b%u[min(first + r, (long)m - 1) * %s];\n"
                 "            least = min(least, x);\n"
                 "            most = max(most, x);\n"
                 "        }\n"
                 "        ends[2 * item] = least;\n"
                 "        ends[2 * item + 1] = most;\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    long least = ends[0], most = ends[1];\n"
                 "    for (int i = 1; i < ROWS / 8; i++) {\n"
                 "        least = min(least, ends[2 * i]);\n"
                 "        most = max(most, ends[2 * i + 1]);\n"
                 "    }\n",
                 seen->turned ? "key" : "row", seen->sign, seen->turned ? "row" : "key", seen->rows,
                 row);
    kf_text_addf(
        text,
        "    int last = 0, part = n;\n"
        "    for (int k = item; k < n; k += ITEMS) {\n"
        "        const long key = b%u[k * %s];\n"
        "        last = HIDDEN(%s) ? last : k + 1;\n"
        "        part = HIDDEN(%s) ? min(part, k) : part;\n"
        "    }\n"
        "    atomic_max(&bounds[0], last);\n"
        "    atomic_min(&bounds[1], part);\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    clear = bounds[1] / TILE;\n"
        "    tiles = s%u.x == -INFINITY ? max((bounds[0] + TILE - 1) / TILE, 1) : tiles;\n",
        seen->keys, key, seen->high ? "most" : "least", seen->high ? "least" : "most", seen->fill);
}
