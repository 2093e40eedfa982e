// SPDX-License-Identifier: MIT OR Apache-2.0
// What this fuser takes, and the kernel that it gives for it: relu(a + b) over tensors of one
// shape. This file is yours to change; abi.c keeps the rules of the plugin interface around it.
#include "abi.h"

/// The operations of a block. Each reads the result of the one before, in one operand, and only the
/// last result is still needed after the block.
const uint32_t fuser_ops[] = {KF_OP_ADD, KF_OP_RELU};
const uint32_t fuser_n_ops = 2;

/// Does `op`, the operation fuser_ops[n], look as the kernel needs it? The operator, its version
/// and its flags were checked, and every tensor is dense and in f32.
uint32_t fuser_fits(const kf_host *host, const block *b, uint32_t n, const kf_op *op)
{
    uint32_t i;
    (void)b;
    (void)n;
    for (i = 0; i < op->n_inputs; i++) {
        if (!kf_same_dims(op->inputs[i], op->outputs[0])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "broadcasting is not for me");
        }
    }
    return 1;
}

/// The attributes that fuser_fits looks at; an operation with any other is not taken. Numbers and
/// lists of numbers are kept in the block for fuser_sizes: block_attr.
const uint32_t fuser_attrs[] = {0};
const uint32_t fuser_n_attrs = 0;

/// The kernel. Its arguments: what the operations read from memory, operand by operand, the result,
/// then the numbers of fuser_sizes, then its scalars.
const char fuser_source[] = "__kernel void my_kernel(__global const float *a,\n"
                            "                        __global const float *b,\n"
                            "                        __global float *out, long count, long each)\n"
                            "{\n"
                            "    long begin = get_global_id(0) * each;\n"
                            "    long end = min(begin + each, count);\n"
                            "    for (long i = begin; i < end; i++) {\n"
                            "        float sum = a[i] + b[i];\n"
                            "        out[i] = sum < 0.0f ? 0.0f : sum; // NaN stays NaN\n"
                            "    }\n"
                            "}\n";
const char fuser_kernel[] = "my_kernel";

/// How many work-items, and the numbers that the kernel gets, as formulas: extents are symbols, so
/// one program serves every size.
void fuser_sizes(const block *b, sizes *s)
{
    uint32_t each = b->on_cpu ? 16384 : 4;
    kf_formula_product(&s->numbers[0], b->result.symbols, b->result.rank); // count
    kf_formula_imm(&s->numbers[1], each);
    s->n_numbers = 2;
    kf_formula_product(&s->work_items, b->result.symbols, b->result.rank);
    kf_formula_imm(&s->work_items, each);
    kf_formula_op(&s->work_items, KF_INS_CEIL_DIV);
}
