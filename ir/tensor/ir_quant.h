// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_QUANT_H
#define KILN_IR_QUANT_H

/// Quantised tensors: what a scheme says, and how the bytes lie.
/// An element is its value times the scale of its block, times the tensor's global scale where
/// there is one. Blocks are rectangles along the axes; those at an end may be shorter. In memory:
/// values in row-major order, packed into u32 from the low bits up; then the scales of the blocks
/// in row-major order, filled up with zeros to 4 bytes; then the global scale, an f32.

#include "ir_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A scheme: dtype of the scales (f32, f16, bf16), whether there is a global scale, and the length
/// of a block along each axis: a power of 2 up to 16384, or 0 for the whole axis; no blocks: one
/// scale for the tensor. 0 when that is no scheme.
/// Ownership: a value. Lifetime: n/a. Thread: any. Errors: 0.
KILN_API uint64_t kiln_scheme_make(kiln_dtype scale, bool global, const int64_t *blocks,
                                   size_t n_blocks);
KILN_API kiln_dtype kiln_scheme_scale(uint64_t scheme);
KILN_API bool kiln_scheme_has_global(uint64_t scheme);
KILN_API int64_t kiln_scheme_block(uint64_t scheme, size_t axis); ///< 0: the whole axis

/// Of a quantised dtype: bits of a value, the smallest and the largest value.
/// Ownership: values. Lifetime: n/a. Thread: any. Errors: 0 for other dtypes.
KILN_API uint32_t kiln_quant_bits(kiln_dtype dtype);
KILN_API int32_t kiln_quant_lowest(kiln_dtype dtype);
KILN_API int32_t kiln_quant_highest(kiln_dtype dtype);

/// Where the parts of a quantised tensor lie, in bytes from its start, and how many blocks there
/// are along each axis.
/// Ownership: the caller's struct. Lifetime: n/a. Thread: any. Errors: false for other dtypes, a
/// scheme that is none, and sizes beyond int64.
typedef struct kiln_quant_layout {
    int64_t count; ///< elements
    int64_t words; ///< u32 of packed values
    int64_t scales; ///< number of them
    int64_t scales_at;
    int64_t global_at; ///< -1: none
    int64_t bytes; ///< all of it
    int64_t blocks[KILN_MAX_RANK]; ///< along each axis
} kiln_quant_layout;
KILN_API bool kiln_quant_layout_of(const kiln_tensor_desc *desc, kiln_quant_layout *out_layout);

#ifdef __cplusplus
}
#endif

#endif
