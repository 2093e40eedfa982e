// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernels: launches with their sizes as formulas, arguments in the order of
// the parameters, temporaries (an operand that is constant is packed once and kept), steps.
#include "matmul_bytes.h"

enum {
    ITEMS_PER_UNIT = 4,
    STRIP_COLUMNS =
        384, // at least, of a work-item that has one row; so long is a stream from memory
    STRIPS_PER_UNIT = 8, // at most
    SIDE_RATIO = 10, // tiles of a work-item for each that it has side by side
    TILES_PER_UNIT = 2, // below which the sum is taken in parts
    PART_TERMS = 256, // at least, of a part
    FEW_PART_TERMS = 1024, // the same, of few rows
    GROUPS_PER_UNIT = 2, // least work-groups of few rows
    ROW_PARTS_PER_UNIT = 2,
    ROW_PART_TERMS = 128, // at least, of a part of one row
    PART_STEP = 16, // parts are multiples of it: of every vector and of every tile's depth
    MAX_SCALARS = 16 // formulas of arguments of one kernel
};

typedef struct one_launch {
    kf_launch launch;
    kf_formula global[3];
    kf_formula local[3];
    kf_formula values[MAX_SCALARS];
    uint32_t n_values;
    uint32_t prepacks;
    kf_karg args[MM_MAX_PARAMS];
} one_launch;

struct mm_program {
    mm_block *block;
    mm_plan plan;
    kf_text code;
    kf_text name;
    uint8_t key[16];
    uint32_t failed;
    uint32_t n_steps;
    uint32_t n_temps;
    kf_source source;
    kf_step steps[MM_MAX_LAUNCHES];
    kf_temp temps[MM_TEMPS];
    kf_formula temp_bytes[MM_TEMPS];
    const kf_source *sources[1];
    const kf_launch *launches[MM_MAX_LAUNCHES];
    one_launch all[MM_MAX_LAUNCHES];
};

// ---- sizes ----

static void symbol(kf_formula *f, uint32_t symbol)
{
    kf_formula_product(f, &symbol, 1);
}

static void result_batch(kf_formula *f, const mm_plan *plan, uint32_t axes)
{
    kf_formula_product(f, plan->block->chain.values[plan->block->result].symbols, axes);
}

void mm_formula_m(kf_formula *f, const mm_plan *plan)
{
    symbol(f, mm_outer_symbol(plan->block, &plan->block->left));
    if (plan->fold) {
        result_batch(f, plan, plan->block->batch);
        kf_formula_op(f, KF_INS_MUL);
    }
}

void mm_formula_n(kf_formula *f, const mm_plan *plan)
{
    if (plan->block->window.is_there) { // places of the result
        kf_formula_product(f, plan->block->chain.values[plan->block->result].symbols + 2, 2);
        return;
    }
    symbol(f, mm_outer_symbol(plan->block, &plan->block->right));
}

void mm_formula_k(kf_formula *f, const mm_plan *plan)
{
    if (plan->block->window.is_there) { // weights of a filter
        kf_formula_product(f, plan->block->chain.values[plan->block->left.source].symbols + 1, 3);
        return;
    }
    symbol(f, mm_inner_symbol(plan->block));
}

void mm_formula_batch(kf_formula *f, const mm_plan *plan)
{
    result_batch(f, plan, plan->batch);
}

void mm_formula_own_batch(kf_formula *f, const mm_plan *plan, const mm_operand *operand)
{
    uint32_t symbols[KF_MAX_RANK], count = 0;
    for (uint32_t i = 0; i < plan->batch; i++) {
        if (mm_batch_axis(plan->block, operand, i) >= 0) {
            symbols[count++] = plan->block->chain.values[plan->block->result].symbols[i];
        }
    }
    kf_formula_product(f, symbols, count);
}

/// Where several products are done in one launch, each by work-groups of its own.
static void times_products(kf_formula *f, const mm_plan *plan)
{
    if (mm_products(plan->block) > 1 && !plan->block->together) {
        kf_formula_imm_op(f, mm_products(plan->block), KF_INS_MUL);
    }
}

static void row_tiles(kf_formula *f, const mm_plan *plan)
{
    mm_formula_m(f, plan);
    kf_formula_imm_op(f, plan->rows, KF_INS_CEIL_DIV);
}

void mm_formula_panels(kf_formula *f, const mm_plan *plan)
{
    mm_formula_n(f, plan);
    kf_formula_imm_op(f, plan->columns, KF_INS_CEIL_DIV);
}

void mm_formula_tiles(kf_formula *f, const mm_plan *plan)
{
    row_tiles(f, plan);
    mm_formula_panels(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_batch(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    times_products(f, plan);
}

static void units(kf_formula *f, int64_t factor)
{
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(f, factor, KF_INS_MUL);
}

/// Terms of a part of one row: whole rows of the matrix, which lie one behind the other.
static void row_part_terms(kf_formula *f, const mm_plan *plan)
{
    mm_formula_k(f, plan);
    units(f, ROW_PARTS_PER_UNIT);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, ROW_PART_TERMS, KF_INS_MAX);
    kf_formula_imm_op(f, PART_STEP, KF_INS_ROUND_UP);
}

/// Terms of a part: so many parts that the work-items of all parts keep every unit busy. A
/// work-item of the block shape takes all the tiles that it can, so that what a part reads stays
/// in a unit's caches.
static void part_terms(kf_formula *f, const mm_plan *plan)
{
    if (plan->form == MM_FORM_ROW) {
        row_part_terms(f, plan);
        return;
    }
    mm_formula_k(f, plan);
    units(f, plan->form == MM_FORM_TENSOR ? 1
             : !plan->device->block_shape ? TILES_PER_UNIT
                                          : ITEMS_PER_UNIT);
    row_tiles(f, plan);
    kf_formula_imm_op(f, plan->chunk, KF_INS_CEIL_DIV);
    mm_formula_panels(f, plan);
    kf_formula_imm_op(f, plan->across, KF_INS_CEIL_DIV);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_batch(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    times_products(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, mm_is_few(plan) ? FEW_PART_TERMS : PART_TERMS, KF_INS_MAX);
    kf_formula_imm_op(f, plan->form == MM_FORM_TENSOR ? plan->step : PART_STEP, KF_INS_ROUND_UP);
}

void mm_formula_parts(kf_formula *f, const mm_plan *plan)
{
    if (!plan->split) {
        kf_formula_imm(f, 1);
        return;
    }
    mm_formula_k(f, plan);
    part_terms(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

/// Adds `factor` where twice as many work-items side by side are better: of COLUMNS where units
/// have work-groups enough, or where a short sum leaves slices without work; of TEAM where they
/// have too few and the sum is long.
static void widen(kf_formula *f, const mm_plan *plan, uint32_t factor)
{
    if (plan->form == MM_FORM_COLUMNS) {
        units(f, GROUPS_PER_UNIT * factor * 2);
        mm_formula_tiles(f, plan);
        kf_formula_op(f, KF_INS_LE);
        mm_formula_k(f, plan);
        kf_formula_imm_op(f, plan->items * plan->depth / plan->side / (factor * 2), KF_INS_LE);
        kf_formula_op(f, KF_INS_OR);
    } else {
        mm_formula_tiles(f, plan);
        kf_formula_imm_op(f, factor, KF_INS_MUL);
        units(f, GROUPS_PER_UNIT);
        kf_formula_op(f, KF_INS_LE);
        kf_formula_imm(f, (int64_t)plan->side * plan->width * factor * plan->depth);
        mm_formula_k(f, plan);
        kf_formula_op(f, KF_INS_LE);
        kf_formula_op(f, KF_INS_AND);
    }
    kf_formula_imm_op(f, factor, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

void mm_formula_side(kf_formula *f, const mm_plan *plan)
{
    kf_formula_imm(f, 1);
    for (uint32_t factor = 1; factor <= 4 && 2 * factor * plan->side <= plan->items; factor *= 2) {
        widen(f, plan, factor);
    }
    kf_formula_imm_op(f, plan->side, KF_INS_MUL);
}

/// Tiles that a work-item may take so that each unit has its share of work-items.
static void item_tiles(kf_formula *f, const mm_plan *plan)
{
    mm_formula_tiles(f, plan);
    units(f, ITEMS_PER_UNIT);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

void mm_formula_across(kf_formula *f, const mm_plan *plan)
{
    mm_formula_panels(f, plan);
    kf_formula_imm_op(f, plan->across, KF_INS_MIN);
    if (!plan->split) {
        item_tiles(f, plan);
        kf_formula_imm_op(f, SIDE_RATIO, KF_INS_FLOOR_DIV);
        kf_formula_imm_op(f, 1, KF_INS_MAX);
        kf_formula_op(f, KF_INS_MIN);
    }
}

void mm_formula_chunk(kf_formula *f, const mm_plan *plan)
{
    if (plan->split) {
        row_tiles(f, plan);
        kf_formula_imm_op(f, plan->chunk, KF_INS_MIN);
        return;
    }
    item_tiles(f, plan);
    mm_formula_across(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, plan->chunk, KF_INS_MIN);
}

/// Sums of the columns, then four terms of each as a word.
static void formula_packed_bytes(kf_formula *f, const mm_plan *plan)
{
    mm_formula_k(f, plan);
    kf_formula_imm_op(f, 4, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, 1, KF_INS_ADD);
    mm_formula_panels(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, 4 * (int64_t)plan->columns, KF_INS_MUL);
    mm_formula_own_batch(f, plan, &plan->block->right);
    kf_formula_op(f, KF_INS_MUL);
}

/// Groups of MM_PACK_LINES lines of an operand, those of whole tiles.
static void line_groups(kf_formula *f, const mm_plan *plan, const mm_operand *operand)
{
    uint32_t left = operand == &plan->block->left;
    if (left) {
        row_tiles(f, plan);
    } else {
        mm_formula_panels(f, plan);
    }
    kf_formula_imm_op(f, (left ? plan->rows : plan->columns) / MM_PACK_LINES, KF_INS_MUL);
}

void mm_formula_steps(kf_formula *f, const mm_plan *plan)
{
    mm_formula_k(f, plan);
    kf_formula_imm_op(f, plan->step, KF_INS_CEIL_DIV);
}

/// Work-groups that pack an operand for tensor cores.
static void tensor_groups(kf_formula *f, const mm_plan *plan, const mm_operand *operand)
{
    line_groups(f, plan, operand);
    mm_formula_steps(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_own_batch(f, plan, operand);
    kf_formula_op(f, KF_INS_MUL);
}

void mm_formula_packed(kf_formula *f, const mm_plan *plan, const mm_operand *operand)
{
    if (plan->form == MM_FORM_BYTES) {
        formula_packed_bytes(f, plan);
        return;
    }
    if (plan->form == MM_FORM_TENSOR) {
        tensor_groups(f, plan, operand);
        kf_formula_imm_op(f, (int64_t)MM_PACK_LINES * MM_LINE_BYTES * plan->copies, KF_INS_MUL);
        return;
    }
    mm_formula_k(f, plan);
    if (operand == &plan->block->left) {
        row_tiles(f, plan);
        kf_formula_imm_op(f, (int64_t)plan->rows * plan->compute_bytes, KF_INS_MUL);
    } else {
        mm_formula_panels(f, plan);
        uint32_t bytes = plan->narrow.storage != NULL ? plan->narrow.bytes : plan->compute_bytes;
        kf_formula_imm_op(f, (int64_t)plan->columns * bytes, KF_INS_MUL);
    }
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_own_batch(f, plan, operand);
    kf_formula_op(f, KF_INS_MUL);
}

void mm_formula_partial(kf_formula *f, const mm_plan *plan)
{
    mm_formula_m(f, plan);
    mm_formula_n(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_batch(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_parts(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, plan->compute_bytes * mm_products(plan->block), KF_INS_MUL);
}

// ---- launches ----

/// Work-items that pack an operand: of one step of terms of one tile or group of panels, of all of
/// these, and of all batches.
static void pack_items(kf_formula *f, const mm_plan *plan, const mm_operand *operand)
{
    uint32_t left = operand == &plan->block->left;
    if (plan->form == MM_FORM_TENSOR) {
        tensor_groups(f, plan, operand);
        return;
    }
    if (left) {
        row_tiles(f, plan);
    } else {
        mm_formula_panels(f, plan);
        kf_formula_imm_op(f, plan->across, KF_INS_CEIL_DIV);
    }
    mm_formula_k(f, plan);
    kf_formula_imm_op(f, left ? MM_LEFT_TERMS : MM_RIGHT_TERMS, KF_INS_CEIL_DIV);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_own_batch(f, plan, operand);
    kf_formula_op(f, KF_INS_MUL);
}

static void size_pack(one_launch *l, const mm_plan *plan, mm_role role)
{
    if (plan->form == MM_FORM_BYTES) { // a panel at a time, for the sums of its columns
        mm_formula_panels(&l->global[0], plan);
        mm_formula_own_batch(&l->global[0], plan, &plan->block->right);
        kf_formula_op(&l->global[0], KF_INS_MUL);
    } else if (role != MM_PACK_RIGHT) {
        pack_items(&l->global[0], plan, &plan->block->left);
    }
    if (role != MM_PACK_LEFT && plan->form != MM_FORM_BYTES) {
        pack_items(&l->global[0], plan, &plan->block->right);
    }
    if (role == MM_PACK_BOTH) {
        kf_formula_op(&l->global[0], KF_INS_ADD);
    }
    kf_formula_imm(&l->global[1], 1);
    kf_formula_imm(&l->global[2], 1);
}

/// Work-items for one row: as many for each unit.
static void strips(kf_formula *f, const mm_plan *plan)
{
    mm_formula_n(f, plan);
    units(f, STRIP_COLUMNS);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_imm_op(f, 1, KF_INS_MAX);
    kf_formula_imm_op(f, STRIPS_PER_UNIT, KF_INS_MIN);
    units(f, 1);
    kf_formula_op(f, KF_INS_MUL);
}

/// Strips of each part of one row: where the parts are fewer than the work-items wanted.
static void part_strips(kf_formula *f, const mm_plan *plan)
{
    units(f, ROW_PARTS_PER_UNIT);
    mm_formula_parts(f, plan);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    mm_formula_n(f, plan);
    kf_formula_imm_op(f, STRIP_COLUMNS, KF_INS_FLOOR_DIV);
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_imm_op(f, 1, KF_INS_MAX);
}

void mm_formula_joins(kf_formula *f, const mm_plan *plan)
{
    if (plan->form == MM_FORM_TENSOR) {
        mm_formula_tiles(f, plan);
        return;
    }
    part_strips(f, plan);
    mm_formula_batch(f, plan);
    kf_formula_op(f, KF_INS_MUL);
}

static void size_product(one_launch *l, const mm_plan *plan)
{
    if (plan->form == MM_FORM_ROW && plan->split) {
        part_strips(&l->global[0], plan);
    } else if (plan->form == MM_FORM_ROW || plan->form == MM_FORM_DOT) {
        strips(&l->global[0], plan);
    } else {
        mm_formula_panels(&l->global[0], plan);
    }
    row_tiles(&l->global[1], plan);
    if (mm_has_panels(plan)) {
        mm_formula_across(&l->global[0], plan);
        kf_formula_op(&l->global[0], KF_INS_CEIL_DIV);
        mm_formula_chunk(&l->global[1], plan);
        kf_formula_op(&l->global[1], KF_INS_CEIL_DIV);
    }
    mm_formula_batch(&l->global[2], plan);
    mm_formula_parts(&l->global[2], plan);
    kf_formula_op(&l->global[2], KF_INS_MUL);
}

static void size_combine(one_launch *l, const mm_plan *plan)
{
    mm_formula_n(&l->global[0], plan);
    kf_formula_imm_op(&l->global[0], plan->span, KF_INS_CEIL_DIV);
    mm_formula_m(&l->global[1], plan);
    mm_formula_batch(&l->global[2], plan);
}

/// Work-items of a group of the launch: of its first axis, and whether it has any.
static uint32_t tensor_items(const mm_plan *plan, mm_role role)
{
    return plan->form != MM_FORM_TENSOR || role == MM_CLEAR ? 0
           : role == MM_PRODUCT                             ? plan->items
                                                            : MM_PACK_ITEMS;
}

static void size_tensor(one_launch *l, const mm_plan *plan, mm_role role)
{
    uint32_t items = tensor_items(plan, role);
    if (role == MM_PRODUCT) {
        row_tiles(&l->global[0], plan);
        mm_formula_panels(&l->global[0], plan);
        kf_formula_op(&l->global[0], KF_INS_MUL);
        mm_formula_batch(&l->global[2], plan);
        mm_formula_parts(&l->global[2], plan);
        kf_formula_op(&l->global[2], KF_INS_MUL);
    } else {
        size_pack(l, plan, role);
    }
    kf_formula_imm_op(&l->global[0], items, KF_INS_MUL);
    for (uint32_t i = 0; i < 3; i++) {
        kf_formula_imm(&l->local[i], i == 0 ? items : 1);
    }
    if (role == MM_PRODUCT) {
        kf_formula_imm(&l->global[1], mm_products(plan->block));
    }
}

static void size_few_product(one_launch *l, const mm_plan *plan)
{
    uint32_t by_column = plan->form == MM_FORM_COLUMNS;
    mm_formula_n(&l->global[0], plan);
    if (!by_column) {
        kf_formula_imm(&l->global[0], (int64_t)plan->each * plan->items);
    }
    mm_formula_side(&l->global[0], plan);
    if (by_column) {
        kf_formula_imm_op(&l->global[0], plan->width, KF_INS_MUL);
    } else {
        kf_formula_op(&l->global[0], KF_INS_FLOOR_DIV);
    }
    kf_formula_op(&l->global[0], KF_INS_CEIL_DIV);
    kf_formula_imm_op(&l->global[0], plan->items, KF_INS_MUL);
    row_tiles(&l->global[1], plan);
    mm_formula_batch(&l->global[2], plan);
    mm_formula_parts(&l->global[2], plan);
    kf_formula_op(&l->global[2], KF_INS_MUL);
    for (uint32_t i = 0; i < 3; i++) {
        kf_formula_imm(&l->local[i], i == 0 ? plan->items : 1);
    }
}

static void size_launch(one_launch *l, const mm_plan *plan, mm_role role)
{
    uint32_t side = plan->form == MM_FORM_TILE && role == MM_PRODUCT ? 16 : 1;
    if (mm_is_few(plan) && role == MM_PRODUCT) {
        size_few_product(l, plan);
        return;
    }
    if (tensor_items(plan, role) != 0) {
        size_tensor(l, plan, role);
        return;
    }
    if (role == MM_PRODUCT) {
        size_product(l, plan);
    } else if (role == MM_COMBINE) {
        size_combine(l, plan);
    } else if (role == MM_CLEAR) {
        mm_formula_joins(&l->global[0], plan);
        kf_formula_imm(&l->global[1], 1);
        kf_formula_imm(&l->global[2], 1);
    } else {
        size_pack(l, plan, role);
    }
    for (uint32_t i = 0; i < 3 && (plan->device->block_shape || side > 1); i++) {
        int64_t local = i < 2 ? side : 1;
        kf_formula_imm_op(&l->global[i], local, KF_INS_MUL);
        kf_formula_imm(&l->local[i], local);
    }
}

static uint32_t temp_index(const mm_plan *plan, uint32_t temp)
{
    if (plan->form == MM_FORM_TENSOR) { // the packed operands come first
        uint32_t right = !plan->plain;
        return temp == MM_TEMP_LEFT || temp == MM_TEMP_RIGHT ? temp - plan->plain
               : temp >= MM_TEMP_MORE                        ? right + 1 + temp - MM_TEMP_MORE
                                      : right + mm_products(plan->block) + temp - MM_TEMP_PARTS;
    }
    if (temp == MM_TEMP_COUNTS) {
        return 1; // behind the parts
    }
    if (temp >= MM_TEMP_MORE) {
        return MM_TEMP_RIGHT + 1 + temp - MM_TEMP_MORE;
    }
    return plan->form == MM_FORM_PACKED ? temp : 0;
}

static void value_formula(kf_formula *f, const mm_plan *plan, const mm_param *param)
{
    switch (param->kind) {
    case MM_PARAM_EXTENT:
        symbol(f, plan->block->chain.values[plan->block->result].symbols[param->index]);
        break;
    case MM_PARAM_DIM:
        symbol(f, plan->block->chain.values[param->index].symbols[param->axis]);
        break;
    case MM_PARAM_M:
        mm_formula_m(f, plan);
        break;
    case MM_PARAM_N:
        mm_formula_n(f, plan);
        break;
    case MM_PARAM_K:
        mm_formula_k(f, plan);
        break;
    case MM_PARAM_DEPTH:
        part_terms(f, plan);
        break;
    case MM_PARAM_SIDE:
        mm_formula_side(f, plan);
        break;
    default:
        mm_formula_parts(f, plan);
        break;
    }
}

static void bind(mm_program *p, one_launch *l, const mm_param *param, kf_karg *arg)
{
    const kf_chain *chain = &p->block->chain;
    arg->dtype = KF_DTYPE_I64;
    switch (param->kind) {
    case MM_PARAM_INPUT:
    case MM_PARAM_OUTPUT:
        kf_chain_bind_tensor(arg, &chain->values[param->index],
                             param->kind == MM_PARAM_INPUT ? KF_ACCESS_READ : KF_ACCESS_WRITE);
        break;
    case MM_PARAM_OFFSET:
    case MM_PARAM_STRIDE:
        kf_chain_bind_place(arg, &chain->values[param->index],
                            param->kind == MM_PARAM_OFFSET ? KF_ARG_OFFSET : KF_ARG_STRIDE,
                            param->axis);
        break;
    case MM_PARAM_SCALAR:
        kf_chain_bind_number(arg, &chain->numbers[param->index]);
        break;
    case MM_PARAM_TEMP:
        arg->kind = KF_ARG_TEMP;
        arg->access = param->axis;
        arg->ref = temp_index(&p->plan, param->index);
        arg->dtype = 0;
        break;
    default:
        if (l->n_values == MAX_SCALARS) {
            p->failed = 1;
            return;
        }
        value_formula(&l->values[l->n_values], &p->plan, param);
        p->failed |= l->values[l->n_values].failed;
        arg->kind = KF_ARG_VALUE;
        arg->dtype = param->kind == MM_PARAM_EXTENT ? KF_DTYPE_I64 : KF_DTYPE_I32;
        arg->value = kf_formula_expr(&l->values[l->n_values++]);
        break;
    }
}

/// The parameter as this launch binds it: a kernel of a further product packs its own operand.
static mm_param param_of(const mm_block *block, const mm_kernel *kernel, uint32_t i)
{
    mm_param param = kernel->params[i];
    if (kernel->product > 0 && param.kind == MM_PARAM_TEMP) {
        param.index = MM_TEMP_MORE + kernel->product - 1;
    } else if (kernel->product > 0 &&
               (param.kind == MM_PARAM_INPUT || param.kind == MM_PARAM_OFFSET ||
                param.kind == MM_PARAM_STRIDE)) {
        param.index = mm_right(block, kernel->product)->source;
    }
    return param;
}

static void make_launch(mm_program *p, uint32_t index)
{
    one_launch *l = &p->all[index];
    const mm_kernel *kernel = &p->plan.kernels[index];
    size_launch(l, &p->plan, kernel->role);
    for (uint32_t i = 0; i < kernel->n_params; i++) {
        mm_param param = param_of(p->block, kernel, i);
        bind(p, l, &param, &l->args[i]);
    }
    p->failed |= kernel->n_params == MM_MAX_PARAMS;
    l->launch.struct_size = (uint32_t)sizeof(l->launch);
    l->launch.dims = 3;
    l->launch.n_args = kernel->n_params;
    l->launch.kernel.ptr = mm_kernel_name(kernel->role);
    l->launch.kernel.len = strlen(l->launch.kernel.ptr);
    l->launch.args = l->args;
    for (uint32_t i = 0; i < 3; i++) {
        p->failed |= l->global[i].failed;
        l->launch.global[i] = kf_formula_expr(&l->global[i]);
        l->launch.local[i] = kf_formula_expr(&l->local[i]);
    }
    p->launches[index] = &l->launch;
    if (kernel->role == MM_CLEAR ||
        (kernel->role == MM_PACK_LEFT && mm_is_kept(&p->plan, &p->block->left)) ||
        (kernel->role == MM_PACK_RIGHT && mm_is_kept(&p->plan, &p->block->right))) {
        return;
    }
    p->steps[p->n_steps].kind = KF_STEP_LAUNCH;
    p->steps[p->n_steps++].index = index;
}

// ---- temporaries ----

static void add_temp(mm_program *p, uint32_t kept, uint32_t prepack)
{
    kf_temp *temp = &p->temps[p->n_temps];
    p->failed |= p->temp_bytes[p->n_temps].failed;
    temp->bytes = kf_formula_expr(&p->temp_bytes[p->n_temps++]);
    temp->align = 64;
    temp->flags = kept ? KF_TEMP_PERSISTENT : 0;
    temp->prepack = kept ? prepack : KF_NONE;
}

static void make_temps(mm_program *p)
{
    const mm_plan *plan = &p->plan;
    if (plan->form == MM_FORM_BYTES) {
        mm_formula_packed(&p->temp_bytes[0], plan, &p->block->right);
        add_temp(p, mm_is_kept(plan, &p->block->right), 0);
    }
    if (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) {
        if (!plan->plain) {
            mm_formula_packed(&p->temp_bytes[0], plan, &p->block->left);
            add_temp(p, mm_is_kept(plan, &p->block->left), 0);
        }
        for (uint32_t i = 0; i < mm_products(p->block); i++) {
            mm_formula_packed(&p->temp_bytes[p->n_temps], plan, mm_right(p->block, i));
            add_temp(p, mm_is_kept(plan, mm_right(p->block, i)), !plan->plain + i);
        }
    }
    if (plan->split) {
        mm_formula_partial(&p->temp_bytes[p->n_temps], plan);
        add_temp(p, 0, 0);
    }
    if (plan->joined) {
        mm_formula_joins(&p->temp_bytes[p->n_temps], plan);
        kf_formula_imm_op(&p->temp_bytes[p->n_temps], 4, KF_INS_MUL);
        add_temp(p, 1, plan->n_kernels - 1);
    }
}

// ---- life ----

static void make_key(mm_program *p)
{
    static const uint64_t seeds[2] = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t hash = kf_hash(seeds[i], p->code.ptr, p->code.len);
        for (uint32_t k = 0; k < p->plan.n_kernels; k++) {
            hash = kf_hash_launch(hash, p->launches[k]);
        }
        for (uint32_t k = 0; k < p->n_temps; k++) {
            hash = kf_hash_expr(hash, p->temps[k].bytes);
            hash = kf_hash(hash, &p->temps[k].flags, sizeof(p->temps[k].flags));
        }
        hash = kf_hash(hash, &p->block->len, sizeof(p->block->len));
        memcpy(p->key + 8 * i, &hash, sizeof(hash));
    }
}

static void fill(mm_program *p, const mm_fuser *fuser)
{
    mm_emit(&p->code, &p->plan);
    kf_chain_name(&p->name, fuser->name, p->block->shown, p->block->n_shown);
    for (uint32_t i = 0; i < p->plan.n_kernels; i++) {
        make_launch(p, i);
    }
    make_temps(p);
    p->failed |= p->code.failed | p->name.failed;
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    if (fuser->tensor != NULL) {
        p->source.defines = fuser->tensor->defines;
        p->source.n_defines = fuser->tensor->n_defines;
    }
    p->sources[0] = &p->source;
}

mm_program *mm_program_create(const mm_block *block, const kf_chain_device *device,
                              const mm_fuser *fuser)
{
    mm_program *p = (mm_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->block = (mm_block *)malloc(sizeof(*p->block));
    if (p->block == NULL) {
        mm_program_destroy(p);
        return NULL;
    }
    mm_block_copy(p->block, block);
    mm_plan_make(&p->plan, p->block, device, fuser);
    fill(p, fuser);
    if (p->failed) {
        mm_program_destroy(p);
        return NULL;
    }
    make_key(p);
    return p;
}

void mm_program_destroy(mm_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program->block);
        free(program);
    }
}

void mm_program_describe(const mm_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC;
    view.sources = program->sources;
    view.n_sources = 1;
    view.launches = program->launches;
    view.n_launches = program->plan.n_kernels;
    view.temps = program->temps;
    view.n_temps = program->n_temps;
    view.steps = program->steps;
    view.n_steps = program->n_steps;
    KF_OUT(out, &view);
}

void mm_program_info(const mm_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->block->len, &program->name, program->key, sizeof(program->key));
}
