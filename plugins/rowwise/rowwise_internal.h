// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_ROWWISE_INTERNAL_H
#define KILN_PLUGINS_ROWWISE_INTERNAL_H

/// What the files of the row-wise fuser share: what the kernel looks like (rowwise_plan.c), its
/// text (rowwise_emit.c; that of its passes: rowwise_pass.c) and the program around it
/// (rowwise_program.c).

#include "kf_rows.h"

enum {
    RW_MAX_PARAMS = KF_CHAIN_VALUES + KF_CHAIN_NUMBERS,
    RW_NO_VALUE = 0xFFFF,
    RW_MAX_TURNED = 8,
    RW_HELD = 4 ///< vectors of a row that a work-item of a GPU keeps in registers, usually
};

/// The kernel's parameters.
typedef enum rw_param_kind {
    RW_PARAM_INPUT = 1,
    RW_PARAM_OUTPUT = 2,
    RW_PARAM_OFFSET = 3,
    RW_PARAM_STRIDE = 4,
    RW_PARAM_SCALAR = 5,
    RW_PARAM_EXTENT = 6, ///< of a group of kept axes
    RW_PARAM_ROWS = 7,
    RW_PARAM_LENGTH = 8, ///< elements of a row
    RW_PARAM_CHUNK = 9, ///< rows of one work-item
    RW_PARAM_CAP = 10, ///< elements of a row that the slot holds
    RW_PARAM_SLOT = 11, ///< local memory
    RW_PARAM_EACH = 12, ///< of a turned value: elements of the space that share one of its
    RW_PARAM_PERIOD = 13 ///< of a turned value: its elements
} rw_param_kind;

typedef struct rw_param {
    rw_param_kind kind;
    uint32_t index; ///< value, number or group
    uint32_t axis; ///< STRIDE: of the value; EACH, PERIOD: which of them
} rw_param;

typedef struct rw_group { ///< adjacent kept axes that all values walk alike
    uint32_t mask;
    uint32_t first; ///< axis
} rw_group;

/// What is decided about the kernel before its text is written.
typedef struct rw_plan {
    const kf_rows *rows;
    const kf_chain_device *device;
    uint32_t width; ///< elements of a vector
    uint32_t wide; ///< 1: 64-bit indices
    uint32_t group; ///< work-items of a work-group, 0 in block shape
    uint32_t even; ///< 1: a row is whole vectors
    uint32_t held; ///< vectors of a row that a work-item of a GPU keeps in registers
    uint64_t near; ///< dtypes whose vectors all lie at multiples of their size
    uint32_t kept; ///< axes as bits
    uint32_t n_groups;
    rw_group groups[KF_MAX_RANK]; ///< outermost first
    uint32_t loops; ///< passes over a row
    uint16_t running; ///< value that a running maximum stands for while the first two passes take
                      ///< turns, span by span; RW_NO_VALUE: they do not
    uint32_t slot_bytes; ///< for each element of a row; 0: nothing is kept in local memory
    uint32_t slot_limit; ///< elements
    uint32_t stream; ///< elements from which stores bypass the cache, 0: never
    /// Value that the slot holds when a loop starts; on a GPU, registers.
    uint16_t cached[KF_ROWS_MAX_PHASE + 1];
    uint32_t n_turned; ///< EACH and PERIOD parameters
    uint32_t n_params;
    rw_param params[RW_MAX_PARAMS];
} rw_plan;

/// Can the block be done by this fuser, layouts and axes included? Else the reason is reported.
uint32_t rw_fits(const kf_rows *rows, const kf_host *host, uint32_t position);
/// Is there a reduction, and can every result be written?
uint32_t rw_is_ready(const kf_rows *rows);
/// On a processor, e to the power of x - max(x) becomes a quicker function of what is at most 0.
void rw_quicken(kf_rows *rows, const kf_chain_device *device);
/// The exponential that computes `value` for a sum only, and is done as it is added (`plus_exp_` of
/// kf_elementwise.h); NULL where there is none.
const kf_chain_op *rw_summed_op(const kf_rows *rows, uint32_t value);
void rw_plan_make(rw_plan *plan, const kf_rows *rows, const kf_chain_device *device);

/// Marks the values that loop `loop` needs, those behind `cached` left out (RW_NO_VALUE: none).
void rw_needs(const kf_rows *rows, uint32_t loop, uint32_t cached, uint8_t *needs);
/// Marks what it takes to compute `value` in a loop.
void rw_derives(const kf_rows *rows, uint32_t value, uint8_t *needs);
/// Is the value a result that loop `loop` writes?
uint32_t rw_is_written(const kf_rows *rows, uint32_t value, uint32_t loop);
/// Is the operation a reduction over what loop `loop` computes?
uint32_t rw_is_reduced(const kf_rows *rows, const kf_chain_op *op, uint32_t loop);
/// The axis of `value` that axis `axis` of the space is; -1 when it has none there.
int rw_value_axis(const kf_rows *rows, uint32_t value, uint32_t axis);
/// Is it a parameter that runs along axes of the space's second shape?
uint32_t rw_is_turned(const kf_rows *rows, uint32_t value);

// ---- text ----

// Names in it: pN inputs, qN outputs, oN offsets, tN_A strides along the value's axis A, aK
// scalars, eG extents of merged axes; rN where input N's row starts; vN values, kN one that may
// come from the slot, mN partial results of a reduction, gN and hN those of one stretch of a row,
// yN the first of two vectors, nN where a NaN was met; on a GPU lN what a pass reads and wN what it
// keeps for others, `held` vectors of each; of a parameter of the space's second shape
// fN elements, each for bN neighbours; where passes take turns, `base` is what is taken off
// before a power, `lost` what rounding took from their sum.

typedef struct rw_emitter {
    kf_text *text;
    const rw_plan *plan;
    const kf_rows *rows;
} rw_emitter;

static inline kf_dtype rw_dtype_of(const rw_emitter *e, uint32_t value)
{
    return kf_dtype_of(e->rows->chain.values[value].dtype);
}

/// Declares what passes leave in registers for each other.
void rw_emit_held(const rw_emitter *e);
void rw_emit_kernel(kf_text *text, const rw_plan *plan);
/// The pass of loop `loop`, as far as its partial results.
void rw_emit_pass(const rw_emitter *e, uint32_t loop);

// ---- program and costs ----

typedef struct rw_program rw_program;
rw_program *rw_program_create(const kf_rows *rows, const kf_chain_device *device);
void rw_program_destroy(rw_program *program);
void rw_program_describe(const rw_program *program, kf_program *out);
void rw_program_info(const rw_program *program, kf_opt_info *out);

void rw_estimate_make(kf_estimate *estimate, const kf_rows *rows, const kf_chain_device *device);

#endif
