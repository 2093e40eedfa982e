// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides which products of 8-bit integers are done, and finds their zero points: the operator
// matmul_integer, whose operands are read as they lie.
#include "matmul_bytes.h"

static uint32_t is_byte(const kf_tensor *t)
{
    return t->dtype == KF_DTYPE_U8 || t->dtype == KF_DTYPE_I8;
}

uint32_t mm_bytes_done(const mm_block *block, const kf_chain_device *device, const kf_op *op)
{
    if (block->floats_only || !device->block_shape || !device->is_cpu ||
        op->outputs[0]->dtype != KF_DTYPE_I32) {
        return 0;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!is_byte(op->inputs[i]) || op->inputs[i]->dtype != op->inputs[i % 2]->dtype ||
            (i >= 2 && op->inputs[i]->rank > 1)) {
            return 0;
        }
    }
    return 1;
}

int mm_bytes_zero_axis(const mm_block *block, const mm_operand *operand)
{
    if (operand->zero == MM_NO_VALUE) {
        return -1;
    }
    const kf_chain_value *zero = &block->chain.values[operand->zero];
    return zero->rank == 1 && zero->symbols[0] != 0 ? 0 : -1;
}

uint32_t mm_bytes_zero_by_row(const mm_block *block)
{
    return block->bytes && mm_bytes_zero_axis(block, &block->left) >= 0;
}

uint32_t mm_bytes_take(mm_block *block, const kf_host *host, const kf_op *op)
{
    block->bytes = 1;
    if (!mm_is_unit(block, block->left.source, block->left.inner)) {
        block->has_product = 0;
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "rows of bytes that do not lie dense in memory");
    }
    return 1;
}
