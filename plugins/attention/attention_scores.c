// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the operators on the scores, for both kernels: what they read beside the scores, each
// tensor with its own strides, and what they compute.
#include "attention_internal.h"

void at_stride_name(const at_plan *plan, uint32_t value, int axis, char name[32])
{
    if (axis < 0 || plan->block->chain.values[value].symbols[axis] == 0) {
        snprintf(name, 32, "0");
    } else {
        snprintf(name, 32, "t%u_%u", (unsigned)value, (unsigned)axis);
    }
}

static void emit_score_input(kf_text *text, const at_plan *plan, uint32_t value, const char *indent)
{
    kf_dtype dtype = kf_dtype_of(plan->block->chain.values[value].dtype);
    uint32_t rows = at_batch(plan->block), w = plan->width;
    char row[32], column[32];
    at_stride_name(plan, value, at_axis(plan->block, value, rows), row);
    at_stride_name(plan, value, at_axis(plan->block, value, rows + 1), column);
    const char *along = plan->one_row || plan->in_groups ? column : row;
    kf_text_addf(text, "%s__global const %s *p%u = b%u + row * %s + col * %s;\n", indent,
                 dtype.storage, value, value, row, column);
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, dtype.compute, w, value);
    if (strcmp(along, "0") == 0) {
        kf_text_addf(text, "(%s%u)(one_%s(p%u));\n", dtype.compute, w, dtype.name, value);
        return;
    }
    kf_text_addf(text,
                 "count < %u ? part_%s(p%u, %s, count)\n%s    : %s == 1 ? load_%s(p%u) : (%s%u)(",
                 w, dtype.name, value, along, indent, along, dtype.name, value, dtype.compute, w);
    for (uint32_t i = 0; i < w; i++) {
        kf_text_addf(text, "%sone_%s(p%u + %u * %s)", i == 0 ? "" : ", ", dtype.name, value, i,
                     along);
    }
    kf_text_add(text, ");\n");
}

void at_emit_query_operators(kf_text *text, const at_plan *plan)
{
    const kf_chain *chain = &plan->block->chain;
    for (uint32_t i = 0; i < plan->block->product; i++) {
        kf_chain_op_text(text, chain, &chain->ops[i], plan->width, "        ");
    }
}

void at_emit_scores(kf_text *text, const at_plan *plan, const char *indent)
{
    const at_block *block = plan->block;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        if (at_is_score_input(block, i)) {
            emit_score_input(text, plan, i, indent);
        }
    }
    for (uint32_t i = block->product + 1; i < block->softmax; i++) {
        kf_chain_op_text(text, &block->chain, &block->chain.ops[i], plan->width, indent);
    }
}
