// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_PROGRAM_H
#define KILN_IR_PROGRAM_H

/// Programs: what a fuser describes, in neutral form. Any thread may call the function; it borrows
/// its arguments. No pointer is NULL unless a function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_formula_code { ///< postfix; 64-bit checked; all of it fails closed
    KILN_F_IMM = 1, ///< push imm
    KILN_F_SYM = 2, ///< push the value of dimension symbol `sym`
    KILN_F_FACT = 3, ///< push device fact `arg` (kiln_device_fact)
    KILN_F_ADD = 16,
    KILN_F_SUB = 17,
    KILN_F_MUL = 18,
    KILN_F_FLOOR_DIV = 19,
    KILN_F_CEIL_DIV = 20,
    KILN_F_ROUND_UP = 21, ///< a, b: a rounded up to a multiple of b
    KILN_F_MIN = 22,
    KILN_F_MAX = 23,
    KILN_F_MOD = 24,
    KILN_F_SELECT = 32, ///< c, a, b: a if c is not 0, else b
    KILN_F_EQ = 33,
    KILN_F_LT = 34,
    KILN_F_LE = 35,
    KILN_F_AND = 36,
    KILN_F_OR = 37
} kiln_formula_code;

typedef struct kiln_formula_step {
    uint16_t code;
    uint16_t arg;
    uint32_t sym;
    int64_t imm;
} kiln_formula_step;

typedef struct kiln_formula {
    const kiln_formula_step *steps;
    uint32_t count; ///< 0: absent
} kiln_formula;

typedef enum kiln_arg_kind {
    KILN_ARG_TENSOR = 1, ///< memory of tensor `ref`, at the start of its buffer
    KILN_ARG_TEMP = 2, ///< temporary `ref`
    KILN_ARG_OFFSET = 3, ///< first element of tensor `ref`, in elements from the buffer's start
    KILN_ARG_STRIDE = 4, ///< stride of tensor `ref` along axis `axis`, in elements
    KILN_ARG_DIM = 5, ///< value of symbol `ref`
    KILN_ARG_SCALAR = 6, ///< value of scalar placeholder `ref`
    KILN_ARG_LOCAL = 7, ///< local memory of `value` bytes
    KILN_ARG_FORMULA = 8 ///< `value`
} kiln_arg_kind;

enum { KILN_ACCESS_READ = 1u, KILN_ACCESS_WRITE = 2u };

typedef struct kiln_program_arg {
    kiln_arg_kind kind;
    uint32_t access; ///< of TENSOR and TEMP
    uint32_t ref; ///< block-relative
    uint32_t axis;
    uint32_t group; ///< of TENSOR: a result takes the memory of inputs of its group only
    kiln_dtype dtype; ///< type of the kernel's parameter, of numbers
    kiln_formula value;
} kiln_program_arg;

typedef enum kiln_source_format {
    KILN_SOURCE_OPENCL_C = 1,
    KILN_SOURCE_SPIRV = 2,
    KILN_SOURCE_BINARY = 3
} kiln_source_format;

enum { ///< what a source may assume of arithmetic; 0 is strict
    KILN_MATH_CONTRACT = 1u,
    KILN_MATH_REASSOCIATE = 2u,
    KILN_MATH_FLUSH = 4u,
    KILN_MATH_APPROXIMATE = 8u
};

typedef struct kiln_program_source {
    kiln_source_format format;
    const void *code;
    size_t length;
    const char *const *defines; ///< "NAME=VALUE", terminated
    uint32_t n_defines;
    uint32_t cl_c_version; ///< 100 * major + 10 * minor; 0: 1.2
    uint32_t math; ///< KILN_MATH_*
    const char *vendor_options; ///< for the device's own compiler, checked; NULL: none
    kiln_hash128 fingerprint; ///< device that a binary is for
    const char *options; ///< of the compiler, all but those for exact arithmetic; NULL: as the
                         ///< members before say
} kiln_program_source;

enum { KILN_LAUNCH_ARGS_MAX = 3072 };

typedef struct kiln_program_launch {
    uint32_t source;
    const char *kernel;
    uint32_t n_dims;
    kiln_formula global[3];
    kiln_formula local[3]; ///< absent: the driver chooses
    const kiln_program_arg *args;
    uint32_t n_args; ///< at most KILN_LAUNCH_ARGS_MAX
} kiln_program_launch;

enum { KILN_TEMP_PERSISTENT = 1u }; ///< filled once by its prepack launch, kept with the plan

typedef struct kiln_program_temp {
    kiln_formula bytes;
    uint32_t align;
    uint32_t flags;
    uint32_t prepack_launch; ///< of a PERSISTENT one
} kiln_program_temp;

typedef enum kiln_step_kind {
    KILN_STEP_LAUNCH = 1, ///< launch `index` of the block's program
    KILN_STEP_HOST_OP = 2 ///< operation `index` of the segment, alone and unfused
} kiln_step_kind;

typedef struct kiln_program_step {
    kiln_step_kind kind;
    uint32_t index; ///< HOST_OP: position in the block
} kiln_program_step;

enum { KILN_PROGRAM_DETERMINISTIC = 1u, KILN_PROGRAM_IN_PLACE_SAFE = 2u };

/// Immutable, owned by whoever made it; `key` names the content: equal key, equal program.
typedef struct kiln_program {
    kiln_hash128 key;
    uint32_t flags;
    const kiln_program_source *sources;
    uint32_t n_sources;
    const kiln_program_launch *launches;
    uint32_t n_launches;
    const kiln_program_temp *temps;
    uint32_t n_temps;
    const kiln_program_step *steps;
    uint32_t n_steps;
    kiln_formula guard; ///< the program serves only shapes for which this is not 0; absent: all
} kiln_program;

typedef enum kiln_device_fact { ///< what formulas may ask for
    KILN_FACT_COMPUTE_UNITS = 0,
    KILN_FACT_MAX_WORK_GROUP = 1,
    KILN_FACT_LOCAL_MEMORY = 2,
    KILN_FACT_COUNT
} kiln_device_fact;

/// Source `source` of a program, built: the options that the compiler got, and the binary.
typedef void (*kiln_program_part_fn)(uint32_t source, const char *options, const void *binary,
                                     size_t bytes, void *user);

/// Evaluates a formula over the values of symbols and device facts. Errors: OUT_OF_RANGE on
/// overflow, division by 0 or an unknown symbol; INVALID_ARGUMENT for a malformed formula.
KILN_NODISCARD KILN_API kiln_status kiln_formula_eval(const kiln_formula *formula,
                                                      const int64_t *symbols, uint32_t n_symbols,
                                                      const int64_t *facts, uint32_t n_facts,
                                                      int64_t *out_value, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
