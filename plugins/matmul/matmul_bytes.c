// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations make a product of 8-bit integers: of each operand a cast to i32, and perhaps the
// subtraction of its zero point, which is a number or a tensor, i32 or itself a cast of bytes.
#include "matmul_bytes.h"

static uint32_t is_byte(uint32_t dtype)
{
    return dtype == KF_DTYPE_U8 || dtype == KF_DTYPE_I8;
}

/// The operation that made a value; NULL: it is read from memory.
static const kf_chain_op *maker_of(const mm_block *block, uint32_t value)
{
    for (uint32_t i = 0; i < block->chain.n_ops; i++) {
        if (block->chain.ops[i].result == value) {
            return &block->chain.ops[i];
        }
    }
    return NULL;
}

/// Does a run end in this tensor, and has it only the cast?
static uint32_t is_cast_only(const mm_block *block, uint32_t id)
{
    uint32_t which = mm_prologue_of(block, id);
    return which < MM_PROLOGUES &&
           maker_of(block, block->prologue_end[which])->row->result == KF_EW_CAST &&
           is_byte(block->chain.values[block->prologue_source[which]].dtype);
}

static void forget_run(mm_block *block, uint32_t which)
{
    block->n_prologues--;
    for (uint32_t i = which; i < block->n_prologues; i++) {
        block->prologue_source[i] = block->prologue_source[i + 1];
        block->prologue_end[i] = block->prologue_end[i + 1];
    }
}

static uint32_t push_zero(mm_block *block, const kf_host *host, const kf_ew_row *row,
                          const kf_op *op)
{
    uint32_t with_tensor = op->kind == KF_OP_SUB;
    if ((!with_tensor && op->kind != KF_OP_SUB_SCALAR) || !is_cast_only(block, op->inputs[0]->id) ||
        (with_tensor && !is_cast_only(block, op->inputs[1]->id) &&
         kf_chain_known(&block->chain, op->inputs[1]->id) != NULL) ||
        (with_tensor && op->inputs[1]->id == op->inputs[0]->id)) {
        return kf_decline(host, KF_CODE_DTYPE, op->position,
                          "before a product of integers only bytes less a zero point");
    }
    if (with_tensor && mm_prologue_of(block, op->inputs[1]->id) < MM_PROLOGUES) {
        forget_run(block, mm_prologue_of(block, op->inputs[1]->id));
    }
    uint32_t which = mm_prologue_of(block, op->inputs[0]->id);
    block->prologue_end[which] = kf_chain_record(&block->chain, row, op)->result;
    return 1;
}

uint32_t mm_bytes_push(mm_block *block, const kf_chain_device *device, const kf_host *host,
                       const kf_ew_row *row, const kf_op *op)
{
    if (block->floats_only || !device->block_shape || !device->is_cpu) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "products are of floats only");
    }
    if (op->outputs[0]->dtype != KF_DTYPE_I32 || !kf_same_dims(op->inputs[0], op->outputs[0])) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "sums of bytes are i32");
    }
    if (op->kind != KF_OP_CAST) {
        return push_zero(block, host, row, op);
    }
    if (!is_byte(op->inputs[0]->dtype) || !mm_prologue_begins(block, op)) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "products of integers are of bytes");
    }
    const kf_chain_op *own = kf_chain_record(&block->chain, row, op);
    block->prologue_source[block->n_prologues] = own->inputs[0];
    block->prologue_end[block->n_prologues++] = own->result;
    return 1;
}

// ---- the product ----

uint32_t mm_bytes_meet(const mm_block *block, const kf_op *op)
{
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t which = mm_prologue_of(block, op->inputs[i]->id);
        if (op->inputs[i]->dtype != KF_DTYPE_I32 || which == MM_PROLOGUES) {
            return 0;
        }
    }
    return 1;
}

/// Axis of the zero points that is axis `axis` of the operand, and longer than 1; or -1.
static int zero_axis(const mm_block *block, const mm_operand *operand, uint32_t zero, int axis)
{
    const kf_chain_value *z = &block->chain.values[zero];
    int own = axis - (int)block->chain.values[operand->source].rank + (int)z->rank;
    return axis >= 0 && own >= 0 && z->symbols[own] != 0 ? own : -1;
}

uint32_t mm_bytes_zero_value(const mm_block *block, const mm_operand *operand)
{
    if (operand->zero_op == MM_NO_VALUE || block->chain.ops[operand->zero_op].n_inputs < 2) {
        return MM_NO_VALUE;
    }
    uint32_t value = block->chain.ops[operand->zero_op].inputs[1];
    const kf_chain_op *maker = maker_of(block, value);
    return maker == NULL ? value : maker->inputs[0];
}

int mm_bytes_zero_axis(const mm_block *block, const mm_operand *operand)
{
    uint32_t zero = mm_bytes_zero_value(block, operand);
    return zero == MM_NO_VALUE ? -1 : zero_axis(block, operand, zero, operand->outer);
}

uint32_t mm_bytes_zero_by_row(const mm_block *block)
{
    return block->bytes && mm_bytes_zero_axis(block, &block->left) >= 0;
}

static uint32_t take_zero(const mm_block *block, mm_operand *operand)
{
    const kf_chain_op *maker = maker_of(block, operand->value);
    if (maker->row->result == KF_EW_CAST) {
        return 1;
    }
    operand->zero_op = (uint16_t)(maker - block->chain.ops);
    uint32_t zero = mm_bytes_zero_value(block, operand);
    uint32_t rank = block->chain.values[operand->source].rank;
    for (uint32_t i = 0; i < rank && zero != MM_NO_VALUE; i++) {
        if ((int)i != operand->outer && zero_axis(block, operand, zero, (int)i) >= 0) {
            return 0;
        }
    }
    return 1;
}

uint32_t mm_bytes_take(mm_block *block, const kf_host *host, const kf_op *op)
{
    block->bytes = 1;
    if (!take_zero(block, &block->left) || !take_zero(block, &block->right)) {
        block->has_product = 0;
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "a zero point for each term of a sum, or for each batch");
    }
    if (!mm_is_unit(block, block->left.source, block->left.inner)) {
        block->has_product = 0;
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "rows of bytes that do not lie dense in memory");
    }
    return 1;
}
