// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join: elementwise operators on the query, the product with the keys, elementwise
// operators on the scores with anything that broadcasts to them, the softmax over the keys, and the
// product with the values. Nothing but the last result may be wanted.
#include "attention_internal.h"

void at_block_init(at_block *block)
{
    memset((char *)block + sizeof(block->chain), 0, sizeof(*block) - sizeof(block->chain));
    kf_chain_init(&block->chain);
}

void at_block_copy(at_block *to, const at_block *from)
{
    kf_chain_copy(&to->chain, &from->chain);
    memcpy((char *)to + sizeof(to->chain), (const char *)from + sizeof(from->chain),
           sizeof(*to) - sizeof(to->chain));
}

// ---- the query ----

static uint32_t push_query(at_block *block, const kf_chain_device *device, const kf_host *host,
                           const kf_ew_row *row, const kf_op *op)
{
    const kf_chain_op *before =
        block->chain.n_ops > 0 ? &block->chain.ops[block->chain.n_ops - 1] : NULL;
    if (row->inputs != 1 || !at_is_operand(block, device, op->inputs[0]) ||
        !at_is_operand(block, device, op->outputs[0]) ||
        !kf_same_dims(op->inputs[0], op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s before a product has more than one operand, or another type",
                          row->name);
    }
    if (before != NULL && block->chain.values[before->result].id != op->inputs[0]->id) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "%s is of another tensor than before",
                          row->name);
    }
    at_record_wide(block, row, op);
    return 1;
}

// ---- products ----

static uint32_t is_set(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->v.i != 0;
}

static uint32_t product_admitted(at_block *block, const kf_chain_device *device,
                                 const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_TRANSPOSE_A, KF_ATTR_TRANSPOSE_B};
    uint32_t at = op->position;
    if (!kf_op_understood(op, 1, keys, 2) || op->n_inputs != 2 || op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "a newer kind of product");
    }
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        if ((op->attrs[i].flags & KF_ATTR_FLAG_HINT) == 0 && op->attrs[i].type != KF_TYPE_BOOL) {
            return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "a newer kind of product");
        }
    }
    if (!at_is_operand(block, device, op->inputs[0]) ||
        !at_is_operand(block, device, op->inputs[1]) ||
        !at_is_operand(block, device, op->outputs[0])) {
        return kf_decline(host, KF_CODE_DTYPE, at,
                          "attention is of f32 only, on tensor cores of f16 and bf16 too");
    }
    if (op->inputs[0]->rank < 2 || op->inputs[1]->rank < 2) {
        return kf_decline(host, KF_CODE_SHAPE, at, "a product with a vector is no attention");
    }
    if (!kf_chain_has_room(&block->chain, device, op)) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

/// The extent of an axis along a head: loops need it. 0: it is not told, or too long.
static int32_t head_extent(const at_block *block, const kf_block *values, const kf_tensor *t,
                           uint32_t axis)
{
    int64_t extent = 1, most = at_is_small(block) ? AT_TENSOR_DEPTH : AT_MAX_DEPTH;
    if (t->dims[axis].symbol != 0 &&
        values->dim_value(values, t->dims[axis].symbol, &extent) != KF_OK) {
        return 0;
    }
    return extent > 0 && extent <= most ? (int32_t)extent : 0;
}

static uint32_t push_scores(at_block *block, const kf_chain_device *device, const kf_host *host,
                            const kf_block *values, const kf_op *op)
{
    const kf_tensor *query = op->inputs[0], *key = op->inputs[1];
    const kf_chain_value *known = kf_chain_known(&block->chain, key->id);
    if (!product_admitted(block, device, host, op)) {
        return 0;
    }
    if ((known != NULL && !block->is_wide && !at_host_makes(block, known)) ||
        (block->chain.n_ops > 0 &&
         block->chain.values[block->chain.ops[block->chain.n_ops - 1].result].id != query->id)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "what was taken before is not the query of this product");
    }
    uint32_t turned_query = is_set(op, KF_ATTR_TRANSPOSE_A);
    uint32_t turned_key = is_set(op, KF_ATTR_TRANSPOSE_B);
    block->query.row = (uint8_t)(query->rank - (turned_query ? 1 : 2));
    block->query.column = (uint8_t)(query->rank - (turned_query ? 2 : 1));
    block->key.row = (uint8_t)(key->rank - (turned_key ? 2 : 1));
    block->key.column = (uint8_t)(key->rank - (turned_key ? 1 : 2));
    block->depth = head_extent(block, values, query, block->query.column);
    if (block->depth == 0) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "heads of more than %u elements",
                          (unsigned)(at_is_small(block) ? AT_TENSOR_DEPTH : AT_MAX_DEPTH));
    }
    block->query.value = (uint16_t)kf_chain_add_value(&block->chain, query, 0);
    block->query.loaded =
        block->chain.n_ops > 0 ? block->chain.ops[0].inputs[0] : block->query.value;
    block->key.value = block->key.loaded = (uint16_t)kf_chain_add_value(&block->chain, key, 0);
    if (!at_find_source(block, &block->query) || !at_find_source(block, &block->key)) {
        return kf_decline(host, KF_CODE_DTYPE, op->position,
                          "of query and keys one is cast and one is not");
    }
    block->product = block->chain.n_ops;
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_MATMUL, KF_DTYPE_F32);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->chain.values[own->result].dtype = KF_DTYPE_F32;
    block->scores = block->last = own->result;
    block->stage = AT_SCORES;
    return 1;
}

static uint32_t same_batch(const at_block *block, const kf_tensor *result)
{
    const kf_chain_value *scores = &block->chain.values[block->scores];
    if (result->rank != scores->rank) {
        return 0;
    }
    for (uint32_t i = 0; i + 1 < result->rank; i++) {
        if (result->dims[i].symbol != scores->symbols[i]) {
            return 0;
        }
    }
    return 1;
}

static uint32_t push_result(at_block *block, const kf_chain_device *device, const kf_host *host,
                            const kf_block *values, const kf_op *op)
{
    const kf_tensor *t = op->inputs[1];
    const kf_chain_value *known = kf_chain_known(&block->chain, t->id);
    if (!product_admitted(block, device, host, op)) {
        return 0;
    }
    if (op->inputs[0]->id != block->chain.values[block->weights].id ||
        is_set(op, KF_ATTR_TRANSPOSE_A) || (known != NULL && known->computed && !block->is_wide) ||
        !same_batch(block, op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "the product is not of the softmax and values for each of its batches");
    }
    uint32_t turned = is_set(op, KF_ATTR_TRANSPOSE_B);
    block->values.row = (uint8_t)(t->rank - (turned ? 1 : 2));
    block->values.column = (uint8_t)(t->rank - (turned ? 2 : 1));
    block->width = head_extent(block, values, t, block->values.column);
    if (block->width == 0) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "heads of more than %u elements",
                          (unsigned)(at_is_small(block) ? AT_TENSOR_DEPTH : AT_MAX_DEPTH));
    }
    if (!device->block_shape && at_local_bytes(block) > device->local_bytes) {
        return kf_decline(host, KF_CODE_DEVICE, op->position,
                          "heads of %d and %d elements do not fit into local memory",
                          (int)block->depth, (int)block->width);
    }
    block->values.value = block->values.loaded = (uint16_t)kf_chain_add_value(&block->chain, t, 0);
    if (!at_find_source(block, &block->values)) {
        return kf_decline(host, KF_CODE_DTYPE, op->position,
                          "the values are cast where the query is not, or not where it is");
    }
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_MATMUL, KF_DTYPE_F32);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->result = own->result;
    block->stage = AT_DONE;
    return 1;
}

// ---- scores ----

static uint32_t is_score(const at_block *block, uint32_t id)
{
    for (uint32_t i = block->product; i < block->chain.n_ops; i++) {
        if (block->chain.values[block->chain.ops[i].result].id == id) {
            return 1;
        }
    }
    return 0;
}

/// Does the tensor broadcast to the scores?
static uint32_t broadcasts(const at_block *block, const kf_tensor *t)
{
    const kf_chain_value *scores = &block->chain.values[block->scores];
    if (t->rank > scores->rank) {
        return 0;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t symbol = t->dims[i].symbol;
        if (symbol != 0 && symbol != scores->symbols[scores->rank - t->rank + i]) {
            return 0;
        }
    }
    return 1;
}

/// Has the tensor the shape of the scores?
static uint32_t is_whole(const at_block *block, const kf_tensor *t)
{
    const kf_chain_value *scores = &block->chain.values[block->scores];
    uint32_t whole = t->rank == scores->rank;
    for (uint32_t i = 0; i < scores->rank && whole; i++) {
        whole = t->dims[i].symbol == scores->symbols[i];
    }
    return whole;
}

/// An operation on tensors beside the scores alone, such as a comparison of positions: whatever
/// broadcasts to the scores is computed where it is used.
static uint32_t push_beside(at_block *block, const kf_host *host, const kf_ew_row *row,
                            const kf_op *op)
{
    if (!broadcasts(block, op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s makes what does not broadcast to the scores", row->name);
    }
    kf_chain_record(&block->chain, row, op);
    return 1;
}

static uint32_t push_on_scores(at_block *block, const kf_host *host, const kf_ew_row *row,
                               const kf_op *op)
{
    uint32_t follows = 0;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_chain_value *known = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (is_score(block, op->inputs[i]->id)) {
            follows |= known != NULL && is_whole(block, op->inputs[i]);
        } else if ((known != NULL && known->computed) || !broadcasts(block, op->inputs[i])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "%s reads what does not broadcast to the scores", row->name);
        }
    }
    if (!follows) {
        return push_beside(block, host, row, op);
    }
    if (!is_whole(block, op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s does not continue from the scores in their shape", row->name);
    }
    block->last = at_record_wide(block, row, op);
    return 1;
}

static uint32_t push_softmax(at_block *block, const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    const kf_attr *axis = kf_op_attr(op, KF_ATTR_AXIS);
    int64_t rank = block->chain.values[block->scores].rank;
    if (!kf_op_understood(op, 1, keys, 1) || op->n_inputs != 1 || op->n_outputs != 1 ||
        (axis != NULL && axis->type != KF_TYPE_I64)) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, op->position, "a newer kind of softmax");
    }
    if (op->inputs[0]->id != block->chain.values[block->last].id ||
        at_wide_dtype(op->inputs[0]->dtype) != KF_DTYPE_F32 ||
        op->outputs[0]->dtype != op->inputs[0]->dtype ||
        (axis != NULL && axis->v.i != -1 && axis->v.i != rank - 1)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "the softmax is not of the scores, along the keys");
    }
    block->softmax = block->chain.n_ops;
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_SOFTMAX, KF_DTYPE_F32);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->weights = own->result;
    block->stage = AT_WEIGHTS;
    return 1;
}

// ---- any operation ----

static uint32_t count_tensors(const at_block *block)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        count += !block->chain.values[i].computed;
    }
    return count;
}

static uint32_t push_elementwise(at_block *block, const kf_chain_device *device,
                                 const kf_host *host, const kf_op *op)
{
    const kf_ew_row *row = kf_ew_row_of(op->kind);
    if (!kf_chain_admits(&block->chain, device, host, row, op)) {
        return 0;
    }
    if (block->stage != AT_SCORES && at_widens(block, device, op)) {
        at_push_widened(block, op);
        return 1;
    }
    if (at_is_hosted(block, device, op)) {
        at_push_hosted(block, op);
        return 1;
    }
    if (at_narrows_weights(block, op)) {
        at_push_narrow_weights(block, op);
        return 1;
    }
    if (block->stage == AT_QUERY) {
        return push_query(block, device, host, row, op);
    }
    if (block->stage != AT_SCORES) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s comes behind the softmax, where only a product may", row->name);
    }
    return push_on_scores(block, host, row, op);
}

static uint32_t push(at_block *block, const kf_chain_device *device, const kf_host *host,
                     const kf_block *values, const kf_op *op)
{
    if (op->kind == KF_OP_DROP) {
        return kf_chain_drop(&block->chain, host, op);
    }
    if (block->stage == AT_DONE) {
        return at_push_narrowed(block, device, host, op);
    }
    if (op->kind == KF_OP_MATMUL && block->stage == AT_QUERY) {
        return push_scores(block, device, host, values, op);
    }
    if (op->kind == KF_OP_MATMUL && block->stage == AT_WEIGHTS) {
        return push_result(block, device, host, values, op);
    }
    if (op->kind == KF_OP_SOFTMAX && block->stage == AT_SCORES) {
        return push_softmax(block, host, op);
    }
    return push_elementwise(block, device, host, op);
}

void at_block_push(at_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_block *values, const kf_op *op)
{
    if (block->closed) {
        return;
    }
    if (!push(block, device, host, values, op)) {
        block->closed = 1;
        return;
    }
    if (count_tensors(block) > AT_MAX_TENSORS) {
        kf_decline(host, KF_CODE_LIMIT, op->position, "the block reads more than %u tensors",
                   (unsigned)AT_MAX_TENSORS);
        block->closed = 1;
        return;
    }
    block->len++;
    if (op->kind != KF_OP_DROP) {
        const kf_ew_row *row = kf_ew_row_of(op->kind);
        if (block->n_shown < 8) {
            block->shown[block->n_shown] = op->kind == KF_OP_MATMUL    ? "matmul"
                                           : op->kind == KF_OP_SOFTMAX ? "softmax"
                                                                       : row->name;
        }
        block->n_shown++;
    }
}

uint32_t at_block_is_ready(const at_block *block)
{
    if (block->stage != AT_DONE || block->chain.values[block->result].dtype != block->element) {
        return 0;
    }
    for (uint32_t i = 0; i < block->n_widened; i++) {
        if (kf_chain_is_output(&block->chain.values[block->widened[i].to])) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < block->chain.n_ops; i++) {
        uint32_t result = block->chain.ops[i].result;
        if (kf_chain_is_output(&block->chain.values[result]) != (result == block->result)) {
            return 0;
        }
    }
    return 1;
}
