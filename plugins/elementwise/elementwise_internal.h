// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_ELEMENTWISE_INTERNAL_H
#define KILN_PLUGINS_ELEMENTWISE_INTERNAL_H

/// What the files of the elementwise fuser share: the block as recorded (elementwise_block.c), the
/// kernel's text (elementwise_emit.c, elementwise_helpers.c), and the program around it
/// (elementwise_program.c).

#include "kf_util.h"

enum {
    EW_MAX_OPS = 128,
    EW_MAX_VALUES = 192, ///< tensors of the block
    EW_MAX_IDS = 512, ///< tensor ids beyond this close the block
    EW_MAX_SCALARS = 64, ///< scalar arguments of one kernel
    EW_MAX_GROUPS = KF_MAX_RANK
};

typedef enum ew_result { EW_SAME = 1, EW_MASK = 2, EW_CAST = 3 } ew_result;

/// A row of elementwise_ops.def.
typedef struct ew_row {
    uint32_t op;
    uint16_t cost;
    uint8_t inputs;
    uint8_t scalars;
    ew_result result;
    const char *name;
    const char *text[4]; ///< by kind: float, signed, unsigned, bool
} ew_row;

/// The row of an operator, NULL when it is not elementwise.
const ew_row *ew_row_of(uint32_t op);
/// The rows one after the other; NULL past the last.
const ew_row *ew_row_at(uint32_t index);
/// The expression of a row for an element type; NULL when there is none.
const char *ew_row_text(const ew_row *row, uint32_t dtype);

typedef struct ew_device {
    uint32_t block_shape; ///< 1: a loop per work-item (CPU, FPGA); 0: one vector per work-item
    uint32_t vector_bytes;
    uint32_t max_group;
    uint32_t max_param_bytes;
    uint32_t has_f64;
    uint32_t mem_align; ///< bytes, of every buffer
    uint32_t stream_stores; ///< 1: a CPU, whose stores can bypass the cache
    uint64_t cache_bytes;
    uint64_t dtype_storage;
    kf_cost cost;
} ew_device;

typedef struct ew_value {
    uint32_t id; ///< of the block's tensor
    uint16_t dtype;
    uint8_t rank;
    uint8_t computed; ///< 1: by an operation of this block; 0: read from memory
    uint8_t dropped;
    uint8_t contiguous;
    uint8_t zero_offset;
    uint8_t fits_i32;
    uint16_t div_by;
    uint16_t align_log2;
    uint32_t symbols[KF_MAX_RANK];
} ew_value;

/// A number of an operation: a scalar of the block, or a constant.
typedef struct ew_number {
    uint32_t is_scalar;
    uint32_t index; ///< is_scalar: of the block's scalars
    uint32_t dtype;
    kf_scalar value; ///< not is_scalar
} ew_number;

typedef struct ew_op {
    const ew_row *row;
    uint16_t dtype; ///< of input 0
    uint16_t result; ///< index of the value
    uint16_t inputs[3];
    uint16_t n_numbers;
    uint16_t numbers[2]; ///< indices into ew_block.numbers
} ew_op;

/// The operations accepted so far; copied as a whole by a clone.
typedef struct ew_block {
    uint32_t closed;
    uint32_t len; ///< operations covered, drops included
    uint32_t n_ops;
    uint32_t n_values;
    uint32_t n_numbers;
    uint32_t space; ///< value that has the shape of the iteration space
    uint32_t flops; ///< per element
    uint32_t param_bytes;
    uint16_t by_id[EW_MAX_IDS]; ///< value of a tensor id, plus 1
    ew_op ops[EW_MAX_OPS];
    ew_value values[EW_MAX_VALUES];
    ew_number numbers[EW_MAX_SCALARS];
} ew_block;

void ew_block_init(ew_block *block);
void ew_block_copy(ew_block *to, const ew_block *from);
/// Takes one operation or closes the block, with the reason reported to the host.
void ew_block_push(ew_block *block, const ew_device *device, const kf_host *host, const kf_op *op);
/// Values that the program has to write: computed and not dropped.
uint32_t ew_value_is_output(const ew_value *value);

/// How a value is reached along one merged axis.
typedef enum ew_step { EW_STEP_REPEAT = 0, EW_STEP_DENSE = 1, EW_STEP_STRIDED = 2 } ew_step;

typedef struct ew_group { ///< adjacent axes that all values walk alike
    uint8_t n_axes;
    uint8_t first_axis;
} ew_group;

/// What is decided about the kernel before its text is written.
typedef struct ew_layout {
    uint32_t width; ///< elements of a vector
    uint32_t wide; ///< 1: 64-bit indices
    uint32_t linear; ///< 1: everything is dense, or one element
    uint32_t per_lane; ///< 1: vectors may cross the end of a row (not linear, work-item shape)
    uint32_t n_groups;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t stream; ///< elements from which stores bypass the cache, 0: never
    ew_group groups[EW_MAX_GROUPS]; ///< outermost first
    uint16_t inputs[EW_MAX_VALUES]; ///< values read from memory
    uint16_t outputs[EW_MAX_VALUES];
} ew_layout;

void ew_layout_plan(ew_layout *layout, const ew_block *block, const ew_device *device);
ew_step ew_layout_step(const ew_layout *layout, const ew_block *block, const ew_value *value,
                       uint32_t group);
/// The axis of `value` that axis `axis` of the space is; -1 when it has none there.
int ew_value_axis(const ew_block *block, const ew_value *value, uint32_t axis);

/// Writes the kernel. Its parameters come in the order in which ew_program_args binds them.
void ew_emit_kernel(kf_text *text, const ew_block *block, const ew_layout *layout,
                    const ew_device *device);
/// Writes a template of elementwise_ops.def or elementwise_helpers.c; operands: a b c s t.
void ew_emit_template(kf_text *text, const char *template_text, uint32_t dtype_id, uint32_t width,
                      const char *const *operands);
/// Writes the functions that expressions and memory accesses use.
void ew_emit_helpers(kf_text *text, const ew_block *block, const ew_layout *layout);

/// The kernel's parameters, one by one, for the text and for the bindings.
typedef enum ew_param_kind {
    EW_PARAM_INPUT = 1,
    EW_PARAM_OUTPUT = 2,
    EW_PARAM_OFFSET = 3,
    EW_PARAM_STRIDE = 4,
    EW_PARAM_SCALAR = 5,
    EW_PARAM_EXTENT = 6, ///< of a merged axis
    EW_PARAM_COUNT = 7, ///< elements
    EW_PARAM_CHUNK = 8 ///< elements of one work-item
} ew_param_kind;

typedef struct ew_param {
    ew_param_kind kind;
    uint32_t index; ///< of input, output, number or group
    uint32_t axis; ///< STRIDE: of the tensor
} ew_param;

/// The n-th parameter; 0 past the last.
uint32_t ew_param_at(const ew_block *block, const ew_layout *layout, uint32_t n, ew_param *out);

/// Builds the program of a block. `ew_program` owns all that the views in `program` point to.
typedef struct ew_program ew_program;
ew_program *ew_program_create(const ew_block *block, const ew_device *device);
void ew_program_destroy(ew_program *program);
void ew_program_describe(const ew_program *program, kf_program *out);
void ew_program_info(const ew_program *program, kf_opt_info *out);

/// Estimates of a block, as formulas in the given storage.
typedef struct ew_estimate {
    kf_formula read;
    kf_formula written;
    kf_formula flops;
    kf_formula ns;
} ew_estimate;
void ew_estimate_make(ew_estimate *estimate, const ew_block *block, const ew_device *device);

#endif
