// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_REDUCE_INTERNAL_H
#define KILN_PLUGINS_REDUCE_INTERNAL_H

/// What the files of the reduction fuser share: how the axes are walked (reduce_plan.c), the
/// kernels' text (reduce_emit.c) and the program around them (reduce_program.c).

#include "kf_rows.h"

enum {
    RD_MAX_PARAMS = KF_CHAIN_VALUES + KF_CHAIN_NUMBERS,
    RD_MAX_RESULTS = 16,
    RD_SLAB = 8 ///< rows that the column form joins in registers
};

typedef enum rd_param_kind {
    RD_PARAM_INPUT = 1,
    RD_PARAM_OUTPUT = 2,
    RD_PARAM_OFFSET = 3,
    RD_PARAM_STRIDE = 4,
    RD_PARAM_SCALAR = 5,
    RD_PARAM_EXTENT = 6, ///< of a group of axes
    RD_PARAM_ITEMS = 7, ///< rows, or blocks of columns
    RD_PARAM_CHUNK = 8, ///< of these for one work-item
    RD_PARAM_UNITS = 9, ///< of the reduced axes: vectors, or rows
    RD_PARAM_EACH = 10, ///< of these for one part
    RD_PARAM_TOTAL = 11, ///< elements of one result
    RD_PARAM_RESULTS = 12, ///< elements of each result tensor
    RD_PARAM_PARTS = 13,
    RD_PARAM_PARTIAL = 14, ///< temporary of the n-th reduction
    RD_PARAM_BLOCK = 15 ///< columns of an item
} rd_param_kind;

typedef struct rd_param {
    rd_param_kind kind;
    uint32_t index; ///< value, number, group or reduction
    uint32_t axis; ///< STRIDE: of the value
} rd_param;

typedef struct rd_group { ///< adjacent axes that all values walk alike
    uint32_t mask;
    uint32_t first; ///< axis
    uint32_t reduced;
} rd_group;

typedef struct rd_launch {
    uint32_t n_params;
    rd_param params[RD_MAX_PARAMS];
} rd_launch;

typedef struct rd_plan {
    const kf_rows *rows;
    const kf_chain_device *device;
    uint32_t width; ///< elements of a vector
    uint32_t wide; ///< 1: 64-bit indices
    uint32_t group; ///< work-items of a work-group, 0 in block shape
    uint32_t columns; ///< 1: vectors lie along a kept axis; 0: along a reduced one
    uint32_t vectors; ///< of one item, in column form, at most
    uint32_t split; ///< 1: parts of a result, joined by a second launch
    uint32_t n_groups; ///< the last is that of the vectors
    rd_group groups[KF_MAX_RANK];
    uint32_t n_results;
    uint16_t results[RD_MAX_RESULTS]; ///< reductions, as operations of the chain
    rd_launch first;
    rd_launch second;
} rd_plan;

uint32_t rd_fits(const kf_rows *rows, const kf_host *host, uint32_t position);
uint32_t rd_is_ready(const kf_rows *rows);
uint32_t rd_is_reduction(const kf_chain_op *op);
void rd_plan_make(rd_plan *plan, const kf_rows *rows, const kf_chain_device *device,
                  uint32_t split);
/// The axis of `value` that axis `axis` of the space is; -1 when it has none there.
int rd_value_axis(const kf_rows *rows, uint32_t value, uint32_t axis);

void rd_emit_kernels(kf_text *text, const rd_plan *plan);

typedef struct rd_program rd_program;
rd_program *rd_program_create(const kf_rows *rows, const kf_chain_device *device, uint32_t split);
void rd_program_destroy(rd_program *program);
void rd_program_describe(const rd_program *program, kf_program *out);
void rd_program_info(const rd_program *program, kf_opt_info *out);

void rd_estimate_make(kf_estimate *estimate, const kf_rows *rows, const kf_chain_device *device,
                      uint32_t split);

/// Formulas shared by programs and estimates. `items` are rows or blocks of columns; `units` what
/// is walked for each of them; `parts` into how many parts that is cut; `block` how many columns an
/// item has.
void rd_items_formula(kf_formula *f, const rd_plan *plan);
void rd_units_formula(kf_formula *f, const rd_plan *plan);
void rd_parts_formula(kf_formula *f, const rd_plan *plan);
void rd_block_formula(kf_formula *f, const rd_plan *plan);

#endif
