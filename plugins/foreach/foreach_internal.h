// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_FOREACH_INTERNAL_H
#define KILN_PLUGINS_FOREACH_INTERNAL_H

/// What the files of the foreach fuser share: the block as recorded (foreach_block.c), how it falls
/// into equal members (foreach_split.c), the kernel's text (foreach_emit.c), and the program around
/// it (foreach_program.c).
///
/// A member is one of several chains of elementwise operations that do the same and do not depend
/// on each other: the step of one parameter. What they have in common is the form: operations,
/// values and numbers, numbered from 0 in order of first sight.

// Many short chains: more of everything than a fuser of one chain needs.
#define KF_CHAIN_OPS 3120u
#define KF_CHAIN_VALUES 4800u
#define KF_CHAIN_NUMBERS 3120u
#define KF_CHAIN_IDS 6144u
// NVIDIA names 4352 or 32764; of the former CUDA promises a kernel's own arguments 4096.
#define KF_CHAIN_PARAM_BYTES 4096u
#include "kf_chain.h"

enum {
    FE_MAX_MEMBERS = 256,
    FE_MAX_CLASSES = 16,
    FE_MAX_ARGS = 3072,
    FE_LARGE_BYTES = 8192, ///< of arguments: a device that names so many takes all that it names
    FE_PARAM_BYTES = 24576, ///< and no launch has more
    FE_PATIENCE = 48, ///< operations without equal members
    FE_OPERANDS = 4 * (int)KF_CHAIN_OPS ///< values of all members, those of several counted again
};

/// The operations accepted so far; copied as a whole by a clone.
typedef struct fe_block {
    uint32_t closed;
    uint32_t len; ///< operations taken, drops included
    uint32_t good_len; ///< the last length at which all members were equal; 0: none yet
    uint32_t good_ops; ///< of the chain, at that length
    uint32_t dropped_at[KF_CHAIN_VALUES]; ///< length with the drop of a value; 0: it lives
    kf_chain chain; ///< of all members, in the order of recording
} fe_block;

void fe_block_init(fe_block *block);
void fe_block_copy(fe_block *to, const fe_block *from);

typedef struct fe_local { ///< a value of the form
    uint16_t dtype;
    uint8_t computed;
    uint8_t output;
    uint8_t repeat; ///< one element for all
    uint8_t common; ///< the same tensor for all members
    uint8_t offset; ///< some member's does not begin its buffer
} fe_local;

typedef enum fe_param_kind {
    FE_PARAM_TENSOR = 1,
    FE_PARAM_OFFSET = 2,
    FE_PARAM_SCALAR = 3,
    FE_PARAM_COUNT = 4 ///< elements of each member of a class
} fe_param_kind;

typedef struct fe_param { ///< one parameter of the kernel
    uint16_t kind;
    uint16_t local; ///< value or number of the form, or class
    uint16_t member; ///< unless common
    uint16_t bytes;
} fe_param;

/// A block taken apart.
typedef struct fe_split {
    uint32_t n_members;
    uint32_t n_ops; ///< of each member
    uint32_t n_values;
    uint32_t n_numbers;
    uint32_t n_classes; ///< of members with equal extents
    uint32_t wide; ///< 1: 64-bit indices
    uint32_t n_params;
    uint32_t param_bytes;
    uint32_t own_params; ///< of one member
    uint32_t own_bytes;
    uint16_t ops[KF_CHAIN_OPS]; ///< member m's k-th: ops[m * n_ops + k]
    uint16_t values[FE_OPERANDS]; ///< of the chain: values[m * n_values + local]
    uint16_t numbers[FE_OPERANDS];
    fe_local locals[KF_CHAIN_VALUES];
    uint16_t order[FE_MAX_MEMBERS]; ///< members, those of one class together
    uint16_t class_size[FE_MAX_CLASSES];
    fe_param params[FE_MAX_ARGS];
    kf_formula count; ///< elements of all members
    kf_formula groups; ///< work-groups
} fe_split;

/// How much one work-group does, and who does it.
typedef struct fe_shape {
    uint32_t width; ///< elements of a vector
    uint32_t local; ///< work-items of a group
    uint32_t chunk; ///< elements of a group
} fe_shape;

fe_shape fe_shape_of(const kf_chain_device *device);
/// Takes the first `n_ops` operations of a block apart, after `len` with drops. 0: they are not at
/// least two equal members, or too many for one launch.
uint32_t fe_split_make(fe_split *split, const fe_block *block, uint32_t n_ops, uint32_t len,
                       const kf_chain_device *device);
/// Is there no room for another member?
uint32_t fe_split_is_full(const fe_split *split, const fe_block *block,
                          const kf_chain_device *device);

static inline const kf_chain_value *fe_value(const fe_split *split, const fe_block *block,
                                             uint32_t member, uint32_t local)
{
    return &block->chain.values[split->values[member * split->n_values + local]];
}

/// Takes one operation or closes the block, with the reason reported to the host. `scratch` is for
/// the look at what there is then.
void fe_block_push(fe_block *block, fe_split *scratch, const kf_chain_device *device,
                   const kf_host *host, const kf_op *op);

/// Writes the kernel; its parameters are those of the split, in order. `form`: the first member as
/// a chain of its own, in the form's numbers.
void fe_emit_kernel(kf_text *text, const fe_split *split, const kf_chain *form,
                    const kf_chain_device *device);

/// Builds the program of a block. `fe_program` owns all that the views in `program` point to.
typedef struct fe_program fe_program;
fe_program *fe_program_create(const fe_block *block, const kf_chain_device *device);
void fe_program_destroy(fe_program *program);
void fe_program_describe(const fe_program *program, kf_program *out);
void fe_program_info(const fe_program *program, kf_opt_info *out);
void fe_estimate_make(kf_estimate *estimate, const fe_split *split, const fe_block *block,
                      const kf_chain_device *device);

#endif
