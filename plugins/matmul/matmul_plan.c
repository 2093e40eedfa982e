// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides how the product is done: which form, sizes of tiles from the device's vectors, whether
// the batch counts as rows, which kernels there are and what each is given.
//
// Measured on PoCL (2 cores, AVX-512, f32, packing counted), tiles of 12x32, 14x32, 8x48 and 6x64
// differ by less than the noise of the machine; 12x32 wastes least at odd sizes.
#include "matmul_bytes.h"

enum {
    DEPTH = 1024, // bytes of terms for which a panel of the right operand stays in the first level
    CHUNK = 16, // cache, and CHUNK tiles of the left one, with ACROSS panels, in the second
    ACROSS = 8,
    TURNED_ACROSS = 4, // of an operand that each line of work-items turns again: lines are longer
    SPLIT_ACROSS = 2, // of a part of the sum: a wider work-item would need more parts
    SMALL_DEPTH = 512, // where private memory is no cache
    SMALL_CHUNK = 4, // there, too
    ROW_STRIP = 2048, // MM_FORM_ROW: most columns at a time, whose sums stay in the first cache
    PART_STRIP = 16384, // the same in bytes, of a part: the longer, the better
    BIG_TILE = 128,
    SMALL_TILE = 64,
    TILE_DEPTH = 8, // of a step of a big tile, twice as much of a small one
    FEW_BYTES = 16, // of a vector of the matrix
    FEW_ROWS = 8, // of a work-group
    FEW_WIDTH = 4, // of a vector of columns, at most, where rows are several
    FEW_ITEMS = 256,
    FEW_ITEMS_LARGE = 512, // where one row's columns are few
    FEW_ITEMS_TEAM = 128,
    SPAN_BLOCK = 4096
};

// ---- axes ----

int mm_row_axis(const mm_block *block)
{
    return block->swapped || block->left.outer < 0 ? -1 : block->batch;
}

int mm_column_axis(const mm_block *block)
{
    const kf_chain_value *result = &block->chain.values[block->result];
    return block->swapped ? block->batch : block->right.outer < 0 ? -1 : result->rank - 1;
}

int mm_result_axis(const mm_block *block, uint32_t value, uint32_t axis)
{
    const kf_chain_value *v = &block->chain.values[value];
    int own = (int)axis - (int)(block->chain.values[block->result].rank - v->rank);
    return own >= 0 && v->symbols[own] != 0 ? own : -1;
}

int mm_batch_axis(const mm_block *block, const mm_operand *operand, uint32_t axis)
{
    const kf_chain_value *v = &block->chain.values[operand->source];
    int own = (int)axis - (int)(block->batch - operand->batch);
    return own >= 0 && v->symbols[own] != 0 ? own : -1;
}

uint32_t mm_is_linear(const mm_block *block, uint32_t value)
{
    const kf_chain_value *v = &block->chain.values[value];
    const kf_chain_value *result = &block->chain.values[block->result];
    for (uint32_t i = 0; i < result->rank; i++) {
        if (result->symbols[i] != 0 && mm_result_axis(block, value, i) < 0) {
            return 0;
        }
    }
    return v->computed || v->contiguous;
}

uint32_t mm_is_input_behind(const mm_block *block, uint32_t product, uint32_t value)
{
    for (uint32_t i = block->product + 1; i < block->chain.n_ops; i++) {
        for (uint32_t k = 0; k < block->chain.ops[i].n_inputs; k++) {
            if (mm_is_behind(block, product, i) && block->chain.ops[i].inputs[k] == value) {
                return !block->chain.values[value].computed;
            }
        }
    }
    return 0;
}

uint32_t mm_is_epilogue_input(const mm_block *block, uint32_t value)
{
    uint32_t is_input = 0;
    for (uint32_t i = 0; i < mm_products(block) && !is_input; i++) {
        is_input = mm_is_input_behind(block, i, value);
    }
    return is_input;
}

uint32_t mm_has_panels(const mm_plan *plan)
{
    return plan->form == MM_FORM_PACKED || plan->form == MM_FORM_DIRECT ||
           plan->form == MM_FORM_BYTES;
}

uint32_t mm_makes(const mm_block *block, const mm_operand *operand, uint32_t op)
{
    return op < block->product && operand->value != operand->source &&
           block->run[block->chain.ops[op].result] == block->run[operand->value];
}

const char *mm_panel_type(const mm_plan *plan)
{
    return plan->narrow.storage != NULL ? plan->narrow.storage : plan->type;
}

uint32_t mm_is_kept(const mm_plan *plan, const mm_operand *operand)
{
    const kf_chain *chain = &plan->block->chain;
    if (plan->form == MM_FORM_BYTES) { // zero points come to the sums afterwards
        return operand == &plan->block->right && operand->constant;
    }
    for (uint32_t i = 0; i < plan->block->product; i++) {
        for (uint32_t k = 0; k < chain->ops[i].n_numbers; k++) {
            if (mm_makes(plan->block, operand, i) &&
                chain->numbers[chain->ops[i].numbers[k]].is_scalar) {
                return 0; // another number another time
            }
        }
    }
    return (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) && operand->constant;
}

// ---- the batch as rows ----

/// The left operand's batch and rows are one long axis in memory, the right one's are repeated.
static uint32_t operands_fold(const mm_block *block)
{
    const kf_chain_value *left = &block->chain.values[block->left.source];
    if (block->swapped || block->left.outer != (int)left->rank - 2 || !left->contiguous) {
        return 0;
    }
    uint32_t extents = 0;
    for (uint32_t i = 0; i < block->batch; i++) {
        uint32_t symbol = block->chain.values[block->result].symbols[i];
        if (mm_batch_axis(block, &block->right, i) >= 0 ||
            (symbol != 0 && mm_batch_axis(block, &block->left, i) < 0)) {
            return 0;
        }
        extents += symbol != 0;
    }
    return extents > 0;
}

static uint32_t input_folds(const mm_block *block, uint32_t value)
{
    if (mm_is_linear(block, value)) {
        return 1;
    }
    for (uint32_t i = 0; i <= block->batch; i++) {
        if (mm_result_axis(block, value, i) >= 0) {
            return 0;
        }
    }
    return 1;
}

static uint32_t batch_folds(const mm_block *block)
{
    uint32_t folds = operands_fold(block) && !mm_bytes_zero_by_row(block);
    for (uint32_t i = 0; i < block->chain.n_values && folds; i++) {
        folds = !mm_is_epilogue_input(block, i) || input_folds(block, i);
    }
    return folds;
}

// ---- the next batch ----

/// Does each batch of the operand lie behind the one before?
static uint32_t has_next(const mm_plan *plan, const mm_operand *operand)
{
    const kf_chain_value *v = &plan->block->chain.values[operand->source];
    uint32_t each = v->contiguous && plan->batch > 0;
    for (uint32_t i = 0; i < plan->batch; i++) {
        uint32_t there = plan->block->chain.values[plan->block->result].symbols[i] != 0;
        each = each && (!there || mm_batch_axis(plan->block, operand, i) >= 0);
    }
    return each;
}

uint32_t mm_asks_ahead(const mm_plan *plan)
{
    return plan->form == MM_FORM_DIRECT && plan->device->is_cpu && !plan->split &&
           has_next(plan, &plan->block->left) && has_next(plan, &plan->block->right);
}

// ---- parameters ----

static void add(mm_kernel *kernel, mm_param_kind kind, uint32_t index, uint32_t axis)
{
    if (kernel->n_params < MM_MAX_PARAMS) {
        kernel->params[kernel->n_params].kind = kind;
        kernel->params[kernel->n_params].index = index;
        kernel->params[kernel->n_params++].axis = axis;
    }
}

static uint32_t has_source(const mm_kernel *kernel, uint32_t value)
{
    for (uint32_t i = 0; i < kernel->n_params; i++) {
        if (kernel->params[i].kind == MM_PARAM_INPUT && kernel->params[i].index == value) {
            return 1;
        }
    }
    return 0;
}

static void add_source(mm_kernel *kernel, const mm_plan *plan, uint32_t value)
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    add(kernel, MM_PARAM_INPUT, value, 0);
    if (!v->zero_offset) {
        add(kernel, MM_PARAM_OFFSET, value, 0);
    }
}

static void add_strides(mm_kernel *kernel, const mm_plan *plan, uint32_t value)
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    for (uint32_t i = 0; i < v->rank; i++) {
        if (v->symbols[i] != 0 && !mm_is_unit(plan->block, value, (int)i)) {
            add(kernel, MM_PARAM_STRIDE, value, i);
        }
    }
}

static void add_scalars(mm_kernel *kernel, const mm_plan *plan)
{
    for (uint32_t i = 0; i < plan->block->chain.n_numbers; i++) {
        if (plan->block->chain.numbers[i].is_scalar) {
            add(kernel, MM_PARAM_SCALAR, i, 0);
        }
    }
}

static void add_extents(mm_kernel *kernel, const mm_plan *plan)
{
    for (uint32_t i = 0; i < plan->batch; i++) {
        if (plan->block->chain.values[plan->block->result].symbols[i] != 0) {
            add(kernel, MM_PARAM_EXTENT, i, 0);
        }
    }
}

/// What the epilogue reads and what it writes.
static void add_ends(mm_kernel *kernel, const mm_plan *plan)
{
    const mm_block *block = plan->block;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        if (kf_chain_is_output(&block->chain.values[i])) {
            add(kernel, MM_PARAM_OUTPUT, i, 0);
        } else if (mm_is_epilogue_input(block, i) && !has_source(kernel, i)) {
            add_source(kernel, plan, i);
            if (!mm_is_linear(block, i)) {
                add_strides(kernel, plan, i);
            }
        }
    }
}

static void add_sizes(mm_kernel *kernel)
{
    add(kernel, MM_PARAM_M, 0, 0);
    add(kernel, MM_PARAM_N, 0, 0);
    add(kernel, MM_PARAM_K, 0, 0);
}

static mm_kernel *add_kernel(mm_plan *plan, mm_role role)
{
    mm_kernel *kernel = &plan->kernels[plan->n_kernels++];
    kernel->role = role;
    kernel->product = 0;
    kernel->n_params = 0;
    return kernel;
}

/// Sources of the operands that a kernel reads, each once.
static void add_operands(mm_kernel *kernel, const mm_plan *plan, uint32_t left, uint32_t right)
{
    const mm_block *block = plan->block;
    if (left) {
        add_source(kernel, plan, block->left.source);
        add_strides(kernel, plan, block->left.source);
    }
    if (right && !(left && block->left.source == block->right.source)) {
        add_source(kernel, plan, block->right.source);
        add_strides(kernel, plan, block->right.source);
    }
}

static void pack_kernel(mm_plan *plan, mm_role role)
{
    mm_kernel *kernel = add_kernel(plan, role);
    uint32_t left = role != MM_PACK_RIGHT, right = role != MM_PACK_LEFT;
    add_operands(kernel, plan, left, right);
    add_scalars(kernel, plan);
    add_extents(kernel, plan);
    add_sizes(kernel);
    if (left) {
        add(kernel, MM_PARAM_TEMP, MM_TEMP_LEFT, KF_ACCESS_WRITE);
    }
    if (right) {
        add(kernel, MM_PARAM_TEMP, MM_TEMP_RIGHT, KF_ACCESS_WRITE);
    }
    if (right && plan->block->window.is_there) { // height and width of the image, then the result's
        add(kernel, MM_PARAM_DIM, plan->block->right.source, 2);
        add(kernel, MM_PARAM_DIM, plan->block->right.source, 3);
        add(kernel, MM_PARAM_DIM, plan->block->result, 3);
    }
}

/// The left operand as it lies, the packed right one, and the zero points of both.
static void add_bytes(mm_kernel *kernel, const mm_plan *plan)
{
    const mm_operand *operands[] = {&plan->block->left, &plan->block->right};
    add_operands(kernel, plan, 1, 0);
    add(kernel, MM_PARAM_TEMP, MM_TEMP_RIGHT, KF_ACCESS_READ);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t zero = operands[i]->zero;
        if (zero != MM_NO_VALUE && !has_source(kernel, zero)) {
            add_source(kernel, plan, zero);
            add_strides(kernel, plan, zero);
        }
    }
}

static void product_kernel(mm_plan *plan)
{
    mm_kernel *kernel = add_kernel(plan, MM_PRODUCT);
    if (plan->form == MM_FORM_BYTES) {
        add_bytes(kernel, plan);
    } else if (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) {
        if (plan->plain) {
            add_operands(kernel, plan, 1, 0);
            if (plan->block->left.upper != 0) {
                add(kernel, MM_PARAM_DIM, plan->block->left.source,
                    (uint32_t)plan->block->left.inner);
            }
        } else {
            add(kernel, MM_PARAM_TEMP, MM_TEMP_LEFT, KF_ACCESS_READ);
        }
        add(kernel, MM_PARAM_TEMP, MM_TEMP_RIGHT, KF_ACCESS_READ);
        for (uint32_t i = 0; i < plan->block->n_more; i++) {
            add(kernel, MM_PARAM_TEMP, MM_TEMP_MORE + i, KF_ACCESS_READ);
        }
    } else {
        add_operands(kernel, plan, 1, 1);
    }
    if (mm_is_few(plan)) {
        add(kernel, MM_PARAM_SIDE, 0, 0);
    }
    if (plan->split) {
        add(kernel, MM_PARAM_TEMP, MM_TEMP_PARTS, KF_ACCESS_WRITE);
        add(kernel, MM_PARAM_DEPTH, 0, 0);
        add(kernel, MM_PARAM_PARTS, 0, 0);
    }
    if (plan->joined) {
        add(kernel, MM_PARAM_TEMP, MM_TEMP_COUNTS, KF_ACCESS_READ | KF_ACCESS_WRITE);
    }
    if (!plan->split || plan->joined) {
        add_ends(kernel, plan);
    }
    add_scalars(kernel, plan);
    add_extents(kernel, plan);
    add_sizes(kernel);
}

static void combine_kernel(mm_plan *plan)
{
    mm_kernel *kernel = add_kernel(plan, MM_COMBINE);
    add(kernel, MM_PARAM_TEMP, MM_TEMP_PARTS, KF_ACCESS_READ);
    add(kernel, MM_PARAM_PARTS, 0, 0);
    add_ends(kernel, plan);
    add_scalars(kernel, plan);
    add_extents(kernel, plan);
    add_sizes(kernel);
}

// ---- form and sizes ----

/// Panels that are packed once for ever are better than none; otherwise few tiles are not worth a
/// launch and a way through memory for their panels.
static mm_form panel_form(const mm_plan *plan, uint32_t small)
{
    uint32_t kept = plan->block->left.constant | plan->block->right.constant;
    return small || (plan->split && !kept) ? MM_FORM_DIRECT : MM_FORM_PACKED;
}

static mm_form choose_form(const mm_plan *plan, uint32_t small, uint32_t few)
{
    const mm_block *block = plan->block;
    const mm_operand *right = &block->right;
    if (plan->tensor != NULL) {
        return MM_FORM_TENSOR;
    }
    if (block->bytes) {
        return MM_FORM_BYTES;
    }
    uint32_t along = mm_is_unit(block, right->source, right->outer);
    if (!plan->device->block_shape) {
        uint32_t by_sum = mm_is_unit(block, right->source, right->inner) &&
                          (!along || mm_outer_symbol(block, right) == 0);
        return !few ? MM_FORM_TILE : by_sum ? MM_FORM_TEAM : MM_FORM_COLUMNS;
    }
    // The folding of rows is for tiles only, parts also for a row whose matrix's rows are long.
    if (plan->fold || mm_outer_symbol(block, &block->left) != 0 ||
        (plan->split && !(along && plan->device->is_cpu))) {
        return panel_form(plan, small);
    }
    if (along) {
        return MM_FORM_ROW;
    }
    return mm_is_unit(block, right->source, right->inner) ? MM_FORM_DOT : MM_FORM_PACKED;
}

uint32_t mm_right_is_turned(const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    return !mm_is_unit(plan->block, right->source, right->outer) &&
           mm_is_unit(plan->block, right->source, right->inner);
}

static void size_block(mm_plan *plan)
{
    uint32_t registers = plan->device->vector_bytes >= 64 ? 32 : 16;
    plan->lanes = kf_vector_width(plan->device->vector_bytes, plan->compute_bytes);
    plan->lanes = plan->lanes < 2 ? 2 : plan->lanes;
    plan->columns = 2 * plan->lanes > plan->width ? 2 * plan->lanes : plan->width;
    plan->rows = registers * 3 / 4 / (plan->columns / plan->lanes);
    uint32_t small = plan->form == MM_FORM_DIRECT && !plan->device->is_cpu;
    plan->depth = (small ? SMALL_DEPTH : DEPTH) / plan->compute_bytes;
    plan->chunk = plan->device->is_cpu ? CHUNK : SMALL_CHUNK;
    plan->across = !plan->device->is_cpu ? 1 : plan->split ? SPLIT_ACROSS : ACROSS;
    if (plan->form == MM_FORM_DIRECT && plan->across == ACROSS && mm_right_is_turned(plan)) {
        plan->across = TURNED_ACROSS;
        plan->chunk *= ACROSS / TURNED_ACROSS;
    }
    plan->across = mm_share(plan->across, mm_products(plan->block)); // as much in the caches
    if (plan->form == MM_FORM_BYTES) {
        plan->lanes = MM_BYTES_LANES;
        plan->columns = MM_BYTES_LANES * (registers > 16 ? 2 : 1);
        plan->rows = registers > 16 ? 12 : 4;
    } else if (!mm_has_panels(plan)) {
        plan->rows = 1;
        plan->columns = plan->width;
        plan->across = plan->form != MM_FORM_ROW ? 1
                       : plan->split             ? PART_STRIP / plan->compute_bytes / plan->width
                                                 : ROW_STRIP / plan->width;
    }
}

static void size_items(mm_plan *plan, uint32_t small)
{
    uint32_t side = small || plan->compute_bytes > 4 ? SMALL_TILE : BIG_TILE;
    plan->lanes = plan->width;
    plan->rows = plan->columns = side;
    plan->depth = side == BIG_TILE ? TILE_DEPTH : 2 * TILE_DEPTH;
    plan->chunk = 1;
    plan->across = 1;
}

/// As measured on an H200: one row leaves registers for more loads at a time, several rows for
/// fewer columns.
static void size_few(mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    uint32_t bytes = kf_dtype_of(plan->block->chain.values[right->source].dtype).bytes;
    uint32_t one = mm_outer_symbol(plan->block, &plan->block->left) == 0 && !plan->fold;
    uint32_t by_column = plan->form == MM_FORM_COLUMNS, narrow = bytes < 4;
    uint32_t large = plan->device->max_group >= FEW_ITEMS_LARGE;
    plan->rows = one ? 1 : plan->compute_bytes > 4 ? FEW_ROWS / 2 : FEW_ROWS;
    plan->width = FEW_BYTES / bytes;
    if (by_column) {
        plan->width = one || plan->width < FEW_WIDTH ? plan->width : FEW_WIDTH;
        plan->items = one && large ? FEW_ITEMS_LARGE : FEW_ITEMS;
        plan->each = 1;
        plan->depth = !one && narrow ? 8 : 4;
        plan->side = 4;
        plan->columns = plan->side * plan->width;
    } else {
        plan->items = one ? FEW_ITEMS_TEAM : FEW_ITEMS;
        plan->each = one || narrow ? 2 : 4;
        plan->depth = one ? 4 : 1;
        plan->side = one || narrow ? 32 : 128;
        plan->columns = plan->each * plan->items / plan->side;
    }
    plan->lanes = plan->width;
    plan->chunk = plan->across = 1;
}

/// From how many elements on results do not fit into the last cache. A line of a tile has to be
/// whole lines of the cache.
static uint32_t stream_from(const mm_plan *plan)
{
    uint64_t bytes = 0;
    if (!plan->device->is_cpu || (plan->form != MM_FORM_PACKED && plan->form != MM_FORM_DIRECT)) {
        return 0;
    }
    for (uint32_t i = 0; i < plan->block->chain.n_values; i++) {
        const kf_chain_value *value = &plan->block->chain.values[i];
        uint32_t size = kf_dtype_of(value->dtype).bytes;
        if (!kf_chain_is_output(value)) {
            continue;
        }
        if (plan->columns * size % MM_CACHE_LINE != 0 || plan->device->mem_align < MM_CACHE_LINE ||
            plan->width * size > MM_CACHE_LINE) {
            return 0;
        }
        bytes += size;
    }
    uint64_t limit = plan->device->cache_bytes / (bytes == 0 ? 1 : bytes);
    return limit > INT32_MAX ? INT32_MAX : (uint32_t)limit;
}

void mm_plan_make(mm_plan *plan, const mm_block *block, const kf_chain_device *device,
                  const mm_fuser *fuser)
{
    kf_dtype dtype = kf_dtype_of(block->chain.values[block->result].dtype);
    memset(plan, 0, offsetof(mm_plan, kernels));
    plan->block = block;
    plan->device = device;
    plan->tensor = fuser->tensor;
    plan->split = fuser->split;
    plan->fold = batch_folds(block);
    plan->batch = plan->fold ? 0 : block->batch;
    plan->width = kf_chain_width(device);
    plan->compute_bytes = kf_ew_compute_bytes(&dtype);
    plan->type = dtype.compute;
    plan->form = choose_form(plan, fuser->small, fuser->few);
    if (plan->form == MM_FORM_TENSOR) {
        plan->chunk = plan->across = 1;
        plan->plain = plan->tensor->plain;
        plan->tensor->size(plan, fuser->small);
    } else if (plan->form == MM_FORM_TILE) {
        size_items(plan, fuser->small);
    } else if (mm_is_few(plan)) {
        size_few(plan);
    } else {
        size_block(plan);
    }
    kf_dtype right = kf_dtype_of(block->chain.values[block->right.value].dtype);
    if (plan->form == MM_FORM_PACKED && right.bytes == 2 && mm_is_kept(plan, &block->right)) {
        plan->narrow = right;
    }
    plan->span = device->block_shape ? SPAN_BLOCK : plan->width;
    plan->stream = stream_from(plan);
    if (plan->form == MM_FORM_BYTES || plan->plain) {
        pack_kernel(plan, MM_PACK_RIGHT);
    } else if (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) {
        if (mm_is_kept(plan, &block->left) || mm_is_kept(plan, &block->right)) {
            pack_kernel(plan, MM_PACK_LEFT);
            pack_kernel(plan, MM_PACK_RIGHT);
        } else {
            pack_kernel(plan, MM_PACK_BOTH);
        }
    }
    for (uint32_t i = 1; i < mm_products(block); i++) { // behind that of the first product
        plan->kernels[plan->n_kernels] = plan->kernels[plan->n_kernels - 1];
        plan->kernels[plan->n_kernels++].product = i;
    }
    plan->joined = plan->split && (plan->form == MM_FORM_ROW || plan->form == MM_FORM_TENSOR);
    product_kernel(plan);
    if (plan->joined) {
        add(add_kernel(plan, MM_CLEAR), MM_PARAM_TEMP, MM_TEMP_COUNTS, KF_ACCESS_WRITE);
    } else if (plan->split) {
        combine_kernel(plan);
    }
}
