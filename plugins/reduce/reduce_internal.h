// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_REDUCE_INTERNAL_H
#define KILN_PLUGINS_REDUCE_INTERNAL_H

/// What the files of the reduction fuser share: how the axes are walked (reduce_plan.c), the
/// kernels' text (reduce_emit.c, how they go over the data in reduce_walk.c) and the program around
/// them (reduce_program.c).

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
    uint32_t wide; ///< 1: 64-bit indices; what is never in memory is walked, too
    uint32_t group; ///< work-items of a work-group, 0 in block shape
    uint32_t ahead; ///< vectors of a line that a lane of a group asks for at once; 0: it does not
    uint32_t even; ///< then: a line is whole vectors
    uint64_t near; ///< likewise, dtypes whose vectors all lie at multiples of their size
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
/// Groups of axes that are reduced.
uint32_t rd_count_reduced(const rd_plan *plan);
void rd_plan_make(rd_plan *plan, const kf_rows *rows, const kf_chain_device *device,
                  uint32_t split);

// ---- the kernels' text ----

void rd_emit_kernels(kf_text *text, const rd_plan *plan);

/// What its two files write with.
typedef struct rd_emitter {
    kf_text *text;
    const rd_plan *plan;
    const kf_rows *rows;
} rd_emitter;

static inline const kf_chain_value *rd_value_of(const rd_emitter *e, uint32_t i)
{
    return &e->rows->chain.values[i];
}

static inline kf_dtype rd_dtype_of(const rd_emitter *e, uint32_t i)
{
    return kf_dtype_of(rd_value_of(e, i)->dtype);
}

static inline const kf_chain_op *rd_result_of(const rd_emitter *e, uint32_t i)
{
    return &e->rows->chain.ops[e->plan->results[i]];
}

static inline uint32_t rd_is_full(const rd_emitter *e, uint32_t value)
{
    return kf_rows_is_full(e->rows, value);
}

/// Takes `from` apart into the coordinates of the kept or the reduced groups before `end`.
void rd_emit_coordinates(const rd_emitter *e, const char *from, uint32_t reduced, uint32_t end);
/// How many elements those inputs have that are read whole past a line's end.
void rd_emit_totals(const rd_emitter *e);
/// What lies on kept axes alone and needs no result: inputs, and what follows from them.
void rd_emit_kept(const rd_emitter *e, const char *indent);
/// The operations on what is as large as the space (`full`) or not; phase 1 follows from results.
void rd_emit_ops(const rd_emitter *e, uint32_t full, uint32_t phase, const char *indent);
/// Opens the loop over an item's vectors of columns.
void rd_emit_column(const rd_emitter *e);
/// Joins the units from `begin` to `end` into partial results: of a row, or of a block of columns.
void rd_emit_rows(const rd_emitter *e);
void rd_emit_columns(const rd_emitter *e);

// ---- the program ----

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
