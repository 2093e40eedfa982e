// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join: up to two runs of elementwise operators, each of one tensor, the product
// of what they end in, and elementwise operators on its result with anything that broadcasts to it.
#include "matmul_bytes.h"

enum { KNOWN_CONSTANTS = 256, PROLOGUE_COST_ITEMS = 4 };

void mm_block_init(mm_block *block)
{
    memset((char *)block + sizeof(block->chain), 0, sizeof(*block) - sizeof(block->chain));
    kf_chain_init(&block->chain);
}

void mm_block_copy(mm_block *to, const mm_block *from)
{
    kf_chain_copy(&to->chain, &from->chain);
    memcpy((char *)to + sizeof(to->chain), (const char *)from + sizeof(from->chain),
           sizeof(*to) - sizeof(to->chain));
}

uint32_t mm_outer_symbol(const mm_block *block, const mm_operand *operand)
{
    return operand->outer < 0 ? 0 : block->chain.values[operand->source].symbols[operand->outer];
}

uint32_t mm_inner_symbol(const mm_block *block)
{
    const mm_operand *from = block->left.upper != 0 ? &block->right : &block->left;
    return block->chain.values[from->source].symbols[from->inner];
}

void mm_note_constants(mm_block *block, const kf_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_tensor *t = op->inputs[i];
        if ((t->flags & KF_TENSOR_CONST) != 0 && t->id < KNOWN_CONSTANTS) {
            block->constant_ids[t->id / 32] |= 1u << (t->id % 32);
        }
    }
}

uint32_t mm_is_constant(const mm_block *block, uint32_t value)
{
    uint32_t id = block->chain.values[value].id;
    return id < KNOWN_CONSTANTS && (block->constant_ids[id / 32] >> (id % 32) & 1u) != 0;
}

// ---- before the product ----

static uint32_t is_float(uint32_t dtype)
{
    return kf_dtype_of(dtype).kind == KF_KIND_FLOAT;
}

/// The prologue whose values an operation reads, those between its ends only by the fuser that
/// packs on processors; MM_PROLOGUES: it can begin one. False: neither.
static uint32_t find_prologue(const mm_block *block, const kf_chain_device *device, const kf_op *op,
                              uint32_t *out_which)
{
    const kf_chain_value *first = kf_chain_known(&block->chain, op->inputs[0]->id);
    uint32_t any = device->block_shape && !block->floats_only;
    if (first == NULL) {
        *out_which = MM_PROLOGUES;
        for (uint32_t i = 1; i < op->n_inputs; i++) {
            if (!any || op->inputs[i]->id != op->inputs[0]->id) {
                return 0;
            }
        }
        return block->n_prologues < MM_PROLOGUES;
    }
    *out_which = mm_prologue_of(block, op->inputs[0]->id);
    if (!any) {
        return *out_which != MM_PROLOGUES && op->n_inputs == 1;
    }
    uint32_t run = block->run[first - block->chain.values];
    for (uint32_t i = 1; i < op->n_inputs; i++) {
        const kf_chain_value *other = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (other == NULL || block->run[other - block->chain.values] != run) {
            return 0;
        }
    }
    *out_which = run - 1;
    return run != 0;
}

static void take_prologue(mm_block *block, uint32_t which, const kf_chain_op *own)
{
    if (which == MM_PROLOGUES) {
        which = block->n_prologues++;
        block->prologue_source[which] = own->inputs[0];
        block->run[own->inputs[0]] = (uint8_t)(which + 1);
    }
    block->prologue_end[which] = own->result;
    block->run[own->result] = (uint8_t)(which + 1);
}

static uint32_t push_prologue(mm_block *block, const kf_chain_device *device, const kf_host *host,
                              const kf_ew_row *row, const kf_op *op)
{
    uint32_t which = MM_PROLOGUES;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!kf_same_dims(op->inputs[i], op->outputs[0])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "%s before a product changes the shape", row->name);
        }
        if (!is_float(op->inputs[i]->dtype)) {
            return kf_decline(host, KF_CODE_DTYPE, op->position, "products are of floats only");
        }
    }
    if (!is_float(op->outputs[0]->dtype)) {
        return kf_decline(host, KF_CODE_DTYPE, op->position, "products are of floats only");
    }
    if (!device->block_shape && row->cost > PROLOGUE_COST_ITEMS) {
        return kf_decline(host, KF_CODE_COST, op->position, "%s would be done again for every tile",
                          row->name);
    }
    if (block->merged || !find_prologue(block, device, op, &which)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s is of more than one tensor, or makes no operand of a product",
                          row->name);
    }
    uint32_t plain = op->n_inputs == 1 && which == mm_prologue_of(block, op->inputs[0]->id);
    block->branched |= plain ? 0 : 1u << (which == MM_PROLOGUES ? block->n_prologues : which);
    take_prologue(block, which, kf_chain_record(&block->chain, row, op));
    return 1;
}

/// A reshape that makes one axis of the last two, which nobody but the product reads: no bytes
/// move.
static uint32_t push_merge(mm_block *block, const kf_chain_device *device, const kf_host *host,
                           const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_SHAPE};
    const kf_tensor *from = op->inputs[0], *to = op->outputs[0];
    uint32_t merges =
        kf_op_understood(op, 1, keys, 1) && from->rank == to->rank + 1 && to->rank > 1;
    for (uint32_t i = 0; merges && i + 1 < to->rank; i++) {
        merges = from->dims[i].symbol == to->dims[i].symbol;
    }
    if (!merges || block->len > 0 || !kf_chain_has_room(&block->chain, device, op)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "no reshape of the last two axes to one before a product");
    }
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_CHAIN_ALIAS, from->dtype);
    kf_chain_take_input(own, kf_chain_add_value(&block->chain, from, 0));
    own->result = (uint16_t)kf_chain_add_value(&block->chain, to, 1);
    take_prologue(block, MM_PROLOGUES, own);
    block->merged = 1;
    return 1;
}

// ---- the product ----

static uint32_t is_set(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->v.i != 0;
}

static uint32_t dtypes_done(const mm_block *block, const kf_chain_device *device, const kf_op *op)
{
    uint32_t dtype = op->inputs[0]->dtype;
    if (op->kind == KF_OP_MATMUL_INTEGER) {
        return mm_bytes_done(block, device, op);
    }
    return is_float(dtype) && kf_chain_dtype_usable(device, dtype) &&
           op->inputs[1]->dtype == dtype && op->outputs[0]->dtype == dtype;
}

static uint32_t product_admitted(const mm_block *block, const kf_chain_device *device,
                                 const kf_host *host, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_TRANSPOSE_A, KF_ATTR_TRANSPOSE_B};
    uint32_t at = op->position;
    uint32_t most = op->kind == KF_OP_MATMUL_INTEGER ? 4 : 2;
    if (!kf_op_understood(op, 1, keys, 2) || op->n_inputs < 2 || op->n_inputs > most ||
        op->n_outputs != 1) {
        return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "a newer kind of product");
    }
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        if ((op->attrs[i].flags & KF_ATTR_FLAG_HINT) == 0 && op->attrs[i].type != KF_TYPE_BOOL) {
            return kf_decline(host, KF_CODE_NOT_UNDERSTOOD, at, "a newer kind of product");
        }
    }
    if (!dtypes_done(block, device, op)) {
        return kf_decline(host, KF_CODE_DTYPE, at, "products of %s are not done here",
                          kf_dtype_of(op->inputs[0]->dtype).name);
    }
    if (op->inputs[0]->rank == 0 || op->inputs[1]->rank == 0) {
        return kf_decline(host, KF_CODE_SHAPE, at, "a product of a single number");
    }
    if (!kf_chain_has_room(&block->chain, device, op)) {
        return kf_decline(host, KF_CODE_LIMIT, at, "the block is as long as one kernel may be");
    }
    return 1;
}

static void take_operand(mm_block *block, const kf_tensor *t, uint32_t transpose, uint32_t is_left,
                         mm_operand *out)
{
    uint32_t which = mm_prologue_of(block, t->id);
    memset(out, 0, sizeof(*out));
    out->value = (uint16_t)kf_chain_add_value(&block->chain, t, 0);
    out->source = which == MM_PROLOGUES ? out->value : block->prologue_source[which];
    out->constant = (uint8_t)mm_is_constant(block, out->source);
    out->zero = MM_NO_VALUE;
    if (t->rank == 1) {
        out->outer = -1;
        return;
    }
    // The sum is over a's last axis and b's last but one, unless they are swapped.
    uint32_t last_is_inner = is_left ? !transpose : transpose;
    out->inner = (int8_t)(last_is_inner ? t->rank - 1 : t->rank - 2);
    out->outer = (int8_t)(last_is_inner ? t->rank - 2 : t->rank - 1);
    out->batch = (uint8_t)(t->rank - 2);
    if (block->merged && which != MM_PROLOGUES) { // axes of the source, which has one more
        out->outer = (int8_t)(t->rank - 2);
        out->upper = (int8_t)(t->rank - 1);
        out->inner = (int8_t)t->rank;
    }
}

/// A prologue with branches is for a left operand that lies across: a large one is packed in any
/// case, while others are faster read as they lie.
static uint32_t branches_fit(const mm_block *block, const kf_op *op)
{
    uint32_t left = mm_prologue_of(block, op->inputs[0]->id);
    uint32_t fit = left < MM_PROLOGUES && is_set(op, KF_ATTR_TRANSPOSE_A) ? 1u << left : 0;
    return (block->branched & ~fit) == 0;
}

/// Every prologue ends in an operand, and nothing else reads what it computes.
static uint32_t prologues_lead_here(const mm_block *block, const kf_op *op)
{
    for (uint32_t i = 0; i < block->n_prologues; i++) {
        uint32_t id = block->chain.values[block->prologue_end[i]].id;
        if (op->inputs[0]->id != id && op->inputs[1]->id != id) {
            return 0;
        }
    }
    if (block->merged &&
        (op->inputs[0]->id == op->inputs[1]->id || is_set(op, KF_ATTR_TRANSPOSE_A) ||
         mm_prologue_of(block, op->inputs[0]->id) == MM_PROLOGUES)) {
        return 0;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const kf_chain_value *known = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (known != NULL && known->computed &&
            mm_prologue_of(block, op->inputs[i]->id) == MM_PROLOGUES) {
            return 0;
        }
    }
    return 1;
}

static uint32_t same_symbols(const uint32_t *a, const uint32_t *b, uint32_t rank)
{
    return memcmp(a, b, rank * sizeof(*a)) == 0;
}

/// Does an operand lie as another one does, taken in the same way?
static uint32_t lies_as(const mm_block *block, const mm_operand *a, const mm_operand *b)
{
    const kf_chain_value *x = &block->chain.values[a->source], *y = &block->chain.values[b->source];
    return a->outer == b->outer && a->inner == b->inner && a->constant == b->constant &&
           x->rank == y->rank && x->dtype == y->dtype && x->contiguous == y->contiguous &&
           x->turned == y->turned && x->lines == y->lines && x->columns == y->columns &&
           x->zero_offset == y->zero_offset && same_symbols(x->symbols, y->symbols, x->rank);
}

/// A further product of the left operand, by another constant of the same shape.
static uint32_t push_more(mm_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_op *op)
{
    const kf_chain_value *result = &block->chain.values[block->result];
    uint32_t room = block->several && block->n_more < MM_MORE && block->n_prologues == 0 &&
                    !block->swapped && !block->window.is_there && block->right.constant &&
                    !block->bytes && mm_outer_symbol(block, &block->left) != 0;
    mm_operand left, right;
    if (!room || op->inputs[0]->id != block->chain.values[block->left.source].id ||
        kf_chain_known(&block->chain, op->inputs[1]->id) != NULL ||
        op->outputs[0]->rank != result->rank) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "one product is one block");
    }
    if (!product_admitted(block, device, host, op)) {
        return 0;
    }
    mm_note_constants(block, op);
    take_operand(block, op->inputs[0], is_set(op, KF_ATTR_TRANSPOSE_A), 1, &left);
    take_operand(block, op->inputs[1], is_set(op, KF_ATTR_TRANSPOSE_B), 0, &right);
    uint32_t output = kf_chain_add_value(&block->chain, op->outputs[0], 1);
    if (!lies_as(block, &left, &block->left) || !lies_as(block, &right, &block->right) ||
        !same_symbols(block->chain.values[output].symbols, result->symbols, result->rank)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "the product is not shaped as the one before");
    }
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_MATMUL, op->outputs[0]->dtype);
    kf_chain_take_input(own, left.value);
    kf_chain_take_input(own, right.value);
    own->result = (uint16_t)output;
    block->more[block->n_more++] = (mm_more){.result = own->result, .right = right};
    block->owner[output] = (uint8_t)block->n_more;
    return 1;
}

static uint32_t push_product(mm_block *block, const kf_chain_device *device, const kf_host *host,
                             const kf_op *op)
{
    if (block->has_product && op->kind == KF_OP_MATMUL && op->n_inputs == 2) {
        return push_more(block, device, host, op);
    }
    if (block->has_product) {
        return kf_decline(host, KF_CODE_SHAPE, op->position, "one product is one block");
    }
    if (!product_admitted(block, device, host, op)) {
        return 0;
    }
    if (!prologues_lead_here(block, op) || !branches_fit(block, op)) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "what was taken before is no operand of this product");
    }
    mm_note_constants(block, op);
    take_operand(block, op->inputs[0], is_set(op, KF_ATTR_TRANSPOSE_A), 1, &block->left);
    take_operand(block, op->inputs[1], is_set(op, KF_ATTR_TRANSPOSE_B), 0, &block->right);
    if (op->n_inputs > 2) {
        block->left.zero = (uint16_t)kf_chain_add_value(&block->chain, op->inputs[2], 0);
    }
    if (op->n_inputs > 3) {
        block->right.zero = (uint16_t)kf_chain_add_value(&block->chain, op->inputs[3], 0);
    }
    block->batch =
        (uint8_t)(op->outputs[0]->rank - (block->left.outer >= 0) - (block->right.outer >= 0));
    block->product = block->chain.n_ops;
    kf_chain_op *own = kf_chain_push(&block->chain, NULL, KF_OP_MATMUL, op->outputs[0]->dtype);
    kf_chain_take_input(own, block->left.value);
    kf_chain_take_input(own, block->right.value);
    own->result = (uint16_t)kf_chain_add_value(&block->chain, op->outputs[0], 1);
    block->result = own->result;
    block->has_product = 1;
    if (mm_outer_symbol(block, &block->right) == 0 && mm_outer_symbol(block, &block->left) != 0) {
        mm_operand left = block->left; // one column: the same as one row of the transposed
        block->left = block->right;
        block->right = left;
        block->swapped = 1;
    }
    return op->kind == KF_OP_MATMUL || mm_bytes_take(block, host, op);
}

// ---- behind the product ----

static uint32_t is_behind(const mm_block *block, uint32_t value)
{
    for (uint32_t i = block->product; i < block->chain.n_ops; i++) {
        if (block->chain.ops[i].result == value) {
            return 1;
        }
    }
    return 0;
}

/// Does the tensor broadcast to the result's shape?
static uint32_t broadcasts(const kf_chain_value *result, const kf_tensor *t)
{
    if (t->rank > result->rank) {
        return 0;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t symbol = t->dims[i].symbol;
        if (symbol != 0 && symbol != result->symbols[result->rank - t->rank + i]) {
            return 0;
        }
    }
    return 1;
}

static uint32_t has_shape(const kf_chain_value *result, const kf_tensor *t)
{
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->rank != result->rank || t->dims[i].symbol != result->symbols[i]) {
            return 0;
        }
    }
    return t->rank == result->rank;
}

static uint32_t push_epilogue(mm_block *block, const kf_host *host, const kf_ew_row *row,
                              const kf_op *op)
{
    const kf_chain_value *result = &block->chain.values[block->result];
    uint32_t follows = 0, owner = 0;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const kf_chain_value *known = kf_chain_known(&block->chain, op->inputs[i]->id);
        if (known != NULL && known->computed) {
            if (!is_behind(block, (uint32_t)(known - block->chain.values))) {
                return kf_decline(host, KF_CODE_SHAPE, op->position,
                                  "%s reads what was made for the product only", row->name);
            }
            uint32_t its = block->owner[known - block->chain.values];
            if (follows && its != owner && !block->together) {
                return kf_decline(host, KF_CODE_SHAPE, op->position,
                                  "%s reads the results of two products", row->name);
            }
            follows = 1;
            owner = its;
        } else if (!broadcasts(result, op->inputs[i])) {
            return kf_decline(host, KF_CODE_SHAPE, op->position,
                              "an operand of %s does not broadcast to the product", row->name);
        }
    }
    if (!follows || !has_shape(result, op->outputs[0])) {
        return kf_decline(host, KF_CODE_SHAPE, op->position,
                          "%s does not continue from the product in its shape", row->name);
    }
    block->owner[kf_chain_record(&block->chain, row, op)->result] = (uint8_t)owner;
    return 1;
}

// ---- any operation ----

static uint32_t push(mm_block *block, const kf_chain_device *device, const kf_host *host,
                     const kf_op *op)
{
    if (op->kind == KF_OP_DROP) {
        return kf_chain_drop(&block->chain, host, op);
    }
    if (op->kind == KF_OP_MATMUL || op->kind == KF_OP_MATMUL_INTEGER) {
        return push_product(block, device, host, op);
    }
    if (op->kind == KF_OP_RESHAPE && block->merges && !block->has_product) {
        return push_merge(block, device, host, op);
    }
    const kf_ew_row *row = kf_ew_row_of(op->kind);
    if (!kf_chain_admits(&block->chain, device, host, row, op)) {
        return 0;
    }
    if (block->has_product) {
        return push_epilogue(block, host, row, op);
    }
    mm_note_constants(block, op);
    return push_prologue(block, device, host, row, op);
}

void mm_block_push(mm_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_op *op)
{
    if (block->closed) {
        return;
    }
    if (!push(block, device, host, op)) {
        block->closed = 1;
        return;
    }
    block->len++;
    if (op->kind != KF_OP_DROP) {
        const kf_ew_row *row = kf_ew_row_of(op->kind);
        if (block->n_shown < 8) {
            block->shown[block->n_shown] = row != NULL                 ? row->name
                                           : op->kind == KF_OP_RESHAPE ? "reshape"
                                                                       : "matmul";
        }
        block->n_shown++;
    }
}

uint32_t mm_block_is_ready(const mm_block *block)
{
    uint32_t results = 0;
    for (uint32_t i = 0; i < block->chain.n_ops && block->has_product; i++) {
        uint32_t lives = kf_chain_is_output(&block->chain.values[block->chain.ops[i].result]);
        if (i < block->product && lives) {
            return 0;
        }
        results += lives;
    }
    return results > 0;
}
