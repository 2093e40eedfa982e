// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_ELEMENTWISE_INTERNAL_H
#define KILN_PLUGINS_ELEMENTWISE_INTERNAL_H

/// What the files of the elementwise fuser share: the block as recorded (elementwise_block.c), the
/// kernel's text (elementwise_emit.c), and the program around it (elementwise_program.c).

#include "kf_chain.h"

enum {
    EW_MAX_GROUPS = KF_MAX_RANK,
    EW_MAX_DRAWS = 8,
    EW_MAX_GATHERS = 8,
    EW_DRAW = 0x10000, ///< kind of a chain's operation: draw number kind - EW_DRAW
    EW_GATHER = 0x20000 ///< the same of gathers
};

typedef struct ew_draw { ///< random numbers of the space's shape
    uint64_t threshold; ///< of Bernoulli numbers
    uint32_t kind; ///< KF_RANDOM_*
    uint16_t a; ///< number: min, or mean
    uint16_t b; ///< number: max, or deviation
    uint16_t seed; ///< numbers
    uint16_t stream;
    uint16_t position;
    uint16_t reserved;
} ew_draw;

typedef struct ew_gather { ///< x taken by index along an axis
    uint32_t axis; ///< of x and of the result
    uint32_t is_select; ///< 1: indices lie along the axis alone; 0: along all axes
    uint16_t x; ///< values
    uint16_t indices;
    uint16_t result;
    uint16_t reserved;
} ew_gather;

/// The operations accepted so far; copied as a whole by a clone.
typedef struct ew_block {
    uint32_t closed;
    uint32_t len; ///< operations covered, drops included
    uint32_t space; ///< value that has the shape of the iteration space
    uint32_t n_draws;
    uint32_t n_gathers;
    ew_draw draws[EW_MAX_DRAWS];
    ew_gather gathers[EW_MAX_GATHERS];
    kf_chain chain;
} ew_block;

void ew_block_init(ew_block *block);
void ew_block_copy(ew_block *to, const ew_block *from);
/// Takes one operation or closes the block, with the reason reported to the host.
void ew_block_push(ew_block *block, const kf_chain_device *device, const kf_host *host,
                   const kf_block *context, const kf_op *op);

/// Random numbers (elementwise_draw.c): as kf_chain_admits and kf_chain_record; the functions that
/// draw, and the text of one draw for the vector that begins at element `at`; `ahead`: in a loop,
/// with d0, d1 ... for what was drawn ahead.
uint32_t ew_draw_admits(const ew_block *block, const kf_chain_device *device, const kf_host *host,
                        const kf_op *op);
uint32_t ew_draw_record(ew_block *block, const kf_block *context, const kf_op *op,
                        uint32_t *out_result);
void ew_draw_functions(kf_text *text, const ew_block *block, uint32_t width, uint32_t ahead);
void ew_draw_text(kf_text *text, const ew_block *block, const kf_chain_op *op, uint32_t width,
                  uint32_t ahead);
const char *ew_draw_name(const ew_block *block, const kf_chain_op *op);

/// Gathers (elementwise_gather.c): as kf_chain_admits and kf_chain_record, the latter giving the
/// result's value; which gather a value is an operand of (KF_NONE: of none), and how it lies in the
/// space; the functions that the kernel calls.
uint32_t ew_gather_admits(const ew_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_op *op);
uint32_t ew_gather_record(ew_block *block, const kf_op *op);
uint32_t ew_gather_of(const ew_block *block, uint32_t value);
int ew_gather_axis(const ew_block *block, uint32_t value, uint32_t axis);
void ew_gather_functions(kf_text *text, const ew_block *block, uint32_t width);
const char *ew_gather_name(const ew_block *block, const kf_chain_op *op);

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
    uint32_t pairs; ///< 1: a work-item computes two vectors (linear, work-item shape)
    uint32_t n_groups;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t stream; ///< elements from which stores bypass the cache, 0: never
    ew_group groups[EW_MAX_GROUPS]; ///< outermost first
    uint16_t inputs[KF_CHAIN_VALUES]; ///< values read from memory
    uint16_t outputs[KF_CHAIN_VALUES];
} ew_layout;

void ew_layout_plan(ew_layout *layout, const ew_block *block, const kf_chain_device *device);
ew_step ew_layout_step(const ew_layout *layout, const ew_block *block, const kf_chain_value *value,
                       uint32_t group);
/// The axis of `value` that axis `axis` of the space is; -1 when it has none there.
int ew_value_axis(const ew_block *block, const kf_chain_value *value, uint32_t axis);

/// Writes the kernel. Its parameters come in the order of ew_param_at.
void ew_emit_kernel(kf_text *text, const ew_block *block, const ew_layout *layout,
                    const kf_chain_device *device);
/// The kernel's parameters, one by one, for the text and for the bindings.
typedef enum ew_param_kind {
    EW_PARAM_INPUT = 1,
    EW_PARAM_OUTPUT = 2,
    EW_PARAM_OFFSET = 3,
    EW_PARAM_STRIDE = 4,
    EW_PARAM_SCALAR = 5,
    EW_PARAM_EXTENT = 6, ///< of a merged axis
    EW_PARAM_COUNT = 7, ///< elements
    EW_PARAM_CHUNK = 8, ///< elements of one work-item
    EW_PARAM_LENGTH = 9, ///< of x along a gather's axis
    EW_PARAM_PACE = 10 ///< of x along a gather's axis: its stride
} ew_param_kind;

typedef struct ew_param {
    ew_param_kind kind;
    uint32_t index; ///< of input, output, number, group or gather
    uint32_t axis; ///< STRIDE: of the tensor
} ew_param;

/// The n-th parameter; 0 past the last.
uint32_t ew_param_at(const ew_block *block, const ew_layout *layout, uint32_t n, ew_param *out);

/// Builds the program of a block. `ew_program` owns all that the views in `program` point to.
typedef struct ew_program ew_program;
ew_program *ew_program_create(const ew_block *block, const kf_chain_device *device);
void ew_program_destroy(ew_program *program);
void ew_program_describe(const ew_program *program, kf_program *out);
void ew_program_info(const ew_program *program, kf_opt_info *out);

/// Estimates of a block, as formulas in the given storage.
void ew_estimate_make(kf_estimate *estimate, const ew_block *block, const kf_chain_device *device);

#endif
