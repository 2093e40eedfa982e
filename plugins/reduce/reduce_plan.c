// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides how the axes are walked. Vectors lie along the innermost axis: when that is reduced, a
// result is a row and its lanes are joined at the end; when it is kept, a vector is as many results
// side by side. The other axes are loops. With few results, each is cut into parts that a second
// launch joins, in order.
#include "reduce_internal.h"

enum {
    GPU_GROUP = 256,
    AHEAD = 8,
    COLUMN_BYTES = 16384, // of partial results of one item in column form: near the first cache
    FEW_COLUMN_VECTORS = 4, // whole cache lines
    MIN_COLUMN_VECTORS = 32, // long lines of memory, where parts give every unit work
    MAX_COLUMN_VECTORS = 128,
    PART_ELEMENTS = 8192, // of a part, at least
    PART_ROWS = 32,
    MAX_PARTS = 1024
};

// ---- what can be done ----

uint32_t rd_fits(const kf_rows *rows, const kf_host *host, uint32_t position)
{
    uint32_t results = 0;
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        results += kf_rows_is_reduction(&rows->chain.ops[i]);
    }
    if (rows->phases > 1) {
        return kf_decline(host, KF_CODE_SHAPE, position, "it needs a second pass over the data");
    }
    if (results > RD_MAX_RESULTS) {
        return kf_decline(host, KF_CODE_LIMIT, position, "too many results of one pass");
    }
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        if (rows->places[i].form == KF_ROWS_TURNED) {
            return kf_decline(host, KF_CODE_SHAPE, position, "a parameter of another shape");
        }
    }
    for (uint32_t i = 0; rows->reduced != 0 && i < rows->chain.n_values; i++) {
        if (kf_rows_is_full(rows, i) && rows->places[i].phase > 0) {
            return kf_decline(host, KF_CODE_SHAPE, position,
                              "a result is used along the reduced axes again");
        }
    }
    return 1;
}

uint32_t rd_is_ready(const kf_rows *rows)
{
    uint32_t results = 0, all = kf_rows_all(rows);
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        uint32_t mask = rows->places[i].mask;
        if (kf_chain_is_output(&rows->chain.values[i])) {
            if (mask != all && mask != (all & ~rows->reduced)) {
                return 0;
            }
            results++;
        }
    }
    return rows->phases > 0 && results > 0;
}

// ---- axes ----

static uint32_t joins(const kf_rows *rows, uint32_t last, uint32_t axis)
{
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        const kf_chain_value *value = &rows->chain.values[i];
        int before = kf_rows_value_axis(rows, i, last), now = kf_rows_value_axis(rows, i, axis);
        if (!value->computed && ((before >= 0) != (now >= 0) || (now >= 0 && !value->contiguous))) {
            return 0;
        }
    }
    return 1;
}

static void merge_axes(rd_plan *plan)
{
    int last = -1;
    for (uint32_t axis = 0; axis < plan->rows->rank; axis++) {
        uint32_t reduced = plan->rows->reduced >> axis & 1u;
        rd_group *group = plan->n_groups == 0 ? NULL : &plan->groups[plan->n_groups - 1];
        if (plan->rows->symbols[axis] == 0) {
            continue;
        }
        if (group != NULL && group->reduced == reduced && joins(plan->rows, (uint32_t)last, axis)) {
            group->mask |= 1u << axis;
        } else {
            plan->groups[plan->n_groups++] = (rd_group){1u << axis, axis, reduced};
        }
        last = (int)axis;
    }
}

// ---- parameters ----

static void add_param(rd_launch *launch, rd_param_kind kind, uint32_t index, uint32_t axis)
{
    if (launch->n_params < RD_MAX_PARAMS) {
        launch->params[launch->n_params++] = (rd_param){kind, index, axis};
    }
}

static void add_input(const rd_plan *plan, rd_launch *launch, uint32_t value)
{
    const kf_chain_value *v = &plan->rows->chain.values[value];
    add_param(launch, RD_PARAM_INPUT, value, 0);
    if (!v->zero_offset) {
        add_param(launch, RD_PARAM_OFFSET, value, 0);
    }
    for (uint32_t g = 0; g < plan->n_groups && !v->contiguous; g++) {
        int axis = kf_rows_value_axis(plan->rows, value, plan->groups[g].first);
        if (axis >= 0) {
            add_param(launch, RD_PARAM_STRIDE, value, (uint32_t)axis);
        }
    }
}

/// `full` and `results`: which tensors the launch reads and writes.
static void add_tensors(const rd_plan *plan, rd_launch *launch, uint32_t full, uint32_t results)
{
    const kf_rows *rows = plan->rows;
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        const kf_chain_value *value = &rows->chain.values[i];
        uint32_t is_full = kf_rows_is_full(rows, i);
        if (!value->computed && (!is_full || full)) {
            add_input(plan, launch, i);
        } else if (kf_chain_is_output(value) && (is_full ? full : results)) {
            add_param(launch, RD_PARAM_OUTPUT, i, 0);
        }
    }
    for (uint32_t i = 0; i < rows->chain.n_numbers; i++) {
        if (rows->chain.numbers[i].is_scalar) {
            add_param(launch, RD_PARAM_SCALAR, i, 0);
        }
    }
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        add_param(launch, RD_PARAM_EXTENT, g, 0);
    }
}

static void list_params(rd_plan *plan)
{
    add_tensors(plan, &plan->first, 1, !plan->split);
    add_param(&plan->first, RD_PARAM_ITEMS, 0, 0);
    add_param(&plan->first, RD_PARAM_UNITS, 0, 0);
    if (plan->group == 0) {
        add_param(&plan->first, RD_PARAM_CHUNK, 0, 0);
    }
    if (plan->columns) {
        add_param(&plan->first, RD_PARAM_BLOCK, 0, 0);
    }
    if (!plan->split) {
        add_param(&plan->first, RD_PARAM_TOTAL, 0, 0);
        return;
    }
    add_tensors(plan, &plan->second, 0, 1);
    add_param(&plan->first, RD_PARAM_EACH, 0, 0);
    add_param(&plan->first, RD_PARAM_RESULTS, 0, 0);
    add_param(&plan->second, RD_PARAM_RESULTS, 0, 0);
    add_param(&plan->second, RD_PARAM_PARTS, 0, 0);
    add_param(&plan->second, RD_PARAM_TOTAL, 0, 0);
    for (uint32_t i = 0; i < plan->n_results; i++) {
        add_param(&plan->first, RD_PARAM_PARTIAL, i, 0);
        add_param(&plan->second, RD_PARAM_PARTIAL, i, 0);
    }
}

/// How many vectors of columns an item may have: as many as keep its partial results near.
static uint32_t most_vectors(const rd_plan *plan)
{
    uint32_t bytes = 0, vectors;
    for (uint32_t i = 0; i < plan->n_results; i++) {
        const kf_chain_op *op = &plan->rows->chain.ops[plan->results[i]];
        bytes += plan->width * kf_rows_partial(op).bytes;
    }
    vectors = COLUMN_BYTES / (bytes == 0 ? 1 : bytes);
    return vectors < FEW_COLUMN_VECTORS   ? FEW_COLUMN_VECTORS
           : vectors > MAX_COLUMN_VECTORS ? MAX_COLUMN_VECTORS
                                          : vectors;
}

uint32_t rd_count_reduced(const rd_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        count += plan->groups[g].reduced;
    }
    return count;
}

void rd_plan_make(rd_plan *plan, const kf_rows *rows, const kf_chain_device *device, uint32_t split)
{
    memset(plan, 0, sizeof(*plan));
    plan->rows = rows;
    plan->device = device;
    plan->split = split;
    plan->width = kf_chain_width(device);
    if (!device->block_shape) {
        for (plan->group = GPU_GROUP; plan->group > 8 && plan->group > device->max_group;) {
            plan->group /= 2;
        }
    }
    for (uint32_t i = 0; i < rows->chain.n_values; i++) {
        plan->wide = plan->wide || !rows->chain.values[i].fits_i32;
    }
    merge_axes(plan);
    plan->columns = plan->n_groups > 0 && !plan->groups[plan->n_groups - 1].reduced;
    for (uint32_t i = 0; i < rows->chain.n_ops; i++) {
        if (kf_rows_is_reduction(&rows->chain.ops[i]) && plan->n_results < RD_MAX_RESULTS) {
            plan->results[plan->n_results++] = (uint16_t)i;
        }
    }
    if (plan->group != 0 && !plan->columns && rd_count_reduced(plan) == 1) {
        plan->ahead = AHEAD;
        plan->even = kf_rows_is_even(rows, plan->width);
        plan->near = plan->even ? kf_rows_near(rows, plan->width, device->mem_align) : 0;
    }
    plan->vectors = plan->columns && device->block_shape ? most_vectors(plan) : 1;
    list_params(plan);
}

// ---- formulas ----

static void group_extent(kf_formula *f, const rd_plan *plan, uint32_t group)
{
    kf_rows_extent(f, plan->rows, plan->groups[group].mask);
}

static void outer_extent(kf_formula *f, const rd_plan *plan, uint32_t reduced)
{
    uint32_t mask = 0;
    for (uint32_t g = 0; g + 1 < plan->n_groups; g++) {
        mask |= plan->groups[g].reduced == reduced ? plan->groups[g].mask : 0;
    }
    kf_rows_extent(f, plan->rows, mask);
}

/// block = min(max(least, round_up(ceil(results / units of the device), vector)), most): every unit
/// has work, and beyond that lines are long.
void rd_block_formula(kf_formula *f, const rd_plan *plan)
{
    if (plan->vectors == 1) {
        kf_formula_imm(f, plan->width);
        return;
    }
    kf_rows_extent(f, plan->rows, kf_rows_all(plan->rows) & ~plan->rows->reduced);
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm(f, plan->width);
    kf_formula_op(f, KF_INS_ROUND_UP);
    kf_formula_imm(f,
                   (int64_t)plan->width * (plan->split ? MIN_COLUMN_VECTORS : FEW_COLUMN_VECTORS));
    kf_formula_op(f, KF_INS_MAX);
    kf_formula_imm(f, (int64_t)plan->width * plan->vectors);
    kf_formula_op(f, KF_INS_MIN);
}

void rd_items_formula(kf_formula *f, const rd_plan *plan)
{
    outer_extent(f, plan, 0);
    if (plan->columns) {
        group_extent(f, plan, plan->n_groups - 1);
        rd_block_formula(f, plan);
        kf_formula_op(f, KF_INS_CEIL_DIV);
        kf_formula_op(f, KF_INS_MUL);
    }
}

void rd_units_formula(kf_formula *f, const rd_plan *plan)
{
    outer_extent(f, plan, 1);
    if (!plan->columns) {
        group_extent(f, plan, plan->n_groups - 1);
        kf_formula_imm(f, plan->width);
        kf_formula_op(f, KF_INS_CEIL_DIV);
        kf_formula_op(f, KF_INS_MUL);
    }
}

/// parts = max(1, min(ceil(wanted / items), units / least, MAX_PARTS))
void rd_parts_formula(kf_formula *f, const rd_plan *plan)
{
    uint32_t alone = plan->group != 0 && plan->columns; // a work-item by itself on a GPU
    uint32_t each = plan->group == 0 ? 4 : alone ? 1024 : 8;
    uint32_t least = plan->columns ? PART_ROWS : PART_ELEMENTS / plan->width;
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm(f, each);
    kf_formula_op(f, KF_INS_MUL);
    rd_items_formula(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    rd_units_formula(f, plan);
    kf_formula_imm(f, least);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_imm(f, MAX_PARTS);
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_imm(f, 1);
    kf_formula_op(f, KF_INS_MAX);
}
