// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides how the kernel looks: which axes are walked as rows, how many passes a row takes, and
// which value each pass leaves in local memory for the next, so that it is neither read nor
// computed again. Rows longer than that memory are computed again past its end; nothing limits
// their length.
#include "rowwise_internal.h"

enum { GPU_GROUP = 256, SLOT_GPU = 32768, SLOT_CPU = 131072, SLOT_LEAST = 4096 };

int rw_value_axis(const kf_rows *rows, uint32_t value, uint32_t axis)
{
    for (uint32_t i = 0; i < KF_MAX_RANK && !rw_is_turned(rows, value); i++) {
        if (rows->places[value].axes[i] == axis) {
            return (int)i;
        }
    }
    return -1;
}

uint32_t rw_is_turned(const kf_rows *rows, uint32_t value)
{
    return rows->places[value].form == KF_ROWS_TURNED;
}

// ---- what can be done --------------------------------------------------------------------------

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

// ---- what a loop needs -------------------------------------------------------------------------

uint32_t rw_is_written(const kf_rows *rows, uint32_t value, uint32_t loop)
{
    return kf_chain_is_output(&rows->chain.values[value]) && kf_rows_is_full(rows, value) &&
           rows->places[value].phase == loop;
}

static uint32_t is_reduction(const kf_chain_op *op)
{
    return op->row == NULL && op->kind != KF_CHAIN_ALIAS;
}

uint32_t rw_is_reduced(const kf_rows *rows, const kf_chain_op *op, uint32_t loop)
{
    return is_reduction(op) && rows->places[op->inputs[0]].phase == loop;
}

static void close_over_inputs(const kf_rows *rows, uint32_t cached, uint8_t *needs)
{
    for (uint32_t i = rows->chain.n_ops; i > 0; i--) {
        const kf_chain_op *op = &rows->chain.ops[i - 1];
        if (!needs[op->result] || op->result == cached || is_reduction(op) ||
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

// ---- what is kept from loop to loop ------------------------------------------------------------

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

/// Chooses, loop by loop, what the slot should hold for the next one.
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

static void size_slot(rw_plan *plan)
{
    uint64_t most = plan->device->local_bytes > SLOT_LEAST ? plan->device->local_bytes - 4096 : 0;
    uint64_t limit = plan->group != 0 ? SLOT_GPU : SLOT_CPU;
    limit = limit < most ? limit : most;
    if (limit < SLOT_LEAST || plan->slot_bytes == 0) {
        plan->slot_bytes = 0;
        for (uint32_t i = 0; i <= KF_ROWS_MAX_PHASE; i++) {
            plan->cached[i] = RW_NO_VALUE;
        }
        return;
    }
    plan->slot_limit = (uint32_t)limit / plan->slot_bytes / plan->width * plan->width;
}

// ---- axes and parameters -----------------------------------------------------------------------

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
        const kf_chain_value *value = &rows->chain.values[i];
        uint32_t in_memory = !value->computed || kf_chain_is_output(value);
        plan->wide = plan->wide || (in_memory && !value->fits_i32);
        plan->loops = rw_is_written(rows, i, rows->phases) ? rows->phases + 1 : plan->loops;
    }
    merge_axes(plan);
    choose_cached(plan);
    size_slot(plan);
    plan->stream = stream_from(plan);
    list_params(plan);
}
