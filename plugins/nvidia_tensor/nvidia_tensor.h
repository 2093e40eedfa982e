// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_NVIDIA_TENSOR_H
#define KILN_PLUGINS_NVIDIA_TENSOR_H

/// What the files of the tensor cores' fuser share. Operands are packed (tensor_pack.c) into
/// what the tensor cores read from local memory, so that a tile of one step is one run of bytes:
/// lines of 128 bytes along the sum, in eights, whose 16-byte pieces are exchanged by their line's
/// number (the 128-byte swizzle of the PTX manual, "matrix-descriptor"). The product
/// (tensor_product.c) copies such runs, or a left operand's rows as they lie, and multiplies.
///
/// An operand of f32 is packed twice, as what tf32 holds of it and as what tf32 holds of the rest;
/// where the user allows less, once, as tf32 or bf16.

#include "matmul_internal.h"

enum {
    TENSOR_TEAM = 128, ///< work-items that multiply 64 rows together
    TENSOR_TEAM_ROWS = 64,
    TENSOR_WARP = 32, ///< work-items
    TENSOR_RING_BYTES = 200704, ///< of local memory at most, for two work-groups half of it
    TENSOR_RING_STAGES = 6,
    TENSOR_REGISTERS = 168, ///< of a work-item of three teams
    TENSOR_REGISTERS_COPY = 40, ///< of one that copies, where those that multiply take the rest
    TENSOR_REGISTERS_MULTIPLY = 232,
    TENSOR_LINE_PAD = 2 ///< elements behind a line of a pack's local tile, against bank conflicts
};

/// Bytes of a tile of an operand of `lines` lines, of one step, with all its copies.
static inline uint32_t tensor_tile_bytes(const mm_plan *plan, uint32_t lines)
{
    return lines * MM_LINE_BYTES * plan->copies;
}

/// Bytes of the left operand's tile of one step: as packed, or as it lies.
static inline uint32_t tensor_left_bytes(const mm_plan *plan)
{
    return plan->rows * MM_LINE_BYTES * (plan->plain ? 1 : plan->copies);
}

/// Bytes of an element as it is packed: 2, of 16 bits, or 4, of tf32.
static inline uint32_t tensor_element_bytes(const mm_plan *plan)
{
    return MM_LINE_BYTES / plan->step;
}

/// Bytes of a stage of the ring: the tiles of one step.
static inline uint32_t tensor_stage_bytes(const mm_plan *plan)
{
    return tensor_left_bytes(plan) + tensor_tile_bytes(plan, plan->columns);
}

static inline uint32_t tensor_stages(const mm_plan *plan)
{
    uint32_t room = plan->rows > TENSOR_TEAM_ROWS ? TENSOR_RING_BYTES : TENSOR_RING_BYTES / 2;
    uint32_t most = room / tensor_stage_bytes(plan);
    return most < TENSOR_RING_STAGES ? most : TENSOR_RING_STAGES;
}

/// Teams that multiply; one more copies.
static inline uint32_t tensor_teams(const mm_plan *plan)
{
    return plan->rows / TENSOR_TEAM_ROWS;
}

/// A left operand of f32 as it lies: the teams split it in registers.
static inline uint32_t tensor_is_split(const mm_plan *plan)
{
    return plan->plain && plan->copies > 1;
}

/// Two teams that split what they multiply need more registers than a third of them all; the team
/// that copies needs fewer.
static inline uint32_t tensor_is_uneven(const mm_plan *plan)
{
    return tensor_is_split(plan) && plan->rows > TENSOR_TEAM_ROWS;
}

/// Work-items of a team that say that it is done with a stage.
static inline uint32_t tensor_sayers(const mm_plan *plan)
{
    return tensor_is_split(plan) ? TENSOR_TEAM / TENSOR_WARP : 1;
}

/// f16, bf16, and f32 unless the user wants multiply-adds of it.
static inline uint32_t tensor_takes(const kf_chain_device *device, uint32_t dtype)
{
    uint32_t bytes = kf_dtype_of(dtype).bytes;
    return bytes == 2 || (bytes == 4 && (device->features & KF_FEATURE_STRICT) == 0);
}
/// Takes a convolution as the first operation of a block; 0: it is none that is done here, which is
/// reported.
uint32_t tensor_take_conv(mm_block *block, const kf_chain_device *device, const kf_host *host,
                          const kf_block *values, const kf_op *op);
/// May the operation follow the block's convolution? What else it reads has the result's shape and
/// is dense, or is the same along the image.
uint32_t tensor_may_follow(const mm_block *block, const kf_host *host, const kf_op *op);
/// Declares nothing and fills `tile`, the step's terms of 64 places of the result.
void tensor_emit_image(kf_text *text, const mm_plan *plan);

void tensor_emit_pack_functions(kf_text *text, const mm_plan *plan);
void tensor_emit_pack(kf_text *text, const mm_plan *plan, mm_role role);
void tensor_emit_product(kf_text *text, const mm_plan *plan);
/// Of the product: the team that fills the ring, and those that multiply, as far as the sums of a
/// tile in local memory.
void tensor_emit_copies(kf_text *text, const mm_plan *plan);
void tensor_emit_sums(kf_text *text, const mm_plan *plan);
/// A team goes from so many registers of a work-item to others, where teams have different ones.
void tensor_emit_registers(kf_text *text, const mm_plan *plan, uint32_t from, uint32_t to);

#endif
