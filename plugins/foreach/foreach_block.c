// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join a block: elementwise ones over dense tensors of the result's elements, and
// single elements that are there before. They may belong to any number of chains; after each it is
// looked whether what there is falls into equal members (foreach_split.c), and the last length at
// which it did is what the block offers.
#include "foreach_internal.h"

void fe_block_init(fe_block *block)
{
    memset(block, 0, offsetof(fe_block, chain));
    kf_chain_init(&block->chain);
}

void fe_block_copy(fe_block *to, const fe_block *from)
{
    memcpy(to, from, offsetof(fe_block, dropped_at));
    memcpy(to->dropped_at, from->dropped_at, from->chain.n_values * sizeof(to->dropped_at[0]));
    kf_chain_copy(&to->chain, &from->chain);
}

static uint32_t is_single(const kf_tensor *tensor)
{
    uint32_t i = 0;
    while (i < tensor->rank && tensor->dims[i].symbol == 0) {
        i++;
    }
    return i == tensor->rank;
}

/// Equal extents in the same order, extents of 1 left out.
static uint32_t same_elements(const kf_tensor *a, const kf_tensor *b)
{
    uint32_t i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i].symbol == 0) {
            i++;
        }
        while (k < b->rank && b->dims[k].symbol == 0) {
            k++;
        }
        if (i == a->rank || k == b->rank) {
            return i == a->rank && k == b->rank;
        }
        if (a->dims[i++].symbol != b->dims[k++].symbol) {
            return 0;
        }
    }
}

static uint32_t inputs_fit(const fe_block *block, const kf_host *host, const kf_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_tensor *input = op->inputs[i];
        const kf_chain_value *known = kf_chain_known(&block->chain, input->id);
        uint32_t computed = known != NULL && known->computed;
        if (!same_elements(input, op->outputs[0]) && (computed || !is_single(input))) {
            return kf_decline(host, KF_CODE_SHAPE, op->position, "input %u is broadcast", i);
        }
        if (!computed && (input->facts & KF_FACT_CONTIGUOUS) == 0) {
            return kf_decline(host, KF_CODE_LAYOUT, op->position, "input %u has gaps", i);
        }
    }
    return 1;
}

static uint32_t take_drop(fe_block *block, const kf_host *host, const kf_op *op)
{
    if (!kf_chain_drop(&block->chain, host, op)) {
        return 0;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_chain_value *value = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (value != NULL) {
            block->dropped_at[value - block->chain.values] = block->len + 1;
        }
    }
    return 1;
}

static uint32_t take_op(fe_block *block, const kf_chain_device *device, const kf_host *host,
                        const kf_op *op)
{
    const kf_ew_row *row = kf_ew_row_of(op->kind);
    kf_chain_device roomy = *device;
    roomy.max_param_bytes = 1u << 20; // what the kernel's arguments need is the split's to count
    if (!kf_chain_admits(&block->chain, &roomy, host, row, op) || !inputs_fit(block, host, op)) {
        return 0;
    }
    if (block->chain.n_ops >= block->good_ops + FE_PATIENCE) {
        return kf_decline(host, KF_CODE_LIMIT, op->position, "no chains do the same");
    }
    uint32_t n_values = block->chain.n_values;
    (void)kf_chain_record(&block->chain, row, op);
    for (; n_values < block->chain.n_values; n_values++) {
        block->dropped_at[n_values] = 0;
    }
    return 1;
}

void fe_block_push(fe_block *block, fe_split *scratch, const kf_chain_device *device,
                   const kf_host *host, const kf_op *op)
{
    uint32_t taken =
        op->kind == KF_OP_DROP ? take_drop(block, host, op) : take_op(block, device, host, op);
    if (!taken) {
        block->closed = 1;
        return;
    }
    block->len++;
    if (fe_split_make(scratch, block, block->chain.n_ops, block->len, device)) {
        block->good_len = block->len;
        block->good_ops = block->chain.n_ops;
        block->closed = fe_split_is_full(scratch, block, device);
    }
}
