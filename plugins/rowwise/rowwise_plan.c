// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides how the kernel looks: which axes are walked as rows, how many passes a row takes, and
// which value each pass leaves in local memory for the next, so that it is neither read nor
// computed again. Rows longer than that memory are computed again past its end; nothing limits
// their length.
#include "rowwise_internal.h"

enum { GPU_GROUP = 256, SLOT = 131072, SLOT_LEAST = 4096 };

int rw_value_axis(const kf_rows *rows, uint32_t value, uint32_t axis)
{
    return rw_is_turned(rows, value) ? -1 : kf_rows_value_axis(rows, value, axis);
}

uint32_t rw_is_turned(const kf_rows *rows, uint32_t value)
{
    return rows->places[value].form == KF_ROWS_TURNED;
}

// ---- what can be done ----

static uint32_t is_power_of_two(uint32_t mask)
{
    return mask != 0 && (mask & (mask - 1)) == 0;
}

/// Reduced axes are the last ones that have an extent.
static uint32_t reduces_last(const kf_rows *rows)
{
    uint32_t kept = kf_rows_all(rows) & ~rows->reduced;
    return (rows->reduced & (0u - rows->reduced)) > kept;
}

static uint32_t row_is_walkable(const kf_rows *rows, uint32_t value)
{
    const kf_chain_value *v = &rows->chain.values[value];
    uint32_t inside = rows->places[value].mask & rows->reduced;
    if (v->computed || inside == 0 || rw_is_turned(rows, value)) {
        return 1;
    }
    return inside == rows->reduced && (v->contiguous || is_power_of_two(inside));
}

uint32_t rw_fits(const kf_rows *rows, const kf_host *host, uint32_t position)
{
    uint32_t turned = 0;
    if (rows->reduced == 0) {
        return 1;
    }
    if (!reduces_last(rows)) {
        return kf_decline(host, KF_CODE_SHAPE, position, "the reduced axes are not the last ones");
    }
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        turned += rw_is_turned(rows, i) && !rows->chain.values[i].computed;
        if (turned > RW_MAX_TURNED) {
            return kf_decline(host, KF_CODE_LIMIT, position,
                              "too many parameters of another shape");
        }
        if (!row_is_walkable(rows, i)) {
            return kf_decline(host, KF_CODE_LAYOUT, position,
                              "an input has several reduced axes and is not dense");
        }
    }
    return 1;
}

static uint32_t is_writable(const kf_rows *rows, uint32_t value)
{
    uint32_t all = kf_rows_all(rows), mask = rows->places[value].mask;
    return (mask == all || mask == (all & ~rows->reduced)) && !rw_is_turned(rows, value);
}

uint32_t rw_is_ready(const kf_rows *rows)
{
    uint32_t results = 0;
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        if (kf_chain_is_output(&rows->chain.values[i])) {
            if (!is_writable(rows, i)) {
                return 0;
            }
            results++;
        }
    }
    return rows->phases > 0 && results > 0;
}

// ---- what a loop needs ----

uint32_t rw_is_written(const kf_rows *rows, uint32_t value, uint32_t loop)
{
    return kf_chain_is_output(&rows->chain.values[value]) && kf_rows_is_full(rows, value) &&
           rows->places[value].phase == loop;
}

uint32_t rw_is_reduced(const kf_rows *rows, const kf_chain_op *op, uint32_t loop)
{
    return kf_rows_is_reduction(op) && rows->places[op->inputs[0]].phase == loop;
}

static void close_over_inputs(const kf_rows *rows, uint32_t cached, uint8_t *needs)
{
    for (uint32_t i = rows->chain.n_ops; i > 0; i--) {
        const kf_chain_op *op = &rows->chain.ops[i - 1];
        if (!needs[op->result] || op->result == cached || kf_rows_is_reduction(op) ||
            !kf_rows_is_full(rows, op->result)) {
            continue;
        }
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            needs[op->inputs[k]] = 1;
        }
    }
}

void rw_needs(const kf_rows *rows, uint32_t loop, uint32_t cached, uint8_t *needs)
{
    memset(needs, 0, KF_CHAIN_VALUES);
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        needs[i] = (uint8_t)rw_is_written(rows, i, loop);
    }
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        const kf_chain_op *op = &rows->chain.ops[i];
        if (rw_is_reduced(rows, op, loop)) {
            needs[op->inputs[0]] = 1;
        }
    }
    close_over_inputs(rows, cached, needs);
}

void rw_derives(const kf_rows *rows, uint32_t value, uint8_t *needs)
{
    memset(needs, 0, KF_CHAIN_VALUES);
    needs[value] = 1;
    close_over_inputs(rows, RW_NO_VALUE, needs);
}

// ---- functions of what is at most 0 ----

/// The operation that computes the value, views left out; NULL for one that is read.
static const kf_chain_op *maker_of(const kf_rows *rows, uint32_t value)
{
    for (uint32_t i = rows->chain.n_ops; i > 0; i--) {
        const kf_chain_op *op = &rows->chain.ops[i - 1];
        if (op->result != value) {
            continue;
        }
        if (op->row != NULL || op->kind != KF_CHAIN_ALIAS) {
            return op;
        }
        value = op->inputs[0];
    }
    return NULL;
}

/// Is it x - max(x), which is at most 0 or NaN?
static uint32_t is_below_largest(const kf_rows *rows, uint32_t value)
{
    const kf_chain_op *sub = maker_of(rows, value), *most;
    if (sub == NULL || sub->row == NULL || sub->row->op != KF_OP_SUB) {
        return 0;
    }
    most = maker_of(rows, sub->inputs[1]);
    return most != NULL && kf_rows_is_reduction(most) && most->kind == KF_OP_MAX &&
           most->inputs[0] == sub->inputs[0];
}

static const kf_ew_row decay = {KF_OP_EXP,  12, 1,     0,
                                KF_EW_SAME, 0,  "EXP", {"decay_$C($a)", NULL, NULL, NULL}};
static const kf_ew_row summed = {KF_OP_EXP,  10, 1,     0,
                                 KF_EW_SAME, 0,  "EXP", {"plus_exp_$C", NULL, NULL, NULL}};

/// Is a sum all that the value is for?
static uint32_t is_only_summed(const kf_rows *rows, uint32_t value)
{
    uint32_t sums = 0, uses = 0;
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        const kf_chain_op *op = &rows->chain.ops[i];
        for (uint32_t k = 0; k < op->n_inputs; k++) {
            uses += op->inputs[k] == value;
        }
        sums += kf_rows_is_reduction(op) && (op->kind == KF_OP_SUM || op->kind == KF_OP_MEAN) &&
                op->inputs[0] == value;
    }
    return sums == 1 && uses == 1 && !kf_chain_is_output(&rows->chain.values[value]) &&
           rows->chain.values[value].dtype == KF_DTYPE_F32;
}

void rw_quicken(kf_rows *rows, const kf_chain_device *device)
{
    for (uint32_t i = 0; i < rows->chain.n_ops && device->is_cpu; i++) {
        kf_chain_op *op = &rows->chain.ops[i];
        kf_dtype dtype = kf_dtype_of(op->dtype);
        if (op->row != NULL && op->row->op == KF_OP_EXP && kf_ew_compute_bytes(&dtype) == 4 &&
            is_below_largest(rows, op->inputs[0])) {
            op->row = is_only_summed(rows, op->result) ? &summed : &decay;
        }
    }
}

const kf_chain_op *rw_summed_op(const kf_rows *rows, uint32_t value)
{
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        const kf_chain_op *op = &rows->chain.ops[i];
        if (op->result == value && op->row == &summed) {
            return op;
        }
    }
    return NULL;
}

// ---- the first two loops in one ----

/// The only reduction over what loop `loop` computes; NULL when there are none or several.
static const kf_chain_op *only_reduction(const kf_rows *rows, uint32_t loop)
{
    const kf_chain_op *found = NULL;
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        if (rw_is_reduced(rows, &rows->chain.ops[i], loop)) {
            if (found != NULL) {
                return NULL;
            }
            found = &rows->chain.ops[i];
        }
    }
    return found;
}

/// Where the second loop is the sum of e to the power of x - max(x), max(x) that of the first loop,
/// and nothing else: the value max(x). A maximum of what was seen so far can stand for it then, and
/// the sum follows it (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
static uint16_t running_maximum(const kf_rows *rows)
{
    const kf_chain_op *most = only_reduction(rows, 0), *sum = only_reduction(rows, 1);
    const kf_chain_op *power = sum == NULL ? NULL : rw_summed_op(rows, sum->inputs[0]);
    const kf_chain_op *sub = power == NULL ? NULL : maker_of(rows, power->inputs[0]);
    uint8_t needs[KF_CHAIN_VALUES];
    if (sub == NULL || sub->result != power->inputs[0] || maker_of(rows, sub->inputs[1]) != most) {
        return RW_NO_VALUE;
    }
    rw_needs(rows, 1, RW_NO_VALUE, needs);
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        uint32_t known = i == sub->inputs[1] || i == sub->result || i == power->result;
        if (rw_is_written(rows, i, 1) || (needs[i] && rows->places[i].phase > 0 && !known)) {
            return RW_NO_VALUE;
        }
    }
    return sub->inputs[1];
}

// ---- what is kept from loop to loop ----

/// Work for one vector: operations in additions, and reads of memory or of the slot.
static uint32_t loop_cost(const rw_plan *plan, uint32_t loop, uint32_t cached)
{
    const kf_rows *rows = plan->rows;
    uint8_t needs[KF_CHAIN_VALUES];
    uint32_t cost = 0;
    rw_needs(rows, loop, cached, needs);
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        const kf_chain_op *op = &rows->chain.ops[i];
        if (needs[op->result] && op->result != cached && op->row != NULL &&
            kf_rows_is_full(rows, op->result)) {
            cost += op->row->cost;
        }
    }
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        if (needs[i] && kf_rows_is_full(rows, i) && !rows->chain.values[i].computed &&
            i != cached) {
            cost += plan->group != 0 ? 8 : 1; // of a CPU's caches, and of a GPU's memory
        }
    }
    return cost + (cached != RW_NO_VALUE && needs[cached]);
}

/// Chooses, loop by loop, what the slot, or registers, should hold for the next one.
static void choose_cached(rw_plan *plan)
{
    const kf_rows *rows = plan->rows;
    plan->cached[0] = RW_NO_VALUE;
    for (uint32_t loop = 0; loop + 1 < plan->loops; loop++) {
        uint8_t needs[KF_CHAIN_VALUES];
        uint32_t best = loop_cost(plan, loop + 1, RW_NO_VALUE);
        plan->cached[loop + 1] = RW_NO_VALUE;
        rw_needs(rows, loop, plan->cached[loop], needs);
        for (uint32_t i = 0; i < rows->chain.n_values; i++) {
            uint32_t there = (needs[i] && kf_rows_is_full(rows, i)) || i == plan->cached[loop];
            there = there && (plan->running == RW_NO_VALUE || rows->places[i].phase != 1);
            uint32_t cost = there ? loop_cost(plan, loop + 1, i) : UINT32_MAX;
            if (cost < best) {
                best = cost;
                plan->cached[loop + 1] = (uint16_t)i;
            }
        }
        if (plan->cached[loop + 1] != RW_NO_VALUE) {
            kf_dtype dtype = kf_dtype_of(rows->chain.values[plan->cached[loop + 1]].dtype);
            uint32_t bytes = kf_ew_compute_bytes(&dtype);
            plan->slot_bytes = bytes > plan->slot_bytes ? bytes : plan->slot_bytes;
        }
    }
}

/// On a GPU registers take the slot's place: nothing is sized.
static void size_slot(rw_plan *plan)
{
    uint64_t most = plan->device->local_bytes > SLOT_LEAST ? plan->device->local_bytes - 4096 : 0;
    uint64_t limit = SLOT < most ? SLOT : most;
    if (plan->group != 0) {
        plan->slot_bytes = 0;
        return;
    }
    if (limit < SLOT_LEAST || plan->slot_bytes == 0) {
        plan->slot_bytes = 0;
        for (uint32_t i = 0; i <= KF_ROWS_MAX_PHASE; i++) {
            plan->cached[i] = RW_NO_VALUE;
        }
        return;
    }
    plan->slot_limit = (uint32_t)limit / plan->slot_bytes / plan->width * plan->width;
}

// ---- axes and parameters ----

/// Is it read along axes?
static uint32_t is_walked(const kf_rows *rows, uint32_t value)
{
    return !rows->chain.values[value].computed && !rw_is_turned(rows, value);
}

static uint32_t joins(const kf_rows *rows, uint32_t last, uint32_t axis)
{
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        int before = rw_value_axis(rows, i, last), now = rw_value_axis(rows, i, axis);
        if (is_walked(rows, i) &&
            ((before >= 0) != (now >= 0) || (now >= 0 && !rows->chain.values[i].contiguous))) {
            return 0;
        }
    }
    return 1;
}

static void merge_axes(rw_plan *plan)
{
    int last = -1;
    for (uint32_t axis = 0; axis < plan->rows->rank; axis++) {
        if ((plan->kept >> axis & 1u) == 0) {
            continue;
        }
        if (last >= 0 && joins(plan->rows, (uint32_t)last, axis)) {
            plan->groups[plan->n_groups - 1].mask |= 1u << axis;
        } else {
            plan->groups[plan->n_groups].mask = 1u << axis;
            plan->groups[plan->n_groups++].first = axis;
        }
        last = (int)axis;
    }
}

static void add_param(rw_plan *plan, rw_param_kind kind, uint32_t index, uint32_t axis)
{
    if (plan->n_params < RW_MAX_PARAMS) {
        plan->params[plan->n_params++] = (rw_param){kind, index, axis};
    }
}

static void add_strides(rw_plan *plan, uint32_t value)
{
    if (plan->rows->chain.values[value].contiguous) {
        return;
    }
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        int axis = rw_value_axis(plan->rows, value, plan->groups[g].first);
        if (axis >= 0) {
            add_param(plan, RW_PARAM_STRIDE, value, (uint32_t)axis);
        }
    }
    for (uint32_t axis = 0; axis < plan->rows->rank; axis++) {
        int own = rw_value_axis(plan->rows, value, axis);
        if ((plan->rows->reduced >> axis & 1u) != 0 && own >= 0) {
            add_param(plan, RW_PARAM_STRIDE, value, (uint32_t)own);
        }
    }
}

static void list_params(rw_plan *plan)
{
    const kf_chain *chain = &plan->rows->chain;
    for (uint32_t i = 0; i < chain->n_values; i++) {
        if (!chain->values[i].computed) {
            add_param(plan, RW_PARAM_INPUT, i, 0);
            if (!chain->values[i].zero_offset) {
                add_param(plan, RW_PARAM_OFFSET, i, 0);
            }
            add_strides(plan, i);
            if (rw_is_turned(plan->rows, i)) {
                add_param(plan, RW_PARAM_EACH, i, plan->n_turned++);
                add_param(plan, RW_PARAM_PERIOD, i, plan->n_turned++);
            }
        } else if (kf_chain_is_output(&chain->values[i])) {
            add_param(plan, RW_PARAM_OUTPUT, i, 0);
        }
    }
    for (uint32_t i = 0; i < chain->n_numbers; i++) {
        if (chain->numbers[i].is_scalar) {
            add_param(plan, RW_PARAM_SCALAR, i, 0);
        }
    }
    for (uint32_t g = 1; g < plan->n_groups; g++) {
        add_param(plan, RW_PARAM_EXTENT, g, 0);
    }
    add_param(plan, RW_PARAM_ROWS, 0, 0);
    add_param(plan, RW_PARAM_LENGTH, 0, 0);
    if (plan->group == 0) {
        add_param(plan, RW_PARAM_CHUNK, 0, 0);
    }
    if (plan->slot_bytes != 0) {
        add_param(plan, RW_PARAM_CAP, 0, 0);
        add_param(plan, RW_PARAM_SLOT, 0, 0);
    }
}

/// From how many elements of the space on stores bypass the cache: when what is read and written
/// does not fit into it.
static uint32_t stream_from(const rw_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->rows->chain.n_values; i++) {
        const kf_chain_value *value = &plan->rows->chain.values[i];
        uint32_t size = kf_dtype_of(value->dtype).bytes;
        uint32_t output = kf_chain_is_output(value);
        if (!kf_rows_is_full(plan->rows, i) || (value->computed && !output)) {
            continue;
        }
        if (output && plan->device->mem_align < plan->width * size) {
            return 0;
        }
        bytes += size;
    }
    uint64_t limit = plan->device->cache_bytes / (bytes == 0 ? 1 : bytes);
    return !plan->device->is_cpu ? 0 : limit > 0x7fffffffu ? 0x7fffffffu : (uint32_t)limit;
}

/// More than usual where one tensor is read and nothing of its size is written: then reading is all
/// there is to do, and fewer work-items have less to join.
static uint32_t held_vectors(const rw_plan *plan)
{
    uint32_t read = 0;
    for (uint32_t i = 0; i < plan->rows->chain.n_values; i++) {
        const kf_chain_value *value = &plan->rows->chain.values[i];
        if (kf_rows_is_full(plan->rows, i) && kf_chain_is_output(value)) {
            return RW_HELD;
        }
        read += kf_rows_is_full(plan->rows, i) && !value->computed;
    }
    return read == 1 ? 2 * RW_HELD : RW_HELD;
}

void rw_plan_make(rw_plan *plan, const kf_rows *rows, const kf_chain_device *device)
{
    memset(plan, 0, sizeof(*plan));
    plan->rows = rows;
    plan->device = device;
    plan->width = kf_chain_width(device);
    if (!device->block_shape) {
        for (plan->group = GPU_GROUP; plan->group > 8 && plan->group > device->max_group;) {
            plan->group /= 2;
        }
    }
    plan->kept = kf_rows_all(rows) & ~rows->reduced;
    plan->loops = rows->phases;
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        plan->wide = plan->wide || !rows->chain.values[i].fits_i32;
        plan->loops = rw_is_written(rows, i, rows->phases) ? rows->phases + 1 : plan->loops;
    }
    plan->even = plan->group != 0 && kf_rows_is_even(rows, plan->width);
    plan->near = plan->even ? kf_rows_near(rows, plan->width, device->mem_align) : 0;
    plan->held = held_vectors(plan);
    plan->running = plan->group == 0 ? running_maximum(rows) : RW_NO_VALUE;
    merge_axes(plan);
    choose_cached(plan);
    size_slot(plan);
    plan->stream = stream_from(plan);
    list_params(plan);
}
