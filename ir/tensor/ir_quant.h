// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_QUANT_H
#define KILN_IR_QUANT_H

/// Quantised tensors. An element is its value times the scale of its block, times the tensor's
/// global scale where there is one. Blocks are rectangles along the axes; those at an end may be
/// shorter. In memory: values in row-major order, packed into u32 from the low bits up; then the
/// scales of the blocks in row-major order, filled up with zeros to 4 bytes; then the global scale,
/// an f32. A scheme is one number that says dtype of the scales, whether there is a global scale,
/// and the length of a block along each axis.
///
/// All functions are pure: any thread may call them. No pointer is NULL unless a function takes it.

#include "ir_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Makes a scheme. The dtype of the scales is f32, f16 or bf16. The length of a block is a power of
/// 2 up to 16384, or 0 for the whole axis; without blocks there is one scale for the tensor. Gives
/// 0 when that is no scheme.
KILN_API uint64_t kiln_scheme_make(kiln_dtype scale, bool global, const int64_t *blocks,
                                   size_t n_blocks);

/// Dtype of a scheme's scales.
KILN_API kiln_dtype kiln_scheme_scale(uint64_t scheme);

/// Whether a scheme has a global scale.
KILN_API bool kiln_scheme_has_global(uint64_t scheme);

/// Length of a scheme's blocks along an axis; 0: the whole axis.
KILN_API int64_t kiln_scheme_block(uint64_t scheme, size_t axis);

/// Bits of a value of a quantised dtype; 0 for other dtypes.
KILN_API uint32_t kiln_quant_bits(kiln_dtype dtype);

/// Smallest value of a quantised dtype; 0 for other dtypes.
KILN_API int32_t kiln_quant_lowest(kiln_dtype dtype);

/// Largest value of a quantised dtype; 0 for other dtypes.
KILN_API int32_t kiln_quant_highest(kiln_dtype dtype);

/// Where the parts of a quantised tensor lie, in bytes from its start.
typedef struct kiln_quant_layout {
    int64_t count; ///< elements
    int64_t words; ///< u32 of packed values
    int64_t scales; ///< number of them
    int64_t scales_at;
    int64_t global_at; ///< -1: none
    int64_t bytes; ///< all of it
    int64_t blocks[KILN_MAX_RANK]; ///< along each axis
} kiln_quant_layout;

/// Fills the layout of a quantised tensor. False for other dtypes, for an invalid scheme, and for
/// sizes beyond int64.
KILN_API bool kiln_quant_layout_of(const kiln_tensor_desc *desc, kiln_quant_layout *out_layout);

#ifdef __cplusplus
}
#endif

#endif
