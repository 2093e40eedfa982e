// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join a block. One block is one kernel over one iteration space: every result has
// the shape of the first one, and every tensor that is read broadcasts to it. Whatever is not
// understood closes the block, with the reason; a drop joins always. How the kernel looks is
// decided later (elementwise_layout.c).
#include "elementwise_internal.h"

void ew_block_init(ew_block *block)
{
    block->closed = block->len = block->space = block->n_draws = block->n_gathers = 0;
    kf_chain_init(&block->chain);
}

void ew_block_copy(ew_block *to, const ew_block *from)
{
    memcpy(to, from, offsetof(ew_block, chain));
    kf_chain_copy(&to->chain, &from->chain);
}

/// Does `tensor` broadcast to `space` (right-aligned; symbol 0 is the extent 1)?
static uint32_t broadcasts(const kf_tensor *tensor, const uint32_t *space, uint32_t space_rank)
{
    if (tensor->rank > space_rank) {
        return 0;
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint32_t symbol = tensor->dims[i].symbol;
        if (symbol != 0 && symbol != space[space_rank - tensor->rank + i]) {
            return 0;
        }
    }
    return 1;
}

/// A gather's operands have shapes of their own.
static uint32_t is_gather(const kf_op *op)
{
    return op->kind == KF_OP_GATHER || op->kind == KF_OP_SELECT;
}

static uint32_t is_random(const kf_op *op)
{
    return op->kind == KF_OP_RANDOM_BERNOULLI || op->kind == KF_OP_RANDOM_UNIFORM ||
           op->kind == KF_OP_RANDOM_NORMAL;
}

static uint32_t shapes_fit(const ew_block *block, const kf_op *op)
{
    const kf_tensor *out = op->outputs[0];
    uint32_t space[KF_MAX_RANK];
    for (uint32_t i = 0; i < out->rank; i++) {
        space[i] = out->dims[i].symbol;
    }
    if (block->chain.n_ops > 0) {
        const kf_chain_value *value = &block->chain.values[block->space];
        if (value->rank != out->rank ||
            memcmp(value->symbols, space, out->rank * sizeof(space[0])) != 0) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < op->n_inputs && !is_gather(op); i++) {
        if (!broadcasts(op->inputs[i], space, out->rank)) {
            return 0;
        }
    }
    return 1;
}

/// 1 when the operation may join; otherwise the reason has been reported.
static uint32_t admits(const ew_block *block, const kf_chain_device *device, const kf_host *host,
                       const kf_ew_row *row, const kf_op *op)
{
    if (is_random(op)   ? !ew_draw_admits(block, device, host, op)
        : is_gather(op) ? !ew_gather_admits(block, device, host, op)
                        : !kf_chain_admits(&block->chain, device, host, row, op)) {
        return 0;
    }
    return shapes_fit(block, op) ||
           kf_decline(host, KF_CODE_SHAPE, op->position, "%s has another shape than the block",
                      row != NULL     ? row->name
                      : is_gather(op) ? "a gather"
                                      : "a draw");
}

void ew_block_push(ew_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_block *context, const kf_op *op)
{
    uint32_t result = 0;
    if (block->closed) {
        return;
    }
    if (op->kind == KF_OP_DROP) {
        block->closed = !kf_chain_drop(&block->chain, host, op);
        block->len += !block->closed;
        return;
    }
    const kf_ew_row *row = kf_ew_row_of(op->kind);
    block->closed = !admits(block, device, host, row, op) ||
                    (is_random(op) && !ew_draw_record(block, context, op, &result));
    if (block->closed) {
        return;
    }
    if (is_gather(op)) {
        result = ew_gather_record(block, op);
    } else if (!is_random(op)) {
        result = kf_chain_record(&block->chain, row, op)->result;
    }
    if (block->chain.n_ops == 1) {
        block->space = result;
    }
    block->len++;
}
