// SPDX-License-Identifier: MIT OR Apache-2.0
// What a block has: its axes, of which types query, keys and values are, and how much local memory
// they need. Tensor cores take 16 bits, also where these are recorded as cast to f32 and the result
// as cast back.
#include "attention_internal.h"

// ---- axes ----

uint32_t at_batch(const at_block *block)
{
    return block->chain.values[block->scores].rank - 2u;
}

uint32_t at_rows(const at_block *block)
{
    return block->chain.values[block->scores].symbols[at_batch(block)];
}

uint32_t at_keys(const at_block *block)
{
    return block->chain.values[block->scores].symbols[at_batch(block) + 1];
}

int at_axis(const at_block *block, uint32_t value, uint32_t axis)
{
    const kf_chain_value *v = &block->chain.values[value];
    int own = (int)axis - (int)(block->chain.values[block->scores].rank - v->rank);
    return own >= 0 && v->symbols[own] != 0 ? own : -1;
}

uint32_t at_is_score_input(const at_block *block, uint32_t value)
{
    for (uint32_t i = block->product + 1; i < block->softmax; i++) {
        for (uint32_t k = 0; k < block->chain.ops[i].n_inputs; k++) {
            if (block->chain.ops[i].inputs[k] == value) {
                return !block->chain.values[value].computed;
            }
        }
    }
    return 0;
}

// ---- types ----

uint32_t at_is_small(const at_block *block)
{
    return kf_dtype_of(block->element).bytes == 2;
}

static uint32_t has_tensor(const kf_chain_device *device)
{
    return (device->features & KF_FEATURE_WGMMA) != 0 && !device->block_shape;
}

static uint32_t is_16_bits(uint32_t dtype)
{
    return dtype == KF_DTYPE_F16 || dtype == KF_DTYPE_BF16;
}

/// f32, or f16 or bf16 where there are tensor cores; all operands and results of products alike.
uint32_t at_is_operand(at_block *block, const kf_chain_device *device, const kf_tensor *t)
{
    if (block->element == 0 &&
        (t->dtype == KF_DTYPE_F32 || (is_16_bits(t->dtype) && has_tensor(device)))) {
        block->element = t->dtype;
    }
    return t->dtype == (block->is_wide ? (uint32_t)KF_DTYPE_F32 : block->element);
}

/// Query and scores are of f32 between the operators, also where they are recorded as of 16 bits.
uint32_t at_wide_dtype(uint32_t dtype)
{
    return is_16_bits(dtype) ? (uint32_t)KF_DTYPE_F32 : dtype;
}

/// Takes in an elementwise operation; gives its result.
uint16_t at_record_wide(at_block *block, const kf_ew_row *row, const kf_op *op)
{
    kf_chain_op *own = kf_chain_record(&block->chain, row, op);
    kf_chain_value *result = &block->chain.values[own->result];
    own->dtype = (uint16_t)at_wide_dtype(own->dtype);
    result->dtype = (uint16_t)at_wide_dtype(result->dtype);
    return own->result;
}

// ---- casts ----

/// Is this a cast to f32 of an operand that tensor cores take as it is?
uint32_t at_widens(const at_block *block, const kf_chain_device *device, const kf_op *op)
{
    uint32_t from = op->inputs[0]->dtype;
    return op->kind == KF_OP_CAST && block->n_widened < AT_OPERANDS && has_tensor(device) &&
           (device->features & KF_FEATURE_STRICT) == 0 && is_16_bits(from) &&
           op->outputs[0]->dtype == KF_DTYPE_F32 &&
           (block->element == 0 || (block->is_wide && block->element == from)) &&
           kf_chain_known(&block->chain, op->inputs[0]->id) == NULL &&
           kf_same_dims(op->inputs[0], op->outputs[0]);
}

void at_push_widened(at_block *block, const kf_op *op)
{
    at_cast *cast = &block->widened[block->n_widened++];
    block->element = op->inputs[0]->dtype;
    block->is_wide = 1;
    cast->from = (uint16_t)kf_chain_add_value(&block->chain, op->inputs[0], 0);
    cast->to = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
}

/// Is this a cast to 16 bits of a tensor from elsewhere, which tensor cores take when it is done?
/// A mask that has a number for each row is cast where it is read.
uint32_t at_is_hosted(const at_block *block, const kf_chain_device *device, const kf_op *op)
{
    const kf_tensor *to = op->outputs[0];
    uint32_t by_rows =
        block->stage == AT_SCORES && to->rank > 1 && to->dims[to->rank - 2].symbol != 0;
    return op->kind == KF_OP_CAST && block->n_hosted < AT_HOSTED && has_tensor(device) &&
           op->inputs[0]->dtype == KF_DTYPE_F32 && is_16_bits(to->dtype) && !block->is_wide &&
           (block->element == 0 || block->element == to->dtype) && !by_rows &&
           kf_chain_known(&block->chain, op->inputs[0]->id) == NULL &&
           kf_same_dims(op->inputs[0], to);
}

void at_push_hosted(at_block *block, const kf_op *op)
{
    at_hosted *hosted = &block->hosted[block->n_hosted++];
    hosted->position = op->position;
    hosted->value = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 0);
}

uint32_t at_host_makes(const at_block *block, const kf_chain_value *value)
{
    for (uint32_t i = 0; i < block->n_hosted; i++) {
        if (&block->chain.values[block->hosted[i].value] == value) {
            return 1;
        }
    }
    return 0;
}

/// Is this the cast of weights, whose scores were cast to f32, back to the operands' type? Tensor
/// cores take the weights in that type anyway.
uint32_t at_narrows_weights(const at_block *block, const kf_op *op)
{
    return op->kind == KF_OP_CAST && block->stage == AT_WEIGHTS && at_is_small(block) &&
           !block->is_wide && op->inputs[0]->id == block->chain.values[block->weights].id &&
           op->inputs[0]->dtype == KF_DTYPE_F32 && op->outputs[0]->dtype == block->element;
}

void at_push_narrow_weights(at_block *block, const kf_op *op)
{
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_CAST, KF_DTYPE_F32);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->weights = own->result;
}

static uint16_t source_of(const at_block *block, uint16_t value)
{
    for (uint32_t i = 0; i < block->n_widened; i++) {
        if (block->widened[i].to == value) {
            return block->widened[i].from;
        }
    }
    return value;
}

/// An operand, of which `loaded` is known: is it cast where others are, and read where they are?
uint32_t at_find_source(const at_block *block, at_matrix *matrix)
{
    matrix->source = source_of(block, matrix->loaded);
    return block->is_wide == (matrix->source != matrix->loaded) &&
           !block->chain.values[matrix->source].computed;
}

/// The cast of the result back, behind the second product.
uint32_t at_push_narrowed(at_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_op *op)
{
    const kf_chain_value *result = &block->chain.values[block->result];
    if (op->kind != KF_OP_CAST || !block->is_wide || result->dtype != KF_DTYPE_F32) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "one attention is one block");
    }
    if (!kf_chain_admits(&block->chain, device, host, kf_ew_row_of(op->kind), op)) {
        return 0;
    }
    if (op->inputs[0]->id != result->id || op->outputs[0]->dtype != block->element ||
        !kf_same_dims(op->inputs[0], op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "the cast is not of the result, to the type of the operands");
    }
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_CAST, KF_DTYPE_F32);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->result = own->result;
    return 1;
}

// ---- local memory ----

uint32_t at_group_bytes(const at_block *block, uint32_t tile)
{
    uint32_t across = tile / AT_GROUP_KEYS;
    uint32_t step = across * AT_GROUP_KEYS; // columns of the values that one turn covers
    uint32_t width = ((uint32_t)block->width + step - 1) / step * step;
    uint32_t keys = (uint32_t)block->depth * (tile + AT_GROUP_PAD), values = tile * width;
    return (uint32_t)sizeof(float) *
           ((uint32_t)block->depth * AT_GROUP_ROWS + (keys > values ? keys : values) +
            tile * AT_GROUP_ROWS + AT_GROUP_ROWS * across);
}

uint32_t at_part_once(const at_block *block)
{
    return 16 / kf_dtype_of(block->element).bytes;
}

uint32_t at_part_items(const at_block *block, int32_t length)
{
    uint32_t count = 1;
    while (count * at_part_once(block) < (uint32_t)length) {
        count *= 2;
    }
    return count;
}

/// Local memory of a work-group that has a part of one row.
static uint32_t part_bytes(const at_block *block)
{
    uint32_t deep = at_part_items(block, block->depth), once = at_part_once(block);
    uint32_t sums = AT_PART_KEYS * (deep + 1), values = AT_PART_ITEMS * once;
    return (uint32_t)sizeof(float) *
           (deep * once + AT_PART_KEYS + (sums > values ? sums : values) + 2);
}

/// Local memory that a work-group needs, of what a device is asked about. A device with tensor
/// cores has enough for these.
uint32_t at_local_bytes(const at_block *block)
{
    return at_rows(block) == 0  ? part_bytes(block)
           : at_is_small(block) ? 0
                                : at_group_bytes(block, AT_TILE / 2);
}
