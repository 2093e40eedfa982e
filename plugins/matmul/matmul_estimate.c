// SPDX-License-Identifier: MIT OR Apache-2.0
// What a product costs: the operations of whole tiles at the share of the device's rate that the
// form reaches, idle units when tiles are few, packing where it is not done once for ever, parts of
// the sum written and read, the epilogue's traffic, launches. Shares were measured (README).
#include "matmul_bytes.h"

/// A formula's nanosecond, and what was measured on PoCL (an AMD EPYC with AVX2): a core's time for
/// a tile of a direct or packed product however small, and for operators behind it.
enum { NS = 1024000, DIRECT_TILE_NS = 70, PACKED_TILE_NS = 150, ADDITIONS_PER_NS = 10 };

/// Whether the rows that a work-item needs lie across, as those of a transposed matrix do, so that
/// it copies them element by element, or far apart, as those of heads cut out of one product do.
static uint32_t copies_across(const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    const kf_chain_value *v = &plan->block->chain.values[left->source];
    return plan->form == MM_FORM_DIRECT && plan->device->is_cpu &&
           (v->lines || !mm_is_unit(plan->block, left->source, left->inner));
}

/// Of the device's f32 rate, in percent.
static uint32_t share(const mm_plan *plan)
{
    if (plan->tensor != NULL) {
        return plan->tensor->share(plan);
    }
    if (plan->form == MM_FORM_BYTES) {
        return (plan->device->features & KF_FEATURE_VNNI) != 0 ? 340 : 100;
    }
    uint32_t tile = plan->rows > 64 ? 55 : 18, block = copies_across(plan) ? 50 : 85;
    uint32_t percent = mm_is_few(plan) ? 15 : plan->form == MM_FORM_TILE ? tile : block;
    return plan->compute_bytes > 4 ? percent / 2 : percent;
}

static void tensor_bytes(kf_formula *f, const mm_plan *plan, uint32_t value)
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    kf_formula_product(f, v->symbols, v->rank);
    kf_formula_imm_op(f, kf_dtype_of(v->dtype).bytes, KF_INS_MUL);
}

/// Pushes the bytes of what the epilogue reads (`written` 0) or of the results.
static void end_bytes(kf_formula *f, const mm_plan *plan, uint32_t written)
{
    const kf_chain *chain = &plan->block->chain;
    kf_formula_imm(f, 0);
    for (uint32_t i = 0; i < chain->n_values && f->n < 64; i++) {
        if (written ? kf_chain_is_output(&chain->values[i])
                    : mm_is_epilogue_input(plan->block, i)) {
            tensor_bytes(f, plan, i);
            kf_formula_op(f, KF_INS_ADD);
        }
    }
}

/// Multiplications and additions of a tile for each term.
static int64_t tile_flops(const mm_plan *plan)
{
    uint32_t products = plan->block->together ? mm_products(plan->block) : 1; // others are counted
    return 2 * (int64_t)plan->rows * plan->columns * products;
}

/// Multiplications and additions, those of the tiles' ragged ends included.
static void all_flops(kf_formula *f, const mm_plan *plan)
{
    mm_formula_tiles(f, plan);
    kf_formula_imm_op(f, tile_flops(plan), KF_INS_MUL);
    mm_formula_k(f, plan);
    kf_formula_op(f, KF_INS_MUL);
}

/// Additions of the operators behind the product, for each element.
static uint32_t end_cost(const mm_block *block)
{
    uint32_t cost = 0;
    for (uint32_t i = block->product + 1; i < block->chain.n_ops; i++) {
        const kf_ew_row *row = block->chain.ops[i].row;
        cost += row != NULL ? row->cost : 0; // further products have none
    }
    return cost;
}

static uint32_t is_vector(const mm_plan *plan)
{
    return plan->form == MM_FORM_ROW || plan->form == MM_FORM_DOT;
}

static int64_t unit_count(const mm_plan *plan)
{
    return plan->device->compute_units > 0 ? plan->device->compute_units : 1;
}

/// What a tile takes of all units of a processor however little there is to sum.
static int64_t tile_start(const mm_plan *plan)
{
    uint32_t direct = (is_vector(plan) && !plan->split) || plan->form == MM_FORM_DIRECT;
    if (!plan->device->block_shape) {
        return 0;
    }
    return (direct ? DIRECT_TILE_NS : PACKED_TILE_NS) * (int64_t)NS / unit_count(plan);
}

/// All tiles: their operations and their starts.
static void tiles(kf_formula *f, const mm_plan *plan)
{
    int64_t rate = plan->device->cost.ps_per_kflop * 100 / share(plan);
    mm_formula_tiles(f, plan);
    mm_formula_k(f, plan);
    kf_formula_imm_op(f, tile_flops(plan) * rate, KF_INS_MUL);
    kf_formula_imm_op(f, tile_start(plan), KF_INS_ADD);
    kf_formula_op(f, KF_INS_MUL);
}

/// Adds what a processor's operators behind the product take for the elements by which whole
/// vectors reach past the columns. What they take for the columns counts as little as it does for
/// operators by themselves.
static void overhang(kf_formula *f, const mm_plan *plan)
{
    int64_t cost = end_cost(plan->block) * (int64_t)(NS / ADDITIONS_PER_NS) / unit_count(plan);
    if (!plan->device->block_shape || cost == 0) {
        return;
    }
    mm_formula_n(f, plan);
    kf_formula_imm_op(f, is_vector(plan) ? plan->width : plan->columns, KF_INS_ROUND_UP);
    mm_formula_n(f, plan);
    kf_formula_op(f, KF_INS_SUB);
    mm_formula_m(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    mm_formula_batch(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, cost, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

/// What every work-item packs for itself, which stays in its caches: half of what memory would
/// take.
static void own_panels(kf_formula *f, const mm_plan *plan)
{
    mm_formula_tiles(f, plan);
    mm_formula_across(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, plan->rows, KF_INS_MUL);
    mm_formula_tiles(f, plan);
    mm_formula_chunk(f, plan);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, plan->columns, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
    mm_formula_k(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, plan->compute_bytes, KF_INS_MUL);
    kf_formula_imm_op(f, 2, KF_INS_FLOOR_DIV);
}

/// Picoseconds for a KiB of operands. Strips of a matrix's rows, which begin anew in each row, come
/// at two thirds of the rate of its rows one behind the other.
static int64_t read_cost(const mm_plan *plan)
{
    int64_t cost = plan->device->cost.ps_per_kib;
    uint32_t strips = plan->form == MM_FORM_ROW && plan->device->is_cpu && !plan->split;
    return strips ? cost * 3 / 2 : cost;
}

/// What is moved before and after the product itself: packing, and parts of the sum.
static void extra_bytes(kf_formula *f, const mm_plan *plan)
{
    const mm_operand *operands[2] = {&plan->block->left, &plan->block->right};
    if (plan->form == MM_FORM_DIRECT) {
        own_panels(f, plan);
    } else {
        kf_formula_imm(f, 0);
    }
    if (plan->form == MM_FORM_BYTES && !mm_is_kept(plan, operands[1])) {
        mm_formula_packed(f, plan, operands[1]);
        kf_formula_imm_op(f, 2, KF_INS_MUL);
        kf_formula_op(f, KF_INS_ADD);
    }
    uint32_t packed = plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR;
    for (uint32_t i = 0; i < 2 && packed; i++) {
        if (!mm_is_kept(plan, operands[i]) && !(i == 0 && plan->plain)) {
            mm_formula_packed(f, plan, operands[i]);
            kf_formula_imm_op(f, 2, KF_INS_MUL); // read and written
            kf_formula_op(f, KF_INS_ADD);
        }
    }
    if (plan->split) {
        mm_formula_partial(f, plan);
        kf_formula_imm_op(f, plan->device->block_shape ? 4 : 2, KF_INS_MUL); // by another unit
        kf_formula_op(f, KF_INS_ADD);
    }
}

/// COLUMNS, TEAM: what is read of the matrix for every group of rows behind the first.
static void matrix_again(kf_formula *f, const mm_plan *plan)
{
    mm_formula_m(f, plan);
    kf_formula_imm_op(f, plan->rows, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, 1, KF_INS_SUB);
    tensor_bytes(f, plan, plan->block->right.source);
    kf_formula_op(f, KF_INS_MUL);
}

static void temp_bytes(kf_formula *f, const mm_plan *plan)
{
    kf_formula_imm(f, 0);
    if (plan->form == MM_FORM_BYTES) {
        mm_formula_packed(f, plan, &plan->block->right);
        kf_formula_op(f, KF_INS_ADD);
    }
    if (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) {
        if (!plan->plain) {
            mm_formula_packed(f, plan, &plan->block->left);
            kf_formula_op(f, KF_INS_ADD);
        }
        mm_formula_packed(f, plan, &plan->block->right);
        kf_formula_op(f, KF_INS_ADD);
    }
    if (plan->split) {
        mm_formula_partial(f, plan);
        kf_formula_op(f, KF_INS_ADD);
    }
}

/// Few tiles leave units idle: the time grows by units / min(units, tiles).
static void idle_factor(kf_formula *f, const mm_plan *plan)
{
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    mm_formula_tiles(f, plan);
    mm_formula_parts(f, plan);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

static uint32_t count_launches(const mm_plan *plan)
{
    uint32_t launches = plan->n_kernels;
    launches -= mm_is_kept(plan, &plan->block->left);
    launches -= mm_is_kept(plan, &plan->block->right);
    launches -= plan->block->n_more; // which are constant
    launches -= plan->joined;
    return launches;
}

uint32_t mm_estimate_make(kf_estimate *estimate, const mm_plan *plan)
{
    const kf_cost *cost = &plan->device->cost;
    kf_formula *ns = &estimate->ns;
    uint32_t launches = count_launches(plan), few = mm_is_few(plan);
    kf_estimate_init(estimate);
    tensor_bytes(&estimate->read, plan, plan->block->left.source);
    for (uint32_t i = 0; i < mm_products(plan->block); i++) {
        tensor_bytes(&estimate->read, plan, mm_right(plan->block, i)->source);
        kf_formula_op(&estimate->read, KF_INS_ADD);
    }
    end_bytes(&estimate->read, plan, 0);
    kf_formula_op(&estimate->read, KF_INS_ADD);
    end_bytes(&estimate->written, plan, 1);
    all_flops(&estimate->flops, plan);
    temp_bytes(&estimate->temp, plan);
    // the product: as long as its operations or its operands take
    tiles(ns, plan);
    overhang(ns, plan);
    if (!few) {
        idle_factor(ns, plan);
    }
    kf_formula_append(ns, kf_formula_expr(&estimate->read));
    if (few) {
        matrix_again(ns, plan);
        kf_formula_op(ns, KF_INS_ADD);
    }
    kf_formula_imm_op(ns, read_cost(plan), KF_INS_MUL);
    kf_formula_op(ns, KF_INS_MAX);
    if (few) { // idle units ask for nothing
        idle_factor(ns, plan);
    }
    // and what comes before and after it
    kf_formula_append(ns, kf_formula_expr(&estimate->written));
    extra_bytes(ns, plan);
    kf_formula_op(ns, KF_INS_ADD);
    kf_formula_imm_op(ns, cost->ps_per_kib, KF_INS_MUL);
    kf_formula_op(ns, KF_INS_ADD);
    kf_formula_imm_op(ns, NS, KF_INS_FLOOR_DIV);
    kf_formula_imm_op(ns, launches * cost->launch_ns, KF_INS_ADD);
    return launches;
}
