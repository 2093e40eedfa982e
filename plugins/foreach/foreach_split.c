// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes a block apart: operations that depend on each other are one member, and all members must do
// the same in the same order. Decides what members share, which of them have equal extents, and the
// kernel's parameters. Work is divided by formulas: a work-group does a fixed number of elements of
// one member, so members of one class of extents have equally many, and a kernel finds its own by a
// subtraction for each class and one division.
#include "foreach_internal.h"

// ---- members ----

static uint32_t find(uint16_t *parents, uint32_t op)
{
    while (parents[op] != op) {
        parents[op] = parents[parents[op]];
        op = parents[op];
    }
    return op;
}

/// The root of a set is its first operation.
static void join(uint16_t *parents, uint32_t a, uint32_t b)
{
    a = find(parents, a);
    b = find(parents, b);
    if (a < b) {
        parents[b] = (uint16_t)a;
    } else {
        parents[a] = (uint16_t)b;
    }
}

static void connect(const kf_chain *chain, uint32_t n_ops, uint16_t *parents)
{
    uint16_t maker[KF_CHAIN_VALUES];
    for (uint32_t i = 0; i < n_ops; i++) {
        const kf_chain_op *op = &chain->ops[i];
        parents[i] = (uint16_t)i;
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            if (chain->values[op->inputs[k]].computed) {
                join(parents, maker[op->inputs[k]], i);
            }
        }
        maker[op->result] = (uint16_t)i;
    }
}

/// Sorts the operations by members. 0: there is one member, or they differ in length.
static uint32_t sort_ops(fe_split *split, const kf_chain *chain, uint32_t n_ops)
{
    uint16_t parents[KF_CHAIN_OPS], member[KF_CHAIN_OPS], length[FE_MAX_MEMBERS];
    uint32_t n_members = 0;
    connect(chain, n_ops, parents);
    for (uint32_t i = 0; i < n_ops; i++) {
        if (find(parents, i) != i) {
            continue;
        }
        if (n_members == FE_MAX_MEMBERS) {
            return 0;
        }
        length[n_members] = 0;
        member[i] = (uint16_t)n_members++;
    }
    if (n_members < 2 || n_ops % n_members != 0) {
        return 0;
    }
    split->n_members = n_members;
    split->n_ops = n_ops / n_members;
    for (uint32_t i = 0; i < n_ops; i++) {
        uint32_t m = member[find(parents, i)];
        if (length[m] == split->n_ops) {
            return 0;
        }
        split->ops[m * split->n_ops + length[m]++] = (uint16_t)i;
    }
    return 1;
}

// ---- the form ----

typedef struct matcher {
    fe_split *split;
    const fe_block *block;
    uint32_t len;
    uint32_t member;
    uint32_t n_values; ///< of the member so far
    uint32_t n_numbers;
    uint32_t single; ///< the member has one element
    uint16_t seen[KF_CHAIN_VALUES]; ///< member that a value was seen in last, plus 1
    uint16_t local_of[KF_CHAIN_VALUES];
    uint16_t number_seen[KF_CHAIN_NUMBERS];
    uint16_t number_of[KF_CHAIN_NUMBERS];
    uint8_t spread[KF_CHAIN_VALUES]; ///< per local: a member of more elements has been there
} matcher;

static uint32_t has_one_element(const kf_chain_value *value)
{
    for (uint32_t i = 0; i < value->rank; i++) {
        if (value->symbols[i] != 0) {
            return 0;
        }
    }
    return 1;
}

/// A value of the member, as the form's `local`. In a member of one element a value may be either:
/// one for all, or one each.
static uint32_t match_value(matcher *m, uint32_t value, uint32_t local)
{
    fe_split *split = m->split;
    const kf_chain_value *v = &m->block->chain.values[value];
    uint32_t dropped_at = m->block->dropped_at[value];
    uint8_t output = v->computed && (dropped_at == 0 || dropped_at > m->len);
    uint8_t repeat = has_one_element(v) && !m->single;
    fe_local *l = &split->locals[local];
    if (m->member == 0) {
        memset(l, 0, sizeof(*l));
        l->dtype = v->dtype;
        l->computed = v->computed;
        l->output = output;
        l->common = !v->computed;
        m->spread[local] = 0;
    }
    if (l->dtype != v->dtype || l->computed != v->computed || l->output != output ||
        (!m->single && m->spread[local] && l->repeat != repeat)) {
        return 0;
    }
    if (!m->single) {
        l->repeat = repeat;
        m->spread[local] = 1;
    }
    l->offset = l->offset || !v->zero_offset;
    l->common = l->common && split->values[local] == value;
    return 1;
}

/// The form's number of an operand: known in this member, or the next one. KF_NONE: no room.
static uint32_t take_value(matcher *m, uint32_t value)
{
    fe_split *split = m->split;
    if (m->seen[value] == m->member + 1) {
        return m->local_of[value];
    }
    uint32_t stride = m->member == 0 ? 0 : split->n_values;
    uint32_t at = m->member * stride + m->n_values;
    if (at >= FE_OPERANDS || (m->member > 0 && m->n_values == split->n_values)) {
        return KF_NONE;
    }
    split->values[at] = (uint16_t)value;
    m->seen[value] = (uint16_t)(m->member + 1);
    m->local_of[value] = (uint16_t)m->n_values;
    return match_value(m, value, m->n_values) ? m->n_values++ : KF_NONE;
}

static uint32_t take_number(matcher *m, uint32_t number)
{
    fe_split *split = m->split;
    if (m->number_seen[number] == m->member + 1) {
        return m->number_of[number];
    }
    uint32_t stride = m->member == 0 ? 0 : split->n_numbers;
    uint32_t at = m->member * stride + m->n_numbers;
    if (at >= FE_OPERANDS || (m->member > 0 && m->n_numbers == split->n_numbers)) {
        return KF_NONE;
    }
    kf_chain_number own = m->block->chain.numbers[number];
    kf_chain_number first =
        m->member == 0 ? own : m->block->chain.numbers[split->numbers[m->n_numbers]];
    if (own.is_scalar) {
        own.index = first.index; // which scalar it is may differ
    }
    if (!kf_chain_same_number(&own, &first)) {
        return KF_NONE;
    }
    split->numbers[at] = (uint16_t)number;
    m->number_seen[number] = (uint16_t)(m->member + 1);
    m->number_of[number] = (uint16_t)m->n_numbers;
    return m->n_numbers++;
}

/// Compares the k-th operation of the member with the first member's.
static uint32_t match_op(matcher *m, uint32_t k)
{
    const fe_split *split = m->split;
    const kf_chain_op *own = &m->block->chain.ops[split->ops[m->member * split->n_ops + k]];
    const kf_chain_op *first = &m->block->chain.ops[split->ops[k]];
    uint32_t stamp = m->member + 1;
    if (own->row != first->row || own->dtype != first->dtype || own->n_inputs != first->n_inputs ||
        own->n_numbers != first->n_numbers) {
        return 0;
    }
    for (uint32_t i = 0; i <= own->n_inputs; i++) {
        uint32_t value = i < own->n_inputs ? own->inputs[i] : own->result;
        uint32_t theirs = i < own->n_inputs ? first->inputs[i] : first->result;
        uint32_t local = take_value(m, value);
        if (local == KF_NONE || split->values[local] != (stamp == 1 ? value : theirs)) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < own->n_numbers; i++) {
        uint32_t local = take_number(m, own->numbers[i]);
        if (local == KF_NONE ||
            split->numbers[local] != (stamp == 1 ? own->numbers[i] : first->numbers[i])) {
            return 0;
        }
    }
    return 1;
}

static uint32_t match_member(matcher *m, uint32_t member)
{
    fe_split *split = m->split;
    const kf_chain *chain = &m->block->chain;
    m->member = member;
    m->n_values = m->n_numbers = 0;
    m->single =
        has_one_element(&chain->values[chain->ops[split->ops[member * split->n_ops]].result]);
    for (uint32_t k = 0; k < split->n_ops; k++) {
        if (!match_op(m, k)) {
            return 0;
        }
    }
    if (member == 0) {
        split->n_values = m->n_values;
        split->n_numbers = m->n_numbers;
    }
    return m->n_values == split->n_values && m->n_numbers == split->n_numbers;
}

static uint32_t match_all(fe_split *split, const fe_block *block, uint32_t len)
{
    matcher m;
    m.split = split;
    m.block = block;
    m.len = len;
    memset(m.seen, 0, block->chain.n_values * sizeof(m.seen[0]));
    memset(m.number_seen, 0, block->chain.n_numbers * sizeof(m.number_seen[0]));
    for (uint32_t i = 0; i < split->n_members; i++) {
        if (!match_member(&m, i)) {
            return 0;
        }
    }
    for (uint32_t l = 0; l < split->n_values; l++) {
        if (split->locals[l].output) {
            return 1;
        }
    }
    return 0;
}

// ---- classes of extents ----

/// The value with the member's elements.
static const kf_chain_value *space_of(const fe_split *split, const fe_block *block, uint32_t member)
{
    const kf_chain *chain = &block->chain;
    return &chain->values[chain->ops[split->ops[member * split->n_ops]].result];
}

/// Extents of 1 left out.
static uint32_t extents(const kf_chain_value *value, uint32_t symbols[KF_MAX_RANK])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < value->rank; i++) {
        if (value->symbols[i] != 0) {
            symbols[count++] = value->symbols[i];
        }
    }
    return count;
}

static uint32_t same_extents(const kf_chain_value *a, const kf_chain_value *b)
{
    uint32_t of_a[KF_MAX_RANK], of_b[KF_MAX_RANK];
    uint32_t n = extents(a, of_a);
    return n == extents(b, of_b) && memcmp(of_a, of_b, n * sizeof(of_a[0])) == 0;
}

/// Puts members of equal extents together. 0: there are too many kinds.
static uint32_t classify(fe_split *split, const fe_block *block)
{
    uint8_t done[FE_MAX_MEMBERS] = {0};
    uint32_t n = 0;
    split->n_classes = 0;
    for (uint32_t i = 0; i < split->n_members; i++) {
        if (done[i]) {
            continue;
        }
        if (split->n_classes == FE_MAX_CLASSES) {
            return 0;
        }
        uint32_t first = n;
        for (uint32_t k = i; k < split->n_members; k++) {
            if (!done[k] && same_extents(space_of(split, block, i), space_of(split, block, k))) {
                done[k] = 1;
                split->order[n++] = (uint16_t)k;
            }
        }
        split->class_size[split->n_classes++] = (uint16_t)(n - first);
    }
    return 1;
}

/// Elements of all members, and work-groups.
static uint32_t make_formulas(fe_split *split, const fe_block *block, uint32_t chunk)
{
    uint32_t at = 0;
    split->count.n = split->count.failed = split->groups.n = split->groups.failed = 0;
    for (uint32_t c = 0; c < split->n_classes; c++) {
        const kf_chain_value *space = space_of(split, block, split->order[at]);
        kf_formula *both[2] = {&split->count, &split->groups};
        for (uint32_t i = 0; i < 2; i++) {
            kf_formula_product(both[i], space->symbols, space->rank);
            if (i == 1) {
                kf_formula_imm(both[i], chunk);
                kf_formula_op(both[i], KF_INS_CEIL_DIV);
            }
            kf_formula_imm(both[i], split->class_size[c]);
            kf_formula_op(both[i], KF_INS_MUL);
            if (c > 0) {
                kf_formula_op(both[i], KF_INS_ADD);
            }
        }
        at += split->class_size[c];
    }
    // Other formulas add a few instructions to these.
    return !split->count.failed && !split->groups.failed && split->count.n + 16 < KF_MAX_EXPR &&
           split->groups.n + 16 < KF_MAX_EXPR;
}

// ---- parameters ----

static void add_param(fe_split *split, uint32_t kind, uint32_t local, uint32_t member,
                      uint32_t bytes)
{
    if (split->n_params < FE_MAX_ARGS) {
        fe_param *param = &split->params[split->n_params];
        param->kind = (uint16_t)kind;
        param->local = (uint16_t)local;
        param->member = (uint16_t)member;
        param->bytes = (uint16_t)bytes;
    }
    split->n_params++; // too many are seen by their number
    split->param_bytes += bytes;
}

static void add_number(fe_split *split, const fe_block *block, uint32_t local, uint32_t member,
                       uint32_t bytes)
{
    const kf_chain_number *number = &block->chain.numbers[split->numbers[local]];
    if (number->is_scalar && kf_dtype_of(number->dtype).bytes == bytes) {
        add_param(split, FE_PARAM_SCALAR, local, member, bytes);
    }
}

/// Parameters of so many bytes, the widest first, so that none needs padding.
static void add_params_of(fe_split *split, const fe_block *block, uint32_t bytes)
{
    uint32_t index_bytes = split->wide ? 8 : 4;
    for (uint32_t m = 0; m < split->n_members; m++) {
        for (uint32_t l = 0; l < split->n_values; l++) {
            const fe_local *local = &split->locals[l];
            if (bytes != index_bytes || !local->offset || (local->common && m > 0)) {
                continue;
            }
            add_param(split, FE_PARAM_OFFSET, l, m, bytes);
        }
        for (uint32_t l = 0; l < split->n_numbers; l++) {
            add_number(split, block, l, m, bytes);
        }
    }
    for (uint32_t c = 0; c < split->n_classes && bytes == index_bytes; c++) {
        add_param(split, FE_PARAM_COUNT, c, 0, bytes);
    }
}

static void add_tensors(fe_split *split)
{
    for (uint32_t m = 0; m < split->n_members; m++) {
        for (uint32_t l = 0; l < split->n_values; l++) {
            const fe_local *local = &split->locals[l];
            if ((!local->computed && (!local->common || m == 0)) || local->output) {
                add_param(split, FE_PARAM_TENSOR, l, m, 8);
            }
        }
    }
}

static uint32_t make_params(fe_split *split, const fe_block *block, const kf_chain_device *device)
{
    split->wide = split->n_params = split->param_bytes = 0;
    for (uint32_t i = 0; i < split->n_members * split->n_values; i++) {
        split->wide |= !block->chain.values[split->values[i]].fits_i32;
    }
    add_tensors(split);
    for (uint32_t bytes = 8; bytes > 0; bytes /= 2) {
        add_params_of(split, block, bytes);
    }
    split->own_params = split->own_bytes = 0;
    for (uint32_t i = 0; i < split->n_params && i < FE_MAX_ARGS; i++) {
        uint32_t own = split->params[i].member == 1 && split->params[i].kind != FE_PARAM_COUNT;
        split->own_params += own;
        split->own_bytes += own ? split->params[i].bytes : 0;
    }
    return split->n_params <= FE_MAX_ARGS && split->param_bytes <= device->max_param_bytes;
}

// ---- all of it ----

fe_shape fe_shape_of(const kf_chain_device *device)
{
    enum { CHUNK = 4096, GROUP = 256, VECTORS = 2 };
    fe_shape shape = {kf_chain_width(device), 1, CHUNK};
    if (!device->block_shape) {
        shape.local = device->max_group < GROUP ? device->max_group : GROUP;
        shape.local = shape.local == 0 ? 1 : shape.local;
        shape.chunk = shape.local * shape.width * VECTORS;
    }
    return shape;
}

uint32_t fe_split_make(fe_split *split, const fe_block *block, uint32_t n_ops, uint32_t len,
                       const kf_chain_device *device)
{
    return sort_ops(split, &block->chain, n_ops) && match_all(split, block, len) &&
           classify(split, block) && make_formulas(split, block, fe_shape_of(device).chunk) &&
           make_params(split, block, device);
}

/// Was each member recorded before the next one began? Then they are whole; members that grow in
/// turn may yet drop what they still hold.
static uint32_t is_one_by_one(const fe_split *split)
{
    for (uint32_t m = 1; m < split->n_members; m++) {
        if (split->ops[m * split->n_ops] < split->ops[m * split->n_ops - 1]) {
            return 0;
        }
    }
    return 1;
}

uint32_t fe_split_is_full(const fe_split *split, const fe_block *block,
                          const kf_chain_device *device)
{
    uint32_t class_bytes = split->wide ? 8 : 4;
    uint32_t last = split->n_params + split->own_params + 1 > FE_MAX_ARGS ||
                    split->param_bytes + split->own_bytes + class_bytes > device->max_param_bytes;
    // As kf_chain_admits has it, for the last operation of another member.
    last = last || block->chain.n_ops + split->n_ops + 15 > KF_CHAIN_OPS ||
           block->chain.n_values + split->n_values + 24 > KF_CHAIN_VALUES;
    return split->n_members == FE_MAX_MEMBERS || (last && is_one_by_one(split));
}
