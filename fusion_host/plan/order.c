// SPDX-License-Identifier: MIT OR Apache-2.0
// The order in which blocks and single operations run. What a step needs comes before it; apart
// from that they stay as recorded, a block where its first operation was. A block that waits for
// something in between runs as soon as it can, and what waits for it behind it: what was recorded
// far behind would otherwise run before, and its results be alive meanwhile. Products of the same
// rows by quantised weights run one behind the other, where they may share a launch. An all-reduce
// is begun as soon as its operand can be had, so that it travels beside the operations up to its
// sync. Should blocks wait for each other after all, the first of them is dissolved and its
// operations run unfused.
#include <string.h>

#include "fuse_plan.h"

enum {
    ARRANGEMENTS = 4, ///< views and joins, one behind the other, before an all-reduce
    PRODUCTS_APART = 64 ///< operations between products that are brought together
};

typedef struct step_order {
    const kilni_fuse_recorded *recorded;
    kilni_fuse_blocks *blocks;
    uint32_t *unit; ///< per operation: block, or KILNI_FUSE_NONE
    uint32_t *definer; ///< per tensor: operation, or KILNI_FUSE_NONE
    uint32_t *waiting; ///< operations at which a block was found that cannot run yet
    uint32_t n_waiting;
    bool *done; ///< per operation
    uint32_t next_call; ///< operations before it are no all-reduce that has not run
} step_order;

/// Operations that other devices take part in run in the order in which they were recorded.
static bool keeps_order(const step_order *o, uint32_t op)
{
    if (kiln_op_info_of(o->recorded->ops[op].op)->cls != KILN_CLASS_COLLECTIVE) {
        return true;
    }
    for (uint32_t i = 0; i < op; i++) {
        if (!o->done[i] && kiln_op_info_of(o->recorded->ops[i].op)->cls == KILN_CLASS_COLLECTIVE) {
            return false;
        }
    }
    return true;
}

static bool is_ready(const step_order *o, uint32_t op, uint32_t block)
{
    if (!keeps_order(o, op)) {
        return false;
    }
    const uint32_t *refs = o->recorded->marks[op].refs;
    for (uint32_t i = 0; i < o->recorded->ops[op].n_inputs; i++) {
        uint32_t definer = o->definer[refs[i]];
        if (definer != KILNI_FUSE_NONE && !o->done[definer] &&
            (block == KILNI_FUSE_NONE || o->unit[definer] != block)) {
            return false;
        }
    }
    return true;
}

static bool block_is_ready(const step_order *o, uint32_t block)
{
    const kilni_fuse_block *b = &o->blocks->blocks[block];
    for (uint32_t i = 0; i < b->len; i++) {
        if (o->recorded->ops[b->ops[i]].op != KILN_OP_DROP && !is_ready(o, b->ops[i], block)) {
            return false;
        }
    }
    return true;
}

/// Runs what belongs to a unit, a block or a single operation.
static void run_unit(step_order *o, uint32_t op, uint32_t *out_order, uint32_t *count)
{
    uint32_t block = o->unit[op];
    out_order[(*count)++] = block == KILNI_FUSE_NONE ? KILNI_FUSE_SINGLE | op : block;
    o->done[op] = true;
    for (uint32_t i = 0; block != KILNI_FUSE_NONE && i < o->blocks->blocks[block].len; i++) {
        o->done[o->blocks->blocks[block].ops[i]] = true;
    }
}

// ---- all-reduces are begun early ----

/// The operations of the unit of `*op`, which is their place where it is in no block.
static uint32_t unit_ops(const step_order *o, const uint32_t *op, const uint32_t **out_ops)
{
    uint32_t block = o->unit[*op];
    *out_ops = block == KILNI_FUSE_NONE ? op : o->blocks->blocks[block].ops;
    return block == KILNI_FUSE_NONE ? 1 : o->blocks->blocks[block].len;
}

/// The operation of another unit that gives an input and has not run, or KILNI_FUSE_NONE.
static uint32_t missing(const step_order *o, uint32_t op, uint32_t input)
{
    uint32_t definer = o->definer[o->recorded->marks[op].refs[input]];
    bool is_own = definer != KILNI_FUSE_NONE && o->unit[definer] != KILNI_FUSE_NONE &&
                  o->unit[definer] == o->unit[op];
    return definer == KILNI_FUSE_NONE || o->done[definer] || is_own ? KILNI_FUSE_NONE : definer;
}

static uint32_t inputs_of(const step_order *o, uint32_t op)
{
    const kiln_op_record *record = &o->recorded->ops[op];
    return record->op == KILN_OP_DROP ? 0 : record->n_inputs;
}

static bool unit_is_ready(const step_order *o, uint32_t op)
{
    uint32_t block = o->unit[op];
    return block == KILNI_FUSE_NONE ? is_ready(o, op, block) : block_is_ready(o, block);
}

/// Whether it only says where values lie, or copies them there.
static bool arranges(const step_order *o, uint32_t op)
{
    kiln_op kind = o->recorded->ops[op].op;
    return kind == KILN_OP_CONCAT || kiln_op_info_of(kind)->cls == KILN_CLASS_VIEW;
}

/// Whether all that the unit of `op` needs could run now, or behind views and joins, `depth` of
/// them one behind the other.
static bool is_near(const step_order *o, uint32_t op, uint32_t depth)
{
    const uint32_t *ops = NULL;
    uint32_t count = unit_ops(o, &op, &ops);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < inputs_of(o, ops[i]); k++) {
            uint32_t needed = missing(o, ops[i], k);
            if (needed != KILNI_FUSE_NONE && !unit_is_ready(o, needed) &&
                (depth == 0 || !arranges(o, needed) || !is_near(o, needed, depth - 1))) {
                return false;
            }
        }
    }
    return true;
}

/// Runs the unit of `op` behind all that it needs.
static void run_needed(step_order *o, uint32_t op, uint32_t *out_order, uint32_t *count)
{
    const uint32_t *ops = NULL;
    uint32_t n_ops = unit_ops(o, &op, &ops);
    for (uint32_t i = 0; i < n_ops; i++) {
        for (uint32_t k = 0; k < inputs_of(o, ops[i]); k++) {
            uint32_t needed = missing(o, ops[i], k);
            if (needed != KILNI_FUSE_NONE) {
                run_needed(o, needed, out_order, count);
            }
        }
    }
    run_unit(o, op, out_order, count);
}

/// Begins the all-reduces that can be, in the order in which they were recorded.
static void begin_calls(step_order *o, uint32_t *out_order, uint32_t *count)
{
    while (o->next_call < o->blocks->n_covered) {
        uint32_t call = o->next_call;
        bool is_call = o->recorded->ops[call].op == KILN_OP_ALL_REDUCE && !o->done[call];
        if (is_call && (!keeps_order(o, call) || !is_near(o, call, ARRANGEMENTS))) {
            return;
        }
        if (is_call) {
            run_needed(o, call, out_order, count);
        }
        o->next_call++;
    }
}

// ---- products of the same rows ----

/// Runs those that can run behind `op`, if it is one.
static void run_products(step_order *o, uint32_t op, uint32_t *out_order, uint32_t *count)
{
    const kilni_fuse_recorded *r = o->recorded;
    if (o->unit[op] != KILNI_FUSE_NONE || r->ops[op].op != KILN_OP_MATMUL_QUANTIZED) {
        return;
    }
    for (uint32_t i = op + 1; i < o->blocks->n_covered && i - op <= PRODUCTS_APART; i++) {
        if (!o->done[i] && o->unit[i] == KILNI_FUSE_NONE &&
            r->ops[i].op == KILN_OP_MATMUL_QUANTIZED &&
            r->marks[i].refs[0] == r->marks[op].refs[0] && is_ready(o, i, KILNI_FUSE_NONE)) {
            run_unit(o, i, out_order, count);
        }
    }
}

// ---- all others ----

static void let_wait(step_order *o, uint32_t op)
{
    for (uint32_t i = 0; i < o->n_waiting; i++) {
        if (o->unit[o->waiting[i]] == o->unit[op]) {
            return;
        }
    }
    o->waiting[o->n_waiting++] = op;
}

/// Where to go on behind `op`, which has run: at the first block that waited and now can run.
static uint32_t next_behind(step_order *o, uint32_t op)
{
    for (uint32_t i = 0; i < o->n_waiting; i++) {
        uint32_t first = o->waiting[i];
        if (block_is_ready(o, o->unit[first])) {
            memmove(&o->waiting[i], &o->waiting[i + 1], (--o->n_waiting - i) * sizeof(*o->waiting));
            return first;
        }
    }
    return op + 1;
}

/// Runs what can run, in one pass over the operations that are left; gives how much that was.
static uint32_t pass(step_order *o, uint32_t *out_order, uint32_t *count)
{
    uint32_t before = *count;
    o->n_waiting = 0;
    for (uint32_t op = 0; op < o->blocks->n_covered;) {
        uint32_t block = o->unit[op];
        if (o->done[op]) {
            op++;
        } else if (o->recorded->ops[op].op == KILN_OP_DROP && block == KILNI_FUSE_NONE) {
            o->done[op++] = true;
        } else if (unit_is_ready(o, op)) {
            run_unit(o, op, out_order, count);
            run_products(o, op, out_order, count);
            begin_calls(o, out_order, count);
            op = next_behind(o, op);
        } else if (block == KILNI_FUSE_NONE) {
            op++;
        } else {
            let_wait(o, op++);
        }
    }
    return *count - before;
}

static uint32_t count_left(const step_order *o)
{
    uint32_t left = 0;
    for (uint32_t op = 0; op < o->blocks->n_covered; op++) {
        left += !o->done[op];
    }
    return left;
}

static void dissolve_first(const step_order *o)
{
    for (uint32_t op = 0; op < o->blocks->n_covered; op++) {
        uint32_t block = o->unit[op];
        if (!o->done[op] && block != KILNI_FUSE_NONE) {
            for (uint32_t i = 0; i < o->blocks->blocks[block].len; i++) {
                o->unit[o->blocks->blocks[block].ops[i]] = KILNI_FUSE_NONE;
            }
            o->blocks->blocks[block].len = 0;
            return;
        }
    }
}

static void learn(step_order *o)
{
    for (uint32_t op = 0; op < o->blocks->n_covered; op++) {
        const kiln_op_record *record = &o->recorded->ops[op];
        const uint32_t *refs = o->recorded->marks[op].refs;
        o->unit[op] = KILNI_FUSE_NONE;
        for (uint32_t i = 0; i < record->n_outputs; i++) {
            o->definer[refs[record->n_inputs + i]] = op;
        }
    }
    for (uint32_t b = 0; b < o->blocks->n_blocks; b++) {
        for (uint32_t i = 0; i < o->blocks->blocks[b].len; i++) {
            o->unit[o->blocks->blocks[b].ops[i]] = b;
        }
    }
}

kiln_status kilni_fuse_order(const kilni_fuse_recorded *recorded, kilni_fuse_blocks *blocks,
                             uint32_t *out_order, uint32_t *out_count, kiln_error *err)
{
    uint32_t n_tensors = recorded->marks[blocks->n_covered - 1].n_tensors;
    step_order o = {.recorded = recorded, .blocks = blocks};
    o.unit =
        kiln_alloc_array(recorded->env, (size_t)blocks->n_covered + n_tensors, sizeof(*o.unit));
    o.done = kiln_alloc_array(recorded->env, blocks->n_covered, sizeof(*o.done));
    o.waiting = kiln_alloc_array(recorded->env, (size_t)blocks->n_blocks + 1, sizeof(*o.waiting));
    *out_count = 0;
    if (o.unit == NULL || o.done == NULL || o.waiting == NULL) {
        kiln_free(recorded->env, o.waiting);
        kiln_free(recorded->env, o.unit);
        kiln_free(recorded->env, o.done);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plan");
    }
    o.definer = o.unit + blocks->n_covered;
    memset(o.definer, 0xFF, n_tensors * sizeof(*o.definer));
    learn(&o);
    while (count_left(&o) > 0) {
        if (pass(&o, out_order, out_count) == 0 && count_left(&o) > 0) {
            dissolve_first(&o);
        }
    }
    kiln_free(recorded->env, o.waiting);
    kiln_free(recorded->env, o.unit);
    kiln_free(recorded->env, o.done);
    return KILN_STATUS_OK;
}
