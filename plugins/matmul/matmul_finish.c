// SPDX-License-Identifier: MIT OR Apache-2.0
// The text behind the sums: the epilogue on a vector of the result, or a part of a sum kept for the
// kernel that combines them.
#include "matmul_internal.h"

static void emit_end_input(kf_text *text, const mm_plan *plan, uint32_t value, const char *indent)
{
    const mm_block *block = plan->block;
    const kf_chain_value *v = &block->chain.values[value];
    kf_dtype dtype = kf_dtype_of(v->dtype);
    char stride[32] = "1";
    kf_text_addf(text, "%s__global const %s *p%u = in%u", indent, dtype.storage, value, value);
    if (!v->zero_offset) {
        kf_text_addf(text, " + o%u", value);
    }
    if (mm_is_linear(block, value)) {
        kf_text_add(text, " + at;\n");
    } else {
        int column = mm_column_axis(block), own;
        for (int i = 0; i < (int)block->chain.values[block->result].rank; i++) {
            own = mm_result_axis(block, value, (uint32_t)i);
            mm_stride_name(plan, value, own, stride);
            if (own < 0) {
                continue;
            }
            if (i == column || i == mm_row_axis(block)) {
                kf_text_addf(text, " + %s * %s", i == column ? "col" : "row", stride);
            } else {
                kf_text_addf(text, " + i%d * %s", i, stride);
            }
        }
        kf_text_add(text, ";\n");
        own = column < 0 ? -1 : mm_result_axis(block, value, (uint32_t)column);
        mm_stride_name(plan, value, own, stride);
    }
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, dtype.compute, plan->width, value);
    if (strcmp(stride, "0") == 0) {
        kf_text_addf(text, "(%s%u)(one_%s(p%u));\n", dtype.compute, plan->width, dtype.name, value);
    } else if (strcmp(stride, "1") == 0) {
        kf_text_addf(text, "count == %u ? load_%s(p%u) : part_%s(p%u, 1, count);\n", plan->width,
                     dtype.name, value, dtype.name, value);
    } else {
        kf_text_addf(text, "part_%s(p%u, %s, count);\n", dtype.name, value, stride);
    }
}

static void emit_part_store(kf_text *text, const mm_plan *plan, const char *indent)
{
    kf_text_addf(text,
                 "%s__global %s *to = partial + (part * batches + batch) * m * (long)n + row * n + "
                 "col;\n"
                 "%sif (count == %u) {\n"
                 "%s    vstore%u(sum, 0, to);\n"
                 "%s} else {\n"
                 "%s    %s e[%u];\n"
                 "%s    vstore%u(sum, 0, e);\n"
                 "%s    for (int i = 0; i < count; i++) {\n"
                 "%s        to[i] = e[i];\n"
                 "%s    }\n"
                 "%s}\n",
                 indent, plan->type, indent, plan->width, indent, plan->width, indent, indent,
                 plan->type, plan->width, indent, plan->width, indent, indent, indent, indent);
}

/// The sum of one of the block's products, `sum`, as its result.
static void emit_result(kf_text *text, const mm_plan *plan, uint32_t product, const char *sum,
                        const char *indent)
{
    uint32_t result = mm_result(plan->block, product);
    kf_dtype dtype = kf_dtype_of(plan->block->chain.values[result].dtype);
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, plan->type, plan->width, result);
    if (dtype.bytes == 2) {
        kf_text_addf(text, "round_%s(%s);\n", dtype.name, sum);
    } else {
        kf_text_addf(text, "%s;\n", sum);
    }
}

/// What follows one of the block's products, or all of them, from `at` on.
static void emit_finish_of(kf_text *text, const mm_plan *plan, uint32_t product, const char *indent)
{
    const mm_block *block = plan->block;
    const kf_chain *chain = &block->chain;
    uint32_t all = block->together;
    for (uint32_t i = 0; i < chain->n_values; i++) {
        if (all ? mm_is_epilogue_input(block, i) : mm_is_input_behind(block, product, i)) {
            emit_end_input(text, plan, i, indent);
        }
    }
    for (uint32_t i = block->product + 1; i < chain->n_ops; i++) {
        if (all ? chain->ops[i].kind != KF_OP_MATMUL : mm_is_behind(block, product, i)) {
            kf_chain_op_text(text, chain, &chain->ops[i], plan->width, indent);
        }
    }
    for (uint32_t i = 0; i < chain->n_values; i++) {
        const char *name = kf_dtype_of(chain->values[i].dtype).name;
        if (kf_chain_is_output(&chain->values[i]) && (all || block->owner[i] == product)) {
            kf_text_addf(text,
                         "%sif (count == %u) {\n%s    keep_%s(out%u + at, v%u, %s);\n"
                         "%s} else {\n%s    put_%s(out%u + at, v%u, count);\n%s}\n",
                         indent, plan->width, indent, name, i, i,
                         plan->stream != 0 ? "stream" : "0", indent, indent, name, i, i, indent);
        }
    }
}

void mm_emit_finish(kf_text *text, const mm_plan *plan, mm_role role, const char *indent)
{
    uint32_t products = mm_products(plan->block);
    if (plan->split && role == MM_PRODUCT) {
        emit_part_store(text, plan, indent);
        return;
    }
    kf_text_addf(text, "%sconst long at = (batch * m + row) * n + col;\n", indent);
    for (uint32_t i = 0; i < products && plan->block->together; i++) {
        char sum[16];
        snprintf(sum, sizeof(sum), i + 1 < products ? "sum%u" : "sum", i);
        emit_result(text, plan, i, sum, indent);
    }
    if (plan->block->together) {
        emit_finish_of(text, plan, 0, indent);
        return;
    }
    for (uint32_t i = 0; i < products; i++) {
        if (products > 1) {
            kf_text_addf(text, "%sif (product == %u) {\n", indent, i);
        }
        emit_result(text, plan, i, "sum", indent);
        emit_finish_of(text, plan, i, indent);
        if (products > 1) {
            kf_text_addf(text, "%s}\n", indent);
        }
    }
}
