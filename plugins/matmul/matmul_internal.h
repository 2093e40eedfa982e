// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_MATMUL_INTERNAL_H
#define KILN_PLUGINS_MATMUL_INTERNAL_H

/// What the files of the matrix product's fuser share: which operations join (matmul_block.c), how
/// the product is done (matmul_plan.c), its text (matmul_emit.c, from pieces: matmul_operand.c,
/// matmul_inner.c, matmul_few.c, matmul_finish.c), the program around it (matmul_program.c) and
/// what it costs (matmul_estimate.c). Products of 8-bit integers: matmul_bytes.h. The fuser of
/// NVIDIA's tensor cores is made of the same files and of its own text (plugins/nvidia_tensor).

#include "kf_chain.h"

enum {
    MM_MAX_PARAMS = 160, ///< of one kernel
    MM_MAX_LAUNCHES = 8,
    MM_MORE = 3, ///< products of a block behind the first
    MM_CACHE_LINE = 64, ///< bytes
    MM_LINE_BYTES = 128, ///< TENSOR: of a packed line
    MM_PACK_LINES = 64, ///< TENSOR: lines that a work-group packs
    MM_PACK_ITEMS = 256, ///< TENSOR: of that work-group
    MM_PROLOGUES = 2,
    MM_LEFT_TERMS = 256, ///< of a work-item that packs a tile of the left operand
    MM_RIGHT_TERMS = 64, ///< of one that packs panels of the right operand
    MM_NO_VALUE = 0xFFFF
};

// ---- the block ----

typedef struct mm_operand {
    uint16_t source; ///< value that is read
    uint16_t value; ///< what the product takes: the source, or what the prologue makes of it
    int8_t outer; ///< axis of its rows (left) or columns (right); -1: it is a vector
    int8_t inner; ///< axis of the sum
    int8_t upper; ///< axis before it where the sum runs over both; else 0
    uint8_t batch; ///< axes of the batch, the first ones
    uint8_t constant;
    uint16_t zero; ///< of integers: value with the zero points; or MM_NO_VALUE
} mm_operand;

/// A convolution of two axes as a product: of its weights, [filters, channels, height, width] read
/// as a matrix of filters, and for each image of a matrix with a column for each place of the
/// result, which is the right operand. Only for fusers that pack it (plugins/nvidia_tensor).
typedef struct mm_window {
    uint32_t is_there;
    int32_t lengths[2];
    int32_t strides[2];
    int32_t dilations[2];
    int32_t begin[2]; ///< padding
} mm_window;

/// A further product of the same left operand, by a constant that is laid out as the first one's.
typedef struct mm_more {
    uint16_t result; ///< value
    mm_operand right;
} mm_more;

/// A product, runs of elementwise operators before it, each of which reads one tensor, any behind
/// it. Where the fuser can do several in one launch, further products, each with its own operators
/// behind it.
typedef struct mm_block {
    kf_chain chain;
    uint32_t len;
    uint32_t closed;
    uint32_t n_shown;
    const char *shown[8];
    uint32_t n_prologues;
    uint16_t prologue_source[MM_PROLOGUES];
    uint16_t prologue_end[MM_PROLOGUES];
    uint8_t run[KF_CHAIN_VALUES]; ///< of a value that a prologue reads or makes: its number, plus 1
    uint32_t branched; ///< prologues that read a value several times, as bits
    uint32_t has_product;
    uint32_t product; ///< operation of the chain; those behind it are the epilogue
    uint16_t result; ///< value
    uint8_t batch; ///< axes of the result before its rows
    uint32_t floats_only; ///< of a fuser that does nothing else
    uint32_t bytes; ///< the product is of 8-bit integers
    uint32_t swapped; ///< one column, done as one row: left is b
    uint32_t merges; ///< of a fuser whose left operand may be a reshape of two axes to one
    uint32_t merged; ///< it is one
    uint32_t several; ///< of a fuser that takes further products
    uint32_t together; ///< whose sums one work-item has: operators may read several of them
    uint32_t n_more;
    mm_more more[MM_MORE];
    uint8_t owner[KF_CHAIN_VALUES]; ///< of a value behind a product: its product, 0 the first
    mm_operand left; ///< whose outer axis are the rows
    mm_operand right;
    mm_window window;
    uint32_t constant_ids[8]; ///< tensors of 256 first ids that never change, as bits
} mm_block;

void mm_block_init(mm_block *block);
void mm_block_copy(mm_block *to, const mm_block *from);
/// Notes which of the operation's tensors never change.
void mm_note_constants(mm_block *block, const kf_op *op);
uint32_t mm_is_constant(const mm_block *block, uint32_t value);
/// Shows one operation. It joins, or closes the block and the reason is reported.
void mm_block_push(mm_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_op *op);
uint32_t mm_block_is_ready(const mm_block *block);
/// Number of the run of operations before the product that ends in this tensor; MM_PROLOGUES: none.
static inline uint32_t mm_prologue_of(const mm_block *block, uint32_t id)
{
    for (uint32_t i = 0; i < block->n_prologues; i++) {
        if (block->chain.values[block->prologue_end[i]].id == id) {
            return i;
        }
    }
    return MM_PROLOGUES;
}
/// Symbol of the rows or columns of an operand; 0: one.
uint32_t mm_outer_symbol(const mm_block *block, const mm_operand *operand);
uint32_t mm_inner_symbol(const mm_block *block);
/// Of the block's products, the first one is 0.
static inline uint32_t mm_products(const mm_block *block)
{
    return 1 + block->n_more;
}
static inline const mm_operand *mm_right(const mm_block *block, uint32_t product)
{
    return product == 0 ? &block->right : &block->more[product - 1].right;
}
static inline uint16_t mm_result(const mm_block *block, uint32_t product)
{
    return product == 0 ? block->result : block->more[product - 1].result;
}

// ---- how it is done ----

typedef enum mm_form {
    MM_FORM_PACKED = 1, ///< block shape: operands packed into panels, tiles in registers
    MM_FORM_ROW = 2, ///< block shape: one row, the right matrix walked along its columns
    MM_FORM_DOT = 3, ///< block shape: one row, the right matrix walked along the sum
    MM_FORM_TILE = 4, ///< item shape: tiles in local memory
    MM_FORM_DIRECT = 5, ///< block shape: as packed, but a work-item packs what it needs itself
    MM_FORM_BYTES = 6, ///< block shape: 8-bit integers, the right operand packed
    MM_FORM_TENSOR = 7, ///< item shape: operands packed for tensor cores; text by mm_tensor
    MM_FORM_COLUMNS = 8, ///< item shape, few rows: a work-item has columns of a share of the sum
    MM_FORM_TEAM = 9 ///< item shape, few rows: work-items side by side walk a column along the sum
} mm_form;

typedef enum mm_param_kind {
    MM_PARAM_INPUT = 1,
    MM_PARAM_OUTPUT = 2,
    MM_PARAM_OFFSET = 3,
    MM_PARAM_STRIDE = 4,
    MM_PARAM_SCALAR = 5,
    MM_PARAM_EXTENT = 6, ///< of a batch axis of the result
    MM_PARAM_M = 7,
    MM_PARAM_N = 8,
    MM_PARAM_K = 9,
    MM_PARAM_DEPTH = 10, ///< terms of a part of the sum
    MM_PARAM_PARTS = 11,
    MM_PARAM_TEMP = 12, ///< index: MM_TEMP_*
    MM_PARAM_DIM = 13, ///< extent of an axis of value `index`
    MM_PARAM_SIDE = 14 ///< COLUMNS, TEAM: work-items side by side
} mm_param_kind;

enum {
    MM_TEMP_LEFT,
    MM_TEMP_RIGHT,
    MM_TEMP_PARTS,
    MM_TEMP_COUNTS,
    MM_TEMP_MORE, ///< packed right operands of further products
    MM_TEMPS = MM_TEMP_MORE + MM_MORE
};

typedef struct mm_param {
    mm_param_kind kind;
    uint32_t index; ///< value, number, batch axis or temporary
    uint32_t axis; ///< STRIDE: of the value; TEMP: KF_ACCESS_*
} mm_param;

typedef enum mm_role {
    MM_PACK_LEFT = 1,
    MM_PACK_RIGHT = 2,
    MM_PACK_BOTH = 3, ///< in one launch: neither is kept
    MM_PRODUCT = 4,
    MM_COMBINE = 5,
    MM_CLEAR = 6 ///< once: no part has ended
} mm_role;

typedef struct mm_kernel {
    mm_role role;
    uint32_t product; ///< PACK_RIGHT: of which product; above 0 with the text of the first
    uint32_t n_params;
    mm_param params[MM_MAX_PARAMS];
} mm_kernel;

typedef struct mm_plan mm_plan;

/// What MM_FORM_TENSOR does in a way of its own.
typedef struct mm_tensor {
    void (*size)(mm_plan *plan, uint32_t small); ///< sets rows, columns, step, copies, items
    void (*functions)(kf_text *text, const mm_plan *plan);
    void (*pack)(kf_text *text, const mm_plan *plan, mm_role role); ///< body of a packing kernel
    void (*product)(kf_text *text, const mm_plan *plan); ///< behind what the part of the sum is
    uint32_t (*share)(const mm_plan *plan); ///< of the device's f32 rate, in percent
    uint32_t plain; ///< the left operand is read as it lies, without a launch that packs it
    const kf_str *defines;
    uint64_t n_defines;
} mm_tensor;

/// One of the fusers that compete for a block.
typedef struct mm_fuser {
    const char *name;
    uint32_t split; ///< the sum in parts
    uint32_t small; ///< for small products: small tiles, or one launch
    uint32_t few; ///< for few rows, on item shapes
    const mm_tensor *tensor; ///< NULL: any device
} mm_fuser;

/// Sizes of tiles; the formulas and the text both follow from them.
struct mm_plan {
    const mm_block *block;
    const mm_tensor *tensor; ///< of MM_FORM_TENSOR
    const kf_chain_device *device;
    mm_form form;
    uint32_t split; ///< 1: the sum in parts, combined by a launch of its own
    uint32_t joined; ///< 1: by the work-item or work-group whose part ends last instead
    uint32_t fold; ///< 1: the batch is part of the rows
    uint32_t batch; ///< axes of the batch that are left
    uint32_t width; ///< elements of a vector of the elementwise text
    uint32_t lanes; ///< elements of a vector of the innermost loop
    uint32_t rows; ///< of a tile
    uint32_t columns; ///< of a tile
    uint32_t depth; ///< TILE: of a step; PACKED, DIRECT: terms between visits of a tile; COLUMNS,
                    ///< TEAM: vectors of a column that a work-item asks for at a time
    uint32_t chunk; ///< most tiles of a work-item, one below the other
    uint32_t across; ///< and side by side; ROW, DOT: vectors of columns at a time
    uint32_t span; ///< columns of a work-item that combines parts
    uint32_t stream; ///< elements of a result from which on it is written past the caches; 0: never
    uint32_t compute_bytes;
    const char *type; ///< of the sums
    kf_dtype narrow; ///< PACKED: of 16 bits, what a constant right operand's panels keep it in; its
                     ///< storage is NULL where they are of the sums' type
    uint32_t step; ///< TENSOR: terms of a packed line of MM_LINE_BYTES
    uint32_t copies; ///< TENSOR: packed lines of each line of an operand
    uint32_t plain; ///< TENSOR: the left operand is read as it lies
    uint32_t items; ///< TENSOR, COLUMNS, TEAM: of a work-group
    uint32_t each; ///< TEAM: columns of a work-item
    uint32_t side; ///< COLUMNS, TEAM: least work-items side by side
    uint32_t n_kernels;
    mm_kernel kernels[MM_MAX_LAUNCHES];
};

void mm_plan_make(mm_plan *plan, const mm_block *block, const kf_chain_device *device,
                  const mm_fuser *fuser);
/// Does the prologue of an operand have this operation of the chain?
uint32_t mm_makes(const mm_block *block, const mm_operand *operand, uint32_t op);
/// Is the operand packed once and kept?
uint32_t mm_is_kept(const mm_plan *plan, const mm_operand *operand);
/// The type of the right operand's panels.
const char *mm_panel_type(const mm_plan *plan);
/// Is an input of the epilogue laid out as the result is?
uint32_t mm_is_linear(const mm_block *block, uint32_t value);
/// Axis of `value` that axis `axis` of the result is; -1 when it has none there or one of extent 1.
int mm_result_axis(const mm_block *block, uint32_t value, uint32_t axis);
/// Axis of the result that the rows (columns) are; -1: none.
int mm_row_axis(const mm_block *block);
int mm_column_axis(const mm_block *block);
/// Axis of an operand that batch axis `axis` of the result is; -1 when it is repeated along it.
int mm_batch_axis(const mm_block *block, const mm_operand *operand, uint32_t axis);
/// Is the stride of this axis of a value known to be 1?
static inline uint32_t mm_is_unit(const mm_block *block, uint32_t value, int axis)
{
    const kf_chain_value *v = &block->chain.values[value];
    if (axis < 0 || (!v->contiguous && !v->turned)) {
        int dense = v->lines ? v->rank - 1 : v->columns ? v->rank - 2 : -1;
        return axis >= 0 && axis == dense;
    }
    if (v->turned) {
        return axis + 2 == v->rank || (axis + 1 == v->rank && v->symbols[axis - 1] == 0);
    }
    for (uint32_t i = (uint32_t)axis + 1; i < v->rank; i++) {
        if (v->symbols[i] != 0) {
            return 0;
        }
    }
    return 1;
}
/// Is the value read by the epilogue?
uint32_t mm_is_epilogue_input(const mm_block *block, uint32_t value);
/// Is it by what follows this product?
uint32_t mm_is_input_behind(const mm_block *block, uint32_t product, uint32_t value);
/// Is operation `op` one that follows this product?
static inline uint32_t mm_is_behind(const mm_block *block, uint32_t product, uint32_t op)
{
    const kf_chain_op *own = &block->chain.ops[op];
    return op > block->product && own->kind != KF_OP_MATMUL && block->owner[own->result] == product;
}

// ---- text ----

/// Declares i0, i1 ..., the indices of `batch` on the axes of the batch; `own`: only on those that
/// the operand has.
void mm_emit_indices(kf_text *text, const mm_plan *plan, const mm_operand *own);
/// Declares `name`: where the operand's part of this batch begins.
void mm_emit_base(kf_text *text, const mm_plan *plan, const mm_operand *operand, const char *name);
/// Declares `name`: the number of a packed operand's batch, from i0, i1 ...
void mm_emit_own_batch(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                       const char *name);
void mm_emit(kf_text *text, const mm_plan *plan);
const char *mm_kernel_name(mm_role role);
/// ceil(count / parts)
static inline uint32_t mm_share(uint32_t count, uint32_t parts)
{
    return (count + parts - 1) / parts;
}
/// Is the form one for few rows on item shapes?
static inline uint32_t mm_is_few(const mm_plan *plan)
{
    return plan->form == MM_FORM_COLUMNS || plan->form == MM_FORM_TEAM;
}
uint32_t mm_has_panels(const mm_plan *plan); ///< tiles are summed by functions tile_sums_ROWS
/// Packs terms from `first` until `last` to `to`: of the rows of tile `tile` from `a`, of the
/// columns of the `wide` panels from `panel` on from `b`, each `far` elements behind the one
/// before.
void mm_emit_left_panel(kf_text *text, const mm_plan *plan);
/// Copies the same terms of the rows of the tile, row by row, `depth` elements apart.
void mm_emit_left_rows(kf_text *text, const mm_plan *plan);
void mm_emit_right_panels(kf_text *text, const mm_plan *plan);
/// Few rows on item shapes: the functions, and the product behind what the part of the sum is.
void mm_emit_few_functions(kf_text *text, const mm_plan *plan);
void mm_emit_few(kf_text *text, const mm_plan *plan);
/// The loops of each form, as far as the sums; with panels: the functions tile_sums_ROWS.
void mm_emit_tile_functions(kf_text *text, const mm_plan *plan);
/// Declares the tiles of a work-item and their sums: `down` tiles of `wide` panels, panel by panel.
void mm_emit_tiles(kf_text *text, const mm_plan *plan);
/// Opens the loop over what is summed at a time: terms `first` until `last`, also of an empty sum.
void mm_emit_parts(kf_text *text, const mm_plan *plan);
/// Sums tile i of a work-item, of the last one the rows that there are; then the end of tile i.
void mm_emit_tile_call(kf_text *text, const mm_plan *plan, const char *arguments);
void mm_emit_tile_end(kf_text *text, const mm_plan *plan);
uint32_t mm_fewest_rows(const mm_plan *plan); ///< of these functions; others take 2 and 3 times it
void mm_emit_packed_sums(kf_text *text, const mm_plan *plan);
void mm_emit_direct_sums(kf_text *text, const mm_plan *plan);
void mm_emit_row_sums(kf_text *text, const mm_plan *plan);
void mm_emit_dot_sums(kf_text *text, const mm_plan *plan);
void mm_emit_item_sums(kf_text *text, const mm_plan *plan);
/// Declares the vector at `p` of an operand and what the prologue makes of it. `stride`: of its
/// elements, NULL when it is 1; `count`: how many there are, NULL: a whole vector.
void mm_emit_load(kf_text *text, const mm_plan *plan, const mm_operand *operand, const char *stride,
                  const char *count, const char *indent);
/// What the prologue of an operand makes of the vector that was read.
void mm_emit_prologue(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                      const char *indent);
/// Name of the stride of an axis of a value; "1" or "0" where it is known.
void mm_stride_name(const mm_plan *plan, uint32_t value, int axis, char name[32]);
/// From one row of the left operand to the next, in elements.
void mm_left_row_name(const mm_plan *plan, char name[32]);
/// May the direct form read whole tiles (panels) of the operand where they lie?
uint32_t mm_left_in_place(const mm_plan *plan);
uint32_t mm_right_in_place(const mm_plan *plan);
/// Whether the right operand lies dense along the sum, and not along its columns.
uint32_t mm_right_is_turned(const mm_plan *plan);
uint32_t mm_asks_ahead(const mm_plan *plan); ///< for the next batch, while it sums one
/// What is done with the vector `sum` of a result at `row` and `col`, of which `count` elements
/// are.
void mm_emit_finish(kf_text *text, const mm_plan *plan, mm_role role, const char *indent);

// ---- program and costs ----

typedef struct mm_program mm_program;
mm_program *mm_program_create(const mm_block *block, const kf_chain_device *device,
                              const mm_fuser *fuser);
void mm_program_destroy(mm_program *program);
void mm_program_describe(const mm_program *program, kf_program *out);
void mm_program_info(const mm_program *program, kf_opt_info *out);

/// Sizes that launches and estimates need.
void mm_formula_m(kf_formula *f, const mm_plan *plan);
void mm_formula_n(kf_formula *f, const mm_plan *plan);
void mm_formula_k(kf_formula *f, const mm_plan *plan);
void mm_formula_batch(kf_formula *f, const mm_plan *plan);
/// Batches of an operand of its own.
void mm_formula_own_batch(kf_formula *f, const mm_plan *plan, const mm_operand *operand);
/// Steps of MM_FORM_TENSOR along the sum.
void mm_formula_steps(kf_formula *f, const mm_plan *plan);
/// Tiles of the result, those of all batches.
void mm_formula_tiles(kf_formula *f, const mm_plan *plan);
/// Panels of the right operand.
void mm_formula_panels(kf_formula *f, const mm_plan *plan);
void mm_formula_parts(kf_formula *f, const mm_plan *plan);
/// Most tiles of a work-item side by side, and one below the other: as many as leave each unit its
/// share of work-items; of parts of the sum there are so many that it is whole in any case.
void mm_formula_across(kf_formula *f, const mm_plan *plan);
void mm_formula_chunk(kf_formula *f, const mm_plan *plan);
/// COLUMNS, TEAM: work-items side by side, a power of two.
void mm_formula_side(kf_formula *f, const mm_plan *plan);
/// Bytes of a packed operand.
void mm_formula_packed(kf_formula *f, const mm_plan *plan, const mm_operand *operand);
/// Strips of columns that are joined from parts, those of all batches.
void mm_formula_joins(kf_formula *f, const mm_plan *plan);
/// Bytes of the sum's parts.
void mm_formula_partial(kf_formula *f, const mm_plan *plan);

/// Gives the number of launches.
uint32_t mm_estimate_make(kf_estimate *estimate, const mm_plan *plan);

#endif
