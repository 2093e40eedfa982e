// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations make an attention: a product of queries and keys, any elementwise operations on
// the scores, a softmax along the keys, a product with the values. All in f32; q, k and v may lie
// in memory in any way, so that heads that were split off by views need no copy.
#include "attention.h"

void block_init(block *b)
{
    memset(b, 0, offsetof(block, chain));
    kf_chain_init(&b->chain);
}

void block_copy(block *to, const block *from)
{
    memcpy(to, from, offsetof(block, chain));
    kf_chain_copy(&to->chain, &from->chain);
}

const kf_chain_value *block_value(const block *b, uint32_t value)
{
    return &b->chain.values[value];
}

static uint32_t symbol_from_end(const kf_chain_value *value, uint32_t axis)
{
    return value->symbols[value->rank - axis];
}

uint32_t block_queries(const block *b)
{
    return symbol_from_end(block_value(b, b->product), 2);
}

uint32_t block_keys(const block *b)
{
    return symbol_from_end(block_value(b, b->product), 1);
}

// ---- checks ----

/// Is it a result of this block, which has no memory to read it from?
static uint32_t is_inside(const block *b, const kf_tensor *tensor)
{
    const kf_chain_value *known = kf_chain_known(&b->chain, tensor->id);
    return known != NULL && known->computed;
}

static uint32_t flag(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->v.i != 0;
}

static uint32_t is_value(const block *b, const kf_tensor *tensor, uint32_t value)
{
    return block_value(b, value)->id == tensor->id;
}

static uint32_t all_f32(const kf_op *op)
{
    uint32_t i;
    for (i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i]->dtype != KF_DTYPE_F32) {
            return 0;
        }
    }
    return op->n_outputs == 1 && op->outputs[0]->dtype == KF_DTYPE_F32;
}

static uint32_t admits(const block *b, const fuser_facts *facts, const kf_op *op,
                       const uint32_t *keys, uint32_t n_keys, uint32_t n_inputs)
{
    if (!kf_op_understood(op, 1, keys, n_keys) || op->n_inputs != n_inputs) {
        return kf_decline(facts->host, KF_CODE_NOT_UNDERSTOOD, op->position,
                          "something newer than this fuser");
    }
    if (!all_f32(op)) {
        return kf_decline(facts->host, KF_CODE_DTYPE, op->position, "only f32");
    }
    if (!kf_chain_has_room(&b->chain, &facts->device, op)) {
        return kf_decline(facts->host, KF_CODE_LIMIT, op->position,
                          "the block is as long as one kernel may be");
    }
    return 1;
}

static uint32_t admits_product(const block *b, const fuser_facts *facts, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_TRANSPOSE_A, KF_ATTR_TRANSPOSE_B};
    if (!admits(b, facts, op, keys, 2, 2)) {
        return 0;
    }
    if (op->inputs[0]->rank < 2 || op->inputs[1]->rank < 2 || flag(op, KF_ATTR_TRANSPOSE_A)) {
        return kf_decline(facts->host, KF_CODE_SHAPE, op->position,
                          "a product of vectors, or a turned left side");
    }
    return 1;
}

/// Is every axis of `from`, aligned to the right, one of `to` or of extent 1?
static uint32_t broadcasts_to(const kf_tensor *from, const kf_chain_value *to)
{
    uint32_t i, shift = to->rank - from->rank;
    if (from->rank > to->rank) {
        return 0;
    }
    for (i = 0; i < from->rank; i++) {
        if (from->dims[i].symbol != 0 && from->dims[i].symbol != to->symbols[shift + i]) {
            return 0;
        }
    }
    return 1;
}

// ---- stages ----

/// q times a number: what Kiln records for the factor of an attention operator.
static uint32_t take_query(block *b, const fuser_facts *facts, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE};
    const kf_attr *factor = kf_op_attr(op, KF_ATTR_VALUE);
    if (!admits(b, facts, op, keys, 1, 1)) {
        return 0;
    }
    if (factor == NULL) {
        return kf_decline(facts->host, KF_CODE_NOT_UNDERSTOOD, op->position, "there is no factor");
    }
    b->query = kf_chain_add_value(&b->chain, op->inputs[0], 0);
    b->factor = 1 + kf_chain_add_number(&b->chain, factor, KF_DTYPE_F32);
    b->scaled = kf_chain_add_value(&b->chain, op->outputs[0], 1);
    b->stage = STAGE_QUERY;
    return 1;
}

static uint32_t take_product(block *b, const fuser_facts *facts, const kf_op *op)
{
    if (!admits_product(b, facts, op)) {
        return 0;
    }
    if ((b->stage == STAGE_QUERY && !is_value(b, op->inputs[0], b->scaled)) ||
        is_inside(b, op->inputs[1])) {
        return kf_decline(facts->host, KF_CODE_UNKNOWN_OP, op->position,
                          "a product of something else");
    }
    if (op->outputs[0]->dims[op->outputs[0]->rank - 1].symbol == 0) {
        return kf_decline(facts->host, KF_CODE_COST, op->position, "a single key");
    }
    if (op->outputs[0]->dims[op->outputs[0]->rank - 2].symbol == 0) {
        return kf_decline(facts->host, KF_CODE_COST, op->position,
                          "a single query: packing the keys costs more than its scores");
    }
    if (b->stage == STAGE_START) {
        b->query = b->scaled = kf_chain_add_value(&b->chain, op->inputs[0], 0);
    }
    b->key = kf_chain_add_value(&b->chain, op->inputs[1], 0);
    b->transposed_k = flag(op, KF_ATTR_TRANSPOSE_B);
    b->product = b->scores = kf_chain_add_value(&b->chain, op->outputs[0], 1);
    b->stage = STAGE_SCORES;
    return 1;
}

static uint32_t take_score(block *b, const fuser_facts *facts, const kf_op *op)
{
    const kf_ew_row *row = kf_ew_row_of(op->kind);
    const kf_chain_value *scores = block_value(b, b->product);
    uint32_t i, uses = 0;
    if (!kf_chain_admits(&b->chain, &facts->device, facts->host, row, op)) {
        return 0;
    }
    for (i = 0; i < op->n_inputs; i++) {
        uint32_t inside = is_value(b, op->inputs[i], b->scores);
        uses += inside;
        if (!inside && (!broadcasts_to(op->inputs[i], scores) || is_inside(b, op->inputs[i]))) {
            return kf_decline(facts->host, KF_CODE_SHAPE, op->position,
                              "an operand that is not spread over the scores");
        }
    }
    if (uses == 0 || op->outputs[0]->dtype != KF_DTYPE_F32 ||
        op->outputs[0]->rank != scores->rank || !broadcasts_to(op->outputs[0], scores)) {
        return kf_decline(facts->host, KF_CODE_SHAPE, op->position, "not one score for each score");
    }
    b->scores = kf_chain_record(&b->chain, row, op)->result;
    return 1;
}

static uint32_t take_softmax(block *b, const fuser_facts *facts, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS};
    const kf_attr *axis = kf_op_attr(op, KF_ATTR_AXIS);
    if (!admits(b, facts, op, keys, 1, 1)) {
        return 0;
    }
    if (!is_value(b, op->inputs[0], b->scores) || axis == NULL || axis->type != KF_TYPE_I64 ||
        (axis->v.i != -1 && axis->v.i != (int64_t)op->inputs[0]->rank - 1)) {
        return kf_decline(facts->host, KF_CODE_SHAPE, op->position, "not along the keys");
    }
    b->weights = kf_chain_add_value(&b->chain, op->outputs[0], 1);
    b->stage = STAGE_WEIGHTS;
    return 1;
}

static uint32_t extent_of(const kf_block *values, uint32_t symbol, uint32_t *out)
{
    int64_t extent = 1;
    if (symbol != 0 && values->dim_value(values, symbol, &extent) != KF_OK) {
        return 0;
    }
    *out = extent <= MAX_HEAD ? (uint32_t)extent : MAX_HEAD + 1;
    return 1;
}

/// The lengths of the rows of q, k and v become part of the text, so the plan is for these alone.
static uint32_t ask_extents(block *b, const fuser_facts *facts, const kf_block *values,
                            const kf_op *op)
{
    const kf_chain_value *query = block_value(b, b->query);
    uint32_t columns = op->outputs[0]->dims[op->outputs[0]->rank - 1].symbol;
    if (!extent_of(values, symbol_from_end(query, 1), &b->head) ||
        !extent_of(values, columns, &b->columns)) {
        return kf_decline(facts->host, KF_CODE_DATA, op->position, "the host gave no extent");
    }
    shape s = shape_of(b, facts);
    if (facts->items && items_bytes(b, &s) > facts->local_bytes) {
        return kf_decline(facts->host, KF_CODE_LIMIT, op->position,
                          "heads of %u elements need more local memory", b->head);
    }
    if (b->head > MAX_HEAD || b->columns > MAX_HEAD) {
        return kf_decline(facts->host, KF_CODE_LIMIT, op->position,
                          "heads of more than %d elements", MAX_HEAD);
    }
    return 1;
}

static uint32_t take_values(block *b, const fuser_facts *facts, const kf_block *values,
                            const kf_op *op)
{
    const kf_chain_value *weights = block_value(b, b->weights);
    const kf_tensor *out = op->outputs[0];
    uint32_t i;
    if (!admits_product(b, facts, op)) {
        return 0;
    }
    if (!is_value(b, op->inputs[0], b->weights) || is_inside(b, op->inputs[1])) {
        return kf_decline(facts->host, KF_CODE_UNKNOWN_OP, op->position,
                          "a product of something else");
    }
    for (i = 0; i + 1 < out->rank; i++) {
        if (out->rank != weights->rank || out->dims[i].symbol != weights->symbols[i]) {
            return kf_decline(facts->host, KF_CODE_SHAPE, op->position, "more values than weights");
        }
    }
    if (!ask_extents(b, facts, values, op)) {
        return 0;
    }
    b->value = kf_chain_add_value(&b->chain, op->inputs[1], 0);
    b->transposed_v = flag(op, KF_ATTR_TRANSPOSE_B);
    b->out = kf_chain_add_value(&b->chain, out, 1);
    b->stage = STAGE_DONE;
    return 1;
}

static uint32_t take(block *b, const fuser_facts *facts, const kf_block *values, const kf_op *op)
{
    switch (b->stage) {
    case STAGE_START:
        if (op->kind == KF_OP_MUL_SCALAR) {
            return take_query(b, facts, op);
        }
        // fall through
    case STAGE_QUERY:
        return op->kind == KF_OP_MATMUL
                   ? take_product(b, facts, op)
                   : kf_decline(facts->host, KF_CODE_UNKNOWN_OP, op->position,
                                "an attention begins with a product of queries and keys");
    case STAGE_SCORES:
        return op->kind == KF_OP_SOFTMAX ? take_softmax(b, facts, op) : take_score(b, facts, op);
    case STAGE_WEIGHTS:
        return op->kind == KF_OP_MATMUL
                   ? take_values(b, facts, values, op)
                   : kf_decline(facts->host, KF_CODE_UNKNOWN_OP, op->position,
                                "behind the softmax comes the product with the values");
    default:
        return kf_decline(facts->host, KF_CODE_UNKNOWN_OP, op->position, "the attention is whole");
    }
}

void block_push(block *b, const fuser_facts *facts, const kf_block *values, const kf_op *op)
{
    if (b->closed) {
        return;
    }
    b->closed = op->kind == KF_OP_DROP ? !kf_chain_drop(&b->chain, facts->host, op)
                                       : !take(b, facts, values, op);
    b->len += b->closed ? 0 : 1;
}

/// Whole, and of all that was computed only the last result is still wanted.
uint32_t block_is_ready(const block *b)
{
    uint32_t i;
    if (b->stage != STAGE_DONE || block_value(b, b->out)->dropped) {
        return 0;
    }
    for (i = 0; i < b->chain.n_values; i++) {
        if (kf_chain_is_output(&b->chain.values[i]) && i != b->out) {
            return 0;
        }
    }
    return 1;
}
